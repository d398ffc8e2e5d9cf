"""A program on all questions of a file, batch by batch, its answers to another file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from chop import __version__
from chop.atomic import refuse, whole
from chop.files.answers import check_suffix, open_answers
from chop.files.errors import FileError
from chop.files.questions import QuestionFile, Questions
from chop.metrics import rel_l2
from chop.model import FrozenModel
from chop.program import Program, Result


@dataclass(frozen=True)
class Summary:
    """What came of all questions of a file."""

    questions: int
    rejected: int
    """Answers that are not finite and must not be used."""
    calls: int
    """Model evaluations for each question."""
    rounds: int
    error: float | None
    """Mean in-context error (mean squared) of the other answers, where it was computed."""
    rel_l2: float | None
    """Their mean relative L2 error, where the file has a target."""
    scored: int
    """How many answers that mean is over."""

    def to_dict(self) -> dict[str, Any]:
        """The same as plain values."""
        return asdict(self)


def predict(
    questions: str | Path | QuestionFile,
    program: Program,
    model: FrozenModel,
    out: str | Path,
    *,
    model_name: str = "",
    validate: bool = False,
    batch: int | None = None,
    overwrite: bool = False,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Summary:
    """Answer every question of a file; memory is bounded by ``batch`` questions.

    ``out`` appears when all is written, or not at all. ``progress`` hears how many of how many questions
    are answered.
    """
    target = Path(out).expanduser()
    check_suffix(target)
    refuse(target, FileError, overwrite)
    if not isinstance(questions, QuestionFile):
        with QuestionFile(questions) as file:
            return predict(
                file, program, model, target, model_name=model_name, validate=validate, batch=batch,
                overwrite=overwrite, progress=progress,
            )  # fmt: skip
    if target.exists() and questions.path.exists() and target.samefile(questions.path):
        raise FileError(f"{target} holds the questions; give the answers another name")
    tally = _Tally()
    with (
        whole(target, FileError, overwrite) as partial,
        open_answers(partial, target.suffix, questions.answer_shape, questions.dtype) as answers,
    ):
        for part in questions.batches(batch):
            result = program.run(model, part.prompt, validate=validate, trace=False)
            answers.append(result.values.cpu().numpy())
            tally.add(part, result)
            progress(part.first + len(part), len(questions))
        summary = tally.summary()
        answers.finish(tally.columns(), _about(questions, program, model_name, summary))
    return summary


def _about(questions: QuestionFile, program: Program, model: str, summary: Summary) -> dict[str, Any]:
    return {
        "questions": questions.path.name, "program": str(program), "model": model, "calls": summary.calls,
        "made_with": f"chop {__version__}",
    }  # fmt: skip


class _Tally:
    """One number of each kind for each question, as the batches come."""

    def __init__(self) -> None:
        self._columns: dict[str, list[Tensor]] = {}
        self._calls = self._rounds = 0

    def add(self, part: Questions, result: Result) -> None:
        self._calls, self._rounds = result.calls, result.rounds
        self._keep("rejected", result.rejected)
        if result.error is not None:
            self._keep("error", result.error)
        if part.target is not None:
            self._keep("rel_l2", missed(result, part))

    def _keep(self, name: str, numbers: Tensor) -> None:
        self._columns.setdefault(name, []).append(numbers.cpu())

    def columns(self) -> dict[str, np.ndarray[Any, Any]]:
        return {name: torch.cat(parts).numpy() for name, parts in self._columns.items()}

    def summary(self) -> Summary:
        columns = {name: torch.cat(parts) for name, parts in self._columns.items()}
        rejected = columns["rejected"]

        def mean(name: str) -> tuple[float | None, int]:
            if name not in columns:
                return None, 0
            kept = columns[name][~rejected & torch.isfinite(columns[name])].double()
            return (float(kept.mean()), kept.numel()) if kept.numel() else (float("nan"), 0)

        rel, scored = mean("rel_l2")
        return Summary(
            questions=rejected.numel(),
            rejected=int(rejected.sum()),
            calls=self._calls,
            rounds=self._rounds,
            error=mean("error")[0],
            rel_l2=rel,
            scored=scored,
        )


def missed(result: Result, part: Questions) -> Tensor:
    """How far the answers are from the truth: the relative L2 error over what was observed, ``(N)``."""
    assert part.target is not None
    values, target = result.values, part.target.to(result.values.device)
    if part.mask is not None:
        values, target = torch.where(part.mask, values, 0), torch.where(part.mask, target, 0)
    return rel_l2(values, target)


__all__ = ["Summary", "missed", "predict"]
