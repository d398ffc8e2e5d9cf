"""The flux of a scalar conservation law from pairs of frames, by least squares through the solver.

Values are taken to where the pairs span [0, 1], the circle has length 1 and the time between the frames of a
pair is 1: speeds are in circles a frame. f' is a cubic B-spline; a penalty on its third differences decides
where the pairs are silent. The splitting speed, which is the numerical dissipation, is fitted as well, and so
is the viscosity, which is 0 where the pairs show none.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from chop.numerics import Array
from chop.numerics.penalised import Linearised, Penalised, from_products

COEFFICIENTS = 20
MARGIN = 0.1
"""How far the spline reaches beyond the values of the pairs, on both sides; further out f' is constant."""
PENALTIES = tuple(10.0**-k for k in range(8))
"""Weights of the squared third differences that are weighed, the largest first."""
COARSE_PENALTIES = (1e-2, 1e-5, 1e-8)
"""The same for the integrated residuals of the first approach, which are smaller."""
CFL, COARSE_CFL, VISCOUS_CFL = 0.5, 0.9, 0.5
SMOOTHNESS_FLOOR = 1e-7
"""Squared differences of values below which WENO weights do not tell kinks from rounding."""
FASTEST, LEAST_DISSIPATION = 1.0, 1e-3
"""Speeds are sought up to a circle a frame (more cannot be told from less), dissipation between the two."""
MORE_DISSIPATION = (1.4, 2.0, 2.8, 4.0)
"""Splitting speeds that are tried where a circle a frame is not enough: data of a scheme that smears far more
than its waves need. Each takes as many steps more, so they are tried last."""
MOST_VISCOUS = 0.02
"""In squared circles a frame: the longest wave loses half of its height in a frame."""
LEVELS = np.linspace(0.0, 1.0, 25)
"""Where f and f' are told."""

_INTERVALS = COEFFICIENTS - 3
_WIDTH = (1 + 2 * MARGIN) / _INTERVALS
_INTEGRAL = 12.0
"""Brings integrals over x to about the size of values."""
_VISCOSITY = 0.01
"""The unit in which viscosity stands among the parameters, so that all are of about one size."""
_DISSIPATION, _VISCOUS = COEFFICIENTS, COEFFICIENTS + 1
PARAMETERS = COEFFICIENTS + 2
"""The coefficients of f', the logarithm of the splitting speed, and the viscosity in its unit."""
_LEAST = np.append(np.full(PARAMETERS - 1, -np.inf), 0.0)


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


def _level_integrals() -> Array:
    """The integrals of the basis from the first level to each, (levels, COEFFICIENTS), by Gauss's rule."""
    # Three nodes are exact for cubics; knots in between are met by cutting there.
    cuts = np.union1d(LEVELS, np.clip(-MARGIN + _WIDTH * np.arange(_INTERVALS + 1), 0.0, 1.0))
    nodes, weights = np.polynomial.legendre.leggauss(3)
    half = np.diff(cuts) / 2
    at = (cuts[:-1] + half)[:, None] + half[:, None] * nodes
    each = np.einsum("i,k,ikj->ij", half, weights, spline_basis(at.ravel()).reshape(*at.shape, -1))
    summed = np.concatenate([np.zeros((1, COEFFICIENTS)), np.cumsum(each, axis=0)])
    found: Array = summed[np.searchsorted(cuts, LEVELS)]
    return found


def _roughness() -> Array:
    """The squared third differences of the coefficients as a matrix; the other parameters have none."""
    third = np.diff(np.eye(COEFFICIENTS), 3, axis=0)
    found = np.zeros((PARAMETERS, PARAMETERS))
    found[:COEFFICIENTS, :COEFFICIENTS] = third.T @ third
    return found


_AT_KNOTS, _ROUGHNESS = _knot_integrals(), _roughness()
_AT_LEVELS, _TO_LEVELS = spline_basis(LEVELS), _level_integrals()


def frame_step(frames: Array, theta: Array, *, tangents: bool, cfl: float = CFL) -> tuple[Array, Array]:
    """The frames ``(rows, n)`` one step later, and ``(rows, PARAMETERS, n)`` derivatives by ``theta``."""
    from chop.numerics import kernels  # numba is only loaded when something is solved

    rows, n = frames.shape
    speed, viscosity = math.exp(theta[_DISSIPATION]), _VISCOSITY * float(theta[_VISCOUS])
    needed = max(speed, _fastest(theta)) * n / cfl + viscosity * n**2 / VISCOUS_CFL
    count = max(1, math.ceil(needed * (1 - 1e-9)))
    after, slopes = np.empty_like(frames), np.empty((rows, PARAMETERS if tangents else 0, n))
    kernels.step_spline_law(
        frames, -MARGIN, _WIDTH, theta[:COEFFICIENTS], _AT_KNOTS, speed, viscosity, SMOOTHNESS_FLOOR, count,
        tangents, after, slopes,
    )  # fmt: skip
    slopes[:, _VISCOUS:] *= _VISCOSITY
    return after, slopes


