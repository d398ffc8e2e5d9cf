"""The figures of an evolution: its progress, its agents, the winner's family."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from chop.evolution.journal import JournalRecord
from chop.evolution.population import Candidate

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#8a6d00", "#56b4e9", "#000000")
DASHES = ("-", "--", "-.", ":")
RESOLUTION = 130


def progress(candidates: Sequence[Candidate]) -> Figure:
    """Every finished candidate's score, and the best so far, over the model evaluations spent."""
    figure, axes = _axes("model evaluations", "score (error of the start / error)")
    spent, xs, ys, best = 0, [], [], []
    top = 0.0
    for candidate in candidates:
        spent += candidate.evaluations
        if candidate.status == "done":
            top = max(top, candidate.fitness)
            xs.append(spent)
            ys.append(candidate.fitness)
            best.append(top)
    axes.plot(xs, ys, ".", color="#9aa3ad", markersize=4, label="judged on every question")
    axes.step(xs, best, where="post", color=COLORS[0], linewidth=2, label="best so far")
    axes.set_ylim(bottom=min(0.9, *ys) if len(ys) > 1 else 0.0)
    axes.legend(frameon=False, fontsize=9, loc="lower right")
    return figure


def ratings(records: Sequence[JournalRecord], kinds: dict[int, str]) -> Figure:
    """The agents' ratings over the races; a revision begins where its line does."""
    figure, axes = _axes("race", "Elo rating")
    curves: dict[int, list[tuple[int, float]]] = {}
    for record in records:
        if record["kind"] == "race":
            for number, rating in record["ratings"].items():
                curves.setdefault(int(number), []).append((record["iteration"], rating))
    names = sorted(set(kinds.values()))
    seen = set()
    for number, points in sorted(curves.items()):
        kind = kinds[number]
        place = names.index(kind)
        axes.plot(
            *zip(*points, strict=True), color=COLORS[place % len(COLORS)], linewidth=1.3,
            linestyle=DASHES[place % len(DASHES)], label=None if kind in seen else kind,
        )  # fmt: skip
        seen.add(kind)
    axes.axhline(1500, color="#9aa3ad", linewidth=0.8)
    axes.legend(frameon=False, fontsize=9, ncols=2)
    return figure


def pedigree(family: Sequence[Candidate]) -> Figure:
    """The winner and its ancestors by age and score, with lines from parents to children."""
    figure, axes = _axes("candidate", "score")
    where = {candidate.number: (place, candidate.fitness) for place, candidate in enumerate(family)}
    for candidate in family:
        x, y = where[candidate.number]
        for parent in candidate.parents:
            axes.plot([where[parent][0], x], [where[parent][1], y], color="#9aa3ad", linewidth=1, zorder=1)
    axes.plot(*zip(*where.values(), strict=True), "o", color=COLORS[0], markersize=5)
    axes.set_xticks(range(len(family)), [f"#{c.number}" for c in family], rotation=60, fontsize=8)
    axes.margins(0.06)
    return figure


def _axes(across: str, up: str) -> tuple[Figure, Any]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.2, 3.4), layout="constrained")
    axes = figure.subplots()
    axes.set_xlabel(across)
    axes.set_ylabel(up)
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes


def embedded(figure: Figure) -> str:
    """A figure as the address of an image that needs no file."""
    packed = io.BytesIO()
    figure.savefig(packed, format="png", dpi=RESOLUTION, metadata={"Software": None})
    return "data:image/png;base64," + base64.b64encode(packed.getvalue()).decode("ascii")


__all__ = ["embedded", "pedigree", "progress", "ratings"]
