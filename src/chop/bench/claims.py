"""What is claimed of the programs, and what was found."""

from __future__ import annotations

from dataclasses import dataclass

from chop.bench import paper
from chop.bench.conditions import COST, DENSITY, FLUXES, LENGTHS, mapping, rollout, single
from chop.bench.methods import BEST_EVOLVED, CONSERVATION, CORR, MFC
from chop.bench.results import Results

Reductions = list[float | None]
TRANSFERRED = "best of the MFC grid, transferred"


@dataclass(frozen=True)
class Claim:
    """A least reduction (percent) of the mean error in every condition of a list."""

    text: str
    least: float
    paper: Reductions
    """With the paper's program; None where it was not measured."""
    best: Reductions
    """With the best program of a grid."""
    evolved: Reductions
    """With the best of the programs that `chop evolve` found."""
    transferred: bool = False
    """Both were searched for on another problem: for mean-field control."""

    def found(self) -> list[tuple[str, Reductions]]:
        """Whose program, and its reductions."""
        best, evolved = "best of the grid", "evolved"
        if self.transferred:
            best, evolved = TRANSFERRED, "evolved for MFC, transferred"
        return [("the paper's program", self.paper), (best, self.best), (evolved, self.evolved)]

    def holds(self, reduction: float) -> bool:
        """At least the least; where that is 0, more."""
        return reduction >= self.least if self.least else reduction > 0


def claims(results: Results) -> list[Claim]:
    """All of them, with what was found."""
    singles = [single(flux) for flux in FLUXES]
    rolls = [rollout(flux) for flux in FLUXES]
    densities, costs = (
        [mapping(family, length) for family in families for length in LENGTHS] for families in (DENSITY, COST)
    )
    declared = (
        ("CHOP(Conservation), single step, three fluxes", "single", singles, CONSERVATION, "conservation"),
        ("CHOP(Conservation), step 144, three fluxes", "step 144", rolls, CONSERVATION, "rollout"),
        ("CHOP(MFC), nine density-input conditions", "density", densities, MFC, "mfc"),
        ("CHOP(Corr), six cost-to-density conditions", "corr", costs, CORR, "mfc"),
        ("CHOP(MFC) on the conservation network, three fluxes", "transfer", singles, MFC, "mfc"),
    )
    found = []
    for words, key, names, method, problem in declared:
        if key == "transfer" and "transfer" not in results.selection.suites:
            continue
        least = paper.LEAST[key]
        best = results.chosen.get(problem)
        # Evolution judges single steps; its program is asked for rollouts all the same.
        evolved = BEST_EVOLVED.get("conservation" if problem == "rollout" else problem)
        found.append(
            Claim(
                f"{words}: {f'at least {least:g} %' if least else 'lower'}",
                least,
                _reductions(results, names, method),
                [] if best is None else _reductions(results, names, best),
                [] if evolved is None else _reductions(results, names, evolved),
                # Evidence of transfer must come from a search elsewhere: on mean-field control.
                transferred=key == "transfer",
            )
        )
    return found


def _reductions(results: Results, conditions: list[str], method: str) -> Reductions:
    compared = [results.compare(condition, method) for condition in conditions]
    return [None if c is None or c.paired is None else c.paired.reduction for c in compared]


__all__ = ["TRANSFERRED", "Claim", "claims"]
