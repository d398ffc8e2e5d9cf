"""What is measured, as data: conditions, methods, and which of them meet in which order.

A *condition* is a set of questions, a *method* answers them: program text, or ``@name`` for a baseline
that is no program. An *entry* is one condition, one method and how many questions. The order of entries is
the order of work: what the main tables need comes first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from chop.bench.methods import (
    ABLATED,
    ABLATIONS,
    BASELINES,
    BEST_EVOLVED,
    CONSERVATION,
    CORR,
    EVOLVED,
    FINE_TUNING,
    FLAT,
    MFC,
    RAW,
    ROLLOUT_GRID,
    grid,
)  # fmt: skip
from chop.core.errors import BenchError

FLUXES = {"sin_cos": "sin u − cos u", "tanh": "tanh u", "buckley_leverett": "u²/(u²+(1−u)²)"}
FAMILIES = {
    "g_1to1": "ρ(0,x) → ρ(1,x)",
    "g_1to2": "ρ(0,x) → ρ(t,x), t ≥ 1/2",
    "g_2to2": "ρ(t,x), t < 1/2 → ρ(t,x), t ≥ 1/2",
    "rho_1to1": "g(x) → ρ(1,x)",
    "rho_1to2": "g(x) → ρ(t,x), t ≥ 1/2",
}
LENGTHS = (0.5, 0.3, 0.1)
DENSITY, COST = ("g_1to1", "g_1to2", "g_2to2"), ("rho_1to1", "rho_1to2")
STEPS = 144
SUITES = ("conservation", "mfc", "transfer")
GROUPS = ("main", "best", "evolved", "rollout", "ablations", "baselines", "finetuning")
DEFAULT_GROUPS = GROUPS[:-1]
EVOLVED_ROLLOUTS = 100
"""Trajectories on which an evolved program is asked for rollouts: it may need many evaluations a step."""
PROMPTS_VALIDATED = 100
"""In-context errors are taken on the first questions of a condition: they cost D more evaluations."""


@dataclass(frozen=True)
class Condition:
    """A set of questions: ``settings`` go to the problem's ``sample``."""

    name: str
    problem: str
    label: str
    settings: tuple[tuple[str, Any], ...]
    n: int
    chunk: int = 25
    """Questions answered in one batch. Fixed, so that rounding does not depend on who does the work."""
    split: str = "test"
    steps: int = 1


@dataclass(frozen=True)
class Entry:
    """One condition, one method, the first ``n`` questions."""

    condition: Condition
    method: str
    n: int
    group: str = "main"


def single(flux: str) -> str:
    """Name of the single-step condition of a flux."""
    return f"conservation/{flux}"


def rollout(flux: str) -> str:
    """Name of the rollout condition of a flux."""
    return f"conservation/{flux}/rollout"


def mapping(family: str, length: float) -> str:
    """Name of a mean-field-control condition."""
    return f"mfc/{family}/{length:g}"


def _declared() -> Iterator[Condition]:
    for flux, label in FLUXES.items():
        yield Condition(single(flux), "conservation", label, (("flux", flux),), 500)
        yield Condition(
            rollout(flux), "conservation", f"{label}, rollout", (("flux", flux),), 500, steps=STEPS
        )
    for family, label in FAMILIES.items():
        for length in LENGTHS:
            settings = (("family", family), ("length", length))
            yield Condition(mapping(family, length), "mfc", f"{label}, ℓ = {length:g}", settings, 100)
    yield Condition(
        "evolution/conservation", "conservation", "evolution set, sin u − cos u", (("flux", "sin_cos"),), 100,
        split="evolution",
    )  # fmt: skip
    yield Condition(
        "evolution/conservation/rollout", "conservation", "evolution set, rollout", (("flux", "sin_cos"),),
        100, split="evolution", steps=STEPS,
    )  # fmt: skip
    yield Condition(
        "evolution/mfc", "mfc", "evolution set, 2 → 2, ℓ = 0.5", (("family", "g_2to2"), ("length", 0.5)), 100,
        split="evolution",
    )  # fmt: skip


CONDITIONS: dict[str, Condition] = {condition.name: condition for condition in _declared()}
EVOLUTION = {"conservation": "evolution/conservation", "mfc": "evolution/mfc"}


def condition_named(name: str) -> Condition:
    """The condition, or an error that lists them."""
    if name not in CONDITIONS:
        known = ", ".join(key for key in CONDITIONS if not key.startswith("evolution"))
        raise BenchError(f"there is no condition {name!r}; known are {known}")
    return CONDITIONS[name]


@dataclass(frozen=True)
class Selection:
    """What a command asks for."""

    suites: tuple[str, ...]
    groups: tuple[str, ...] = DEFAULT_GROUPS
    programs: tuple[str, ...] = ()
    """Further program texts, measured beside the others on single steps."""
    conditions: tuple[str, ...] = ()
    """Only these; all if empty."""
    cases: int | None = None
    """At most so many questions of each condition."""

    def __post_init__(self) -> None:
        _need_known("suite", self.suites, SUITES)
        _need_known("group of methods", self.groups, GROUPS)
        for name in self.conditions:
            condition_named(name)
        if self.cases is not None and self.cases < 1:
            raise BenchError(f"cases must be 1 or more, not {self.cases}")


