"""How far a long measurement is, and how long it will take: a bar on a terminal, else now and then a line."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol, TypeVar

EVERY = 30.0
"""Seconds between two lines of progress where there is no terminal."""


class Costs(Protocol):
    """A piece of work that knows its share of the time."""

    @property
    def cost(self) -> float: ...


Job = TypeVar("Job", bound=Costs)
Made = TypeVar("Made")


def with_progress(
    finished: Iterable[tuple[Job, Made]],
    total: float,
    name: Callable[[Job], str],
    say: Callable[[str], None],
    bar: bool,
) -> Iterator[tuple[Job, Made]]:
    """What comes in, handed on; progress is told once the receiver has dealt with it."""
    progress: AbstractContextManager[Any] = _bar() if bar else nullcontext()
    begun = said = time.monotonic()
    spent = 0.0
    with progress as shown:
        task = shown.add_task("measuring", total=total) if bar else None
        for job, made in finished:
            yield job, made
            spent += job.cost
            now = time.monotonic()
            if bar:
                shown.update(task, completed=spent, description=name(job))
            elif now - said >= EVERY:
                said = now
                left = (now - begun) * (total / spent - 1)
                say(f"{100 * spent / total:.0f} %, about {left / 60:.1f} min left: {name(job)}")


def _bar() -> AbstractContextManager[Any]:
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    return Progress(
        TextColumn("{task.percentage:>3.0f} %"),
        BarColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        TextColumn("{task.description}", markup=False),
    )


__all__ = ["with_progress"]
