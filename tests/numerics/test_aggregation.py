"""Experts that are aggregated as truth arrives: regret, priors, literal first steps."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from chop.numerics.aggregation import Boa, MlPoly, quadratic_regrets
from chop.numerics.past_weights import kept_part, weights_of_past
from chop.numerics.simplex import exact_smallest_quadratic, smallest_quadratic

HALF = torch.tensor([0.5, 0.5], dtype=torch.float64)


def test_regrets_of_a_quadratic_by_hand():
    # errors of two experts at two points: (1, 3) and (2, 0)
    errors = np.array([[1.0, 3.0], [2.0, 0.0]])
    moments = torch.tensor(errors @ errors.T / 2)
    mixture = 0.25 * errors[0] + 0.75 * errors[1]
    expected = [2 * np.mean(mixture * (mixture - one)) for one in errors]
    found = quadratic_regrets(moments, torch.tensor([0.25, 0.75], dtype=torch.float64))
    np.testing.assert_allclose(found.numpy(), expected)


def test_the_first_steps_of_ml_poly_by_hand():
    state = MlPoly.start(HALF)
    assert torch.equal(state.weights, HALF)
    state = state.after(torch.tensor([1.0, -1.0]))
    assert state.weights.tolist() == [1.0, 0.0]
    state = state.after(torch.tensor([-0.5, 2.0]))  # regrets 0.5 and 1; rates 1/(2 + 0.25 + 3), 1/(2 + 4 + 3)
    gained = [0.5 / 5.25, 1.0 / 9.0]
    np.testing.assert_allclose(state.weights.numpy(), np.array(gained) / sum(gained))


def test_the_first_step_of_boa_by_hand():
    state = Boa.start(HALF).after(torch.tensor([1.0, -1.0]))
    rate = min(0.5, math.sqrt(math.log(2)))
    totals = [0.5 * (1 - rate * 1), 0.5 * (-1 - rate * 1)]
    raised = np.exp(rate * np.array(totals))
    np.testing.assert_allclose(state.weights.numpy(), raised / raised.sum(), rtol=1e-12)


@pytest.mark.parametrize("rule", [Boa.start, MlPoly.start])
@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10**6), count=st.integers(2, 6), switch=st.booleans())
def test_no_expert_is_much_better_in_the_end(rule, seed, count, switch):
    """Losses in [0, 1]: the regret grows as the root of the number of outcomes, whatever they are."""
    draw = np.random.default_rng(seed)
    state = rule(torch.full((count,), 1 / count, dtype=torch.float64))
    lost, lost_by = 0.0, np.zeros(count)
    n = 400
    bias = draw.random(count)
    for step in range(n):
        if switch and step == n // 2:
            bias = 1 - bias
        losses = np.clip(bias + 0.3 * draw.standard_normal(count), 0, 1)
        mixed = float(state.weights.numpy() @ losses)
        lost, lost_by = lost + mixed, lost_by + losses
        state = state.after(torch.tensor(mixed - losses))
    assert lost - lost_by.min() <= 4 * math.sqrt(n * math.log(count + 1))


def test_a_good_prior_is_kept_and_a_bad_one_is_left():
    state = Boa.start(torch.tensor([0.98, 0.01, 0.01], dtype=torch.float64))
    torch.testing.assert_close(state.weights, torch.tensor([0.98, 0.01, 0.01], dtype=torch.float64))
    for _ in range(300):
        losses = torch.tensor([1.0, 0.2, 0.9], dtype=torch.float64)
        state = state.after((state.weights * losses).sum() - losses)
    assert float(state.weights[1]) > 0.9


def test_a_game_without_an_outcome_stays_as_it_is():
    state = Boa.start(HALF.expand(2, 2)).after(torch.tensor([[0.3, -0.2], [math.nan, 1.0]]))
    assert torch.equal(state.weights[1], HALF)
    assert not torch.equal(state.weights[0], HALF)


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10**6), count=st.integers(1, 8))
def test_the_exact_simplex_is_at_least_as_good_as_the_iterated_one(seed, count):
    draw = np.random.default_rng(seed)
    errors = draw.standard_normal((count, 5)) * draw.uniform(0.2, 3, (count, 1))
    matrix = torch.tensor(errors @ errors.T)
    found = exact_smallest_quadratic(matrix)
    assert float(found.min()) >= 0
    assert float(found.sum()) == pytest.approx(1)
    other = smallest_quadratic(matrix)
    assert float(found @ matrix @ found) <= float(other @ matrix @ other) + 1e-9


def questions(seed, better, number=120):
    """Moments (1, Q, 2, 2) of two candidates, the second with errors smaller by a factor."""
    draw = np.random.default_rng(seed)
    shared, *own = draw.standard_normal((3, number, 40))
    errors = np.stack([shared + own[0], better * (shared + own[1])], axis=1)
    return torch.tensor(np.einsum("qkm,qlm->qkl", errors, errors) / 40)[None]


def test_weights_of_past_questions():
    folds = torch.arange(120) // 20
    counted = torch.ones(1, 120, dtype=torch.bool)
    clear = weights_of_past(questions(0, 0.5), counted, folds)
    assert float(clear.weights[0, 1]) > 0.9
    assert float(clear.kept[0]) > 0.99
    assert clear.weights.sum().item() == pytest.approx(1)
    assert clear.crossed.shape == (1, 120, 2)
    assert float(clear.gains.mean()) > 0.5
    mixed = weights_of_past(
        questions(1, 1.0), counted, folds
    )  # alike: the mean of both is better than either
    assert 0.3 < float(mixed.weights[0, 1]) < 0.7
    harmful = weights_of_past(questions(2, 3.0), counted, folds)
    assert float(harmful.weights[0, 0]) > 0.99


def test_what_was_not_observed_does_not_count():
    folds = torch.arange(120) // 20
    moments = questions(3, 0.5)
    hidden = torch.arange(120) % 2 == 0
    spoilt = torch.where(hidden[None, :, None, None], 1e9, moments)
    found = weights_of_past(spoilt, ~hidden[None], folds)
    alone = weights_of_past(moments[:, ~hidden], torch.ones(1, 60, dtype=torch.bool), folds[~hidden])
    torch.testing.assert_close(found.weights, alone.weights)
    assert float(found.gains[0, hidden].abs().max()) == 0


def test_how_much_is_kept():
    four = torch.full((1, 4), 10.0)
    assert float(kept_part(torch.tensor([[0.1, 0.1, 0.1, 0.1]]), four)) == pytest.approx(1)
    assert float(kept_part(torch.tensor([[-0.1, 0.05, -0.1, 0.1]]), four)) == 0
    means = torch.tensor([[0.0, 0.2, 0.0, 0.2]])  # mean 0.1, variance of the mean 0.01/3
    assert float(kept_part(means, four)) == pytest.approx(0.01 / (0.01 + 0.01 / 3))
