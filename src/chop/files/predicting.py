"""A program on all questions of a file, piece by piece, its answers to another file.

Every piece that is answered is kept (`resume`), so the same call goes on where one was stopped. Pieces are
decided by the file and the batch alone: who answers them changes no bit.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from chop import __version__
from chop.core.conformal import ConformalScores
from chop.core.errors import FileError, ModelError, ProgramError
from chop.core.levels import check_level
from chop.core.model import FrozenModel
from chop.core.program import Program
from chop.core.text import program_of
from chop.core.words import short_text
from chop.files.answers import Answers, check_suffix, write_answers
from chop.files.parts import AnsweringWork, Part, PartQueue, remaining_parts
from chop.files.questions import QuestionFile
from chop.files.resume import NOT_FINITE, RunIdentity, UnfinishedRun, partial_folder
from chop.runs.pool import Lost, Pool, Site, pool_named
from chop.runs.pool.contract import sentence
from chop.storage.atomic import atomic_path, check_writable
from chop.storage.json_text import readable

_BAND = 0.9
"""The level of bands where nothing is said."""
_LAYERS = ("values", "lower", "upper")
_LISTED = 5
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
    questions_name: str = "",
    validate: bool = False,
    band: float | None = None,
    scores: ConformalScores | None = None,
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
    ``questions_name`` is what the answers call the questions, where that is not the name of their file.
    ``out`` appears when all is done. Until then what is done is kept beside it, and the same call goes on
    from there, unless ``restart`` is asked for; for that a model that is neither a source nor a torch module
    needs a ``model_name``. A question that cannot be answered is marked; with ``strict`` the first of them is
    raised. ``executor`` is ``"inline"`` (the usual for one worker), ``"processes"`` or ``"ray"``; 0 workers
    means one for each core. ``band`` is the level of the bounds beside the answers (see `Result.band`): 0.9
    where there are answers at the examples to tell them by, if nothing is said; 0 for none. ``scores`` of a
    calibration (`chop.Bank.calibrate`) tell them by past questions instead. ``progress`` hears how many of
    how many questions are done.
    """
    target = Path(out).expanduser()
    check_suffix(target)
    if not partial_folder(target).exists():
        check_writable(target, FileError, overwrite)
    with ExitStack() as opened:
        if not isinstance(questions, QuestionFile):
            questions = opened.enter_context(QuestionFile(questions))
        if target.exists() and questions.path.exists() and target.samefile(questions.path):
            raise FileError(f"{target} holds the questions; give the answers another name")
        size = questions.batch_size() if batch is None else batch
        if size < 1:
            raise FileError(f"a batch needs 1 question or more, not {size}")
        chosen = program_of(program)
        level = _band_level(band, chosen, validate or (scores is not None and not scores.power))
        work = AnsweringWork(questions.path, questions, chosen, model, validate, level, scores)
        identity = RunIdentity.of(work, model_name, size)
        run = opened.enter_context(UnfinishedRun(target, identity, questions, restart, work.layers))
        resumed = len(run)
        if not run.delivered:
            check_writable(target, FileError, overwrite)
            if strict:
                _refuse_rejected(run)
            if resumed < len(questions):
                with _pool(work, workers, executor) as pool:
                    _answer(pool, run, len(questions), size, strict, progress)
            name = model if isinstance(model, str) else model_name
            with atomic_path(target, FileError, overwrite, run.complete_file) as partial:
                write_answers(partial, target.suffix, _answers(questions, work, (questions_name, name), run))
                run.deliver()
        run.discard()
        return _summary(run, resumed)


def _pool(work: AnsweringWork, workers: int, executor: str | None) -> Pool:
    count = workers or os.cpu_count() or 1
    where = executor or ("inline" if count == 1 else "processes")
    here = where == "inline" or not work.path.is_file()
    make = work if here else replace(work, opened=None)
    return pool_named(where, FileError)(Site(make, count, "the model", FileError))


def _answer(
    pool: Pool, run: UnfinishedRun, total: int, size: int, strict: bool, progress: Callable[[int, int], None]
) -> None:
    """Ask what is not finished yet, and keep what comes."""

    def reject(part: Part, error: Exception) -> None:
        run.reject(part, sentence(error))
        progress(len(run), total)

    if run.parts:
        progress(len(run), total)
    queue = PartQueue(remaining_parts(total, size, run.parts), total, run.any_answered(), reject)
    with closing(pool.finished(queue.take)) as outcomes:
        for (part, trial), outcome in outcomes:
            if isinstance(outcome, Lost | Exception):
                error = ModelError(outcome.reason) if isinstance(outcome, Lost) else outcome
                if trial:
                    queue.trial_failed(died=isinstance(outcome, Lost))
                elif strict:
                    raise error
                else:
                    queue.failed(part, error)
                continue
            if not trial:
                values, finished = outcome
                bad = np.flatnonzero(finished.columns["rejected"])
                if strict and len(bad):
                    raise ProgramError(f"question {part.first + int(bad[0])}: {NOT_FINITE}")
                run.add(part, values, finished)
                progress(len(run), total)
            queue.answered()


def _refuse_rejected(run: UnfinishedRun) -> None:
    """What was marked before cannot be let pass now."""
    for question, reason in run.reasons().items():
        raise ProgramError(f"question {question}: {reason}")


def _band_level(asked: float | None, program: Program, judged: bool) -> float:
    """The level of the bands that are written; 0 for none."""
    known = judged or program.reports_held_out
    if asked is None:
        return _BAND if known else 0.0
    if not asked:
        return 0.0
    if not known:
        raise FileError(
            f"bands are told by answers at the examples, which {short_text(program)} does not give: add "
            "--validate, or choose a program that has them, as auto"
        )
    return check_level(asked)


def _answers(
    questions: QuestionFile, work: AnsweringWork, names: tuple[str, str], run: UnfinishedRun
) -> Answers:
    """All answers with notes on where they come from: ``names`` of the questions and of the model."""
    notes: dict[str, Any] = {
        "questions": readable(names[0] or questions.path.name), "program": str(work.program),
        "model": readable(names[1]),
        "calls": _costs(run)[0], "made_with": f"chop {__version__}",
    }  # fmt: skip
    if work.band:
        notes["band"] = work.band
    blocks = {name: run.blocks(layer) for layer, name in enumerate(_LAYERS[: work.layers])}
    return Answers(
        questions.answer_shape, questions.dtype, blocks, run.columns(), run.reasons(), notes,
        questions.answer_grid,
    )  # fmt: skip


def _costs(run: UnfinishedRun) -> tuple[int, int]:
    """Calls and rounds: the same for all parts that were answered."""
    return max((part.calls, part.rounds) for part in run.parts.values())


def _summary(run: UnfinishedRun, resumed: int) -> Summary:
    columns, reasons = run.columns(), run.reasons()
    rejected, (calls, rounds) = columns["rejected"], _costs(run)

    def mean(name: str) -> tuple[float | None, int]:
        if name not in columns:
            return None, 0
        usable = columns[name][~rejected & np.isfinite(columns[name])].astype(np.float64)
        return (float(usable.mean()), len(usable)) if len(usable) else (float("nan"), 0)

    rel, scored = mean("rel_l2")
    return Summary(
        questions=len(rejected),
        rejected=len(reasons),
        first_rejected=tuple(Rejected(*one) for one in list(reasons.items())[:_LISTED]),
        resumed=resumed,
        calls=calls,
        rounds=rounds,
        error=mean("error")[0],
        rel_l2=rel,
        scored=scored,
    )
