"""Which examples say the same twice: windows of one record that overlap are not two observations.

Held-out errors are evidence about the query as far as hiding an example is like asking a new question. Where
examples share frames with each other and not with the query, it is not: they count once, together. Frames of
one trajectory that ends in the query are as near to it as to each other, and count one by one.
"""

from __future__ import annotations

import torch
from torch import Tensor

from chop.core.fields import Field
from chop.core.prompt import Prompt, without_repeats

_GOLDEN = 0.6180339887498949
_ROUNDING = 1e-12
"""Of the size of a fingerprint: equal frames give equal ones, up to the order in which they are summed."""


def averaged_together(prompt: Prompt) -> Tensor:
    """A matrix ``(..., D, D)`` whose row h takes the mean over the examples that belong with h.

    Its diagonal says how much each example counts; the sum of that is how many observations there are.
    """
    d = prompt.examples
    query, *parts = _fingerprints(prompt)
    frames = torch.cat(parts, dim=-1)  # (..., D, F)
    alike = _equal(frames.unsqueeze(-2).unsqueeze(-2), frames.unsqueeze(-3).unsqueeze(-1))  # D, D, F, F
    # What all examples have, a constant channel or an empty frame, links none of them.
    matched = alike.any(dim=-2)  # (..., D, D, F): frame f of the first is somewhere in the second
    telling = ~matched.all(dim=-2)
    linked = (matched & telling.unsqueeze(-2)).any(dim=-1)
    seen = _equal(frames.unsqueeze(-1), query.unsqueeze(-2).unsqueeze(-3)).any(dim=-1)
    to_query = (seen & telling).any(dim=-1)
    linked = linked | torch.eye(d, dtype=torch.bool, device=linked.device)
    # The query as one more, last.
    column = torch.cat([to_query, torch.ones_like(to_query[..., :1])], dim=-1).unsqueeze(-1)
    together = torch.cat([torch.cat([linked, to_query.unsqueeze(-2)], dim=-2), column], dim=-1).double()
    for _ in range(d.bit_length()):
        together = ((together @ together) > 0).double()
    with_query = together[..., :d, d] > 0
    belongs = (together[..., :d, :d] > 0) & ~with_query.unsqueeze(-1)
    belongs = belongs | torch.eye(d, dtype=torch.bool, device=belongs.device)
    averaged: Tensor = belongs / belongs.sum(dim=-1, keepdim=True).double()
    return averaged


def asked_alike(prompt: Prompt) -> Tensor:
    """Which examples ``(..., D)`` ask, when hidden, as the query does.

    The query of a trajectory is the output of an example that is shown: what went before is known. That of
    the first frame is not, and its output is told by what came after: an error of another kind, often a much
    larger one. Where nothing is shown to end in the query all examples ask alike.
    """
    query, *parts = _fingerprints(prompt)
    everyone = torch.ones(*prompt.batch, prompt.examples, dtype=torch.bool, device=prompt.device)
    if len(parts) < 2:
        return everyone
    inputs, outputs = parts
    links = _equal(inputs.unsqueeze(-2).unsqueeze(-2), outputs.unsqueeze(-3).unsqueeze(-1))  # D, D, F, F
    # Its own output is hidden with it.
    others = ~torch.eye(prompt.examples, dtype=torch.bool, device=prompt.device)
    follows = (links.any(dim=-1).any(dim=-1) & others).any(dim=-1)
    query_follows = _equal(outputs.unsqueeze(-1), query.unsqueeze(-2).unsqueeze(-3)).any(dim=-1).any(dim=-1)
    constant = links.all(dim=-1).all(dim=-1).all(dim=-1).all(dim=-1)
    asks = query_follows.any(dim=-1) & follows.any(dim=-1) & ~constant
    return torch.where(asks.unsqueeze(-1), follows, everyone)


def with_more(together: Tensor, count: int) -> Tensor:
    """The same with so many more observations, each by itself."""
    d = together.shape[-1]
    wide = torch.eye(d + count, dtype=together.dtype, device=together.device)
    wide = wide.expand(*together.shape[:-2], -1, -1).clone()
    wide[..., :d, :d] = together
    return wide


def _equal(one: Tensor, other: Tensor) -> Tensor:
    return (one - other).abs() <= _ROUNDING * (one.abs() + other.abs())


def _fingerprints(prompt: Prompt) -> list[Tensor]:
    """One number a frame: of the query ``(..., F)``, inputs and, if comparable, outputs ``(..., D, F)``."""
    time = prompt.axis("t") if prompt.axes_stated else None
    cut = [_cut(part, time) for part in (prompt.query, prompt.inputs, prompt.outputs)]
    sizes = [part.shape[-1] for part in cut]
    chosen = cut if sizes[2] == sizes[1] else cut[:2]
    return [part @ _weights(part.shape[-1], part.device) for part in chosen]


def _cut(part: Field, time: int | None) -> Tensor:
    """The frames of functions, ``(..., frames, entries)``: one where there is no time."""
    values = part.values.double()
    if time is None:
        return values.flatten(-2).unsqueeze(-2)
    times = without_repeats(part.coords)[..., time]
    shared = times.reshape(-1, times.shape[-1])
    first = shared[0]
    count = len(first.unique())
    whole = values.flatten(-2).unsqueeze(-2)
    if len(first) % count or not bool((shared == first).all()):
        return whole
    frames = first.reshape(count, -1)
    in_order = bool((frames == frames[:, :1]).all())
    return values.unflatten(-2, (count, -1)).flatten(-2) if in_order else whole


def _weights(entries: int, device: torch.device) -> Tensor:
    """Numbers between 1 and 2, no two alike."""
    steps = torch.arange(1, entries + 1, dtype=torch.float64, device=device)
    return 1 + (steps * _GOLDEN) % 1
