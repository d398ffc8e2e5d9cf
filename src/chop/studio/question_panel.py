"""The question: picked, typed, drawn or uploaded, and drawn at once with its examples and its truth."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from nicegui import events, run, ui

from chop import ChopError
from chop.problems import conservation, mfc
from chop.problems.air import POLLUTANTS
from chop.storage.atomic import write_bytes
from chop.studio.asking import Folders
from chop.studio.chart_row import ChartRow
from chop.studio.charts import map_chart, view_chart
from chop.studio.jobs import Refused, ShowJob, ShownQuestion
from chop.studio.questions import (
    KINDS,
    KNOTS,
    AirQuestion,
    ControlQuestion,
    FileQuestion,
    LawQuestion,
)
from chop.studio.tab import Tab, error_line

TITLES = {"law": "Conservation law", "control": "Mean-field control", "air": "Air quality", "file": "My file"}
SUFFIXES = (".h5", ".hdf5", ".nc", ".npz")
PAD = (500, 150)
"""Width and height of the field in which an initial condition is drawn."""
SPAN = 2.5
"""Values from the bottom to the middle of that field."""


class QuestionPanel:
    """Fields for each kind of question; what they say is the tab's question."""

    def __init__(self, tab: Tab, upload_bytes: int) -> None:
        self._tab = tab
        self._upload_bytes = upload_bytes
        self._stroke: list[tuple[float, float]] = []
        self.shown: ShownQuestion | None = None
        self.listeners: list[Any] = []
        with ui.tabs().props("dense no-caps align=left inline-label outside-arrows mobile-arrows") as tabs:
            for kind, title in TITLES.items():
                ui.tab(kind, title).props(f"data-testid=kind-{kind}")
        with ui.tab_panels(tabs, value=tab.page.question.kind).classes("w-full") as self._kinds:
            for kind in TITLES:
                with ui.tab_panel(kind).classes("q-pa-sm"):
                    getattr(self, f"_build_{kind}")()
        self._kinds.on_value_change(lambda change: self._switch(change.value))
        with ui.row().classes("items-end"):
            self._model = ui.select(list(tab.models), value=tab.page.model, label="frozen model").classes(
                "w-48"
            )
            self._model.props("data-testid=model").on_value_change(lambda change: tab.set_model(change.value))
        self._error = error_line("question-error")
        self._words = ui.label().classes("studio-quiet").props("data-testid=question-words")
        self._charts = ChartRow("question-charts", "230px")
        tab.on_question.append(self.refresh)
        tab.on_look.append(self._draw)

    # Fields

    def _current(self, kind: type[Any]) -> Any:
        question = self._tab.page.question
        return question if isinstance(question, kind) else kind()

    def _switch(self, kind: str) -> None:
        if kind == self._tab.page.question.kind:
            return
        if kind == "file":
            self._error.text = "" if self._files.options else "upload a file, or type the path of one"
            if not self._files.value:
                return
            self._set(FileQuestion, name=self._files.value)
        else:
            self._set(KINDS[kind])

    def _set(self, kind: type[Any], **changes: Any) -> None:
        """Change the question; a value that cannot be is a sentence below the fields."""
        if any(value is None for value in changes.values()):
            return  # a field that is being typed in
        try:
            self._tab.set_question(replace(self._current(kind), **changes) if changes else kind())
        except ChopError as error:
            self._error.text = str(error)

    def _number(self, kind: type[Any], name: str, label: str, low: float, high: float, step: float) -> None:
        whole = isinstance(getattr(kind(), name) if kind is not FileQuestion else 0, int)
        field = ui.number(label, value=self._value(kind, name), min=low, max=high, step=step)
        field.props(f"dense data-testid={kind.kind}-{name} debounce=300").classes("w-28")
        field.on_value_change(
            lambda change: self._set(
                kind, **{name: None if change.value is None else int(change.value) if whole else change.value}
            )
        )

    def _value(self, kind: type[Any], name: str) -> Any:
        if kind is FileQuestion and not isinstance(self._tab.page.question, FileQuestion):
            return 0
        return getattr(self._current(kind), name)

    def _choice(self, kind: type[Any], name: str, label: str, options: Sequence[Any]) -> ui.select:
        value = getattr(self._current(kind), name)
        known = list(dict.fromkeys([*options, value]))
        field = ui.select(known, value=value, label=label).classes("w-32")
        field.props(f"dense data-testid={kind.kind}-{name}")
        field.on_value_change(lambda change: self._set(kind, **{name: change.value}))
        return field

    def _build_law(self) -> None:
        with ui.row().classes("items-end gap-3"):
            flux = ui.input(
                "flux f(u), any formula", value=self._current(LawQuestion).flux,
                autocomplete=list(conservation.FLUXES.values()),
            )  # fmt: skip
            flux.props("dense data-testid=law-flux debounce=400 spellcheck=false").classes("w-64")
            flux.on_value_change(lambda change: self._set(LawQuestion, flux=change.value or None))
            for text in conservation.FLUXES.values():
                ui.button(text, on_click=lambda _, text=text: flux.set_value(text)).props(
                    "flat dense no-caps"
                )
        with ui.row().classes("items-end gap-3"):
            self._number(LawQuestion, "number", "initial cond. no.", 0, 10**6, 1)
            self._number(LawQuestion, "mean", "mean", -3, 3, 0.1)
            self._number(LawQuestion, "scale", "scale", 0, 3, 0.1)
            self._number(LawQuestion, "examples", "window: examples", 1, 20, 1)
            self._number(LawQuestion, "step", "time step", 0.001, 1, 0.05)
            self._number(LawQuestion, "horizon", "horizon: steps", 1, 144, 1)
        with ui.expansion("Draw the initial condition").props("dense data-testid=law-draw").classes("w-full"):
            ui.label(
                "Draw with the mouse, or write its values. Empty: the random one of the number."
            ).classes("studio-quiet")
            self._pad = ui.interactive_image(
                size=PAD, on_mouse=self._drawn, events=["mousedown", "mousemove", "mouseup"], cross=False,
                sanitize=False,
            )  # fmt: skip
            self._pad.classes("studio-pad").props('data-testid=law-pad aria-label="field to draw in"')
            values = ", ".join(map(str, self._current(LawQuestion).drawn))
            self._values = ui.input(f"{KNOTS} values from -3 to 3, evenly spaced", value=values)
            self._values.props("dense clearable data-testid=law-drawn debounce=500").classes("w-full")
            self._values.on_value_change(lambda change: self._type_values(change.value or ""))
            self._sketch()

    def _build_control(self) -> None:
        with ui.row().classes("items-end gap-3"):
            self._choice(ControlQuestion, "family", "family", list(mfc.FAMILIES))
            self._number(ControlQuestion, "length", "length scale ℓ", 0.05, 5, 0.05)
            self._number(ControlQuestion, "number", "operator no.", 0, 10**6, 1)
            self._number(ControlQuestion, "examples", "examples", 1, 20, 1)

    def _build_air(self) -> None:
        with ui.row().classes("items-end gap-3"):
            if self._tab.folders.data is not None:
                world = ui.select({True: "invented", False: "my data"}, label="world").props(
                    "dense data-testid=air-invented"
                )
                world.value = self._current(AirQuestion).invented
                world.on_value_change(lambda change: self._set(AirQuestion, invented=change.value))
            self._choice(AirQuestion, "region", "region", _regions(self._tab.folders))
            self._choice(AirQuestion, "pollutant", "pollutant", POLLUTANTS)
            self._number(AirQuestion, "lead", "lead (h)", 1, 72, 1)
            self._number(AirQuestion, "number", "hour no.", 0, 10**6, 1)
            hour = ui.input("or the hour", value=self._current(AirQuestion).hour, placeholder="2024-01-15T06")
            hour.props("dense data-testid=air-hour debounce=600").classes("w-36")
            hour.on_value_change(lambda change: self._set(AirQuestion, hour=(change.value or "").strip()))
            self._choice(AirQuestion, "selection", "examples", ("random", "similar"))

    def _build_file(self) -> None:
        with ui.row().classes("items-start gap-3"):
            limit = f"{self._upload_bytes // 2**20} MB"
            upload = ui.upload(
                label=f"Upload HDF5, NetCDF or npz, at most {limit}", auto_upload=True,
                max_file_size=self._upload_bytes, on_upload=self._uploaded,
                on_rejected=lambda: self._say(f"that file is larger than {limit}: use its path instead"),
            )  # fmt: skip
            upload.props(f"data-testid=file-upload accept={','.join(SUFFIXES)}").classes("w-72")
            with ui.column():
                name = self._value(FileQuestion, "name") or None
                known = _files(self._tab.folders)
                self._files = ui.select(
                    sorted({*known, *([name] if name else [])}), value=name, label="file, or its path",
                    with_input=True, new_value_mode="add-unique",
                ).props("dense data-testid=file-name")  # fmt: skip
                self._files.classes("w-72").on_value_change(
                    lambda change: self._set_file(change.value) if change.value else None
                )
                with ui.row():
                    self._number(FileQuestion, "index", "question no.", 0, 10**9, 1)
                    self._number(FileQuestion, "channel", "channel (0: last)", 0, 10**4, 1)

    def _set_file(self, name: str) -> None:
        try:
            self._tab.set_question(FileQuestion(name=name))
        except ChopError as error:
            self._say(str(error))

    def _say(self, sentence: str) -> None:
        self._error.text = sentence

    async def _uploaded(self, event: events.UploadEventArguments) -> None:
        """Kept under what it contains, so that neither tabs nor files of one name disturb each other."""
        content = await event.file.read()
        digest = hashlib.sha256(content).hexdigest()[:12]
        name = re.sub(r"[^A-Za-z0-9._-]", "_", event.file.name)[-100:].lstrip(".") or "file"
        folder = self._tab.folders.uploads / digest
        try:
            await run.io_bound(write_bytes, folder / name, content, ChopError, overwrite=True)
        except ChopError as error:
            self._say(str(error))
            return
        kept = f"{digest}/{name}"
        self._files.set_options(sorted({*self._files.options, kept}))
        self._files.set_value(kept)

    # Drawing an initial condition by hand

    def _drawn(self, event: events.MouseEventArguments) -> None:
        if event.type == "mousedown":
            self._stroke = []
        if event.type == "mousedown" or self._stroke:
            self._stroke.append((event.image_x / PAD[0], SPAN * (1 - 2 * event.image_y / PAD[1])))
        if event.type == "mouseup" and self._stroke:
            self._values.value = ", ".join(f"{value:.3g}" for value in _at_knots(self._stroke))
            self._stroke = []
        self._sketch()

    def _type_values(self, text: str) -> None:
        try:
            drawn = tuple(float(part) for part in re.split(r"[,;\s]+", text.strip()) if part)
        except ValueError:
            self._say("the values of an initial condition are numbers, with commas between them")
            return
        self._set(LawQuestion, drawn=drawn)
        self._sketch()

    def _sketch(self) -> None:
        """The stroke of the moment, or the values that are set."""
        points = self._stroke or [(i / KNOTS, v) for i, v in enumerate(self._current(LawQuestion).drawn)]
        path = " ".join(f"{PAD[0] * x:.1f},{PAD[1] * (1 - y / SPAN) / 2:.1f}" for x, y in points)
        self._pad.content = (
            f'<rect width="{PAD[0]}" height="{PAD[1]}" class="studio-pad-paper"/>'
            f'<line x1="0" x2="{PAD[0]}" y1="{PAD[1] / 2}" y2="{PAD[1] / 2}" class="studio-pad-axis"/>'
            f'<polyline points="{path}" class="studio-pad-line"/>'
        )

    # What it looks like

    def refresh(self) -> None:
        """Ask for the picture of the question of this moment."""
        self._model.value = self._tab.page.model
        self._kinds.value = self._tab.page.question.kind
        self._tab.begin(self._refresh())

    async def _refresh(self) -> None:
        page = self._tab.page
        shown = await self._tab.desk.ask(ShowJob(page.question, page.model))
        if page != self._tab.page and (page.question, page.model) != (
            self._tab.page.question,
            self._tab.page.model,
        ):
            return  # asked about something else meanwhile
        refused = isinstance(shown, Refused)
        self.shown = None if refused else shown
        self._error.text = shown.sentence if refused else ""
        self._draw()
        for listener in self.listeners:
            listener()

    def _draw(self) -> None:
        shown, dark = self.shown, self._tab.dark
        if shown is None:
            self._words.text = ""
            self._charts.show([])
            return
        self._words.text = f"{shown.words}: {shown.examples} examples, {shown.points} points"
        charts = [view_chart(view, dark) for view in shown.views]
        if shown.truth_map is not None:
            there = shown.truth_map
            charts.append(map_chart(there.places, there.values, there.stations, "truth", dark))
        elif shown.truth is not None:
            charts.append(view_chart(truth_view(shown), dark))
        self._charts.show(charts)


