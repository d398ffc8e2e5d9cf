"""What a notebook shows of a value: its facts and one small picture.

Everything is inside (no script, nothing to fetch), and text takes the colour of the notebook, so that it can
be read in light and in dark ones; figures stand on paper of their own.
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

import torch

from chop.core.trace import of_query
from chop.core.words import Facts, cost_facts, outcome_facts, prompt_facts, rollout_facts, short_text
from chop.pictures.boxes import layout
from chop.pictures.drawing import as_svg
from chop.pictures.figure import pens_used
from chop.pictures.html import data_uri
from chop.pictures.page import panel_png, pen_key
from chop.pictures.panels import Panel, answer_panel, prompt_panel
from chop.pictures.views import curve_of, image_view

if TYPE_CHECKING:
    from chop.core.forecast import Rollout
    from chop.core.program import Program
    from chop.core.prompt import Prompt
    from chop.core.running import Result
    from chop.core.trace import Trace

LONGEST_HTML = 90_000
"""Longest drawing or text that is put into a notebook."""
SMALLEST = 0.6
"""A wide drawing shrinks to this scale and is scrolled from there."""

_FRAME = "max-width:900px;font:13px/1.45 system-ui,'DejaVu Sans',Arial,sans-serif"
_MONO = "font-family:ui-monospace,'DejaVu Sans Mono',Menlo,Consolas,monospace"
_QUIET = "opacity:.7;font-size:11px"


def program_html(program: Program) -> str:
    """The drawing, with the text below."""
    placed = layout(program)
    fitted = f"max-width:100%;min-width:{SMALLEST * placed.width:.0f}px;height:auto"
    drawing = as_svg(placed, str(program), fitted)
    shown = f'<div style="overflow-x:auto">{drawing}</div>' if len(drawing) <= LONGEST_HTML else ""
    return _frame(f'{shown}<code style="{_MONO};overflow-wrap:anywhere">{escape(short_text(program))}</code>')


def prompt_html(prompt: Prompt) -> str:
    """Examples and query of the first prompt of the batch."""
    return _frame(_facts("Prompt", prompt_facts(prompt)), _figure(prompt_panel(prompt), prompt.batch))


def result_html(result: Result) -> str:
    """The first answer, if the trace was kept (it knows the points), and the error of all."""
    facts = {**outcome_facts(result.values, None, {}), **cost_facts(result)}
    if not result.traced:
        return _frame(_facts("Result", facts))
    trace = result.trace
    facts = {"program": short_text(trace.program), **facts, **trace.judgement()}
    return _frame(_facts("Result", facts), _figure(answer_panel(trace, 0), trace.prompt.batch))


def trace_html(trace: Trace) -> str:
    """What `Trace.explain` says of the first query."""
    text = escape(trace.explain())
    if len(text) > LONGEST_HTML:
        text = text[:LONGEST_HTML].rpartition("\n")[0] + "\n..."
    return _frame(
        f'<pre style="{_MONO};font-size:12px;line-height:1.4;margin:0;max-height:420px;overflow:auto;'
        f'white-space:pre">{text}</pre>'
    )


def rollout_html(rollout: Rollout) -> str:
    """The first forecast, step above step."""
    batch = rollout.rejected_at.shape
    values = of_query(rollout.values, batch, 0)
    steps, points, channels = values.shape
    step, point = torch.meshgrid(torch.arange(steps) + 1, torch.arange(points), indexing="ij")
    one = curve_of("answer", torch.stack([point, step], dim=-1).reshape(-1, 2), values.reshape(-1, channels))
    found = f"channel {channels} of {channels}" if channels > 1 else ""
    panel = Panel("forecast", found, (image_view(one, ("point", "step")),))
    return _frame(_facts("Rollout", rollout_facts(rollout)), _figure(panel, batch))


def _frame(*parts: str) -> str:
    return f'<div style="{_FRAME}">{"".join(parts)}</div>'


def _facts(kind: str, facts: Facts) -> str:
    items = "".join(
        f'<div style="overflow-wrap:anywhere"><div style="{_QUIET}">{escape(name)}</div>{escape(said)}</div>'
        for name, said in facts.items()
    )
    row = "display:flex;flex-wrap:wrap;gap:4px 22px;margin:2px 0 8px"
    return f'<strong>{kind}</strong><div style="{row}">{items}</div>'


def _figure(panel: Panel, batch: torch.Size) -> str:
    """The panel with its key; of a batch the first query."""
    png = panel_png(panel, colors=64)
    first = f"query 0 of 0 to {batch.numel() - 1}" if batch.numel() > 1 else ""
    said = "; ".join(words for words in (first, panel.found) if words)
    keys = "".join(
        f'<span>{pen_key(pen)}<span style="{_QUIET}">{escape(pen.label)}</span></span>'
        for pen in pens_used([panel])
    )
    return (
        f'<img alt="{escape(panel.heading)}" src="{data_uri(png)}" '
        'style="display:block;width:100%;max-width:560px;background:#fff;border-radius:4px">'
        f'<div style="display:flex;flex-wrap:wrap;gap:2px 18px;margin-top:4px">{keys}'
        f'<span style="{_QUIET}">{escape(said)}</span></div>'
    )
