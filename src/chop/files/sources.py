"""Named arrays, read by rows: what HDF5, NetCDF-4, npz and an xarray.Dataset have in common."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from chop.core.errors import FileError

if TYPE_CHECKING:
    import xarray

Values = np.ndarray[Any, Any]


class StoredArray(ABC):
    """An array of a file."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    dims: tuple[str | None, ...]
    """The names of its axes, None where they have none; a name may be that of an array of coordinates."""
    stored_bytes: int
    """What it takes in the file."""
    chunk_bytes: int = 0
    """What is unpacked for even a single row."""

    @property
    def claimed_bytes(self) -> int:
        """What it takes once it is read."""
        return prod(self.shape) * self.dtype.itemsize

    def is_shared(self) -> bool:
        """Whether the file itself says that all questions share it."""
        return False

    @abstractmethod
    def rows(self, start: int, stop: int) -> Values:
        """A part along the first axis; no more than that is held in memory."""

    @abstractmethod
    def whole(self) -> Values:
        """All of it."""


class ArraySource(ABC):
    """An open file, or a data set in memory."""

    kind: str
    """What sort of file it is, in words."""
    path: Path
    """Where it is; a name for what is in memory."""
    size: int
    """Its bytes."""
    arrays: Mapping[str, StoredArray]
    """Every array by its name; groups are written with ``/``."""
    notes: Mapping[str, Any]
    """What the file says about itself: attributes, or arrays that hold one text."""

    def text_note(self, name: str) -> str:
        """What a note says; empty if there is none."""
        value = self.notes.get(name, "")
        return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)

    def number_note(self, name: str) -> int | None:
        """The whole number that a note is, if it is one."""
        return whole_number(self.notes.get(name))

    @abstractmethod
    def close(self) -> None:
        """Let go of the file."""


def open_source(source: Any) -> ArraySource:
    """The file, by what is in it and not by its name, or a data set in memory; or what is open."""
    if isinstance(source, ArraySource):
        return source
    if not isinstance(source, str | Path):
        xarray = sys.modules.get("xarray")  # who has a Dataset has imported it
        if xarray is None or not isinstance(source, xarray.Dataset):
            raise FileError(f"questions are in a file or an xarray.Dataset, not in a {type(source).__name__}")
        return DatasetSource(source)
    path = _home(source)
    if path.is_dir():
        raise FileError(f"{path} is a folder; name the file with the questions in it")
    if not path.exists():
        raise FileError(f"there is no file {path}")
    if not path.is_file():
        raise FileError(f"{path} is a device or a pipe; write the questions to a file first")
    try:
        with path.open("rb") as file:
            start = file.read(8)
    except OSError as error:
        raise FileError(f"{path} cannot be read: {error.strerror}") from None
    if start.startswith(b"PK"):
        from chop.files.npz import NpzSource

        return NpzSource(path)
    from chop.storage.hdf5 import is_hdf5

    if is_hdf5(path):
        from chop.files.hdf5 import Hdf5Source

        return Hdf5Source(path)
    raise FileError(_why_not(path, start))


def _home(path: str | Path) -> Path:
    try:
        return Path(path).expanduser()
    except RuntimeError:  # "~nobody" is a name like any other
        return Path(path)


def _why_not(path: Path, start: bytes) -> str:
    if not start:
        return f"{path} is empty; write it again"
    if start.startswith(b"CDF"):
        return (
            f"{path} is a NetCDF-3 file; convert it to NetCDF-4, with nccopy -k nc4 or xarray's "
            'to_netcdf(..., engine="h5netcdf")'
        )
    if start.startswith(b"\x93NUMPY"):
        return f"{path} holds one array without a name; write all of them into one file with numpy.savez"
    return f"{path} is neither HDF5, NetCDF-4 nor npz; questions are read from .h5, .nc or .npz files"


def whole_number(given: Any) -> int | None:
    """What somebody wrote as one whole number, or as True or False; None if it is neither."""
    value = np.asarray(given)
    return int(value.item()) if value.size == 1 and value.dtype.kind in "biu" else None


class VariableArray(StoredArray):
    """A variable of a data set; one that xarray has not loaded yet is read by rows."""

    def __init__(self, variable: xarray.Variable) -> None:
        if variable.dtype.kind in "mM":  # dates become the numbers that NetCDF would hold
            from xarray.conventions import encode_cf_variable

            variable = encode_cf_variable(variable)
        self._variable = variable
        self.shape, self.dtype = variable.shape, np.dtype(variable.dtype)
        self.dims = tuple(str(name) for name in variable.dims)
        self.stored_bytes = int(variable.nbytes)

    def is_shared(self) -> bool:
        return whole_number(self._variable.attrs.get("shared")) == 1

    def rows(self, start: int, stop: int) -> Values:
        return np.asarray(self._variable[start:stop].values)

    def whole(self) -> Values:
        return np.asarray(self._variable.values)


class DatasetSource(ArraySource):
    """An xarray.Dataset, read as if it had been written to NetCDF under the same names."""

    kind = "xarray.Dataset"

    def __init__(self, data: xarray.Dataset) -> None:
        # Not the file that it may have been opened from: it need no longer hold the same.
        self.path = Path("the Dataset")
        self.size = int(data.nbytes)
        self.arrays = {str(name): VariableArray(variable) for name, variable in data.variables.items()}
        self.notes = {str(name): value for name, value in data.attrs.items()}

    def close(self) -> None:
        """The caller's to close."""
