"""Evolutions: the same trajectory whoever judges, after kill -9, after damage; a full disk loses nothing."""

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from small_disk import small_disk

import chop
from chop.core.errors import EvolutionError
from chop.evolution.identity import JOURNAL_FORMAT
from chop.evolution.journal import JOURNAL_FILE, Journal, comparable
from chop.evolution.judging import Judge, Submission
from chop.evolution.moves import programs_with_one_less
from chop.evolution.search import PROPOSALS, PRUNING, evolve
from chop.evolution.tasks import load_task
from chop.storage.log import decode_line, encode_line

ASSETS = Path(__file__).parents[1] / "assets"
TOY = str(ASSETS / "toy_task.py")
BUDGET = 1 + 4 * PROPOSALS


def content(folder):
    with Journal(folder, None) as journal:
        return [comparable(record) for record in journal.records]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """An evolution that nothing disturbed."""
    folder = tmp_path_factory.mktemp("whole")
    return evolve(TOY, BUDGET, out=folder)


def test_it_finds_something_better(whole):
    assert whole.fitness > 1.3
    assert whole.winner.status == "done"
    assert chop.parse(whole.winner.text) == whole.program
    numbers = [candidate.number for candidate in whole.state.candidates]
    assert numbers == list(range(BUDGET))
    assert {candidate.status for candidate in whole.state.candidates} >= {"done", "stopped"}
    assert whole.state.population == sorted(whole.state.population, key=lambda c: c.rank)


def test_every_record_says_where_it_comes_from(whole):
    for record in content(whole.out):
        if record["kind"] == "candidate" and record["candidate"]:
            assert record["stream"] == f"0/{record['iteration']}/{record['agent']}"
            assert all(parent < record["candidate"] for parent in record["parents"])
            assert len(record["data"]) == len(record["model"]) == 16
            assert chop.parse(record["program"]).size == record["size"]


@pytest.mark.slow
def test_worker_processes_make_no_difference(whole, tmp_path):
    evolve(TOY, BUDGET, out=tmp_path, executor="processes", workers=2)
    assert content(tmp_path) == content(whole.out)


def test_another_seed_is_another_search(whole, tmp_path):
    evolve(TOY, 1 + PROPOSALS, out=tmp_path, seed=1)
    assert content(tmp_path) != content(whole.out)[: len(content(tmp_path))]


def test_a_larger_budget_goes_on(whole, tmp_path):
    evolve(TOY, 1 + 2 * PROPOSALS, out=tmp_path)
    half = content(tmp_path)
    assert half == content(whole.out)[: len(half)]
    found = evolve(TOY, BUDGET, out=tmp_path)
    assert content(tmp_path) == content(whole.out)
    assert found.winner.text == whole.winner.text


def test_a_finished_evolution_judges_nothing_again(whole, monkeypatch):
    monkeypatch.setattr(Judge, "__call__", lambda self, job: pytest.fail("it was judged before"))
    before = (whole.out / JOURNAL_FILE).read_bytes()
    assert evolve(TOY, BUDGET, out=whole.out).winner == whole.winner
    assert (whole.out / JOURNAL_FILE).read_bytes() == before


def killed(folder, seed, kills, executor="inline"):
    """Run to the end through a number of kill -9 at random instants."""
    moments = random.Random(seed)
    command = [
        sys.executable, "-c",
        "import sys, torch; torch.set_num_threads(1)\n"
        "from chop.evolution.search import evolve\n"
        "if __name__ == '__main__': evolve(sys.argv[1], int(sys.argv[2]), out=sys.argv[3], "
        "executor=sys.argv[4], workers=1)",
        TOY, str(BUDGET), str(folder), executor,
    ]  # fmt: skip
    for _ in range(kills):
        process = subprocess.Popen(command, env={**os.environ, "OMP_NUM_THREADS": "1"})
        size = (folder / JOURNAL_FILE).stat().st_size if (folder / JOURNAL_FILE).exists() else 0
        while process.poll() is None and not (
            (folder / JOURNAL_FILE).exists() and (folder / JOURNAL_FILE).stat().st_size > size
        ):
            time.sleep(0.002)
        time.sleep(moments.uniform(0.0, 0.25))  # somewhere in the middle of its work
        process.send_signal(signal.SIGKILL)
        process.wait()
    subprocess.run(command, check=True, env={**os.environ, "OMP_NUM_THREADS": "1"})


