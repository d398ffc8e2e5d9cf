"""How much a file may unfold to: what it claims, compared with what it holds before anything is taken."""

from __future__ import annotations

from chop.core.errors import ChopError

FREE = 64 * 2**20
"""Bytes that any file may unfold to, however small it is."""
RATIO = 1100
"""Beyond that, bytes for each byte stored: deflate, which all our formats use, makes at most 1032 of one."""
MEMORY = 256 * 2**20
"""Bytes that any file may have in memory at a time."""
MEMORY_RATIO = 32
"""Beyond that, bytes for each byte of the file."""


def unpacked_limit(stored: int) -> int:
    """The most bytes that so many stored ones can honestly stand for."""
    return FREE + RATIO * stored


def memory_limit(stored: int) -> int:
    """The most bytes of a file of that size that are held at a time."""
    return max(MEMORY, MEMORY_RATIO * stored)


def check_size(
    what: str, claims: int, holds: int, piece: int, file_bytes: int, error: type[ChopError]
) -> None:
    """Refuse an array that claims more than what is stored of it can stand for, or too much at a time."""
    if max(claims, piece) > unpacked_limit(min(holds, file_bytes)):
        raise error(f"{what} claims {claims:,} bytes, but only {holds:,} of it are stored; write it again")
    if piece > memory_limit(file_bytes):
        raise error(f"{what} is stored in pieces of {piece:,} bytes; write it in smaller chunks")
