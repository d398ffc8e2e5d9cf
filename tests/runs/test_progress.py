"""Progress: lines now and then where there is no terminal, bars where there is one."""

import io
from dataclasses import dataclass

import pytest
import rich.progress
from rich.console import Console

from chop.runs import progress
from chop.runs.progress import Progress, passing_bar, with_progress


@pytest.fixture
def clock(monkeypatch):
    """A clock that is moved by hand."""
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


@dataclass(frozen=True)
class Job:
    cost: float


def test_a_measurement_says_a_line_now_and_then(clock):
    said = []
    jobs = [(Job(1.0), "a"), (Job(1.0), "b"), (Job(2.0), "c")]
    for _ in with_progress(jobs, 4.0, lambda job: f"cost {job.cost:g}", said.append, bar=False):
        clock[0] += 20.0
    assert said == ["50 %, about 0.7 min left: cost 1"], "after 40 s, and not after 20 nor 60"


def test_work_that_continues_is_estimated_from_what_was_done_since(clock):
    heard = []
    with Progress(None, 100, say=lambda *words: heard.append(words), start=None) as shown:
        for count in (50, 60, 70):
            clock[0] += 30.0
            shown.update(count, f"at {count}")
    assert heard == [(50, None, "at 50"), (60, 4.0, "at 60"), (70, pytest.approx(2.25), "at 70")]


def test_bars_have_rows_that_can_be_added():
    stream = io.StringIO()
    bar = rich.progress.Progress(
        rich.progress.TextColumn("{task.description} {task.completed}/{task.total}"),
        console=Console(file=stream, force_terminal=True, width=40),
    )
    with Progress(bar, 3, "first") as shown:
        shown.update(2, "renamed")
        shown.update(5, total=9, row="second")
    assert [(task.description, task.completed, task.total) for task in bar.tasks] == [
        ("renamed", 2, 3),
        ("second", 5, 9),
    ]
    assert "second 5/9" in stream.getvalue()


def test_a_passing_bar_is_silent_where_nobody_looks(capsys):
    with passing_bar(3, "file") as shown:
        shown.update(3)
    assert capsys.readouterr() == ("", "")