def _fastest(theta: Array) -> float:
    """The largest |f'| at the levels."""
    return float(np.abs(_AT_LEVELS @ theta[:COEFFICIENTS]).max())


@dataclass(frozen=True, eq=False)
class FluxFit:
    """A law u_t + f(u)_x = nu u_xx as the pairs showed it, with the solver that goes with it."""

    lowest: float
    spread: float
    theta: Array
    penalty: float
    residual: float
    """Root mean square of what the law leaves unexplained of the pairs, in units of their values."""
    covariance: Array
    """Of theta, as if residuals were independent."""

    @property
    def dissipation(self) -> float:
        """The splitting speed, in circles a frame."""
        return math.exp(self.theta[_DISSIPATION])

    @property
    def viscosity(self) -> float:
        """nu, in squared circles a frame."""
        return _VISCOSITY * float(self.theta[_VISCOUS])

    @property
    def viscosity_uncertainty(self) -> float:
        """The standard deviation of `viscosity`; where that is 0, how much might hide."""
        return _VISCOSITY * math.sqrt(max(self.covariance[_VISCOUS, _VISCOUS], 0.0))

    @property
    def levels(self) -> Array:
        """Values between the least and the largest of the pairs."""
        return self.lowest + self.spread * LEVELS

    @property
    def speeds(self) -> Array:
        """f' at the levels, in circles a frame."""
        found: Array = _AT_LEVELS @ self.theta[:COEFFICIENTS]
        return found

    @property
    def uncertainty(self) -> Array:
        """The standard deviation of `speeds`."""
        return self._deviation(_AT_LEVELS)

    @property
    def flux(self) -> Array:
        """f at the levels less f at the lowest, which nothing shows; in values times circles a frame."""
        found: Array = self.spread * (_TO_LEVELS @ self.theta[:COEFFICIENTS])
        return found

    @property
    def flux_uncertainty(self) -> Array:
        """The standard deviation of `flux`."""
        return self.spread * self._deviation(_TO_LEVELS)

    def _deviation(self, rows: Array) -> Array:
        """The standard deviations of linear functions of the coefficients."""
        among = self.covariance[:COEFFICIENTS, :COEFFICIENTS]
        found: Array = np.sqrt(np.einsum("li,ij,lj->l", rows, among, rows).clip(min=0))
        return found

    def advance(self, frames: Array) -> Array:
        """Frames ``(rows, n)`` one step later; pairs without differences show no motion."""
        if not 0 < self.spread < math.inf:
            return np.where(self.spread == 0, frames, np.nan)
        after, _ = frame_step((frames - self.lowest) / self.spread, self.theta, tangents=False)
        return self.lowest + self.spread * after

    def without_each(self, before: Array, after: Array) -> Array:
        """What the law of the other pairs would make of each input ``(pairs, n)``.

        The law without a pair is one step of Gauss and Newton away from that of all: the pair's own pull is
        taken back, to first order. So a judgement of the law costs a fifth of a fit and not as many fits as
        there are pairs.
        """
        if not 0 < self.spread < math.inf:
            return self.advance(before)
        before, after = (before - self.lowest) / self.spread, (after - self.lowest) / self.spread
        found, slopes = frame_step(before, self.theta, tangents=True)
        count = after.size
        normals = np.einsum("rpn,rqn->rpq", slopes, slopes) / count
        pulls = np.einsum("rpn,rn->rp", slopes, found - after) / count
        floor = 1e-10 * (normals.sum(axis=0).diagonal().max() + self.penalty)
        whole = normals.sum(axis=0) + self.penalty * _ROUGHNESS + floor * np.eye(PARAMETERS)
        predicted = []
        for normal, pull, frame in zip(normals, pulls, before, strict=True):
            move = np.nan_to_num(np.linalg.lstsq(whole - normal, pull, rcond=None)[0])
            theta = _allowed(self.theta + np.clip(move, -0.5, 0.5), max(FASTEST, self.dissipation))
            predicted.append(frame_step(frame[None], theta, tangents=False)[0][0])
        return self.lowest + self.spread * np.stack(predicted)


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
    coarse = _problem(before[::2], after[::2], COARSE_CFL, integrated=True)
    fine = _problem(before, after, CFL)
    near = coarse.linearise(_start(cyclic_shift(before[-1], after[-1])))
    for penalty in COARSE_PENALTIES:
        near = coarse.descend(near, penalty)
    fit = fine.descend(fine.linearise(near.theta), PENALTIES[-1])
    penalty = fine.chosen_penalty(fit, PENALTIES)
    if penalty != PENALTIES[-1]:
        fit = fine.descend(fit, penalty)
    if fit.theta[_DISSIPATION] >= math.log(FASTEST):
        smeared = _problem(before, after, COARSE_CFL, most=MORE_DISSIPATION[-1])
        # What was found with too little dissipation may be rough: it is smoothed before it is trusted.
        fit = smeared.descend(smeared.linearise(_more_dissipation(before, after, fit.theta)), PENALTIES[2])
        penalty = smeared.chosen_penalty(fit, PENALTIES)
        fit = smeared.descend(fit, penalty)
    rms = spread * math.sqrt(fit.mean_square)
    return FluxFit(low, spread, fit.theta, penalty, rms, fine.covariance(fit, penalty))


