"""Bands: numbers worked out by hand, laws that hold for any data, and what is refused."""

import json
import math
import os
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

import chop
from chop.core.adaptive_level import AdaptiveLevel
from chop.core.bands import Band, band_of
from chop.core.conformal import ConformalScores, ScoreQuantiles
from chop.core.error_scale import AnsweredPrompt, example_errors
from chop.core.errors import ProgramError
from chop.core.independence import asked_alike
from chop.core.next_error import weighted_quantiles
from chop.core.spread import Spread, weighted_spread
from chop.testing import make_prompt, toy_model

_NO = torch.tensor(False)
COVERAGE = int(os.environ.get("CHOP_COVERAGE", "100"))
"""Repetitions of what is checked by drawing; `make validity` asks for many."""


def answered(errors, *, batch=(), points=4, spread=None, seed=0):
    """Answers whose error at example h is ``errors[h]`` everywhere."""
    prompt = make_prompt(seed, batch=batch, examples=len(errors), points=points)
    off = torch.tensor(errors, dtype=torch.float64)[:, None, None]
    values = torch.zeros(prompt.answer_shape, dtype=torch.float64)
    return AnsweredPrompt(prompt, values, _NO.expand(batch), prompt.outputs.values + off, spread)


def questions(errors, predicted=None):
    """Answered questions of one point each; the truth is 0 and the answers are their errors."""
    n = len(errors)
    prompt = make_prompt(3, batch=(n,), examples=3, points=1)
    held_out = None
    if predicted is not None:
        held_out = prompt.outputs.values + torch.tensor(predicted, dtype=torch.float64)[:, None, None, None]
    values = torch.tensor(errors, dtype=torch.float64)[:, None, None]
    return AnsweredPrompt(prompt, values, torch.zeros(n, dtype=torch.bool), held_out, None)


def half(asked, level, simultaneous=False, scores=None):
    return band_of(asked, level, simultaneous, scores).half_width


# From the examples alone


def test_the_simultaneous_band_is_the_prediction_bound_of_the_logarithm():
    sizes = [0.1, 0.2, 0.4, 0.1, 0.3]
    logs = [math.log(size) for size in sizes]
    mean = sum(logs) / 5
    deviation = math.sqrt(sum((one - mean) ** 2 for one in logs) / 4)
    expected = math.exp(mean + deviation * math.sqrt(1.2) * stats.t.ppf(0.9, 4))
    torch.testing.assert_close(half(answered(sizes), 0.9, True), torch.full((4, 1), expected).double())


def test_equal_errors_give_a_band_of_that_size():
    for simultaneous in (False, True):
        found = half(answered([0.25] * 5), 0.8, simultaneous)
        torch.testing.assert_close(found, torch.full((4, 1), 0.25).double(), rtol=1e-6, atol=0)


def test_the_pointwise_band_is_the_quantile_of_the_predicted_mixture():
    """Errors of one size within an example: what is left is Student's t of the logarithm of that size."""
    sizes = [0.1, 0.2, 0.4, 0.1, 0.3]
    torch.testing.assert_close(
        half(answered(sizes), 0.9), half(answered(sizes), 0.9, True), rtol=0.03, atol=0
    )


def test_the_band_is_round_the_answer_and_says_where_it_comes_from():
    found = band_of(answered([0.1, 0.2, 0.1]), 0.8, False)
    torch.testing.assert_close(found.lower, -found.upper)
    assert found.how == "from 3 held-out errors of the program itself"
    assert found.level == 0.8
    assert bool(found.covers(torch.zeros(4, 1)).all())
    assert "half-width" in repr(found)


def test_a_higher_level_is_wider():
    asked = answered([0.1, 0.5, 0.2, 0.1, 0.9])
    for simultaneous in (False, True):
        widths = [half(asked, level, simultaneous) for level in (0.5, 0.8, 0.9, 0.95, 0.99)]
        assert all(bool((low < high).all()) for low, high in pairwise(widths))


@given(st.integers(-60, 60), st.lists(st.floats(0.01, 10), min_size=2, max_size=6))
def test_units_decide_nothing(power, sizes):
    asked = answered(sizes)
    assert asked.held_out is not None
    factor, outputs = 2.0**power, asked.prompt.outputs
    scaled = replace(
        asked,
        prompt=asked.prompt.mapped(outputs=outputs.with_values(outputs.values * factor)),
        held_out=asked.held_out * factor,
    )
    torch.testing.assert_close(half(scaled, 0.9) / factor, half(asked, 0.9), rtol=1e-6, atol=1e-12)


