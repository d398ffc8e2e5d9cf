"""Named arrays, read by rows: what HDF5, NetCDF-4, npz and an xarray.Dataset have in common."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from chop.core.errors import FileError

Values = np.ndarray[Any, Any]


class Stored(Protocol):
    """An array on disk."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Its axes."""
        ...

    @property
    def dtype(self) -> np.dtype[Any]:
        """What it holds."""
        ...

    @property
    def dims(self) -> tuple[str | None, ...]:
        """The names of its axes, None where they have none; a name may be that of an array of coordinates."""
        ...

    @property
    def shared(self) -> bool:
        """Whether the file itself says that all questions share it."""
        ...

    @property
    def held(self) -> int:
        """Bytes that it takes in the file."""
        ...

    @property
    def piece(self) -> int:
        """Bytes that are unpacked for even a single row."""
        ...

    def rows(self, start: int, stop: int) -> Values:
        """A part along the first axis; no more than that is held in memory."""
        ...

    def whole(self) -> Values:
        """All of it."""
        ...


class Source(Protocol):
    """An open file."""

    @property
    def kind(self) -> str:
        """What sort of file it is, in words."""
        ...

    @property
    def path(self) -> Path:
        """Where it is; a name for what is in memory."""
        ...

    @property
    def size(self) -> int:
        """Its bytes."""
        ...

    @property
    def arrays(self) -> Mapping[str, Stored]:
        """Every array by its name; groups are written with ``/``."""
        ...

    @property
    def notes(self) -> Mapping[str, Any]:
        """What the file says about itself: attributes, or arrays that hold one text."""
        ...

    def close(self) -> None:
        """Let go of the file."""
        ...


def open_source(source: Any) -> Source:
    """The file, by what is in it and not by its name, or a data set in memory."""
    if not isinstance(source, str | Path):
        return _in_memory(source)
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
    from chop.storage.guards.hdf5 import is_hdf5

    if is_hdf5(path):
        from chop.files.hdf5 import Hdf5Source

        return Hdf5Source(path)
    raise FileError(_why_not(path, start))


def _in_memory(source: Any) -> Source:
    xarray = sys.modules.get("xarray")  # who has a Dataset has imported it
    if xarray is None or not isinstance(source, xarray.Dataset):
        raise FileError(f"questions are in a file or an xarray.Dataset, not in a {type(source).__name__}")
    from chop.files.memory import DatasetSource

    return DatasetSource(source)


def _home(path: str | Path) -> Path:
    try:
        return Path(path).expanduser()
    except RuntimeError:  # "~nobody" is a name like any other
        return Path(path)


def as_flag(given: Any) -> bool | None:
    """What somebody wrote for yes (1, True) or no; None if it is neither."""
    value = np.asarray(given)
    if value.size != 1 or value.dtype.kind not in "biu" or value.item() not in (0, 1):
        return None
    return bool(value.item())


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


__all__ = ["Source", "Stored", "Values", "as_flag", "open_source"]
