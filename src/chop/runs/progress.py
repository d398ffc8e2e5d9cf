"""How far a long piece of work is: a bar where somebody looks, else a line now and then, or nothing."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeVar

if TYPE_CHECKING:
    import rich.progress

SECONDS_BETWEEN_LINES = 30.0
PERCENT = "{task.percentage:>3.0f} %"
COUNT = "{task.completed} of {task.total}"
"""What stands in front of a bar."""


class Progress:
    """A ``with`` block around the work; `update` says how far it is.

    ``say`` gets a line now and then where there is no bar: how much is done, minutes left (None while nobody
    can tell) and the description. Time is estimated from what was done since ``start``; None takes what is
    done at the first line, for work that goes on from an unknown place.
    """

    def __init__(
        self,
        bar: rich.progress.Progress | None,
        total: float | None = None,
        description: str = "",
        say: Callable[[float, float | None, str], None] | None = None,
        start: float | None = 0.0,
    ) -> None:
        self._bar = bar
        self._rows: dict[str, rich.progress.TaskID] = {}
        self._total, self._description = total, description
        self._say, self._start = say, start
        self._begun = self._said = time.monotonic()

    def __enter__(self) -> Self:
        if self._bar is not None:
            self._bar.start()
            if self._total is not None:
                self._rows[""] = self._bar.add_task(self._description, total=self._total)
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def update(
        self, done: float, description: str | None = None, total: float | None = None, row: str = ""
    ) -> None:
        """What is done now; a ``row`` of its own is added below when it is first named."""
        if self._bar is not None:
            if row not in self._rows:
                self._rows[row] = self._bar.add_task(row, total=total)
            self._bar.update(self._rows[row], completed=done, description=description, total=total)
        elif self._say is not None and time.monotonic() - self._said >= SECONDS_BETWEEN_LINES:
            self._said = time.monotonic()
            self._start = done if self._start is None else self._start
            self._say(done, self._minutes_left(done), description or self._description)

    def _minutes_left(self, done: float) -> float | None:
        gone = done - (self._start or 0.0)
        if gone <= 0 or self._total is None:
            return None
        return (self._said - self._begun) * (self._total - done) / gone / 60


def lasting_bar(first: str) -> rich.progress.Progress:
    """A bar on standard output that stays, with times; in front of it `PERCENT` or `COUNT`."""
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    return Progress(
        TextColumn(first),
        BarColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        TextColumn("{task.description}", markup=False),
    )


def passing_bar(total: float | None = None, description: str = "", download: bool = False) -> Progress:
    """A bar on standard error that leaves nothing behind; silent where nobody looks."""
    from rich import progress
    from rich.console import Console

    numbers: tuple[Any, ...] = (progress.MofNCompleteColumn(), progress.TimeRemainingColumn())
    if download:
        numbers = (progress.DownloadColumn(), progress.TransferSpeedColumn())
    columns = (progress.TextColumn("{task.description}"), progress.BarColumn(), *numbers)
    console = Console(stderr=True)
    bar = progress.Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
    return Progress(bar, total, description)


class Costs(Protocol):
    """A piece of work that knows its share of the time."""

    @property
    def cost(self) -> float: ...


CostlyJob = TypeVar("CostlyJob", bound=Costs)
JobResult = TypeVar("JobResult")


def with_progress(
    finished: Iterable[tuple[CostlyJob, JobResult]],
    total: float,
    name: Callable[[CostlyJob], str],
    say: Callable[[str], None],
    bar: bool,
) -> Iterator[tuple[CostlyJob, JobResult]]:
    """What comes in, handed on; progress is told once the receiver has dealt with it."""

    def line(done: float, minutes: float | None, words: str) -> None:
        say(f"{100 * done / total:.0f} %, about {minutes or 0:.1f} min left: {words}")

    spent = 0.0
    with Progress(lasting_bar(PERCENT) if bar else None, total, "measuring", line) as progress:
        for job, outcome in finished:
            yield job, outcome
            spent += job.cost
            progress.update(spent, name(job))