KILLS = int(os.environ.get("CHOP_KILLS", "2"))
"""make validity kills thirty times."""


@pytest.mark.slow
def test_killed_again_and_again_it_comes_to_the_same_end(whole, tmp_path):
    killed(tmp_path, 7, KILLS)
    assert content(tmp_path) == content(whole.out)


def test_a_torn_line_is_mended(whole, tmp_path):
    text = (whole.out / JOURNAL_FILE).read_bytes()
    lines = text.splitlines(keepends=True)
    (tmp_path / JOURNAL_FILE).write_bytes(b"".join(lines[:20]) + lines[20][:50])
    evolve(TOY, BUDGET, out=tmp_path)
    assert content(tmp_path) == content(whole.out)


def test_a_damaged_line_is_told_and_nothing_else_is_judged_again(whole, tmp_path, monkeypatch):
    lines = (whole.out / JOURNAL_FILE).read_bytes().splitlines(keepends=True)
    number = next(
        i for i, line in enumerate(lines) if i > 20 and decode_line(line[:-1])["kind"] == "candidate"
    )
    lines[number] = lines[number].replace(b'"status"', b'"stotus"')
    (tmp_path / JOURNAL_FILE).write_bytes(b"".join(lines))
    judged = []
    plain = Judge.__call__
    monkeypatch.setattr(Judge, "__call__", lambda self, job: judged.append(job.text) or plain(self, job))
    said = []
    evolve(TOY, BUDGET, out=tmp_path, show=said.append)
    assert "1 damaged lines" in said[0]
    assert len(judged) == 1
    assert content(tmp_path) == content(whole.out)
    assert (tmp_path / "journal.damaged-1.jsonl").read_bytes() == b"".join(lines)


def test_a_full_disk_is_a_sentence_and_loses_nothing(whole, tmp_path):
    with small_disk(12_000), pytest.raises(EvolutionError, match="everything before is kept"):
        evolve(TOY, BUDGET, out=tmp_path)
    kept = (tmp_path / JOURNAL_FILE).read_bytes()
    assert kept.endswith(b"\n")
    evolve(TOY, BUDGET, out=tmp_path)
    assert (tmp_path / JOURNAL_FILE).read_bytes().startswith(kept)
    assert content(tmp_path) == content(whole.out)


def test_two_cannot_write_at_once(whole):
    with (
        Journal(whole.out, Journal(whole.out, None).identity),
        pytest.raises(EvolutionError, match="another process is writing"),
    ):
        evolve(TOY, BUDGET, out=whole.out)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"seed": 3}, "its seed is 0, not 3"),
        ({"agents": "random"}, "its agents is builtin, not random"),
        ({"start": "flip | icon"}, "the start program of the task changed"),
        ({"cases": slice(0, 10)}, "the questions of the task changed"),
        ({"model": lambda prompt: prompt.query.values}, "the model of the task changed"),
    ],
)
def test_another_evolution_is_refused(whole, change, words):
    task = load_task(TOY)
    given = {key: change.pop(key) for key in ("seed", "agents") if key in change}
    if "cases" in change:
        change["cases"] = task.cases[change["cases"]]
    with pytest.raises(EvolutionError, match=words):
        evolve(replace(task, **change), BUDGET, out=whole.out, **given)


def test_a_journal_that_leads_elsewhere_is_refused(whole, tmp_path):
    lines = [decode_line(line) for line in (whole.out / JOURNAL_FILE).read_bytes().splitlines()]
    lines[5]["program"] = "flip | icon | finite"
    (tmp_path / JOURNAL_FILE).write_bytes(b"".join(map(encode_line, lines)))
    with pytest.raises(EvolutionError, match="line 6: a candidate is stored"):
        evolve(TOY, BUDGET, out=tmp_path)


def test_the_best_program_is_tried_without_each_of_its_parts(tmp_path):
    found = evolve(TOY, 150, out=tmp_path)
    pruned = [c for c in found.state.candidates if c.move == "prune"]
    assert pruned
    for candidate in pruned:
        (parent,) = (found.state.candidates[number] for number in candidate.parents)
        assert candidate.size < parent.size
        assert candidate.text in map(str, programs_with_one_less(parent.program()))
        assert candidate.iteration % PRUNING == 0
        before = [c for c in found.state.candidates if c.iteration < candidate.iteration]
        assert parent == min(before, key=lambda c: c.rank)
    random = evolve(TOY, 150, out=tmp_path / "random", agents="random")
    assert not [c for c in random.state.candidates if c.move == "prune"]


