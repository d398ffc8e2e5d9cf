"""Programs as values, and the pipe."""

import dataclasses
import pickle

import pytest
import torch

import chop
from chop import ProgramError
from chop.core.program import Program, Projected, Stack, Wrapped
from chop.core.text import parse
from chop.operators import (
    Combine,
    ConserveMean,
    Correct,
    Debias,
    Flip,
    Icon,
    MeanOutput,
    MovingFrame,
    NearestExamples,
    Nonnegative,
    Rescale,
    Select,
)
from chop.testing import make_prompt, toy_model

icon = Icon()


# The pipe.


def test_a_transform_left_of_a_program_wraps_it():
    made = MovingFrame() | Rescale() | icon
    assert made == Wrapped(MovingFrame(), Wrapped(Rescale(), icon))
    assert MovingFrame() | (Rescale() | icon) == made
    assert str(made) == "moving_frame | rescale | icon"


def test_a_projection_right_of_a_program_follows_it():
    made = icon | Nonnegative() | ConserveMean()
    assert made == Projected(Projected(icon, projection=Nonnegative()), projection=ConserveMean())
    assert str(made) == "icon | nonnegative | conserve_mean"


def test_a_projection_binds_to_what_stands_left_of_it():
    made = Flip() | icon | Nonnegative()
    assert made == Projected(Wrapped(Flip(), icon), projection=Nonnegative())
    inside = Flip() | (icon | Nonnegative())
    assert inside == Wrapped(Flip(), Projected(icon, projection=Nonnegative()))
    assert made != inside
    assert str(inside) == "flip | (icon | nonnegative)"
    assert parse(str(inside)) == inside
    prompt = make_prompt(1)
    assert not torch.equal(made.run(toy_model, prompt).values, inside.run(toy_model, prompt).values)


def test_routes_wait_for_their_program():
    route = MovingFrame() | Rescale()
    assert isinstance(route, Stack)
    assert not isinstance(route, Program)
    assert str(route) == "moving_frame | rescale"
    assert Flip() | route == Stack((Flip(), MovingFrame(), Rescale()))
    assert route | Flip() == Stack((MovingFrame(), Rescale(), Flip()))
    assert route | route | icon == MovingFrame() | Rescale() | MovingFrame() | Rescale() | icon


@pytest.mark.parametrize(
    ("left", "right", "sentence"),
    [
        (icon, Rescale(), r"a transform stands left of a program: write rescale \| icon"),
        (icon, MovingFrame() | Rescale(), r"write moving_frame \| rescale \| icon"),
        (icon, MeanOutput(), r"two programs cannot be piped: icon \| mean_output; mix them with select"),
        (Nonnegative(), icon, r"a projection stands right of a program: nonnegative \| icon has none there"),
        (Rescale(), Nonnegative(), r"a projection stands right of a program"),
        (Nonnegative(), Nonnegative(), r"a projection stands right of a program"),
        (Rescale() | Flip(), Nonnegative(), r"a projection stands right of a program"),
        (icon, 3, r"only operators can be piped, not int"),
        (Rescale(), "icon", r"only operators can be piped, not str"),
        (Nonnegative(), None, r"a projection stands right of a program|only operators"),
    ],
)
def test_what_cannot_be_piped(left, right, sentence):
    with pytest.raises(ProgramError, match=sentence) as caught:
        left | right
    assert "\n" not in str(caught.value)


# Programs are values.


def test_equal_programs_are_one_key():
    one, two = chop.parse(str(chop.programs["air"])), chop.programs["air"]
    assert one is not two
    assert one == two
    assert hash(one) == hash(two)
    assert len({one, two, icon}) == 2
    assert Rescale(target=1) == Rescale(target=1.0) == Rescale()
    assert Rescale(target=2) != Rescale()
    assert Correct(icon) != Debias(icon)
    assert Combine([icon, MeanOutput()]) == Combine((icon, MeanOutput()))
    assert Select((icon, MeanOutput())) != Select((MeanOutput(), icon))


def test_nothing_can_be_assigned():
    made = chop.programs["mfc"]
    for name in ("branches", "pad", "gap", "news"):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(made, name, 1)
    with pytest.raises(TypeError):
        chop.programs["mfc"] = icon


def test_programs_travel():
    for made in chop.programs.values():
        assert pickle.loads(pickle.dumps(made)) == made


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: Rescale(target=0), r"rescale: target must be a number from 0\.01 to 100, not 0"),
        (lambda: Rescale(target=float("nan")), r"rescale: target .*not nan"),
        (lambda: Rescale(target=True), r"rescale: target .*not True"),
        (lambda: Rescale(center="median"), r'rescale: center must be one of "auto", "mean", not \'median\''),
        (lambda: NearestExamples(k=0), r"nearest_examples: k must be a whole number from 1 to 64, not 0"),
        (lambda: NearestExamples(k=2.0), r"nearest_examples: k .*not 2\.0"),
        (lambda: Correct(icon, gate=1), r"correct: gate must be True or False, not 1"),
        (lambda: Correct(icon, magnitude=2), r"correct: magnitude .*, or left out, not 2"),
        (lambda: Correct(Rescale()), r"correct: base must be a program, not rescale"),
        (lambda: Correct(3), r"correct: base must be a program, not 3"),
        (lambda: Select((icon,)), r"select: branches must be at least 2 programs"),
        (lambda: Select((icon, Nonnegative())), r"select: branches must be at least 2 programs"),
        (lambda: Combine(icon), r"combine: candidates must be at least 1 programs, not icon"),
        (
            lambda: Combine((icon,), channels=(0, "a")),
            r"combine: channels must be a tuple of .*numbers",
        ),
        (lambda: Combine((icon,), channels=(10**30,)), r"combine: channels .*not \(1000"),
    ],
)
def test_bad_parameters(make, sentence):
    with pytest.raises(ProgramError, match=sentence) as caught:
        make()
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize(
    ("text", "size", "depth"),
    [
        ("icon", 1, 1),
        ("rescale | icon", 2, 2),
        ("moving_frame | rescale | icon | conserve_mean", 4, 4),
        ("select(correct(rescale | icon), icon)", 5, 4),
        ("combine(icon, last_frame, debias(icon))", 5, 3),
    ],
)
def test_size_and_depth(text, size, depth):
    made = parse(text)
    assert (made.size, made.depth) == (size, depth)
