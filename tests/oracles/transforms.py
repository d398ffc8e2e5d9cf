"""Transforms (F, G): a mapped prompt, the way back for the query's answer and for answer h."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from .grids import coincide, first_smallest
from .leaves import frame_at
from .prompt import Question, time_axis, visible_values
from .scales import conservation_scale, mfc_scale, rounding, sample_std


@dataclass
class Fitted:
    """What a transform makes of one prompt: `back(values)` and `back_held(h, values)`."""

    question: Question
    back: Callable
    back_held: Callable


def same_map(question, forward_input, forward_output, back):
    """A transform that maps every input alike, every output alike, and every answer back alike."""
    mapped = replace(
        question,
        xs=[forward_input(x) for x in question.xs],
        ys=[forward_output(y) for y in question.ys],
        query=forward_input(question.query),
    )
    return Fitted(mapped, back, lambda h, values: back(values))


def rescale(question, center="auto", target=1.0):
    """Shared rescaling (eqs. supp_mfc_rescaling, supp_mfc_rescaled_prediction).

    center="auto" is the rule of CHOP(MFC), center="mean" that of CHOP(Conservation).
    """
    m, sigma = {"auto": mfc_scale, "mean": conservation_scale}[center](question)

    def forward(u):
        return target * (u - m) / sigma

    return same_map(question, forward, forward, lambda u: sigma / target * u + m)


def channel_statistics(fields):
    """The mean and the floored sample standard deviation of each channel over all fields and points."""
    points = np.concatenate(fields)
    channels = range(points.shape[1])
    means = np.array([np.mean(points[:, q]) for q in channels])
    stds = np.array([max(sample_std(points[:, q]), rounding(points[:, q])) for q in channels])
    return means, stds


def normalize(question, separate=False, target=1.0):
    """VICON: the channelwise statistics of the example inputs, for inputs, query and outputs.

    separate=True: the outputs have their own, those of the example outputs.
    """
    m_in, s_in = channel_statistics(question.xs)
    m_out, s_out = channel_statistics(question.ys) if separate else (m_in, s_in)
    if len(m_out) != question.c_out:
        raise ValueError("normalize needs as many input as output channels, or separate=True")
    s_in, s_out = s_in / target, s_out / target
    return same_map(
        question, lambda u: (u - m_in) / s_in, lambda u: (u - m_out) / s_out, lambda u: s_out * u + m_out
    )


def minmax(question):
    """The smallest and the largest visible value become -1 and 1."""
    v = visible_values(question)
    low, width = np.min(v), max(np.max(v) - np.min(v), rounding(v))

    def forward(u):
        return 2 * (u - low) / width - 1

    return same_map(question, forward, forward, lambda u: (u + 1) / 2 * width + low)


def flip(question):
    """Every value changes its sign."""
    return same_map(question, lambda u: -u, lambda u: -u, lambda u: -u)


def increment(question):
    """The outputs become y_i - x_i, and the answer is added to the input that was asked.

    Of inputs that are not on the grid of their outputs the last frame counts, where there is a time.
    """
    if question.query.shape[1] != question.c_out:
        raise ValueError("increment needs outputs with the channels of their inputs")
    xs = last_on(question, question.x_coords, question.xs, question.y_coords)
    (query,) = last_on(question, [question.query_coords], [question.query], [question.at])
    mapped = replace(question, ys=[y - x for x, y in zip(xs, question.ys, strict=True)])
    return Fitted(mapped, lambda values: values + query, lambda h, values: values + xs[h])


def last_on(question, coords, functions, grids):
    """Functions as they are if all are on their grids, else their last frames there."""
    if all(coincide(x, y) for x, y in zip(coords, grids, strict=True)):
        return functions
    t = time_axis(question)
    if t is None:
        raise ValueError("increment needs outputs on the grid of their inputs, or a time")
    return [frame_at(x, u, y, t, np.max) for x, u, y in zip(coords, functions, grids, strict=True)]


def shift(field, r):
    """The cyclic shift of a field by r grid points."""
    return np.roll(field, r, axis=0)


def displacement(x, y):
    """The shift s of Algorithm consv_chain_eval for one pair: |r| <= n // 4, the smallest r on ties."""
    n = len(x)
    x_bar = x - np.mean(x, axis=0)
    y_bar = y - np.mean(y, axis=0)
    shifts = range(-(n // 4), n // 4 + 1)
    errors = [np.sum((shift(x_bar, r) - y_bar) ** 2) for r in shifts]
    return shifts[first_smallest(errors, np.sum(x_bar**2) + np.sum(y_bar**2))]


def latest_pair(question):
    """The pair with the largest time index, the first such."""
    times = question.times[: question.D]
    return times.index(max(times))


def moving_frame(question):
    """The moving frame (Algorithm consv_chain_eval): a field of time index t is shifted by -t s.

    The masks move with the outputs they belong to.
    """
    shapes = {field.shape for field in [*question.xs, *question.ys, question.query]}
    if len(shapes) != 1:
        raise ValueError("moving_frame needs inputs, outputs and query of one shape")
    D, times = question.D, question.times
    latest = latest_pair(question)
    s = displacement(question.xs[latest], question.ys[latest])
    mapped = replace(
        question,
        xs=[shift(question.xs[i], -times[i] * s) for i in range(D)],
        ys=[shift(question.ys[i], -(times[i] + 1) * s) for i in range(D)],
        y_masks=[shift(question.y_masks[i], -(times[i] + 1) * s) for i in range(D)],
        query=shift(question.query, -times[D] * s),
    )
    return Fitted(
        mapped,
        lambda values: shift(values, (times[D] + 1) * s),
        lambda h, values: shift(values, (times[h] + 1) * s),
    )


TRANSFORMS = {
    "rescale": rescale,
    "normalize": normalize,
    "minmax": minmax,
    "flip": flip,
    "increment": increment,
    "moving_frame": moving_frame,
}


def fit(transform, question):
    """Fit the transform ("name", options) to a prompt."""
    name, options = transform
    return TRANSFORMS[name](question, **options)
