"""Questions on disk, read batch by batch: a file may be larger than memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from chop.errors import PromptError
from chop.files.errors import FileError
from chop.files.layout import GENERATED, REQUIRED, SPECS, Placed, axes_of, named, place
from chop.files.sources import Source, Values, open_source
from chop.prompt import Axis, Field, Graph, Prompt

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

    Shapes are checked when it is opened, numbers when they are read.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path).expanduser()
        self._where = str(self.path)
        self._source: Source = open_source(self.path)
        try:
            self._refuse_others()
            self._arrays = self._placed()
            self._rows = self._counted()
            self._axes = axes_of(self._source.notes, self._where)
        except BaseException:
            self.close()
            raise
        values = (self._arrays[name].stored.dtype for name in REQUIRED if name.endswith("_values"))
        self.dtype = np.result_type(*values, np.float32)
        self._once: dict[str, Tensor] = {}

    def _refuse_others(self) -> None:
        notes = self._source.notes
        if notes.get("format") == "chop answers":
            raise FileError(f"{self.path} holds answers, not questions")
        if notes.get("format") == GENERATED and not notes.get("complete"):
            raise FileError(f"{self.path} was not written to its end; make it again")

    def _placed(self) -> dict[str, Placed]:
        found = named(self._source.arrays, self._where)

        def points(name: str) -> int:
            shape = found[name].shape
            return shape[-2] if len(shape) > 1 else shape[0] if shape else 0

        known = {"input": "input_coords", "output": "output_coords", "query": "query_coords", "target": "at"}
        return {
            name: place(
                SPECS[name],
                stored,
                points(known[name.split("_")[0]]) if SPECS[name].kind in ("values", "mask") else None,
                self._where,
            )
            for name, stored in found.items()
        }

    def _counted(self) -> int:
        counts = {name: array.stored.shape[0] for name, array in self._arrays.items() if array.by_question}
        if not counts:
            raise FileError(f"{self.path}: no array has an axis of questions")
        name, rows = next(iter(counts.items()))
        for other, count in counts.items():
            if count != rows:
                raise FileError(f"{self.path}: {name} has {rows} questions, but {other} has {count}")
        if not rows:
            raise FileError(f"{self.path} holds no questions: {name} is {self._arrays[name].stored.shape}")
        return rows

    def __len__(self) -> int:
        return self._rows

    def __enter__(self) -> QuestionFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the file."""
        self._source.close()

    @property
    def kind(self) -> str:
        """What sort of file it is: HDF5, NetCDF-4 or npz."""
        return self._source.kind

    @property
    def has_target(self) -> bool:
        """Whether the true answers are there."""
        return "target" in self._arrays

    @property
    def answer_shape(self) -> tuple[int, int, int]:
        """``(N, m, c)`` of all answers."""
        outputs = self._arrays["output_values"]
        return len(self), self._points("at"), 1 if outputs.widen else outputs.stored.shape[-1]

    @property
    def question_bytes(self) -> int:
        """What one question takes on disk, without what all share."""
        return sum(
            prod(array.stored.shape[1:]) * array.stored.dtype.itemsize
            for array in self._arrays.values()
            if array.by_question
        )

    def batch_size(self) -> int:
        """How many questions are read at a time where nobody says."""
        return max(1, min(BATCH_QUESTIONS, BATCH_BYTES // max(1, self.question_bytes)))

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

        def take(name: str) -> Tensor:
            return self._take(name, first, last)

        def optional(name: str) -> Tensor | None:
            return take(name) if name in self._arrays else None

        def spread(name: str) -> Tensor | None:
            """With an axis of questions, also if all share it."""
            own = len(SPECS[name].axes) - 1
            found = optional(name)
            return None if found is None else found.expand(last - first, *found.shape[-own:])

        def field(name: str) -> Field:
            values = spread(f"{name}_values")
            assert values is not None
            return Field(take(f"{name}_coords"), values, spread(f"{name}_mask"))

        target, mask = spread("target"), spread("target_mask")
        try:
            prompt = Prompt(
                inputs=field("input"),
                outputs=field("output"),
                query=field("query"),
                at=take("at"),
                graph=self._graph,
                axes=None if self._axes is None else tuple(Axis(*axis) for axis in self._axes),
                times=optional("times"),
            )
        except PromptError as error:
            raise FileError(f"{self.path}: {error}") from None
        for name, truth in (("target", target), ("target_mask", mask)):
            if truth is not None and truth.shape != prompt.answer_shape:
                shape = (len(self), *truth.shape[1:])
                raise FileError(f"{self.path}: {name} is {shape}, but the answers are {self.answer_shape}")
        return Questions(first, prompt, target, mask)

    @cached_property
    def _graph(self) -> Graph | None:
        """One for all batches: it remembers who neighbours whom."""
        if "graph" not in self._arrays:
            return None
        return Graph(self._take("graph", 0, 1), self._points("at"))

    def _points(self, coords: str) -> int:
        array = self._arrays[coords]
        return array.stored.shape[-1 if array.widen else -2]

    def _take(self, name: str, first: int, last: int) -> Tensor:
        array = self._arrays[name]
        if array.by_question:
            return self._checked(array, array.stored.rows(first, last), first)
        if name not in self._once:
            self._once[name] = self._checked(array, array.stored.whole(), 0)
        return self._once[name]

    def _checked(self, array: Placed, values: Values, first: int) -> Tensor:
        """Numbers as tensors; what is not a number is said with the place where it stands."""
        kind, name = array.spec.kind, array.spec.name
        if array.widen:
            values = values[..., None]
        if kind == "mask":
            if values.dtype.kind != "b" and not np.isin(values, (0, 1)).all():
                raise FileError(f"{self.path}: {name} must be 0 or 1 everywhere")
            return torch.from_numpy(values.astype(bool))
        if kind in ("times", "graph"):
            return torch.from_numpy(values.astype(np.int64))
        bad = ~np.isfinite(values)
        if name == "target" and "target_mask" in self._arrays and bad.any():
            unseen = ~self._take("target_mask", first, first + len(values)).numpy()
            if unseen.shape == values.shape:  # otherwise that is told later
                values, bad = np.where(bad & unseen, 0, values), bad & ~unseen
        if bad.any():
            raise FileError(self._not_finite(array, bad, first))
        return torch.from_numpy(np.array(values, dtype=self.dtype))

    def _not_finite(self, array: Placed, bad: np.ndarray[Any, Any], first: int) -> str:
        name = array.spec.name
        where = f" of question {first + int(np.argwhere(bad)[0][0])}" if array.by_question else ""
        mask = name.replace("_values", "") + "_mask"
        cure = f"; fill it in and write 0 there into {mask}" if mask in SPECS else ""
        return f"{self.path}: {name}{where} holds NaN or infinity{cure}"


__all__ = ["QuestionFile", "Questions"]
