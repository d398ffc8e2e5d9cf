"""``report.html``: what was found, how, and whether to believe it; one page that needs nothing but itself.

What is worth knowing about a winner is its scores where evolution never looked, its ablation and its family.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import Tensor

from chop.core.errors import ChopError, EvolutionError
from chop.core.metrics import Paired, paired
from chop.core.text import parse
from chop.evolution.agents import Agent
from chop.evolution.history import family_of, progress_of, race_outcomes, rating_curves
from chop.evolution.journal import Journal
from chop.evolution.judging import CachedModel
from chop.evolution.moves import programs_with_one_less
from chop.evolution.population import INITIAL_RATING, Candidate
from chop.evolution.search import Evolved
from chop.evolution.task import Task, errors_of, explain_program
from chop.pictures import draw_program, html
from chop.pictures.rendering import figure_bytes
from chop.problems.case import Case
from chop.storage.atomic import write_text
from chop.storage.schema import Record

if TYPE_CHECKING:
    from matplotlib.figure import Figure

REPORT_FILE = "report.html"
_CURVE_COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#8a6d00", "#56b4e9", "#000000")
_GREY = "#9aa3ad"
_DASHES = ("-", "--", "-.", ":")
_DOTS_PER_INCH = 130
_STYLE = """
.wide { margin: 0 0 20px; } .wide img { width: auto; max-width: min(100%, 760px); }
.rows { overflow-x: auto; } .rows table { font-variant-numeric: tabular-nums; }
.rows td, .rows th { white-space: nowrap; padding-right: 18px; } .rows td:first-child { width: auto; }
.rows td.text { white-space: normal; min-width: 20em; }
pre { overflow-x: auto; padding: 12px 14px; background: var(--band); border-radius: 6px; font-size: 0.82rem;
  line-height: 1.45; }
