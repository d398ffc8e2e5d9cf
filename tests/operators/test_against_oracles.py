"""Every program agrees with literal, slow numpy code written from the paper."""

import dataclasses

import numpy as np
import pytest
import torch
from bridge import as_model, described, questions
from hypothesis import HealthCheck, assume, given, settings
from program_sizes import needs_at_most

import chop
from chop.core.errors import ProgramError
from chop.core.program import Wrapped
from chop.core.text import parse
from chop.testing import make_prompt, program_values, prompts
from oracles.chains import chop_air, chop_conservation, chop_corr, chop_mfc
from oracles.interpreter import answer, held_answers
from oracles.samples import order_sensitive_model
from oracles.validators import validation_error

CLOSE = {"rtol": 1e-9, "atol": 1e-9}
MODEL = as_model(order_sensitive_model)


def each(result, prompt):
    """The answer and the plain question of every row of a batch."""
    return zip(result.values.reshape(-1, *prompt.answer_shape[-2:]), questions(prompt), strict=True)


def check(program, prompt, model=order_sensitive_model):
    """Answers, held-out answers and in-context error against the interpreter."""
    pad = True  # what `validate` asks of programs that do not report their own
    result = program.run(as_model(model), prompt, validate=True)
    shape = (-1, *prompt.answer_shape[-2:])
    values = result.values.reshape(shape)
    held = result.held_out.reshape(-1, prompt.examples, *prompt.outputs.values.shape[-2:])
    errors = result.error.reshape(-1)
    tree = described(program)
    for i, question in enumerate(questions(prompt)):
        expected = torch.from_numpy(np.asarray(answer(tree, question, model)))
        torch.testing.assert_close(values[i], expected, equal_nan=True, **CLOSE)
        expected_held = held_answers(tree, question, model, pad)
        torch.testing.assert_close(
            held[i], torch.from_numpy(np.stack(expected_held)), equal_nan=True, **CLOSE
        )
        with np.errstate(all="ignore"):
            expected_error = validation_error(question, expected_held)
        torch.testing.assert_close(errors[i], torch.tensor(expected_error).double(), equal_nan=True, **CLOSE)


# The paper's four chains, against straight-line code.


@given(prompt=prompts(dimensions=1, own_grids=False, masked=False))
@settings(max_examples=60)
def test_chop_conservation(prompt):
    result = chop.programs["conservation"].run(MODEL, prompt)
    for got, question in each(result, prompt):
        expected = chop_conservation(question, order_sensitive_model)
        torch.testing.assert_close(got, torch.from_numpy(expected), **CLOSE)
    assert (result.calls, result.rounds) == (1, 1)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "chain"), [("mfc", chop_mfc), ("corr", chop_corr)])
@given(prompt=prompts(masked=False))
@settings(max_examples=60)
def test_chop_mfc_and_corr(name, chain, prompt):
    result = chop.programs[name].run(MODEL, prompt)
    for got, question in each(result, prompt):
        torch.testing.assert_close(got, torch.from_numpy(chain(question, order_sensitive_model)), **CLOSE)
    d = prompt.examples
    assert result.calls == {"mfc": 2 * d + 2, "corr": d + 1}[name]
    assert result.rounds == 1


@pytest.mark.slow
@given(prompt=prompts(dimensions=3, masked=False, channels=(3, 3)))
@settings(max_examples=40)
def test_chop_air(prompt):
    result = chop.programs["air"].run(MODEL, prompt)
    for got, question in each(result, prompt):
        torch.testing.assert_close(got, torch.from_numpy(chop_air(question, order_sensitive_model)), **CLOSE)
    assert result.calls == prompt.examples + 1
    assert result.rounds == 1


# Nested validators and wrappers: the held-out answers that the design defines.

NESTED = [
    "rescale | correct(icon)",
    "correct(icon) | conserve_mean",
    "select(combine(icon, mean_output, debias(icon)), correct(rescale | icon), icon)",
    "moving_frame | debias(icon)",
    "increment | correct(icon)",
    "moving_frame | rescale(target=0.5) | debias(icon) | conserve_mean",
    'correct(select(debias(icon), icon), weights="uniform", gap=1)',
    "combine(correct(icon, pad=False), rescale | icon | nonnegative, copy_query, shrink=False)",
    "correct(average(debias(icon), icon))",
    "select(rescale | select(correct(icon), icon), normalize | icon, icon)",
    "debias(correct(icon, magnitude=0.5, gate=False) | within_examples)",
    "minmax | combine(icon, flip | icon, mean_output) | finite",
    "normalize(separate=True) | debias(icon, pad=True)",
    "rescale | (correct(icon) | conserve_mean) | nonnegative",
    "correct(icon) | unit_mass",
    "rescale | debias(icon) | bound_variation | conserve_mean",
    "combine(icon, query_mean, copy_query)",
]


