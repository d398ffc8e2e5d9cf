"""Typed random growth: parameters, operators and whole programs, always within the declared ranges."""

from __future__ import annotations

import dataclasses
import math
from random import Random
from typing import Any

from chop.core.parameters import Operator, Param
from chop.core.program import Icon, Program, Projected, Projection, Transform, Wrapped
from chop.evolution.guidance import Guidance
from chop.evolution.space import Space, options, slots

KEEP_DEFAULT = 0.6
"""How often a new operator's parameter stays at its default, which somebody chose with care."""
MANY = 3
"""Members of a new mixture, at most."""


def operator_of(
    kind: type[Operator], random: Random, space: Space, inside: tuple[Program, ...] = ()
) -> Operator:
    """A new operator with random parameters, around the given programs if it takes any."""
    given: dict[str, Any] = {
        key: parameter(kind, key, param, random, space) for key, param in options(kind).items()
    }
    for key, param in slots(kind).items():
        given[key] = inside[0] if param.kind == "program" else inside
    return kind(**given)


def parameter(kind: type[Operator], key: str, param: Param, random: Random, space: Space) -> Any:
    """A value of a parameter: mostly the default, where that can run."""
    default = _default(kind, key)
    free = allowed(kind, key, param, space)
    if random.random() < KEEP_DEFAULT and (not free or default in free):
        return default
    return anywhere(kind, key, param, random, space)


def anywhere(kind: type[Operator], key: str, param: Param, random: Random, space: Space) -> Any:
    """Any value of a parameter, the likelier the nearer the default where it is a number."""
    free = allowed(kind, key, param, space)
    if free:
        return random.choice(free)
    if param.kind == "indices":
        return _channels(random, space.channels)
    default = _default(kind, key)
    if param.optional and random.random() < 0.3:
        return None
    return moved(param, default, 1.0, random)


def moved(param: Param, value: float | None, step: float, random: Random) -> float | int:
    """A number near another, within its range, in three significant digits.

    Positive ranges over more than a decade are moved by factors: there what counts is the order of
    magnitude.
    """
    assert param.low is not None
    assert param.high is not None
    low, high = float(param.low), float(param.high)
    if param.kind == "whole":
        jump = random.choice((-1, 1)) * (1 + int(random.expovariate(1.0 / max(step, 0.3))))
        return int(min(max((int(low) if value is None else int(value)) + jump, low), high))
    if value is None:
        return rounded(random.uniform(low, high), low, high)
    if logarithmic(param):
        return rounded(math.exp(math.log(max(value, low)) + random.gauss(0.0, step)), low, high)
    return rounded(value + random.gauss(0.0, step * min(high - low, 1.0)), low, high)


def logarithmic(param: Param) -> bool:
    """Whether a number is better thought of by its order of magnitude."""
    return param.kind == "number" and bool(param.low and param.low > 0 and (param.high or 0) / param.low > 10)


def rounded(value: float, low: float, high: float) -> float:
    """Three significant digits, inside the range."""
    return min(max(float(f"{value:.3g}"), low), high)


def allowed(kind: type[Operator], key: str, param: Param, space: Space) -> tuple[Any, ...]:
    """The values among which a choice or a flag is free; empty for numbers."""
    if param.kind == "flag":
        return space.words.get((kind.name, key), (False, True))
    return space.words.get((kind.name, key), param.options)


def _default(kind: type[Operator], key: str) -> Any:
    return next(field.default for field in dataclasses.fields(kind) if field.name == key)


def _channels(random: Random, channels: int) -> tuple[int, ...]:
    chosen = [c for c in range(-channels, 0) if random.random() < 0.5]
    return tuple(chosen) if len(chosen) < channels else ()


def leaf(random: Random, space: Space, guidance: Guidance) -> Program:
    """An answer from the prompt: the model half of the time."""
    if random.random() < 0.5:
        return Icon()
    made = operator_of(guidance.operator(random, space.leaves), random, space)
    assert isinstance(made, Program)
    return made


def around(inner: Program, random: Random, space: Space, guidance: Guidance, budget: int = 2) -> Program:
    """One more operator: a transform before a program, a projection after it, a mixture above it."""
    kinds = (*space.transforms, *space.projections, *space.branching)
    return wrapped(guidance.operator(random, kinds), inner, random, space, guidance, budget)


def wrapped(
    kind: type[Operator], inner: Program, random: Random, space: Space, guidance: Guidance, budget: int = 2
) -> Program:
    """A particular operator around a program, other members grown where it takes several."""
    if issubclass(kind, Transform | Projection):
        made = operator_of(kind, random, space)
        if isinstance(made, Transform):
            return Wrapped(made, inner)
        assert isinstance(made, Projection)
        return Projected(inner, projection=made)
    (param,) = slots(kind).values()
    members = [inner]
    if param.kind == "programs":
        for _ in range(random.randint(max(2, param.at_least), MANY) - 1):
            members.append(_another(inner, random, space, guidance, budget))
        random.shuffle(members)
    made = operator_of(kind, random, space, tuple(members))
    assert isinstance(made, Program)
    return made


def _another(inner: Program, random: Random, space: Space, guidance: Guidance, budget: int) -> Program:
    """A second opinion: the same question seen through a transform, or something else altogether."""
    if space.transforms and random.random() < 0.5:
        made = operator_of(guidance.operator(random, space.transforms), random, space)
        assert isinstance(made, Transform)
        return Wrapped(made, inner)
    return grown(random, space, guidance, random.randint(1, max(1, budget)))


def grown(random: Random, space: Space, guidance: Guidance, size: int) -> Program:
    """A program of about so many operators, from a leaf outwards."""
    made = leaf(random, space, guidance)
    while made.size < size:
        made = around(made, random, space, guidance, size - made.size)
    return made


__all__ = [
    "allowed", "anywhere", "around", "grown", "leaf", "logarithmic", "moved", "operator_of", "rounded",
    "wrapped",
]  # fmt: skip
