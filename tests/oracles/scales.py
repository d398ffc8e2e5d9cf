"""Prompt-derived centres and scales.

The paper's floors are numbers, meant for data of size 1 (`chains` has them literally); here they are
relative to the data, so that units decide nothing.
"""

import numpy as np

from .prompt import visible_values

EPS = np.finfo(np.float64).eps


def sample_std(values):
    """The sample standard deviation (n - 1) of a vector; a single value has none, so 0."""
    values = np.ravel(values)
    return np.std(values, ddof=1) if len(values) > 1 else 0.0


def rounding(values):
    """The machine epsilon for data of this size; the plain one where all are 0."""
    return EPS * (np.max(np.abs(values)) or 1.0)


def conservation_scale(question):
    """(m_sc, sigma_sc) of eq. supp_conservation_rescaling_statistics."""
    v = visible_values(question)
    return np.mean(v), max(sample_std(v), rounding(v))


def mfc_scale(question):
    """(m_sc, sigma_sc): eq. supp_mfc_nonnegative_rescaling, or the rule for sign-changing prompts."""
    v = visible_values(question)
    if np.min(v) >= -rounding(v):
        return 0.0, np.sqrt(np.mean(v**2) or EPS)
    return np.mean(v), max(sample_std(v), rounding(v))


def air_scale(question):
    """sigma_q^val of eq. supp_air_holdout_distance, over the example inputs and the query.

    On a held-out prompt the D - 1 remaining inputs and the query x_h are the paper's x_1..x_D.
    """
    points = np.concatenate([*question.xs, question.query])
    floors = [1e-4 * (np.sqrt(np.mean(feature**2)) or 1e4) for feature in points.T]
    return np.array([max(np.std(feature), floor) for feature, floor in zip(points.T, floors, strict=True)])
