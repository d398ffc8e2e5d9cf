"""What may be assumed of coordinates that nobody has named: little, and it is told."""

import dataclasses
import math
import re

import pytest
import torch

import chop
from chop import Axis, Field, ProgramError, Prompt
from chop.core.text import parse
from chop.testing import make_prompt, toy_model


def on(x, channels=1, **stated):
    """A prompt of three examples on the points ``x`` (n, k)."""
    x = torch.as_tensor(x).double()
    size = (len(x), channels)
    random = torch.Generator().manual_seed(0)
    pairs = torch.randn(2, 3, *size, generator=random, dtype=torch.float64)
    query = torch.randn(*size, generator=random, dtype=torch.float64)
    return Prompt(Field(x, pairs[0]), Field(x, pairs[1]), Field(x, query), at=x, **stated)


def regular(n, length, start=0.0):
    return start + length * torch.arange(n).double()[:, None] / n


def plane(n=4):
    x, y = torch.meshgrid(torch.arange(n).double(), torch.arange(n).double(), indexing="ij")
    return torch.stack([x.flatten(), y.flatten()], dim=-1) / n


@pytest.mark.parametrize("grid", [regular(8, 1.0), regular(5, 1.0, 0.1), 0.01 * torch.arange(100)[:, None]])
def test_a_grid_that_shows_its_period(grid):
    prompt = on(grid)
    assert prompt.axes == (Axis("x", 1.0),)
    assert prompt.assumed == "x with period 1, as the grid shows"


@pytest.mark.parametrize(
    "grid",
    [
        regular(8, 2 * math.pi),
        torch.linspace(0, 1, 8)[:, None],
        regular(8, 1.0) ** 2,
        torch.zeros(1, 1),
        regular(8, 1.0).flip(0),
    ],
)
def test_a_grid_that_shows_none(grid):
    prompt = on(grid)
    assert prompt.axes == (Axis("x"),)
    assert prompt.assumed == "x without a period"


def test_one_function_on_another_grid_shows_none():
    whole = on(regular(8, 1.0))
    x = torch.linspace(0, 1, 8).double()[:, None]
    assert Prompt(whole.inputs, whole.outputs, Field(x, whole.query.values), whole.at).axes == (Axis("x"),)


def test_several_coordinates_have_no_meaning_of_their_own():
    prompt = on(plane())
    assert [axis.name for axis in prompt.axes] == ["x0", "x1"]
    assert all(axis.period is None for axis in prompt.axes)
    assert prompt.assumed == "x0, x1: no names, no periods, no time"


def test_what_is_stated_is_not_assumed():
    axes = (Axis("x", 1.0),)
    prompt = on(regular(8, 1.0), axes=axes)
    assert prompt.assumed is None
    assert prompt.axes == on(regular(8, 1.0)).axes  # the same meaning, otherwise founded


def test_an_assumption_stays_one():
    """Whatever is made of a prompt: no copy turns it into something that somebody said."""
    prompt = on(regular(8, 1.0))
    for made in (
        prompt.held_out(pad=True),
        prompt.to(torch.float32),
        dataclasses.replace(prompt, times=None),
    ):
        assert made.assumed == prompt.assumed
    stated = dataclasses.replace(prompt, axes=(Axis("angle", 1.0),))
    assert stated.assumed is None


def even(prompt):
    """An exactly symmetric model: it commutes with the mirror of any period."""
    return prompt.query.values.square()


def test_a_mirror_asks_for_the_period():
    """On [0, 2 pi) a period of 1 was taken; the answer was off by more than its own size."""
    prompt = on(regular(64, 2 * math.pi))
    with pytest.raises(ProgramError, match=r'axes=\(chop\.Axis\("x", period=6\.28319\),\)') as caught:
        parse("reflect | icon").run(even, prompt)
    assert "\n" not in str(caught.value)
    assert 'axes = "x=6.28319" into the file' in str(caught.value)
    stated = on(regular(64, 2 * math.pi), axes=(chop.Axis("x", period=2 * math.pi),))
    got = parse("reflect | icon").run(even, stated).values
    torch.testing.assert_close(got, even(stated))


