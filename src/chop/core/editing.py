"""Programs as trees: the way to each part, and copies in which one part is changed.

A path leads from a program to one of its parts: field names, with an index where a field holds several
programs. Nothing here knows a particular operator, but for the model that fills what would stay empty.
What a person or a page asks for is checked: it can be written down and read again, or it is refused.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from chop.core.errors import ProgramError
from chop.core.parameters import Operator, Param
from chop.core.program import Icon, Program, Projected, Transform, Wrapped, pipe
from chop.core.text import parse, registry
from chop.core.words import short_text

PathStep = tuple[str, int | None]
TreePath = tuple[PathStep, ...]

_STEP = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(?:\.(0|[1-9][0-9]{0,3}))?")

# Paths.


def path_text(path: TreePath) -> str:
    """A path as text, such as ``branches.0/inner``; that of the whole program is empty."""
    return "/".join(name if index is None else f"{name}.{index}" for name, index in path)


def path_of(text: str) -> TreePath:
    """The path that a text means; whether it leads anywhere is seen when it is followed."""
    if not isinstance(text, str):
        raise ProgramError(f"a path is text such as branches.0/inner, not {type(text).__name__}")
    steps = [_STEP.fullmatch(step) for step in text.split("/")] if text else []
    if not all(steps):
        raise ProgramError(f"{text[:40]!r} is not a path; one is written like branches.0/inner")
    return tuple((step[1], None if step[2] is None else int(step[2])) for step in steps if step)


# Parts.


def program_parameters(operator: type[Operator]) -> dict[str, Param]:
    """The parameters that take programs."""
    return {key: param for key, param in operator.params().items() if param.kind in ("program", "programs")}


def direct_parts(node: Operator) -> Iterator[tuple[PathStep, Operator]]:
    """The operators directly inside one, each with the step to it, in the order in which they are written."""
    for field in dataclasses.fields(node):
        value = getattr(node, field.name)
        if isinstance(value, Operator):
            yield (field.name, None), value
        elif isinstance(value, tuple):
            for index, part in enumerate(value):
                if isinstance(part, Operator):
                    yield (field.name, index), part


def walk(root: Operator, path: TreePath = ()) -> Iterator[tuple[TreePath, Operator]]:
    """Every operator with its path, the whole first, in the order in which they are written."""
    yield path, root
    for step, part in direct_parts(root):
        yield from walk(part, (*path, step))


def as_program(made: object) -> Program:
    """What is known to be a program."""
    assert isinstance(made, Program)
    return made


def nested_programs(root: Program) -> list[tuple[TreePath, Program]]:
    """Every part that answers prompts, the whole first."""
    return [(path, part) for path, part in walk(root) if isinstance(part, Program)]


def named_operators(root: Program) -> list[tuple[TreePath, Operator]]:
    """Every operator that has a name (a pipe has none)."""
    return [(path, part) for path, part in walk(root) if part.name]


def inner_programs(node: Operator) -> list[Program]:
    """The programs directly inside one."""
    return [part for _, part in direct_parts(node) if isinstance(part, Program)]


def operator_at(root: Operator, path: TreePath) -> Operator:
    """The operator a path leads to; a `ProgramError` where it leads nowhere."""
    found = root
    for name, index in path:
        # Fields only: paths come from strangers, and attributes are not theirs to read.
        value = getattr(found, name) if name in type(found).__dataclass_fields__ else None
        if index is not None:
            value = value[index] if isinstance(value, tuple) and 0 <= index < len(value) else None
        if not isinstance(value, Operator):
            raise ProgramError(f"no operator stands at {path_text(path)[:80]!r} in {short_text(root)}")
        found = value
    return found


# Copies with one part changed. Nothing is checked: who makes many programs checks each once.


def replace_at(root: Program, path: TreePath, new: Operator) -> Program:
    """A copy in which another operator stands at the path."""
    for end in reversed(range(len(path))):
        parent, (name, index) = operator_at(root, path[:end]), path[end]
        before = getattr(parent, name)
        after = new if index is None else (*before[:index], new, *before[index + 1 :])
        new = dataclasses.replace(parent, **{name: after})
    return as_program(new)


def set_at(root: Program, path: TreePath, **values: Any) -> Program:
    """A copy in which the operator at the path has other parameters."""
    return replace_at(root, path, dataclasses.replace(operator_at(root, path), **values))


def surround(part: Operator, inner: Program) -> Program:
    """A transform before a program, or a projection after it."""
    return as_program(pipe(part, inner) if isinstance(part, Transform) else pipe(inner, part))


# What can be asked for by name. Every result is a program whose text means the same program.


def insert_at(root: Program, path: TreePath, name: str) -> Program:
    """One operator more, with its defaults, at a part of a program.

    A transform goes before the part, a projection after it, and what takes programs around it; one that takes
    none becomes a member beside it. A transform or projection stands for the pipe it belongs to.
    """
    path = _answering(root, path)
    part, kind = as_program(operator_at(root, path)), _kind(name)
    if not issubclass(kind, Program):
        return _written(replace_at(root, path, surround(kind(), part)))
    if program_parameters(kind):
        return _written(replace_at(root, path, _filled(kind, [part])))
    if not path or path[-1][1] is None:
        raise ProgramError(
            f"{name} takes no program and cannot stand around {_short(part)}: replace that instead"
        )
    place = path[-1][1] + 1
    members = _members(root, path)
    return _written(_with_members(root, path, (*members[:place], as_program(kind()), *members[place:])))


def replace_operator_at(root: Program, path: TreePath, name: str) -> Program:
    """Another operator of the same role in the place of one, with its defaults and as many of the programs
    inside as it takes; a pipe stands for its transform or projection."""
    path = _acting(root, path)
    old, kind = operator_at(root, path), _kind(name)
    if kind.role != old.role:
        raise ProgramError(f"{name} is a {kind.role} and cannot replace {old.name}, a {old.role}")
    new = _filled(kind, inner_programs(old)) if issubclass(kind, Program) else kind()
    return _written(replace_at(root, path, new))


def remove_at(root: Program, path: TreePath) -> Program:
    """One operator less: a transform or projection goes, what takes programs gives way to the first of them,
    a member of a mixture is dropped; a pipe stands for its transform or projection."""
    path = _acting(root, path)
    old = operator_at(root, path)
    if not isinstance(old, Program):
        parent = operator_at(root, path[:-1])
        if not isinstance(parent, Wrapped | Projected):
            raise ProgramError(f"{parent.name} needs its {old.role} {old.name}: replace it instead")
        return _written(replace_at(root, path[:-1], parent.inner))
    if inside := inner_programs(old):
        return _written(replace_at(root, path, inside[0]))
    key, place = path[-1] if path else ("", None)
    if place is None:
        raise ProgramError(f"a program needs something that answers: replace {_short(old)} instead")
    parent, members = operator_at(root, path[:-1]), _members(root, path)
    at_least = parent.params()[key].at_least
    if len(members) <= at_least:
        raise ProgramError(
            f"{parent.name} needs at least {at_least} program{'s' * (at_least > 1)}: "
            f"replace {_short(old)}, or remove {parent.name}"
        )
    return _written(_with_members(root, path, members[:place] + members[place + 1 :]))


def set_options_at(root: Program, path: TreePath, options: Mapping[str, Any]) -> Program:
    """Some parameters of the operator at the path, changed together; a pipe stands for its transform or
    projection."""
    path = _acting(root, path)
    node = operator_at(root, path)
    known = node.params().keys() - program_parameters(type(node)).keys()
    # Before they become arguments: names from strangers may be those of our own arguments.
    if unknown := [key for key in options if key not in known]:
        said = ", ".join(key for key in node.params() if key in known) or "none"
        raise ProgramError(f"{node.name} has no option {str(unknown[0])[:40]!r}; its options: {said}")
    return _written(replace_at(root, path, dataclasses.replace(node, **options)))


def insertable_at(root: Program, path: TreePath) -> tuple[str, ...]:
    """The names that `insert_at` takes there, in the order of the registry."""
    operator_at(root, path)
    return _names_that_work(lambda name: insert_at(root, path, name))


def replaceable_at(root: Program, path: TreePath) -> tuple[str, ...]:
    """The names, others than the present one, that `replace_operator_at` takes there."""
    present = operator_at(root, _acting(root, path)).name
    names = _names_that_work(lambda name: replace_operator_at(root, path, name))
    return tuple(name for name in names if name != present)


def _names_that_work(change: Callable[[str], Program]) -> tuple[str, ...]:
    """Tried, not derived: limits of size, depth and cost depend on the whole program."""

    def works(name: str) -> bool:
        try:
            change(name)
        except ProgramError:
            return False
        return True

    return tuple(filter(works, registry()))


def _kind(name: str) -> type[Operator]:
    kind = registry().get(name) if isinstance(name, str) else None
    if kind is None:
        raise ProgramError(
            f"there is no operator {str(name)[:40]!r}; known are {', '.join(sorted(registry()))}"
        )
    return kind


def _answering(root: Program, path: TreePath) -> TreePath:
    """The path to what answers there: of a transform or projection, the pipe around it."""
    while not isinstance(operator_at(root, path), Program):
        path = path[:-1]
    return path


def _acting(root: Program, path: TreePath) -> TreePath:
    """The path to what acts there: of a pipe, its transform or projection."""
    part = operator_at(root, path)
    if isinstance(part, Wrapped | Projected):
        return (*path, ("transform" if isinstance(part, Wrapped) else "projection", None))
    return path


def _filled(kind: type[Operator], inside: list[Program]) -> Program:
    """A program with as many of some others inside as it takes, and the model where they are too few."""
    given: dict[str, Any] = {}
    for key, param in program_parameters(kind).items():
        if param.kind == "program":
            given[key], inside = (inside[0] if inside else Icon()), inside[1:]
        else:
            given[key], inside = (*inside, *[Icon()] * (param.at_least - len(inside))), []
    return as_program(kind(**given))


def _members(root: Program, path: TreePath) -> tuple[Program, ...]:
    """The programs among which the path's last step leads to one."""
    members: tuple[Program, ...] = getattr(operator_at(root, path[:-1]), path[-1][0])
    return members


def _with_members(root: Program, path: TreePath, members: tuple[Program, ...]) -> Program:
    """More or fewer members; numbers that were given member by member fit them no longer and go."""
    parent = operator_at(root, path[:-1])
    counted = {key: () for key, param in parent.params().items() if param.kind == "numbers"}
    return set_at(root, path[:-1], **{path[-1][0]: members}, **counted)


def _written(program: Program) -> Program:
    """The program, if its text can be read and means the same."""
    try:
        same = parse(str(program)) == program
    except ProgramError as error:
        raise ProgramError(f"the changed program cannot be written down: {error}") from None
    if not same:
        raise ProgramError(f"the changed program cannot be written down: {short_text(program)} means another")
    return program


def _short(program: Program) -> str:
    return program.name or short_text(program)
