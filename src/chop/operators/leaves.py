"""Answers from the prompt alone: what a model has to beat, and what a mixture can lean on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

import torch
from torch import Tensor

from chop.core.errors import ProgramError
from chop.core.grids import nearest_index, resample
from chop.core.parameters import number
from chop.core.program import Leaf, Notes
from chop.core.prompt import Prompt
from chop.core.units import binary_unit, in_units
from chop.operators.domain import time_axis
from chop.operators.statistics import feature_distance, nearest_example, one_example
from chop.operators.time_frames import extreme_frame, mean_frame


@final
@dataclass(frozen=True)
class LastFrame(Leaf):
    """The query's last frame: the points with the largest t (all of them where there is no t).

    Persistence, hard to beat at short leads.
    """

    name: ClassVar[str] = "last_frame"
    unit_free: ClassVar[bool] = True
    law: ClassVar[str] = "Depends on the query's last frame only."
    helps: ClassVar[str] = "at short leads, where little has changed yet, and as a candidate of combine"

    def answer(self, prompt: Prompt) -> tuple[Tensor, Notes]:
        return _frame(prompt, self.name, last=True), {}


@final
@dataclass(frozen=True)
class FirstFrame(Leaf):
    """The query's first frame: the points with the smallest t (all of them where there is no t).

    In a 24 h window, what was seen a day before the first hour ahead.
    """

    name: ClassVar[str] = "first_frame"
    unit_free: ClassVar[bool] = True
    law: ClassVar[str] = "Depends on the query's first frame only."
    helps: ClassVar[str] = "where days repeat themselves, and as a candidate of combine"

    def answer(self, prompt: Prompt) -> tuple[Tensor, Notes]:
        return _frame(prompt, self.name, last=False), {}


@final
@dataclass(frozen=True)
class MeanFrame(Leaf):
    """The mean of the query's frames, place by place (the query itself where there is no t).

    What is left of a window when its last hours have lost their meaning.
    """

    name: ClassVar[str] = "mean_frame"
    unit_free: ClassVar[bool] = True
    law: ClassVar[str] = "Does not depend on the order of the frames."
    helps: ClassVar[str] = "at long leads, and as a candidate of combine"

    def answer(self, prompt: Prompt) -> tuple[Tensor, Notes]:
        _need_same_channels(prompt, self.name)
        return mean_frame(prompt.query, prompt.at, time_axis(prompt, self.name), self.name), {}


@final
@dataclass(frozen=True)
class CopyQuery(Leaf):
    """The query itself, taken to the answer's points by nearest neighbour: nothing changes."""

    name: ClassVar[str] = "copy_query"
    unit_free: ClassVar[bool] = True
    law: ClassVar[str] = "Equal to the query where the grids coincide."
    helps: ClassVar[str] = "over short steps, as what a model has to beat and as a fallback of select"

    def answer(self, prompt: Prompt) -> tuple[Tensor, Notes]:
        _need_same_channels(prompt, self.name)
        return resample(prompt.query.values, nearest_index(prompt.query.coords, prompt.at)), {}


@final
@dataclass(frozen=True)
class QueryMean(Leaf):
    """The query's mean everywhere: what is left of a conserved quantity when all else is forgotten.

    At long leads, where phases are lost, hard to beat.
    """

    name: ClassVar[str] = "query_mean"
    unit_free: ClassVar[bool] = True
    law: ClassVar[str] = "Flat, with the query's mean in every channel."
    helps: ClassVar[str] = "in long rollouts of a conserved quantity, once phases are lost"

    def answer(self, prompt: Prompt) -> tuple[Tensor, Notes]:
        _need_same_channels(prompt, self.name)
        return prompt.query.values.mean(dim=-2, keepdim=True).expand(prompt.answer_shape), {}


