"""Files damaged or changed on purpose: a result or one sentence, in bounded time and memory."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from hostile_files import KINDS

FILES = int(os.environ.get("CHOP_HOSTILE", "80"))
"""Of each kind; make validity reads ten thousand."""
SEED = int(os.environ.get("CHOP_HOSTILE_SEED", "0"))


def read_all(kind, folder):
    """The outcome of every file, by number; a process that dies takes one file with it."""
    script = Path(__file__).parents[1] / "support" / "hostile_files.py"
    found = {}
    first = 0
    while first < FILES:
        done = subprocess.run(
            [sys.executable, script, kind, str(first), str(FILES), str(SEED), folder],
            capture_output=True, text=True,
        )  # fmt: skip
        outcomes = folder / "outcomes.jsonl"
        found |= dict(map(json.loads, outcomes.read_text().splitlines() if outcomes.exists() else []))
        if done.returncode == 0:
            break
        assert done.returncode < 0, done.stderr  # the script itself failed
        number = int((folder / "now").read_text())
        found[number] = signal.Signals(-done.returncode).name
        first = number + 1
        shutil.rmtree(folder / "work", ignore_errors=True)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_result_or_one_sentence(kind, tmp_path):
    found = read_all(kind, tmp_path)
    assert len(found) == FILES
    told = Counter(found.values())
    print(kind, {outcome[:60]: count for outcome, count in told.items() if len(outcome) < 60})
    wrong = {number: outcome for number, outcome in found.items() if outcome not in ("read", "refused")}
    assert not wrong, f"{len(wrong)} of {FILES}, the first: {next(iter(wrong.items()))}"
    assert told["refused"] > FILES // 10
    assert told["read"] > FILES // 50
