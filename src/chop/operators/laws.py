"""The equation itself, found from one prompt: no network, and an answer that can be read."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np
import torch
from torch import Tensor

from chop.core.errors import ProgramError
from chop.core.program import Leaf, Notes
from chop.core.prompt import Prompt
from chop.core.remembering import KnownExamples, first_prompt
from chop.core.trace import FoundFunction
from chop.numerics import Array
from chop.numerics.flux_fit import FluxFit, fit_flux
from chop.operators.domain import need_cyclic_grid


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

    @property
    def reports_held_out(self) -> bool:
        return True

    def at_examples(self, prompt: Prompt) -> Tensor:
        pairs = zip(_laws(prompt), _frames(prompt.inputs.values), _frames(prompt.outputs.values), strict=True)
        found = np.stack([law.without_each(before, after) for law, before, after in pairs])
        answers = torch.from_numpy(found).to(prompt.device, prompt.dtype)
        return answers.reshape(prompt.outputs.values.shape)

    def answer(self, prompt: Prompt) -> tuple[Tensor, Notes]:
        need_frames(prompt, self.name)
        laws = _laws(prompt)
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


def need_frames(prompt: Prompt, who: str) -> None:
    """One channel, on one grid around a circle, with every value observed, at times that can be frames'."""
    if prompt.graph is not None:
        raise ProgramError(f"{who} is for a regular grid, but this prompt's points form a graph")
    need_cyclic_grid(prompt, who)
    if prompt.outputs.channels != 1:
        raise ProgramError(f"{who} is for one quantity, but fields have {prompt.outputs.channels} channels")
    masks = (part.mask for part in (prompt.inputs, prompt.outputs, prompt.query))
    if any(mask is not None and not bool(mask.all()) for mask in masks):
        raise ProgramError(f"{who} goes from point to point and needs every value observed")
    if prompt.axis("t") is not None:
        raise ProgramError(f"{who} goes from one time to the next, but these fields are functions of time t")
    if _differ_at_one_time(prompt):
        raise ProgramError(
            f"{who} is for frames in the order of time, but this prompt's times give different inputs the "
            "same time index"
        )


def _differ_at_one_time(prompt: Prompt) -> bool:
    """Whether two inputs have the same time index and are not the same, as padding is."""
    assert prompt.times is not None
    times, values = prompt.times[..., :-1], prompt.inputs.values
    first = (times.unsqueeze(-1) == times.unsqueeze(-2)).to(torch.uint8).argmax(dim=-1)
    if bool((first == torch.arange(prompt.examples, device=prompt.device)).all()):
        return False
    index = first[..., None, None].expand_as(values)
    return not bool((values.gather(-3, index) == values).all())


_memory = KnownExamples()


def _laws(prompt: Prompt) -> list[FluxFit]:
    """The law of each prompt of a batch, from the pairs it has kept of the prompt that it comes from.

    Each choice of pairs is fitted once as long as the very fields of the first prompt live and stay as they
    are: so the held-out laws of a rollout, too.
    """
    before, after = _frames(prompt.inputs.values), _frames(prompt.outputs.values)
    root, kept = first_prompt(prompt)
    known: dict[tuple[int, ...], FluxFit] | None = _memory.recall(root)
    if known is None:
        known = {}
        _memory.keep(root, known)
    each = max(1, len(before) // max(1, root.batch.numel()))
    laws = []
    for i, pairs in enumerate(kept.reshape(len(before), -1).tolist()):
        key = (i // each, *pairs)
        if key not in known:
            known[key] = fit_flux(before[i], after[i])
        laws.append(known[key])
    return laws


def _frames(values: Tensor) -> Array:
    """Values ``(..., k, n, 1)`` as ``(prompts, k, n)``."""
    rows = values.detach().to("cpu", torch.float64).reshape(-1, *values.shape[-3:-1])
    found: Array = rows.contiguous().numpy()
    return found
