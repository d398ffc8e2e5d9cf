"""Networks and regions of any name: asked through the command, stored, told, refused where they are odd."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

pytest.importorskip("xarray")

from chop.bench import air_figures, air_tables, report
from chop.bench.air import AirSuite
from chop.bench.air_directions import (
    DIRECTIONS,
    Direction,
    StationNetwork,
    directions_between,
    given_network,
    stored_directions,
)
from chop.bench.results import Results
from chop.bench.store import FILE, About, Store
from chop.cli import app
from chop.core.errors import BenchError, ChopError, DataError
from chop.icon import StationConfig, StationIcon, provenance, save
from chop.problems import air
from chop.problems.air.dataset import check_region_name, regions_in
from chop.storage.log import encode_line

CARRIED = ("plain-north-east", "plain-yrd", "north_east-yrd")
SMALL = StationConfig(
    channels=("hour", "NO2", "PM2.5", "O3"), width=24, heads=2, window_layers=1, pair_layers=1,
    asking_layers=1, lengths=(30.0, 200.0), each=8,
)  # fmt: skip


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """An invented world whose first region has another name, and two networks, one of which tells its own."""
    folder = tmp_path_factory.mktemp("regions")
    world = air.make_world(folder / "world", 24 * 60, (4, 3), weather=False, start="2023-12-01")
    for kind, end in (("dataset", "nc"), ("stations", "csv")):
        shutil.move(world / f"{kind}_bthsa.{end}", world / f"{kind}_north-east.{end}")
    cards = {"plain": {}, "weights": {"command": "chop train air --region north-east --steps 9 --seed 0"}}
    for seed, (name, card) in enumerate(cards.items()):
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            network = StationIcon(SMALL)
            torch.nn.init.normal_(network.head.weight, std=0.2)
        save(network, folder / f"{name}.safetensors", card)
    return folder


def run(*words: str):
    return CliRunner().invoke(app, ["bench", "air", "--executor", "inline", *words])


@pytest.fixture(scope="module")
def finished(home):
    """Two networks about two regions: three ways carried, one at home."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(report, "RESOLUTION", 30)  # drawn as always, painted small
        done = run(
            "--data", str(home / "world"), "--network", str(home / "plain.safetensors"), "--network",
            str(home / "weights.safetensors"), "--region", "north-east", "--region", "yrd", "--every", "42",
            "--cases", "2", "--out", str(home / "out"),
        )  # fmt: skip
    assert done.exit_code == 0, (done.output, done.exception)
    return home / "out"


def test_every_network_is_asked_about_every_region(finished):
    with Store(finished, AirSuite.layout) as store:
        assert {(kind, name) for kind, name in store.used} == {
            ("network", "plain"), ("network", "north_east"), ("data", "north-east"), ("data", "yrd"),
        }  # fmt: skip
        assert store.used["network", "north_east"].trained == "north-east"
        results = Results(store, AirSuite())
    found = {dict(entry.condition.settings)["direction"] for entry in results.entries.values()}
    assert {d.name: d.carried for d in found} == {
        **dict.fromkeys(CARRIED, True),
        "north_east-north-east": False,
    }


def test_tables_and_figures_of_any_name(finished):
    text = (finished / "table.md").read_text(encoding="utf-8")
    for title in (
        "RMSE, plain → north-east, random",
        "RMSE, north_east → YRD, similar",
        "Baselines, plain → YRD",
    ):
        assert title in text
    assert "| north-east at home |" in text
    assert "paper:" not in text
    assert "as in the paper" not in text
    assert "- networks: north_east (sha256" in text
    assert {path.stem for path in (finished / "figures").iterdir()} == {
        "stations", "leads", "leads_2", "weights", "weights_2",
        *(f"{kind}_{name}" for kind in ("maps", "boxes") for name in CARRIED),
    }  # fmt: skip
    page = (finished / "report.html").read_text(encoding="utf-8")
    assert "Forecasts of the plain network in north-east" in page
    assert "by lead: plain → north-east." in page
    kept = json.loads((finished / "results.json").read_text(encoding="utf-8"))
    assert {entry["direction"] for entry in kept["measured"]} == set(
        kept["hours since 1970 of the questions"]
    )


@pytest.fixture
def undrawn(monkeypatch):
    """Drawn once is enough."""
    monkeypatch.setattr(
        air_tables, "AIR_REPORT", replace(air_tables.AIR_REPORT, figures=lambda results, setting: {})
    )


