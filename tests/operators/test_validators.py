"""Validators against small literal oracles."""

import dataclasses
import math
from typing import ClassVar

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from operator_tools import fill, notes

from chop import Field, Graph, Prompt
from chop.core.grids import nearest_index, resample
from chop.core.program import Leaf
from chop.core.text import parse
from chop.operators import (
    Average,
    Combine,
    CopyQuery,
    Correct,
    Icon,
    MeanOutput,
    NearestOutput,
    Select,
)
from chop.testing import make_prompt, toy_model

icon = Icon()


@dataclasses.dataclass(frozen=True)
class Constant(Leaf):
    """A fixed number everywhere, to be compared with known outputs."""

    name: ClassVar[str] = "constant"
    law: ClassVar[str] = "Constant."
    value: float = 0.0

    def __post_init__(self):
        """NaN and infinities are wanted here, which no declared number would take."""

    def __str__(self):
        return f"constant({self.value})"

    head = __str__

    def answer(self, prompt):
        return torch.full(prompt.answer_shape, self.value, dtype=prompt.dtype), {}


def flat_prompt(outputs, batch=()):
    """Examples whose outputs are given constants."""
    prompt = make_prompt(1, batch=batch, examples=len(outputs))
    levels = torch.tensor(outputs, dtype=torch.float64)[:, None, None]
    return fill(prompt, outputs=levels.expand(prompt.outputs.values.shape).clone())


@pytest.mark.parametrize(
    ("values", "chosen"),
    [
        ((1.0, 0.0), 1),  # better than the fallback
        ((0.0, 1.0), 2),  # worse
        ((1.0, 1.0), 2),  # equal: the fallback stays
        ((3.0, 1.0, 0.0), 2),  # the best wins
        ((1.0, 1.0, 0.0), 1),  # the first on ties
        ((2.0, 0.0, 0.0), 3),  # equal to the fallback by symmetry: not strictly smaller
        ((float("nan"), 0.0), 2),
        ((float("inf"), float("nan"), 5.0), 3),
        ((5.0, float("nan")), 1),  # a fallback that is not finite loses
        ((float("nan"), float("nan")), 2),  # nobody wins: the fallback
    ],
)
def test_select(values, chosen):
    prompt = flat_prompt([1.0, 1.0, 1.0])
    result = Select(tuple(Constant(v) for v in values)).run(toy_model, prompt)
    assert int(result.trace.root.notes["chose branch"]) == chosen
    expected = torch.full((12, 1), values[chosen - 1], dtype=torch.float64)
    torch.testing.assert_close(result.values, expected, equal_nan=True, rtol=0, atol=0)
    torch.testing.assert_close(
        result.error, torch.tensor((values[chosen - 1] - 1) ** 2).double(), equal_nan=True
    )


def test_select_decides_for_each_query():
    prompt = flat_prompt([1.0, 1.0, 1.0], batch=(2,))
    outputs = prompt.outputs.values.clone()
    outputs[1] = 3
    result = Select((Constant(1.0), Constant(3.0))).run(toy_model, fill(prompt, outputs=outputs))
    assert result.values[:, 0, 0].tolist() == [1, 3]


@given(seed=st.integers(0, 10**6), shrink=st.booleans(), masked=st.booleans())
@settings(max_examples=15)
def test_combine_weights_lie_on_the_simplex(seed, shrink, masked):
    prompt = make_prompt(seed, batch=(2,), channels=(2, 2), masked=masked)
    program = Combine((icon, MeanOutput(), NearestOutput(), CopyQuery()), shrink=shrink)
    result = program.run(toy_model, prompt)
    weights = result.trace.root.notes["weights"]
    assert weights.shape == (2, 2, 4)
    assert bool((weights >= 0).all())
    torch.testing.assert_close(weights.sum(dim=-1), torch.ones(2, 2).double())
    answers = torch.stack([part.run(toy_model, prompt).values for part in program.candidates], dim=-1)
    expected = torch.einsum("bmck,bck->bmc", answers, weights)
    torch.testing.assert_close(result.values, expected)


