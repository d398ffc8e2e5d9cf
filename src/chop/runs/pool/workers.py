"""Worker processes that are really stopped: by the clock, by their memory, or because they died.

The parent watches, since work that hangs in compiled code cannot be interrupted from within. A worker that
had to be killed is replaced.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from math import inf
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any

from chop.runs.pool.contract import DIED, GivenJob, Make, Site, WatchedPool, portable, sentence

_SECONDS_BETWEEN_LOOKS = 0.2
_SECONDS_TO_LOAD = 900.0
"""How long a worker may take to load what it works with."""


@dataclass(frozen=True)
class _Ready:
    """A worker's first word."""


@dataclass(frozen=True)
class _Unable:
    """A worker's only word: why it cannot begin."""

    reason: str


@dataclass(frozen=True, eq=False)
class _Done:
    outcome: Any


@dataclass(frozen=True, eq=False)
class _Raised:
    error: Exception


@dataclass(eq=False)
class _Worker:
    process: BaseProcess
    pipe: Connection
    deadline: float
    given: GivenJob | None = None
    """What it is at."""
    ready: bool = False

    def release(self) -> GivenJob:
        """What it was at."""
        assert self.given is not None
        given, self.given = self.given, None
        return given


class Workers(WatchedPool):
    """Worker processes with one thread each; they end with this process, however it ends."""

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        self._workers: list[_Worker] = []
        self._unwanted: set[Hashable] = set()
        self._listener, self._bell = multiprocessing.Pipe(duplex=False)

    def cancel(self, key: Hashable) -> None:
        """Let nobody be at a job any more: its outcome is `Lost`. To be called from any thread."""
        self._unwanted.add(key)
        self.ring()

    def ring(self) -> None:
        """Say from any thread that there is something new: a job to take, or one to leave."""
        with contextlib.suppress(OSError):  # the pool may be closed by now
            self._bell.send_bytes(b"!")

    def _give(self, next_job: Callable[[], GivenJob | None]) -> bool:
        idle = [worker for worker in self._workers if worker.given is None]
        while idle or len(self._workers) < self._wanted:
            given = next_job()
            if given is None:
                break
            worker = idle.pop(0) if idle else self._fresh()
            worker.given = given
            if worker.ready:
                self._send(worker)
        return any(worker.given is not None for worker in self._workers)

    def _send(self, worker: _Worker) -> None:
        assert worker.given is not None
        worker.deadline = time.monotonic() + self._site.seconds
        with contextlib.suppress(OSError):  # a worker that is gone is noticed when it is listened to
            worker.pipe.send(worker.given[1])

    def _heard(self) -> Iterator[tuple[GivenJob, Any]]:
        pipes = [worker.pipe for worker in self._workers]
        talking = wait([*pipes, self._listener], timeout=_SECONDS_BETWEEN_LOOKS)
        while self._listener.poll():
            self._listener.recv_bytes()
        for worker in list(self._workers):
            if worker.pipe in talking:
                said = self._said(worker)
                if isinstance(said, _Done):
                    yield worker.release(), said.outcome
                elif isinstance(said, _Raised):
                    raise said.error
                elif isinstance(said, _Unable):
                    raise self._site.not_loaded(said.reason)
                elif isinstance(said, _Ready):
                    worker.ready = True
                    if worker.given is not None:
                        self._send(worker)
                elif not worker.ready:
                    raise self._site.error(f"a worker process died while it loaded {self._site.what}")
                elif worker.given is not None:
                    yield worker.release(), DIED
            elif worker.given is not None and worker.given[0] in self._unwanted:
                self._discard(worker)
                yield worker.release(), self._site.cancelled()
            elif worker.ready and worker.given is not None and self._too_big(worker):
                self._discard(worker)
                yield worker.release(), self._site.too_big()
            elif worker.given is not None and time.monotonic() > worker.deadline:
                self._discard(worker)
                if not worker.ready:
                    raise self._site.error(
                        f"a worker process did not load {self._site.what} within {_SECONDS_TO_LOAD:g} s"
                    )
                yield worker.release(), self._site.too_slow()

    def _said(self, worker: _Worker) -> Any:
        """A worker's word; None from one that is no more."""
        try:
            return worker.pipe.recv()
        except (EOFError, OSError):
            self._discard(worker)
            return None

    def _too_big(self, worker: _Worker) -> bool:
        limit = self._site.memory
        return limit < inf and resident(worker.process.pid or 0) > limit * 2**20

    def _fresh(self) -> _Worker:
        one_thread()
        ours, theirs = multiprocessing.Pipe()
        process = multiprocessing.get_context("spawn").Process(
            target=_work, args=(theirs, self._site.make, os.getpid()), daemon=True
        )
        with (
            _interrupts_blocked()
        ):  # it inherits that, and must not be torn by Ctrl-C before it can say so itself
            process.start()
        theirs.close()
        worker = _Worker(process, ours, time.monotonic() + _SECONDS_TO_LOAD)
        self._workers.append(worker)
        return worker

    def _discard(self, worker: _Worker) -> None:
        self._workers.remove(worker)
        worker.pipe.close()
        worker.process.kill()
        worker.process.join()

    def _abandon(self) -> None:
        for worker in [worker for worker in self._workers if worker.given is not None]:
            self._discard(worker)

    def close(self) -> None:
        for worker in list(self._workers):
            self._discard(worker)
        self._bell.close()
        self._listener.close()


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


def one_thread() -> None:
    """Say before a worker starts that it has one thread: more gain nothing at this size."""
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(name, "1")


@contextlib.contextmanager
def _interrupts_blocked() -> Iterator[None]:
    """Ctrl-C waits until the end of the block; a process started in it never hears of it."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def begin_worker(parent: int) -> None:
    """To be called first in a worker: its parent hears Ctrl-C for it, and it ends with its parent."""
    import torch

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    torch.set_num_threads(1)

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1.0)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _work(pipe: Connection, make: Make, parent: int) -> None:
    """A worker: says that it is ready, then answers jobs, as long as somebody listens."""
    begin_worker(parent)
    with contextlib.suppress(EOFError, OSError):
        _answer(pipe, make)


def _answer(pipe: Connection, make: Make) -> None:
    try:
        work = make()
    except Exception as error:  # a user's own file may raise anything
        pipe.send(_Unable(sentence(error)))
        return
    pipe.send(_Ready())
    while True:
        job = pipe.recv()
        try:
            done = work(job)
        except Exception as error:
            pipe.send(_Raised(portable(error)))
        else:
            pipe.send(_Done(done))
