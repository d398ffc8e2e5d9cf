"""Answers to questions about functions: programs, rollouts, and baselines that no program expresses.

Those baselines are prompt bagging and test-time fine-tuning.
"""

from __future__ import annotations

import copy
import time
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from chop import metrics
from chop.bench.methods import FINE_TUNING_STEPS
from chop.bench.suite import Condition, Piece, Setting
from chop.core.errors import BenchError
from chop.core.forecast import rollout
from chop.core.prompt import Prompt
from chop.core.text import parse
from chop.icon.functions.network import Icon
from chop.storage.schema import Record

if TYPE_CHECKING:
    from chop.icon.sharing import InContextNetwork
    from chop.problems.case import Case

VALIDATED = ("main", "ablations", "best", "evolved", "hand", "auto", "own")
"""Groups whose programs are also asked for their in-context errors."""
PROMPTS_VALIDATED = 100
"""In-context errors are taken on the first questions of a condition: they cost D more evaluations."""


@lru_cache(maxsize=6)
def questions(condition: Condition, first: int, end: int, seed: int) -> Case:
    """The questions ``first`` to ``end - 1`` of a condition with their truth."""
    from chop.problems import conservation, mfc

    options: dict[str, Any] = dict(condition.settings)
    options |= {"n": end - first, "first": first, "seed": seed, "split": condition.split}
    if condition.problem == "mfc":
        return mfc.sample(**options)
    return conservation.sample(**options, steps=condition.steps)


class FunctionAnswer(NamedTuple):
    """What a method made of some questions."""

    errors: Tensor
    """``(n)``"""
    calls: int
    """Model evaluations a question."""
    curve: Tensor | None = None
    """Errors of every step, or after every few steps of fine-tuning, ``(n, steps)``."""
    in_context: Tensor | None = None
    """Mean squared in-context errors, where a program had to know them."""


def evaluate(piece: Piece, setting: Setting) -> list[Record]:
    """The records of a piece of work, one for each question and method."""
    first, end = piece.questions[0], piece.questions[-1] + 1
    records: list[Record] = []
    for condition, method in ((c, method) for c, methods in piece.asked for method in methods):
        case = questions(condition, first, end, setting.seed)
        network = setting.network(condition.problem)
        begun = time.perf_counter()
        found = _answer(condition, method, network, case, first, setting.seed)
        seconds = time.perf_counter() - begun
        wanted = piece.group in VALIDATED and first < PROMPTS_VALIDATED and condition.steps == 1
        seen = None
        if wanted and not method.startswith("@"):
            seen = _in_context(method, case, network, found.in_context)
        records += [
            {
                "condition": condition.name,
                "method": method,
                "batch": [first, end],
                "index": first + i,
                "error": _number(found.errors[i], 9),
                "calls": found.calls,
                "ms": round(1000 * seconds / (end - first), 3),
                **({} if found.curve is None else {"curve": [_number(v, 4) for v in found.curve[i]]}),
                **({} if seen is None else {"in_context": _number(seen[i], 6)}),
            }
            for i in range(end - first)
        ]
    return records


def _answer(
    condition: Condition, method: str, network: InContextNetwork, case: Case, first: int, seed: int
) -> FunctionAnswer:
    if method.startswith("@"):
        return _baseline(method, network, case, first, seed)
    if condition.steps > 1:
        assert case.trajectory is not None
        run = rollout(parse(method), network, case.prompt, condition.steps)
        curve = metrics.rel_l2(run.values, case.trajectory[:, -condition.steps :, :, None])
        return FunctionAnswer(curve[:, -1], run.calls, curve)
    result = parse(method).run(network, case.prompt, trace=False)
    return FunctionAnswer(metrics.rel_l2(result.values, case.target), result.calls, None, result.error)


def _in_context(method: str, case: Case, network: InContextNetwork, error: Tensor | None) -> Tensor:
    """Relative in-context error: root of the mean squared error over the mean square of the outputs."""
    if error is None:
        error = parse(method).run(network, case.prompt, trace=False, validate=True).error
    assert error is not None
    size = case.prompt.outputs.values.square().mean(dim=(-1, -2, -3))
    return (error / size).sqrt()


