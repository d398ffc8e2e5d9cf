"""Arrays of an npz file, compressed or not, without reading them whole and without pickle."""

from __future__ import annotations

import io
import os
import struct
import sys
import tempfile
import tokenize
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from math import prod
from pathlib import Path
from typing import IO, Any

import numpy as np

from chop.core.errors import FileError
from chop.files.sources import ArraySource, StoredArray, Values

_BROKEN = (
    zipfile.BadZipFile, zlib.error, struct.error, tokenize.TokenError, EOFError, ValueError, TypeError,
    LookupError, AttributeError, SyntaxError, ArithmeticError, RuntimeError, OSError,
)  # fmt: skip
"""What zipfile and numpy raise on a damaged file, an encrypted member or a header that is nested deeply."""
_HEADER = 2**14
"""Bytes in which the header of an array ends; numpy itself reads 10,000 of it."""
_LONGEST_NOTE = 2**20
_MEMBERS = 10_000
_BLOCK = 2**24
"""Bytes turned at a time from Fortran's order to ours."""


class NpzArray(StoredArray):
    """One member: its rows are read from the (unpacked) stream, in order at the least cost."""

    def __init__(self, path: Path, archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> None:
        self._path, self._archive, self._member = path, archive, member
        self._name = member.filename.removesuffix(".npy")
        self.stored_bytes = member.compress_size
        if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise FileError(f"{path}: {self._name} is packed as numpy never does; write it with numpy.savez")
        with self._errors_named(), archive.open(member) as stream:
            self.shape, self._fortran, self.dtype, self._begin = _header(stream)
        self.dims = (None,) * len(self.shape)
        honest = self.claimed_bytes == member.file_size - self._begin and self.dtype.itemsize
        if not self.dtype.hasobject and not honest:
            raise self._damaged()

    def rows(self, start: int, stop: int) -> Values:
        stop = min(stop, self.shape[0])
        if self._fortran and len(self.shape) > 1:
            return np.array(self._turned[start:stop])
        row = prod(self.shape[1:]) * self.dtype.itemsize
        return self._read(start * row, (max(0, stop - start), *self.shape[1:]))

    def whole(self) -> Values:
        if self._fortran:
            return self._read(0, self.shape[::-1]).T
        return self._read(0, self.shape)

    @cached_property
    def _stream(self) -> IO[bytes]:
        return self._archive.open(self._member)

    @cached_property
    def _turned(self) -> Values:
        """The array in C order, in a file without a name: every byte is read and written once.

        In Fortran's order the rows of a batch are scattered over the whole member.
        """
        self._refuse_objects()
        if not prod(self.shape):
            return np.empty(self.shape, self.dtype)
        lines = prod(self.shape[1:])  # in the file: lines of one number from each question
        turned = self._scratch((self.shape[0], lines))
        step = max(1, _BLOCK // (self.shape[0] * self.dtype.itemsize))
        for first in range(0, lines, step):
            count = min(step, lines - first)
            offset = first * self.shape[0] * self.dtype.itemsize
            turned[:, first : first + count] = self._read(offset, (count, self.shape[0])).T
        # Within a row, too, the first axis runs fastest.
        reversed_axes = turned.reshape(self.shape[0], *self.shape[:0:-1])
        return reversed_axes.transpose(0, *range(len(self.shape) - 1, 0, -1))

    def _scratch(self, shape: tuple[int, int]) -> Values:
        """An array on disk that nobody else sees and that is gone with us."""
        wanted = prod(shape) * self.dtype.itemsize
        try:
            with tempfile.TemporaryFile() as file:
                file.truncate(wanted)
                if hasattr(os, "posix_fallocate"):  # a full disk under a mapped file kills the process
                    os.posix_fallocate(file.fileno(), 0, wanted)
                return np.memmap(file, self.dtype, "r+", shape=shape)
        except OSError as error:
            raise FileError(
                f"{self._path}: {self._name} is in Fortran order, and there is no room to turn its "
                f"{wanted:,} bytes in {tempfile.gettempdir()} ({error.strerror}); write it in C order"
            ) from None

    def _read(self, offset: int, shape: tuple[int, ...]) -> Values:
        self._refuse_objects()
        wanted = prod(shape) * self.dtype.itemsize
        with self._errors_named():
            self._stream.seek(self._begin + offset)
            found = self._stream.read(wanted)
        if len(found) != wanted:
            raise self._damaged()
        return np.frombuffer(found, dtype=self.dtype).reshape(shape)

    def is_note(self) -> bool:
        """Whether it holds one text, as notes do."""
        return self.dtype.kind in "US" and self.shape == () and self.dtype.itemsize <= _LONGEST_NOTE

    def text(self) -> Any:
        """The one text that it holds."""
        found = self.whole().reshape(1)
        if self.dtype.kind == "U" and (found.view(self.dtype.byteorder + "u4") > sys.maxunicode).any():
            raise self._damaged()  # not every number is a character
        return found.item()

    def close(self) -> None:
        """Let go of the member."""
        if "_stream" in self.__dict__:
            self._stream.close()

    def _refuse_objects(self) -> None:
        if self.dtype.hasobject:
            raise FileError(f"{self._path}: {self._name} holds Python objects; questions are numbers")

    @contextmanager
    def _errors_named(self) -> Iterator[None]:
        try:
            yield
        except _BROKEN as error:
            raise self._damaged() from error

    def _damaged(self) -> FileError:
        return FileError(f"{self._path}: {self._name} cannot be read; the file is damaged, write it again")


def _header(stream: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any], int]:
    """Shape, order and type of an array, and where its numbers begin."""
    start = io.BytesIO(stream.read(_HEADER))
    version = np.lib.format.read_magic(start)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    try:
        shape, fortran, dtype = read(start)
    except MemoryError:  # Python's, for text that is nested deeply
        raise ValueError("no header") from None
    if any(length < 0 for length in shape):
        raise ValueError("a negative length")
    return shape, fortran, dtype, start.tell()


class NpzSource(ArraySource):
    """A file that numpy's ``savez`` or ``savez_compressed`` wrote."""

    kind = "npz"

    def __init__(self, path: Path) -> None:
        self.path, self.size = path, path.stat().st_size
        try:
            self._archive = zipfile.ZipFile(path)
        except _BROKEN:
            raise FileError(f"{path} is cut off or damaged; copy or write it again") from None
        self.arrays: Mapping[str, NpzArray] = {}
        try:
            self._refuse_odd(self._archive.infolist())
            self.arrays = {
                member.filename.removesuffix(".npy"): NpzArray(path, self._archive, member)
                for member in self._archive.infolist()
                if member.filename.endswith(".npy")
            }
            self.notes = {name: array.text() for name, array in self.arrays.items() if array.is_note()}
        except BaseException:
            self.close()
            raise

    def _refuse_odd(self, members: list[zipfile.ZipInfo]) -> None:
        if len(members) > _MEMBERS:
            raise FileError(f"{self.path} holds more than {_MEMBERS:,} arrays; write what is needed alone")
        if sum(member.compress_size for member in members) > self.size:  # members that share their bytes
            raise FileError(f"{self.path} is damaged: its arrays take more than the file; write it again")

    def close(self) -> None:
        # Every open member keeps the file open.
        for array in self.arrays.values():
            array.close()
        self._archive.close()
