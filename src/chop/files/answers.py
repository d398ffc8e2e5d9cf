"""Answers on disk, written as they come: HDF5 that is NetCDF-4 too, or npz.

Values are streamed; the few numbers of each question (error, rejected) are kept and written at the end.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from chop.atomic import NewHdf5
from chop.files.errors import FileError
from chop.files.sources import Values

FORMAT = "chop answers"
VERSION = 1
SUFFIXES = (".h5", ".hdf5", ".nc", ".npz")
_AXES = ("question", "point", "channel")


class Answers(Protocol):
    """An answer file being written."""

    def append(self, values: Values) -> None:
        """The answers ``(rows, m, c)`` to the next questions."""
        ...

    def finish(self, columns: Mapping[str, Values], about: Mapping[str, Any]) -> None:
        """One number a question for each name, and what is to be said of the whole."""
        ...


def check_suffix(path: Path) -> None:
    """Say at once if answers cannot be written in such a file."""
    if path.suffix.lower() not in SUFFIXES:
        raise FileError(f"answers are written to .h5, .nc or .npz files, not to {path.name}")


@contextmanager
def open_answers(
    path: Path, suffix: str, shape: tuple[int, int, int], dtype: np.dtype[Any]
) -> Iterator[Answers]:
    """A file for ``(N, m, c)`` answers, of the sort that the suffix names."""
    if suffix.lower() == ".npz":
        with zipfile.ZipFile(path, "w") as archive:
            answers = NpzAnswers(archive, shape, dtype)
            try:
                yield answers
            finally:
                answers.close()
    else:
        with NewHdf5(path, track_order=True) as new:  # NetCDF asks for the order
            yield Hdf5Answers(new, shape, dtype)


class Hdf5Answers:
    """HDF5 with named dimensions, which makes it NetCDF-4: xarray reads it as it is."""

    def __init__(self, new: NewHdf5, shape: tuple[int, int, int], dtype: np.dtype[Any]) -> None:
        self._new, self._file = new, new.file
        file = new.file
        for name, length in zip(_AXES, shape, strict=True):
            file[name] = np.arange(length)
            file[name].make_scale(name)
        self._values = file.create_dataset("values", shape, dtype)
        self._named(self._values)
        self._rows = 0

    def _named(self, data: Any) -> None:
        for axis in range(data.ndim):
            data.dims[axis].attach_scale(self._file[_AXES[axis]])

    def append(self, values: Values) -> None:
        self._values[self._rows : self._rows + len(values)] = values
        self._rows += len(values)
        self._new.check()

    def finish(self, columns: Mapping[str, Values], about: Mapping[str, Any]) -> None:
        for name, numbers in columns.items():
            # NetCDF knows no booleans.
            kept = numbers.astype(np.int8) if numbers.dtype == bool else numbers
            self._named(self._file.create_dataset(name, data=kept))
        for name, value in {"format": FORMAT, "version": VERSION, **about}.items():
            self._file.attrs[name] = value


class NpzAnswers:
    """An uncompressed npz file; no array is held whole."""

    def __init__(self, archive: zipfile.ZipFile, shape: tuple[int, int, int], dtype: np.dtype[Any]) -> None:
        self._archive = archive
        self._values = archive.open("values.npy", "w", force_zip64=True)
        header = {
            "descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": shape,
        }  # fmt: skip
        np.lib.format.write_array_header_1_0(self._values, header)
        self._dtype = dtype

    def append(self, values: Values) -> None:
        self._values.write(np.ascontiguousarray(values, dtype=self._dtype).tobytes())

    def finish(self, columns: Mapping[str, Values], about: Mapping[str, Any]) -> None:
        self.close()
        for name, content in {**columns, "format": FORMAT, "version": VERSION, **about}.items():
            with self._archive.open(f"{name}.npy", "w") as member:
                np.lib.format.write_array(member, np.asarray(content), allow_pickle=False)

    def close(self) -> None:
        """End the array; no member of an archive can be begun before."""
        self._values.close()


__all__ = ["FORMAT", "SUFFIXES", "Answers", "check_suffix", "open_answers"]
