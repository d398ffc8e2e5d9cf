"""Answers that are not lost: whatever stops a run, the same one goes on, and ends with the same bytes."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch
from question_files import arrays, write_hdf5, write_npz
from sample_models import plain_arithmetic

import chop
from chop.cli import app
from chop.cli.exit_codes import run_command
from chop.core.errors import ModelError, ProgramError
from chop.files import FileError, QuestionFile, predict
from chop.files.resume import partial_folder
from chop.storage.log import decode_line, encode_line

PROGRAM = chop.parse("correct(icon)")
RECORDING = """
import pathlib, time
ASKED = pathlib.Path(__file__).with_name("asked")
def model(prompt):
    with ASKED.open("a") as file:
        file.write("x")
    time.sleep(0.02)
    return prompt.outputs.values.mean(dim=-3) + prompt.query.values.tanh()
"""
"""A model that writes down every call, and is slow enough to be interrupted."""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_hdf5(tmp_path / "q.h5", arrays(n=40))
    (tmp_path / "model.py").write_text(RECORDING)
    return tmp_path


class Stops:
    """A model that answers some calls, and then is stopped."""

    def __init__(self, calls, failure=KeyboardInterrupt):
        self.left, self.failure, self.asked = calls, failure, 0

    def __call__(self, prompt):
        if not self.left:
            raise self.failure("stopped")
        self.left -= 1
        self.asked += 1
        return plain_arithmetic(prompt)


def names(path):
    return sorted(entry.name for entry in path.iterdir())


@pytest.mark.parametrize("name", ["a.h5", "a.nc", "a.npz"])
def test_a_run_goes_on_where_it_was_stopped(name, folder):
    options = {"model_name": "mine", "batch": 8}
    whole = predict("q.h5", PROGRAM, plain_arithmetic, f"whole_{name}", **options)
    with pytest.raises(KeyboardInterrupt):
        predict("q.h5", PROGRAM, Stops(3), name, **options)
    assert not Path(name).exists()
    assert partial_folder(Path(name)).is_dir()
    again, heard = Stops(1000), []
    summary = predict(
        "q.h5", PROGRAM, again, name, **options, progress=lambda done, total: heard.append(done)
    )
    done = heard[0]
    assert 0 < done < 40
    assert heard == list(range(done, 41, 8)), "what was done is told first"
    assert again.asked < 2 * 5
    assert summary.to_dict() == {**whole.to_dict(), "resumed": done}
    assert Path(name).read_bytes() == Path(f"whole_{name}").read_bytes()
    assert not partial_folder(Path(name)).exists()


def stop_early(out="a.h5", batch=8, **options):
    with pytest.raises(KeyboardInterrupt):
        predict("q.h5", PROGRAM, Stops(3), out, model_name="mine", batch=batch, **options)
    assert partial_folder(Path(out)).is_dir()


def test_a_run_with_something_else_is_refused_with_the_name_of_it(folder):
    stop_early()
    before = {path.name: path.read_bytes() for path in partial_folder(Path("a.h5")).iterdir()}

    def refused(words, program=PROGRAM, model_name="mine", batch=8, **options):
        with pytest.raises(FileError, match=words) as refusal:
            predict("q.h5", program, plain_arithmetic, "a.h5", model_name=model_name, batch=batch, **options)
        assert "--restart" in str(refusal.value)
        assert {path.name: path.read_bytes() for path in partial_folder(Path("a.h5")).iterdir()} == before

    refused(r"another program \(correct\(icon\) then, icon now\)", program=chop.parse("icon"))
    refused("another model;", model_name="yours")
    refused("another model;", model_name="")
    refused(r"another --batch \(8 then, 4 now\)", batch=4)
    refused(r"another --validate \(False then, True now\)", validate=True)
    shutil.copy("q.h5", "copy.h5")
    content = arrays(n=40)
    content["query_values"][39, -1] += 1
    write_hdf5(folder / "q.h5", content)
    refused("another file of questions;")
    shutil.move("copy.h5", "q.h5")  # another date, the same content
    assert predict("q.h5", PROGRAM, plain_arithmetic, "a.h5", model_name="mine", batch=8).resumed > 0


def test_a_run_can_begin_anew(folder):
    stop_early()
    summary = predict("q.h5", chop.parse("icon"), plain_arithmetic, "a.h5", restart=True)
    assert (summary.resumed, summary.calls) == (0, 1)
    assert names(folder) == ["a.h5", "model.py", "q.h5"]


def test_weights_and_files_of_code_are_known_by_content(folder):
    network = chop.load("conservation")
    chop.icon.save(network, "net.safetensors")

    def begin(model):
        with pytest.raises(KeyboardInterrupt):
            predict("q.h5", PROGRAM, model, "a.h5", batch=8, progress=stop)

    def stop(done, total):
        raise KeyboardInterrupt

    begin("net.safetensors")
    begin("./net.safetensors")
    with torch.no_grad():
        next(network.parameters()).add_(1e-3)
    chop.icon.save(network, "net.safetensors")
    with pytest.raises(FileError, match="another model"):
        predict("q.h5", PROGRAM, "net.safetensors", "a.h5", batch=8)
    with pytest.raises(FileError, match="another model"):
        predict("q.h5", PROGRAM, network, "a.h5", batch=8)
    shutil.rmtree(partial_folder(Path("a.h5")))
    begin("model.py:model")
    (folder / "model.py").write_text(RECORDING.replace("tanh", "sin"))
    with pytest.raises(FileError, match="another model"):
        predict("q.h5", PROGRAM, "model.py:model", "a.h5", batch=8)
    shutil.rmtree(partial_folder(Path("a.h5")))
    begin(network)
    assert predict("q.h5", PROGRAM, network, "a.h5", batch=8).resumed == 8


def test_two_processes_do_not_write_into_one_run(folder):
    def meanwhile(done, total):
        with pytest.raises(FileError, match=r"another process is answering into a\.h5"):
            predict("q.h5", PROGRAM, plain_arithmetic, "a.h5", model_name="mine", batch=8, restart=True)

    predict("q.h5", PROGRAM, plain_arithmetic, "a.h5", model_name="mine", batch=8, progress=meanwhile)
    assert names(folder) == ["a.h5", "model.py", "q.h5"]


@pytest.mark.parametrize("torn", ["values", "index", "head", "both"])
def test_what_is_damaged_is_asked_again(torn, folder):
    predict("q.h5", PROGRAM, plain_arithmetic, "whole.h5", model_name="mine", batch=8)
    with pytest.raises(KeyboardInterrupt):
        predict("q.h5", PROGRAM, Stops(3), "a.h5", model_name="mine", batch=8)
    kept = partial_folder(Path("a.h5"))
    if torn in ("values", "both"):
        with (kept / "values").open("r+b") as file:
            file.seek(10)
            file.write(b"\xff\xff\xff\xff")
    if torn in ("index", "both"):
        (kept / "index").write_bytes((kept / "index").read_bytes()[:-9])
    if torn == "head":
        content = (kept / "index").read_bytes()
        (kept / "index").write_bytes(b"0" * 12 + content[12:])
    predict("q.h5", PROGRAM, plain_arithmetic, "a.h5", model_name="mine", batch=8)
    assert Path("a.h5").read_bytes() == Path("whole.h5").read_bytes()


ODD_LINES = {
    "no object": [0, 8],
    "text for a number": {"first": "0"},
    "a part outside the file": {"last": 4000},
    "a part before it": {"first": -8},
    "a part without questions": {"last": 0},
    "no checksum": {"crc": None},
    "a reason that is no text": {"reason": 5},
    "one reason for many questions": {"reason": "why not"},
    "calls in words": {"calls": "four"},
    "no columns": {"columns": {}},
    "a column that is none": {"columns": {"rejected": "no"}},
    "too short a column": {"columns": {"rejected": ["|b1", "AAAA"]}},
    "objects": {"columns": {"rejected": ["|O", "AAAAAAAAAAA="]}},
    "no letters of base64": {"columns": {"rejected": ["|b1", "\u00e9"]}},
}


@pytest.mark.parametrize("odd", ODD_LINES)
def test_parts_with_odd_lines_are_asked_again(odd, folder):
    """Their checksums are right: another program wrote them, or a person did."""
    options = {"model_name": "mine", "batch": 8}
    predict("q.h5", PROGRAM, plain_arithmetic, "whole.h5", **options)
    with pytest.raises(KeyboardInterrupt):
        predict("q.h5", PROGRAM, Stops(3), "a.h5", **options)
    index = partial_folder(Path("a.h5")) / "index"
    head, first, *rest = (decode_line(line) for line in index.read_bytes().splitlines())
    assert (first["first"], first["last"]) == (0, 8)
    change = ODD_LINES[odd]
    lines = [head, {**first, **change} if isinstance(change, dict) else change, *rest]
    index.write_bytes(b"".join(map(encode_line, lines)))
    summary = predict("q.h5", PROGRAM, plain_arithmetic, "a.h5", **options)
    assert summary.resumed == 8 * len(rest) > 0
    assert Path("a.h5").read_bytes() == Path("whole.h5").read_bytes()


def test_an_index_that_does_not_say_of_what_run_it_is_begins_anew(folder):
    stop_early()
    index = partial_folder(Path("a.h5")) / "index"
    _, *rest = (decode_line(line) for line in index.read_bytes().splitlines())
    index.write_bytes(b"".join(map(encode_line, [{"run": 5}, *rest])))
    assert predict("q.h5", PROGRAM, plain_arithmetic, "a.h5", model_name="mine", batch=8).resumed == 0


@pytest.mark.parametrize("removed", [[], ["values"]])
def test_a_run_that_ended_between_its_last_two_steps_is_done(removed, folder, monkeypatch):
    """Killed after the answers had got their name and before all of the folder was gone."""
    Path("a.h5").write_text("older")
    with monkeypatch.context() as patch:
        patch.setattr("chop.files.resume.UnfinishedRun.discard", lambda self: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            predict("q.h5", PROGRAM, plain_arithmetic, "a.h5", model_name="mine", overwrite=True)
    for name in removed:
        (partial_folder(Path("a.h5")) / name).unlink()
    assert partial_folder(Path("a.h5")).is_dir()
    written = Path("a.h5").read_bytes()

    def model(prompt):
        raise AssertionError("asked")

    summary = predict("q.h5", PROGRAM, model, "a.h5", model_name="mine")
    assert (summary.questions, summary.rejected) == (40, 0)
    assert Path("a.h5").read_bytes() == written
    assert names(folder) == ["a.h5", "model.py", "q.h5"]


def test_answers_that_another_file_stands_in_for_are_not_taken_for_delivered(folder, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr("chop.storage.atomic.rename_durably", lambda partial, path: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            predict("q.h5", PROGRAM, plain_arithmetic, "a.h5", model_name="mine")
    Path("a.h5").write_text("somebody else's")
    with pytest.raises(FileError, match="exists already"):
        predict("q.h5", PROGRAM, plain_arithmetic, "a.h5", model_name="mine")
    summary = predict("q.h5", PROGRAM, Stops(0), "a.h5", model_name="mine", overwrite=True)
    assert summary.resumed == 40
    assert h5py.File("a.h5")["values"].shape == (40, 8, 1)


def bad_questions(folder):
    content = arrays(n=40)
    content["query_values"][5, 3] = np.inf
    content["output_values"][17, 0, 0] = np.inf
    return write_npz(folder / "bad.npz", content)


@pytest.mark.parametrize("name", ["a.nc", "a.npz"])
def test_questions_that_cannot_be_answered_are_marked_and_the_others_answered(name, folder):
    bad_questions(folder)

    def model(prompt):
        if (prompt.query.values == refused).all(dim=-1).all(dim=-1).any():
            raise RuntimeError("not this one")
        return plain_arithmetic(prompt)

    with QuestionFile("bad.npz") as file:
        refused = file.read(30, 31).prompt.query.values[0]
        good = file.read(6, 17).prompt
    summary = predict("bad.npz", PROGRAM, model, name, batch=16)
    assert (summary.questions, summary.rejected, summary.scored) == (40, 3, 37)
    assert [one.question for one in summary.first_rejected] == [5, 17, 30]
    if name == "a.npz":
        with np.load(name) as file:
            found = dict(file)
    else:
        import xarray

        with xarray.open_dataset(name, engine="h5netcdf") as data:
            assert data["reason"].dims == ("rejected_question",)
            assert "query_values" in str(data["reason"].sel(rejected_question=5).item())
            found = {key: data[key].values for key in ("values", "rejected", "reason", "rejected_question")}
    assert found["rejected_question"].tolist() == [5, 17, 30]
    assert "query_values of question 5 holds" in str(found["reason"][0])
    assert "output_values of question 17 holds" in str(found["reason"][1])
    assert "RuntimeError: not this one" in str(found["reason"][2])
    assert np.flatnonzero(found["rejected"]).tolist() == [5, 17, 30]
    assert np.isnan(found["values"][[5, 17, 30]]).all()
    wanted = PROGRAM.run(plain_arithmetic, good).values
    assert np.allclose(found["values"][6:17], wanted, rtol=1e-5)


def test_strictly_the_first_that_cannot_be_answered_stops_the_run_and_what_was_done_is_kept(folder):
    content, options = arrays(n=40), {"model_name": "mine", "batch": 10}
    content["output_values"][17, 0, 0] = np.inf
    write_npz(folder / "late.npz", content)
    with pytest.raises(FileError, match="question 17 holds"):
        predict("late.npz", PROGRAM, plain_arithmetic, "a.npz", strict=True, **options)
    assert partial_folder(Path("a.npz")).is_dir()
    summary = predict("late.npz", PROGRAM, plain_arithmetic, "a.npz", **options)
    assert (summary.resumed, summary.rejected) == (10, 1)
    with pytest.raises(KeyboardInterrupt):
        predict("late.npz", PROGRAM, Stops(5), "b.npz", **options)
    with pytest.raises(ProgramError, match=r"question 17: .*infinity"):
        predict("late.npz", PROGRAM, plain_arithmetic, "b.npz", strict=True, **options)


def test_strictly_an_answer_that_is_not_finite_stops_too(folder):
    def model(prompt):
        return plain_arithmetic(prompt) * torch.where(prompt.query.values[..., :1, :] > 2, torch.nan, 1)

    content = arrays(n=10)
    content["query_values"] = np.clip(content["query_values"], -1, 1)
    content["query_values"][6, 0] = 3
    write_npz(folder / "big.npz", content)
    assert predict("big.npz", chop.parse("icon"), model, "a.npz").first_rejected[0].question == 6
    with pytest.raises(ProgramError, match="question 6: the answer is not finite"):
        predict("big.npz", chop.parse("icon"), model, "b.npz", strict=True)


def test_a_model_that_can_answer_nothing_is_one_error_and_leaves_nothing(folder):
    asked = []

    def model(prompt):
        asked.append(prompt)
        raise RuntimeError("wrong data")

    write_npz(folder / "many.npz", arrays(n=3000))
    with pytest.raises(ModelError, match=r"failed on prompts of batch \(256,\).*RuntimeError: wrong data"):
        predict("many.npz", chop.parse("icon"), model, "a.npz", model_name="mine")
    assert len(asked) < 100
    assert "a.npz" not in names(folder)
    assert [name for name in names(folder) if name.startswith(".")] == []


def test_a_grid_is_written_as_one(folder, monkeypatch):
    import xarray

    grid = (("y", np.array([10.0, 20.0])), ("x", np.array([0.0, 0.5, 1.0, 1.5])))
    monkeypatch.setattr(QuestionFile, "answer_grid", grid, raising=False)
    predict("q.h5", PROGRAM, plain_arithmetic, "a.nc")
    predict("q.h5", PROGRAM, plain_arithmetic, "a.npz")
    monkeypatch.setattr(QuestionFile, "answer_grid", (), raising=False)
    predict("q.h5", PROGRAM, plain_arithmetic, "flat.npz")
    flat = np.load("flat.npz")["values"]
    with xarray.open_dataset("a.nc", engine="h5netcdf") as data:
        assert data["values"].dims == ("question", "y", "x", "channel")
        assert data["values"].sel(x=0.5, y=20.0).values.tolist() == flat[:, 5].tolist()
    with np.load("a.npz") as file:
        assert np.array_equal(file["values"], flat.reshape(40, 2, 4, 1))
        assert file["x"].tolist() == [0.0, 0.5, 1.0, 1.5]


def test_names_that_are_not_utf8(folder, capfdbinary):
    questions, out, model = (os.fsdecode(name) for name in (b"q\xff.h5", b"a\xfe.h5", b"m\xfd.py"))
    content = arrays(n=40)
    content["query_values"][3] = np.inf
    write_hdf5(Path(questions), content)
    Path(model).write_text(RECORDING)
    assert run_command(app, ("predict", questions, "-m", model, "-o", out)) == 3
    told = capfdbinary.readouterr()
    assert told.err == b""
    assert told.out.startswith(b"a\xfe.h5: 40 questions, 1 rejected")
    assert b"\n  question 3: q\\xff.h5: query_values of question 3 holds" in told.out
    with h5py.File(out) as file:
        assert file.attrs["questions"] == "q\\xff.h5"
        assert file.attrs["model"] == "m\\xfd.py"
    assert run_command(app, ("predict", questions, "-m", model, "-o", out, "--force", "--json")) == 3
    assert json.loads(capfdbinary.readouterr().out)["out"] == out
    for command in (("info", out), ("info", questions), ("explain", questions, "-m", model)):
        assert run_command(app, command) == 0
        assert run_command(app, (*command, "--json")) == 0
    assert run_command(app, ("explain", questions, "-m", model, "-o", os.fsdecode(b"t\xff.json"))) == 0
    assert capfdbinary.readouterr().out.endswith(b"t\xff.json\n")


COMMAND = ("predict", "q.h5", "-m", "model.py", "-p", "correct(icon)", "-o", "a.h5", "--batch", "4")


def started(*arguments, **options):
    code = (
        # As from a terminal, whoever runs the tests: in the background, or under nohup.
        "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "signal.signal(signal.SIGHUP, signal.SIG_DFL)\n"
        "sys.argv[0] = 'chop'\nfrom chop.cli import main\nmain()"
    )
    return subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options,
    )  # fmt: skip


def wait_for_calls(folder, asked, process):
    while not (folder / "asked").exists() or (folder / "asked").stat().st_size < asked:
        if process.poll() is not None:
            return
        time.sleep(0.005)


@pytest.mark.slow
def test_killed_at_any_time_it_ends_with_the_same_bytes(folder):
    """Again and again, at random moments and with one and two workers, until a command ends by itself."""
    assert run_command(app, (*COMMAND[:-3], "whole.h5", *COMMAND[-2:])) == 0
    moment, kills, wanted = random.Random(1), 0, int(os.environ.get("CHOP_KILLS", "3"))
    for attempt in range(wanted + 2):
        (folder / "asked").unlink(missing_ok=True)
        workers = ("--workers", str(1 + attempt % 2))
        process = started(*COMMAND, *workers)
        if attempt < wanted:
            wait_for_calls(folder, moment.randint(1, 3), process)
            time.sleep(0.03 * moment.random())
            kills += process.poll() is None
            process.kill()
        _, told = process.communicate(timeout=120)
        if process.returncode == 0:
            break
        assert process.returncode == -signal.SIGKILL, told
    assert kills >= 2
    assert (folder / "a.h5").read_bytes() == (folder / "whole.h5").read_bytes()
    assert names(folder) == ["a.h5", "asked", "model.py", "q.h5", "whole.h5"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "code", "workers"),
    [
        (signal.SIGINT, 130, "2"),
        (signal.SIGTERM, 143, "1"),
        (signal.SIGTERM, 143, "2"),
        (signal.SIGHUP, 129, "1"),
    ],
)
def test_polite_signals_end_a_run_that_then_goes_on(number, code, workers, folder):
    write_hdf5(folder / "q.h5", arrays(n=400))
    process = started(*COMMAND, "--workers", workers)
    wait_for_calls(folder, 12, process)
    process.send_signal(number)
    said, told = process.communicate(timeout=120)
    assert (process.returncode, said) == (code, "")
    assert told.startswith("chop: stopped; ")
    assert told.endswith(" of 400 questions are kept, and the same command goes on\n")
    assert told.count("\n") == 1
    assert names(folder) == [".a.h5.partial", "asked", "model.py", "q.h5"]
    assert not alive(folder)


def alive(folder):
    """Processes whose working folder is this one."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if entry.name != str(os.getpid()) and (entry / "cwd").readlink() == folder:
                found.append(entry.name)
        except OSError:
            continue
    return found


