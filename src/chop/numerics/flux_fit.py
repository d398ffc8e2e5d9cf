"""The flux of a scalar conservation law from pairs of frames, by least squares through the solver.

Values are taken to where the pairs span [0, 1], the circle has length 1 and the time between the frames of a
pair is 1: speeds are in circles a frame. f' is a cubic B-spline; a penalty on its third differences decides
where the pairs are silent. The splitting speed, which is the numerical dissipation, is fitted as well.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from chop.numerics import Array

COEFFICIENTS = 20
MARGIN = 0.1
"""How far the spline reaches beyond the values of the pairs, on both sides; further out f' is constant."""
PENALTIES = tuple(10.0**-k for k in range(8))
"""Weights of the squared third differences that are weighed, the largest first."""
COARSE_PENALTIES = (1e-2, 1e-5, 1e-8)
"""The same for the integrated residuals of the first approach, which are smaller."""
CFL, COARSE_CFL = 0.5, 0.9
SMOOTHNESS_FLOOR = 1e-7
"""Squared differences of values below which WENO weights do not tell kinks from rounding."""
FASTEST, LEAST_DISSIPATION = 1.0, 1e-3
"""Speeds are sought up to a circle a frame (more cannot be told from less), dissipation between the two."""
INDEPENDENT = 0.2
"""Neighbouring residuals are alike: so large a share of them counts in the choice of the penalty."""
LEVELS = np.linspace(0.0, 1.0, 25)
"""Where f' is told."""

_INTERVALS = COEFFICIENTS - 3
_WIDTH = (1 + 2 * MARGIN) / _INTERVALS
_INTEGRAL = 12.0
"""Brings integrals over x to about the size of values."""
_FARTHEST = 0.5
_ROUNDS = 8
_TRIALS = 4
_ENOUGH = 0.05
"""A round that lowers the objective by a smaller share is the last."""


def spline_basis(values: Array) -> Array:
    """The cubic B-splines ``(values, COEFFICIENTS)`` at the values, constant beyond their range."""
    inside = np.clip((values + MARGIN) / _WIDTH, 0.0, _INTERVALS)
    first = np.minimum(inside.astype(np.intp), _INTERVALS - 1)
    s = inside - first
    r = 1 - s
    found = np.zeros((len(values), COEFFICIENTS))
    parts = (r**3, 4 - 6 * s**2 + 3 * s**3, 4 - 6 * r**2 + 3 * r**3, s**3)
    for k, part in enumerate(parts):
        found[np.arange(len(values)), first + k] = part / 6
    return found


def _knot_integrals() -> Array:
    """The integrals of the basis from the first knot to each: (intervals + 1, COEFFICIENTS)."""
    each = np.zeros((_INTERVALS + 1, COEFFICIENTS))
    for k in range(_INTERVALS):
        each[k + 1, k : k + 4] = _WIDTH * np.array([1.0, 11.0, 11.0, 1.0]) / 24
    return np.cumsum(each, axis=0)


def _roughness() -> Array:
    """The squared third differences of the coefficients as a matrix; the dissipation has none."""
    third = np.diff(np.eye(COEFFICIENTS), 3, axis=0)
    found = np.zeros((COEFFICIENTS + 1, COEFFICIENTS + 1))
    found[:-1, :-1] = third.T @ third
    return found


_AT_KNOTS, _AT_LEVELS, _ROUGHNESS = _knot_integrals(), spline_basis(LEVELS), _roughness()


def frame_step(frames: Array, theta: Array, *, tangents: bool, cfl: float = CFL) -> tuple[Array, Array]:
    """The frames ``(rows, n)`` one step later, and ``(rows, COEFFICIENTS + 1, n)`` derivatives by ``theta``.

    ``theta`` holds the coefficients of f' and the logarithm of the splitting speed.
    """
    from chop.numerics import kernels  # numba is only loaded when something is solved

    rows, n = frames.shape
    speed = math.exp(theta[-1])
    count = max(1, math.ceil(max(speed, _fastest(theta)) * n / cfl * (1 - 1e-9)))
    after, slopes = np.empty_like(frames), np.empty((rows, len(theta) if tangents else 0, n))
    kernels.step_spline_law(
        frames, -MARGIN, _WIDTH, theta[:-1], _AT_KNOTS, speed, SMOOTHNESS_FLOOR, count, tangents,
        after, slopes,
    )  # fmt: skip
    return after, slopes


