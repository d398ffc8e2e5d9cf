"""``chop.evolve``: from a task to a winner, with a journal that any later call continues."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from chop.core.errors import EvolutionError
from chop.core.program import Program
from chop.evolution.agents import LANGUAGE_MODEL, Proposer
from chop.evolution.executors import Executor, Source, executor_named, task_of
from chop.evolution.head import Head
from chop.evolution.journal import Journal
from chop.evolution.judging import Job
from chop.evolution.loop import STALLED, Evolution, Plan, State
from chop.evolution.parts import parts_of
from chop.evolution.population import Candidate
from chop.evolution.space import Space
from chop.evolution.task import Task
from chop.storage.atomic import check_writable, make_folder, write_text

SAME_ERRORS = 1e-3
"""Relative difference of mean errors that machines and libraries may make, and operators may not."""


@dataclass(frozen=True, eq=False)
class Evolved:
    """What an evolution found."""

    task: Task
    state: State
    out: Path

    @property
    def winner(self) -> Candidate:
        """The best candidate."""
        return self.state.best

    @property
    def program(self) -> Program:
        """The best program."""
        return self.winner.program()

    @property
    def fitness(self) -> float:
        """How many times smaller its mean error is than the start program's, on the evolution set."""
        return self.winner.fitness

    @property
    def without_model(self) -> bool:
        """Whether the best program never calls the model."""
        return self.winner.calls == 0

    def save(self, path: str | Path, overwrite: bool = False) -> Path:
        """The winner's text in a file, which `chop.parse` reads."""
        path = Path(path)
        prepare(path, overwrite)
        return write_text(path, f"{self.winner.text}\n", EvolutionError, overwrite)


def prepare(path: Path, overwrite: bool = False) -> None:
    """Make the folder that a winner is to be saved in; say at once if that cannot be."""
    make_folder(path.parent, EvolutionError)
    check_writable(path, EvolutionError, overwrite)


def evolve(
    task: Source,
    budget: int = 300,
    *,
    out: str | Path | None = None,
    seed: int = 0,
    agents: tuple[str, ...] | list[str] | str = ("builtin",),
    workers: int = 1,
    executor: str = "inline",
    proposers: Mapping[str, Proposer] | None = None,
    guidance: str = "",
    watch: Callable[[State], None] | None = None,
    show: Callable[[str], None] | None = None,
) -> Evolved:
    """Search for a program around a frozen model that answers a task's questions best.

    ``task`` is a `Task`, a name ("conservation", "mfc") or a Python file that defines one. At most
    ``budget`` candidates are judged. Everything is kept in the folder ``out``; the same call with the same
    folder continues, with a larger budget too. ``executor="processes"`` uses ``workers`` processes with
    hard limits of time and memory (0 workers means one for each core). ``proposers`` are agents of other
    kinds, such as ``{"llm": chop.evolution.LanguageModel(...)}``.
    """
    from chop import __version__

    loaded = task_of(task)
    folder = Path(out) if out is not None else Path("chop-evolve") / f"{loaded.name}-{seed}"
    kinds = tuple(agents.split(",")) if isinstance(agents, str) else tuple(agents)
    plan = Plan(budget, seed, kinds, guidance)
    make = executor_named(executor)
    space = Space.of(loaded)
    head = Head(__version__, loaded.name, seed, kinds, parts_of(loaded, space, guidance))
    with Journal(folder, head) as journal:
        if journal.damaged and show is not None:
            show(
                f"{journal.damaged} damaged lines in {journal.path}: the file is kept beside as it was, "
                "and what they held is judged again"
            )
        judges = make(task, workers or os.cpu_count() or 1, loaded.limits)
        try:
            if journal.head.version != __version__:
                _hold_to_errors(journal, judges)
            evolution = Evolution(plan, loaded.start, space, journal, judges, proposers)
            for state in evolution.races():
                if watch is not None:
                    watch(state)
            if evolution.exhausted and show is not None:
                show(
                    f"{STALLED} races in a row proposed nothing new: the search ends after "
                    f"{len(evolution.state.candidates)} candidates"
                )
        finally:
            judges.close()
    return Evolved(loaded, evolution.state, folder)


def _hold_to_errors(journal: Journal, judges: Executor) -> None:
    """Another version may continue if it comes to the same errors, of the start and of the best program."""
    done = [r for r in journal.records if r["kind"] == "candidate" and r["status"] == "done"]
    known = {r["candidate"]: r for r in (*done[:1], *sorted(done, key=lambda r: sum(r["errors"]))[:1])}
    verdicts = judges.run([Job(record["program"]) for record in known.values()])
    for record, verdict in zip(known.values(), verdicts, strict=True):
        if not math.isclose(sum(verdict.errors), sum(record["errors"]), rel_tol=SAME_ERRORS):
            raise EvolutionError(
                f"{journal.folder} was written by version {journal.head.version}, and this one comes to "
                f"other errors for candidate {record['candidate']}, {record['program']}; use another folder"
            )


__all__ = ["LANGUAGE_MODEL", "Evolved", "evolve", "prepare"]
