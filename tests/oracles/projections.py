"""Maps of a prediction onto what is demanded of it; each sees the prompt that was asked."""

from itertools import pairwise

import numpy as np

from .prompt import time_axis
from .scales import EPS


def conserve_mean(values, question):
    """Mass conservation (Algorithm consv_chain_eval, last step), channel by channel."""
    if question.query.shape[1] != values.shape[1]:
        raise ValueError("conserve_mean needs as many input as output channels")
    result = np.empty(values.shape)
    for c in range(values.shape[1]):
        result[:, c] = values[:, c] + np.mean(question.query[:, c]) - np.mean(values[:, c])
    return result


def nonnegative(values, question):
    """Negative values become zero."""
    return np.maximum(values, 0.0)


def within_examples(values, question):
    """Each channel is clipped to the range of its observed example outputs, if there are any."""
    result = values.copy()
    for c in range(values.shape[1]):
        observed = [y[mask[:, c], c] for y, mask in zip(question.ys, question.y_masks, strict=True)]
        observed = np.concatenate(observed)
        if len(observed) > 0:
            result[:, c] = np.clip(values[:, c], np.min(observed), np.max(observed))
    return result


def finite(values, question=None):
    """Non-finite entries become zero."""
    return np.where(np.isfinite(values), values, 0.0)


def unit_mass(values, question):
    """Each channel is divided by its mean over the points, or over each group of equal t.

    A group is left alone unless its mean exceeds the rounding of its values.
    """
    t = time_axis(question)
    labels = np.zeros(len(question.at)) if t is None else question.at[:, t]
    result = values.copy()
    for label in np.unique(labels):
        group = labels == label
        for c in range(values.shape[1]):
            mass = np.mean(values[group, c])
            if mass > EPS * np.mean(np.abs(values[group, c])):
                result[group, c] = values[group, c] / mass
    return result


def bound_variation(values, question):
    """Each channel is drawn towards its mean until it varies no more than the query."""
    if len(question.axes) != 1 or question.query.shape[1] != values.shape[1]:
        raise ValueError("bound_variation needs one coordinate and as many input as output channels")
    around = question.axes[0][1] is not None
    result = values.copy()
    for c in range(values.shape[1]):
        allowed = variation(question.query[:, c], question.query_coords[:, 0], around)
        found = variation(values[:, c], question.at[:, 0], around)
        if found > allowed:
            mean = np.mean(values[:, c])
            result[:, c] = mean + allowed / found * (values[:, c] - mean)
    return result


def variation(values, coords, around):
    """The sum of all rises and falls from point to point."""
    walk = [values[i] for i in np.argsort(coords, kind="stable")]
    if around:
        walk.append(walk[0])
    return sum(abs(b - a) for a, b in pairwise(walk))


PROJECTIONS = {
    "conserve_mean": conserve_mean,
    "nonnegative": nonnegative,
    "within_examples": within_examples,
    "finite": finite,
    "unit_mass": unit_mass,
    "bound_variation": bound_variation,
}


def project(projection, values, question):
    """Apply the projection ("name", options)."""
    name, options = projection
    return PROJECTIONS[name](values, question, **options)