def test_entries_that_were_not_observed_do_not_count():
    asked = answered([0.1, 0.2, 0.3])
    outputs, held_out = asked.prompt.outputs, asked.held_out
    assert held_out is not None
    mask = torch.ones_like(outputs.values, dtype=torch.bool)
    mask[:, 0] = False
    wild = held_out.clone()
    wild[:, 0] = 1e6
    seen = replace(
        asked,
        held_out=wild,
        prompt=asked.prompt.mapped(outputs=chop.Field(outputs.coords, outputs.values, mask)),
    )
    torch.testing.assert_close(half(seen, 0.9), half(asked, 0.9))


def test_the_first_frame_of_a_trajectory_does_not_count():
    prompt = make_prompt(1, batch=(2,), consecutive=True)
    assert asked_alike(prompt).tolist() == [[False, True, True, True, True]] * 2
    assert bool(asked_alike(make_prompt(1)).all())


def test_rejected_answers_have_no_bounds():
    asked = replace(answered([0.1, 0.2, 0.1], batch=(2,)), rejected=torch.tensor([True, False]))
    found = band_of(asked, 0.9, False)
    assert bool(torch.isnan(found.lower[0]).all())
    assert bool(torch.isfinite(found.upper[1]).all())


def test_an_answer_at_an_example_that_is_no_number_lets_nothing_be_said():
    asked = answered([0.1, math.nan, 0.1])
    assert bool(torch.isinf(half(asked, 0.9)).all())
    some = answered([0.1, 0.2, 0.3], batch=(2,))
    assert some.held_out is not None
    some.held_out[0] = math.nan
    assert bool(torch.isnan(half(some, 0.9)[0]).all())
    assert bool(torch.isfinite(half(some, 0.9)[1]).all())


def test_a_scale_follows_the_spread_only_where_that_tells_more():
    torch.manual_seed(0)
    prompt = make_prompt(5, examples=5, points=200)
    apart = torch.where(torch.arange(200)[:, None] < 100, 0.01, 1.0).double()
    off = apart * torch.randn(5, 200, 1).double()
    spread = Spread(apart, apart.expand(5, 200, 1))
    asked = AnsweredPrompt(prompt, torch.zeros(200, 1).double(), _NO, prompt.outputs.values + off, spread)
    found = half(asked, 0.9)
    assert bool(example_errors(asked).follows_spread)
    assert float(found[150] / found[50]) > 2
    even = replace(asked, held_out=prompt.outputs.values + torch.randn(5, 200, 1).double())
    assert not bool(example_errors(even).follows_spread)


def test_without_held_out_answers_it_says_what_to_do():
    result = chop.parse("icon").run(toy_model, make_prompt(0))
    with pytest.raises(ProgramError, match="validate=True"):
        result.band()
    validated = chop.parse("icon").run(toy_model, make_prompt(0), validate=True)
    assert isinstance(validated.band(), Band)


@pytest.mark.parametrize("level", [0, 1, -0.1, 1.5, math.nan, True, "0.9", None])
def test_a_level_lies_between_0_and_1(level):
    with pytest.raises(ProgramError, match="between 0 and 1"):
        band_of(answered([0.1, 0.2]), level, False)


# Spread


def test_the_spread_is_the_weighted_deviation():
    parts = [torch.tensor([[1.0]]), torch.tensor([[3.0]]), torch.tensor([[math.nan]])]
    weights = torch.tensor([[0.25, 0.75, 0.0]])
    assert float(weighted_spread(parts, weights, torch.tensor([[2.5]]))) == pytest.approx(math.sqrt(0.75))


def test_a_spread_is_mapped_by_the_linear_part_of_the_way_back():
    spread = Spread(torch.tensor([[0.5]]), torch.tensor([[[0.25]]]))

    def back(values):
        return 1 - 3 * values

    here, there = spread.mapped(back, back, torch.ones(1, 1), torch.ones(1, 1, 1))
    assert float(here) == pytest.approx(1.5)
    assert float(there) == pytest.approx(0.75)