def test_combine_finds_the_exact_candidate():
    """One candidate knows the operator: it gets all the weight, and full trust."""
    prompt = make_prompt(1, consecutive=True)
    prompt = fill(prompt, outputs=prompt.inputs.values)
    result = parse("combine(mean_output, copy_query, icon)").run(toy_model, prompt)
    torch.testing.assert_close(result.values, prompt.query.values, rtol=0, atol=1e-6)
    found = result.trace.root.notes
    torch.testing.assert_close(found["weights"], torch.tensor([[0.0, 1.0, 0.0]]).double(), rtol=0, atol=1e-6)
    assert float(found["trust"]) == pytest.approx(1)


def test_combine_mixes_what_only_a_mixture_knows():
    """Candidates 0 and 4, truth 1: three quarters and one quarter."""
    prompt = flat_prompt([1.0] * 4)
    result = Combine((Constant(0.0), Constant(4.0))).run(toy_model, prompt)
    torch.testing.assert_close(result.trace.root.notes["weights"], torch.tensor([[0.75, 0.25]]).double())
    torch.testing.assert_close(result.values, torch.ones(12, 1).double())


def test_combine_does_not_trust_what_the_jackknife_shakes():
    """One example disagrees: deleting it moves the weights, so that the reference keeps some."""
    prompt = flat_prompt([0.0, 0.0, 4.0])
    with_shrink = Combine((Constant(0.0), Constant(4.0))).run(toy_model, prompt)
    without = Combine((Constant(0.0), Constant(4.0)), shrink=False).run(toy_model, prompt)
    trust = float(with_shrink.trace.root.notes["trust"])
    # Full fit 1/3; deleted fits 1/2, 1/2, 0 around 1/3: unrest (2/3) * (2/36 + 4/36); moved 1/9.
    assert trust == pytest.approx((1 / 9) / (1 / 9 + 2 / 3 * 6 / 36))
    assert float(without.trace.root.notes["weights"][0, 1]) == pytest.approx(1 / 3)
    assert float(with_shrink.trace.root.notes["weights"][0, 1]) == pytest.approx(trust / 3)


def test_combine_leaves_other_channels_to_the_first():
    prompt = make_prompt(1, channels=(3, 3))
    result = parse("combine(icon, mean_output, channels=(-1,))").run(toy_model, prompt)
    assert torch.equal(result.values[..., :2], toy_model(prompt)[..., :2])
    assert not torch.equal(result.values[..., 2], toy_model(prompt)[..., 2])


def test_average_is_the_mean():
    prompt = make_prompt(1)
    got = Average((Constant(1.0), Constant(2.0), Constant(6.0))).run(toy_model, prompt).values
    assert torch.equal(got, torch.full((12, 1), 3.0, dtype=torch.float64))


def off_by(bias):
    """A model that is wrong by a fixed field on an operator that copies its input."""

    def model(prompt):
        query = resample(prompt.query.values, nearest_index(prompt.query.coords, prompt.at))
        return query + bias(prompt)

    return model


def test_debias_is_exact_for_a_fixed_error():
    prompt = make_prompt(1, batch=(3,), consecutive=True)
    prompt = fill(prompt, outputs=prompt.inputs.values)
    model = off_by(lambda p: 1 + torch.sin(2 * math.pi * p.at))
    result = parse("debias(icon)").run(model, prompt)
    torch.testing.assert_close(result.values, prompt.query.values, rtol=0, atol=1e-12)
    torch.testing.assert_close(result.held_out, prompt.outputs.values, rtol=0, atol=1e-12)
    assert float(result.error.max()) < 1e-20
    assert float(icon.run(model, prompt, validate=True).error.min()) > 0.5


def test_debias_with_gaps_in_the_outputs():
    """What was not observed says nothing of the bias; where nothing was, there is none."""
    prompt = make_prompt(1, consecutive=True)
    values = prompt.inputs.values.clone()
    mask = torch.rand(values.shape, generator=torch.Generator().manual_seed(0)) < 0.6
    mask[0, :] = True
    mask[:, 5] = False
    values[~mask] = 77.0
    prompt = dataclasses.replace(prompt, outputs=Field(prompt.outputs.coords, values, mask))
    result = parse("debias(icon)").run(off_by(lambda p: 2.0), prompt)
    expected = prompt.query.values.clone()
    expected[5] += 2
    torch.testing.assert_close(result.values, expected, rtol=0, atol=1e-12)


