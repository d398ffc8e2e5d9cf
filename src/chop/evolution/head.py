"""The head of a journal: what must be the same for an evolution to continue."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from chop.core.errors import EvolutionError
from chop.evolution.parts import Parts, changed
from chop.evolution.shapes import Record, fitting
from chop.storage.schema import (
    Shape,
    finite,
    integer,
    list_of,
    mapping_of,
    mismatch,
    optional,
    present_part,
    string,
)

FORMAT = "chop-evolution-2"
FIRST_FORMAT = "chop-evolution-1"
"""Of version 0.1.0: knows no axes, times, masks and metric, and only some limits."""

_HEAD: Shape = {"version": string, "task": string, "seed": integer, "agents": list_of(string)}
_RULES: Shape = {
    "size": integer, "depth": integer, "calls": integer, "start": string, "operators": list_of(string),
    "guidance": string,
}  # fmt: skip
_PARTS: Shape = {
    "data": string, "axes": list_of(list_of(list_of(lambda part: string(part) or optional(finite)(part)))),
    "times": string, "masks": string, "model": string, "metric": string, "limits": mapping_of(finite),
    "start": string, "operators": list_of(string), "own_operators": mapping_of(string), "guidance": string,
}  # fmt: skip


@dataclass(frozen=True)
class Head:
    """Which version searched for what, and everything its outcome depends on.

    ``version`` may be another one, as long as it comes to the same errors.
    """

    version: str
    task: str
    seed: int
    agents: tuple[str, ...]
    parts: Parts = field(default_factory=dict)

    def to_json(self) -> Record:
        return {
            "format": FORMAT, "version": self.version, "task": self.task, "seed": self.seed,
            "agents": list(self.agents), "parts": self.parts,
        }  # fmt: skip

    @classmethod
    def from_json(cls, record: Any, path: Path) -> Head:
        """The head that a line holds, of this format or of the first."""
        if not isinstance(record, dict) or "format" not in record:
            raise EvolutionError(f"{path} does not begin like an evolution; use another folder")
        if record["format"] not in (FORMAT, FIRST_FORMAT):
            raise EvolutionError(
                f"{path} has format {str(record['format'])[:40]!r}; this version reads {FORMAT!r}"
            )
        fitting(record, _HEAD, f"{path} does not begin like an evolution")
        parts = _first_parts(record) if record["format"] == FIRST_FORMAT else record.get("parts")
        problem = mismatch(parts, {"data": string, "model": string, **present_part(parts, _PARTS)})
        if problem:
            raise EvolutionError(
                f"{path} does not begin like an evolution: it has {problem}; use another folder"
            )
        assert isinstance(parts, dict)
        return cls(record["version"], record["task"], record["seed"], tuple(record["agents"]), parts)

    def difference(self, wanted: Head) -> str:
        """The first thing that is not the same, in words; empty if an evolution can continue."""
        for name in ("task", "seed", "agents"):
            one, other = getattr(self, name), getattr(wanted, name)
            if one != other:
                return f"its {name} is {_shown(one)}, not {_shown(other)}"
        return changed(self.parts, wanted.parts)


def _first_parts(record: Record) -> Any:
    """The parts that a head of the first format knows; None if it is none."""
    try:
        rules = json.loads(record["rules"])
    except (KeyError, TypeError, ValueError, RecursionError):
        return None
    if mismatch(rules, _RULES) or mismatch(record, {"data": string, "model": string}):
        return None
    return {
        "data": record["data"], "model": record["model"],
        "limits": {name: rules[name] for name in ("size", "depth", "calls")},
        **{name: rules[name] for name in ("start", "operators", "guidance")},
    }  # fmt: skip


def _shown(value: object) -> str:
    return ", ".join(value) if isinstance(value, tuple) else str(value)


__all__ = ["FIRST_FORMAT", "FORMAT", "Head"]