def _more_dissipation(before: Array, after: Array, theta: Array) -> Array:
    """Parameters with the splitting speed that explains the pairs best, all else as it is."""
    tried = [np.copy(theta) for _ in range(1 + len(MORE_DISSIPATION))]
    for one, speed in zip(tried[1:], MORE_DISSIPATION, strict=True):
        one[_DISSIPATION] = math.log(speed)
    errors = [frame_step(before, one, tangents=False, cfl=COARSE_CFL)[0] - after for one in tried]
    return tried[int(np.argmin([np.square(error).sum() for error in errors]))]


def _problem(
    before: Array, after: Array, cfl: float, integrated: bool = False, most: float = FASTEST
) -> Penalised:
    def linearise(theta: Array) -> Linearised:
        found, slopes = frame_step(before, theta, tangents=True, cfl=cfl)
        residuals = found - after
        if integrated:
            slopes, residuals = _integrals(slopes), _integrals(residuals)
        return from_products(theta, slopes, residuals)

    return Penalised(linearise, _ROUGHNESS, lambda theta: _allowed(theta, most), _LEAST)


def _integrals(functions: Array) -> Array:
    """Integrals over x of functions ``(..., n)`` on the circle; neither they nor these have a mean."""
    n = functions.shape[-1]
    summed = np.cumsum(functions - functions.mean(axis=-1, keepdims=True), axis=-1) * (_INTEGRAL / n)
    found: Array = summed - summed.mean(axis=-1, keepdims=True)
    return found


def _start(shift: float) -> Array:
    """Everything moves at one speed, without viscosity."""
    return np.append(np.full(COEFFICIENTS, shift), [math.log(max(1.2 * abs(shift), 0.05)), 0.0])


def _stillness(low: float, spread: float) -> FluxFit:
    """What is known of pairs that are flat, or not finite: nothing."""
    theta = np.append(np.zeros(COEFFICIENTS), [math.log(LEAST_DISSIPATION), 0.0])
    return FluxFit(low, spread, theta, PENALTIES[0], 0.0, np.zeros((PARAMETERS, PARAMETERS)))


def cyclic_shift(before: Array, after: Array) -> float:
    """The shift, at most a quarter of the circle, that best takes one frame to the other, in circles."""
    n = len(before)
    products = np.fft.irfft(np.conj(np.fft.rfft(before)) * np.fft.rfft(after), n=n)
    shifts = np.arange(-(n // 4), n // 4 + 1)
    return float(shifts[np.argmax(products[shifts])]) / n


def _allowed(theta: Array, most: float = FASTEST) -> Array:
    """The nearest parameters within bounds; ``most`` is the largest splitting speed.

    With a splitting speed below the fastest |f'| the scheme would sharpen what it should smear, and a long
    forecast might blow up.
    """
    found = np.clip(theta, -FASTEST, FASTEST)
    least = max(_fastest(found), LEAST_DISSIPATION)
    found[_DISSIPATION] = min(max(theta[_DISSIPATION], math.log(least)), math.log(most))
    found[_VISCOUS] = min(max(theta[_VISCOUS], 0.0), MOST_VISCOUS / _VISCOSITY)
    return found
