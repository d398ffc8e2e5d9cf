"""Who works for all tabs: a few worker processes behind one queue, asked without blocking the page.

A job of one tab cannot freeze another's page, only wait for a free worker; a job that is cancelled, hangs,
eats memory or crashes takes its worker with it and nothing else.
"""

from __future__ import annotations

import asyncio
import itertools
import queue
import threading
from collections.abc import Iterable
from concurrent.futures import Future
from typing import Any

from chop import ChopError
from chop.runs.pool.contract import Lost, Site
from chop.runs.pool.workers import Workers
from chop.studio.jobs import Job, Refused
from chop.studio.worker import MakeWorker

SECONDS, MEGABYTES = 300.0, 4000.0
"""What one job may take."""
WAITING = 64
"""Jobs that may wait at a time, of all tabs."""


class Desk:
    """Takes jobs from any tab; `ask` waits for one outcome."""

    def __init__(self, make: MakeWorker, workers: int = 2, seconds: float = SECONDS) -> None:
        site = Site(make, workers, "the studio", ChopError, seconds=seconds, memory=MEGABYTES)
        self._pool = Workers(site)
        self._jobs: queue.Queue[tuple[int, Job] | None] = queue.Queue()
        self._numbers = itertools.count()
        self._futures: dict[int, Future[Any]] = {}
        self._thread = threading.Thread(target=self._serve, name="studio desk", daemon=True)
        self._closed = threading.Event()

    def start(self, first: Iterable[Job] = ()) -> None:
        """Begin; the first jobs are done for nobody, to load what everybody needs."""
        for job in first:
            self._put(job)
        self._thread.start()

    async def ask(self, job: Job) -> Any:
        """The outcome of a job, a `Refused` where there is none. To cancel it, cancel the task that asks."""
        if len(self._futures) >= WAITING:
            return Refused("too many jobs are waiting; try again when some are done")
        number = self._put(job)
        try:
            return await asyncio.wrap_future(self._futures[number])
        except asyncio.CancelledError:
            self._pool.cancel(number)
            raise

    def _put(self, job: Job) -> int:
        number = next(self._numbers)
        self._futures[number] = Future()
        self._jobs.put((number, job))
        self._pool.ring()
        return number

    def close(self) -> None:
        """End the workers."""
        self._closed.set()
        self._jobs.put(None)
        self._thread.join(timeout=5)

    def _serve(self) -> None:
        held: list[tuple[int, Job]] = []

        def take() -> tuple[int, Job] | None:
            while True:
                try:
                    given = held.pop() if held else self._jobs.get_nowait()
                except queue.Empty:
                    return None
                if given is None:
                    return None
                future = self._futures.get(given[0])
                if future is not None and not future.cancelled():
                    return given
                self._futures.pop(given[0], None)

        with self._pool:
            while not self._closed.is_set():
                given = self._jobs.get()
                if given is None:
                    return
                held.append(given)
                try:
                    for number, outcome in self._pool.finished(take):
                        self._tell(number, outcome)
                        if self._closed.is_set():
                            return
                except Exception as error:  # a worker that cannot begin, or a bug in it: told, and gone on
                    self._tell_all(f"the worker failed: {error}")

    def _tell(self, number: int, outcome: Any) -> None:
        future = self._futures.pop(number, None)
        if future is None:
            return  # cancelled, and forgotten by now
        told = Refused(_words(outcome)) if isinstance(outcome, Lost) else outcome
        if future.set_running_or_notify_cancel():
            future.set_result(told)

    def _tell_all(self, sentence: str) -> None:
        for number in list(self._futures):
            self._tell(number, Refused(sentence))


def _words(lost: Lost) -> str:
    return f"this was given up: {lost.reason}"
