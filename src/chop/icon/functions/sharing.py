"""Answering many prompts at once: every distinct example pair is encoded once.

Held-out prompts know which pairs of which parent they kept, so all prompts of one parent ask one memory,
and how often each sees each pair enters attention as the logarithm of that count: a hidden pair has
count 0, one that pads the prompt has count 2. The steps of a rollout keep the very objects that hold
their examples, and a memory is remembered as long as they live.
"""

from __future__ import annotations

import weakref
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from chop.core.prompt import Field, Prompt, without_repeats
from chop.icon.functions.tokens import count_rows

if TYPE_CHECKING:
    from chop.icon.functions.network import Icon, Memory

TOKENS = {"cpu": 3000}
"""Tokens worked on at a time (elsewhere 2**19): on a CPU what they need then stays in its cache."""
REMEMBERED = 4
"""Encoded batches of examples kept for the next call, as long as the examples themselves live."""


@dataclass(frozen=True, eq=False)
class Question:
    """A prompt, the one whose pairs it uses, and how often: ``(*batch of the prompt, pairs)``."""

    number: int
    prompt: Prompt
    root: Prompt
    counts: Tensor | None


def predict(network: Icon, prompts: Sequence[Prompt], share: bool) -> list[Tensor]:
    """An answer for each prompt, in its own dtype and on its own device."""
    for prompt in prompts:
        network.check(prompt)
    answers: dict[int, Tensor] = {}
    groups: OrderedDict[Prompt, list[Question]] = OrderedDict()
    for number, prompt in enumerate(prompts):
        if not _uniform(network, prompt):
            flat = prompt.flat()
            alone = [predict(network, [flat[i]], share)[0] for i in range(len(flat.query.values))]
            answers[number] = torch.stack(alone).reshape(prompt.answer_shape)
            continue
        question = traced(number, prompt) if share else _plain(number, prompt)
        groups.setdefault(question.root, []).append(question)
    for root, questions in groups.items():
        encoded = _encoded(network, root, share)
        for number, values in _ask(network, root, encoded, questions):
            answers[number] = values
    return [answers[number] for number in range(len(prompts))]


def _uniform(network: Icon, prompt: Prompt) -> bool:
    """Whether all prompts of a batch are cut into tokens the same way."""
    if network.config.grid is not None or prompt.dimensions == 1:
        return True
    where = (prompt.inputs.coords, prompt.outputs.coords, prompt.query.coords, prompt.at)
    return all(
        bool((rows == rows.flatten()[0]).all()) for rows in (count_rows(without_repeats(c)) for c in where)
    )


def _plain(number: int, prompt: Prompt) -> Question:
    return Question(number, prompt, prompt, None)


def traced(number: int, prompt: Prompt) -> Question:
    """Back to the prompt the examples first appeared in."""
    root, kept = prompt, None
    while root.origin is not None:
        kept = root.origin.kept if kept is None else _composed(root.origin.kept, kept)
        root = root.origin.parent
    if kept is None:
        return _plain(number, prompt)
    hits = torch.nn.functional.one_hot(kept, root.examples).sum(dim=-2)
    return Question(number, prompt, root, hits)


def _composed(outer: Tensor, inner: Tensor) -> Tensor:
    """Pairs ``inner`` of a prompt that itself kept ``outer`` of its parent."""
    while outer.ndim < inner.ndim:
        outer = outer.unsqueeze(-2)
    return outer.expand(*inner.shape[:-1], -1).gather(-1, inner)


@dataclass(frozen=True, eq=False)
class _Encoded:
    """Memories of a prompt's distinct pairs, ``rows`` rows of the batch in each.

    ``fold (D, distinct)`` says which pair is which if some repeat others.
    """

    memories: tuple[Memory, ...]
    rows: int
    fold: Tensor | None


