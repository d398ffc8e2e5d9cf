"""Errors as a function of the input: what is known of them at the examples, regressed onto the query.

Held-out residuals are values of an unknown function of the input, and kriging predicts such a function from a
few of its values, with a kernel that says how alike two inputs are and a strength that says how much of a
residual is noise. Which kernel and strength are right differs from prompt to prompt, and the examples tell:
what a kriging would have predicted at each example from the others is in closed form, so many krigings are
weighed by how well they would have done, without asking the model again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, NamedTuple, final

import torch
from torch import Tensor, nn

from chop.core.grids import nearest_index, resample
from chop.core.parameters import choice, number, subprogram
from chop.core.program import Outcome, Program
from chop.core.prompt import Prompt
from chop.core.running import error_in_units, error_unit
from chop.core.units import binary_unit, in_units
from chop.operators.evidence import evidence_weights, log_errors, mixed, squared_errors
from chop.operators.residuals import HeldOutValidator, gap_number, pad_flag
from chop.operators.statistics import everywhere

STRENGTHS = (0.01, 0.1, 1.0)
"""Of noise that are weighed, relative to the mean of the kernel at the examples themselves."""
LINEAR_STRENGTHS = (0.001, 0.01, 0.1)
"""Where outputs themselves are kriged: noise there is that of the data, not of a model."""
SMALLEST_RATIO = 1e-3
"""Of the mean output: what lies below is taken for that when outputs are divided."""


class Kriging(NamedTuple):
    """One way to predict: what of, how alike inputs are, how much is noise."""

    of: str
    """``errors`` of the base, ``ratios`` of outputs to its answers, ``outputs`` themselves without it, or
    ``nothing``: the base as it is."""
    kernel: str = "linear"
    strength: float = 1.0


class Smoother(NamedTuple):
    """A kriging on one set of inputs: all it predicts is linear in what it is given.

    ``query (..., D)`` are the weights of the examples at the query, ``without (..., D, D)`` those of the
    others at each example; its diagonal is 0.
    """

    query: Tensor
    without: Tensor


@final
@dataclass(frozen=True)
class Krige(HeldOutValidator):
    """Adds the errors that kriging predicts from those at the examples, by many kernels weighed.

    The kernels: linear in the input (with an unknown constant), smooth and rough functions of the distance
    (Matérn 3/2 and 1/2, about 0). With the linear one also the ratios of outputs to answers are kriged, where
    all outputs are positive, and the outputs themselves, which leaves the model out. Each is weighed by the
    mean logarithm of its squared error at the examples, each predicted from the others, channel by channel;
    the base itself takes part.
    """

    name: ClassVar[str] = "krige"
    unit_free: ClassVar[bool] = True
    law: ClassVar[str] = "With all errors zero the answer is that of the base."
    helps: ClassVar[str] = "when the model's error depends on the input in a regular way"
    base: Program = subprogram("what is corrected")
    kernel: str = choice(
        "weighed", ("weighed", "linear", "smooth", "rough"), "which inputs are alike; all of them, weighed"
    )
    strength: float | None = number(
        None, 1e-8, 1e3, "how much of an error is noise, instead of several, weighed"
    )
    trust: float = number(4.0, 0.0, 100.0, "how much a smaller error at the examples counts")
    pad: bool = pad_flag(True)
    gap: int = gap_number()

    def decide(self, prompt: Prompt, answers: list[Tensor], held_out: list[Tensor]) -> Outcome:
        base, base_held_out = answers[0], held_out[0]
        ways = list(self._ways())
        likeness, seen = _Likeness.of(prompt), _Seen.of(prompt, base_held_out)
        smoothers = [likeness.smoother(way) for way in ways]
        guesses = [seen.without_each(way, one) for way, one in zip(ways, smoothers, strict=True)]
        weights, deleted = seen.weights(guesses, self.trust)
        asked = [seen.at_query(way, one, base) for way, one in zip(ways, smoothers, strict=True)]
        values = mixed(asked, weights) * everywhere(seen.unit)
        own = mixed(guesses, deleted.transpose(-3, -2)) * everywhere(seen.unit).unsqueeze(-1)
        own = resample(own, nearest_index(prompt.at.unsqueeze(-3), prompt.outputs.coords))
        # What is not finite, or of which nothing is known, is left to the base.
        values = torch.where(torch.isfinite(base) & torch.isfinite(values), values.to(base.dtype), base)
        usable = torch.isfinite(base_held_out) & torch.isfinite(own)
        own = torch.where(usable, own.to(base.dtype), base_held_out)
        unit = error_unit(prompt.outputs)
        notes: dict[str, Tensor | str] = {
            **_by_kind(ways, weights.to(base.dtype)),
            "error before": error_in_units(prompt.outputs, base_held_out, unit) * unit.square(),
            "error after": error_in_units(prompt.outputs, own, unit) * unit.square(),
        }
        return Outcome(values, own, notes)

    def _ways(self) -> Iterator[Kriging]:
        kernels = ("linear", "smooth", "rough") if self.kernel == "weighed" else (self.kernel,)
        strengths = STRENGTHS if self.strength is None else (self.strength,)
        if len(kernels) * len(strengths) == 1:  # all is said: there is nothing to weigh
            yield Kriging("errors", self.kernel, strengths[0])
            return
        yield Kriging("nothing")
        for kernel in kernels:
            yield from (Kriging("errors", kernel, strength) for strength in strengths)
        if "linear" in kernels:
            yield from (Kriging("ratios", "linear", strength) for strength in strengths[-2:])
            plain = LINEAR_STRENGTHS if self.strength is None else strengths
            yield from (Kriging("outputs", "linear", strength) for strength in plain)


@dataclass(frozen=True, eq=False)
class _Likeness:
    """Inner products ``(..., D + 1, D + 1)`` of centred inputs, the query last."""

    products: Tensor

    @staticmethod
    def of(prompt: Prompt) -> _Likeness:
        index = nearest_index(prompt.inputs.coords, prompt.query.coords.unsqueeze(-3))
        shown = resample(prompt.inputs.values, index).double()
        centre = shown.mean(dim=-3, keepdim=True)
        both = torch.cat([shown, prompt.query.values.double().unsqueeze(-3)], dim=-3) - centre
        # Every channel counts alike, whatever its unit.
        size = both[..., :-1, :, :].abs().amax(dim=(-3, -2), keepdim=True)
        both = in_units(both, binary_unit(size))
        spread = both[..., :-1, :, :].square().mean(dim=(-3, -2), keepdim=True)
        flat = (both / torch.where(spread > 0, spread, 1).sqrt()).flatten(-2)
        return _Likeness(flat @ flat.mT / flat.shape[-1])

    def kernel(self, name: str) -> Tensor:
        if name == "linear":
            return self.products
        squares = self.products.diagonal(dim1=-2, dim2=-1)
        distances = (squares.unsqueeze(-1) + squares.unsqueeze(-2) - 2 * self.products).clamp(min=0)
        examples = self.products.shape[-1] - 1
        pairs = max(1, examples * (examples - 1))
        typical = distances[..., :-1, :-1].sum(dim=(-1, -2), keepdim=True) / pairs
        apart = (distances / torch.where(typical > 0, typical, 1)).sqrt()
        if name == "rough":
            return torch.exp(-apart)
        return (1 + 3**0.5 * apart) * torch.exp(-(3**0.5) * apart)

    def smoother(self, way: Kriging) -> Smoother:
        """The kriging's weights; leaving an example out is in closed form (Dubrule 1983)."""
        kernel = self.kernel(way.kernel)
        examples = kernel.shape[-1] - 1
        size = kernel.diagonal(dim1=-2, dim2=-1)[..., :-1].mean(dim=-1)[..., None, None]
        kernel = kernel / torch.where(size > 0, size, 1)
        eye = torch.eye(examples, dtype=kernel.dtype, device=kernel.device)
        system, query = kernel[..., :-1, :-1] + way.strength * eye, kernel[..., :-1, -1]
        if way.kernel == "linear":  # with an unknown constant: weights sum to 1
            system = nn.functional.pad(system, (0, 1, 0, 1), value=1.0)
            system[..., -1, -1] = 0.0
            query = nn.functional.pad(query, (0, 1), value=1.0)
        inverse = torch.linalg.inv(system)
        weights = (inverse @ query.unsqueeze(-1))[..., :examples, 0]
        inner = inverse[..., :examples, :examples]
        return Smoother(weights, eye - inner / inner.diagonal(dim1=-2, dim2=-1).unsqueeze(-1))


