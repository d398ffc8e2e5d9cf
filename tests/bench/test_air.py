"""The air benchmark on an invented world: stored as it goes, continued after kill -9, nothing leaks."""

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

pytest.importorskip("xarray")

import chop
from chop.bench import air_tables, paper, report
from chop.bench.air import AirSuite, Forecast, Remembering, forecasts, measured, same_hour
from chop.bench.air_directions import DIRECTIONS, FORWARD, HOME_LEADS, SELECTIONS
from chop.bench.air_figures import candidates, mean_weights
from chop.bench.air_questions import LEADS, LONGEST, RegionSource, YearSplit, digest_of
from chop.bench.methods import AIR, AIR_METHODS, PERSISTENCE, RAW, YESTERDAY
from chop.bench.report import markdown, write_results
from chop.bench.results import Results
from chop.bench.runner import Run, run_benchmark
from chop.bench.store import FILE, Store
from chop.bench.suite import missing_pieces
from chop.cli import app
from chop.core.errors import BenchError, ChopError
from chop.icon import StationConfig, StationIcon, save
from chop.icon.config import GraphConfig
from chop.icon.published.graph_network import PublishedGraphIcon
from chop.problems import air
from chop.problems.air import POLLUTANTS

CHANNELS = ("hour", "NO2", "PM2.5", "O3")
SMALL = StationConfig(
    channels=CHANNELS, width=24, heads=2, window_layers=1, pair_layers=1, asking_layers=1,
    lengths=(30.0, 200.0), each=8,
)  # fmt: skip
EVERY = 42


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A world of a few weeks around new year, and networks with random weights."""
    folder = tmp_path_factory.mktemp("air")
    air.make_world(folder / "world", hours=24 * 60, stations=(6, 5), weather=False, start="2023-12-01")
    for seed, name in enumerate(("bthsa", "yrd", "other")):
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            network = StationIcon(SMALL)
            torch.nn.init.normal_(network.head.weight, std=0.2)
        save(network, folder / f"{name}.safetensors")
    return folder


def asked(home: Path, out: Path, **options) -> Run:
    models = tuple((region, str(home / f"{region}.safetensors")) for region in ("bthsa", "yrd"))
    given = {"every": EVERY, "cases": 10, "models": models, "data": home / "world"}
    return Run(AirSuite(**{**given, **options}), out, executor="inline")


def opened(bench: Run) -> Store:
    return Store(bench.out, AirSuite.layout)


def table_of(bench: Run) -> str:
    with opened(bench) as store:
        results = Results(store, bench.suite)
        return markdown(bench.suite.report(), results, air_tables.AIR_REPORT.facts(results))


def source(home: Path, tmp_path: Path, region: str = "yrd") -> RegionSource:
    return RegionSource(str(home / "world"), region, CHANNELS, YearSplit(), EVERY, 0, str(tmp_path / "index"))


def with_altitudes(home: Path, folder: Path, metres: np.ndarray) -> Path:
    shutil.copytree(home / "world", folder)
    np.save(folder / "altitude.npy", metres)
    return folder


@pytest.fixture(scope="module")
def finished(home, tmp_path_factory):
    """Both directions, undisturbed."""
    bench = asked(home, tmp_path_factory.mktemp("finished"), cases=3)
    setting = run_benchmark(bench)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(report, "RESOLUTION", 30)  # drawn as always, painted small
        write_results(bench, setting)
    return bench


def test_the_papers_numbers_agree_with_themselves():
    assert set(paper.AIR_QUALITY) == {forecast.name for forecast in forecasts()}
    assert len(paper.AIR_QUALITY) == 88
    assert sum(row.reduction > 0 for row in paper.AIR_QUALITY.values()) == paper.LOWERED == 77
    for row in paper.AIR_QUALITY.values():
        worst, best = ((row.chop + s * 0.005) / (row.raw - s * 0.005) for s in (1, -1))
        assert 100 * (1 - worst) - 0.05 <= row.reduction <= 100 * (1 - best) + 0.05
    largest = [max((paper.AIR_QUALITY[f.name].reduction, f.lead) for f in group)[1] for group in _groups()]
    assert largest == [1] * 8, "in the paper the largest reduction is always that of one hour"


def _groups():
    for direction in (d for d in DIRECTIONS if d.carried):
        for selection in SELECTIONS:
            for pollutant in POLLUTANTS:
                yield [Forecast(direction, selection, lead, pollutant) for lead in LEADS]


def test_all_88_conditions_are_measured_and_written(finished):
    with opened(finished) as store:
        results = Results(store, finished.suite)
    assert len(air_tables.measured_forecasts(results)) == 88
    assert len(air_tables.at_home_and_carried(results)) == 2 * 2 * 4 * 2
    for forecast in air_tables.measured_forecasts(results):
        assert len(results.errors(forecast.name, AIR)) == 3
        assert mean_weights(results, forecast).sum() == pytest.approx(1.0, abs=1e-3)
    text = (finished.out / "table.md").read_text(encoding="utf-8")
    assert text.count("| PM₂.₅ |") == text.count("| O₃ |")
    assert "examples and normalisation from the evaluated region, 2022 to 2023" in text
    totals = [claim.total for claim in air_tables.air_claims(results)]
    assert totals == [88, 8, 44, 32]
    kept = json.loads((finished.out / "results.json").read_text(encoding="utf-8"))
    carried, alone = 2 * len(SELECTIONS) * len(LEADS) * len(AIR_METHODS), 2 * len(HOME_LEADS) * 2
    assert len(kept["measured"]) == carried + alone
    html = (finished.out / "report.html").read_text(encoding="utf-8")
    assert html.count("<img") == 7
    assert "http" not in html


def test_means_and_reductions_by_hand(finished):
    with opened(finished) as store:
        results = Results(store, finished.suite)
    lines = [json.loads(line[9:]) for line in (finished.out / FILE).read_bytes().splitlines()]
    found = {
        line["method"]: line["O3"]
        for line in lines
        if (line.get("direction"), line.get("selection"), line.get("lead")) == ("bthsa-yrd", "similar", 12)
    }
    both = [(r, c) for r, c in zip(found[RAW], found[AIR], strict=True) if r is not None]
    raw, ours = (np.mean(column) for column in zip(*both, strict=True))
    paired = results.compare(Forecast(FORWARD, "similar", 12, "O3").name, AIR).paired
    assert (paired.base_mean, paired.mean) == pytest.approx((raw, ours))
    assert f"| {raw:.2f} | {ours:.2f} | {100 * (1 - ours / raw):.1f} % |" in table_of(finished)


@pytest.mark.slow
def test_a_killed_run_continues_and_writes_the_same_table(home, tmp_path):
    whole, broken = (asked(home, tmp_path / name, directions=("bthsa-yrd",)) for name in ("whole", "broken"))
    process = subprocess.Popen(
        [
            sys.executable, "-m", "chop.cli", "bench", "air", "--data", str(home / "world"), "--every",
            str(EVERY), "--cases", "10", "--direction", "bthsa-yrd", "--model",
            f"bthsa={home / 'bthsa.safetensors'}", "--out", str(broken.out), "--workers", "1",
        ],
        env={**os.environ, "OMP_NUM_THREADS": "1"}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    file = broken.out / FILE
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and process.poll() is None:
        if file.exists() and file.read_bytes().count(b"\n") >= 60:
            break
        time.sleep(0.005)
    os.kill(process.pid, signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL, "it was to be killed half way"
    stored = file.read_bytes()
    complete = stored[: stored.rindex(b"\n") + 1]
    with file.open("ab") as end:
        end.write(complete.splitlines()[-1][:40])  # what a crash in the middle of a line leaves
    made = []
    for bench in (whole, broken):
        run_benchmark(bench)
        made.append(table_of(bench))
        with opened(bench) as store:
            assert not missing_pieces(bench.suite, store)
    assert made[0] == made[1]
    assert file.read_bytes().startswith(complete), "nothing paid for is measured again"
    assert len(file.read_bytes().splitlines()) == len((whole.out / FILE).read_bytes().splitlines())


def test_half_a_piece_of_work_is_done_again_as_a_whole(finished, tmp_path):
    lines = (finished.out / FILE).read_bytes().splitlines(keepends=True)
    last = max(i for i, line in enumerate(lines) if b'"yrd-bthsa"' in line)
    (tmp_path / FILE).write_bytes(b"".join(lines[:last]) + lines[last][:40])
    with Store(tmp_path, AirSuite.layout, finished.suite.about(chop.__version__)) as store:
        (piece,) = (piece for piece in missing_pieces(finished.suite, store) if "→" in piece.condition.label)
    assert piece.condition.label == "YRD → BTHSA"
    assert [methods for _, methods in piece.asked] == [AIR_METHODS] * len(SELECTIONS) * len(LEADS)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"seed": 1}, "seed 0.*seed 1"),
        ({"year": 2025}, "questions in 2024.*questions in 2025"),
        ({"models": (("bthsa", "other"), ("yrd", "yrd"))}, "another network of bthsa"),
        ({"data": "elsewhere"}, "another data of"),
        ({"data": "with altitudes"}, "another data of"),
    ],
)
def test_results_of_something_else_are_refused(home, finished, tmp_path, changes, words):
    if changes.get("data") == "with altitudes":
        changes = {"data": with_altitudes(home, tmp_path / "world", np.zeros((3, 4)))}
    elif "data" in changes:
        changes = {"data": air.make_world(tmp_path, 24 * 60, (6, 5), 1, False, "2023-12-01")}
    if "models" in changes:
        changes = {"models": tuple((r, str(home / f"{n}.safetensors")) for r, n in changes["models"])}
    before = (finished.out / FILE).read_bytes()
    with pytest.raises(BenchError, match=words):
        run_benchmark(replace(finished, suite=replace(finished.suite, **changes)))
    assert (finished.out / FILE).read_bytes() == before


def test_another_version_is_refused(finished, monkeypatch):
    monkeypatch.setattr(chop, "__version__", "9.9")
    with pytest.raises(BenchError, match=r"version 9\.9"):
        run_benchmark(finished)


def test_tables_are_written_anew_without_data_or_networks(finished, monkeypatch):
    nothing = replace(air_tables.AIR_REPORT, figures=lambda results, setting: {})
    monkeypatch.setattr(air_tables, "AIR_REPORT", nothing)  # drawn once is enough
    before = (finished.out / "table.md").read_bytes()
    (finished.out / "table.md").unlink()
    made = CliRunner().invoke(app, ["bench", "air", "--report-only", "--out", str(finished.out)])
    assert made.exit_code == 0, made.output
    assert (finished.out / "table.md").read_bytes() == before


def test_a_program_of_ones_own_is_all_that_is_new(home, finished):
    one_way = replace(finished.suite, programs=("debias(icon)",), directions=("bthsa-yrd",))
    bench = replace(finished, suite=one_way)
    with opened(bench) as store:
        (piece,) = missing_pieces(bench.suite, store)
    assert {methods for _, methods in piece.asked} == {("debias(icon)",)}
    run_benchmark(bench)
    with opened(bench) as store:
        assert air_tables.own_programs(Results(store, bench.suite)) == ("debias(icon)",)
    text = table_of(bench)
    assert "Programs of your own" in text
    assert "(1) `debias(icon)`" in text


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "chop data air --fetch"),
        (("--direction", "north"), "no direction 'north'"),
        (("--model", "x.safetensors"), "which region a network was trained in"),
        (("--data", "WORLD", "--model", "bthsa=conservation", "--model", "yrd=mfc"), "network of stations"),
        (("--data", "WORLD", "--executor", "magic"), "processes, inline, ray"),
        (("--data", "WORLD", "-p", "icon |"), "column 7"),
    ],
)
def test_what_cannot_be_asked_is_one_sentence(home, tmp_path, monkeypatch, arguments, words):
    monkeypatch.delenv("CHOP_AIR_DATA", raising=False)
    given = [str(home / "world") if part == "WORLD" else part for part in arguments]
    done = CliRunner().invoke(app, ["bench", "air", "--out", str(tmp_path / "out"), *given])
    assert isinstance(done.exception, ChopError)
    assert words in str(done.exception)


def test_a_year_without_questions(home, tmp_path):
    with pytest.raises(BenchError, match="choose another year"):
        run_benchmark(asked(home, tmp_path, every=24 * 400))


def test_every_example_target_precedes_its_question(home, tmp_path):
    asked_of = source(home, tmp_path)
    hours = asked_of.hours()
    period = asked_of.history().range(*asked_of.split.examples)
    drawn = {}
    for selection in SELECTIONS:
        for lead in LEADS:
            case = asked_of.case(hours, selection, lead)
            shown, ends = case.rows["examples"], case.rows["end"]
            assert (shown + lead < ends[:, None]).all()
            assert (shown + lead < period.stop).all()
            assert (shown - 23 >= period.start).all()
            assert all(len(set(row)) == 5 for row in shown.tolist())
            drawn.setdefault(selection, []).append(shown)
    assert all((shown == drawn["random"][0]).all() for shown in drawn["random"]), "the same at every lead"


def test_questions_are_spread_and_nested(home, tmp_path):
    hours = source(home, tmp_path).hours()
    assert all(hour % EVERY == 0 for hour in hours)
    assert list(hours) != sorted(hours)
    assert len(set(hours)) == len(hours)
    last = source(home, tmp_path).history().region.times[-1].astype("datetime64[h]").astype(int)
    assert max(hours) + LONGEST <= last


def test_questions_have_the_ridges_of_their_folder(home, tmp_path):
    flat = source(home, tmp_path)
    rough = np.random.default_rng(0).uniform(0, 6000, (401, 701))
    parted = replace(flat, folder=str(with_altitudes(home, tmp_path / "world", rough)))
    hours = flat.hours()[:2]
    one, two = (asked_of.case(hours, "random", 6).prompt for asked_of in (flat, parted))
    assert torch.equal(one.query.values, two.query.values)
    assert {*map(tuple, two.graph.edges.T.tolist())} < {*map(tuple, one.graph.edges.T.tolist())}
    with pytest.raises(BenchError, match="has changed since the benchmark began"):
        replace(parted, digest=digest_of(flat.history().region)).history()


def test_what_tells_data_apart(home):
    region = air.load_region(home / "world", "yrd", CHANNELS)
    literal = hashlib.sha256(repr((region.stations, CHANNELS)).encode())
    for array in (region.lon, region.lat, region.times.astype(np.int64), region.values):
        literal.update(array.tobytes())
    assert digest_of(region) == literal.hexdigest(), "as in stored results"
    grids = (np.zeros((3, 4)), np.zeros((4, 3)), np.eye(3, 4))
    others = {digest_of(replace(region, altitudes=air.Altitudes(grid))) for grid in grids}
    assert len({literal.hexdigest(), *others}) == 4


def test_a_target_that_nobody_observed_is_not_scored(home):
    region = air.load_region(home / "world", "yrd", CHANNELS)
    ends, lead = np.array([24 * 40, 24 * 42]), 6
    values = region.values.copy()
    values[ends[0] + lead, :, region.channel("PM2.5")] = np.nan
    values[ends[1] + lead, :-1, region.channel("O3")] = np.nan
    history = air.prepare(replace(region, values=values))
    shown = air.random_examples(history, ends, LONGEST, ("2023-12-01", "2024-01-01"))
    case = air.case(history, ends, shown, lead)
    found = measured(PERSISTENCE, Remembering(StationIcon(SMALL).eval()), case)
    assert found["PM2.5"][0] is None
    assert found["PM2.5"][1] is not None
    truth, last = (history.values[ends[1] + h, -1, -1] for h in (lead, 0))
    only = abs(float(truth - last)) * history.scaling.std[-1]
    if history.observed[ends[1] + lead, -1, -1]:
        assert found["O3"][1] == pytest.approx(only, rel=1e-4)


@pytest.mark.parametrize("lead", LEADS)
def test_same_hour_yesterday(home, tmp_path, lead):
    asked_of = source(home, tmp_path)
    case = asked_of.case(asked_of.hours()[:2], "random", lead)
    history, ends = asked_of.history(), case.rows["end"]
    row = ends + lead
    while (row > ends).any():
        row = row - 24
    assert (row > ends - 24).all()
    np.testing.assert_array_equal(same_hour(case).numpy(), history.values[row])
    assert measured(YESTERDAY, Remembering(StationIcon(SMALL).eval()), case)["calls"] == 0


def test_what_was_asked_is_not_asked_again(home, tmp_path):
    asked_of = source(home, tmp_path)
    case = asked_of.case(asked_of.hours()[:2], "random", 3)
    network = chop.load(home / "bthsa.safetensors")

    class Counting:
        rounds: list[int] = []  # noqa: RUF012

        def predict_many(self, prompts):
            self.rounds.append(len(prompts))
            return network.predict_many(prompts)

    model = Remembering(Counting())
    chop.parse(AIR).run(model, case.prompt)
    assert Counting.rounds == [2]
    raw = chop.parse(RAW).run(model, case.prompt).values
    chop.parse("correct(icon, pad=False)").run(model, case.prompt)
    assert Counting.rounds == [2], "the bare model and another validator were asked before"
    torch.testing.assert_close(raw, chop.parse(RAW).run(network, case.prompt).values, rtol=1e-4, atol=1e-5)
    chop.parse("correct(icon)").run(model, case.prompt)
    assert Counting.rounds == [2, 1], "padded prompts are others"
    model.forget()
    chop.parse(RAW).run(model, case.prompt)
    assert Counting.rounds == [2, 1, 1]


@pytest.mark.slow
def test_the_demonstration_prints_and_draws(home, monkeypatch):
    """In the world that is there already, with a network of one's own."""
    monkeypatch.setattr(report, "RESOLUTION", 30)
    network = str(home / "bthsa.safetensors")
    done = CliRunner().invoke(app, ["demo", "air", "--n", "3", "--model", network, "--out", str(home)])
    assert done.exit_code == 0, done.output
    assert "with no weight changed" in " ".join(done.output.split())
    for name in ("map.png", "errors.png"):
        assert (home / name).read_bytes().startswith(b"\x89PNG")
    wrong = CliRunner().invoke(app, ["demo", "air", "--model", "mfc", "--out", str(home)])
    assert "not a network of stations" in str(wrong.exception)


