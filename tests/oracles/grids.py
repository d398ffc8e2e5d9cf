"""Nearest-neighbour maps between grids, and the distances between input functions."""

import numpy as np


def coincide(source_coords, target_coords):
    """Whether two grids are the same points in the same order."""
    return source_coords.shape == target_coords.shape and bool(np.all(source_coords == target_coords))


def nearest_index(source_coords, target_coords):
    """For each target point the source point at the smallest squared distance, the first on ties."""
    indices = []
    for target in target_coords:
        best, best_distance = 0, np.inf
        for i, source in enumerate(source_coords):
            distance = np.sum((source - target) ** 2)
            if distance < best_distance:
                best, best_distance = i, distance
        indices.append(best)
    return np.array(indices, dtype=int)


def resample(source_coords, target_coords, values):
    """The interpolation operators I^x and I^y: identity if the grids coincide, else nearest neighbour."""
    if coincide(source_coords, target_coords):
        return values
    return values[nearest_index(source_coords, target_coords)]


def distance(question, j, values, coords, scale):
    """d_j* (eq. residual_transfer_distance, supp_air_holdout_distance): mean squared scaled difference."""
    difference = resample(question.x_coords[j], coords, question.xs[j]) - values
    return np.mean((difference / scale) ** 2)


def first_smallest(costs, size):
    """The first cost that is the smallest up to rounding; `size` is that of the terms it was summed from.

    Costs that are equal on paper come out unequal by the order of summation; that must not decide.
    """
    bound = min(costs) + 64 * np.finfo(float).eps * size
    return next(i for i, cost in enumerate(costs) if cost <= bound)
