"""Prompts of windows: what stands where, what is scored, and no order among stations."""

import numpy as np
import pytest
import torch
from air_records import record, with_values
from hypothesis import given, settings
from hypothesis import strategies as st

import chop
from chop.core.errors import ProblemError
from chop.files import CaseFile
from chop.problems import air
from chop.problems.air.region import Region
from chop.problems.case import Case
from chop.problems.question_files import write_cases

PERIOD = ("2022-01-01", "2022-01-06")


def history(**options):
    return air.prepare(record(**options), PERIOD)


def copy_last(prompt):
    return prompt.query.values[..., -prompt.at.shape[-2] :, :]


def test_what_stands_where():
    past, lead, stations = history(), 6, 4
    ends, examples = np.array([150, 200]), np.array([[40, 90, 30], [23, 24, 25]])
    made = air.case(past, ends, examples, lead)
    prompt = made.prompt
    assert prompt.inputs.values.shape == (2, 3, 24 * stations, 4)
    assert prompt.outputs.values.shape == (2, 3, stations, 4)
    assert made.target.shape == (2, stations, 4)
    for i in range(2):
        rows = slice(ends[i] - 23, ends[i] + 1)
        np.testing.assert_array_equal(prompt.query.values[i].reshape(24, stations, 4), past.values[rows])
        np.testing.assert_array_equal(prompt.query.mask[i].reshape(24, stations, 4), past.observed[rows])
        np.testing.assert_array_equal(made.target[i], past.values[ends[i] + lead])
        np.testing.assert_array_equal(made.mask[i], past.observed[ends[i] + lead])
        for j in range(3):
            end = examples[i, j]
            shown = prompt.inputs.values[i, j].reshape(24, stations, 4)
            np.testing.assert_array_equal(shown, past.values[end - 23 : end + 1])
            np.testing.assert_array_equal(prompt.outputs.values[i, j], past.values[end + lead])
            np.testing.assert_array_equal(prompt.outputs.mask[i, j], past.observed[end + lead])
    assert [axis.name for axis in prompt.axes] == ["t", "lon", "lat"]
    assert all(axis.period is None for axis in prompt.axes)
    t = prompt.query.coords[0, :, 0].reshape(24, stations)
    np.testing.assert_allclose(t[:, 0], np.arange(-23, 1) / 24, atol=1e-7)
    assert (t == t[:, :1]).all()
    np.testing.assert_allclose(prompt.at[0, :, 1], past.region.lon, atol=1e-5)
    assert prompt.inputs.coords.stride()[:2] == (0, 0), "one set of coordinates for all"
    assert prompt.times.tolist() == [[1, 2, 0, 3], [0, 1, 2, 3]]
    assert made.rows["end"].tolist() == [150, 200]
    assert made.meta["channels"] == ["hour", "NO2", "PM2.5", "O3"]


def test_the_coordinates_do_not_show_the_lead():
    past = history()
    one, two = (air.case(past, [150], [[40, 60]], lead).prompt for lead in (1, 72))
    assert torch.equal(one.at, two.at)
    assert torch.equal(one.outputs.coords, two.outputs.coords)
    assert torch.equal(one.times, two.times)


def test_frames_and_programs():
    past = history(missing=0.0)
    made = air.case(past, [150, 160], [[40, 60, 80], [50, 70, 90]], 24)
    last = chop.parse("last_frame").run(copy_last, made.prompt).values
    np.testing.assert_array_equal(last, past.values[[150, 160]])
    first = chop.parse("first_frame").run(copy_last, made.prompt).values
    np.testing.assert_array_equal(first, past.values[[127, 137]])
    result = chop.programs["air"].run(copy_last, made.prompt)
    assert result.calls == 4
    assert torch.isfinite(result.values).all()


def test_only_what_was_observed_is_scored():
    past = history(missing=0.4, stations=6)
    made = air.case(past, [150, 151], [[40], [41]], 3)
    answer = made.target + 0.5
    score = air.rmse(answer, made)
    assert score.dtype == torch.float64
    half = 0.5 * past.scaling.std[[2, 3]]
    np.testing.assert_allclose(score, np.stack([half, half]), rtol=1e-5)
    wild = torch.where(made.mask, answer, torch.tensor(1e6))
    assert torch.equal(air.rmse(wild, made), score)
    nothing = Case(made.prompt, made.target, meta=made.meta, mask=torch.zeros_like(made.mask))
    assert air.rmse(answer, nothing).isnan().all()
    with pytest.raises(ProblemError, match="where its target was observed"):
        air.rmse(answer, Case(made.prompt, made.target, meta=made.meta))


def test_imputed_values_never_reach_the_score():
    """The same observations with other numbers where nothing was observed: the same scores."""
    past = history(missing=0.4)
    made = air.case(past, [150], [[40, 60]], 3)
    other = Case(
        made.prompt, torch.where(made.mask, made.target, torch.tensor(99.0)), meta=made.meta, mask=made.mask
    )
    answer = torch.randn(made.target.shape, generator=torch.Generator().manual_seed(0))
    assert torch.equal(air.rmse(answer, made), air.rmse(answer, other))


