"""Every finished case as one line of a file that only grows (see `chop.storage.log`).

The first line says what the folder is about (version, seed), further ones which networks answered. A
damaged line is told about and its cases are measured again.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chop.core.errors import BenchError
from chop.storage.log import AppendLog, OwnsLog
from chop.storage.schema import (
    Shape,
    finite,
    list_of,
    mismatch,
    optional,
    present_part,
    safe_int,
    string,
)

FORMAT = "chop-bench-1"
FILE = "cases.jsonl"
Record = dict[str, Any]
Key = tuple[str, str, int, int]
"""Condition, method, and the batch (first, last + 1) in which a case was answered."""


_MODEL: Shape = {"model": string, "sha256": string, "file": string}
_CASE: Shape = {
    "condition": string, "method": string, "batch": list_of(safe_int, 2), "index": safe_int,
    "error": optional(finite), "calls": safe_int, "ms": finite,
}  # fmt: skip


_MAYBE: Shape = {"curve": list_of(optional(finite)), "in_context": optional(finite)}


def _shape(content: Any) -> Shape:
    model = isinstance(content, dict) and "model" in content
    return _MODEL if model else {**_CASE, **present_part(content, _MAYBE)}


def fitting(content: Any, shape: Shape, what: str) -> None:
    """Say what is the matter with a line that has not the shape it should have."""
    problem = mismatch(content, shape)
    if problem:
        raise BenchError(f"{what}: it has {problem}; use another folder")


@dataclass(frozen=True)
class About:
    """What must be the same for results to stand side by side."""

    version: str
    seed: int


class Store(OwnsLog):
    """The cases of one folder. ``about`` creates the folder or must fit it; None takes it as it is."""

    def __init__(self, folder: str | Path, about: About | None = None) -> None:
        self.folder = Path(folder)
        self.path = self.folder / FILE
        self.models: dict[str, str] = {}
        self.names: dict[str, str] = {}
        self.damaged = 0
        self._cases: dict[Key, dict[int, Record]] = {}
        self._steps: dict[tuple[str, str], int] = {}
        if about is None and not self.path.exists():
            raise BenchError(f"{self.folder} holds no benchmark ({FILE} is missing)")
        self._lines = AppendLog(self.path, BenchError, writing=about is not None)
        try:
            self.about = self._load(about)
        except BenchError:
            self.close()
            raise

    def _load(self, wanted: About | None) -> About:
        if not self._lines.contents:
            if wanted is None:
                raise BenchError(f"{self.path} is empty")
            self._lines.append([{"format": FORMAT, "version": wanted.version, "seed": wanted.seed}])
            return wanted
        head, *rest = self._lines.contents
        if not isinstance(head, dict) or "format" not in head:
            raise BenchError(f"{self.path} does not begin like a benchmark; use another folder")
        if head["format"] != FORMAT:
            raise BenchError(f"{self.folder} holds a benchmark of format {head['format']!r}, not {FORMAT!r}")
        fitting(head, {"version": string, "seed": safe_int}, f"{self.path} does not begin like a benchmark")
        found = About(head["version"], head["seed"])
        if wanted is not None and found != wanted:
            raise BenchError(
                f"{self.folder} holds results of version {found.version}, seed {found.seed}; this is version "
                f"{wanted.version}, seed {wanted.seed}: use another folder"
            )
        for line, content in enumerate(rest, start=2):
            if content is None:
                self.damaged += 1
                continue
            what = f"{self.path}, line {line} is no result"
            fitting(content, _shape(content), what)
            if "model" in content:
                self.models[content["model"]] = content["sha256"]
                self.names[content["model"]] = content["file"]
            elif self._fits(content):
                self._keep(content)
            else:
                raise BenchError(f"{what}: it does not fit the others; use another folder")
        return found

    def _fits(self, record: Record) -> bool:
        """Whether a case belongs to its batch, and its curve beside those of its kind."""
        first, end = record["batch"]
        steps = len(record.get("curve", ()))
        kind = record["condition"], record["method"]
        return first <= record["index"] < end and self._steps.setdefault(kind, steps) == steps

    def use_model(self, problem: str, sha256: str, file: str) -> None:
        """Note which network answers a problem; it must be the one that answered before."""
        known = self.models.get(problem)
        if known is None:
            self.append([{"model": problem, "sha256": sha256, "file": file}])
            self.models[problem], self.names[problem] = sha256, file
        elif known != sha256:
            raise BenchError(
                f"{self.folder} holds results of another {problem} network ({self.names[problem]}, sha256 "
                f"{known[:12]}); {file} is {sha256[:12]}: use another folder"
            )

    def append(self, records: Iterable[Record]) -> None:
        """Write records that are not there yet; on a full disk nothing that was written is lost."""
        new = [record for record in records if not self._known(record)]
        self._lines.append(new)
        for record in new:
            if "model" not in record:
                self._keep(record)

    def _known(self, record: Record) -> bool:
        return "model" not in record and record["index"] in self._cases.get(_key(record), ())

    def _keep(self, record: Record) -> None:
        self._cases.setdefault(_key(record), {})[record["index"]] = record

    def done(self, condition: str, method: str, first: int, end: int) -> bool:
        """Whether a whole batch is stored."""
        return len(self._cases.get((condition, method, first, end), ())) == end - first

    def batch(self, condition: str, method: str, first: int, end: int) -> list[Record]:
        """A batch that is stored, in the order of its cases."""
        found = self._cases[(condition, method, first, end)]
        return [found[index] for index in range(first, end)]


def _key(record: Record) -> Key:
    first, end = record["batch"]
    return record["condition"], record["method"], first, end


__all__ = ["FILE", "FORMAT", "About", "Record", "Store", "fitting"]
