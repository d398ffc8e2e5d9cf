"""The command line as a user meets it."""

import os
import subprocess
import sys

import pytest

from chop import __version__


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


def test_demo_prints_and_draws(tmp_path):
    done = chop("demo", "--n", "6", "--steps", "3", "--out", "pictures", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "raw" in done.stdout
    assert "with no weight changed" in done.stdout
    assert (tmp_path / "pictures" / "rollout.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "pictures" / "trace.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in (tmp_path / "pictures" / "trace.html").read_text(encoding="utf-8")


def test_version():
    assert chop("--version").stdout.strip() == __version__


def test_operators_are_listed_and_explained():
    assert "moving_frame" in chop("operators").stdout
    assert "spread of the mapped prompt" in chop("operators", "rescale").stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("operators", "nope"), "no operator 'nope'"),
        (("demo", "--flux", "sin(v)"), "v"),
        (("demo", "--flux", "__import__('os')"), ""),
        (("demo", "--n", "many"), "valid integer"),
        (("nonsense",), "nonsense"),
        (("bench", "weather"), "weather"),
        (("bench", "conservation", "--condition", "conservation/cubic"), "no condition 'conservation/cubic'"),
        (("bench", "conservation", "--model", "nowhere.safetensors"), "no network 'nowhere.safetensors'"),
    ],
)
def test_mistakes_are_one_sentence_and_exit_code_2(arguments, words, tmp_path):
    done = chop(*arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_help_does_not_import_torch():
    code = "import sys, chop.cli; assert not {'torch', 'numba', 'matplotlib'} & set(sys.modules), 'heavy'"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
