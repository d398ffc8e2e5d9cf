"""The panels of a figure: which moments of a run are shown for one query, and with which functions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from chop.core.prompt import Field, Prompt
from chop.core.trace import FoundFunction, Stage, Step, Trace, of_query
from chop.pictures.views import (
    Curve,
    View,
    answer_band,
    band_view,
    curve_of,
    image_view,
    is_lines,
    match_view,
    views_of,
)

MAX_PANELS = 24
MAX_CURVES = 12
"""Held-out or example functions in one view; more only hide each other."""


@dataclass(frozen=True, eq=False)
class Panel:
    """One moment: a heading (number and operator), what was found, and the functions to look at."""

    heading: str
    found: str
    views: tuple[View, ...]
    step: Step | None = None


def panels_of(trace: Trace, query: int, limit: int = MAX_PANELS) -> tuple[list[Panel], int]:
    """The panels in the order of happening, and how many moments there was no room for.

    What is not told anew (a stage that was shown before) has no panel. Where there is no room, what
    happened inside held-out runs and deep inside the program goes first.
    """
    look = _Look(trace.prompt, query)
    steps = [step for step in trace.stages() if look.is_shown(step)]
    order = sorted(
        range(len(steps)),
        key=lambda i: (steps[i].stage is not trace.root, look.extra(steps[i].stage), steps[i].depth, i),
    )
    kept = sorted(order[: max(limit - 1, 1)])
    shown = [prompt_panel(trace.prompt, query)]
    for i in kept:
        shown += [look.panel(trace, steps[i]), *look.found(trace, steps[i])]
    return shown, len(steps) - len(kept)


def prompt_panel(prompt: Prompt, query: int = 0) -> Panel:
    """What one prompt of a batch shows and asks."""
    look = _Look(prompt, query)
    heading = f"prompt: {prompt.examples} examples, {prompt.inputs.points} points"
    return Panel(heading, look.channel_words(prompt), tuple(look.prompt_views(prompt)))


def answer_panel(trace: Trace, query: int) -> Panel:
    """The last moment of a run: its answer."""
    *_, last = trace.stages()
    return _Look(trace.prompt, query).panel(trace, last)


def heading_of(step: Step) -> str:
    """The stage's number and operator, as `Trace.describe` begins its line."""
    undo = "undo " if step.moment == "leave" else ""
    return f"{step.number}. {undo}{step.stage.title}"


