"""Searches on the page: started, stopped, drawn, and kept inside one folder."""

import json
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from chop.core.errors import EvolutionError
from chop.evolution import SearchHistory
from chop.evolution.journal import JOURNAL_FILE
from chop.storage.log import decode_line, encode_line
from chop.studio import searches
from chop.studio.search_charts import family_option, progress_option, ratings_option
from chop.studio.searches import (
    LOG_FILE,
    folder_below,
    journals_below,
    running_below,
    search_in,
    start_search,
)

ROOT = Path(__file__).parents[2]
TOY = ROOT / "tests" / "assets" / "evolution_journal_1.jsonl"
CHARTS = (progress_option, ratings_option, family_option)


@pytest.fixture
def toy(tmp_path):
    shutil.copy(TOY, tmp_path / JOURNAL_FILE)
    return SearchHistory.read(tmp_path)


@pytest.fixture(autouse=True)
def ended():
    """No search outlives its test."""
    yield
    searches.stop_all()
    searches._STARTED.clear()


# The charts.


@pytest.mark.parametrize("chart", CHARTS)
@pytest.mark.parametrize("dark", [False, True])
def test_charts_are_json_without_javascript_and_ink_fits_the_page(chart, dark, toy):
    text = json.dumps(chart(toy, dark), allow_nan=False)
    assert ("#e6e9ee" if dark else "#1d2127") in text
    assert ("#1d2127" if dark else "#e6e9ee") not in text
    assert '":' not in text.replace('": ', ""), "a key that begins with a colon would be run as code"
    option = json.loads(text)
    assert option["animation"] is False
    assert option["backgroundColor"] == "transparent"
    assert option["tooltip"]["formatter"] == "{b}", "which ECharts shows as text"


def test_progress_is_every_score_and_the_best_so_far(toy):
    dots, steps = progress_option(toy, False)["series"]
    assert (dots["type"], steps["type"], steps["step"]) == ("scatter", "line", "end")
    assert len(dots["data"]) == len(steps["data"]) == 35
    assert dots["data"][-1]["value"] == steps["data"][-1] == [5718, 2.92784]
    assert dots["data"][-1]["name"].endswith(
        "select(icon, correct(rescale(target=0.561) | icon, gate=False))"
    )
    best = [y for _, y in steps["data"]]
    assert best == sorted(best)


def test_ratings_tell_kinds_apart_by_colour_and_by_dash():
    history = SearchHistory.read(ROOT / "docs" / "results" / "evolution" / "conservation-0")
    for dark in (False, True):
        option = ratings_option(history, dark)
        kinds = ["breeder", "explorer", "mutator", "simplifier", "tuner", "validator"]
        assert option["legend"]["data"] == kinds
        assert len(option["series"]) == 39
        looks = {
            (one["name"], one["lineStyle"]["color"], str(one["lineStyle"]["type"]))
            for one in option["series"]
        }
        assert len(looks) == 6, "agents of one kind look alike"
        assert len({color for _, color, _ in looks}) == len({dash for _, _, dash in looks}) == 6
    assert option["series"][-1]["data"][0]["value"] == [85, 1500.0]
    assert option["grid"]["top"] > 44, "two rows of the legend fit above"


def test_the_family_lies_by_age_and_score_with_arrows_to_children(toy):
    (graph,) = family_option(toy, False)["series"]
    assert [node["id"] for node in graph["data"]] == ["0", "11", "18", "34", "48"]
    assert [node["label"]["formatter"] for node in graph["data"]] == ["#0", "#11", "#18", "#34", "#48"]
    assert [node["value"][0] for node in graph["data"]] == [0, 1, 2, 3, 4]
    assert graph["data"][0]["value"] == [0, 1.0]
    assert graph["data"][-1]["value"] == [4, 2.92784]
    assert {"source": "0", "target": "11"} in graph["links"]
    assert all(int(link["source"]) < int(link["target"]) for link in graph["links"])


def test_a_program_without_error_and_an_empty_search_can_be_drawn(tmp_path):
    lines = [decode_line(line) for line in TOY.read_bytes().splitlines()]
    lines[2] |= {"errors": [0.0] * 20, "status": "done", "fitness": None}
    for count in (1, 2, len(lines)):
        (tmp_path / JOURNAL_FILE).write_bytes(b"".join(map(encode_line, lines[:count])))
        history = SearchHistory.read(tmp_path)
        for chart in CHARTS:
            json.dumps(chart(history, False), allow_nan=False)
    assert history.best().fitness == float("inf")
    assert progress_option(history, False)["series"][1]["data"][-1][1] is None


# Folders.


