"""Weights of experts that go on learning as truth arrives: in the long run none of them beats the mixture.

Two rules, both with a bound on the regret against every single expert and no number to be tuned: BOA (the
Bernstein online aggregation of Wintenberger, 2017), which begins with a prior, and ML-Poly (Gaillard, Stoltz
and van Erven, 2014). After each outcome they are told the regrets: how much less each expert lost, to first
order at the mixture, than the mixture itself.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

_LEAST_PRIOR = 1e-12


def quadratic_regrets(moments: Tensor, weights: Tensor) -> Tensor:
    """To first order, what each expert would have saved of a mean squared error: ``(..., K)``.

    ``moments`` ``(..., K, K)`` are mean products of the experts' errors, ``weights`` ``(..., K)`` a mixture.
    The squared error is convex, so that savings to first order bound the true ones from above.
    """
    pulled = (moments @ weights.unsqueeze(-1)).squeeze(-1)
    return 2 * ((weights * pulled).sum(dim=-1, keepdim=True) - pulled)


@dataclass(frozen=True, eq=False)
class Boa:
    """Bernstein online aggregation; all tensors are ``(..., K)``, one row for each independent game.

    The regret against expert k after n outcomes is of the order of sqrt(V_k ln(1/prior_k)), where V_k is the
    sum of its squared regrets: n at most, and far less where the expert is always close to the mixture.
    """

    prior: Tensor
    total: Tensor
    """Regrets so far, each less its own square times the rate it was met with."""
    squares: Tensor
    """Sums of squared regrets."""
    largest: Tensor
    """The largest regret in absolute value, rounded up to a power of two."""

    @classmethod
    def start(cls, prior: Tensor) -> Boa:
        """Before the first outcome; every expert begins with some weight, or it would never get any."""
        known = prior.double().clamp(min=_LEAST_PRIOR)
        zero = torch.zeros_like(known)
        return cls(known / known.sum(dim=-1, keepdim=True), zero, zero, zero)

    @property
    def rates(self) -> Tensor:
        """How fast each expert is learnt about."""
        steady = (-self.prior.log() / self.squares.clamp(min=torch.finfo(torch.float64).tiny)).sqrt()
        bound = 1 / (2 * self.largest).clamp(min=torch.finfo(torch.float64).tiny)
        return torch.minimum(steady, bound)

    @property
    def weights(self) -> Tensor:
        """What the next mixture is made with."""
        begun = self.squares > 0
        rates = torch.where(begun, self.rates, 1.0)
        # An expert that never differed from the mixture has not been met: it keeps its share of the prior.
        fastest = torch.where(begun, rates, 0).amax(dim=-1, keepdim=True)
        relative = torch.where(begun & (fastest > 0), rates / fastest.clamp(min=1e-300), 1.0)
        logs = self.prior.log() + relative.log() + torch.where(begun, rates * self.total, 0)
        return torch.softmax(logs, dim=-1)

    def after(self, regrets: Tensor) -> Boa:
        """One outcome later; games whose regrets are not finite had none."""
        told = torch.isfinite(regrets).all(dim=-1, keepdim=True)
        new = torch.where(told, regrets.double(), 0)
        bound = torch.where(new == 0, 0.0, torch.exp2(new.abs().clamp(min=1e-300).log2().ceil()))
        largest = torch.maximum(self.largest, bound)
        squares = self.squares + new.square()
        later = Boa(self.prior, self.total, squares, largest)
        rates = torch.where(squares > 0, later.rates, 0)
        surprise = torch.where(rates * new > 0.5, largest, 0)
        total = self.total + 0.5 * (new - rates * new.square() + surprise)
        return Boa(self.prior, total, squares, largest)


@dataclass(frozen=True, eq=False)
class MlPoly:
    """Polynomial weights, each expert with its own rate; tensors are ``(..., K)``, ``widest`` ``(..., 1)``.

    Experts that did worse than the mixture have no weight; while none did better all are alike.
    """

    total: Tensor
    inverse_rates: Tensor
    widest: Tensor

    @classmethod
    def start(cls, like: Tensor) -> MlPoly:
        """Before the first outcome, for as many games and experts as a tensor has."""
        zero = torch.zeros_like(like, dtype=torch.float64)
        return cls(zero, zero, zero[..., :1])

    @property
    def weights(self) -> Tensor:
        """What the next mixture is made with."""
        tiny = torch.finfo(torch.float64).tiny
        gained = self.total.clamp(min=0) / self.inverse_rates.clamp(min=tiny)
        sums = gained.sum(dim=-1, keepdim=True)
        return torch.where(sums > 0, gained / sums.clamp(min=tiny), 1 / self.total.shape[-1])

    def after(self, regrets: Tensor) -> MlPoly:
        """One outcome later; games whose regrets are not finite had none."""
        told = torch.isfinite(regrets).all(dim=-1, keepdim=True)
        new = torch.where(told, regrets.double(), 0)
        widest = torch.maximum(self.widest, new.square().amax(dim=-1, keepdim=True))
        inverse = self.inverse_rates + new.square() + (widest - self.widest)
        return MlPoly(self.total + new, inverse, widest)
