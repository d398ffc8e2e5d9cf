"""Checkpoints of PyTorch that anyone may have written: what they say and the tensors in them, nothing run.

Since 1.6 ``torch.save`` writes a zip archive: ``data.pkl`` says what there is (see
`chop.icon.published.pickled`), and ``data/0``, ``data/1`` ... hold the numbers as they are in memory.
"""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from chop.core.errors import ModelError
from chop.icon.published.pickled import Placeholder, StoredTensor, read_pickle

LARGEST_PICKLE = 64 * 2**20
LARGEST_DIRECTORY = 16 * 2**20
MOST_MEMBERS = 100_000
REPEATED = 2**16
"""Numbers of a tensor that repeats what is stored of it, at most; if more are stored, as many as that."""
DEEPEST_VALUES = 50
MOST_VALUES = 10_000
_LEGACY = b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19."
"""How files of ``torch.save`` before 1.6 begin."""
_BROKEN = (
    zipfile.BadZipFile, struct.error, EOFError, ValueError, LookupError, RuntimeError, OverflowError, OSError,
)  # fmt: skip
"""What zipfile raises on a damaged directory, or on one of a kind it does not read."""
_LOCAL_HEADER = struct.Struct("<4s22xHH")
"""Before each member: a sign, and how long the name and the padding are that follow."""


@dataclass(frozen=True, eq=False, repr=False)
class Checkpoint:
    """What a checkpoint holds; its tensors stay in the file until they are asked for one by one."""

    path: Path
    folder: str
    members: Mapping[str, zipfile.ZipInfo]
    content: Any

    def tensor(self, stored: StoredTensor) -> Tensor:
        """The tensor itself, in memory of its own."""
        storage, dtype = stored.storage, getattr(torch, stored.dtype)
        where = f"{self.path.name}: the tensor at storage {storage.key}"
        member = f"{self.folder}/data/{storage.key}"
        size = _member(self.path, self.members, member).file_size
        if size != storage.numel * dtype.itemsize:
            raise ModelError(
                f"{where} says {storage.numel:,} numbers of {dtype.itemsize} bytes, but has {size:,} bytes"
            )
        steps = zip(stored.shape, stored.strides, strict=True)
        span = 1 + sum((length - 1) * step for length, step in steps)
        if 0 in stored.shape:
            return torch.empty(stored.shape, dtype=dtype)
        if stored.offset + span > storage.numel or prod(stored.shape) > max(REPEATED, storage.numel):
            raise ModelError(
                f"{where} says shape {stored.shape!s:.80} from number {stored.offset} in steps of "
                f"{stored.strides!s:.80}, but its storage has {storage.numel} numbers"
            )
        data = _read(self.path, self.members, member, stored.offset * dtype.itemsize, span * dtype.itemsize)
        numbers = torch.frombuffer(data, dtype=dtype).as_strided(stored.shape, stored.strides)
        return numbers.clone(memory_format=torch.contiguous_format)


def read_checkpoint(path: Path) -> Checkpoint:
    """What is in a file that ``torch.save`` wrote; anything else is refused in a sentence."""
    members = _directory(path)
    pickles = [name for name in members if name.endswith("/data.pkl") and name.count("/") == 1]
    if len(pickles) != 1:
        raise ModelError(f"{path.name}: its archive has no data.pkl, or several; torch.save writes one")
    folder = pickles[0].removesuffix("/data.pkl")
    order = f"{folder}/byteorder"
    if order in members and _read(path, members, order, 0, 10) != b"little":
        raise ModelError(f"{path.name}: its numbers are not in little-endian order")
    size = _member(path, members, pickles[0]).file_size
    if size > LARGEST_PICKLE:
        raise ModelError(f"{path.name}: its pickle has {size:,} bytes; at most {LARGEST_PICKLE:,} are read")
    data = bytes(_read(path, members, pickles[0], 0, size))
    return Checkpoint(path, folder, members, read_pickle(data, path.name))


class _ShortReads(io.FileIO):
    """A file of which zipfile cannot read a directory of any size, which it would do at once."""

    def read(self, size: int | None = -1) -> bytes:
        if size is not None and size > LARGEST_DIRECTORY:
            raise zipfile.BadZipFile
        return super().read(size) or b""