@final
@dataclass(frozen=True)
class MeanOutput(Leaf):
    """The mean of the example outputs, over those observed at each point."""

    name: ClassVar[str] = "mean_output"
    unit_free: ClassVar[bool] = True
    law: ClassVar[str] = "Does not depend on the query."
    helps: ClassVar[str] = "when the answer hardly depends on the query, and as a calm candidate of combine"

    def answer(self, prompt: Prompt) -> tuple[Tensor, Notes]:
        values, observed = outputs_at(prompt)
        plain = values.mean(dim=-3)
        if observed is None:
            return plain, {}
        count = observed.sum(dim=-3)
        seen = torch.where(observed, values, 0).sum(dim=-3) / count.clamp(min=1)
        return torch.where(count > 0, seen, plain), {}


@final
@dataclass(frozen=True)
class NearestOutput(Leaf):
    """The output of the example whose input is closest to the query (Air distance; the first on ties)."""

    name: ClassVar[str] = "nearest_output"
    unit_free: ClassVar[bool] = True
    law: ClassVar[str] = "Always one of the example outputs."
    helps: ClassVar[str] = "when one of the examples is almost the question itself"

    def answer(self, prompt: Prompt) -> tuple[Tensor, Notes]:
        values, _ = outputs_at(prompt)
        nearest = nearest_example(feature_distance(prompt))
        return one_example(values, nearest), {"example": nearest + 1}


@final
@dataclass(frozen=True)
class Ridge(Leaf):
    """A linear map from input to output, fitted to the examples alone by ridge regression.

    The baseline people forget: no network at all. With few examples and many points it is solved in
    the space of examples. ``strength`` is relative to the mean squared size of the centred inputs.
    """

    name: ClassVar[str] = "ridge"
    unit_free: ClassVar[bool] = True
    law: ClassVar[str] = "Exact on an affine operator's examples as strength goes to 0."
    helps: ClassVar[str] = "when the operator is close to linear; then no network is needed"
    strength: float = number(1e-3, 1e-8, 1e3, "regularisation, relative to the size of the inputs")

    def answer(self, prompt: Prompt) -> tuple[Tensor, Notes]:
        outputs, _ = outputs_at(prompt)
        index = nearest_index(prompt.inputs.coords, prompt.query.coords.unsqueeze(-3))
        inputs = resample(prompt.inputs.values, index).flatten(-2)
        centre = inputs.mean(dim=-2, keepdim=True)
        inputs = inputs - centre
        query = prompt.query.values.flatten(-2).unsqueeze(-2) - centre
        unit = binary_unit(inputs.abs().amax(dim=(-1, -2), keepdim=True))
        inputs, query = in_units(inputs, unit), in_units(query, unit)
        middle = outputs.mean(dim=-3, keepdim=True)
        products = inputs @ inputs.mT
        size = products.diagonal(dim1=-2, dim2=-1).mean(dim=-1)
        # Identical inputs have size 0: then the floor leaves the mean output.
        damping = (self.strength * size).clamp(min=torch.finfo(prompt.dtype).tiny ** 0.5)
        eye = torch.eye(inputs.shape[-2], dtype=prompt.dtype, device=prompt.device)
        solved = torch.linalg.solve(products + damping[..., None, None] * eye, (inputs @ query.mT))
        change = (solved.unsqueeze(-1) * (outputs - middle)).sum(dim=-3)
        return middle.squeeze(-3) + change, {}


def outputs_at(prompt: Prompt) -> tuple[Tensor, Tensor | None]:
    """Example outputs (and their mask, if any) taken to the answer's points: ``(..., D, m, c)``."""
    index = nearest_index(prompt.outputs.coords, prompt.at.unsqueeze(-3))
    mask = prompt.outputs.mask
    return resample(prompt.outputs.values, index), None if mask is None else resample(mask, index)


def _need_same_channels(prompt: Prompt, who: str) -> None:
    if prompt.query.channels != prompt.outputs.channels:
        raise ProgramError(
            f"{who} answers with the query's channels, but it has {prompt.query.channels} "
            f"and outputs have {prompt.outputs.channels}"
        )


def _frame(prompt: Prompt, who: str, last: bool) -> Tensor:
    """The query's points at its extreme time, taken to the answer's places."""
    _need_same_channels(prompt, who)
    return extreme_frame(prompt.query, prompt.at, time_axis(prompt, who), who, last)
