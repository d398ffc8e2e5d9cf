"""One contract for all who work: this process, worker processes, a Ray cluster."""

import os
import signal
import sys
import time
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from pool_work import Broken, Kills, MakeWork
from question_files import arrays, write_npz

import chop
from chop.core.errors import ChopError
from chop.files import FileError, predict
from chop.runs.pool import EXECUTORS, Lost, Site, in_order, pool_named

ELSEWHERE = [name for name in EXECUTORS if name != "inline"]


class OwnError(ChopError):
    pass


@pytest.fixture(scope="module")
def ray():
    """One local cluster for all tests here, with a place beside the shared pool; others have their own."""
    ray = pytest.importorskip("ray", reason="Ray is not installed: the ray executor was NOT tested here")
    before = signal.getsignal(signal.SIGTERM)
    patch = pytest.MonkeyPatch()
    patch.setenv("RAY_memory_monitor_refresh_ms", "0")  # what else this machine does is not its business
    ray.init(
        address="local", num_cpus=3, include_dashboard=False, log_to_driver=False, configure_logging=False,
        runtime_env={"env_vars": {"PYTHONPATH": os.pathsep.join(sys.path)}},
    )  # fmt: skip
    yield ray
    ray.shutdown()
    patch.undo()
    signal.signal(signal.SIGTERM, before)


class Shared:
    """A pool for many tests: starting workers takes longer than they do."""

    def __init__(self, name, folder):
        self.name, self.folder, self.here = name, folder, Path.cwd()
        self.pool = pool_named(name, OwnError)(Site(MakeWork(folder), 2, "the work", OwnError, seconds=3.0))
        self.run = self.pool.run


@pytest.fixture(scope="module", params=EXECUTORS)
def shared(request, tmp_path_factory):
    if request.param == "ray":
        request.getfixturevalue("ray")
    made = Shared(request.param, tmp_path_factory.mktemp("pool"))
    yield made
    pids = {pid for pid, *_ in made.run(["where"] * 4)} - {os.getpid()}
    made.pool.close()
    deadline = time.monotonic() + 60
    while any(Path(f"/proc/{pid}").exists() for pid in pids):
        assert time.monotonic() < deadline, "workers are left behind"
        time.sleep(0.05)


def elsewhere(shared):
    if shared.name == "inline":
        pytest.skip("nobody can stop this process but itself")


def test_outcomes_come_in_the_order_of_the_jobs(shared):
    jobs = [("sleep", 0.2), *range(7)]
    assert list(shared.run(jobs)) == [("sleep", [0.2]), *((n, []) for n in range(7))]
    assert list(shared.run([])) == []
    assert list(shared.run(["again"])) == [("again", [])]


def test_or_as_they_are_finished_and_jobs_may_come_later(shared):
    """A job that is thought of when another is finished is done too."""
    waiting, later = [0, 1, 2], [3, 4]

    def take():
        return (waiting[0], waiting.pop(0)) if waiting else None

    found = {}
    with closing(shared.pool.finished(take)) as finished:
        for key, outcome in finished:
            found[key] = outcome
            waiting.extend(later[:1])
            del later[:1]
    assert found == {n: (n, []) for n in range(5)}


def test_a_worker_makes_its_work_once_on_one_thread_where_the_caller_is(shared):
    found = {*shared.run(["where"] * 6), *shared.run(["where"] * 6)}
    assert len(found) <= 2
    assert {(where, threads) for *_, where, threads in found} == {(str(shared.here), 1)}


def test_what_the_work_raises_is_raised_here(shared):
    with pytest.raises(ChopError, match=r"^not this$"):
        list(shared.run([1, "refuse"]))
    assert list(shared.run([2])) == [(2, [])], "and the pool lives on"


@pytest.mark.slow
def test_a_job_that_takes_its_worker_down_is_tried_once_more_and_then_lost(shared):
    elsewhere(shared)
    found = list(shared.run([1, "die once", "die", 2]))
    assert found == [(1, []), ("die once", []), Lost("2 worker processes died under it"), (2, [])]