"""

# What is known about a winner.


@dataclass(frozen=True)
class ProgramScore:
    """A program on the evolution set and on the validation set, against the start program."""

    name: str
    text: str
    calls: int
    evolution: Paired | None
    validation: Paired | None


@dataclass(frozen=True)
class WinnerAnalysis:
    """Everything the report says about the winner."""

    scores: tuple[ProgramScore, ...]
    """the start, the known programs, the winner"""
    ablation: tuple[tuple[str, float | None], ...]
    """what remains without one operator, and its fitness on the evolution set (None: it fails)"""
    family: tuple[Candidate, ...]
    """the winner and all it comes from, oldest first"""
    trace: str
    """what the winner does on the first question, in words"""


def analyse_winner(evolved: Evolved) -> WinnerAnalysis:
    """Judge the winner where it counts; asks the model a few hundred questions."""
    winner = evolved.winner
    # What remains of a program without one of its parts asks mostly what the whole asks.
    task = replace(evolved.task, model=CachedModel(evolved.task.model))
    family = family_of(winner, evolved.state.candidates)
    trace = explain_program(task, winner.text)
    return WinnerAnalysis(_scores(task, winner), _ablation(task, winner), family, trace)


def _scores(task: Task, winner: Candidate) -> tuple[ProgramScore, ...]:
    named = {f"start ({task.start})": task.start, **task.known, "the winner": winner.text}
    evolution = _compared(task, named, task.cases)
    validation = {} if task.validation is None else _compared(task, named, task.validation)
    examples = task.cases.prompt.examples
    return tuple(
        ProgramScore(name, text, parse(text).calls(examples), evolution.get(name), validation.get(name))
        for name, text in named.items()
    )


def _compared(task: Task, named: Mapping[str, str], cases: Case) -> dict[str, Paired]:
    found: dict[str, Paired] = {}
    base: Tensor | None = None
    for name, text in named.items():
        try:
            errors = errors_of(task, text, cases)
            base = errors if base is None else base
            found[name] = paired(base, errors)
        except ChopError:  # a known program need not suit the task; its cell stays empty
            continue
    return found


def _ablation(task: Task, winner: Candidate) -> tuple[tuple[str, float | None], ...]:
    found: list[tuple[str, float | None]] = []
    for text in map(str, programs_with_one_less(winner.program())):
        try:
            own = float(errors_of(task, text, task.cases).sum())
            found.append((text, sum(winner.raw) / own if 0 < own < float("inf") else None))
        except ChopError:
            found.append((text, None))
    return tuple(sorted(found, key=lambda pair: (pair[1] is not None, pair[1] or 0.0, pair[0])))


# The page.


def write_report(evolved: Evolved) -> tuple[Path, WinnerAnalysis]:
    """The report beside the journal, complete or as it was before."""
    winner = analyse_winner(evolved)
    with Journal(evolved.out, None) as journal:
        text = _page(evolved, winner, journal.records)
    return write_text(evolved.out / REPORT_FILE, text, EvolutionError, overwrite=True), winner


def _page(evolved: Evolved, winner: WinnerAnalysis, records: Sequence[Record]) -> str:
    state, drawing = evolved.state, draw_program(evolved.program, "svg")
    parts = [
        html.facts_list(_facts(evolved, records)),
        "<p>The winner never calls the model.</p>" if evolved.without_model else "",
        html.section(
            "Scores",
            _score_table(winner),
            "Mean error ± standard deviation; the reduction is that of the mean against the start program on "
            "the same questions. Evolution never saw the validation set.",
        ),
        html.section("The winner", html.scroll_region(drawing, "drawing of the winner")),
        html.section("Progress", _figure(_progress_chart(state.candidates), "progress")),
        html.section(
            "What each operator carries",
            _ablation_table(evolved.winner, winner),
            "The score of what remains when one operator, or one member of a mixture, is taken away.",
        ),
        html.section(
            "Family of the winner",
            _figure(_family_chart(winner.family), "ancestors of the winner by score")
            + _family_table(winner.family, state.kinds),
        ),
        html.section(
            "Agents",
            _figure(_rating_chart(records, state.kinds), "ratings of the agents over the races")
            + _agent_table(evolved),
            "Every race has the agents revise the same programs; who proposes the better one wins. An agent "
            "that won often enough has a child whose guidance is revised from what paid.",
        ),
        html.section("The winner at work", f"<pre>{escape(winner.trace)}</pre>", "On the first question."),
    ]
    lead = f"Evolution for the task {evolved.task.name}: the winner"
    return html.document(
        f"Evolution: {evolved.task.name}", lead, _code(evolved.winner.text), parts, style=_STYLE
    )


def _facts(evolved: Evolved, records: Sequence[Record]) -> dict[str, str]:
    candidates = evolved.state.candidates
    count = Counter(candidate.status for candidate in candidates)
    seconds = sum(r["clock"]["seconds"] for r in records if r["kind"] == "candidate")
    return {
        "score": f"{evolved.fitness:.3f}",
        "candidates": str(len(candidates)),
        "judged on every question": str(count["done"]),
        "given up early": str(count["stopped"]),
        "failed": str(count["failed"]),
        "model evaluations": f"{sum(c.evaluations for c in candidates):,}",
        "judging": f"{seconds / 60:.1f} min of one core",
        "found by": f"candidate #{evolved.winner.number}",
    }


def _score_table(winner: WinnerAnalysis) -> str:
    head = ("", "program", "calls", "evolution set", "reduction", "validation set", "reduction")
    rows = [
        (escape(s.name), _code(s.text), str(s.calls), *_error_cells(s.evolution), *_error_cells(s.validation))
        for s in winner.scores
    ]
    return _table(head, rows, "scores")


def _error_cells(compared: Paired | None) -> tuple[str, str]:
    if compared is None:
        return "", ""
    return f"{compared.mean:.4g} ± {compared.deviation:.2g}", f"{compared.reduction:.1f} %"


def _ablation_table(best: Candidate, winner: WinnerAnalysis) -> str:
    rows = [("<strong>the winner</strong>", _code(best.text), f"{best.fitness:.3f}")]
    for text, fitness in winner.ablation:
        rows.append(("remains", _code(text), "fails" if fitness is None else f"{fitness:.3f}"))
    return _table(("", "program", "score"), rows, "ablation")


def _family_table(family: Sequence[Candidate], kinds: Mapping[int, str]) -> str:
    rows = []
    for c in reversed(family):
        by = f"{c.move}, agent {c.agent} ({kinds[c.agent]})" if c.agent else c.move
        parents = ", ".join(f"#{number}" for number in c.parents) or "–"
        rows.append((f"#{c.number}", f"{c.fitness:.3f}", escape(by), parents, _code(c.text)))
    return _table(("", "score", "made by", "from", "program"), rows, "family of the winner")


def _agent_table(evolved: Evolved) -> str:
    made = Counter(candidate.agent for candidate in evolved.state.candidates)
    rows = []
    for agent in sorted(evolved.state.agents.values(), key=lambda a: -a.rating):
        parent = "–" if agent.parent is None else f"#{agent.parent}"
        rows.append(
            (f"#{agent.number}", escape(agent.kind), parent, f"{agent.rating:.0f}", str(made[agent.number]),
             _guidance_words(agent))
        )  # fmt: skip
    return _table(("agent", "kind", "child of", "rating", "proposals", "goes by"), rows, "agents")


def _guidance_words(agent: Agent) -> str:
    if isinstance(agent.guidance, str):
        return escape(agent.guidance[:400])
    top = sorted(agent.guidance.moves.items(), key=lambda pair: -pair[1])[:4]
    return ", ".join(f"{name} {share:.0%}" for name, share in top)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]], name: str) -> str:
    marked = (
        html.table_row((cell, "text" if "<code>" in cell or len(cell) > 60 else "") for cell in row)
        for row in rows
    )
    return html.scroll_region(html.html_table(head, marked), name, "rows")


def _code(text: str) -> str:
    return f"<code>{escape(text)}</code>"


def _figure(figure: Figure, words: str) -> str:
    return html.wide_figure(figure_bytes(figure, "png", _DOTS_PER_INCH), words)


# The charts.


def _progress_chart(candidates: Sequence[Candidate]) -> Figure:
    """Every finished candidate's score, and the best so far, over the model evaluations spent."""
    figure, axes = _chart("model evaluations", "score (error of the start / error)")
    points = progress_of(candidates)
    xs, ys = [point.evaluations for point in points], [point.score for point in points]
    best = [point.best for point in points]
    axes.plot(xs, ys, ".", color=_GREY, markersize=4, label="judged on every question")
    axes.step(xs, best, where="post", color=_CURVE_COLORS[0], linewidth=2, label="best so far")
    axes.set_ylim(bottom=min(0.9, *ys) if len(ys) > 1 else 0.0)
    axes.legend(frameon=False, fontsize=9, loc="lower right")
    return figure