def _directory(path: Path) -> dict[str, zipfile.ZipInfo]:
    """The members of the archive by name, none of them read."""
    try:
        if not path.is_file():
            raise ModelError(f"{path.name or path}: there is no file of this name")
        with _ShortReads(path) as file:
            begin = file.read(len(_LEGACY))
            if begin == _LEGACY:
                raise ModelError(
                    f"{path.name}: torch before 1.6 wrote this file; if you trust it, open it with a current "
                    "torch and save it again"
                )
            if not begin.startswith(b"PK\x03\x04"):
                what = "is not what torch.save writes, a zip archive" if begin else "is empty"
                raise ModelError(f"{path.name}: the file {what}")
            with zipfile.ZipFile(file) as archive:
                found = archive.infolist()
    except _BROKEN as error:
        reason = getattr(error, "strerror", None) or "its archive is cut off or damaged"
        raise ModelError(f"{path.name}: the file cannot be read ({reason})") from None
    members = {member.filename: member for member in found}
    if len(found) > MOST_MEMBERS or len(members) < len(found):
        raise ModelError(
            f"{path.name}: its archive has members of the same name, or more than {MOST_MEMBERS:,}"
        )
    return members


def _member(path: Path, members: Mapping[str, zipfile.ZipInfo], name: str) -> zipfile.ZipInfo:
    member = members.get(name)
    if member is None:
        raise ModelError(f"{path.name}: its archive has no member {name[-60:]!r}")
    encrypted = member.flag_bits & 1
    if member.compress_type != zipfile.ZIP_STORED or encrypted or member.file_size != member.compress_size:
        raise ModelError(f"{path.name}: {name[-60:]!r} is packed, which torch.save never does")
    return member


def _read(
    path: Path, members: Mapping[str, zipfile.ZipInfo], name: str, begin: int, length: int
) -> bytearray:
    """Bytes of a member; if these are all of it, they fit its checksum, where it has one."""
    member = _member(path, members, name)
    length = min(length, member.file_size - begin)
    damaged = ModelError(f"{path.name}: {name[-60:]!r} is cut off or damaged; copy the file again")
    try:
        with path.open("rb") as file:
            end = file.seek(0, io.SEEK_END)
            if not 0 <= member.header_offset <= end - _LOCAL_HEADER.size - member.file_size:
                raise damaged
            file.seek(member.header_offset)
            sign, *before = _LOCAL_HEADER.unpack(file.read(_LOCAL_HEADER.size))
            file.seek(sum(before) + begin, io.SEEK_CUR)
            data = bytearray(length)
            complete = file.readinto(data) == length
    except OSError as error:
        raise ModelError(f"{path.name}: the file cannot be read ({error.strerror})") from None
    checked = length == member.file_size and member.CRC != 0  # which stands for none, if torch is told to
    if sign != b"PK\x03\x04" or not complete or (checked and zlib.crc32(data) != member.CRC):
        raise damaged
    return data


def plain_values(value: Any, name: str = "the checkpoint") -> Any:
    """A configuration as dicts with plain keys, lists, texts, numbers, truth values and None.

    An object that was not made counts as its attributes, as an argparse.Namespace does, or as its entries or
    items if it has some; a node of OmegaConf counts as what it holds. What cannot be made plain, or is nested
    more than `DEEPEST_VALUES` deep (in itself, say), is None; more than `MOST_VALUES` are refused.
    """
    left = MOST_VALUES

    def plain(value: Any, depth: int) -> Any:
        nonlocal left
        if depth > DEEPEST_VALUES:
            return None
        if isinstance(value, list | tuple | dict):
            left -= len(value)
            if left < 0:
                raise ModelError(f"{name}: its configuration has more than {MOST_VALUES:,} values")
        match value:
            case None | bool() | int() | float() | str():
                return value
            case list() | tuple():
                return [plain(part, depth + 1) for part in value]
            case dict():
                return {
                    key: plain(part, depth + 1)
                    for key, part in value.items()
                    if key is None or isinstance(key, bool | int | float | str)
                }
            case Placeholder(entries=inner) if inner:
                return plain(inner, depth + 1)
            case Placeholder(items=inner) if inner:
                return plain(inner, depth + 1)
            case Placeholder(state={"_content": inner}) | Placeholder(state={"_val": inner}):
                return plain(inner, depth + 1)
            case Placeholder(state=dict() as inner):
                return plain(inner, depth + 1)
        return None

    return plain(value, 0)
