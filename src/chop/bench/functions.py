"""Conservation laws, mean-field control and the transfer between them, as data: conditions and their methods.

The order of entries is the order of work: what the main tables need comes first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from chop.bench.methods import (
    ABLATED,
    ABLATIONS,
    AGENTS,
    AUTO,
    BASELINES,
    BEST_EVOLVED,
    CONSERVATION,
    CORR,
    EVOLVED,
    FINE_TUNING,
    FLAT,
    HAND,
    LAW,
    LINE,
    MFC,
    RAW,
    grid_programs,
)  # fmt: skip
from chop.bench.store import About, LineLayout, Store
from chop.bench.suite import Condition, Piece, Setting, Suite, SuiteEntry, by_name, find_networks
from chop.core.errors import BenchError
from chop.core.text import parse
from chop.icon.config import IconConfig, PublishedConfig
from chop.icon.weights import provenance
from chop.storage.schema import Record, Shape, finite, list_of, optional, present_part, safe_int, string

if TYPE_CHECKING:
    from chop.bench.report import Report

FLUXES = {"sin_cos": "sin u − cos u", "tanh": "tanh u", "buckley_leverett": "u²/(u²+(1−u)²)"}
FAMILIES = {
    "g_1to1": "ρ(0,x) → ρ(1,x)",
    "g_1to2": "ρ(0,x) → ρ(t,x), t ≥ 1/2",
    "g_2to2": "ρ(t,x), t < 1/2 → ρ(t,x), t ≥ 1/2",
    "rho_1to1": "g(x) → ρ(1,x)",
    "rho_1to2": "g(x) → ρ(t,x), t ≥ 1/2",
}
LENGTHS = (0.5, 0.3, 0.1)
HOME_FLUX, HOME_LENGTH = "cubic", 1.0
"""What the networks were trained on."""
DENSITY, COST = ("g_1to1", "g_1to2", "g_2to2"), ("rho_1to1", "rho_1to2")
STEPS = 144
SUITES = ("conservation", "mfc", "transfer")
GROUPS = ("main", "best", "evolved", "hand", "auto", "rollout", "ablations", "baselines", "finetuning")
DEFAULT_GROUPS = GROUPS[:-1]
FEW_ROLLOUTS = 100
"""Trajectories on which programs of many evaluations a step are asked for rollouts."""
FINE_TUNED = 50
"""Questions for which a network is fine-tuned."""


def single_step_of(flux: str) -> str:
    """Name of the single-step condition of a flux."""
    return f"conservation/{flux}"


def rollout_of(flux: str) -> str:
    """Name of the rollout condition of a flux."""
    return f"conservation/{flux}/rollout"


def control_of(family: str, length: float) -> str:
    """Name of a mean-field-control condition."""
    return f"mfc/{family}/{length:g}"


def _declared() -> Iterator[Condition]:
    for flux, label in FLUXES.items():
        one = Condition(single_step_of(flux), "conservation", label, (("flux", flux),), 500)
        yield one
        yield replace(one, name=rollout_of(flux), label=f"{label}, rollout", steps=STEPS)
    home = (("flux", HOME_FLUX),)
    yield Condition(single_step_of(HOME_FLUX), "conservation", "cubic fluxes (at home)", home, 500)
    for family, label in FAMILIES.items():
        for length in (*LENGTHS, HOME_LENGTH):
            settings = (("family", family), ("length", length))
            words = f"{label}, ℓ = {length:g}{' (at home)' * (length == HOME_LENGTH)}"
            yield Condition(control_of(family, length), "mfc", words, settings, 100)


CONDITIONS: dict[str, Condition] = {condition.name: condition for condition in _declared()}
for _name, _like, _label in (
    ("evolution/conservation", single_step_of("sin_cos"), "evolution set, sin u − cos u"),
    ("evolution/conservation/rollout", rollout_of("sin_cos"), "evolution set, rollout"),
    ("evolution/mfc", control_of("g_2to2", 0.5), "evolution set, 2 → 2, ℓ = 0.5"),
):
    CONDITIONS[_name] = replace(CONDITIONS[_like], name=_name, label=_label, n=100, split="evolution")
SEARCHES = {
    "conservation": "evolution/conservation",
    "mfc": "evolution/mfc",
    "rollout": "evolution/conservation/rollout",
}
"""The conditions whose questions choose a program from a grid."""


def condition_named(name: str) -> Condition:
    """The condition, or an error that lists them."""
    if name not in CONDITIONS:
        known = ", ".join(key for key in CONDITIONS if not key.startswith("evolution"))
        raise BenchError(f"there is no condition {name!r}; known are {known}")
    return CONDITIONS[name]


def _measured(content: Any) -> Shape:
    return {**_CASE, **present_part(content, _MAYBE)}


_CASE: Shape = {
    "condition": string, "method": string, "batch": list_of(safe_int, 2), "index": safe_int,
    "error": optional(finite), "calls": safe_int, "ms": finite,
}  # fmt: skip
_MAYBE: Shape = {"curve": list_of(optional(finite)), "in_context": optional(finite)}
_LAYOUT = LineLayout(
    format="chop-bench-1",
    title="a benchmark",
    used={"whose": "model", "sha256": "sha256", "name": "file"},
    measured=_measured,
    key=lambda record: (record["condition"], record["method"], range(*record["batch"])),
    covers=lambda record: (record["index"],),
    size=lambda record: ((record["condition"], record["method"]), len(record.get("curve", ()))),
)
"""One line a question."""


@dataclass(frozen=True)
class FunctionSuite(Suite):
    """Which of the experiments, and what of them."""

    suites: tuple[str, ...]
    groups: tuple[str, ...] = DEFAULT_GROUPS
    programs: tuple[str, ...] = ()
    """Further program texts, measured beside the others on single steps."""
    conditions: tuple[str, ...] = ()
    """Only these; all if empty."""
    cases: int | None = None
    """At most so many questions of each condition."""
    models: tuple[str, ...] = ()
    """Names or files of networks, or ``conservation=FILE``; the bundled ones where none is given."""
    seed: int = 0
    device: str | None = None

    layout = _LAYOUT

    def __post_init__(self) -> None:
        _need_known("suite", self.suites, SUITES)
        _need_known("group of methods", self.groups, GROUPS)
        for name in self.conditions:
            condition_named(name)
        if self.cases is not None and self.cases < 1:
            raise BenchError(f"cases must be 1 or more, not {self.cases}")

    def about(self, version: str) -> About:
        return About(version, self.seed)

    def setting(self, out: Path) -> Setting:
        needed = {"mfc"} if self.suites == ("mfc",) else {"conservation"}
        given = by_name(map(_problem_and_model, self.models), "for")
        missing = "no {} network comes with this installation; give one with --model"
        networks = find_networks(needed | {"mfc"} & set(self.suites), given, "{}", missing)
        return Setting(networks, self.seed, device=self.device)

    def entries(self, store: Store) -> list[SuiteEntry]:
        return self.entries_with(self.chosen(store))

    def entries_with(self, chosen: Mapping[str, str]) -> list[SuiteEntry]:
        """The work in its order; ``chosen`` has each problem's best program, as far as it is known."""
        found: dict[tuple[str, str], SuiteEntry] = {}
        for group, name, method, most in _wanted(self, chosen):
            condition = CONDITIONS[name]
            searching = name.startswith("evolution")
            if self.conditions and name not in self.conditions and not searching:
                continue
            n = min(condition.n, most or condition.n)
            if self.cases is not None:
                n = min(n, max(self.cases, 2) if searching else self.cases)
            # Rollouts of the same questions share their truth.
            share = (name, group) if condition.steps > 1 else None
            found.setdefault((name, method), SuiteEntry(condition, method, range(n), group, share))
        return list(found.values())

    def chosen(self, store: Store) -> dict[str, str]:
        """For each problem the program with the lowest error on the evolution set, once all are known."""
        ranked = {problem: self.ranking(store, problem) for problem in SEARCHES}
        return {problem: programs[0][0] for problem, programs in ranked.items() if programs}

    def ranking(self, store: Store, problem: str) -> list[tuple[str, float]] | None:
        """The programs of a grid with their scores, best first; None as long as one is missing.

        The score is the number that is reported: the mean error of one step, in rollouts of the last step. An
        answer that is not finite disqualifies; on ties the earlier program wins.
        """
        asked = {(entry.condition.name, entry.method): entry for entry in self.entries_with({})}
        scores: list[tuple[str, float]] = []
        for program in grid_programs(problem):
            entry = asked.get((SEARCHES[problem], program))
            records = None if entry is None else store.records(entry)
            if records is None:
                return None
            errors = [record["error"] for record in records]
            scores.append((program, inf if None in errors else float(np.mean(errors))))
        return sorted(scores, key=lambda item: item[1])

    def now(self, pieces: list[Piece]) -> list[Piece]:
        """The main tables and the grids of single steps; all the rest once the best programs are known."""
        first = [p for p in pieces if p.condition.steps == 1 and p.group in ("main", "own", "grid")]
        return first or pieces

    def cost(self, condition: Condition, methods: Sequence[str]) -> float:
        return condition.steps * sum(map(_evaluations, methods))

    @staticmethod
    def evaluate(piece: Piece, setting: Setting) -> list[Record]:
        from chop.bench.function_answers import evaluate

        return evaluate(piece, setting)

    def name(self, piece: Piece) -> str:
        return f"{piece.condition.name} {piece.asked[0][1][0][:40]}"

    def report(self) -> Report:
        from chop.bench.function_tables import FUNCTION_REPORT

        return FUNCTION_REPORT


