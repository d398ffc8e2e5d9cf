"""Questions on disk, read batch by batch: a file may be larger than memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from chop.core.errors import FileError, PromptError
from chop.core.fields import filled
from chop.core.prompt import Axis, Field, Graph, Prompt
from chop.files.arrangement import PlacedArray, arrange
from chop.files.layout import ANSWERS_FORMAT, INPUT, OUTPUT, QUERY, REQUIRED, TARGET, Function
from chop.files.sources import ArraySource, StoredArray, Values, open_source
from chop.problems.question_files import CASES_FORMAT
from chop.storage.size_limits import check_size, memory_limit, unpacked_limit

if TYPE_CHECKING:
    import xarray

BATCH_BYTES = 8 * 2**20
"""Data of the questions in one batch, where nobody says how many."""
BATCH_QUESTIONS = 256


@dataclass(frozen=True, eq=False)
class Questions:
    """Some consecutive questions: a prompt with one batch axis, and the truth where it is known."""

    first: int
    prompt: Prompt
    target: Tensor | None
    """``(N, m, c)``"""
    mask: Tensor | None
    """True where the target was observed; None means everywhere."""

    def __len__(self) -> int:
        return int(self.prompt.batch[0])


class QuestionFile:
    """A question file, open for reading: ``with QuestionFile(path) as file: for part in file.batches(50)``.

    An ``xarray.Dataset`` with the same names serves in place of a file. Shapes are checked when it is
    opened, and compared with what the file holds; numbers when they are read.
    """

    def __init__(self, source: str | Path | xarray.Dataset | ArraySource) -> None:
        self.source = open_source(source)
        self.path = self.source.path
        try:
            self._refuse_others()
            self._plan = arrange(self.source)
            kinds = [self._plan.arrays[name].stored.dtype for name in REQUIRED]
            narrow = np.result_type(*kinds, np.float32) == np.float32
            self.dtype: np.dtype[Any] = np.dtype(np.float32 if narrow else np.float64)
            self._refuse_more_than_it_holds()
        except BaseException:
            self.close()
            raise
        self._once: dict[str, Values] = {}

    def _refuse_others(self) -> None:
        called = self.source.text_note("format")
        if called == ANSWERS_FORMAT:
            raise FileError(f"{self.path} holds answers, not questions")
        if called == CASES_FORMAT and self.source.number_note("complete") != 1:
            raise FileError(f"{self.path} was not written to its end; make it again")

    def _refuse_more_than_it_holds(self) -> None:
        """Before anything is read or written: a few bytes may claim to be terabytes."""
        along = {name: stored for grid in self._plan.grids.values() for name, stored in grid.axes}
        self.check_sizes({name: array.stored for name, array in self._plan.arrays.items()} | along)
        answers = prod(self.answer_shape) * self.dtype.itemsize
        if answers > unpacked_limit(self.source.size):
            raise FileError(
                f"{self.path}: {self.answer_shape} answers take {answers:,} bytes, too many for a file of "
                f"{self.source.size:,} bytes; ask at fewer points, or split it"
            )
        self._refuse_at_a_time(1)

    def check_sizes(self, arrays: Mapping[str, StoredArray]) -> None:
        """Refuse arrays of the file that claim more than it holds of them."""
        size = self.source.size
        for name, array in arrays.items():
            what = f"{self.path}: {name}"
            check_size(what, array.claimed_bytes, array.stored_bytes, array.chunk_bytes, size, FileError)

    def _refuse_at_a_time(self, questions: int) -> None:
        wanted = questions * self._memory
        if wanted > memory_limit(self.source.size):
            raise FileError(
                f"{self.path}: {questions} of its questions take {wanted:,} bytes, too many for a file of "
                f"{self.source.size:,} bytes; read fewer at a time (--batch), or split it"
            )

    def __len__(self) -> int:
        return self._plan.questions

    def __enter__(self) -> QuestionFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the file."""
        self.source.close()

    @property
    def kind(self) -> str:
        """What sort of file it is: HDF5, NetCDF-4 or npz; or xarray.Dataset."""
        return self.source.kind

    @property
    def has_target(self) -> bool:
        """Whether the true answers are there."""
        return "target" in self._plan.arrays

    @property
    def answer_shape(self) -> tuple[int, int, int]:
        """``(N, m, c)`` of all answers."""
        return len(self), self._plan.points(TARGET)[0], self._plan.arrays["output_values"].shape[-1]

    @cached_property
    def answer_grid(self) -> tuple[tuple[str, Values], ...]:
        """The axes that the points of an answer lie along, by name with their coordinates, the last fastest.

        Empty where the points are not those of a grid.
        """
        grid = self._plan.grids.get("target")
        return () if grid is None else tuple(zip(grid.names, grid.along(), strict=True))

    @property
    def question_bytes(self) -> int:
        """What one question takes on disk, without what all share."""
        return sum(
            prod(array.shape[1:]) * array.stored.dtype.itemsize
            for array in self._plan.arrays.values()
            if array.by_question
        )

    @cached_property
    def _memory(self) -> int:
        """What one question takes in memory, with its share of everything, its answer among it."""
        examples = self._plan.arrays["input_values"].shape[1]
        numbers = 0
        for function, times in ((INPUT, examples), (OUTPUT, examples), (QUERY, 1), (TARGET, 1)):
            points, coordinates = self._plan.points(function)
            values = self._plan.arrays.get(function.values, self._plan.arrays["output_values"])
            numbers += times * points * (coordinates + values.shape[-1])
        return numbers * self.dtype.itemsize

    def batch_size(self) -> int:
        """How many questions are read at a time where nobody says."""
        return max(1, min(BATCH_QUESTIONS, BATCH_BYTES // max(1, self._memory)))

    def batches(self, size: int | None = None) -> Iterator[Questions]:
        """All questions, ``size`` at a time (the last part may have fewer)."""
        step = self.batch_size() if size is None else size
        if step < 1:
            raise FileError(f"a batch needs 1 question or more, not {step}")
        for start in range(0, len(self), step):
            yield self.read(start, start + step)

    def read(self, start: int = 0, stop: int | None = None) -> Questions:
        """Questions ``start`` to ``stop``; all of them by default."""
        first, last, _ = slice(start, stop).indices(len(self))
        if first >= last:
            raise FileError(f"{self.path} has questions 0 to {len(self) - 1}, not {start} to {stop}")
        self._refuse_at_a_time(last - first)

        def field(function: Function) -> Field:
            return Field(self._coordinates(function, first, last), *self._function(function, first, last))

        target, mask = self._function(TARGET, first, last) if self.has_target else (None, None)
        try:
            prompt = Prompt(
                inputs=field(INPUT),
                outputs=field(OUTPUT),
                query=field(QUERY),
                at=self._coordinates(TARGET, first, last),
                graph=self._graph,
                axes=None if self._plan.axes is None else tuple(Axis(*axis) for axis in self._plan.axes),
                times=self._integers("times", first, last),
            )
        except PromptError as error:
            raise FileError(f"{self.path}: {error}") from None
        for name, part in (("target", target), ("target_mask", mask)):
            if part is not None and part.shape != prompt.answer_shape:
                shape = (len(self), *part.shape[1:])
                raise FileError(f"{self.path}: {name} is {shape}, but the answers are {self.answer_shape}")
        return Questions(first, prompt, target, mask)

    def question(self, index: int) -> Questions:
        """One question, by its number from 0."""
        if not 0 <= index < len(self):
            raise FileError(f"{self.path} has questions 0 to {len(self) - 1}, so --index {index} is none")
        return self.read(index, index + 1)

    def _function(self, function: Function, first: int, last: int) -> tuple[Tensor, Tensor | None]:
        """Values and mask of some questions, also where all share them."""
        array, mask = self._plan.arrays[function.values], self._plan.arrays.get(function.mask)
        shape = [last - first, *array.shape[1:]]
        if not array.by_question and len(shape) == 4 and shape[1] == 1:
            examples = self._plan.arrays["output_values" if function is INPUT else "input_values"]
            shape[1] = examples.shape[1]
        if mask is not None and any(n not in (1, m) for n, m in zip(mask.shape[1:], shape[1:], strict=True)):
            raise FileError(
                f"{self.path}: {mask.spec.name} is {mask.stored.shape}, the values are {array.stored.shape}"
            )
        seen = None if mask is None else np.broadcast_to(self._flags(mask, first, last), shape)
        values = np.broadcast_to(self._numbers(array, first, last), shape)
        return self._observed(values, seen, array, mask, first)

    def _observed(
        self, values: Values, seen: Values | None, array: PlacedArray, mask: PlacedArray | None, first: int
    ) -> tuple[Tensor, Tensor | None]:
        """Values that are finite everywhere, and where they were observed; None means everywhere.

        NaN, which NetCDF and numpy write where nothing was observed, must not contradict a mask; it is filled
        by what was.
        """
        name, unknown = array.spec.name, np.isnan(values)

        def refuse(bad: Any, what: str) -> None:
            self._refuse(name, bad, array.by_question, first, what)

        refuse(np.isinf(values), "infinity")
        if not unknown.any():
            return _tensor(values), None if seen is None else _tensor(seen)
        known = ~unknown if seen is None else seen & ~unknown
        if mask is not None and not mask.of_points:
            refuse(unknown & seen, f"NaN where {mask.spec.name} says that it was observed; write 0 there")
        elif name != "target":
            nothing = unknown.any(axis=(-1, -2)) & ~known.any(axis=(-1, -2))
            cure = "leave it out, or fill it in and write 0 there into a mask"
            refuse(nothing, f"NaN at every point, nothing to go by; {cure}")
        # What a mask hides and the file holds stays as it is: somebody filled it in.
        fill = filled(_tensor(values), _tensor(known))
        return torch.where(_tensor(unknown), fill, _tensor(values)), _tensor(known)

    def _refuse(self, name: str, bad: Any, by_question: bool, first: int, what: str) -> None:
        """Say which question has values that are bad, if any has."""
        if bad.any():
            question = f" of question {first + int(np.argwhere(bad)[0][0])}" if by_question else ""
            raise FileError(f"{self.path}: {name}{question} holds {what}")

    def _coordinates(self, function: Function, first: int, last: int) -> Tensor:
        grid = self._plan.grids.get(function.name)
        if grid is None:
            array, name = self._plan.arrays[function.coords], function.coords
            values, by_question = self._numbers(array, first, last), array.by_question
        else:
            if function.coords not in self._once:
                self._once[function.coords] = grid.coordinates().astype(self.dtype)
            name = f"the grid {', '.join(grid.names)}"
            values, by_question = self._once[function.coords], False
        self._refuse(name, ~np.isfinite(values), by_question, first, "NaN or infinity")
        return _tensor(values)

    @cached_property
    def _graph(self) -> Graph | None:
        """One for all batches: it remembers who neighbours whom."""
        edges = self._integers("graph", 0, 1)
        return None if edges is None else Graph(edges, self._plan.points(TARGET)[0])

    def _integers(self, name: str, first: int, last: int) -> Tensor | None:
        if name not in self._plan.arrays:
            return None
        values = self._take(self._plan.arrays[name], first, last)
        if values.dtype.kind == "f":
            raise FileError(f"{self.path}: {name} has missing values; it needs a whole number everywhere")
        return torch.from_numpy(values.astype(np.int64))

    def _flags(self, array: PlacedArray, first: int, last: int) -> Values:
        values = self._take(array, first, last)
        if values.dtype.kind != "b" and not np.isin(values, (0, 1)).all():
            raise FileError(f"{self.path}: {array.spec.name} must be 0 or 1 everywhere")
        return values.astype(bool)

    def _numbers(self, array: PlacedArray, first: int, last: int) -> Values:
        with np.errstate(over="ignore", invalid="ignore"):  # what is not finite is told with its place
            return self._take(array, first, last).astype(self.dtype)

    def _take(self, array: PlacedArray, first: int, last: int) -> Values:
        """The rows of some questions, or what all share (read once), with all axes of the layout."""
        if array.by_question:
            return array.stored.rows(first, last).reshape(last - first, *array.shape[1:])
        name = array.spec.name
        if name not in self._once:
            self._once[name] = array.stored.whole().reshape(array.shape)
        return self._once[name]


def _tensor(values: Values) -> Tensor:
    return torch.from_numpy(np.array(values))
