"""The page of `chop studio`: three panels on one question, and the search beside them."""

from __future__ import annotations

from contextlib import suppress

from nicegui import Client, app, ui

from chop import ChopError, icon
from chop.studio.asking import Folders
from chop.studio.desk import Desk
from chop.studio.program_panel import ProgramPanel
from chop.studio.question_panel import QuestionPanel
from chop.studio.questions import Page
from chop.studio.results_panel import ResultsPanel
from chop.studio.search_tab import search_tab
from chop.studio.settings import Settings
from chop.studio.tab import Tab, error_line
from chop.studio.worker import MakeWorker, warm_up

WORKERS = 2

STYLE = """
:root { --paper: #ffffff; --ink: #1d2127; --quiet: #59616d; --rim: #d6dae0; --panel: #f6f7f9;
  --warn: #a11d00; }
.body--dark { --paper: #16191d; --ink: #e6e9ee; --quiet: #a3acb9; --rim: #363c45; --panel: #1f242a;
  --warn: #ff9a7d; background: var(--paper); color: var(--ink); }
.studio-grid { display: grid; grid-template-columns: minmax(0, 1fr) minmax(0, 1fr); gap: 12px; width: 100%; }
.studio-wide { grid-column: 1 / -1; }
@media (max-width: 900px) { .studio-grid { grid-template-columns: minmax(0, 1fr); } }
.studio-card { border: 1px solid var(--rim); border-radius: 8px; padding: 10px; background: var(--panel);
  min-width: 0; }
.studio-card h2 { font-size: 1.05rem; font-weight: 600; margin: 0 0 4px; line-height: 1.4; }
.studio-charts { display: flex; flex-wrap: wrap; gap: 8px; width: 100%; }
.studio-chart { flex: 1 1 280px; min-width: min(280px, 100%); }
.studio-error { color: var(--warn); font-weight: 600; white-space: pre-wrap; overflow-wrap: anywhere; }
.studio-quiet { color: var(--quiet); font-size: 0.9rem; overflow-wrap: anywhere; }
.studio-code, .studio-code textarea { font-size: 0.86rem;
  font-family: ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; }
.studio-pre { white-space: pre-wrap; overflow-wrap: anywhere; }
.studio-error.studio-code { white-space: pre; overflow-x: auto; max-width: 100%; }
.studio-words { min-height: 30px; }
.studio-drawing { overflow-x: auto; max-width: 100%; width: 100%; border: 1px solid var(--rim);
  border-radius: 6px; background: var(--paper); }
.studio-drawing svg { max-width: 100%; min-width: min(560px, 100% + 300px); height: auto; }
.studio-drawing [data-path] { cursor: pointer; }
.studio-card .q-btn--dense { font-size: 0.8rem; padding: 2px 6px; }
.body--dark .studio-card .text-negative { color: #ff9a7d !important; }
body { --q-primary: #0b6aa2; } body.body--dark { --q-primary: #3d9bd8; }
.nicegui-content { padding: 8px; }
.studio-drawing [data-path]:hover, .studio-drawing [data-path]:focus { outline: 2px solid #0072b2;
  outline-offset: 2px; }
.body--light .chop-paper { fill: #ffffff } .body--light .chop-line { stroke: #333333 }
.body--light .chop-loop { stroke: #a34700 } .body--light .chop-head { fill: #333333 }
.body--light .chop-loop-head { fill: #a34700 } .body--light .chop-note { fill: #333333 }
.body--dark .chop-paper { fill: #16191d } .body--dark .chop-line { stroke: #c9ced6 }
.body--dark .chop-loop { stroke: #f0a35e } .body--dark .chop-head { fill: #c9ced6 }
.body--dark .chop-loop-head { fill: #f0a35e } .body--dark .chop-note { fill: #c9ced6 }
.studio-scroll { overflow-x: auto; }
.studio-table { border-collapse: collapse; font-size: 0.88rem; width: 100%;
  font-variant-numeric: tabular-nums; }
.studio-table th { text-align: left; color: var(--quiet); font-weight: 600; }
.studio-table th, .studio-table td { padding: 4px 12px 4px 0; border-bottom: 1px solid var(--rim);
  vertical-align: top; }
.studio-table td { white-space: nowrap; }
.studio-table td:last-child { white-space: normal; min-width: 240px; }
.studio-table code { overflow-wrap: anywhere; font-size: 0.8rem; }
.studio-pad { width: 100%; max-width: 500px; touch-action: none; cursor: crosshair; }
.studio-pad-paper { fill: var(--paper); stroke: var(--rim); } .studio-pad-axis { stroke: var(--rim); }
.studio-pad-line { fill: none; stroke: #0072b2; stroke-width: 2; }
.body--dark .studio-pad-line { stroke: #56b4e9; }
"""


