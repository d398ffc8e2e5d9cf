"""Turns of the circle and views: what they show a model, what comes back, and the group they keep."""

import dataclasses
import math

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from chop import Axis, Field, Prompt
from chop.core.errors import ProgramError
from chop.core.text import parse
from chop.operators import Turn, correct, icon, views
from chop.problems import mfc
from chop.testing import make_prompt, toy_model


def partial_model(prompt):
    """Depends on places, directions and signs: no symmetry is its own."""
    x = prompt.at[..., -1:]
    bent = torch.exp(0.3 * prompt.query.values[..., :1]) + 0.2 * prompt.outputs.values.mean(dim=-3)[..., :1]
    return bent * (1 + torch.sin(2 * math.pi * x)) + 0.5 * bent.roll(1, dims=-2) + x.square()


def changed(prompt, function):
    """Every function of a prompt on one grid, changed."""
    parts = {name: getattr(prompt, name) for name in ("inputs", "outputs", "query")}
    return prompt.mapped(**{name: part.with_values(function(part.values)) for name, part in parts.items()})


def mirror(values):
    return values.flip(-2).roll(1, dims=-2)


SYMMETRIES = {
    "turned by 1": (lambda values: values.roll(1, dims=-2), {"turns": 2}),
    "turned by 7": (lambda values: values.roll(7, dims=-2), {"turns": 3, "step": 1}),
    "mirrored": (mirror, {"turns": 1, "mirror": True}),
    "mirrored and turned": (lambda values: mirror(values).roll(5, dims=-2), {"turns": 2, "mirror": True}),
    "of opposite sign": (torch.neg, {"turns": 1, "sign": True}),
    "all": (lambda values: -mirror(values).roll(2, dims=-2), {"turns": 2, "mirror": True, "sign": True}),
}