def _problem_and_model(given: str) -> tuple[str, str]:
    """Which problem's questions a network is asked: as said before ``=``, or what its shape is made for."""
    named, equals, rest = given.partition("=")
    model = rest if equals and named in ("conservation", "mfc") else given
    config = provenance(model).config
    if not isinstance(config, IconConfig | PublishedConfig):
        raise BenchError(f"{model} is a network of stations; it is measured by `chop bench air`")
    fits = "mfc" if config.coordinates == 2 else "conservation"
    if model is not given and fits != named == "mfc":
        raise BenchError(f"{model} knows functions of x alone; mean-field control asks about (t, x)")
    return (fits if model is given else named), model


@lru_cache(maxsize=512)
def _evaluations(method: str) -> float:
    """A guess of what one question costs, in model evaluations."""
    if method.startswith("@"):
        return 150.0 if method.startswith("@finetune") else 6.0
    return 0.2 + parse(method, max_calls=10**6).calls()


def _need_known(what: str, given: Sequence[str], known: Sequence[str]) -> None:
    for name in given:
        if name not in known:
            raise BenchError(f"there is no {what} {name!r}; known are {', '.join(known)}")


_PAPERS = {"conservation": (CONSERVATION,), "mfc": (MFC, CORR)}
"""The paper's programs for each problem."""
_Wanted = Iterator[tuple[str, str, str, int | None]]


