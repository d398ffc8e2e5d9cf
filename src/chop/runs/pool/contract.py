"""What every pool of workers keeps: jobs in, outcomes out, whoever does the work.

A worker makes its work once (a function of one job) and then does one job after the other, on one thread.
A job that takes its worker down is tried once more; after that, or where it exceeded its limits, its outcome
is `Lost`. What the work raises is raised here. An outcome does not depend on who did the job, except where
time or memory ran out.
"""

from __future__ import annotations

import pickle
from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Callable, Generator, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any, TypeVar

from chop.core.errors import ChopError

JobKey = TypeVar("JobKey", bound=Hashable)

Work = Callable[[Any], Any]
"""What a worker does with a job."""
Make = Callable[[], Work]
"""Makes the work, in each worker; can be pickled, unless the pool is this process."""
Take = Callable[[], tuple[JobKey, Any] | None]
"""The next job under a key of its own; None if there is none now (asked again when a job is finished)."""
Outcomes = Generator[tuple[JobKey, Any], None, None]
"""Keys of jobs with what came of them."""

GivenJob = tuple[Any, Any]
"""A key and its job, in the hands of a worker."""
DIED = object()
"""The outcome of a job whose worker died."""

EXECUTORS = ("processes", "inline", "ray")
LIVES = 2
"""How many workers a job may take down before it is held to be the cause."""


@dataclass(frozen=True)
class Lost:
    """The outcome of a job that was given up."""

    reason: str
    seconds: float = 0.0
    """How long it was waited for, where the clock stopped it."""


@dataclass(frozen=True)
class Site:
    """What a pool is for: the work, the workers' number and limits, and the words in which it complains."""

    make: Make
    workers: int
    what: str
    """What workers load, such as "the task"."""
    error: type[ChopError]
    seconds: float = inf
    memory: float = inf
    """Megabytes."""

    def too_slow(self) -> Lost:
        """The outcome of a job that was stopped by the clock."""
        return Lost(f"stopped after {self.seconds:g} s", self.seconds)

    def too_big(self) -> Lost:
        """The outcome of a job that took too much memory."""
        return Lost(f"stopped at {self.memory} MB of memory")

    def died(self) -> Lost:
        """The outcome of a job that took its workers down."""
        return Lost(f"{LIVES} worker processes died under it")

    def cancelled(self) -> Lost:
        """The outcome of a job that nobody wants any more."""
        return Lost("cancelled")

    def not_loaded(self, reason: str) -> ChopError:
        """The error of a worker that cannot begin."""
        return self.error(f"a worker process cannot load {self.what}: {reason}")

    def check_travels(self) -> None:
        """Say at once if the work cannot be sent anywhere."""
        try:
            pickle.dumps(self.make)
        except Exception as error:  # pickling calls whatever a user defines
            raise self.error(
                f"{self.what} cannot be sent to worker processes ({error}); use executor='inline', or put it "
                "in a file and give the file"
            ) from None


class Pool(ABC):
    """Does jobs; to be closed after use."""

    @abstractmethod
    def finished(self, take: Take[JobKey]) -> Outcomes[JobKey]:
        """Keys and outcomes of the jobs as they are finished, in any order."""

    def run(self, jobs: Sequence[Any]) -> Iterator[Any]:
        """The outcomes in the order of the jobs, each as soon as all before it are there."""
        numbered = enumerate(jobs)
        return in_order(self.finished(lambda: next(numbered, None)))

    def close(self) -> None:  # noqa: B027
        """Let go of what was started, if anything was."""

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class WatchedPool(Pool):
    """A pool whose workers may die: who gives out jobs and listens is said by its kind."""

    def __init__(self, site: Site) -> None:
        site.check_travels()
        self._site = site
        self._wanted = max(1, site.workers)

    @abstractmethod
    def _give(self, next_job: Callable[[], GivenJob | None]) -> bool:
        """Hand out jobs; whether any is under way then, or waits for a worker to begin."""

    @abstractmethod
    def _heard(self) -> Iterator[tuple[GivenJob, Any]]:
        """Jobs that ended since the last look, with their outcomes; `DIED` where the worker did."""

    @abstractmethod
    def _abandon(self) -> None:
        """Stop the workers that are at a job: nobody waits for it any more."""

    def finished(self, take: Take[JobKey]) -> Outcomes[JobKey]:
        again: deque[GivenJob] = deque()
        deaths: Counter[Hashable] = Counter()
        try:
            while self._give(lambda: again.popleft() if again else take()):
                for given, outcome in self._heard():
                    key = given[0]
                    if outcome is DIED:
                        deaths[key] += 1
                        if deaths[key] < LIVES:
                            again.append(given)
                            continue
                        outcome = self._site.died()
                    yield key, outcome
        finally:
            self._abandon()


class Inline(Pool):
    """One after the other, here. Nothing can stop a job that hangs."""

    def __init__(self, site: Site) -> None:
        self._work = site.make()

    def finished(self, take: Take[JobKey]) -> Outcomes[JobKey]:
        import torch

        before = torch.get_num_threads()
        torch.set_num_threads(1)  # as workers have, so that rounding is the same
        try:
            while (given := take()) is not None:
                key, job = given
                yield key, self._work(job)
        finally:
            torch.set_num_threads(before)


def in_order(finished: Iterable[tuple[int, Any]]) -> Iterator[Any]:
    """Numbered outcomes that come in any order, in order."""
    early: dict[int, Any] = {}
    wanted = 0
    for number, outcome in finished:
        early[number] = outcome
        while wanted in early:
            yield early.pop(wanted)
            wanted += 1


def portable(error: Exception) -> Exception:
    """An error that survives the way to another process; its words, where it does not."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:  # pickling calls whatever the error defines
        return RuntimeError(sentence(error))
    return error


def sentence(error: BaseException) -> str:
    """An error in words: a user's sentence as it is, anything else with its kind."""
    return str(error) if isinstance(error, ChopError) else f"{type(error).__name__}: {error}"


def pool_named(name: str, error: type[ChopError]) -> Callable[[Site], Pool]:
    """A pool by the name of its executor."""
    if name == "inline":
        return Inline
    if name == "processes":
        from chop.runs.pool.workers import Workers

        return Workers
    if name == "ray":
        from chop.runs.pool.cluster import Ray

        return Ray
    raise error(f"executor must be one of {', '.join(EXECUTORS)}, not {name!r}")
