"""What a bank on disk consists of, as its log says: the form of its pairs and the files that hold them.

The first line of ``bank.jsonl`` names the format, the second the form of all pairs, written with the first
of them. Every further line acknowledges one file of pairs; one that says ``replaces`` stands for several that
came before it, whose rows it holds in the same order. What no line names is not in the bank.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chop.core.errors import BankError
from chop.storage.schema import (
    Check,
    Record,
    Shape,
    anything,
    boolean,
    finite,
    list_of,
    mapping_of,
    mismatch,
    optional,
    record_of,
    safe_int,
    string,
)

LOG = "bank.jsonl"
FORMAT = "chop-bank-1"
_FILE = re.compile(r"(segment-[0-9-]{1,80}|shape)\.h5")
_DTYPES = ("float16", "float32", "float64")


def _own_file(value: Any) -> bool:
    """A name that the bank gives itself, never one that leads elsewhere."""
    return isinstance(value, str) and _FILE.fullmatch(value) is not None


def _axis(value: Any) -> bool:
    shapes: tuple[Check, ...] = (string, optional(finite), boolean, boolean)
    return (
        isinstance(value, list)
        and len(value) == len(shapes)
        and all(check(part) for check, part in zip(shapes, value, strict=True))
    )


def _size(value: Any) -> bool:
    return safe_int(value) and value >= 1


_STORED = {"file": _own_file, "bytes": _size, "crc": safe_int}
_FORM = {
    **_STORED, "inputs": list_of(_size, 2), "outputs": list_of(_size, 2), "coordinates": _size,
    "dtype": lambda value: value in _DTYPES, "axes": optional(list_of(_axis)),
    "graph": lambda value: isinstance(value, bool), "timed": lambda value: isinstance(value, bool),
}  # fmt: skip
_SEGMENT = {
    **_STORED, "first": safe_int, "rows": _size, "replaces": list_of(_own_file),
    "note": optional(mapping_of(anything)),
}  # fmt: skip
FORM_LINE = {"form": record_of(_FORM)}
SEGMENT_LINE = {"segment": record_of(_SEGMENT)}


@dataclass(frozen=True)
class StoredFile:
    """A file of the bank, and how its content is known to be whole."""

    name: str
    bytes: int
    crc: int

    def record(self) -> Record:
        return {"file": self.name, "bytes": self.bytes, "crc": self.crc}


@dataclass(frozen=True)
class Segment:
    """A file that holds ``rows`` pairs, the first of them number ``first``."""

    stored: StoredFile
    first: int
    rows: int

    @property
    def stop(self) -> int:
        return self.first + self.rows

    def record(self, replaces: Sequence[Segment] = (), note: Record | None = None) -> Record:
        """As a line holds it."""
        names = [segment.stored.name for segment in replaces]
        about = {"first": self.first, "rows": self.rows, "replaces": names, "note": note}
        return {"segment": {**self.stored.record(), **about}}


@dataclass(frozen=True)
class Ledger:
    """What the lines of a log add up to: the form's record, the files in order, what was noted with them."""

    form: Record | None
    segments: tuple[Segment, ...]
    notes: tuple[Record, ...]
    lines: int

    @property
    def rows(self) -> int:
        return self.segments[-1].stop if self.segments else 0

    def after(self, line: Any, where: str) -> Ledger:
        """The same with one line more, which ``where`` names if it is odd."""
        segments, notes = list(self.segments), self.notes
        if isinstance(line, dict) and "form" in line and not segments:
            _check(line, FORM_LINE, where)
            return Ledger(line["form"], (), notes, self.lines + 1)
        _check(line, SEGMENT_LINE, where)
        if self.form is None:
            raise BankError(f"{where} comes before the form of the pairs; copy the bank again")
        _take_up(segments, line["segment"], where)
        if line["segment"]["note"]:
            notes = (*notes, line["segment"]["note"])
        return Ledger(self.form, tuple(segments), notes, self.lines + 1)

    @property
    def files(self) -> set[str]:
        """Names of all files of the bank."""
        shape = {self.form["file"]} if self.form else set()
        return shape | {segment.stored.name for segment in self.segments}


def read_ledger(contents: Sequence[Any], path: Path) -> Ledger:
    """The bank that the lines of the log ``path`` tell of."""
    if not contents:
        raise BankError(f"{path} is empty, so {path.parent} is no bank; make it again")
    head, *rest = contents
    if not isinstance(head, dict) or head.get("format") != FORMAT:
        raise BankError(
            f"{path.parent} is not a bank of the format {FORMAT}, as line 1 of {path.name} should say"
        )
    found = Ledger(None, (), (), 1)
    for number, line in enumerate(rest, start=2):
        if line is None:
            raise BankError(f"{path}, line {number} is damaged; copy the bank again, nothing was changed")
        found = found.after(line, f"{path}, line {number}")
    return found


def _check(line: Any, shape: Shape, where: str) -> None:
    problem = mismatch(line, shape)
    if problem:
        raise BankError(f"{where} is odd ({problem}); copy the bank again, nothing was changed")


def _take_up(segments: list[Segment], about: Record, where: str) -> None:
    """One more file, behind the others or in place of some."""
    new = Segment(StoredFile(about["file"], about["bytes"], about["crc"]), about["first"], about["rows"])
    old = about["replaces"]
    names = [segment.stored.name for segment in segments]
    if new.stored.name in names:
        raise BankError(f"{where} names {new.stored.name} twice; copy the bank again, nothing was changed")
    if old:
        at = names.index(old[0]) if old[0] in names else 0
        last = at + len(old)
        fits = names[at:last] == old and (segments[at].first, segments[last - 1].stop) == (
            new.first,
            new.stop,
        )
        segments[at:last] = [new]
    else:
        fits = new.first == (segments[-1].stop if segments else 0)
        segments.append(new)
    if not fits:
        raise BankError(f"{where} does not fit the lines before; copy the bank again, nothing was changed")
