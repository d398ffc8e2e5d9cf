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
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chop.evolution.errors import EvolutionError
from chop.lines import KeepsLines, Lines

FORMAT = "chop-evolution-1"
FILE = "journal.jsonl"
Record = dict[str, Any]
Key = tuple[str, int, int]


@dataclass(frozen=True)
class Head:
    """What must be the same for an evolution to continue."""

    version: str
    task: str
    seed: int
    agents: tuple[str, ...]
    data: str
    model: str
    rules: str

    def to_json(self) -> Record:
        return {
            "format": FORMAT, "version": self.version, "task": self.task, "seed": self.seed,
            "agents": list(self.agents), "data": self.data, "model": self.model, "rules": self.rules,
        }  # fmt: skip

    @classmethod
    def from_json(cls, record: Any, path: Path) -> Head:
        if not isinstance(record, dict) or "format" not in record:
            raise EvolutionError(f"{path} does not begin like an evolution; use another folder")
        if record["format"] != FORMAT:
            raise EvolutionError(f"{path} has format {record['format']!r}; this version reads {FORMAT!r}")
        known = {name: record[name] for name in ("version", "task", "seed", "data", "model", "rules")}
        return cls(agents=tuple(record["agents"]), **known)


def key_of(record: Mapping[str, Any]) -> Key:
    """What a record is about."""
    kind = str(record.get("kind"))
    number = record.get("candidate" if kind == "candidate" else "iteration", -1)
    return kind, int(number), int(record.get("agent", 0)) if kind == "said" else 0


def comparable(record: Mapping[str, Any]) -> Record:
    """A record without what a clock said."""
    return {name: value for name, value in record.items() if name != "clock"}


class Journal(KeepsLines):
    """The journal of one folder. ``head`` creates it or must fit it; None takes it as it is, to be read."""

    def __init__(self, folder: str | Path, head: Head | None) -> None:
        self.folder = Path(folder)
        self.path = self.folder / FILE
        self.damaged = 0
        if head is None and not self.path.is_file():
            raise EvolutionError(f"{self.folder} holds no evolution ({FILE} is missing)")
        self._lines = Lines(self.path, EvolutionError, writing=head is not None)
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
        if wanted is not None and found != wanted:
            raise EvolutionError(f"{self.folder} holds another evolution: {_difference(found, wanted)}")
        first_bad = next((i for i, c in enumerate(contents) if not isinstance(c, dict)), len(contents))
        self.damaged = sum(not isinstance(content, dict) for content in contents)
        good = [content for content in contents[1:] if isinstance(content, dict)]
        older = [Lines(path, EvolutionError, writing=False).contents for path in self._damaged_files()]
        others = [record for found in older for record in found[1:] if isinstance(record, dict)]
        self._stored = {key_of(record): record for record in [*others, *good]}
        self.records: list[Record] = contents[1:first_bad] if wanted is not None else good
        self._met = 0
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
                    f"{self.path}, line {self._met + 2}: a {there.get('kind')} is stored that this version "
                    "would not have come to; it continues only its own evolutions: use another folder"
                )
        else:
            self._lines.append([record])
            self.records.append(record)
        self._met += 1


def _difference(found: Head, wanted: Head) -> str:
    """The first thing that is not the same, in words."""
    words = {
        "data": "the questions differ",
        "model": "the model differs",
        "rules": "the limits, the start or the operators differ",
    }
    for name in ("task", "seed", "agents", "version", "data", "model", "rules"):
        one, other = getattr(found, name), getattr(wanted, name)
        if one != other:
            return (
                words.get(name, f"its {name} is {_shown(one)}, not {_shown(other)}") + "; use another folder"
            )
    return ""


def _shown(value: object) -> str:
    return ", ".join(value) if isinstance(value, tuple) else str(value)


__all__ = ["FILE", "FORMAT", "Head", "Journal", "Record", "comparable", "key_of"]
