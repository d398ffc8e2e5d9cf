"""What a question is: functions given as values at points, example pairs, and a query.

Every tensor may carry any number of leading batch axes, written ``...``; nothing here loops over
them. Prompts and fields compare by identity, so that a run can remember what it did with one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from torch import Tensor

from chop.core.errors import PromptError
from chop.core.fields import (
    ArrayLike,
    Axis,
    Field,
    Graph,
    as_tensor,
    assumed_axes,
    broadcasts,
    holds_integers,
    mover,
    refuse_two_readings,
    shape_text,
    take_examples,
    unchecked,
    without_repeats,
)
from chop.core.words import prompt_facts, representation

Coordinates = ArrayLike | Sequence[ArrayLike] | Mapping[str, ArrayLike]
"""Points ``(n,)`` or ``(n, d)``, or the coordinates along each axis of a grid, by their place or by name."""


@dataclass(frozen=True, eq=False)
class Origin:
    """Where a prompt's examples come from: example j is pair ``kept[..., j]`` of ``parent``.

    ``kept`` has the prompt's own batch shape (a held-out prompt's batch is its parent's and one more
    axis) and lets a model encode the pairs of the parent once for all prompts made from it.
    """

    parent: Prompt
    kept: Tensor

    def __repr__(self) -> str:
        return representation("Origin", {"examples": str(self.kept.shape[-1]), "of": repr(self.parent)})


@dataclass(frozen=True, eq=False)
class Prompt:
    """Example pairs, a query, and the points where the answer is wanted.

    ``inputs`` is a Field with ``(..., D, n, .)``, ``outputs`` one with ``(..., D, m, .)``, ``query``
    one with ``(..., n, .)`` and ``at`` is ``(..., m, k)``. ``times`` is ``(..., D + 1)`` integers: the
    time index of each example input and, last, of the query (an output is one later); by default
    0..D. ``axes`` says what each coordinate is; `assumed` tells what is taken where it is left out. A
    prompt checks itself when it is made.
    """

    inputs: Field
    outputs: Field
    query: Field
    at: Tensor
    graph: Graph | None = None
    axes: tuple[Axis, ...] | None = None
    times: Tensor | None = None
    origin: Origin | None = None

    if TYPE_CHECKING:  # what may be given is more than what it is then

        def __init__(
            self,
            inputs: Field,
            outputs: Field,
            query: Field,
            at: ArrayLike,
            graph: Graph | None = None,
            axes: Sequence[Axis] | None = None,
            times: ArrayLike | None = None,
            origin: Origin | None = None,
        ) -> None: ...

    @classmethod
    def from_arrays(
        cls,
        inputs: ArrayLike,
        outputs: ArrayLike,
        query: ArrayLike,
        *,
        coords: Coordinates | None = None,
        out_coords: Coordinates | None = None,
        at: Coordinates | None = None,
        axes: Sequence[Axis | str] | Axis | str | None = None,
        mask: ArrayLike | Mapping[str, ArrayLike] | Literal["nan"] | None = None,
        times: ArrayLike | None = None,
        graph: Graph | ArrayLike | None = None,
    ) -> Prompt:
        """A prompt from plain arrays (numpy, torch, lists) or labelled ones (`xarray.DataArray`).

        Args:
            inputs: D example inputs, ``(*batch, D, *points)`` or, with channels, ``(*batch, D, *points, c)``.
                Sizes tell which axis is which; where they fit two readings the error says what to write.
            outputs: what becomes of them, ``(*batch, D, *points)`` or with channels of its own.
            query: the question, shaped like one input: ``(*batch, *points)``, with c where inputs have it.
            coords: where inputs and query are given. ``x`` of shape ``(n,)``, scattered points ``(n, d)``, a
                tuple ``(y, x)`` or mapping ``{"y": y, "x": x}`` of the coordinates along the axes of a grid.
                Left out: one coordinate, evenly from 0 to 1 (around the circle if ``axes`` states a period).
            out_coords: where outputs are given; like ``coords`` if left out.
            at: where the answer is wanted; like ``out_coords`` if left out.
            axes: what the coordinates are: one `Axis` or name for each.
            mask: True where outputs were observed, in their shape; a mapping with ``inputs``, ``outputs`` and
                ``query``; or ``"nan"``: what is NaN was not observed.
            times: as in `Prompt`.
            graph: a `Graph` of the output points, or its edges ``(2, E)``.

        Of labelled arrays, dimensions are ``(*batch, example, *points, channel)``; coordinates along them
        give points and axes. `assumed`, which the representation shows, says what was taken for granted.
        """
        from chop.core.from_arrays import prompt_from_arrays

        return prompt_from_arrays(
            inputs, outputs, query, coords=coords, out_coords=out_coords, at=at, axes=axes, mask=mask,
            times=times, graph=graph,
        )  # fmt: skip

    def __post_init__(self) -> None:
        # Only the methods below know where examples come from; a copy with other examples must not say so.
        object.__setattr__(self, "origin", None)
        _check_shapes(self)
        object.__setattr__(self, "axes", _checked_axes(self))
        object.__setattr__(self, "at", _spread_at(self))
        object.__setattr__(self, "times", _checked_times(self))
        if self.graph is not None and not isinstance(self.graph, Graph):
            raise PromptError(f"Prompt.graph must be a Graph, not {type(self.graph).__name__}")
        if self.graph is not None and not (self.graph.size == self.at.shape[-2] == self.outputs.points):
            raise PromptError(
                f"graph has {self.graph.size} points, but outputs have {self.outputs.points} "
                f"and at has {self.at.shape[-2]}"
            )
        _check_finite(self)

    @property
    def batch(self) -> torch.Size:
        return self.query.batch

    @property
    def examples(self) -> int:
        """D, the number of example pairs."""
        return self.inputs.values.shape[-3]

    @property
    def dimensions(self) -> int:
        """k, the number of coordinates."""
        return self.query.coords.shape[-1]

    @property
    def dtype(self) -> torch.dtype:
        return self.query.values.dtype

    @property
    def device(self) -> torch.device:
        return self.query.values.device

    @property
    def answer_shape(self) -> torch.Size:
        """What a model's answer looks like: ``(..., m, c)``."""
        return torch.Size((*self.batch, self.at.shape[-2], self.outputs.channels))

    @property
    def assumed(self) -> str | None:
        """What was assumed of the coordinates because nobody said it, in words; None if all was said."""
        axes = self.axes or ()
        words = []
        if not self.axes_stated and len(axes) > 1:
            words.append(f"{', '.join(axis.name for axis in axes)}: no names, no periods, no time")
        elif not self.axes_stated:
            words.append("x with period 1, as the grid shows" if axes[0].period else "x without a period")
        if made_up := [axis.name for axis in axes if not axis.placed]:
            words.append(f"evenly spaced points along {', '.join(made_up)}")
        return ", ".join(words) or None

    @property
    def axes_stated(self) -> bool:
        """Whether somebody said what the coordinates are."""
        return all(axis.stated for axis in self.axes or ())

    def __repr__(self) -> str:
        return representation("Prompt", prompt_facts(self))

    def _repr_html_(self) -> str:
        from chop.pictures.notebook import prompt_html

        return prompt_html(self)

    def tensors(self) -> Iterator[Tensor]:
        """Points, values and masks of its fields, and where the answer is wanted."""
        for part in (self.inputs, self.outputs, self.query):
            yield part.coords
            yield part.values
            if part.mask is not None:
                yield part.mask
        yield self.at

    def axis(self, name: str) -> int | None:
        """The position of a named coordinate, None if there is none of that name."""
        names = [axis.name for axis in self.axes or ()]
        return names.index(name) if name in names else None

    def mapped(self, **changes: Any) -> Prompt:
        """A prompt made from this one by an operator: shapes are its business, nothing is checked.

        Values may have become non-finite on the way; that is the program's to notice, row by row,
        and no reason to lose the rest of a batch. What the examples came from is forgotten unless
        ``inputs`` and ``outputs`` stay as they are.
        """
        same = not {"inputs", "outputs"} & changes.keys()
        keep = {name: getattr(self, name) for name in self.__dataclass_fields__}
        keep["origin"] = self.origin if same else None
        return unchecked(Prompt, **{**keep, **changes})

    def __getitem__(self, index: Any) -> Prompt:
        """Part of the batch: ``prompt[3]``, ``prompt[:10]``, ``prompt[..., 0]``; batch axes only."""
        if not self.batch:
            raise PromptError("this prompt has no batch axes to index")
        parts = list(index) if isinstance(index, tuple) else [index]
        gaps = [i for i, part in enumerate(parts) if part is Ellipsis]
        spare = len(self.batch) - sum(_axes_used(part) for part in parts)
        if spare < 0 or len(gaps) > 1 or any(part is None for part in parts):
            raise PromptError(f"index {index!r} does not fit batch {tuple(self.batch)}")
        if gaps:  # an ellipsis stands for batch axes; left to torch it would swallow points and channels
            parts[gaps[0] : gaps[0] + 1] = [slice(None)] * spare
        return self._each(lambda tensor: tensor[tuple(parts)])

    def flat(self) -> Prompt:
        """The same prompts with exactly one batch axis."""
        return self._each(lambda tensor: tensor.reshape(-1, *tensor.shape[len(self.batch) :]))

    def to(
        self, device: torch.device | str | torch.dtype | None = None, dtype: torch.dtype | None = None
    ) -> Prompt:
        """Like ``Tensor.to``: another device or floating dtype. Times, masks and graph go along."""
        moved = self._each(mover(device, dtype))
        return moved if self.graph is None else moved.mapped(graph=self.graph.to(moved.device))

    def _each(self, change: Callable[[Tensor], Tensor]) -> Prompt:
        """Every tensor, whose leading axes are those of the batch, through a function."""
        assert self.times is not None
        return self.mapped(
            inputs=self.inputs.each(change),
            outputs=self.outputs.each(change),
            query=self.query.each(change),
            at=change(self.at),
            times=change(self.times),
        )

    def choose(self, kept: Tensor) -> Prompt:
        """The same query with only some example pairs: ``kept`` is ``(*batch, D')`` positions."""
        assert self.times is not None

        def pick(part: Field) -> Field:
            def take(tensor: Tensor) -> Tensor:
                index = kept[..., None, None].expand(*kept.shape, *tensor.shape[-2:])
                return tensor.gather(-3, index)

            mask = None if part.mask is None else take(part.mask)
            return unchecked(Field, coords=take(part.coords), values=take(part.values), mask=mask)

        times = torch.cat([self.times[..., :-1].gather(-1, kept), self.times[..., -1:]], dim=-1)
        return self.mapped(
            inputs=pick(self.inputs),
            outputs=pick(self.outputs),
            times=times,
            origin=Origin(self, kept),
        )

    def held_out(self, pad: bool, gap: int = 0) -> Prompt:
        """Every pair asked in turn: a prompt with one more batch axis, D, last.

        Element h hides pair h, and the ``gap`` pairs after it, and asks x_h at the coordinates of
        y_h. The remaining pairs keep their order; the prompt is filled up to D examples with
        ``pad`` and to D - 1 without by repeating them from the first. (With ``gap=0`` that is the
        paper's construction: one pair appended, or none.)
        """
        d = self.examples
        if gap < 0:
            raise PromptError(f"gap must be 0 or more, not {gap}")
        if d < gap + 2:
            raise PromptError(
                f"holding out one pair of {d}" + (f" with gap {gap}" if gap else "") + " leaves no example; "
                f"at least {gap + 2} pairs are needed"
            )
        assert self.times is not None
        width = d if pad else d - 1
        rows = []
        for h in range(d):
            rest = [j for j in range(d) if not h <= j <= h + gap]
            rows.append([rest[i % len(rest)] for i in range(width)])
        kept = torch.tensor(rows, device=self.device)
        index = kept.flatten()

        def take(tensor: Tensor) -> Tensor:
            taken: Tensor = take_examples(tensor, index).unflatten(-3, (d, width))
            return taken

        def pick(part: Field) -> Field:
            mask = None if part.mask is None else take(part.mask)
            return unchecked(Field, coords=take(part.coords), values=take(part.values), mask=mask)

        input_times = self.times[..., :-1]
        return self.mapped(
            inputs=pick(self.inputs),
            outputs=pick(self.outputs),
            query=self.inputs,
            at=self.outputs.coords,
            times=torch.cat(
                [input_times[..., index].unflatten(-1, (d, width)), input_times.unsqueeze(-1)], dim=-1
            ),
            origin=Origin(self, kept.expand(*self.batch, d, width)),
        )


