"""How soon the library is there, beside ``import torch``: python benchmarks/startup.py [--runs 15]

Each command runs in a fresh interpreter, in turn with the others, so that whatever else the machine does
falls on all alike. Modules are compiled to bytecode once, before anything is measured, as they are in an
installed package. Medians; processor time is that of the command alone, whoever else is busy.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from statistics import median
from typing import NamedTuple

COMMANDS = {
    "`python -c pass`": ("-c", "pass"),
    "`import chop`": ("-c", "import chop"),
    "`chop --help`": ("-m", "chop.cli", "--help"),
    "`chop --version`": ("-m", "chop.cli", "--version"),
    "`chop.parse`": ("-c", "import chop; chop.parse('icon')"),
    "`import torch`": ("-c", "import torch"),
}
UNIT = "`import torch`"


class Cost(NamedTuple):
    """Seconds of one run."""

    wall: float
    processor: float


def measured(arguments: tuple[str, ...], environment: dict[str, str]) -> Cost:
    """One run in a fresh interpreter."""
    before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run([sys.executable, *arguments], env=environment, stdout=subprocess.DEVNULL, check=True)
    wall, after = time.perf_counter() - begun, resource.getrusage(resource.RUSAGE_CHILDREN)
    return Cost(wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def medians(runs: int) -> dict[str, Cost]:
    """The median of each command's runs."""
    with tempfile.TemporaryDirectory() as compiled:
        environment = {**os.environ, "PYTHONPYCACHEPREFIX": compiled}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        for arguments in COMMANDS.values():
            measured(arguments, environment)
        turns = [{name: measured(args, environment) for name, args in COMMANDS.items()} for _ in range(runs)]
    return {name: Cost(*map(median, zip(*(turn[name] for turn in turns), strict=True))) for name in COMMANDS}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=int, default=15, help="runs of each command")
    costs = medians(parser.parse_args().runs)
    unit = costs[UNIT]
    print("| command | wall time / `import torch` | processor time / `import torch` | processor time |")
    print("|---|---|---|---|")
    for name, cost in costs.items():
        print(
            f"| {name} | {cost.wall / unit.wall:.2f} | {cost.processor / unit.processor:.2f} "
            f"| {cost.processor:.2f} s |"
        )


if __name__ == "__main__":
    main()
