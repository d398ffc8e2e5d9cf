"""What the outcome of a search depends on, part by part, so that a change can be named.

Small parts are kept as they are, large ones as fingerprints. A head of an older version knows fewer parts: it
is held to those it knows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

from torch import Tensor

from chop.evolution.space import Space
from chop.evolution.task import Task
from chop.problems.case import Case
from chop.runs.fingerprint import (
    axis_values,
    canonical_json,
    feed_prompt,
    feed_tensor,
    may_be_same,
    of_callable,
    of_model,
    stored_digest,
)

Parts = dict[str, Any]

NAMES: Mapping[str, str] = {
    "data": "the questions",
    "axes": "the axes of the questions",
    "times": "the times of the questions",
    "masks": "the masks of the answers",
    "model": "the model",
    "metric": "the metric",
    "limits": "the limits",
    "start": "the start program",
    "operators": "the operators",
    "own_operators": "the code of an operator",
    "guidance": "the first guidance",
}


def parts_of(task: Task, space: Space, guidance: str) -> Parts:
    """Every part of a task and of its search, in plain values."""
    sets = [cases for cases in (task.cases, task.validation) if cases is not None]
    return {
        "data": _fingerprint(sets, lambda digest, cases: feed_prompt(digest, cases.prompt), _target),
        "axes": [axis_values(cases.prompt) for cases in sets],
        "times": _fingerprint(sets, lambda digest, cases: _optional(digest, cases.prompt.times)),
        "masks": _fingerprint(sets, lambda digest, cases: _optional(digest, cases.mask)),
        "model": of_model(task.model, task.cases.prompt[:2]),
        "metric": of_callable(task.metric),
        "limits": asdict(task.limits),
        "start": task.start,
        "operators": [operator.name for operator in space.operators],
        "own_operators": {
            operator.name: of_callable(operator)
            for operator in space.operators
            if not operator.__module__.startswith("chop.")
        },
        "guidance": guidance,
    }


def _fingerprint(sets: list[Case], *feeds: Callable[[Any, Case], None]) -> str:
    digest = stored_digest()
    for cases in sets:
        for feed in feeds:
            feed(digest, cases)
    return digest.hexdigest()


def _target(digest: Any, cases: Case) -> None:
    feed_tensor(digest, cases.target)


def _optional(digest: Any, tensor: Tensor | None) -> None:
    if tensor is None:
        digest.update(b"none")
    else:
        feed_tensor(digest, tensor)


def changed(found: Parts, wanted: Parts) -> str:
    """What of the parts that an evolution knows is another now, in words; empty if nothing is."""
    said = []
    for name, words in NAMES.items():
        if name in found and not _same(name, found[name], wanted[name]):
            said.append(f"{words} of the task changed{_how(name, found[name], wanted[name])}")
    return ", and ".join(said)


def _same(name: str, found: Any, wanted: Any) -> bool:
    if name == "metric":
        return may_be_same(found, wanted)
    if name == "own_operators":
        return found.keys() == wanted.keys() and all(may_be_same(found[k], wanted[k]) for k in found)
    if name == "limits":  # those of an older version are fewer
        return all(wanted.get(key) == value for key, value in found.items())
    return canonical_json(found) == canonical_json(wanted)


def _how(name: str, found: Any, wanted: Any) -> str:
    """From what to what, where that can be read."""
    if name == "limits":
        pairs = [
            f"{key} {found[key]}, now {wanted.get(key)}" for key in found if found[key] != wanted.get(key)
        ]
        return f" ({'; '.join(pairs)})"
    if name == "operators":
        lost, new = ([o for o in one if o not in other] for one, other in ((found, wanted), (wanted, found)))
        pairs = [
            f"{words} {', '.join(map(str, names))}"
            for words, names in (("without", lost), ("with", new))
            if names
        ]
        return f" (now {' and '.join(pairs)})" if pairs else " (their order)"
    if name == "start":
        return f" ({found}, now {wanted})"
    if name == "model":
        return " (or does not answer the same question alike twice)"
    return ""


__all__ = ["NAMES", "Parts", "changed", "parts_of"]
