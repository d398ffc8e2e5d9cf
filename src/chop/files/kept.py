"""Answers that are kept until all are there, in a hidden folder beside the file they are for.

``values`` holds the answers, each at its place; ``index`` says what run they are of and, line by line, which
parts are done, with a checksum of their values. So a process that is killed loses the part it was at, and
whatever a crash of the machine has torn is asked again.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock, Timeout

from chop.core.errors import FileError
from chop.files.agenda import Part
from chop.files.answering import Answered
from chop.files.sources import Values
from chop.storage.atomic import errors_named
from chop.storage.json_text import readable
from chop.storage.log import AppendLog

BLOCK_BYTES = 8 * 2**20
"""Answers that are in memory at a time when they are put together."""
NOT_FINITE = "the answer is not finite"

_VALUES, _INDEX, _LOCK, _WHOLE = "values", "index", "lock", "whole"
Run = Mapping[str, str | int | bool]
"""What decides the answers, in plain values under names that a sentence can use."""
BY_CONTENT = ("file of questions", "model")
"""Of these only a checksum is kept."""


@dataclass(frozen=True, eq=False)
class Entry:
    """What is known of a part that is done; ``reason`` says why it could not be answered, if so."""

    reason: str | None
    columns: Mapping[str, Values]
    calls: int
    rounds: int


def folder_for(target: Path) -> Path:
    """Where the answers of an unfinished run are kept."""
    return target.with_name(f".{target.name}.partial")


class Kept:
    """The parts of one run that are done; ``with Kept(...) as kept``, by one process at a time.

    The folder outlives the block where something is kept in it, unless it is not ``lasting``.
    """

    def __init__(
        self,
        target: Path,
        run: Run,
        shape: tuple[int, int, int],
        dtype: np.dtype[Any],
        restart: bool = False,
        lasting: bool = True,
    ) -> None:
        self._target, self._shape, self._dtype = target, shape, dtype
        self._row = prod(shape[1:]) * dtype.itemsize
        self._folder, self._lasting = folder_for(target), lasting
        self.whole = self._folder / _WHOLE
        """Where the answers are put together."""
        self.entries: dict[Part, Entry] = {}
        self.delivered = False
        """Whether the answers had got their name before, and only this folder was left to remove."""
        self._questions = 0
        with ExitStack() as stack:
            stack.callback(self._locked().release)
            if restart:
                self._clear()
            with errors_named(target, FileError):
                (self._folder / _VALUES).touch()
                self._values = (self._folder / _VALUES).open("r+b", buffering=0)
            stack.callback(self._values.close)
            self._lines = AppendLog(self._folder / _INDEX, FileError)
            stack.callback(lambda: self._lines.close())
            self._take_up(run)
            self._closing = stack.pop_all()

    def _locked(self) -> FileLock:
        """The folder, made and kept from others."""
        with errors_named(self._target, FileError):
            self._folder.mkdir(exist_ok=True)
            lock = FileLock(self._folder / _LOCK, timeout=0)
            try:
                lock.acquire()
            except Timeout:
                raise FileError(
                    f"another process is answering into {self._target}; wait until it has ended or choose "
                    "another name"
                ) from None
        return lock

    def _take_up(self, run: Run) -> None:
        """Go on from what is in the folder, if it is of this run."""
        head, *lines = self._lines.contents or [None]
        done = [line for line in lines if line is not None]
        if head is None or not done:  # nothing to lose
            self._lines.close()
            self._lines.path.unlink()
            self._lines = AppendLog(self._lines.path, FileError)
            self._lines.append([{"run": dict(run)}])
            return
        _check(head["run"], run, self._folder)
        mark = _mark(self._target) if self._target.exists() else None
        self.delivered = mark is not None and any(line.get("delivered") == mark for line in done)
        for line in done:
            if "first" in line and (self.delivered or line["reason"] is not None or self._sound(line)):
                self._enter(line)

    def _sound(self, line: Mapping[str, Any]) -> bool:
        """Whether the values of a part are those that were written."""
        return bool(zlib.crc32(self._read(line["first"], line["last"])) == line["crc"])

    def __enter__(self) -> Kept:
        return self

    def __exit__(self, *_: object) -> None:
        with self._closing:
            if not (self.entries and self._lasting):
                self._lines.close()
                self._clear()
                (self._folder / _LOCK).unlink(missing_ok=True)
                with suppress(OSError):  # another process may have begun in it by now
                    self._folder.rmdir()

    def _clear(self) -> None:
        # The index last: without it nobody knows what the rest is.
        for name in (_VALUES, _WHOLE, _INDEX):
            (self._folder / name).unlink(missing_ok=True)

    def __len__(self) -> int:
        """How many questions are done."""
        return self._questions

    def answered(self) -> bool:
        """Whether any part was answered."""
        return any(entry.reason is None for entry in self.entries.values())

    def keep(self, part: Part, answered: Answered) -> None:
        """Keep the answers to a part."""
        values = np.ascontiguousarray(answered.values, self._dtype).tobytes()
        with errors_named(self._target, FileError):
            self._values.seek(part.first * self._row)
            rest = memoryview(values)
            while rest:
                rest = rest[self._values.write(rest) :]
        columns = {name: [numbers.dtype.str, _text(numbers)] for name, numbers in answered.columns.items()}
        self._done(
            part, None,
            crc=zlib.crc32(values), columns=columns, calls=answered.calls, rounds=answered.rounds,
        )  # fmt: skip

    def reject(self, part: Part, reason: str) -> None:
        """Remember that a question cannot be answered."""
        self._done(part, readable(reason))

    def _done(self, part: Part, reason: str | None, **rest: Any) -> None:
        line = {"first": part.first, "last": part.last, "reason": reason, **rest}
        self._lines.append([line])
        self._enter(line)

    def _enter(self, line: Mapping[str, Any]) -> None:
        part = Part(line["first"], line["last"])
        self._questions += 0 if part in self.entries else len(part)
        columns = {name: _numbers(*stored) for name, stored in line.get("columns", {}).items()}
        self.entries[part] = Entry(line["reason"], columns, line.get("calls", 0), line.get("rounds", 0))

    def columns(self) -> dict[str, Values]:
        """A number of each kind for every question; NaN where it has none."""
        rows = self._shape[0]
        found: dict[str, Values] = {"rejected": np.ones(rows, dtype=bool)}
        for part, entry in self.entries.items():
            for name, numbers in entry.columns.items():
                column = found.setdefault(name, np.full(rows, np.nan, dtype=numbers.dtype))
                column[part.first : part.last] = numbers
        return {name: found[name] for name in ("rejected", "error", "rel_l2") if name in found}

    def reasons(self) -> dict[int, str]:
        """Why questions are rejected, by their numbers."""
        found: dict[int, str] = {}
        for part, entry in sorted(self.entries.items()):
            if entry.reason is not None:
                found[part.first] = entry.reason
            else:
                bad = np.flatnonzero(entry.columns["rejected"])
                found |= {part.first + int(row): NOT_FINITE for row in bad}
        return found

    def blocks(self) -> Iterator[Values]:
        """All answers ``(rows, m, c)`` in order, some at a time; NaN where there is none."""
        rows = self._shape[0]
        lost = np.zeros(rows, dtype=bool)
        for part, entry in self.entries.items():
            lost[part.first : part.last] = entry.reason is not None
        step = max(1, BLOCK_BYTES // max(1, self._row))
        for first in range(0, rows, step):
            last = min(first + step, rows)
            # The file ends with the last question that has an answer.
            raw = self._read(first, last).ljust((last - first) * self._row, b"\0")
            block = np.frombuffer(raw, self._dtype).reshape(-1, *self._shape[1:])
            yield np.where(lost[first:last, None, None], np.asarray(np.nan, self._dtype), block)

    def _read(self, first: int, last: int) -> bytes:
        found, wanted = b"", (last - first) * self._row
        with errors_named(self._target, FileError):
            self._values.seek(first * self._row)
            while len(found) < wanted and (more := self._values.read(wanted - len(found))):
                found += more
        return found

    def deliver(self) -> None:
        """Note that the answers, put together, get their name next."""
        self._lines.append([{"delivered": _mark(self.whole)}])

    def let_go(self) -> None:
        """Nothing need be kept any longer."""
        self._lasting = False


def _check(before: Run, now: Run, folder: Path) -> None:
    """Refuse to go on with a run that was another one."""
    for name, value in now.items():
        was = before.get(name)
        if was != value:
            seen = "" if name in BY_CONTENT else f" ({was} then, {value} now)"
            raise FileError(
                f"{folder} keeps answers of an unfinished run with another {name}{seen}; repeat the command "
                "as it was, begin anew with --restart, or choose another name for the answers"
            )


def _mark(path: Path) -> list[int]:
    """What a file keeps when it is renamed, and shares with no other."""
    found = path.stat()
    return [found.st_ino, found.st_size, found.st_mtime_ns]


def _text(numbers: Values) -> str:
    return base64.b64encode(np.ascontiguousarray(numbers).tobytes()).decode("ascii")


def _numbers(dtype: str, text: str) -> Values:
    return np.frombuffer(base64.b64decode(text), np.dtype(dtype))


__all__ = ["BY_CONTENT", "NOT_FINITE", "Entry", "Kept", "Run", "folder_for"]
