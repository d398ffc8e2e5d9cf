"""The tasks that come with the package, by name, and tasks from a user's own file."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType

from chop.evolution.errors import EvolutionError
from chop.evolution.task import Limits, Task

QUESTIONS = 100
VALIDATION_SEED = 1
"""The validation set is another seed of the evolution split: disjoint from it and from the test split."""


def conservation() -> Task:
    """One step of sin u - cos u on the bundled network: the paper's evolution set."""
    from chop.catalog import TEXTS
    from chop.icon.weights import load
    from chop.problems import conservation as problem

    return Task(
        "conservation",
        load("conservation"),
        problem.sample("sin_cos", QUESTIONS, split="evolution"),
        validation=problem.sample("sin_cos", QUESTIONS, split="evolution", seed=VALIDATION_SEED),
        known={"Raw ICON": TEXTS["raw"], "CHOP(Conservation)": TEXTS["conservation"]},
    )


def mfc() -> Task:
    """Density to density with a length scale of 0.5 on the bundled network: the paper's evolution set."""
    from chop.catalog import TEXTS
    from chop.icon.weights import load
    from chop.problems import mfc as problem

    return Task(
        "mfc",
        load("mfc"),
        problem.sample("g_2to2", 0.5, QUESTIONS, split="evolution"),
        validation=problem.sample("g_2to2", 0.5, QUESTIONS, split="evolution", seed=VALIDATION_SEED),
        limits=Limits(calls=18),  # an evaluation costs ten times what it costs on conservation laws
        known={"Raw ICON": TEXTS["raw"], "CHOP(MFC)": TEXTS["mfc"], "CHOP(Corr)": TEXTS["corr"]},
    )


TASKS: Mapping[str, Callable[[], Task]] = MappingProxyType({"conservation": conservation, "mfc": mfc})


def load_task(source: str) -> Task:
    """A task by name, or from a Python file of the user's own that defines ``task``.

    Such a file is run, like any script of one's own: only give one you trust.
    """
    if source in TASKS:
        return TASKS[source]()
    path = Path(source)
    if not path.is_file():
        raise EvolutionError(f"there is no task {source!r}: neither a file nor one of {', '.join(TASKS)}")
    spec = importlib.util.spec_from_file_location(f"chop_task_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise EvolutionError(f"{path} is not a Python file; a task file ends with .py and defines task")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    task = getattr(module, "task", None)
    if not isinstance(task, Task):
        raise EvolutionError(f"{path} defines no task; end it with task = chop.evolution.Task(...)")
    return task


__all__ = ["TASKS", "load_task"]
