"""A model's answers at the examples, to the question as it is and as it can be put otherwise."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from chop.core.model import MAX_BYTES, FrozenModel
from chop.core.program import Icon, Program, Transform, Wrapped
from chop.core.prompt import Prompt
from chop.core.running import error_unit, held_out_answers
from chop.operators.affine import Flip, Rescale
from chop.operators.domain import suits
from chop.operators.frames import MovingFrame, Reflect, Turn
from chop.operators.inspection.backwards import Backwards
from chop.operators.inspection.observed import ratio

TARGETS = (0.25, 0.5, 1.0, 2.0, 4.0)
"""Spreads at which a model is asked: around 1, where networks are trained."""
ROUNDING = 1e-6
"""Of an output's size: errors and differences below are those of single precision."""

AS_IT_IS = "as it is"
FRAME, SIGN, MIRROR, SHIFT, ORDER = "moving frame", "sign", "mirror", "shift", "order"


def scale_name(target: float) -> str:
    """What asking at a spread is called."""
    return f"scale {target:g}"


VIEWS: Mapping[str, Transform] = {
    **{scale_name(target): Rescale(target=target) for target in TARGETS},
    FRAME: MovingFrame(),
    SIGN: Flip(),
    MIRROR: Reflect(),
    # An odd number of cells, so that it is no symmetry of blocks of points by accident.
    SHIFT: Turn(cells=7, anchored=False),
    ORDER: Backwards(),
}
HOMES = tuple(name for name in VIEWS if name not in (SHIFT, ORDER))
"""Where a model may be at home: views that a program can ask in."""
PROGRAMS: Mapping[str, Program] = {
    AS_IT_IS: Icon(), **{name: Wrapped(view, Icon()) for name, view in VIEWS.items()}
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class Answered:
    """Held-out answers ``(..., D, m, c)`` by view, of those that the prompts allow, and what they cost."""

    prompt: Prompt
    answers: Mapping[str, Tensor]
    evaluations: int
    """Of the model for each prompt."""

    @classmethod
    def by(cls, model: FrozenModel, prompt: Prompt) -> Answered:
        """All views asked together; none of a prompt of which nothing can be held out."""
        if prompt.examples < 2:
            return cls(prompt, {}, 0)
        names = [AS_IT_IS, *(name for name, view in VIEWS.items() if suits(view, prompt))]
        flat, parts, calls = prompt.flat(), [], 0
        rows = max(1, MAX_BYTES // max(1, len(names) * _held_out_bytes(flat)))
        for first in range(0, flat.batch.numel(), rows):
            found, calls = held_out_answers(
                [PROGRAMS[name] for name in names], model, flat[first : first + rows]
            )
            parts.append(found)
        whole = [
            torch.cat(pieces).reshape(prompt.outputs.values.shape) for pieces in zip(*parts, strict=True)
        ]
        return cls(prompt, dict(zip(names, whole, strict=True)), calls)

    @property
    def numbers(self) -> Tensor:
        """``(...)``, a place for one number of each prompt."""
        return torch.zeros(self.prompt.batch, dtype=torch.float64, device=self.prompt.device)

    def applies(self, view: str) -> Tensor:
        """All prompts or none."""
        return torch.full_like(self.numbers, view in self.answers, dtype=torch.bool)

    @cached_property
    def seen(self) -> Tensor:
        """What was observed of the outputs."""
        return self.prompt.outputs.observed

    @cached_property
    def _unit(self) -> Tensor:
        return error_unit(self.prompt.outputs).double()[..., None, None, None]

    @cached_property
    def sizes(self) -> Tensor:
        """Root mean squares ``(..., D)`` of the outputs, in units."""
        return self._root_mean_square(self.prompt.outputs.values)

    @cached_property
    def floor(self) -> Tensor:
        """``(..., D)``: what is less is rounding. An output of 0 has the size of the others."""
        return ROUNDING * self.sizes.amax(dim=-1, keepdim=True).expand_as(self.sizes)

    def errors(self, view: str) -> Tensor:
        """Root mean square errors ``(..., D)`` in units, infinite where an answer is not finite."""
        return self._root_mean_square(self.answers[view] - self.prompt.outputs.values)

    def differences(self, view: str) -> Tensor:
        """The same of an answer from that to the question as it is."""
        return self._root_mean_square(self.answers[view] - self.answers[AS_IT_IS])

    def error(self, view: str) -> Tensor:
        """The error over all examples ``(...)``, of the outputs' size."""
        return ratio(self.pooled(self.errors(view)), self.pooled(self.sizes))

    def pooled(self, each: Tensor) -> Tensor:
        """Root mean squares of examples ``(..., D)`` as one of them all."""
        weight = self.seen.sum(dim=(-1, -2))
        return torch.where(weight > 0, each.square() * weight, 0).sum(dim=-1).sqrt()

    def _root_mean_square(self, values: Tensor) -> Tensor:
        scaled = torch.where(self.seen, values.double() / self._unit, 0)
        found = (scaled.square().sum(dim=(-1, -2)) / self.seen.sum(dim=(-1, -2)).clamp(min=1)).sqrt()
        return torch.where(torch.isfinite(found), found, torch.inf)


def _held_out_bytes(flat: Prompt) -> int:
    """About what one prompt's held-out prompts take, coordinates aside."""
    parts = (flat.inputs, flat.outputs, flat.query)
    one = sum(part.values[0].numel() * part.values.element_size() for part in parts)
    return flat.examples * one
