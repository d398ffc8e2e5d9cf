"""What was made of a prompt's examples, remembered for the next question about the same ones.

The steps of a rollout keep the very objects that hold their examples, and prompts made from one by leaving
pairs out know it (`Prompt.origin`): so what is made of examples once need not be made again.
"""

from __future__ import annotations

import weakref
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor

from chop.core.fields import Field, Graph, versions
from chop.core.prompt import Prompt

REMEMBERED = 4
"""Batches of examples of which something is kept, as long as the examples themselves live."""


class _Entry(NamedTuple):
    inputs: weakref.ref[Field]
    outputs: weakref.ref[Field]
    graph: Graph | None
    state: tuple[object, ...]
    made: Any


class KnownExamples:
    """What was made of the examples of the last few prompts.

    It is known as long as the very fields live and neither they nor ``also``, the tensors that it depends on
    besides, are written to.
    """

    def __init__(self, most: int = REMEMBERED) -> None:
        self._most = most
        self._known: OrderedDict[int, _Entry] = OrderedDict()

    def __len__(self) -> int:
        return len(self._known)

    def recall(self, prompt: Prompt, also: Iterable[Tensor] = ()) -> Any:
        """What was kept for this prompt's examples; None if it is not known any more."""
        entry = self._known.get(id(prompt.inputs))
        if entry is None or entry.inputs() is not prompt.inputs or entry.outputs() is not prompt.outputs:
            return None
        same = entry.graph is prompt.graph and entry.state == _state(prompt, also)
        return entry.made if same else None

    def keep(self, prompt: Prompt, made: Any, also: Iterable[Tensor] = ()) -> None:
        """Remember what was made of a prompt's examples, and forget the oldest."""
        inputs, outputs = prompt.inputs, prompt.outputs
        # What is made in inference mode does not count how often it is written to: it is not remembered.
        if inputs.values.is_inference() or outputs.values.is_inference():
            return
        known, key = self._known, id(inputs)

        def forget(_: object) -> None:
            known.pop(key, None)

        known.pop(key, None)
        fields = weakref.ref(inputs, forget), weakref.ref(outputs, forget)
        known[key] = _Entry(*fields, prompt.graph, _state(prompt, also), made)
        while len(known) > self._most:
            known.popitem(last=False)


def _state(prompt: Prompt, also: Iterable[Tensor]) -> tuple[object, ...]:
    """Changes when the examples or what else matters is written to."""
    inputs, outputs = prompt.inputs, prompt.outputs
    return versions((inputs.values, inputs.coords, outputs.values, outputs.coords, *also))


def ancestors(prompt: Prompt) -> Iterator[tuple[Prompt, Tensor]]:
    """The prompts that its examples come from, nearest first, each with the pairs of it that were kept.

    Those are ``(*prompt.batch, pairs)``; the batch of an ancestor is the beginning of the prompt's own.
    """
    kept = None
    while prompt.origin is not None:
        kept = prompt.origin.kept if kept is None else _composed(prompt.origin.kept, kept)
        prompt = prompt.origin.parent
        yield prompt, kept


def first_prompt(prompt: Prompt) -> tuple[Prompt, Tensor]:
    """The prompt in which its examples first appeared, and which of the pairs there they are."""
    itself = prompt, torch.arange(prompt.examples).expand(*prompt.batch, prompt.examples)
    return [itself, *ancestors(prompt)][-1]


def _composed(outer: Tensor, inner: Tensor) -> Tensor:
    """Pairs ``inner`` of a prompt that itself kept ``outer`` of its parent."""
    while outer.ndim < inner.ndim:
        outer = outer.unsqueeze(-2)
    return outer.expand(*inner.shape[:-1], -1).gather(-1, inner)
