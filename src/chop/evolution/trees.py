"""Programs as trees: where their parts stand, and copies with one part changed.

A path leads from a program to one of its parts: field names, with an index where a field holds several
programs. Nothing here knows a particular operator.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from chop.core.parameters import Operator
from chop.core.program import Program
from chop.core.text import parse

Step = tuple[str, int | None]
Path = tuple[Step, ...]


def walk(root: Operator, path: Path = ()) -> Iterator[tuple[Path, Operator]]:
    """Every operator with its path, the whole first, in the order in which they are written."""
    yield path, root
    for step, part in children(root):
        yield from walk(part, (*path, step))


def children(node: Operator) -> Iterator[tuple[Step, Operator]]:
    """The operators directly inside one."""
    for field in dataclasses.fields(node):
        value = getattr(node, field.name)
        if isinstance(value, Operator):
            yield (field.name, None), value
        elif isinstance(value, tuple):
            for index, part in enumerate(value):
                if isinstance(part, Operator):
                    yield (field.name, index), part


def programs_in(root: Program) -> list[tuple[Path, Program]]:
    """Every part that answers prompts, the whole first."""
    return [(path, part) for path, part in walk(root) if isinstance(part, Program)]


def named_in(root: Program) -> list[tuple[Path, Operator]]:
    """Every operator that has a name (a pipe has none)."""
    return [(path, part) for path, part in walk(root) if part.name]


def inner_programs(node: Operator) -> list[Program]:
    """The programs directly inside one."""
    return [part for _, part in children(node) if isinstance(part, Program)]


def put(root: Program, path: Path, new: Operator) -> Program:
    """A copy in which another operator stands at the path."""
    changed = _put(root, path, new)
    assert isinstance(changed, Program)
    return changed


def _put(node: Operator, path: Path, new: Operator) -> Operator:
    if not path:
        return new
    (name, index), rest = path[0], path[1:]
    value = getattr(node, name)
    if index is None:
        return _replaced(node, name, _put(value, rest, new))
    members = list(value)
    members[index] = _put(members[index], rest, new)
    return _replaced(node, name, tuple(members))


def _replaced(node: Operator, name: str, value: Any) -> Operator:
    return dataclasses.replace(node, **{name: value})


@lru_cache(maxsize=8192)
def shape_of(text: str) -> str:
    """The text of a program with every number at its smallest: what programs share that are tuned apart."""
    root = parse(text)
    for path, node in named_in(root):
        lowest = {
            key: param.low
            for key, param in node.params().items()
            if param.kind == "number" and getattr(node, key) is not None
        }
        if lowest:
            root = put(root, path, dataclasses.replace(node_at(root, path), **lowest))
    return str(root)


def node_at(root: Operator, path: Path) -> Operator:
    """The operator a path leads to."""
    for name, index in path:
        root = getattr(root, name) if index is None else getattr(root, name)[index]
    return root


__all__ = [
    "Path", "children", "inner_programs", "named_in", "node_at", "programs_in", "put", "shape_of", "walk",
]  # fmt: skip