def _check_shapes(prompt: Prompt) -> None:
    for name in ("inputs", "outputs", "query"):
        part = getattr(prompt, name)
        if not isinstance(part, Field):
            raise PromptError(f"Prompt.{name} must be a Field, not {type(part).__name__}")
        if part.points < 1 or part.channels < 1:
            raise PromptError(
                f"Prompt.{name} needs at least one point and one channel, "
                f"its values are {shape_text(part.values)}"
            )
    inputs, outputs, query = prompt.inputs, prompt.outputs, prompt.query
    for name, part in (("inputs", inputs), ("outputs", outputs)):
        if part.values.ndim != query.values.ndim + 1 or part.batch[:-1] != query.batch:
            raise PromptError(
                f"Prompt.{name} values {shape_text(part.values)} need one axis of examples more than "
                f"query values {shape_text(query.values)} and the same batch"
            )
        if (part.values.dtype, part.values.device) != (query.values.dtype, query.values.device):
            raise PromptError(
                f"Prompt.{name} is {part.values.dtype} on {part.values.device}, "
                f"query is {query.values.dtype} on {query.values.device}"
            )
    if inputs.batch[-1] != outputs.batch[-1]:
        raise PromptError(f"{inputs.batch[-1]} example inputs but {outputs.batch[-1]} example outputs")
    if inputs.batch[-1] < 1:
        raise PromptError("a prompt needs at least one example pair")
    if not query.batch.numel():
        raise PromptError(f"the batch {tuple(query.batch)} holds no query")
    if inputs.channels != query.channels:
        raise PromptError(f"inputs have {inputs.channels} channels but the query has {query.channels}")
    widths = {part.coords.shape[-1] for part in (inputs, outputs, query)}
    if len(widths) != 1:
        raise PromptError(
            "inputs, outputs and query must have the same number of coordinates, "
            f"not {inputs.coords.shape[-1]}, {outputs.coords.shape[-1]} and {query.coords.shape[-1]}"
        )


