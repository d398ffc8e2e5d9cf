"""A program run on a prompt with a frozen model: from its requests to the result and the trace."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypedDict

import torch
from torch import Tensor

from chop.core.bands import Band, band_of, can_be_told, half_width_text
from chop.core.conformal import ConformalScores
from chop.core.deprecated import renamed
from chop.core.error_scale import AnsweredPrompt
from chop.core.errors import ProgramError
from chop.core.model import MAX_BYTES, Caller, FrozenModel
from chop.core.prompt import Field, Prompt
from chop.core.spread import Spread
from chop.core.tasks import Answer, HeldOut, Request, schedule
from chop.core.trace import SHOWN_LEVEL, Trace
from chop.core.trace_builder import Stages
from chop.core.trust import Trust, trust_in
from chop.core.units import binary_unit, in_units
from chop.core.words import Facts, cost_facts, outcome_facts, representation, short_text

if TYPE_CHECKING:
    import numpy as np
    import xarray

    from chop.core.forecast import Rollout
    from chop.core.program import Outcome, Program

__getattr__ = renamed(__name__, {"run": "run_program"})

_BANDS_SHOWN = 64
"""Largest batch of which a representation tells the band."""


@dataclass(frozen=True, eq=False)
class Result:
    """A run's answer and everything needed to judge it."""

    values: Tensor
    """``(..., m, c)``; rows marked in ``rejected`` hold non-finite numbers."""
    rejected: Tensor
    """``(...)`` bool: answers that must not be used."""
    error: Tensor | None
    """``(...)`` in-context mean squared error, where it was computed."""
    held_out: Tensor | None
    """``(..., D, m, c)`` the answers at the example inputs, where they were computed."""
    calls: int
    """Q: logical model evaluations for each query, after sharing."""
    rounds: int
    """How many times the program had to wait for the model."""
    prompt: Prompt
    """What was asked."""
    programs: tuple[Program, ...]
    """The fixed program behind each answer of the batch: what was run, or what it built by itself."""
    _trace: Trace | None
    spread: Spread | None = None
    """How far the candidates of a mixture lie from it, here and at the examples, where there are some."""
    scores: ConformalScores | None = None
    """What calibration questions say of the program's errors, where it was calibrated."""

    @property
    def program(self) -> str:
        """The fixed program behind the answer, as text; an error where answers have different ones."""
        texts = dict.fromkeys(map(str, self.programs))
        if len(texts) != 1:
            raise ProgramError(
                f"{len(self.programs)} answers have {len(texts)} different programs: see result.programs"
            )
        return next(iter(texts))

    @property
    def traced(self) -> bool:
        """Whether the run kept its trace."""
        return self._trace is not None

    @property
    def trace(self) -> Trace:
        """What happened, stage by stage; an error where the run was told not to keep it."""
        if self._trace is None:
            raise ProgramError("this run kept no trace; leave trace=False out to have one")
        return self._trace

    @property
    def answered(self) -> AnsweredPrompt:
        """The answer with what there is to judge it by."""
        return AnsweredPrompt(self.prompt, self.values, self.rejected, self.held_out, self.spread)

    def band(self, level: float = 0.9, simultaneous: bool = False) -> Band:
        """Where the truth should lie: ``level`` of it on average, or with ``simultaneous`` all of an answer.

        From the errors at the examples, which needs a program that reports them or ``validate=True``; after
        `calibrated` from those at calibration questions.
        """
        return band_of(self.answered, level, simultaneous, self.scores)

    def trust(self, tolerance: float = 0.1) -> Trust:
        """The probability that the relative L2 error is at most ``tolerance``, and what speaks against it."""
        return trust_in(self.answered, tolerance, self.scores)

    def calibrated(self, scores: ConformalScores) -> Result:
        """The same answer, whose band and trust come from calibration questions."""
        trace = self._trace and replace(self._trace, scores=scores)
        return replace(self, scores=scores, _trace=trace)

    def numpy(self) -> np.ndarray[Any, Any]:
        """The answer as a numpy array ``(..., m, c)``."""
        # numpy has no bfloat16
        values = self.values.float() if self.values.dtype == torch.bfloat16 else self.values
        array: np.ndarray[Any, Any] = values.cpu().numpy()
        return array

    def to_xarray(self) -> xarray.DataArray:
        """The answer with named axes, which needs xarray.

        Dimensions are those of the batch (``question``), then the axes of the grid with their coordinates, or
        ``point`` where the answer's points are no grid, then ``channel`` if there are several. ``rejected``
        and, where they are known, the in-context ``error`` and the bounds ``lower`` and ``upper`` of the 90 %
        band go along as coordinates.
        """
        from chop.core.labelled import result_as_xarray

        return result_as_xarray(self)

    def __repr__(self) -> str:
        facts = outcome_facts(self.values, self.held_out, {})
        return representation("Result", {**facts, **self._band_facts(), **cost_facts(self)})

    def _band_facts(self) -> Facts:
        """How wide the band is, of batches for which that is quickly told."""
        few = self.prompt.batch.numel() <= _BANDS_SHOWN
        if not few or not can_be_told(self.answered, self.scores, SHOWN_LEVEL):
            return {}
        return {"band": half_width_text(self.band(SHOWN_LEVEL))}

    def _repr_html_(self) -> str:
        from chop.pictures.notebook import result_html

        return result_html(self)