def test_transforms_carry_the_spread_and_projections_leave_it():
    prompt = make_prompt(2, batch=(2,))
    plain = "weigh(icon, mean_output, trust=0)"
    result = chop.parse(plain).run(toy_model, prompt)
    assert result.spread is not None
    assert bool((result.spread.values > 0).any())
    projected = chop.parse(f"{plain} | nonnegative").run(toy_model, prompt)
    assert projected.spread is not None
    torch.testing.assert_close(projected.spread.values, result.spread.values)
    linear = "weigh(copy_query, mean_output, trust=0)"
    wrapped = chop.parse(f"rescale | {linear}").run(toy_model, prompt)
    bare = chop.parse(linear).run(toy_model, prompt)
    assert wrapped.spread is not None
    assert bare.spread is not None
    torch.testing.assert_close(wrapped.spread.values, bare.spread.values)
    torch.testing.assert_close(wrapped.spread.held_out, bare.spread.held_out)


@pytest.mark.parametrize("text", ["weigh(icon, mean_output)", "combine(icon, mean_output)", "auto"])
def test_mixtures_report_their_spread(text):
    result = chop.parse(text).run(toy_model, make_prompt(4, batch=(3,)))
    assert result.spread is not None
    assert result.held_out is not None
    assert result.spread.values.shape == result.values.shape
    assert result.spread.held_out.shape == result.held_out.shape
    assert bool((result.spread.values >= 0).all())


# Calibration


def test_split_conformal_by_hand():
    """Nine errors: the 80 % band is the 8th, the 90 % band the 9th of them."""
    scores = ConformalScores.of(
        questions([0.3, 0.1, 0.9, 0.2, 0.5, 0.4, 0.8, 0.7, 0.6]), torch.zeros(9, 1, 1)
    )
    asked = questions([0.0])
    assert float(half(asked, 0.8, False, scores)) == pytest.approx(0.8)
    assert float(half(asked, 0.9, True, scores)) == pytest.approx(0.9)
    assert scores.power == 0


def test_it_is_what_mapie_gives():
    from mapie.regression import SplitConformalRegressor
    from sklearn.dummy import DummyRegressor

    errors = np.random.default_rng(0).normal(size=57)
    zero = DummyRegressor(strategy="constant", constant=0.0).fit(np.zeros((2, 1)), np.zeros(2))
    scores = ConformalScores.of(questions(errors.tolist()), torch.zeros(57, 1, 1))
    for level in (0.5, 0.8, 0.9, 0.95):
        theirs = SplitConformalRegressor(zero, confidence_level=level, prefit=True)
        theirs.conformalize(np.zeros((57, 1)), errors)
        _, intervals = theirs.predict_interval(np.zeros((1, 1)))
        for simultaneous in (False, True):
            ours = float(half(questions([0.0]), level, simultaneous, scores))
            assert ours == pytest.approx(float(intervals[0, 1, 0]), rel=1e-12)


def test_too_few_questions_for_a_level():
    scores = ConformalScores.of(questions([0.1] * 8), torch.zeros(8, 1, 1))
    assert float(half(questions([0.0]), 0.8, True, scores)) == pytest.approx(0.1)
    with pytest.raises(ProgramError, match="needs at least 9 calibration questions, there are 8"):
        half(questions([0.0]), 0.9, True, scores)


def test_a_prediction_that_is_right_is_followed():
    sizes = (10 ** torch.linspace(-3, 0, 40)).double()
    asked = questions(sizes.tolist(), sizes.tolist())
    scores = ConformalScores.of(asked, torch.zeros(40, 1, 1))
    assert scores.power == 1
    found = half(asked, 0.9, False, scores).flatten()
    torch.testing.assert_close(found, sizes, rtol=1e-6, atol=0)


def test_a_prediction_that_is_wrong_is_left():
    sizes = 10 ** torch.linspace(-3, 0, 40)
    scores = ConformalScores.of(questions([0.1] * 40, sizes.tolist()), torch.zeros(40, 1, 1))
    assert scores.power == 0


def test_coverage_of_exchangeable_questions():
    """The mean over many calibrations is not below the level, nor more than 1/(n + 1) above it."""
    random = torch.Generator().manual_seed(0)
    prompt = make_prompt(3, batch=(40,), examples=2, points=5)
    truth, none = torch.zeros(40, 5, 1), torch.zeros(40, dtype=torch.bool)
    shares: dict[bool, list[float]] = {False: [], True: []}
    for _ in range(COVERAGE):
        sizes = torch.randn(40, 1, 1, generator=random).exp()
        values = (sizes * torch.randn(40, 5, 1, generator=random)).double()
        asked = AnsweredPrompt(prompt, values, none, None, None)
        first, rest = _rows(asked, slice(0, 30)), _rows(asked, slice(30, 40))
        scores = ConformalScores.of(first, truth[:30])
        for whole, found in shares.items():
            inside = band_of(rest, 0.8, whole, scores).covers(truth[30:]).flatten(1)
            found.append(float((inside.all(dim=1) if whole else inside.double().mean(dim=1)).double().mean()))
    for found in shares.values():
        _lies_between(found, 0.8, 0.8 + 1 / 31)


