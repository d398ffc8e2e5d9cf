"""Tables and how numbers are written in them."""

from __future__ import annotations

from dataclasses import dataclass

from chop.bench.results import Comparison

Rows = list[list[str]]
MISSING = "–"


@dataclass(frozen=True)
class Table:
    """A heading, a sentence, and cells."""

    title: str
    said: str
    head: tuple[str, ...]
    rows: Rows

    def markdown(self) -> str:
        lines = [f"## {self.title}", "", self.said, ""] if self.said else [f"## {self.title}", ""]
        lines.append("| " + " | ".join(_escaped(cell) for cell in self.head) + " |")
        lines.append("|" + "---|" * len(self.head))
        lines += ["| " + " | ".join(_escaped(cell) for cell in row) + " |" for row in self.rows]
        return "\n".join(lines) + "\n"


def base_cell(found: Comparison, digits: int = 4) -> str:
    """The bare model's mean and deviation."""
    return (
        MISSING
        if found.paired is None
        else spread_cell(found.paired.base_mean, found.paired.base_deviation, digits)
    )


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


def _escaped(cell: str) -> str:
    return cell.replace("|", "\\|")


__all__ = [
    "MISSING", "Rows", "Table", "base_cell", "counts_cell", "mean_cell", "reduction_cell", "spread_cell",
]  # fmt: skip
