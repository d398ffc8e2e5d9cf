"""Searches that the page starts: each is the command ``chop evolve`` in a process of its own.

What it finds is in the journal of its folder, as of any other search; what it says is in a log beside.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

from chop.core.errors import EvolutionError
from chop.evolution.journal import JOURNAL_FILE
from chop.evolution.search import PROPOSALS
from chop.evolution.tasks import TASKS

LOG_FILE = "search.log"
LEAST_BUDGET, MOST_BUDGET = 1 + PROPOSALS, 2000
MOST_SEED = 2**31 - 1
GRACE = 10.0
"""Seconds a search has to end when it is asked to."""
_TAIL = 4096
"""Bytes at the end of a log that its last line is looked for in."""
_DEPTH = 4
_MOST_JOURNALS = 200
"""How deep, and for how many, journals are looked for: somebody may have opened a home folder."""

_STARTED: dict[Path, Search] = {}
"""The last search of each folder: a page that is loaded again finds the one that runs."""


class Search:
    """``chop evolve`` on one of the bundled tasks, begun or continued in a folder."""

    def __init__(self, folder: Path, task: str, budget: int, seed: int) -> None:
        """Start it; `start_search` checks first."""
        self.folder, self.task, self.budget, self.seed = folder, task, budget, seed
        self.stopped = False
        """whether it was asked to end"""
        self._log = folder / LOG_FILE
        # A process that is started where Ctrl-C is ignored (a shell's background job) never hears of it.
        ignored = signal.getsignal(signal.SIGINT) == signal.SIG_IGN
        self._polite = signal.SIGTERM if ignored else signal.SIGINT
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with self._log.open("ab") as log:
                self._begin = log.tell()
                self._process = subprocess.Popen(
                    _command(folder, task, budget, seed), env=_environment(), stdin=subprocess.DEVNULL,
                    stdout=log, stderr=subprocess.STDOUT, start_new_session=True,
                )  # fmt: skip
        except OSError as problem:
            raise EvolutionError(f"no search can begin in {folder}: {problem.strerror or problem}") from None

    @property
    def running(self) -> bool:
        """Whether it has not ended."""
        return self._process.poll() is None

    @property
    def exit(self) -> int | None:
        """How it ended, as the command says it; None while it runs."""
        return self._process.poll()

    @property
    def last_line(self) -> str:
        """The last thing it said; empty if it has said nothing."""
        try:
            with self._log.open("rb") as log:
                end = log.seek(0, os.SEEK_END)
                log.seek(max(self._begin, end - _TAIL))
                said = log.read().decode(errors="replace").split("\n")
        except OSError:
            return ""
        return next((line.strip() for line in reversed(said) if line.strip()), "")

    def words(self) -> str:
        """How it stands, in a few words."""
        code = self.exit
        if code is None:
            return "stopping" if self.stopped else "running"
        if code == 0:
            return "finished"
        if self.stopped:
            return "stopped, everything judged is kept"
        return f"ended with exit code {code}: {self.last_line or 'it said nothing'}"

    def stop(self, grace: float = GRACE) -> None:
        """Have it end, which keeps everything judged, and wait; end it if it does not within ``grace`` s."""
        if not self.running:
            return
        self.stopped = True
        self._process.send_signal(self._polite)
        try:
            self._process.wait(grace)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)  # its workers too
            self._process.wait()


def start_search(folder: Path, task: str, budget: int = 60, seed: int = 0) -> Search:
    """Begin a search in a folder, or continue the one that it holds."""
    if task not in TASKS:  # anything else would be a Python file that is run
        raise EvolutionError(f"there is no task {task!r:.60}; there are {', '.join(TASKS)}")
    if not LEAST_BUDGET <= budget <= MOST_BUDGET:
        raise EvolutionError(f"the budget must be {LEAST_BUDGET} to {MOST_BUDGET} candidates, not {budget}")
    if not 0 <= seed <= MOST_SEED:
        raise EvolutionError(f"the seed must be 0 to {MOST_SEED}, not {seed}")
    folder = folder.resolve()
    before = search_in(folder)
    if before is not None and before.running:
        raise EvolutionError(f"a search is running in {folder} already; stop it first")
    if not _STARTED:
        atexit.register(stop_all)
    _STARTED[folder] = found = Search(folder, task, budget, seed)
    return found


def search_in(folder: Path) -> Search | None:
    """The search that was last started in a folder from here."""
    return _STARTED.get(folder.resolve())


def running_below(home: Path) -> Search | None:
    """The search that was last started from here below a folder and still runs."""
    home = home.resolve()
    found = [s for s in _STARTED.values() if s.folder.is_relative_to(home) and s.running]
    return found[-1] if found else None


def stop_all() -> None:
    """End all searches that run."""
    for search in _STARTED.values():
        search.stop()


def _command(folder: Path, task: str, budget: int, seed: int) -> list[str]:
    return [
        sys.executable, "-m", "chop.cli", "evolve", "--task", task, "--budget", str(budget),
        "--seed", str(seed), "--out", str(folder), "--workers", "1",
    ]  # fmt: skip


def _environment() -> dict[str, str]:
    # Lines that are not wrapped; and no module is taken from the folder the studio happens to stand in.
    return {**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "400", "PYTHONSAFEPATH": "1"}


# Folders that the page may name.


def folder_below(home: Path, typed: str) -> Path:
    """The folder that a person typed, which must be ``home`` or lie below it."""
    try:
        home = home.resolve()
        found = (home / typed.strip()).resolve()
        if found.is_relative_to(home) and (found.is_dir() or not found.exists()):
            return found
    except (OSError, ValueError, RuntimeError):  # too long, a null byte, links in a circle
        pass
    raise EvolutionError(f"{typed[:80]!r} is no folder below {home}")


def journals_below(home: Path) -> list[str]:
    """Folders with a journal, as paths below ``home``; those that are hidden or far down are left out."""
    found: list[str] = []
    home = home.resolve()
    for at, folders, files in os.walk(home):  # follows no links, which may lead out
        here = Path(at).relative_to(home)
        deep = len(here.parts) >= _DEPTH
        folders[:] = [] if deep else sorted(name for name in folders if not name.startswith("."))
        if JOURNAL_FILE in files:
            found.append(here.as_posix())
        if len(found) >= _MOST_JOURNALS:
            break
    return found
