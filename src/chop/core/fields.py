"""Functions as values at points, what their coordinates mean, and who neighbours whom."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from chop.core.errors import PromptError
from chop.core.words import field_facts, representation

_T = TypeVar("_T")

ArrayLike = npt.ArrayLike | Tensor
"""What is read as a tensor: torch's, numpy's, xarray's and pandas' arrays, and lists of numbers."""


@dataclass(frozen=True)
class Axis:
    """One coordinate of the domain; ``period`` is None where it does not close on itself.

    The coordinate named ``t`` is time.
    """

    name: str
    period: float | None = None
    stated: bool = field(default=True, compare=False, repr=False, kw_only=True)
    """Whether somebody said so; False where a prompt without axes had to assume it."""
    placed: bool = field(default=True, compare=False, repr=False, kw_only=True)
    """Whether somebody gave the points along it; False where they were taken as evenly spaced."""

    def __post_init__(self) -> None:
        given: object = self.period
        if given is not None and not (isinstance(given, Real) and 0 < float(given) < float("inf")):
            raise PromptError(f"axis {self.name!r} needs a positive finite period, not {self.period!r}")

    def __str__(self) -> str:
        return self.name if self.period is None else f"{self.name} (period {self.period:g})"


def assumed_axes(grids: Sequence[Tensor]) -> tuple[Axis, ...]:
    """What coordinates ``(..., n, k)`` mean where nobody says: as little as possible.

    One coordinate is a place x, with period 1 only if every grid shows it: regular, n cells that make up 1.
    Several have numbers for names, and none of them is time.
    """
    k = grids[0].shape[-1]
    if k > 1:
        return tuple(Axis(f"x{i}", stated=False) for i in range(k))
    closed = all(covers_period(without_repeats(grid)[..., 0], 1.0) for grid in grids)
    return (Axis("x", 1.0 if closed else None, stated=False),)


def covers_period(points: Tensor, period: float) -> bool:
    """Whether points ``(..., n)`` ascend by 1/n of the period."""
    n = points.shape[-1]
    spacing = period / n
    # Coordinates such as 0.01 * i are off by rounding only; a thousandth of a cell tells them from others.
    return n > 1 and not bool(((points.diff(dim=-1) - spacing).abs() > 1e-3 * spacing).any())


@dataclass(frozen=True, eq=False)
class Field:
    """A function at n points of a k-dimensional domain, with c channels.

    ``coords`` is ``(..., n, k)``, ``values`` is ``(..., n, c)`` and ``mask`` is ``(..., n, c)`` bool,
    True where the value was observed; None means everywhere. Coordinates that lack leading axes are
    shared by the whole batch (and cost nothing). Values are finite also where nothing was observed.
    Arrays may be torch's, numpy's, xarray's or pandas'; entries that a numpy masked array hides are
    unobserved and get the mean of the others.
    """

    coords: Tensor
    values: Tensor
    mask: Tensor | None = None

    if TYPE_CHECKING:  # what may be given is more than what it is then

        def __init__(self, coords: ArrayLike, values: ArrayLike, mask: ArrayLike | None = None) -> None: ...

    def __post_init__(self) -> None:
        values, hidden = _unmasked(self.values)
        values = as_tensor(values, "values")
        coords = as_tensor(self.coords, "coords")
        if not values.is_floating_point():
            raise PromptError(f"Field.values must be floating point, not {values.dtype}")
        if values.ndim < 2 or coords.ndim < 2:
            raise PromptError(
                "a Field needs coords (..., n, k) and values (..., n, c), "
                f"not {shape_text(coords)} and {shape_text(values)}"
            )
        object.__setattr__(self, "values", values)
        object.__setattr__(self, "coords", _spread(coords, values, "coords"))
        if self.mask is not None:
            mask = as_tensor(self.mask, "mask")
            if mask.dtype != torch.bool or not broadcasts(mask.shape, values.shape):
                raise PromptError(
                    f"Field.mask must be bool and fit values {shape_text(values)}, "
                    f"not {mask.dtype} {shape_text(mask)}"
                )
            if mask.ndim > 2:
                refuse_two_readings(mask, 2, values.shape[:-2], "Field.mask")
            object.__setattr__(self, "mask", mask.expand(values.shape))
        if hidden is not None:
            seen = ~torch.from_numpy(hidden).to(values.device) & self.observed
            object.__setattr__(self, "mask", seen)
            object.__setattr__(self, "values", filled(values, seen))

    @property
    def batch(self) -> torch.Size:
        """The leading axes, without points and channels."""
        return self.values.shape[:-2]

    @property
    def points(self) -> int:
        return self.values.shape[-2]

    @property
    def channels(self) -> int:
        return self.values.shape[-1]

    @property
    def observed(self) -> Tensor:
        """The mask, all True where there is none."""
        return torch.ones_like(self.values, dtype=torch.bool) if self.mask is None else self.mask

    def __repr__(self) -> str:
        return representation("Field", field_facts(self))

    def with_values(self, values: Tensor) -> Field:
        """The same points with other values (unchecked: an operator may make bad ones)."""
        return unchecked(Field, coords=self.coords, values=values, mask=self.mask)

    def to(
        self, device: torch.device | str | torch.dtype | None = None, dtype: torch.dtype | None = None
    ) -> Field:
        """The same function on another device or in another floating dtype; masks go along."""
        return self.each(mover(device, dtype))

    def each(self, change: Callable[[Tensor], Tensor]) -> Field:
        """Every tensor through a function (unchecked)."""
        mask = None if self.mask is None else change(self.mask)
        return unchecked(Field, coords=change(self.coords), values=change(self.values), mask=mask)


@dataclass(frozen=True, eq=False)
class Graph:
    """Neighbours of the output points: ``edges`` is ``(2, E)`` integers, ``size`` the point count.

    Undirected; weights, repeated edges and loops carry no meaning and are dropped.
    """

    edges: Tensor
    size: int

    if TYPE_CHECKING:

        def __init__(self, edges: ArrayLike, size: int) -> None: ...

    def __post_init__(self) -> None:
        edges = as_tensor(self.edges, "edges")
        size: object = self.size
        if not isinstance(size, Integral) or size < 1:
            raise PromptError(f"Graph.size must be a whole number from 1, not {self.size!r}")
        if edges.ndim != 2 or edges.shape[0] != 2 or not holds_integers(edges):
            raise PromptError(f"Graph.edges must be (2, E) integers, not {edges.dtype} {shape_text(edges)}")
        edges = edges.long()
        if edges.numel() and not (int(edges.min()) >= 0 and int(edges.max()) < self.size):
            raise PromptError(
                f"Graph.edges must name points 0..{self.size - 1}, "
                f"but they reach from {int(edges.min())} to {int(edges.max())}"
            )
        object.__setattr__(self, "edges", edges)

    def __repr__(self) -> str:
        return representation("Graph", {"points": str(self.size), "edges": str(self.edges.shape[1])})

    def to(self, device: torch.device | str | None = None) -> Graph:
        """The same graph with its edges on another device; the very graph if they are there."""
        moved = self.edges.to(device=device)
        return self if moved is self.edges else unchecked(Graph, edges=moved, size=self.size)

    @cached_property
    def _neighbours(self) -> tuple[Tensor, Tensor, Tensor]:
        """(to, from, degree) with every undirected edge listed once each way."""
        # What is remembered in a run must serve outside it, where autograd refuses inference tensors.
        with torch.inference_mode(False):
            both = torch.cat([self.edges, self.edges.flip(0)], dim=1)
            both = both[:, both[0] != both[1]]
            to, source = torch.unique(both, dim=1) if both.numel() else both
            return to, source, torch.bincount(to, minlength=self.size)

    @cached_property
    def _matrix(self) -> Tensor | None:
        """``(size, size)`` of zeros and ones, if the graph is small and dense enough to be multiplied by."""
        to, source, _ = self._neighbours
        if self.size > 2048 or 16 * to.numel() < self.size**2:
            return None
        with torch.inference_mode(False):
            matrix = torch.zeros(self.size, self.size)
            matrix[to, source] = 1.0
            return matrix

    def _summed(self, field: Tensor) -> Tensor:
        """Each point's sum over its neighbours."""
        # Zero times infinity is not a number: a bad value would reach points that are no neighbours.
        if self._matrix is not None and bool(torch.isfinite(field).all()):
            return self._matrix.to(field.device, field.dtype) @ field
        to, source, _ = (part.to(field.device) for part in self._neighbours)
        return torch.zeros_like(field).index_add_(-2, to, field.index_select(-2, source))

    def average(self, field: Tensor, weight: Tensor | None = None) -> Tensor:
        """Each point's mean over its neighbours; ``field`` is ``(..., size, c)``.

        A point without neighbours keeps its own value. With ``weight`` (same shape, 0 or more) the
        mean is weighted; where no neighbour has weight the point keeps its own value too.
        """
        if weight is None:
            total = self._summed(field)
            degree = self._neighbours[2].to(field.device, field.dtype)
            count = degree.unsqueeze(-1).expand_as(field)
        else:
            weight = weight.to(field.dtype)
            total, count = self._summed(field * weight), self._summed(weight)
        return torch.where(count > 0, total / count.clamp(min=torch.finfo(field.dtype).tiny), field)