def _checked_axes(prompt: Prompt) -> tuple[Axis, ...]:
    axes: object = prompt.axes
    if axes is None:
        return assumed_axes([part.coords for part in (prompt.query, prompt.inputs, prompt.outputs)])
    if not (isinstance(axes, Sequence) and all(isinstance(axis, Axis) for axis in axes)):
        raise PromptError(f"axes must be a sequence of Axis, not {axes!r}")
    k = prompt.dimensions
    if len(axes) != k or len({axis.name for axis in axes}) != k:
        raise PromptError(
            f"axes must give {k} different names, one for each coordinate, not {[axis.name for axis in axes]}"
        )
    return tuple(axes)


def _axes_used(part: Any) -> int:
    """How many axes one part of an index takes up; a boolean array takes all of its own."""
    if part is Ellipsis:
        return 0
    boolean = isinstance(part, Tensor | np.ndarray) and part.dtype in (torch.bool, np.bool_)
    return part.ndim if boolean else 1


def _spread_at(prompt: Prompt) -> Tensor:
    at = as_tensor(prompt.at, "at")
    batch, k = prompt.batch, prompt.dimensions
    if at.ndim < 2 or at.shape[-1] != k or at.shape[-2] < 1 or not broadcasts(at.shape[:-2], batch):
        raise PromptError(f"Prompt.at must be (..., m, {k}) over batch {tuple(batch)}, not {shape_text(at)}")
    if at.is_complex() or at.dtype == torch.bool:
        raise PromptError(f"Prompt.at must be real numbers, not {at.dtype}")
    if at.device != prompt.device:
        raise PromptError(f"Prompt.at is on {at.device} but the query is on {prompt.device}")
    refuse_two_readings(at, 2, batch, "Prompt.at")
    return at.to(prompt.dtype).expand(*batch, *at.shape[-2:])


