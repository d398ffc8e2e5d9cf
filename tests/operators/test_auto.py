"""The operator agent: what it builds, spends, keeps and says; useless models; one question as in a batch."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import chop
from chop.core.errors import ParseError, ProgramError
from chop.core.independence import averaged_together
from chop.core.metrics import rel_l2
from chop.core.text import parse
from chop.operators import auto, finite, icon, mean_output
from chop.operators.evidence import cautious_weights
from chop.problems import conservation, mfc
from chop.testing import make_prompt, toy_model


@pytest.fixture(scope="module")
def waves():
    """Six questions about a flux, far from what a damping model can do."""
    return conservation.sample("tanh", 6, seed=7, split="evolution", dtype=torch.float64)


@pytest.fixture(scope="module")
def densities():
    return mfc.sample("g_1to1", 0.5, 20, seed=7, split="evolution")


def damping(prompt):
    """A model that is at home near 0: it flattens what it sees."""
    return torch.tanh(prompt.query.values)


def drifting(prompt):
    """A model that errs by one fixed field."""
    grid = prompt.at[..., :1]
    return prompt.outputs.values[..., -1, :, :] * 0 + prompt.query.values + 0.3 * torch.sin(6.28 * grid)


def counted(model):
    """The model, and how many queries it was asked."""
    asked = [0]

    def counting(prompt):
        asked[0] += prompt.batch.numel()
        return model(prompt)

    return counting, asked


@pytest.mark.parametrize("budget", [1, 5, 6, 11, 12, 24, 48, 96])
def test_the_budget_is_kept_and_said(waves, budget):
    program = auto(budget=budget, leaves=False)
    model, asked = counted(toy_model)
    result = program.run(model, waves.prompt)
    assert asked[0] <= budget * 6
    assert result.calls == -(-asked[0] // 6) <= budget == program.calls()


@pytest.mark.parametrize("budget", [7, 8, 16, 24, 40, 64, 120])
def test_the_budget_of_a_forecast_is_kept(waves, budget):
    model, asked = counted(toy_model)
    result = auto(budget=budget, leaves=False, ahead=9).run(model, waves.prompt)
    assert asked[0] <= budget * 6
    assert bool(torch.isfinite(result.values).all())


def test_what_cannot_be_judged_is_left_to_the_model(waves):
    for prompt, program in (
        (waves.prompt, auto(budget=5)),
        (make_prompt(3, examples=1, batch=(2,)), auto),
    ):
        result = program.run(toy_model, prompt)
        assert result.calls == 1
        assert "bare model" in result.trace.explain()
        assert torch.equal(result.values, toy_model(prompt))


@pytest.mark.parametrize("text", ["auto", "auto(leaves=False)", "auto(budget=12)", "auto(ahead=20)"])
def test_what_was_built_gives_the_same_answer_without_probing(waves, text):
    result = parse(text).run(damping, waves.prompt)
    assert len(result.programs) == 6
    for row, program in enumerate(result.programs):
        again = parse(str(program)).run(damping, waves.prompt[row])
        torch.testing.assert_close(again.values, result.values[row], rtol=1e-9, atol=1e-9)
    alone = parse(text).run(damping, waves.prompt[2])
    assert alone.program == str(result.programs[2])


def test_different_programs_of_a_batch_are_not_one(waves):
    result = auto(leaves=False).run(damping, waves.prompt)
    assert len(set(map(str, result.programs))) > 1
    with pytest.raises(ProgramError, match=r"different programs: see result\.programs"):
        _ = result.program
    assert parse("icon").run(damping, waves.prompt).program == "icon"


def test_around_other_operators_what_was_built_goes_along(waves):
    result = parse("rescale | auto(leaves=False) | finite").run(damping, waves.prompt[0])
    assert result.program.startswith("rescale | ")
    assert result.program.endswith(" | finite")
    again = parse(result.program).run(damping, waves.prompt[0])
    torch.testing.assert_close(again.values, result.values, rtol=1e-9, atol=1e-9)


@settings(max_examples=12, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    examples=st.integers(1, 6),
    dimensions=st.integers(1, 3),
    channels=st.sampled_from([(1, 1), (2, 2), (1, 2)]),
    masked=st.booleans(),
    batch=st.sampled_from([(), (3,), (2, 2)]),
    budget=st.sampled_from([1, 7, 24, 60]),
)
def test_any_prompt_in_a_batch_as_alone(seed, examples, dimensions, channels, masked, batch, budget):
    prompt = make_prompt(
        seed,
        examples=examples,
        dimensions=dimensions,
        channels=channels,
        masked=masked,
        batch=batch,
        points=8,
    )
    program = auto(budget=budget)
    result = program.run(toy_model, prompt)
    assert bool(torch.isfinite(result.values).all())
    assert result.calls <= budget
    for place in np.ndindex(*batch):
        one = program.run(toy_model, prompt[place] if place else prompt)
        torch.testing.assert_close(one.values, result.values[place], rtol=1e-7, atol=1e-9)


def test_a_law_is_found_where_the_mean_is_kept(waves):
    result = auto.run(toy_model, waves.prompt)
    assert float(rel_l2(result.values, waves.target).max()) < 0.01
    assert all("law" in str(program) for program in result.programs)
    without = auto(without=("law",)).run(toy_model, waves.prompt)
    assert not any("law" in str(program) for program in without.programs)


def test_a_fixed_error_is_taken_away(waves):
    result = auto(leaves=False).run(drifting, waves.prompt)
    raw = rel_l2(drifting(waves.prompt), waves.target)
    assert float((rel_l2(result.values, waves.target) / raw).mean()) < 0.7


def _noise(prompt):
    scale = prompt.outputs.values.std()
    generator = torch.Generator().manual_seed(int(1e6 * abs(float(prompt.query.values.sum()))) % 2**31)
    return 3 * scale * torch.randn(prompt.answer_shape, generator=generator, dtype=prompt.dtype)


def _constant(prompt):
    return torch.full(prompt.answer_shape, 7.0, dtype=prompt.dtype)


def _wrong_units(prompt):
    return 1000 * toy_model(prompt)


def _sometimes_lost(prompt):
    values = toy_model(prompt).clone()
    flat = values.reshape(-1, *values.shape[-2:])
    flat[::10] = torch.nan
    return values


@pytest.mark.parametrize("model", [_noise, _constant, _wrong_units, _sometimes_lost])
def test_a_useless_model_does_no_harm(model, densities):
    prompt, target = densities.prompt, densities.target
    best = min(
        float(torch.nan_to_num(rel_l2(parse(text).run(model, prompt).values, target), nan=1e9).mean())
        for text in ("icon", "mean_output", "nearest_output")
    )
    answer = auto.run(model, prompt).values
    assert float(rel_l2(answer, target).mean()) <= 1.05 * best


def test_questions_without_structure():
    prompt = make_prompt(5, batch=(40,), examples=5, points=30)
    generator = torch.Generator().manual_seed(3)
    outputs = torch.randn(prompt.outputs.values.shape, generator=generator, dtype=prompt.dtype)
    target = torch.randn(prompt.answer_shape, generator=generator, dtype=prompt.dtype)
    prompt = chop.Prompt(
        prompt.inputs, prompt.outputs.with_values(outputs), prompt.query, prompt.at, axes=prompt.axes
    )
    zero = lambda asked: torch.zeros(asked.answer_shape, dtype=asked.dtype)  # noqa: E731
    best = min(
        float(rel_l2(parse(t).run(zero, prompt).values, target).mean()) for t in ("icon", "mean_output")
    )
    assert float(rel_l2(auto.run(zero, prompt).values, target).mean()) <= 1.05 * best


def test_a_perfect_model_is_left_alone():
    prompt = make_prompt(2, batch=(4,), examples=5, points=16)
    prompt = chop.Prompt(
        prompt.inputs, prompt.inputs.with_values(2 * prompt.inputs.values), prompt.query, prompt.at,
        axes=prompt.axes,
    )  # fmt: skip
    twice = lambda asked: 2 * asked.query.values  # noqa: E731
    result = auto(leaves=False).run(twice, prompt)
    torch.testing.assert_close(result.values, twice(prompt), rtol=1e-6, atol=1e-6)


def test_projections_only_where_examples_obey(densities):
    result = auto.run(damping, densities.prompt)
    assert all("nonnegative | unit_mass" in str(program) for program in result.programs)
    torch.testing.assert_close(result.values.mean(dim=-2), torch.ones(20, 1), rtol=1e-5, atol=1e-5)
    shifted = densities.prompt.mapped(
        outputs=densities.prompt.outputs.with_values(densities.prompt.outputs.values - 0.5)
    )
    assert not any("unit_mass" in str(program) for program in auto.run(damping, shifted).programs)


def test_what_it_says(waves):
    text = auto.run(damping, waves.prompt[0]).trace.explain()
    for word in (
        "seen: consecutive frames",
        "the mean is kept",
        "tried, best first",
        "to keep",
        "law",
        "then ",
    ):
        assert word in text
    assert "krige" in text
    assert "24 model evaluations" in text


@pytest.mark.parametrize(
    "text", ["auto(budget=0)", 'auto(without=("nothing",))', "auto(icon)", "auto(trust=-1)", "auto(leaves=3)"]
)
def test_wrong_options(text):
    with pytest.raises(ParseError):
        parse(text)


def test_text_and_value_agree():
    program = auto(budget=48, without=["views", "law", "views"], leaves=False)
    assert str(program) == 'auto(budget=48, leaves=False, without=("views", "law"))'
    assert parse(str(program)) == program


def test_a_forecast_decides_once(waves):
    case = conservation.sample("tanh", 3, seed=7, split="evolution", steps=12, dtype=torch.float64)
    forecast = chop.rollout("auto", toy_model, case.prompt, 12)
    assert forecast.calls <= 24 + 11 * 24
    truth = case.trajectory[:, -12:, :, None]
    assert float(rel_l2(forecast.values[:, -1], truth[:, -1]).max()) < 0.05
    built = auto(leaves=False, ahead=12).run(damping, case.prompt)
    assert not any("krige" in str(program) for program in built.programs)
    around = (auto(leaves=False) | finite).for_forecast(12)
    assert "ahead=12" in str(around)
    rolled = chop.rollout(auto(leaves=False), damping, case.prompt, 4)
    for row, program in enumerate(built.programs):
        one = chop.rollout(program, damping, case.prompt[row], 4)
        torch.testing.assert_close(one.values, rolled.values[row], rtol=1e-8, atol=1e-8)


# The rule of weights, by hand.


def by_hand(logs, trust):
    """One channel, independent examples: ``logs`` is (D, K)."""
    d = len(logs)
    gains = logs[:, :1] - logs
    mean, error = gains.mean(axis=0), gains.std(axis=0, ddof=1) / math.sqrt(d)
    rivals = max(1.0, sum(math.exp(-2 * trust * abs(m)) for m in mean[1:]))
    scores = mean - math.sqrt(2 * math.log(rivals)) * error
    raised = np.exp(trust * (scores - scores.max()))
    return raised / raised.sum()


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), d=st.integers(2, 7), k=st.integers(1, 6), trust=st.floats(0, 10))
def test_weights_against_numpy(seed, d, k, trust):
    logs = np.random.default_rng(seed).normal(size=(d, k))
    found = cautious_weights(
        torch.from_numpy(logs)[None], torch.ones(1, d, dtype=torch.bool), torch.eye(d).double(), trust
    )
    np.testing.assert_allclose(found.weights[0].numpy(), by_hand(logs, trust), rtol=1e-9, atol=1e-12)


def test_examples_that_are_one_count_once():
    logs = torch.tensor([[0.0, -1.0], [0.0, -1.0], [0.0, 1.0]]).double()[None]
    counted_ = torch.ones(1, 3, dtype=torch.bool)
    together = torch.tensor([[0.5, 0.5, 0.0], [0.5, 0.5, 0.0], [0.0, 0.0, 1.0]]).double()
    found = cautious_weights(logs, counted_, together, 4.0)
    torch.testing.assert_close(found.gains[0], torch.zeros(2).double())
    one = torch.full((3, 3), 1 / 3).double()
    assert cautious_weights(logs, counted_, one, 4.0).weights[0].tolist() == [1.0, 0.0]


def test_windows_of_one_record_belong_together():
    record = torch.arange(60.0).double().sin()[:, None] * torch.linspace(1, 2, 4).double()
    starts, query = [0, 2, 30, 45], 20

    def window(first):
        return record[first : first + 6].reshape(-1, 1)

    def prompt(starts, query):
        inputs = torch.stack([window(s) for s in starts])
        outputs = torch.stack([record[s + 8].reshape(-1, 1) for s in starts])
        t, x = torch.meshgrid(torch.arange(6.0), torch.arange(4.0), indexing="ij")
        points = torch.stack([t.flatten(), x.flatten()], dim=-1).double()
        places = torch.stack([torch.full((4,), 8.0), torch.arange(4.0)], dim=-1).double()
        count = len(starts)
        return chop.Prompt(
            chop.Field(points.expand(count, -1, -1), inputs),
            chop.Field(places.expand(count, -1, -1), outputs),
            chop.Field(points, window(query)),
            places,
            axes=(chop.Axis("t"), chop.Axis("x")),
        )

    assert averaged_together(prompt(starts, query)).diagonal().tolist() == [0.5, 0.5, 1.0, 1.0]
    # The third's output is a frame of the fourth's window.
    assert averaged_together(prompt([0, 12, 30, 34], 20)).diagonal().tolist() == [1.0, 1.0, 0.5, 0.5]
    # With the query in the same record they are as near to it as to each other.
    assert averaged_together(prompt([0, 2, 30, 45], 4)).diagonal().tolist() == [1.0, 1.0, 1.0, 1.0]


def test_frames_of_a_trajectory_count_one_by_one(waves):
    assert bool((averaged_together(waves.prompt).diagonal(dim1=-2, dim2=-1) == 1).all())


def test_weights_of_an_average():
    prompt = make_prompt(1, channels=(2, 2), batch=(2,))
    one, other = (p.run(toy_model, prompt).values for p in (icon, mean_output))
    plain = parse("average(icon, mean_output, weights=(3, 1))").run(toy_model, prompt).values
    torch.testing.assert_close(plain, 0.75 * one + 0.25 * other)
    each = parse("average(icon, mean_output, weights=(1, 0, 1, 2))").run(toy_model, prompt).values
    torch.testing.assert_close(each[..., 0], 0.5 * (one + other)[..., 0])
    torch.testing.assert_close(each[..., 1], other[..., 1])
    for wrong in ("(1, 2, 3)", "(0, 0)"):
        with pytest.raises(ProgramError):
            parse(f"average(icon, mean_output, weights={wrong})").run(toy_model, prompt)
