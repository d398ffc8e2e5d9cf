"""Pairs as HDF5 files that are written once: chunked, packed, and checked before anything in them is used."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from chop.bank.ledger import Segment, StoredFile
from chop.bank.pairs import PairForm, Pairs, lies_on
from chop.core.errors import BankError, PromptError
from chop.core.fields import Axis, Field, Graph, unchecked
from chop.numerics import Array
from chop.storage.atomic import NewHdf5, atomic_path, errors_named
from chop.storage.hdf5 import chunk_bytes, hdf5_errors, open_hdf5, stored_bytes, unpacked_bytes
from chop.storage.schema import Record
from chop.storage.size_limits import check_size

CHUNK_BYTES = 64 * 2**10
"""Unpacked for even a single row: small, because examples lie anywhere."""
SHAPE = "shape.h5"
_PACKING: dict[str, Any] = {"compression": "gzip", "compression_opts": 1, "shuffle": True}
_ROWS_OF_TIMES = 8192
_DTYPES = {torch.float16: "float16", torch.float32: "float32", torch.float64: "float64"}


class VanishedError(BankError):
    """A file that the log named is no longer there: it was replaced since, or somebody removed it."""


def write_form(folder: Path, form: PairForm) -> Record:
    """The points and the graph that all pairs share, as a file; the record that a log says them by."""
    if form.dtype not in _DTYPES:
        raise BankError(
            f"a bank on disk holds {', '.join(_DTYPES.values())}, not {form.dtype}: write .to(...)"
        )
    with atomic_path(folder / SHAPE, BankError, overwrite=True) as partial, NewHdf5(partial) as new:
        new.file["input_coords"] = form.input_coords.numpy()
        new.file["output_coords"] = form.output_coords.numpy()
        if form.graph is not None:
            new.file["graph"] = form.graph.edges.cpu().numpy()
    axes = form.axes
    return {
        **stored_file(folder / SHAPE).record(),
        "inputs": [len(form.input_coords), form.input_channels],
        "outputs": [len(form.output_coords), form.output_channels],
        "coordinates": form.input_coords.shape[-1],
        "dtype": _DTYPES[form.dtype],
        "axes": None if axes is None else [[a.name, a.period, a.stated, a.placed] for a in axes],
        "graph": form.graph is not None,
        "timed": form.timed,
    }


def read_form(folder: Path, record: Record) -> PairForm:
    """The form that a log's record and its file tell."""
    path = folder / record["file"]
    check_whole(path, StoredFile(record["file"], record["bytes"], record["crc"]))
    (n, input_channels), (m, output_channels) = record["inputs"], record["outputs"]
    dtype, k = np.dtype(record["dtype"]), record["coordinates"]
    with _opened(path) as arrays:
        wanted: dict[str, tuple[tuple[int, ...], np.dtype[Any]]] = {
            "input_coords": ((n, k), dtype),
            "output_coords": ((m, k), dtype),
        }
        _check_arrays(arrays, wanted, path)
        points = [torch.from_numpy(arrays[name][...]) for name in wanted]
        edges = torch.from_numpy(arrays["graph"][...]) if record["graph"] and "graph" in arrays else None
    try:
        axes = None if record["axes"] is None else tuple(_axis(*axis) for axis in record["axes"])
        graph = None if edges is None else Graph(edges, m)
    except PromptError as error:
        raise BankError(f"{path}: {error}") from None
    return PairForm(points[0], points[1], input_channels, output_channels, axes, graph, record["timed"])


def _axis(name: str, period: float | None, stated: bool, placed: bool) -> Axis:
    return Axis(name, period, stated=stated, placed=placed)