@pytest.mark.parametrize("name", SYMMETRIES)
@pytest.mark.parametrize("base", [icon, correct(icon)])
@given(seed=st.integers(0, 10**6), points=st.integers(5, 24))
@settings(max_examples=15)
def test_equivariant_under_its_group(name, base, seed, points):
    """The law: a prompt seen from another side gives the answer seen from there."""
    change, options = SYMMETRIES[name]
    prompt = make_prompt(seed, points=points, batch=(2,))
    largest = prompt.inputs.values.abs().flatten(-3).sort(dim=-1).values
    assume(bool((largest[..., -1] > 1.0001 * largest[..., -2]).all()))  # one landmark
    program = views(base, **options)
    here = program.run(partial_model, prompt, validate=True)
    there = program.run(partial_model, changed(prompt, change), validate=True)
    torch.testing.assert_close(there.values, change(here.values), rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(there.error, here.error, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", ["turned by 1", "mirrored", "of opposite sign"])
def test_the_model_itself_is_not(name):
    change, _ = SYMMETRIES[name]
    prompt = make_prompt(1)
    there = icon.run(partial_model, changed(prompt, change)).values
    assert float((there - change(icon.run(partial_model, prompt).values)).abs().max()) > 0.1


def test_views_are_what_they_say():
    """The mean over rolled, mirrored and negated prompts, written out with numpy."""
    prompt = make_prompt(3, points=10)
    inputs, query = prompt.inputs.values.numpy()[..., 0], prompt.query.values.numpy()[..., 0]
    x = np.arange(10) / 10

    def model(asked):
        return asked.query.values * asked.query.coords + asked.query.values.square()

    def answer(u):
        return u * x + u**2

    seen = []
    for sign in (1, -1):
        for mirrored in (False, True):
            u, examples = sign * query, inputs
            if mirrored:
                u, examples = np.roll(u[::-1], 1), np.roll(examples[:, ::-1], 1, axis=1)
            landmark = np.abs(examples).reshape(-1).argmax() % 10
            for turn in (0, 3):
                by = landmark + turn
                back = np.roll(answer(np.roll(u, -by)), by)
                back = np.roll(back[::-1], 1) if mirrored else back
                seen.append(sign * back)
    program = parse("views(icon, turns=2, step=3, mirror=True, sign=True)")
    result = program.run(model, prompt)
    np.testing.assert_allclose(result.values[..., 0].numpy(), np.mean(seen, axis=0), atol=1e-12)
    assert result.calls == program.calls() == 8
    apart = np.abs(np.array(seen) - np.mean(seen, axis=0)).mean()
    assert float(result.trace.root.notes["apart by (mean)"]) == pytest.approx(apart)
    assert result.trace.root.notes["views"] == "8"


def test_a_graph_allows_no_turns_and_no_mirror():
    stations = make_prompt(1, dimensions=3, points=6, channels=(2, 2))
    for text, calls in (("views(icon, mirror=True)", 1), ("views(icon, mirror=True, sign=True)", 2)):
        result = parse(text).run(toy_model, stations)
        assert result.calls == calls
        assert result.trace.root.notes["views"] == str(calls)
    assert torch.equal(
        parse("views(icon)").run(toy_model, stations).values, icon.run(toy_model, stations).values
    )
    with pytest.raises(ProgramError, match="turn needs exactly one periodic axis"):
        parse("turn | icon").run(toy_model, stations)


def test_an_axis_that_does_not_close_allows_none_either():
    prompt = dataclasses.replace(make_prompt(1), axes=(Axis("x"),))
    assert views(icon).run(toy_model, prompt).calls == 1
    assert views(icon).run(toy_model, make_prompt(1)).calls == 5


def test_held_out_answers_are_the_mean_of_those_of_the_views():
    prompt = make_prompt(1)
    result = parse("views(correct(icon), turns=2, step=4)").run(partial_model, prompt)
    each = [parse(f"turn(cells={k}) | correct(icon)").run(partial_model, prompt).held_out for k in (0, 4)]
    torch.testing.assert_close(result.held_out, (each[0] + each[1]) / 2)
    assert views(icon).run(partial_model, prompt).held_out is None
    around = parse("select(views(icon), icon)")
    assert around.run(partial_model, prompt).calls == around.calls() == 36


def test_a_turn_begins_at_the_landmark():
    prompt = make_prompt(1, points=8)
    values = torch.zeros(5, 8, 1, dtype=torch.float64)
    values[3, 5], values[1, 2] = -4.0, 3.0
    prompt = prompt.mapped(inputs=prompt.inputs.with_values(values))
    for cells in (0, 2, -3):
        frame = Turn(cells=cells).fit(prompt)
        assert float(frame.notes["turned by"]) == pytest.approx((5 + cells) / 8)
        expected = np.roll(prompt.query.values.numpy(), -(5 + cells), axis=-2)
        np.testing.assert_array_equal(frame.prompt.query.values.numpy(), expected)
        # The very grid, so that whoever compares grids finds one.
        assert torch.equal(frame.prompt.query.coords, prompt.query.coords)


def test_without_the_landmark_a_turn_is_what_it_says():
    prompt = make_prompt(1, points=8, batch=(3,))
    frame = Turn(cells=3, anchored=False).fit(prompt)
    np.testing.assert_array_equal(
        frame.prompt.query.values.numpy(), np.roll(prompt.query.values.numpy(), -3, axis=-2)
    )


def test_unobserved_values_are_no_landmark():
    prompt = make_prompt(1, points=8)
    values = torch.zeros(5, 8, 1, dtype=torch.float64)
    values[3, 5], values[1, 2] = 4.0, 3.0
    mask = torch.ones_like(values, dtype=torch.bool)
    mask[3, 5] = False
    inputs = Field(prompt.inputs.coords, values, mask)
    turned = Turn().fit(prompt.mapped(inputs=inputs))
    assert float(turned.notes["turned by"]) == pytest.approx(2 / 8)
    assert not bool(turned.prompt.inputs.mask[3, 3, 0])


@pytest.mark.parametrize("start", [0.0, -0.5, 2.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_regular_grid_lies_on_itself_wherever_it_begins(start, dtype):
    n, period = 100, 0.3
    grid = start + period / n * torch.arange(n, dtype=dtype)[:, None]
    random = torch.Generator().manual_seed(1)
    values = torch.randn(4, n, 1, generator=random, dtype=dtype)
    parts = Field(grid, values[:3])
    prompt = Prompt(parts, parts, Field(grid, values[3]), grid, axes=(Axis("x", period),))
    for cells in range(n):
        frame = Turn(cells=cells).fit(prompt)
        assert torch.equal(frame.prompt.at, grid)
        assert torch.equal(frame.back(frame.prompt.query.values), prompt.query.values)


def test_grids_of_time_and_place_turn_by_the_coarser_cell():
    """Inputs at 100 points of x, outputs at 10 times and 50 of x: both lie on themselves."""
    prompt = mfc.sample("g_1to2", 0.3, n=3, seed=1).prompt.to(torch.float64)
    frame = Turn(cells=1).fit(prompt)
    for turned, given_ in (
        (frame.prompt.inputs.coords, prompt.inputs.coords),
        (frame.prompt.outputs.coords, prompt.outputs.coords),
        (frame.prompt.at, prompt.at),
    ):
        assert torch.equal(turned, given_)
    by = frame.notes["turned by"] * 50
    torch.testing.assert_close(by, by.round(), rtol=0, atol=1e-5)


def test_points_of_time_and_place_in_any_order_turn_at_every_time():
    """Inputs on eight places, outputs on four, twice: one cell is a quarter."""
    places = torch.cartesian_prod(torch.tensor([0.0]), torch.arange(8) / 8).double()
    later = torch.cartesian_prod(torch.tensor([0.5, 1.0]), torch.arange(4) / 4).double()
    later = later[torch.randperm(8, generator=torch.Generator().manual_seed(0))]

    def u(coords):
        return (10 * coords[..., :1] + (2 * math.pi * coords[..., 1:]).sin()).expand(3, -1, -1)

    axes = (Axis("t"), Axis("x", 1.0))
    query = Field(places, u(places)[0])
    prompt = Prompt(Field(places, u(places)), Field(later, u(later)), query, later, axes=axes)
    frame = Turn(cells=1, anchored=False).fitted(prompt)
    for part in (frame.prompt.inputs, frame.prompt.outputs):
        before = part.coords.clone()
        before[..., 1] += 0.25
        torch.testing.assert_close(part.values, u(before))
    torch.testing.assert_close(frame.back_held_out(frame.prompt.outputs.values), prompt.outputs.values)


def test_scattered_points_keep_their_places_on_the_circle():
    prompt = make_prompt(5, batch=(2,), points=9, own_grids=True)
    frame = Turn().fit(prompt)
    by = frame.notes["turned by"][:, None]
    back = torch.remainder(frame.prompt.query.coords[..., 0] + by, 1.0)
    torch.testing.assert_close(back.sort(dim=-1).values, prompt.query.coords[..., 0].sort(dim=-1).values)
    assert bool((frame.prompt.query.coords.diff(dim=-2) >= 0).all())
    # What a model says of places is said of the places as they were.
    result = parse("turn | icon").run(lambda p: torch.sin(2 * math.pi * p.at), prompt)
    expected = torch.sin(2 * math.pi * (prompt.at - frame.notes["turned by"][:, None, None]))
    torch.testing.assert_close(result.values, expected, rtol=0, atol=1e-12)
