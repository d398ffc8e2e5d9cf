"""What questions about functions share: every distinct example pair is encoded once."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from chop.core.prompt import Prompt, without_repeats
from chop.icon.functions.tokens import count_rows
from chop.icon.layers import Memory
from chop.icon.sharing import Question, joint_counts, recall_examples, remember_examples

if TYPE_CHECKING:
    from chop.icon.functions.network import Icon

TOKENS = {"cpu": 3000}
"""Tokens worked on at a time (elsewhere 2**19): on a CPU what they need then stays in its cache."""


@dataclass(frozen=True, eq=False)
class EncodedPairs:
    """Memories of a prompt's distinct pairs, ``rows`` rows of the batch in each.

    ``fold (D, distinct)`` says which pair is which if some repeat others.
    """

    memories: tuple[Memory, ...]
    rows: int
    fold: Tensor | None


def encoded_pairs(network: Icon, root: Prompt, share: bool) -> EncodedPairs:
    """The encoded pairs of a prompt, remembered for the next call if sharing is wanted."""
    if share:
        known: EncodedPairs | None = recall_examples(network, root)
        if known is not None:
            return known
    parts = [
        network.rows(tensor, len(root.batch))
        for field in (root.inputs, root.outputs)
        for tensor in (field.values, field.coords)
    ]
    same = _repeats(parts) if share else {}
    fold = None
    if same:
        kept = [j for j in range(root.examples) if j not in same]
        parts = [part[:, kept] for part in parts]
        fold = torch.zeros(root.examples, len(kept), device=parts[0].device, dtype=parts[0].dtype)
        for j in range(root.examples):
            fold[j, kept.index(same.get(j, j))] = 1.0
    x, x_at, y, y_at = parts
    x_at, y_at = _shared_once(x_at), _shared_once(y_at)
    rows = max(1, TOKENS.get(x.device.type, 2**19) // network.pair_tokens(x_at, y_at))
    pieces = zip(*(part.split(rows) for part in (x, x_at, y, y_at)), strict=True)
    found = EncodedPairs(tuple(network.encode(*piece) for piece in pieces), rows, fold)
    if share:
        remember_examples(network, root, found)
    return found


def _repeats(parts: list[Tensor]) -> dict[int, int]:
    """Pairs that repeat an earlier one throughout the batch, as those that pad a prompt do."""
    first = parts[0][:, :, 0, 0]
    likely = (first.unsqueeze(1) == first.unsqueeze(2)).all(dim=0)
    found: dict[int, int] = {}
    for i, j in likely.triu(diagonal=1).nonzero().tolist():
        alike = i not in found and j not in found
        if alike and all(torch.equal(part[:, i], part[:, j]) for part in parts):
            found[j] = i
    return found


def ask(network: Icon, root: Prompt, encoded: EncodedPairs, questions: Sequence[Question]) -> list[Tensor]:
    """Answers ``(B, Q, m, c)`` of all questions about one memory, those on the same grids in one pass."""
    lead = len(root.batch)
    together: OrderedDict[object, list[int]] = OrderedDict()
    for number, question in enumerate(questions):
        together.setdefault(_grids(question.prompt), []).append(number)
    found: dict[int, Tensor] = {}
    for numbers in together.values():
        group = [questions[number] for number in numbers]
        fields = [(q.prompt.query.values, q.prompt.query.coords, q.prompt.at) for q in group]
        parts = [[network.rows(tensor, lead) for tensor in tensors] for tensors in zip(*fields, strict=True)]
        x, x_at, at = (torch.cat(part, dim=1) for part in parts)
        sizes = [part.shape[1] for part in parts[0]]
        asked = [x, _shared_once(x_at), _shared_once(at)]
        if encoded.fold is not None or any(question.kept is not None for question in group):
            counts = joint_counts(group, sizes, len(x), like=x)
            asked.append(counts if encoded.fold is None else counts @ encoded.fold)
        pieces = zip(encoded.memories, *(part.split(encoded.rows) for part in asked), strict=True)
        values = torch.cat([network.decode(*piece) for piece in pieces])
        found.update(zip(numbers, values.split(sizes, dim=1), strict=True))
    return [found[number] for number in range(len(questions))]


def _shared_once(coords: Tensor) -> Tensor:
    """Coordinates that are the same for all, once: what is made of them need not be repeated."""
    if coords.stride(0) != 0 and bool((coords == coords[:1, :1]).all()):
        return coords[:1, :1].expand(coords.shape)
    return coords


def _grids(prompt: Prompt) -> object:
    rows = tuple(int(count_rows(without_repeats(c)).flatten()[0]) for c in (prompt.query.coords, prompt.at))
    return (prompt.query.points, prompt.at.shape[-2], rows)
