"""The report, the command, the example of a task of one's own."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import chop
from chop.cli import main
from chop.core.errors import EvolutionError
from chop.evolution.journal import JOURNAL_FILE
from chop.evolution.report import analyse_winner, write_report
from chop.evolution.search import evolve

ROOT = Path(__file__).parents[2]
TOY = str(ROOT / "tests" / "assets" / "toy_task.py")


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """`chop evolve` in this process and an empty folder: (exit code, output, errors)."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")

    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["chop", "evolve", *arguments])
        with pytest.raises(SystemExit) as end:
            main()
        out, err = capsys.readouterr()
        return end.value.code or 0, out, err

    return call


@pytest.fixture(scope="module")
def evolved(tmp_path_factory):
    return evolve(TOY, 49, out=tmp_path_factory.mktemp("evolved"))


def test_findings_say_what_was_asked(evolved):
    found = analyse_winner(evolved)
    assert [score.name for score in found.scores] == ["start (icon)", "corrected", "the winner"]
    assert found.scores[-1].validation.reduction > 0, "it holds where evolution never looked"
    assert found.scores[-1].evolution.base_mean / found.scores[-1].evolution.mean == pytest.approx(
        evolved.fitness, rel=1e-5
    )
    assert len(found.ablation) >= 2
    assert all(fitness is None or fitness > 0 for _, fitness in found.ablation)
    assert found.family[0].number == 0 or not found.family[0].parents
    assert found.family[-1] == evolved.winner
    assert "icon" in found.trace


def test_the_page_needs_nothing_but_itself(evolved):
    path, _ = write_report(evolved)
    page = path.read_text(encoding="utf-8")
    assert not re.search(r"(src|href)=\"(?!data:)", page)
    assert "<script" not in page
    for words in ("Scores", "validation set", "Family of the winner", "Agents", "What each operator carries"):
        assert words in page
    assert "<svg" in page
    assert evolved.winner.text.split("(")[0] in page


def test_the_command_searches_reports_and_continues(run, tmp_path):
    asked = ("--task", TOY, "--budget", "25", "--out", "here", "--executor", "inline")
    code, out, err = run(*asked, "--export", "best.txt")
    assert code == 0, err
    text = (tmp_path / "best.txt").read_text().strip()
    assert text in out
    chop.parse(text)
    assert "validation error, the winner" in out
    assert (tmp_path / "here" / "report.html").exists()
    before = (tmp_path / "here" / JOURNAL_FILE).read_bytes()
    assert run(*asked)[0] == 0
    assert (tmp_path / "here" / JOURNAL_FILE).read_bytes() == before


def test_ctrl_c_is_an_ordinary_end(tmp_path):
    # A shell that starts jobs in the background has them ignore Ctrl-C, and a child inherits that.
    heeding = (
        "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler); "
        "from chop.cli import main; sys.exit(main())"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", heeding, "evolve", "--task", TOY, "--budget", "20000", "--out", "here",
         "--workers", "1"],
        cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "200"},
    )  # fmt: skip
    journal = tmp_path / "here" / JOURNAL_FILE
    while process.poll() is None and not (journal.exists() and journal.read_bytes().count(b"\n") > 5):
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 130, err
    assert "the same command continues" in out
    assert "Traceback" not in err


def test_a_file_that_exists_is_not_written_over(run, tmp_path):
    asked = ("--task", TOY, "--budget", "13", "--executor", "inline", "--out", "here", "--export")
    (tmp_path / "best.txt").write_text("an older winner\n")
    code, _, err = run(*asked, "best.txt")
    assert code == 2
    assert "best.txt exists already" in err
    assert not (tmp_path / "here").exists(), "it is said before the search begins"
    assert (tmp_path / "best.txt").read_text() == "an older winner\n"
    assert run(*asked, "best.txt", "--force")[0] == 0
    chop.parse((tmp_path / "best.txt").read_text().strip())
    assert run(*asked, "here/best.txt")[0] == 0, "into a folder that is made"
    assert not list(tmp_path.rglob("*.partial"))
    assert run(*asked, "here")[0] == 2


def test_a_winner_is_saved_whole_and_not_over_another(evolved, tmp_path):
    path = evolved.save(tmp_path / "new" / "best.txt")
    with pytest.raises(EvolutionError, match="exists already"):
        evolved.save(path)
    assert evolved.save(path, overwrite=True).read_text() == f"{evolved.winner.text}\n"
    with pytest.raises(EvolutionError, match="cannot be written"):
        evolved.save(path / "below.txt")


def test_a_winner_without_the_model_is_said(run, tmp_path):
    (tmp_path / "mine.py").write_text(
        f"from pathlib import Path\nexec(Path({TOY!r}).read_text())\nimport dataclasses\n"
        "task = dataclasses.replace(task, model=lambda prompt: 100 + 0 * prompt.query.values)\n"
    )
    asked = ("--budget", "25", "--executor", "inline", "--agents", "random")
    code, out, err = run("--task", "mine.py", *asked, "--out", "own")
    assert code == 0, err
    assert "it never calls the model" in out
    assert "never calls the model" in (tmp_path / "own" / "report.html").read_text(encoding="utf-8")
    assert "never calls the model" not in run("--task", TOY, *asked[:4], "--out", "toy")[1]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--task", "weather"), "no task 'weather'"),
        (("--task", TOY, "--agents", "wizard"), "no agent wizard"),
        (("--task", TOY, "--agents", "llm"), "--llm-url"),
        (("--task", TOY, "--llm-url", "http://localhost:1/v1"), "nobody asks it: add llm to --agents"),
        (("--task", TOY, "--llm-model", "m", "--agents", "tuner"), "nobody asks it: add llm to --agents"),
        (("--task", TOY, "--agents", "llm", "--llm-url", "ftp://x", "--llm-model", "m"), "https://host/v1"),
    ],
)
def test_mistakes_are_one_sentence_and_exit_code_2(arguments, words, run):
    code, _, err = run(*arguments, "--executor", "inline")
    assert code == 2
    assert words in err


def test_the_example_of_an_own_task_evolves(run):
    path = str(ROOT / "examples" / "own_task.py")
    code, out, err = run("--task", path, "--budget", "25", "--executor", "inline", "--out", "own")
    assert code == 0, err
    assert "validation error, the winner" in out


def test_the_air_task_asks_half_at_random_and_half_alike(tmp_path):
    pytest.importorskip("xarray")
    from chop.evolution.task import errors_of
    from chop.evolution.tasks import air_task
    from chop.problems.air import load_region, make_world, prepare

    make_world(tmp_path, seed=0)
    history = prepare(load_region(tmp_path, "yrd"), ("2023-10-01", "2024-01-01"))
    task = air_task(
        lambda prompt: prompt.outputs.values.mean(dim=-3), history, ("2024-01-01", "2024-02-15"), 12
    )
    assert len(task.cases) == len(task.validation) == 12
    assert not set(task.cases.rows["end"]) & set(task.validation.rows["end"])
    errors = errors_of(task, "icon", task.cases)
    assert errors.shape == (12,)
    assert bool((errors > 0).all())
