"""Prompt-derived centres and scales."""

import numpy as np

from .prompt import visible_values

EPS = np.finfo(np.float64).eps


def sample_std(values):
    """The sample standard deviation (n - 1) of a vector; a single value has none, so 0."""
    values = np.ravel(values)
    return np.std(values, ddof=1) if len(values) > 1 else 0.0


def conservation_scale(question):
    """(m_sc, sigma_sc) of eq. supp_conservation_rescaling_statistics."""
    v = visible_values(question)
    return np.mean(v), max(sample_std(v), EPS)


def mfc_scale(question):
    """(m_sc, sigma_sc): eq. supp_mfc_nonnegative_rescaling, or the rule for sign-changing prompts."""
    v = visible_values(question)
    if np.min(v) >= -EPS:
        return 0.0, np.sqrt(max(np.mean(v**2), EPS))
    return np.mean(v), max(sample_std(v), EPS)


def air_scale(question):
    """sigma_q^val of eq. supp_air_holdout_distance, over the example inputs and the query.

    On a held-out prompt the D - 1 remaining inputs and the query x_h are the paper's x_1..x_D.
    """
    points = np.concatenate([*question.xs, question.query])
    return np.array([max(np.std(points[:, q]), 1e-4) for q in range(points.shape[1])])
