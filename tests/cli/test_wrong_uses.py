"""Wrong uses of the command line: each gives one clear sentence and the right exit code, and leaves nothing.

Those that need no process of their own run in this one; a closed pipe, a full disk and Ctrl-C get one.
"""

import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from question_files import arrays, write_hdf5, write_npz
from small_disk import SMALL_DISK

from chop.cli import app
from chop.cli.exit_codes import run_command
from chop.icon.weights import BUNDLED

ASK = ("--model", "conservation", "--program", "icon", "--out", "a.h5")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with good questions, and some that are not."""
    monkeypatch.chdir(tmp_path)
    good = arrays(n=3, examples=3, points=20)
    whole = write_hdf5(tmp_path / "good.h5", good).read_bytes()
    (tmp_path / "cut.h5").write_bytes(whole[: len(whole) // 2])
    packed = write_npz(tmp_path / "good.npz", good).read_bytes()
    (tmp_path / "cut.npz").write_bytes(packed[: len(packed) // 2])
    write_npz(tmp_path / "text.npz", {**good, "query_values": np.full((3, 20, 1), "low")})
    write_npz(tmp_path / "flat.npz", {**good, "input_values": good["input_values"][0, :, :5]})
    write_npz(tmp_path / "names.npz", {"x": good["input_coords"], "u": good["input_values"]})
    lost = good["query_values"].copy()
    lost[1, 4] = np.inf
    write_npz(tmp_path / "infinite.npz", {**good, "query_values": lost})
    write_npz(tmp_path / "infinities.npz", {**good, "query_values": np.full_like(lost, np.inf)})
    two = {name: np.concatenate([v, v], axis=-1) for name, v in good.items() if name != "input_coords"}
    write_npz(tmp_path / "two.npz", {**two, "input_coords": good["input_coords"]})
    single = {name: v[:, :1] if name in ("input_values", "output_values") else v for name, v in good.items()}
    write_npz(tmp_path / "single.npz", single)
    (tmp_path / "table.csv").write_text("x,u\n0,1\n")
    (tmp_path / "old.h5").write_text("older answers")
    (tmp_path / "broken.safetensors").write_bytes((BUNDLED / "mfc.safetensors").read_bytes()[:5000])
    (tmp_path / "bad.py").write_text("import nonsense_that_is_not_there\n")
    (tmp_path / "wrong.py").write_text("def model(prompt):\n    return prompt.query.values[..., :3, :]\n")
    (tmp_path / "fails.py").write_text("def model(prompt):\n    return prompt.query.values @ prompt.at\n")
    return tmp_path


WRONG = {
    "a missing file": (("predict", "nowhere.h5", *ASK), "there is no file nowhere.h5"),
    "a folder as the file": (("predict", ".", *ASK), "is a folder"),
    "a missing file to inspect": (("inspect", "nowhere.h5"), "there is no file nowhere.h5"),
    "arrays that are no questions to inspect": (("inspect", "names.npz"), "input_values"),
    "infinity to inspect": (("inspect", "infinite.npz"), "query_values of question 1 holds infinity"),
    "a question to inspect that is none": (("inspect", "good.h5", "-i", "3"), "so --index 3 is none"),
    "facts in a wrong sort of file": (("inspect", "good.h5", "-o", "a.txt"), "not to a.txt"),
    "facts where a file is": (("inspect", "good.h5", "-o", "old.h5"), "old.h5"),
    "a model to inspect with that is none": (("inspect", "good.h5", "-m", "conversation"), "no network"),
    "a model to inspect with that fails": (
        ("inspect", "good.h5", "-m", "wrong.py"), "the model returned shape"
    ),
    "a model to inspect with that knows other functions": (
        ("inspect", "good.h5", "-m", "air_yrd"), "knows functions of (t, lon, lat)"
    ),
    "a table of text": (("predict", "table.csv", *ASK), "neither HDF5, NetCDF-4 nor npz"),
    "a truncated HDF5 file": (("predict", "cut.h5", *ASK), "cut.h5 cannot be opened: it is cut off"),
    "a truncated npz file": (("predict", "cut.npz", *ASK), "cut.npz is cut off or damaged"),
    "text instead of numbers": (("predict", "text.npz", *ASK), "query_values holds text, not numbers"),
    "wrong shapes": (("predict", "flat.npz", *ASK), "input_values is (3, 5, 1), but (N, D, n, c) is wanted"),
    "missing arrays": (("predict", "names.npz", *ASK), "has no input_values and no output_values"),
    "infinity in the data, strictly": (
        ("predict", "infinite.npz", *ASK, "--strict"), "query_values of question 1 holds"
    ),
    "infinity in all of the data": (("predict", "infinities.npz", *ASK), "query_values of question 0 holds"),
    "answers as questions": (("predict", "answers.npz", *ASK), "holds answers, not questions"),
    "an unknown model": (
        ("predict", "good.h5", "-m", "conversation", "-o", "a.h5"), "no network 'conversation'"
    ),
    "weights that are cut off": (
        ("predict", "good.h5", "-m", "broken.safetensors", "-o", "a.h5"), "not a readable weights file"
    ),
    "weights for stations": (
        ("predict", "good.h5", "-m", "air_yrd", "-o", "a.h5"), "knows functions of (t, lon, lat)"
    ),
    "weights for other channels": (("predict", "two.npz", *ASK), "maps 1 channel(s) to 1, the prompt 2 to 2"),
    "a model file that fails": (
        ("predict", "good.h5", "-m", "bad.py", "-o", "a.h5"), "ModuleNotFoundError: No module named"
    ),
    "a model that answers in another shape": (
        ("predict", "good.h5", "-m", "wrong.py", "-p", "raw", "-o", "a.h5"), "returned shape (3, 3, 1)"
    ),
    "a model that fails": (
        ("predict", "good.h5", "-m", "fails.py", "-p", "raw", "-o", "a.h5"),
        "the model failed on prompts of batch (3,)",
    ),
    "unknown program text": (
        ("predict", "good.h5", "-m", "mfc", "-p", "rescle | icon", "-o", "a.h5"), "did you mean rescale?"
    ),
    "program text that is none": (("explain", "-p", "icon |"), "this is not an expression"),
    "a program file that is not there": (("explain", "-p", "winner.txt"), "there is no file winner.txt"),
    "too few examples for the program": (
        ("predict", "single.npz", "-m", "conservation", "-p", "corr", "-o", "a.h5"), "needs at least 2"
    ),
    "answers in a wrong sort of file": (
        ("predict", "good.h5", "-m", "mfc", "-o", "a.csv"), "written to .h5, .nc or .npz files, not to a.csv"
    ),
    "answers that exist": (("predict", "good.h5", "-m", "mfc", "-o", "old.h5"), "old.h5 exists already"),
    "answers into no folder": (("predict", "good.h5", "-m", "mfc", "-o", "no/a.h5"), "there is no folder no"),
    "answers into a file": (
        ("predict", "good.h5", "-m", "mfc", "-o", "table.csv/a.h5"), "there is no folder table.csv"
    ),
    "answers over the questions": (
        ("predict", "good.h5", "-m", "conservation", "-o", "good.h5", "--force"), "holds the questions"
    ),
    "answers over a device": (
        ("explain", "-p", "mfc", "-o", "/dev/full", "--force"), "/dev/full is not a file that can be replaced"
    ),
    "no model": (("predict", "good.h5", "-o", "a.h5"), "Missing option '--model'"),
    "no model for a trace": (("explain", "good.h5"), "say which model answers"),
    "a model without questions": (("explain", "-m", "mfc"), "name the file"),
    "a batch of nothing": (("predict", "good.h5", *ASK, "--batch", "0"), "--batch"),
    "a question that is not there": (
        ("explain", "good.h5", "-m", "conservation", "-i", "3"), "questions 0 to 2, so --index 3 is none"
    ),
    "a trace in a wrong sort of file": (
        ("explain", "good.h5", "-m", "conservation", "-o", "t.jpg"), ".pdf, .svg, .json files, not to t.jpg"
    ),
    "a program in a wrong sort of file": (("explain", "-o", "t.png"), ".svg, .mmd, .json files"),
    "the contents of nothing": (("info", "nowhere.h5"), "there is no file nowhere.h5"),
    "the contents of weights that are cut off": (("info", "broken.safetensors"), "not a readable weights"),
    "an unknown command": (("predcit", "good.h5"), "No such command 'predcit'"),
    "an unknown option": (("predict", "good.h5", *ASK, "--quick"), "No such option: --quick"),
    "a number that is none": (("explain", "good.h5", "-i", "third"), "valid int"),
    "an unknown operator": (("operators", "nope", "--json"), "no operator 'nope'"),
    "data over data": (("data", "mfc", "--out", "old.h5", "--n", "1"), "exists already"),
    "a studio at a port that is none": (("studio", "--no-browser", "--port", "99999"), "'--port'"),
    "a studio with data that is not there": (
        ("studio", "--no-browser", "--data", "nowhere"), "nowhere holds no station data"
    ),
    "a studio with a model that is none": (("studio", "--no-browser", "-m", "nowhere.py"), "nowhere.py"),
}  # fmt: skip


@pytest.mark.parametrize("use", WRONG)
def test_a_wrong_use_is_one_sentence_and_exit_code_2(use, folder, capfd):
    arguments, words = WRONG[use]
    if "answers.npz" in arguments:
        write_npz(folder / "answers.npz", arrays(n=3), format="chop answers")
    before = sorted(path.name for path in folder.iterdir())
    code = run_command(app, arguments)
    told = capfd.readouterr()
    assert code == 2
    assert words in told.err
    lines = told.err.rstrip("\n").split("\n")
    pointer = len(lines) == 3 and lines[2].strip() == "^"  # program text is shown with the place
    assert len(lines) == 1 or pointer, told.err
    assert lines[0].startswith("chop")
    assert told.out == ""
    assert sorted(path.name for path in folder.iterdir()) == before
    assert (folder / "old.h5").read_text() == "older answers"


def test_a_studio_at_a_port_that_is_taken(folder, capfd):
    before = sorted(path.name for path in folder.iterdir())
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert run_command(app, ("studio", "--no-browser", "--port", str(port))) == 2
    told = capfd.readouterr()
    assert re.fullmatch(rf"chop: cannot listen at 127\.0\.0\.1:{port}: .*--port\n", told.err)
    assert told.out == ""
    assert sorted(path.name for path in folder.iterdir()) == before


CLEAR = "\x1b[2J\x07\x9b1m\u202e"
"""What would clear a terminal, ring its bell, make bold letters and turn the direction of writing."""


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (("predict", f"no{CLEAR}.h5", *ASK), 0),
        (("predict", "named.npz", *ASK), 0),
        (("predict", "good.h5", "-m", f"no{CLEAR}.py", "-o", "a.h5"), 0),
        (("predict", "good.h5", "-m", "conservation", "-o", "a.h5", "-p", f"icon | {CLEAR}"), 1),
        ((f"pre{CLEAR}dict",), 0),
    ],
)
def test_names_cannot_command_the_terminal(arguments, line, folder, capfd):
    write_npz(folder / "named.npz", {f"u{CLEAR}": np.zeros(3)})
    assert run_command(app, arguments) == 2
    told = capfd.readouterr().err
    assert all(c.isprintable() or c == "\n" for c in told)
    assert "\\x1b[2J\\x07\\x9b1m\\u202e" in told.split("\n")[line]


def test_reasons_cannot_command_the_terminal(folder, capfd):
    (folder / "odd.py").write_text(
        f"def model(prompt):\n    if len(prompt.query.values) > 1 or (prompt.query.values == 7).any():\n"
        f"        raise ValueError({CLEAR!r})\n    return prompt.query.values\n"
    )
    content = arrays(n=3, points=20)
    content["query_values"][1] = 7
    write_npz(folder / "seven.npz", content)
    assert run_command(app, ("predict", "seven.npz", "-m", "odd.py", "-p", "icon", "-o", "a.npz")) == 3
    told = capfd.readouterr()
    assert all(c.isprintable() or c == "\n" for c in told.out + told.err)
    assert "\\x1b[2J" in told.out


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere: see the next test")
def test_no_permission_to_write(folder, capfd):
    (folder / "closed").mkdir(mode=0o500)
    assert run_command(app, ("predict", "good.h5", "-m", "conservation", "-o", "closed/a.h5")) == 2
    assert "no permission" in capfd.readouterr().err


def test_no_permission_as_the_system_tells_it(folder, capfd, monkeypatch):
    """The same as root: the system's refusal, stood in for."""

    def refused(*_, **__):
        raise PermissionError(13, "Permission denied", "a.h5")

    monkeypatch.setattr("os.mkdir", refused)
    assert run_command(app, ("predict", "good.h5", *ASK)) == 2
    assert re.fullmatch(r"chop: a\.h5 .*Permission denied\n", capfd.readouterr().err)
    monkeypatch.setattr("tempfile.mkstemp", refused)
    assert run_command(app, ("explain", "-o", "a.svg")) == 2
    assert re.fullmatch(r"chop: a\.svg .*Permission denied\n", capfd.readouterr().err)


