"""A run as one HTML page that needs nothing but itself."""

from __future__ import annotations

from html import escape

from chop.core.errors import ChopError
from chop.core.text import parse
from chop.core.trace import Step, Trace
from chop.core.words import axes_text
from chop.pictures.drawing import draw_program
from chop.pictures.figure import Pen, panel_figure, pens_used, places_shown, ramp
from chop.pictures.html import document, facts_list, html_table, plot_image, scroll_region, section
from chop.pictures.panels import Panel, heading_of, panels_of
from chop.pictures.rendering import small_png

PANEL_DPI = 150
_DASHES = {"--": "6 4", "-.": "7 3 2 3", ":": "2 3", "-": ""}


def trace_page(trace: Trace, query: int) -> str:
    """Program, drawing, stages, fields and accounting for one query; no script, nothing to fetch."""
    trace.check_query(query)
    panels, left_out = panels_of(trace, query)
    parts = [
        _accounting(trace, query),
        _drawing(trace),
        _steps(trace, query),
        _fields(panels, left_out),
    ]
    return document(trace.program, "Trace of a program", f"<code>{escape(trace.program)}</code>", parts)


def _accounting(trace: Trace, query: int) -> str:
    prompt = trace.prompt
    facts = {
        "query": f"{query} (of 0 to {trace.queries - 1})" if trace.queries > 1 else "one",
        "examples": str(prompt.examples),
        "input": f"{prompt.inputs.points} points × {prompt.inputs.channels} ch",
        "answer": f"{prompt.at.shape[-2]} points × {prompt.outputs.channels} ch",
        "axes": axes_text(prompt),
        "model evaluations": f"{trace.calls} a query",
        "rounds": str(trace.rounds),
    }
    if trace.error is not None:
        error = trace.at_query(trace.error, query).item()
        facts["in-context error"] = f"{error:.4g} (mean squared)"
    facts |= trace.judgement(query)
    rejected = trace.rejected is not None and bool(trace.at_query(trace.rejected, query))
    facts["rejected"] = "yes" if rejected else "no"
    warning = '<p class="warning">Rejected: the answer is not finite; do not use it.</p>' if rejected else ""
    return f'<section aria-label="accounting">{facts_list(facts)}{warning}</section>'


def _drawing(trace: Trace) -> str:
    """The program as a picture, unless its text names operators that are not known here."""
    try:
        drawing = draw_program(parse(trace.program, max_calls=10**9), "svg")
    except (ChopError, RecursionError):
        return ""
    return section("The program", scroll_region(drawing, "drawing of the program"))


def _steps(trace: Trace, query: int) -> str:
    rows = (_row(trace, step, query) for step in trace.stages())
    return section("What happened", html_table(("step", "found"), rows))


def _row(trace: Trace, step: Step, query: int) -> str:
    heading = heading_of(step)
    found = trace.describe(step, query).removeprefix(heading).removeprefix(": ").removeprefix(", ")
    depth = min(step.depth, 8)
    return (
        f'<tr class="{step.moment}"><td class="depth{depth}"><code>{escape(heading)}</code></td>'
        f"<td>{escape(found)}</td></tr>"
    )


def _fields(panels: list[Panel], left_out: int) -> str:
    more = f"<p>{left_out} more steps are in the table but not drawn.</p>" if left_out else ""
    figures = "".join(_figure(panel) for panel in panels)
    keys = "".join(f"<li>{pen_key(pen)} {escape(pen.label)}</li>" for pen in pens_used(panels))
    return section("The fields", f'<ul class="key">{keys}</ul><div class="panels">{figures}</div>{more}')


def pen_key(pen: Pen) -> str:
    """A piece of the line that a pen draws, on paper."""
    places = places_shown(pen)
    length = 48 / len(places)
    dash = _DASHES.get(pen.dash, "")
    pattern = f' stroke-dasharray="{dash}"' if dash else ""
    lines = "".join(
        f'<path d="M {i * length:g} 6 h {length:g}" stroke="{pen.color or ramp(place)}" '
        f'stroke-width="{pen.width * 1.4:g}" stroke-opacity="{pen.alpha:g}"{pattern}/>'
        for i, place in enumerate(places)
    )
    paper = "vertical-align:middle;margin-right:4px;background:#ffffff"
    return f'<svg class="plot" style="{paper}" width="48" height="12" aria-hidden="true">{lines}</svg>'


def _figure(panel: Panel) -> str:
    found = f"<span>{escape(panel.found)}</span>" if panel.found else ""
    said = f"Fields at {panel.heading}" + (f": {panel.found}" if panel.found else "")
    png = panel_png(panel, colors=128)
    caption = f"<figcaption><strong>{escape(panel.heading)}</strong>{found}</figcaption>"
    return f"<figure>{caption}{plot_image(png, said)}</figure>"


def panel_png(panel: Panel, colors: int) -> bytes:
    """A panel as a small picture."""
    return small_png(panel_figure(panel), PANEL_DPI, colors)
