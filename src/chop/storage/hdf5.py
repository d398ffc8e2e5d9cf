"""HDF5 files that anyone may have written: nothing outside of them is read, nothing before it is measured.

HDF5 can point elsewhere in four ways (external storage, external and soft links, virtual data sets), and a
filter it does not know is looked for among the machine's plugins. A file that does any of it is refused when
it is opened, before a single data set is read.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from contextlib import contextmanager
from math import prod
from pathlib import Path
from typing import Any

import h5py

from chop.core.errors import ChopError
from chop.storage.size_limits import check_size

OBJECTS = 10_000
"""Data sets and groups of a file, at most."""
CACHE = 32 * 2**20
"""Bytes of unpacked chunks kept for each data set: its rows are read in order, but rarely chunk by chunk."""
_BROKEN = (OSError, RuntimeError, LookupError, ValueError, TypeError, AttributeError, ArithmeticError)
"""What h5py raises on a damaged file."""
_FILTERS = {1: "gzip", 2: "shuffle", 3: "fletcher32", 4: "szip", 5: "nbit", 6: "scale-offset", 32000: "lzf"}
"""Those that HDF5 and h5py bring along."""
SEARCHED_FOR_HEAPS = 2**30
"""Bytes of the largest file that is searched for heaps, which takes less than a second."""
_HEAP_SIGN = b"GCOL\x01\x00\x00\x00"
_ELSEWHERE = {h5py.SoftLink: "a soft link", h5py.ExternalLink: "a link to another file"}


@contextmanager
def hdf5_errors(where: object, error: type[ChopError]) -> Iterator[None]:
    """What HDF5 finds damaged is raised as ``error``, one sentence."""
    try:
        yield
    except _BROKEN as problem:
        raise error(f"{where} is damaged; copy or write it again") from problem


def is_hdf5(path: Path) -> bool:
    """Whether a file is HDF5, wherever in it that begins."""
    return bool(h5py.is_hdf5(path))


def open_hdf5(path: Path, error: type[ChopError]) -> tuple[Any, dict[str, Any]]:
    """The file, to be closed by the caller, and every data set that lies in it, by name."""
    try:
        file = h5py.File(path, "r", rdcc_nbytes=CACHE)
    except _BROKEN as problem:
        raise error(f"{path} cannot be opened: {_reason(problem)}") from None
    try:
        with hdf5_errors(path, error):
            if has_endless_heap(path, file.id.get_create_plist().get_sizes()[1]):
                raise error(f"{path} is damaged where its texts are; copy or write it again")
            return file, _data_sets(file, path, error)
    except BaseException:
        file.close()
        raise


def check_hdf5(path: Path, error: type[ChopError]) -> None:
    """Refuse a file that another library is about to read, if it points elsewhere or claims too much."""
    file, found = open_hdf5(path, error)
    with file, hdf5_errors(path, error):
        for name, data in found.items():
            check_size(
                f"{path}: {name}",
                unpacked_bytes(data),
                stored_bytes(data),
                chunk_bytes(data),
                path.stat().st_size,
                error,
            )


def unpacked_bytes(data: Any) -> int:
    """Bytes of a data set once it is read."""
    return prod(data.shape or ()) * int(data.id.get_type().get_size())


def stored_bytes(data: Any) -> int:
    """Bytes of a data set in the file; none where it was declared and never written."""
    return int(data.id.get_storage_size())


def chunk_bytes(data: Any) -> int:
    """Bytes that are unpacked at a time."""
    return prod(data.chunks or (0,)) * int(data.id.get_type().get_size())


def _data_sets(file: Any, path: Path, error: type[ChopError]) -> dict[str, Any]:
    """By hard links alone, each group once, however often it is linked."""
    found: dict[str, Any] = {}
    groups = [("", file)]
    met = {file}
    for prefix, group in groups:
        for name in group:
            where = f"{prefix}{name}"
            _refuse_link(group, name, f"{path}: {where}", error)
            item = group[name]
            if isinstance(item, h5py.Dataset):
                _refuse_elsewhere(item, f"{path}: {where}", error)
                if item.shape is not None:
                    found[where] = item
            elif isinstance(item, h5py.Group) and item not in met:
                met.add(item)
                groups.append((f"{where}/", item))
            if len(found) + len(groups) > OBJECTS:
                raise error(f"{path} holds more than {OBJECTS:,} data sets; write what is needed alone")
    return found


def _refuse_link(group: Any, name: str, where: str, error: type[ChopError]) -> None:
    try:
        kind = group.get(name, getlink=True, getclass=True)
    except TypeError:  # what h5py says of links that somebody invented
        kind = None
    if kind is not h5py.HardLink:
        words = _ELSEWHERE.get(kind, "a link of an unknown kind")
        raise error(f"{where} is {words}; only data in the file itself are read: write it with the data")


def _refuse_elsewhere(data: Any, where: str, error: type[ChopError]) -> None:
    # Before anything else is asked of it: the very shape of a virtual data set may be looked up elsewhere.
    plan = data.id.get_create_plist()
    virtual = plan.get_layout() == h5py.h5d.VIRTUAL
    if virtual or plan.get_external_count():
        words = "a virtual data set" if virtual else "stored outside the file"
        raise error(f"{where} is {words}; only data in the file itself are read: write it with the data")
    codes = [plan.get_filter(index)[0] for index in range(plan.get_nfilters())]
    for code in codes:
        if code not in _FILTERS:
            raise error(f"{where} is packed by the HDF5 plugin {code}; pack it by gzip (h5repack -f GZIP=4)")
    if len(set(codes)) < len(codes):  # what gzip makes of gzip has no bound
        raise error(f"{where} is packed twice over; pack it once (h5repack -f GZIP=4)")


def _reason(problem: BaseException) -> str:
    text = str(problem)
    if "truncated" in text:
        return "it is cut off; copy or write it again"
    if "lock file" in text:
        return "another program is writing to it; wait until that has ended"
    return getattr(problem, "strerror", None) or text or "it is damaged"


def has_endless_heap(path: Path, length_bytes: int) -> bool:
    """Whether a global heap, where texts and references lie, would never come to its end.

    HDF5 (up to 2.0) goes round for ever where free space in a heap claims to take no bytes, and nothing but
    kill ends it. One flipped byte suffices; so heaps are looked at before HDF5 is asked for anything in them.
    ``length_bytes`` is how long the file's lengths are.
    """
    if not 0 < path.stat().st_size <= SEARCHED_FOR_HEAPS:
        return False
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        steps = 0
        at = data.find(_HEAP_SIGN)
        while at >= 0:
            for length in _lengths(data, at, length_bytes):
                steps += 1
                if length == 0 or 16 * steps > len(data):  # heaps that overlap to be walked for ever
                    return True
            at = data.find(_HEAP_SIGN, at + 1)
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