def process(*arguments, before="", **options):
    """A command in a process of its own, after some Python."""
    code = f"import sys\n{before}\nsys.argv[0] = 'chop'\nfrom chop.cli import main\nmain()"
    return subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        **options,
    )


FILLING = {
    "HDF5": ("predict", "q.h5", "-m", "mfc", "-p", "mean_output", "-o", "a.h5"),
    "npz": ("predict", "q.h5", "-m", "mfc", "-p", "mean_output", "-o", "a.npz"),
    "data": ("data", "mfc", "--n", "3", "-o", "a.h5"),
}


@pytest.mark.slow
@pytest.mark.parametrize("command", FILLING.values(), ids=FILLING)
def test_a_full_disk(command, tmp_path):
    write_hdf5(tmp_path / "q.h5", arrays(n=40, points=500))
    asked = process(*command, before=SMALL_DISK.format(20_000), cwd=tmp_path)
    _, told = asked.communicate(timeout=120)
    wanted = f"chop: {command[-1]} cannot be written: File too large; make room and repeat the command\n"
    assert (asked.returncode, told) == (2, wanted)
    assert [path.name for path in tmp_path.iterdir()] == ["q.h5"]


def test_a_full_disk_under_the_output():
    with Path("/dev/full").open("w") as full:
        asked = process("--help", stdout=full)
        _, told = asked.communicate(timeout=120)
    assert asked.returncode == 2
    assert re.fullmatch(r"chop: No space left on device.*\n", told)


