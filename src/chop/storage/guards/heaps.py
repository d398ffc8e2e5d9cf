"""Global heaps of an HDF5 file, where its texts and references lie.

HDF5 (up to 2.0) goes round for ever where free space in a heap claims to take no bytes, and nothing but kill
ends it. One flipped byte suffices; so heaps are looked at before HDF5 is asked for anything in them.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from pathlib import Path

SEARCHED = 2**30
"""Bytes of the largest file that is searched for heaps, which takes less than a second."""
_SIGN = b"GCOL\x01\x00\x00\x00"


def endless(path: Path, length_bytes: int) -> bool:
    """Whether a heap would never come to its end; ``length_bytes`` is how long the file's lengths are."""
    if not 0 < path.stat().st_size <= SEARCHED:
        return False
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        steps = 0
        at = data.find(_SIGN)
        while at >= 0:
            for length in _lengths(data, at, length_bytes):
                steps += 1
                if length == 0 or 16 * steps > len(data):  # heaps that overlap to be walked for ever
                    return True
            at = data.find(_SIGN, at + 1)
    return False


def _lengths(data: mmap.mmap, begin: int, length_bytes: int) -> Iterator[int]:
    """What each object of a heap takes: a number, how often it is used, its length and itself.

    The object with number 0 is free space, whose length is that of everything.
    """

    def number(at: int, count: int) -> int:
        return int.from_bytes(data[at : at + count], "little")

    header = _padded(8 + length_bytes)
    end = begin + number(begin + 8, length_bytes)
    at = begin + header
    while at + header <= min(end, len(data)):
        index, length = number(at, 2), number(at + 8, length_bytes)
        taken = header + _padded(length) if index else length
        yield taken
        at += taken


def _padded(length: int) -> int:
    return -(-length // 8) * 8


__all__ = ["endless"]