def _rating_chart(records: Sequence[Record], kinds: Mapping[int, str]) -> Figure:
    """The agents' ratings over the races; a revision begins where its line does."""
    figure, axes = _chart("race", "Elo rating")
    names = sorted(set(kinds.values()))
    seen = set()
    for curve in rating_curves(race_outcomes(records), kinds):
        place = names.index(curve.kind)
        axes.plot(
            *zip(*curve.points, strict=True), color=_CURVE_COLORS[place % len(_CURVE_COLORS)], linewidth=1.3,
            linestyle=_DASHES[place % len(_DASHES)], label=None if curve.kind in seen else curve.kind,
        )  # fmt: skip
        seen.add(curve.kind)
    axes.axhline(INITIAL_RATING, color=_GREY, linewidth=0.8)
    axes.legend(frameon=False, fontsize=9, ncols=2)
    return figure


def _family_chart(family: Sequence[Candidate]) -> Figure:
    """The winner and its ancestors by age and score, with lines from parents to children."""
    figure, axes = _chart("candidate", "score")
    where = {candidate.number: (place, candidate.fitness) for place, candidate in enumerate(family)}
    for candidate in family:
        for parent in candidate.parents:
            ends = zip(where[parent], where[candidate.number], strict=True)
            axes.plot(*ends, color=_GREY, linewidth=1, zorder=1)
    axes.plot(*zip(*where.values(), strict=True), "o", color=_CURVE_COLORS[0], markersize=5)
    axes.set_xticks(range(len(family)), [f"#{c.number}" for c in family], rotation=60, fontsize=8)
    axes.margins(0.06)
    return figure


def _chart(across: str, up: str) -> tuple[Figure, Any]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.2, 3.4), layout="constrained")
    axes = figure.subplots()
    axes.set_xlabel(across)
    axes.set_ylabel(up)
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes
