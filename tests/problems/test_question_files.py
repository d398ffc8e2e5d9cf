"""Data sets on disk: nothing is lost, nothing unfinished looks whole, and the command line works."""

import json
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from chop.cli.data import data_app
from chop.core.errors import ChopError, DataError, FluxError
from chop.core.prompt import Field, Prompt
from chop.files import CaseFile
from chop.problems import Case, conservation, mfc
from chop.problems.question_files import write_cases


def pieces(n: int = 7, size: int = 3):
    for first in range(0, n, size):
        yield conservation.sample("tanh", min(size, n - first), first=first, steps=2)


def same(a: Case, b: Case) -> bool:
    pairs = [(a.target, b.target), (a.prompt.at, b.prompt.at), (a.prompt.times, b.prompt.times)]
    for name in ("inputs", "outputs", "query"):
        left, right = getattr(a.prompt, name), getattr(b.prompt, name)
        pairs += [(left.values, right.values), (left.coords, right.coords), (left.observed, right.observed)]
    if a.trajectory is not None:
        pairs.append((a.trajectory, b.trajectory))
    rows = all(np.array_equal(a.rows[name], b.rows[name]) for name in a.rows)
    return rows and a.prompt.axes == b.prompt.axes and all(torch.equal(x, y) for x, y in pairs)


def test_round_trip(tmp_path: Path) -> None:
    heard: list[int] = []
    path = write_cases(tmp_path / "a.h5", pieces(), command="chop data ...", progress=heard.append)
    assert heard == [3, 6, 7]
    whole = conservation.sample("tanh", 7, steps=2)
    with CaseFile(path) as data:
        assert len(data) == 7
        assert data.command == "chop data ..."
        assert same(data.read(), whole)
        assert data.read().meta == whole.meta
        assert same(data.read(2, 5), whole[2:5])
        assert [len(case) for case in data.batches(4)] == [4, 3]
        assert same(next(iter(data)), whole[:1])
        assert sum(1 for _ in data) == 7
        with pytest.raises(DataError, match="questions 0"):
            data.read(9)
        with pytest.raises(DataError, match="1 question or more"):
            next(data.batches(0))
    with h5py.File(path) as file:
        assert file.attrs["complete"]
        assert file["inputs/coords"].shape == (100, 1)  # one grid, stored once
        assert {"numpy", "numba"} <= json.loads(file.attrs["made_with"]).keys()


def test_round_trip_of_two_coordinates_and_masks(tmp_path: Path) -> None:
    case = mfc.sample("g_1to2", 0.5, 3)
    prompt = case.prompt
    mask = torch.ones_like(prompt.outputs.values, dtype=torch.bool)
    mask[0, 0, :5] = False
    outputs = Field(prompt.outputs.coords, prompt.outputs.values, mask)
    holed = Case(Prompt(prompt.inputs, outputs, prompt.query, prompt.at), case.target, rows=case.rows)
    for name, one in (("a.h5", case), ("b.h5", holed)):
        with CaseFile(write_cases(tmp_path / name, [one])) as data:
            assert same(data.read(), one)


