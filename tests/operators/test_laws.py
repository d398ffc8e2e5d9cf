"""The law of one prompt: what it answers, remembers and refuses."""

import json

import numpy as np
import pytest
import torch
from operator_tools import fill, notes

import chop
from chop import Axis, Field, ProgramError, Prompt
from chop.core.text import parse
from chop.operators import law, laws
from chop.pictures.panels import panels_of
from chop.testing import make_prompt, toy_model


@pytest.fixture
def case():
    return chop.problems.conservation.sample("sin(2*u)/2", n=3, seed=4, split="evolution", points=60, steps=3)


@pytest.fixture
def fits(monkeypatch):
    """How often a law was fitted."""
    done = []

    def counted(before, after, fit=laws.fit_flux):
        done.append(len(before))
        return fit(before, after)

    monkeypatch.setattr(laws, "fit_flux", counted)
    return done


def answer(prompt):
    return law.run(toy_model, prompt).values


def test_a_flux_nobody_was_told(case):
    errors = chop.metrics.rel_l2(answer(case.prompt), case.target)
    unmoved = chop.metrics.rel_l2(case.prompt.query.values, case.target)
    assert float(errors.max()) < 0.005
    assert float(unmoved.min()) > 0.05


def test_what_the_trace_tells(case):
    told = notes("law", case.prompt)
    speeds, flux = told["f'"], told["f"]
    assert speeds.values.shape == speeds.argument.shape == speeds.deviation.shape == (3, 25)
    true = 0.1 * torch.cos(2 * speeds.argument)  # f' of a frame, which is 0.1 of the unit of time
    middle = slice(5, 20)
    torch.testing.assert_close(speeds.values[:, middle], true[:, middle], rtol=0, atol=0.01)
    true = 0.05 * torch.sin(2 * flux.argument)
    torch.testing.assert_close(
        flux.values[:, middle] - flux.values[:, 5:6], (true - true[:, 5:6])[:, middle], rtol=0, atol=0.003
    )
    assert (flux.values[:, 0] == 0).all()
    assert (flux.deviation[:, 0] == 0).all()
    assert (flux.deviation[:, 1:] > 0).all()
    assert (speeds.values.abs().amax(dim=-1) <= told["dissipation"] * (1 + 1e-6)).all()
    assert (told["residual"] < 0.005).all()
    assert (told["penalty"] > 0).all()
    assert (told["viscosity"] < 1e-5).all()  # the flux has none
    assert (told["its uncertainty"] > 0).all()


def test_the_trace_speaks_in_units_of_the_coordinate(case):
    """The same frames on a circle of length 5: five times as fast, 25 times as viscous."""
    prompt = case.prompt.to(torch.float64)
    longer = Prompt(
        *(Field(5 * part.coords, part.values) for part in (prompt.inputs, prompt.outputs, prompt.query)),
        5 * prompt.at,
        axes=(Axis("x", 5.0),),
    )
    short, long = notes("law", prompt), notes("law", longer)
    for name in ("f", "f'"):
        torch.testing.assert_close(long[name].values, 5 * short[name].values)
        torch.testing.assert_close(long[name].deviation, 5 * short[name].deviation)
    torch.testing.assert_close(long["dissipation"], 5 * short["dissipation"])
    torch.testing.assert_close(long["its uncertainty"], 25 * short["its uncertainty"])


def test_the_trace_draws_f_and_its_slope(case, tmp_path):
    trace = law.run(toy_model, case.prompt).trace
    panels, _ = panels_of(trace, 1)
    assert [panel.heading for panel in panels[1:]] == ["1. law", "1. law: found f and f'"]
    told = trace.root.notes
    for view, name in zip(panels[-1].views, ("f", "f'"), strict=True):
        (curve,) = view.curves
        np.testing.assert_array_equal(curve.coords[:, 0], told[name].argument[1])
        np.testing.assert_array_equal(curve.values, told[name].values[1])
        np.testing.assert_array_equal(curve.deviation, told[name].deviation[1])
    axes = trace.plot(query=1).axes
    bands = [one for one in axes if one.collections and one.get_title().startswith("f")]
    assert [one.get_title().split(",")[0] for one in bands] == ["f", "f'"]
    saved = json.loads(trace.save(tmp_path / "law.json", query=1).read_text())
    assert saved["stages"][0]["notes"]["f'"]["values"] == told["f'"].values[1].tolist()
    assert " ± " in trace.explain(1)


