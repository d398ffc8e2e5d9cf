"""Manners of a worker process: one thread, deaf to Ctrl-C, gone when its parent is."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager


def one_thread() -> None:
    """Say before a worker starts that it has one thread: more gain nothing at this size."""
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(name, "1")


@contextmanager
def interrupts_blocked() -> Iterator[None]:
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


__all__ = ["begin_worker", "interrupts_blocked", "one_thread"]