def mover(
    device: torch.device | str | torch.dtype | None, dtype: torch.dtype | None
) -> Callable[[Tensor], Tensor]:
    """A function that takes tensors to a device and, those of floating point, to a dtype.

    Like ``Tensor.to``, a dtype may stand first.
    """
    if isinstance(device, torch.dtype):
        device, dtype = None, device
    if dtype is not None and not dtype.is_floating_point:
        raise PromptError(f"fields are floating point; {dtype} is not")
    where = device

    def move(tensor: Tensor) -> Tensor:
        return tensor.to(device=where, dtype=dtype if tensor.is_floating_point() else None)

    return move


def filled(values: Tensor, seen: Tensor) -> Tensor:
    """Functions ``(..., n, c)`` with the mean of what was seen where nothing was, 0 if that is nowhere.

    What is filled in counts in a model and in pooled statistics: the mean disturbs them least.
    """
    count = seen.sum(dim=-2, keepdim=True)
    mean = torch.where(seen, values, 0).sum(dim=-2, keepdim=True) / count.clamp(min=1)
    return torch.where(seen, values, mean)


def _unmasked(values: Any) -> tuple[Any, np.ndarray[Any, np.dtype[np.bool_]] | None]:
    """A numpy masked array as its data and what it hides; anything else as it is."""
    if not isinstance(values, np.ma.MaskedArray):
        return values, None
    return values.data, np.ma.getmaskarray(values)


