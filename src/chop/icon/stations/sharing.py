"""Answering station prompts: every distinct window is encoded once, every distinct pair once.

A held-out prompt asks one of its parent's own example windows, so a program that validates itself on D
examples encodes nothing new: it only asks more often. Which pairs a query may see is the logarithm of a
count added to its attention, as in the function network. Windows are remembered from call to call
(`chop.icon.stations.memory`).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from chop.core.prompt import Field, Prompt, without_repeats
from chop.icon.functions.sharing import Question, traced
from chop.icon.stations.memory import Windows, windows_of
from chop.icon.stations.network import StationIcon

WINDOWS = {"cpu": 24}
"""Windows of a few hundred stations worked on at a time (elsewhere 512): the rest stays in the cache."""


def predict(network: StationIcon, prompts: Sequence[Prompt], share: bool) -> list[Tensor]:
    """An answer for each prompt, in its own dtype and on its own device."""
    for prompt in prompts:
        network.check(prompt)
    answers: dict[int, Tensor] = {}
    groups: OrderedDict[Prompt, list[Question]] = OrderedDict()
    for number, prompt in enumerate(prompts):
        if not _one_network(prompt):
            flat = prompt.flat()
            alone = [predict(network, [flat[i]], share)[0] for i in range(len(flat.query.values))]
            answers[number] = torch.stack(alone).reshape(prompt.answer_shape)
            continue
        question = traced(number, prompt) if share else Question(number, prompt, prompt, None)
        groups.setdefault(question.root, []).append(question)
    for root, questions in groups.items():
        for question, values in zip(questions, _answered(network, root, questions, share), strict=True):
            prompt = question.prompt
            answers[question.number] = values.to(prompt.device, prompt.dtype).reshape(prompt.answer_shape)
    return [answers[number] for number in range(len(prompts))]


def _one_network(prompt: Prompt) -> bool:
    """Whether all prompts of the batch, their inputs and outputs have the same stations in the same order."""
    places = _places(prompt)
    hours = prompt.query.points // len(places)
    for coords in (prompt.inputs.coords, prompt.query.coords):
        if not bool((without_repeats(coords)[..., 1:].unflatten(-2, (hours, -1)) == places).all()):
            return False
    return all(
        bool((without_repeats(c)[..., 1:] == places).all()) for c in (prompt.outputs.coords, prompt.at)
    )


def _places(prompt: Prompt) -> Tensor:
    """Longitude and latitude ``(S, 2)`` of the first prompt's stations."""
    return prompt.at[(0,) * len(prompt.batch)][:, 1:]


def neighbours(prompt: Prompt) -> Tensor:
    """Who neighbours whom ``(S, S)``; without a graph everybody does."""
    size = prompt.at.shape[-2]
    if prompt.graph is None:
        return torch.ones(size, size, dtype=torch.bool, device=prompt.device)
    found = torch.zeros(size, size, dtype=torch.bool, device=prompt.device)
    start, end = prompt.graph.edges.to(prompt.device)
    found[start, end] = True
    found[end, start] = True
    return found


def _same(one: Field, other: Field) -> bool:
    """Whether two fields are one, or the same part of one."""
    a, b = one.values, other.values
    return one is other or (a.data_ptr(), a.shape, a.stride()) == (b.data_ptr(), b.shape, b.stride())


@dataclass(frozen=True, eq=False)
class _Windows:
    """Windows of all prompts of a batch ``(B, P, hours, S, c)``, and what was observed of them."""

    values: Tensor
    seen: Tensor

    def cut(self, rows: slice) -> _Windows:
        return _Windows(self.values[rows], self.seen[rows])


