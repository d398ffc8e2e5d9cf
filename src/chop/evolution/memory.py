"""A model that remembers: what two candidates both ask is answered once.

Answers are kept by the content of the question, and every prompt is asked on its own, so an answer is a
function of its prompt alone: whether it was remembered, in which process, or asked anew after a crash
makes no difference to a single bit. Candidates with common parts ask common prompts.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

from torch import Tensor

from chop.core.model import Caller, FrozenModel
from chop.core.prompt import Prompt
from chop.runs.fingerprint import content_key

MAX_BYTES = 384 * 2**20


class Remembering:
    """A frozen model around another; forgets what was used longest ago beyond ``max_bytes``."""

    def __init__(self, model: FrozenModel, max_bytes: int = MAX_BYTES) -> None:
        self._model = model
        self._max_bytes = max_bytes
        self._held = 0
        self._answers: OrderedDict[bytes, Tensor] = OrderedDict()

    def __call__(self, prompt: Prompt, /) -> Tensor:
        """The answer of the model, remembered or new."""
        return self.predict_many([prompt])[0]

    def predict_many(self, prompts: Sequence[Prompt], /) -> list[Tensor]:
        """One answer a prompt, each asked alone."""
        return [self._answer(prompt) for prompt in prompts]

    def _answer(self, prompt: Prompt) -> Tensor:
        key = content_key(prompt)
        known = self._answers.get(key)
        if known is not None:
            self._answers.move_to_end(key)
            return known
        answer = Caller(self._model, _root(prompt))([prompt])[0]
        self._answers[key] = answer
        self._held += answer.nbytes
        while self._held > self._max_bytes and len(self._answers) > 1:
            _, oldest = self._answers.popitem(last=False)
            self._held -= oldest.nbytes
        return answer


def _root(prompt: Prompt) -> Prompt:
    """The prompt along whose batch large questions are cut: the one whose examples are shared."""
    while prompt.origin is not None:
        prompt = prompt.origin.parent
    return prompt


__all__ = ["Remembering", "content_key"]
