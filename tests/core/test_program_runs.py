"""Runs: Q, rounds and sharing, in-context errors, answers that are not finite."""

import dataclasses

import pytest
import torch
from hypothesis import HealthCheck, assume, given, settings
from program_sizes import needs_at_most
from sample_models import Recording

import chop
from chop import Field, ProgramError, Prompt
from chop.core.catalog import TEXTS
from chop.core.running import held_out_answers
from chop.core.text import parse
from chop.operators import (
    Icon,
)
from chop.testing import make_prompt, program_values, toy_model

icon = Icon()


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
    assume(needs_at_most(made, 200, examples=4))
    prompt = make_prompt(1, examples=4, points=8, batch=(2,), channels=(2, 2))
    model = Recording(toy_model)
    try:
        result = made.run(model, prompt)
    except ProgramError:
        assume(False)
    if "auto" in str(made):  # which decides by itself how much it needs, and for each query
        assert made.calls(4) >= result.calls == -(-model.rows // 2)
        return
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


# Held-out answers of several programs.


def test_programs_asked_together_share_what_they_need():
    prompt = make_prompt(1, batch=(3,))
    programs = [parse(text) for text in ("icon", "icon | conserve_mean", "flip | icon")]
    model = Recording(toy_model)
    answers, calls = held_out_answers(programs, model, prompt)
    assert calls == 2 * 5  # the projection needs no call of its own, nor is the query asked
    assert (model.invocations, model.rows) == (1, 3 * calls)
    for program, answer in zip(programs, answers, strict=True):
        alone = program.run(toy_model, prompt, validate=True).held_out
        torch.testing.assert_close(answer, alone, rtol=1e-12, atol=1e-12)
        assert not answer.is_inference()
