"""Evolution against random search over the same space at equal model evaluations.

    python benchmarks/evolution.py                            # conservation, three seeds, minutes
    python benchmarks/evolution.py --task mfc --budget 600 --out runs/evolution

Best score so far (mean error of the bare model / mean error of the program, on the evolution set) over the
model evaluations spent: its mean up to where the shorter of the two searches ends, and its value there.
Random candidates are mostly given up early, so random search gets to judge more of them.
Journals in ``--out`` are continued, not made again. Results: docs/evolution.md.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import torch

from chop.evolution.population import Candidate
from chop.evolution.search import Evolved, evolve

MOST = 20_000
"""Candidates of a random search, at most."""


def curve(candidates: list[Candidate]) -> list[tuple[int, float]]:
    """(model evaluations spent, best score so far), each time it rises and at the end."""
    spent, best, points = 0, 0.0, []
    for candidate in candidates:
        spent += candidate.evaluations
        if candidate.status == "done" and candidate.fitness > best:
            best = candidate.fitness
            points.append((spent, best))
    return [*points, (spent, best)]


def score_at(points: list[tuple[int, float]], spent: int) -> float:
    return max((best for when, best in points if when <= spent), default=1.0)


def area(points: list[tuple[int, float]], end: int) -> float:
    """The mean of the best score over evaluations 0..end."""
    total, last, value = 0.0, 0, 1.0
    for when, best in points:
        total += (min(when, end) - last) * value
        last, value = min(when, end), best
        if when >= end:
            break
    return (total + (end - last) * value) / end


def spent(found: Evolved) -> int:
    return sum(candidate.evaluations for candidate in found.state.candidates)


def searched(task: str, folder: Path, seed: int, given: argparse.Namespace) -> tuple[Evolved, Evolved]:
    """An evolution, and a random search that goes on until it has asked the model as often."""
    common = {"seed": seed, "workers": given.workers, "executor": "processes"}
    ours = evolve(task, given.budget, out=folder / f"{task}-{seed}", **common)
    budget, theirs = given.budget, None
    while theirs is None or (spent(theirs) < spent(ours) and budget < MOST):
        theirs = evolve(task, budget, out=folder / f"{task}-random-{seed}", agents="random", **common)
        budget = min(MOST, 60 + int(1.05 * budget * spent(ours) / max(spent(theirs), 1)))
    return ours, theirs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--task", default="conservation")
    parser.add_argument("--budget", type=int, default=193, help="candidates of the evolution")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    torch.set_num_threads(1)
    folder = given.out or Path(tempfile.mkdtemp(prefix="chop-evolution-"))
    print(
        "| seed | evaluations | end: evolution | random | mean: evolution | random | candidates | random's |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for seed in range(given.seeds):
        found = searched(given.task, folder, seed, given)
        ours, theirs = (curve(result.state.candidates) for result in found)
        end = min(ours[-1][0], theirs[-1][0])
        print(
            f"| {seed} | {end:,} | {score_at(ours, end):.3f} | {score_at(theirs, end):.3f} | "
            f"{area(ours, end):.3f} | {area(theirs, end):.3f} | "
            f"{' | '.join(str(len(result.state.candidates) - 1) for result in found)} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
