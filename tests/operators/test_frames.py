"""Moving frames and mirrors against small literal oracles."""

import dataclasses
import math

import numpy as np
import pytest
import torch
from operator_tools import fill

from chop import Axis, Field, Prompt
from chop.core.text import parse
from chop.operators import (
    Icon,
    MovingFrame,
    Reflect,
)
from chop.operators.frames import _grid_shift, _spectral_shift
from chop.testing import make_prompt, toy_model

icon = Icon()


@pytest.mark.parametrize("n", [16, 15])
@pytest.mark.parametrize("shift", [0.0, 1.0, 0.3, -2.71, 40.5])
def test_spectral_shift_of_a_sine_is_exact(n, shift):
    j = torch.arange(n, dtype=torch.float64)
    wave = torch.sin(2 * math.pi * 3 * j / n + 0.4) + 2
    moved = torch.sin(2 * math.pi * 3 * (j - shift) / n + 0.4) + 2
    got = _spectral_shift(wave[:, None], torch.tensor(shift, dtype=torch.float64))
    torch.testing.assert_close(got[:, 0], moved, rtol=0, atol=1e-12)


@pytest.mark.parametrize("n", [8, 9])
def test_spectral_shift_by_whole_points_is_the_grid_shift(n):
    """On what a grid resolves: an even grid's highest mode has no phase and stays."""
    values = torch.from_numpy(np.random.default_rng(0).normal(size=(3, n, 2)))
    if n % 2 == 0:
        values -= values * 0 + (values * _alternating(n)).mean(dim=-2, keepdim=True) * _alternating(n)
    shift = torch.tensor([0, 2, -3])
    torch.testing.assert_close(
        _spectral_shift(values, shift.double()), _grid_shift(values, shift), rtol=0, atol=1e-12
    )


def _alternating(n):
    return (1 - 2 * (torch.arange(n) % 2)).double()[:, None]


def test_grid_shift_moves_values_forward():
    values = torch.arange(5.0)[None, :, None].expand(3, 5, 1)
    moved = _grid_shift(values, torch.tensor([1, -2, 7])).squeeze(-1)
    assert moved.tolist() == [np.roll(range(5), s).tolist() for s in (1, -2, 7)]


def travelling(shift, n=20, examples=4):
    """A profile that moves by `shift` points each step and keeps its shape."""
    profile = np.exp(-(np.linspace(-3, 3, n) ** 2)) + 0.3 * np.sin(2 * np.pi * np.arange(n) / n)
    modes = np.fft.fftfreq(n)
    frames = [
        np.fft.ifft(np.fft.fft(profile) * np.exp(-2j * np.pi * modes * shift * t)).real
        for t in range(examples + 2)
    ]
    frames = np.array(frames)[..., None]
    grid = np.arange(n)[:, None] / n
    return (
        Prompt(
            inputs=Field(grid, frames[:examples]),
            outputs=Field(grid, frames[1 : examples + 1]),
            query=Field(grid, frames[examples]),
            at=grid,
        ),
        torch.from_numpy(frames[-1]),
    )


@pytest.mark.parametrize("shift", [-5, -1, 0, 2, 5])
def test_a_moving_frame_stands_still(shift):
    prompt, target = travelling(shift)
    frame = MovingFrame().fit(prompt)
    assert int(frame.notes["shift"]) == shift
    profile = frame.prompt.query.values
    for part in (*frame.prompt.inputs.values, *frame.prompt.outputs.values):
        torch.testing.assert_close(part, profile, rtol=0, atol=1e-12)
    result = parse("moving_frame | copy_query").run(toy_model, prompt)
    torch.testing.assert_close(result.values, target, rtol=0, atol=1e-12)


def test_a_shift_beyond_a_quarter_is_not_searched():
    prompt, _ = travelling(8)
    assert abs(int(MovingFrame().fit(prompt).notes["shift"])) <= 5


def test_a_spectral_frame_follows_fractions():
    prompt, target = travelling(1.4)
    whole = MovingFrame().fit(prompt).notes["shift"]
    assert int(whole) == 1
    fine = float(MovingFrame(shift="spectral").fit(prompt).notes["shift"])
    assert abs(fine - 1.4) < 0.05
    errors = [
        float((parse(f"{route} | copy_query").run(toy_model, prompt).values - target).abs().max())
        for route in ("moving_frame", 'moving_frame(shift="spectral")')
    ]
    assert errors[1] < 0.2 * errors[0]