class _Look:
    """One query of the prompt with which a run begins."""

    def __init__(self, root: Prompt, query: int) -> None:
        self.root = root
        self.query = query

    def is_shown(self, step: Step) -> bool:
        if step.moment == "again":
            return False
        return step.moment != "enter" or step.stage.kind == "transform"

    def extra(self, stage: Stage) -> int:
        """How many pairs are held out on the way to this stage."""
        return len(stage.prompt.batch) - len(self.root.batch)

    def panel(self, trace: Trace, step: Step) -> Panel:
        heading = heading_of(step)
        found = trace.describe(step, self.query).removeprefix(heading).removeprefix(": ")
        extra = "; ".join(words for words in (found, self._where(step)) if words)
        return Panel(heading, extra, tuple(self._views(trace, step)), step)

    def found(self, trace: Trace, step: Step) -> list[Panel]:
        """One more panel for the functions that a stage found, if there are any."""
        notes = {} if self.extra(step.stage) or step.moment == "leave" else step.stage.notes
        found = {name: note for name, note in notes.items() if isinstance(note, FoundFunction)}
        if not found:
            return []
        views = (band_view(k, note.at_query(self.root.batch, self.query)) for k, note in found.items())
        return [Panel(f"{heading_of(step)}: found {' and '.join(found)}", "", tuple(views), step)]

    def _where(self, step: Step) -> str:
        """What is drawn, where that is not all there is."""
        stage = step.stage
        if step.moment != "enter":
            return _channel(stage.prompt.outputs)
        words = [self.channel_words(stage.prompt)]
        if self.extra(stage):
            words.append("the prompt that hides the first pair")
        return "; ".join(word for word in words if word)

    def channel_words(self, prompt: Prompt) -> str:
        """Which channel of a prompt is drawn, if there are several."""
        inputs, outputs = _channel(prompt.inputs), _channel(prompt.outputs)
        if inputs == outputs:
            return inputs
        both = (("inputs: ", inputs), ("outputs: ", outputs))
        return "; ".join(where + words for where, words in both if words)

    def _band(self, trace: Trace, step: Step) -> list[Curve]:
        """Around the answer of the whole run, where it is known."""
        band = trace.band(self.query) if step.stage is trace.root else None
        if band is None:
            return []
        at = self._flat(self.root.at, 2)[0]
        return [answer_band(at, (band.lower + band.upper) / 2, band.half_width)]

    def _views(self, trace: Trace, step: Step) -> list[View]:
        stage, prompt = step.stage, step.stage.prompt
        names = _names(prompt)
        if stage.kind == "transform" and step.moment == "enter":
            return self.prompt_views(stage.mapped or prompt)
        if stage.kind == "held_out":
            return self._held_out_views(stage)
        answers = self._answers("answer", stage, stage.values)
        if self.extra(stage):  # one answer for each hidden pair
            return views_of(answers, names)
        inner = [child for child in stage.children if child.kind != "held_out"]
        given = list(self._given(prompt))
        curves = given if is_lines([*given, *answers], names) else []
        curves += self._band(trace, step)
        if stage.kind == "projection" and inner:
            curves += self._answers("before", stage, inner[0].values)
        elif stage.kind in ("validator", "mixture"):
            for i, child in enumerate(inner):
                curves += self._answers("candidate", stage, child.values, _place(i, len(inner)), child.title)
        return views_of([*curves, *answers], names, "answer")

    def prompt_views(self, prompt: Prompt) -> list[View]:
        """What a prompt shows: inputs with the query, and outputs. Held out: the first hidden pair."""
        names = _names(prompt)
        inputs = self._examples("input", prompt.inputs)
        outputs = self._examples("output", prompt.outputs)
        query = self._curve("query", prompt.query, name="query")
        asked = [*inputs, query]
        if is_lines(asked, names) and is_lines(outputs, names):
            (left,), (right,) = views_of(asked, names), views_of(outputs, names)
            return [_titled(left, "inputs and query"), _titled(right, "outputs")]
        if is_lines(asked, names):
            left = _titled(views_of(asked, names)[0], "inputs and query")
        else:
            left = _titled(image_view(query, names), "query")
        return [left, _titled(views_of(outputs[-1:], names)[0], "last example's output")]

    def _held_out_views(self, stage: Stage) -> list[View]:
        """The held-out answers against what was observed at the hidden pairs."""
        prompt, names = stage.prompt, _names(stage.prompt)
        observed = self._examples("observed", prompt.outputs)
        coords = self._flat(prompt.outputs.coords, 3)[0]
        values = self._flat(stage.values, 3)[0]
        shown = _shown(len(values))
        answers = [curve_of("held out", coords[i], values[i], place=_place(i, len(values))) for i in shown]
        if is_lines([*observed, *answers], names):
            return views_of([*observed, *answers], names)
        return [match_view(list(zip(observed, answers, strict=True)))]

    def _given(self, prompt: Prompt) -> Iterator[Curve]:
        if prompt.query.channels == prompt.outputs.channels:
            yield self._curve("given", prompt.query, name="query")

    def _answers(
        self, pen: str, stage: Stage, values: Tensor, place: float = 0.0, name: str = ""
    ) -> list[Curve]:
        """An answer, or one for each hidden pair."""
        at, numbers = self._flat(stage.prompt.at, 2), self._flat(values, 2)
        if not self.extra(stage):
            return [curve_of(pen, at[0], numbers[0], place=place, name=name or pen)]
        count = len(numbers)
        return [
            curve_of("held out", at[i], numbers[i], place=_place(i, count), name=f"answer {i + 1} of {count}")
            for i in _shown(count)
        ]

    def _examples(self, pen: str, part: Field) -> list[Curve]:
        values = self._flat(part.values, 3)[0]
        coords = self._flat(part.coords, 3)[0]
        mask = None if part.mask is None else self._flat(part.mask, 3)[0]
        return [
            curve_of(
                pen, coords[i], values[i], None if mask is None else mask[i], place=_place(i, len(values))
            )
            for i in _shown(len(values))
        ]

    def _curve(self, pen: str, part: Field, **more: Any) -> Curve:
        mask = None if part.mask is None else self._flat(part.mask, 2)[0]
        return curve_of(pen, self._flat(part.coords, 2)[0], self._flat(part.values, 2)[0], mask, **more)

    def _flat(self, tensor: Tensor, trailing: int) -> Tensor:
        """This query's part with one leading axis for everything that was held out."""
        mine = of_query(tensor, self.root.batch, self.query)
        return mine.reshape(-1, *mine.shape[mine.ndim - trailing :])


def _names(prompt: Prompt) -> list[str]:
    return [axis.name for axis in prompt.axes or ()]


def _channel(part: Field) -> str:
    return f"channel {part.channels} of {part.channels}" if part.channels > 1 else ""


def _place(i: int, count: int) -> float:
    return i / max(count - 1, 1)


def _shown(count: int) -> Sequence[int]:
    """Evenly chosen positions, first and last among them, if there are too many."""
    if count <= MAX_CURVES:
        return range(count)
    return sorted({round(i * (count - 1) / (MAX_CURVES - 1)) for i in range(MAX_CURVES)})


def _titled(view: View, title: str) -> View:
    return View(view.form, view.curves, view.labels, title, view.notes)