def test_the_report_is_written_anew_from_the_folder_alone(finished, undrawn, monkeypatch):
    monkeypatch.delenv("CHOP_AIR_DATA", raising=False)
    before = {name: (finished / name).read_bytes() for name in ("table.md", "results.json", FILE)}
    done = run("--report-only", "--out", str(finished))
    assert done.exit_code == 0, done.output
    assert {name: (finished / name).read_bytes() for name in before} == before


def test_the_same_command_measures_nothing_again_and_another_network_is_added(home, finished, undrawn):
    stored = (finished / FILE).read_bytes()
    out = home / "more"
    out.mkdir()
    (out / FILE).write_bytes(stored)
    words = ("--data", str(home / "world"), "--every", "42", "--cases", "2", "--out", str(out))
    same = run(*words, "--network", str(home / "plain.safetensors"), "--region", "yrd")
    assert same.exit_code == 0, same.exception
    assert (out / FILE).read_bytes() == stored
    more = run(*words, "--network", f"later={home / 'plain.safetensors'}", "--region", "north-east")
    assert more.exit_code == 0, more.exception
    assert (out / FILE).read_bytes().startswith(stored)
    assert "RMSE, later → north-east" in (out / "table.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--region", "west"), "has no region 'west': it has north-east, yrd"),
        (("--region", "a/b"), "a region cannot be called 'a/b'"),
        (("--region", ".."), "a region cannot be called '..'"),
        (("--network", "plain"), "about with --region; WORLD has north-east, yrd"),
        (("--network", "mfc", "--region", "yrd"), "mfc is not a network of stations"),
        (("--network", "WORLD/stations_yrd.csv", "--region", "yrd"), "csv is not a readable weights"),
        (("--network", "nowhere", "--region", "yrd"), "there is no network 'nowhere'"),
        (("--network", "a-b=PLAIN", "--region", "yrd"), "--network NAME=PLAIN"),
        (("--network", "PLAIN", "--network", "PLAIN", "--region", "yrd"), "two networks are called plain"),
        (("--region", "yrd", "--direction", "bthsa-yrd"), "belong to the bundled directions"),
        (("--network", "PLAIN", "--region", "yrd", "--model", "bthsa=PLAIN"), "say --network NAME=FILE"),
        (("--direction", "plain-yrd"), "no direction 'plain-yrd'"),
    ],
)  # fmt: skip
def test_what_cannot_be_asked_is_one_sentence(home, tmp_path, arguments, words):
    places = {"WORLD": str(home / "world"), "PLAIN": str(home / "plain.safetensors")}

    def put(text: str) -> str:
        for name, place in places.items():
            text = text.replace(name, place)
        return text

    out = tmp_path / "out"
    done = run("--data", places["WORLD"], "--out", str(out), *map(put, arguments))
    assert isinstance(done.exception, ChopError), done.output
    assert put(words) in str(done.exception)
    assert not out.exists()


def test_how_networks_are_called(home, monkeypatch):
    assert given_network("air_bthsa") == given_network("bthsa") == StationNetwork("bthsa", "air_bthsa")
    plain, card = (str(home / f"{name}.safetensors") for name in ("plain", "weights"))
    assert given_network(plain) == StationNetwork("plain", plain)
    assert given_network(card) == StationNetwork("north_east", card, "north-east")
    assert given_network(f"mine={card}") == StationNetwork("mine", card, "north-east")
    assert given_network("north=air_yrd") == StationNetwork("north", "air_yrd", "yrd")
    odd = shutil.copy(plain, home / "rate=1e-3.safetensors")
    monkeypatch.chdir(home)
    with pytest.raises(BenchError, match="--network NAME=rate=1e-3"):
        given_network(Path(odd).name)
    assert given_network(f"rate={Path(odd).name}").model == Path(odd).name


def test_labels_of_any_name():
    assert Direction("mine", "north").label == "mine → north"
    assert Direction("mine", "north", "north").label == "mine in north"
    assert Direction("north_east", "north-east", "north-east").label == "north-east at home"
    assert Direction("bthsa", "bthsa").label == "BTHSA at home"
    assert Direction("mine", "yrd", "bthsa").label == "mine → YRD"


def test_the_usual_directions_are_those_of_the_bundled_networks():
    networks = [StationNetwork(name, "") for name in ("bthsa", "yrd")]
    assert tuple(directions_between(networks, ("bthsa", "yrd"))) == DIRECTIONS
    assert sorted(AirSuite(regions=("yrd", "bthsa")).asked, key=str) == sorted(AirSuite().asked, key=str)


