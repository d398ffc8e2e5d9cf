"""Arrays of an npz file, compressed or not, without reading them whole and without pickle."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Mapping
from functools import cached_property
from math import prod
from pathlib import Path
from typing import IO, Any

import numpy as np

from chop.files.errors import FileError
from chop.files.sources import Values

_BROKEN = (zipfile.BadZipFile, zlib.error, EOFError, ValueError, NotImplementedError, OSError)


class NpzArray:
    """One member: its rows are read from the (unpacked) stream, in order at the least cost."""

    shared = False

    def __init__(self, path: Path, archive: zipfile.ZipFile, member: str) -> None:
        self._path, self._archive, self._member = path, archive, member
        self._name = member.removesuffix(".npy")
        try:
            self._stream: IO[bytes] = archive.open(member)
            self.shape, self._fortran, self.dtype = _header(self._stream)
            self._begin = self._stream.tell()
        except _BROKEN as error:
            raise self._damaged() from error

    def rows(self, start: int, stop: int) -> Values:
        if self._fortran:  # its rows are scattered over the whole member
            return self.whole()[start:stop]
        stop = min(stop, self.shape[0])
        return self._read(start * self._stride, (max(0, stop - start), *self.shape[1:]))

    def whole(self) -> Values:
        if self._fortran:
            return self._read(0, self.shape[::-1]).T
        return self._read(0, self.shape)

    @property
    def _stride(self) -> int:
        return prod(self.shape[1:]) * self.dtype.itemsize

    def _read(self, offset: int, shape: tuple[int, ...]) -> Values:
        if self.dtype.hasobject:
            raise FileError(f"{self._path}: {self._name} holds Python objects; questions are numbers")
        wanted = prod(shape) * self.dtype.itemsize
        try:
            self._stream.seek(self._begin + offset)
            found = self._stream.read(wanted)
        except _BROKEN as error:
            raise self._damaged() from error
        if len(found) != wanted:
            raise self._damaged()
        return np.frombuffer(found, dtype=self.dtype).reshape(shape)

    def close(self) -> None:
        """Let go of the member."""
        self._stream.close()

    def _damaged(self) -> FileError:
        return FileError(f"{self._path}: {self._name} cannot be read; the file is damaged, write it again")


def _header(stream: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    version = np.lib.format.read_magic(stream)
    if version == (1, 0):
        return np.lib.format.read_array_header_1_0(stream)
    return np.lib.format.read_array_header_2_0(stream)


class NpzSource:
    """A file that numpy's ``savez`` or ``savez_compressed`` wrote."""

    kind = "npz"

    def __init__(self, path: Path) -> None:
        try:
            self._archive = zipfile.ZipFile(path)
        except (zipfile.BadZipFile, OSError):
            raise FileError(f"{path} is cut off or damaged; copy or write it again") from None
        self._path = path

    @cached_property
    def arrays(self) -> Mapping[str, NpzArray]:
        return {
            member.removesuffix(".npy"): NpzArray(self._path, self._archive, member)
            for member in self._archive.namelist()
            if member.endswith(".npy")
        }

    @cached_property
    def notes(self) -> Mapping[str, Any]:
        texts = {name: array for name, array in self.arrays.items() if array.dtype.kind in "US"}
        return {name: array.whole().item() for name, array in texts.items() if array.shape == ()}

    def close(self) -> None:
        # Every open member keeps the file open.
        for array in self.__dict__.get("arrays", {}).values():
            array.close()
        self._archive.close()


__all__ = ["NpzArray", "NpzSource"]
