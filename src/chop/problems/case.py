"""A batch of questions with their true answers, and endless batches for training."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from chop.core.errors import ProblemError
from chop.core.prompt import Field, Prompt
from chop.core.words import array, representation
from chop.numerics import Array

EXAMPLE_COUNT = 5
"""Pairs that a question shows, unless asked otherwise."""


@dataclass(frozen=True, eq=False)
class Case:
    """Prompts (batched over n), the target ``(n, m, c)``, and how the truth was made.

    ``trajectory`` is ``(n, frames, points)`` where there is one: its first frames are the prompt's own.
    ``meta`` says what was asked for, in plain values; ``rows`` has one entry for each of the n questions
    (index, start time, splitting speed, ...). ``mask`` ``(n, m, c)`` is True where the target was observed;
    None means everywhere. What was not observed is filled in and must not be scored.
    """

    prompt: Prompt
    target: Tensor
    trajectory: Tensor | None = None
    meta: Mapping[str, Any] = field(default_factory=dict)
    rows: Mapping[str, Array] = field(default_factory=dict)
    mask: Tensor | None = None

    def __post_init__(self) -> None:
        if self.target.shape != self.prompt.answer_shape:
            raise ProblemError(
                f"the target is {tuple(self.target.shape)} but the prompt asks for "
                f"{tuple(self.prompt.answer_shape)}"
            )
        if self.mask is not None and (self.mask.dtype, self.mask.shape) != (torch.bool, self.target.shape):
            raise ProblemError(
                f"the target's mask must be bool {tuple(self.target.shape)}, "
                f"not {self.mask.dtype} {tuple(self.mask.shape)}"
            )

    def __repr__(self) -> str:
        facts = {"questions": str(len(self)), "target": array(self.target), "prompt": repr(self.prompt)}
        return representation("Case", facts)

    def __len__(self) -> int:
        return int(self.target.shape[0])

    def __getitem__(self, index: slice) -> Case:
        """Some of the questions, by a slice."""
        if not isinstance(index, slice):
            raise ProblemError("a case is cut by slices: case[3:4], not case[3]")
        return replace(
            self,
            prompt=self.prompt[index],
            target=self.target[index],
            trajectory=None if self.trajectory is None else self.trajectory[index],
            rows={name: values[index] for name, values in self.rows.items()},
            mask=None if self.mask is None else self.mask[index],
        )

    def pairs(self) -> tuple[Field, Field]:
        """All D + 1 pairs, the query and its target last: what one pretraining step needs."""
        prompt = self.prompt

        def joined(examples: Field, coords: Tensor, values: Tensor, mask: Tensor | None) -> Field:
            same = bool(torch.equal(examples.coords[..., 0, :, :], coords))
            where = (
                coords.unsqueeze(-3)
                if same and _repeats(examples.coords)
                else torch.cat([examples.coords, coords.unsqueeze(-3)], dim=-3)
            )
            observed = None
            if examples.mask is not None or mask is not None:
                last = torch.ones_like(values, dtype=torch.bool) if mask is None else mask
                observed = torch.cat([examples.observed, last.unsqueeze(-3)], dim=-3)
            return Field(where, torch.cat([examples.values, values.unsqueeze(-3)], dim=-3), observed)

        return (
            joined(prompt.inputs, prompt.query.coords, prompt.query.values, prompt.query.mask),
            joined(prompt.outputs, prompt.at, self.target, self.mask),
        )


def _repeats(coords: Tensor) -> bool:
    """Whether the example axis only repeats itself (and costs nothing)."""
    return coords.stride(-3) == 0


class Stream(ABC):
    """Batches 0, 1, 2, ... of a training, each a function of its number: going on needs no stored data."""

    @abstractmethod
    def case(self, number: int) -> Case:
        """Batch ``number``, in float32; always the same."""

    def __iter__(self) -> Iterator[Case]:
        return self.from_batch(0)

    def from_batch(self, number: int) -> Iterator[Case]:
        """All cases from one number on, to go on where a training stopped."""
        while True:
            yield self.case(number)
            number += 1


def check_counts(first: int = 0, **counts: int) -> None:
    """Numbers that count something are whole and at least 1; questions are numbered from 0."""
    for name, value in counts.items():
        if not isinstance(value, (int, np.integer)) or value < 1:
            raise ProblemError(f"{name} must be a whole number, 1 or more, not {value!r}")
    if first < 0:
        raise ProblemError(f"first must be 0 or more, not {first}")