def test_the_mean_stays(case):
    prompt = case.prompt.to(torch.float64)
    torch.testing.assert_close(answer(prompt).mean(-2), prompt.query.values.mean(-2), rtol=0, atol=1e-13)


def test_a_batch_is_its_elements_bit_for_bit(case):
    whole = answer(case.prompt)
    for i in range(3):
        assert torch.equal(answer(case.prompt[i]), whole[i])


def test_units_and_level(case):
    """Another level is another flux, and the same answer there."""
    prompt, one = case.prompt.to(torch.float64), answer(case.prompt.to(torch.float64))
    parts = {name: getattr(prompt, name).values for name in ("inputs", "outputs", "query")}
    scaled = fill(prompt, **{name: 2.0**40 * values for name, values in parts.items()})
    assert torch.equal(answer(scaled), 2.0**40 * one)
    raised = fill(prompt, **{name: 3.0 + values for name, values in parts.items()})
    torch.testing.assert_close(answer(raised) - 3.0, one, rtol=0, atol=1e-4)


def test_a_rollout_fits_once(case, fits):
    chop.rollout(law, toy_model, case.prompt, 3)
    assert len(fits) == 3  # prompts, not steps


def test_a_rollout_follows_the_truth(case):
    frames = chop.rollout(law, toy_model, case.prompt, 3).values[..., 0]
    assert float(chop.metrics.rel_l2(frames[:, -1:], case.trajectory[:, -1:]).max()) < 0.01


def test_remembered_is_fresh(case, fits):
    first = answer(case.prompt)
    again = answer(case.prompt)
    assert len(fits) == 3
    assert torch.equal(first, again)
    assert torch.equal(first, answer(case.prompt[:]))
    assert len(fits) == 6


def test_what_was_written_to_is_not_remembered(case, fits):
    first = answer(case.prompt)
    case.prompt.outputs.values.copy_(case.prompt.inputs.values)
    second = answer(case.prompt)
    assert len(fits) == 6
    assert not torch.equal(first, second)
    torch.testing.assert_close(second, case.prompt.query.values, rtol=0, atol=0.05)  # nothing moves


def test_a_validator_needs_no_fit_without_each_pair(case, fits):
    chop.rollout("select(law, copy_query)", toy_model, case.prompt, 3)
    law.run(toy_model, case.prompt, validate=True)
    assert len(fits) == 3


def test_held_out_prompts_are_remembered_by_the_pairs_that_they_kept(case, fits):
    answer(case.prompt.held_out(pad=True))
    answer(case.prompt.held_out(pad=True))
    assert len(fits) == 3 * 5


def test_held_out_laws_of_a_rollout_are_those_of_a_single_step(case):
    frames = chop.rollout("select(law, copy_query)", toy_model, case.prompt, 2).values
    fresh = case.prompt[:].mapped(query=case.prompt.query.with_values(frames[:, 0]))
    torch.testing.assert_close(parse("select(law, copy_query)").run(toy_model, fresh).values, frames[:, 1])


def test_chosen_pairs_of_chosen_pairs_are_remembered_by_what_they_are(case, fits):
    some = case.prompt.choose(torch.tensor([[4, 2, 1]] * 3))
    answer(some)
    answer(case.prompt.choose(torch.tensor([[4, 2, 1]] * 3)))
    answer(case.prompt.choose(torch.tensor([[0, 1, 2, 4]] * 3)).choose(torch.tensor([[3, 2, 1]] * 3)))
    assert fits == [3, 3, 3]
    answer(case.prompt.choose(torch.tensor([[4, 1, 2]] * 3)))
    assert len(fits) == 6