def _number(value: Tensor, digits: int) -> float | None:
    """A finite number in few digits, None for one that is not finite."""
    number = float(value)
    return float(f"{number:.{digits}g}") if torch.isfinite(value) else None


def _baseline(method: str, network: InContextNetwork, case: Case, first: int, seed: int) -> FunctionAnswer:
    name, _, rest = method.removeprefix("@").partition("(")
    if name == "bag":
        times = int(rest.rstrip(")"))
        return FunctionAnswer(
            metrics.rel_l2(bagged(network, case.prompt, times, first, seed), case.target), times
        )
    if name == "finetune":
        rate = float(rest.rstrip(")"))
        curve = torch.stack([_tuned(network, case[i : i + 1], rate) for i in range(len(case))])
        return FunctionAnswer(curve[:, -1], 1 + case.prompt.examples * FINE_TUNING_STEPS[-1], curve)
    raise BenchError(f"there is no baseline {method!r}")


def bagged(network: InContextNetwork, prompt: Prompt, times: int, first: int, seed: int) -> Tensor:
    """The mean answer over prompts whose examples are drawn with replacement, the same for one case."""
    picked = np.stack(
        [
            np.random.default_rng([seed, first + i]).integers(0, prompt.examples, (times, prompt.examples))
            for i in range(prompt.batch.numel())
        ]
    )
    kept = torch.from_numpy(np.sort(picked, axis=-1))
    with torch.inference_mode():
        answers = network.predict_many([prompt.choose(kept[:, k]) for k in range(times)])
    return torch.stack(answers).mean(dim=0).clone()


def _tuned(network: InContextNetwork, case: Case, rate: float) -> Tensor:
    """Errors of one question after 1, 3, 10 steps of Adam on leave-one-out episodes of its examples."""
    prompt = case.prompt
    tuned = copy.deepcopy(network).requires_grad_(True)
    optimizer = torch.optim.Adam(tuned.parameters(), lr=rate)
    y = prompt.outputs.values.to(torch.float32)
    size = y.square().mean(dim=(-1, -2)) + 1e-6
    found = []
    for step in range(1, FINE_TUNING_STEPS[-1] + 1):
        optimizer.zero_grad()
        values = _episodes(tuned, prompt.to(torch.float32))
        loss = ((values - y).square().mean(dim=(-1, -2)) / size).mean()
        loss.backward()
        optimizer.step()
        if step in FINE_TUNING_STEPS:
            with torch.inference_mode():
                found.append(metrics.rel_l2(tuned(prompt), case.target)[0].clone())
    return torch.stack(found)


def _episodes(network: InContextNetwork, prompt: Prompt) -> Tensor:
    """Every example of one prompt answered from the others, ``(1, D, m, c)``."""
    seen = _others(prompt)
    if network.ordered:
        asked = [_episode(prompt, seen, number) for number in range(prompt.examples)]
        return torch.stack([network(episode) for episode in asked], dim=1)
    assert isinstance(network, Icon)
    x, y = prompt.inputs, prompt.outputs
    encoded = network.encode(x.values, x.coords, y.values, y.coords)
    return network.decode(encoded, x.values, x.coords, y.coords, seen[None])


def _episode(prompt: Prompt, seen: Tensor, number: int) -> Prompt:
    query = prompt.inputs.each(lambda tensor: tensor[:, number])
    shown = prompt.choose(seen[number].nonzero().T)
    return shown.mapped(query=query, at=prompt.outputs.coords[:, number])


def _others(prompt: Prompt) -> Tensor:
    """Which examples each episode sees ``(D, D)``: not its own, nor one that shows its output."""
    d = prompt.examples
    seen = 1 - torch.eye(d)
    inputs, outputs = prompt.inputs.values[0], prompt.outputs.values[0]
    if inputs.shape == outputs.shape:
        shows = (outputs[:, None] == inputs[None]).flatten(2).all(dim=-1)
        seen = seen * (~shows).to(seen.dtype)
    return seen
