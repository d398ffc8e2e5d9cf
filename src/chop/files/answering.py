"""The answers to some questions of a file: what a worker does."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from chop.core.metrics import rel_l2
from chop.core.model import FrozenModel
from chop.core.program import Program, Result
from chop.files.agenda import Part
from chop.files.choosing import choose_model
from chop.files.questions import QuestionFile, Questions
from chop.files.sources import Values
from chop.runs.pool.contract import portable


@dataclass(frozen=True, eq=False)
class Answered:
    """The answers ``(rows, m, c)`` to a part, and a number of each kind for each question."""

    values: Values
    columns: Mapping[str, Values]
    calls: int
    rounds: int


@dataclass(frozen=True)
class Unanswered:
    """Why a part could not be answered as a whole."""

    error: Exception


@dataclass(frozen=True, eq=False)
class Answering:
    """Makes the work of a worker, who opens the file and loads the model itself where they are named."""

    questions: Path | QuestionFile
    program: Program
    model: str | FrozenModel
    validate: bool

    def __call__(self) -> Callable[[Part], Answered | Unanswered]:
        model = choose_model(self.model) if isinstance(self.model, str) else self.model
        file = self.questions if isinstance(self.questions, QuestionFile) else QuestionFile(self.questions)

        def work(part: Part) -> Answered | Unanswered:
            try:
                questions = file.read(part.first, part.last)
                result = self.program.run(model, questions.prompt, validate=self.validate, trace=False)
                return _answered(questions, result, file)
            except Exception as error:  # an operator of somebody else may raise anything
                return Unanswered(portable(error))

        return work


def _answered(questions: Questions, result: Result, file: QuestionFile) -> Answered:
    columns = {"rejected": result.rejected, "error": result.error}
    if questions.target is not None:
        columns["rel_l2"] = missed(result, questions)
    return Answered(
        result.values.cpu().numpy().astype(file.dtype, copy=False),
        {name: numbers.cpu().numpy() for name, numbers in columns.items() if numbers is not None},
        result.calls,
        result.rounds,
    )


def missed(result: Result, part: Questions) -> Tensor:
    """How far the answers are from the truth: the relative L2 error over what was observed, ``(N)``."""
    assert part.target is not None
    return rel_l2(result.values.cpu(), part.target, part.mask)


__all__ = ["Answered", "Answering", "Unanswered", "missed"]
