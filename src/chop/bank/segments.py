"""Pairs on disk: a log and the files it acknowledges, one writer and any number of readers.

A file of pairs is written under another name, brought to the disk and renamed; then the log gets its line,
which is brought to the disk too. Only then is a pair acknowledged. A process killed at any moment leaves at
most a file that no line names, which the next writer removes. Small files that stand side by side are merged
in the same way: the merged file, the line that says what it replaces, and only then are the others removed.
A reader that misses a file looks at the log again.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections import OrderedDict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from chop import __version__
from chop.bank.allowed import Allowed
from chop.bank.ledger import FORMAT, LOG, Ledger, Segment, StoredFile, read_ledger
from chop.bank.pairs import PairForm, Pairs, joined_fields, joined_pairs, take_rows
from chop.bank.segment_files import (
    OpenSegment,
    VanishedError,
    check_whole,
    read_form,
    write_form,
    write_segment,
)
from chop.bank.sources import grouped
from chop.core.errors import BankError
from chop.core.fields import Field
from chop.numerics import Array
from chop.storage.atomic import errors_named, make_folder
from chop.storage.log import AppendLog
from chop.storage.schema import Record

SEGMENT_BYTES = 32 * 2**20
"""Values of one file, at most."""
SMALL_BYTES = 2 * 2**20
"""Files with less are merged with their neighbours."""
MANY = 32
"""Small files side by side that a writer merges while it adds."""
FEW = 8
"""Small files side by side that are merged when a bank is opened for writing."""
_OPEN = 4
"""Files open at a time; HDF5 keeps unpacked chunks of each."""
_TRIES = 5
_OURS = re.compile(r"segment-[0-9-]+\.h5|shape\.h5|\.(segment-[0-9-]+|shape)\.h5\..*\.partial")
_Result = TypeVar("_Result")


class DiskPairs:
    """Pairs in a folder, open for reading or, by one process at a time, for writing."""

    def __init__(self, folder: Path, writing: bool = False) -> None:
        self.folder, self.name, self._writing = folder, str(folder), writing
        self._log_path = folder / LOG
        self._closed = False
        self._open: OrderedDict[str, OpenSegment] = OrderedDict()
        self._whole: dict[str, StoredFile] = {}
        none = torch.empty(0, dtype=torch.int64)
        self._times: tuple[Tensor, Tensor] = (none, none)
        self._form: PairForm | None = None
        if not self._log_path.is_file():
            what = "there is no folder" if not folder.exists() else f"it holds no {LOG}"
            raise BankError(f"{folder} is not a bank: {what}")
        self._log = AppendLog(self._log_path, BankError, writing=writing, durable=True)
        try:
            self._see(read_ledger(self._log.contents, self._log_path))
            if writing:
                self._remove_left_over()
                self._merge(FEW)
        except BaseException:
            self.close()
            raise

    @classmethod
    def create(cls, folder: Path, overwrite: bool = False) -> DiskPairs:
        """A new bank without pairs, open for writing."""
        if folder.exists() and not folder.is_dir():
            raise BankError(f"{folder} is a file; a bank is a folder, choose another name")
        there = (folder / LOG).exists()
        if there and not overwrite:
            raise BankError(f"{folder} is a bank already; add to it, or ask to replace it (--force)")
        with errors_named(folder, BankError):
            if not there and folder.is_dir() and any(_foreign(folder)):
                raise BankError(f"{folder} is a folder with other things in it; choose another name")
        make_folder(folder, BankError)
        log = AppendLog(folder / LOG, BankError, durable=True)
        try:
            with errors_named(folder / LOG, BankError):
                os.truncate(folder / LOG, 0)
            log.append([{"format": FORMAT, "version": __version__}])
            _folder_to_disk(folder)
        finally:
            log.close()
        return cls(folder, writing=True)

    def __len__(self) -> int:
        return self._ledger.rows

    @property
    def form(self) -> PairForm | None:
        return self._form if self._ledger.segments else None

    @property
    def notes(self) -> tuple[Record, ...]:
        """What was noted with pairs when they were added, in that order."""
        return self._ledger.notes

    @property
    def ledger(self) -> Ledger:
        """The files there are."""
        return self._ledger

    @property
    def asked(self) -> Tensor | None:
        return self._all_times()[0] if self.form is not None and self.form.timed else None

    @property
    def known(self) -> Tensor | None:
        return self._all_times()[1] if self.form is not None and self.form.timed else None

    def _all_times(self) -> tuple[Tensor, Tensor]:
        """Rows never change: what was read before is kept, whatever became of its file."""

        def read() -> tuple[Tensor, Tensor]:
            asked, known = [self._times[0]], [self._times[1]]
            have = len(self._times[0])
            for segment in self._ledger.segments:
                if segment.stop > have:
                    times = self._segment(segment).times()
                    skip = max(0, have - segment.first)
                    asked.append(times[0][skip:])
                    known.append(times[1][skip:])
            return torch.cat(asked), torch.cat(known)

        if len(self._times[0]) < len(self):
            self._times = self._again(read)
        return self._times

    def take(self, rows: Tensor) -> Pairs:
        def read() -> Pairs:
            parts, back = grouped(self._starts, rows)
            found = [
                self._segment(self._ledger.segments[number]).pairs(inside.numpy()) for number, inside in parts
            ]
            return joined_pairs(found).take(back)

        return self._again(read)

    def take_inputs(self, rows: Tensor) -> Field:
        def read() -> Field:
            parts, back = grouped(self._starts, rows)
            found = [
                self._segment(self._ledger.segments[number]).inputs(inside.numpy())
                for number, inside in parts
            ]
            return take_rows(joined_fields(found), back)

        return self._again(read)

    def blocks(self, rows: int) -> Iterator[tuple[int, Pairs]]:
        return self._in_order(rows, OpenSegment.pairs)

    def input_blocks(self, rows: int) -> Iterator[tuple[int, Field]]:
        return self._in_order(rows, OpenSegment.inputs)

    def _in_order(
        self, rows: int, read: Callable[[OpenSegment, slice], _Result]
    ) -> Iterator[tuple[int, _Result]]:
        """Looked up by number each time: files may be merged meanwhile, rows stay where they are."""
        first, end = 0, len(self)
        while first < end:

            def piece(first: int = first) -> tuple[int, _Result]:
                segment = self._ledger.segments[int(np.searchsorted(self._starts, first, side="right")) - 1]
                stop = min(first + rows, segment.stop, end)
                inside = slice(first - segment.first, stop - segment.first)
                return stop, read(self._segment(segment), inside)

            stop, found = self._again(piece)
            yield first, found
            first = stop

    def similar(self, queries: Field, k: int, allowed: Allowed) -> Array | None:
        return None

    @property
    def _starts(self) -> Array:
        return np.array([segment.first for segment in self._ledger.segments], dtype=np.int64)

    def _again(self, read: Callable[[], _Result]) -> _Result:
        """What is read; where a file has gone, the log tells which one took its place."""
        if self._closed:
            raise BankError(f"{self.folder} is closed; open it again")
        for _ in range(_TRIES):
            try:
                return read()
            except VanishedError:
                before = self._ledger.segments
                self.refresh()
                if self._ledger.segments == before:
                    raise
        return read()

    def _segment(self, segment: Segment) -> OpenSegment:
        """The file, open; its checksum is looked at once."""
        assert self._form is not None
        name = segment.stored.name
        if name in self._open:
            self._open.move_to_end(name)
            return self._open[name]
        path = self.folder / name
        if self._whole.get(name) != segment.stored:
            check_whole(path, segment.stored)
            self._whole[name] = segment.stored
        self._open[name] = OpenSegment.open(path, segment, self._form)
        if len(self._open) > _OPEN:
            self._open.popitem(last=False)[1].close()
        return self._open[name]

    def refresh(self) -> None:
        if not self._writing:
            log = AppendLog(self._log_path, BankError, writing=False)
            self._see(read_ledger(log.contents, self._log_path))

    def _see(self, ledger: Ledger) -> None:
        self._ledger = ledger
        live = ledger.files
        for name in [name for name in self._open if name not in live]:
            self._open.pop(name).close()
        if self._form is None and ledger.form is not None and ledger.segments:
            self._form = read_form(self.folder, ledger.form)

    def add(self, pairs: Pairs, note: dict[str, object] | None = None) -> int:
        if not self._writing or self._closed:
            raise BankError(f"{self.folder} was opened for reading; open it with writing=True to add pairs")
        pairs = pairs.to("cpu")
        if self.form is None:  # also where the first pairs could not be written
            self._form = PairForm.of(pairs)
            self._append({"form": write_form(self.folder, self._form)})
        assert self._form is not None
        self._form.check(pairs, self.name)
        step = max(1, SEGMENT_BYTES // self._form.row_bytes)
        for start in range(0, len(pairs), step):
            part = pairs.cut(start, start + step)
            self._write(part, len(self), (), note if start + step >= len(pairs) else None)
        if self._small_at_the_end() > MANY:
            self._merge(MANY)
        return len(self)

    def _write(
        self, pairs: Pairs, first: int, replaces: tuple[Segment, ...], note: dict[str, object] | None
    ) -> None:
        """A file and then its line; no line, no file."""
        assert self._form is not None
        path = self.folder / f"segment-{first:012d}-{len(pairs)}-{self._ledger.lines}.h5"
        stored = write_segment(path, pairs, self._form)
        segment = Segment(stored, first, len(pairs))
        try:
            self._append(segment.record(replaces, note))
        except BaseException:
            with contextlib.suppress(OSError):
                path.unlink()
            raise
        self._whole[stored.name] = stored

    def _append(self, line: Record) -> None:
        self._log.append([line])
        self._see(self._ledger.after(line, str(self._log_path)))

    def _small(self, segment: Segment) -> bool:
        assert self._form is not None
        return segment.rows * self._form.row_bytes < SMALL_BYTES

    def _small_at_the_end(self) -> int:
        count = 0
        for segment in reversed(self._ledger.segments):
            if not self._small(segment):
                break
            count += 1
        return count

    def _merge(self, least: int) -> None:
        """More than so many small files side by side become one, or a few that are no longer small.

        What cannot be merged (a full disk, a damaged file) stays as it is: no pair depends on it.
        """
        with contextlib.suppress(BankError):
            for run in list(self._runs()):
                if len(run) > least:
                    for group in self._groups(run):
                        self._replace(tuple(group))

    def _runs(self) -> Iterator[list[Segment]]:
        """Small files that stand side by side."""
        run: list[Segment] = []
        for segment in self._ledger.segments:
            if self._small(segment):
                run.append(segment)
            elif run:
                yield run
                run = []
        if run:
            yield run

    def _groups(self, run: list[Segment]) -> Iterator[list[Segment]]:
        """As many of them as make one file."""
        assert self._form is not None
        group: list[Segment] = []
        for segment in run:
            if group and (segment.stop - group[0].first) * self._form.row_bytes > SEGMENT_BYTES:
                yield group
                group = []
            group.append(segment)
        if len(group) > 1:
            yield group

    def _replace(self, old: tuple[Segment, ...]) -> None:
        parts = [self._segment(segment).pairs(slice(0, segment.rows)) for segment in old]
        self._write(joined_pairs(parts), old[0].first, old, None)
        for segment in old:
            with contextlib.suppress(OSError):  # somebody may be reading it; the next writer removes it
                (self.folder / segment.stored.name).unlink()

    def _remove_left_over(self) -> None:
        """Files that no line names: of a writer that was killed, or replaced."""
        live = self._ledger.files
        for path in self.folder.iterdir():
            if path.name not in live and _OURS.fullmatch(path.name):
                with contextlib.suppress(OSError):
                    path.unlink()

    def close(self) -> None:
        self._closed = True
        while self._open:
            self._open.popitem()[1].close()
        self._log.close()


def _foreign(folder: Path) -> Iterator[Path]:
    """What a bank did not put there."""
    for path in folder.iterdir():
        if not _OURS.fullmatch(path.name) and path.name != f".{LOG}.lock":
            yield path


def _folder_to_disk(folder: Path) -> None:
    """The names in a folder, and its own."""
    if os.name == "nt":
        return
    for path in (folder, folder.parent):
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
