"""Numerics of the problems: compiled solvers, spectral kernels, formulas, random fields, simplex, earth."""

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
"""An array of any shape and dtype."""

__all__ = ["Array"]
