"""A prompt from plain arrays: which axes are questions, examples, points and channels is read off the shapes.

Nothing is guessed. Where sizes fit two readings, or coordinates are needed to tell points from channels, the
error says what to write.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from chop.core.errors import PromptError
from chop.core.fields import Axis, Field, Graph, as_tensor, filled, shape_text
from chop.core.labelled import LabelledArrays, is_labelled
from chop.core.prompt import Prompt

PARTS = ("inputs", "outputs", "query")
Axes = Sequence[Axis | str]


class Reading(NamedTuple):
    """How shapes are read: ``(*batch, D, *points, c)``, where channels may be left out."""

    batch: int
    """how many axes of questions"""
    channels: bool
    """whether inputs and query end with an axis of channels"""
    output_channels: bool


@dataclass(frozen=True)
class Points:
    """Where functions are given: the sizes of their axes of points, and all coordinates ``(..., n, k)``."""

    shape: tuple[int, ...]
    coords: Tensor
    names: tuple[str, ...] | None = None


def prompt_from_arrays(
    inputs: Any,
    outputs: Any,
    query: Any,
    *,
    coords: Any = None,
    out_coords: Any = None,
    at: Any = None,
    axes: Axes | Axis | str | None = None,
    mask: Any = None,
    times: Any = None,
    graph: Any = None,
    batch: int | None = None,
) -> Prompt:
    """What `Prompt.from_arrays` does; ``batch``: how many axes of questions there are, where known."""
    stated = _axes(axes)
    parts = dict(zip(PARTS, (inputs, outputs, query), strict=True))
    labels = LabelledArrays.of(**parts) if all(map(is_labelled, parts.values())) else None
    if labels is not None:
        parts, batch = labels.arrays, labels.batch
        if coords is None:
            coords = labels.coordinates("inputs")
            out_coords = labels.coordinates("outputs") if out_coords is None else out_coords
    functions = {name: _functions(name, part, mask) for name, part in parts.items()}
    shapes = {name: tuple(part.values.shape) for name, part in functions.items()}
    given = _points(coords, "coords")
    answers = given if out_coords is None else _points(out_coords, "out_coords")
    rank = len(given.shape) if given else len(stated or (None,))
    reading = _reading(shapes, rank, given, answers, bool(given or stated), batch)
    like = functions["query"].values
    here = given or _evenly(shapes["query"][reading.batch : reading.batch + rank], stated)
    there = answers or here
    where = _points(at, "at") or there

    def field(name: str, points: Points) -> Field:
        grid = points.coords.to(like)
        # Grids that differ from question to question are those of all its examples.
        grid = grid.unsqueeze(-3) if grid.ndim > 2 and name != "query" else grid
        channels = reading.output_channels if name == "outputs" else reading.channels
        flat = functions[name].flat(reading.batch + (name != "query"), channels)
        return Field(grid, flat.values, flat.seen)

    return Prompt(
        inputs=field("inputs", here),
        outputs=field("outputs", there),
        query=field("query", here),
        at=where.coords.to(like),
        axes=_named(stated, here, given is not None),
        times=times,
        graph=_graph(graph, prod(there.shape)),
    )


@dataclass(frozen=True)
class _Functions:
    """Values of one part of a prompt and, where there are gaps, what was observed of them."""

    values: Tensor
    seen: Tensor | None

    def flat(self, lead: int, channels: bool) -> _Functions:
        """``(*lead, *points, c)`` with one axis of points and one of channels, gaps filled in."""

        def flatten(part: Tensor) -> Tensor:
            inner = part.shape[lead:-1] if channels else part.shape[lead:]
            return part.reshape(*part.shape[:lead], inner.numel(), part.shape[-1] if channels else 1)

        values, seen = flatten(self.values), None if self.seen is None else flatten(self.seen)
        return _Functions(values if seen is None else _without_gaps(values, seen), seen)


def _without_gaps(values: Tensor, seen: Tensor) -> Tensor:
    """What was not observed and is no number filled in; numbers stay as they are."""
    return torch.where(seen | torch.isfinite(values), values, filled(values, seen))


def _functions(name: str, part: Any, mask: Any) -> _Functions:
    """The values of a part as a tensor, and which of them were observed: by all that says so."""
    told = mask.get(name) if isinstance(mask, Mapping) else mask if name == "outputs" else None
    known = []
    if isinstance(part, np.ma.MaskedArray):
        known.append(torch.from_numpy(~np.ma.getmaskarray(part)))
        part = part.filled(np.nan) if part.dtype.kind == "f" else part.data
    values = as_tensor(part, name)
    if isinstance(mask, str):
        if mask != "nan":
            raise PromptError(f'mask is an array of True and False or the word "nan", not {mask!r}')
        known.append(~torch.isnan(values))
    elif told is not None:
        known.append(_mask(told, name, values))
    if isinstance(mask, Mapping) and (unknown := set(mask) - set(PARTS)):
        raise PromptError(f"mask has {', '.join(PARTS)}, not {sorted(unknown)[0]!r}")
    seen = None
    for more in known:
        if not bool(more.all()) or told is not None:
            seen = more.to(values.device) if seen is None else seen & more.to(values.device)
    gaps = torch.isnan(values) if seen is None else torch.isnan(values) & seen
    if bool(gaps.any()):
        raise PromptError(
            f'{name} {shape_text(values)} has {int(gaps.sum())} NaN; write mask="nan" if it was not observed'
        )
    return _Functions(values, seen)


def _mask(told: Any, name: str, values: Tensor) -> Tensor:
    mask = as_tensor(told, f"mask of {name}")
    if mask.dtype != torch.bool or mask.shape != values.shape:
        raise PromptError(
            f"the mask of {name} must be bool {shape_text(values)}, True where it was observed, "
            f"not {mask.dtype} {shape_text(mask)}"
        )
    return mask


def _points(coords: Any, name: str) -> Points | None:
    """Coordinates in any of their forms: one array, the axes of a grid, or those by name."""
    if coords is None:
        return None
    names = None
    if isinstance(coords, Mapping):
        names, coords = tuple(coords), tuple(coords.values())
    # A tuple lists the axes of a grid, and so does a list of arrays; a list of lists is one array of points.
    arrays = isinstance(coords, tuple) or (
        isinstance(coords, list) and all(hasattr(c, "ndim") for c in coords)
    )
    if arrays and len(coords) and np.ndim(coords[0]) > 0:
        along = [as_tensor(part, name) for part in coords]
        if any(part.ndim != 1 for part in along):
            shapes = ", ".join(shape_text(part) for part in along)
            raise PromptError(
                f"{name}=(y, x) are the coordinates along each axis of a grid, one-dimensional arrays, not "
                f"{shapes}; scattered points are one array (n, {len(along)})"
            )
        mesh = torch.meshgrid(*(part.double() for part in along), indexing="ij")
        flat = torch.stack([part.reshape(-1) for part in mesh], dim=-1)
        return Points(tuple(len(part) for part in along), flat, names)
    array = as_tensor(np.asarray(coords) if isinstance(coords, tuple | list) else coords, name)
    array = array.unsqueeze(-1) if array.ndim == 1 else array
    if array.ndim < 2 or array.is_complex() or array.dtype == torch.bool:
        raise PromptError(
            f"{name} must be numbers: (n,) or (n, d) for points, (y, x) for the axes of a grid, "
            f"not {array.dtype} {shape_text(array)}"
        )
    return Points((array.shape[-2],), array.double(), names)


def _evenly(grid: Sequence[int], axes: tuple[Axis, ...] | None) -> Points:
    """Points where nobody says: evenly from 0 to 1, or once around where the axis has a period."""
    periods = [axis.period for axis in axes] if axes else [None] * len(grid)
    along = tuple(
        np.linspace(0, 1, n) if period is None else np.arange(n) * (period / n)
        for n, period in zip(grid, periods, strict=True)
    )
    found = _points(along, "coords")
    assert found is not None
    return found


def _axes(axes: Any) -> tuple[Axis, ...] | None:
    """Axes as stated, by name or as they are."""
    if axes is None:
        return None
    given = (axes,) if isinstance(axes, Axis | str) else axes
    if not (isinstance(given, Sequence) and all(isinstance(axis, Axis | str) for axis in given)):
        raise PromptError(f"axes must be chop.Axis or names, one for each coordinate, not {axes!r}")
    return tuple(Axis(axis) if isinstance(axis, str) else axis for axis in given)


def _named(stated: tuple[Axis, ...] | None, points: Points, placed: bool) -> tuple[Axis, ...] | None:
    """What the prompt is told about its coordinates; None where it has to look at the points."""
    if stated is None and points.names is not None and points.names != ("x",):
        stated = tuple(Axis(name) for name in points.names)
    if placed:
        return stated
    if stated is None:  # points that were made up show nothing
        return (Axis("x", stated=False, placed=False),)
    return tuple(Axis(axis.name, axis.period, stated=axis.stated, placed=False) for axis in stated)


def _graph(graph: Any, size: int) -> Graph | None:
    return graph if graph is None or isinstance(graph, Graph) else Graph(graph, size)


def _readings(
    shapes: Mapping[str, tuple[int, ...]], rank: int, here: Points | None, there: Points | None
) -> Iterator[Reading]:
    """Every way to read the shapes with ``rank`` axes of points."""
    inputs, outputs, query = (shapes[name] for name in PARTS)
    output_rank = len(there.shape) if there else rank
    for channels in (False, True):
        batch = len(query) - rank - channels
        if batch < 0 or len(inputs) != len(query) + 1:
            continue
        if inputs[:batch] + inputs[batch + 1 :] != query:
            continue
        grid = query[batch : batch + rank]
        if here is not None and grid != here.shape:
            continue
        wanted = there.shape if there else grid
        for output_channels in (False, True):
            if len(outputs) != batch + 1 + output_rank + output_channels:
                continue
            lead, points = outputs[: batch + 1], outputs[batch + 1 : batch + 1 + output_rank]
            if lead == inputs[: batch + 1] and points == wanted:
                yield Reading(batch, channels, output_channels)


def _reading(
    shapes: Mapping[str, tuple[int, ...]],
    rank: int,
    here: Points | None,
    there: Points | None,
    certain: bool,
    batch: int | None,
) -> Reading:
    """The one way to read the shapes.

    ``certain`` if somebody said how many coordinates there are, ``batch`` how many axes of questions.
    """
    found = [way for way in _readings(shapes, rank, here, there) if batch is None or batch == way.batch]
    told = ", ".join(f"{name} {shape}" for name, shape in shapes.items())
    if not found:
        raise PromptError(_unreadable(told, shapes, here, there))
    if len(found) > 1:
        ways = " or ".join(_in_words(reading, shapes, rank) for reading in found)
        cure = "write all axes, (B, D, n, c) and (B, n, c)," if here else "give coords of the points"
        raise PromptError(f"{told} can be read in two ways, {ways}: {cure} or make a chop.Field of each")
    query = shapes["query"]
    if not certain and found[0].channels and query[-1] > 1 and query[-2] <= query[-1]:
        raise PromptError(
            f"{told} can be {query[-2]} points with {query[-1]} channels or a grid of {query[-2]} x "
            f"{query[-1]} points: write coords=x for points or coords=(y, x) for a grid"
        )
    return found[0]


def _in_words(reading: Reading, shapes: Mapping[str, tuple[int, ...]], rank: int) -> str:
    query, examples = shapes["query"], shapes["inputs"][reading.batch]
    points = " x ".join(map(str, query[reading.batch : reading.batch + rank]))
    channels = f" and {query[-1]} channels" if reading.channels else ""
    batch = f"{' x '.join(map(str, query[: reading.batch]))} questions of " if reading.batch else ""
    return f"{batch}{examples} examples on {points} points{channels}"


def _unreadable(
    told: str, shapes: Mapping[str, tuple[int, ...]], here: Points | None, there: Points | None
) -> str:
    inputs, query = shapes["inputs"], shapes["query"]
    if len(inputs) != len(query) + 1:
        return f"{told}: inputs need one axis of examples more than the query, (..., D, n) beside (..., n)"
    if here is None and len(query) > 2:
        return (
            f"{told} are not functions of one coordinate, (..., D, n) or (..., D, n, c); on a grid "
            "of several axes write coords=(y, x), at scattered points coords= of shape (n, d)"
        )
    if here is None:
        return (
            f"{told} do not fit together: without coords they are (..., D, n) or (..., D, n, c), the query "
            "the same without D; give coords and out_coords where outputs have points of their own"
        )
    n, m = ("x".join(map(str, points.shape)) for points in (here, there or here))
    own = "" if there is not here else "; give out_coords where outputs have points of their own"
    return (
        f"{told} do not fit coords of {n} points: inputs are (..., D, {n}) or (..., D, {n}, c), the query "
        f"the same without D, outputs are (..., D, {m}) or (..., D, {m}, c){own}"
    )
