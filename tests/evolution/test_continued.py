"""Journals of format 2 that earlier versions wrote are continued, bit for bit, by this one."""

import shutil
from pathlib import Path

import pytest

from chop.evolution import tasks
from chop.evolution.journal import JOURNAL_FILE
from chop.evolution.search import evolve
from chop.runs.fingerprint import of_callable
from chop.storage.log import decode_line

ASSETS = Path(__file__).parents[1] / "assets"
TOY = str(ASSETS / "toy_task.py")


def lines_of(folder):
    found = [decode_line(line) for line in (folder / JOURNAL_FILE).read_bytes().splitlines()]
    return [{name: value for name, value in line.items() if name != "clock"} for line in found]


@pytest.mark.parametrize(
    ("asset", "task", "seed"),
    [("evolution_journal_2", TOY, 0), ("evolution_journal_2_conservation", "conservation", 3)],
)
def test_a_journal_of_format_2_is_continued(asset, task, seed, tmp_path):
    """What is stored is met, head and all; nothing is written anew."""
    shutil.copy(ASSETS / f"{asset}.jsonl", tmp_path / JOURNAL_FILE)
    before = (tmp_path / JOURNAL_FILE).read_bytes()
    evolve(task, 13, out=tmp_path, seed=seed)
    assert (tmp_path / JOURNAL_FILE).read_bytes() == before


def test_a_search_takes_the_decisions_it_always_took(tmp_path):
    """The same lines in the same order, with the same names, as when the asset was written."""
    shutil.copy(ASSETS / "evolution_journal_2.jsonl", tmp_path / JOURNAL_FILE)
    before = lines_of(tmp_path)
    evolve(TOY, 13, out=tmp_path / "again")
    assert [list(line.items()) for line in lines_of(tmp_path / "again")] == [list(x.items()) for x in before]


def test_the_metric_of_the_air_task_is_known_by_the_name_that_journals_store():
    stored = "_air_error@:7936f12aa5788989fa8ea8668128e024f97b6146bc643eb75dda9cf6705c52a3"
    assert of_callable(tasks._air_error) == stored