def test_coverage_from_a_few_lognormal_errors():
    """Then Student's t is exact, whatever their middle and scatter."""
    random = torch.Generator().manual_seed(0)
    prompt, n = make_prompt(3, batch=(20,), examples=5, points=1), 20
    found = []
    for _ in range(COVERAGE):
        sizes = (3 + 0.7 * torch.randn(n, 6, generator=random)).exp().double()
        off = sizes[:, :5, None, None]
        answers = AnsweredPrompt(
            prompt, torch.zeros(n, 1, 1).double(), torch.zeros(n, dtype=torch.bool),
            prompt.outputs.values + off, None,
        )  # fmt: skip
        found.append(float(band_of(answers, 0.9, True).covers(sizes[:, 5:, None]).double().mean()))
    _lies_between(found, 0.9, 0.9)


def _lies_between(shares, low, high):
    """Up to four standard errors of the mean."""
    mean = sum(shares) / len(shares)
    error = math.sqrt(sum((one - mean) ** 2 for one in shares)) / len(shares)
    assert low - 4 * error <= mean <= high + 4 * error


def _rows(asked, part):
    return AnsweredPrompt(asked.prompt[part], asked.values[part], asked.rejected[part], None, None)


def test_points_that_err_more_have_wider_bands():
    random = torch.Generator().manual_seed(0)
    prompt = make_prompt(3, batch=(80,), examples=2, points=3)
    values = torch.tensor([0.1, 1.0, 10.0])[:, None] * torch.randn(80, 3, 1, generator=random)
    asked = AnsweredPrompt(prompt, values.double(), torch.zeros(80, dtype=torch.bool), None, None)
    scores = ConformalScores.of(asked, torch.zeros(80, 3, 1))
    found = half(asked, 0.9, False, scores)[0, :, 0]
    assert scores.points is not None
    assert float(found[2] / found[0]) > 5


def test_rejected_and_unobserved_calibration_questions():
    asked = questions([0.1] * 19 + [math.nan])
    asked = replace(asked, rejected=torch.tensor([False] * 19 + [True]))
    scores = ConformalScores.of(asked, torch.zeros(20, 1, 1))
    assert float(half(questions([0.0]), 0.9, True, scores)) == pytest.approx(0.1)
    assert math.isinf(float(half(questions([0.0]), 0.95, True, scores)))
    hidden = torch.ones(20, 1, 1, dtype=torch.bool)
    hidden[-1] = False
    seen = ConformalScores.of(asked, torch.zeros(20, 1, 1), hidden)
    assert seen.questions == 19
    assert float(half(questions([0.0]), 0.95, True, seen)) == pytest.approx(0.1)


def test_scores_are_plain_numbers():
    asked = questions([0.1 * i for i in range(20)] + [math.inf])
    scores = ConformalScores.of(asked, torch.zeros(21, 1, 1), folds=torch.arange(21) % 3)
    read = ConformalScores.from_dict(json.loads(json.dumps(scores.to_dict(), allow_nan=False)))
    assert read == scores
    assert read.how(False).startswith("cross-conformal, from the errors at 21 calibration questions")


def test_many_scores_are_kept_in_bounded_space_and_rounded_up():
    prompt = make_prompt(3, batch=(100,), examples=2, points=50)
    values = torch.randn(100, 50, 1, generator=torch.Generator().manual_seed(1)).double()
    asked = AnsweredPrompt(prompt, values, torch.zeros(100, dtype=torch.bool), None, None)
    scores = ConformalScores.of(asked, torch.zeros(100, 50, 1))
    assert len(scores.pointwise[0].scores) <= 400
    assert len(json.dumps(scores.to_dict())) < 50_000
    exact = float(values.abs().flatten().sort().values[math.ceil(0.9 * 101 / 100 * 5000) - 1])
    if scores.points is None:
        assert exact <= float(half(_rows(asked, slice(0, 1)), 0.9, False, scores).max()) < 1.03 * exact


