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
from chop.core.running import Result
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

    ``program`` may be given by its text or its name in the catalog. One that decides by itself, as ``auto``,
    does so at the first step, for each query; the others run what it built.
    A row whose answer is not finite is frozen, marked and given NaN from there on; the others go on.
    ``strict`` raises instead. ``progress`` is called with the number of steps done.
    """
    if steps < 1:
        raise ProgramError(f"a rollout needs at least one step, not {steps}")
    if prompt.query.channels != prompt.outputs.channels or not same_grid(prompt.query.coords, prompt.at):
        raise ProgramError("a rollout needs answers on the grid and with the channels of the query")
    chosen = program_of(program).for_forecast(steps)
    first = chosen.run(model, prompt, strict=strict, trace=False)
    parts = _settled(first)
    frames: list[Tensor] = []
    query = prompt.query.values
    rejected_at = torch.full(prompt.batch, steps, device=prompt.device)
    calls = 0
    for step in range(steps):
        results = [part.run(model, strict) for part in parts] if step else [first]
        values = _joined(parts, results, prompt.batch) if step else first.values
        calls += _mean_calls(parts, results) if step else first.calls
        lost = ~torch.isfinite(values).all(dim=-1).all(dim=-1)
        rejected_at = torch.where(lost & (rejected_at == steps), step, rejected_at)
        alive = (rejected_at > step)[..., None, None]
        frames.append(torch.where(alive, values, torch.nan))
        query = torch.where(alive, values, query)
        parts = [part.asked(query) for part in parts]
        if progress is not None:
            progress(step + 1)
    return Rollout(torch.stack(frames, dim=-3), rejected_at, calls)


@dataclass(frozen=True, eq=False)
class _Part:
    """The queries of a batch that go on with one program; ``rows`` is None for all of them."""

    program: Program
    prompt: Prompt
    rows: Tensor | None

    def run(self, model: FrozenModel, strict: bool) -> Result:
        return self.program.run(model, self.prompt, strict=strict, trace=False)

    def asked(self, queries: Tensor) -> _Part:
        """The same about the next queries of the batch.

        The examples keep their identity from step to step, so that a model can reuse their encoding.
        """
        own = queries if self.rows is None else queries.reshape(-1, *queries.shape[-2:])[self.rows]
        asked = self.prompt.mapped(query=self.prompt.query.with_values(own))
        return _Part(self.program, asked, self.rows)


def _settled(first: Result) -> list[_Part]:
    """What each query goes on with: a program that decides by itself does so once, at the first step."""
    rows: dict[Program, list[int]] = {}
    for row, program in enumerate(first.programs):
        rows.setdefault(program, []).append(row)
    if len(rows) <= 1:
        return [_Part(program, first.prompt, None) for program in rows]
    flat = first.prompt.flat()
    parts = []
    for program, own in rows.items():
        index = torch.tensor(own, device=first.prompt.device)
        parts.append(_Part(program, flat[index], index))
    return parts


def _joined(parts: list[_Part], results: list[Result], batch: torch.Size) -> Tensor:
    """The answers of all parts in the order of the batch."""
    if parts[0].rows is None:
        return results[0].values
    order = torch.cat([part.rows for part in parts if part.rows is not None])
    found = torch.cat([result.values for result in results])
    return found[order.argsort()].reshape(*batch, *found.shape[-2:])


def _mean_calls(parts: list[_Part], results: list[Result]) -> int:
    """Model evaluations for each query, in the mean, rounded up."""
    rows = [part.prompt.batch.numel() for part in parts]
    total = sum(result.calls * count for result, count in zip(results, rows, strict=True))
    return -(-total // max(1, sum(rows)))