def _each(group: str, names: Iterable[str], methods: Iterable[str], most: int | None = None) -> _Wanted:
    for method in methods:
        for name in names:
            yield group, name, method, most


def _wanted(suite: FunctionSuite, chosen: Mapping[str, str]) -> _Wanted:
    """(group, condition, method, at most so many questions), in the order of work."""
    suites, groups = suite.suites, suite.groups
    transfer = "transfer" in suites
    singles = [single_step_of(flux) for flux in FLUXES] if "conservation" in suites or transfer else []
    densities, costs = (
        [control_of(family, length) for family in families for length in LENGTHS] if "mfc" in suites else []
        for families in (DENSITY, COST)
    )
    rolls = [rollout_of(flux) for flux in FLUXES] if "conservation" in suites and "rollout" in groups else []
    at_once = {"conservation": singles, "mfc": densities + costs}
    homes = {
        "conservation": [single_step_of(HOME_FLUX)],
        "mfc": [control_of(family, HOME_LENGTH) for family in FAMILIES],
    }
    problems = [problem for problem, names in at_once.items() if names]
    every = singles + densities + costs

    def best(problem: str) -> list[str]:
        return [chosen[problem]] if problem in chosen else []

    yield from _each("main", every, [RAW])
    if "main" in groups:
        for name in singles:
            yield from _each("main", [name], [CONSERVATION, *([MFC] if transfer else [])])
        yield from _each("main", densities + costs, [MFC])
        yield from _each("main", costs, [CORR])
    yield from _each("own", every, suite.programs)
    if "best" in groups:
        for problem in problems:
            yield from _each("grid", [SEARCHES[problem]], grid_programs(problem))
        for problem in problems:
            yield from _each("best", at_once[problem], best(problem))
        yield from _each("best", singles if transfer else [], best("mfc"))
    if "evolved" in groups:
        for problem in problems:
            yield from _each("evolved", at_once[problem], EVOLVED[problem])
        yield from _each("evolved", singles if transfer else [], [BEST_EVOLVED["mfc"]])
    if "hand" in groups:
        for problem in problems:
            known = [RAW, *_PAPERS[problem], BEST_EVOLVED[problem], "ridge"]
            yield from _each("hand", homes[problem], known)
            yield from _each("hand", at_once[problem] + homes[problem], HAND[problem])
    if "auto" in groups:
        for problem in problems:
            yield from _each("auto", homes[problem], [RAW])
            yield from _each("auto", at_once[problem] + homes[problem], AGENTS)
        yield from _each("rollout", rolls, [AUTO], FEW_ROLLOUTS)
    yield from _each("rollout", rolls, [RAW, CONSERVATION, FLAT])
    if "hand" in groups:
        yield from _each("rollout", rolls, [LAW])
        yield from _each("rollout", rolls, [LINE], FEW_ROLLOUTS)
    for group, table in (("ablations", ABLATIONS), ("baselines", BASELINES)):
        for problem in problems if group in groups else ():
            methods = [m for m in table[problem] if problem == "mfc" or _needed(m, suites)]
            yield from _each(group, at_once[problem], methods)
    if rolls and "best" in groups:
        yield from _each("grid", [SEARCHES["rollout"]], grid_programs("rollout"))
        yield from _each("rollout", rolls, best("rollout"))
    if "evolved" in groups:
        yield from _each("rollout", rolls, [BEST_EVOLVED["conservation"]], FEW_ROLLOUTS)
    if "finetuning" in groups:
        for problem in problems:
            for name in at_once[problem]:
                yield from _each("finetuning", [name], FINE_TUNING, FINE_TUNED)


def _needed(method: str, suites: Sequence[str]) -> bool:
    """Parts of a program are measured on conservation laws where the program itself is."""
    if method in ABLATED[CONSERVATION]:
        return "conservation" in suites
    return method not in ABLATED[MFC] or "transfer" in suites
