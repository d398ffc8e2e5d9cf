"""Every finished case as one line of a file that only grows: ``checksum {json}``.

The first line says what the folder is about (version, seed), further ones which networks answered. A line
that was cut off by a crash is removed when the folder is opened again; a line damaged later is left where
it is, told about and measured again. One process writes at a time.
"""

from __future__ import annotations

import fcntl
import json
import os
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from types import TracebackType
from typing import Any

from chop.bench.errors import BenchError

FORMAT = "chop-bench-1"
FILE = "cases.jsonl"
Record = dict[str, Any]
Key = tuple[str, str, int, int]
"""Condition, method, and the batch (first, last + 1) in which a case was answered."""


@dataclass(frozen=True)
class About:
    """What must be the same for results to stand side by side."""

    version: str
    seed: int


def line_of(content: Mapping[str, Any]) -> bytes:
    """A line with its checksum; values that are not finite are not written as numbers."""
    text = json.dumps(content, separators=(",", ":"), allow_nan=False, ensure_ascii=False).encode()
    return b"%08x %b\n" % (zlib.crc32(text), text)


def read_line(line: bytes) -> Any:
    """The content of a line without its end, None if it is damaged."""
    if len(line) < 10 or line[8:9] != b" ":
        return None
    try:
        if int(line[:8], 16) != zlib.crc32(line[9:]):
            return None
        return json.loads(line[9:])
    except ValueError:
        return None


class Store:
    """The cases of one folder. ``about`` creates the folder or must fit it; None takes it as it is."""

    def __init__(self, folder: str | Path, about: About | None = None) -> None:
        self.folder = Path(folder)
        self.path = self.folder / FILE
        self.models: dict[str, str] = {}
        self.names: dict[str, str] = {}
        self.damaged = 0
        self._cases: dict[Key, dict[int, Record]] = {}
        self._file: FileIO | None = None
        if about is None and not self.path.exists():
            raise BenchError(f"{self.folder} holds no benchmark ({FILE} is missing)")
        try:
            if about is not None:
                self.folder.mkdir(parents=True, exist_ok=True)
                self._open()
            self.about = self._load(about)
        except BenchError:
            self.close()
            raise
        except OSError as error:
            self.close()
            raise BenchError(f"{self.path}: {error.strerror or error}") from None

    def _open(self) -> None:
        file = self.path.open("a+b", buffering=0)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.close()
            raise BenchError(
                f"another process is writing to {self.folder}; wait or use another folder"
            ) from None
        self._file = file

    def _load(self, wanted: About | None) -> About:
        whole = self.path.read_bytes()
        lines = whole.split(b"\n")
        torn = lines.pop()
        if self._file is not None and torn:
            os.ftruncate(self._file.fileno(), len(whole) - len(torn))
        if not lines:
            if wanted is None:
                raise BenchError(f"{self.path} is empty")
            self._write(line_of({"format": FORMAT, "version": wanted.version, "seed": wanted.seed}))
            return wanted
        head = read_line(lines[0])
        if not isinstance(head, dict) or "format" not in head:
            raise BenchError(f"{self.path} does not begin like a benchmark; use another folder")
        if head["format"] != FORMAT:
            raise BenchError(f"{self.folder} holds a benchmark of format {head['format']!r}, not {FORMAT!r}")
        found = About(head["version"], head["seed"])
        if wanted is not None and found != wanted:
            raise BenchError(
                f"{self.folder} holds results of version {found.version}, seed {found.seed}; this is version "
                f"{wanted.version}, seed {wanted.seed}: use another folder"
            )
        for line in lines[1:]:
            content = read_line(line)
            if not isinstance(content, dict):
                self.damaged += 1
            elif "model" in content:
                self.models[content["model"]] = content["sha256"]
                self.names[content["model"]] = content["file"]
            else:
                self._keep(content)
        return found

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
        self._write(b"".join(map(line_of, new)))
        for record in new:
            if "model" not in record:
                self._keep(record)

    def _known(self, record: Record) -> bool:
        return "model" not in record and record["index"] in self._cases.get(_key(record), ())

    def _write(self, text: bytes) -> None:
        if self._file is None:
            raise BenchError(f"{self.folder} was opened for reading")
        end = os.fstat(self._file.fileno()).st_size
        rest = memoryview(text)
        try:
            while rest:
                rest = rest[self._file.write(rest) :]
        except OSError as error:
            os.ftruncate(self._file.fileno(), end)
            raise BenchError(
                f"{self.path} cannot be written ({error.strerror}); everything before is kept: make room and "
                "repeat the command"
            ) from None

    def _keep(self, record: Record) -> None:
        self._cases.setdefault(_key(record), {})[record["index"]] = record

    def done(self, condition: str, method: str, first: int, end: int) -> bool:
        """Whether a whole batch is stored."""
        return len(self._cases.get((condition, method, first, end), ())) == end - first

    def batch(self, condition: str, method: str, first: int, end: int) -> list[Record]:
        """A batch that is stored, in the order of its cases."""
        found = self._cases[(condition, method, first, end)]
        return [found[index] for index in range(first, end)]

    def close(self) -> None:
        """Let others write."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _key(record: Record) -> Key:
    first, end = record["batch"]
    return record["condition"], record["method"], first, end


__all__ = ["FILE", "FORMAT", "About", "Record", "Store", "line_of", "read_line"]