def _encoded(network: Icon, root: Prompt, share: bool) -> _Encoded:
    """The encoded pairs of a prompt, remembered for the next call if sharing is wanted."""
    if share:
        known = _recall(network, root.inputs, root.outputs)
        if known is not None:
            return known
    lead = len(root.batch)
    parts = [
        _flat(tensor, lead, network)
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
    x_at, y_at = _leaner(x_at), _leaner(y_at)
    rows = max(1, TOKENS.get(x.device.type, 2**19) // network.pair_tokens(x_at, y_at))
    pieces = zip(*(part.split(rows) for part in (x, x_at, y, y_at)), strict=True)
    found = _Encoded(tuple(network.encode(*piece) for piece in pieces), rows, fold)
    if share and not torch.is_grad_enabled() and not root.outputs.values.is_inference():
        _remember(network, root.inputs, root.outputs, found)
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


def _ask(
    network: Icon, root: Prompt, encoded: _Encoded, questions: list[Question]
) -> list[tuple[int, Tensor]]:
    """All questions about one memory, those on the same grids in one pass."""
    lead = len(root.batch)
    together: OrderedDict[object, list[Question]] = OrderedDict()
    for question in questions:
        together.setdefault(_shape(question.prompt), []).append(question)
    found = []
    for group in together.values():
        parts = [_query(network, question, lead, root.examples) for question in group]
        x, x_at, at, counts = (torch.cat(list(part), dim=1) for part in zip(*parts, strict=True))
        if encoded.fold is not None:
            counts = counts.to(encoded.fold.dtype) @ encoded.fold
        plain = encoded.fold is None and all(question.counts is None for question in group)
        asked = (x, _leaner(x_at), _leaner(at), *(() if plain else (counts,)))
        pieces = zip(encoded.memories, *(part.split(encoded.rows) for part in asked), strict=True)
        values = torch.cat([network.decode(*piece) for piece in pieces])
        sizes = [part[0].shape[1] for part in parts]
        for question, piece in zip(group, values.split(sizes, dim=1), strict=True):
            prompt = question.prompt
            answer = piece.reshape(prompt.answer_shape)
            found.append((question.number, answer.to(device=prompt.device, dtype=prompt.dtype)))
    return found


def _query(network: Icon, question: Question, lead: int, pairs: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Query, its points, the points asked and the counts, each ``(B, Q, ...)``."""
    prompt = question.prompt

    def rows(tensor: Tensor, trailing: int) -> Tensor:
        flat = _flat(tensor, lead, network)
        return flat.unsqueeze(1) if flat.ndim == trailing + 1 else flat.flatten(1, -trailing - 1)

    x, x_at, at = (rows(part, 2) for part in (prompt.query.values, prompt.query.coords, prompt.at))
    if question.counts is None:
        counts = torch.ones(*x.shape[:2], pairs, device=x.device, dtype=x.dtype)
    else:
        counts = rows(question.counts, 1)
    return x, x_at, at, counts


def _flat(tensor: Tensor, lead: int, network: Icon) -> Tensor:
    """Leading axes to one, in the network's dtype and on its device; shared axes stay shared."""
    weight = network.head.weight
    body = tensor.shape[lead:]
    once = without_repeats(tensor)
    if all(size == 1 for size in once.shape[:lead]):
        moved = once.to(device=weight.device, dtype=weight.dtype).reshape(1, *once.shape[lead:])
        return moved.expand(tensor.shape[:lead].numel(), *body)
    return tensor.to(device=weight.device, dtype=weight.dtype).reshape(-1, *body)


def _leaner(coords: Tensor) -> Tensor:
    """Coordinates that are the same for all, once: what is made of them need not be repeated."""
    if coords.stride(0) != 0 and bool((coords == coords[:1, :1]).all()):
        return coords[:1, :1].expand(coords.shape)
    return coords


def _shape(prompt: Prompt) -> object:
    rows = tuple(int(count_rows(without_repeats(c)).flatten()[0]) for c in (prompt.query.coords, prompt.at))
    return (prompt.query.points, prompt.at.shape[-2], rows)


_Entry = tuple["weakref.ref[Field]", "weakref.ref[Field]", tuple[object, ...], _Encoded]
_memories: weakref.WeakKeyDictionary[Icon, OrderedDict[int, _Entry]] = weakref.WeakKeyDictionary()


def _recall(network: Icon, inputs: Field, outputs: Field) -> _Encoded | None:
    entry = _memories.get(network, OrderedDict()).get(id(inputs))
    if entry is None or entry[0]() is not inputs or entry[1]() is not outputs:
        return None
    return entry[3] if entry[2] == _state(network, inputs, outputs) else None


def _remember(network: Icon, inputs: Field, outputs: Field, encoded: _Encoded) -> None:
    known = _memories.setdefault(network, OrderedDict())
    key = id(inputs)

    def forget(_: object) -> None:
        known.pop(key, None)

    state = _state(network, inputs, outputs)
    known[key] = (weakref.ref(inputs, forget), weakref.ref(outputs, forget), state, encoded)
    while len(known) > REMEMBERED:
        known.popitem(last=False)


def _state(network: Icon, inputs: Field, outputs: Field) -> tuple[object, ...]:
    """Changes when the examples or the weights are written to.

    Tensors made in inference mode do not count that; examples made there are not remembered.
    """
    tensors = (inputs.values, inputs.coords, outputs.values, outputs.coords, *network.parameters())
    return tuple((t.data_ptr(), 0 if t.is_inference() else t._version) for t in tensors)


__all__ = ["Question", "predict", "traced"]