def _fastest(theta: Array) -> float:
    """The largest |f'| at the levels."""
    return float(np.abs(_AT_LEVELS @ theta[:-1]).max())


@dataclass(frozen=True, eq=False)
class FluxFit:
    """A law u_t + f(u)_x = 0 as the pairs showed it, with the solver that goes with it."""

    lowest: float
    spread: float
    theta: Array
    penalty: float
    residual: float
    """Root mean square of what the law leaves unexplained of the pairs, in units of their values."""
    covariance: Array
    """Of the coefficients, as if residuals were independent."""

    @property
    def dissipation(self) -> float:
        """The splitting speed, in circles a frame."""
        return math.exp(self.theta[-1])

    @property
    def levels(self) -> Array:
        """Values between the least and the largest of the pairs."""
        return self.lowest + self.spread * LEVELS

    @property
    def speeds(self) -> Array:
        """f' at the levels, in circles a frame."""
        found: Array = _AT_LEVELS @ self.theta[:-1]
        return found

    @property
    def uncertainty(self) -> Array:
        """The standard deviation of `speeds`."""
        found: Array = np.sqrt(np.einsum("li,ij,lj->l", _AT_LEVELS, self.covariance, _AT_LEVELS).clip(min=0))
        return found

    def advance(self, frames: Array) -> Array:
        """Frames ``(rows, n)`` one step later; pairs without differences show no motion."""
        if not 0 < self.spread < math.inf:
            return np.where(self.spread == 0, frames, np.nan)
        after, _ = frame_step((frames - self.lowest) / self.spread, self.theta, tangents=False)
        return self.lowest + self.spread * after


def fit_flux(before: Array, after: Array) -> FluxFit:
    """The law that takes each row of ``before`` (pairs, n) to that of ``after`` in one step.

    The first approach compares integrals over x, in which a front at the wrong place is wrong by how far it
    is off: so it comes near from any start. Values are compared then, first with the smallest penalty;
    around that fit the penalty is chosen by generalised cross-validation.
    """
    low = float(min(before.min(), after.min()))
    spread = float(max(before.max(), after.max())) - low
    if not 0 < spread < math.inf:
        return _stillness(low, spread)
    before, after = (before - low) / spread, (after - low) / spread
    shift = cyclic_shift(before[-1], after[-1])
    theta = np.append(np.full(COEFFICIENTS, shift), math.log(max(1.2 * abs(shift), 0.05)))
    for penalty in COARSE_PENALTIES:
        theta = _least_squares(before, after, theta, penalty, COARSE_CFL, integrated=True).theta
    fit = _least_squares(before, after, theta, PENALTIES[-1], CFL)
    penalty = _chosen_penalty(fit)
    if penalty != PENALTIES[-1]:
        fit = _least_squares(before, after, fit.theta, penalty, CFL)
    covariance = fit.mean_square / fit.count * np.linalg.inv(fit.curvature(penalty))
    rms = spread * math.sqrt(fit.mean_square)
    return FluxFit(low, spread, fit.theta, penalty, rms, covariance[:-1, :-1])


def _stillness(low: float, spread: float) -> FluxFit:
    """What is known of pairs that are flat, or not finite: nothing."""
    theta = np.append(np.zeros(COEFFICIENTS), math.log(LEAST_DISSIPATION))
    return FluxFit(low, spread, theta, PENALTIES[0], 0.0, np.zeros((COEFFICIENTS, COEFFICIENTS)))


