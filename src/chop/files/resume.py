"""What is finished of a run is kept until all is, in a hidden folder beside the file the answers are for.

``values`` holds the answers, each at its place with its bounds; ``index`` says what run they are of and, line
by line, which parts are finished, with a checksum of their values. So a process that is killed loses the part
it was at, and whatever a crash of the machine has torn is asked again, as is a part whose line is odd.
"""

from __future__ import annotations

import base64
import uuid
import zlib
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import torch
from filelock import FileLock, Timeout
from torch import nn

from chop import __version__
from chop.core.conformal import ConformalScores
from chop.core.errors import FileError
from chop.files.models_and_programs import model_file
from chop.files.parts import AnsweringWork, FinishedPart, Part
from chop.files.questions import QuestionFile
from chop.files.sources import Values
from chop.runs.fingerprint import canonical_json, of_file, of_module, stored_digest
from chop.storage.atomic import errors_named
from chop.storage.json_text import readable
from chop.storage.log import AppendLog
from chop.storage.schema import anything, list_of, mapping_of, mismatch, optional, safe_int, string

BLOCK_BYTES = 8 * 2**20
"""Answers that are in memory at a time when they are put together."""
NOT_FINITE = "the answer is not finite"
_COLUMNS = ("rejected", "error", "rel_l2")
_VALUES, _INDEX, _LOCK, _COMPLETE = "values", "index", "lock", "whole"
_BY_CONTENT = ("file of questions", "model", "calibration")
"""Of these only a checksum is kept."""
_HEAD = {"run": mapping_of(anything)}
_FINISHED = {"first": safe_int, "last": safe_int, "reason": optional(string)}
_ANSWERED = {
    "crc": safe_int, "columns": mapping_of(list_of(string, 2)), "calls": safe_int, "rounds": safe_int,
}  # fmt: skip
_COLUMN_TYPES = {np.dtype(kind).str for kind in ("bool", "float16", "float32", "float64")}


@dataclass(frozen=True)
class RunIdentity:
    """What decides the answers to a file: a run goes on only with what it began with."""

    facts: Mapping[str, str | float | bool]
    """Plain values under names that a sentence can use."""
    lasting: bool
    """Whether a later process could know the run again."""

    @classmethod
    def of(cls, work: AnsweringWork, model_name: str, batch: int) -> RunIdentity:
        """Files and torch modules are known by content, another callable by the name that was given to it."""
        file, model = of_file(work.path) if work.path.is_file() else None, work.model
        if isinstance(model, str):
            path, function = model_file(model)
            named: str | None = f"{of_file(path)}{function}"
        elif isinstance(model, nn.Module):
            named = of_module(model)
        else:
            named = f"named {model_name}" if model_name else None
        # What has no name is given one that no other run has.
        facts: dict[str, str | float | bool] = {
            "file of questions": file or uuid.uuid4().hex, "model": named or uuid.uuid4().hex,
            "program": str(work.program), "--validate": work.validate, "--batch": batch,
            "--band": work.band,
            "calibration": _digest(work.scores),
            "version of chop": __version__, "version of torch": str(torch.__version__),
        }  # fmt: skip
        return cls(facts, file is not None and named is not None)

    def check(self, before: Mapping[str, Any], folder: Path) -> None:
        """Refuse to go on with a run that was another one."""
        for name, value in self.facts.items():
            was = before.get(name)
            if was != value:
                seen = "" if name in _BY_CONTENT else f" ({was} then, {value} now)"
                raise FileError(
                    f"{folder} keeps answers of an unfinished run with another {name}{seen}; repeat the "
                    "command as it was, begin anew with --restart, or choose another name for the answers"
                )


def _digest(scores: ConformalScores | None) -> str:
    """A name for the scores that bands come from; empty where there are none."""
    if scores is None:
        return ""
    digest = stored_digest()
    digest.update(canonical_json(scores.to_dict()).encode())
    return digest.hexdigest()


def partial_folder(target: Path) -> Path:
    """Where the answers of an unfinished run are kept."""
    return target.with_name(f".{target.name}.partial")


