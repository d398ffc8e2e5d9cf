"""Answers side by side: the bare model, the program, `auto` and what was pinned; rollouts as a movie."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from html import escape
from typing import Any

import numpy as np
from nicegui import ui

from chop.pictures.views import Curve, View, is_lines, views_of
from chop.studio.chart_row import ChartRow
from chop.studio.charts import answers_chart, error_chart, map_chart, view_chart
from chop.studio.copying import as_commands, as_python
from chop.studio.jobs import (
    Exported,
    ExportJob,
    ProgramAnswer,
    Refused,
    RolledOut,
    RolloutJob,
    RunStages,
    ShownQuestion,
    StagesJob,
)
from chop.studio.questions import Page
from chop.studio.tab import Tab, error_line

EXPORTS = {
    "picture": ".png", "trace page": ".html", "program file": ".txt", "question": ".h5", "record": ".json",
}  # fmt: skip
NAMES = ("raw", "program", "auto")
"""Of the answers, as they are shown."""
PATIENCE = 0.3
"""Seconds after which answers that are there are shown, and those that are not are waited for aloud."""
FRAME = 0.12
"""Seconds a frame of a movie stays."""


@dataclass(frozen=True, eq=False)
class Pin:
    """An answer that is kept for comparison, with the page it belongs to."""

    name: str
    page: Page
    words: str
    answer: ProgramAnswer


class ResultsPanel:
    """Runs programs and shows what came of it."""

    def __init__(
        self,
        tab: Tab,
        shown: Callable[[], ShownQuestion | None],
        show_stages: Callable[[RunStages | None], None],
        use: Callable[[str], None],
    ) -> None:
        self._tab, self._shown, self._show_stages, self._use = tab, shown, show_stages, use
        self._answers: dict[str, ProgramAnswer] = {}
        self._asked: Page | None = None
        self._pins: list[Pin] = []
        self._rolled: dict[str, RolledOut] = {}
        self._task: asyncio.Task[Any] | None = None
        self._runs = 0
        with ui.row().classes("items-center gap-2"):
            self._run_button = ui.button("Run", icon="play_arrow", on_click=self.run)
            self._run_button.props("no-caps data-testid=run")
            self._roll_button = ui.button("Roll out", icon="movie", on_click=self.roll_out)
            self._roll_button.props("outline no-caps data-testid=rollout")
            self._cancel = ui.button("Cancel", icon="close", on_click=self.cancel)
            self._cancel.props("outline no-caps color=negative data-testid=cancel")
            self._cancel.set_visibility(False)
            self._spinner = ui.spinner(size="sm")
            self._spinner.set_visibility(False)
            self._status = (
                ui.label("Ctrl+Enter in the program runs it too")
                .classes("studio-quiet")
                .props('data-testid=status role="status"')
            )
        self._error = error_line("run-error")
        self._table = ui.html(sanitize=False).classes("w-full studio-scroll").props("data-testid=results")
        self._charts = ChartRow("answer-charts", "300px")
        with ui.row().classes("items-center gap-1") as self._keep:
            for name in NAMES:
                pin = ui.button(f"pin {name}", icon="push_pin", on_click=lambda _, name=name: self._pin(name))
                pin.props(f"flat dense no-caps data-testid=pin-{name}")
            unpin = ui.button("unpin all", on_click=self._unpin)
            unpin.props("flat dense no-caps data-testid=unpin")
            built = ui.button("use what auto built", on_click=self._use_built)
            built.props("flat dense no-caps data-testid=use-built")
        with ui.expansion("What auto found and why").classes("w-full").props("dense data-testid=evidence"):
            self._told = ui.label().classes("studio-pre studio-code").props("data-testid=told")
            self._found = ChartRow("found-charts", "220px")
        self._build_movie()
        self._build_copies()
        tab.on_look.append(self._draw)

    def _build_movie(self) -> None:
        with ui.column().classes("w-full") as self._movie:
            with ui.row().classes("items-center w-full no-wrap"):
                self._play = ui.button(icon="play_arrow", on_click=self._toggle_play)
                self._play.props('flat dense aria-label="play" data-testid=play')
                self._slider = ui.slider(min=1, max=1, step=1, value=1, on_change=lambda: self._draw_frame())
                self._slider.props('data-testid=frame aria-label="step"').classes("w-full")
                self._step = ui.label("step 1").classes("text-no-wrap").props("data-testid=frame-words")
            self._movie_charts = ChartRow("movie-charts", "280px")
        self._movie.set_visibility(False)
        self._clock = ui.timer(FRAME, self._advance, active=False)

    def _build_copies(self) -> None:
        with ui.row().classes("items-center gap-1"):
            for name, made in (("Python", as_python), ("command", as_commands), ("link", self._link)):
                button = ui.button(f"copy {name}", on_click=lambda _, made=made: self._copy(made))
                button.props(f"flat dense no-caps data-testid=copy-{name.lower()}")
            for name, suffix in EXPORTS.items():
                button = ui.button(name, icon="download", on_click=lambda _, s=suffix: self._export(s))
                button.props(f"flat dense no-caps data-testid=export{suffix.replace('.', '-')}")
        self._copied = (
            ui.textarea().classes("w-full studio-code").props("readonly autogrow dense data-testid=copied")
        )
        self._copied.bind_visibility_from(self._copied, "value", backward=bool)

    # Running

    def run(self) -> None:
        """Raw, the program and auto, on the question of this moment."""
        page = self._tab.page
        if sentence := self._tab.sentence_of(page.program):
            self._error.text = sentence
            return
        self._begin(self._run(page))

    def roll_out(self) -> None:
        """The same three, step after step."""
        if sentence := self._tab.sentence_of(self._tab.page.program):
            self._error.text = sentence
            return
        self._begin(self._roll_out(self._tab.page))

    def cancel(self) -> None:
        """Stop what is under way."""
        if self._task is not None:
            self._task.cancel()

    def _begin(self, work: Any) -> None:
        self.cancel()
        self._error.text = ""
        self._task = self._tab.begin(self._watched(work))

    async def _watched(self, work: Any) -> None:
        task = asyncio.current_task()
        self._cancel.set_visibility(True)
        try:
            await work
        except asyncio.CancelledError:
            self._status.text = "cancelled"
        finally:
            if self._task is task:
                self._cancel.set_visibility(False)
                self._spinner.set_visibility(False)

    async def _outcomes(self, jobs: dict[str, Any], each: Callable[[str, Any], None], show: Any) -> None:
        """All outcomes; where they take long, those that are there are shown already."""
        start, total = time.monotonic(), len(jobs)
        tasks = {asyncio.ensure_future(self._tab.desk.ask(job)): name for name, job in jobs.items()}
        waiting = set(tasks)
        try:
            while waiting:
                done, waiting = await asyncio.wait(waiting, timeout=PATIENCE)
                for task in done:
                    each(tasks[task], task.result())
                if waiting:
                    left = ", ".join(sorted(tasks[task] for task in waiting))
                    self._spinner.set_visibility(True)
                    seconds = time.monotonic() - start
                    self._status.text = (
                        f"{total - len(waiting)} of {total} done, {seconds:.0f} s; waiting for {left}"
                    )
                    if done:
                        show()
        finally:
            for task in waiting:
                task.cancel()

    async def _run(self, page: Page) -> None:
        start = time.perf_counter()
        texts = _asked_of(page)
        self._answers, self._asked = {}, page

        def each(name: str, outcome: Any) -> None:
            if isinstance(outcome, Refused):
                self._error.text = f"{name}: {outcome.sentence}"
            else:
                self._answers[name] = outcome

        jobs = {name: self._tab.run_job(text) for name, text in texts.items()}
        await self._outcomes(jobs, each, self._draw)
        self._runs += 1
        own = sum(answer.milliseconds for answer in self._answers.values())
        seconds = time.perf_counter() - start
        self._status.text = f"run {self._runs}: programs {own:.0f} ms, page {1e3 * seconds:.0f} ms"
        self._draw()
        # The fields of the stages are for whoever points at a box: made after the answers are on the page.
        stages = await self._tab.desk.ask(StagesJob(self._tab.run_job(page.program)))
        if page == self._tab.page:
            self._show_stages(None if isinstance(stages, Refused) else stages)

    async def _roll_out(self, page: Page) -> None:
        steps = getattr(page.question, "horizon", 20)
        texts = _asked_of(page)
        self._rolled = {}

        def each(name: str, outcome: Any) -> None:
            if isinstance(outcome, Refused):
                self._error.text = f"{name}: {outcome.sentence}"
            else:
                self._rolled[name] = outcome

        jobs = {name: RolloutJob(self._tab.run_job(text), steps) for name, text in texts.items()}
        await self._outcomes(jobs, each, lambda: None)
        if self._rolled:
            own = sum(rolled.milliseconds for rolled in self._rolled.values())
            self._status.text = f"{steps} steps by {', '.join(self._rolled)}: {own:.0f} ms"
            self._slider._props["max"] = steps
            self._slider.update()
            self._slider.value = steps
            self._movie.set_visibility(True)
            self._draw_frame()

    def question_changed(self) -> None:
        """Answers belong to their question: what is not pinned goes."""
        shown = self._shown()
        self._roll_button.set_enabled(shown is not None and shown.can_roll)
        if self._asked is not None and (self._asked.question, self._asked.model) == (
            self._tab.page.question,
            self._tab.page.model,
        ):
            return
        self._answers, self._rolled, self._asked = {}, {}, None
        self._clock.active = False
        self._movie.set_visibility(False)
        self._show_stages(None)
        self._draw()

    # Looking

    def _rows(self) -> Iterable[tuple[str, ProgramAnswer]]:
        yield from (
            (name, self._answers[name]) for name in ("raw", "program", "auto") if name in self._answers
        )
        yield from ((pin.name, pin.answer) for pin in self._pins)

    def _draw(self) -> None:
        rows = list(self._rows())
        self._table.content = _table(rows, {pin.name: pin.words for pin in self._pins})
        self._keep.set_visibility(bool(rows))
        shown, here = self._shown(), self._tab.page
        same = [
            (pin.name, pin.answer)
            for pin in self._pins
            if (pin.page.question, pin.page.model) == (here.question, here.model)
        ]
        drawn = [(name, self._answers[name]) for name in NAMES if name in self._answers] + same
        self._charts.show([] if shown is None or not drawn else answer_pictures(shown, drawn, self._tab.dark))
        auto = self._answers.get("auto")
        self._told.text = "" if auto is None else _told(auto)
        self._found.show([] if auto is None else [view_chart(view, self._tab.dark) for view in auto.found])
        if self._rolled:
            self._draw_frame()

    def _draw_frame(self) -> None:
        if not self._rolled:
            return
        step, dark = int(self._slider.value), self._tab.dark
        self._step.text = f"step {step}"
        there = {name: self._rolled[name] for name in NAMES if name in self._rolled}
        curves = [_frame(name, rolled.x, rolled.frames, step) for name, rolled in there.items()]
        first = next(iter(there.values()))
        truth = None if first.truth is None else _frame("truth", first.x, first.truth, step)
        charts = [answers_chart(truth, None, curves, None, ("x", "u"), dark)]
        if first.errors:
            errors = {name: rolled.errors for name, rolled in there.items()}
            charts.append(error_chart(list(errors), errors, dark))
        self._movie_charts.show(charts)

    def _toggle_play(self) -> None:
        self._clock.active = not self._clock.active
        self._play.props(f"icon={'pause' if self._clock.active else 'play_arrow'}")

    def _advance(self) -> None:
        last = int(self._slider._props["max"])
        self._slider.value = int(self._slider.value) % last + 1

    # Keeping

    def _pin(self, name: str) -> None:
        shown, answer = self._shown(), self._answers.get(name)
        if answer is None or shown is None or self._asked is None:
            self._error.text = "run first: there is nothing to pin"
            return
        pin = Pin(
            f"pin {len(self._pins) + 1}", replace(self._asked, program=answer.program), shown.words, answer
        )
        self._pins.append(pin)
        self._draw()

    def _unpin(self) -> None:
        self._pins.clear()
        self._draw()

    def _use_built(self) -> None:
        auto = self._answers.get("auto")
        if auto is not None:
            self._use(auto.built)

    def _link(self, page: Page) -> str:
        return f"{self._tab.address}/?s={page.link()}"

    def _copy(self, made: Callable[[Page], str]) -> None:
        text = made(self._tab.page)
        self._copied.value = text
        ui.clipboard.write(text)
        ui.notify("copied", position="bottom", timeout=1500)

    async def _export(self, suffix: str) -> None:
        made = await self._tab.desk.ask(ExportJob(self._tab.run_job(self._tab.page.program), suffix))
        if isinstance(made, Exported):
            ui.download.content(made.content, made.name)
        else:
            self._error.text = made.sentence


def _asked_of(page: Page) -> dict[str, str]:
    """Who is asked, the slowest first: two workers are done sooner so."""
    return {"auto": "auto", "program": page.program, "raw": "raw"}


def answer_pictures(
    shown: ShownQuestion, rows: list[tuple[str, ProgramAnswer]], dark: bool
) -> list[dict[str, Any]]:
    """Lines on top of each other, or images and maps beside each other."""
    if shown.truth_map is not None or any(answer.map is not None for _, answer in rows):
        maps = [("truth", shown.truth_map), *((name, answer.map) for name, answer in rows)]
        there = [(name, one) for name, one in maps if one is not None]
        known = np.concatenate([one.values for _, one in there])
        known = known[np.isfinite(known)]
        limits = (float(known.min()), float(known.max())) if len(known) else None
        return [map_chart(one.places, one.values, one.stations, name, dark, limits) for name, one in there]
    named = [replace(answer.curve, name=name) for name, answer in rows]
    truth = [] if shown.truth is None else [shown.truth]
    if not is_lines([*truth, *named], shown.labels):
        return [view_chart(_image(curve, shown), dark) for curve in [*truth, *named]]
    given = shown.given if shown.given is not None and is_lines([shown.given], shown.labels) else None
    banded = dict(rows).get("program") or rows[0][1]
    curves = [c for c in (shown.truth, given, banded.band, *named) if c is not None]
    (view,) = views_of(curves, shown.labels)
    along = {id(curve): drawn for curve, drawn in zip(curves, view.curves, strict=True)}
    return [
        answers_chart(
            along.get(id(shown.truth)), along.get(id(given)), [along[id(c)] for c in named],
            along.get(id(banded.band)), view.labels, dark,
        )
    ]  # fmt: skip


def _image(curve: Curve, shown: ShownQuestion) -> View:
    view = views_of([curve], shown.labels)[0]
    return View(view.form, view.curves, view.labels, curve.name, view.notes)


def _frame(name: str, x: Any, frames: Any, step: int) -> Curve:
    return Curve("answer", x[:, None], frames[step - 1], name=name)


def _told(answer: ProgramAnswer) -> str:
    lines = [f"built: {answer.built}", *(f"{name}: {words}" for name, words in answer.told)]
    return "\n".join([*lines, *(f"against trusting it: {reason}" for reason in answer.reasons)])


def _table(rows: list[tuple[str, ProgramAnswer]], words: dict[str, str]) -> str:
    """Numbers of all answers, for eyes and for screen readers."""
    if not rows:
        return ""
    head = (
        "",
        "error",
        "in-context error",
        "90 % band",
        "trust (error ≤ 0.1)",
        "evaluations",
        "ms",
        "program",
    )
    cells = "".join(f'<th scope="col">{name}</th>' for name in head)
    body = "".join(_row(name, answer, words.get(name, "")) for name, answer in rows)
    return f'<table class="studio-table"><thead><tr>{cells}</tr></thead><tbody>{body}</tbody></table>'


def _row(name: str, answer: ProgramAnswer, about: str) -> str:
    trust = "–" if answer.trust is None else f"{100 * answer.trust:.0f} %"
    against = "; ".join(answer.reasons)
    cells = (
        f"<strong>{escape(name)}</strong>" + (f"<br><small>{escape(about)}</small>" if about else ""),
        "not finite" if answer.rejected else _number(answer.error),
        _number(answer.context_error),
        escape(answer.half_width) or "–",
        f'<span title="{escape(against)}">{trust}{" ⚠" if against else ""}</span>',
        str(answer.calls),
        f"{answer.milliseconds:.1f}",
        f"<code>{escape(answer.program)}</code>",
    )
    return f'<tr data-row="{escape(name)}">{"".join(f"<td>{cell}</td>" for cell in cells)}</tr>'


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.3g}"
