"""chop predict, explain and info as a user and as a script meet them."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest
from question_files import arrays, write_hdf5, write_npz

import chop
from chop.cli import app
from chop.cli.exit_codes import run_command
from chop.cli.predict import PROGRAMS
from chop.cli.terminal import print_json
from chop.core.words import duration, size
from chop.files import QuestionFile
from chop.icon.weights import bundled


@pytest.fixture
def questions(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return write_npz(tmp_path / "q.npz", arrays(n=3, points=20))


@pytest.fixture
def ask(capfd, questions):
    """A command that must end as it should, well by default; what it printed on standard output."""

    def asked(*arguments, code=0):
        ended = run_command(app, arguments)
        told = capfd.readouterr()
        assert (ended, told.err) == (code, "")
        return told.out

    return asked


def test_predict_prints_one_line_and_writes_what_the_program_says(ask, questions, tmp_path):
    said = ask("predict", "q.npz", "--model", "conservation", "--program", "corr", "--out", "a.npz")
    assert said.startswith(
        "a.npz: 3 questions, none rejected, 4 model evaluations each, mean in-context error"
    )
    assert said.count("\n") == 1
    with QuestionFile(questions) as file:
        wanted = chop.programs["corr"].run(chop.load("conservation"), file.read().prompt)
    assert np.array_equal(np.load("a.npz")["values"], wanted.values)


def test_predict_for_scripts(ask):
    told = json.loads(ask("predict", "q.npz", "-m", "conservation", "-o", "a.h5", "--json"))
    assert (told["questions"], told["program"]) == (3, "auto")
    asked = ("predict", "q.npz", "-m", "conservation", "-p", "raw", "-o", "a.h5", "--json", "--force")
    told = json.loads(ask(*asked))
    assert told["calls"] == 1
    assert told["error"] is None  # nobody asked for it
    assert told["rel_l2"] > 0
    assert (told["program"], told["model"], told["out"]) == ("icon", "conservation", "a.h5")
    assert json.loads(ask(*asked))["rel_l2"] == told["rel_l2"]


def test_a_model_of_ones_own(ask, tmp_path):
    (tmp_path / "mine.py").write_text("def last(prompt):\n    return prompt.outputs.values[..., -1, :, :]\n")
    ask("predict", "q.npz", "-m", "mine.py:last", "-p", "raw", "-o", "a.npz")
    assert np.array_equal(np.load("a.npz")["values"], np.load("q.npz")["output_values"][:, -1])


@pytest.mark.slow
def test_explain_tells_one_question(ask, tmp_path):
    asked = ("explain", "q.npz", "--index", "2", "--model", "conservation", "--program", "mfc")
    text = ask(*asked)
    assert "1. select: chose branch" in text
    assert "truth    relative L2 error" in text
    told = json.loads(ask(*asked, "--json"))
    assert told["question"] == 2
    assert told["calls"] == 8
    assert told["stages"][0]["operator"] == "select"
    assert f"relative L2 error {told['rel_l2']:.4g}" in text
    answers = json.loads(
        ask("predict", *asked[1:2], "-m", "conservation", "-p", "mfc", "-o", "a.npz", "--json")
    )
    assert answers["calls"] == told["calls"]
    assert np.load("a.npz")["rel_l2"][2] == pytest.approx(told["rel_l2"], rel=1e-4)
    starts = {"t.html": b"<!", "t.png": b"\x89PNG", "t.pdf": b"%PDF", "t.svg": b"<?xml", "t.json": b"{"}
    for name, start in starts.items():
        assert ask(*asked, "--out", name) == f"{name}\n"
        assert (tmp_path / name).read_bytes().startswith(start)
    assert json.loads((tmp_path / "t.json").read_text()) == told


def test_explain_tells_a_program(ask, tmp_path):
    text = ask("explain", "--program", "moving_frame | rescale | correct(icon) | conserve_mean")
    parts = ["1. moving_frame", "2. rescale", "3. correct", "4. icon", "5. conserve_mean"]
    assert [text.index(part) for part in parts] == sorted(text.index(part) for part in parts)
    assert "6 for 5 examples" in text
    told = json.loads(ask("explain", "--program", "corr", "--json"))
    assert told["calls"] == {"2": 3, "3": 4, "5": 6, "10": 11}
    assert [part["name"] for part in told["operators"]] == ["correct", "icon"]
    assert all(part["law"] for part in told["operators"])
    ask("explain", "--program", "corr", "--out", "p.svg")
    assert (tmp_path / "p.svg").read_text().startswith("<svg")
    ask("explain", "--program", "corr", "--out", "p.mmd")
    assert (tmp_path / "p.mmd").read_text().strip() == told["mermaid"].strip()


def test_info_tells_what_is_in_a_file(ask, tmp_path):
    assert "3 questions with 3 examples, answers of 20 points x 1 channel, with the true" in ask(
        "info", "q.npz"
    )
    told = json.loads(ask("info", "q.npz", "--json"))
    assert {array["name"]: array["shape"] for array in told["arrays"]}["query_values"] == [3, 20, 1]
    assert (told["holds"], told["kind"], told["questions"]) == ("questions", "npz", 3)
    ask("predict", "q.npz", "-m", "conservation", "-o", "a.nc")
    assert json.loads(ask("info", "a.nc", "--json"))["holds"] == "answers"
    write_hdf5(tmp_path / "else.h5", {"u": np.zeros((3, 4))})
    text = ask("info", "else.h5", code=2)
    assert "no questions: else.h5 has no input_values" in text
    assert "3 x 4" in text  # what is there is told all the same
    assert json.loads(ask("info", "else.h5", "--json", code=2))["holds"] == "arrays"
    weights = chop.icon.save(chop.load("mfc"), tmp_path / "w.safetensors", {"steps": 5})
    assert json.loads(ask("info", str(weights), "--json"))["training"] == {"steps": 5}


def test_info_tells_what_was_assumed_and_what_is_a_grid(ask, tmp_path):
    write_npz(tmp_path / "stated.npz", arrays(n=3), axes="x=1")
    assert "assumed" not in ask("info", "stated.npz")
    assert "axes are not stated; assumed: x with period 1, as the grid shows\n" in ask("info", "q.npz")
    draw = np.random.default_rng(0).standard_normal
    content = {"input_values": draw((2, 3, 4, 5)), "output_values": draw((2, 3, 4, 5)), "y": np.arange(4.0)}
    write_npz(
        tmp_path / "g.npz", {**content, "query_values": draw((2, 4, 5)), "x": np.arange(5.0)}, grid="y, x"
    )
    assert "answers on a grid: y (4), x (5)\n" in ask("info", "g.npz")


def test_operators_for_scripts(ask):
    everything = json.loads(ask("operators", "--json"))
    assert [part["name"] for part in everything] == list(chop.registry())
    (one,) = json.loads(ask("operators", "rescale", "--json"))
    assert {option["name"] for option in one["options"]} == {"center", "target"}


def commands(group, path=("chop",)):
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, (*path, name))
        else:
            yield (*path, name), command


def test_every_command_has_examples_that_name_it():
    from typer.main import get_command

    found = dict(commands(get_command(app)))
    assert len(found) > 10
    for path, command in found.items():
        assert command.epilog, path
        assert " ".join(path) in command.epilog, path


def test_completion_knows_programs_and_networks_without_torch():
    assert set(PROGRAMS) == set(chop.programs)

    def completed(words):
        code = (
            "import sys, chop.cli\n"
            "try:\n    chop.cli.main()\n"
            "finally:\n    assert not {'torch', 'numpy'} & set(sys.modules), 'heavy'"
        )
        done = subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "_CHOP_COMPLETE": "complete_bash", "COMP_WORDS": words,
                 "COMP_CWORD": str(len(words.split(" ")) - 1)},
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        return done.stdout.split()

    assert completed("chop predict --model ") == list(bundled())
    assert completed("chop explain --program c") == ["conservation", "corr", "conservation_evolved"]
    assert completed("chop pre") == ["predict"]


@pytest.mark.parametrize("colour", [{"NO_COLOR": "1"}, {}])
def test_no_colours_where_nobody_looks(colour):
    forced = ("FORCE_COLOR", "PY_COLORS", "GITHUB_ACTIONS", "COLUMNS", "NO_COLOR")
    env = {name: value for name, value in os.environ.items() if name not in forced}
    done = subprocess.run(
        [sys.executable, "-m", "chop.cli", "predict", "--help"],
        env={**env, **colour}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert "\x1b" not in done.stdout
    assert "Examples" in done.stdout


def test_lines_are_not_wrapped_where_nobody_looks(capfd, monkeypatch):
    from chop.cli.terminal import console

    monkeypatch.delenv("COLUMNS", raising=False)
    console().print("a [bracket] and " + "words " * 60)
    told = capfd.readouterr().out
    assert told.startswith("a [bracket] and words")
    assert told.count("\n") == 1


def test_numbers_for_people(capfd):
    assert [size(n) for n in (0, 999, 1000, 1_440_000, 3 * 10**9)] == [
        "0 bytes", "999 bytes", "1 kB", "1.44 MB", "3 GB",
    ]  # fmt: skip
    assert [duration(s) for s in (0.42, 59.9, 200, 7500)] == ["0.4 s", "59.9 s", "3 min 20 s", "2 h 5 min"]
    print_json({"a": float("nan"), "b": [float("inf"), 1.5]})
    assert json.loads(capfd.readouterr().out) == {"a": None, "b": [None, 1.5]}


def test_inspect_sums_up_a_file_and_tells_of_one_question(ask, tmp_path):
    said = ask("inspect", "q.npz").splitlines()
    assert said[0] == "q.npz: 3 questions"
    assert any(line.startswith("regular grid           100%: points are equally spaced; ") for line in said)
    assert any(line.startswith("mean kept              0%: ") for line in said)
    one = ask("inspect", "q.npz", "--index", "1")
    assert one.startswith("q.npz: question 1\nconsecutive frames     no (0 of 3 examples); largest gap")


def test_inspect_for_scripts_is_what_python_says(ask, questions):
    told = json.loads(ask("inspect", "q.npz", "--json"))
    with QuestionFile(questions) as file:
        wanted = chop.inspect(file.read().prompt)
    assert (told["file"], told["questions"], told["index"]) == ("q.npz", 3, None)
    assert [fact["name"] for fact in told["facts"]] == [fact.name for fact in wanted]
    kept = next(fact for fact in told["facts"] if fact["name"] == "mean kept")
    assert kept["claim"] == [False, False, False]
    assert kept["value"] == wanted["mean kept"].value.tolist()
    single = json.loads(ask("inspect", "q.npz", "-i", "2", "--json"))
    assert (single["questions"], single["index"]) == (1, 2)
    assert next(f for f in single["facts"] if f["name"] == "mean kept")["value"] == kept["value"][2]


def test_inspect_reads_a_file_in_pieces(ask, questions, monkeypatch):
    whole = ask("inspect", "q.npz", "--json")
    monkeypatch.setattr("chop.files.questions.BATCH_QUESTIONS", 2)
    assert ask("inspect", "q.npz", "--json") == whole


def test_inspect_asks_a_model(ask, questions, tmp_path):
    said = ask("inspect", "q.npz", "--model", "conservation").splitlines()
    assert any(line.startswith("order respected             100%: ") for line in said)
    assert said[-1].startswith("model evaluations           median ")
    told = json.loads(ask("inspect", "q.npz", "-m", "conservation", "--json"))
    assert told["model"] == "conservation"
    with QuestionFile(questions) as file:
        wanted = chop.inspect(file.read().prompt, chop.load("conservation"))
    found = {fact["name"]: fact for fact in told["facts"]}
    assert list(found) == [fact.name for fact in wanted]
    assert found["held-out error"]["value"] == wanted["held-out error"].value.tolist()
    assert found["home"]["choice"] == wanted["home"].choice.tolist()
    (tmp_path / "own.py").write_text("def model(prompt):\n    return prompt.query.values\n")
    one = ask("inspect", "q.npz", "-m", "own.py", "--index", "1")
    assert "sign respected              yes (3 of 3 examples" in one
    assert json.loads(ask("inspect", "q.npz", "--json"))["model"] is None


def test_inspect_writes_a_picture(ask, tmp_path):
    assert ask("inspect", "q.npz", "--out", "facts.png") == "facts.png\n"
    assert (tmp_path / "facts.png").read_bytes().startswith(b"\x89PNG")
    said = ask("inspect", "q.npz", "-i", "1", "-m", "conservation", "--out", "facts.json", "--json")
    assert json.loads(said) == json.loads((tmp_path / "facts.json").read_text())
    assert json.loads(said)["index"] == 1
    before = (tmp_path / "facts.png").read_bytes()
    ask("inspect", "q.npz", "-i", "1", "--out", "facts.png", "--force")
    assert (tmp_path / "facts.png").read_bytes() != before
