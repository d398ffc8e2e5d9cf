"""The work of a worker process: jobs of the page in, plain values out; every error is a sentence.

It calls the library as any user would. What was made is remembered for the next job about it: moving from
one program to the next must not solve the equation again.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from chop import ChopError, ParseError, Prompt, Result, icon, metrics, parse, rollout
from chop.core.trace import FoundFunction, Told
from chop.files import choose_model
from chop.files.question_writing import write_questions
from chop.pictures.panels import panels_of, prompt_panel
from chop.pictures.views import Curve, answer_band, band_view, curve_of
from chop.studio.asking import AskedQuestion, Folders, ask_question
from chop.studio.jobs import (
    Exported,
    ExportJob,
    Job,
    Map,
    ProgramAnswer,
    Refused,
    RolledOut,
    RolloutJob,
    RunJob,
    RunStages,
    ShowJob,
    ShownQuestion,
    StageShown,
    StagesJob,
)
from chop.studio.questions import AirQuestion, LawQuestion, Question

LEVEL, TOLERANCE = 0.9, 0.1
"""Of the band and the trust that are shown."""
REMEMBERED = 16


@dataclass(frozen=True)
class MakeWorker:
    """Makes the work, in each worker process."""

    folders: Folders
    models: tuple[str, ...] = ()
    """Models of the owner of the machine, beside the bundled ones."""

    def __call__(self) -> Callable[[Job], Any]:
        return Worker(self.folders, self.models)


class Worker:
    """Does jobs; what a user can cause comes back as `Refused`."""

    def __init__(self, folders: Folders, models: tuple[str, ...] = ()) -> None:
        self._folders = folders
        self._models = models
        self._model = lru_cache(maxsize=8)(self._load_model)
        self._asked = lru_cache(maxsize=REMEMBERED)(self._ask)
        self._result = lru_cache(maxsize=REMEMBERED)(self._run)

    def __call__(self, job: Job) -> Any:
        try:
            match job:
                case ShowJob():
                    return _shown(self._asked(job.question, job.model))
                case RunJob():
                    return self._answered(job)
                case StagesJob():
                    return self._stages(job.run)
                case RolloutJob():
                    return self._rolled_out(job)
                case ExportJob():
                    return self._exported(job)
        except ParseError as error:
            return Refused(str(error), error.column)
        except ChopError as error:
            return Refused(str(error))
        except (MemoryError, RecursionError, ArithmeticError, OSError, ValueError) as error:
            return Refused(f"this could not be done: {error or type(error).__name__}")

    def _load_model(self, name: str) -> Any:
        if name not in (*icon.bundled(), *self._models):
            known = ", ".join((*icon.bundled(), *self._models))
            raise ChopError(f"there is no model {name!r:.60} here; there are {known}")
        return choose_model(name)

    def _ask(self, question: Question, model: str) -> AskedQuestion:
        return ask_question(question, self._folders, self._load_channels(question, model))

    def _load_channels(self, question: Question, model: str) -> Any:
        """The network, where the question is made for it."""
        return self._model(model) if isinstance(question, AirQuestion) else None

    def _run(self, job: RunJob) -> tuple[Result, float]:
        asked = self._asked(job.question, job.model)
        program, model = parse(job.program), self._model(job.model)
        start = time.perf_counter()
        result = program.run(model, asked.prompt, validate=asked.prompt.examples > 1)
        return result, 1e3 * (time.perf_counter() - start)

    def _answered(self, job: RunJob) -> ProgramAnswer:
        self._result.cache_clear()  # a run that is asked for is run: its time is told
        asked, (result, milliseconds) = self._asked(job.question, job.model), self._result(job)
        trust = _or_none(lambda: result.trust(TOLERANCE))
        band = _or_none(lambda: result.band(LEVEL))
        at = asked.prompt.at
        context = None if result.error is None else float(result.error)
        return ProgramAnswer(
            program=job.program,
            built=result.program,
            curve=curve_of("answer", at, asked.channel.of(result.values)),
            band=None
            if band is None
            else answer_band(
                at,
                asked.channel.of((band.lower + band.upper) / 2),
                asked.channel.factor * band.half_width[..., asked.channel.index, None],
            ),
            map=_map(asked, result.values),
            error=_error(result.values, asked.target, asked.mask),
            context_error=_finite(context),
            half_width="" if band is None else _half_width(asked, band.half_width),
            trust=None if trust is None else _finite(float(trust.probability)),
            reasons=() if trust is None else trust.reasons[0],
            calls=min(result.calls, parse(job.program).calls(asked.prompt.examples)),
            milliseconds=milliseconds,
            rejected=bool(result.rejected),
            told=tuple(_told(result)),
            found=tuple(
                band_view(name, note.at_query(asked.prompt.batch, 0))
                for name, note in _notes(result)
                if isinstance(note, FoundFunction)
            ),
        )

    def _stages(self, job: RunJob) -> RunStages:
        result, _ = self._result(job)
        panels, _ = panels_of(result.trace, 0)
        return RunStages(
            job.program,
            tuple(
                StageShown(
                    None if panel.step is None else panel.step.stage.path,
                    panel.heading,
                    panel.found,
                    panel.views,
                )
                for panel in panels
            ),
            result.trace.explain(),
        )

    def _rolled_out(self, job: RolloutJob) -> RolledOut:
        asked = self._asked(job.run.question, job.run.model)
        model = self._model(job.run.model)
        start = time.perf_counter()
        rolled = rollout(job.run.program, model, asked.prompt, job.steps)
        milliseconds = 1e3 * (time.perf_counter() - start)
        truth = None if asked.frames is None else asked.frames[: job.steps]
        errors: tuple[float | None, ...] = ()
        if truth is not None and len(truth) == job.steps:
            errors = tuple(map(_finite, metrics.rel_l2(rolled.values, truth).tolist()))
        x = asked.prompt.at[:, -1].double().numpy()
        return RolledOut(
            job.run.program, x, _numbers(asked, rolled.values),
            None if truth is None else _numbers(asked, truth), errors, rolled.calls, milliseconds,
        )  # fmt: skip

    def _exported(self, job: ExportJob) -> Exported:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / f"{_STEMS.get(job.suffix, 'trace')}{job.suffix}"
            if job.suffix == ".txt":
                parse(job.run.program).save(path)
            elif job.suffix == ".h5":
                asked = self._asked(job.run.question, job.run.model)
                write_questions(path, [asked.prompt.flat()])
            else:
                self._result(job.run)[0].trace.save(path)
            return Exported(path.name, path.read_bytes())


_STEMS = {".txt": "program", ".h5": "question"}


def _or_none(made: Callable[[], Any]) -> Any:
    """Bands and trust are known for some runs only."""
    try:
        return made()
    except ChopError:
        return None


def _finite(value: float | None) -> float | None:
    return value if value is not None and abs(value) < float("inf") else None


def _numbers(asked: AskedQuestion, values: Tensor) -> Any:
    told = asked.channel.of(values)[..., 0].double().numpy()
    return np.where(np.isfinite(told), told, np.nan)


def _half_width(asked: AskedQuestion, half_width: Tensor) -> str:
    mean = float(asked.channel.factor * half_width[..., asked.channel.index].mean())
    return f"± {mean:.2g}" if abs(mean) < float("inf") else "unbounded"


def _error(values: Tensor, target: Tensor | None, mask: Tensor | None) -> float | None:
    return None if target is None else _finite(float(metrics.rel_l2(values, target, mask)))


def _map(asked: AskedQuestion, values: Tensor, mask: Tensor | None = None) -> Map | None:
    if not asked.stations:
        return None
    told = _numbers(asked, values)
    seen = asked.channel.seen(mask)
    if seen is not None:
        told = np.where(seen[..., 0].numpy(), told, np.nan)
    return Map(asked.prompt.at[:, -2:].double().numpy(), told, asked.stations)


def _notes(result: Result) -> Iterator[tuple[str, Any]]:
    """What stages of the query itself noted, each once."""
    extra = len(result.prompt.batch)
    for step in result.trace.stages():
        if step.moment in ("enter", "again") and step.stage.kind != "transform":
            continue
        if step.moment != "leave" and len(step.stage.prompt.batch) == extra:
            yield from step.stage.notes.items()


def _told(result: Result) -> Iterator[tuple[str, str]]:
    for name, note in _notes(result):
        if isinstance(note, Told):
            yield name, note.at_query(0)


def _shown(asked: AskedQuestion) -> ShownQuestion:
    prompt = asked.shown()
    panel = prompt_panel(prompt)
    truth = None
    if asked.target is not None:
        told, seen = asked.channel.of(asked.target), asked.channel.seen(asked.mask)
        truth = curve_of("observed", asked.prompt.at, told, seen, name="truth")
    return ShownQuestion(
        words=asked.words,
        examples=prompt.examples,
        points=prompt.query.points,
        views=panel.views,
        truth=truth,
        given=_given(prompt),
        truth_map=None if asked.target is None else _map(asked, asked.target, asked.mask),
        labels=tuple(axis.name for axis in prompt.axes or ()),
        can_roll=_can_roll(prompt),
    )


def _given(prompt: Prompt) -> Curve | None:
    if prompt.query.channels != prompt.outputs.channels:
        return None
    return curve_of("given", prompt.query.coords, prompt.query.values, prompt.query.mask, name="query")


def _can_roll(prompt: Prompt) -> bool:
    """Whether an answer can be the next query, and its frames drawn as lines."""
    same = prompt.query.coords.shape == prompt.at.shape and bool(torch.equal(prompt.query.coords, prompt.at))
    return same and prompt.dimensions == 1 and prompt.query.channels == prompt.outputs.channels


def warm_up(network: str) -> RunJob:
    """A small job that loads what every first answer needs."""
    return RunJob(LawQuestion(), network, "auto")