class UnfinishedRun:
    """The finished parts of a run; ``with UnfinishedRun(...) as run``, by one process at a time.

    The folder outlives the block where something is kept in it, unless no later process could go on with it.
    """

    def __init__(
        self, target: Path, identity: RunIdentity, questions: QuestionFile, restart: bool, layers: int = 1
    ) -> None:
        self._target, self._dtype, self._layers = target, questions.dtype, layers
        rows, *answer = questions.answer_shape
        self._shape = (rows, layers, *answer)
        self._row = prod(self._shape[1:]) * self._dtype.itemsize
        self._folder, self._lasting = partial_folder(target), identity.lasting
        self.complete_file = self._folder / _COMPLETE
        """Where the answers are put together."""
        self.parts: dict[Part, FinishedPart] = {}
        self.delivered = False
        """Whether the answers had got their name before, and only this folder was left to remove."""
        self._finished = np.zeros(len(questions), dtype=bool)
        with ExitStack() as stack:
            stack.callback(self._locked().release)
            if restart:
                self._clear()
            with errors_named(target, FileError):
                (self._folder / _VALUES).touch()
                self._values = (self._folder / _VALUES).open("r+b", buffering=0)
            stack.callback(self._values.close)
            self._log = AppendLog(self._folder / _INDEX, FileError)
            stack.callback(lambda: self._log.close())
            self._take_up(identity)
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

    def _take_up(self, identity: RunIdentity) -> None:
        """Go on from what is in the folder, if it is of this run."""
        head, *rest = self._log.contents or [None]
        lines = [line for line in rest if isinstance(line, dict)]
        if mismatch(head, _HEAD) or not lines:  # nothing to lose
            self._log.close()
            self._log.path.unlink()
            self._log = AppendLog(self._log.path, FileError)
            self._log.append([{"run": dict(identity.facts)}])
            return
        identity.check(head["run"], self._folder)
        mark = _file_mark(self._target) if self._target.exists() else None
        self.delivered = mark is not None and any(line.get("delivered") == mark for line in lines)
        for line in lines:
            found = self._finished_part(line)
            if found is not None:
                self._enter(*found)

    def _finished_part(self, line: Mapping[str, Any]) -> tuple[Part, FinishedPart] | None:
        """What a line of the index says; None if it is of something else, odd, or not true of the values."""
        if mismatch(line, _FINISHED) or not 0 <= line["first"] < line["last"] <= self._shape[0]:
            return None
        part, reason = Part(line["first"], line["last"]), line["reason"]
        if reason is not None:
            return (part, FinishedPart(reason)) if len(part) == 1 else None
        if mismatch(line, _ANSWERED):
            return None
        columns = {name: _decoded(*stored) for name, stored in line["columns"].items()}
        if "rejected" not in columns or any(len(numbers) != len(part) for numbers in columns.values()):
            return None
        if not self.delivered and zlib.crc32(self._read(part.first, part.last)) != line["crc"]:
            return None
        return part, FinishedPart(None, columns, line["calls"], line["rounds"])

    def __enter__(self) -> UnfinishedRun:
        return self

    def __exit__(self, *_: object) -> None:
        with self._closing:
            if not (self.parts and self._lasting):
                self._log.close()
                self._clear()
                (self._folder / _LOCK).unlink(missing_ok=True)
                with suppress(OSError):  # another process may have begun in it by now
                    self._folder.rmdir()

    def _clear(self) -> None:
        # The index last: without it nobody knows what the rest is.
        for name in (_VALUES, _COMPLETE, _INDEX):
            (self._folder / name).unlink(missing_ok=True)

    def __len__(self) -> int:
        """How many questions are finished."""
        return int(np.count_nonzero(self._finished))

    def any_answered(self) -> bool:
        """Whether any part was answered."""
        return any(part.reason is None for part in self.parts.values())

    def add(self, part: Part, answers: Values, finished: FinishedPart) -> None:
        """Keep the answers to a part with their bounds, ``(rows, layers, m, c)``."""
        values = np.ascontiguousarray(answers, self._dtype).tobytes()
        with errors_named(self._target, FileError):
            self._values.seek(part.first * self._row)
            rest = memoryview(values)
            while rest:
                rest = rest[self._values.write(rest) :]
        columns = {name: _encoded(numbers) for name, numbers in finished.columns.items()}
        self._append(
            part, finished,
            crc=zlib.crc32(values), columns=columns, calls=finished.calls, rounds=finished.rounds,
        )  # fmt: skip

    def reject(self, part: Part, reason: str) -> None:
        """Remember that a question cannot be answered."""
        self._append(part, FinishedPart(readable(reason)))

    def _append(self, part: Part, finished: FinishedPart, **rest: Any) -> None:
        self._log.append([{"first": part.first, "last": part.last, "reason": finished.reason, **rest}])
        self._enter(part, finished)

    def _enter(self, part: Part, finished: FinishedPart) -> None:
        self.parts[part] = finished
        self._finished[part.first : part.last] = True

    def columns(self) -> dict[str, Values]:
        """A number of each kind for every question; NaN where it has none."""
        rows = self._shape[0]
        found: dict[str, Values] = {"rejected": np.ones(rows, dtype=bool)}
        for part, finished in self.parts.items():
            for name, numbers in finished.columns.items():
                column = found.setdefault(name, np.full(rows, np.nan, dtype=numbers.dtype))
                column[part.first : part.last] = numbers
        return {name: found[name] for name in _COLUMNS if name in found}

    def reasons(self) -> dict[int, str]:
        """Why questions are rejected, by their numbers."""
        found: dict[int, str] = {}
        for part, finished in sorted(self.parts.items(), key=lambda one: one[0]):
            if finished.reason is not None:
                found[part.first] = finished.reason
            else:
                bad = np.flatnonzero(finished.columns["rejected"])
                found |= {part.first + int(row): NOT_FINITE for row in bad}
        return found

    def blocks(self, layer: int = 0) -> Iterator[Values]:
        """All answers ``(rows, m, c)`` in order, or one of their bounds; NaN where there is none."""
        rows = self._shape[0]
        lost = np.zeros(rows, dtype=bool)
        for part, finished in self.parts.items():
            lost[part.first : part.last] = finished.reason is not None
        step = max(1, BLOCK_BYTES // max(1, self._row))
        for first in range(0, rows, step):
            last = min(first + step, rows)
            # The file ends with the last question that has an answer.
            raw = self._read(first, last).ljust((last - first) * self._row, b"\0")
            block = np.frombuffer(raw, self._dtype).reshape(-1, *self._shape[1:])[:, layer]
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
        self._log.append([{"delivered": _file_mark(self.complete_file)}])

    def discard(self) -> None:
        """Nothing need be kept any longer."""
        self._lasting = False


def _file_mark(path: Path) -> list[int]:
    """What a file keeps when it is renamed, and shares with no other."""
    found = path.stat()
    return [found.st_ino, found.st_size, found.st_mtime_ns]


def _encoded(numbers: Values) -> list[str]:
    return [numbers.dtype.str, base64.b64encode(np.ascontiguousarray(numbers).tobytes()).decode("ascii")]


def _decoded(dtype: str, content: str) -> Values:
    """The numbers of a column; none where they cannot be read."""
    if dtype not in _COLUMN_TYPES:
        return np.empty(0)
    try:
        return np.frombuffer(base64.b64decode(content), dtype)
    except ValueError:
        return np.empty(0)
