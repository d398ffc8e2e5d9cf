"""Who does the work: this process, worker processes on this machine, or a Ray cluster.

An executor takes jobs in order and yields each with its records as it is finished, in any order: ``work``
makes the records of one job in a setting. Workers have one thread each: at this size a second thread gains
nothing, and rounding stays the same.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from importlib import import_module
from typing import Any, TypeVar

from chop.bench.store import Record
from chop.core.errors import BenchError
from chop.runs.pool.workers import begin_worker, one_thread

Job = TypeVar("Job")
Setting = TypeVar("Setting")
Work = Callable[[Job, Setting], list[Record]]
Finished = Iterator[tuple[Job, list[Record]]]
Executor = Callable[[Sequence[Any], Any, int, Callable[[Any, Any], list[Record]]], Finished[Any]]


def inline(jobs: Sequence[Job], setting: Setting, workers: int, work: Work[Job, Setting]) -> Finished[Job]:
    """One after the other, here."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        for job in jobs:
            yield job, work(job, setting)
    finally:
        torch.set_num_threads(before)


def processes(jobs: Sequence[Job], setting: Setting, workers: int, work: Work[Job, Setting]) -> Finished[Job]:
    """Worker processes with one thread each; they end with this process, however it ends."""
    import multiprocessing

    one_thread()
    pool = ProcessPoolExecutor(
        workers,
        mp_context=multiprocessing.get_context("spawn"),
        initializer=begin_worker,
        initargs=(os.getpid(),),
    )
    waiting: dict[Future[list[Record]], Job] = {}
    rest = iter(jobs)
    try:
        while True:
            while len(waiting) < 2 * workers and (job := next(rest, None)) is not None:
                waiting[pool.submit(work, job, setting)] = job
            if not waiting:
                break
            for done in wait(waiting, return_when=FIRST_COMPLETED).done:
                yield waiting.pop(done), done.result()
        pool.shutdown()
    except BrokenProcessPool:
        raise BenchError(
            "a worker process died (out of memory?); what is finished is kept, the same command continues"
        ) from None
    finally:
        _stop(pool)


def ray(jobs: Sequence[Job], setting: Setting, workers: int, work: Work[Job, Setting]) -> Finished[Job]:
    """A Ray cluster: the one this machine belongs to, else a local one. Weights must be on every node."""
    try:
        cluster: Any = import_module("ray")
    except ImportError:
        raise BenchError("the ray executor needs Ray: pip install 'chain-of-operators[ray]'") from None
    ours = not cluster.is_initialized()
    if ours:
        address = os.environ.get("RAY_ADDRESS")
        options: dict[str, Any] = {"address": address} if address else {"num_cpus": workers}
        cluster.init(include_dashboard=False, log_to_driver=False, **options)
    remote = cluster.remote(num_cpus=1, max_retries=2)(_alone)
    waiting: dict[Any, Job] = {}
    rest = iter(jobs)
    try:
        while True:
            while len(waiting) < 4 * workers and (job := next(rest, None)) is not None:
                waiting[remote.remote(work, job, setting)] = job
            if not waiting:
                return
            finished, _ = cluster.wait(list(waiting), num_returns=1)
            for done in finished:
                yield waiting.pop(done), cluster.get(done)
    finally:
        if ours:
            cluster.shutdown()


def _alone(work: Work[Job, Setting], job: Job, setting: Setting) -> list[Record]:
    import torch

    torch.set_num_threads(1)
    return work(job, setting)


def _stop(pool: ProcessPoolExecutor) -> None:
    """At once: what runs is thrown away and done again by the next command."""
    running = list((pool._processes or {}).values())
    manager: Any = getattr(pool, "_executor_manager_thread", None)
    pool.shutdown(wait=False, cancel_futures=True)
    for process in running:
        process.terminate()
    for process in running:
        process.join()
    if manager is not None:  # it closes a pipe that Python writes to on its way out
        manager.join()


EXECUTORS: dict[str, Executor] = {"processes": processes, "inline": inline, "ray": ray}

__all__ = ["EXECUTORS", "Executor", "inline", "processes", "ray"]
