"""A Ray cluster as the judge: one seam, for those who have more machines than one."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import Any

from chop.evolution.errors import EvolutionError
from chop.evolution.executors import Executor, Source, in_order, task_of, too_slow
from chop.evolution.judging import Job, Judge, Verdict
from chop.evolution.task import Limits


class Ray(Executor):
    """Actors on a Ray cluster: the one this machine belongs to, else a local one.

    The task must be loadable on every node. A candidate that takes too long is given up with its actor;
    memory is what Ray allows.
    """

    def __init__(self, source: Source, workers: int, limits: Limits) -> None:
        try:
            self._ray: Any = import_module("ray")
        except ImportError:
            raise EvolutionError(
                "the ray executor needs Ray: pip install 'chain-of-operators[ray]'"
            ) from None
        self._ours = not self._ray.is_initialized()
        if self._ours:
            address = os.environ.get("RAY_ADDRESS")
            given: dict[str, Any] = {"address": address} if address else {"num_cpus": workers}
            self._ray.init(include_dashboard=False, log_to_driver=False, **given)
        self._limits = limits
        self._source = source
        self._actor = self._ray.remote(num_cpus=1)(_Remote)
        self._idle = [self._fresh() for _ in range(workers)]

    def _fresh(self) -> Any:
        actor = self._actor.remote(self._source)
        self._ray.get(actor.ready.remote())
        return actor

    def run(self, jobs: Sequence[Job]) -> Iterator[Verdict]:
        yield from in_order(self._finished(jobs))

    def _finished(self, jobs: Sequence[Job]) -> Iterator[tuple[int, Verdict]]:
        waiting: dict[Any, tuple[int, Any, float]] = {}
        rest = iter(enumerate(jobs))
        while True:
            while self._idle and (item := next(rest, None)) is not None:
                number, job = item
                actor = self._idle.pop()
                deadline = time.monotonic() + self._limits.seconds
                waiting[actor.judge.remote(job)] = (number, actor, deadline)
            if not waiting:
                return
            done, _ = self._ray.wait(list(waiting), num_returns=1, timeout=0.5)
            for ref in done:
                number, actor, _ = waiting.pop(ref)
                try:
                    verdict = self._ray.get(ref)
                    self._idle.append(actor)
                except self._ray.exceptions.RayError:
                    verdict = Verdict("failed", reason="the worker died")
                    self._idle.append(self._fresh())
                yield number, verdict
            for ref, (number, actor, deadline) in list(waiting.items()):
                if time.monotonic() > deadline:
                    del waiting[ref]
                    self._ray.kill(actor)
                    self._idle.append(self._fresh())
                    yield number, too_slow(self._limits)

    def close(self) -> None:
        for actor in self._idle:
            self._ray.kill(actor)
        self._idle.clear()
        if self._ours:
            self._ray.shutdown()


class _Remote:
    """What an actor is."""

    def __init__(self, source: Source) -> None:
        import torch

        torch.set_num_threads(1)
        self._judge = Judge(task_of(source))

    def ready(self) -> bool:
        return True

    def judge(self, job: Job) -> Verdict:
        return self._judge(job)


__all__ = ["Ray"]
