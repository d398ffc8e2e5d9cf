"""Answering many prompts at once: what prompts share is encoded once.

Held-out prompts know which pairs of which parent they kept, so all prompts of one parent ask one memory,
and how often each sees each pair enters attention as the logarithm of that count: a hidden pair has
count 0, one that pads the prompt has count 2.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from chop.core.prompt import Prompt, without_repeats


@dataclass(frozen=True, eq=False)
class Question:
    """A prompt, the one whose pairs it uses, and how often: ``(*batch of the prompt, pairs)``, None: once."""

    prompt: Prompt
    root: Prompt
    seen: Tensor | None = None

    @staticmethod
    def about_root(prompt: Prompt) -> Question:
        """Back to the prompt the examples first appeared in."""
        root, kept = prompt, None
        while root.origin is not None:
            kept = root.origin.kept if kept is None else _composed(root.origin.kept, kept)
            root = root.origin.parent
        if kept is None:
            return Question(prompt, prompt)
        return Question(prompt, root, nn.functional.one_hot(kept, root.examples).sum(dim=-2))


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


def _composed(outer: Tensor, inner: Tensor) -> Tensor:
    """Pairs ``inner`` of a prompt that itself kept ``outer`` of its parent."""
    while outer.ndim < inner.ndim:
        outer = outer.unsqueeze(-2)
    return outer.expand(*inner.shape[:-1], -1).gather(-1, inner)


class InContextNetwork(nn.Module, ABC):
    """A frozen model once trained: ``network(prompt)`` is the answer at ``prompt.at``."""

    blocks: ClassVar[tuple[str, ...]]
    """Where the matrices are whose momentum is orthogonalised in training."""
    head: nn.Linear

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
            question = Question.about_root(prompt) if share else Question(prompt, prompt)
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
        device, dtype = self.head.weight.device, self.head.weight.dtype
        if tensor.dtype == torch.bool:
            dtype = torch.bool
        once = without_repeats(tensor)
        if all(size == 1 for size in once.shape[:lead]):
            moved = once.to(device, dtype).reshape(1, *once.shape[lead:])
            flat = moved.expand(tensor.shape[:lead].numel(), *tensor.shape[lead:])
        else:
            flat = tensor.to(device, dtype).reshape(-1, *tensor.shape[lead:])
        return flat.unsqueeze(1) if flat.ndim == 3 else flat.flatten(1, -3)


def versions(tensors: Iterable[Tensor]) -> tuple[tuple[int, int], ...]:
    """Changes when one of the tensors is written to; those made in inference mode do not count that."""
    return tuple((t.data_ptr(), 0 if t.is_inference() else t._version) for t in tensors)