@pytest.mark.parametrize(
    "content",
    [None, {}, [], "text", {"format": "other"}, {"format": "chop-scores-1"}],
)
def test_what_are_no_scores_is_refused(content):
    with pytest.raises(ProgramError, match="not conformal scores"):
        ConformalScores.from_dict(content)


def test_a_changed_file_is_refused():
    whole = ConformalScores.of(questions([0.1, 0.2]), torch.zeros(2, 1, 1)).to_dict()
    changes = {
        "questions": 0,
        "power": "1",
        "units": [1.0, 2.0],
        "largest": {"scores": [2, 1], "shares": [0.5, 1]},
        "points": [[1.0, 2.0]],
    }
    for name, wrong in changes.items():
        with pytest.raises(ProgramError, match="not conformal scores"):
            ConformalScores.from_dict({**whole, name: wrong})


def test_calibration_that_does_not_fit():
    asked = questions([0.1, 0.2])
    with pytest.raises(ProgramError, match="shape"):
        ConformalScores.of(asked, torch.zeros(3, 1, 1))
    with pytest.raises(ProgramError, match="folds has 3"):
        ConformalScores.of(asked, torch.zeros(2, 1, 1), folds=torch.zeros(3))
    with pytest.raises(ProgramError, match="not finite"):
        ConformalScores.of(asked, torch.full((2, 1, 1), math.nan))
    with pytest.raises(ProgramError, match="at least one"):
        ConformalScores.of([], torch.zeros(0, 1, 1))
    with pytest.raises(ProgramError, match="observed"):
        ConformalScores.of(asked, torch.zeros(2, 1, 1), torch.zeros(2, 1, 1, dtype=torch.bool))


def test_a_calibrated_result_is_the_same_answer():
    prompt = make_prompt(1, batch=(12,))
    result = chop.parse("krige(icon)").run(toy_model, prompt)
    scores = ConformalScores.of(result, result.values + 0.1)
    found = result.calibrated(scores)
    torch.testing.assert_close(found.values, result.values)
    assert found.band().how.startswith("split conformal, from the errors at 12 calibration questions")
    assert "split conformal" in found.trace.explain()
    assert "split conformal" in found.trust().how


@given(st.lists(st.floats(0, 100), min_size=1, max_size=30), st.floats(0.01, 0.99))
def test_quantiles_have_so_much_at_or_below_them(scores, share):
    even = torch.full((len(scores),), 1 / len(scores), dtype=torch.float64)
    kept = ScoreQuantiles.of(torch.tensor(scores, dtype=torch.float64), even)
    found = kept.at(share)
    assert sum(one <= found for one in scores) >= share * len(scores) - 1e-6
    assert sum(one < found for one in scores) < share * len(scores) + 1e-6


def test_weighted_quantiles_by_hand():
    values, weights = torch.tensor([[3.0, 1.0, 2.0]]), torch.tensor([[1.0, 2.0, 1.0]])
    assert weighted_quantiles(values, weights, torch.tensor([0.5, 0.51, 0.75, 1.0])).tolist() == [
        [1, 2, 2, 3]
    ]
    assert bool(torch.isnan(weighted_quantiles(values, 0 * weights, torch.tensor([0.5]))).all())


# Levels that learn


@given(
    st.lists(st.booleans(), min_size=1, max_size=200),
    st.floats(0.5, 0.99),
    st.floats(0.005, 0.5),
)
def test_the_long_run_coverage_of_an_adaptive_level(hard, level, rate):
    """Whatever happens: a level of 1 or more covers, one of 0 or less does not, anything else as it may."""
    at, covered = AdaptiveLevel(level, rate), []
    for one in hard:
        covered.append(at.now >= 1 or (at.now > 0 and not one))
        at = at.after(covered[-1])
    off = abs(sum(covered) / len(covered) - level)
    assert off <= (max(level, 1 - level) + rate) / (rate * len(covered)) + 1e-9


def test_an_adaptive_level_by_hand():
    at = AdaptiveLevel(0.9, 0.1)
    assert at.after(False).now == pytest.approx(0.99)
    assert at.after(True).now == pytest.approx(0.89)
    assert at.after(0.9).now == pytest.approx(0.9)
    for wrong in ({"rate": 0.0}, {"rate": 2.0}, {"level": 1.0}):
        with pytest.raises(ProgramError):
            AdaptiveLevel(**wrong)
    with pytest.raises(ProgramError, match="share"):
        at.after(1.5)
