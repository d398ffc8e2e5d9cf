"""Files that only grow: every line is ``checksum {json}``.

A line that a crash cut off is removed when the file is opened for writing; a line damaged later is left
where it is and read as None. One process writes at a time.
"""

from __future__ import annotations

import contextlib
import json
import os
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from io import FileIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from chop.core.errors import ChopError
from chop.storage.schema import Record, Shape, checked_record

if TYPE_CHECKING:
    from filelock import BaseFileLock


def encode_line(content: Mapping[str, Any]) -> bytes:
    """A line with its checksum; values that are not finite are not written as numbers."""
    text = json.dumps(content, separators=(",", ":"), allow_nan=False, ensure_ascii=False).encode()
    return b"%08x %b\n" % (zlib.crc32(text), text)


def decode_line(line: bytes) -> Any:
    """The content of a line without its end, None if it is damaged."""
    if len(line) < 10 or line[8:9] != b" ":
        return None
    try:
        if int(line[:8], 16) != zlib.crc32(line[9:]):
            return None
        return json.loads(line[9:], parse_constant=_refuse)
    except (ValueError, RecursionError):
        return None


def _refuse(word: str) -> None:
    raise ValueError(f"{word} is not JSON")


class AppendLog:
    """The lines of one file, read when it is opened; ``writing`` creates it and keeps others from writing.

    What goes wrong is raised as ``error``, the kind of error the owner of the file speaks in. Lines that are
    ``durable`` are on the disk, not only with the system, when they are appended.
    """

    def __init__(
        self, path: Path, error: type[ChopError], writing: bool = True, durable: bool = False
    ) -> None:
        self.path = path
        self._durable = durable
        self._error = error
        self._file: FileIO | None = None
        real = path.resolve()  # one file has one lock, whatever links lead to it
        self._lock = real.with_name(f".{real.name}.lock")
        self._held: BaseFileLock | None = None
        try:
            if writing:
                path.parent.mkdir(parents=True, exist_ok=True)
                self._held = self._locked()
                self._file = path.open("a+b", buffering=0)
            self.contents = self._read()
        except OSError as problem:
            self.close()
            raise error(f"{path}: {problem.strerror or problem}") from None

    def _locked(self) -> BaseFileLock:
        """The system's lock on a file beside, which ends with this process, however that ends."""
        from filelock import FileLock, Timeout

        lock = FileLock(self._lock, timeout=0, thread_local=False)
        try:
            lock.acquire()
        except Timeout:
            raise self._error(
                f"another process is writing to {self.path.parent}; wait or use another folder"
            ) from None
        return lock

    def _read(self) -> list[Any]:
        """The contents of all whole lines, None for damaged ones."""
        whole = self.path.read_bytes()
        lines = whole.split(b"\n")
        torn = lines.pop()
        if self._file is not None and torn:
            os.ftruncate(self._file.fileno(), len(whole) - len(torn))
        return [decode_line(line) for line in lines]

    @property
    def damaged(self) -> int:
        """How many lines were damaged when the file was opened."""
        return self.contents.count(None)

    def records(
        self, shape_of: Callable[[Any], tuple[str, Shape]], after: int = 0
    ) -> Iterator[tuple[int, Record]]:
        """Line numbers, from 1, and what those ``after`` some lines hold; damaged lines are left out.

        ``shape_of`` says what a content should be, such as "candidate", and its shape; one that is odd is
        told about, with its line.
        """
        for line, content in enumerate(self.contents[after:], start=after + 1):
            if content is not None:
                name, shape = shape_of(content)
                what = f"{self.path}, line {line} is no {name}"
                yield line, checked_record(content, shape, what, self._error)

    def append(self, contents: Iterable[Mapping[str, Any]]) -> None:
        """Write lines, all or none: on a full disk nothing that was written before is lost."""
        if self._file is None:
            raise self._error(f"{self.path.parent} was opened for reading")
        end = os.fstat(self._file.fileno()).st_size
        rest = memoryview(b"".join(map(encode_line, contents)))
        try:
            while rest:
                rest = rest[self._file.write(rest) :]
            if self._durable:
                os.fsync(self._file.fileno())
        except OSError as problem:
            os.ftruncate(self._file.fileno(), end)
            raise self._error(
                f"{self.path} cannot be written ({problem.strerror}); everything before is kept: make room "
                "and repeat the command"
            ) from None

    def close(self) -> None:
        """Let others write."""
        if self._file is not None:
            self._file.close()
            self._file = None
        if self._held is not None:
            # While it is held: who waits for a file that is gone begins anew, and nobody finds it in the way.
            with contextlib.suppress(OSError):
                self._lock.unlink(missing_ok=True)
            self._held.release()
            self._held = None


class OwnsLog:
    """What owns a log whose first line says what it is about.

    Others may write again once it is closed, or its ``with`` block ends.
    """

    _log: AppendLog

    @contextlib.contextmanager
    def _opened(
        self, path: Path, error: type[ChopError], what: str, head: Mapping[str, Any] | None
    ) -> Iterator[AppendLog]:
        """The log, to be read inside the block; closed where that fails.

        ``head`` is written as the first line of a new log; None opens one that must be there, to be read.
        ``what`` is in it, such as "benchmark".
        """
        if head is None and not path.is_file():
            raise error(f"{path.parent} holds no {what} ({path.name} is missing)")
        self._log = AppendLog(path, error, writing=head is not None)
        try:
            if not self._log.contents:
                if head is None:
                    raise error(f"{path} is empty")
                self._log.append([head])
                self._log.contents.append(dict(head))
            yield self._log
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Let others write."""
        self._log.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *about: object) -> None:
        self.close()
