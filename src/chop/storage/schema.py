"""What a record read from a file must look like before it is used: names, and a check of each value.

A line may have the right checksum and still hold anything: another program wrote it, or a person did.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from chop.core.errors import ChopError

Record = dict[str, Any]
Check = Callable[[Any], bool]
Shape = Mapping[str, Check]

_DEEPEST = 20


def string(value: Any) -> bool:
    """Words."""
    return isinstance(value, str)


def boolean(value: Any) -> bool:
    """True or false."""
    return isinstance(value, bool)


def safe_int(value: Any) -> bool:
    """A whole number that a double holds exactly."""
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) <= 2**53


def finite(value: Any) -> bool:
    """A finite number."""
    return safe_int(value) or (isinstance(value, float) and math.isfinite(value))


def optional(check: Check) -> Check:
    """Null, or what a check says."""
    return lambda value: value is None or check(value)


def list_of(check: Check, length: int | None = None) -> Check:
    """A list of one kind of value."""
    return lambda value: (
        isinstance(value, list) and length in (None, len(value)) and all(check(part) for part in value)
    )


def mapping_of(check: Check) -> Check:
    """Names with one kind of value."""
    return lambda value: isinstance(value, dict) and all(check(part) for part in value.values())


def one_of(*words: str) -> Check:
    """One of a few words."""
    return lambda value: isinstance(value, str) and value in words


def record_of(shape: Shape) -> Check:
    """An object with certain names."""
    return lambda value: not mismatch(value, shape)


def anything(value: Any, depth: int = _DEEPEST) -> bool:
    """Any plain value that is not nested beyond reason."""
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return depth > 0 and all(anything(part, depth - 1) for part in inside)


def present_part(record: Any, shape: Shape) -> Shape:
    """The part of a shape that a record says something about, for names that may be left out."""
    return {name: check for name, check in shape.items() if isinstance(record, dict) and name in record}


def mismatch(record: Any, shape: Shape) -> str:
    """What is the matter with a record, such as "no seed"; empty if nothing is."""
    if not isinstance(record, dict):
        return "no object"
    for name, check in shape.items():
        if name not in record:
            return f"no {name}"
        if not check(record[name]):
            return f"an odd {name}"
    return ""


def checked_record(record: Any, shape: Shape, what: str, error: type[ChopError]) -> Record:
    """A record that has a shape; ``what`` begins the sentence about one that has not."""
    problem = mismatch(record, shape)
    if problem:
        raise error(f"{what}: it has {problem}; use another folder")
    found: Record = record
    return found
