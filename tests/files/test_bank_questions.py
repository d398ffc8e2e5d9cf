"""`chop predict --bank`: queries of a file, examples, program and bands of a bank."""

import contextlib

import numpy as np
import pytest
from typer.testing import CliRunner

from chop.bank.bank import Bank
from chop.bank.calibration import CALIBRATION
from chop.cli.root import app
from chop.core.errors import BankError, FileError
from chop.files.bank_questions import questions_of_bank
from chop.files.resume import partial_folder

POINTS = 8
MODEL = """
import torch

def model(prompt):
    return 0.5 * prompt.query.values
"""


@pytest.fixture
def folder(tmp_path):
    draw = np.random.default_rng(0)
    x = draw.standard_normal((60, POINTS))
    grid = np.arange(POINTS) / POINTS
    np.savez(
        tmp_path / "pairs.npz", inputs=x, outputs=0.9 * x + 0.01 * draw.standard_normal(x.shape), coords=grid
    )
    np.savez(tmp_path / "today.npz", queries=draw.standard_normal((7, POINTS)), coords=grid)
    (tmp_path / "halves.py").write_text(MODEL)
    done = run("bank", "build", tmp_path / "pairs.npz", "--out", tmp_path / "pairs.bank")
    assert done.exit_code == 0, done.output
    return tmp_path


def run(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


def calibrated(folder, *more):
    return run(
        "bank", "calibrate", folder / "pairs.bank", "--model", f"{folder / 'halves.py'}:model",
        "--program", "weigh(icon, copy_query)", "--questions", 30, "--fast", *more,
    )  # fmt: skip


def answered(folder, *more):
    return run(
        "predict", folder / "today.npz", "--bank", folder / "pairs.bank",
        "--model", f"{folder / 'halves.py'}:model", "--out", folder / "answers.npz", *more,
    )  # fmt: skip


def test_a_calibrated_bank_answers_with_its_program_and_its_bands(folder):
    done = calibrated(folder)
    assert done.exit_code == 0, done.output
    assert "copy_query" in done.output
    assert (folder / "pairs.bank" / CALIBRATION).is_file()
    done = answered(folder, "--band", 0.8)
    assert done.exit_code == 0, done.output
    with np.load(folder / "answers.npz") as found, np.load(folder / "today.npz") as asked:
        values = found["values"].reshape(7, POINTS)
        np.testing.assert_allclose(values, 0.9 * asked["queries"], atol=0.05)
        assert (found["lower"] < found["values"]).all()
        assert (found["upper"] > found["values"]).all()
    assert not list(folder.glob(".answers*"))


def test_without_a_calibration_the_examples_speak(folder):
    done = answered(folder, "--program", "weigh(icon, copy_query)", "--k", 3, "--by", "random")
    assert done.exit_code == 0, done.output
    with np.load(folder / "answers.npz") as found:
        assert found["lower"].shape == found["values"].shape


def test_questions_stay_until_they_are_answered(folder):
    bank, asked, out = folder / "pairs.bank", folder / "today.npz", folder / "answers.npz"
    with contextlib.suppress(KeyboardInterrupt), questions_of_bank(bank, asked, out, 4, None) as made:
        first = made.path
        assert made.calibration is None
        partial_folder(out).mkdir()  # some answers are kept
        raise KeyboardInterrupt
    written = first.stat().st_mtime_ns
    with questions_of_bank(bank, asked, out, 4, None) as again:
        assert again.path == first
        assert first.stat().st_mtime_ns == written
        partial_folder(out).rmdir()
    assert not first.exists()
    with questions_of_bank(bank, asked, out, 5, None) as other:
        assert other.path != first


def test_a_bank_that_grew_makes_other_questions(folder):
    bank, asked, out = folder / "pairs.bank", folder / "today.npz", folder / "answers.npz"
    with questions_of_bank(bank, asked, out, None, None) as made:
        first = made.path
    with Bank.open(bank, writing=True) as opened:
        opened.add(opened.take([0, 1]))
    with questions_of_bank(bank, asked, out, None, None) as made:
        assert made.path != first


def test_wrong_uses(folder, tmp_path_factory):
    assert calibrated(folder).exit_code == 0
    bank, out = folder / "pairs.bank", folder / "answers.npz"
    with (
        pytest.raises(BankError, match="5 examples by similar"),
        questions_of_bank(bank, folder / "today.npz", out, 3, None),
    ):
        pass
    with (
        pytest.raises(FileError, match="there is no file"),
        questions_of_bank(bank, folder / "absent.npz", out, None, None),
    ):
        pass
    with (
        pytest.raises(BankError, match="not a bank"),
        questions_of_bank(folder / "nowhere", folder / "today.npz", out, None, None),
    ):
        pass
    again = calibrated(folder)
    assert again.exit_code != 0
    assert isinstance(again.exception, BankError)
    assert calibrated(folder, "--force").exit_code == 0
    (bank / CALIBRATION).write_text("{")
    broken = answered(folder)
    assert isinstance(broken.exception, BankError)
    (bank / CALIBRATION).unlink()
    out.write_bytes(b"")
    refused = answered(folder, "--program", "icon")
    assert isinstance(refused.exception, FileError)
    assert not list(folder.glob(".answers*"))  # nothing was answered, so nothing is kept
    lost = run("predict", folder / "today.npz", "--model", "conservation", "--out", out, "--by", "recent")
    assert isinstance(lost.exception, FileError)
