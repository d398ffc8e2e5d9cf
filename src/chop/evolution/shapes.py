"""What lines of a journal and of a transcript must look like; anything else is said, with its line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from chop.core.errors import EvolutionError
from chop.storage.schema import (
    Shape,
    anything,
    having,
    list_of,
    mapping_of,
    number,
    one_of,
    optional,
    text,
    whole,
    wrong,
)

Record = dict[str, Any]

CANDIDATE: Shape = {
    "candidate": whole, "iteration": whole, "agent": whole, "move": text, "parents": list_of(whole),
    "program": text, "size": whole, "calls": whole, "status": one_of("done", "stopped", "failed"),
    "reason": text, "fitness": optional(number), "errors": list_of(number),
    "clock": having({"seconds": number}),
}  # fmt: skip
_SHAPES: Mapping[str, Shape] = {
    "candidate": CANDIDATE,
    "said": {
        "iteration": whole, "agent": whole, "programs": list_of(text), "guidance": optional(text),
        "notes": mapping_of(anything),
    },
    "race": {
        "iteration": whole, "references": list_of(whole), "winner": whole, "best": whole,
        "value": optional(number), "ratings": mapping_of(number), "born": list_of(anything),
        "gone": list_of(whole),
    },
    "head": {},  # it is read, and checked, as the first line is
}  # fmt: skip
ANSWER: Shape = {"tokens": whole}


def checked(content: Any, where: str) -> Record:
    """A record of a journal, with all that is read of it."""
    kind = content.get("kind") if isinstance(content, dict) else None
    if not isinstance(kind, str) or kind not in _SHAPES:
        raise EvolutionError(f"{where} is no record of an evolution; use another folder")
    return fitting(content, _SHAPES[kind], f"{where} is no {kind}")


def fitting(content: Any, shape: Shape, what: str) -> Record:
    """A record that has a shape."""
    problem = wrong(content, shape)
    if problem:
        raise EvolutionError(f"{what}: it has {problem}; use another folder")
    found: Record = content
    return found


__all__ = ["ANSWER", "CANDIDATE", "Record", "checked", "fitting"]
