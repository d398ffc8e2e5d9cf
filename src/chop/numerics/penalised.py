"""Least squares with a roughness penalty through a solver that knows its derivatives; no law is named here.

A law adds what is its own: residuals with their derivatives at given parameters, which parameters are rough,
and which are allowed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from chop.numerics import Array

INDEPENDENT = 0.2
"""Neighbouring residuals are alike: so large a share of them counts in the choice of the penalty."""

_FARTHEST = 0.5
_ROUNDS = 8
_TRIALS = 4
_ENOUGH = 0.05
"""A round that lowers the objective by a smaller share is the last."""


@dataclass(frozen=True, eq=False)
class Linearised:
    """Residuals near theta: their mean square, its gradient and curvature (halved), and their number."""

    theta: Array
    mean_square: float
    gradient: Array
    normal: Array
    count: int


@dataclass(frozen=True, eq=False)
class Penalised:
    """What is fitted: ``linearise`` has the residuals, theta @ ``roughness`` @ theta is to be small too.

    ``allowed`` takes parameters to the nearest within bounds. One that stands at its ``least`` and would
    leave it is held there, so that the others move as if it were none.
    """

    linearise: Callable[[Array], Linearised]
    roughness: Array
    allowed: Callable[[Array], Array]
    least: Array

    def objective(self, at: Linearised, penalty: float) -> float:
        return at.mean_square + penalty * float(at.theta @ self.roughness @ at.theta)

    def curvature(self, at: Linearised, penalty: float) -> Array:
        """With a floor, for what neither residuals nor penalty know."""
        floor = 1e-10 * (at.normal.diagonal().max() + penalty)
        found: Array = at.normal + penalty * self.roughness + floor * np.eye(len(at.theta))
        return found

    def move(self, at: Linearised, penalty: float, damping: float = 0.0) -> Array:
        """Gauss and Newton's step, shortened by Levenberg and Marquardt's damping."""
        downhill = -(at.gradient + penalty * (self.roughness @ at.theta))
        free = ~((at.theta <= self.least) & (downhill <= 0))
        curvature = self.curvature(at, penalty)
        system = curvature + damping * np.diag(curvature.diagonal())
        found = np.zeros(len(free))
        found[free] = np.linalg.solve(system[np.ix_(free, free)], downhill[free])
        return found

    def descend(self, now: Linearised, penalty: float) -> Linearised:
        """Levenberg and Marquardt's descent from there, a fixed number of rounds at most."""
        damping = 1e-3
        for _ in range(_ROUNDS):
            old = self.objective(now, penalty)
            for _ in range(_TRIALS):
                move = np.nan_to_num(self.move(now, penalty, damping))
                tried = self.linearise(self.allowed(now.theta + np.clip(move, -_FARTHEST, _FARTHEST)))
                if self.objective(tried, penalty) < old:
                    break
                damping *= 8
            else:
                return now
            now = tried
            damping = max(damping / 8, 1e-9)
            if self.objective(now, penalty) > (1 - _ENOUGH) * old:
                return now
        return now

    def chosen_penalty(self, at: Linearised, penalties: Sequence[float]) -> float:
        """The penalty with the least error of prediction, by generalised cross-validation near a fit."""
        scores = []
        for penalty in penalties:
            move = self.move(at, penalty)
            mean_square = at.mean_square + move @ (2 * at.gradient + at.normal @ move)
            used = np.trace(np.linalg.solve(self.curvature(at, penalty), at.normal))
            freedom = used / (INDEPENDENT * at.count)
            scores.append(max(mean_square, 0.0) / (1 - min(freedom, 0.95)) ** 2)
        return penalties[int(np.argmin(scores))]

    def covariance(self, at: Linearised, penalty: float) -> Array:
        """Of the parameters at a fit, as if residuals were independent."""
        found: Array = at.mean_square / at.count * np.linalg.inv(self.curvature(at, penalty))
        return found


def from_products(theta: Array, derivatives: Array, residuals: Array) -> Linearised:
    """Residuals ``(rows, n)`` and their derivatives ``(rows, parameters, n)``."""
    from chop.numerics import kernels  # numba is only loaded when something is solved

    # The residuals as one more kind of derivative: all products are then one product.
    both = np.concatenate([derivatives, residuals[:, None]], axis=1)
    kinds = np.ascontiguousarray(both.swapaxes(0, 1)).reshape(both.shape[1], -1)
    products = np.empty((len(kinds), len(kinds)))
    kernels.matrix_product(kinds, np.ascontiguousarray(kinds.T), products)
    products /= kinds.shape[1]
    return Linearised(theta, float(products[-1, -1]), products[-1, :-1], products[:-1, :-1], kinds.shape[1])
