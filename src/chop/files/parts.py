"""Parts of a file: which are asked next, in smaller parts where they fail, and how a worker answers one."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor

from chop.core.bands import can_be_told
from chop.core.conformal import ConformalScores
from chop.core.metrics import rel_l2
from chop.core.model import FrozenModel
from chop.core.program import Program, Result
from chop.files.models_and_programs import choose_model
from chop.files.questions import QuestionFile, Questions
from chop.files.sources import Values
from chop.runs.pool.contract import portable

TRIALS = 64
"""Questions that are tried alone before all are held to be unanswerable."""
DEATH_TRIALS = 16
"""Trials that a question counts for which took its workers down: each costs seconds."""


@dataclass(frozen=True, order=True)
class Part:
    """Questions ``first`` to ``last`` (not included)."""

    first: int
    last: int

    def __len__(self) -> int:
        return self.last - self.first

    def halves(self) -> tuple[Part, Part]:
        """Its two halves; it has two questions or more."""
        middle = (self.first + self.last) // 2
        return Part(self.first, middle), Part(middle, self.last)


def remaining_parts(total: int, size: int, done: Collection[Part]) -> Iterator[Part]:
    """What is left to ask of ``total`` questions in pieces of ``size``, of which some parts are done.

    Pieces, and parts of them, are always the same: what is asked together does not depend on what is done.
    """
    inside: dict[int, list[Part]] = {}
    for part in done:
        inside.setdefault(part.first // size, []).append(part)
    for first in range(0, total, size):
        yield from _remaining(Part(first, min(first + size, total)), inside.get(first // size, []))


def _remaining(part: Part, done: list[Part]) -> Iterator[Part]:
    within = [one for one in done if part.first <= one.first and one.last <= part.last]
    if not within:
        yield part
    elif part not in within:
        for half in part.halves():
            yield from _remaining(half, within)


class PartQueue:
    """Parts to ask. One that fails is halved until the questions at fault are found; those are ``reject``-ed.

    Before anything was answered, nothing is halved: questions drawn from the whole file are tried alone
    first, so that a model which can answer none is found out soon.
    """

    def __init__(
        self, parts: Iterable[Part], total: int, any_answered: bool, reject: Callable[[Part, Exception], None]
    ) -> None:
        self._waiting = deque(parts)
        self._any_answered = any_answered
        self._reject = reject
        self._failed: list[tuple[Part, Exception]] = []
        self._trials = random.Random(0).sample(range(total), min(TRIALS, total))
        self._trials_left = TRIALS
        self._trial_under_way = False

    def take(self) -> tuple[tuple[Part, bool], Part] | None:
        """The next part, under itself and whether it is a trial."""
        if self._failed and self._trials and not self._trial_under_way:
            self._trial_under_way = True
            number = self._trials.pop()
            part = Part(number, number + 1)
            return (part, True), part
        if self._waiting:
            part = self._waiting.popleft()
            return (part, False), part
        return None

    def answered(self) -> None:
        """A part, or a trial, was answered: it is worth while to look for those that cannot be."""
        self._any_answered = True
        failed, self._failed = self._failed, []
        for part, error in reversed(failed):
            self.failed(part, error)

    def failed(self, part: Part, error: Exception) -> None:
        """A part was not answered."""
        if not self._any_answered:
            self._failed.append((part, error))
        elif len(part) > 1:
            self._waiting.extendleft(reversed(part.halves()))
        else:
            self._reject(part, error)

    def trial_failed(self, died: bool) -> None:
        """A trial failed; raises the first error if that was the last one and nothing worked."""
        self._trial_under_way = False
        self._trials_left -= DEATH_TRIALS if died else 1
        if self._failed and (not self._trials or self._trials_left <= 0):
            raise min(self._failed, key=lambda one: one[0])[1]


@dataclass(frozen=True, eq=False)
class FinishedPart:
    """What is known of a part that is finished, beside its answers."""

    reason: str | None
    """Why it could not be answered, if so."""
    columns: Mapping[str, Values] = field(default_factory=dict)
    """A number of each kind for each of its questions."""
    calls: int = 0
    rounds: int = 0


@dataclass(frozen=True, eq=False)
class AnsweringWork:
    """Makes the work of a worker, who opens the file and loads the model itself where they are named."""

    path: Path
    """The questions, or a name for those in memory."""
    opened: QuestionFile | None
    """The same, where the worker is in this process or the questions are in memory."""
    program: Program
    model: str | FrozenModel
    validate: bool
    band: float = 0.0
    """The level of the bands around the answers; 0: none."""
    scores: ConformalScores | None = None
    """What past questions say of the program's errors, where it was calibrated."""

    @property
    def layers(self) -> int:
        """How many numbers there are for each value: itself, and its bounds."""
        return 3 if self.band else 1

    def __call__(self) -> Callable[[Part], tuple[Values, FinishedPart] | Exception]:
        model = choose_model(self.model) if isinstance(self.model, str) else self.model
        file = QuestionFile(self.path) if self.opened is None else self.opened

        def work(part: Part) -> tuple[Values, FinishedPart] | Exception:
            try:
                questions = file.read(part.first, part.last)
                result = self.program.run(model, questions.prompt, validate=self.validate, trace=False)
                result = result if self.scores is None else result.calibrated(self.scores)
                columns = {
                    "rejected": result.rejected,
                    "error": result.error,
                    "rel_l2": score(result, questions),
                }
                numbers = {name: found.cpu().numpy() for name, found in columns.items() if found is not None}
                layers = torch.stack([result.values, *bounds(result, self.band)], dim=1)
                values = layers.cpu().numpy().astype(file.dtype, copy=False)
                return values, FinishedPart(None, numbers, result.calls, result.rounds)
            except Exception as error:  # an operator of somebody else may raise anything
                return portable(error)

        return work


def bounds(result: Result, level: float) -> tuple[Tensor, ...]:
    """The lower and the upper bound of the answers, NaN where they cannot be told; none without a level."""
    if not level:
        return ()
    if not can_be_told(result.answered, result.scores, level):
        unknown = torch.full_like(result.values, torch.nan)
        return unknown, unknown
    band = result.band(level)
    return band.lower, band.upper


def score(result: Result, questions: Questions) -> Tensor | None:
    """The relative L2 error over what was observed ``(N)``; None where the truth is not known."""
    if questions.target is None:
        return None
    return rel_l2(result.values.cpu(), questions.target, questions.mask)