def test_directions_and_candidates():
    assert [d.name for d in DIRECTIONS] == ["bthsa-yrd", "bthsa-bthsa", "yrd-bthsa", "yrd-yrd"]
    assert [d.name for d in AirSuite(directions=("yrd-bthsa",)).asked] == ["yrd-yrd", "yrd-bthsa"]
    assert candidates()[0] == RAW
    assert len(candidates()) == 7


def test_a_published_graph_network_is_measured_like_ours(home, tmp_path):
    config = GraphConfig(
        channels=CHANNELS, trained_order=("PM2.5", "hour", "O3", "NO2"), width=8, heads=2, hidden=8,
        edge_width=4, message_width=4, graph_layers=1, transformer_layers=1,
    )  # fmt: skip
    with torch.random.fork_rng():
        torch.manual_seed(5)
        file = save(PublishedGraphIcon(config), tmp_path / "graph.safetensors")
    bench = asked(home, tmp_path / "out", cases=2, models=(("bthsa", str(file)),), directions=("bthsa-yrd",))
    run_benchmark(bench)
    with opened(bench) as store:
        results = Results(store, bench.suite)
        for forecast in forecasts((FORWARD,)):
            observed = np.isfinite(results.errors(forecast.name, PERSISTENCE))
            assert observed.any()
            for method in (RAW, AIR):
                assert np.array_equal(np.isfinite(results.errors(forecast.name, method)), observed)
