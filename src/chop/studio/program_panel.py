"""The program: its text and its drawing are one thing, and either changes the other."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from html import escape
from typing import Any

from nicegui import events, ui

from chop import ChopError, parse, programs, registry
from chop.core.completion import completions
from chop.core.parameters import Operator, Param
from chop.studio.chart_row import ChartRow
from chop.studio.charts import view_chart
from chop.studio.jobs import RunStages
from chop.studio.tab import Tab, error_line

SHOWN_WORDS = 14
"""Completions that are offered at a time."""

# The place of a box is an attribute of its group; events of boxes are heard on the drawing as a whole.
_AT_BOX = """(e) => {
  const box = e.target.closest('[data-path]');
  if (!box) return;
  if (e.type === 'keydown' && e.key !== 'Enter' && e.key !== ' ') return;
  if (e.type === 'keydown') e.preventDefault();
  emit(box.dataset.path);
}"""
_TYPED = "(e) => emit([e.target.value, e.target.selectionStart])"


class ProgramPanel:
    """Text with completion and errors at the column; a drawing whose boxes can be changed."""

    def __init__(self, tab: Tab, run: Callable[[], None]) -> None:
        self._tab = tab
        self._run = run
        self._at = len(tab.page.program)
        self._chosen: str | None = None
        self._stages: RunStages | None = None
        self._seen: str | None = None
        with ui.row().classes("items-center gap-1"):
            for name in ("auto", *programs):
                button = ui.button(name, on_click=lambda _, name=name: self.use(_text_of(name)))
                button.props(f"outline dense no-caps data-testid=catalog-{name}")
                button.tooltip(_text_of(name))
        self._text = ui.textarea("program", value=tab.page.program).classes("w-full studio-code")
        self._text.props("autogrow outlined dense debounce=250 spellcheck=false data-testid=program")
        self._text.on_value_change(lambda change: self._typed(change.value or ""))
        self._text.on("keyup", self._moved, js_handler=_TYPED)
        self._text.on("click", self._moved, js_handler=_TYPED)
        self._text.on("keydown.ctrl.enter", lambda: run())
        self._words = (
            ui.row().classes("gap-1 studio-words").props('data-testid=completions aria-label="completions"')
        )
        self._error = error_line("program-error").classes("studio-code studio-pre")
        self._drawing = ui.html(sanitize=False).classes("studio-drawing").props("data-testid=drawing")
        self._drawing.on("click", lambda event: self._choose(event.args), js_handler=_AT_BOX)
        self._drawing.on("keydown", lambda event: self._choose(event.args), js_handler=_AT_BOX)
        self._drawing.on("mouseover", lambda event: self._look(event.args), js_handler=_AT_BOX)
        self._drawing.on("focusin", lambda event: self._look(event.args), js_handler=_AT_BOX)
        self._editor = ui.column().classes("studio-card w-full").props("data-testid=editor")
        self._editor.set_visibility(False)
        with ui.column().classes("w-full") as self._looked:
            self._stage_words = ui.label().classes("studio-pre").props("data-testid=stage-words")
            self._stage_charts = ChartRow("stage-charts", "220px")
        tab.on_program.append(self._redraw)
        tab.on_look.append(lambda: self._look(self._seen, again=True))
        self._redraw()

    def use(self, text: str) -> None:
        """Another program from elsewhere on the page."""
        self._text.value = text

    def show_stages(self, stages: RunStages | None) -> None:
        """The fields of the last run, to be seen box by box."""
        self._stages = stages
        self._look(self._seen, again=True)

    # The text

    def _typed(self, text: str) -> None:
        self._tab.set_program(text)

    def _moved(self, event: events.GenericEventArguments) -> None:
        text, at = event.args
        self._at = int(at)
        self._words.clear()
        with self._words:
            for found in completions(text, self._at)[:SHOWN_WORDS]:
                after, cursor = found.applied(text, self._at)
                button = ui.button(found.word, on_click=lambda _, t=after, c=cursor: self._complete(t, c))
                button.props("flat dense no-caps tabindex=0").tooltip(found.meaning)

    def _complete(self, text: str, cursor: int) -> None:
        self._text.value = text
        self._words.clear()
        self._text.run_method("focus")
        ui.run_javascript(
            "setTimeout(() => document.querySelector('textarea[data-testid=program]')"
            f".setSelectionRange({cursor}, {cursor}), 50)"
        )

    def _redraw(self) -> None:
        text = self._tab.page.program
        if self._text.value != text:
            self._text.value = text
        self._error.text = self._tab.sentence_of(text)
        if self._error.text:
            return  # the drawing stays that of the last text that was a program
        program = parse(text)
        self._drawing.content = program.draw("svg", interactive=True)
        if self._chosen is not None and self._chosen not in dict(program.operators()):
            self._chosen = None
        self._edit()

    # The drawing

    def _choose(self, path: str) -> None:
        self._chosen = path
        self._edit()

    def _edit(self) -> None:
        """Fields for the box that was chosen."""
        self._editor.clear()
        self._editor.set_visibility(self._chosen is not None)
        if self._chosen is None:
            return
        path, program = self._chosen, parse(self._tab.page.program)
        operator = program.at(path)
        with self._editor:
            with ui.row().classes("items-center w-full"):
                ui.label(operator.head()).classes("studio-code text-bold")
                ui.space()
                remove = ui.button("remove", on_click=lambda: self._change(lambda p: p.removed(path)))
                remove.props("outline dense no-caps color=negative data-testid=edit-remove")
                close = ui.button(icon="close", on_click=lambda: self._close())
                close.props('flat dense aria-label="close" data-testid=edit-close')
            with ui.row().classes("gap-3 items-end"):
                self._menu("insert", program.insertable(path), lambda p, name: p.inserted(path, name))
                self._menu("replace", program.replaceable(path), lambda p, name: p.replaced(path, name))
            with ui.row().classes("gap-4 items-end w-full"):
                for key, param in operator.params().items():
                    if param.kind not in ("program", "programs"):
                        self._parameter(path, operator, key, param)

    def _close(self) -> None:
        self._chosen = None
        self._edit()

    def _menu(self, what: str, names: Any, made: Callable[[Any, str], Any]) -> None:
        options = {name: f"{name}: {registry()[name].summary()}" for name in names}
        field = ui.select(options, label=f"{what} …", with_input=True).classes("w-64")
        field.props(f"dense data-testid=edit-{what}")
        field.on_value_change(
            lambda change: self._change(lambda p: made(p, change.value)) if change.value else None
        )

    def _parameter(self, path: str, operator: Operator, key: str, param: Param) -> None:
        value = getattr(operator, key)

        def changed(new: Any) -> None:
            self._change(lambda program: program.changed(path, **{key: new}))

        mark = f"data-testid=param-{key}"
        with ui.column().classes("gap-0"):
            match param.kind:
                case "flag":
                    ui.switch(key, value=value, on_change=lambda c: changed(c.value)).props(mark)
                case "choice":
                    field = ui.select(list(param.options), value=value, label=key).props(f"dense {mark}")
                    field.classes("w-32").on_value_change(lambda c: changed(c.value))
                case "number" | "whole" if param.low is not None and param.high is not None:
                    _slider(key, value, param, changed, mark)
                case _:
                    text = json.dumps(list(value)) if isinstance(value, tuple) else ""
                    listed = ui.input(key, value=text).props(f"dense debounce=600 {mark}")
                    listed.on_value_change(lambda c: self._listed(c.value, changed))
            ui.tooltip(f"{param.doc} ({param.allowed})")

    def _listed(self, text: str, changed: Callable[[Any], None]) -> None:
        try:
            changed(tuple(json.loads(text or "[]")))
        except (ValueError, TypeError):
            self._error.text = 'write a list such as [1, 2] or ["affine"]'

    def _change(self, edit: Callable[[Any], Any]) -> None:
        try:
            self.use(str(edit(parse(self._tab.page.program))))
        except ChopError as error:
            self._error.text = str(error)

    # The fields at a box

    def _look(self, path: str | None, again: bool = False) -> None:
        if path is None or (path == self._seen and not again):
            return
        self._seen = path
        try:
            operator = parse(self._tab.page.program).at(path)
        except ChopError:
            return
        stages = self._stages
        current = stages is not None and stages.program == self._tab.page.program
        here = [s for s in stages.stages if s.path == path] if current and stages else []
        told = [f"{stage.heading}: {stage.words}" if stage.words else stage.heading for stage in here]
        self._stage_words.text = "\n".join([_help(operator), *told])
        self._stage_charts.show([view_chart(v, self._tab.dark) for s in here for v in s.views][:6])


def _text_of(name: str) -> str:
    return str(programs[name]) if name in programs else name


def _help(operator: Operator) -> str:
    """What an operator does and when it pays, in a line or two."""
    pays = f" Helps {operator.helps}." if operator.helps else ""
    return f"{operator.name}: {operator.summary()}{pays}"


def _slider(key: str, value: float | None, param: Param, changed: Callable[[Any], None], mark: str) -> None:
    """A slider within the declared range; by powers of ten where that spans many."""
    assert param.low is not None
    assert param.high is not None
    low, high, whole = param.low, param.high, param.kind == "whole"
    powers = not whole and low > 0 and high / low > 100
    ends = (math.log10(low), math.log10(high)) if powers else (low, high)
    shown = low if value is None else value
    ui.label(f"{key} = {'left out' if value is None else f'{value:g}'}").classes("text-caption")

    def said(event: events.GenericEventArguments) -> None:
        number = float(event.args)
        number = float(f"{10**number:.4g}") if powers else number
        changed(round(number) if whole else min(max(number, low), high))

    slider = ui.slider(
        min=ends[0], max=ends[1], step=1 if whole else (ends[1] - ends[0]) / 200,
        value=math.log10(max(shown, low)) if powers else shown,
    )  # fmt: skip
    # When it is let go: each change on the way would be a program of its own.
    slider.props(f'dense {mark} aria-label="{escape(key)}"').classes("w-40").on("change", said)
