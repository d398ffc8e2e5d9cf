"""``chop bank`` as a user meets it: build, add, info, ask, and what goes wrong."""

import json
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from chop.bank import Bank
from chop.cli import app
from chop.cli.exit_codes import run_command


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    x = np.random.default_rng(0).normal(size=(40, 16)).astype(np.float32)
    np.savez("a.npz", inputs=x[:20], outputs=x[:20] ** 2, times=np.arange(20))
    np.savez("b.npz", inputs=x[20:], outputs=x[20:] ** 2, times=np.arange(20, 40))
    np.savez("queries.npz", queries=x[:3] + 0.1, times=[10, 20, 30])
    return tmp_path


def chop(*arguments):
    return run_command(app, arguments)


def test_from_files_to_questions(folder, capfd):
    assert chop("bank", "build", "a.npz", "--out", "a.bank") == 0
    assert capfd.readouterr().out == "a.bank: 20 pairs, 20 of them new\n"
    assert chop("bank", "add", "a.bank", "b.npz", "--json") == 0
    assert json.loads(capfd.readouterr().out) == {"bank": "a.bank", "pairs": 40, "added": 20}
    assert chop("bank", "build", "a.npz", "b.npz", "--out", "a.bank") == 0, "all is there already"
    assert capfd.readouterr().out == "a.bank: 40 pairs, 0 of them new\n"
    assert chop("bank", "info", "a.bank") == 0
    told = capfd.readouterr().out
    assert "16 points x 1 ch -> 16 points x 1 ch" in told
    assert "a.npz, b.npz" in told
    assert chop("bank", "info", "a.bank", "--json") == 0
    about = json.loads(capfd.readouterr().out)
    assert (about["pairs"], about["asked"], about["dtype"]) == (40, [0, 39], "float32")
    assert chop("bank", "ask", "a.bank", "queries.npz", "--k", "3", "--by", "recent", "--out", "q.h5") == 0
    assert capfd.readouterr().out == "q.h5: 3 questions with 3 pairs each\n"
    assert chop("info", "q.h5") == 0
    assert "3 questions with 3 examples" in capfd.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("build", "nowhere.npz", "--out", "x.bank"), "there is no file nowhere.npz"),
        (("build", "queries.npz", "--out", "x.bank"), "queries.npz has no input_values"),
        (("build", "b.npz", "--out", "a.bank"), "a.bank is a bank with other pairs; use chop bank add"),
        (("add", "x.bank", "a.npz"), "x.bank is not a bank"),
        (("add", "a.bank", "nowhere.npz"), "there is no file nowhere.npz"),
        (("info", "a.npz"), "a.npz is not a bank"),
        (("ask", "a.bank", "queries.npz", "--out", "a.npz"), "exists already"),
        (("ask", "a.bank", "queries.npz", "--out", "q.h5", "--k", "99"), "99 are needed"),
        (("ask", "a.bank", "queries.npz", "--out", "q.h5", "--by", "best"), "best"),
        (("ask", "a.bank", "queries.npz"), "--out"),
    ],
)
def test_a_mistake_is_one_sentence_and_exit_code_2(folder, capfd, arguments, words):
    assert chop("bank", "build", "a.npz", "--out", "a.bank") == 0
    capfd.readouterr()
    assert chop("bank", *arguments) == 2
    out, told = capfd.readouterr()
    assert words in told
    assert "Traceback" not in told
    assert out == ""
    assert not (folder / "x.bank").exists()
    assert len(Bank.open("a.bank")) == 20


def test_replaced_only_by_force(folder, capfd):
    assert chop("bank", "build", "a.npz", "--out", "a.bank") == 0
    assert chop("bank", "build", "b.npz", "--out", "a.bank", "--force") == 0
    assert capfd.readouterr().out.endswith("a.bank: 20 pairs, 20 of them new\n")
    assert Bank.open("a.bank").asked.tolist() == list(range(20, 40))


def test_locked_by_another(folder, capfd):
    with Bank.create("a.bank"):
        assert chop("bank", "add", "a.bank", "a.npz") == 2
    assert "another process is writing" in capfd.readouterr().err


SLOW = """
import signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)
from chop.bank.segments import DiskPairs
from chop.files import pair_files
pair_files.BLOCK_BYTES = 300
add = DiskPairs.add
def slow(*given):
    time.sleep(0.2)
    return add(*given)
DiskPairs.add = slow
sys.argv[0] = "chop"
from chop.cli import main
main()
"""


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_stopped_it_says_what_is_kept_and_goes_on(folder, capfd, number, code):
    command = [sys.executable, "-c", SLOW, "bank", "build", "a.npz", "--out", "a.bank"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    log = folder / "a.bank" / "bank.jsonl"
    while not log.exists() or log.read_bytes().count(b"\n") < 4:
        assert process.poll() is None
        time.sleep(0.02)
    process.send_signal(number)
    _, told = process.communicate(timeout=60)
    assert process.returncode == code
    kept = len(Bank.open("a.bank"))
    assert 0 < kept < 20
    assert told == f"chop: stopped; {kept} pairs are kept in a.bank, and the same command goes on\n"
    assert chop("bank", "build", "a.npz", "--out", "a.bank") == 0
    assert capfd.readouterr().out == f"a.bank: 20 pairs, {20 - kept} of them new\n"
    with Bank.open("a.bank") as bank:
        np.testing.assert_array_equal(bank.take(range(20)).inputs.values[..., 0], np.load("a.npz")["inputs"])
