"""What one browser tab knows: its question, its program, its look. Nothing is shared with other tabs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field, replace
from typing import Any

from nicegui import ui

from chop import ChopError, parse
from chop.studio.asking import Folders
from chop.studio.desk import Desk
from chop.studio.jobs import RunJob
from chop.studio.questions import Page, Question

Redraw = Callable[[], None]


@dataclass(eq=False)
class Tab:
    """The state of one tab; panels change it through these methods and are told afterwards."""

    desk: Desk
    folders: Folders
    models: tuple[str, ...]
    page: Page
    dark: bool = False
    address: str = ""
    on_question: list[Redraw] = field(default_factory=list)
    on_program: list[Redraw] = field(default_factory=list)
    on_look: list[Redraw] = field(default_factory=list)
    _tasks: set[asyncio.Task[Any]] = field(default_factory=set)

    def set_question(self, question: Question) -> None:
        """Ask another question."""
        page = self.page.about(question)
        self._change(
            page, [*(self.on_program if page.program != self.page.program else ()), *self.on_question]
        )

    def set_model(self, model: str) -> None:
        """Ask another network."""
        self._change(replace(self.page, model=model), self.on_question)

    def set_program(self, text: str) -> None:
        """Another program, as text that may be wrong."""
        self._change(replace(self.page, program=text), self.on_program)

    def set_dark(self, dark: bool) -> None:
        """Light or dark: everything drawn is drawn again."""
        self.dark = dark
        for redraw in self.on_look:
            redraw()

    def _change(self, page: Page, told: list[Redraw]) -> None:
        if page == self.page:
            return
        self.page = page
        # The address always restores what is seen; replaced, so that the back button leaves the page.
        ui.navigate.history.replace(f"/?s={page.link()}")
        for redraw in told:
            redraw()

    def run_job(self, program: str) -> RunJob:
        """The question of this moment, to a program."""
        return RunJob(self.page.question, self.page.model, program)

    def sentence_of(self, text: str) -> str:
        """What is wrong with a program's text, with a caret under the place; empty if nothing is."""
        try:
            parse(text)
        except ChopError as error:
            pointer = getattr(error, "pointer", None)
            return str(error) + (f"\n{pointer()}" if pointer else "")
        return ""

    def begin(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Something that takes time, while the page goes on; it ends with the tab."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def close(self) -> None:
        """The tab is gone: nobody waits for its jobs any more."""
        for task in list(self._tasks):
            task.cancel()


def error_line(test_id: str) -> ui.label:
    """Where a panel says what went wrong; empty and unseen at first."""
    line = ui.label().classes("studio-error").props(f'data-testid={test_id} role="alert"')
    line.bind_visibility_from(line, "text", backward=bool)
    return line
