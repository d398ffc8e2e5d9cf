"""Rollouts: the examples stay, answers become queries, bad rows stop and others go on."""

import dataclasses

import pytest
import torch
from sample_models import Recording, plain_arithmetic

import chop
from chop import Field, ProgramError, Rollout, rollout
from chop.core.text import parse
from chop.testing import make_prompt, toy_model


@pytest.mark.parametrize("batch", [(), (3,), (2, 2)])
@pytest.mark.parametrize("name", ["raw", "conservation", "mfc"])
def test_a_rollout_is_a_loop(name, batch):
    program = chop.programs[name]
    prompt = make_prompt(1, batch=batch, consecutive=True)
    forecast = rollout(program, toy_model, prompt, steps=4)
    current, calls = prompt, 0
    for step in range(4):
        result = program.run(toy_model, current)
        assert torch.equal(forecast.values[..., step, :, :], result.values)
        calls += result.calls
        current = dataclasses.replace(current, query=Field(prompt.query.coords, result.values))
    assert forecast.values.shape == (*batch, 4, 12, 1)
    assert forecast.calls == calls
    assert forecast.rejected_at.shape == batch
    assert bool((forecast.rejected_at == 4).all())
    assert not bool(forecast.rejected.any())
    assert isinstance(forecast, Rollout)


def test_examples_and_times_keep_their_identity():
    prompt = make_prompt(1, batch=(2,), consecutive=True)
    model = Recording(toy_model)
    rollout(parse("icon"), model, prompt, steps=5)
    assert model.asked[0] is prompt
    for asked in model.asked:
        assert asked.inputs is prompt.inputs
        assert asked.outputs is prompt.outputs
        assert asked.times is prompt.times
    assert len(model.asked) == 5


def test_a_rollout_of_a_held_out_prompt_remembers_its_parent():
    held_out = make_prompt(1, batch=(2,), consecutive=True).held_out(pad=True)
    model = Recording(toy_model)
    rollout(parse("icon"), model, held_out, steps=3)
    assert all(asked.origin is held_out.origin for asked in model.asked)


def failing(when):
    """The toy model, with NaN for queries whose first value is marked, from the given step on."""
    count = iter(range(1000))

    def model(prompt):
        values = toy_model(prompt)
        step = next(count)
        for row, first in when.items():
            if step >= first:
                values[row, 3] = torch.nan
        return values

    return model


def test_a_rejected_row_stops_and_the_others_do_not_notice():
    prompt = make_prompt(1, batch=(4,), consecutive=True)
    good = rollout(parse("icon"), toy_model, prompt, steps=6)
    bad = rollout(parse("icon"), failing({1: 2, 3: 0}), prompt, steps=6)
    assert bad.rejected_at.tolist() == [6, 2, 6, 0]
    assert bad.rejected.tolist() == [False, True, False, True]
    assert torch.equal(bad.values[[0, 2]], good.values[[0, 2]])
    assert torch.equal(bad.values[1, :2], good.values[1, :2])
    assert bool(bad.values[1, 2:].isnan().all())
    assert bool(bad.values[3].isnan().all())


def test_a_row_that_recovers_stays_rejected():
    count = iter(range(100))

    def once(prompt):
        values = toy_model(prompt)
        if next(count) == 1:
            values[0, 0] = torch.inf
        return values

    forecast = rollout(parse("icon"), once, make_prompt(1, batch=(2,), consecutive=True), steps=4)
    assert forecast.rejected_at.tolist() == [1, 4]
    assert bool(forecast.values[0, 1:].isnan().all())
    assert bool(forecast.values[1].isfinite().all())


def test_a_frozen_row_never_feeds_nan_to_the_model():
    model = Recording(failing({0: 1}))
    rollout(parse("icon"), model, make_prompt(1, batch=(2,), consecutive=True), steps=4)
    assert all(bool(asked.query.values.isfinite().all()) for asked in model.asked)


def test_strict_raises():
    prompt = make_prompt(1, batch=(4,), consecutive=True)
    with pytest.raises(ProgramError, match=r"1 of 4 answers are not finite \(queries 1\)"):
        rollout(parse("icon"), failing({1: 2}), prompt, steps=6, strict=True)


def test_progress():
    seen = []
    rollout(parse("icon"), toy_model, make_prompt(1, consecutive=True), steps=3, progress=seen.append)
    assert seen == [1, 2, 3]


def test_forecasts_are_ordinary_tensors():
    forecast = rollout(parse("icon"), toy_model, make_prompt(1, consecutive=True), steps=2)
    assert not forecast.values.is_inference()
    forecast.values.requires_grad_().sum().backward()


@pytest.mark.parametrize(
    "prompt",
    [
        make_prompt(1, answer_points=8),
        make_prompt(1, own_grids=True),
        make_prompt(1, channels=(2, 1)),
        make_prompt(1, dimensions=3),
    ],
    ids=["fewer points", "other points", "other channels", "windows of frames"],
)
def test_answers_must_fit_the_query(prompt):
    with pytest.raises(ProgramError, match=r"answers on the grid and with the channels of the query"):
        rollout(parse("icon"), toy_model, prompt, steps=2)


@pytest.mark.parametrize("steps", [0, -3])
def test_at_least_one_step(steps):
    with pytest.raises(ProgramError, match=rf"at least one step, not {steps}"):
        rollout(parse("icon"), toy_model, make_prompt(1, consecutive=True), steps=steps)


def test_the_starting_prompt_is_unchanged():
    prompt = make_prompt(1, batch=(2,), consecutive=True)
    before = prompt.query.values.clone()
    rollout(parse("icon"), plain_arithmetic, prompt, steps=3)
    assert torch.equal(prompt.query.values, before)
