"""Many prompts as one: what fits is joined along one batch axis, what does not is said."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from chop.core.errors import PromptError
from chop.core.fields import Field, Graph, unchecked
from chop.core.prompt import Prompt


def stack(prompts: Iterable[Prompt]) -> Prompt:
    """One prompt of many: their questions one after the other along one batch axis.

    They need the same shapes apart from the batch, axes, dtype, device and graph. Masks, times and grids may
    differ. What any of them assumed of its coordinates is what the first one assumed.
    """
    given = list(prompts)
    if not given:
        raise PromptError("there are no prompts to stack")
    for i, prompt in enumerate(given):
        if not isinstance(prompt, Prompt):
            raise PromptError(f"stack takes prompts; number {i} is a {type(prompt).__name__}")
        for what, first, own in zip(
            ("shapes of inputs, outputs, query and at", "axes", "dtype", "device"),
            stackable_facts(given[0]),
            stackable_facts(prompt),
            strict=True,
        ):
            if first != own:
                raise PromptError(
                    f"prompts that are stacked have the same {what}, apart from the batch; the first has "
                    f"{_in_words(first)}, number {i} has {_in_words(own)}"
                )
        if not _same_graph(given[0].graph, prompt.graph):
            raise PromptError(
                f"prompts that are stacked have the same graph; number {i} has another than the first"
            )
    return concatenated(given)


def stackable_facts(prompt: Prompt) -> tuple[object, ...]:
    """Prompts can be stacked if these are the same: shapes without the batch, axes, dtype and device."""
    skip = len(prompt.batch)
    parts = (prompt.inputs.values, prompt.outputs.values, prompt.query.values, prompt.at)
    shapes = tuple(tuple(part.shape[skip:]) for part in parts)
    return shapes, prompt.axes, prompt.dtype, prompt.device


def _in_words(fact: object) -> str:
    return ", ".join(map(str, fact)) if isinstance(fact, tuple) else str(fact)


def _same_graph(one: Graph | None, other: Graph | None) -> bool:
    if one is None or other is None:
        return one is other
    same_size = one.size == other.size and one.edges.shape == other.edges.shape
    return one is other or (same_size and torch.equal(one.edges, other.edges.to(one.edges.device)))


def concatenated(prompts: Sequence[Prompt]) -> Prompt:
    """`stack` for prompts that are known to fit."""
    flat = [prompt.flat() for prompt in prompts]
    if len(flat) == 1:
        return flat[0]

    def join(tensors: list[Tensor]) -> Tensor:
        return torch.cat(tensors)

    def field(parts: list[Field]) -> Field:
        masks = None if all(part.mask is None for part in parts) else join([p.observed for p in parts])
        return unchecked(
            Field,
            coords=join([part.coords for part in parts]),
            values=join([part.values for part in parts]),
            mask=masks,
        )

    return flat[0].mapped(
        inputs=field([prompt.inputs for prompt in flat]),
        outputs=field([prompt.outputs for prompt in flat]),
        query=field([prompt.query for prompt in flat]),
        at=join([prompt.at for prompt in flat]),
        times=join([prompt.times for prompt in flat if prompt.times is not None]),
    )
