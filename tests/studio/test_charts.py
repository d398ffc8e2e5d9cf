"""The pictures of the page as ECharts options: plain JSON, true numbers, one legend entry a kind."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from chop.pictures.views import Curve, View, match_view
from chop.studio import charts
from chop.studio.charts import answers_chart, draw_curve_chart, error_chart, map_chart, view_chart

WIDE = st.floats(width=64, allow_nan=True, allow_infinity=True)
X = np.linspace(0.0, 1.0, 50)


def curve(pen: str, values: Any, name: str = "", **more: Any) -> Curve:
    numbers = np.asarray(values, dtype=np.float64)
    return Curve(pen, np.linspace(0.0, 1.0, len(numbers))[:, None], numbers, name=name, **more)


def plane(values: Any, columns: int) -> Curve:
    numbers = np.asarray(values, dtype=np.float64)
    place = np.arange(len(numbers))
    return Curve("answer", np.column_stack((place % columns, place // columns)).astype(float), numbers)


def sound(option: dict[str, Any]) -> dict[str, Any]:
    """The option as the browser receives it."""
    json.dumps(option, allow_nan=False)
    assert option["animation"] is False
    assert option["backgroundColor"] == "transparent"
    assert option["aria"]["enabled"]
    assert option["aria"]["label"]["description"]
    return option


def forms(values: np.ndarray[Any, Any]) -> list[View]:
    off = np.abs(np.nan_to_num(values, posinf=1.0, neginf=1.0))
    some = (curve("input", values), curve("query", values, "query"), curve("band", values, deviation=off))
    return [
        View("lines", some, ("x", "value")),
        View("points", (*some, curve("candidate", values, "icon")), ("rank", "value")),
        View("band", (curve("found", values, "f", deviation=off),), ("u", "f"), "f"),
        View("image", (plane(values, max(len(values) // 2, 1)),), ("x", "y")),
        View("scatter", (plane(values, 3),), ("x", "x")),
        match_view([(curve("observed", values), curve("held out", values))]),
    ]


CASES = {
    "waves": np.sin(6 * X),
    "gaps": np.where(X > 0.5, np.nan, X),
    "nothing finite": np.full(6, np.nan),
    "infinite": np.array([1.0, np.inf, -np.inf, 1e300, -1e-300, 0.0]),
    "constant": np.full(8, 3.0),
    "zero": np.zeros(8),
    "one": np.ones(1),
    "none": np.empty(0),
    "long": np.linspace(-1, 1, 10_000),
}


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_every_form_is_json_of_bounded_size(case: str, dark: bool) -> None:
    for view in forms(CASES[case]):
        option = sound(view_chart(view, dark))
        for series in option["series"]:
            limit = charts.MAX_SIDE**2 if series["type"] == "heatmap" else charts.MAX_POINTS
            looped = series.get("silent", False)  # there and back, or three points a bar
            assert len(series["data"]) <= (3 if looped else 1) * limit + 2


@given(arrays.arrays(np.float64, st.integers(0, 12), elements=WIDE))
def test_no_number_breaks_a_picture(values: np.ndarray[Any, Any]) -> None:
    for view in forms(values):
        sound(view_chart(view, False))
    sound(draw_curve_chart(np.arange(len(values)), values, True))
    sound(error_chart(["raw"], {"raw": values.tolist()}, False))
    places = np.column_stack((np.arange(len(values)), np.arange(len(values))))
    sound(map_chart(places, values, ["s"] * len(values), "now", False))


@given(arrays.arrays(np.float64, 9, elements=st.floats(-1e29, 1e29)))
def test_six_digits_are_kept(values: np.ndarray[Any, Any]) -> None:
    (series,) = view_chart(View("lines", (curve("answer", values),), ("x", "y")), False)["series"]
    sent = [y for _, y in series["data"]]
    np.testing.assert_allclose(sent, values, rtol=5.001e-6, atol=1e-290)


def test_numbers_are_short() -> None:
    rows = view_chart(View("lines", (curve("answer", [1 / 3, 2e7 / 3, 2e-9 / 3]),), ("", "")), False)
    assert json.dumps([y for _, y in rows["series"][0]["data"]]) == "[0.333333, 6666670.0, 6.66667e-10]"


def test_an_empty_view_says_so() -> None:
    option = sound(view_chart(View("lines", (), ("", ""), notes=("nothing to draw",)), False))
    assert option["title"]["text"] == "nothing to draw"
    assert not option["xAxis"]["show"]


def test_a_lost_answer_is_named() -> None:
    lines = (curve("query", X, "query"), curve("answer", np.full(5, np.nan), "answer"))
    assert view_chart(View("lines", lines, ("x", "y")), False)["title"]["text"] == "not finite: answer"


def loops(series: dict[str, Any]) -> list[np.ndarray[Any, Any]]:
    """The closed ways of a band, without the gaps between them."""
    parts: list[list[list[float]]] = [[]]
    for row in series["data"]:
        if row[0] is None:
            parts.append([])
        else:
            parts[-1].append(row)
    return [np.array(part) for part in parts if part]


@given(
    arrays.arrays(np.float64, 12, elements=st.floats(-5, 5) | st.just(np.nan)),
    arrays.arrays(np.float64, 12, elements=st.floats(0, 3)),
    st.sampled_from([("lines", "band", 1.0), ("band", "found", 2.0)]),
)
def test_a_band_runs_along_both_bounds(centre: Any, off: Any, kind: tuple[Any, str, float]) -> None:
    form, pen, times = kind
    shown = curve(pen, centre, deviation=off)
    band = view_chart(View(form, (shown,), ("x", "y")), False)["series"][0]
    known = np.isfinite(centre)
    upper, lower = [], []
    for loop in loops(band):
        half = (len(loop) - 1) // 2
        np.testing.assert_array_equal(loop[0], loop[-1])
        np.testing.assert_array_equal(loop[:half, 0], loop[half:-1, 0][::-1])
        upper += loop[:half].tolist()
        lower += loop[half:-1][::-1].tolist()
    for edge, sign in ((upper, 1.0), (lower, -1.0)):
        wanted = np.column_stack((shown.coords[known, 0], (centre + sign * times * off)[known]))
        np.testing.assert_allclose(np.array(edge).reshape(-1, 2), wanted, rtol=1e-5, atol=1e-290)


def test_bars_stand_where_points_have_no_order() -> None:
    shown = curve("band", [1.0, -2.0], deviation=np.array([0.5, 1.0]))
    (bars,) = view_chart(View("points", (shown,), ("rank", "value")), False)["series"]
    assert bars["data"] == [[0, 0.5], [0, 1.5], [0, None], [1, -3], [1, -1], [1, None]]


def names(option: dict[str, Any]) -> list[str]:
    return [entry["name"] for entry in option["legend"]["data"]]


def test_many_examples_are_one_entry_of_the_legend() -> None:
    examples = [curve("input", X + i, place=i / 4) for i in range(5)]
    option = view_chart(View("lines", (*examples, curve("query", X, "query")), ("x", "y")), False)
    assert names(option) == ["examples", "query"]
    assert len({series["lineStyle"]["color"] for series in option["series"]}) == 6


def test_candidates_differ_by_more_than_colour() -> None:
    several = [curve("candidate", X + i, f"program {i}", place=i / 2) for i in range(3)]
    option = view_chart(View("lines", tuple(several), ("x", "y")), False)
    assert names(option) == ["program 0", "program 1", "program 2"]
    assert len({str(series["lineStyle"]["type"]) for series in option["series"]}) == 3


@pytest.mark.parametrize("dark", [False, True])
def test_answers_have_the_look_of_their_name(dark: bool) -> None:
    answers = [curve("answer", X + i, name) for i, name in enumerate(("raw", "program", "auto", "mine"))]
    band = curve("band", X, deviation=np.full(50, 0.1))
    option = sound(answers_chart(curve("truth", X), curve("given", X), answers, band, ("x", "u"), dark))
    assert names(option) == ["band", "query", "truth", "raw", "program", "auto", "mine"]
    lines = {series["name"]: series["lineStyle"] for series in option["series"]}
    assert lines["truth"]["color"] == ("#e6e9ee" if dark else "#1d2127")
    looks = {str((lines[name].get("type"), lines[name]["width"])) for name in names(option)}
    assert len(looks) == len(names(option))
    alone = answers_chart(None, None, answers[1:2], None, ("x", "u"), dark)
    assert alone["series"][0]["lineStyle"] == lines["program"]


def test_a_comparison_of_nothing_is_a_picture_too() -> None:
    assert sound(answers_chart(None, None, [], None, ("x", "u"), False))["title"]["text"] == "nothing to draw"


def test_an_image_keeps_its_cells_and_has_few_labels() -> None:
    values = np.arange(50 * 10, dtype=float)
    values[7] = np.nan
    option = view_chart(View("image", (plane(values, 50),), ("x", "t")), False)
    rows = option["series"][0]["data"]
    assert rows[7] == [7, 0, None, 7, 0]  # a cell, its value and where it lies
    assert rows[-1] == [49, 9, 499, 49, 9]
    assert (option["visualMap"]["min"], option["visualMap"]["max"]) == (0, 499)
    assert len(option["xAxis"]["data"]) // (option["xAxis"]["axisLabel"]["interval"] + 1) <= 5


def test_the_diagonal_spans_what_was_observed_and_answered() -> None:
    option = view_chart(match_view([(curve("observed", [0, 1]), curve("held out", [0.5, 2]))]), False)
    assert option["series"][0]["data"] == [[0, 0], [2, 2]]
    assert option["series"][1]["data"] == [[0, 0.5], [1, 2]]


def test_a_map_names_stations_and_leaves_unknown_ones_hollow() -> None:
    places = [[116.0, 40.0], [117.0, 40.5], [116.5, 39.0]]
    option = sound(map_chart(places, [1.0, np.nan, 3.0], ["a", "b", "c"], "now", False, (0.0, 10.0)))
    known, unknown = option["series"]
    assert [item["name"] for item in known["data"]] == ["a", "c"]
    assert unknown["data"] == [{"name": "b", "value": [117.0, 40.5, None]}]
    assert unknown["itemStyle"]["color"] == "transparent"
    assert (option["visualMap"]["min"], option["visualMap"]["max"]) == (0, 10)
    wide = option["xAxis"]["max"] - option["xAxis"]["min"]
    high = option["yAxis"]["max"] - option["yAxis"]["min"]
    assert wide * np.cos(np.radians(39.75)) / high == pytest.approx(charts.MAP_SHAPE, rel=1e-3)


def test_a_drawn_curve_has_handles_and_room() -> None:
    option = sound(draw_curve_chart(X, np.sin(6 * X), False))
    (line,) = option["series"]
    assert line["showSymbol"]
    assert option["tooltip"] == {"show": False} | option["tooltip"]
    assert (option["yAxis"]["min"], option["yAxis"]["max"]) == (-2, 2)
    assert len(line["data"]) == len(X)


def test_errors_stand_on_a_log_axis_from_step_one() -> None:
    option = sound(
        error_chart(["raw", "auto", "late"], {"raw": [0.1, 0.2, 0.0], "auto": [0.05, None]}, False)
    )
    assert option["yAxis"]["type"] == "log"
    raw, auto, late = (series["data"] for series in option["series"])
    assert raw == [[1, 0.1], [2, 0.2], [3, None]]
    assert auto == [[1, 0.05], [2, None]]
    assert late == []


def test_what_is_thinned_keeps_its_ends() -> None:
    long = curve("answer", np.linspace(-1, 1, 10_000))
    (line,) = view_chart(View("lines", (long,), ("x", "y")), False)["series"]
    assert len(line["data"]) == charts.MAX_POINTS
    assert (line["data"][0], line["data"][-1]) == ([0, -1], [1, 1])
