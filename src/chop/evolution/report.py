"""``report.html``: what was found, how, and whether to believe it; one page that needs nothing but itself."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path

from chop.core.errors import EvolutionError
from chop.core.metrics import Paired
from chop.evolution import charts
from chop.evolution.findings import Findings, findings
from chop.evolution.journal import Journal, JournalRecord
from chop.evolution.population import Candidate
from chop.evolution.search import Evolved
from chop.pictures import draw_program
from chop.pictures.style import CSS
from chop.storage.atomic import write_text

REPORT_FILE = "report.html"
_EXTRA = """
.wide { margin: 0 0 20px; } .wide img { width: auto; max-width: min(100%, 760px); }
.rows { overflow-x: auto; } .rows table { font-variant-numeric: tabular-nums; }
.rows td, .rows th { white-space: nowrap; padding-right: 18px; } .rows td:first-child { width: auto; }
.rows td.text { white-space: normal; min-width: 20em; }
pre { overflow-x: auto; padding: 12px 14px; background: var(--band); border-radius: 6px; font-size: 0.82rem;
  line-height: 1.45; }
"""


def write(evolved: Evolved) -> tuple[Path, Findings]:
    """The report beside the journal, complete or as it was before."""
    found = findings(evolved)
    with Journal(evolved.out, None) as journal:
        text = page(evolved, found, journal.records)
    path = evolved.out / REPORT_FILE
    return write_text(path, text, EvolutionError, overwrite=True), found


def page(evolved: Evolved, found: Findings, records: Sequence[JournalRecord]) -> str:
    """The whole page."""
    winner = evolved.winner
    kinds = evolved.state.kinds
    parts = [
        "<!DOCTYPE html>",
        '<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        '<meta name="color-scheme" content="light dark">',
        f"<title>Evolution: {escape(evolved.task.name)}</title><style>{CSS}{_EXTRA}</style></head>",
        "<body><main>",
        f"<header><p>Evolution for the task {escape(evolved.task.name)}: the winner</p>"
        f"<h1><code>{escape(winner.text)}</code></h1></header>",
        _facts(evolved, records),
        "<p>The winner never calls the model.</p>" if evolved.without_model else "",
        _section("Scores", _scores(found), _SCORES_SAID),
        _section("The winner", _scroll(draw_program(winner.program(), "svg"), "drawing of the winner")),
        _section("Progress", _figure(charts.embedded(charts.progress(evolved.state.candidates)), "progress")),
        _section("What each operator carries", _ablation(winner, found), _ABLATION_SAID),
        _section("Family of the winner", _family(found, kinds)),
        _section("Agents", _agents(evolved, records, kinds), _AGENTS_SAID),
        _section("The winner at work", f"<pre>{escape(found.trace)}</pre>", "On the first question."),
        "</main></body></html>",
    ]
    return "\n".join(parts) + "\n"


_SCORES_SAID = (
    "Mean error ± standard deviation; the reduction is that of the mean against the start program on the "
    "same questions. Evolution never saw the validation set."
)
_ABLATION_SAID = "The score of what remains when one operator, or one member of a mixture, is taken away."
_AGENTS_SAID = (
    "Every race has the agents revise the same programs; who proposes the better one wins. An agent that won "
    "often enough has a child whose guidance is revised from what paid."
)


def _facts(evolved: Evolved, records: Sequence[JournalRecord]) -> str:
    candidates = evolved.state.candidates
    count = {name: sum(c.status == name for c in candidates) for name in ("done", "stopped", "failed")}
    seconds = sum(r["clock"]["seconds"] for r in records if r["kind"] == "candidate")
    facts = {
        "score": f"{evolved.fitness:.3f}",
        "candidates": str(len(candidates)),
        "judged on every question": str(count["done"]),
        "given up early": str(count["stopped"]),
        "failed": str(count["failed"]),
        "model evaluations": f"{sum(c.evaluations for c in candidates):,}",
        "judging": f"{seconds / 60:.1f} min of one core",
        "found by": f"candidate #{evolved.winner.number}",
    }
    items = "".join(f"<div><dt>{escape(k)}</dt><dd>{escape(v)}</dd></div>" for k, v in facts.items())
    return f"<dl>{items}</dl>"


def _scores(found: Findings) -> str:
    rows = [
        (s.name, f"<code>{escape(s.text)}</code>", str(s.calls), *_pair(s.evolution), *_pair(s.validation))
        for s in found.scores
    ]
    head = ("", "program", "calls", "evolution set", "reduction", "validation set", "reduction")
    return _table(head, ((escape(row[0]), *row[1:]) for row in rows), "scores")


def _pair(compared: Paired | None) -> tuple[str, str]:
    if compared is None:
        return "", ""
    return f"{compared.mean:.4g} ± {compared.deviation:.2g}", f"{compared.reduction:.1f} %"


def _ablation(winner: Candidate, found: Findings) -> str:
    rows = [("<strong>the winner</strong>", f"<code>{escape(winner.text)}</code>", f"{winner.fitness:.3f}")]
    for text, fitness in found.ablation:
        rows.append(
            ("remains", f"<code>{escape(text)}</code>", "fails" if fitness is None else f"{fitness:.3f}")
        )
    return _table(("", "program", "score"), rows, "ablation")


def _family(found: Findings, kinds: dict[int, str]) -> str:
    rows = []
    for c in reversed(found.family):
        by = f"{c.move}, agent {c.agent} ({kinds[c.agent]})" if c.agent else c.move
        parents = ", ".join(f"#{number}" for number in c.parents) or "–"
        rows.append(
            (f"#{c.number}", f"{c.fitness:.3f}", escape(by), parents, f"<code>{escape(c.text)}</code>")
        )
    figure = _figure(charts.embedded(charts.pedigree(found.family)), "ancestors of the winner by score")
    return figure + _table(("", "score", "made by", "from", "program"), rows, "family of the winner")


def _agents(evolved: Evolved, records: Sequence[JournalRecord], kinds: dict[int, str]) -> str:
    rows = []
    made: dict[int, int] = {}
    for candidate in evolved.state.candidates:
        made[candidate.agent] = made.get(candidate.agent, 0) + 1
    for agent in sorted(evolved.state.agents.values(), key=lambda a: -a.rating):
        if isinstance(agent.guidance, str):
            goes_by = escape(agent.guidance[:400])
        else:
            top = sorted(agent.guidance.moves.items(), key=lambda pair: -pair[1])[:4]
            goes_by = ", ".join(f"{name} {share:.0%}" for name, share in top)
        parent = "–" if agent.parent is None else f"#{agent.parent}"
        rows.append(
            (f"#{agent.number}", escape(agent.kind), parent, f"{agent.rating:.0f}",
             str(made.get(agent.number, 0)), goes_by)
        )  # fmt: skip
    figure = _figure(charts.embedded(charts.ratings(records, kinds)), "ratings of the agents over the races")
    head = ("agent", "kind", "child of", "rating", "proposals", "goes by")
    return figure + _table(head, rows, "agents")


def _table(head: Sequence[str], rows: Iterable[Sequence[str]], name: str) -> str:
    cells = "".join(f'<th scope="col">{cell}</th>' for cell in head)
    body = "".join(
        "<tr>" + "".join(f"<td{_long(cell)}>{cell}</td>" for cell in row) + "</tr>" for row in rows
    )
    return (
        f'<div class="rows" tabindex="0" role="region" aria-label="{escape(name)}"><table><thead><tr>{cells}'
        f"</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _long(cell: str) -> str:
    return ' class="text"' if "<code>" in cell or len(cell) > 60 else ""


def _section(title: str, body: str, said: str = "") -> str:
    words = f"<p>{escape(said)}</p>" if said else ""
    return f"<section><h2>{escape(title)}</h2>{words}{body}</section>"


def _scroll(body: str, name: str) -> str:
    return f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(name)}">{body}</div>'


def _figure(address: str, said: str) -> str:
    return f'<figure class="wide"><img class="plot" alt="{escape(said)}" src="{address}"></figure>'
