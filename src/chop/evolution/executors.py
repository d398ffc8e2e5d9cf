"""Who judges: this process, worker processes with hard limits (`workers`), or a Ray cluster (`cluster`).

An executor takes a race's jobs and yields their verdicts in the order of the jobs, each as soon as all
before it are there. A verdict does not depend on who gave it, except where time or memory ran out.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType

from chop.evolution.errors import EvolutionError
from chop.evolution.judging import Job, Judge, Verdict
from chop.evolution.task import Limits, Task
from chop.evolution.tasks import load_task

Source = str | Task
"""Where a task comes from: its name or file, which workers load themselves, or the task itself."""


def task_of(source: Source) -> Task:
    """The task a source means."""
    return source if isinstance(source, Task) else load_task(source)


class Executor(ABC):
    """Gives verdicts; to be closed after use."""

    @abstractmethod
    def run(self, jobs: Sequence[Job]) -> Iterator[Verdict]:
        """The verdicts, in the order of the jobs."""

    @abstractmethod
    def close(self) -> None:
        """Let go of what was started."""


class Inline(Executor):
    """One after the other, here. Nothing can stop a candidate that hangs."""

    def __init__(self, source: Source, workers: int, limits: Limits) -> None:
        self._judge = Judge(task_of(source))

    def run(self, jobs: Sequence[Job]) -> Iterator[Verdict]:
        import torch

        before = torch.get_num_threads()
        torch.set_num_threads(1)  # as workers have, so that rounding is the same
        try:
            yield from map(self._judge, jobs)
        finally:
            torch.set_num_threads(before)

    def close(self) -> None:
        pass


def too_slow(limits: Limits) -> Verdict:
    """The verdict on a candidate that was stopped by the clock."""
    return Verdict("failed", reason=f"stopped after {limits.seconds:g} s", seconds=limits.seconds)


def in_order(finished: Iterable[tuple[int, Verdict]]) -> Iterator[Verdict]:
    """Numbered verdicts that come in any order, in order."""
    early: dict[int, Verdict] = {}
    wanted = 0
    for number, verdict in finished:
        early[number] = verdict
        while wanted in early:
            yield early.pop(wanted)
            wanted += 1


def executor_named(name: str) -> Callable[[Source, int, Limits], Executor]:
    """An executor by name."""
    if name not in EXECUTORS:
        raise EvolutionError(f"executor must be one of {', '.join(EXECUTORS)}, not {name!r}")
    return EXECUTORS[name]()


def _ray() -> Callable[[Source, int, Limits], Executor]:
    from chop.evolution.cluster import Ray

    return Ray


def _workers() -> Callable[[Source, int, Limits], Executor]:
    from chop.evolution.workers import Workers

    return Workers


EXECUTORS: Mapping[str, Callable[[], Callable[[Source, int, Limits], Executor]]] = MappingProxyType(
    {"processes": _workers, "inline": lambda: Inline, "ray": _ray}
)

__all__ = [
    "EXECUTORS", "Executor", "Inline", "Source", "executor_named", "in_order", "task_of", "too_slow"
]  # fmt: skip
