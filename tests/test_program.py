"""Programs as values, the pipe, Q and rounds, in-context errors, and what cannot be run."""

import dataclasses
import pickle
from dataclasses import dataclass
from typing import ClassVar

import pytest
import torch
from hypothesis import HealthCheck, assume, given, settings

import chop
from chop import Field, Graph, ModelError, ProgramError, Prompt
from chop.catalog import TEXTS
from chop.declare import flag, number, program, programs
from chop.errors import ChopError
from chop.operators import (
    Average,
    Combine,
    ConserveMean,
    Correct,
    Debias,
    Flip,
    Icon,
    Increment,
    LastFrame,
    MeanOutput,
    MovingFrame,
    NearestExamples,
    Nonnegative,
    Normalize,
    Rescale,
    Select,
)
from chop.program import Frame, Leaf, Outcome, Program, Projected, Stack, Transform, Wrapped
from chop.tasks import Answer
from chop.testing import OperatorConformance, make_prompt, program_values, toy_model
from chop.text import parse
from sample_models import Recording, plain_arithmetic

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


# Q, rounds and sharing.


TABLE = {
    "raw": lambda d: 1,
    "conservation": lambda d: 1,
    "mfc": lambda d: 2 * d + 2,
    "corr": lambda d: d + 1,
    "air": lambda d: d + 1,
}


@pytest.mark.parametrize("d", range(2, 8))
@pytest.mark.parametrize("name", list(TABLE))
def test_calls_are_the_table(name, d):
    assert set(TABLE) == set(TEXTS)
    made = chop.programs[name]
    dimensions, channels = (3, (3, 3)) if name == "air" else (1, (1, 1))
    prompt = make_prompt(d, batch=(2,), examples=d, dimensions=dimensions, channels=channels)
    model = Recording(toy_model)
    result = made.run(model, prompt)
    assert made.calls(d) == result.calls == result.trace.calls == TABLE[name](d)
    assert model.rows == 2 * result.calls
    assert result.rounds == result.trace.rounds == 1


def test_twelve_evaluations_in_one_invocation():
    model = Recording(toy_model)
    result = chop.programs["mfc"].run(model, make_prompt(1, batch=(3,)))
    assert result.calls == 12
    assert model.invocations == 1
    assert model.asked[0].batch == (36,)


def test_prompts_of_two_example_counts_are_two_invocations():
    model = Recording(toy_model)
    result = chop.programs["air"].run(model, make_prompt(1, batch=(3,), dimensions=3, channels=(3, 3)))
    assert result.rounds == 1
    assert [asked.examples for asked in model.asked] == [5, 4]


@pytest.mark.parametrize(
    ("text", "calls", "rounds"),
    [
        ("combine(rescale | icon, debias(rescale | icon))", 6, 1),
        ("combine(rescale | icon, debias(icon))", 12, 1),
        ("average(icon, icon, flip | icon, flip | icon)", 2, 1),
        ("select(correct(icon), debias(icon, pad=True), icon)", 6, 1),
        ("select(correct(icon), debias(icon), icon)", 11, 1),
        ("correct(correct(icon))", 6, 1),
        ("rescale | correct(icon)", 6, 1),
        ("correct(icon) | conserve_mean", 6, 1),
        ("correct(average(icon, mean_output))", 6, 1),
        ("correct(average(debias(icon), icon))", 36, 1),
        ("nearest_examples | correct(icon)", 4, 1),
        ("correct(nearest_examples | correct(icon))", 24, 1),
        ("mean_output", 0, 0),
        ("combine(icon, nearest_examples(k=7) | icon)", 6, 1),
        ("nearest_examples(k=5) | correct(nearest_examples(k=9) | icon)", 6, 1),
        ("select(nearest_examples(k=4) | nearest_examples(k=4) | icon, nearest_examples(k=4) | icon)", 6, 1),
        ("debias(select(nearest_examples(k=4) | icon, icon, pad=False))", 7, 1),
    ],
)
def test_sharing_within_a_run(text, calls, rounds):
    made = parse(text)
    model = Recording(toy_model)
    result = made.run(model, make_prompt(1, batch=(2,)))
    assert result.calls == calls
    assert made.calls(5) == calls
    assert model.rows == 2 * calls
    assert result.rounds == rounds


