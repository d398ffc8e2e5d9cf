"""What questions about stations share: every distinct window is encoded once, every distinct pair once.

A held-out prompt asks one of its parent's own example windows, so a program that validates itself on D
examples encodes nothing new: it only asks more often.

Windows are remembered by their content from call to call. The same hours come back: as a query at several
leads, as an example of many queries, as what a held-out prompt asks. A window's tokens depend on the
window, the stations and the weights alone, so they are kept for the next time, the most recent ones up to
a limit. Every window is encoded by itself: what it becomes must not depend on which others were new, or
answers would depend on history in their last digits.
"""

from __future__ import annotations

import weakref
from collections import OrderedDict
from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from chop.core.fields import versions
from chop.core.prompt import Field, Prompt
from chop.icon.sharing import Question, joint_counts
from chop.icon.stations.prompts import first_places
from chop.runs.fingerprint import feed_tensor, quick_digest

if TYPE_CHECKING:
    from chop.icon.stations.network import StationIcon

WINDOWS = {"cpu": 24}
"""Windows of a few hundred stations worked on at a time (elsewhere 512): the rest stays in the cache."""
REMEMBERED_BYTES = 128 * 2**20
"""Of the tokens of windows, for one network."""


def ask_stations(
    network: StationIcon, root: Prompt, questions: Sequence[Question], share: bool
) -> list[Tensor]:
    """Answers ``(B, Q, S, c)`` of all questions about one prompt's pairs."""
    weight = network.head.weight
    stations = (first_places(root).to(weight.device, weight.dtype), neighbours(root).to(weight.device))
    kernels = network.kernels(*stations)
    remember = share and weight.device.type == "cpu" and not torch.is_grad_enabled()
    known = _windows_of(network, *stations) if remember else None
    y, y_seen = (network.rows(part, len(root.batch)) for part in (root.outputs.values, root.outputs.observed))
    batch, pairs = y.shape[:2]
    windows, order, sizes = _distinct_windows(network, root, questions)
    in_order = order == list(range(sum(values.shape[1] for values, _ in windows)))
    index = torch.tensor(order, device=weight.device)
    plain = all(question.kept is None for question in questions)
    counts = None if plain else joint_counts(questions, sizes, batch, like=weight)
    rows = max(1, WINDOWS.get(weight.device.type, 512) // (pairs + 1))
    pieces = []
    for first in range(0, batch, rows):
        part = slice(first, first + rows)
        x, seen = (torch.cat([one[part] for one in parts], dim=1) for parts in zip(*windows, strict=True))
        flat = (x.flatten(0, 1), seen.flatten(0, 1), kernels)
        tokens = network.encode_windows(*flat) if known is None else known.tokens(network, *flat)
        tokens = tokens.unflatten(0, x.shape[:2])
        memory = network.encode_pairs(tokens[:, :pairs], x[:, :pairs, -1], y[part], y_seen[part], kernels)
        if not in_order:
            tokens, x = tokens.index_select(1, index), x.index_select(1, index)
        pieces.append(network.ask(memory, tokens, x, None if counts is None else counts[part], kernels))
    return list(torch.cat(pieces).split(sizes, dim=1))


def _distinct_windows(
    network: StationIcon, root: Prompt, questions: Sequence[Question]
) -> tuple[list[tuple[Tensor, Tensor]], list[int], list[int]]:
    """The examples' windows, then others; which of them is asked in turn; how many each question asks.

    Windows are values ``(B, P, hours, S, c)`` with what was observed of them.
    """

    def windows(field: Field) -> tuple[Tensor, Tensor]:
        parts = (network.rows(part, len(root.batch)) for part in (field.values, field.observed))
        values, seen = (part.unflatten(-2, (network.config.hours, -1)) for part in parts)
        return values, seen

    found = [windows(root.inputs)]
    order: list[int] = []
    sizes, total = [], root.examples
    for question in questions:
        if _same(question.prompt.query, root.inputs):  # held-out prompts ask the examples' own windows
            asked = range(root.examples)
        else:
            found.append(windows(question.prompt.query))
            asked = range(total, total + found[-1][0].shape[1])
            total = asked.stop
        order += asked
        sizes.append(len(asked))
    return found, order, sizes


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


class RememberedWindows:
    """The encoded windows of one network on one set of stations."""

    def __init__(self) -> None:
        self._known: OrderedDict[bytes, Tensor] = OrderedDict()
        self._bytes = 0

    def tokens(self, network: StationIcon, x: Tensor, seen: Tensor, kernels: Tensor) -> Tensor:
        """Tokens ``(N, S, w)`` of windows ``(N, hours, S, c)``; only new ones are encoded."""
        found = []
        for values, mask in zip(x, seen, strict=True):
            key = _digest(values, mask)
            tokens = self._known.pop(key, None)
            if tokens is None:
                tokens = network.encode_windows(values[None], mask[None], kernels)[0]
                self._bytes += tokens.nbytes
            self._known[key] = tokens
            found.append(tokens)
        while self._bytes > REMEMBERED_BYTES and self._known:
            self._bytes -= self._known.popitem(last=False)[1].nbytes
        return torch.stack(found)


def _digest(*tensors: Tensor) -> bytes:
    """A name for the content of tensors."""
    known = quick_digest()
    for tensor in tensors:
        feed_tensor(known, tensor)
    return known.digest()


_remembered: weakref.WeakKeyDictionary[StationIcon, tuple[object, RememberedWindows]] = (
    weakref.WeakKeyDictionary()
)


def _windows_of(network: StationIcon, places: Tensor, neighbours: Tensor) -> RememberedWindows:
    """What is remembered; forgotten when the stations or the weights are others than the last time."""
    state = (_digest(places, neighbours), versions(network.parameters()))
    known = _remembered.get(network)
    if known is None or known[0] != state:
        known = (state, RememberedWindows())
        _remembered[network] = known
    return known[1]
