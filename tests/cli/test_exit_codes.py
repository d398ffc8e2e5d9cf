"""SIGTERM, as of a batch scheduler, ends every long command like Ctrl-C: in order, and with all processes."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

TOY = str(Path(__file__).parents[1] / "assets" / "toy_task.py")
LONG = {
    "data": (("data", "conservation", "--n", "100000", "-o", "d.h5"), ".d.h5.*.partial"),
    "evolve": (
        ("evolve", "--task", TOY, "--budget", "20000", "--out", "here", "--workers", "1"), "here/*.jsonl"
    ),
    "bench": (
        ("bench", "conservation", "--cases", "1000", "-p", "main", "--out", "here", "--workers", "1"),
        "here/*.jsonl",
    ),
    "train": (
        ("train", "mfc", "--minutes", "60", "--size", "1", "--workers", "2", "--out", "here"), "here"
    ),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", LONG)
def test_sigterm_ends_a_long_command_in_order(name, tmp_path):
    arguments, sign = LONG[name]
    process = subprocess.Popen(
        [sys.executable, "-m", "chop.cli", *arguments], cwd=tmp_path,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    while not list(tmp_path.glob(sign)):
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)
    time.sleep(0.5)
    assert process.poll() is None
    process.terminate()
    said, told = process.communicate(timeout=120)
    assert process.returncode == 143, told
    assert "stopped" in said + told
    assert "Traceback" not in told
    assert list(tmp_path.glob(".d.h5*")) == []
    assert working_in(tmp_path) == []


def working_in(folder):
    """Processes whose working folder is this one."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            if (entry / "cwd").readlink() == folder and entry.name != str(os.getpid()):
                found.append((entry / "cmdline").read_bytes())
        except OSError:
            continue
    return found


def test_code_that_was_interrupted_as_a_string_is_an_interruption_like_any_other(tmp_path):
    """Libraries execute strings while they load; Python remembers it, and ends by a signal of its own."""
    code = (
        "import sys, typer\nfrom chop.cli.exit_codes import Commands, run_command\n"
        "app = typer.Typer(cls=Commands)\n"
        "@app.callback()\ndef common(): pass\n"
        "@app.command()\ndef work(): exec('raise KeyboardInterrupt')\n"
        "sys.exit(run_command(app, ['work']))"
    )
    (tmp_path / "interrupted.py").write_text(code)
    done = subprocess.run(  # as a module: a script would not ask what Python remembers
        [sys.executable, "-m", "interrupted"], cwd=tmp_path, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (130, "chop: stopped\n")


def test_handlers_are_put_back():
    from chop.cli import app
    from chop.cli.exit_codes import run_command

    before = signal.getsignal(signal.SIGTERM)
    assert run_command(app, ("--version",)) == 0
    assert signal.getsignal(signal.SIGTERM) is before
