"""How far the candidates of a mixture lie from what they were mixed to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor


class Spread(NamedTuple):
    """Weighted standard deviations of candidates about their mixture, in the units of the answer."""

    values: Tensor
    """``(..., m, c)`` about the answer."""
    held_out: Tensor
    """``(..., D, m, c)`` about the answers at the example inputs, each with its own weights."""

    def mapped(
        self,
        back: Callable[[Tensor], Tensor],
        back_held_out: Callable[[Tensor], Tensor],
        values: Tensor,
        held_out: Tensor,
    ) -> Spread:
        """The same after a map: how far it takes what lies one deviation off the answers."""
        return Spread(
            (back(values + self.values) - back(values)).abs(),
            (back_held_out(held_out + self.held_out) - back_held_out(held_out)).abs(),
        )


def weighted_spread(parts: Sequence[Tensor], weights: Tensor, mixture: Tensor) -> Tensor:
    """The deviation ``(..., m, c)`` of parts about their mixture, with weights ``(..., c, K)`` that sum to 1.

    What has no weight may be anything.
    """
    total = torch.zeros_like(mixture)
    for place, part in enumerate(parts):
        weight = weights[..., place].unsqueeze(-2)
        apart = torch.where(weight > 0, weight.clamp(min=0).sqrt() * (part - mixture), 0)
        # A root of squares that neither overflows nor vanishes, whatever the units.
        total = torch.hypot(total, apart)
    return total