@pytest.mark.parametrize("arguments", [("--help",), ("--version",)])
def test_a_closed_pipe_is_quiet(arguments, tmp_path):
    reading, writing = os.pipe()
    os.close(reading)
    asked = process(*arguments, stdout=writing, cwd=tmp_path)
    os.close(writing)
    _, told = asked.communicate(timeout=120)
    assert (asked.returncode, told) == (141, "")


SLOW = """
import pathlib, time
def model(prompt):
    pathlib.Path("asked").touch()
    time.sleep(60)
"""


@pytest.mark.slow
def test_ctrl_c_in_the_middle(tmp_path):
    write_hdf5(tmp_path / "q.h5", arrays())
    (tmp_path / "slow.py").write_text(SLOW)
    # A shell without job control starts its background jobs deaf to Ctrl-C, and this test may be in one.
    hearing = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
    asked = process("predict", "q.h5", "-m", "slow.py", "-o", "a.h5", before=hearing, cwd=tmp_path)
    while not (tmp_path / "asked").exists():
        assert asked.poll() is None, asked.stderr.read()
        time.sleep(0.05)
    asked.send_signal(signal.SIGINT)
    _, told = asked.communicate(timeout=120)
    assert (asked.returncode, told) == (130, "chop: stopped\n")
    assert not (tmp_path / "a.h5").exists()
    assert [path.name for path in tmp_path.glob(".*")] == []
