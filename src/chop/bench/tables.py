"""Tables, how numbers are written in them, and what is claimed of several conditions."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from chop.bench.results import Comparison

Rows = list[list[str]]
MISSING = "–"


@dataclass(frozen=True)
class Table:
    """A heading, a sentence, and cells."""

    title: str
    note: str
    head: tuple[str, ...]
    rows: Rows

    def markdown(self) -> str:
        """As a section of a Markdown file."""
        lines = [f"## {self.title}", "", *([self.note, ""] if self.note else [])]
        lines += [_line(self.head), "|" + "---|" * len(self.head), *map(_line, self.rows)]
        return "\n".join(lines) + "\n"


def _line(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


@dataclass(frozen=True)
class Claim:
    """Something that holds in some of several conditions."""

    text: str
    held: int
    total: int
    enough: int
    """In how many it must hold."""
    wanted: str = ""
    """What is enough, in words."""


REACHED = "What is reached"


def claims_table(claims: Iterable[Claim], *head: str) -> Table:
    """What is claimed and what was found; what was not measured has no row."""
    rows = [
        [claim.text, f"{claim.held} of {claim.total}", claim.wanted, yes(claim.held >= claim.enough)]
        for claim in claims
        if claim.total
    ]
    return Table(REACHED, "", head, rows)


def yes(holds: bool) -> str:
    """A word in a cell."""
    return "yes" if holds else "no"


def base_cell(found: Comparison, digits: int = 4) -> str:
    """The bare model's mean and deviation."""
    paired = found.paired
    return MISSING if paired is None else spread_cell(paired.base_mean, paired.base_deviation, digits)


def mean_cell(found: Comparison, digits: int = 4) -> str:
    """The method's mean and deviation, and how many answers were not finite."""
    if found.paired is None:
        return f"none of {found.n} finite"
    lost = f" ({found.lost} of {found.n} not finite)" if found.lost else ""
    return spread_cell(found.paired.mean, found.paired.deviation, digits) + lost


def reduction_cell(found: Comparison) -> str:
    """By how much the mean is lower."""
    return MISSING if found.paired is None else f"{found.paired.reduction:.2f} %"


def counts_cell(found: Comparison) -> str:
    """Questions lower, equal, higher."""
    paired = found.paired
    return MISSING if paired is None else f"{paired.lower}/{paired.equal}/{paired.higher}"


def spread_cell(mean: float, deviation: float, digits: int = 4) -> str:
    """Mean and deviation."""
    return f"{mean:.{digits}f} ± {deviation:.{digits}f}"


def number_cell(value: float, digits: int = 2) -> str:
    """A number, if there is one."""
    return MISSING if math.isnan(value) else f"{value:.{digits}f}"
