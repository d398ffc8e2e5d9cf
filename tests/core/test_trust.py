"""Trust: the probability by hand, and each reason where it applies and only there."""

import math
from dataclasses import replace

import pytest
import torch
from scipy import stats

import chop
from chop.core.conformal import ConformalScores
from chop.core.error_scale import AnsweredPrompt
from chop.core.errors import ProgramError
from chop.core.spread import Spread
from chop.core.trust import trust_in
from chop.testing import make_prompt, toy_model


def answered(relative, *, batch=()):
    """Answers that miss each example by so much of its size."""
    prompt = make_prompt(0, batch=batch, examples=len(relative))
    outputs = prompt.outputs.values
    factor = 1 + torch.tensor(relative, dtype=torch.float64)[:, None, None]
    none = torch.zeros(batch, dtype=torch.bool)
    return AnsweredPrompt(prompt, outputs[..., 0, :, :].clone(), none, outputs * factor, None)


def said(asked, tolerance=0.1):
    return trust_in(asked, tolerance).reasons[0]


def test_the_probability_is_that_of_student():
    errors = [0.01, 0.02, 0.05, 0.02, 0.04]
    logs = [math.log(one) for one in errors]
    mean = sum(logs) / 5
    width = math.sqrt(sum((one - mean) ** 2 for one in logs) / 4 * 1.2)
    expected = stats.t.cdf((math.log(0.05) - mean) / width, 4)
    assert float(trust_in(answered(errors), 0.05).probability) == pytest.approx(expected, rel=1e-6)


def test_a_larger_tolerance_is_likelier():
    asked = answered([0.01, 0.03, 0.02])
    found = [float(trust_in(asked, tolerance).probability) for tolerance in (0.005, 0.02, 0.1, 1.0)]
    assert found == sorted(found)
    assert 0 <= found[0] < 0.5 < found[-1] <= 1


def test_a_good_answer_has_no_reasons_against_it():
    found = trust_in(answered([0.01, 0.011, 0.012]), 0.1)
    assert found.reasons == ((),)
    assert str(found) == (
        f"{100 * float(found.probability):.0f} % that the relative error is at most 0.1 "
        "(from 3 held-out errors of the program itself)"
    )


def test_large_errors_at_the_examples():
    assert any("error at the examples is 0.5 in the middle" in one for one in said(answered([0.5] * 3)))


def test_errors_that_differ_widely():
    reasons = said(answered([0.001, 0.05, 0.02]))
    assert "errors at the examples differ widely: 0.001 to 0.05" in reasons


def test_a_program_that_is_worse_than_the_mean():
    reasons = said(answered([30.0, 30.0, 30.0]))
    assert any("the mean of the other outputs is no worse" in one for one in reasons)


def test_a_query_outside_the_range():
    asked = answered([0.01, 0.011, 0.012])
    query = asked.prompt.query
    far = replace(asked, prompt=asked.prompt.mapped(query=query.with_values(query.values + 100)))
    reasons = said(far)
    assert "100 % of the query's values lie outside the range of the examples' inputs" in reasons
    assert any("times as large as the largest" in one for one in reasons)


def test_candidates_that_disagree():
    asked = answered([0.01, 0.011, 0.012])
    apart = Spread(asked.values.abs(), torch.zeros_like(asked.prompt.outputs.values))
    assert any("disagree" in one for one in said(replace(asked, spread=apart)))
    close = Spread(0.01 * asked.values.abs(), torch.zeros_like(asked.prompt.outputs.values))
    assert not said(replace(asked, spread=close))


def test_examples_that_contradict_each_other():
    asked = answered([0.01, 0.011, 0.012])
    inputs = asked.prompt.inputs
    values = inputs.values.clone()
    values[1] = values[0]
    same = replace(asked, prompt=asked.prompt.mapped(inputs=inputs.with_values(values)))
    assert any("examples 1 and 2 contradict each other" in one for one in said(same))


def test_rejected_answers_are_not_trusted():
    asked = replace(answered([0.01, 0.02], batch=(2,)), rejected=torch.tensor([True, False]))
    found = trust_in(asked, 0.1)
    assert float(found.probability[0]) == 0
    assert found.reasons[0] == ("the answer is not finite: do not use it",)
    assert str(found).splitlines()[1].startswith("  query 0: 0 %; the answer is not finite")


def test_many_queries_are_told_in_few_lines():
    text = str(trust_in(answered([0.01, 0.02, 0.03], batch=(30,)), 0.1))
    assert text.endswith("and 20 more queries")
    assert len(text.splitlines()) == 12


@pytest.mark.parametrize("tolerance", [0, -1, math.inf, math.nan, True, "0.1"])
def test_a_tolerance_is_a_positive_number(tolerance):
    with pytest.raises(ProgramError, match="tolerance"):
        trust_in(answered([0.1, 0.2]), tolerance)


def test_without_held_out_answers_it_says_what_to_do():
    with pytest.raises(ProgramError, match="validate=True"):
        chop.parse("icon").run(toy_model, make_prompt(0)).trust()


def test_a_result_tells_in_its_trace_and_its_page(tmp_path):
    result = chop.parse("krige(icon)").run(toy_model, make_prompt(0, batch=(2,)))
    text = result.trace.explain(1)
    assert "\nband     ±" in text
    assert "\ntrust    " in text
    assert "band ±" in repr(result)
    page = result.trace.save(tmp_path / "run.html").read_text()
    assert "held-out errors of the program itself" in page
    assert "band for 90 % of the truth" in result._repr_html_()


def test_what_a_calibration_says_of_a_question_that_is_unlike_it():
    prompt = make_prompt(0, batch=(4,), examples=5)
    results = chop.parse("correct(icon)").run(toy_model, prompt, trace=False)
    truth = results.values + 0.1
    scores = ConformalScores.of(results, truth)
    far = prompt.mapped(query=prompt.query.with_values(50 * prompt.query.values))
    outside = chop.parse("correct(icon)").run(toy_model, far, trace=False)
    warned = "questions like those of the calibration"
    assert all(any(warned in one for one in each) for each in outside.calibrated(scores).trust(0.1).reasons)
    assert not any(warned in one for each in outside.trust(0.1).reasons for one in each)
