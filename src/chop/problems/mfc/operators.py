"""The five families of mean-field-control operators: their functions, their grids, their pairs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from chop.core.errors import ProblemError
from chop.core.prompt import Axis, Field, Prompt
from chop.numerics.heat import SubGrid, carry, hopf_cole, interpolation
from chop.numerics.random_field import CircleField, on_grid
from chop.numerics.tape import Array
from chop.problems.case import Case
from chop.problems.random_streams import random_stream

POINTS = 100
TIMES = 51
EXAMPLES = 5
VARYING_LENGTH = 1.0
_ROLES = _CONDITION, _VARYING = range(2)  # of the random streams of one operator


@dataclass(frozen=True)
class Family:
    """One kind of operator: what is hidden, and when its input and output live (None: the input is g)."""

    name: str
    hidden: str
    input_window: tuple[float, float] | None
    output_window: tuple[float, float]


_START, _EARLY, _LATE, _END = (0.0, 0.0), (0.0, 0.5), (0.5, 1.0), (1.0, 1.0)
FAMILIES = {
    family.name: family
    for family in (
        Family("g_1to1", "g", _START, _END),
        Family("g_1to2", "g", _START, _LATE),
        Family("g_2to2", "g", _EARLY, _LATE),
        Family("rho_1to1", "rho", None, _END),
        Family("rho_1to2", "rho", None, _LATE),
    )
}


def family_named(name: str) -> Family:
    """The family, or an error that lists them."""
    if name not in FAMILIES:
        raise ProblemError(f"family must be one of {', '.join(FAMILIES)}, not {name!r}")
    return FAMILIES[name]


def even_grid(window: tuple[float, float], times: int = 10, points: int = 50) -> SubGrid:
    """An evenly spread sub-grid of the protocol's 51 x 100 grid within a time window.

    A window of one instant gives all 100 points; [0, 1/2] ends at index 24, before [1/2, 1] begins.
    """
    if window[0] == window[1]:
        return SubGrid((window[0],), tuple(np.arange(POINTS) / POINTS))
    first, last = time_indices(window)
    if not (1 <= times <= last - first + 1 and 1 <= points <= POINTS):
        raise ProblemError(f"{times} x {points} points do not fit the {last - first + 1} x {POINTS} grid")
    chosen = np.round(np.linspace(first, last, times)) / (TIMES - 1)
    return SubGrid(tuple(chosen), tuple(np.floor(np.arange(points) * POINTS / points) / POINTS))


def time_indices(window: tuple[float, float]) -> tuple[int, int]:
    """First and last index of the protocol's 51 times within a window."""
    first, last = round(window[0] * (TIMES - 1)), round(window[1] * (TIMES - 1))
    return first, last - (window == _EARLY)


def as_case(
    x: Array, y: Array, into: SubGrid, out: SubGrid, dtype: torch.dtype, meta: dict[str, Any],
    rows: dict[str, NDArray[Any]],
) -> Case:  # fmt: skip
    """Pairs ``(n, D + 1, points)`` on two sub-grids as a case whose query is the last pair."""
    given, asked = (torch.from_numpy(values).to(dtype).unsqueeze(-1) for values in (x, y))
    at_input, at_output = (torch.from_numpy(grid.coords).to(dtype) for grid in (into, out))
    return Case(
        prompt=Prompt(
            inputs=Field(at_input, given[:, :-1]),
            outputs=Field(at_output, asked[:, :-1]),
            query=Field(at_input, given[:, -1]),
            at=at_output,
            axes=(Axis("t"), Axis("x", 1.0)),
        ),
        target=asked[:, -1],
        meta=meta,
        rows=rows,
    )


def input_grid(family: Family, given: SubGrid | None) -> SubGrid:
    """Where the inputs of a family are given, unless somebody says otherwise."""
    window = family.input_window or _START
    return _checked(given, window, "inputs") if given else even_grid(window)


def output_grid(family: Family, given: SubGrid | None) -> SubGrid:
    """Where the outputs of a family are given, unless somebody says otherwise."""
    return _checked(given, family.output_window, "outputs") if given else even_grid(family.output_window)


def _checked(grid: SubGrid, window: tuple[float, float], name: str) -> SubGrid:
    if min(grid.times) < window[0] or max(grid.times) > window[1]:
        raise ProblemError(
            f"{name} must have times in [{window[0]}, {window[1]}], "
            f"not [{min(grid.times)}, {max(grid.times)}]"
        )
    return grid


def nodes_for(length: float) -> int:
    """Nodes that resolve exp(-g / (2 c mu)) and the densities to rounding, by measurement."""
    shortest = min(CircleField(length).length, VARYING_LENGTH)
    return POINTS * (1 + max(2, int(np.ceil(1.0 / shortest - 1e-9))))


def draw_cost(length: float, stream: np.random.Generator, nodes: int) -> Array:
    """A terminal cost: a Gaussian field without its mean."""
    drawn = CircleField(length).draw(stream)
    drawn[0] = 0.0
    return on_grid(drawn, nodes)


def draw_density(length: float, stream: np.random.Generator, nodes: int) -> Array:
    """An initial density: softplus of a Gaussian field, divided by its mean."""
    positive = np.logaddexp(0.0, on_grid(CircleField(length).draw(stream), nodes))
    return np.asarray(positive / positive.mean())


def operators(
    problem: str, family: Family, length: float, pairs: int, seed: int, split: str, index: NDArray[np.uint64],
    into: SubGrid, out: SubGrid,
) -> tuple[Array, Array, Array]:  # fmt: skip
    """Inputs and outputs (n, pairs, points) of n operators, and their hidden functions (n, 100)."""
    nodes = nodes_for(length)
    hide, vary = (draw_cost, draw_density) if family.hidden == "g" else (draw_density, draw_cost)
    streams = [[random_stream(problem, split, seed, i, role) for i in index] for role in _ROLES]
    hidden = np.array([[hide(length, stream, nodes)] for stream in streams[_CONDITION]])
    varying = np.array(
        [[vary(VARYING_LENGTH, stream, nodes) for _ in range(pairs)] for stream in streams[_VARYING]]
    )
    solution = hopf_cole(hidden, varying) if family.hidden == "g" else hopf_cole(varying, hidden)
    if family.input_window is None:
        x = carry(varying, interpolation(nodes, into.points))
    else:
        x = solution.density(into)
    shown = carry(hidden[:, 0], interpolation(nodes, tuple(np.arange(POINTS) / POINTS)))
    return x, solution.density(out), shown


__all__ = [
    "FAMILIES",
    "Family",
    "as_case",
    "draw_cost",
    "draw_density",
    "even_grid",
    "family_named",
    "input_grid",
    "nodes_for",
    "operators",
    "output_grid",
    "time_indices",
]
