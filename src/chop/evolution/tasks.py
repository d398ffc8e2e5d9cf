"""The tasks that come with the package, by name, and tasks from a user's own file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from chop.core.catalog import TEXTS
from chop.core.errors import EvolutionError
from chop.core.user_code import load_file
from chop.evolution.task import Limits, Task

if TYPE_CHECKING:
    from torch import Tensor

    from chop.core.model import FrozenModel
    from chop.problems.air.history import History, Period
    from chop.problems.case import Case

QUESTIONS = 100
VALIDATION_SEED = 1
"""The validation set is another seed of the evolution split: disjoint from it and from the test split."""
WITHOUT_A_NETWORK = ("law", "auto")
"""Not searched with: these tasks ask what helps around a network, question after question the same. The law
answers conservation laws outright, and the other one decides by itself."""
AIR_QUESTIONS = 200
AIR_LEAD = 24


def _bundled(name: str, sample: Callable[..., Case], limits: Limits, known: Mapping[str, str]) -> Task:
    """A task for the bundled network of its name, on the evolution set that ``sample`` draws."""
    from chop.icon import weights

    cases = sample(QUESTIONS, split="evolution")
    validation = sample(QUESTIONS, split="evolution", seed=VALIDATION_SEED)
    return Task(
        name, weights.load(name), cases, validation, limits=limits, known=known, without=WITHOUT_A_NETWORK
    )


def conservation_task() -> Task:
    """One step of sin u - cos u on the bundled network: the paper's evolution set."""
    from chop.problems.conservation import sample

    known = {"Raw ICON": TEXTS["raw"], "CHOP(Conservation)": TEXTS["conservation"]}
    return _bundled("conservation", partial(sample, "sin_cos"), Limits(), known)


def mfc_task() -> Task:
    """Density to density with a length scale of 0.5 on the bundled network: the paper's evolution set."""
    from chop.problems.mfc import sample

    limits = Limits(calls=18)  # an evaluation costs ten times what it costs on conservation laws
    known = {"Raw ICON": TEXTS["raw"], "CHOP(MFC)": TEXTS["mfc"], "CHOP(Corr)": TEXTS["corr"]}
    return _bundled("mfc", partial(sample, "g_2to2", 0.5), limits, known)


def air_yrd_task() -> Task:
    """A day ahead in the region the network never saw: BTHSA to YRD, on the data that CHOP_AIR_DATA names.

    Examples from 2022; questions from 2023, half of them with random and half with similar examples.
    """
    from chop.icon import weights
    from chop.problems.air import data_folder, load_history

    channels = weights.provenance("air_bthsa").config.channels  # type: ignore[attr-defined]
    history = load_history(data_folder(), "yrd", channels, ("2022-01-01", "2023-01-01"))
    return air_task(weights.load("air_bthsa"), history, ("2023-01-01", "2024-01-01"), AIR_QUESTIONS)


def air_task(model: FrozenModel, history: History, queries: Period, questions: int) -> Task:
    """A day ahead on a region's history; evolution and validation ask different hours."""
    return Task(
        "air",
        model,
        _half_and_half(history, queries, 0, questions),
        validation=_half_and_half(history, queries, questions, questions),
        metric=_air_error,
        # Evaluations on thousands of values are dear: what the paper's program needs, and two more.
        limits=Limits(calls=8, seconds=300),
        known={"Raw ICON": TEXTS["raw"], "CHOP(Air)": TEXTS["air"], "persistence": "last_frame"},
    )


def _half_and_half(history: History, queries: Period, first: int, questions: int) -> Case:
    """Questions with random and with similar examples in turn, so that every part of the set has both."""
    import numpy as np

    from chop.problems.air import RegionQuestions, case, eligible

    every = eligible(history, queries, AIR_LEAD)
    region = RegionQuestions(history, every, AIR_LEAD, history.period, split="evolution")
    half = questions // 2
    ends = region.take(first, 2 * half).reshape(2, half)
    kinds = zip(ends, ("random", "similar"), strict=True)
    shown = np.stack([region.examples(part, kind, AIR_LEAD) for part, kind in kinds], axis=1)
    return case(history, ends.T.reshape(-1), shown.reshape(2 * half, -1), AIR_LEAD)


def _air_error(answers: Tensor, cases: Case) -> Tensor:
    """The mean over the scored pollutants of the root mean squared error over the stations observed.

    Journals know it by its name and by that of this module.
    """
    from chop.problems.air import rmse

    found: Tensor = rmse(answers, cases).mean(dim=-1)
    return found


TASKS: Mapping[str, Callable[[], Task]] = MappingProxyType(
    {"conservation": conservation_task, "mfc": mfc_task, "air": air_yrd_task}
)


@lru_cache(maxsize=1)
def _named(name: str) -> Task:
    """Questions and networks take seconds to make: the last task is kept."""
    return TASKS[name]()


def load_task(source: str | Task) -> Task:
    """A task by name, or from a Python file of the user's own that defines ``task``; a task as it is.

    Such a file is run, once, like any script of one's own: only give one you trust.
    """
    if isinstance(source, Task):
        return source
    if source in TASKS:
        return _named(source)
    if not Path(source).expanduser().is_file():
        raise EvolutionError(f"there is no task {source!r}: neither a file nor one of {', '.join(TASKS)}")
    task = getattr(load_file(source, EvolutionError), "task", None)
    if not isinstance(task, Task):
        raise EvolutionError(f"{source} defines no task; end it with task = chop.evolution.Task(...)")
    return task