def test_existing_files_are_not_replaced_unasked(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    path.write_text("precious")
    with pytest.raises(DataError, match="exists already"):
        write_cases(path, pieces())
    assert path.read_text() == "precious"
    write_cases(path, pieces(), overwrite=True)
    with CaseFile(path) as data:
        assert len(data) == 7


def test_bad_places_and_files(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no folder"):
        write_cases(tmp_path / "none" / "a.h5", pieces())
    with pytest.raises(DataError, match="no file"):
        CaseFile(tmp_path / "a.h5")
    (tmp_path / "text.h5").write_text("hello")
    with pytest.raises(DataError, match="neither HDF5"):
        CaseFile(tmp_path / "text.h5")
    with h5py.File(tmp_path / "other.h5", "w") as file:
        file["x"] = 1
    with pytest.raises(DataError, match="not a data set of cases"):
        CaseFile(tmp_path / "other.h5")
    with pytest.raises(DataError, match="no cases"):
        write_cases(tmp_path / "a.h5", [])
    with pytest.raises(DataError, match="must agree"):
        write_cases(tmp_path / "a.h5", [conservation.sample("u", 2), conservation.sample("u", 2, steps=3)])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["other.h5", "text.h5"]


def test_an_unfinished_file_is_refused(tmp_path: Path) -> None:
    path = write_cases(tmp_path / "a.h5", pieces())
    with h5py.File(path, "r+") as file:
        file.attrs["complete"] = False
    with pytest.raises(DataError, match="not written to its end"):
        CaseFile(path)
    path.write_bytes(path.read_bytes()[:3000])
    with pytest.raises(DataError):
        CaseFile(path)


@pytest.mark.parametrize("interruption", [KeyboardInterrupt, ValueError])
def test_an_interrupted_write_leaves_nothing(tmp_path: Path, interruption: type[BaseException]) -> None:
    def broken():
        yield next(pieces())
        raise interruption

    with pytest.raises(interruption):
        write_cases(tmp_path / "a.h5", broken())
    assert list(tmp_path.iterdir()) == []


WRITER = """
import sys, time
from chop.problems import conservation
from chop.problems.question_files import write_cases
def pieces():
    for first in range(0, 1000, 2):
        yield conservation.sample("u", 2, first=first)
        if first >= 6:
            print("writing", flush=True)
            time.sleep(0.05)
write_cases(sys.argv[1], pieces(), overwrite=True)
"""


def test_kill_9_leaves_nothing_that_looks_whole(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    write_cases(path, pieces())
    before = path.read_bytes()
    writer = subprocess.Popen([sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE)
    assert writer.stdout is not None
    assert writer.stdout.readline() == b"writing\n"
    writer.send_signal(signal.SIGKILL)
    writer.stdout.close()
    assert writer.wait() == -signal.SIGKILL
    assert path.read_bytes() == before  # the old file is untouched
    leftover = [entry for entry in tmp_path.iterdir() if entry != path]
    assert len(leftover) == 1
    assert leftover[0].name.startswith(".a.h5.")
    assert leftover[0].name.endswith(".partial")
    with pytest.raises(DataError):
        CaseFile(leftover[0])


def run(*words: str) -> str:
    result = CliRunner().invoke(data_app, list(words))
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result.output


@pytest.mark.parametrize(
    "words",
    [
        [
            "conservation",
            "--flux",
            "0.3*u**3-u",
            "-n",
            "23",
            "--steps",
            "2",
            "--seed",
            "4",
            "--bound",
            "-2",
            "2",
        ],
        ["conservation", "--flux", "cubic", "-n", "2", "--steps", "1", "--split", "evolution", "--float64"],
        ["mfc", "--family", "rho_1to2", "--length", "0.3", "-n", "3", "--times", "5", "--points", "7"],
    ],
)
def test_a_file_says_how_to_make_it_again(tmp_path: Path, words: list[str]) -> None:
    first, second = tmp_path / "a.h5", tmp_path / "b.h5"
    assert f"{words[words.index('-n') + 1]} questions" in run(*words, "--out", str(first))
    with CaseFile(first) as data:
        command = shlex.split(data.command)
        assert command[:2] == ["chop", "data"]
        command[command.index("--out") + 1] = str(second)
        run(*command[2:])
        with CaseFile(second) as again:
            assert same(data.read(), again.read())
            assert data.settings == again.settings


def test_command_line_data_equals_the_library(tmp_path: Path) -> None:
    run("conservation", "--flux", "tanh", "-n", "41", "--steps", "1", "--out", str(tmp_path / "a.h5"))
    with CaseFile(tmp_path / "a.h5") as data:
        assert same(data.read(), conservation.sample("tanh", 41))


def test_command_line_failures(tmp_path: Path) -> None:
    out = str(tmp_path / "a.h5")
    with pytest.raises(FluxError, match="divides by zero"):
        run("conservation", "--flux", "1/u", "--out", out)
    with pytest.raises(ChopError, match="no folder"):
        run("mfc", "--out", str(tmp_path / "none" / "a.h5"))
    assert list(tmp_path.iterdir()) == []


def test_gallery(tmp_path: Path) -> None:
    from generator.gallery import draw_all

    made = draw_all(tmp_path)
    assert [path.name for path in made] == ["gallery_conservation.png", "gallery_mfc.png"]
    assert all(path.stat().st_size > 50_000 for path in made)
    with pytest.raises(ChopError, match="no folder"):
        draw_all(tmp_path / "none")
