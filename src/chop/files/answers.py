"""Answers on disk: HDF5 that is NetCDF-4 too, or npz; the same bytes for the same answers.

Values are streamed; the few numbers of each question (error, rejected) are written at the end.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from chop.core.errors import FileError
from chop.files.sources import Values
from chop.storage.atomic import NewHdf5

FORMAT = "chop answers"
VERSION = 1
SUFFIXES = (".h5", ".hdf5", ".nc", ".npz")
REASONS = ("rejected_question", "reason")
"""The numbers of questions that are rejected, and why each is."""

Grid = tuple[tuple[str, Values], ...]
"""Named axes with their coordinates along which the points of an answer lie, the last fastest."""


class Answers(Protocol):
    """An answer file being written."""

    def append(self, values: Values) -> None:
        """The answers ``(rows, m, c)`` to the next questions."""
        ...

    def finish(
        self, columns: Mapping[str, Values], reasons: Mapping[int, str], about: Mapping[str, Any]
    ) -> None:
        """One number a question for each name, why some are rejected, and what is to be said of the whole."""
        ...


def check_suffix(path: Path) -> None:
    """Say at once if answers cannot be written in such a file."""
    if path.suffix.lower() not in SUFFIXES:
        raise FileError(f"answers are written to .h5, .nc or .npz files, not to {path.name}")


@contextmanager
def open_answers(
    path: Path, suffix: str, shape: tuple[int, int, int], dtype: np.dtype[Any], grid: Grid = ()
) -> Iterator[Answers]:
    """A file for ``(N, m, c)`` answers, of the sort that the suffix names."""
    axes = _axes(shape, grid)
    if suffix.lower() == ".npz":
        with zipfile.ZipFile(path, "w") as archive:
            answers = NpzAnswers(archive, axes, dtype, grid)
            try:
                yield answers
            finally:
                answers.close()
    else:
        with NewHdf5(path, track_order=True) as new:  # NetCDF asks for the order
            yield Hdf5Answers(new, axes, dtype)


def _axes(shape: tuple[int, int, int], grid: Grid) -> dict[str, Values]:
    """The axes of the values by name: the points are one of them, or those of a grid."""
    questions, points, channels = map(np.arange, shape)
    between = dict(grid) if grid and not _TAKEN & {name for name, _ in grid} else {"point": points}
    return {"question": questions, **between, "channel": channels}


_TAKEN = {"question", "channel", "values", "rejected", "error", "rel_l2", *REASONS}


class Hdf5Answers:
    """HDF5 with named dimensions, which makes it NetCDF-4: xarray reads it as it is."""

    def __init__(self, new: NewHdf5, axes: Mapping[str, Values], dtype: np.dtype[Any]) -> None:
        self._new, self._file = new, new.file
        for name, along in axes.items():
            self._dimension(name, along)
        self._shape = tuple(map(len, axes.values()))
        self._values = self._file.create_dataset("values", self._shape, dtype)
        self._named(self._values, *axes)
        self._rows = 0

    def _dimension(self, name: str, along: Values) -> None:
        self._file[name] = along
        self._file[name].make_scale(name)

    def _named(self, data: Any, *axes: str) -> None:
        for axis, name in enumerate(axes):
            data.dims[axis].attach_scale(self._file[name])

    def append(self, values: Values) -> None:
        block = values.reshape(-1, *self._shape[1:])
        self._values[self._rows : self._rows + len(block)] = block
        self._rows += len(block)
        self._new.check()

    def finish(
        self, columns: Mapping[str, Values], reasons: Mapping[int, str], about: Mapping[str, Any]
    ) -> None:
        for name, numbers in columns.items():
            # NetCDF knows no booleans.
            kept = numbers.astype(np.int8) if numbers.dtype == bool else numbers
            self._named(self._file.create_dataset(name, data=kept), "question")
        if reasons:  # an axis of length 0 would be an unlimited one
            number, reason = REASONS
            self._dimension(number, np.array(list(reasons)))
            self._file[reason] = list(reasons.values())
            self._named(self._file[reason], number)
        for name, value in {"format": FORMAT, "version": VERSION, **about}.items():
            self._file.attrs[name] = value


class NpzAnswers:
    """An uncompressed npz file; no array is held whole."""

    def __init__(
        self, archive: zipfile.ZipFile, axes: Mapping[str, Values], dtype: np.dtype[Any], grid: Grid
    ) -> None:
        self._archive, self._dtype = archive, dtype
        self._grid = {name: along for name, along in grid if name in axes}
        # Members without their time of writing, so that the same answers are the same bytes.
        self._values = archive.open(zipfile.ZipInfo("values.npy"), "w", force_zip64=True)
        header = {
            "descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False,
            "shape": tuple(map(len, axes.values())),
        }  # fmt: skip
        np.lib.format.write_array_header_1_0(self._values, header)

    def append(self, values: Values) -> None:
        self._values.write(np.ascontiguousarray(values, dtype=self._dtype).tobytes())

    def finish(
        self, columns: Mapping[str, Values], reasons: Mapping[int, str], about: Mapping[str, Any]
    ) -> None:
        self.close()
        why = (np.array(list(reasons)), np.array(list(reasons.values())))
        listed = dict(zip(REASONS, why, strict=True)) if reasons else {}
        told = {"format": FORMAT, "version": VERSION, **about}
        for name, content in {**self._grid, **columns, **listed, **told}.items():
            with self._archive.open(zipfile.ZipInfo(f"{name}.npy"), "w") as member:
                np.lib.format.write_array(member, np.asarray(content), allow_pickle=False)

    def close(self) -> None:
        """End the array; no member of an archive can be begun before."""
        self._values.close()


__all__ = ["FORMAT", "REASONS", "SUFFIXES", "Answers", "check_suffix", "open_answers"]
