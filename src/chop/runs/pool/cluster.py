"""A Ray cluster as the pool, for those who have more machines than one."""

from __future__ import annotations

import logging
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from chop.runs.pool.contract import DIED, LIVES, GivenJob, Make, Site, WatchedPool, Work, sentence

_SECONDS_BETWEEN_LOOKS = 0.5


@dataclass(eq=False)
class _Actor:
    handle: Any
    given: GivenJob | None = None
    """What it is at; None while it begins."""
    deadline: float = float("inf")


class Ray(WatchedPool):
    """Actors on a Ray cluster: the one this machine belongs to, else a local one.

    Files must be where they are here on every node. A job that takes too long is given up with its actor;
    memory is what Ray allows. Actors for which the cluster has no room are not waited for.
    """

    def __init__(self, site: Site) -> None:
        try:
            self._ray: Any = import_module("ray")
        except ImportError:
            raise site.error("the ray executor needs Ray: pip install 'chain-of-operators[ray]'") from None
        super().__init__(site)
        self._idle: list[_Actor] = []
        self._busy: dict[Any, _Actor] = {}
        self._stillborn = 0
        """Actors that died while they began, since one did not."""
        self._ours = not self._ray.is_initialized()
        if self._ours:
            address = os.environ.get("RAY_ADDRESS")
            given: dict[str, Any] = {"address": address} if address else {"num_cpus": max(1, site.workers)}
            with _own_signals():
                self._ray.init(
                    include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR, **given
                )
        self._kind = self._ray.remote(num_cpus=1)(_Remote)

    def _give(self, next_job: Callable[[], GivenJob | None]) -> bool:
        for _ in range(self._wanted - len(self._idle) - len(self._busy)):
            actor = _Actor(self._kind.remote())
            self._busy[actor.handle.begin.remote(self._site.make, str(Path.cwd()))] = actor
        while self._idle:
            given = next_job()
            if given is None:
                break
            actor = self._idle.pop(0)
            actor.given, actor.deadline = given, time.monotonic() + self._site.seconds
            self._busy[actor.handle.work.remote(given[1])] = actor
        at_work = any(actor.given is not None for actor in self._busy.values())
        return at_work or not self._idle

    def _heard(self) -> Iterator[tuple[GivenJob, Any]]:
        done, _ = self._ray.wait(list(self._busy), num_returns=1, timeout=_SECONDS_BETWEEN_LOOKS)
        for ref in done:
            actor = self._busy.pop(ref)
            given, actor.given = actor.given, None
            outcome = self._outcome(ref, begins=given is None)
            if outcome is not DIED:
                self._idle.append(actor)
            if given is not None:
                yield given, outcome
        for ref, actor in list(self._busy.items()):
            if time.monotonic() > actor.deadline and actor.given is not None:
                self._stop(ref)
                yield actor.given, self._site.too_slow()

    def _outcome(self, ref: Any, begins: bool) -> Any:
        """What an actor returned; `DIED` where it is no more."""
        try:
            outcome = self._ray.get(ref)
            self._stillborn = 0
            return outcome
        except self._ray.exceptions.RayTaskError as error:
            cause = error.cause if isinstance(error.cause, Exception) else error
            if begins:
                raise self._site.not_loaded(sentence(cause)) from None
            raise cause from None
        except self._ray.exceptions.RayError as error:
            self._stillborn += begins
            if self._stillborn == LIVES:  # a node that is taken away is no reason to give up
                raise self._site.error(
                    f"{LIVES} worker processes died while they loaded {self._site.what} "
                    f"({type(error).__name__})"
                ) from None
            return DIED

    def _stop(self, ref: Any) -> None:
        self._ray.kill(self._busy.pop(ref).handle)

    def _abandon(self) -> None:
        for ref in [ref for ref, actor in self._busy.items() if actor.given is not None]:
            self._stop(ref)

    def close(self) -> None:
        for actor in [*self._idle, *self._busy.values()]:
            self._ray.kill(actor.handle)
        self._idle.clear()
        self._busy.clear()
        if self._ours:
            self._ray.shutdown()


class _Remote:
    """What an actor is."""

    _work: Work

    def begin(self, make: Make, folder: str) -> None:
        import torch

        torch.set_num_threads(1)
        with suppress(OSError):  # relative names mean what they mean to the caller
            os.chdir(folder)
        self._work = make()

    def work(self, job: Any) -> Any:
        return self._work(job)


@contextmanager
def _own_signals() -> Iterator[None]:
    """Ray puts a handler of its own in the place of ours; a command ends as it says itself."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
