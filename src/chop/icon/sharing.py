"""Answering many prompts at once: what prompts share is encoded once.

Held-out prompts know which pairs of which parent they kept, so all prompts of one parent ask one memory.
Where the order of pairs does not matter, how often each is seen enters attention as the logarithm of that
count: a hidden pair has count 0, one that pads the prompt has count 2. Where it matters, prompts share what
begins alike (`chop.icon.published.prefixes`). What was made of examples is remembered as long as they live
(`chop.core.remembering`).
"""

from __future__ import annotations

import weakref
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from chop.core.prompt import Prompt, without_repeats
from chop.core.remembering import KnownExamples, ancestors


@dataclass(frozen=True, eq=False)
class Question:
    """A prompt, the one whose pairs it uses, and which: ``(*batch of the prompt, pairs)``, None: all."""

    prompt: Prompt
    root: Prompt
    kept: Tensor | None = None

    @property
    def seen(self) -> Tensor | None:
        """How often each pair of the root is seen, ``(*batch of the prompt, pairs of the root)``."""
        if self.kept is None:
            return None
        return nn.functional.one_hot(self.kept, self.root.examples).sum(dim=-2)

    @property
    def sequences(self) -> list[tuple[int, ...]]:
        """The pairs of each query in their order, if all prompts of the root's batch have kept the same."""
        if self.kept is None:
            return [tuple(range(self.root.examples))]
        first = self.kept[(0,) * len(self.root.batch)]
        return [tuple(row) for row in first.reshape(-1, first.shape[-1]).tolist()]

    @staticmethod
    def about_root(prompt: Prompt, alike: bool = False) -> Question:
        """Back to the prompt the examples first appeared in.

        ``alike``: back to the first one of which all prompts of its batch have kept the same pairs.
        """
        found = Question(prompt, prompt)
        for root, kept in ancestors(prompt):
            if not alike or _all_equal(kept, len(root.batch)):
                found = Question(prompt, root, kept)
        return found


def joint_counts(questions: Sequence[Question], sizes: Sequence[int], batch: int, like: Tensor) -> Tensor:
    """How often each query sees each pair, ``(B, all queries, pairs)``.

    ``sizes`` says how many queries each question has; dtype and device are those of ``like``.
    """
    found = []
    for question, size in zip(questions, sizes, strict=True):
        shape = (batch, size, question.root.examples)
        if question.seen is None:
            found.append(torch.ones(shape, device=like.device, dtype=like.dtype))
        else:
            found.append(question.seen.to(like.device, like.dtype).reshape(shape))
    return torch.cat(found, dim=1)


def _all_equal(kept: Tensor, lead: int) -> bool:
    """Whether the first ``lead`` axes only repeat what their first element has."""
    once = without_repeats(kept)
    return bool((once == once[(slice(0, 1),) * lead]).all())


class InContextNetwork(nn.Module, ABC):
    """A frozen model once trained: ``network(prompt)`` is the answer at ``prompt.at``."""

    blocks: ClassVar[tuple[str, ...]] = ()
    """Where the matrices are whose momentum is orthogonalised in training."""
    ordered: ClassVar[bool] = False
    """Whether the order of the examples matters: questions about one prompt must then agree on it."""

    @abstractmethod
    def check(self, prompt: Prompt) -> None:
        """Whether this network can be asked this prompt; if not, why."""

    @abstractmethod
    def is_uniform(self, prompt: Prompt) -> bool:
        """Whether all prompts of a batch are laid out the same way and can be answered together."""

    @abstractmethod
    def answers(self, root: Prompt, questions: Sequence[Question], share: bool) -> list[Tensor]:
        """Answers ``(B, Q, m, c)`` of all questions about one prompt's pairs."""

    def forward(self, prompt: Prompt) -> Tensor:
        """The answer ``(..., m, c)`` in the prompt's dtype; every prompt of the batch by itself."""
        return self._predict([prompt], share=False)[0]

    def predict_many(self, prompts: Sequence[Prompt]) -> list[Tensor]:
        """One answer a prompt; what prompts share is encoded once."""
        return self._predict(prompts, share=True)

    def _predict(self, prompts: Sequence[Prompt], share: bool) -> list[Tensor]:
        """An answer for each prompt, in its own dtype and on its own device."""
        for prompt in prompts:
            self.check(prompt)
        found: dict[int, Tensor] = {}
        groups: OrderedDict[Prompt, dict[int, Question]] = OrderedDict()
        for number, prompt in enumerate(prompts):
            if not self.is_uniform(prompt):
                flat = prompt.flat()
                alone = [self._predict([flat[i]], share)[0] for i in range(len(flat.query.values))]
                found[number] = torch.stack(alone).reshape(prompt.answer_shape)
                continue
            question = Question.about_root(prompt, self.ordered) if share else Question(prompt, prompt)
            groups.setdefault(question.root, {})[number] = question
        for root, asked in groups.items():
            for number, values in zip(asked, self.answers(root, list(asked.values()), share), strict=True):
                prompt = prompts[number]
                found[number] = values.reshape(prompt.answer_shape).to(prompt.device, prompt.dtype)
        return [found[number] for number in range(len(prompts))]

    def rows(self, tensor: Tensor, lead: int) -> Tensor:
        """``(B, Q, n, c)``: the first ``lead`` axes as one and the axes after them as one.

        On the network's device and, unless it is a mask, in its dtype; shared axes stay shared.
        """
        own = next(self.parameters())
        device, dtype = own.device, own.dtype
        if tensor.dtype == torch.bool:
            dtype = torch.bool
        once = without_repeats(tensor)
        if all(size == 1 for size in once.shape[:lead]):
            moved = once.to(device, dtype).reshape(1, *once.shape[lead:])
            flat = moved.expand(tensor.shape[:lead].numel(), *tensor.shape[lead:])
        else:
            flat = tensor.to(device, dtype).reshape(-1, *tensor.shape[lead:])
        return flat.unsqueeze(1) if flat.ndim == 3 else flat.flatten(1, -3)


_memories: weakref.WeakKeyDictionary[InContextNetwork, KnownExamples] = weakref.WeakKeyDictionary()


def recall_examples(network: InContextNetwork, root: Prompt) -> Any:
    """What the network made of a prompt's pairs in an earlier call; None if it is not known any more."""
    memory = _memories.get(network)
    return None if memory is None else memory.recall(root, network.parameters())


def remember_examples(network: InContextNetwork, root: Prompt, encoded: Any) -> None:
    """Keep what was made of a prompt's pairs for the next call."""
    if not torch.is_grad_enabled():
        _memories.setdefault(network, KnownExamples()).keep(root, encoded, network.parameters())
