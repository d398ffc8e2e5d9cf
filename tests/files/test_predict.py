"""Answers to the questions of a file: what the program says, whole or not there, in bounded memory."""

import json
import subprocess
import sys

import h5py
import numpy as np
import pytest
import torch
from question_files import arrays, write_hdf5, write_npz
from sample_models import plain_arithmetic

import chop
from chop.core.errors import ChopError, ModelError
from chop.files import QuestionFile, choose_model, choose_program, predict

PROGRAM = chop.parse("correct(icon)")


def read(path):
    if path.suffix == ".npz":
        with np.load(path) as file:
            return {name: file[name] for name in file}
    with h5py.File(path) as file:
        return {**{name: file[name][...] for name in file}, **dict(file.attrs)}


@pytest.fixture
def questions(tmp_path):
    return write_npz(tmp_path / "q.npz", arrays(n=10, dtype=np.float64))


@pytest.mark.parametrize("name", ["a.h5", "a.nc", "a.npz"])
def test_answers_are_those_of_the_program(name, questions, tmp_path):
    heard = []
    summary = predict(
        questions, PROGRAM, plain_arithmetic, tmp_path / name, model_name="mine", batch=4,
        progress=lambda done, total: heard.append((done, total)),
    )  # fmt: skip
    with QuestionFile(questions) as file:
        part = file.read()
    wanted = PROGRAM.run(plain_arithmetic, part.prompt)
    found = read(tmp_path / name)
    missed = chop.metrics.rel_l2(wanted.values, part.target)
    assert np.allclose(found["values"], wanted.values, rtol=1e-12)
    assert np.allclose(found["error"], wanted.error, rtol=1e-12)
    assert np.allclose(found["rel_l2"], missed, rtol=1e-12)
    assert not found["rejected"].any()
    assert (str(found["program"]), str(found["model"]), found["calls"]) == ("correct(icon)", "mine", 4)
    assert str(found["questions"]) == "q.npz"
    assert heard == [(4, 10), (8, 10), (10, 10)]
    assert (summary.questions, summary.rejected, summary.calls, summary.scored) == (10, 0, 4, 10)
    assert summary.rel_l2 == pytest.approx(float(missed.mean()))
    assert summary.error == pytest.approx(float(wanted.error.mean()))
    assert [path.name for path in tmp_path.glob(".*")] == []


@pytest.mark.parametrize("name", ["a.h5", "a.nc", "a.npz"])
def test_bounds_stand_beside_the_answers(name, questions, tmp_path):
    predict(questions, PROGRAM, plain_arithmetic, tmp_path / name, batch=4)
    with QuestionFile(questions) as file:
        wanted = PROGRAM.run(plain_arithmetic, file.read().prompt).band(0.9)
    found = read(tmp_path / name)
    assert np.allclose(found["lower"], wanted.lower, rtol=1e-9)
    assert np.allclose(found["upper"], wanted.upper, rtol=1e-9)
    assert found["band"] == 0.9
    predict(questions, PROGRAM, plain_arithmetic, tmp_path / name, band=0, overwrite=True)
    assert not {"lower", "upper", "band"} & read(tmp_path / name).keys()


def test_bounds_of_a_program_without_held_out_answers(questions, tmp_path):
    bare, out = chop.parse("icon"), tmp_path / "a.npz"
    predict(questions, bare, plain_arithmetic, out)
    assert "lower" not in read(out)
    with pytest.raises(ChopError, match="add --validate"):
        predict(questions, bare, plain_arithmetic, out, band=0.9, overwrite=True)
    predict(questions, bare, plain_arithmetic, out, band=0.5, validate=True, overwrite=True)
    found = read(out)
    assert (found["lower"] < found["upper"]).all()
    assert found["band"] == 0.5
    with pytest.raises(ChopError, match="between 0 and 1"):
        predict(questions, PROGRAM, plain_arithmetic, out, band=1.0, overwrite=True)