@dataclass(frozen=True, eq=False)
class _Seen:
    """Outputs and the base's held-out answers ``(..., D, m, c)`` at the points asked, in a unit ``(...)``."""

    outputs: Tensor
    answers: Tensor
    observed: Tensor
    unit: Tensor

    @staticmethod
    def of(prompt: Prompt, base_held_out: Tensor) -> _Seen:
        outputs = prompt.outputs
        unit = error_unit(outputs).double()
        index = nearest_index(outputs.coords, prompt.at.unsqueeze(-3))
        each = unit[..., None, None, None]
        truth, guess = (in_units(resample(v, index).double(), each) for v in (outputs.values, base_held_out))
        observed = torch.isfinite(guess)
        if outputs.mask is not None:
            observed = observed & resample(outputs.mask, index)
        return _Seen(truth, torch.where(torch.isfinite(guess), guess, 0), observed, unit)

    def _filled(self, values: Tensor) -> Tensor:
        """Values with the mean of the other examples where an example was not observed."""
        if bool(self.observed.all()):
            return values
        known = torch.where(self.observed, values, 0)
        mean = known.sum(dim=-3, keepdim=True) / self.observed.sum(dim=-3, keepdim=True).clamp(min=1)
        return torch.where(self.observed, values, mean)

    @cached_property
    def floor(self) -> Tensor:
        """What outputs and answers are no smaller than when they are divided ``(..., 1, 1, c)``."""
        mean = torch.where(self.observed, self.outputs, 0).abs().mean(dim=(-3, -2), keepdim=True)
        return SMALLEST_RATIO * torch.where(mean > 0, mean, 1)

    def given(self, of: str) -> Tensor:
        """What is kriged."""
        if of == "outputs":
            return self._filled(self.outputs)
        if of == "ratios":
            return self._filled((self._positive(self.outputs) / self._positive(self.answers)).log())
        return self._filled(self.outputs - self.answers)

    def _positive(self, values: Tensor) -> Tensor:
        return torch.maximum(values, self.floor)

    def _applied(self, of: str, base: Tensor, predicted: Tensor) -> Tensor:
        """An answer of the base with what was predicted for it."""
        if of == "outputs":
            return predicted
        return base * predicted.exp() if of == "ratios" else base + predicted

    def without_each(self, way: Kriging, smoother: Smoother) -> Tensor:
        """What the kriging would have answered at each example, from the others."""
        if way.of == "nothing":
            return self.answers
        predicted = torch.einsum("...hj,...jmc->...hmc", smoother.without, self.given(way.of))
        if way.of != "ratios":
            return self._applied(way.of, self.answers, predicted)
        positive = torch.where(self.observed, self.outputs > 0, True).all(dim=(-3, -2), keepdim=True)
        # Where some outputs are not positive there are no ratios: such an answer loses against any other.
        return torch.where(positive, self._applied(way.of, self.answers, predicted), torch.nan)

    def at_query(self, way: Kriging, smoother: Smoother, base: Tensor) -> Tensor:
        """What it answers at the query."""
        answer = in_units(base.double(), everywhere(self.unit))
        if way.of == "nothing":
            return answer
        predicted = torch.einsum("...j,...jmc->...mc", smoother.query, self.given(way.of))
        return self._applied(way.of, answer, predicted)

    def weights(self, guesses: list[Tensor], trust: float) -> tuple[Tensor, Tensor]:
        """Weights of krigings ``(..., c, K)``, and without each example's own error ``(..., c, D, K)``."""
        each = [squared_errors(guess, self.outputs, self.observed) for guess in guesses]
        logs, counted = log_errors(torch.stack(each, dim=-1), self.outputs, self.observed)
        return evidence_weights(logs, counted, trust)


def _by_kind(ways: list[Kriging], weights: Tensor) -> dict[str, Tensor | str]:
    """The weight ``(..., c)`` of each kind of kriging, whatever its strength."""
    places: dict[str, list[int]] = {}
    for place, way in enumerate(ways):
        kind = "the base" if way.of == "nothing" else f"{way.kernel} in {way.of}"
        places.setdefault(f"weight of {kind}", []).append(place)
    return {kind: weights[..., those].sum(dim=-1) for kind, those in places.items()}