def _need_known(what: str, given: Sequence[str], known: Sequence[str]) -> None:
    for name in given:
        if name not in known:
            raise BenchError(f"there is no {what} {name!r}; known are {', '.join(known)}")


def entries(selection: Selection, chosen: Mapping[str, str]) -> list[Entry]:
    """The work in its order; ``chosen`` has each problem's best program, as far as it is known."""
    found: dict[tuple[str, str], Entry] = {}
    for group, name, method, most in _wanted(selection, chosen):
        condition = CONDITIONS[name]
        searching = name.startswith("evolution")
        if selection.conditions and name not in selection.conditions and not searching:
            continue
        n = min(condition.n, most or condition.n)
        if selection.cases is not None and not searching:
            n = min(n, selection.cases)
        elif selection.cases is not None:
            n = min(n, max(selection.cases, 2))
        found.setdefault((name, method), Entry(condition, method, n, group))
    return list(found.values())


_Wanted = Iterator[tuple[str, str, str, int | None]]


def _wanted(selection: Selection, chosen: Mapping[str, str]) -> _Wanted:
    """(group, condition, method, at most so many questions), in the order of work."""
    suites, groups = selection.suites, selection.groups
    singles = [single(flux) for flux in FLUXES] if {"conservation", "transfer"} & set(suites) else []
    densities, costs = (
        [mapping(family, length) for family in families for length in LENGTHS] if "mfc" in suites else []
        for families in (DENSITY, COST)
    )
    problems = [p for p, has in (("conservation", singles), ("mfc", densities)) if has]
    at_once = {"conservation": singles, "mfc": densities + costs}
    for name in singles + densities + costs:
        yield "main", name, RAW, None
    if "main" in groups:
        for name in singles:
            yield "main", name, CONSERVATION, None
            if "transfer" in suites:
                yield "main", name, MFC, None
        for name in densities + costs:
            yield "main", name, MFC, None
        for name in costs:
            yield "main", name, CORR, None
    for text in selection.programs:
        for name in singles + densities + costs:
            yield "own", name, text, None
    if "best" in groups:
        for problem in problems:
            for text in grid(problem):
                yield "grid", EVOLUTION[problem], text, None
        for problem in problems:
            if problem in chosen:
                for name in at_once[problem]:
                    yield "best", name, chosen[problem], None
        if "transfer" in suites and "mfc" in chosen:
            for name in singles:
                yield "best", name, chosen["mfc"], None
    if "evolved" in groups:
        for problem in problems:
            for text in EVOLVED[problem]:
                for name in at_once[problem]:
                    yield "evolved", name, text, None
        if "transfer" in suites and "mfc" in BEST_EVOLVED:
            for name in singles:
                yield "evolved", name, BEST_EVOLVED["mfc"], None
    rolls = [rollout(flux) for flux in FLUXES] if "conservation" in suites and "rollout" in groups else []
    for method in (RAW, CONSERVATION, FLAT):
        for name in rolls:
            yield "rollout", name, method, None
    for group, table in (("ablations", ABLATIONS), ("baselines", BASELINES)):
        for problem in problems:
            for method in table[problem] if group in groups else ():
                if problem == "conservation" and not _needed(method, suites):
                    continue
                for name in at_once[problem]:
                    yield group, name, method, None
    if rolls and "best" in groups:
        for text in ROLLOUT_GRID:
            yield "grid", "evolution/conservation/rollout", text, None
        for name in rolls:
            if "rollout" in chosen:
                yield "rollout", name, chosen["rollout"], None
    if rolls and "evolved" in groups and "conservation" in BEST_EVOLVED:
        for name in rolls:
            yield "rollout", name, BEST_EVOLVED["conservation"], EVOLVED_ROLLOUTS
    if "finetuning" in groups:
        for problem in problems:
            for name in at_once[problem]:
                for method in FINE_TUNING:
                    yield "finetuning", name, method, 50


def _needed(method: str, suites: Sequence[str]) -> bool:
    """Parts of a program are measured on conservation laws where the program itself is."""
    if method in ABLATED[CONSERVATION]:
        return "conservation" in suites
    return method not in ABLATED[MFC] or "transfer" in suites


__all__ = [
    "CONDITIONS", "COST", "DEFAULT_GROUPS", "DENSITY", "EVOLUTION", "FAMILIES", "FLUXES", "GROUPS", "LENGTHS",
    "PROMPTS_VALIDATED", "STEPS", "SUITES", "Condition", "Entry", "Selection", "condition_named", "entries",
    "mapping", "rollout", "single",
]  # fmt: skip