def test_bounds_that_cannot_be_told_are_no_numbers(tmp_path):
    """A budget that allows no judging leaves the answers without bounds, and rejects none of them."""
    questions = write_npz(tmp_path / "q.npz", arrays(n=3, dtype=np.float64))
    summary = predict(questions, "auto(budget=1)", plain_arithmetic, tmp_path / "a.npz")
    assert summary.rejected == 0
    assert np.isnan(read(tmp_path / "a.npz")["lower"]).all()


def test_validation_is_done_when_asked(questions, tmp_path):
    plain = predict(questions, chop.parse("icon"), plain_arithmetic, tmp_path / "a.npz")
    asked = predict(questions, chop.parse("icon"), plain_arithmetic, tmp_path / "b.npz", validate=True)
    assert plain.error is None
    assert asked.error is not None
    assert (plain.calls, asked.calls) == (1, 4)
    assert "error" not in read(tmp_path / "a.npz")
    assert read(tmp_path / "b.npz")["error"].shape == (10,)


@pytest.mark.parametrize("name", ["a.h5", "a.nc"])
def test_answers_open_in_xarray(name, questions, tmp_path):
    import xarray

    predict(questions, PROGRAM, plain_arithmetic, tmp_path / name)
    with xarray.open_dataset(tmp_path / name, engine="h5netcdf") as data:
        assert data["values"].dims == ("question", "point", "channel")
        assert data["rejected"].dims == ("question",)
        assert data.attrs["program"] == "correct(icon)"


def test_answers_that_are_not_finite_are_marked_and_not_averaged(tmp_path):
    content = arrays(n=5)
    content["target"][1] = 0  # no relative error either
    path = write_npz(tmp_path / "q.npz", content)

    def model(prompt):
        answer = plain_arithmetic(prompt)
        return torch.where(
            prompt.query.values[..., :1, :] == content["query_values"][3, 0, 0], torch.nan, answer
        )

    summary = predict(path, chop.parse("icon"), model, tmp_path / "a.npz", batch=2)
    assert (summary.rejected, summary.scored) == (1, 3)
    found = read(tmp_path / "a.npz")
    assert found["rejected"].tolist() == [False, False, False, True, False]
    assert np.isnan(found["values"][3]).all()
    assert summary.rel_l2 == pytest.approx(found["rel_l2"][[0, 2, 4]].mean())


def test_errors_are_taken_over_what_was_observed(tmp_path):
    content = arrays(n=3)
    mask = np.arange(8)[None, :, None].repeat(3, axis=0) < 4
    content["target"][~mask] = np.nan
    path = write_npz(tmp_path / "q.npz", {**content, "target_mask": mask})
    predict(path, chop.parse("mean_output"), plain_arithmetic, tmp_path / "a.npz")
    answer = content["output_values"].mean(axis=1)[:, :4]
    target = content["target"][:, :4]
    wanted = np.linalg.norm(answer - target, axis=(1, 2)) / np.linalg.norm(target, axis=(1, 2))
    assert np.allclose(read(tmp_path / "a.npz")["rel_l2"], wanted, rtol=1e-5)


@pytest.mark.parametrize("name", ["a.h5", "a.npz"])
@pytest.mark.parametrize(("failure", "strict"), [(KeyboardInterrupt, False), (RuntimeError, True)])
def test_a_stop_on_the_way_leaves_nothing_behind_or_what_was_there(
    name, failure, strict, questions, tmp_path
):
    """A model that nobody could know again: what it answered is of no use to a later run."""
    asked = []

    def model(prompt):
        asked.append(prompt)
        if len(asked) > 2:
            raise failure("the power is gone")
        return plain_arithmetic(prompt)

    def attempt(**options):
        asked.clear()
        with pytest.raises(ModelError if strict else failure, match="the power is gone"):
            predict(questions, chop.parse("icon"), model, tmp_path / name, batch=2, strict=strict, **options)

    attempt()
    assert [path.name for path in tmp_path.iterdir()] == ["q.npz"]
    (tmp_path / name).write_text("older")
    attempt(overwrite=True)
    assert (tmp_path / name).read_text() == "older"
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([name, "q.npz"])