def as_tensor(value: Any, name: str) -> Tensor:
    """Tensors as they are, anything else (numpy, xarray, pandas, lists) as a copy."""
    if isinstance(value, Tensor):
        return value
    if isinstance(value, np.ma.MaskedArray):
        if np.ma.is_masked(value):
            raise PromptError(f"{name} has masked entries; only values can be unobserved")
        value = value.data
    if hasattr(value, "to_numpy"):  # xarray and pandas
        value = value.to_numpy()
    if isinstance(value, np.ndarray) and value.dtype.kind in "biufc":
        # torch knows neither reversed axes nor the other byte order.
        value = np.ascontiguousarray(value, dtype=value.dtype.newbyteorder("="))
    try:
        return torch.tensor(value)  # a copy: later changes to the caller's array must not reach us
    except (TypeError, ValueError, RuntimeError) as error:
        raise PromptError(f"{name} cannot be read as a tensor: {error}") from None


def without_repeats(tensor: Tensor) -> Tensor:
    """Leading axes that only repeat themselves (stride 0) cut down to length 1.

    Coordinates shared by a batch are expanded views; work on them need not be repeated.
    """
    for axis in range(tensor.ndim - 2):
        if tensor.stride(axis) == 0 and tensor.shape[axis] > 1:
            tensor = tensor.narrow(axis, 0, 1)
    return tensor