def test_a_signal_that_is_ignored_stays_ignored(folder):
    """As ``nohup`` asks."""
    process = subprocess.Popen(
        [sys.executable, "-c", "import signal, sys; signal.signal(signal.SIGHUP, signal.SIG_IGN)\n"
         "sys.argv[0] = 'chop'\nfrom chop.cli import main\nmain()", *COMMAND],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    wait_for_calls(folder, 2, process)
    process.send_signal(signal.SIGHUP)
    _, told = process.communicate(timeout=120)
    assert (process.returncode, told) == (0, "")


def test_the_exit_code_says_that_some_are_not_answered(folder, capfd):
    bad_questions(folder)
    asked = ("predict", "bad.npz", "-m", "conservation", "-o", "a.npz")
    assert run_command(app, asked) == 3
    told = capfd.readouterr()
    assert told.err == ""
    first, *rest = told.out.splitlines()
    assert "40 questions, 2 rejected" in first
    assert [line.split(":")[0] for line in rest] == ["  question 5", "  question 17"]
    assert run_command(app, (*asked, "--force", "--json")) == 3
    found = json.loads(capfd.readouterr().out)
    assert [one["question"] for one in found["first_rejected"]] == [5, 17]
    assert run_command(app, (*asked, "--force", "--strict")) == 2
    assert "infinity" in capfd.readouterr().err
