"""Worker processes that are really stopped: by the clock, by their memory, or because they died.

The parent watches, since a candidate that hangs in compiled code cannot be interrupted from within. A
worker that had to be killed is replaced; the verdict on its candidate says why.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import pickle
import subprocess
import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess

from chop.errors import ChopError
from chop.evolution.errors import EvolutionError
from chop.evolution.executors import Executor, Source, in_order, task_of, too_slow
from chop.evolution.judging import Job, Judge, Verdict
from chop.evolution.task import Limits, Task
from chop.processes import begin_worker, one_thread

LOOK = 0.2
"""Seconds between two looks at clocks and memory."""
START = 900.0
"""Seconds a worker may take to load its task."""
LIVES = 2
"""How many workers a candidate may take down before it is held to be the cause."""


@dataclass
class _Worker:
    process: BaseProcess
    pipe: Connection
    deadline: float
    job: int | None = None
    ready: bool = False


class Workers(Executor):
    """Worker processes with one thread each; they end with this process, however it ends."""

    def __init__(self, source: Source, workers: int, limits: Limits) -> None:
        if isinstance(source, Task):
            try:
                pickle.dumps(source)
            except Exception as error:  # pickling calls whatever the model defines
                raise EvolutionError(
                    f"the task cannot be sent to worker processes ({error}); use executor='inline', or put "
                    "it in a file and give the file"
                ) from None
        self._source = source
        self._limits = limits
        self._wanted = max(1, workers)
        self._workers: list[_Worker] = []

    def run(self, jobs: Sequence[Job]) -> Iterator[Verdict]:
        return in_order(self._finished(jobs))

    def _finished(self, jobs: Sequence[Job]) -> Iterator[tuple[int, Verdict]]:
        waiting = deque(range(len(jobs)))
        deaths = dict.fromkeys(waiting, 0)
        left = len(jobs)
        while left:
            while len(self._workers) < min(self._wanted, left):
                self._workers.append(self._fresh())
            for worker in self._workers:
                if worker.ready and worker.job is None and waiting:
                    self._give(worker, waiting.popleft(), jobs)
            for worker, verdict in self._heard():
                number, worker.job = worker.job, None
                if number is None:
                    continue
                if verdict is None:  # it died under this job
                    deaths[number] += 1
                    if deaths[number] < LIVES:
                        waiting.appendleft(number)
                        continue
                    verdict = Verdict("failed", reason=f"{LIVES} worker processes died under it")
                left -= 1
                yield number, verdict

    def _give(self, worker: _Worker, number: int, jobs: Sequence[Job]) -> None:
        worker.job = number
        worker.deadline = time.monotonic() + self._limits.seconds
        with contextlib.suppress(OSError):  # a worker that is gone is noticed when it is listened to
            worker.pipe.send(jobs[number])

    def _heard(self) -> Iterator[tuple[_Worker, Verdict | None]]:
        """Verdicts that arrived, and workers that were lost (None) or had to be stopped."""
        talking = wait([worker.pipe for worker in self._workers], timeout=LOOK)
        for worker in list(self._workers):
            if worker.pipe in talking:
                try:
                    said = worker.pipe.recv()
                except (EOFError, OSError):
                    self._discard(worker)
                    if not worker.ready:
                        raise EvolutionError("a worker process died while it loaded the task") from None
                    yield worker, None
                    continue
                if isinstance(said, Verdict):
                    yield worker, said
                elif said is None:
                    worker.ready = True
                else:
                    raise EvolutionError(f"a worker process cannot load the task: {said}")
            elif worker.job is not None and self._too_big(worker):
                self._discard(worker)
                reason = f"stopped at {self._limits.memory} MB of memory"
                yield worker, Verdict("failed", reason=reason)
            elif (worker.job is not None or not worker.ready) and time.monotonic() > worker.deadline:
                self._discard(worker)
                if not worker.ready:
                    raise EvolutionError(f"a worker process did not load the task within {START:g} s")
                yield worker, too_slow(self._limits)

    def _too_big(self, worker: _Worker) -> bool:
        return resident(worker.process.pid or 0) > self._limits.memory * 2**20

    def _fresh(self) -> _Worker:
        one_thread()
        ours, theirs = multiprocessing.Pipe()
        process = multiprocessing.get_context("spawn").Process(
            target=_work, args=(theirs, self._source, os.getpid()), daemon=True
        )
        process.start()
        theirs.close()
        return _Worker(process, ours, time.monotonic() + START)

    def _discard(self, worker: _Worker) -> None:
        self._workers.remove(worker)
        worker.pipe.close()
        worker.process.kill()
        worker.process.join()

    def close(self) -> None:
        for worker in list(self._workers):
            self._discard(worker)


def resident(pid: int) -> int:
    """Bytes of memory a process holds; 0 where that cannot be told."""
    try:
        with open(f"/proc/{pid}/statm", encoding="ascii") as file:  # noqa: PTH123
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        pass
    try:  # where there is no /proc
        told = subprocess.run(
            ["ps", "-o", "rss=", "-p", str(pid)], capture_output=True, text=True, check=False, timeout=5
        )
        return int(told.stdout.strip() or 0) * 1024
    except (OSError, ValueError, subprocess.SubprocessError):
        return 0


def _work(pipe: Connection, source: Source, parent: int) -> None:
    """A worker: says None when it is ready, then answers jobs with verdicts, as long as somebody listens."""
    begin_worker(parent)
    with contextlib.suppress(EOFError, OSError):
        _answer(pipe, source)


def _answer(pipe: Connection, source: Source) -> None:
    try:
        judge = Judge(task_of(source))
        judge.warm_up()
    except ChopError as error:
        pipe.send(str(error))
        return
    except Exception as error:  # a user's own task file may raise anything
        pipe.send(f"{type(error).__name__}: {error}")
        return
    pipe.send(None)
    while True:
        pipe.send(judge(pipe.recv()))


__all__ = ["Workers", "resident"]
