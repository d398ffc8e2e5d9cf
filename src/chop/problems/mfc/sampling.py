"""Mean-field control: five families of operators between densities and costs, solved exactly.

==========  =======================  =============================  ==========================
family      conditioning function    input                          output
==========  =======================  =============================  ==========================
g_1to1      terminal cost g          rho(0, x)                      rho(1, x)
g_1to2      terminal cost g          rho(0, x)                      rho(t, x), 1/2 <= t <= 1
g_2to2      terminal cost g          rho(t, x), 0 <= t < 1/2        rho(t, x), 1/2 <= t <= 1
rho_1to1    initial density rho(0)   g(x)                           rho(1, x)
rho_1to2    initial density rho(0)   g(x)                           rho(t, x), 1/2 <= t <= 1
==========  =======================  =============================  ==========================

The length scale shapes the conditioning function alone, which is hidden; the function that varies between
the pairs keeps length scale 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from chop.core.errors import ProblemError
from chop.core.prompt import Axis, Field, Prompt
from chop.numerics import Array
from chop.numerics.heat import COST, VISCOSITY, SubGrid, carry, hopf_cole, interpolation
from chop.numerics.random_field import CircleField, on_grid
from chop.problems.case import EXAMPLE_COUNT, Case, check_counts
from chop.problems.random_streams import random_stream

POINTS = 100
TIME_LEVELS = 51
VARYING_LENGTH = 1.0
_ROLES = _CONDITION, _VARYING = range(2)  # of the random streams of one operator


@dataclass(frozen=True)
class OperatorFamily:
    """One kind of operator: what is hidden, and when its input and output live (None: the input is g)."""

    name: str
    hidden: str
    input_window: tuple[float, float] | None
    output_window: tuple[float, float]


_START, _EARLY, _LATE, _END = (0.0, 0.0), (0.0, 0.5), (0.5, 1.0), (1.0, 1.0)
FAMILIES = {
    family.name: family
    for family in (
        OperatorFamily("g_1to1", "g", _START, _END),
        OperatorFamily("g_1to2", "g", _START, _LATE),
        OperatorFamily("g_2to2", "g", _EARLY, _LATE),
        OperatorFamily("rho_1to1", "rho", None, _END),
        OperatorFamily("rho_1to2", "rho", None, _LATE),
    )
}


def sample(
    family: str = "g_2to2",
    length: float = 0.5,
    n: int = 100,
    *,
    seed: int = 0,
    split: str = "test",
    first: int = 0,
    examples: int = EXAMPLE_COUNT,
    inputs: SubGrid | None = None,
    outputs: SubGrid | None = None,
    dtype: torch.dtype = torch.float32,
) -> Case:
    """n operators of one family: each shows ``examples`` pairs and asks for one more.

    Coordinates are (t, x); g carries t = 0. ``rows["condition"]`` is the hidden function at the 100 points.

    Args:
        family: one of `FAMILIES`
        length: the length scale of the hidden function
        n, first: operators ``first`` .. ``first + n - 1`` of the split; each is the same, bit for bit,
            whatever n is
        seed, split: of all random draws; splits ("train", "evolution", "test") never share one
        examples: pairs shown
        inputs, outputs: sub-grids; by default functions of x alone have all 100 points, functions of (t, x)
            10 x 50
        dtype: of the case; everything is solved in float64
    """
    kind = family_named(family)
    check_counts(first, n=n, examples=examples)
    into = sub_grid(kind.input_window or _START, inputs, "inputs")
    out = sub_grid(kind.output_window, outputs, "outputs")
    index = np.arange(first, first + n, dtype=np.uint64)
    x, y, condition = draw_operators("mfc", kind, length, examples + 1, seed, split, index, into, out)
    meta = {
        "problem": "mfc", "family": family, "length": length, "seed": int(seed), "split": split,
        "first": first, "n": n, "examples": examples, "c": COST, "viscosity": VISCOSITY,
        "input_times": list(into.times), "input_points": list(into.points),
        "output_times": list(out.times), "output_points": list(out.points),
    }  # fmt: skip
    return pairs_case(x, y, into, out, dtype, meta, {"index": index, "condition": condition})


def family_named(name: str) -> OperatorFamily:
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
    chosen = np.round(np.linspace(first, last, times)) / (TIME_LEVELS - 1)
    return SubGrid(tuple(chosen), tuple(np.floor(np.arange(points) * POINTS / points) / POINTS))


def time_indices(window: tuple[float, float]) -> tuple[int, int]:
    """First and last index of the protocol's 51 times within a window."""
    first, last = round(window[0] * (TIME_LEVELS - 1)), round(window[1] * (TIME_LEVELS - 1))
    return first, last - (window == _EARLY)


def pairs_case(
    x: Array, y: Array, into: SubGrid, out: SubGrid, dtype: torch.dtype, meta: dict[str, Any],
    rows: dict[str, Array],
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


def sub_grid(window: tuple[float, float], given: SubGrid | None, name: str) -> SubGrid:
    """Where functions of a time window are given: on the grid given, which lies inside it, or evenly."""
    if given is None:
        return even_grid(window)
    if min(given.times) < window[0] or max(given.times) > window[1]:
        raise ProblemError(
            f"{name} must have times in [{window[0]}, {window[1]}], "
            f"not [{min(given.times)}, {max(given.times)}]"
        )
    return given


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


def draw_operators(
    problem: str, family: OperatorFamily, length: float, pairs: int, seed: int, split: str, index: Array,
    into: SubGrid, out: SubGrid,
) -> tuple[Array, Array, Array]:  # fmt: skip
    """Inputs and outputs (n, pairs, points) of n operators, and their hidden functions (n, 100).

    Args:
        problem, split, seed, index: the names of the random streams, one for each operator
        family, length: what is hidden, and its length scale
        pairs: functions drawn for each operator
        into, out: where inputs and outputs are given
    """
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
