"""Arrays of an HDF5 file. NetCDF-4 files are HDF5 files, so they need no library of their own."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from chop.files.errors import FileError
from chop.files.sources import Stored, Values

_UNUSUAL = ("scale_factor", "add_offset", "_FillValue", "missing_value")


class Hdf5Array:
    """A data set, decoded as NetCDF's conventions ask: packed numbers unpacked, fill values as NaN."""

    def __init__(self, path: Path, name: str, data: Any) -> None:
        self._path, self._name, self._data = path, name, data
        self._coding = {key: data.attrs[key] for key in _UNUSUAL if key in data.attrs}

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self._data.shape)

    @property
    def dtype(self) -> np.dtype[Any]:
        stored = np.dtype(self._data.dtype)
        packed = "scale_factor" in self._coding or "add_offset" in self._coding
        return np.dtype(np.float64) if packed and stored.kind in "iu" else stored

    @property
    def shared(self) -> bool:
        return bool(self._data.attrs.get("shared", False))

    def rows(self, start: int, stop: int) -> Values:
        return self._read(slice(start, stop))

    def whole(self) -> Values:
        return self._read(...)

    def _read(self, part: Any) -> Values:
        try:
            raw = np.asarray(self._data[part])
        except (OSError, KeyError, RuntimeError) as error:
            raise FileError(f"{self._path}: {self._name} cannot be read; the file is damaged") from error
        return _decoded(raw, self._coding)


def _decoded(raw: Values, coding: Mapping[str, Any]) -> Values:
    if raw.dtype.kind not in "iuf":
        return raw
    missing = np.zeros(raw.shape, dtype=bool)
    for key in ("_FillValue", "missing_value"):
        if key in coding:
            missing |= np.isin(raw, np.asarray(coding[key]))
    values = raw
    if "scale_factor" in coding or "add_offset" in coding:
        wide = raw if raw.dtype.kind == "f" else raw.astype(np.float64)
        values = wide * _number(coding, "scale_factor", 1) + _number(coding, "add_offset", 0)
        values = values.astype(wide.dtype)
    return np.where(missing, np.nan, values) if missing.any() else values


def _number(coding: Mapping[str, Any], key: str, usual: float) -> float:
    return float(np.asarray(coding.get(key, usual)).reshape(-1)[0])


class Hdf5Source:
    """An HDF5 or NetCDF-4 file."""

    kind = "HDF5"

    def __init__(self, path: Path) -> None:
        try:
            self._file = h5py.File(path, "r")
        except OSError as error:
            raise FileError(f"{path} cannot be opened: {_reason(error)}") from None
        self._path = path
        try:
            self.notes: Mapping[str, Any] = dict(self._file.attrs)
            self.arrays = self._found()
        except (OSError, KeyError, RuntimeError) as error:
            self.close()
            raise FileError(f"{path} is damaged; copy or write it again") from error
        if any(name.startswith(("_NC", "_nc")) for name in self.notes):
            self.kind = "NetCDF-4"

    def _found(self) -> Mapping[str, Stored]:
        found: dict[str, Stored] = {}

        def visit(name: str, item: Any) -> None:
            if isinstance(item, h5py.Dataset) and item.shape is not None:
                found[name] = Hdf5Array(self._path, name, item)

        self._file.visititems(visit)
        return found

    def close(self) -> None:
        self._file.close()


def _reason(error: OSError) -> str:
    text = str(error)
    if "truncated" in text:
        return "it is cut off; copy or write it again"
    if "lock" in text:
        return "another program is writing to it; wait until that has ended"
    return error.strerror or text


__all__ = ["Hdf5Array", "Hdf5Source"]
