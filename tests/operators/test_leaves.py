"""Answers without the model, and the choice of examples."""

import dataclasses

import numpy as np
import pytest
import torch
from operator_tools import fill, notes

from chop import Field, Prompt
from chop.core.text import parse
from chop.operators import (
    NearestExamples,
    Ridge,
)
from chop.testing import make_prompt, toy_model

# Leaves.


def test_frames():
    prompt = make_prompt(1, dimensions=3, points=4, channels=(2, 2))
    query = prompt.query.values
    assert torch.equal(parse("last_frame").run(toy_model, prompt).values, query[8:])
    assert torch.equal(parse("first_frame").run(toy_model, prompt).values, query[:4])


def test_frames_are_found_by_time_not_by_position():
    prompt = make_prompt(1, dimensions=3, points=4)
    order = torch.randperm(12, generator=torch.Generator().manual_seed(0))
    shuffled = Field(prompt.query.coords[order], prompt.query.values[order])
    mixed = dataclasses.replace(prompt, query=shuffled)
    for text in ("last_frame", "first_frame", "mean_frame"):
        one, two = (parse(text).run(toy_model, p).values for p in (prompt, mixed))
        torch.testing.assert_close(one, two, rtol=1e-12, atol=1e-12)


def test_mean_of_frames_and_change_since_the_last():
    prompt = make_prompt(1, dimensions=3, points=4, channels=(2, 2))
    query = prompt.query.values.reshape(3, 4, 2)
    torch.testing.assert_close(parse("mean_frame").run(toy_model, prompt).values, query.mean(dim=0))
    changes = prompt.outputs.values - prompt.inputs.values[:, 8:]
    answer = parse("increment | mean_output").run(toy_model, prompt).values
    torch.testing.assert_close(answer, query[-1] + changes.mean(dim=0))


def test_without_time_every_frame_is_the_query():
    prompt = make_prompt(1)
    for text in ("last_frame", "first_frame", "mean_frame", "copy_query"):
        assert torch.equal(parse(text).run(toy_model, prompt).values, prompt.query.values)


def test_mean_output_of_what_was_observed():
    prompt = make_prompt(1, masked=True)
    mask = prompt.outputs.mask.clone()
    mask[:, 3] = False  # never observed: all filled-in values count
    prompt = dataclasses.replace(prompt, outputs=dataclasses.replace(prompt.outputs, mask=mask))
    got = parse("mean_output").run(toy_model, prompt).values
    for i in range(12):
        seen = prompt.outputs.values[:, i, 0][mask[:, i, 0]] if i != 3 else prompt.outputs.values[:, i, 0]
        assert float(got[i, 0]) == pytest.approx(float(seen.mean()))


def test_nearest_output():
    prompt = make_prompt(1, batch=(3,))
    query = prompt.query.values.clone()
    for row, example in enumerate((2, 0, 4)):
        query[row] = prompt.inputs.values[row, example] + 1e-3
    prompt = fill(prompt, query=query)
    result = parse("nearest_output").run(toy_model, prompt)
    assert result.trace.root.notes["example"].tolist() == [3, 1, 5]  # counted from 1
    assert torch.equal(result.values[1], prompt.outputs.values[1, 0])


def test_nearest_output_takes_the_first_on_ties():
    prompt = make_prompt(1)
    inputs = prompt.inputs.values.clone()
    inputs[3] = inputs[1]
    prompt = fill(prompt, inputs=inputs, query=inputs[1] + 0.01)
    assert int(notes("nearest_output", prompt)["example"]) == 2


@pytest.mark.parametrize("seed", range(3))
def test_ridge_knows_affine_operators(seed):
    """Exact where the query is an affine combination of the examples, as strength goes to 0."""
    random = np.random.default_rng(seed)
    n, m, d = 6, 4, 5
    matrix, offset = random.normal(size=(m, n)), random.normal(size=m)
    inputs = random.normal(size=(d, n))
    mix = random.normal(size=d)
    mix += (1 - mix.sum()) / d
    query = mix @ inputs
    prompt = Prompt(
        inputs=Field(np.arange(n)[:, None] / n, inputs[..., None]),
        outputs=Field(np.arange(m)[:, None] / m, (inputs @ matrix.T + offset)[..., None]),
        query=Field(np.arange(n)[:, None] / n, query[:, None]),
        at=np.arange(m)[:, None] / m,
    )
    truth = torch.from_numpy(query @ matrix.T + offset)[:, None]
    errors = [
        float((Ridge(strength=s).run(toy_model, prompt).values - truth).abs().max())
        for s in (1e-8, 1e-3, 10.0)
    ]
    assert errors[0] < 1e-5
    assert errors[0] < errors[1] < errors[2]
    mean = prompt.outputs.values.mean(dim=0)
    assert torch.allclose(Ridge(strength=1e3).run(toy_model, prompt).values, mean, atol=0.05)


def test_ridge_of_equal_inputs_is_the_mean_output():
    prompt = fill(make_prompt(1), inputs=torch.ones(5, 12, 1, dtype=torch.float64))
    got = Ridge().run(toy_model, prompt).values
    torch.testing.assert_close(got, prompt.outputs.values.mean(dim=0))


# Examples.


def test_nearest_examples_keep_order_and_number():
    prompt = make_prompt(1, batch=(4,))
    for k in (1, 2, 4):
        frame = NearestExamples(k=k).fit(prompt)
        kept = frame.prompt.origin.kept
        assert torch.equal(frame.notes["kept examples"], kept + 1)  # told from 1
        assert kept.shape == (4, k)
        assert torch.equal(kept, kept.sort(dim=-1).values)
        assert frame.prompt.examples == k
        for i in range(4):
            # The scale is the same for all examples, so that plain distances order alike.
            distance = (prompt.inputs.values[i] - prompt.query.values[i]).square().mean(dim=(-1, -2))
            assert set(kept[i].tolist()) == set(distance.argsort()[:k].tolist())
            assert torch.equal(frame.prompt.inputs.values[i], prompt.inputs.values[i, kept[i]])
            assert torch.equal(frame.prompt.outputs.values[i], prompt.outputs.values[i, kept[i]])
            assert frame.prompt.times[i].tolist() == [*kept[i].tolist(), 5]


def test_nearest_examples_leave_small_prompts_alone():
    prompt = make_prompt(1)
    for k in (5, 6):
        assert NearestExamples(k=k).fit(prompt).prompt is prompt
