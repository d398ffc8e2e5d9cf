"""The tables: our numbers, the paper's, both reductions. The same results give the same bytes.

Wall times differ from run to run and are kept apart (`details.times`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from chop.bench import paper
from chop.bench.cells import (
    MISSING,
    Rows,
    Table,
    base_cell,
    counts_cell,
    mean_cell,
    reduction_cell,
    spread_cell,
)
from chop.bench.claims import TRANSFERRED, claims
from chop.bench.conditions import COST, FAMILIES, FLUXES, LENGTHS, STEPS, mapping, rollout, single
from chop.bench.details import (
    ablations,
    along_rollouts,
    baselines,
    evolved,
    fine_tuning,
    in_context,
    searches,
)
from chop.bench.methods import CONSERVATION, CORR, MFC
from chop.bench.results import Results

MAIN_TITLES = (
    "What is reached", "Conservation laws", "Along the rollouts", "Mean-field control",
    "Cost to density: the correction alone",
    "Transfer: CHOP(MFC) on the conservation network, single step",
)  # fmt: skip


def tables(results: Results) -> list[Table]:
    """Everything that was measured, main results first; what was not measured has no row."""
    made = [
        claims_table(results),
        conservation(results),
        along_rollouts(results),
        mean_field_control(results),
        components(results),
        transfer(results),
        *evolved(results),
        *ablations(results),
        in_context(results),
        *baselines(results),
        fine_tuning(results),
        *searches(results),
    ]
    return [table for table in made if table.rows]


def markdown(results: Results, about: Mapping[str, str]) -> str:
    """The file ``table.md``."""
    facts = "\n".join(f"- {name}: {value}" for name, value in about.items())
    intro = (
        "Relative L² error, mean ± sample standard deviation over n questions. A reduction is that of the "
        "mean against Raw ICON on the same questions; a negative one is an increase. Answers that are not "
        "finite are counted where there are any, and left out of both means."
    )
    body = "\n".join(table.markdown() for table in tables(results))
    return f"# Benchmark\n\n{facts}\n\n{intro}\n\n{body}"


def claims_table(results: Results) -> Table:
    """What is claimed, for the paper's program, the best one of the grid and the one that evolved."""
    rows = []
    for claim in claims(results):
        for whose, found in claim.found():
            values = [value for value in found if value is not None]
            if not values:
                continue
            held = sum(claim.holds(value) for value in values)
            rows.append(
                [
                    claim.text,
                    whose,
                    f"{held} of {len(values)}",
                    f"{min(values):.1f} % to {max(values):.1f} %",
                    "yes" if held == len(values) else "no",
                ]
            )
    head = ("reduction of the mean error", "by", "conditions that reach it", "found", "reached in all")
    return Table("What is reached", "", head, rows)


def _head(program: str, best: str = "best of the grid") -> tuple[str, ...]:
    published = ("paper: Raw ICON", f"paper: {program}", "paper: reduction")
    return ("n", "Raw ICON", program, "reduction", *published, best, "its reduction")


def conservation(results: Results) -> Table:
    """One step and 144 steps, three fluxes."""
    rows: Rows = []
    for flux, label in FLUXES.items():
        for words, condition, table, best in (
            ("single step", single(flux), paper.SINGLE_STEP, results.chosen.get("conservation")),
            (f"step {STEPS}", rollout(flux), paper.STEP_144, results.chosen.get("rollout")),
        ):
            found = _against_paper(results, condition, CONSERVATION, table[flux], best)
            rows += [[label, words, *row] for row in found]
    head = ("flux", "evaluation", *_head("CHOP(Conservation)"))
    return Table("Conservation laws", _best_said(results, "conservation", "rollout"), head, rows)


def mean_field_control(results: Results) -> Table:
    """Fifteen conditions."""
    rows: Rows = []
    for family, label in FAMILIES.items():
        for length in LENGTHS:
            found = _against_paper(
                results,
                mapping(family, length),
                MFC,
                paper.MFC[family, length],
                results.chosen.get("mfc"),
            )
            rows += [[label, f"{length:g}", *row] for row in found]
    head = ("operator", "ℓ", *_head("CHOP(MFC)"))
    return Table("Mean-field control", _best_said(results, "mfc"), head, rows)


def components(results: Results) -> Table:
    """Cost to density: the residual correction alone."""
    rows: Rows = []
    for family in COST:
        for length in LENGTHS:
            condition = mapping(family, length)
            full, alone = results.compare(condition, MFC), results.compare(condition, CORR)
            if full is None or alone is None:
                continue
            published = (paper.MFC[family, length], paper.CORR[family, length])
            rows.append(
                [
                    FAMILIES[family],
                    f"{length:g}",
                    base_cell(alone, 6),
                    mean_cell(full, 6),
                    mean_cell(alone, 6),
                    reduction_cell(full),
                    reduction_cell(alone),
                    " / ".join(f"{row.reduction:.2f} %" for row in published),
                    counts_cell(full),
                    counts_cell(alone),
                    " ; ".join("/".join(map(str, row.counts or ())) for row in published),
                ]
            )
    head = (
        "operator", "ℓ", "Raw ICON", "CHOP(MFC)", "CHOP(Corr)", "CHOP(MFC) reduction", "CHOP(Corr) reduction",
        "paper: both reductions", "CHOP(MFC) lower/equal/higher", "CHOP(Corr) lower/equal/higher",
        "paper: both counts",
    )  # fmt: skip
    return Table("Cost to density: the correction alone", "", head, rows)


def transfer(results: Results) -> Table:
    """CHOP(MFC) on the conservation network."""
    rows: Rows = []
    if "transfer" not in results.selection.suites:
        return Table("", "", (), rows)
    best = results.chosen.get("mfc")
    for flux, label in FLUXES.items():
        for row in _against_paper(results, single(flux), MFC, paper.TRANSFER[flux], best):
            rows.append([label, *row])
    head = ("flux", *_head("CHOP(MFC)", TRANSFERRED))
    said = f"`{best}` was chosen on the evolution set of mean-field control alone." if best else ""
    return Table("Transfer: CHOP(MFC) on the conservation network, single step", said, head, rows)


def _against_paper(
    results: Results, condition: str, method: str, published: paper.Row, best: str | None
) -> Rows:
    ours = results.compare(condition, method)
    if ours is None:
        return []
    other = None if best is None else results.compare(condition, best)
    row = [
        str(ours.n),
        base_cell(ours),
        mean_cell(ours),
        reduction_cell(ours),
        spread_cell(*published.raw),
        spread_cell(*published.chop),
        f"{published.reduction:.2f} %",
    ]
    if other is None:
        return [[*row, MISSING, MISSING]]
    fewer = "" if other.n == ours.n else f" (n = {other.n})"
    return [[*row, mean_cell(other) + fewer, reduction_cell(other)]]


def _best_said(results: Results, *problems: str) -> str:
    words = {"conservation": "single step", "rollout": "rollouts", "mfc": "all conditions"}
    chosen: Sequence[str] = [f"{words[p]} `{results.chosen[p]}`" for p in problems if p in results.chosen]
    return f"Best of the grid, chosen on the evolution set: {'; '.join(chosen)}." if chosen else ""


__all__ = ["MAIN_TITLES", "markdown", "tables"]
