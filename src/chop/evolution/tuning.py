"""Tuning a number where it matters: a line search through everything already known about one shape.

All candidates that differ from a program in one number only are points of a curve. With a point on either
side of the best one, the next is the top of the parabola through the three; where the best is outermost,
the next lies beyond it.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable
from dataclasses import dataclass
from random import Random

from chop.core.parameters import Param
from chop.core.program import Program
from chop.evolution.growth import logarithmic, moved, rounded
from chop.evolution.population import Candidate
from chop.evolution.space import options
from chop.evolution.trees import Path, named_in, node_at, put, shape_of

CLOSE = 0.02
"""A proposal nearer than this to a known point (relative to the bracket) teaches nothing."""


@dataclass(frozen=True)
class Dial:
    """One number of a program: where it stands and what it may be."""

    path: Path
    key: str
    param: Param

    def read(self, program: Program) -> float | None:
        """The number in a program of the same shape."""
        value = getattr(node_at(program, self.path), self.key)
        return None if value is None else float(value)

    def turned(self, program: Program, value: float) -> Program:
        """The program with another number."""
        node = node_at(program, self.path)
        return put(program, self.path, dataclasses.replace(node, **{self.key: value}))


def dials(program: Program) -> list[Dial]:
    """Every continuous number of a program that is set to something."""
    found = []
    for path, node in named_in(program):
        for key, param in options(type(node)).items():
            if param.kind == "number" and getattr(node, key) is not None:
                found.append(Dial(path, key, param))
    return found


def line(program: Program, dial: Dial, known: Iterable[Candidate]) -> list[tuple[float, float]]:
    """(number, value) of all candidates that are the program but for this number, by number."""
    shape = shape_of(str(program))
    own = dial.read(program)
    points: dict[float, float] = {}
    for candidate in known:
        # Stopped candidates count too: their value on fewer questions still says on which side it falls.
        if candidate.status == "failed" or shape_of(candidate.text) != shape:
            continue
        other = candidate.program()
        value = dial.read(other)
        if value is not None and own is not None and dial.turned(other, own) == program:
            points[value] = candidate.value
    return sorted(points.items())


def tuned(
    program: Program, dial: Dial, known: Iterable[Candidate], step: float, random: Random
) -> Program | None:
    """The program with the most promising other number; None if the curve has nothing more to say."""
    points = line(program, dial, known)
    own = dial.read(program)
    assert own is not None
    value = _next(points, dial.param, step, random) if points else moved(dial.param, own, step, random)
    return None if value is None or value == own else dial.turned(program, float(value))


def _next(points: list[tuple[float, float]], param: Param, step: float, random: Random) -> float | None:
    there = math.log if logarithmic(param) else float
    back = math.exp if logarithmic(param) else float
    assert param.low is not None
    assert param.high is not None
    xs, ys = [there(x) for x, _ in points], [y for _, y in points]
    best = max(range(len(ys)), key=ys.__getitem__)
    if len(points) == 1:
        return float(moved(param, points[0][0], step, random))
    if best in (0, len(xs) - 1):
        inner = xs[1] if best == 0 else xs[-2]
        beyond = xs[best] + 1.6 * (xs[best] - inner)
        return _fresh(rounded(back(_bounded(beyond, there, param)), param.low, param.high), points)
    left, middle, right = xs[best - 1], xs[best], xs[best + 1]
    top = _top((left, ys[best - 1]), (middle, ys[best]), (right, ys[best + 1]))
    if top is None or min(abs(top - x) for x in (left, middle, right)) < CLOSE * (right - left):
        # The parabola has converged, or there is none: halve the wider side.
        top = (left + middle) / 2 if middle - left > right - middle else (middle + right) / 2
        if right - left < 0.02:
            return None
    return _fresh(rounded(back(top), param.low, param.high), points)


def _bounded(x: float, there: object, param: Param) -> float:
    assert callable(there)
    assert param.low is not None
    assert param.high is not None
    return float(min(max(x, there(param.low)), there(param.high)))


def _fresh(value: float, points: list[tuple[float, float]]) -> float | None:
    return None if value in dict(points) else value


def _top(a: tuple[float, float], b: tuple[float, float], c: tuple[float, float]) -> float | None:
    """Where the parabola through three points is highest, if it is between the outer two."""
    (x0, y0), (x1, y1), (x2, y2) = a, b, c
    down = (x1 - x0) * (y1 - y2) - (x1 - x2) * (y1 - y0)
    if down == 0 or not all(map(math.isfinite, (y0, y1, y2))):
        return None
    top = x1 - ((x1 - x0) ** 2 * (y1 - y2) - (x1 - x2) ** 2 * (y1 - y0)) / (2 * down)
    return top if x0 < top < x2 else None


__all__ = ["Dial", "dials", "line", "tuned"]