def write_segment(path: Path, pairs: Pairs, form: PairForm) -> StoredFile:
    """Pairs as a file that is there, whole and for good, when this returns."""
    with atomic_path(path, BankError, overwrite=True) as partial, NewHdf5(partial) as new:
        for name, values in _arrays(pairs, form).items():
            row = max(1, values.nbytes // len(values))
            most = _ROWS_OF_TIMES if values.ndim == 1 else max(1, CHUNK_BYTES // row)
            chunks = (min(len(values), most), *values.shape[1:])
            new.file.create_dataset(name, data=values, chunks=chunks, **_PACKING)
            new.check()
    with errors_named(path, BankError):
        return stored_file(path)


def _arrays(pairs: Pairs, form: PairForm) -> dict[str, Array]:
    """What a file holds of some pairs; points only where they are their own."""
    found: dict[str, Tensor] = {}
    for name, part, grid in (
        ("input", pairs.inputs, form.input_coords),
        ("output", pairs.outputs, form.output_coords),
    ):
        found[f"{name}s"] = part.values
        if part.mask is not None:
            found[f"{name}_mask"] = part.mask
        if not lies_on(part, grid):
            found[f"{name}_coords"] = part.coords
    if pairs.asked is not None and pairs.known is not None:
        found |= {"asked": pairs.asked, "known": pairs.known}
    return {name: np.ascontiguousarray(part.detach().cpu().numpy()) for name, part in found.items()}


def stored_file(path: Path) -> StoredFile:
    """A file by its size and the checksum of its bytes."""
    crc, size = 0, 0
    with path.open("rb") as file:
        while piece := file.read(2**20):
            crc, size = zlib.crc32(piece, crc), size + len(piece)
    return StoredFile(path.name, size, crc)


def check_whole(path: Path, wanted: StoredFile) -> None:
    """Refuse a file that is not what the log says."""
    try:
        size = path.stat().st_size
        found = stored_file(path) if size == wanted.bytes else None
    except FileNotFoundError:
        raise VanishedError(f"{path} is missing, which {path.parent} needs; copy the bank again") from None
    except OSError as problem:
        raise BankError(f"{path} cannot be read: {problem.strerror}") from None
    if found != wanted:
        raise BankError(f"{path} is damaged (its checksum is wrong); copy it again from where it is whole")


@contextmanager
def _opened(path: Path) -> Iterator[dict[str, Any]]:
    file, arrays = open_hdf5(path, BankError)
    with file, hdf5_errors(path, BankError):
        _check_claims(arrays, path)
        yield arrays


def _check_claims(arrays: dict[str, Any], path: Path) -> None:
    size = path.stat().st_size
    for name, data in arrays.items():
        claims = (unpacked_bytes(data), stored_bytes(data), chunk_bytes(data), size)
        check_size(f"{path}: {name}", *claims, BankError)


def _check_arrays(
    arrays: dict[str, Any], wanted: dict[str, tuple[tuple[int, ...], np.dtype[Any]]], path: Path
) -> None:
    for name, (shape, dtype) in wanted.items():
        there = arrays.get(name)
        if there is None or tuple(there.shape) != shape or there.dtype != dtype:
            raise BankError(f"{path} is damaged: its {name} are not {dtype} {shape}; copy it again")


@dataclass(frozen=True, eq=False)
class OpenSegment:
    """A file of pairs, open and checked."""

    path: Path
    segment: Segment
    form: PairForm
    file: Any
    arrays: dict[str, Any]

    @classmethod
    def open(cls, path: Path, segment: Segment, form: PairForm) -> OpenSegment:
        """Refuses what is not of the form, or claims more than it holds."""
        try:
            file, arrays = open_hdf5(path, BankError)
        except BankError:
            if not path.exists():
                raise VanishedError(f"{path} is missing; copy the bank again") from None
            raise
        try:
            with hdf5_errors(path, BankError):
                _check_claims(arrays, path)
                _check_arrays(arrays, _wanted(arrays, segment.rows, form), path)
        except BaseException:
            file.close()
            raise
        return cls(path, segment, form, file, arrays)

    def close(self) -> None:
        self.file.close()

    def pairs(self, rows: Array | slice) -> Pairs:
        """Some rows, by rising numbers inside the file."""
        times = {
            name: torch.from_numpy(self._read(name, rows)) if self.form.timed else None
            for name in ("asked", "known")
        }
        return unchecked(
            Pairs,
            inputs=self.inputs(rows),
            outputs=self._field("output", self.form.output_coords, rows),
            axes=self.form.axes,
            graph=self.form.graph,
            **times,
        )

    def inputs(self, rows: Array | slice) -> Field:
        """The inputs of some rows alone."""
        return self._field("input", self.form.input_coords, rows)

    def times(self) -> tuple[Tensor, Tensor]:
        """When all pairs of the file were asked and known, in a bank that has times."""
        every = slice(0, self.segment.rows)
        return torch.from_numpy(self._read("asked", every)), torch.from_numpy(self._read("known", every))

    def _field(self, name: str, grid: Tensor, rows: Array | slice) -> Field:
        values = torch.from_numpy(self._read(f"{name}s", rows))
        if not bool(torch.isfinite(values).all()):
            raise BankError(f"{self.path} holds {name}s that are not finite; copy it again")
        coords = grid.expand(len(values), -1, -1)
        if f"{name}_coords" in self.arrays:
            coords = torch.from_numpy(self._read(f"{name}_coords", rows))
        mask = torch.from_numpy(self._read(f"{name}_mask", rows)) if f"{name}_mask" in self.arrays else None
        return unchecked(Field, coords=coords, values=values, mask=mask)

    def _read(self, name: str, rows: Array | slice) -> Array:
        data = self.arrays[name]
        with hdf5_errors(self.path, BankError):
            if isinstance(rows, slice):
                return np.asarray(data[rows])
            found = np.empty((len(rows), *data.shape[1:]), dtype=data.dtype)
            # One read for rows that lie in one chunk or in neighbouring ones: what lies between is unpacked
            # with them anyway.
            chunk = rows // data.chunks[0] if data.chunks else rows
            for part in np.split(np.arange(len(rows)), np.flatnonzero(np.diff(chunk) > 1) + 1):
                low, high = int(rows[part[0]]), int(rows[part[-1]]) + 1
                found[part] = data[low:high][rows[part] - low]
            return found


def _wanted(
    arrays: dict[str, Any], rows: int, form: PairForm
) -> dict[str, tuple[tuple[int, ...], np.dtype[Any]]]:
    """Shapes and dtypes of what a file of so many rows must hold, and of what it may."""
    dtype = np.dtype(_DTYPES[form.dtype])
    wanted: dict[str, tuple[tuple[int, ...], np.dtype[Any]]] = {}
    for name, grid, channels in (
        ("input", form.input_coords, form.input_channels),
        ("output", form.output_coords, form.output_channels),
    ):
        n, k = grid.shape
        wanted[f"{name}s"] = ((rows, n, channels), dtype)
        if f"{name}_mask" in arrays:
            wanted[f"{name}_mask"] = ((rows, n, channels), np.dtype(bool))
        if f"{name}_coords" in arrays:
            wanted[f"{name}_coords"] = ((rows, n, k), dtype)
    if form.timed:
        wanted |= {name: ((rows,), np.dtype(np.int64)) for name in ("asked", "known")}
    return wanted
