"""Traces: what is told of a run, in which order, and for whom."""

import numpy as np
import pytest
import torch

import chop
from chop.core.errors import ChopError
from chop.core.text import parse
from chop.testing import make_prompt, toy_model

VISIBLE = "hidden outputs still stand there as an input"


def explain(text, prompt, query=0, model=toy_model, **options):
    return parse(text).run(model, prompt, **options).trace.explain(query)


def steps(text, prompt):
    return list(parse(text).run(toy_model, prompt).trace.stages())


def test_mfc_in_words():
    """Every number that is told is worked out here again."""
    prompt = make_prompt(3)
    program = chop.programs["mfc"]
    text = program.run(toy_model, prompt).trace.explain()
    fields = (prompt.inputs.values, prompt.outputs.values, prompt.query.values)
    seen = np.concatenate([part.reshape(-1).numpy() for part in fields])
    assert f"rescale: centre {seen.mean():.4g}; scale {seen.std(ddof=1):.4g}" in text
    assert f"input scale {seen.std(ddof=1):.4g}" in text
    # Weights by likeness of inputs.
    scaled = (prompt.inputs.values - prompt.query.values) / seen.std(ddof=1)
    distance = scaled.square().mean(dim=(-1, -2))
    weights = torch.softmax(-distance / distance.mean(), dim=0)
    assert "weights [" + " ".join(f"{w:.4g}" for w in weights.tolist()) + "]" in text
    # The decision.
    errors = [
        float(parse(branch).run(toy_model, prompt, validate=True).error)
        for branch in ("correct(rescale | icon)", "icon")
    ]
    assert errors[0] < errors[1]
    assert f"chose branch 1; errors [{errors[0]:.4g} {errors[1]:.4g}]" in text
    assert f"error    {errors[0]:.4g} (in-context, mean squared)" in text
    assert "round 1" in text
    assert "round 2" not in text
    assert text.startswith("program  select(correct(rescale | icon), icon)\n")
    assert "5 examples, 12 points x 1 ch -> 12 points x 1 ch\naxes     x (period 1)" in text
    assert text.endswith("cost     12 model evaluations a query in 1 round")


def test_the_answer_told_is_the_answer_given():
    prompt = make_prompt(3)
    result = chop.programs["corr"].run(toy_model, prompt)
    low, high = float(result.values.min()), float(result.values.max())
    assert f"answer   values {low:.4g} .. {high:.4g}" in result.trace.explain()
    assert torch.equal(result.trace.root.values, result.values)
    assert torch.equal(result.trace.error, result.error)


def test_one_evaluation_in_one_round_is_told_in_the_singular():
    text = explain("icon", make_prompt(1))
    assert text.endswith("cost     1 model evaluation a query in 1 round")
    assert explain("mean_output", make_prompt(1)).endswith("cost     0 model evaluations a query in 0 rounds")


def test_transforms_and_projections_in_the_order_of_the_pipe():
    prompt = make_prompt(1)
    told = [
        (step.stage.title, step.moment) for step in steps("moving_frame | rescale | icon | finite", prompt)
    ]
    assert told == [
        ("moving_frame", "enter"),
        ("rescale", "enter"),
        ("icon", "answer"),
        ("rescale", "leave"),
        ("moving_frame", "leave"),
        ("finite", "answer"),
    ]
    text = explain("moving_frame | icon", prompt)
    shift = int(chop.operators.MovingFrame().fit(prompt).notes["shift"])
    assert f"moving_frame: shift {shift}\n" in text
    assert "undo moving_frame" in text


def test_stages_carry_their_fields():
    prompt = make_prompt(1, batch=(2,))
    found = {step.stage.title: step.stage for step in steps("rescale | correct(icon)", prompt)}
    rescale = found["rescale"]
    assert rescale.prompt is prompt
    assert rescale.mapped is found["correct"].prompt
    assert rescale.held_out.shape == (2, 5, 12, 1)
    assert found["correct"].values.shape == (2, 12, 1)
    assert found["icon"].round == 1


def test_rounds_are_told():
    stage = {step.stage.title: step.stage for step in steps("nearest_examples | icon", make_prompt(1))}[
        "icon"
    ]
    assert stage.round == 1
    assert (
        chop.programs["air"].run(toy_model, make_prompt(1, dimensions=3, channels=(2, 2))).trace.rounds == 1
    )