def test_runs_do_not_share():
    """A program holds no state between prompts."""
    model = Recording(toy_model)
    prompt = make_prompt(1)
    one, two = (chop.programs["mfc"].run(model, prompt) for _ in range(2))
    assert model.rows == 24
    assert torch.equal(one.values, two.values)


def test_calls_can_be_bounded():
    assert parse("correct(icon)").calls(100) == 101
    with pytest.raises(ProgramError, match=r"more than 50 model evaluations"):
        parse("correct(icon)").calls(100, limit=50)


@given(made=program_values(max_leaves=6))
@settings(max_examples=60, suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow])
def test_any_programs_calls_are_known(made):
    assume(made.calls(4) <= 200)
    prompt = make_prompt(1, examples=4, points=8, batch=(2,), channels=(2, 2))
    model = Recording(toy_model)
    try:
        result = made.run(model, prompt)
    except ProgramError:
        assume(False)
    assert made.calls(4) == result.calls
    assert model.rows == 2 * result.calls


# In-context errors.


def by_hand(made, model, prompt, pad=True):
    """Held-out answers by building each held-out prompt from its pairs and running it alone."""
    d = prompt.examples
    answers = []
    for h in range(d):
        kept = [j for j in range(d) if j != h]
        kept += kept[:1] if pad else []

        def take(part, kept=kept):
            mask = None if part.mask is None else part.mask[kept]
            return Field(part.coords[kept], part.values[kept], mask)

        one = Prompt(
            inputs=take(prompt.inputs),
            outputs=take(prompt.outputs),
            query=Field(prompt.inputs.coords[h], prompt.inputs.values[h]),
            at=prompt.outputs.coords[h],
            graph=prompt.graph,
            axes=prompt.axes,
            times=prompt.times[[*kept, h]],
        )
        answers.append(made.run(model, one).values)
    return torch.stack(answers)


def literal_error(prompt, held_out):
    means = []
    for h in range(prompt.examples):
        squared = (prompt.outputs.values[h] - held_out[h]) ** 2
        means.append(squared[prompt.outputs.observed[h]].mean())
    return torch.stack(means).mean()


