"""A flux f(u): its text, its exact derivative, how fast it carries waves, and where it is defined."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from chop.core.errors import FluxError, ProblemError
from chop.numerics import Array
from chop.numerics.formulas import VARIABLE, Node, differentiate, parse_formula, simplify_formula
from chop.numerics.tape import Tape, compile_tape

FLUXES = {
    "sin_cos": "sin(u)-cos(u)",
    "tanh": "tanh(u)",
    "buckley_leverett": "u**2/(u**2+(1-u)**2)",
    "burgers": "u**2/2",
}
CUBIC = "cubic"
CUBIC_TEXT = "a*u**3+b*u**2+c*u"

SPEED_MARGIN = 0.1
_SAMPLES = 6001
_TERNARY_STEPS = 60

Range = tuple[float, float]


@dataclass(frozen=True, eq=False)
class Flux:
    """A flux and everything derived from its text. Make one with `Flux.parse`.

    With ``parameters`` it is a family: each trajectory then brings its own numbers for them.
    """

    text: str
    parameters: tuple[str, ...]
    root: Node

    @staticmethod
    def parse(text: str | Flux, parameters: Sequence[str] = ()) -> Flux:
        """A flux from its name ("sin_cos", "tanh", "buckley_leverett", "burgers", "cubic") or formula."""
        if isinstance(text, Flux):
            return text
        if text == CUBIC:
            return _parse(CUBIC_TEXT, ("a", "b", "c"))
        if not isinstance(text, str):
            raise FluxError(f"a flux is a text such as 'u**2/2', not {type(text).__name__}")
        return _parse(FLUXES.get(text, text), tuple(parameters))

    @cached_property
    def tape(self) -> Tape:
        return compile_tape(self.root, self.parameters)

    @cached_property
    def slope_root(self) -> Node:
        return differentiate(self.root)

    @cached_property
    def slope_tape(self) -> Tape:
        return compile_tape(self.slope_root, self.parameters)

    def __call__(self, u: Any, parameters: Sequence[Any] | Array = ()) -> Any:
        """f(u), with numpy."""
        return self.tape.evaluate(u, parameters)

    def slope(self, u: Any, parameters: Sequence[Any] | Array = ()) -> Any:
        """f'(u), with numpy."""
        return self.slope_tape.evaluate(u, parameters)

    def speed(self, span: Range, parameters: Array | None = None) -> Array:
        """max |f'(u)| over the range plus a margin: one number for each row of ``parameters``.

        This is the protocol's splitting speed: sampled, and the same for every initial condition.
        """
        u = _samples(span)
        rows = self.rows(parameters)
        return np.array([np.abs(self.slope(u, row)).max() + SPEED_MARGIN for row in rows])

    def rows(self, parameters: Array | None) -> Array:
        """Parameters as ``(rows, number of parameters)``; one empty row where there are none."""
        names = len(self.parameters)
        if parameters is None:
            if names:
                raise FluxError(f"flux {self.text!r} needs numbers for {', '.join(self.parameters)}")
            return np.empty((1, 0))
        rows = np.atleast_2d(np.asarray(parameters, dtype=np.float64))
        if rows.ndim != 2 or rows.shape[1] != names or not np.isfinite(rows).all():
            raise FluxError(
                f"flux {self.text!r} needs finite parameters of shape (rows, {names}), not {rows.shape}"
            )
        return rows

    def check(self, span: Range, parameters: Array | None = None) -> None:
        """`FluxError` unless f and f' are defined and finite everywhere on the range.

        Denominators are watched themselves: a pole between two samples is found by the change of sign
        of what is divided by, a double one by following its smallest value down.
        """
        u = _samples(span)
        for row in self.rows(parameters):
            for role, root, tape in (
                ("", self.root, self.tape),
                ("the derivative of ", self.slope_root, self.slope_tape),
            ):
                for what, zero in _zeros(root, self.parameters, u, row):
                    raise self._undefined(role, f"{what} at u = {zero:.6g}", span)
                values = tape.evaluate(u, row)
                bad = ~np.isfinite(values)
                if bad.any():
                    raise self._undefined(role, f"is not finite at u = {u[bad][0]:.6g}", span)

    def _undefined(self, role: str, what: str, span: Range) -> FluxError:
        return FluxError(
            f"{role}flux {self.text!r} {what}, inside the data range [{span[0]:.6g}, {span[1]:.6g}]"
        )


@lru_cache(maxsize=256)
def _parse(text: str, parameters: tuple[str, ...]) -> Flux:
    return Flux(text, parameters, simplify_formula(parse_formula(text, parameters)))


def as_range(bound: float | Sequence[float]) -> Range:
    """The data range: ``b`` stands for (-b, b)."""
    low, high = (-bound, bound) if isinstance(bound, (int, float)) else tuple(map(float, bound))
    if not (np.isfinite(low) and np.isfinite(high) and low < high):
        raise ProblemError(f"bound must be a positive number or (low, high), not {bound!r}")
    return float(low), float(high)


def _samples(span: Range) -> Array:
    return np.linspace(span[0], span[1], _SAMPLES)


def _watched(root: Node) -> Iterator[tuple[str, Node]]:
    """Sub-expressions that must not be zero, and what happens where they are."""
    stack, seen = [root], {id(root)}
    while stack:
        node = stack.pop()
        if node.op == "div":
            yield "divides by zero", node.args[1]
        elif node.op == "log":
            yield "takes the logarithm of zero", node.args[0]
        elif node.op == "tan":
            yield "has a pole of tan", Node("cos", node.args)
        elif node.op == "pow" and not (node.args[1].op == "number" and node.args[1].value >= 0):
            yield "takes a negative or varying power of zero", node.args[0]
        for arg in node.args:
            if id(arg) not in seen:
                seen.add(id(arg))
                stack.append(arg)


def _zeros(root: Node, names: tuple[str, ...], u: Array, row: Array) -> Iterator[tuple[str, float]]:
    for what, node in _watched(root):
        if node.op == "name" and node.name != VARIABLE:
            constant = compile_tape(node, names).evaluate(u[:1], row)
            if constant[0] == 0:
                yield what, float(u[0])
            continue
        zero = _zero(compile_tape(node, names), u, row)
        if zero is not None:
            yield what, zero


def _zero(tape: Tape, u: Array, row: Array) -> float | None:
    """Where a sub-expression vanishes on the range, None if it does not."""
    values = tape.evaluate(u, row)
    if (values == 0).any():
        return float(u[values == 0][0])
    with np.errstate(all="ignore"):
        crossing = np.flatnonzero(np.sign(values[:-1]) * np.sign(values[1:]) < 0)
    if crossing.size:
        return float(u[crossing[0]])
    size = np.abs(values)
    dips = 1 + np.flatnonzero((size[1:-1] <= size[:-2]) & (size[1:-1] <= size[2:]))
    if not dips.size:
        return None
    low, high = u[dips - 1], u[dips + 1]
    for _ in range(_TERNARY_STEPS):
        third = (high - low) / 3
        left = np.abs(tape.evaluate(low + third, row)) > np.abs(tape.evaluate(high - third, row))
        low, high = np.where(left, low + third, low), np.where(left, high, high - third)
    bottom = np.abs(tape.evaluate((low + high) / 2, row))
    touched = bottom < 1e-6 * np.maximum(size[dips - 1], size[dips + 1])
    return float(low[touched][0]) if touched.any() else None