def test_debias_over_a_graph():
    """The bias of a station is replaced by its neighbours' mean; an isolated one keeps its own."""
    prompt = make_prompt(1, dimensions=3, points=4)
    prompt = dataclasses.replace(prompt, graph=Graph([[0, 1], [1, 2]], 4))
    bias = torch.tensor([[1.0], [2.0], [4.0], [8.0]], dtype=torch.float64)
    outputs = parse("last_frame").run(toy_model, prompt, validate=True).held_out + bias
    prompt = fill(prompt, outputs=outputs)
    plain, smooth = (
        parse(text).run(toy_model, prompt).values - parse("last_frame").run(toy_model, prompt).values
        for text in ("debias(last_frame)", 'debias(last_frame, smooth="graph")')
    )
    torch.testing.assert_close(plain, bias, rtol=0, atol=1e-12)
    assert smooth.flatten().tolist() == pytest.approx([2.0, 2.5, 2.0, 8.0])


def test_correct_helps_where_like_inputs_have_like_errors():
    """An error that changes smoothly with the input: less of it is left, and never more."""
    gains = []
    for seed in range(20):
        random = np.random.default_rng(seed)
        n, d = 16, 6
        grid = np.arange(n)[:, None] / n
        levels = np.linspace(0, 1, d + 1)[random.permutation(d + 1)]
        inputs = levels[:, None, None] + 0.1 * np.sin(2 * np.pi * grid + 6 * levels[:, None, None])
        prompt = Prompt(
            inputs=Field(grid, inputs[:d]),
            outputs=Field(grid, inputs[:d]),
            query=Field(grid, inputs[d]),
            at=grid,
        )
        model = off_by(lambda p: -0.5 - 0.3 * p.query.values.mean(dim=(-1, -2), keepdim=True))
        base, better = (
            float((parse(text).run(model, prompt).values - prompt.query.values).square().mean())
            for text in ("icon", "correct(icon)")
        )
        gains.append(better / base)
    assert max(gains) < 0.1
    assert np.median(gains) < 0.02


@pytest.mark.parametrize("magnitude", [None, 1.0])
def test_correct_closes_its_gate_where_errors_teach_nothing(magnitude):
    """Errors that change sign from example to example: the answer is the base's, bit for bit."""
    prompt = make_prompt(1, examples=4)
    sign = torch.tensor([1.0, -1.0, 1.0, -1.0], dtype=torch.float64)[:, None, None]
    answer = toy_model(prompt)

    def model(asked):
        """The query and then the held-out prompts, as one round stacks them."""
        assert asked.batch == (1 + 4,)
        return torch.cat([answer.unsqueeze(0), prompt.outputs.values - sign])

    result = Correct(icon, weights="uniform", magnitude=magnitude).run(model, prompt)
    found = result.trace.root.notes
    assert float(found["error before"]) == pytest.approx(1)
    assert float(found["magnitude"]) == (magnitude or 0)
    assert not bool(found["gate open"])
    assert torch.equal(result.values, answer)


def test_a_bad_held_out_answer_does_not_reach_an_uncorrected_one():
    prompt = make_prompt(1)
    answer = toy_model(prompt)

    def model(asked):
        return torch.cat([answer.unsqueeze(0), torch.full_like(prompt.outputs.values, torch.nan)])

    result = parse("correct(icon)").run(model, prompt)
    assert torch.equal(result.values, answer)
    assert not bool(result.rejected)
    assert bool(result.error.isnan())


@pytest.mark.parametrize("magnitude", [0.0, 0.5, 1.0])
def test_correct_with_a_fixed_magnitude(magnitude):
    """A constant error: the weights sum to one, so that the correction is the magnitude times it."""
    prompt = make_prompt(1, consecutive=True)
    prompt = fill(prompt, outputs=prompt.inputs.values)
    program = Correct(icon, magnitude=magnitude, gate=False)
    result = program.run(off_by(lambda p: 3.0), prompt)
    torch.testing.assert_close(result.values, prompt.query.values + 3 * (1 - magnitude), rtol=0, atol=1e-12)
    assert float(result.error) == pytest.approx((3 * (1 - magnitude)) ** 2)


def test_correct_weights_favour_likeness():
    prompt = make_prompt(1)
    prompt = fill(prompt, query=prompt.inputs.values[2] + 1e-3)
    weights = notes("correct(icon)", prompt)["weights"]
    assert int(weights.argmax()) == 2
    assert float(weights.sum()) == pytest.approx(1)
    uniform = notes('correct(icon, weights="uniform")', prompt)["weights"]
    assert uniform.tolist() == pytest.approx([0.2] * 5)
