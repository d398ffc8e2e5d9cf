"""Normalisation from the example period, and gaps filled without looking ahead."""

import numpy as np
import pytest
from air_records import record, with_values
from hypothesis import given
from hypothesis import strategies as st

from chop.core.errors import DataError
from chop.problems import air
from chop.problems.air.history import LONGEST_HOLD, fill

PERIOD = ("2022-01-01", "2022-01-06")


def literal_fill(values, observed):
    """The rules of the page, one value at a time."""
    filled = np.where(observed, values, np.nan).astype(float)
    raw = filled.copy()
    hours, stations = values.shape
    for t in range(hours):
        for s in range(stations):
            if observed[t, s]:
                continue
            past = [u for u in range(max(0, t - LONGEST_HOLD), t) if observed[u, s]]
            if past:
                filled[t, s] = raw[past[-1], s]
            elif observed[t].any():
                apart = [raw[u, s] - np.nanmean(raw[u]) for u in range(t) if observed[u, s]]
                filled[t, s] = np.nanmean(raw[t]) + (np.mean(apart) if apart else 0.0)
            else:
                filled[t, s] = filled[t - 24, s] if t >= 24 else 0.0
    return filled


@st.composite
def gappy(draw):
    hours, stations = draw(st.integers(1, 80)), draw(st.integers(1, 4))
    stream = np.random.default_rng(draw(st.integers(0, 10**6)))
    observed = stream.random((hours, stations)) > draw(st.sampled_from([0.05, 0.5, 0.9]))
    for _ in range(draw(st.integers(0, 3))):  # silence of the whole network
        start = int(stream.integers(0, hours))
        observed[start : start + int(stream.integers(1, 40))] = False
    return stream.standard_normal((hours, stations)).astype(np.float32), observed


@given(gappy())
def test_filling_equals_the_rules_one_by_one(data):
    values, observed = data
    expected = literal_fill(values, observed)
    filled = np.where(observed, values, np.nan).astype(np.float32)
    fill(filled, observed)
    np.testing.assert_allclose(filled, expected, atol=2e-5)
    assert (filled[observed] == values[observed]).all()


@given(gappy(), st.integers(0, 79))
def test_filling_never_looks_ahead(data, now):
    values, observed = data
    now = min(now, len(values) - 1)
    whole, cut = values.copy(), values[: now + 1].copy()
    fill(whole, observed)
    fill(cut, observed[: now + 1])
    np.testing.assert_array_equal(whole[: now + 1], cut)


def test_scaling_is_of_the_observed_values_of_the_period():
    region = record(hours=240)
    history = air.prepare(region, PERIOD)
    part = region.values[:120].astype(np.float64)
    np.testing.assert_allclose(history.scaling.mean, np.nanmean(part, axis=(0, 1)))
    np.testing.assert_allclose(history.scaling.std, np.nanstd(part, axis=(0, 1)))
    assert np.isfinite(history.values).all()
    assert (history.observed == ~np.isnan(region.values)).all()
    seen = history.observed
    back = history.scaling.undo(history.values.astype(np.float64))
    np.testing.assert_allclose(back[seen], region.values[seen], rtol=1e-4, atol=1e-4)


def test_what_comes_after_the_period_changes_nothing_before():
    region = record(hours=240)
    other = region.values.copy()
    other[150:, :, 1:] = 1e4
    one, two = air.prepare(region, PERIOD), air.prepare(with_values(region, other), PERIOD)
    np.testing.assert_array_equal(one.scaling.mean, two.scaling.mean)
    np.testing.assert_array_equal(one.scaling.std, two.scaling.std)
    np.testing.assert_array_equal(one.values[:150], two.values[:150])


def test_a_channel_that_does_not_vary_is_centred_only():
    region = record(hours=48)
    values = region.values.copy()
    values[:, :, 1] = 7.0
    history = air.prepare(with_values(region, values), PERIOD)
    assert history.scaling.std[1] == 1.0
    assert (history.values[:, :, 1] == 0).all()


def test_times_and_rows():
    history = air.prepare(record(hours=240), PERIOD)
    assert history.index("2022-01-02T03") == 27
    assert history.range("2022-01-02", "2022-01-03") == slice(24, 48)
    assert history.range("2021-01-01", "2030-01-01") == slice(0, 240)
    with pytest.raises(DataError, match="not in the record of small, 2022-01-01T00 to 2022-01-10T23"):
        history.index("2023-01-01")
    with pytest.raises(DataError, match="not a date"):
        history.index("noon")
    with pytest.raises(DataError, match="not a date"):
        history.index(None)


def test_bad_periods():
    region = record(hours=48)
    with pytest.raises(DataError, match="is empty"):
        air.prepare(region, ("2022-01-02", "2022-01-02"))
    with pytest.raises(DataError, match="lies outside the record"):
        air.prepare(region, ("2023-01-01", "2024-01-01"))
    values = region.values.copy()
    values[:, :, 2] = np.nan
    with pytest.raises(DataError, match=r"PM2\.5 of small was never observed in the example period"):
        air.prepare(with_values(region, values), PERIOD)