def test_a_shift_asks_for_the_period():
    with pytest.raises(ProgramError, match=r'moving_frame .*chop\.Axis\("x", period=2\)'):
        parse("moving_frame | icon").run(toy_model, on(regular(8, 2.0)))
    with pytest.raises(ProgramError, match=r"period=1\)"):  # an irregular grid suggests nothing
        parse("moving_frame | icon").run(toy_model, on(regular(8, 2.0) ** 2))
    with pytest.raises(ProgramError, match=r'reflect .*chop\.Axis\("t"\), chop\.Axis\("x", period=1\)'):
        parse("reflect | icon").run(toy_model, on(plane()))


@pytest.mark.parametrize("text", ["last_frame", "first_frame", "icon | unit_mass"])
def test_several_coordinates_are_asked_for_time(text):
    """On a field over (x, y) the first coordinate was taken for time."""
    name = text.split("| ")[-1]
    with pytest.raises(ProgramError, match=rf'{name} .*axes=\(chop\.Axis\("t"\), chop\.Axis\("x"\)\)'):
        parse(text).run(toy_model, on(plane()))
    parse(text).run(toy_model, on(plane(), axes=(Axis("x"), Axis("y"))))
    parse(text).run(toy_model, on(plane(), axes=(Axis("t"), Axis("x"))))


def test_frames_of_a_plane_without_time_are_the_plane():
    prompt = on(plane(), axes=(Axis("x"), Axis("y")))
    assert torch.equal(parse("last_frame").run(toy_model, prompt).values, prompt.query.values)


def test_more_coordinates_are_asked_for_too():
    cube = torch.rand(6, 4, generator=torch.Generator().manual_seed(1))
    with pytest.raises(ProgramError, match=r'chop\.Axis\("t"\), chop\.Axis\("x1"\)'):
        parse("last_frame").run(toy_model, on(cube))


def test_the_examples_in_the_sentences_can_be_copied():
    for prompt, text in ((on(plane()), "last_frame"), (on(regular(8, 3.0)), "reflect | icon")):
        with pytest.raises(ProgramError) as caught:
            parse(text).run(toy_model, prompt)
        written = re.search(r"axes=(\(chop.*?\)),? (?:naming|or write)", str(caught.value))[1]
        axes = eval(written)  # what a user would paste
        parse(text).run(toy_model, on(prompt.query.coords, axes=axes))


def test_programs_that_need_neither_do_not_ask():
    for text in (
        "icon",
        "mfc",
        "ridge",
        "combine(icon, mean_output, nearest_output)",
        "icon | bound_variation",
    ):
        for grid in (regular(8, 2.0), plane()):
            if "variation" in text and grid.shape[1] > 1:
                continue
            parse(text).run(toy_model, on(grid))


def test_the_tests_own_prompts_are_stated():
    assert all(make_prompt(1, dimensions=k).assumed is None for k in (1, 2, 3))


@pytest.mark.slow
def test_problems_state_their_axes():
    assert chop.problems.conservation.sample("sin_cos", 1).prompt.assumed is None
    assert chop.problems.mfc.sample("g_2to2", 0.5, 1).prompt.assumed is None


def test_a_bundled_network_refuses_other_domains():
    """Coordinates were wrapped into a period of 1 without a word."""
    with pytest.raises(chop.ModelError, match=r"x reaches from 0 to 6\.18.*divide it by its period"):
        parse("icon").run(chop.load("conservation"), on(regular(64, 2 * math.pi)).to(torch.float32))


def test_an_axis_in_words():
    assert [str(axis) for axis in (Axis("t"), Axis("x", 2.0))] == ["t", "x (period 2)"]
