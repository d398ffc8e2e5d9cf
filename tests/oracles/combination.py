"""The arithmetic of `combine`: Algorithm context_validated_combination per channel, with masks."""

from dataclasses import dataclass

import numpy as np

from .projections import finite
from .simplex import minimize_on_simplex


@dataclass
class Weights:
    """One channel's weights a at the query, those at each example, and the shrinkage lambda."""

    query: np.ndarray
    examples: list
    shrinkage: float


def reference(K):
    """a_ref, which selects candidate 1."""
    return np.eye(K)[0]


def error_matrix(y, mask, candidates, c):
    """M_h of one channel (eq. candidate_error_matrix) over its observed points; None without any."""
    observed = mask[:, c]
    if not observed.any():
        return None
    errors = [candidate[observed, c] - y[observed, c] for candidate in candidates]
    return np.array([[np.mean(e_k * e_r) for e_r in errors] for e_k in errors])


def mean_matrix(matrices):
    """The mean of the matrices that exist; None without any."""
    existing = [M_h for M_h in matrices if M_h is not None]
    return sum(existing) / len(existing) if existing else None


def fitted_weights(M, K):
    """a-hat (eq. candidate_weight_fit); the reference where nothing is known."""
    return reference(K) if M is None else minimize_on_simplex(M)


def stabilized_weights(matrices, K, shrink):
    """Eqs. candidate_weight_fit to candidate_weight_shrinkage from the D contributions M_h.

    At example h the delete-one weights are shrunk with the same lambda.
    """
    D = len(matrices)
    a_ref = reference(K)
    M = mean_matrix(matrices)
    if M is None:
        return Weights(a_ref, [a_ref] * D, 0.0)
    a_hat = fitted_weights(M, K)
    deleted = []
    for h in range(D):
        M_rest = mean_matrix([matrices[j] for j in range(D) if j != h])
        deleted.append(fitted_weights(M_rest, K))
    a_bar = sum(deleted) / D
    V = np.zeros((K, K))
    for a_h in deleted:
        V += np.outer(a_h - a_bar, a_h - a_bar)
    V *= (D - 1) / D
    delta = a_hat - a_ref
    if shrink:
        signal = delta @ M @ delta
        total = signal + np.trace(M @ V)
        shrinkage = signal / total if total > 0 else 0.0
    else:
        shrinkage = 1.0
    at_examples = [a_ref + shrinkage * (a_h - a_ref) for a_h in deleted]
    return Weights(a_ref + shrinkage * delta, at_examples, shrinkage)


def mix(a, candidates, c):
    """sum_k a_k candidate_k in one channel (eq. candidate_combination)."""
    return sum(a_k * candidate[:, c] for a_k, candidate in zip(a, candidates, strict=True))


def combine(question, held, query, channels=(), shrink=True):
    """The combined answer and its D held-out answers; no channels named means every channel.

    held[h][k] and query[k] are the candidates. Each channel has its own weights; the channels that are
    not combined are those of candidate 1. Non-finite entries become zero, as in Algorithm air_chain.
    """
    D, K = question.D, len(query)
    held = [[finite(candidate) for candidate in held[h]] for h in range(D)]
    result = query[0].copy()
    result_held = [held[h][0].copy() for h in range(D)]
    for c in channels if channels else range(question.c_out):
        matrices = [error_matrix(question.ys[h], question.y_masks[h], held[h], c) for h in range(D)]
        a = stabilized_weights(matrices, K, shrink)
        result[:, c] = mix(a.query, query, c)
        for h in range(D):
            result_held[h][:, c] = mix(a.examples[h], held[h], c)
    return finite(result), [finite(values) for values in result_held]