def _answered(network: StationIcon, root: Prompt, questions: list[Question], share: bool) -> list[Tensor]:
    """Answers ``(B, Q, S, c)`` of all questions about one prompt's pairs."""
    lead = len(root.batch)
    device, dtype = network.head.weight.device, network.head.weight.dtype
    stations = (_places(root).to(device, dtype), neighbours(root).to(device))
    kernels = network.kernels(*stations)
    remember = share and device.type == "cpu" and not torch.is_grad_enabled()
    encode = _encoder(network, kernels, windows_of(network, *stations) if remember else None)

    def flat(field: Field, extra: int) -> tuple[Tensor, Tensor]:
        """Values and mask with one batch axis and ``extra`` axes made one."""
        parts = (field.values.to(device, dtype), field.observed.to(device))
        shaped = [part.reshape(-1, *part.shape[lead:]) for part in parts]
        values, seen = (part.flatten(1, -3) if extra else part.unsqueeze(1) for part in shaped)
        return values, seen

    hours = network.config.hours
    x, x_seen = (part.unflatten(-2, (hours, -1)) for part in flat(root.inputs, 1))
    y, y_seen = flat(root.outputs, 1)
    asked: list[_Windows | None] = []
    counts = []
    for question in questions:
        prompt = question.prompt
        if _same(prompt.query, root.inputs):  # held-out prompts ask the examples' own windows
            asked.append(None)
        else:
            parts = (p.unflatten(-2, (hours, -1)) for p in flat(prompt.query, len(prompt.batch) - lead))
            asked.append(_Windows(*parts))
        size = x.shape[1] if asked[-1] is None else asked[-1].values.shape[1]
        if question.counts is None:
            counts.append(torch.ones(len(x), size, root.examples, device=device, dtype=dtype))
        else:
            counts.append(question.counts.to(device, dtype).reshape(len(x), size, root.examples))
    plain = all(question.counts is None for question in questions)
    rows = max(1, WINDOWS.get(device.type, 512) // (x.shape[1] + 1))
    pieces = []
    for first in range(0, len(x), rows):
        part = slice(first, first + rows)
        pieces.append(
            _batch(
                network,
                _Windows(x[part], x_seen[part]),
                (y[part], y_seen[part]),
                [None if windows is None else windows.cut(part) for windows in asked],
                None if plain else torch.cat([count[part] for count in counts], dim=1),
                kernels,
                encode,
            )
        )
    sizes = [count.shape[1] for count in counts]
    return list(torch.cat(pieces).split(sizes, dim=1))


Encode = Callable[[Tensor, Tensor], Tensor]


def _encoder(network: StationIcon, kernels: Tensor, known: Windows | None) -> Encode:
    """Windows and what was observed of them to tokens, through what is remembered if anything is."""
    if known is None:
        return lambda x, seen: network.encode_windows(x, seen, kernels)
    return lambda x, seen: known.tokens(network, x, seen, kernels)


def _batch(
    network: StationIcon,
    shown: _Windows,
    after: tuple[Tensor, Tensor],
    asked: list[_Windows | None],
    counts: Tensor | None,
    kernels: Tensor,
    encode: Encode,
) -> Tensor:
    """Answers ``(B, all queries, S, c)`` of a few prompts; None in ``asked`` means the example windows."""
    new = [windows for windows in asked if windows is not None]
    values = torch.cat([shown.values, *(windows.values for windows in new)], dim=1)
    seen = torch.cat([shown.seen, *(windows.seen for windows in new)], dim=1)
    tokens = encode(values.flatten(0, 1), seen.flatten(0, 1))
    tokens = tokens.unflatten(0, values.shape[:2])
    pairs = shown.values.shape[1]
    memory = network.encode_pairs(tokens[:, :pairs], values[:, :pairs, -1], *after, kernels)
    order: list[int] = []
    next_new = pairs
    for windows in asked:
        size = pairs if windows is None else windows.values.shape[1]
        order += range(pairs) if windows is None else range(next_new, next_new + size)
        next_new += 0 if windows is None else size
    if order != list(range(len(order))):
        index = torch.tensor(order, device=tokens.device)
        tokens, values = tokens.index_select(1, index), values.index_select(1, index)
    return network.ask(memory, tokens, values, counts, kernels)


__all__ = ["neighbours", "predict"]
