"""Orthogonalised momentum for the matrices of the blocks (Muon), AdamW for everything else.

A step of a matrix is its momentum with all singular values brought near one, so that rare directions
learn as fast as frequent ones. Matrices are cut into square blocks of the network's width and
orthogonalised together, a few at a time so that they stay in the processor's cache.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

if TYPE_CHECKING:
    from chop.icon.weights import Network

POLYNOMIALS = (
    (8.174313, -23.939685, 17.699989),
    (3.741473, -2.797428, 0.545136),
    (2.82729, -2.111131, 0.467546),
    (2.009459, -1.392449, 0.389506),
)
"""(a, b, c) of a x + b x^3 + c x^5: applied in turn they carry singular values in [0.008, 1] to 1 +- 0.026.

Each is the best one, in the largest distance from 1, on the interval the one before leaves.
"""
_CHUNK = 8
_MOMENTUM = 0.95


def orthogonalised(blocks: Tensor) -> Tensor:
    """Square blocks ``(b, w, w)`` with their singular values brought near 1."""
    return torch.cat([_orthogonalised(part) for part in blocks.split(_CHUNK)])


def _orthogonalised(x: Tensor) -> Tensor:
    x = x / (x.norm(dim=(-2, -1), keepdim=True) * 1.01 + 1e-7)
    for a, b, c in POLYNOMIALS:
        gram = x @ x.mT
        x = torch.baddbmm(x, torch.baddbmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x


class Optimizer:
    """Both rules behind one ``step(rate)``; its state can be saved and loaded."""

    def __init__(self, network: Network, decay: float = 0.01) -> None:
        width = network.config.width
        named = {
            name: value
            for name, value in network.named_parameters()
            if name.startswith(network.blocks) and value.ndim == 2
        }
        assert all(width in value.shape and value.numel() % width**2 == 0 for value in named.values())
        self._matrices = list(named.values())
        self._momenta = [torch.zeros_like(value) for value in self._matrices]
        self._width, self._decay = width, decay
        rest = [value for name, value in network.named_parameters() if name not in named]
        self._adam = torch.optim.AdamW(rest, lr=1e-3, betas=(0.9, 0.98), weight_decay=decay, foreach=True)

    @torch.no_grad()
    def step(self, rate: float) -> None:
        """One update of all parameters that have gradients."""
        for group in self._adam.param_groups:
            group["lr"] = rate
        self._adam.step()
        gradients = [value.grad for value in self._matrices if value.grad is not None]
        torch._foreach_lerp_(self._momenta, gradients, 1 - _MOMENTUM)
        ahead = torch._foreach_lerp(gradients, self._momenta, _MOMENTUM)
        blocks = [self._blocks(update) for update in ahead]
        turned = orthogonalised(torch.cat(blocks)).split([len(block) for block in blocks])
        # Scaled so that the size of a step is that of AdamW at the same rate.
        scale = 0.2 * math.sqrt(self._width) * rate
        for value, block in zip(self._matrices, turned, strict=True):
            update = block.reshape(-1, self._width)
            tall = value.shape[1] == self._width
            value.mul_(1 - rate * self._decay).add_(update if tall else update.mT, alpha=-scale)

    def _blocks(self, update: Tensor) -> Tensor:
        tall = update if update.shape[1] == self._width else update.mT
        return tall.reshape(-1, self._width, self._width)

    def state_dict(self) -> dict[str, Any]:
        return {"momenta": self._momenta, "adam": self._adam.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        for own, saved in zip(self._momenta, state["momenta"], strict=True):
            own.copy_(saved)
        self._adam.load_state_dict(state["adam"])
