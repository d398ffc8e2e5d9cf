"""The part of the page where a search is watched: one that runs, whoever started it, or an old journal."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from nicegui import events, run, ui

from chop.core.errors import ChopError, EvolutionError
from chop.evolution.history import SearchHistory
from chop.evolution.journal import JOURNAL_FILE
from chop.evolution.population import Candidate
from chop.evolution.tasks import TASKS
from chop.studio.search_charts import Option, family_option, progress_option, ratings_option
from chop.studio.searches import (
    LEAST_BUDGET,
    MOST_BUDGET,
    folder_below,
    journals_below,
    running_below,
    search_in,
    start_search,
)

INTERVAL = 1.0
"""Seconds between two looks at a journal."""
SHOWN = 12
"""Candidates in the table: so many of the best, and of the latest."""
_CHARTS: dict[str, tuple[str, Callable[[SearchHistory, bool], Option]]] = {
    "progress": ("Scores", progress_option),
    "ratings": ("Ratings of the agents", ratings_option),
    "family": ("Family of the best program", family_option),
}
_WIDE = "white-space: normal; min-width: 18rem; overflow-wrap: anywhere; font-family: monospace"
_COLUMNS: list[dict[str, Any]] = [
    {"name": "number", "label": "#", "field": "number", "sortable": True},
    {"name": "score", "label": "score", "field": "score", "sortable": True},
    {"name": "use", "label": "", "field": "number", "align": "left"},
    {"name": "program", "label": "program", "field": "program", "align": "left", "style": _WIDE},
    {"name": "status", "label": "status", "field": "status", "align": "left", "sortable": True},
    {"name": "made", "label": "made by", "field": "made", "align": "left"},
    {"name": "parents", "label": "from", "field": "parents", "align": "left"},
    {"name": "calls", "label": "calls", "field": "calls", "sortable": True},
]
_STATUS = {"done": "judged", "stopped": "given up early", "failed": "failed"}
_USE_BUTTON = """
<q-td :props="props">
  <q-btn dense outline no-caps size="sm" label="use" :aria-label="'use program #' + props.row.number"
    @click="() => $parent.$emit('use', props.row.number)" />
