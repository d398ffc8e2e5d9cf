"""Cases written as question files (HDF5), whole or not at all; `chop.files` reads them.

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
from torch import Tensor

from chop.core.errors import DataError
from chop.problems.case import Case
from chop.storage.atomic import NewHdf5, atomic_path

CASES_FORMAT = "chop cases"
CASES_VERSION = 1


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
    file.attrs["format"], file.attrs["version"], file.attrs["complete"] = CASES_FORMAT, CASES_VERSION, False
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


__all__ = ["CASES_FORMAT", "CASES_VERSION", "write_cases"]