@pytest.mark.parametrize("batch", [(), (2,), (2, 2)])
def test_hidden_outputs_that_still_show(batch):
    """In a window of consecutive frames y_h is x_{h+1}: 4 of 5 are still there, and the trace says so."""
    consecutive = make_prompt(1, batch=batch, consecutive=True)
    independent = make_prompt(1, batch=batch)
    for text in ("correct(icon)", "debias(rescale | icon)", "select(correct(rescale | icon), icon)"):
        assert f"4 of 5 {VISIBLE}" in explain(text, consecutive)
        assert VISIBLE not in explain(text, independent)


def test_a_gap_hides_them():
    consecutive = make_prompt(1, consecutive=True)
    assert VISIBLE not in explain("correct(icon, gap=1)", consecutive)
    assert f"4 of 5 {VISIBLE}" in explain("combine(correct(icon, gap=1), icon)", consecutive)


def test_inputs_and_outputs_of_other_shapes_are_not_compared():
    assert VISIBLE not in explain("correct(icon)", make_prompt(1, answer_points=7))
    assert VISIBLE not in explain("correct(icon)", make_prompt(1, channels=(2, 1)))


def test_a_shared_stage_is_told_once():
    prompt = make_prompt(1)
    told = steps("combine(icon, debias(icon), correct(icon, pad=False))", prompt)
    icons = [step for step in told if step.stage.title == "icon" and step.stage.prompt is prompt]
    assert [step.moment for step in icons] == ["answer", "again", "again"]
    assert len({id(step.stage) for step in icons}) == 1
    assert len({step.number for step in icons}) == 1
    held_out = [step for step in told if step.stage.kind == "held_out"]
    assert [step.moment for step in held_out].count("enter") == 1
    text = explain("combine(icon, debias(icon))", prompt)
    assert text.count("icon, as above") >= 1
    assert text.count("round 1") == 2  # the query's and the held-out call


def test_numbers_follow_the_telling():
    told = steps("select(correct(rescale | icon), icon)", make_prompt(1))
    first_told = list(dict.fromkeys(step.number for step in told))
    assert first_told == list(range(1, len(first_told) + 1))


@pytest.mark.parametrize("batch", [(3,), (2, 2)])
def test_each_query_is_told_its_own_numbers(batch):
    prompt = make_prompt(1, batch=batch)
    result = chop.programs["mfc"].run(toy_model, prompt)
    flat = prompt.flat()
    count = prompt.batch.numel()
    for query in range(count):
        alone = chop.programs["mfc"].run(toy_model, flat[query]).trace.explain()
        told = result.trace.explain(query)
        assert f"query {query} of" in told
        assert told.splitlines()[3:] == alone.splitlines()[3:]


def test_batch_without_axes():
    trace = chop.programs["mfc"].run(toy_model, make_prompt(1)).trace
    assert trace.queries == 1
    assert "query" not in trace.explain(0).splitlines()[1]


@pytest.mark.parametrize("query", [-1, 4, 100])
def test_a_query_that_does_not_exist(query):
    trace = parse("icon").run(toy_model, make_prompt(1, batch=(2, 2))).trace
    with pytest.raises(ChopError, match=rf"query {query} does not exist; this run has queries 0 to 3"):
        trace.explain(query)


def test_what_is_not_finite_is_told():
    def model(prompt):
        values = toy_model(prompt)
        values[1, :3] = torch.nan
        return values

    prompt = make_prompt(1, batch=(2,))
    bad, good = (explain("icon", prompt, query, model) for query in (1, 0))
    assert "3 of 12 values are not finite" in bad
    assert "rejected the answer is not finite: do not use it" in bad
    assert "rejected" not in good


def test_validation_is_told_beside_the_answer():
    text = explain("icon", make_prompt(1), validate=True)
    assert "(in-context, mean squared)" in text
    assert "6 model evaluations" in text


def test_without_a_trace_there_is_none():
    result = parse("icon").run(toy_model, make_prompt(1), trace=False)
    assert not result.traced
    with pytest.raises(chop.ProgramError, match="leave trace=False out"):
        result.trace  # noqa: B018
