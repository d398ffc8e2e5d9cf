"""A network that remembers what it was asked: programs that ask the same of one case pay once."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from torch import Tensor

from chop.core.model import SharesExamples
from chop.core.prompt import Prompt


class Remembering:
    """Answers of a network to the prompts of one case, kept until they are forgotten.

    Two prompts are the same if they are one object, or show the same pairs of one prompt and ask the same
    query: so the held-out prompts of two programs are the same too.
    """

    def __init__(self, network: SharesExamples) -> None:
        self._network = network
        self._known: dict[Hashable, tuple[Prompt, Tensor]] = {}

    def __call__(self, prompt: Prompt, /) -> Tensor:
        return self.predict_many([prompt])[0]

    def predict_many(self, prompts: Sequence[Prompt], /) -> list[Tensor]:
        """One answer a prompt; only what is new is asked, all at once."""
        keys = [_key(prompt) for prompt in prompts]
        new = {key: prompt for key, prompt in zip(keys, prompts, strict=True) if key not in self._known}
        if new:
            answers = self._network.predict_many(list(new.values()))
            for (key, prompt), answer in zip(new.items(), answers, strict=True):
                self._known[key] = prompt, answer  # the prompt too: while it lives its identity is its own
        return [self._known[key][1].reshape(p.answer_shape) for key, p in zip(keys, prompts, strict=True)]

    def forget(self) -> None:
        """Before the next case."""
        self._known.clear()


def _key(prompt: Prompt) -> Hashable:
    if prompt.origin is None:
        return id(prompt)
    kept = prompt.origin.kept.contiguous()
    return _key(prompt.origin.parent), id(prompt.query), tuple(kept.shape), kept.cpu().numpy().tobytes()


__all__ = ["Remembering"]
