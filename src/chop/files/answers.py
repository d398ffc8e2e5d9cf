"""Answers on disk: HDF5 that is NetCDF-4 too, or npz; the same bytes for the same answers."""

from __future__ import annotations

import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from chop.core.errors import FileError
from chop.files.layout import ANSWERS_FORMAT
from chop.files.sources import Values
from chop.storage.atomic import NewHdf5

_REJECTED, _REASON = "rejected_question", "reason"
"""The numbers of questions that are rejected, and why each is."""
_TAKEN = {
    "question", "channel", "values", "lower", "upper", "band", "rejected", "error", "rel_l2",
    _REJECTED, _REASON,
}  # fmt: skip


@dataclass(frozen=True, eq=False)
class Answers:
    """What is written to an answer file. Values are streamed: no more than a block is held."""

    shape: tuple[int, int, int]
    """``(N, m, c)`` of all answers."""
    dtype: np.dtype[Any]
    blocks: Mapping[str, Iterable[Values]]
    """The values and, where there are some, their bounds, ``(rows, m, c)``: some questions at a time."""
    columns: Mapping[str, Values]
    """One number a question for each name."""
    reasons: Mapping[int, str]
    """Why some questions are rejected, by their numbers."""
    notes: Mapping[str, Any]
    """What is to be said of the whole."""
    grid: tuple[tuple[str, Values], ...] = ()
    """Named axes with their coordinates along which the points of an answer lie, the last fastest."""

    @property
    def axes(self) -> dict[str, Values]:
        """The axes of the values by name: the points are one of them, or those of a grid."""
        questions, points, channels = map(np.arange, self.shape)
        return {"question": questions, **(self.named_grid or {"point": points}), "channel": channels}

    @property
    def named_grid(self) -> dict[str, Values]:
        """The grid, unless a name of its axes is taken by something else in the file."""
        grid = dict(self.grid)
        return {} if _TAKEN & grid.keys() else grid

    @property
    def all_notes(self) -> dict[str, Any]:
        """The notes, after what the file calls itself."""
        return {"format": ANSWERS_FORMAT, "version": 1, **self.notes}


def check_suffix(path: Path) -> None:
    """Say at once if answers cannot be written in such a file."""
    if path.suffix.lower() not in (".h5", ".hdf5", ".nc", ".npz"):
        raise FileError(f"answers are written to .h5, .nc or .npz files, not to {path.name}")


def write_answers(path: Path, suffix: str, answers: Answers) -> None:
    """A file of the sort that the suffix names."""
    if suffix.lower() == ".npz":
        _write_npz(path, answers)
    else:
        _write_hdf5(path, answers)


def _write_hdf5(path: Path, answers: Answers) -> None:
    """HDF5 with named dimensions, which makes it NetCDF-4: xarray reads it as it is."""
    with NewHdf5(path, track_order=True) as new:  # NetCDF asks for the order
        file, axes = new.file, answers.axes

        def add_dimension(name: str, along: Values) -> None:
            file[name] = along
            file[name].make_scale(name)

        def name_axes(data: Any, *names: str) -> None:
            for axis, name in enumerate(names):
                data.dims[axis].attach_scale(file[name])

        for name, along in axes.items():
            add_dimension(name, along)
        shape = tuple(map(len, axes.values()))
        for name, blocks in answers.blocks.items():
            values = file.create_dataset(name, shape, answers.dtype)
            name_axes(values, *axes)
            rows = 0
            for given in blocks:
                block = given.reshape(-1, *shape[1:])
                values[rows : rows + len(block)] = block
                rows += len(block)
                new.check()
        for name, numbers in answers.columns.items():
            # NetCDF knows no booleans.
            stored = numbers.astype(np.int8) if numbers.dtype == bool else numbers
            name_axes(file.create_dataset(name, data=stored), "question")
        if answers.reasons:  # an axis of length 0 would be an unlimited one
            add_dimension(_REJECTED, np.array(list(answers.reasons)))
            file[_REASON] = list(answers.reasons.values())
            name_axes(file[_REASON], _REJECTED)
        for name, value in answers.all_notes.items():
            file.attrs[name] = value


def _write_npz(path: Path, answers: Answers) -> None:
    """An uncompressed npz file."""
    with zipfile.ZipFile(path, "w") as archive:
        # Members without their time of writing, so that the same answers are the same bytes.
        header = {
            "descr": np.lib.format.dtype_to_descr(answers.dtype), "fortran_order": False,
            "shape": tuple(map(len, answers.axes.values())),
        }  # fmt: skip
        for name, blocks in answers.blocks.items():
            with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True) as values:
                np.lib.format.write_array_header_1_0(values, header)
                for block in blocks:
                    values.write(np.ascontiguousarray(block, dtype=answers.dtype).tobytes())
        why = (np.array(list(answers.reasons)), np.array(list(answers.reasons.values())))
        reasons = dict(zip((_REJECTED, _REASON), why, strict=True)) if answers.reasons else {}
        for name, content in {
            **answers.named_grid, **answers.columns, **reasons, **answers.all_notes,
        }.items():  # fmt: skip
            with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w") as member:
                np.lib.format.write_array(member, np.asarray(content), allow_pickle=False)
