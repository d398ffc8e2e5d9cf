"""A small task: the model is right for small values only, and operators are cheap."""

import torch

import chop
from chop.evolution import Limits, Task
from chop.problems.case import Case
from chop.testing import make_prompt


def model(prompt):
    return torch.tanh(prompt.query.values) * 0.8 + 0.05


def truth(values):
    return 0.8 * values + 0.05


def cases(seed, n):
    drawn = make_prompt(seed, batch=(n,), points=8, dtype=torch.float32)
    inputs = drawn.inputs.with_values(3 * drawn.inputs.values)
    query = drawn.query.with_values(3 * drawn.query.values)
    outputs = inputs.with_values(truth(inputs.values))
    prompt = chop.Prompt(inputs=inputs, outputs=outputs, query=query, at=query.coords)
    return Case(prompt, truth(query.values))


task = Task(
    "toy",
    model,
    cases(1, 20),
    validation=cases(2, 20),
    limits=Limits(size=10, depth=6, calls=18),
    known={"corrected": "correct(icon)"},
    operators=(
        "icon", "rescale", "flip", "correct", "debias", "select", "average", "nearest_output", "ridge",
        "finite", "within_examples", "nearest_examples",
    ),
)  # fmt: skip
