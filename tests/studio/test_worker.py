"""What the page's workers answer: the library's own numbers, and a sentence for everything wrong."""

import pickle

import numpy as np
import pytest
import torch

import chop
from chop.problems import conservation
from chop.studio.asking import Folders
from chop.studio.jobs import (
    ExportJob,
    Refused,
    RolloutJob,
    RunJob,
    ShowJob,
    StagesJob,
)
from chop.studio.questions import (
    PROGRAMS,
    AirQuestion,
    ControlQuestion,
    FileQuestion,
    LawQuestion,
)
from chop.studio.worker import Worker


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    return tmp_path_factory.mktemp("studio")


@pytest.fixture(scope="module")
def worker(work):
    return Worker(Folders(work, home=work))


LAW = LawQuestion("tanh(u)", 3, horizon=4)


def test_an_answer_is_what_the_library_answers(worker):
    case = conservation.sample("tanh(u)", 1, first=3, steps=4)
    model = chop.load("conservation")
    result = chop.parse("mfc").run(model, case.prompt[0], validate=True)
    answer = worker(RunJob(LAW, "conservation", "mfc"))
    np.testing.assert_allclose(answer.curve.values, result.values[:, 0].double().numpy(), rtol=1e-6)
    assert answer.error == pytest.approx(float(chop.metrics.rel_l2(result.values, case.target[0])), rel=1e-5)
    assert answer.context_error == pytest.approx(float(result.error), rel=1e-5)
    assert answer.trust == pytest.approx(float(result.trust(0.1).probability), rel=1e-4)
    band = result.band(0.9)
    np.testing.assert_allclose(answer.band.deviation, band.half_width[:, 0].double().numpy(), rtol=1e-5)
    assert answer.calls == 12


def test_auto_tells_what_it_built_and_the_law_it_found(worker):
    answer = worker(RunJob(LAW, "conservation", "auto"))
    assert "law" in answer.built
    assert answer.found, "the flux as a curve"
    assert any("law" in words for _, words in answer.told)


def test_stages_stand_at_the_boxes_of_the_drawing(worker):
    program = chop.parse(PROGRAMS["law"])
    stages = worker(StagesJob(RunJob(LAW, "conservation", str(program))))
    places = {path for path, _ in program.operators()}
    assert places <= {stage.path for stage in stages.stages}
    assert "values" in stages.explained


def test_a_rollout_with_its_truth(worker):
    rolled = worker(RolloutJob(RunJob(LAW, "conservation", "raw"), 4))
    case = conservation.sample("tanh(u)", 1, first=3, steps=4)
    told = chop.rollout("raw", chop.load("conservation"), case.prompt[0], 4)
    np.testing.assert_allclose(rolled.frames, told.values[..., 0].double().numpy(), rtol=1e-5)
    np.testing.assert_allclose(rolled.truth, case.trajectory[0, -4:].double().numpy(), rtol=1e-6)
    assert len(rolled.errors) == 4


def test_a_drawn_initial_condition_is_what_is_solved(worker):
    drawn = tuple(np.round(np.sin(2 * np.pi * np.arange(25) / 25), 6).tolist())
    shown = worker(ShowJob(LawQuestion("u**2/2", drawn=drawn), "conservation"))
    first = shown.views[0].curves[0]
    x = np.arange(100) / 100
    np.testing.assert_allclose(first.values, np.sin(2 * np.pi * x), atol=1e-4)


def test_stations_are_told_in_micrograms_on_a_map(worker):
    shown = worker(ShowJob(AirQuestion(), "air_bthsa"))
    assert shown.truth_map.places.shape == (18, 2)
    assert len(shown.truth_map.stations) == 18
    known = shown.truth_map.values[np.isfinite(shown.truth_map.values)]
    assert 1 < known.mean() < 500, "not the normalised numbers"
    answer = worker(RunJob(AirQuestion(), "air_bthsa", "air"))
    assert answer.map.values.shape == (18,)
    at = worker(ShowJob(AirQuestion(hour="2024-01-20T06"), "air_bthsa"))
    assert at.truth_map is not None
    other = worker(ShowJob(AirQuestion(hour="2024-01-20T06", pollutant="O3"), "air_bthsa"))
    assert not np.allclose(at.truth_map.values, other.truth_map.values, equal_nan=True)


