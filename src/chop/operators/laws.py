"""The equation itself, found from one prompt: no network, and an answer that can be read."""

from __future__ import annotations

import weakref
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np
import torch
from torch import Tensor

from chop.core.errors import ProgramError
from chop.core.fields import versions
from chop.core.program import Leaf, Notes
from chop.core.prompt import Field, Prompt
from chop.core.trace import FoundFunction
from chop.numerics import Array
from chop.numerics.flux_fit import FluxFit, fit_flux
from chop.operators.domain import need_cyclic_grid

REMEMBERED_BATCHES = 4
"""Batches of examples whose laws are kept for the next question, as long as the examples themselves live."""


@final
@dataclass(frozen=True)
class Law(Leaf):
    """Fits u_t + f(u)_x = nu u_xx to the example pairs and takes one step with it from the query.

    f' is a spline, smooth where the pairs are silent; how smooth is chosen by cross-validation. The viscosity
    nu, 0 or more, and the numerical dissipation are fitted too. The trace draws f and f' with their
    uncertainty, in units of the coordinate and of a step. Each output must be one step after its input, the
    same step for all; values cannot show whether that is so, but a large ``residual`` in the trace tells.
    Needs one channel on one regular periodic grid. The law depends on the examples only, so in a rollout it
    is fitted once; beyond their values f' is constant.
    """

    name: ClassVar[str] = "law"
    unit_free: ClassVar[bool] = True
    law: ClassVar[str] = "Keeps the query's mean; the same law for every query of the same examples."
    helps: ClassVar[str] = "when a conserved quantity is carried around a circle by itself, whatever its flux"

    def answer(self, prompt: Prompt) -> tuple[Tensor, Notes]:
        _need_one_observed_quantity(prompt, self.name)
        laws = _laws(prompt.inputs, prompt.outputs)
        queries = _frames(prompt.query.values.unsqueeze(-3))

        (axis,) = prompt.axes or ()
        circle = axis.period or 1.0  # the grid was seen to close on itself: there is one

        def told(each: Iterable[Array | float]) -> Tensor:
            found = torch.from_numpy(np.stack([np.asarray(one) for one in each]))
            return found.to(prompt.device, prompt.dtype).reshape(prompt.batch + found.shape[1:])

        levels = told(law.levels for law in laws)
        after = told(law.advance(query) for law, query in zip(laws, queries, strict=True))
        return after.reshape(prompt.answer_shape), {
            "residual": told(law.residual for law in laws),
            "viscosity": circle**2 * told(law.viscosity for law in laws),
            "its uncertainty": circle**2 * told(law.viscosity_uncertainty for law in laws),
            "dissipation": circle * told(law.dissipation for law in laws),
            "penalty": told(law.penalty for law in laws),
            "f": FoundFunction(
                levels,
                circle * told(law.flux for law in laws),
                circle * told(law.flux_uncertainty for law in laws),
                ("u", "f(u), 0 at the lowest u"),
            ),
            "f'": FoundFunction(
                levels,
                circle * told(law.speeds for law in laws),
                circle * told(law.uncertainty for law in laws),
                ("u", f"f'(u), {axis.name} a frame"),
            ),
        }


def _need_one_observed_quantity(prompt: Prompt, who: str) -> None:
    """One channel, on one grid around a circle, with every value observed."""
    if prompt.graph is not None:
        raise ProgramError(f"{who} is for a regular grid, but this prompt's points form a graph")
    need_cyclic_grid(prompt, who)
    if prompt.outputs.channels != 1:
        raise ProgramError(f"{who} is for one quantity, but fields have {prompt.outputs.channels} channels")
    masks = (part.mask for part in (prompt.inputs, prompt.outputs, prompt.query))
    if any(mask is not None and not bool(mask.all()) for mask in masks):
        raise ProgramError(f"{who} goes from point to point and needs every value observed")


_Entry = tuple["weakref.ref[Field]", "weakref.ref[Field]", object, list[FluxFit]]
_known: OrderedDict[int, _Entry] = OrderedDict()


def _laws(inputs: Field, outputs: Field) -> list[FluxFit]:
    """The law of each prompt of a batch, fitted once as long as the very fields live and stay as they are."""
    key, state = id(inputs), versions((inputs.values, outputs.values))
    entry = _known.get(key)
    if entry is not None and (entry[0](), entry[1](), entry[2]) == (inputs, outputs, state):
        return entry[3]
    pairs = zip(_frames(inputs.values), _frames(outputs.values), strict=True)
    laws = [fit_flux(before, after) for before, after in pairs]
    # What is made in inference mode does not count how often it is written to: it is not remembered.
    if not (inputs.values.is_inference() or outputs.values.is_inference()):

        def forget(_: object) -> None:
            _known.pop(key, None)

        _known[key] = weakref.ref(inputs, forget), weakref.ref(outputs, forget), state, laws
        while len(_known) > REMEMBERED_BATCHES:
            _known.popitem(last=False)
    return laws


def _frames(values: Tensor) -> Array:
    """Values ``(..., k, n, 1)`` as ``(prompts, k, n)``."""
    rows = values.detach().to("cpu", torch.float64).reshape(-1, *values.shape[-3:-1])
    found: Array = rows.contiguous().numpy()
    return found
