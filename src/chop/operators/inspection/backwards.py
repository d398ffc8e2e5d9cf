"""The examples in another order, which should not matter: to ask a model, no program text has it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

import torch

from chop.core.program import Frame, Transform
from chop.core.prompt import Prompt


@final
@dataclass(frozen=True)
class Backwards(Transform):
    """The examples backwards from the second, each with its time.

    Not from the last: examples that are repeated to fill a prompt up, a b a, would be the same backwards.
    """

    name: ClassVar[str] = "backwards"

    def fit(self, prompt: Prompt) -> Frame:
        order = (1 - torch.arange(prompt.examples, device=prompt.device)) % prompt.examples
        mapped = prompt.choose(order.expand(*prompt.batch, -1))
        return Frame(mapped, lambda values: values, lambda values: values.index_select(-3, order))
