"""What lines of a journal and of a transcript must look like; anything else is said, with its line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from chop.core.errors import EvolutionError
from chop.storage.schema import (
    Shape,
    anything,
    finite,
    integer,
    list_of,
    mapping_of,
    mismatch,
    one_of,
    optional,
    record_of,
    string,
)

Record = dict[str, Any]

CANDIDATE: Shape = {
    "candidate": integer, "iteration": integer, "agent": integer, "move": string, "parents": list_of(integer),
    "program": string, "size": integer, "calls": integer, "status": one_of("done", "stopped", "failed"),
    "reason": string, "fitness": optional(finite), "errors": list_of(finite),
    "clock": record_of({"seconds": finite}),
}  # fmt: skip
_SHAPES: Mapping[str, Shape] = {
    "candidate": CANDIDATE,
    "said": {
        "iteration": integer, "agent": integer, "programs": list_of(string), "guidance": optional(string),
        "notes": mapping_of(anything),
    },
    "race": {
        "iteration": integer, "references": list_of(integer), "winner": integer, "best": integer,
        "value": optional(finite), "ratings": mapping_of(finite), "born": list_of(anything),
        "gone": list_of(integer),
    },
    "head": {},  # it is read, and checked, as the first line is
}  # fmt: skip
ANSWER: Shape = {"tokens": integer}


def checked(content: Any, where: str) -> Record:
    """A record of a journal, with all that is read of it."""
    kind = content.get("kind") if isinstance(content, dict) else None
    if not isinstance(kind, str) or kind not in _SHAPES:
        raise EvolutionError(f"{where} is no record of an evolution; use another folder")
    return fitting(content, _SHAPES[kind], f"{where} is no {kind}")


def fitting(content: Any, shape: Shape, what: str) -> Record:
    """A record that has a shape."""
    problem = mismatch(content, shape)
    if problem:
        raise EvolutionError(f"{what}: it has {problem}; use another folder")
    found: Record = content
    return found


__all__ = ["ANSWER", "CANDIDATE", "Record", "checked", "fitting"]
