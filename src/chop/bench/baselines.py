"""Baselines that no program expresses: prompt bagging and test-time fine-tuning."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from chop import metrics
from chop.bench.methods import FINE_TUNING_STEPS
from chop.core.errors import BenchError
from chop.core.prompt import Prompt

if TYPE_CHECKING:
    from chop.icon.functions.network import Icon
    from chop.problems.case import Case


def answer(
    method: str, network: Icon, case: Case, first: int, seed: int
) -> tuple[Tensor, Tensor | None, int]:
    """Errors ``(n)``, a curve ``(n, snapshots)`` if there is one, and model evaluations a question."""
    name, _, rest = method.removeprefix("@").partition("(")
    if name == "bag":
        times = int(rest.rstrip(")"))
        return metrics.rel_l2(bagged(network, case.prompt, times, first, seed), case.target), None, times
    if name == "finetune":
        curve = torch.stack(
            [_tuned(network, case[i : i + 1], float(rest.rstrip(")"))) for i in range(len(case))]
        )
        return curve[:, -1], curve, 1 + case.prompt.examples * FINE_TUNING_STEPS[-1]
    raise BenchError(f"there is no baseline {method!r}")


def bagged(network: Icon, prompt: Prompt, times: int, first: int, seed: int) -> Tensor:
    """The mean answer over prompts whose examples are drawn with replacement, the same for one case."""
    drawn = np.stack(
        [
            np.random.default_rng([seed, first + i]).integers(0, prompt.examples, (times, prompt.examples))
            for i in range(prompt.batch.numel())
        ]
    )
    kept = torch.from_numpy(np.sort(drawn, axis=-1))
    with torch.inference_mode():
        answers = network.predict_many([prompt.choose(kept[:, k]) for k in range(times)])
    return torch.stack(answers).mean(dim=0).clone()


def _tuned(network: Icon, case: Case, rate: float) -> Tensor:
    """Errors of one question after 1, 3, 10 steps of Adam on leave-one-out episodes of its examples."""
    prompt = case.prompt
    tuned = copy.deepcopy(network).requires_grad_(True)
    optimizer = torch.optim.Adam(tuned.parameters(), lr=rate)
    x, x_at, y, y_at = (
        tensor.to(torch.float32)
        for field in (prompt.inputs, prompt.outputs)
        for tensor in (field.values, field.coords)
    )
    visible = _others(prompt)
    size = y.square().mean(dim=(-1, -2)) + 1e-6
    found = []
    for step in range(1, FINE_TUNING_STEPS[-1] + 1):
        optimizer.zero_grad()
        values = tuned.decode(tuned.encode(x, x_at, y, y_at), x, x_at, y_at, visible)
        loss = ((values - y).square().mean(dim=(-1, -2)) / size).mean()
        loss.backward()
        optimizer.step()
        if step in FINE_TUNING_STEPS:
            with torch.inference_mode():
                found.append(metrics.rel_l2(tuned(prompt), case.target)[0].clone())
    return torch.stack(found)


def _others(prompt: Prompt) -> Tensor:
    """Which examples each episode sees ``(1, D, D)``: not its own, nor one that shows its output."""
    d = prompt.examples
    seen = 1 - torch.eye(d)
    inputs, outputs = prompt.inputs.values[0], prompt.outputs.values[0]
    if inputs.shape == outputs.shape:
        shows = (outputs[:, None] == inputs[None]).flatten(2).all(dim=-1)
        seen = seen * (~shows).to(seen.dtype)
    return seen[None]


__all__ = ["answer", "bagged"]
