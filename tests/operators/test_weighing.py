"""Mixtures by evidence: weights against numpy, what is kept of them, answers that are not finite."""

import math

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from chop.core.errors import ProgramError
from chop.core.text import parse
from chop.operators import copy_query, icon, mean_output, nearest_output, weigh
from chop.testing import make_prompt, toy_model

CANDIDATES = (icon, mean_output, nearest_output, copy_query)


def by_hand(prompt, trust, shrink):
    """The mixture of one prompt with one channel, example by example, in plain numpy."""
    held = prompt.held_out(pad=True)
    truth = prompt.outputs.values[..., 0].numpy()
    seen = prompt.outputs.observed[..., 0].numpy()
    answers = [c.run(toy_model, prompt).values[..., 0].numpy() for c in CANDIDATES]
    guesses = [c.run(toy_model, held).values[..., 0].numpy() for c in CANDIDATES]
    d = len(truth)
    logs = np.array([[math.log(np.mean((g[h] - truth[h])[seen[h]] ** 2)) for g in guesses] for h in range(d)])

    def weights(rows):
        mean = logs[rows].mean(axis=0)
        raised = np.exp(-trust * (mean - mean.min()))
        return raised / raised.sum()

    def kept(gains):
        g, doubt = gains.mean(), gains.var(ddof=1) / len(gains)
        return g**2 / (g**2 + doubt) if g > 0 else 0.0

    everything = list(range(d))
    value = sum(w * a for w, a in zip(weights(everything), answers, strict=True))
    own = []
    for h in everything:
        others = [j for j in everything if j != h]
        own.append(sum(w * g[h] for w, g in zip(weights(others), guesses, strict=True)))
    if not shrink:
        return value, np.array(own), weights(everything)
    mixture = np.array([math.log(np.mean((own[h] - truth[h])[seen[h]] ** 2)) for h in everything])
    gains = logs[:, 0] - mixture
    value = answers[0] + kept(gains) * (value - answers[0])
    for h in everything:
        own[h] = guesses[0][h] + kept(np.delete(gains, h)) * (own[h] - guesses[0][h])
    return value, np.array(own), weights(everything)


@pytest.mark.parametrize("shrink", [False, True])
@given(
    seed=st.integers(0, 10**6),
    examples=st.integers(3, 6),
    trust=st.floats(0.0, 10.0),
    masked=st.booleans(),
)
@settings(max_examples=40)
def test_weights_by_hand(shrink, seed, examples, trust, masked):
    prompt = make_prompt(seed, examples=examples, masked=masked)
    assume(bool(prompt.outputs.observed.flatten(-2).any(dim=-1).all()))
    value, own, weights = by_hand(prompt, trust, shrink)
    result = weigh(*CANDIDATES, trust=trust, shrink=shrink).run(toy_model, prompt)
    np.testing.assert_allclose(result.trace.root.notes["weights"][0].numpy(), weights, atol=1e-9)
    np.testing.assert_allclose(result.values[..., 0].numpy(), value, atol=1e-8)
    np.testing.assert_allclose(result.held_out[..., 0].numpy(), own, atol=1e-8)


def test_candidates_that_agree_are_unchanged_and_trust_0_is_the_mean():
    prompt = make_prompt(1, batch=(2,), channels=(2, 2))
    alone = icon.run(toy_model, prompt).values
    torch.testing.assert_close(weigh(icon, icon, icon).run(toy_model, prompt).values, alone)
    torch.testing.assert_close(weigh(icon).run(toy_model, prompt).values, alone)
    both = parse("average(icon, mean_output)").run(toy_model, prompt).values
    torch.testing.assert_close(weigh(icon, mean_output, trust=0.0).run(toy_model, prompt).values, both)


