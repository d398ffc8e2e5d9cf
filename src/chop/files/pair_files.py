"""Pairs out of files, block by block: a file may be larger than memory.

A question file gives all its example pairs and, where the target is there and has as many points as outputs
have, the query with it. A plain file of pairs has arrays ``inputs`` and ``outputs``, one row for each pair,
and may have ``coords`` and ``out_coords``, ``input_mask`` and ``output_mask``, ``times`` and ``known``,
``graph`` and the note ``axes``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from chop.bank.pairs import Pairs
from chop.core.errors import BankError, FileError, PromptError
from chop.core.fields import Axis, Field, Graph, filled
from chop.core.labelled import AXIS_NAMES, CHANNEL_NAMES
from chop.files.layout import NamedArrays
from chop.files.questions import QuestionFile, Questions
from chop.files.sources import ArraySource, StoredArray, Values, open_source
from chop.storage.size_limits import check_size

BLOCK_BYTES = 16 * 2**20
"""Values that are read at a time."""


class PairFile(ABC):
    """A file that pairs are read from, block by block: ``with open_pairs(path) as file``."""

    path: Path

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def blocks(self, first: int = 0) -> Iterator[tuple[int, Pairs]]:
        """Its pairs from number ``first`` on, which a block began with or would begin with."""

    @abstractmethod
    def close(self) -> None:
        """Let go of the file."""

    def __enter__(self) -> PairFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def open_pairs(path: str | Path) -> PairFile:
    """The pairs of a file: one of questions, or a plain one of pairs."""
    source = open_source(path)
    try:
        if {"inputs", "outputs"} <= source.arrays.keys():
            return PlainPairFile(source)
        return QuestionPairFile(QuestionFile(source))
    except BaseException:
        source.close()
        raise


class QuestionPairFile(PairFile):
    """Every pair of a question file: the examples of each question, then its query with the target."""

    def __init__(self, file: QuestionFile) -> None:
        self._file, self.path = file, file.path
        first = file.read(0, 1)
        self._each = _question_pairs(first).inputs.values.shape[0]

    def __len__(self) -> int:
        return len(self._file) * self._each

    def blocks(self, first: int = 0) -> Iterator[tuple[int, Pairs]]:
        step = max(1, min(len(self._file), BLOCK_BYTES // max(1, self._file.question_bytes)))
        for start in range(first // self._each, len(self._file), step):
            yield start * self._each, _question_pairs(self._file.read(start, start + step))

    def close(self) -> None:
        self._file.close()


def _question_pairs(questions: Questions) -> Pairs:
    """The pairs of some questions, question after question."""
    prompt, target = questions.prompt, questions.target
    inputs, outputs = prompt.inputs, prompt.outputs
    fits = prompt.query.points == inputs.points and prompt.at.shape[-2] == outputs.points
    if target is not None and fits:
        inputs = _with_last(inputs, prompt.query)
        outputs = _with_last(outputs, Field(prompt.at, target, questions.mask))
    flat = [part.each(lambda tensor: _flattened(tensor)) for part in (inputs, outputs)]
    return Pairs(flat[0], flat[1], prompt.axes, prompt.graph)


def _with_last(examples: Field, last: Field) -> Field:
    """Examples ``(N, D, n, c)`` and one more ``(N, n, c)``."""

    def joined(many: Tensor, one: Tensor) -> Tensor:
        return torch.cat([many, one.unsqueeze(1)], dim=1)

    grid = examples.coords[:1, :1]
    shared = bool((examples.coords == grid).all()) and bool((last.coords == grid[:, 0]).all())
    masked = examples.mask is not None or last.mask is not None
    return Field(
        grid if shared else joined(examples.coords, last.coords),
        joined(examples.values, last.values),
        joined(examples.observed, last.observed) if masked else None,
    )


def _flattened(tensor: Tensor) -> Tensor:
    """``(N, D, n, c)`` as ``(N D, n, c)``; what all share stays shared."""
    if tensor.stride(0) == 0 == tensor.stride(1):
        return tensor[0, 0].expand(tensor.shape[0] * tensor.shape[1], *tensor.shape[2:])
    return tensor.flatten(0, 1)


class NamedRows:
    """Arrays of a file whose rows belong together, checked before anything is read.

    ``by_row`` and ``shared`` are names that it may have; the latter belong to all rows.
    """

    def __init__(self, source: ArraySource, by_row: Iterable[str], shared: Iterable[str]) -> None:
        self.source = source
        arrays = source.arrays
        self.by_row = {name: arrays[name] for name in by_row if name in arrays}
        self.shared = {name: arrays[name] for name in shared if name in arrays}
        for name, array in (self.by_row | self.shared).items():
            what = f"{source.path}: {name}"
            if array.dtype.kind not in "biuf":
                raise FileError(f"{what} holds {array.dtype}, not numbers")
            check_size(
                what, array.claimed_bytes, array.stored_bytes, array.chunk_bytes, source.size, FileError
            )

    def count(self, name: str) -> int:
        """Rows of an array, which all others must have too."""
        shape = self.by_row[name].shape
        if len(shape) < 2 or not prod(shape):
            raise FileError(f"{self.source.path}: {name} is {shape}, but (N, n) or (N, n, c) is wanted")
        for other, array in self.by_row.items():
            if array.shape[:1] != shape[:1]:
                raise FileError(
                    f"{self.source.path}: {name} has {shape[0]} rows, but {other} is {array.shape}"
                )
        return shape[0]

    def rows(self, start: int, stop: int) -> dict[str, Values]:
        return {name: array.rows(start, stop) for name, array in self.by_row.items()}

    def row_bytes(self) -> int:
        return sum(prod(array.shape[1:]) * array.dtype.itemsize for array in self.by_row.values())

    def axes(self) -> tuple[Axis, ...] | None:
        """What the note ``axes`` says."""
        stated = NamedArrays(self.source).stated_axes()
        return None if stated is None else tuple(Axis(name, period) for name, period in stated)

    def grid(self, name: str) -> dict[str, Values] | None:
        """Coordinates along the named axes of an array; None where it has none."""
        array = self.source.arrays[name]
        noted = self.source.text_note("grid")
        names: list[str | None] = [word.strip() for word in noted.split(",")] if noted else [*array.dims[1:]]
        if names and not noted and (names[-1] in CHANNEL_NAMES or self._along(names[-1]) is None):
            names.pop()
        along = {axis: self._along(axis) for axis in names if axis is not None}
        if not names or len(along) != len(names) or any(part is None for part in along.values()):
            return None
        return {AXIS_NAMES.get(axis, axis): part.whole() for axis, part in along.items() if part is not None}

    def _along(self, axis: str | None) -> StoredArray | None:
        stored = None if axis is None else self.source.arrays.get(axis)
        return (
            stored if stored is not None and len(stored.shape) == 1 and stored.dtype.kind in "iuf" else None
        )


class PlainPairFile(PairFile):
    """A file with one row for each pair."""

    _BY_ROW = ("inputs", "outputs", "input_mask", "output_mask", "times", "known")
    _SHARED = ("coords", "out_coords", "graph")

    def __init__(self, source: ArraySource) -> None:
        self.path = source.path
        own = [
            name
            for name in ("coords", "out_coords")
            if name in source.arrays and len(source.arrays[name].shape) == 3
        ]
        self._arrays = NamedRows(
            source, (*self._BY_ROW, *own), [name for name in self._SHARED if name not in own]
        )
        self._count = self._arrays.count("inputs")
        kinds = [self._arrays.by_row[name].dtype for name in ("inputs", "outputs")]
        self._dtype = np.float32 if np.result_type(*kinds, np.float32) == np.float32 else np.float64

    def __len__(self) -> int:
        return self._count

    def blocks(self, first: int = 0) -> Iterator[tuple[int, Pairs]]:
        step = max(1, min(self._count, BLOCK_BYTES // max(1, self._arrays.row_bytes())))
        for start in range(first, self._count, step):
            try:
                yield start, self._pairs(start, min(start + step, self._count))
            except (PromptError, BankError) as error:
                raise FileError(f"{self.path}, pairs from {start} on: {error}") from None

    def _pairs(self, start: int, stop: int) -> Pairs:
        rows = self._arrays.rows(start, stop)
        with np.errstate(over="ignore", invalid="ignore"):  # what is not finite is told with its place
            values = {name: rows[name].astype(self._dtype) for name in ("inputs", "outputs")}
        masks = {
            f"{name}s": _flags(rows[f"{name}_mask"], values[f"{name}s"], f"{name}_mask")
            for name in ("input", "output")
            if f"{name}_mask" in rows
        }
        shared = self._arrays.shared
        points = {name: rows[name] if name in rows else shared[name].whole() if name in shared else None
                  for name in ("coords", "out_coords")}  # fmt: skip
        times: dict[str, Values] = {
            str(name): whole_numbers(rows[name], name) for name in ("times", "known") if name in rows
        }
        graph = None if "graph" not in shared else whole_numbers(shared["graph"].whole(), "graph")
        axes = self._arrays.axes()
        if any(part is not None and part.ndim == 3 for part in points.values()):
            return self._at_own_points(values, masks, points, times, graph, axes)
        coords: Any = points["coords"]
        out_coords: Any = points["out_coords"]
        if coords is None:
            coords = self._arrays.grid("inputs")
            out_coords = (
                self._arrays.grid("outputs") if out_coords is None and coords is not None else out_coords
            )
        gaps = any(np.isnan(part).any() for part in values.values())
        mask: Any = masks or ("nan" if gaps else None)
        return Pairs.from_arrays(
            values["inputs"], values["outputs"], coords=coords, out_coords=out_coords, axes=axes, mask=mask,
            times=times.get("times"), known=times.get("known"), graph=graph,
        )  # fmt: skip

    def _at_own_points(
        self,
        values: Mapping[str, Values],
        masks: Mapping[str, Values],
        points: Mapping[str, Values | None],
        times: Mapping[str, Values],
        graph: Values | None,
        axes: tuple[Axis, ...] | None,
    ) -> Pairs:
        """Pairs that each have points of their own ``(N, n, k)``."""
        if points["coords"] is None:
            raise BankError("out_coords of each pair need coords beside them")
        there = points["coords"] if points["out_coords"] is None else points["out_coords"]

        def field(name: str, where: Values) -> Field:
            numbers = torch.from_numpy(values[name])
            numbers = numbers.unsqueeze(-1) if numbers.ndim == 2 else numbers
            told = torch.from_numpy(masks[name]).reshape(numbers.shape) if name in masks else None
            seen = ~torch.isnan(numbers) if told is None else told
            whole = torch.where(seen | torch.isfinite(numbers), numbers, filled(numbers, seen))
            return Field(
                torch.from_numpy(where.astype(self._dtype)), whole, None if bool(seen.all()) else seen
            )

        inputs, outputs = field("inputs", points["coords"]), field("outputs", there)
        edges = None if graph is None else Graph(graph, outputs.points)
        return Pairs(inputs, outputs, axes, edges, times.get("times"), times.get("known"))

    def close(self) -> None:
        self._arrays.source.close()


def _flags(mask: Values, values: Values, name: str) -> Values:
    if mask.dtype.kind != "b" and not np.isin(mask, (0, 1)).all():
        raise BankError(f"{name} must be 0 or 1 everywhere")
    if mask.shape == values.shape[:-1]:
        mask = np.broadcast_to(mask[..., None], values.shape)
    return np.array(mask, dtype=bool)


def whole_numbers(values: Values, name: str) -> Values:
    """Times or edges, which must be integers."""
    if values.dtype.kind not in "iu":
        raise BankError(f"{name} must be whole numbers, not {values.dtype}")
    return values.astype(np.int64)
