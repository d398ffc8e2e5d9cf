"""A search continues with its own rules only: what changed is named; searches of 0.1.0 still continue."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import chop
from chop.core.errors import EvolutionError
from chop.evolution import tasks
from chop.evolution.identity import FIRST_FORMAT, JOURNAL_FORMAT
from chop.evolution.journal import JOURNAL_FILE, Journal, comparable
from chop.evolution.search import PROPOSALS, evolve
from chop.evolution.tasks import load_task
from chop.runs.fingerprint import of_callable
from chop.storage.log import decode_line, encode_line

ASSETS = Path(__file__).parents[1] / "assets"
TOY = str(ASSETS / "toy_task.py")
BUDGET = 1 + PROPOSALS


def lines_of(folder):
    return [decode_line(line) for line in (folder / JOURNAL_FILE).read_bytes().splitlines()]


def content(folder):
    with Journal(folder, None) as journal:
        return [comparable(record) for record in journal.records]


@pytest.fixture(scope="module")
def begun(tmp_path_factory):
    folder = tmp_path_factory.mktemp("begun")
    evolve(TOY, BUDGET, out=folder)
    return folder


@pytest.fixture
def first_format(begun, tmp_path):
    """The same search under the head that version 0.1.0 gave it."""
    head = (ASSETS / "evolution_journal_1.jsonl").read_bytes().splitlines(keepends=True)[0]
    (tmp_path / JOURNAL_FILE).write_bytes(head + b"".join(map(encode_line, lines_of(begun)[1:])))
    return tmp_path


def mean_error(answers, cases):
    return (answers - cases.target).abs().mean(dim=(-1, -2))


def changed(task, what):
    prompt = task.cases.prompt
    axes = tuple(chop.Axis(f"{axis.name}_", axis.period) for axis in prompt.axes)
    mask = torch.ones_like(task.cases.target, dtype=torch.bool)
    return {
        "metric": lambda: {"metric": mean_error},
        "axes": lambda: {"cases": replace(task.cases, prompt=prompt.mapped(axes=axes))},
        "times": lambda: {"cases": replace(task.cases, prompt=prompt.mapped(times=prompt.times + 1))},
        "masks": lambda: {"cases": replace(task.cases, mask=mask)},
        "seconds": lambda: {"limits": replace(task.limits, seconds=7.0)},
        "calls": lambda: {"limits": replace(task.limits, calls=17)},
        "operators": lambda: {"operators": tuple(o for o in task.operators if o != "flip")},
        "start": lambda: {"start": "flip | icon"},
        "validation": lambda: {"validation": task.validation[:10]},
    }[what]()


WORDS = {
    "metric": "the metric of the task changed; use another folder",
    "axes": "the axes of the questions of the task changed; use",
    "times": "the times of the questions of the task changed; use",
    "masks": "the masks of the answers of the task changed; use",
    "seconds": r"the limits of the task changed \(seconds 120.0, now 7.0\); use",
    "calls": r"the limits of the task changed \(calls 18, now 17\); use",
    "operators": r"the operators of the task changed \(now without flip\); use",
    "start": r"the start program of the task changed \(icon, now flip | icon\); use",
    "validation": "the questions of the task changed; use",
}


@pytest.mark.parametrize("what", WORDS)
def test_what_changed_is_named(begun, what):
    task = load_task(TOY)
    before = (begun / JOURNAL_FILE).read_bytes()
    with pytest.raises(EvolutionError, match=WORDS[what]):
        evolve(replace(task, **changed(task, what)), BUDGET, out=begun)
    assert (begun / JOURNAL_FILE).read_bytes() == before


def test_everything_that_changed_is_named(begun):
    task = load_task(TOY)
    other = replace(task, metric=mean_error, limits=replace(task.limits, size=9, memory=1))
    words = r"the metric .* changed, and the limits .* changed \(size 10, now 9; memory 4096, now 1\)"
    with pytest.raises(EvolutionError, match=words):
        evolve(other, BUDGET, out=begun)


def test_a_metric_is_the_same_wherever_its_file_is_loaded_from(tmp_path, monkeypatch):
    """In Python and in a terminal, as the tutorial does; and it is another once its file says so."""
    text = (
        f"from pathlib import Path\nexec(Path({TOY!r}).read_text())\nimport dataclasses\nPOWER = 1\n"
        "def error(answers, cases):\n"
        "    return (answers - cases.target).abs().pow(POWER).mean(dim=(-1, -2))\n"
        "task = dataclasses.replace(task, metric=error)\n"
    )
    (tmp_path / "own_metric.py").write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    import own_metric

    evolve(own_metric.task, BUDGET, out=tmp_path / "out")
    path = str(tmp_path / "own_metric.py")
    evolve(path, BUDGET, out=tmp_path / "out")
    Path(path).write_text(text.replace("POWER = 1", "POWER = 2"))
    with pytest.raises(EvolutionError, match="the metric of the task changed"):
        evolve(path, BUDGET, out=tmp_path / "out")


def test_a_search_of_0_1_0_continues_and_learns_what_it_did_not_know(first_format):
    before = content(first_format)
    assert lines_of(first_format)[0]["format"] == FIRST_FORMAT
    evolve(TOY, BUDGET, out=first_format)
    assert len(lines_of(first_format)) == len(before) + 1, "nothing new, nothing written"
    evolve(TOY, 1 + 2 * PROPOSALS, out=first_format)
    assert content(first_format)[: len(before)] == before
    assert len(content(first_format)) > len(before)
    (added,) = (line for line in lines_of(first_format) if line.get("kind") == "head")
    assert added["format"] == JOURNAL_FORMAT
    assert {"axes", "times", "masks", "metric"} <= added["parts"].keys()
    evolve(TOY, 1 + 3 * PROPOSALS, out=first_format)
    assert sum(line.get("kind") == "head" for line in lines_of(first_format)) == 1
    task = load_task(TOY)
    with pytest.raises(EvolutionError, match="the metric of the task changed"):
        evolve(replace(task, metric=mean_error), BUDGET, out=first_format)


@pytest.mark.parametrize("what", ["calls", "operators", "start", "validation"])
def test_a_search_of_0_1_0_is_held_to_what_it_knows(first_format, what):
    task = load_task(TOY)
    with pytest.raises(EvolutionError, match=WORDS[what]):
        evolve(replace(task, **changed(task, what)), BUDGET, out=first_format)


def test_another_version_continues_if_it_comes_to_the_same_errors(begun, tmp_path, monkeypatch):
    shutil.copytree(begun, tmp_path, dirs_exist_ok=True)
    begun_by = chop.__version__
    monkeypatch.setattr(chop, "__version__", "9.9.9")
    evolve(TOY, 1 + 2 * PROPOSALS, out=tmp_path)
    assert [line["version"] for line in lines_of(tmp_path) if "version" in line] == [begun_by, "9.9.9"]
    found = Journal(tmp_path, None)
    assert found.identity.version == "9.9.9"
    worse = lines_of(begun)
    worse[1]["errors"] = [1.1 * error for error in worse[1]["errors"]]
    (tmp_path / JOURNAL_FILE).write_bytes(b"".join(map(encode_line, worse)))
    with pytest.raises(EvolutionError, match="and this one comes to other errors"):
        evolve(TOY, BUDGET, out=tmp_path)


# Journals that earlier versions wrote.


@pytest.mark.parametrize(
    ("asset", "task", "seed"),
    [("evolution_journal_2", TOY, 0), ("evolution_journal_2_conservation", "conservation", 3)],
)
def test_a_journal_of_format_2_is_continued(asset, task, seed, tmp_path):
    """What is stored is met, head and all; nothing is written anew."""
    shutil.copy(ASSETS / f"{asset}.jsonl", tmp_path / JOURNAL_FILE)
    before = (tmp_path / JOURNAL_FILE).read_bytes()
    evolve(task, BUDGET, out=tmp_path, seed=seed)
    assert (tmp_path / JOURNAL_FILE).read_bytes() == before


def near(value):
    """The same, with every number that is not whole to six digits."""
    if isinstance(value, float):
        return pytest.approx(value, rel=1e-6)
    if isinstance(value, dict):
        return {name: near(part) for name, part in value.items()}
    return type(value)(near(part) for part in value) if isinstance(value, list | tuple) else value


def test_a_search_takes_the_decisions_it_always_took(tmp_path):
    """The same lines in the same order, with the same names, as when the asset was written.

    Errors are those of float32, whose last digit depends on the processor.
    """
    shutil.copy(ASSETS / "evolution_journal_2.jsonl", tmp_path / JOURNAL_FILE)
    evolve(TOY, BUDGET, out=tmp_path / "again")
    before, after = (
        [list(comparable(line).items()) for line in lines_of(folder)]
        for folder in (tmp_path, tmp_path / "again")
    )
    assert after == near(before)


def test_the_metric_of_the_air_task_is_known_by_the_name_that_journals_store():
    stored = "_air_error@:7936f12aa5788989fa8ea8668128e024f97b6146bc643eb75dda9cf6705c52a3"
    assert of_callable(tasks._air_error) == stored
