"""What is worth knowing about a winner: its scores where evolution never looked, its ablation, its family."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from torch import Tensor

from chop.core.errors import ChopError
from chop.core.metrics import Paired, paired
from chop.core.text import parse
from chop.evolution.judging import CachedModel
from chop.evolution.moves import programs_with_one_less
from chop.evolution.population import Candidate
from chop.evolution.search import Evolved
from chop.evolution.task import Task, errors_of
from chop.problems.case import Case


@dataclass(frozen=True)
class Score:
    """A program on the evolution set and on the validation set, against the start program."""

    name: str
    text: str
    calls: int
    evolution: Paired | None
    validation: Paired | None


@dataclass(frozen=True)
class Findings:
    """Everything the report says about the winner."""

    scores: tuple[Score, ...]
    """the start, the known programs, the winner"""
    ablation: tuple[tuple[str, float | None], ...]
    """what remains without one operator, and its fitness on the evolution set (None: it fails)"""
    family: tuple[Candidate, ...]
    """the winner and all it comes from, oldest first"""
    trace: str
    """what the winner does on the first question, in words"""

    @property
    def winner(self) -> Score:
        return self.scores[-1]


def findings(evolved: Evolved) -> Findings:
    """Judge the winner where it counts; asks the model a few hundred questions."""
    winner = evolved.winner
    # What remains of a program without one of its parts asks mostly what the whole asks.
    task = replace(evolved.task, model=CachedModel(evolved.task.model))
    named = {f"start ({task.start})": task.start, **task.known, "the winner": winner.text}
    result = winner.program().run(task.model, task.cases.prompt[:1])
    assert result.trace is not None
    return Findings(
        scores=_scores(task, named),
        ablation=_ablation(task, winner),
        family=family(winner, evolved.state.candidates),
        trace=result.trace.explain(),
    )


def _scores(task: Task, named: Mapping[str, str]) -> tuple[Score, ...]:
    evolution = _compared(task, named, task.cases)
    validation = {} if task.validation is None else _compared(task, named, task.validation)
    examples = task.cases.prompt.examples
    return tuple(
        Score(name, text, parse(text).calls(examples), evolution.get(name), validation.get(name))
        for name, text in named.items()
    )


def _compared(task: Task, named: Mapping[str, str], cases: Case) -> dict[str, Paired]:
    found: dict[str, Paired] = {}
    base: Tensor | None = None
    for name, text in named.items():
        try:
            errors = errors_of(task, text, cases)
            base = errors if base is None else base
            found[name] = paired(base, errors)
        except ChopError:  # a known program need not suit the task; its cell stays empty
            continue
    return found


def _ablation(task: Task, winner: Candidate) -> tuple[tuple[str, float | None], ...]:
    start = sum(winner.raw)
    found: list[tuple[str, float | None]] = []
    for program in programs_with_one_less(winner.program()):
        try:
            errors = errors_of(task, str(program), task.cases)
            own = float(errors.sum())
            found.append((str(program), start / own if own > 0 and own < float("inf") else None))
        except ChopError:
            found.append((str(program), None))
    return tuple(sorted(found, key=lambda pair: (pair[1] is not None, pair[1] or 0.0, pair[0])))


def family(winner: Candidate, candidates: Sequence[Candidate]) -> tuple[Candidate, ...]:
    """A candidate with all its ancestors, oldest first."""
    known = {candidate.number: candidate for candidate in candidates}
    found: dict[int, Candidate] = {}
    waiting = [winner.number]
    while waiting:
        number = waiting.pop()
        if number not in found:
            found[number] = known[number]
            waiting += known[number].parents
    return tuple(found[number] for number in sorted(found))


__all__ = ["Findings", "Score", "family", "findings"]
