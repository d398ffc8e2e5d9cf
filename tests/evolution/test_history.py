"""A search read back from its journal, also while it is being written."""

import json
import shutil
import threading
from pathlib import Path

import pytest

from chop.core.errors import EvolutionError
from chop.evolution import SearchHistory
from chop.evolution.journal import JOURNAL_FILE
from chop.storage.log import AppendLog, decode_line, encode_line

ROOT = Path(__file__).parents[2]
ASSETS = ROOT / "tests" / "assets"
KEPT = sorted((ROOT / "docs" / "results" / "evolution").glob("*/journal.jsonl"))
TOY = ASSETS / "evolution_journal_1.jsonl"


@pytest.fixture
def folder(tmp_path):
    shutil.copy(TOY, tmp_path / JOURNAL_FILE)
    return tmp_path


def lines_of(path):
    """The contents of a journal's lines."""
    return [decode_line(line) for line in path.read_bytes().splitlines()]


def write(folder, contents):
    (folder / JOURNAL_FILE).write_bytes(b"".join(map(encode_line, contents)))


def test_a_small_search_as_it_happened(folder):
    history = SearchHistory.read(folder)
    assert (history.folder, history.version, history.task, history.seed) == (folder, "0.1.0", "toy", 0)
    assert history.counts() == {"done": 35, "stopped": 14, "failed": 0}
    assert len(history.candidates) == 49
    assert history.evaluations == 5718
    best = history.best()
    assert (best.number, best.text) == (
        48, "select(icon, correct(rescale(target=0.561) | icon, gate=False))",
    )  # fmt: skip
    assert best.fitness == pytest.approx(2.92784, rel=1e-5)
    assert [candidate.number for candidate in history.family()] == [0, 11, 18, 34, 48]
    first, last = history.progress()[0], history.progress()[-1]
    assert (first.candidate, first.evaluations, first.score, first.best) == (0, 20, 1.0, 1.0)
    assert (last.candidate, last.evaluations, last.score) == (48, 5718, last.best)
    curves = history.ratings()
    assert [(curve.agent, curve.kind) for curve in curves] == [
        (1, "explorer"), (2, "mutator"), (3, "breeder"), (4, "validator"), (5, "simplifier"), (6, "tuner"),
    ]  # fmt: skip
    assert curves[0].points[:2] == ((1, 1516.0), (2, 1497.08558))


@pytest.mark.parametrize("path", KEPT, ids=lambda path: path.parent.name)
def test_kept_searches_are_read_as_they_were_written(path):
    history, lines = SearchHistory.read(path.parent), lines_of(path)
    stored = [line for line in lines if line.get("kind") == "candidate"]
    races = [line for line in lines if line.get("kind") == "race"]
    assert [c.fitness for c in history.candidates] == pytest.approx(
        [line["fitness"] for line in stored], rel=1e-6
    )
    assert history.best().number == races[-1]["best"], "what the search itself held to be best"
    assert history.family()[-1] == history.best()
    born = {agent["agent"]: (race["iteration"], agent["kind"]) for race in races for agent in race["born"]}
    begun = {curve.agent: (curve.points[0][0], curve.kind) for curve in history.ratings()}
    assert {agent: begun[agent] for agent in born} == born
    points = history.progress()
    assert [p.best for p in points] == sorted(p.best for p in points)
    assert points[-1].best == max(p.score for p in points)


def test_a_revised_agent_begins_where_it_was_born():
    history = SearchHistory.read(ROOT / "docs" / "results" / "evolution" / "conservation-0")
    last = history.ratings()[-1]
    assert (last.agent, last.kind, last.points[0]) == (39, "tuner", (85, 1500.0))
    assert (history.best().number, len(history.family())) == (859, 31)


