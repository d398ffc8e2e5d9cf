"""A process that adds pairs is killed at any moment: every pair it acknowledged is there, bit for bit."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from bank_pairs import assert_same, pairs

from chop.bank import Bank

TOTAL = 5000
ADDING = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parents[1] / "support")!r})
from bank_pairs import pairs
from chop.bank import Bank, segments
segments.MANY, segments.FEW = 3, 1  # so that files are merged all the time
whole = pairs({TOTAL})
with Bank.open(sys.argv[1], writing=True) as bank:
    for row in range(len(bank), {TOTAL}):
        bank.add(whole.cut(row, row + 1))
        print(row + 1, flush=True)
"""


@pytest.mark.slow
def test_killed_at_any_time_no_acknowledged_pair_is_lost(tmp_path):
    folder, moment, whole = tmp_path / "a.bank", random.Random(2), pairs(TOTAL)
    Bank.create(folder).close()
    kept = 0
    for _ in range(int(os.environ.get("CHOP_KILLS", "3"))):
        process = subprocess.Popen(
            [sys.executable, "-c", ADDING, str(folder)], stdout=subprocess.PIPE, text=True
        )
        acknowledged = [int(process.stdout.readline()) for _ in range(moment.randint(1, 5))]
        time.sleep(0.1 * moment.random())
        process.kill()
        rest, _ = process.communicate(timeout=60)
        assert process.returncode == -signal.SIGKILL
        whole_lines = rest[: rest.rfind("\n") + 1].split()
        told = [*acknowledged, *map(int, whole_lines)][-1]
        with Bank.open(folder) as reader:
            assert kept < told <= len(reader) <= told + 1
            assert_same(reader.take(range(len(reader))), whole.cut(0, len(reader)))
            kept = len(reader)
    with Bank.open(folder, writing=True) as made:
        assert made.add(whole.cut(kept, kept + 1)) == kept + 1
        assert_same(made.take(range(kept + 1)), whole.cut(0, kept + 1))
    names = {path.name for path in folder.iterdir()}
    assert names == {"bank.jsonl", "shape.h5", *(name for name in names if name.startswith("segment-"))}
