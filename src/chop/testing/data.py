"""Reproducible prompts of every shape, and a small analytic model that answers any of them."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from chop.core.grids import nearest_index, resample
from chop.core.prompt import Axis, Field, Graph, Prompt

PROMPT_AXES = {
    1: (Axis("x", 1.0),),
    2: (Axis("t"), Axis("x", 1.0)),
    3: (Axis("t"), Axis("lon"), Axis("lat")),
}
"""What the coordinates of `make_prompt` are."""

PromptStyle = Literal["smooth", "integers", "constant", "nonnegative"]


def make_prompt(
    seed: int,
    *,
    batch: tuple[int, ...] = (),
    examples: int = 5,
    points: int = 12,
    answer_points: int | None = None,
    dimensions: int = 1,
    channels: tuple[int, int] = (1, 1),
    own_grids: bool = False,
    consecutive: bool = False,
    masked: bool = False,
    style: PromptStyle = "smooth",
    dtype: torch.dtype = torch.float64,
) -> Prompt:
    """A random prompt, the same for the same arguments.

    One dimension gives a regular periodic grid, two give scattered points in (t, x), three give
    stations: ``points`` is then the number of stations, windows have three frames and there is a
    graph in which the last station is isolated. ``own_grids`` gives every function its own points.
    ``style="integers"`` makes ties likely, ``"constant"`` makes every function flat. ``consecutive``
    makes each output the next input.
    """
    random = torch.Generator().manual_seed(seed)
    coords, at, graph = _domain(random, points, answer_points or points, dimensions)
    c_in, c_out = channels

    def functions(shape: tuple[int, ...], grid: Tensor, c: int) -> Field:
        if own_grids and dimensions < 3:
            grid = torch.rand(*shape, *grid.shape, generator=random, dtype=torch.float64)
        values = _values(random, shape, grid, c, style)
        mask = None
        if masked:
            mask = torch.rand(values.shape, generator=random) < 0.7
        return Field(grid.to(dtype), values.to(dtype), mask)

    if consecutive:
        frames = functions((*batch, examples + 1), coords, c_in)
        pairs = [
            Field(coords.to(dtype), frames.values[..., part, :, :])
            for part in (slice(None, -1), slice(1, None))
        ]
        query = Field(coords.to(dtype), frames.values[..., -1, :, :])
        return Prompt(inputs=pairs[0], outputs=pairs[1], query=query, at=coords, axes=PROMPT_AXES[dimensions])
    query = functions(batch, coords, c_in)
    asked = (
        torch.rand(*batch, *at.shape, generator=random, dtype=torch.float64)
        if own_grids and dimensions < 3
        else at
    )
    return Prompt(
        inputs=functions((*batch, examples), coords, c_in),
        outputs=functions((*batch, examples), at, c_out),
        query=query,
        at=asked.to(dtype),
        graph=graph,
        axes=PROMPT_AXES[dimensions],
    )


def _domain(
    random: torch.Generator, points: int, answer_points: int, dimensions: int
) -> tuple[Tensor, Tensor, Graph | None]:
    if dimensions == 1:
        inputs = torch.arange(points, dtype=torch.float64)[:, None] / points
        return inputs, torch.arange(answer_points, dtype=torch.float64)[:, None] / answer_points, None
    if dimensions == 2:
        return (
            torch.rand(points, 2, generator=random, dtype=torch.float64),
            torch.rand(answer_points, 2, generator=random, dtype=torch.float64),
            None,
        )
    places = torch.rand(points, 2, generator=random, dtype=torch.float64)
    frames = [torch.cat([torch.full((points, 1), float(t)).double(), places], dim=1) for t in range(4)]
    edges = torch.randint(0, max(1, points - 1), (2, 2 * points), generator=random)
    return torch.cat(frames[:3]), frames[3], Graph(edges, points)


def _values(
    random: torch.Generator, shape: tuple[int, ...], grid: Tensor, c: int, style: PromptStyle
) -> Tensor:
    """Functions ``(*shape, n, c)``: a few waves with random phases, changed according to the style."""
    size = (*shape, 1, c)
    values = torch.zeros(*shape, grid.shape[-2], c, dtype=torch.float64)
    if style == "constant":
        return values + torch.randint(-2, 3, size, generator=random)
    if style == "integers":
        return values + torch.randint(-1, 2, values.shape, generator=random)
    where = grid.sum(dim=-1, keepdim=True)
    for mode in range(1, 4):
        phase, size_of_mode = torch.rand(size, generator=random), torch.randn(size, generator=random)
        values = values + size_of_mode / mode * torch.sin(2 * torch.pi * (mode * where + phase))
    values = values + 0.1 * torch.randn(values.shape, generator=random, dtype=torch.float64)
    return values.abs() if style == "nonnegative" else values


def unit_free_model(prompt: Prompt, /) -> Tensor:
    """`toy_model` in units of the prompt: s times the prompt gives s times the answer."""
    parts = (prompt.inputs, prompt.outputs, prompt.query)
    axes = len(prompt.batch)
    size = torch.stack([part.values.abs().flatten(axes).amax(dim=-1) for part in parts]).amax(dim=0)
    size = torch.where(size > 0, size, 1)[..., None, None]
    return size * toy_model(scaled(prompt, 1 / size))


def scaled(prompt: Prompt, factor: Tensor | float) -> Prompt:
    """All values of a prompt times a factor, which broadcasts against ``(..., n, c)``."""
    each = factor.unsqueeze(-3) if isinstance(factor, Tensor) else factor
    return prompt.mapped(
        inputs=prompt.inputs.with_values(prompt.inputs.values * each),
        outputs=prompt.outputs.with_values(prompt.outputs.values * each),
        query=prompt.query.with_values(prompt.query.values * factor),
    )


def toy_model(prompt: Prompt, /) -> Tensor:
    """A nonlinear answer from every pair, their order, their number and the query; no weights.

    Computed function by function, so that a batch and its elements agree to the last bit or nearly.
    """
    d = prompt.examples
    inputs = resample(
        prompt.inputs.values, nearest_index(prompt.inputs.coords, prompt.query.coords.unsqueeze(-3))
    )
    likeness = -(inputs - prompt.query.values.unsqueeze(-3)).square().mean(dim=(-1, -2))
    rank = torch.arange(2, d + 2, dtype=prompt.dtype, device=prompt.device)
    weights = (likeness.exp() / rank)[..., None, None]
    outputs = resample(prompt.outputs.values, nearest_index(prompt.outputs.coords, prompt.at.unsqueeze(-3)))
    query = resample(prompt.query.values, nearest_index(prompt.query.coords, prompt.at))
    local = torch.sin(query.mean(dim=-1, keepdim=True))
    return torch.tanh((weights * outputs).sum(dim=-3)) + 0.3 * local + 0.05 * d
