"""The programs of the catalog that nobody wrote: every kept journal replayed, every winner judged again.

    python benchmarks/found.py                          # conservation laws and mean-field control
    python benchmarks/found.py --task air --data DIR    # needs the air-quality data

Errors are those on the task's validation set, which evolution never saw. Results: docs/evolution.md.
"""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
from pathlib import Path

import torch

from chop.core.catalog import FOUND
from chop.evolution.report import analyse_winner
from chop.evolution.search import evolve

JOURNALS = Path(__file__).parents[1] / "docs" / "results" / "evolution"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--task", action="append", help="conservation, mfc or air; the first two if left out")
    parser.add_argument("--data", help="folder of the air-quality data")
    given = parser.parse_args()
    if given.data:
        os.environ["CHOP_AIR_DATA"] = given.data
    torch.set_num_threads(1)
    print("| task | seed | candidates | evaluations | score | validation: Raw | known | winner | same |")
    print("|---|---|---|---|---|---|---|---|---|")
    for found in FOUND:
        if found.task not in (given.task or ("conservation", "mfc")):
            continue
        with tempfile.TemporaryDirectory() as folder:
            shutil.copytree(JOURNALS / f"{found.task}-{found.seed}", folder, dirs_exist_ok=True)
            evolved = evolve(found.task, found.budget, out=folder, seed=found.seed)
        start, *known, winner = (score.validation for score in analyse_winner(evolved).scores)
        assert start is not None
        assert winner is not None
        best = min(score.mean for score in known[1:] if score is not None)
        candidates = evolved.state.candidates
        print(
            f"| {found.task} | {found.seed} | {len(candidates) - 1} "
            f"| {sum(candidate.evaluations for candidate in candidates):,} | {evolved.fitness:.3f} "
            f"| {start.mean:.4f} | {best:.4f} | {winner.mean:.4f} ({winner.reduction:.1f} %) "
            f"| {'yes' if evolved.winner.text == found.text else 'NO'} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