def test_a_job_that_takes_too_long_is_lost(shared):
    elsewhere(shared)
    assert list(shared.run([("sleep", 600), 1])) == [Lost("stopped after 3 s", 3.0), (1, [])]


def test_a_run_that_is_given_up_leaves_nothing_to_the_next(shared):
    elsewhere(shared)
    with closing(shared.run([1, ("sleep", 600)])) as outcomes:
        assert next(outcomes) == (1, [])
    assert list(shared.run([2, 3])) == [(2, []), (3, [])]


@pytest.mark.parametrize("name", ELSEWHERE)
def test_work_that_cannot_be_made_is_a_sentence(name, request):
    if name == "ray":
        request.getfixturevalue("ray")
    with (
        pool_named(name, OwnError)(Site(Broken(), 1, "the work", OwnError)) as workers,
        pytest.raises(OwnError, match="cannot load the work: there is no model here"),
    ):
        list(workers.run([1]))


@pytest.mark.parametrize("name", ELSEWHERE)
def test_work_that_cannot_be_sent_is_a_sentence(name):
    pytest.importorskip("ray", reason="Ray is not installed: the ray executor was NOT tested here")
    with pytest.raises(OwnError, match="the work cannot be sent to worker processes"):
        pool_named(name, OwnError)(Site(lambda: None, 1, "the work", OwnError))


def test_an_error_that_cannot_be_sent_is_told(tmp_path):
    with (
        pool_named("processes", OwnError)(Site(MakeWork(tmp_path), 1, "the work", OwnError)) as workers,
        pytest.raises(RuntimeError, match="Unpicklable"),
    ):
        list(workers.run(["fail"]))


def test_an_executor_that_does_not_exist():
    with pytest.raises(OwnError, match="executor must be one of processes, inline, ray, not 'magic'"):
        pool_named("magic", OwnError)


def test_outcomes_are_put_in_order():
    assert list(in_order([(2, "c"), (0, "a"), (3, "d"), (1, "b")])) == ["a", "b", "c", "d"]


@pytest.mark.slow
def test_answers_are_the_same_bytes_whoever_gives_them(shared, tmp_path):
    content = arrays(n=60, points=20)
    content["query_values"][33, 2] = np.inf
    questions = write_npz(tmp_path / "q.npz", content)
    program = chop.parse("correct(rescale | icon)")
    alone, together = tmp_path / "alone.h5", tmp_path / "together.h5"
    one = predict(questions, program, "conservation", alone, batch=8)
    other = predict(questions, program, "conservation", together, batch=8, workers=2, executor=shared.name)
    assert one == other
    assert [rejected.question for rejected in one.first_rejected] == [33]
    assert together.read_bytes() == alone.read_bytes()


@pytest.mark.slow
def test_a_question_that_takes_its_worker_down_is_found_and_marked(tmp_path):
    content = arrays(n=12)
    questions = write_npz(tmp_path / "q.npz", content)
    model = Kills(float(content["query_values"][5, 0, 0]))
    summary = predict(questions, chop.parse("icon"), model, tmp_path / "a.npz", batch=4, workers=2)
    assert (summary.questions, summary.rejected) == (12, 1)
    (lost,) = summary.first_rejected
    assert (lost.question, lost.reason) == (5, "2 worker processes died under it")
    assert np.isfinite(np.delete(np.load(tmp_path / "a.npz")["values"], 5, axis=0)).all()


def test_a_model_that_cannot_be_sent_is_a_sentence(tmp_path):
    questions = write_npz(tmp_path / "q.npz", arrays())
    with pytest.raises(FileError, match="the model cannot be sent to worker processes"):
        predict(questions, chop.parse("icon"), lambda prompt: None, tmp_path / "a.npz", workers=2)
    assert [path.name for path in tmp_path.iterdir()] == ["q.npz"]
