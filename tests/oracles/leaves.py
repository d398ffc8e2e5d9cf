"""Answers made from the prompt alone (eqs. supp_air_endpoint_frames to supp_air_query_candidates)."""

import numpy as np

from .grids import distance, first_smallest, resample
from .prompt import time_axis
from .scales import air_scale


def frame(question, extreme):
    """The query's points with the extreme t, mapped to `at` over the coordinates other than t."""
    t = time_axis(question)
    if t is None:
        return copy_query(question)
    return frame_at(question.query_coords, question.query, question.at, t, extreme)


def frame_at(coords, values, at, t, extreme):
    """The same for any function."""
    chosen = np.flatnonzero(coords[:, t] == extreme(coords[:, t]))
    return resample(np.delete(coords[chosen], t, axis=1), np.delete(at, t, axis=1), values[chosen])


def last_frame(question):
    """p_last (eq. supp_air_endpoint_frames)."""
    return frame(question, np.max)


def first_frame(question):
    """p_first (eq. supp_air_endpoint_frames)."""
    return frame(question, np.min)


def mean_frame(question):
    """The mean over all times of the query, place by place."""
    t = time_axis(question)
    if t is None:
        return copy_query(question)
    times = question.query_coords[:, t]
    target = np.delete(question.at, t, axis=1)
    frames = []
    for time in np.unique(times):
        chosen = np.flatnonzero(times == time)
        source = np.delete(question.query_coords[chosen], t, axis=1)
        frames.append(resample(source, target, question.query[chosen]))
    return np.mean(frames, axis=0)


def copy_query(question):
    """The query itself, at the points where the answer is wanted."""
    return resample(question.query_coords, question.at, question.query)


def query_mean(question):
    """The mean of the query, channel by channel, at every point."""
    return np.array([[np.mean(column) for column in question.query.T] for _ in question.at])


def mean_output(question):
    """y-bar (eq. supp_air_query_means): the mean of the observed outputs, point by point.

    Where no output is observed it is the mean of the filled-in values.
    """
    ys, masks = [], []
    for j in range(question.D):
        ys.append(resample(question.y_coords[j], question.at, question.ys[j]))
        masks.append(resample(question.y_coords[j], question.at, question.y_masks[j]))
    result = np.zeros(ys[0].shape)
    for s in range(result.shape[0]):
        for c in range(result.shape[1]):
            observed = [y[s, c] for y, mask in zip(ys, masks, strict=True) if mask[s, c]]
            result[s, c] = np.mean(observed if observed else [y[s, c] for y in ys])
    return result


def nearest_index_of_pair(question):
    """j_*: the example whose input is nearest to the query, the first on ties."""
    sigma = air_scale(question)
    distances = [
        distance(question, j, question.query, question.query_coords, sigma) for j in range(question.D)
    ]
    return first_smallest(distances, min(distances))


def nearest_output(question):
    """y_{j_*} as it is stored (eq. supp_air_query_candidates)."""
    j = nearest_index_of_pair(question)
    return resample(question.y_coords[j], question.at, question.ys[j])


LEAVES = {
    "last_frame": last_frame,
    "first_frame": first_frame,
    "mean_frame": mean_frame,
    "copy_query": copy_query,
    "query_mean": query_mean,
    "mean_output": mean_output,
    "nearest_output": nearest_output,
}