@pytest.mark.parametrize("suffix", [".html", ".png", ".json", ".txt", ".h5"])
def test_exports(worker, suffix, tmp_path):
    made = worker(ExportJob(RunJob(LAW, "conservation", "mfc"), suffix))
    path = tmp_path / made.name
    path.write_bytes(made.content)
    assert path.suffix == suffix
    if suffix == ".txt":
        assert str(chop.Program.load(path)) == "select(correct(rescale | icon), icon)"
    if suffix == ".h5":
        with chop.files.QuestionFile(path) as file:
            kept = file.question(0).prompt
        case = conservation.sample("tanh(u)", 1, first=3)
        assert torch.equal(kept.query.values, case.prompt.query.values)


def test_a_file_of_ones_own_with_and_without_truth(worker, work):
    rng = np.random.default_rng(0)
    x = np.linspace(0, 1, 40)
    u = rng.normal(size=(6, 1)) * np.sin(2 * np.pi * x)
    parts = {"input_values": u[None, :5], "output_values": 2 * u[None, :5], "query_values": u[None, 5]}
    np.savez(work / "mine.npz", **parts, input_coords=x[:, None])
    shown = worker(ShowJob(FileQuestion("mine.npz"), "conservation"))
    assert not isinstance(shown, Refused), shown
    assert shown.truth is None
    answer = worker(RunJob(FileQuestion("mine.npz"), "conservation", "ridge"))
    assert answer.error is None
    assert answer.context_error is not None


def test_what_travels_can_be_pickled(worker):
    for job in (
        ShowJob(LAW, "conservation"),
        RunJob(LAW, "conservation", "auto"),
        StagesJob(RunJob(ControlQuestion(), "mfc", "mfc")),
    ):
        pickle.loads(pickle.dumps(job))
        assert len(pickle.dumps(worker(job))) < 2**20


def asked(question=LAW, model="conservation", program="icon"):
    return RunJob(question, model, program)


@pytest.mark.parametrize(
    ("job", "words"),
    [
        (asked(LawQuestion("u**")), "flux"),
        (asked(LawQuestion("__import__('os')")), "flux"),
        (asked(LawQuestion("1/u")), "divides by zero"),
        (asked(LawQuestion("exp(exp(u*9))")), ""),
        (asked(program="icon |"), "column"),
        (asked(program="foo"), "foo"),
        (asked(program="unit_mass"), ""),
        (asked(model="/etc/passwd"), "no model"),
        (asked(model="evil.py:model"), "no model"),
        (asked(ControlQuestion("nothing"), "mfc"), "family"),
        (asked(ControlQuestion(), "mfc", PROGRAMS["law"]), "moving_frame"),
        (asked(AirQuestion(), "conservation"), "network of stations"),
        (asked(AirQuestion(pollutant="SO2"), "air_bthsa"), "SO2"),
        (asked(AirQuestion(region="../../etc"), "air_bthsa"), ""),
        (asked(AirQuestion(hour="soon"), "air_bthsa"), "2024-03-01T06"),
        (asked(AirQuestion(hour="1999-01-01T00"), "air_bthsa"), "record"),
        (asked(AirQuestion(invented=False), "air_bthsa"), "--data"),
        (asked(FileQuestion("/etc/passwd")), "no file"),
        (asked(FileQuestion("../outside.npz")), "no file"),
        (RolloutJob(RunJob(ControlQuestion(), "mfc", "raw"), 3), "rollout"),
        (ExportJob(asked(), ".exe"), ".exe"),
    ],
)
def test_everything_wrong_is_a_sentence(worker, job, words):
    outcome = worker(job)
    assert isinstance(outcome, Refused)
    assert words in outcome.sentence
    assert "Traceback" not in outcome.sentence


def test_a_file_that_is_no_file_is_a_sentence(worker, work):
    for name, content in {"text.npz": b"hello", "cut.h5": b"\x89HDF\r\n\x1a\n" + b"\0" * 20}.items():
        (work / name).write_bytes(content)
        assert isinstance(worker(ShowJob(FileQuestion(name), "conservation")), Refused)