@pytest.mark.parametrize("line", [
    {"used": "network", "region": "../../x", "sha256": "", "name": ""},
    {"asked": "../x", "every": 6, "hours": [1]},
])  # fmt: skip
def test_odd_names_in_a_folder_of_somebody_elses_are_refused(tmp_path, line):
    head = {"format": "chop-bench-air-1", "version": "0.1.0", "seed": 0, "year": 2024}
    (tmp_path / FILE).write_bytes(encode_line(head) + encode_line(line))
    with (
        Store(tmp_path, AirSuite.layout) as store,
        pytest.raises(ChopError, match=r"odd name|cannot be called"),
    ):
        stored_directions(store)


def test_a_folder_may_hold_more_than_is_at_hand(home, finished, tmp_path):
    """Maps are drawn of directions whose network and data were given."""
    plain = f"plain={home / 'plain.safetensors'}"
    setting = AirSuite(home / "world", networks=(plain,), regions=("yrd",)).setting(tmp_path)
    with pytest.MonkeyPatch.context() as patch:
        for name in ("boxes", "by_lead", "weights", "station_graphs", "one_day"):
            patch.setattr(air_figures, name, lambda *given: None)
        with Store(finished, AirSuite.layout) as store:
            drawn = air_figures.air_figures(Results(store, AirSuite()), setting)
    assert [name for name in drawn if name.startswith("maps")] == ["maps_plain-yrd"]


def test_where_a_network_was_trained_is_kept_once(tmp_path):
    about = About("0.1.0", 0, 2024)
    with Store(tmp_path, AirSuite.layout, about) as store:
        store.use("network", "mine", "0" * 64, "mine.safetensors", "north")
        once = (tmp_path / FILE).read_bytes()
        store.use("network", "mine", "0" * 64, "mine.safetensors", "north")
        assert (tmp_path / FILE).read_bytes() == once
        store.use("network", "mine", "0" * 64, "mine.safetensors", "south")
    with Store(tmp_path, AirSuite.layout) as store:
        assert store.used["network", "mine"].trained == "south"


@pytest.mark.parametrize("name", ["", "a b", "ä", "-a", ".a", "a\n", "a$b", "x" * 65])
def test_odd_region_names(name):
    with pytest.raises(DataError, match="a region cannot be called"):
        check_region_name(name)


def test_an_invented_world_of_any_names(tmp_path):
    made = CliRunner().invoke(
        app, ["data", "air", "--world", str(tmp_path / "w"), "--names", "north", "south-1", "--hours", "48",
              "--stations", "3", "2", "--no-weather"]
    )  # fmt: skip
    assert made.exit_code == 0, made.output
    assert made.output.endswith("two invented regions, north and south-1\n")
    assert regions_in(tmp_path / "w") == ("north", "south-1")
    usual = air.make_world(tmp_path / "usual", 48, (3, 2), weather=False)
    there, here = air.load_region(tmp_path / "w", "north"), air.load_region(usual, "bthsa")
    assert (there.name, there.stations) == ("north", here.stations)
    for names in (("north", "north"), ("no/rth", "south")):
        with pytest.raises(DataError):
            air.make_world(tmp_path / "x", 48, (3, 2), names=names)
    assert not (tmp_path / "x").exists()


def test_training_in_a_region_of_any_name(home, tmp_path):
    out = tmp_path / "run"
    words = ["train", "air", "--data", str(home / "world"), "--steps", "12", "--size", "1", "--stations", "3",
             "--period", "2023-12-01", "2024-01-20", "--out", str(out)]  # fmt: skip
    unknown = CliRunner().invoke(app, [*words, "--region", "west"])
    assert unknown.exit_code == 2
    assert "has no region 'west': it has north-east, yrd" in unknown.output
    odd = CliRunner().invoke(app, [*words, "--region", "a/b"])
    assert "a region cannot be called 'a/b'" in odd.output
    assert not out.exists()


def test_a_network_trained_there_is_at_home_there(home, tmp_path):
    out = tmp_path / "run"
    done = CliRunner().invoke(
        app,
        ["train", "air", "--data", str(home / "world"), "--steps", "12", "--size", "1", "--stations", "3",
         "--period", "2023-12-01", "2024-01-20", "--out", str(out), "--region", "north-east"],
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    weights = out / "weights.safetensors"
    assert "--region north-east" in provenance(weights).training["command"]
    assert given_network(str(weights)) == StationNetwork("north_east", str(weights), "north-east")
