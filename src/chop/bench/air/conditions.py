"""What is measured: directions, leads, selections and pollutants; methods; and how the years are split."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from chop.core.errors import BenchError
from chop.core.programs import TEXTS
from chop.problems.air import POLLUTANTS

REGIONS = ("bthsa", "yrd")
NAMES = {"bthsa": "BTHSA", "yrd": "YRD"}
SELECTIONS = ("random", "similar")
LEADS = (1, 2, 3, 4, 5, 6, 12, 24, 36, 48, 72)
HOME_LEADS = (6, 12, 24, 48)
LONGEST = max(LEADS)
WRITTEN = {"PM2.5": "PM₂.₅", "O3": "O₃"}
EXAMPLE_YEARS = 2
CHUNK = 32
"""Questions of one piece of work. Fixed: numbers do not depend on how the work is cut."""

RAW = TEXTS["raw"]
CHOP = TEXTS["air"]
PERSISTENCE = "last_frame"
YESTERDAY = "@yesterday"
LABELS = {
    RAW: "Raw ICON",
    CHOP: "CHOP(Air)",
    PERSISTENCE: "persistence",
    YESTERDAY: "same hour yesterday",
    "mean_output": "mean of the examples",
    "nearest_output": "nearest example",
}
METHODS = (CHOP, RAW, PERSISTENCE, YESTERDAY, "mean_output", "nearest_output")
"""In this order: what CHOP(Air) asks the network answers Raw ICON too."""
HOME_METHODS = (RAW, PERSISTENCE)


@dataclass(frozen=True)
class Direction:
    """A network trained in one region and the region whose questions it is asked."""

    network: str
    region: str

    @property
    def name(self) -> str:
        return f"{self.network}-{self.region}"

    @property
    def carried(self) -> bool:
        return self.network != self.region

    @property
    def label(self) -> str:
        if not self.carried:
            return f"{NAMES[self.region]} at home"
        return f"{NAMES[self.network]} → {NAMES[self.region]}"

    @property
    def home(self) -> Direction:
        """The same network in its own region."""
        return Direction(self.network, self.network)

    @property
    def parts(self) -> tuple[tuple[str, int], ...]:
        """Every (selection, lead) that is asked, in the order in which windows repeat most."""
        if self.carried:
            return tuple((selection, lead) for selection in SELECTIONS for lead in LEADS)
        return tuple((SELECTIONS[0], lead) for lead in HOME_LEADS)

    @property
    def methods(self) -> tuple[str, ...]:
        return METHODS if self.carried else HOME_METHODS


FORWARD, REVERSE = Direction("bthsa", "yrd"), Direction("yrd", "bthsa")
CARRIED = (FORWARD, REVERSE)


def directions(chosen: tuple[str, ...] = ()) -> tuple[Direction, ...]:
    """The directions of these names (all if there are none), each followed by its network at home."""
    known = {direction.name: direction for direction in CARRIED}
    for name in chosen:
        if name not in known:
            raise BenchError(f"there is no direction {name!r}; known are {', '.join(known)}")
    found = [direction for name, direction in known.items() if not chosen or name in chosen]
    return tuple(part for direction in found for part in (direction, direction.home))


class Condition(NamedTuple):
    """One row of the paper's tables."""

    direction: Direction
    selection: str
    lead: int
    pollutant: str


def conditions(asked: tuple[Direction, ...] = CARRIED) -> Iterator[Condition]:
    """The 88 conditions, or those of fewer directions, as the paper's tables list them."""
    for direction in asked:
        if direction.carried:
            for pollutant in POLLUTANTS:
                for lead in LEADS:
                    for selection in SELECTIONS:
                        yield Condition(direction, selection, lead, pollutant)


@dataclass(frozen=True)
class Split:
    """Questions of one year; examples and normalisation from the two years before it."""

    year: int = 2024

    @property
    def examples(self) -> tuple[str, str]:
        return f"{self.year - EXAMPLE_YEARS}-01-01", f"{self.year}-01-01"

    @property
    def questions(self) -> tuple[str, str]:
        return f"{self.year}-01-01", f"{self.year + 1}-01-01"

    def said(self, every: str) -> str:
        """The split in words."""
        return (
            f"examples and normalisation from the evaluated region, {self.year - EXAMPLE_YEARS} to "
            f"{self.year - 1}; questions in {self.year}, every {every} h"
        )


def label_of(method: str) -> str:
    """A short name for tables and legends."""
    return LABELS.get(method, method)


__all__ = [
    "CARRIED", "CHOP", "CHUNK", "FORWARD", "HOME_LEADS", "LABELS", "LEADS", "LONGEST", "METHODS", "NAMES",
    "PERSISTENCE", "POLLUTANTS", "RAW", "REGIONS", "REVERSE", "SELECTIONS", "WRITTEN", "YESTERDAY",
    "Condition", "Direction", "Split", "conditions", "directions", "label_of",
]  # fmt: skip
