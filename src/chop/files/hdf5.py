"""Arrays of an HDF5 file. NetCDF-4 files are HDF5 files, so they need no library of their own."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from chop.core.errors import FileError
from chop.files.sources import ArraySource, StoredArray, Values, whole_number
from chop.storage.hdf5 import chunk_bytes, hdf5_errors, open_hdf5, stored_bytes

_PLACEHOLDER = "This is a netCDF dimension but not a netCDF variable"


class Hdf5Array(StoredArray):
    """A data set, decoded as NetCDF's conventions ask: packed numbers unpacked, fill values as NaN."""

    def __init__(self, path: Path, name: str, data: Any, dims: tuple[str | None, ...]) -> None:
        self._path, self._name, self._data, self.dims = path, name, data, dims
        with self._errors_named():
            self.shape = tuple(data.shape)
            self.stored_bytes, self.chunk_bytes = stored_bytes(data), chunk_bytes(data)
            self.dtype = _dtype(data)

    def _errors_named(self) -> Any:
        return hdf5_errors(f"{self._path}: {self._name}", FileError)

    def is_shared(self) -> bool:
        with self._errors_named():
            shared = whole_number(self._data.attrs.get("shared", 0))
        if shared not in (0, 1):
            raise self._odd("shared", "0 or 1")
        return shared == 1

    def rows(self, start: int, stop: int) -> Values:
        return self._read(slice(start, stop))

    def whole(self) -> Values:
        return self._read(...)

    def _read(self, part: Any) -> Values:
        with self._errors_named():
            raw = np.asarray(self._data[part])
        return self._decoded(raw) if raw.dtype.kind in "iuf" else raw

    def _decoded(self, raw: Values) -> Values:
        missing = np.zeros(raw.shape, dtype=bool)
        for key in ("_FillValue", "missing_value"):
            fill = self._numbers(key, "a number")
            if fill is not None:
                missing |= np.isin(raw, fill)
        scale, offset = self._one_number("scale_factor"), self._one_number("add_offset")
        values = raw
        if scale is not None or offset is not None:
            wide = raw if raw.dtype.kind == "f" else raw.astype(np.float64)
            with np.errstate(over="ignore", invalid="ignore"):  # what is not finite is told with its place
                values = wide * wide.dtype.type(1 if scale is None else scale)
                values = values + wide.dtype.type(0 if offset is None else offset)
        return np.where(missing, np.nan, values) if missing.any() else values

    def _one_number(self, key: str) -> float | None:
        given = self._numbers(key, "one finite number")
        if given is None:
            return None
        if given.size != 1 or not np.isfinite(given).all():
            raise self._odd(key, "one finite number")
        return float(given.item())

    def _numbers(self, key: str, wanted: str) -> Values | None:
        """What an attribute says, if there is one."""
        with self._errors_named():
            if key not in self._data.attrs:
                return None
            given = np.asarray(self._data.attrs[key])
        if given.dtype.kind not in "iuf":
            raise self._odd(key, wanted)
        return given

    def _odd(self, key: str, wanted: str) -> FileError:
        with self._errors_named():
            given = str(self._data.attrs[key])
        return FileError(f"{self._path}: {key} of {self._name} must be {wanted}, not {given[:60]!r}")


class Hdf5Source(ArraySource):
    """An HDF5 or NetCDF-4 file."""

    kind = "HDF5"

    def __init__(self, path: Path) -> None:
        self.path, self.size = path, path.stat().st_size
        self._file, self._found = open_hdf5(path, FileError)
        try:
            with hdf5_errors(path, FileError):
                self.notes = _readable(self._file.attrs)
                self.arrays = self._arrays()
        except BaseException:
            self.close()
            raise
        if any(name.startswith(("_NC", "_nc")) for name in self.notes):
            self.kind = "NetCDF-4"

    def _arrays(self) -> Mapping[str, StoredArray]:
        names = {data: name for name, data in self._found.items()}
        return {
            name: Hdf5Array(self.path, name, data, self._dims(data, names))
            for name, data in self._found.items()
            if not _text(data.attrs, "NAME").startswith(_PLACEHOLDER)
        }

    def _dims(self, data: Any, names: Mapping[Any, str]) -> tuple[str | None, ...]:
        """The names of the axes: of the scales that are attached to them, or their labels."""
        if data.ndim == 1 and _text(data.attrs, "CLASS") == "DIMENSION_SCALE":
            return (names[data],)
        dims: list[str | None] = [None] * data.ndim
        scales = data.attrs.get("DIMENSION_LIST", ())
        for axis, references in enumerate(list(scales)[: data.ndim]):
            # What a reference leads to is not believed, only recognised among what was checked.
            if len(references) and isinstance(references[0], h5py.Reference) and references[0]:
                dims[axis] = names.get(self._file[references[0]])
        for axis, label in enumerate(list(data.attrs.get("DIMENSION_LABELS", ()))[: data.ndim]):
            if isinstance(label, str) and label and dims[axis] is None:
                dims[axis] = label
        return tuple(dims)

    def close(self) -> None:
        self._file.close()


def _dtype(data: Any) -> np.dtype[Any]:
    """What an array holds once it is decoded."""
    try:
        stored = np.dtype(data.dtype)
    except (TypeError, ValueError):
        return np.dtype(object)  # what numpy has no word for is no number, that is enough
    packed = "scale_factor" in data.attrs or "add_offset" in data.attrs
    return np.dtype(np.float64) if packed and stored.kind in "iu" else stored


def _text(attributes: Any, key: str) -> str:
    found = attributes.get(key, "")
    return found.decode("utf-8", "replace") if isinstance(found, bytes) else str(found)


def _readable(attributes: Any) -> dict[str, Any]:
    """The attributes whose type h5py and numpy know."""
    found = {}
    for name in attributes:
        try:
            found[name] = attributes[name]
        except (TypeError, ValueError):
            continue
    return found
