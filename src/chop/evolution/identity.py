"""What tells searches apart: everything the outcome of one depends on, part by part, so that a change can be
named. It is the first line of a journal, and must be the same for a search to continue.

Small parts are kept as they are, large ones as fingerprints. A search of an older version knows fewer parts:
it is held to those it knows.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from torch import Tensor

from chop.core.errors import EvolutionError
from chop.core.prompt import Prompt
from chop.evolution.space import Space
from chop.evolution.task import Task
from chop.runs import fingerprint
from chop.storage import schema

JOURNAL_FORMAT = "chop-evolution-2"
FIRST_FORMAT = "chop-evolution-1"
"""Of version 0.1.0: knows no axes, times, masks and metric, and only some limits."""

_NAMES = schema.list_of(schema.string)
_LINE: schema.Shape = {
    "version": schema.string, "task": schema.string, "seed": schema.safe_int, "agents": _NAMES,
}  # fmt: skip
_FINGERPRINTS: schema.Shape = {"data": schema.string, "model": schema.string}
_FIRST_RULES: schema.Shape = {
    "size": schema.safe_int, "depth": schema.safe_int, "calls": schema.safe_int, "start": schema.string,
    "operators": _NAMES, "guidance": schema.string,
}  # fmt: skip


def _is_equal(found: Any, wanted: Any) -> bool:
    return fingerprint.canonical_json(found) == fingerprint.canonical_json(wanted)


def _operators_are_same(found: Any, wanted: Any) -> bool:
    return found.keys() == wanted.keys() and all(fingerprint.may_be_same(found[k], wanted[k]) for k in found)


def _limits_are_same(found: Any, wanted: Any) -> bool:
    return not _changed_limits(found, wanted)  # those of an older version are fewer


def _changed_limits(found: Any, wanted: Any) -> str:
    return "; ".join(
        f"{key} {found[key]}, now {wanted.get(key)}" for key in found if found[key] != wanted.get(key)
    )


def _changed_operators(found: Any, wanted: Any) -> str:
    lost, new = ([o for o in one if o not in other] for one, other in ((found, wanted), (wanted, found)))
    pairs = [f"{words} {', '.join(map(str, o))}" for words, o in (("without", lost), ("with", new)) if o]
    return f"now {' and '.join(pairs)}" if pairs else "their order"


def _is_axes(value: Any) -> bool:
    """Names and periods of coordinates."""
    return schema.list_of(schema.list_of(lambda v: v is None or schema.string(v) or schema.finite(v)))(value)


@dataclass(frozen=True)
class _Part:
    """How a part is called, what a stored value of it looks like, when two are the same, and what to say
    of a change beside that."""

    words: str
    check: schema.Check = schema.string
    same: Callable[[Any, Any], bool] = _is_equal
    change: Callable[[Any, Any], str] = lambda *_: ""


_PARTS: Mapping[str, _Part] = {
    "data": _Part("the questions"),
    "axes": _Part("the axes of the questions", schema.list_of(_is_axes)),
    "times": _Part("the times of the questions"),
    "masks": _Part("the masks of the answers"),
    "model": _Part("the model", change=lambda *_: "or does not answer the same question alike twice"),
    "metric": _Part("the metric", same=fingerprint.may_be_same),
    "limits": _Part("the limits", schema.mapping_of(schema.finite), _limits_are_same, _changed_limits),
    "start": _Part("the start program", change=lambda found, wanted: f"{found}, now {wanted}"),
    "operators": _Part("the operators", _NAMES, change=_changed_operators),
    "own_operators": _Part("the code of an operator", schema.mapping_of(schema.string), _operators_are_same),
    "guidance": _Part("the first guidance"),
}  # fmt: skip


def task_parts(task: Task, space: Space, guidance: str) -> dict[str, Any]:
    """Every part of a task and of its search, in plain values."""
    sets = [cases for cases in (task.cases, task.validation) if cases is not None]
    return {
        "data": _digest(part for cases in sets for part in (cases.prompt, cases.target)),
        "axes": [fingerprint.axis_values(cases.prompt) for cases in sets],
        "times": _digest(cases.prompt.times for cases in sets),
        "masks": _digest(cases.mask for cases in sets),
        "model": fingerprint.of_model(task.model, task.cases.prompt[:2]),
        "metric": fingerprint.of_callable(task.metric),
        "limits": asdict(task.limits),
        "start": task.start,
        "operators": [operator.name for operator in space.operators],
        "own_operators": {
            operator.name: fingerprint.of_callable(operator)
            for operator in space.operators
            if not operator.__module__.startswith("chop.")
        },
        "guidance": guidance,
    }


def _digest(parts: Iterable[Prompt | Tensor | None]) -> str:
    digest = fingerprint.stored_digest()
    for part in parts:
        if part is None:
            digest.update(b"none")
        elif isinstance(part, Tensor):
            fingerprint.feed_tensor(digest, part)
        else:
            fingerprint.feed_prompt(digest, part)
    return digest.hexdigest()


@dataclass(frozen=True)
class SearchIdentity:
    """Which version searched for what, and everything its outcome depends on.

    ``version`` may be another one, as long as it comes to the same errors.
    """

    version: str
    task: str
    seed: int
    agents: tuple[str, ...]
    parts: dict[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        return {"format": JOURNAL_FORMAT, **asdict(self), "agents": list(self.agents)}

    @classmethod
    def from_json(cls, record: Any, path: Path) -> SearchIdentity:
        """The identity that a line holds, of this format or of the first."""
        what = f"{path} does not begin like an evolution"
        if not isinstance(record, dict) or "format" not in record:
            raise EvolutionError(f"{what}; use another folder")
        if record["format"] not in (JOURNAL_FORMAT, FIRST_FORMAT):
            raise EvolutionError(
                f"{path} has format {str(record['format'])[:40]!r}; this version reads {JOURNAL_FORMAT!r}"
            )
        schema.checked_record(record, _LINE, what, EvolutionError)
        parts = _first_parts(record) if record["format"] == FIRST_FORMAT else record.get("parts")
        known = schema.present_part(parts, {name: part.check for name, part in _PARTS.items()})
        parts = schema.checked_record(parts, {**_FINGERPRINTS, **known}, what, EvolutionError)
        return cls(record["version"], record["task"], record["seed"], tuple(record["agents"]), parts)

    def difference(self, wanted: SearchIdentity) -> str:
        """What is not the same, in words; empty if the search can continue."""
        for name in ("task", "seed", "agents"):
            one, other = getattr(self, name), getattr(wanted, name)
            if one != other:
                return f"its {name} is {_in_words(one)}, not {_in_words(other)}"
        changes = []
        for name, part in _PARTS.items():
            if name in self.parts and not part.same(self.parts[name], wanted.parts[name]):
                change = part.change(self.parts[name], wanted.parts[name])
                changes.append(f"{part.words} of the task changed{f' ({change})' if change else ''}")
        return ", and ".join(changes)


def _in_words(value: object) -> str:
    return ", ".join(value) if isinstance(value, tuple) else str(value)


def _first_parts(record: dict[str, Any]) -> Any:
    """The parts that the first format knows; None if these are none."""
    try:
        rules = json.loads(record["rules"])
    except (KeyError, TypeError, ValueError, RecursionError):
        return None
    if schema.mismatch(rules, _FIRST_RULES) or schema.mismatch(record, _FINGERPRINTS):
        return None
    return {
        "data": record["data"], "model": record["model"],
        "limits": {name: rules[name] for name in ("size", "depth", "calls")},
        **{name: rules[name] for name in ("start", "operators", "guidance")},
    }  # fmt: skip