def test_the_latest_pair_decides_the_shift():
    prompt, _ = travelling(2)
    outputs = prompt.outputs.values.clone()
    outputs[0] = _grid_shift(prompt.inputs.values[0], torch.tensor(-4))
    prompt = fill(prompt, outputs=outputs)
    assert int(MovingFrame().fit(prompt).notes["shift"]) == 2
    first_is_latest = dataclasses.replace(prompt, times=[9, 1, 2, 3, 10])
    assert int(MovingFrame().fit(first_is_latest).notes["shift"]) == -4


def test_masks_move_with_the_frame():
    prompt = make_prompt(1, masked=True)
    frame = MovingFrame().fit(prompt)
    step = int(frame.notes["shift"])
    assert step != 0
    for j in range(5):
        expected = np.roll(prompt.outputs.mask[j].numpy(), -(j + 1) * step, axis=0)
        assert np.array_equal(frame.prompt.outputs.mask[j].numpy(), expected)


@pytest.mark.parametrize("n", [8, 9])
def test_reflect_flips_a_grid(n):
    prompt = make_prompt(1, points=n, batch=(2,))
    mapped = Reflect().fit(prompt).prompt
    # x -> 1 - x takes point j to point n - j: the first stays, the others turn round.
    flipped = np.roll(np.flip(prompt.query.values.numpy(), -2), 1, -2)
    np.testing.assert_array_equal(mapped.query.values.numpy(), flipped)
    flipped = np.roll(np.flip(prompt.outputs.values.numpy(), -2), 1, -2)
    np.testing.assert_array_equal(mapped.outputs.values.numpy(), flipped)
    torch.testing.assert_close(mapped.query.coords, prompt.query.coords, rtol=0, atol=1e-15)
    torch.testing.assert_close(mapped.at, prompt.at, rtol=0, atol=1e-15)


@pytest.mark.parametrize("options", [{"points": 8}, {"points": 7}, {"dimensions": 2}, {"own_grids": True}])
def test_reflecting_twice_changes_nothing(options):
    prompt = make_prompt(1, batch=(2,), masked=True, **options)
    once = Reflect().fit(prompt).prompt
    twice = Reflect().fit(once).prompt
    if options.get("dimensions") or options.get("own_grids"):
        # Scattered points come back in ascending order.
        order = _lexicographic(prompt.query.coords)
        expected = prompt.query.values.gather(-2, order.unsqueeze(-1))
        torch.testing.assert_close(twice.query.values, expected, rtol=0, atol=0)
    else:
        assert torch.equal(twice.query.values, prompt.query.values)
        assert torch.equal(twice.outputs.mask, prompt.outputs.mask)
        torch.testing.assert_close(twice.outputs.coords, prompt.outputs.coords, rtol=0, atol=1e-15)


def _lexicographic(coords):
    flat = coords.reshape(-1, *coords.shape[-2:]).numpy()
    order = [np.lexsort(one.T[::-1]) for one in flat]
    return torch.from_numpy(np.array(order)).reshape(coords.shape[:-1])


def test_reflected_answers_come_back_to_their_points():
    """A model that answers f(x) in mirrored coordinates answers f(-x) in the old ones."""
    prompt = make_prompt(1, points=10, answer_points=7)
    result = parse("reflect | icon").run(lambda p: torch.sin(2 * math.pi * p.at), prompt)
    torch.testing.assert_close(result.values, torch.sin(-2 * math.pi * prompt.at), rtol=0, atol=1e-12)


def test_reflect_knows_its_period():
    grid = np.arange(6)[:, None] * 0.5
    prompt = Prompt(
        inputs=Field(grid, np.zeros((2, 6, 1))),
        outputs=Field(grid, np.zeros((2, 6, 1))),
        query=Field(grid, np.arange(6.0)[:, None]),
        at=grid,
        axes=(Axis("angle", 3.0),),
    )
    mapped = Reflect().fit(prompt).prompt
    assert mapped.query.values.flatten().tolist() == [0, 5, 4, 3, 2, 1]
    assert mapped.query.coords.flatten().tolist() == [0, 0.5, 1, 1.5, 2, 2.5]
