"""Autoregressive use: the examples stay, each prediction becomes the next query."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from chop.core.errors import ProgramError
from chop.core.grids import same_grid
from chop.core.model import FrozenModel
from chop.core.program import Program
from chop.core.prompt import Prompt
from chop.core.text import program_of
from chop.core.words import representation, rollout_facts


@dataclass(frozen=True, eq=False)
class Rollout:
    """A forecast of many steps."""

    values: Tensor
    """``(..., steps, m, c)``; NaN from the step at which a row was rejected."""
    rejected_at: Tensor
    """``(...)`` the step (from 0) whose answer was not finite; ``steps`` where all were."""
    calls: int
    """Model evaluations for each query, all steps together."""

    def __repr__(self) -> str:
        return representation("Rollout", rollout_facts(self))

    def _repr_html_(self) -> str:
        from chop.pictures.notebook import rollout_html

        return rollout_html(self)

    @property
    def rejected(self) -> Tensor:
        """``(...)`` bool: rows that did not reach the end."""
        return self.rejected_at < self.values.shape[-3]


def rollout(
    program: Program | str,
    model: FrozenModel,
    prompt: Prompt,
    steps: int,
    *,
    strict: bool = False,
    progress: Callable[[int], None] | None = None,
) -> Rollout:
    """Ask for ``steps`` steps, one after the other; the query keeps its time index, as in the paper.

    ``program`` may be given by its text or its name in the catalog.
    A row whose answer is not finite is frozen, marked and given NaN from there on; the others go on.
    ``strict`` raises instead. ``progress`` is called with the number of steps done.
    """
    if steps < 1:
        raise ProgramError(f"a rollout needs at least one step, not {steps}")
    if prompt.query.channels != prompt.outputs.channels or not same_grid(prompt.query.coords, prompt.at):
        raise ProgramError("a rollout needs answers on the grid and with the channels of the query")
    chosen = program_of(program)
    frames = []
    current = prompt
    rejected_at = torch.full(prompt.batch, steps, device=prompt.device)
    calls = 0
    for step in range(steps):
        result = chosen.run(model, current, strict=strict, trace=False)
        calls += result.calls
        rejected_at = torch.where(result.rejected & (rejected_at == steps), step, rejected_at)
        alive = (rejected_at > step)[..., None, None]
        frames.append(torch.where(alive, result.values, torch.nan))
        # The examples keep their identity from step to step, so that a model can reuse their encoding.
        following = torch.where(alive, result.values, current.query.values)
        current = current.mapped(query=current.query.with_values(following))
        if progress is not None:
            progress(step + 1)
    return Rollout(torch.stack(frames, dim=-3), rejected_at, calls)
