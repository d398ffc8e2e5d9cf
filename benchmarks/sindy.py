"""PySINDy's weak form as its users would choose it, for `law.py`: a PDE from six frames, and a step with it.

The library has powers of u times derivatives up to u_xx, or only those that a conservation law may have.
Which of the two, the highest power, the width of the test functions and the threshold are chosen on questions
of the evolution split, for each flux anew. What is found is integrated by finite volumes; diffusion that
would be negative is taken as none, or nearly everything would blow up.
"""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import Any

import numpy as np

STEP, DOMAINS, MOST_STEPS = 0.1, 200, 20_000
WIDTHS, DEGREES, THRESHOLDS = (0.05, 0.15), (2, 3), (0.0, 0.1, 0.5, 2.0)
_TIMES = 6


@dataclass(frozen=True)
class Setting:
    width: float
    degree: int
    conservative: bool
    threshold: float

    @property
    def words(self) -> str:
        terms = "u^k u_x, u_xx" if self.conservative else "all terms"
        return f"{terms}, k <= {self.degree}, half width {self.width:g}, threshold {self.threshold:g}"


@cache
def library(width: float, degree: int, points: int) -> Any:
    import pysindy

    np.random.seed(0)  # where PySINDy draws its domains from
    axes = np.arange(points) / points, STEP * np.arange(_TIMES)
    return pysindy.WeakPDELibrary(
        function_library=pysindy.PolynomialLibrary(degree=degree, include_bias=False),
        derivative_order=2,
        spatiotemporal_grid=np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1),
        K=DOMAINS,
        H_xt=[width, 0.499 * STEP * (_TIMES - 1)],  # of the few frames as many as it allows
    )


def features(frames: np.ndarray, width: float, degree: int) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """The integrals of the terms, that of u_t, and the names of the terms."""
    import pysindy

    weak = library(width, degree, frames.shape[-1])
    u = pysindy.AxesArray(frames.T[..., None], {"ax_spatial": 0, "ax_time": 1, "ax_coord": 2})
    theta = np.asarray(weak.fit_transform(u))
    return theta, np.asarray(weak.convert_u_dot_integral(u)), list(weak.get_feature_names(["u"]))


def power_and_order(name: str) -> tuple[int, int]:
    """Of a term as PySINDy names it: u^2u_11 is u^2 u_xx."""
    derivative = re.search(r"u_(1+)$", name)
    rest = name[: derivative.start()] if derivative else name
    power = 0 if not rest else int(rest.partition("^")[2] or rest.count("u"))
    return power, len(derivative[1]) if derivative else 0


def found_terms(
    made: tuple[np.ndarray, np.ndarray, list[str]], setting: Setting
) -> dict[tuple[int, int], float]:
    import pysindy

    theta, target, names = made
    terms = [power_and_order(name) for name in names]
    allowed = [
        i
        for i, (k, order) in enumerate(terms)
        if not setting.conservative or order == 1 or (k, order) == (0, 2)
    ]
    fit = pysindy.STLSQ(threshold=setting.threshold, alpha=1e-6, normalize_columns=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a threshold that leaves no term is an answer, too: nothing moves
        fit.fit(theta[:, allowed], target)
    return {terms[i]: float(c) for i, c in zip(allowed, np.ravel(fit.coef_), strict=True) if c != 0}


def one_step(terms: dict[tuple[int, int], float], u: np.ndarray) -> np.ndarray:
    """The frame a step later, infinite where it blew up."""
    n, now, steps = len(u), 0.0, 0
    limit = 100 * np.abs(u).max()

    def polynomial(order: int, values: np.ndarray) -> np.ndarray:
        return sum((c * values**k for (k, o), c in terms.items() if o == order), np.zeros_like(values))

    def flux(values: np.ndarray) -> np.ndarray:
        return -sum((c * values ** (k + 1) / (k + 1) for (k, o), c in terms.items() if o == 1), 0 * values)

    def change(u: np.ndarray) -> np.ndarray:
        back, ahead = u - np.roll(u, 1), np.roll(u, -1) - u
        tilt = np.where(back * ahead > 0, np.sign(back) * np.minimum(np.abs(back), np.abs(ahead)), 0.0)
        left, right = u + tilt / 2, np.roll(u - tilt / 2, -1)
        between = left + np.linspace(0, 1, 5)[:, None] * (right - left)
        fastest = np.abs(polynomial(1, between)).max(axis=0)
        edge = (flux(left) + flux(right) - fastest * (right - left)) / 2
        bend = n**2 * (ahead - back)
        return -n * (edge - np.roll(edge, 1)) + polynomial(2, u).clip(min=0) * bend + polynomial(0, u)

    while now < STEP * (1 - 1e-9):
        fastest = np.abs(polynomial(1, np.linspace(u.min(), u.max(), 50))).max()
        needed = fastest * n / 0.4 + polynomial(2, u).max().clip(min=0) * n**2 / 0.25 + 1 / STEP
        steps += 1
        if not (np.abs(u).max() < limit and needed * STEP < MOST_STEPS and steps < MOST_STEPS):
            return np.full(n, np.inf)
        h = min(1 / needed, STEP - now)
        tried = u + h * change(u)
        u = (u + tried + h * change(tried)) / 2
        now += h
    return u


def errors(frames: np.ndarray, setting: Setting) -> np.ndarray:
    """Relative errors of one step from the sixth frame; infinite where it blew up."""
    found = []
    for one in frames:
        made = features(one[:6], setting.width, setting.degree)
        found.append(_error(made, setting, one))
    return np.array(found)


def _error(made: tuple[np.ndarray, np.ndarray, list[str]], setting: Setting, one: np.ndarray) -> float:
    with np.errstate(all="ignore"):
        after = one_step(found_terms(made, setting), one[5])
    return float(np.linalg.norm(after - one[6]) / np.linalg.norm(one[6]))


def best_setting(frames: np.ndarray) -> Setting:
    """The one with the least median error."""
    scores = {}
    for width, degree in product(WIDTHS, DEGREES):
        made = [features(one[:6], width, degree) for one in frames]
        for conservative, threshold in product((False, True), THRESHOLDS):
            setting = Setting(width, degree, conservative, threshold)
            scores[setting] = np.median(
                [_error(m, setting, one) for m, one in zip(made, frames, strict=True)]
            )
    return min(scores, key=lambda setting: scores[setting])
