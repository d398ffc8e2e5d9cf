"""Kriging of errors, against systems solved anew without each example."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import chop
from chop.core.prompt import Field, Prompt
from chop.operators import krige, mean_output
from chop.operators.kriging import Kriging, _Likeness, _Seen
from chop.testing import make_prompt, toy_model

Kernel = Callable[[np.ndarray, np.ndarray], float]
KERNELS = ("linear", "smooth", "rough")


def weights_of(result: chop.Result) -> dict[str, torch.Tensor]:
    """How krigings were weighed, by their kinds."""
    (stage,) = {step.stage for step in result.trace.stages() if "error after" in step.stage.notes}
    names = [name for name in stage.notes if name.startswith("weight of ")]
    return {name.removeprefix("weight of "): stage.notes[name] for name in names}


def kernel_of(inputs: np.ndarray, query: np.ndarray, kernel: str) -> tuple[Kernel, np.ndarray, np.ndarray]:
    """The kernel as a function of two inputs, with the inputs and the query that it takes."""
    centre, d = inputs.mean(axis=0), len(inputs)
    shown, asked = inputs - centre, query - centre
    scale = np.mean(shown**2)
    shown, asked = shown / np.sqrt(scale), asked / np.sqrt(scale)
    typical = sum(np.mean((shown[i] - shown[j]) ** 2) for i in range(d) for j in range(d)) / (d * (d - 1))

    def k(a: np.ndarray, b: np.ndarray) -> float:
        if kernel == "linear":
            return float(np.mean(a * b))
        r = np.sqrt(np.mean((a - b) ** 2) / typical)
        return float(np.exp(-r) if kernel == "rough" else (1 + np.sqrt(3) * r) * np.exp(-np.sqrt(3) * r))

    return k, shown, asked


def solved(
    k: Kernel,
    shown: np.ndarray,
    asked: np.ndarray,
    kept: list[int],
    size: float,
    linear: bool,
    strength: float,
) -> np.ndarray:
    """The weights of the kept examples at what is asked, from the textbook's system."""
    n = len(kept)
    system = np.array([[k(shown[i], shown[j]) / size for j in kept] for i in kept]) + strength * np.eye(n)
    right = np.array([k(shown[i], asked) / size for i in kept])
    if linear:
        system = np.block([[system, np.ones((n, 1))], [np.ones((1, n)), np.zeros((1, 1))]])
        right = np.append(right, 1.0)
    return np.linalg.solve(system, right)[:n]


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("strength", [0.01, 1.0])
def test_weights_are_those_of_the_textbook_and_of_fits_without_each_example(
    kernel: str, strength: float
) -> None:
    prompt = make_prompt(3, examples=4, points=7)
    smoother = _Likeness.of(prompt).smoother(Kriging("errors", kernel, strength))
    inputs, query = prompt.inputs.values[..., 0].numpy(), prompt.query.values[..., 0].numpy()
    k, shown, asked = kernel_of(inputs, query, kernel)
    size = float(np.mean([k(one, one) for one in shown]))
    whole = solved(k, shown, asked, [0, 1, 2, 3], size, kernel == "linear", strength)
    np.testing.assert_allclose(smoother.query.numpy(), whole, atol=1e-10)
    for h in range(4):
        kept = [j for j in range(4) if j != h]
        weights = solved(k, shown, shown[h], kept, size, kernel == "linear", strength)
        np.testing.assert_allclose(smoother.without[h, kept].numpy(), weights, atol=1e-9)
        assert abs(float(smoother.without[h, h])) < 1e-10


def test_one_kernel_and_strength_leave_nothing_to_weigh() -> None:
    prompt = make_prompt(3, batch=(2,), examples=4)
    result = krige(chop.operators.icon, kernel="rough", strength=0.1)(toy_model, prompt, validate=True)
    base = chop.parse("icon")(toy_model, prompt).values
    held = toy_model(prompt.held_out(pad=True))
    residuals = prompt.outputs.values - held
    smoother = _Likeness.of(prompt).smoother(Kriging("errors", "rough", 0.1))
    expected = base + torch.einsum("bj,bjmc->bmc", smoother.query, residuals)
    torch.testing.assert_close(result.values, expected, rtol=1e-10, atol=1e-10)


def affine_questions(positive: bool = False) -> tuple[Prompt, torch.Tensor]:
    """A model that errs by an affine function of the input, which six examples in a plane show entirely."""
    random = torch.Generator().manual_seed(5)
    directions = torch.randn(2, 9, 1, generator=random, dtype=torch.float64)
    inputs = torch.randn(6, 2, generator=random, dtype=torch.float64)
    functions = (inputs[:, :, None, None] * directions).sum(dim=1)
    truth = 3.0 * functions + 2.0 * functions.flip(-2) + 1.0
    x = torch.arange(9, dtype=torch.float64)[:, None] / 9
    prompt = Prompt(Field(x, functions[:5]), Field(x, truth[:5]), Field(x, functions[5]), x)
    return prompt, truth[5]


