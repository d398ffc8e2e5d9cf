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

import numpy as np
import torch

from chop.core.errors import ProblemError
from chop.numerics.heat import COST, VISCOSITY, HopfCole, SubGrid, hopf_cole
from chop.problems.case import Case
from chop.problems.mfc.operators import (
    EXAMPLES,
    FAMILIES,
    as_case,
    even_grid,
    family_named,
    input_grid,
    operators,
    output_grid,
)
from chop.problems.mfc.training import MfcStream


def sample(
    family: str = "g_2to2",
    length: float = 0.5,
    n: int = 100,
    *,
    seed: int = 0,
    split: str = "test",
    first: int = 0,
    examples: int = EXAMPLES,
    inputs: SubGrid | None = None,
    outputs: SubGrid | None = None,
    dtype: torch.dtype = torch.float32,
) -> Case:
    """n operators of one family: each shows ``examples`` pairs and asks for one more.

    Functions of x alone are given at all 100 points, functions of (t, x) on 10 x 50, or on any sub-grid
    given as ``inputs`` and ``outputs``. Coordinates are (t, x); g carries t = 0. Operator i is number
    ``first + i`` of its split and is the same, bit for bit, whatever n is. ``rows["condition"]`` is the
    hidden function at the 100 points.
    """
    kind = family_named(family)
    if min(n, examples) < 1 or first < 0:
        raise ProblemError("n and examples must be 1 or more, first 0 or more")
    into, out = input_grid(kind, inputs), output_grid(kind, outputs)
    index = np.arange(first, first + n, dtype=np.uint64)
    x, y, condition = operators("mfc", kind, length, examples + 1, seed, split, index, into, out)
    meta = {
        "problem": "mfc", "family": family, "length": length, "seed": int(seed), "split": split,
        "first": first, "n": n, "examples": examples, "c": COST, "viscosity": VISCOSITY,
        "input_times": list(into.times), "input_points": list(into.points),
        "output_times": list(out.times), "output_points": list(out.points),
    }  # fmt: skip
    return as_case(x, y, into, out, dtype, meta, {"index": index, "condition": condition})


__all__ = ["FAMILIES", "HopfCole", "MfcStream", "SubGrid", "even_grid", "hopf_cole", "sample"]