@pytest.mark.parametrize(
    "text", [pytest.param(text, marks=[pytest.mark.slow] * ("combine" in text)) for text in NESTED]
)
@given(prompt=prompts(dimensions=1, own_grids=False, examples=4))
@settings(max_examples=15)
def test_nested_on_one_grid(text, prompt):
    check(parse(text), prompt)


STATIONS = [
    str(chop.programs["air"]).replace(", channels=(-2, -1)", ""),
    'debias(icon, smooth="graph")',
    'correct(debias(icon, smooth="graph"))',
    "select(last_frame, first_frame, icon)",
    "select(mean_frame, last_frame, icon)",
    "combine(nearest_output, mean_output, correct(icon), channels=(-1,))",
]


@pytest.mark.slow
@pytest.mark.parametrize("text", STATIONS)
@given(prompt=prompts(dimensions=3))
@settings(max_examples=15)
def test_stations(text, prompt):
    check(parse(text), prompt)


@pytest.mark.slow
@given(
    program=program_values(max_leaves=5),
    prompt=prompts(batch=(2,), points=8, examples=3),
)
@settings(max_examples=150, suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow])
def test_any_program(program, prompt):
    """Programs from the whole registry, as far as the oracles know it."""
    assume(not _unknown_to_oracles(program))
    assume(needs_at_most(program, 120, examples=3))
    try:
        program.run(MODEL, prompt)
    except ProgramError:
        assume(False)  # e.g. a cyclic shift of scattered points
    check(program, prompt)


OURS = {"reflect", "turn", "views", "weigh", "ridge", "nearest_examples", "krige", "law", "auto"}
"""Operators that the paper does not have."""


def _unknown_to_oracles(program):
    names = {part.name for part in _all_parts(program)}
    spectral = any(getattr(part, "shift", "grid") == "spectral" for part in _all_parts(program))
    filled = any(getattr(part, "fill", 0) != 0 for part in _all_parts(program))
    return bool(names & OURS) or spectral or filled


def _all_parts(operator):
    yield operator
    for part in operator.parts():
        yield from _all_parts(part)


# A model that answers NaN: nothing may spread further than the paper lets it.


def sometimes_nan(question):
    """NaN at one point, for some queries."""
    values = order_sensitive_model(question)
    if question.query.sum() > 0:
        values[0, 0] = np.nan
    return values


WITH_NAN = [
    "correct(icon)",
    "debias(icon)",
    "combine(icon, mean_output)",
    NESTED[2],
    "select(correct(icon), icon)",
]


@pytest.mark.parametrize("text", WITH_NAN)
@pytest.mark.parametrize("seed", range(4))
def test_nan_answers(text, seed):
    check(parse(text), make_prompt(seed, batch=(4,)), sometimes_nan)


def test_times_decide_which_pair_is_latest():
    prompt = make_prompt(5, batch=(2,), consecutive=True)
    shuffled = dataclasses.replace(prompt, times=torch.tensor([4, 2, 0, 1, 3, 7]))
    check(parse("moving_frame | debias(icon)"), shuffled)


def test_the_cases_reach_both_sides_of_every_decision():
    """The comparison means something only if gates open and close, and branches win and lose."""
    gates, branches, trust = set(), set(), set()
    for seed in range(30):
        prompt = make_prompt(seed, batch=(3,), style="nonnegative" if seed % 2 else "smooth")
        for stage in _stages(chop.programs["mfc"].run(MODEL, prompt)):
            gates |= set(stage.notes.get("gate open", torch.empty(0)).flatten().tolist())
            branches |= set(stage.notes.get("chose branch", torch.empty(0)).flatten().tolist())
        for stage in _stages(parse("combine(icon, copy_query, mean_output)").run(MODEL, prompt)):
            trust |= set(stage.notes.get("trust", torch.empty(0)).flatten().tolist())
    assert gates == {True, False}
    assert branches == {1, 2}
    assert min(trust) < 0.5 < max(trust)


def _stages(result):
    return [step.stage for step in result.trace.stages()]


def test_wrapped_programs_are_described_as_they_are():
    """The bridge itself: a transform must not get lost on the way to the oracle."""
    program = parse("rescale | icon")
    assert isinstance(program, Wrapped)
    assert described(program) == ("wrap", ("rescale", {"center": "auto", "target": 1.0}), ("icon",))