</q-td>
"""


def search_tab(folder: Path, is_dark: Callable[[], bool], use_program: Callable[[str], None]) -> None:
    """Build it where the page stands. Journals and new searches lie below ``folder``.

    ``use_program`` gets the text of a candidate that somebody wants to try.
    """
    _SearchTab(folder, is_dark, use_program)


def shown_candidates(history: SearchHistory, count: int = SHOWN) -> list[Candidate]:
    """The best candidates and the latest, best first."""
    ranked = sorted(history.candidates, key=lambda candidate: candidate.rank)
    latest = {candidate.number for candidate in history.candidates[-count:]}
    return [c for place, c in enumerate(ranked) if place < count or c.number in latest]


def _row(candidate: Candidate, history: SearchHistory) -> dict[str, Any]:
    made = candidate.move
    if candidate.agent:
        made += f", agent {candidate.agent} ({history.kinds[candidate.agent]})"
    finite = candidate.fitness < float("inf")
    return {
        "number": candidate.number, "score": round(candidate.fitness, 4) if finite else None,
        "program": candidate.text, "status": _STATUS[candidate.status], "made": made,
        "calls": candidate.calls, "parents": ", ".join(f"#{number}" for number in candidate.parents) or "–",
    }  # fmt: skip


def _whole(value: float | None, name: str) -> int:
    if value is None or not float(value).is_integer():
        raise EvolutionError(f"the {name} must be a whole number")
    return int(value)


def _stamp(folder: Path) -> tuple[int, int] | None:
    """What changes when a journal grows; None where there is none."""
    try:
        found = (folder / JOURNAL_FILE).stat()
    except (OSError, ValueError):
        return None
    return found.st_mtime_ns, found.st_size


class _SearchTab:
    """The elements of one client's page, and the journal it looks at."""

    def __init__(self, home: Path, is_dark: Callable[[], bool], use_program: Callable[[str], None]) -> None:
        self._home, self._is_dark, self._use_program = home, is_dark, use_program
        self._folder: Path | None = None
        self._seen: tuple[int, int] | None = None
        self._looked = False
        """whether the folder was read since it was chosen"""
        self._busy = False
        self._history: SearchHistory | None = None
        self._dark = is_dark()
        with ui.column().classes("w-full gap-3 no-wrap") as self._root:
            self._build_form()
            self._status = ui.label().props("data-testid=search-status role=status")
            self._error = ui.label().classes("studio-error").props("data-testid=search-error role=alert")
            with ui.row().classes("w-full gap-3 items-stretch"):
                self._charts = {name: self._build_chart(name, title) for name, (title, _) in _CHARTS.items()}
            self._table = ui.table(rows=[], columns=_COLUMNS, row_key="number", title="Candidates")
            self._table.classes("w-full").style("max-height: 40rem").props(
                "data-testid=search-candidates flat bordered dense"
            )
            self._table.add_slot("body-cell-use", _USE_BUTTON)
            self._table.on("use", self._use)
        self._say("")
        self._tell()
        if running := running_below(home):
            self._show_as_chosen(running.folder)
        ui.timer(INTERVAL, self._tick)
        ui.timer(0.0, self._find_journals, once=True)

    def _build_form(self) -> None:
        with ui.row().classes("w-full gap-3 items-center"):
            self._journal = ui.select(
                [], label="Journal: choose a folder, or type one and press Enter", with_input=True,
                new_value_mode="add-unique", clearable=True, on_change=self._choose,
            )  # fmt: skip
            self._journal.props("data-testid=search-journal").style("flex: 1 1 300px; min-width: 0")
            self._journal.on("popup-show", self._find_journals)
        with ui.row().classes("w-full gap-3 items-center"):
            self._task = ui.select(list(TASKS), label="Task", value=next(iter(TASKS)), on_change=self._tell)
            self._task.props("data-testid=search-task").style("flex: 1 1 130px")
            self._budget = ui.number("Budget", value=60, min=LEAST_BUDGET, max=MOST_BUDGET, precision=0)
            self._budget.props("data-testid=search-budget").style("flex: 1 1 90px")
            self._seed = ui.number("Seed", value=0, min=0, precision=0, on_change=self._tell)
            self._seed.props("data-testid=search-seed").style("flex: 1 1 70px")
            self._start = ui.button("Start", on_click=self._begin).props("data-testid=search-start no-caps")
            self._stop = ui.button("Stop", on_click=self._end)
            self._stop.props("data-testid=search-stop no-caps outline")
        self._where = ui.label().classes("text-sm").props("data-testid=search-where")

    def _build_chart(self, name: str, title: str) -> ui.echart:
        with ui.column().classes("gap-0").style("flex: 1 1 330px; min-width: 0"):
            ui.label(title).classes("text-base font-medium")
            chart = ui.echart({"animation": False, "series": []}).classes("w-full").style("height: 300px")
            return chart.props(f'data-testid=search-{name} role=img aria-label="{title}"')

    # What a person does.

    async def _find_journals(self) -> None:
        found = await run.io_bound(journals_below, self._home) or []
        if not self._root.is_deleted:
            chosen = self._journal.value
            self._journal.set_options([*found, *([chosen] if chosen and chosen not in found else [])])

    async def _choose(self) -> None:
        """Look at the folder that was chosen or typed."""
        try:
            typed = self._journal.value
            folder = folder_below(self._home, typed) if typed else None
        except ChopError as error:
            self._watch(None)
            self._say(str(error))
            return
        if folder != self._folder:
            self._watch(folder)
            await self._tick()

    def _watch(self, folder: Path | None) -> None:
        self._folder, self._seen, self._looked, self._history = folder, None, False, None
        self._say("")
        self._draw()
        self._tell()

    async def _begin(self) -> None:
        """Start a search, or continue the one that is looked at."""
        try:
            folder = self._target()
            budget, seed = _whole(self._budget.value, "budget"), _whole(self._seed.value, "seed")
            start_search(folder, self._task.value or "", budget, seed)
        except ChopError as error:
            self._say(str(error))
            return
        self._say("")
        self._show_as_chosen(folder)
        await self._tick()

    def _show_as_chosen(self, folder: Path) -> None:
        if folder != self._folder:
            self._watch(folder)
        name = self._name(folder)
        others = [one for one in self._journal.options if one != name]
        self._journal.set_options([*others, name], value=name)

    def _name(self, folder: Path) -> str:
        return folder.relative_to(self._home.resolve()).as_posix()

    def _target(self) -> Path:
        """Where a search would begin: where the page looks, unless another one is kept there."""
        typed, history = self._journal.value, self._history
        if typed:
            chosen = folder_below(self._home, typed)
            known = history is not None and history.folder == chosen
            if not known or (
                history and (history.task, history.seed) == (self._task.value, self._seed.value)
            ):
                return chosen
        seed = _whole(self._seed.value, "seed")
        return folder_below(self._home, f"chop-evolve/{self._task.value}-{seed}")

    async def _end(self) -> None:
        search = None if self._folder is None else search_in(self._folder)
        if search is not None:
            self._stop.disable()
            await run.io_bound(search.stop)

    def _use(self, event: events.GenericEventArguments) -> None:
        number, history = event.args, self._history
        if isinstance(number, int) and history is not None and 0 <= number < len(history.candidates):
            self._use_program(history.candidates[number].text)

    # What the page shows.

    async def _tick(self) -> None:
        if self._busy:  # the last look is not over
            return
        self._busy = True
        try:
            await self._look()
        except ChopError as error:
            self._say(str(error))
        finally:
            self._busy = False

    async def _look(self) -> None:
        """Read the journal if it has changed, and draw it."""
        folder, dark = self._folder, self._is_dark()
        if folder is not None:
            now = _stamp(folder)
            if now != self._seen or not self._looked:
                first = not self._looked
                self._seen, self._looked = now, True
                await self._read(folder, first)
            if self._root.is_deleted:
                return
        if dark != self._dark:
            self._dark = dark
            self._draw()
        self._tell()

    async def _read(self, folder: Path, first: bool) -> None:
        search = search_in(folder)
        if self._seen is None and search is not None:  # it has not come to write yet
            return
        history = await run.io_bound(SearchHistory.read, folder)
        if history is None or self._root.is_deleted or folder != self._folder:
            return
        self._history = history
        self._say("")
        if first and history.task in TASKS and (search is None or not search.running):
            self._task.value, self._seed.value = history.task, history.seed  # so that Start continues it
        self._draw()

    def _draw(self) -> None:
        history = self._history
        for name, (_, option) in _CHARTS.items():
            options = self._charts[name].options
            options.clear()
            options.update({"animation": False} if history is None else option(history, self._dark))
            self._charts[name].update()
        shown = [] if history is None else shown_candidates(history)
        self._table.rows = [] if history is None else [_row(candidate, history) for candidate in shown]

    def _tell(self) -> None:
        """The status line, where Start would go, and which buttons can be pressed."""
        search = None if self._folder is None else search_in(self._folder)
        running = search is not None and search.running
        self._start.set_enabled(not running)
        self._stop.set_enabled(search is not None and running and not search.stopped)
        parts = []
        if self._history is not None:
            best, done = self._history.best(), len(self._history.candidates)
            parts.append(
                f"{done} candidates" if search is None else f"{done} of at most {search.budget} candidates"
            )
            if best is not None:
                parts.append(f"best score {best.fitness:.3f} (#{best.number})")
            parts.append(f"{self._history.evaluations:,} model evaluations")
        if search is not None:
            parts.append(search.words())
        nothing = "" if self._folder is not None else "Choose a journal, or start a search."
        self._status.set_text(", ".join(parts) or nothing)
        try:
            target = self._target()
            verb = "continues" if (target / JOURNAL_FILE).is_file() else "begins in"
            self._where.set_text(f"Start {verb} {self._name(target)}")
        except (ChopError, OSError):
            self._where.set_text("")

    def _say(self, sentence: str) -> None:
        self._error.set_text(sentence)
        self._error.set_visibility(bool(sentence))