def test_errors_that_are_affine_in_the_input_are_removed() -> None:
    prompt, truth = affine_questions()
    weak = krige(chop.operators.copy_query, kernel="linear", strength=1e-8)
    result = weak(lambda p: p.query.values, prompt, validate=True)
    torch.testing.assert_close(result.values, truth, rtol=1e-5, atol=1e-5)
    assert float(result.error) < 1e-8


def test_weighing_finds_the_kernel() -> None:
    prompt, truth = affine_questions()
    result = krige(chop.operators.copy_query)(lambda p: p.query.values, prompt)
    found = weights_of(result)
    assert sum(float(weight) for weight in found.values()) == pytest.approx(1.0)
    assert sum(float(weight) for kind, weight in found.items() if kind.startswith("linear")) > 0.99
    base = chop.parse("copy_query")(lambda p: p.query.values, prompt).values
    assert (result.values - truth).norm() < 0.05 * (base - truth).norm()


def test_a_base_without_errors_is_left_alone() -> None:
    prompt = make_prompt(2, batch=(2,), style="constant")
    flat = Prompt(
        prompt.inputs,
        prompt.outputs.with_values(torch.full_like(prompt.outputs.values, 2.0)),
        prompt.query,
        prompt.at,
    )
    result = krige(mean_output)(toy_model, flat, validate=True)
    torch.testing.assert_close(result.values, torch.full_like(result.values, 2.0), rtol=1e-9, atol=1e-9)
    assert float(result.error.max()) < 1e-15


def test_outputs_that_are_not_positive_have_no_ratios() -> None:
    prompt = make_prompt(7, batch=(3,), examples=4)
    result = krige(chop.operators.icon)(toy_model, prompt)
    assert (weights_of(result)["linear in ratios"] == 0).all()
    assert torch.isfinite(result.values).all()


def test_unobserved_points_do_not_count() -> None:
    prompt = make_prompt(4, batch=(2,), examples=4, masked=True)
    spoiled = prompt.outputs.values + torch.where(prompt.outputs.mask, 0.0, 7.0)
    other = prompt.mapped(outputs=Field(prompt.outputs.coords, spoiled, prompt.outputs.mask))

    def blind(p: Prompt) -> torch.Tensor:
        return 0.7 * p.query.values

    one, two = (krige(chop.operators.icon)(blind, p).values for p in (prompt, other))
    torch.testing.assert_close(one, two, rtol=1e-9, atol=1e-9)


def test_each_channel_is_weighed_by_itself() -> None:
    prompt = make_prompt(4, batch=(2,), examples=5, channels=(2, 2))
    large = torch.tensor([1.0, 1e6], dtype=torch.float64)
    scaled = prompt.mapped(
        inputs=prompt.inputs.with_values(prompt.inputs.values * large),
        outputs=prompt.outputs.with_values(prompt.outputs.values * large),
        query=prompt.query.with_values(prompt.query.values * large),
    )

    def linear(p: Prompt) -> torch.Tensor:
        return 0.7 * p.query.values

    one, two = (krige(chop.operators.icon)(linear, p).values for p in (prompt, scaled))
    torch.testing.assert_close(one * large, two, rtol=1e-6, atol=1e-9)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 500), examples=st.integers(2, 6))
def test_held_out_answers_do_not_use_their_own_truth(seed: int, examples: int) -> None:
    """Of one kernel and strength; weights of several are told by all examples."""
    prompt = make_prompt(seed, examples=examples, points=6)
    h = seed % examples

    def blind(p: Prompt) -> torch.Tensor:
        return 0.5 * p.query.values

    changed = prompt.outputs.values.clone()
    changed[h] = -0.5 * changed[h]
    other = prompt.mapped(outputs=prompt.outputs.with_values(changed))
    held = blind(prompt.held_out(pad=True))
    answers = []
    for one in (prompt, other):
        outcome = krige(chop.operators.icon, kernel=KERNELS[seed % 3], strength=0.1).decide(
            one, [blind(one)], [held]
        )
        answers.append(outcome.held_out[h])
    torch.testing.assert_close(*answers, rtol=1e-6, atol=1e-6)


def test_seen_is_in_units_that_do_not_overflow() -> None:
    prompt = make_prompt(1, examples=3)
    tiny = prompt.mapped(outputs=prompt.outputs.with_values(prompt.outputs.values * 1e-300))
    seen = _Seen.of(tiny, torch.zeros_like(tiny.outputs.values))
    assert 0.4 < float(seen.outputs.abs().max()) <= 2
