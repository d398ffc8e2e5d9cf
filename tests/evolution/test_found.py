"""The programs of the catalog that nobody wrote are those that the kept journals lead to."""

import shutil
from pathlib import Path

import pytest

import chop
from chop.core.catalog import EVOLVED, FOUND, best_found
from chop.evolution.journal import Journal
from chop.evolution.search import evolve
from chop.storage.log import decode_line

JOURNALS = Path(__file__).parents[2] / "docs" / "results" / "evolution"


def folder(found):
    return JOURNALS / f"{found.task}-{found.seed}"


def name(found):
    return f"{found.task}-{found.seed}"


@pytest.mark.parametrize("found", FOUND, ids=name)
def test_the_catalog_has_what_the_journal_ended_with(found, tmp_path):
    shutil.copytree(folder(found), tmp_path, dirs_exist_ok=True)
    before = (tmp_path / "journal.jsonl").read_bytes()
    with Journal(tmp_path, None) as journal:
        candidates = {r["candidate"]: r for r in journal.records if r["kind"] == "candidate"}
        last = [r for r in journal.records if r["kind"] == "race"][-1]
        assert (journal.identity.task, journal.identity.seed) == (found.task, found.seed)
        assert journal.identity.version == "0.1.0"
    assert (tmp_path / "journal.jsonl").read_bytes() == before
    assert candidates[last["best"]]["program"] == found.text
    assert candidates[0]["program"] == "icon"
    assert len(candidates) <= found.budget
    assert str(chop.parse(found.text)) == found.text


def test_no_line_of_a_journal_is_damaged():
    lines = [line for path in JOURNALS.rglob("journal.jsonl") for line in path.read_bytes().splitlines()]
    assert len(lines) > 1000
    assert all(decode_line(line) is not None for line in lines)


def test_the_best_of_the_runs_are_in_the_catalog():
    assert set(EVOLVED) == {f"{found.task}_evolved" for found in FOUND}
    for task in {found.task for found in FOUND}:
        best = best_found(task)
        assert chop.programs[f"{task}_evolved"] == chop.parse(best.text)
        assert all(found.reduction <= best.reduction for found in FOUND if found.task == task)


def test_a_kept_journal_replays(tmp_path):
    """This code, from the seed, comes to every line of a run that was made with it."""
    found = next(found for found in FOUND if (found.task, found.seed) == ("conservation", 1))
    shutil.copytree(folder(found), tmp_path, dirs_exist_ok=True)
    before = (tmp_path / "journal.jsonl").read_bytes()
    evolved = evolve(found.task, found.budget, out=tmp_path, seed=found.seed)
    assert evolved.winner.text == found.text
    assert (tmp_path / "journal.jsonl").read_bytes() == before
