"""`chop.inspect`: every fact of a prompt, and of a model at its examples."""

from __future__ import annotations

import torch
from torch import Tensor

from chop.core.errors import PromptError
from chop.core.model import FrozenModel
from chop.core.prompt import Prompt
from chop.operators.inspection.answered import Answered
from chop.operators.inspection.change import CHANGE
from chop.operators.inspection.fact import LEAST, Fact, Facts
from chop.operators.inspection.kept import KEPT, mean_claims
from chop.operators.inspection.model_facts import MODEL
from chop.operators.inspection.observed import Measurement, Observed, Read, Trait
from chop.operators.inspection.question import QUERY, SCALE
from chop.operators.inspection.structure import STRUCTURE


def inspect(prompt: Prompt, model: FrozenModel | None = None) -> Facts:
    """What the examples of each prompt show: claims with their evidence, and numbers.

    Claims are about what was observed of the examples; ``print(chop.inspect(prompt).text())`` shows them, for
    a batch the share of prompts that show each. They do not depend on the units of the data, except for a
    mass of 1. Without a model none is called. With one, its held-out answers are asked for too: which
    symmetries they respect, and where it is at home (scale, frame, sign).
    """
    if not isinstance(prompt, Prompt):
        raise PromptError(f"inspect reads a Prompt, not {type(prompt).__name__}")
    asked = (*STRUCTURE, *mean_claims(prompt.outputs.channels), *KEPT, *CHANGE, *QUERY, *SCALE)
    with torch.no_grad():
        data = Observed.of(prompt)
        found = [_fact(one, data, data.unit) for one in asked]
        if model is not None:
            answered = Answered.by(model, prompt)
            found += [_fact(one, answered, answered.numbers) for one in MODEL]
        return Facts(tuple(found), _first(prompt))


def _first(prompt: Prompt) -> Prompt:
    """A copy of the first prompt of a batch: facts of a large file must not keep all of it in memory."""
    one = prompt.flat()[0] if prompt.batch.numel() and prompt.batch else prompt
    return one._each(torch.clone)


def _fact(asked: Trait[Read] | Measurement[Read], data: Read, like: Tensor) -> Fact:
    """One fact of all prompts; ``like`` has a number for each of them."""
    applies = asked.applies(data)
    value = deviation = torch.full_like(like, torch.nan)
    telling = agreeing = torch.zeros_like(like, dtype=torch.long)
    says, least = "", LEAST
    choices: tuple[str, ...] = ()
    choice: Tensor | None = None
    if not isinstance(asked, Measurement):
        says, least = asked.says, asked.least
    elif asked.chosen is not None:
        choices, choice = asked.choices, torch.zeros_like(telling)
    if bool(applies.any()):
        if isinstance(asked, Measurement):
            found = asked.read(data)
            choice = None if asked.chosen is None else asked.chosen(data)
        else:
            excess, told, shown = asked.read(data)
            told = told & applies.unsqueeze(-1)
            telling, agreeing = told.sum(dim=-1), (told & (excess <= asked.limit)).sum(dim=-1)
            worst = torch.where(told, excess, -torch.inf).amax(dim=-1)
            deviation = torch.where(telling > 0, worst / asked.limit, torch.nan)
            found = torch.where(telling > 0, worst if shown is None else shown, torch.nan)
        value = torch.where(applies, found, value)
    return Fact(
        asked.name, says, asked.measure, value, applies, asked.needs, telling, agreeing, deviation, least,
        choices, choice,
    )  # fmt: skip