def cyclic_shift(before: Array, after: Array) -> float:
    """The shift, at most a quarter of the circle, that best takes one frame to the other, in circles."""
    n = len(before)
    products = np.fft.irfft(np.conj(np.fft.rfft(before)) * np.fft.rfft(after), n=n)
    shifts = np.arange(-(n // 4), n // 4 + 1)
    return float(shifts[np.argmax(products[shifts])]) / n


@dataclass(frozen=True, eq=False)
class _Linearised:
    """Residuals near theta: their mean square, its gradient and curvature (halved), and their number."""

    theta: Array
    mean_square: float
    gradient: Array
    normal: Array
    count: int

    def objective(self, penalty: float) -> float:
        return self.mean_square + penalty * float(self.theta @ _ROUGHNESS @ self.theta)

    def downhill(self, penalty: float) -> Array:
        found: Array = -(self.gradient + penalty * (_ROUGHNESS @ self.theta))
        return found

    def curvature(self, penalty: float) -> Array:
        """With a floor, for what neither pairs nor penalty know."""
        floor = 1e-10 * (self.normal.diagonal().max() + penalty)
        found: Array = self.normal + penalty * _ROUGHNESS + floor * np.eye(len(self.theta))
        return found


def _linearised(before: Array, after: Array, theta: Array, cfl: float, integrated: bool) -> _Linearised:
    from chop.numerics import kernels

    found, slopes = frame_step(before, theta, tangents=True, cfl=cfl)
    # The residuals as one more kind of derivative: all products are then one product.
    both = np.concatenate([slopes, (found - after)[:, None]], axis=1)
    if integrated:
        both = np.cumsum(both - both.mean(axis=-1, keepdims=True), axis=-1) * (_INTEGRAL / both.shape[-1])
        both -= both.mean(axis=-1, keepdims=True)
    kinds = np.ascontiguousarray(both.swapaxes(0, 1)).reshape(both.shape[1], -1)
    products = np.empty((len(kinds), len(kinds)))
    kernels.matrix_product(kinds, np.ascontiguousarray(kinds.T), products)
    products /= kinds.shape[1]
    return _Linearised(theta, float(products[-1, -1]), products[-1, :-1], products[:-1, :-1], kinds.shape[1])


def _least_squares(
    before: Array, after: Array, theta: Array, penalty: float, cfl: float, integrated: bool = False
) -> _Linearised:
    """Levenberg and Marquardt's descent from ``theta``, a fixed number of rounds at most."""
    now = _linearised(before, after, theta, cfl, integrated)
    damping = 1e-3
    for _ in range(_ROUNDS):
        curvature, old = now.curvature(penalty), now.objective(penalty)
        for _ in range(_TRIALS):
            move = np.linalg.solve(curvature + damping * np.diag(curvature.diagonal()), now.downhill(penalty))
            theta = _allowed(now.theta + np.clip(np.nan_to_num(move), -_FARTHEST, _FARTHEST))
            tried = _linearised(before, after, theta, cfl, integrated)
            if tried.objective(penalty) < old:
                break
            damping *= 8
        else:
            return now
        now = tried
        damping = max(damping / 8, 1e-9)
        if now.objective(penalty) > (1 - _ENOUGH) * old:
            return now
    return now


def _allowed(theta: Array) -> Array:
    """The nearest parameters within bounds.

    With a splitting speed below the fastest |f'| the scheme would sharpen what it should smear, and a long
    forecast might blow up.
    """
    found = np.clip(theta, -FASTEST, FASTEST)
    least = max(_fastest(found), LEAST_DISSIPATION)
    found[-1] = min(max(theta[-1], math.log(least)), math.log(FASTEST))
    return found


def _chosen_penalty(fit: _Linearised) -> float:
    """The penalty with the least error of prediction, judged by generalised cross-validation near a fit."""
    scores = []
    for penalty in PENALTIES:
        curvature = fit.curvature(penalty)
        move = np.linalg.solve(curvature, fit.downhill(penalty))
        mean_square = fit.mean_square + move @ (2 * fit.gradient + fit.normal @ move)
        freedom = np.trace(np.linalg.solve(curvature, fit.normal)) / (INDEPENDENT * fit.count)
        scores.append(max(mean_square, 0.0) / (1 - min(freedom, 0.95)) ** 2)
    return PENALTIES[int(np.argmin(scores))]
