"""What happened, as a file that only grows; reading it again leads to the same place.

The first line says what the folder is about. Then, race after race, what language models said, every
candidate, and the race's outcome. An evolution that begins on an old journal goes through it line by line,
takes verdicts from it instead of judging again, and must meet every stored line where it is; after the
last one it goes on. What a clock says stands under ``clock`` and is never compared.

A damaged line loses nothing but itself: the file as it was is kept beside, the lines before the damage stay,
and what later lines knew is used when the evolution comes by again.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from chop.core.errors import EvolutionError
from chop.evolution.head import FORMAT, Head
from chop.evolution.shapes import Record, checked
from chop.storage.log import AppendLog, OwnsLog

FILE = "journal.jsonl"
Key = tuple[str, int, int]


def key_of(record: Mapping[str, Any]) -> Key:
    """What a record is about."""
    kind = record["kind"]
    number = record.get("candidate" if kind == "candidate" else "iteration", 0)
    return kind, number, record["agent"] if kind == "said" else 0


def comparable(record: Mapping[str, Any]) -> Record:
    """A record without what a clock said."""
    return {name: value for name, value in record.items() if name != "clock"}


class Journal(OwnsLog):
    """The journal of one folder. ``head`` creates it or must fit it; None takes it as it is, to be read."""

    def __init__(self, folder: str | Path, head: Head | None) -> None:
        self.folder = Path(folder)
        self.path = self.folder / FILE
        self.damaged = 0
        if head is None and not self.path.is_file():
            raise EvolutionError(f"{self.folder} holds no evolution ({FILE} is missing)")
        self._lines = AppendLog(self.path, EvolutionError, writing=head is not None)
        try:
            self.head = self._begin(head)
        except EvolutionError:
            self.close()
            raise

    def _begin(self, wanted: Head | None) -> Head:
        contents = self._lines.contents
        if not contents:
            if wanted is None:
                raise EvolutionError(f"{self.path} is empty")
            self._lines.append([wanted.to_json()])
            contents = [wanted.to_json()]
        found = Head.from_json(contents[0], self.path)
        lines = _records(self.path, contents)
        first_bad = next((i for i, content in enumerate(contents) if content is None), len(contents))
        self.damaged = sum(content is None for content in contents)
        older = [AppendLog(path, EvolutionError, writing=False).contents for path in self._damaged_files()]
        others = [
            record
            for path, told in zip(self._damaged_files(), older, strict=True)
            for record in _records(path, told).values()
        ]
        for record in (*others, *lines.values()):
            if record["kind"] == "head":  # of a later version that went on here, and was held to the first
                found = Head.from_json(record, self.path)
        self._stored = {key_of(record): record for record in (*others, *lines.values())}
        kept = {
            line: record
            for line, record in lines.items()
            if record["kind"] != "head" and (wanted is None or line <= first_bad)
        }
        self.records: list[Record] = list(kept.values())
        self._numbers = list(kept)
        self._met = 0
        self._new_head: Head | None = None
        if wanted is not None:
            difference = found.difference(wanted)
            if difference:
                raise EvolutionError(
                    f"{self.folder} holds another evolution: {difference}; use another folder"
                )
            if found != wanted:
                self._new_head = wanted
        if self.damaged and wanted is not None:
            self._cut(first_bad)
        return found

    def _cut(self, lines: int) -> None:
        """Keep the file as it is beside, and go on from the last line before the damage."""
        kept = self.path.with_name(
            f"journal.damaged-{len(list(self.folder.glob('journal.damaged-*'))) + 1}.jsonl"
        )
        try:
            shutil.copyfile(self.path, kept)
            with self.path.open("r+b") as file:
                for _ in range(lines):
                    file.readline()
                file.truncate(file.tell())
        except OSError as problem:
            raise EvolutionError(f"{self.path} cannot be mended: {problem.strerror}") from None

    def _damaged_files(self) -> list[Path]:
        return sorted(self.folder.glob("journal.damaged-*.jsonl"))

    def stored(self, kind: str, number: int, agent: int = 0) -> Record | None:
        """What an earlier session wrote about something, wherever it stands."""
        return self._stored.get((kind, number, agent))

    def write(self, record: Record) -> None:
        """The next record: appended, or compared with the one that stands there already."""
        if self._met < len(self.records):
            there = self.records[self._met]
            if comparable(there) != comparable(record):
                raise EvolutionError(
                    f"{self.path}, line {self._numbers[self._met]}: a {there['kind']} is stored that this "
                    "version would not have come to; it continues only its own evolutions: use another folder"
                )
        else:
            # An evolution of an older version learns what it did not know once something new is added to it.
            first = [] if self._new_head is None else [{"kind": "head", **self._new_head.to_json()}]
            self._lines.append([*first, record])
            self._new_head = None
            self.records.append(record)
        self._met += 1


def _records(path: Path, contents: list[Any]) -> dict[int, Record]:
    """The records after the head by their line, from 1; damaged lines are left out."""
    return {
        line: checked(content, f"{path}, line {line}")
        for line, content in enumerate(contents[1:], start=2)
        if content is not None
    }


__all__ = ["FILE", "FORMAT", "Head", "Journal", "Record", "comparable", "key_of"]
