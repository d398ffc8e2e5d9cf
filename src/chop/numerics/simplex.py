"""Least squares over the probability simplex, for many small problems at once."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

ITERATIONS = 512
TOLERANCE = 1e-9
LEAST_EIGENVALUE = 1e-12
"""Of the mean square of the data: matrices of smaller errors are all alike."""
_LOOK_EVERY = 8
"""Iterations between looks at whether all problems are done (a look waits for the device)."""


def project_to_simplex(points: Tensor) -> Tensor:
    """The nearest point of the simplex, ``(..., K) -> (..., K)``, exact by sorting."""
    k = points.shape[-1]
    ordered = points.sort(dim=-1, descending=True).values
    excess = ordered.cumsum(dim=-1) - 1
    ranks = torch.arange(1, k + 1, device=points.device, dtype=points.dtype)
    support = (ordered - excess / ranks > 0).sum(dim=-1, keepdim=True).clamp(min=1)
    threshold = excess.gather(-1, support - 1) / support
    return (points - threshold).clamp(min=0)


def smallest_quadratic(matrices: Tensor, least: Tensor | float = LEAST_EIGENVALUE) -> Tensor:
    """argmin of a'Ma over the simplex by projected gradient, ``(..., K, K) -> (..., K)``.

    From the uniform vector with step 1 / (2 max(largest eigenvalue, ``least``)), until the largest
    coordinate changes by at most 1e-9 or 512 times; ``least`` broadcasts against ``(...)``. Each problem
    stops at its own iteration, so that a batch gives what its elements would.
    """
    k = matrices.shape[-1]
    flat = matrices.reshape(-1, k, k)
    floor = torch.as_tensor(least, dtype=flat.dtype, device=flat.device).expand(matrices.shape[:-2])
    largest = torch.maximum(torch.linalg.eigvalsh(flat)[..., -1:], floor.reshape(-1, 1))
    # Half the step of the gradient 2Ma: the twos cancel.
    step = 1 / largest
    weights = torch.full_like(flat[..., 0], 1 / k)
    active = torch.ones_like(step, dtype=torch.bool)
    for iteration in range(ITERATIONS):
        if iteration % _LOOK_EVERY == 0 and not bool(active.any()):
            break
        gradient = (flat @ weights.unsqueeze(-1)).squeeze(-1)
        moved = project_to_simplex(weights - step * gradient)
        change = (moved - weights).abs().amax(dim=-1, keepdim=True)
        weights = torch.where(active, moved, weights)
        active = active & (change > TOLERANCE)
    return weights.reshape(matrices.shape[:-1])


def exact_smallest_quadratic(matrix: Tensor) -> Tensor:
    """argmin of a'Ma over the simplex for one matrix ``(K, K)``, exact, on the CPU.

    The same as non-negative least squares of |L a|² + (1'a - 1)² for M = L'L, divided by its sum: along each
    direction the best length leaves v / (1 + v) of v = a'Ma, which grows with v.
    """
    from scipy.optimize import nnls

    symmetric = matrix.detach().double().cpu().numpy()
    size = np.trace(symmetric) / len(symmetric)
    values, vectors = np.linalg.eigh(symmetric / (size if size > 0 else 1.0))
    root = np.sqrt(np.maximum(values, 1e-14))[:, None] * vectors.T
    rows = np.concatenate([root, np.ones((1, len(root)))])
    target = np.zeros(len(rows))
    target[-1] = 1.0
    found, _ = nnls(rows, target)
    return torch.from_numpy(found / found.sum())
