"""The moves of built-in agents: each makes one new program from reference programs, or gives up.

A move never checks limits; whoever asks does, for all moves alike. Numbers are tuned where it matters: all
candidates that differ from a program in one number only are points of a curve. With a point on either side
of the best one, the next is the top of the parabola through the three; where the best is outermost, the next
lies beyond it.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from types import MappingProxyType

from chop.core.editing import (
    TreePath,
    as_program,
    inner_programs,
    named_operators,
    nested_programs,
    operator_at,
    program_parameters,
    replace_at,
    set_at,
    surround,
)
from chop.core.parameters import Operator, Param
from chop.core.program import Program, Projected, Projection, Transform, Wrapped
from chop.evolution.generation import ProgramGenerator, is_logarithmic, nearby_value, range_of, rounded_inside
from chop.evolution.population import Candidate
from chop.evolution.space import structure_of, value_parameters

LARGEST_GROWN = 5
"""Operators of a program grown from nothing, at most."""
JOINING = ("select", "combine", "average")
CLOSE = 0.02
"""A proposal nearer than this to a known point (relative to the bracket) teaches nothing."""


@dataclass(frozen=True)
class Offspring:
    """A new program and the candidates it was made from."""

    program: Program
    parents: tuple[int, ...] = ()


@dataclass(frozen=True, eq=False)
class Moves(ProgramGenerator):
    """What a move sees: references (best first), and everything known."""

    references: Sequence[Candidate]
    known: Sequence[Candidate]

    def _reference(self) -> tuple[Program, tuple[int, ...]]:
        """One of the references, and its number as that of the only parent."""
        parent = self.random.choice(self.references)
        return parent.program(), (parent.number,)

    def _choice(self, programs: Sequence[Program], parents: tuple[int, ...]) -> Offspring | None:
        return Offspring(self.random.choice(programs), parents) if programs else None

    def grow(self) -> Offspring | None:
        """A new program from nothing."""
        return Offspring(self.program(self.random.randint(1, LARGEST_GROWN)))

    def insert(self) -> Offspring | None:
        """One more operator around some part."""
        root, parents = self._reference()
        path, part = self.random.choice(nested_programs(root))
        return Offspring(replace_at(root, path, self.extended(part)), parents)

    def delete(self) -> Offspring | None:
        """One operator less: a part gives way to one inside it, or a mixture loses a member."""
        root, parents = self._reference()
        return self._choice(programs_with_one_less(root), parents)

    def replace(self) -> Offspring | None:
        """An operator gives way to another of its kind, with what stood inside."""
        root, parents = self._reference()
        path, node = self.random.choice(named_operators(root))
        peers = [kind for kind in self._peers(node) if kind is not type(node)]
        if not peers:
            return None
        new = self.operator(self.kind(peers), tuple(inner_programs(node)))
        return Offspring(replace_at(root, path, new), parents)

    def _peers(self, node: Operator) -> Sequence[type[Operator]]:
        if isinstance(node, Transform):
            return self.space.transforms
        if isinstance(node, Projection):
            return self.space.projections
        count = len(inner_programs(node))
        if not count:
            return self.space.leaves

        def fits(kind: type[Operator]) -> bool:
            (param,) = program_parameters(kind).values()
            return count == 1 if param.kind == "program" else count >= param.at_least

        return [kind for kind in self.space.branching if fits(kind)]

    def set_parameter(self) -> Offspring | None:
        """Another value of one parameter."""
        root, parents = self._reference()
        places = [
            (path, node, key, param)
            for path, node in named_operators(root)
            for key, param in value_parameters(type(node)).items()
        ]
        if not places:
            return None
        path, node, key, param = self.random.choice(places)
        old = getattr(node, key)
        if param.kind in ("number", "whole") and old is not None and self.random.random() < 0.7:
            value = nearby_value(param, old, self.strategy.step, self.random)
        else:
            value = self.value(type(node), key, param)
        return None if value == old else Offspring(set_at(root, path, **{key: value}), parents)

    def tune(self) -> Offspring | None:
        """The most promising other value of a number, from all that is known about it."""
        tunable = [candidate for candidate in self.references if tunable_numbers(candidate.program())]
        if not tunable:
            return None
        parent = tunable[0] if self.random.random() < 0.6 else self.random.choice(tunable)
        root = parent.program()
        number = self.random.choice(tunable_numbers(root))
        new = line_search_step(root, number, self.known, self.strategy.step, self.random)
        return None if new is None else Offspring(new, (parent.number,))

    def cross(self) -> Offspring | None:
        """A part of one reference in the place of a part of another."""
        if len(self.references) < 2:
            return None
        one, other = self.random.sample(list(self.references), 2)
        root = one.program()
        path, _ = self.random.choice(nested_programs(root))
        _, part = self.random.choice(nested_programs(other.program()))
        return Offspring(replace_at(root, path, part), (one.number, other.number))

    def join(self) -> Offspring | None:
        """Two references, or one and a view of itself, mixed or chosen from."""
        kinds = [kind for kind in self.space.branching if kind.name in JOINING]
        if not kinds:
            return None
        one = self.random.choice(self.references)
        rest = [candidate for candidate in self.references if candidate is not one]
        kind = self.kind(kinds)
        if not rest or self.random.random() < 0.3:
            root = one.program()
            path, part = self.random.choice(nested_programs(root))
            return Offspring(replace_at(root, path, self.enclosed(kind, part)), (one.number,))
        other = self.random.choice(rest)
        outside, members = _common_outside(one.program(), other.program())
        mixed = as_program(self.operator(kind, members))
        for around in reversed(outside):
            mixed = surround(around, mixed)
        return Offspring(mixed, (one.number, other.number))

    def wrap(self) -> Offspring | None:
        """A validator around the whole or around a part."""
        if not self.space.branching:
            return None
        root, parents = self._reference()
        places = nested_programs(root)
        path, part = places[0] if self.random.random() < 0.4 else self.random.choice(places)
        return Offspring(
            replace_at(root, path, self.enclosed(self.kind(self.space.branching), part)), parents
        )

    def simplify(self) -> Offspring | None:
        """One or two operators less, or a parameter back at its default: what is not missed shall go."""
        parent = self.random.choice(self.references)
        root = parent.program()
        if self.random.random() < 0.4:
            return self._choice(_programs_with_one_default(root), (parent.number,))
        for _ in range(self.random.randint(1, 2)):
            fewer = programs_with_one_less(root)
            if not fewer:
                break
            root = self.random.choice(fewer)
        return Offspring(root, (parent.number,)) if str(root) != parent.text else None


MOVES: Mapping[str, Callable[[Moves], Offspring | None]] = MappingProxyType(
    {
        "grow": Moves.grow, "insert": Moves.insert, "delete": Moves.delete, "replace": Moves.replace,
        "set": Moves.set_parameter, "tune": Moves.tune, "cross": Moves.cross, "join": Moves.join,
        "wrap": Moves.wrap, "simplify": Moves.simplify,
    }
)  # fmt: skip
"""Moves by the names that journals have; a strategy draws among them in this order."""


def programs_with_one_less(root: Program) -> list[Program]:
    """Every program that is left when one operator or one member is taken away, in order."""
    found = []
    for path, part in nested_programs(root):
        found += [replace_at(root, path, inner) for inner in inner_programs(part)]
        for key, param in program_parameters(type(part)).items():
            members = getattr(part, key)
            if param.kind == "programs" and len(members) > max(param.at_least, 2):
                rests = [members[:i] + members[i + 1 :] for i in range(len(members))]
                found += [set_at(root, path, **{key: rest}) for rest in rests]
    return [program for program in dict.fromkeys(found) if program != root]


def _programs_with_one_default(root: Program) -> list[Program]:
    """Every program with one parameter put back to its default."""
    return [
        set_at(root, path, **{field.name: field.default})
        for path, node in named_operators(root)
        for field in dataclasses.fields(node)
        if field.name in value_parameters(type(node)) and getattr(node, field.name) != field.default
    ]


def _common_outside(one: Program, other: Program) -> tuple[list[Operator], tuple[Program, Program]]:
    """Transforms and projections that stand outermost in both, and what remains of the two inside."""
    outside: list[Operator] = []
    while True:
        if isinstance(one, Wrapped) and isinstance(other, Wrapped) and one.transform == other.transform:
            outside.append(one.transform)
        elif (
            isinstance(one, Projected) and isinstance(other, Projected) and one.projection == other.projection
        ):
            outside.append(one.projection)
        else:
            return outside, (one, other)
        one, other = one.inner, other.inner


# Tuning.


@dataclass(frozen=True)
class TunableNumber:
    """One continuous number of a program: where it stands and what it may be."""

    path: TreePath
    key: str
    param: Param

    def read(self, program: Program) -> float | None:
        """The number in a program of the same structure."""
        value = getattr(operator_at(program, self.path), self.key)
        return None if value is None else float(value)

    def write(self, program: Program, value: float) -> Program:
        """The program with another number."""
        return set_at(program, self.path, **{self.key: value})


def tunable_numbers(program: Program) -> list[TunableNumber]:
    """Every continuous number of a program that is set to something."""
    return [
        TunableNumber(path, key, param)
        for path, node in named_operators(program)
        for key, param in value_parameters(type(node)).items()
        if param.kind == "number" and getattr(node, key) is not None
    ]


def line_search_step(
    program: Program, number: TunableNumber, known: Iterable[Candidate], step: float, random: Random
) -> Program | None:
    """The program with the most promising other number; None if the curve has nothing more to say."""
    own = number.read(program)
    assert own is not None
    points = _curve(program, number, own, known)
    value: float | None
    if len(points) < 2:
        value = float(nearby_value(number.param, points[0][0] if points else own, step, random))
    else:
        value = _next_value(points, number.param)
    return None if value is None or value == own else number.write(program, value)


def _curve(
    program: Program, number: TunableNumber, own: float, known: Iterable[Candidate]
) -> list[tuple[float, float]]:
    """(number, value) of all candidates that are the program but for this number, by number."""
    structure = structure_of(str(program))
    points: dict[float, float] = {}
    for candidate in known:
        # Stopped candidates count too: their value on fewer questions still says on which side it falls.
        if candidate.status == "failed" or structure_of(candidate.text) != structure:
            continue
        other = candidate.program()
        value = number.read(other)
        if value is not None and number.write(other, own) == program:
            points[value] = candidate.value
    return sorted(points.items())


def _next_value(points: list[tuple[float, float]], param: Param) -> float | None:
    """The top of the parabola around the best of some points, or beyond the best; None if that is known."""
    there, back = (math.log, math.exp) if is_logarithmic(param) else (float, float)
    xs, ys = [there(x) for x, _ in points], [y for _, y in points]
    best = max(range(len(ys)), key=ys.__getitem__)
    if best in (0, len(xs) - 1):
        inner = xs[1] if best == 0 else xs[-2]
        low, high = map(there, range_of(param))
        new = min(max(xs[best] + 1.6 * (xs[best] - inner), low), high)
    else:
        left, middle, right = xs[best - 1 : best + 2]
        top = _parabola_top(xs[best - 1 : best + 2], ys[best - 1 : best + 2])
        if top is None or min(abs(top - x) for x in (left, middle, right)) < CLOSE * (right - left):
            # The parabola has converged, or there is none: halve the wider side.
            top = (left + middle) / 2 if middle - left > right - middle else (middle + right) / 2
            if right - left < 0.02:
                return None
        new = top
    value = rounded_inside(back(new), param)
    return None if value in dict(points) else value


def _parabola_top(xs: Sequence[float], ys: Sequence[float]) -> float | None:
    """Where the parabola through three points is highest, if it is between the outer two."""
    (x0, x1, x2), (y0, y1, y2) = xs, ys
    down = (x1 - x0) * (y1 - y2) - (x1 - x2) * (y1 - y0)
    if down == 0 or not all(map(math.isfinite, ys)):
        return None
    top = x1 - ((x1 - x0) ** 2 * (y1 - y2) - (x1 - x2) ** 2 * (y1 - y0)) / (2 * down)
    return top if x0 < top < x2 else None