ANY = [
    "icon",
    "ridge",
    "moving_frame | rescale | icon | conserve_mean",
    "normalize | icon",
    "reflect | minmax | icon",
    "nearest_examples(k=2) | icon",
    "nearest_examples(k=2) | debias(icon)",
    "average(icon, rescale | icon)",
    "average(correct(icon), icon)",
    'moving_frame(shift="spectral") | icon | within_examples',
]


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("text", ANY)
def test_in_context_error_of_any_program(text, masked):
    made = parse(text)
    prompt = make_prompt(3, masked=masked)
    result = made.run(toy_model, prompt, validate=True)
    expected = by_hand(made, toy_model, prompt)
    torch.testing.assert_close(result.held_out, expected, rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(result.error, literal_error(prompt, expected), rtol=1e-10, atol=1e-12)
    plain = made.run(toy_model, prompt)
    assert plain.error is None
    assert plain.held_out is None
    assert torch.equal(plain.values, result.values)
    assert plain.calls < result.calls or result.calls == 0


@pytest.mark.parametrize("text", ["correct(icon)", "rescale | debias(icon)", "select(correct(icon), icon)"])
def test_validators_report_their_error_unasked(text):
    made = parse(text)
    prompt = make_prompt(3, batch=(2,), masked=True)
    plain, asked = made.run(toy_model, prompt), made.run(toy_model, prompt, validate=True)
    assert torch.equal(plain.error, asked.error)
    assert torch.equal(plain.held_out, asked.held_out)
    assert plain.calls == asked.calls
    for i in range(2):
        torch.testing.assert_close(plain.error[i], literal_error(prompt[i], plain.held_out[i]))


def test_examples_of_which_nothing_was_observed_do_not_count():
    prompt = make_prompt(3, masked=True)
    mask = prompt.outputs.mask.clone()
    mask[2] = False
    prompt = dataclasses.replace(prompt, outputs=dataclasses.replace(prompt.outputs, mask=mask))
    result = icon.run(toy_model, prompt, validate=True)
    rest = [h for h in range(5) if h != 2]
    errors = [((prompt.outputs.values[h] - result.held_out[h]) ** 2)[mask[h]].mean() for h in rest]
    torch.testing.assert_close(result.error, torch.stack(errors).mean())


@pytest.mark.parametrize("text", ANY)
def test_a_held_out_answer_does_not_know_the_hidden_output(text):
    made = parse(text)
    prompt = make_prompt(4)
    before = made.run(toy_model, prompt, validate=True).held_out
    moved = False
    for h in range(5):
        values = prompt.outputs.values.clone()
        values[h] = 3 - 2 * values[h].flip(0)
        changed = dataclasses.replace(prompt, outputs=Field(prompt.outputs.coords, values))
        after = made.run(toy_model, changed, validate=True).held_out
        assert torch.equal(after[h], before[h])
        moved |= not torch.equal(after, before)
    assert moved


def test_a_program_is_given_nothing_but_the_prompt():
    """The truth of a query has no way in: two prompts alike in every tensor are answered alike."""
    names = {f.name for f in dataclasses.fields(Prompt)}
    assert names == {"inputs", "outputs", "query", "at", "graph", "axes", "times", "origin"}
    for made in list(chop.programs.values())[:4]:
        one, two = (made.run(toy_model, make_prompt(9)).values for _ in range(2))
        assert torch.equal(one, two)


# Answers that are not finite.


def partly_nan(prompt):
    values = toy_model(prompt)
    bad = prompt.query.values.mean(dim=(-1, -2)) > 0
    return torch.where(bad[..., None, None], torch.nan, values)


def test_rejected_is_told_for_each_query():
    prompt = make_prompt(2, batch=(2, 3))
    result = icon.run(partly_nan, prompt)
    expected = prompt.query.values.mean(dim=(-1, -2)) > 0
    assert torch.equal(result.rejected, expected)
    assert bool(expected.any())
    assert not bool(expected.all())
    assert torch.equal(result.values.isnan().any(-1).any(-1), expected)
    alone = icon.run(toy_model, prompt).values
    assert torch.equal(result.values[~expected], alone[~expected])


def test_strict_raises_and_names_the_queries():
    prompt = make_prompt(2, batch=(2, 3))
    rows = (prompt.query.values.mean(dim=(-1, -2)) > 0).flatten().nonzero().flatten().tolist()
    named = ", ".join(map(str, rows[:5]))
    with pytest.raises(ProgramError, match=rf"{len(rows)} of 6 answers are not finite \(queries {named}\)"):
        icon.run(partly_nan, prompt, strict=True)
    with pytest.raises(ProgramError, match=r"12 of 12 answers .*\(queries 0, 1, 2, 3, 4, \.\.\.\)"):
        icon.run(lambda p: toy_model(p) * torch.inf, make_prompt(1, batch=(12,)), strict=True)
    assert icon.run(toy_model, prompt, strict=True).rejected.sum() == 0


def test_a_projection_may_save_an_answer():
    result = parse("icon | finite").run(lambda p: toy_model(p) * torch.nan, make_prompt(1), strict=True)
    assert torch.equal(result.values, torch.zeros(12, 1, dtype=torch.float64))


EVERYWHERE = [
    *map(str, chop.programs.values()),
    "ridge",
    "normalize | icon",
    "minmax | ridge",
    'moving_frame(shift="spectral") | debias(icon)',
    "nearest_examples | increment | icon | within_examples | unit_mass",
]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("where", ["answers", "prompt"])
@pytest.mark.parametrize("text", EVERYWHERE)
def test_enormous_numbers_do_not_stop_a_batch(text, where, dtype):
    """Squares that overflow make a bad row, not an exception; the other rows keep their answers."""
    made = parse(text)
    stations = "graph" in text
    prompt = make_prompt(1, batch=(3,), dimensions=3 if stations else 1, channels=(3, 3), dtype=dtype)
    huge = torch.finfo(dtype).max / 16
    times = prompt.times.clone()
    times[1] += 120  # by which the model knows the row
    prompt = dataclasses.replace(prompt, times=times)
    quiet = made.run(toy_model, prompt)

    def loud(asked):
        return toy_model(asked) + torch.where(
            asked.times[..., -1:, None] >= 100, torch.tensor(huge, dtype=dtype), 0
        )

    if where == "answers":
        result = made.run(loud, prompt)
    else:
        row = torch.tensor([1, huge, 1], dtype=dtype)
        prompt = dataclasses.replace(
            prompt,
            inputs=prompt.inputs.with_values(prompt.inputs.values * row[:, None, None, None]),
            outputs=prompt.outputs.with_values(prompt.outputs.values * row[:, None, None, None]),
            query=prompt.query.with_values(prompt.query.values * row[:, None, None]),
        )
        result = made.run(toy_model, prompt)
    torch.testing.assert_close(result.values[[0, 2]], quiet.values[[0, 2]])
    assert bool(result.values[1].isfinite().all()) != bool(result.rejected[1])


def test_a_candidate_that_explodes_gets_no_weight():
    """Also where its squared errors overflow."""
    prompt = make_prompt(1, dtype=torch.float32)
    made = parse("combine(mean_output, icon, nearest_output, shrink=False)")
    result = made.run(lambda p: toy_model(p) + 1e30, prompt)
    weights = result.trace.root.notes["weights"].flatten()
    assert float(weights[1]) == 0
    assert float(weights.sum()) == pytest.approx(1)
    first, last = (parse(name).run(toy_model, prompt).values for name in ("mean_output", "nearest_output"))
    torch.testing.assert_close(result.values, weights[0] * first + weights[2] * last)


# What cannot be run is told in one sentence.


def scattered():
    return make_prompt(1, dimensions=2)


def irregular():
    prompt = make_prompt(1)
    grid = prompt.at.clone()
    grid[3] += 0.02
    parts = {name: Field(grid, getattr(prompt, name).values) for name in ("inputs", "outputs", "query")}
    return Prompt(**parts, at=grid)


IMPOSSIBLE = {
    "correct at D = 1": (
        "correct(icon)",
        lambda: make_prompt(1, examples=1),
        r"correct holds out .*at least 2, .*has 1",
    ),
    "debias at D = 1": ("debias(icon)", lambda: make_prompt(1, examples=1), r"debias holds out .*at least 2"),
    "select at D = 1": ("select(ridge, icon)", lambda: make_prompt(1, examples=1), r"select holds out"),
    "combine at D = 1": ("combine(icon)", lambda: make_prompt(1, examples=1), r"combine holds out"),
    "gap": (
        "correct(icon, gap=3)",
        lambda: make_prompt(1, examples=4),
        r"with gap 3 and needs at least 5, .*has 4",
    ),
    "one example left": (
        "nearest_examples(k=1) | debias(icon)",
        lambda: make_prompt(1),
        r"debias .*at least 2, but the prompt has 1",
    ),
    "shift of scattered points": (
        "moving_frame | icon",
        scattered,
        r"moving_frame .*one periodic coordinate",
    ),
    "shift of an irregular grid": (
        "moving_frame | icon",
        irregular,
        r"moving_frame .*regular grid of spacing 0\.083",
    ),
    "shift of several grids": (
        "moving_frame | icon",
        lambda: make_prompt(1, own_grids=True),
        r"moving_frame .*on one grid",
    ),
    "shift to another grid": (
        "moving_frame | icon",
        lambda: make_prompt(1, answer_points=8),
        r"moving_frame .*on one grid",
    ),
    "shift without a period": (
        "moving_frame | icon",
        lambda: dataclasses.replace(make_prompt(1), axes=(chop.Axis("x"),)),
        r"moving_frame .*one periodic coordinate",
    ),
    "shift of another period": (
        "moving_frame | icon",
        lambda: dataclasses.replace(make_prompt(1), axes=(chop.Axis("x", 2.0),)),
        r"moving_frame .*regular grid of spacing 0\.1666",
    ),
    "shift of other channels": (
        "moving_frame | icon",
        lambda: make_prompt(1, channels=(2, 1)),
        r"moving_frame .*2 and 1 channels",
    ),
    "shift of three points": (
        "moving_frame | icon",
        lambda: make_prompt(1, points=3),
        r"at least 4 grid points, not 3",
    ),
    "mirror without a period": (
        "reflect | icon",
        lambda: make_prompt(1, dimensions=3),
        r"reflect .*one periodic axis",
    ),
    "mirror of a graph": (
        "reflect | icon",
        lambda: dataclasses.replace(make_prompt(1), graph=Graph([[0], [1]], 12)),
        r"reflect would reorder the points of a graph",
    ),
    "no graph": ('debias(icon, smooth="graph")', lambda: make_prompt(1), r"needs a prompt with a graph"),
    "channel too high": (
        "combine(icon, channels=(1,))",
        lambda: make_prompt(1),
        r"channel 1 does not exist; outputs have 1",
    ),
    "channel too low": (
        "combine(icon, channels=(-2,))",
        lambda: make_prompt(1),
        r"channel -2 does not exist",
    ),
    "channel twice": (
        "combine(icon, channels=(0, -2))",
        lambda: make_prompt(1, channels=(2, 2)),
        r"\(0, -2\) name a channel twice",
    ),
    "increment of other channels": (
        "increment | icon",
        lambda: make_prompt(1, channels=(2, 1)),
        r"2 and 1 channels",
    ),
    "increment on other points": (
        "increment | icon",
        lambda: make_prompt(1, answer_points=7),
        r"on one grid",
    ),
    "normalize of other channels": (
        "normalize | icon",
        lambda: make_prompt(1, channels=(2, 1)),
        r"2 input .*and 1 output channels .*normalize\(separate=True\)",
    ),
    "mean of other channels": (
        "icon | conserve_mean",
        lambda: make_prompt(1, channels=(2, 1)),
        r"conserve_mean .*2 channels",
    ),
    "copy of other channels": ("copy_query", lambda: make_prompt(1, channels=(2, 1)), r"copy_query .*2 .*1"),
    "frame of other channels": ("last_frame", lambda: make_prompt(1, channels=(2, 1)), r"last_frame .*2 .*1"),
    "frames of unequal size": (
        "last_frame",
        lambda: _uneven_frames(),
        r"last_frame needs equally many points",
    ),
}


def _uneven_frames():
    prompt = make_prompt(1, batch=(2,), dimensions=3)
    coords = prompt.query.coords.clone()
    coords[1, -1, 0] = 0.0
    return dataclasses.replace(prompt, query=Field(coords, prompt.query.values))


@pytest.mark.parametrize("case", IMPOSSIBLE)
def test_what_cannot_be_run(case):
    text, make, sentence = IMPOSSIBLE[case]
    with pytest.raises(ProgramError, match=sentence) as caught:
        parse(text).run(toy_model, make())
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 250


def test_validating_one_example_is_a_clear_error():
    with pytest.raises(ChopError, match=r"at least 2 pairs are needed"):
        icon.run(toy_model, make_prompt(1, examples=1), validate=True)


def test_programs_without_validators_run_on_one_example():
    for text in ("icon", "moving_frame | rescale | icon | conserve_mean", "ridge", "mean_output"):
        assert parse(text).run(toy_model, make_prompt(1, examples=1)).values.isfinite().all()


def test_no_prompts_are_answered_too():
    """An empty batch is a batch."""
    for name in ("raw", "conservation", "mfc", "corr"):
        prompt = make_prompt(1, batch=(3,), channels=(2, 2))[:0]
        result = chop.programs[name].run(toy_model, prompt)
        assert result.values.shape == prompt.answer_shape
        assert result.rejected.shape == (0,)


def test_arguments_the_wrong_way_round():
    with pytest.raises(ModelError, match=r"must be callable with a prompt; Prompt is not"):
        icon.run(make_prompt(1), toy_model)


def test_a_program_that_answers_with_a_wrong_shape():
    with pytest.raises(ProgramError, match=r"first_point answered with shape \(1, 1\), .*asks for \(12, 1\)"):
        FirstPoint().run(toy_model, make_prompt(1))


# Third parties: what is declared here works like what is built in.


@dataclass(frozen=True)
class FirstPoint(Leaf):
    """One point only: a wrong answer."""

    name: ClassVar[str] = "first_point"
    law: ClassVar[str] = "Wrong."

    def answer(self, prompt):
        return prompt.query.values[..., :1, :], {}


@dataclass(frozen=True)
class Logarithm(Transform):
    """Logarithms of values, shifted to be positive where asked."""

    name: ClassVar[str] = "logarithm"
    law: ClassVar[str] = "The way back undoes the way there."
    floor: float = number(20.0, 10.0, 100.0, "added before the logarithm")

    def fit(self, prompt):
        def there(part):
            return part.with_values((part.values + self.floor).log())

        def back(values):
            return values.exp() - self.floor

        mapped = prompt.mapped(
            inputs=there(prompt.inputs), outputs=there(prompt.outputs), query=there(prompt.query)
        )
        return Frame(mapped, back, back, {"floor": torch.full(prompt.batch, self.floor)})


@dataclass(frozen=True)
class Twice(Program):
    """Asks its base, then asks it again about its own answer."""

    name: ClassVar[str] = "twice"
    kind: ClassVar[str] = "mixture"
    law: ClassVar[str] = "Two rounds."
    base: Program = program("what is asked")
    again: bool = flag(True, "whether to ask again")

    def plan(self, prompt):
        (outcome,) = yield [Answer(self.base, prompt)]
        if not self.again:
            return Outcome(outcome.values)
        if prompt.query.values.shape != outcome.values.shape:
            raise ProgramError("twice feeds answers back and needs one shape")
        following = prompt.mapped(query=prompt.query.with_values(outcome.values))
        (outcome,) = yield [Answer(self.base, following)]
        return Outcome(outcome.values, notes={"asked": "twice"})

    def count(self, where, calls):
        self.base.count(where, calls)
        if self.again:
            self.base.count((*where, FedBack()), calls)


@dataclass(frozen=True)
class FedBack:
    """The step from a prompt to the one with the answer as its query."""

    def examples_after(self, examples):
        return examples

    def prompts_after(self, examples):
        return 1


@dataclass(frozen=True)
class Median(Program):
    """The median of several programs."""

    name: ClassVar[str] = "median"
    kind: ClassVar[str] = "mixture"
    law: ClassVar[str] = "Between the smallest and the largest."
    members: tuple[Program, ...] = programs("what is asked", at_least=3)

    def plan(self, prompt):
        outcomes = yield [Answer(member, prompt) for member in self.members]
        return Outcome(torch.stack([outcome.values for outcome in outcomes]).median(dim=0).values)

    def count(self, where, calls):
        for member in self.members:
            member.count(where, calls)


class TestThirdParties(OperatorConformance):
    operators = (
        Logarithm(),
        Logarithm(floor=30),
        Twice(Icon()),
        Twice(Rescale() | Icon(), again=False),
        Twice(Debias(Icon())),
        Median((Icon(), MeanOutput(), Flip() | Icon())),
    )


def test_a_third_partys_program_takes_part():
    prompt = make_prompt(1, batch=(2,))
    made = Select((Correct(Logarithm() | Twice(icon)), Average((icon, LastFrame()))))
    result = made.run(toy_model, prompt, validate=True)
    assert str(made) == "select(correct(logarithm | twice(icon)), average(icon, last_frame))"
    assert result.calls == made.calls(5) == 12 + 6
    assert result.rounds == 2
    assert "twice" in result.trace.explain()
    one = parse("icon").run(toy_model, prompt).values
    two = icon.run(toy_model, prompt.mapped(query=prompt.query.with_values(one))).values
    assert torch.equal(Twice(icon).run(toy_model, prompt).values, two)


def test_an_abstract_operator_cannot_be_made():
    with pytest.raises(TypeError):
        Program()
    with pytest.raises(TypeError):
        Transform()


def test_transforms_of_the_library_are_not_touched_by_a_run():
    made = Increment() | Normalize() | icon
    before = hash(made), str(made)
    made.run(plain_arithmetic, make_prompt(1))
    assert (hash(made), str(made)) == before


def test_an_undeclared_field_is_named():
    @dataclass(frozen=True)
    class Loose(Leaf):
        """A field that nobody can print or check."""

        name: ClassVar[str] = "loose"
        number: int = 3

        def answer(self, prompt):
            return prompt.query.values, {}

    with pytest.raises(ProgramError, match=r"Loose: number is not declared; .*chop\.declare"):
        Loose()