def build_page(settings: Settings) -> None:
    """Register the page and the workers behind it."""
    folders = Folders(settings.work.resolve(), settings.data and settings.data.resolve())
    models = (*icon.bundled(), *settings.models)
    desk = Desk(MakeWorker(folders, settings.models), WORKERS)
    app.on_startup(lambda: desk.start([warm_up("conservation")] * WORKERS))
    app.on_shutdown(desk.close)

    @ui.page("/", title="CHOP Studio")
    def studio(client: Client, s: str = "") -> None:
        page, sentence = Page(), ""
        if s:
            try:
                page = Page.from_link(s)
            except ChopError as error:
                sentence = str(error)
        if page.model not in models:
            sentence, page = f"there is no model {page.model!r:.60} here", Page()
        tab = Tab(desk, folders, models, page)
        client.on_delete(tab.close)
        _lay_out(tab, settings, sentence)


def _lay_out(tab: Tab, settings: Settings, sentence: str) -> None:
    ui.add_css(STYLE)
    dark = ui.dark_mode()
    tab.address = settings.address

    def set_dark(value: bool) -> None:
        dark.set_value(value)
        tab.set_dark(value)

    with ui.header().classes("items-center no-wrap q-py-xs").style("background: #0b4f7a; color: #ffffff"):
        ui.label("CHOP Studio").classes("text-subtitle1 text-bold text-no-wrap")
        with ui.tabs().props("dense no-caps") as tabs:
            ui.tab("ask", "Ask").props("data-testid=tab-ask")
            ui.tab("search", "Watch a search").props("data-testid=tab-search")
        ui.space()
        look = ui.button(icon="contrast", on_click=lambda: set_dark(not tab.dark))
        look.props('flat dense color=white aria-label="light or dark" data-testid=dark')
    with ui.tab_panels(tabs, value="ask").classes("w-full bg-transparent") as panels:
        with ui.tab_panel("ask").classes("q-pa-sm"):
            warning = error_line("page-error")
            warning.text = sentence
            with ui.element("div").classes("studio-grid"):
                _ask(tab, settings)
        with ui.tab_panel("search").classes("q-pa-sm"):

            def use(text: str) -> None:
                tab.set_program(text)
                panels.set_value("ask")

            search_tab(settings.work / "searches", lambda: tab.dark, use)

    async def connected() -> None:
        with suppress(TimeoutError):
            preferred = await ui.run_javascript(
                "window.matchMedia('(prefers-color-scheme: dark)').matches", timeout=5
            )
            if preferred:
                set_dark(True)

    ui.timer(0.01, connected, once=True)


def _ask(tab: Tab, settings: Settings) -> None:
    with ui.element("section").classes("studio-card").props('aria-label="question"'):
        ui.html("<h2>1. Question</h2>", sanitize=False)
        question = QuestionPanel(tab, settings.upload_bytes)
    with ui.element("section").classes("studio-card").props('aria-label="program"'):
        ui.html("<h2>2. Program</h2>", sanitize=False)
        program = ProgramPanel(tab, lambda: results.run())
    with ui.element("section").classes("studio-card studio-wide").props('aria-label="answers"'):
        ui.html("<h2>3. Answers</h2>", sanitize=False)
        results = ResultsPanel(tab, lambda: question.shown, program.show_stages, program.use)
    question.listeners.append(results.question_changed)
    question.refresh()
