"""A program on all questions of a file, piece by piece, its answers to another file.

Every piece that is answered is kept (`kept`), so the same call goes on where one was stopped. Pieces are
decided by the file and the batch alone: who answers them changes no bit.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from chop import __version__
from chop.core.errors import FileError, ModelError, ProgramError
from chop.core.model import FrozenModel
from chop.core.program import Program
from chop.core.text import program_of
from chop.files.agenda import Agenda, Part, missing
from chop.files.answering import Answered, Answering, Unanswered
from chop.files.answers import check_suffix, open_answers
from chop.files.identity import run_of
from chop.files.kept import NOT_FINITE, Kept, folder_for
from chop.files.questions import QuestionFile
from chop.files.sources import Values
from chop.runs.pool import Lost, Pool, Site, pool_named
from chop.runs.pool.contract import sentence
from chop.storage.atomic import atomic_path, check_writable
from chop.storage.json_text import readable

TOLD = 5
"""Rejected questions that a summary names."""


@dataclass(frozen=True)
class Rejected:
    """A question without an answer that can be used."""

    question: int
    reason: str


@dataclass(frozen=True)
class Summary:
    """What came of all questions of a file."""

    questions: int
    rejected: int
    """Questions that could not be answered, or whose answers are not finite; the file lists them."""
    first_rejected: tuple[Rejected, ...]
    resumed: int
    """Questions that were answered already, by a run that was stopped."""
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
    program: Program | str,
    model: FrozenModel | str,
    out: str | Path,
    *,
    model_name: str = "",
    validate: bool = False,
    batch: int | None = None,
    overwrite: bool = False,
    workers: int = 1,
    executor: str | None = None,
    strict: bool = False,
    restart: bool = False,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Summary:
    """Answer every question of a file; memory is bounded by ``batch`` questions for each worker.

    ``program`` may be given by its text or its name, ``model`` is a model or what `choose_model` takes.
    ``out`` appears when all is done. Until then what is done is kept beside it, and the same call goes on
    from there, unless ``restart`` is asked for; for that a model that is neither a source nor a torch module
    needs a ``model_name``. A question that cannot be answered is marked; with ``strict`` the first of them is
    raised. ``executor`` is ``"inline"`` (the usual for one worker), ``"processes"`` or ``"ray"``; 0 workers
    means one for each core. ``progress`` hears how many of how many questions are done.
    """
    target = Path(out).expanduser()
    check_suffix(target)
    if not folder_for(target).exists():
        check_writable(target, FileError, overwrite)
    if not isinstance(questions, QuestionFile):
        with QuestionFile(questions) as file:
            return predict(
                file, program, model, target, model_name=model_name, validate=validate, batch=batch,
                overwrite=overwrite, workers=workers, executor=executor, strict=strict, restart=restart,
                progress=progress,
            )  # fmt: skip
    if target.exists() and questions.path.exists() and target.samefile(questions.path):
        raise FileError(f"{target} holds the questions; give the answers another name")
    size = questions.batch_size() if batch is None else batch
    if size < 1:
        raise FileError(f"a batch needs 1 question or more, not {size}")
    name = model if isinstance(model, str) else model_name
    chosen = program_of(program)
    run, lasting = run_of(questions, chosen, model, model_name, validate, size)
    with Kept(target, run, questions.answer_shape, questions.dtype, restart, lasting) as kept:
        resumed = len(kept)
        if not kept.delivered:
            check_writable(target, FileError, overwrite)
            if resumed < len(questions):
                with _pool(questions, chosen, model, validate, workers, executor) as pool:
                    _answer(pool, kept, len(questions), size, strict, progress)
            elif strict:
                _refuse_rejected(kept)
            with atomic_path(target, FileError, overwrite, kept.whole) as partial:
                _put_together(partial, target.suffix, kept, questions, _about(questions, chosen, name, kept))
                kept.deliver()
        kept.let_go()
        return _summary(kept, resumed)


def _pool(
    questions: QuestionFile,
    program: Program,
    model: FrozenModel | str,
    validate: bool,
    workers: int,
    executor: str | None,
) -> Pool:
    count = workers or os.cpu_count() or 1
    where = executor or ("inline" if count == 1 else "processes")
    here = where == "inline" or not questions.path.is_file()
    make = Answering(questions if here else questions.path, program, model, validate)
    return pool_named(where, FileError)(Site(make, count, "the model", FileError))


def _answer(
    pool: Pool, kept: Kept, total: int, size: int, strict: bool, progress: Callable[[int, int], None]
) -> None:
    """Ask what is not done yet, and keep what comes."""

    def reject(part: Part, error: Exception) -> None:
        kept.reject(part, sentence(error))
        progress(len(kept), total)

    if strict:
        _refuse_rejected(kept)
    if kept.entries:
        progress(len(kept), total)
    agenda = Agenda(missing(total, size, kept.entries), total, kept.answered(), reject)
    with closing(pool.finished(agenda.take)) as finished:
        for (part, trial), outcome in finished:
            if isinstance(outcome, Answered):
                if not trial:
                    _keep(kept, part, outcome, strict)
                    progress(len(kept), total)
                agenda.worked()
            elif trial:
                agenda.in_vain(died=isinstance(outcome, Lost))
            else:
                error = _error(outcome)
                if strict:
                    raise error
                agenda.failed(part, error)


def _keep(kept: Kept, part: Part, answered: Answered, strict: bool) -> None:
    bad = np.flatnonzero(answered.columns["rejected"])
    if strict and len(bad):
        raise ProgramError(f"question {part.first + int(bad[0])}: {NOT_FINITE}")
    kept.keep(part, answered)


def _error(outcome: Unanswered | Lost) -> Exception:
    return ModelError(outcome.reason) if isinstance(outcome, Lost) else outcome.error


def _refuse_rejected(kept: Kept) -> None:
    """What was marked before cannot be let pass now."""
    for question, reason in kept.reasons().items():
        raise ProgramError(f"question {question}: {reason}")


def _put_together(
    path: Path, suffix: str, kept: Kept, questions: QuestionFile, about: dict[str, Any]
) -> None:
    grid: tuple[tuple[str, Values], ...] = getattr(questions, "answer_grid", ())
    with open_answers(path, suffix, questions.answer_shape, questions.dtype, grid) as answers:
        for block in kept.blocks():
            answers.append(block)
        answers.finish(kept.columns(), kept.reasons(), about)


def _about(questions: QuestionFile, program: Program, model: str, kept: Kept) -> dict[str, Any]:
    return {
        "questions": readable(questions.path.name), "program": str(program), "model": readable(model),
        "calls": _costs(kept)[0], "made_with": f"chop {__version__}",
    }  # fmt: skip


def _costs(kept: Kept) -> tuple[int, int]:
    """Calls and rounds: the same for all parts that were answered."""
    return max((entry.calls, entry.rounds) for entry in kept.entries.values())


def _summary(kept: Kept, resumed: int) -> Summary:
    columns, reasons = kept.columns(), kept.reasons()
    rejected, (calls, rounds) = columns["rejected"], _costs(kept)

    def mean(name: str) -> tuple[float | None, int]:
        if name not in columns:
            return None, 0
        usable = columns[name][~rejected & np.isfinite(columns[name])].astype(np.float64)
        return (float(usable.mean()), len(usable)) if len(usable) else (float("nan"), 0)

    rel, scored = mean("rel_l2")
    return Summary(
        questions=len(rejected),
        rejected=len(reasons),
        first_rejected=tuple(Rejected(*one) for one in list(reasons.items())[:TOLD]),
        resumed=resumed,
        calls=calls,
        rounds=rounds,
        error=mean("error")[0],
        rel_l2=rel,
        scored=scored,
    )


__all__ = ["Rejected", "Summary", "predict"]
