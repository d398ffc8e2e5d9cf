"""Pairs of functions, an input and what becomes of it, and the form that all pairs of a bank share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from torch import Tensor

from chop.core.errors import BankError, PromptError
from chop.core.fields import (
    ArrayLike,
    Axis,
    Field,
    Graph,
    as_tensor,
    holds_integers,
    shape_text,
    take_examples,
    unchecked,
    without_repeats,
)
from chop.core.from_arrays import prompt_from_arrays
from chop.core.labelled import is_labelled
from chop.core.prompt import Coordinates
from chop.core.words import representation


@dataclass(frozen=True, eq=False)
class Pairs:
    """N pairs: ``inputs`` is a Field ``(N, n, ci)``, ``outputs`` one ``(N, m, co)``.

    ``asked`` ``(N,)`` integers says when each input was there and ``known``, never earlier, when its output
    was (as soon as the input if left out); any unit serves, and None means that nobody counts time. ``axes``
    and ``graph`` are as in a `Prompt`. Pairs check themselves when they are made.
    """

    inputs: Field
    outputs: Field
    axes: tuple[Axis, ...] | None = None
    graph: Graph | None = None
    asked: Tensor | None = None
    known: Tensor | None = None

    if TYPE_CHECKING:  # what may be given is more than what it is then

        def __init__(
            self,
            inputs: Field,
            outputs: Field,
            axes: Sequence[Axis] | None = None,
            graph: Graph | None = None,
            asked: ArrayLike | None = None,
            known: ArrayLike | None = None,
        ) -> None: ...

    def __post_init__(self) -> None:
        _check_fields(self)
        object.__setattr__(self, "axes", _checked_axes(self))
        if self.graph is not None and (
            not isinstance(self.graph, Graph) or self.graph.size != self.outputs.points
        ):
            raise BankError(f"graph must be a Graph of the {self.outputs.points} output points")
        asked = None if self.asked is None else _checked_times("asked", self.asked, len(self))
        known = asked if self.known is None else _checked_times("known", self.known, len(self))
        if known is not None and asked is None:
            raise BankError("pairs that say when their outputs were known must say when they were asked too")
        if known is not None and asked is not None and bool((known < asked).any()):
            row = int((known < asked).nonzero()[0])
            raise BankError(
                f"the output of pair {row} is known at {int(known[row])}, before its input is there at "
                f"{int(asked[row])}"
            )
        object.__setattr__(self, "asked", asked)
        object.__setattr__(self, "known", known)

    def __len__(self) -> int:
        return self.inputs.values.shape[0]

    def __repr__(self) -> str:
        return representation("Pairs", {"pairs": str(len(self)), "form": PairForm.of(self).words()})

    @classmethod
    def from_arrays(
        cls,
        inputs: ArrayLike,
        outputs: ArrayLike,
        *,
        coords: Coordinates | None = None,
        out_coords: Coordinates | None = None,
        axes: Sequence[Axis | str] | Axis | str | None = None,
        mask: ArrayLike | Mapping[str, ArrayLike] | Literal["nan"] | None = None,
        times: ArrayLike | None = None,
        known: ArrayLike | None = None,
        graph: Graph | ArrayLike | None = None,
    ) -> Pairs:
        """Pairs from plain or labelled arrays ``(N, *points)`` or ``(N, *points, c)``.

        They are read as `Prompt.from_arrays` reads the examples of one question; ``times`` are ``asked``.
        """
        first = _first(inputs)
        if isinstance(mask, Mapping) and "inputs" in mask:
            mask = {**mask, "query": _first(mask["inputs"])}
        read = prompt_from_arrays(
            inputs, outputs, first, coords=coords, out_coords=out_coords, axes=axes, mask=mask, graph=graph,
            batch=0,
        )  # fmt: skip
        return cls(read.inputs, read.outputs, read.axes, read.graph, times, known)

    def take(self, rows: Tensor) -> Pairs:
        """Some of the pairs, by their numbers; points that all share stay shared."""
        return unchecked(
            Pairs,
            inputs=take_rows(self.inputs, rows),
            outputs=take_rows(self.outputs, rows),
            axes=self.axes,
            graph=self.graph,
            asked=None if self.asked is None else self.asked[rows],
            known=None if self.known is None else self.known[rows],
        )

    def cut(self, start: int, stop: int) -> Pairs:
        """Consecutive pairs, without copying them."""
        return unchecked(
            Pairs,
            inputs=self.inputs.each(lambda tensor: tensor[start:stop]),
            outputs=self.outputs.each(lambda tensor: tensor[start:stop]),
            axes=self.axes,
            graph=self.graph,
            asked=None if self.asked is None else self.asked[start:stop],
            known=None if self.known is None else self.known[start:stop],
        )

    def to(
        self, device: torch.device | str | torch.dtype | None = None, dtype: torch.dtype | None = None
    ) -> Pairs:
        """The same pairs on another device or in another floating dtype."""
        inputs, outputs = self.inputs.to(device, dtype), self.outputs.to(device, dtype)
        where = inputs.values.device
        return unchecked(
            Pairs,
            inputs=inputs,
            outputs=outputs,
            axes=self.axes,
            graph=None if self.graph is None else self.graph.to(where),
            asked=None if self.asked is None else self.asked.to(where),
            known=None if self.known is None else self.known.to(where),
        )


def joined_pairs(parts: Sequence[Pairs]) -> Pairs:
    """Pairs of one form behind each other."""
    if len(parts) == 1:
        return parts[0]
    timed = [(part.asked, part.known) for part in parts if part.asked is not None and part.known is not None]
    return unchecked(
        Pairs,
        inputs=joined_fields([part.inputs for part in parts]),
        outputs=joined_fields([part.outputs for part in parts]),
        axes=parts[0].axes,
        graph=parts[0].graph,
        asked=torch.cat([asked for asked, _ in timed]) if timed else None,
        known=torch.cat([known for _, known in timed]) if timed else None,
    )


def take_rows(field: Field, rows: Tensor) -> Field:
    """Some functions of a Field ``(N, n, c)``, by their numbers."""
    return field.each(lambda tensor: take_examples(tensor, rows))


def joined_fields(fields: Sequence[Field]) -> Field:
    """Functions behind each other; points that all share are kept once."""
    values = torch.cat([part.values for part in fields])
    grids = [without_repeats(part.coords) for part in fields]
    if all(len(grid) == 1 and torch.equal(grid, grids[0]) for grid in grids):
        coords = grids[0].expand(len(values), -1, -1)
    else:
        coords = torch.cat([part.coords for part in fields])
    masked = any(part.mask is not None for part in fields)
    mask = torch.cat([part.observed for part in fields]) if masked else None
    return unchecked(Field, coords=coords, values=values, mask=mask)


def lies_on(field: Field, grid: Tensor) -> bool:
    """Whether every function of a Field is given at the points of one grid ``(n, k)``."""
    points = without_repeats(field.coords)
    return points.shape[-2:] == grid.shape and bool((points == grid.to(points)).all())


@dataclass(frozen=True, eq=False)
class PairForm:
    """What all pairs of a bank share: sizes, dtype, axes, graph, whether there are times.

    ``input_coords`` ``(n, k)`` and ``output_coords`` ``(m, k)`` are the points of the first pair, and of all
    others that bring no points of their own.
    """

    input_coords: Tensor
    output_coords: Tensor
    input_channels: int
    output_channels: int
    axes: tuple[Axis, ...] | None
    graph: Graph | None
    timed: bool

    @classmethod
    def of(cls, pairs: Pairs) -> PairForm:
        """The form of some pairs, one or more."""
        return cls(
            pairs.inputs.coords[0].clone(),
            pairs.outputs.coords[0].clone(),
            pairs.inputs.channels,
            pairs.outputs.channels,
            pairs.axes,
            pairs.graph,
            pairs.asked is not None,
        )

    @property
    def dtype(self) -> torch.dtype:
        return self.input_coords.dtype

    @property
    def row_bytes(self) -> int:
        """Values of one pair."""
        return (self.input_size + self.output_size) * self.dtype.itemsize

    @property
    def input_size(self) -> int:
        """Numbers of one input."""
        return len(self.input_coords) * self.input_channels

    @property
    def output_size(self) -> int:
        """Numbers of one output."""
        return len(self.output_coords) * self.output_channels

    def words(self) -> str:
        """From what to what."""
        return (
            f"{len(self.input_coords)} points x {self.input_channels} ch -> "
            f"{len(self.output_coords)} points x {self.output_channels} ch"
        )

    def check(self, pairs: Pairs, where: str) -> None:
        """Say so if pairs do not fit beside those of this form; ``where`` is the bank."""
        other = PairForm.of(pairs)
        if other.words() != self.words() or other.input_coords.shape[-1] != self.input_coords.shape[-1]:
            coordinates = [f"{form.input_coords.shape[-1]} coordinates" for form in (self, other)]
            raise BankError(
                f"{where} holds pairs of {self.words()} ({coordinates[0]}), these are {other.words()} "
                f"({coordinates[1]}); make a bank of their own for them"
            )
        if other.dtype != self.dtype:
            raise BankError(
                f"{where} holds {self.dtype}, these pairs are {other.dtype}: write .to({self.dtype})"
            )
        if self.timed != other.timed:
            if self.timed:
                raise BankError(f"{where} knows when each pair was there: give the times of these too")
            raise BankError(
                f"{where} has no times: leave out those of these pairs, or make a bank of their own"
            )
        if other.axes is not None and other.axes != self.axes:
            raise BankError(f"{where} has the axes {_axes_words(self.axes)}, not {_axes_words(other.axes)}")
        if other.graph is not None and (
            self.graph is None or not torch.equal(other.graph.edges.cpu(), self.graph.edges.cpu())
        ):
            raise BankError(f"{where} has {'another' if self.graph else 'no'} graph of its output points")


def _axes_words(axes: tuple[Axis, ...] | None) -> str:
    return ", ".join(map(str, axes)) if axes else "that nobody named"


def _first(array: Any) -> Any:
    """The first function of an array, labelled or not."""
    if is_labelled(array):
        return array.isel({array.dims[0]: 0})
    if not hasattr(array, "ndim"):
        array = np.asarray(array)
    if not array.ndim or not len(array):
        raise BankError("a bank needs one pair or more: arrays (N, n) or (N, n, c)")
    return array[0]


def _check_fields(pairs: Pairs) -> None:
    for name, part in (("inputs", pairs.inputs), ("outputs", pairs.outputs)):
        given: object = part
        if not isinstance(given, Field):
            raise BankError(f"{name} of pairs must be a Field, not {type(given).__name__}")
        if len(part.batch) != 1:
            raise BankError(f"{name} of pairs must be (N, n, c), not {shape_text(part.values)}")
        if part.points < 1 or part.channels < 1:
            raise BankError(f"{name} of pairs need a point and a channel, they are {shape_text(part.values)}")
        for what, tensor in (("values", part.values), ("coords", without_repeats(part.coords))):
            bad = ~torch.isfinite(tensor)
            if bool(bad.any()):
                raise BankError(
                    f"{name} {what} have {int(bad.sum())} non-finite entries; fill them in and mark them "
                    "False in the field's mask"
                )
    inputs, outputs = pairs.inputs, pairs.outputs
    if inputs.batch != outputs.batch:
        raise BankError(f"{inputs.batch[0]} inputs but {outputs.batch[0]} outputs")
    if not len(pairs):
        raise BankError("there are no pairs: one or more are needed")
    if (inputs.values.dtype, inputs.values.device) != (outputs.values.dtype, outputs.values.device):
        raise BankError(
            f"inputs are {inputs.values.dtype} on {inputs.values.device}, outputs {outputs.values.dtype} on "
            f"{outputs.values.device}; they must agree"
        )
    if inputs.coords.shape[-1] != outputs.coords.shape[-1]:
        raise BankError(
            f"inputs have {inputs.coords.shape[-1]} coordinates, outputs {outputs.coords.shape[-1]}; they "
            "must have as many"
        )


def _checked_axes(pairs: Pairs) -> tuple[Axis, ...] | None:
    axes: object = pairs.axes
    if axes is None:
        return None
    if not (isinstance(axes, Sequence) and all(isinstance(axis, Axis) for axis in axes)):
        raise BankError(f"axes must be a sequence of Axis, not {axes!r}")
    k = pairs.inputs.coords.shape[-1]
    if len(axes) != k or len({axis.name for axis in axes}) != k:
        raise BankError(f"axes must give {k} different names, not {[axis.name for axis in axes]}")
    return tuple(axes)


def _checked_times(name: str, given: Any, count: int) -> Tensor:
    try:
        times = as_tensor(given, name)
    except PromptError as error:
        raise BankError(str(error)) from None
    if not holds_integers(times) or times.shape != (count,):
        raise BankError(
            f"{name} must be {count} whole numbers, one for each pair, not {times.dtype} {shape_text(times)}"
        )
    return times.long()