def test_one_example_that_all_get_wrong_does_not_decide():
    """At four examples the model is right to a thousandth; at one it is wrong by a thousand times that."""
    prompt = make_prompt(2, points=8)

    def model(asked):
        values = asked.query.values
        wrong = (values == prompt.inputs.values[0]).all(dim=-1, keepdim=True).all(dim=-2, keepdim=True)
        return 2 * values + torch.where(wrong, 3.0, 0.003)

    pairs = prompt.mapped(outputs=prompt.outputs.with_values(2 * prompt.inputs.values))
    notes = weigh(mean_output, icon).run(model, pairs).trace.root.notes
    assert float(notes["weights"][0, 1]) > 0.999
    # The plain mean of squares, which `select` goes by, is led by the one.
    assert int(parse("select(icon, mean_output)").run(model, pairs).trace.root.notes["chose branch"]) == 2


def test_what_is_not_finite_has_no_weight():
    prompt = make_prompt(3, batch=(2,))

    def nan_here(asked):  # right at the examples, NaN at the query of the first prompt
        values = toy_model(asked)
        here = (asked.query.values == prompt.query.values[0]).all(dim=-1, keepdim=True).all(-2, keepdim=True)
        return torch.where(here, torch.nan, values)

    result = weigh(icon, mean_output).run(nan_here, prompt)
    expected = mean_output.run(toy_model, prompt).values[0]
    torch.testing.assert_close(result.values[0], expected)
    shrunk = weigh(icon, mean_output, shrink=True).run(nan_here, prompt)
    assert bool(torch.isfinite(shrunk.values).all())
    lost = weigh(icon).run(lambda asked: toy_model(asked) * torch.nan, prompt)
    assert bool(lost.rejected.all())


def test_it_needs_two_examples():
    with pytest.raises(ProgramError, match="weigh holds out one example at a time and needs at least 2"):
        weigh(icon, mean_output).run(toy_model, make_prompt(1, examples=1))


def test_a_prior_is_multiplied_by_the_evidence():
    prompt = make_prompt(2, channels=(2, 2))
    prior = (0.5, 0.0, 0.3, 0.2)

    def shares(program):
        return program.run(toy_model, prompt).trace.root.notes["weights"].numpy()

    none, first = weigh(*CANDIDATES, trust=1.5), weigh(*CANDIDATES, trust=1.5, prior=prior)
    expected = shares(none) * np.array(prior)
    np.testing.assert_allclose(shares(first), expected / expected.sum(axis=-1, keepdims=True), rtol=1e-6)
    np.testing.assert_allclose(shares(weigh(*CANDIDATES, trust=0.0, prior=prior)), [prior, prior], rtol=1e-6)
    alike = weigh(*CANDIDATES, trust=1.5, prior=(2, 2, 2, 2))
    np.testing.assert_allclose(shares(alike), shares(none), rtol=1e-6)
    by_channel = weigh(*CANDIDATES, trust=0.0, prior=(1, 0, 0, 1, 1, 0, 0, 1))
    np.testing.assert_allclose(shares(by_channel), [[0.5, 0, 0.5, 0], [0, 0.5, 0, 0.5]], atol=1e-12)


@pytest.mark.parametrize(
    ("prior", "words"), [((1.0, 2.0), "needs 4 weights or 8, not 2"), ((0, 0, 0, 0), "not all be 0")]
)
def test_priors_that_fit_nothing(prior, words):
    with pytest.raises(ProgramError, match=words):
        weigh(*CANDIDATES, prior=prior).run(toy_model, make_prompt(2, channels=(2, 2)))


def test_where_nothing_was_observed_the_prior_stays():
    prompt = make_prompt(2, masked=True)
    hidden = prompt.outputs.mask & False
    blind = prompt.mapped(outputs=type(prompt.outputs)(prompt.outputs.coords, prompt.outputs.values, hidden))
    notes = weigh(*CANDIDATES, prior=(1, 1, 2, 0)).run(toy_model, blind).trace.root.notes
    np.testing.assert_allclose(notes["weights"].numpy()[0], [0.25, 0.25, 0.5, 0], atol=1e-6)
