"""``chop.evolve``: from a task to a winner, with a journal that any later call continues."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from chop.evolution.agents import LANGUAGE_MODEL, Proposer
from chop.evolution.errors import EvolutionError
from chop.evolution.executors import Source, executor_named, task_of
from chop.evolution.journal import Head, Journal
from chop.evolution.loop import Evolution, Plan, State
from chop.evolution.population import Candidate
from chop.evolution.space import Space
from chop.evolution.task import Task
from chop.program import Program


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

    def save(self, path: str | Path) -> Path:
        """The winner's text in a file, which `chop.parse` reads."""
        path = Path(path)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"{self.winner.text}\n", encoding="utf-8")
        except OSError as problem:
            raise EvolutionError(f"{path} cannot be written: {problem.strerror}") from None
        return path


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
    head = Head(
        __version__,
        loaded.name,
        seed,
        kinds,
        loaded.data_hash(),
        loaded.model_hash(),
        _rules(loaded, space, guidance),
    )
    with Journal(folder, head) as journal:
        if journal.damaged and show is not None:
            show(
                f"{journal.damaged} damaged lines in {journal.path}: the file is kept beside as it was, "
                "and what they held is judged again"
            )
        judges = make(task, workers or os.cpu_count() or 1, loaded.limits)
        try:
            evolution = Evolution(plan, loaded.start, space, journal, judges, proposers)
            for state in evolution.races():
                if watch is not None:
                    watch(state)
        finally:
            judges.close()
    return Evolved(loaded, evolution.state, folder)


def _rules(task: Task, space: Space, guidance: str) -> str:
    """What else shapes the search, as one line that must not change from one session to the next."""
    rules = {
        "size": task.limits.size, "depth": task.limits.depth, "calls": task.limits.calls,
        "start": task.start, "operators": [operator.name for operator in space.operators],
        "guidance": guidance,
    }  # fmt: skip
    return json.dumps(rules, sort_keys=True)


__all__ = ["LANGUAGE_MODEL", "Evolved", "evolve"]
