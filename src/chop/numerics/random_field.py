"""Gaussian random fields on the circle, as functions and not as vectors.

The kernel exp(-|e(x)-e(y)|^2 / (2 l^2)) with e(x) = (cos 2 pi x, sin 2 pi x) depends on x - y alone, so a
field is a Fourier series with independent coefficients. Drawing those instead of values gives one and the
same function on every grid: a finer grid refines the problem, and does not change it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from chop.core.errors import ProblemError
from chop.numerics import Array

SHORTEST = 0.01
_SMALLEST = 1e-34  # relative variance: amplitudes below 1e-17 change no value

Coefficients = NDArray[np.complex128]


@dataclass(frozen=True)
class CircleField:
    """A centred Gaussian field with unit variance and a correlation length."""

    length: float

    def __post_init__(self) -> None:
        if not SHORTEST <= self.length <= 1e6:
            raise ProblemError(f"the length scale must be {SHORTEST} or more, not {self.length}")

    @property
    def variances(self) -> Array:
        """Variance of each Fourier mode 0, 1, ..., down to nothing."""
        return _variances(float(self.length))

    def draw(self, stream: np.random.Generator) -> Coefficients:
        """Coefficients c of u(x) = Re sum_k c_k exp(2 pi i k x)."""
        scale = np.sqrt(self.variances)
        noise = stream.standard_normal(2 * len(scale) - 1)
        drawn = scale.astype(np.complex128)
        drawn[0] *= noise[0]
        drawn[1:] *= np.sqrt(2.0) * (noise[1::2] - 1j * noise[2::2])
        return drawn


@lru_cache(maxsize=64)
def _variances(length: float) -> Array:
    """exp(-z) I_k(z) with z = 1 / l^2: the kernel's Fourier series, from the ratios of Bessel functions.

    Their continued fraction, run backwards, is right to rounding for every mode. A discrete transform of
    the kernel is not: its rounding errors, of relative size 1e-16, would become rough modes of size 1e-8.
    """
    z = 1.0 / length**2
    modes = int(14.0 * np.sqrt(2.0 * z)) + 60
    ratios, ratio = np.ones(modes), 0.0
    for k in range(modes - 1, 0, -1):
        ratio = 1.0 / (2.0 * k / z + ratio)
        ratios[k] = ratio
    with np.errstate(under="ignore"):
        series = np.cumprod(ratios)
    found = series / (series[0] + 2.0 * series[1:].sum())
    found = np.array(found[found > _SMALLEST * found[0]])
    found.setflags(write=False)
    return found


def on_grid(coefficients: Coefficients, points: int) -> Array:
    """Values at j / points, exact for any number of points: modes beyond the grid are folded onto it."""
    *batch, modes = coefficients.shape
    laps = -(-modes // points)
    padded = np.zeros((*batch, laps * points), dtype=np.complex128)
    padded[..., :modes] = coefficients
    folded = padded.reshape(*batch, laps, points).sum(axis=-2)
    return np.ascontiguousarray(np.fft.ifft(folded, axis=-1).real * points)