def test_what_cannot_be_written_is_said_before_any_work(questions, tmp_path):
    def model(prompt):
        raise AssertionError("asked")

    def fails(out, words, **options):
        with pytest.raises(ChopError, match=words):
            predict(questions, chop.parse("icon"), model, out, **options)

    (tmp_path / "there.h5").touch()
    fails(tmp_path / "there.h5", "exists already")
    fails(tmp_path / "a.csv", r"\.h5, \.nc or \.npz")
    fails(tmp_path / "nowhere" / "a.h5", "there is no folder")
    fails(questions, "holds the questions", overwrite=True)
    assert len(np.load(questions)["target"]) == 10


def test_models_of_a_users_own(tmp_path):
    (tmp_path / "helper.py").write_text("FACTOR = 2.0\n")
    own = tmp_path / "own.py"
    own.write_text(
        "from helper import FACTOR\n"
        "def model(prompt):\n    return FACTOR * prompt.outputs.values[..., -1, :, :]\n"
        "def other(prompt):\n    return prompt.outputs.values[..., 0, :, :]\n"
        "number = 3\n"
    )
    with QuestionFile(write_npz(tmp_path / "q.npz", arrays())) as file:
        prompt = file.read().prompt
    assert torch.equal(choose_model(str(own))(prompt), 2 * prompt.outputs.values[:, -1])
    assert torch.equal(choose_model(f"{own}:other")(prompt), prompt.outputs.values[:, 0])
    assert choose_model("conservation") is not None
    for source, words in (
        (f"{own}:nothing", "defines no nothing"),
        (f"{own}:number", "must be callable"),
        ("nowhere.py:model", "there is no file"),
        ("nowhere", "no network 'nowhere'"),
    ):
        with pytest.raises(ModelError, match=words):
            choose_model(source)
    own.write_text("1 / 0\n")
    with pytest.raises(ModelError, match="ZeroDivisionError"):
        choose_model(str(own))


def test_programs_by_name_by_text_and_from_a_file(tmp_path):
    text = "select(correct(rescale | icon), icon)"
    (tmp_path / "winner.txt").write_text(text + "\n")
    for source in ("mfc", text, str(tmp_path / "winner.txt")):
        assert choose_program(source) == chop.programs["mfc"]
    with pytest.raises(ChopError, match="there is no file"):
        choose_program(str(tmp_path / "loser.txt"))
    with pytest.raises(ChopError, match="no operator 'mfcc'"):
        choose_program("mfcc")
    (tmp_path / "picture.txt").write_bytes(b"\xff\xd8\x00")
    with pytest.raises(ChopError, match="cannot be read as program text"):
        choose_program(str(tmp_path / "picture.txt"))


MEASURE = """
import json, resource, sys
import chop
from chop.files import predict

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

program, tops = chop.parse("mean_output"), []
for name in sys.argv[1:]:
    predict(name, program, lambda prompt: None, name + ".answers.h5", batch=20)
    tops.append(peak())
print(json.dumps(tops))
"""


@pytest.mark.slow
def test_memory_does_not_grow_with_the_file(tmp_path):
    """Eight times the questions (77 MB of them) in the memory of one part."""
    one = arrays(n=1, examples=2, points=2400)
    paths = []
    for name, n in (("small", 200), ("large", 1600)):
        content = {
            key: np.broadcast_to(values, (n, *values.shape[1:]))
            for key, values in one.items()
            if key.endswith("_values")
        }
        content["input_coords"] = one["input_coords"]
        paths.append(write_hdf5(tmp_path / f"{name}.h5", content))
    assert paths[1].stat().st_size > 75e6
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, *map(str, paths)], capture_output=True, text=True, check=True
    )
    small, large = json.loads(done.stdout)
    assert large - small < 15e6
