"""The command line as a user meets it."""

import os
import subprocess
import sys

import pytest

from chop import __version__
from chop.cli import app
from chop.cli.exit_codes import run_command


def chop(*arguments, cwd=None):
    return subprocess.run(
        [sys.executable, "-m", "chop.cli", *arguments],
        capture_output=True,
        text=True,
        cwd=cwd,
        env={**os.environ, "NO_COLOR": "1", "COLUMNS": "120"},
        check=False,
        timeout=240,
    )


@pytest.mark.slow
def test_demo_prints_and_draws(tmp_path):
    done = chop("demo", "--n", "6", "--steps", "3", "--out", "pictures", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "raw" in done.stdout
    assert "with no weight changed" in " ".join(done.stdout.split())  # however the terminal breaks lines
    assert (tmp_path / "pictures" / "rollout.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "pictures" / "trace.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in (tmp_path / "pictures" / "trace.html").read_text(encoding="utf-8")


def test_version():
    assert chop("--version").stdout.strip() == __version__


def test_operators_are_listed_and_explained(capfd):
    assert run_command(app, ["operators"]) == run_command(app, ["operators", "rescale"]) == 0
    told = capfd.readouterr().out
    assert "moving_frame" in told
    assert "spread of the mapped prompt" in told


def test_a_mistake_is_one_sentence_and_exit_code_2(tmp_path):
    done = chop("operators", "nope", cwd=tmp_path)
    assert done.returncode == 2
    assert "no operator 'nope'" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("demo", "--flux", "sin(v)"), "v"),
        (("demo", "--flux", "__import__('os')"), ""),
        (("demo", "--n", "many"), "valid integer"),
        (("nonsense",), "nonsense"),
        (("bench", "weather"), "weather"),
        (
            ("bench", "conservation", "--condition", "conservation/quartic"),
            "no condition 'conservation/quartic'",
        ),
        (("bench", "conservation", "--model", "nowhere.safetensors"), "no network 'nowhere.safetensors'"),
    ],
)
def test_other_mistakes(arguments, words, tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    assert run_command(app, arguments) == 2
    told = capfd.readouterr().err
    assert words in told
    assert "Traceback" not in told


def test_help_does_not_import_torch():
    code = "import sys, chop.cli; assert not {'torch', 'numba', 'matplotlib'} & set(sys.modules), 'heavy'"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