def take_examples(tensor: Tensor, index: Tensor) -> Tensor:
    """Some examples of ``(..., D, n, c)``, by their numbers; what they or the batch share stays so."""
    once = without_repeats(tensor)
    taken = once if once.shape[-3] == 1 else once.index_select(-3, index)
    return taken.expand(*tensor.shape[:-3], len(index), *tensor.shape[-2:])


def unchecked(cls: type[_T], **fields: Any) -> _T:
    """An instance of a self-checking class from parts known to fit."""
    made = object.__new__(cls)
    for name, value in fields.items():
        object.__setattr__(made, name, value)
    return made


def versions(tensors: Iterable[Tensor]) -> tuple[tuple[int, int], ...]:
    """Changes when one of the tensors is written to; those made in inference mode do not count that."""
    return tuple((t.data_ptr(), 0 if t.is_inference() else t._version) for t in tensors)


def shape_text(tensor: Tensor) -> str:
    """The shape, for an error message."""
    return str(tuple(tensor.shape))


def broadcasts(shape: Sequence[int], onto: Sequence[int]) -> bool:
    """Whether a shape can be expanded to another."""
    return len(shape) <= len(onto) and all(
        have in (1, want) for have, want in zip(reversed(shape), reversed(onto), strict=False)
    )


def refuse_two_readings(tensor: Tensor, own: int, onto: Sequence[int], name: str) -> None:
    """Say so if leading axes that are left out can be the first as well as the last ones of a batch.

    ``own`` is the number of axes behind the batch. Grids (5, n, k) beside values (5, 5, n, c) may be those of
    five questions or of five examples.
    """
    lead, rest = tuple(tensor.shape[:-own]), tuple(tensor.shape[-own:])
    left_out = len(onto) - len(lead)
    first = all(have in (1, want) for have, want in zip(lead, onto, strict=False))
    if left_out > 0 and first and broadcasts(lead, onto) and any(size != 1 for size in lead):
        ones = (1,) * left_out
        raise PromptError(
            f"{name} {tuple(tensor.shape)} can be read in two ways beside a batch of {tuple(onto)}: write "
            f"{(*ones, *lead, *rest)} or {(*lead, *ones, *rest)}, with 1 where it is shared"
        )


def _spread(coords: Tensor, values: Tensor, name: str) -> Tensor:
    """Coordinates expanded to the batch of their values, in the same dtype."""
    if coords.is_complex() or coords.dtype == torch.bool:
        raise PromptError(f"Field.{name} must be real numbers, not {coords.dtype}")
    if coords.shape[-1] < 1:
        raise PromptError(f"Field.{name} {shape_text(coords)} needs at least one coordinate a point")
    if coords.device != values.device:
        raise PromptError(f"Field.{name} is on {coords.device} but values are on {values.device}")
    if coords.shape[-2] != values.shape[-2] or not broadcasts(coords.shape[:-1], values.shape[:-1]):
        raise PromptError(
            f"Field.{name} {shape_text(coords)} does not fit values {shape_text(values)}: "
            "the points and the leading axes must agree"
        )
    refuse_two_readings(coords, 2, values.shape[:-2], f"Field.{name}")
    return coords.to(values.dtype).expand(*values.shape[:-1], coords.shape[-1])


def holds_integers(tensor: Tensor) -> bool:
    """Whether a tensor holds integers."""
    return not (tensor.is_floating_point() or tensor.is_complex() or tensor.dtype == torch.bool)
