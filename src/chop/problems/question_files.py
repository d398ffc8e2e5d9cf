"""Cases on disk (HDF5): written whole or not at all, read in pieces.

A file is written under another name and renamed when its last byte is on the disk, and it says itself
that it is complete. Whatever interrupts a write (Ctrl-C, a full disk, kill -9) leaves either the old file
or none, and at most a hidden ``.partial`` file that no reader accepts.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from chop.core.errors import DataError, PromptError
from chop.core.prompt import Axis, Field, Graph, Prompt
from chop.problems.case import Case
from chop.storage.atomic import NewHdf5, atomic_path
from chop.storage.guards.bounds import check_size
from chop.storage.guards.hdf5 import chunk, claimed, held, is_hdf5, open_hdf5, reading

FORMAT = "chop cases"
VERSION = 1


def write_cases(
    path: str | Path,
    cases: Iterable[Case],
    *,
    command: str = "",
    overwrite: bool = False,
    progress: Callable[[int], None] = lambda rows: None,
) -> Path:
    """Write consecutive pieces of one data set, as they come; nothing is held but the present piece.

    ``progress`` hears the number of rows after each piece. ``command`` is kept with the file, beside all
    settings the cases carry: everything needed to make it again.
    """
    target = Path(path)
    with atomic_path(target, DataError, overwrite) as partial, NewHdf5(partial) as new:

        def written(rows: int) -> None:
            new.check()
            progress(rows)

        _fill(new.file, cases, command, written)
    return target


def _fill(file: Any, cases: Iterable[Case], command: str, progress: Callable[[int], None]) -> None:
    file.attrs["format"], file.attrs["version"], file.attrs["complete"] = FORMAT, VERSION, False
    file.attrs["command"] = command
    file.attrs["made_with"] = json.dumps({name: _version(name) for name in _PACKAGES})
    settings: dict[str, Any] = {}
    rows = 0
    for case in cases:
        if not settings:
            settings = dict(case.meta)
            stated = [[axis.name, axis.period] for axis in case.prompt.axes or ()]
            settings["axes"] = stated if case.prompt.axes_stated else None  # what nobody said, no file says
        else:
            settings["n"] = settings.get("n", rows) + case.meta.get("n", len(case))
            settings["failures"] = [*settings.get("failures", []), *case.meta.get("failures", [])]
        for name, values in _parts(case):
            _append(file, name, values, rows)
        rows += len(case)
        progress(rows)
    if not rows:
        raise DataError("there are no cases to write")
    file.attrs["rows"] = rows
    file.attrs["settings"] = json.dumps(settings)
    file.attrs["complete"] = True


_PACKAGES = ("chain-of-operators", "numpy", "numba", "torch", "h5py")


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "unknown"


def _parts(case: Case) -> Iterator[tuple[str, np.ndarray[Any, Any]]]:
    """Every array of a case, by name, with a leading axis of rows."""
    prompt = case.prompt
    for name, part in (("inputs", prompt.inputs), ("outputs", prompt.outputs), ("query", prompt.query)):
        yield f"{name}/values", _numpy(part.values)
        yield f"{name}/coords", _numpy(part.coords)
        if part.mask is not None:
            yield f"{name}/mask", _numpy(part.mask)
    yield "at", _numpy(prompt.at)
    assert prompt.times is not None
    yield "times", _numpy(prompt.times)
    if prompt.graph is not None:
        edges = _numpy(prompt.graph.edges)
        yield "graph", np.broadcast_to(edges, (len(case), *edges.shape))
    yield "target", _numpy(case.target)
    if case.mask is not None:
        yield "mask", _numpy(case.mask)
    if case.trajectory is not None:
        yield "trajectory", _numpy(case.trajectory)
    for name, values in case.rows.items():
        yield f"rows/{name}", np.asarray(values)


def _numpy(tensor: Tensor) -> np.ndarray[Any, Any]:
    return np.asarray(tensor.detach().cpu().numpy())


def _append(file: Any, name: str, values: np.ndarray[Any, Any], rows: int) -> None:
    """Add rows to a data set. What only repeats itself (a common grid) is stored once, as "shared"."""
    if name not in file:
        if rows:
            raise DataError(f"the pieces of one data set must agree: only a later one has {name}")
        once = values
        while once.ndim > 1 and once.shape[0] > 1 and once.strides[0] == 0:
            once = once[0]
        if name == "graph" and once.ndim == 3:  # a graph is shared by however few rows
            once = once[0]
        if once.ndim < values.ndim:
            file.create_dataset(name, data=once).attrs["shared"] = True
            return
        piece = (max(1, min(len(values), 64)), *values.shape[1:])
        file.create_dataset(name, data=values, maxshape=(None, *values.shape[1:]), chunks=piece)
        return
    stored = file[name]
    if stored.attrs.get("shared"):
        grid = stored[...]
        if grid.shape != values.shape[values.ndim - grid.ndim :] or not (grid == values).all():
            raise DataError(f"the pieces of one data set must agree in {name}")
        return
    if len(stored) != rows or stored.shape[1:] != values.shape[1:] or stored.dtype != values.dtype:
        raise DataError(f"the pieces of one data set must agree in {name}")
    stored.resize(rows + len(values), axis=0)
    stored[rows:] = values


class CaseFile:
    """A data set on disk, open for reading: ``with CaseFile(path) as data: for case in data.batches(50)``."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        if not self.path.is_file():
            raise DataError(f"there is no file {self.path}")
        if not is_hdf5(self.path):
            raise DataError(f"{self.path} is not an HDF5 file, or only a part of one")
        self._file, self._data = open_hdf5(self.path, DataError)
        try:
            with reading(self.path, DataError):
                self._begin(self._file.attrs)
        except BaseException:
            self.close()
            raise

    def _begin(self, attributes: Any) -> None:
        if attributes.get("format") != FORMAT or attributes.get("version") != VERSION:
            raise DataError(f"{self.path} is not a data set of cases (format {FORMAT!r}, version {VERSION})")
        if not attributes.get("complete"):
            raise DataError(f"{self.path} was not written to its end; make it again")
        self.settings: dict[str, Any] = dict(json.loads(attributes["settings"]))
        self.command = str(attributes["command"])
        self._rows = int(attributes["rows"])
        size = self.path.stat().st_size
        for name, data in self._data.items():
            check_size(f"{self.path}: {name}", claimed(data), held(data), chunk(data), size, DataError)
            if not data.attrs.get("shared") and data.shape[:1] != (self._rows,):
                raise DataError(f"{self.path}: {name} has not the {self._rows} rows it should; make it again")

    def __len__(self) -> int:
        return self._rows

    def __enter__(self) -> CaseFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._file.close()

    def __iter__(self) -> Iterator[Case]:
        return self.batches(1)

    def batches(self, size: int) -> Iterator[Case]:
        """Cases of ``size`` rows (the last may have fewer), one after the other from the disk."""
        if size < 1:
            raise DataError(f"a batch needs 1 row or more, not {size}")
        for start in range(0, len(self), size):
            yield self.read(start, start + size)

    def read(self, start: int = 0, stop: int | None = None) -> Case:
        """Rows ``start`` to ``stop`` (all by default) as one case."""
        first, last, _ = slice(start, stop).indices(len(self))
        if first >= last:
            raise DataError(f"{self.path} has rows 0..{len(self) - 1}, not {start}..{stop}")
        try:
            with reading(self.path, DataError):
                return self._case(first, last)
        except PromptError as error:
            raise DataError(f"{self.path}: {error}") from None

    def _case(self, first: int, last: int) -> Case:
        def take(name: str) -> Tensor:
            stored = self._data[name]
            return torch.from_numpy(stored[...] if stored.attrs.get("shared") else stored[first:last])

        def optional(name: str) -> Tensor | None:
            return take(name) if name in self._data else None

        def field(name: str) -> Field:
            return Field(take(f"{name}/coords"), take(f"{name}/values"), optional(f"{name}/mask"))

        given = self.settings["axes"]
        rows = {name: data[first:last] for name, data in self._data.items() if name.startswith("rows/")}
        return Case(
            prompt=Prompt(
                inputs=field("inputs"),
                outputs=field("outputs"),
                query=field("query"),
                at=take("at"),
                graph=Graph(take("graph"), take("at").shape[-2]) if "graph" in self._data else None,
                axes=None if given is None else tuple(Axis(name, period) for name, period in given),
                times=take("times"),
            ),
            target=take("target"),
            trajectory=optional("trajectory"),
            meta={name: value for name, value in self.settings.items() if name != "axes"},
            rows={name.removeprefix("rows/"): values for name, values in rows.items()},
            mask=optional("mask"),
        )


__all__ = ["CaseFile", "write_cases"]
