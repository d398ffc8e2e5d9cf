"""Candidates that hang, grow or kill their process are really stopped, and the others are judged."""

import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from chop.core.errors import EvolutionError
from chop.evolution.judging import JudgePool, Submission, Verdict
from chop.evolution.search import evolve
from chop.evolution.tasks import load_task
from chop.runs.pool import in_order
from chop.runs.pool.workers import resident

ASSETS = Path(__file__).parents[1] / "assets"
BROKEN = str(ASSETS / "broken_task.py")
TOY = str(ASSETS / "toy_task.py")


@pytest.mark.slow
def test_what_hangs_grows_or_dies_is_stopped():
    texts = [
        "nearest_examples(k=2) | icon",
        "icon",
        "nearest_examples(k=3) | icon",
        "nearest_examples(k=4) | icon",
        "nearest_examples(k=1) | icon",
        "flip | icon",
    ]
    begun = time.monotonic()
    with JudgePool("processes", BROKEN, 1, load_task(BROKEN).limits) as judges:
        found = list(judges.run([Submission(text) for text in texts]))
        running = [worker.process.pid for worker in judges.pool._workers]
    assert [verdict.status for verdict in found] == ["failed", "done", "failed", "failed", "failed", "done"]
    assert found[0].reason == "stopped after 10 s"
    assert found[2].reason == "stopped at 1200 MB of memory"
    assert found[3].reason == "2 worker processes died under it"
    assert "ZeroDivisionError: somebody else's bug" in found[4].reason
    assert time.monotonic() - begun < 200
    assert running
    assert all(not Path(f"/proc/{pid}").exists() for pid in running), "nobody is left behind"


def test_memory_is_told():
    assert resident(os.getpid()) > 2**20
    assert resident(2**22 + 1) == 0


def test_time_outs_are_taken_from_the_journal(tmp_path, monkeypatch):
    """A verdict that only a clock gave is replayed, not given again."""

    class Slow(JudgePool):
        def run(self, jobs):
            for number, verdict in enumerate(super().run(jobs)):
                yield Verdict("failed", reason="stopped after 1 s") if number == 2 else verdict

    monkeypatch.setattr("chop.evolution.search.JudgePool", Slow)
    first = evolve(TOY, 13, out=tmp_path, executor="processes", workers=1)
    lost = [c.number for c in first.state.candidates if c.reason == "stopped after 1 s"]
    assert lost == [3]
    monkeypatch.undo()
    again = evolve(TOY, 25, out=tmp_path)
    assert again.state.candidates[:13] == first.state.candidates


def test_a_task_that_cannot_travel_is_a_sentence(tmp_path):
    task = replace(load_task(TOY), model=lambda prompt: prompt.query.values)
    with pytest.raises(EvolutionError, match="cannot be sent to worker processes"):
        evolve(task, 13, out=tmp_path, executor="processes")


def test_a_task_that_does_not_load_is_a_sentence(tmp_path):
    path = tmp_path / "task.py"
    path.write_text("import os\nraise RuntimeError('no data here')\n")
    words = r"cannot load the task: .*task.py failed .*\(RuntimeError: no data here\)"
    with (
        JudgePool("processes", str(path), 1, load_task(TOY).limits) as judges,
        pytest.raises(EvolutionError, match=words),
    ):
        list(judges.run([Submission("icon")]))


def test_verdicts_come_in_order():
    verdicts = [Verdict("done", (float(i),)) for i in range(4)]
    mixed = [(2, verdicts[2]), (0, verdicts[0]), (3, verdicts[3]), (1, verdicts[1])]
    assert list(in_order(mixed)) == verdicts


def test_without_ray_the_executor_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(EvolutionError, match=r"chain-of-operators\[ray\]"):
        JudgePool("ray", TOY, 1, load_task(TOY).limits)


@pytest.mark.slow
def test_a_local_ray_cluster_gives_what_this_process_gives(tmp_path):
    pytest.importorskip("ray", reason="Ray is not installed: the ray executor was NOT tested here")
    command = [
        sys.executable, "-m", "chop.cli", "evolve", "--task", TOY, "--budget", "25", "--workers", "2",
    ]  # fmt: skip
    for executor in ("inline", "ray"):
        done = subprocess.run(
            [*command, "--executor", executor, "--out", str(tmp_path / executor)],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
    from chop.evolution.journal import Journal, comparable

    one, other = (
        [comparable(record) for record in Journal(tmp_path / name, None).records]
        for name in ("inline", "ray")
    )
    assert one == other