def test_journals_of_format_1_stay_readable(tmp_path):
    """The asset was written by the first version of the format and must be read by every later one."""
    shutil.copy(ASSETS / "evolution_journal_1.jsonl", tmp_path / JOURNAL_FILE)
    with Journal(tmp_path, None) as journal:
        first = decode_line((tmp_path / JOURNAL_FILE).read_bytes().splitlines()[0])
        assert first["format"] == "chop-evolution-1"
        done = [r for r in journal.records if r["kind"] == "candidate" and r["status"] == "done"]
        assert max(record["fitness"] for record in done) > 1.3
        assert journal.identity.task == "toy"
        assert all(chop.parse(record["program"]) for record in done)


def test_what_is_no_journal_is_said(tmp_path):
    with pytest.raises(EvolutionError, match="holds no evolution"):
        Journal(tmp_path, None)
    (tmp_path / JOURNAL_FILE).write_bytes(encode_line({"format": f"{JOURNAL_FORMAT}9"}))
    with pytest.raises(EvolutionError, match="this version reads"):
        Journal(tmp_path, None)
    (tmp_path / JOURNAL_FILE).write_bytes(b"hello\n")
    with pytest.raises(EvolutionError, match="does not begin like an evolution"):
        Journal(tmp_path, None)


def test_failures_rank_last_and_say_why(tmp_path):
    judge = Judge(load_task(TOY))
    verdict = judge(Submission("nearest_examples(k=1) | correct(icon)"))
    assert verdict.status == "failed"
    assert "at least 2" in verdict.reason
    bar = judge(Submission("icon")).errors
    stopped = judge(Submission("flip | (icon | within_examples)", tuple(error / 9 for error in bar)))
    assert stopped.status == "stopped"
    assert stopped.reason == "clearly worse"
    assert len(stopped.errors) == 2, "a tenth of twenty questions was enough"
    same = judge(Submission("icon | finite", bar, ((7, bar),)))
    assert (same.status, same.reason, len(same.errors)) == ("stopped", "does what #7 does", 5)
    task = load_task(TOY)
    lost = Judge(replace(task, model=lambda prompt: prompt.query.values / 0 * 0))
    assert lost(Submission("icon")).reason == "2 of 2 answers are not finite"
    with pytest.raises(EvolutionError, match="start program icon fails on this task: 2 of 2"):
        evolve(replace(task, model=lambda prompt: prompt.query.values / 0 * 0), BUDGET, out=tmp_path)


def test_bad_tasks_are_sentences(tmp_path):
    task = load_task(TOY)
    with pytest.raises(EvolutionError, match="no task 'weather': neither a file nor one of conservation"):
        load_task("weather")
    (tmp_path / "empty.py").write_text("x = 1\n")
    with pytest.raises(EvolutionError, match="defines no task"):
        load_task(str(tmp_path / "empty.py"))
    (tmp_path / "failing.py").write_text("1 / 0\n")
    with pytest.raises(EvolutionError, match=r"failing.py failed when it was run \(ZeroDivisionError"):
        load_task(str(tmp_path / "failing.py"))
    with pytest.raises(EvolutionError, match="operators that do not exist: magic"):
        replace(task, operators=("magic",))
    with pytest.raises(EvolutionError, match="at least 2 questions on one batch axis"):
        replace(task, cases=task.cases[:1])
    with pytest.raises(EvolutionError, match="one error a question"):
        evolve(replace(task, metric=lambda answers, cases: answers), BUDGET, out=tmp_path / "metric")
    with pytest.raises(EvolutionError, match="budget must be at least"):
        evolve(task, 3, out=tmp_path)
    with pytest.raises(EvolutionError, match="executor must be one of processes, inline, ray"):
        evolve(task, BUDGET, out=tmp_path, executor="magic")
    with pytest.raises(EvolutionError, match="need an address"):
        evolve(task, BUDGET, out=tmp_path / "llm", agents="llm")
