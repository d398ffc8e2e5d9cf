"""Who judges: a pool of workers (`chop.runs.pool`) whose work is to give verdicts on programs.

An executor takes a race's jobs and yields their verdicts in the order of the jobs. A verdict does not depend
on who gave it, except where time or memory ran out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from chop.core.errors import EvolutionError
from chop.evolution.judging import Job, Judge, Verdict
from chop.evolution.task import Limits, Task
from chop.evolution.tasks import load_task
from chop.runs.pool import EXECUTORS, Lost, Pool, Site, pool_named

Source = str | Task
"""Where a task comes from: its name or file, which workers load themselves, or the task itself."""


def task_of(source: Source) -> Task:
    """The task a source means."""
    return source if isinstance(source, Task) else load_task(source)


@dataclass(frozen=True)
class _MakeJudge:
    """Makes a judge, in the worker that needs one; ``warm`` where a clock will run."""

    source: Source
    warm: bool

    def __call__(self) -> Judge:
        judge = Judge(task_of(self.source))
        if self.warm:
            judge.warm_up()
        return judge


class Executor:
    """Gives verdicts; to be closed after use."""

    def __init__(self, name: str, source: Source, workers: int, limits: Limits) -> None:
        make = _MakeJudge(source, warm=name != "inline")
        site = Site(make, workers, "the task", EvolutionError, limits.seconds, limits.memory)
        self.pool: Pool = pool_named(name, EvolutionError)(site)

    def run(self, jobs: Sequence[Job]) -> Iterator[Verdict]:
        """The verdicts, in the order of the jobs."""
        return map(_verdict, self.pool.run(jobs))

    def close(self) -> None:
        """Let go of what was started."""
        self.pool.close()


def _verdict(outcome: Verdict | Lost) -> Verdict:
    """A candidate that was lost has failed."""
    if isinstance(outcome, Lost):
        return Verdict("failed", reason=outcome.reason, seconds=outcome.seconds)
    return outcome


def executor_named(name: str) -> Callable[[Source, int, Limits], Executor]:
    """An executor by name."""
    pool_named(name, EvolutionError)  # said before anything is loaded
    return lambda source, workers, limits: Executor(name, source, workers, limits)


__all__ = ["EXECUTORS", "Executor", "Source", "executor_named", "task_of"]