@pytest.mark.parametrize(
    "typed",
    ["..", "../other", "/", "/etc", "a/../../b", "link", "link/below", "x\0y", "n" * 300, "file", "loop/a"],
)
def test_a_path_that_leads_out_is_refused(typed, tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    (home / "link").symlink_to(tmp_path)
    (home / "loop").symlink_to("loop")
    (home / "file").touch()
    with pytest.raises(EvolutionError, match="is no folder below"):
        folder_below(home, typed)


def test_paths_below_are_taken(tmp_path):
    (tmp_path / "a").mkdir()
    assert folder_below(tmp_path, " a ") == folder_below(tmp_path, str(tmp_path / "a")) == tmp_path / "a"
    assert folder_below(tmp_path, "new/one") == tmp_path / "new" / "one"
    assert folder_below(tmp_path, ".") == tmp_path


def test_journals_are_found_where_one_looks_for_them(tmp_path):
    for name in (".", "b/c", "a", ".hidden", "1/2/3/4/5"):
        (tmp_path / name).mkdir(parents=True, exist_ok=True)
        (tmp_path / name / JOURNAL_FILE).touch()
    assert journals_below(tmp_path) == [".", "a", "b/c"]


# Processes.


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"task": "mine.py"}, "there is no task 'mine.py'; there are conservation, mfc, air"),
        ({"task": str(ROOT / "tests" / "assets" / "toy_task.py")}, "there is no task"),
        ({"budget": 12}, "the budget must be 13 to 2000 candidates, not 12"),
        ({"budget": 2001}, "the budget must be 13 to 2000"),
        ({"seed": -1}, "the seed must be 0 to"),
    ],
)
def test_what_cannot_be_started_is_one_sentence(arguments, words, tmp_path):
    with pytest.raises(EvolutionError, match=words):
        start_search(tmp_path / "new", **({"task": "conservation"} | arguments))
    assert not (tmp_path / "new").exists()


def test_a_folder_that_cannot_be_made_is_one_sentence(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(EvolutionError, match="no search can begin in"):
        start_search(tmp_path / "file" / "below", "conservation")


def test_a_search_that_does_not_end_is_killed_with_its_group(tmp_path, monkeypatch):
    deaf = (
        "import signal, time; signal.signal(signal.SIGINT, signal.SIG_IGN); "
        "signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True); time.sleep(600)"
    )
    monkeypatch.setattr(searches, "_command", lambda *_: [sys.executable, "-c", deaf])
    search = start_search(tmp_path, "conservation")
    while search.last_line != "deaf":
        time.sleep(0.02)
    search.stop(grace=0.2)
    assert (search.running, search.exit, search.stopped) == (False, -9, True)


def test_an_end_that_nobody_asked_for_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr(
        searches,
        "_command",
        lambda *_: [sys.executable, "-c", "print('an old line\\n\\nwhat is wrong\\n'); exit(2)"],
    )
    (tmp_path / LOG_FILE).write_text("of the last search\n")
    search = start_search(tmp_path, "conservation")
    while search.running:
        time.sleep(0.02)
    assert search.words() == "ended with exit code 2: what is wrong"


@pytest.mark.slow
def test_a_search_is_started_stopped_and_continued(tmp_path):
    folder = tmp_path / "here"
    search = start_search(folder, "conservation", budget=2000)
    assert search_in(folder) is search
    assert running_below(tmp_path) is search
    assert search.words() == "running"
    with pytest.raises(EvolutionError, match="is running in"):
        start_search(folder, "conservation")
    journal = folder / JOURNAL_FILE
    while search.running and not (journal.exists() and journal.read_bytes().count(b"\n") > 2):
        time.sleep(0.05)
    search.stop()
    assert search.exit in (130, 143), (folder / LOG_FILE).read_text()
    assert search.words() == "stopped, everything judged is kept"
    assert "the same command continues" in search.last_line
    kept = len(SearchHistory.read(folder).candidates)
    assert kept > 0
    again = start_search(folder, "conservation", budget=13)
    while again.running:
        time.sleep(0.05)
    assert again.words() == "finished", again.last_line
    assert len(SearchHistory.read(folder).candidates) == max(13, kept)


@pytest.mark.slow
def test_a_search_ends_with_the_studio(tmp_path):
    script = (
        "import sys; from pathlib import Path; from chop.studio.searches import start_search; "
        "print(start_search(Path(sys.argv[1]), 'conservation', 2000)._process.pid)"
    )
    found = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True, check=True
    )
    assert not Path(f"/proc/{int(found.stdout)}").exists()


# The tab.


def test_the_table_shows_the_best_and_the_latest_best_first(toy):
    pytest.importorskip("nicegui")
    from chop.studio.search_tab import shown_candidates

    shown = [candidate.number for candidate in shown_candidates(toy, 3)]
    assert shown[0] == 48
    assert {46, 47, 48} <= set(shown)
    assert 3 <= len(shown) <= 6
    assert [c.rank for c in shown_candidates(toy)] == sorted(c.rank for c in shown_candidates(toy))