def test_every_beginning_of_a_journal_can_be_read_and_is_left_alone(tmp_path):
    whole = (ASSETS / "evolution_journal_2.jsonl").read_bytes()
    path = tmp_path / JOURNAL_FILE
    head = whole.index(b"\n") + 1
    for end in range(head, len(whole), 101):
        path.write_bytes(whole[:end])
        found = SearchHistory.read(tmp_path)
        assert len(found.candidates) == whole[:end].count(
            b'"kind":"candidate"', 0, whole.rindex(b"\n", 0, end)
        )
        assert path.read_bytes() == whole[:end], "the torn line belongs to the writer"
    assert [file.name for file in tmp_path.iterdir()] == [JOURNAL_FILE], "and no lock is taken"


def test_a_search_without_a_candidate_has_no_best(tmp_path):
    write(tmp_path, lines_of(TOY)[:1])
    history = SearchHistory.read(tmp_path)
    assert history.best() is None
    assert (history.family(), history.progress(), history.ratings()) == ((), (), ())
    assert history.counts() == {"done": 0, "stopped": 0, "failed": 0}


def test_reading_while_another_writes(tmp_path):
    lines = lines_of(TOY)
    log = AppendLog(tmp_path / JOURNAL_FILE, EvolutionError)
    log.append(lines[:1])

    def append():
        for line in lines[1:]:
            log.append([line])

    writer = threading.Thread(target=append)
    writer.start()
    seen = [0]
    while writer.is_alive():
        seen.append(len(SearchHistory.read(tmp_path).candidates))
    writer.join()
    assert seen == sorted(seen)
    assert len(SearchHistory.read(tmp_path).candidates) == 49, "while the writer still holds its lock"
    log.close()


def changed(number, **values):
    """The toy's lines, one of them with other values."""
    lines = lines_of(TOY)
    lines[number] |= values
    return lines


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (lines_of(TOY)[:3] + lines_of(TOY)[4:], "candidate 3 stands where candidate 2 should be"),
        (changed(2, parents=[7]), "comes from one that was not there before"),
        (changed(2, parents=[-1]), "comes from one that was not there before"),
        (changed(2, agent=77), "nobody knows agent 77"),
        (changed(14, ratings={"x": 1.0}), "there is no agent 'x'"),
        (changed(14, ratings={"9": 1.0}), "nobody knows agent 9"),
        (changed(14, born=[3]), "says nothing of an agent that was born"),
        (changed(2, status="great"), "line 3 is no candidate"),
        (changed(0, format="chop-bench-1"), "has format"),
        (changed(0, agents=["wizard"]), "there is no agent wizard"),
    ],
)
def test_lines_that_do_not_fit_are_told(lines, words, tmp_path):
    assert lines_of(TOY)[14]["kind"] == "race"
    write(tmp_path, lines)
    with pytest.raises(EvolutionError, match=words):
        SearchHistory.read(tmp_path)


def test_what_is_no_journal_is_one_sentence(folder):
    path = folder / JOURNAL_FILE
    whole = path.read_bytes()
    path.write_bytes(whole.replace(b'"icon"', b'"Icon"', 1))
    with pytest.raises(EvolutionError, match=r"damaged \(1 lines\)|does not begin like"):
        SearchHistory.read(folder)
    lines = whole.splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:5], b"#" + lines[5], *lines[6:]]))
    with pytest.raises(EvolutionError, match=r"is damaged \(1 lines\): chop evolve on its folder mends it"):
        SearchHistory.read(folder)
    for content, words in ((b"", "is empty"), (b"hello\n", "does not begin like"), (b"\0" * 99, "is empty")):
        path.write_bytes(content)
        with pytest.raises(EvolutionError, match=words):
            SearchHistory.read(folder)
    path.write_text(json.dumps({"format": "chop-evolution-2"}) + "\n")
    with pytest.raises(EvolutionError, match="does not begin like"):
        SearchHistory.read(folder)
    for nowhere in (folder / "away", path, folder / ("n" * 300)):
        with pytest.raises(EvolutionError):
            SearchHistory.read(nowhere)
