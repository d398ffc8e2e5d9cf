"""`chop.inspect`: every fact of a prompt, without a model."""

from __future__ import annotations

import torch

from chop.core.errors import PromptError
from chop.core.prompt import Prompt
from chop.operators.inspection.change import CHANGE
from chop.operators.inspection.fact import LEAST, Fact, Facts
from chop.operators.inspection.kept import KEPT, mean_claims
from chop.operators.inspection.observed import Measurement, Observed, Trait
from chop.operators.inspection.question import QUERY, SCALE
from chop.operators.inspection.structure import STRUCTURE


def inspect(prompt: Prompt) -> Facts:
    """What the examples of each prompt show: claims with their evidence, and numbers. No model is called.

    Claims are about what was observed of the examples; ``print(chop.inspect(prompt).text())`` shows them, for
    a batch the share of prompts that show each. They do not depend on the units of the data, except for a
    mass of 1.
    """
    if not isinstance(prompt, Prompt):
        raise PromptError(f"inspect reads a Prompt, not {type(prompt).__name__}")
    asked = (*STRUCTURE, *mean_claims(prompt.outputs.channels), *KEPT, *CHANGE, *QUERY, *SCALE)
    with torch.no_grad():
        data = Observed.of(prompt)
        return Facts(tuple(_fact(one, data) for one in asked))


def _fact(asked: Trait | Measurement, data: Observed) -> Fact:
    applies = asked.applies(data)
    value = deviation = torch.full_like(data.unit, torch.nan)
    telling = agreeing = torch.zeros_like(data.unit, dtype=torch.long)
    says, least = ("", LEAST) if isinstance(asked, Measurement) else (asked.says, asked.least)
    if bool(applies.any()):
        if isinstance(asked, Measurement):
            found = asked.read(data)
        else:
            excess, told, shown = asked.read(data)
            told = told & applies.unsqueeze(-1)
            telling, agreeing = told.sum(dim=-1), (told & (excess <= asked.limit)).sum(dim=-1)
            worst = torch.where(told, excess, -torch.inf).amax(dim=-1)
            deviation = torch.where(telling > 0, worst / asked.limit, torch.nan)
            found = torch.where(telling > 0, worst if shown is None else shown, torch.nan)
        value = torch.where(applies, found, value)
    return Fact(
        asked.name, says, asked.measure, value, applies, asked.needs, telling, agreeing, deviation, least
    )  # fmt: skip