def test_held_out_is_a_fit_without_the_pair(case):
    prompt = case.prompt[0]
    held_out = law.run(toy_model, prompt, validate=True).held_out
    rest = [0, 1, 3, 4, 0]  # filled up with the first
    without = prompt.mapped(
        inputs=Field(prompt.inputs.coords[rest], prompt.inputs.values[rest]),
        outputs=Field(prompt.outputs.coords[rest], prompt.outputs.values[rest]),
        query=Field(prompt.inputs.coords[2], prompt.inputs.values[2]),
        times=prompt.times[[*rest, 2]],
    )
    # To first order: off by far less than the two are from the truth of other pairs.
    refitted = answer(without)
    assert float(chop.metrics.rel_l2(held_out[2], refitted)) < 0.005
    assert not torch.equal(held_out[2], law.run(toy_model, prompt.mapped(query=without.query)).values)
    assert float(chop.metrics.rel_l2(held_out, prompt.outputs.values).max()) < 0.02


def test_a_validator_chooses_it(case):
    chosen = parse("select(law, copy_query)").run(toy_model, case.prompt)
    torch.testing.assert_close(chosen.values, answer(case.prompt))


def test_one_pair_is_enough(case):
    prompt = case.prompt.choose(torch.full((3, 1), 4))
    assert float(chop.metrics.rel_l2(answer(prompt), case.target).max()) < 0.05


def unobserved():
    prompt = make_prompt(1)
    mask = torch.ones_like(prompt.outputs.values, dtype=torch.bool)
    mask[2, 3] = False
    outputs = Field(prompt.outputs.coords, prompt.outputs.values, mask)
    return Prompt(prompt.inputs, outputs, prompt.query, prompt.at, axes=prompt.axes)


def uneven():
    prompt = make_prompt(1)
    coords = prompt.query.coords**2
    parts = (Field(coords, part.values) for part in (prompt.inputs, prompt.outputs, prompt.query))
    return Prompt(*parts, coords, axes=prompt.axes)


def without_period():
    prompt = make_prompt(1)
    return Prompt(prompt.inputs, prompt.outputs, prompt.query, prompt.at, axes=(Axis("x"),))


def without_order():
    prompt = make_prompt(1)
    return prompt.mapped(times=torch.zeros_like(prompt.times))


def of_time():
    prompt = make_prompt(1)
    return Prompt(prompt.inputs, prompt.outputs, prompt.query, prompt.at, axes=(Axis("t", 1.0),))


def test_a_pair_shown_twice_has_one_time(case):
    """As padding has it."""
    answer(case.prompt.choose(torch.tensor([[0, 1, 1, 2, 0]] * 3)))


@pytest.mark.parametrize(
    ("prompt", "why"),
    [
        (lambda: make_prompt(1, channels=(2, 2)), "law is for one quantity, but fields have 2 channels"),
        (lambda: make_prompt(1, channels=(1, 2)), r"law compares inputs with outputs.* 1 and 2 channels"),
        (lambda: make_prompt(1, answer_points=6), r"law .* on one grid"),
        (lambda: make_prompt(1, dimensions=2), r"law .* one periodic coordinate"),
        (lambda: make_prompt(1, dimensions=3), r"law is for a regular grid.* graph"),
        (lambda: make_prompt(1, points=3), r"law needs at least 4 grid points, not 3"),
        (without_period, r"law .* one periodic coordinate"),
        (uneven, r"law .* regular grid of spacing"),
        (unobserved, r"law .* every value observed"),
        (without_order, r"law is for frames in the order of time.* same time index"),
        (of_time, r"law goes from one time to the next.* functions of time t"),
    ],
)
def test_what_it_is_not_for(prompt, why):
    with pytest.raises(ProgramError, match=why):
        answer(prompt())