class RunOptions(TypedDict, total=False):
    """The options of `Program.run`."""

    validate: bool
    strict: bool
    trace: bool
    max_bytes: int


@dataclass(frozen=True)
class BoundProgram:
    """A program with its model: called with a prompt, it answers."""

    program: Program
    model: FrozenModel
    validate: bool = False
    strict: bool = False
    trace: bool = True
    max_bytes: int = MAX_BYTES

    def __call__(self, prompt: Prompt) -> Result:
        """What ``program.run(model, prompt)`` gives, with the options it was bound with."""
        return run_program(
            self.program, self.model, prompt, self.validate, self.strict, self.trace, self.max_bytes
        )

    def rollout(
        self, prompt: Prompt, steps: int, *, progress: Callable[[int], None] | None = None
    ) -> Rollout:
        """A forecast of many steps: see `chop.rollout`."""
        from chop.core.forecast import rollout

        return rollout(self.program, self.model, prompt, steps, strict=self.strict, progress=progress)

    def __repr__(self) -> str:
        return f"<BoundProgram: {short_text(self.program)}; model {type(self.model).__name__}>"


def validation_error(outputs: Field, held_out: Tensor) -> Tensor:
    """Mean over examples of the mean squared error over observed entries: ``(..., D, m, c) -> (...)``.

    Examples of which nothing was observed do not count; NaN where nothing was observed at all.
    """
    unit = error_unit(outputs)
    return error_in_units(outputs, held_out, unit) * unit.square()


def error_unit(outputs: Field) -> Tensor:
    """The unit ``(...)`` in which errors of the example outputs are squared and compared."""
    sizes = outputs.values.abs()
    seen = sizes if outputs.mask is None else torch.where(outputs.mask, sizes, 0)
    return binary_unit(seen.amax(dim=(-1, -2, -3)))


def error_in_units(outputs: Field, held_out: Tensor, unit: Tensor) -> Tensor:
    """`validation_error` in squares of a unit: numbers that can be compared whatever the size of the data."""
    squared = in_units(outputs.values - held_out, unit[..., None, None, None]).square()
    if outputs.mask is None:
        return squared.mean(dim=(-1, -2)).mean(dim=-1)
    seen = outputs.mask.sum(dim=(-1, -2))
    each = torch.where(outputs.mask, squared, 0).sum(dim=(-1, -2)) / seen.clamp(min=1)
    counted = seen > 0
    return torch.where(counted, each, 0).sum(dim=-1) / counted.sum(dim=-1)


def run_program(
    root: Program,
    model: FrozenModel,
    prompt: Prompt,
    validate: bool,
    strict: bool,
    keep_trace: bool,
    max_bytes: int,
) -> Result:
    """What `Program.run` does."""
    caller = Caller(model, prompt, max_bytes)
    answer = Answer(root, prompt)
    goals: list[Request] = [answer]
    if validate:
        # Padded, as `select` asks, so that the number compares with the errors it would see.
        goals.append(HeldOut(root, prompt, pad=True, gap=0))
    with torch.inference_mode():
        record = schedule(goals, caller)
        outcome: Outcome = record.results[answer]
        held_out = record.results[goals[-1]] if validate else outcome.held_out
        error = None if held_out is None else validation_error(prompt.outputs, held_out)
        rejected = ~torch.isfinite(outcome.values).all(dim=-1).all(dim=-1)
    if strict and bool(rejected.any()):
        rows = rejected.reshape(-1).nonzero().flatten().tolist()
        named = ", ".join(map(str, rows[:5])) + (", ..." if len(rows) > 5 else "")
        raise ProgramError(f"{len(rows)} of {rejected.numel()} answers are not finite (queries {named})")
    trace = None
    if keep_trace:
        stage = Stages(record, prompt.batch)(answer)
        answered = AnsweredPrompt(prompt, outcome.values, rejected, held_out, outcome.spread)
        trace = Trace(str(root), stage, caller.evaluations, len(record.rounds), error, rejected, answered)
    # Copies made outside inference mode are ordinary tensors, which autograd accepts.
    return Result(
        values=outcome.values.clone(),
        rejected=rejected.clone(),
        error=None if error is None else error.clone(),
        held_out=None if held_out is None else held_out.clone(),
        calls=caller.evaluations,
        rounds=len(record.rounds),
        prompt=prompt,
        programs=outcome.built or (root,) * prompt.batch.numel(),
        _trace=trace,
        spread=outcome.spread and Spread(*(part.clone() for part in outcome.spread)),
    )


def held_out_answers(
    programs: Sequence[Program], model: FrozenModel, prompt: Prompt, max_bytes: int = MAX_BYTES
) -> tuple[list[Tensor], int]:
    """What programs answer at the example inputs, ``(..., D, m, c)`` each, and Q for all of them together.

    They are asked in one run, so that they share rounds and whatever two of them need; held out as for
    ``validate``. The query itself is not asked.
    """
    caller = Caller(model, prompt, max_bytes)
    goals = [HeldOut(program, prompt, pad=True, gap=0) for program in programs]
    with torch.inference_mode():
        record = schedule(goals, caller)
    return [record.results[goal].clone() for goal in goals], caller.evaluations