def _checked_times(prompt: Prompt) -> Tensor:
    d = prompt.examples
    if prompt.times is None:
        times = torch.arange(d + 1, device=prompt.device)
    else:
        times = as_tensor(prompt.times, "times").to(prompt.device)
    if not holds_integers(times):
        raise PromptError(f"Prompt.times must be integers, not {times.dtype}")
    if times.ndim < 1 or times.shape[-1] != d + 1 or not broadcasts(times.shape[:-1], prompt.batch):
        raise PromptError(
            f"Prompt.times must be (..., {d + 1}): one for each of the {d} inputs and one for the "
            f"query, not {shape_text(times)}"
        )
    refuse_two_readings(times, 1, prompt.batch, "Prompt.times")
    return times.long().expand(*prompt.batch, d + 1)


def _check_finite(prompt: Prompt) -> None:
    parts = {
        "inputs.values": prompt.inputs.values,
        "outputs.values": prompt.outputs.values,
        "query.values": prompt.query.values,
        "inputs.coords": without_repeats(prompt.inputs.coords),
        "outputs.coords": without_repeats(prompt.outputs.coords),
        "query.coords": without_repeats(prompt.query.coords),
        "at": without_repeats(prompt.at),
    }
    for name, tensor in parts.items():
        bad = ~torch.isfinite(tensor)
        if bool(bad.any()):
            raise PromptError(
                f"Prompt.{name} {shape_text(tensor)} has {int(bad.sum())} non-finite entries; fill them in "
                "and mark them False in the field's mask"
            )


__all__ = ["Axis", "Coordinates", "Field", "Graph", "Origin", "Prompt", "without_repeats"]