@settings(max_examples=20)
@given(st.integers(0, 10**6), st.integers(1, 6))
def test_the_order_of_stations_does_not_matter(seed, stations):
    region = record(stations=stations, seed=seed, missing=0.3)
    order = np.random.default_rng(seed).permutation(stations)
    turned = Region(
        region.name, tuple(region.stations[i] for i in order), region.lon[order], region.lat[order],
        region.times, region.channels, region.values[:, order],
    )  # fmt: skip
    asked = ([150, 160], [[40, 60], [50, 70]], 12)
    one, two = (air.case(air.prepare(r, PERIOD), *asked) for r in (region, turned))
    np.testing.assert_allclose(two.target, one.target[:, order], atol=1e-5)
    assert torch.equal(two.mask, one.mask[:, order])
    windows = one.prompt.inputs.values.reshape(2, 2, 24, stations, 4)[:, :, :, order]
    np.testing.assert_allclose(two.prompt.inputs.values.reshape(windows.shape), windows, atol=1e-5)
    assert torch.equal(two.prompt.at, one.prompt.at[:, order])
    field = torch.randn(stations, 2, generator=torch.Generator().manual_seed(seed))
    smooth_one, smooth_two = one.prompt.graph.average(field), two.prompt.graph.average(field[order])
    np.testing.assert_allclose(smooth_two, smooth_one[order], atol=1e-5)


def test_a_region_of_one_station():
    past = history(stations=1, missing=0.2)
    made = air.case(past, [150], [[40, 60, 80]], 24)
    assert made.target.shape == (1, 1, 4)
    assert made.prompt.graph.edges.shape == (2, 0)
    result = chop.programs["air"].run(copy_last, made.prompt)
    assert torch.isfinite(result.values).all()


def test_the_station_graph():
    lon, lat = np.array([0.0, 0.0, 3.0, 2.2, 50.0]), np.array([0.0, 3.0, 0.0, 2.2, 0.0])
    made = air.station_graph(lon, lat)
    edges = {tuple(edge) for edge in made.graph.edges.T.tolist()}
    expected = {
        (a, b) for a in range(5) for b in range(5)
        if a != b and np.hypot(lon[a] - lon[b], lat[a] - lat[b]) <= 3
    }  # fmt: skip
    assert edges == expected
    assert (0, 1) in edges, "3 degrees belong to it"
    assert not any(4 in edge for edge in edges), "isolated"
    north = made.graph.edges.T.tolist().index([0, 1])
    assert made.distance[north] == pytest.approx(333.58, abs=0.1)
    assert made.direction[north] == pytest.approx(0.0)
    east = made.graph.edges.T.tolist().index([0, 2])
    assert made.direction[east] == pytest.approx(np.pi / 2)
    back = made.graph.edges.T.tolist().index([2, 0])
    assert made.direction[back] == pytest.approx(3 * np.pi / 2)
    alone = air.station_graph(np.array([1.0]), np.array([2.0]))
    assert alone.graph.edges.shape == (2, 0)
    with pytest.raises(ProblemError, match="must be finite"):
        air.station_graph(np.array([np.nan]), np.array([0.0]))
    with pytest.raises(ProblemError, match="one lon and one lat"):
        air.station_graph(np.zeros(2), np.zeros(3))
    with pytest.raises(ProblemError, match="radius"):
        air.station_graph(np.zeros(2), np.zeros(2), radius=-1)


def test_isolated_stations_keep_their_own_residual():
    past = history(stations=3, places=[[0, 0], [0.5, 0], [40, 40]])
    made = air.case(past, [150], [[40, 60, 80]], 24)
    field = torch.tensor([[1.0], [2.0], [7.0]])
    assert made.prompt.graph.average(field).flatten().tolist() == [2.0, 1.0, 7.0]


def test_bad_questions():
    past = history()
    for ends, examples, lead, message in [
        ([150], [[22]], 1, "must lie in 23"),
        ([239], [[40]], 1, "must lie in 23 .. 238"),
        ([150.0], [[40]], 1, "whole numbers"),
        ([150], [[40]], 0, "lead must be"),
        ([150], [[]], 1, "n and D from 1"),
        ([150, 151], [[40]], 1, "n and D from 1"),
    ]:
        with pytest.raises(ProblemError, match=message):
            air.case(past, ends, examples, lead)
    with pytest.raises(ProblemError, match="no channel 'CO'"):
        air.case(past, [150], [[40]], 1, scored=("CO",))


def test_cases_are_cut_paired_and_stored_with_their_masks(tmp_path):
    past = history(missing=0.3)
    made = air.case(past, [150, 151, 152], [[40, 60]] * 3, 3)
    assert torch.equal(made[1:].mask, made.mask[1:])
    inputs, outputs = made.pairs()
    assert torch.equal(inputs.mask[:, -1], made.prompt.query.mask)
    assert torch.equal(outputs.mask[:, :-1], made.prompt.outputs.mask)
    assert torch.equal(outputs.mask[:, -1], made.mask)
    write_cases(tmp_path / "cases.h5", [made[:1], made[1:]])
    with CaseFile(tmp_path / "cases.h5") as stored:
        back = stored.read()
    assert torch.equal(back.mask, made.mask)
    assert torch.equal(back.prompt.graph.edges, made.prompt.graph.edges)
    assert torch.equal(air.rmse(back.target + 1, back), air.rmse(made.target + 1, made))
    with pytest.raises(ProblemError, match="mask must be bool"):
        Case(made.prompt, made.target, mask=made.mask.float())


def test_a_query_with_its_future_changed_asks_the_same():
    region = record(missing=0.2)
    end, lead = 180, 6
    other = region.values.copy()
    other[end + 1 :, :, 1:] = 500.0
    one, two = (
        air.case(air.prepare(r, PERIOD), [end], [[40, 60]], lead)
        for r in (region, with_values(region, other))
    )
    for name in ("inputs", "outputs", "query"):
        left, right = getattr(one.prompt, name), getattr(two.prompt, name)
        assert torch.equal(left.values, right.values)
        assert torch.equal(left.mask, right.mask)
    assert not torch.equal(one.target, two.target)