def truth_view(shown: ShownQuestion) -> Any:
    """The truth by itself: a line with the query beside it, or an image."""
    from chop.pictures.views import View, is_lines, views_of

    assert shown.truth is not None
    beside = [] if shown.given is None or not is_lines([shown.given], shown.labels) else [shown.given]
    view = views_of([*beside, shown.truth], shown.labels, "observed")[0]
    return View(view.form, view.curves, view.labels, "truth", view.notes)


def _files(folders: Folders) -> list[str]:
    """Files that may hold questions: uploads, and those beside which the studio was started."""
    found = [str(p.relative_to(folders.uploads)) for p in folders.uploads.glob("*/*") if p.suffix in SUFFIXES]
    found += [p.name for p in folders.home.iterdir() if p.suffix in SUFFIXES and p.is_file()]
    return sorted(found)[:200]


def _regions(folders: Folders) -> list[str]:
    own = (
        []
        if folders.data is None
        else [p.stem.removeprefix("dataset_") for p in folders.data.glob("dataset_*.nc")]
    )
    return sorted({"bthsa", "yrd", *own})


def _at_knots(stroke: Sequence[tuple[float, float]]) -> list[float]:
    """A stroke of the mouse at evenly spaced points; where it went twice the last time counts."""
    kept = dict(sorted({round(min(max(x, 0.0), 1.0), 3): y for x, y in stroke}.items()))
    at = np.arange(KNOTS) / KNOTS
    values = np.interp(at, list(kept), list(kept.values()), period=1.0)
    return [float(np.clip(value, -3, 3)) for value in values]
