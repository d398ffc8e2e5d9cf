"""How far an answer is from the truth, and what a program gains over the bare model."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from chop.core.errors import ChopError
from chop.core.units import binary_unit, in_units


def rel_l2(answer: Tensor, target: Tensor, mask: Tensor | None = None) -> Tensor:
    """Relative L2 error over points and channels: ``(..., m, c) -> (...)``.

    With ``mask`` over what was observed; NaN where that is nothing.
    """
    off, size = _seen(answer, target, mask)
    unit = binary_unit(size.abs().amax(dim=(-1, -2), keepdim=True))
    lengths = (in_units(part, unit).square().sum(dim=(-1, -2)).sqrt() for part in (off, size))
    return next(lengths) / next(lengths)


def rmse(answer: Tensor, target: Tensor, mask: Tensor | None = None) -> Tensor:
    """Root mean squared error of each channel over the observed points: ``(..., m, c) -> (..., c)``.

    NaN for a channel of which nothing was observed.
    """
    off, _ = _seen(answer, target, mask)
    unit = binary_unit(off.abs().amax(dim=-2, keepdim=True))
    squared = in_units(off, unit).square()
    mean = squared.mean(dim=-2) if mask is None else squared.sum(dim=-2) / mask.expand_as(off).sum(dim=-2)
    return mean.sqrt() * unit.squeeze(-2)


def _seen(answer: Tensor, target: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor]:
    """The error and the target, 0 where nothing was observed."""
    _need_same_shape(answer, target)
    if mask is None:
        return answer - target, target
    return torch.where(mask, answer - target, 0), torch.where(mask, target, 0)


@dataclass(frozen=True)
class Paired:
    """Errors of two methods on the same cases, summed up as the paper does."""

    cases: int
    mean: float
    """Mean error of the method."""
    deviation: float
    """Sample standard deviation of the method's error; NaN for one case."""
    base_mean: float
    base_deviation: float
    lower: int
    """Cases in which the method's error is lower than the base's."""
    equal: int
    higher: int

    @property
    def reduction(self) -> float:
        """By how much the mean error is lower than the base's, in percent; negative if higher."""
        return 100 * (1 - self.mean / self.base_mean) if self.base_mean else float("nan")

    def __str__(self) -> str:
        return (
            f"{self.base_mean:.4g} ± {self.base_deviation:.2g} -> {self.mean:.4g} ± {self.deviation:.2g} "
            f"({self.reduction:+.1f} % reduction; "
            f"{self.lower} lower, {self.equal} equal, {self.higher} higher)"
        )


def paired(base: Tensor, method: Tensor) -> Paired:
    """The summary of two sets of per-case errors, in the same order and of any shape."""
    _need_same_shape(base, method)
    base, method = base.detach().double().flatten(), method.detach().double().flatten()
    if not base.numel():
        raise ChopError("there are no cases to compare")
    bad = ~(torch.isfinite(base) & torch.isfinite(method))
    if bool(bad.any()):
        raise ChopError(
            f"{int(bad.sum())} of {bad.numel()} errors are not finite; leave those cases out of both, "
            "or say how they count"
        )
    nan = float("nan")
    return Paired(
        cases=base.numel(),
        mean=float(method.mean()),
        deviation=float(method.std()) if base.numel() > 1 else nan,
        base_mean=float(base.mean()),
        base_deviation=float(base.std()) if base.numel() > 1 else nan,
        lower=int((method < base).sum()),
        equal=int((method == base).sum()),
        higher=int((method > base).sum()),
    )


def _need_same_shape(one: Tensor, other: Tensor) -> None:
    if one.shape != other.shape:
        raise ChopError(f"shapes {tuple(one.shape)} and {tuple(other.shape)} do not compare")
