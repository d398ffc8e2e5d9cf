"""Weights of candidates from their errors at many past questions, and how far those can be believed."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from chop.numerics.simplex import exact_smallest_quadratic

_ROUNDS = 8
"""Of reweighting: each question counts by its squared error over its error."""
_LEAST = 1e-9
"""Of the mean squared error of the first candidate: smaller errors are all alike."""


class PastWeights(NamedTuple):
    """What past questions say; c channels, Q questions, K candidates, the first of them the reference."""

    weights: Tensor
    """``(c, K)``, drawn to the reference as far as the gain is uncertain."""
    crossed: Tensor
    """``(c, Q, K)``: for each question those that its own fold had no part in."""
    kept: Tensor
    """``(c,)`` the part of the fitted mixture that is kept, 0 to 1."""
    gains: Tensor
    """``(c, Q)`` logarithms of the reference's error over that of the crossed mixture; 0 where unknown."""


def weights_of_past(moments: Tensor, counted: Tensor, folds: Tensor) -> PastWeights:
    """The mixture with the smallest mean error (roots of mean squares) over the past questions.

    ``moments`` ``(c, Q, K, K)`` are mean products of the candidates' errors at each question, ``counted``
    ``(c, Q)`` says which were observed, ``folds`` ``(Q,)`` which questions belong together: those near each
    other in time. The mixture is fitted with one fold left out after the other. Its gain over the reference
    where it had no part, and how that varies from fold to fold, say how much of it is kept.
    """
    moments, counted = moments.double(), counted.bool()
    parts = folds.unique()
    fitted = [_smallest_mean_error(moments, counted & (folds != part)) for part in parts]
    full = _smallest_mean_error(moments, counted)
    of_fold = torch.stack(fitted, dim=1)[:, torch.searchsorted(parts, folds)]  # (c, Q, K)
    gains = log_gains(moments, counted, of_fold)
    number = torch.stack([(counted & (folds == part)).sum(dim=1) for part in parts], dim=1).double()
    sums = torch.stack([torch.where(folds == part, gains, 0).sum(dim=1) for part in parts], dim=1)
    kept = kept_part(sums / number.clamp(min=1), number)
    each = []
    for place in range(len(parts)):
        others = torch.arange(len(parts)) != place
        if len(parts) > 2:
            each.append(kept_part((sums / number.clamp(min=1))[:, others], number[:, others]))
        else:
            each.append(kept)
    crossed_kept = torch.stack(each, dim=1)[:, torch.searchsorted(parts, folds)]
    crossed = drawn_to_first(of_fold, crossed_kept)
    return PastWeights(drawn_to_first(full, kept), crossed, kept, log_gains(moments, counted, crossed))


def log_gains(moments: Tensor, counted: Tensor, weights: Tensor) -> Tensor:
    """Logarithms ``(c, Q)`` of the first candidate's error over a mixture's, of weights ``(c, Q, K)``."""
    mixture = torch.einsum("cqk,cqkl,cql->cq", weights, moments, weights)
    first = moments[..., 0, 0]
    floor = _floor(moments, counted)
    return torch.where(counted, ((first + floor) / (mixture.clamp(min=0) + floor)).log() / 2, 0)


def kept_part(means: Tensor, number: Tensor) -> Tensor:
    """How much of a mixture to keep ``(c,)``: g² / (g² + v) of its mean gain g over folds, of variance v.

    ``means`` ``(c, F)`` are those of folds of ``number`` ``(c, F)`` questions; a loss keeps nothing.
    """
    share = number / number.sum(dim=1, keepdim=True).clamp(min=1)
    mean = (share * means).sum(dim=1)
    folds = (number > 0).sum(dim=1).clamp(min=2)
    variance = (share * (means - mean.unsqueeze(1)).square()).sum(dim=1) / (folds - 1)
    total = mean.square() + variance
    return torch.where((mean > 0) & (total > 0), mean.square() / torch.where(total > 0, total, 1), 0)


def drawn_to_first(weights: Tensor, kept: Tensor) -> Tensor:
    """Weights ``(..., K)`` of which a part ``(...)`` is kept, the rest going to the first candidate."""
    first = torch.zeros_like(weights)
    first[..., 0] = 1
    return first + kept.unsqueeze(-1) * (weights - first)


def _smallest_mean_error(moments: Tensor, counted: Tensor) -> Tensor:
    """``(c, K)``: weights of the simplex with the smallest mean of roots, by reweighted quadratics."""
    floor = _floor(moments, counted)
    emphasis = torch.where(counted, 1 / (moments[..., 0, 0] + floor).sqrt(), 0)
    weights = torch.zeros(moments.shape[0], moments.shape[-1], dtype=moments.dtype)
    for _ in range(_ROUNDS):
        total = torch.einsum("cq,cqkl->ckl", emphasis, torch.where(counted[..., None, None], moments, 0))
        weights = torch.stack([exact_smallest_quadratic(one) for one in total])
        errors = torch.einsum("ck,cqkl,cl->cq", weights, moments, weights).clamp(min=0)
        emphasis = torch.where(counted, 1 / (errors + floor).sqrt(), 0)
    return weights


def _floor(moments: Tensor, counted: Tensor) -> Tensor:
    first = torch.where(counted, moments[..., 0, 0], 0).sum(dim=1, keepdim=True)
    mean = first / counted.sum(dim=1, keepdim=True).clamp(min=1)
    return _LEAST * torch.where(mean > 0, mean, 1)
