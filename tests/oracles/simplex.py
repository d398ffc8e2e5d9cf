"""Convex quadratic problems on the probability simplex."""

import numpy as np


def project_to_simplex(v):
    """The exact Euclidean projection onto {a >= 0, sum a = 1}, by sorting."""
    descending = np.sort(v)[::-1].tolist()
    total, threshold = 0.0, 0.0
    for i, value in enumerate(descending, start=1):
        total += value
        candidate = (total - 1.0) / i
        if value - candidate > 0:
            threshold = candidate
    return np.maximum(v - threshold, 0.0)


def minimize_on_simplex(M):
    """argmin of a' M a over the simplex (eq. candidate_weight_fit) by projected gradient descent."""
    K = len(M)
    step = 1.0 / (2.0 * max(np.linalg.eigvalsh(M)[-1], 1e-12))
    a = np.full(K, 1.0 / K)
    for _ in range(512):
        previous = a
        a = project_to_simplex(previous - step * 2.0 * (M @ previous))
        if np.abs(a - previous).max() <= 1e-9:
            break
    return a
