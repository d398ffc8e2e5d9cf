"""The moves of built-in agents: each makes one new program from reference programs, or gives up.

A move never checks limits; whoever asks does, for all moves alike.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from types import MappingProxyType

from chop.core.parameters import Operator
from chop.core.program import Program, Projected, Projection, Transform, Wrapped
from chop.evolution import growth
from chop.evolution.guidance import Guidance
from chop.evolution.population import Candidate
from chop.evolution.space import Space, options, slots
from chop.evolution.trees import Path, inner_programs, named_in, programs_in, put
from chop.evolution.tuning import dials, tuned

GROWN = 5
"""Operators of a program grown from nothing, at most."""
JOINED = ("select", "combine", "average")


@dataclass(frozen=True, eq=False)
class Scene:
    """What a move sees: references (best first), everything known, and its own dice."""

    references: Sequence[Candidate]
    known: Sequence[Candidate]
    space: Space
    guidance: Guidance
    random: Random

    def reference(self) -> Candidate:
        """One of the references."""
        return self.random.choice(self.references)


@dataclass(frozen=True)
class Made:
    """A new program and the candidates it was made from."""

    program: Program
    parents: tuple[int, ...]


Move = Callable[[Scene], Made | None]


def grow(scene: Scene) -> Made | None:
    """A new program from nothing."""
    size = scene.random.randint(1, GROWN)
    return Made(growth.grown(scene.random, scene.space, scene.guidance, size), ())


def insert(scene: Scene) -> Made | None:
    """One more operator around some part."""
    parent = scene.reference()
    root = parent.program()
    path, part = scene.random.choice(programs_in(root))
    new = growth.around(part, scene.random, scene.space, scene.guidance)
    return Made(put(root, path, new), (parent.number,))


def delete(scene: Scene) -> Made | None:
    """One operator less: a part gives way to one inside it, or a mixture loses a member."""
    parent = scene.reference()
    fewer = shorter(parent.program())
    return Made(scene.random.choice(fewer), (parent.number,)) if fewer else None


def shorter(root: Program) -> list[Program]:
    """Every program that is left when one operator or one member is taken away, in order."""
    found = []
    for path, part in programs_in(root):
        found += [put(root, path, inner) for inner in inner_programs(part)]
        for key, param in slots(type(part)).items():
            members = getattr(part, key)
            if param.kind == "programs" and len(members) > max(param.at_least, 2):
                for i in range(len(members)):
                    rest = {key: members[:i] + members[i + 1 :]}
                    found.append(put(root, path, dataclasses.replace(part, **rest)))
    return [program for program in dict.fromkeys(found) if program != root]


def replace(scene: Scene) -> Made | None:
    """An operator gives way to another of its kind, with what stood inside."""
    parent = scene.reference()
    root = parent.program()
    path, node = scene.random.choice(named_in(root))
    peers = [kind for kind in _peers(node, scene.space) if kind is not type(node)]
    if not peers:
        return None
    kind = scene.guidance.operator(scene.random, peers)
    inside = tuple(inner_programs(node))
    new = growth.operator_of(kind, scene.random, scene.space, inside)
    return Made(put(root, path, new), (parent.number,))


def _peers(node: Operator, space: Space) -> Sequence[type[Operator]]:
    if isinstance(node, Transform):
        return space.transforms
    if isinstance(node, Projection):
        return space.projections
    count = len(inner_programs(node))
    if not count:
        return space.leaves

    def fits(kind: type[Operator]) -> bool:
        (param,) = slots(kind).values()
        return count == 1 if param.kind == "program" else count >= param.at_least

    return [kind for kind in space.branching if fits(kind)]


def set_parameter(scene: Scene) -> Made | None:
    """Another value of one parameter."""
    parent = scene.reference()
    root = parent.program()
    places = [
        (path, node, key, param)
        for path, node in named_in(root)
        for key, param in options(type(node)).items()
    ]
    if not places:
        return None
    path, node, key, param = scene.random.choice(places)
    old = getattr(node, key)
    if param.kind in ("number", "whole") and old is not None and scene.random.random() < 0.7:
        value = growth.moved(param, old, scene.guidance.step, scene.random)
    else:
        value = growth.anywhere(type(node), key, param, scene.random, scene.space)
    if value == old:
        return None
    return Made(put(root, path, dataclasses.replace(node, **{key: value})), (parent.number,))


def tune(scene: Scene) -> Made | None:
    """The most promising other value of a number, from all that is known about it."""
    tunable = [candidate for candidate in scene.references if dials(candidate.program())]
    if not tunable:
        return None
    parent = tunable[0] if scene.random.random() < 0.6 else scene.random.choice(tunable)
    root = parent.program()
    dial = scene.random.choice(dials(root))
    new = tuned(root, dial, scene.known, scene.guidance.step, scene.random)
    return None if new is None else Made(new, (parent.number,))


def cross(scene: Scene) -> Made | None:
    """A part of one reference in the place of a part of another."""
    if len(scene.references) < 2:
        return None
    one, other = scene.random.sample(list(scene.references), 2)
    root = one.program()
    path, _ = scene.random.choice(programs_in(root))
    _, part = scene.random.choice(programs_in(other.program()))
    return Made(put(root, path, part), (one.number, other.number))


def join(scene: Scene) -> Made | None:
    """Two references, or one and a view of itself, mixed or chosen from."""
    kinds = [kind for kind in scene.space.branching if kind.name in JOINED]
    if not kinds:
        return None
    one = scene.reference()
    rest = [candidate for candidate in scene.references if candidate is not one]
    kind = scene.guidance.operator(scene.random, kinds)
    if not rest or scene.random.random() < 0.3:
        root = one.program()
        path, part = scene.random.choice(programs_in(root))
        new = growth.wrapped(kind, part, scene.random, scene.space, scene.guidance)
        return Made(put(root, path, new), (one.number,))
    other = scene.random.choice(rest)
    outside, members = _common(one.program(), other.program())
    mixed = growth.operator_of(kind, scene.random, scene.space, members)
    assert isinstance(mixed, Program)
    for surround in reversed(outside):
        mixed = surround(mixed)
    return Made(mixed, (one.number, other.number))


def _common(one: Program, other: Program) -> tuple[list[Callable[[Program], Program]], tuple[Program, ...]]:
    """Transforms and projections that stand outermost in both, and what remains of the two inside."""
    outside: list[Callable[[Program], Program]] = []
    while True:
        if isinstance(one, Wrapped) and isinstance(other, Wrapped) and one.transform == other.transform:
            outside.append(_before(one.transform))
        elif (
            isinstance(one, Projected) and isinstance(other, Projected) and one.projection == other.projection
        ):
            outside.append(_after(one.projection))
        else:
            return outside, (one, other)
        one, other = one.inner, other.inner


def _before(transform: Transform) -> Callable[[Program], Program]:
    return lambda inner: Wrapped(transform, inner)


def _after(projection: Projection) -> Callable[[Program], Program]:
    return lambda inner: Projected(inner, projection=projection)


def wrap(scene: Scene) -> Made | None:
    """A validator around the whole or around a part."""
    if not scene.space.branching:
        return None
    parent = scene.reference()
    root = parent.program()
    places: list[tuple[Path, Program]] = programs_in(root)
    path, part = places[0] if scene.random.random() < 0.4 else scene.random.choice(places)
    kind = scene.guidance.operator(scene.random, scene.space.branching)
    new = growth.wrapped(kind, part, scene.random, scene.space, scene.guidance)
    return Made(put(root, path, new), (parent.number,))


def simplify(scene: Scene) -> Made | None:
    """One or two operators less, or a parameter back at its default: what is not missed shall go."""
    parent = scene.reference()
    root = parent.program()
    if scene.random.random() < 0.4:
        plain = _plainer(root)
        return Made(scene.random.choice(plain), (parent.number,)) if plain else None
    for _ in range(scene.random.randint(1, 2)):
        fewer = shorter(root)
        if not fewer:
            break
        root = scene.random.choice(fewer)
    return Made(root, (parent.number,)) if str(root) != parent.text else None


def _plainer(root: Program) -> list[Program]:
    """Every program with one parameter put back to its default."""
    found = []
    for path, node in named_in(root):
        for field in dataclasses.fields(node):
            if field.name in options(type(node)) and getattr(node, field.name) != field.default:
                found.append(put(root, path, dataclasses.replace(node, **{field.name: field.default})))
    return found


def introduced(made: Made, references: Sequence[Candidate]) -> tuple[str, ...]:
    """The operators a new program has and its parents lack."""
    old = {node.name for c in references if c.number in made.parents for _, node in named_in(c.program())}
    return tuple(sorted({node.name for _, node in named_in(made.program)} - old))


MOVE_TABLE: Mapping[str, Move] = MappingProxyType(
    {
        "grow": grow, "insert": insert, "delete": delete, "replace": replace, "set": set_parameter,
        "tune": tune, "cross": cross, "join": join, "wrap": wrap, "simplify": simplify,
    }
)  # fmt: skip

__all__ = ["MOVE_TABLE", "Made", "Scene", "introduced", "shorter"]
