"""A bank on disk asked for similar pairs, beside numpy and scikit-learn: python benchmarks/bank.py [--n N]

N pairs of random smooth functions on 100 points are written to a bank, which is then asked for the 5 most
similar of each of 1,000 new functions: read from the disk block by block. Beside it, the same vectors in
memory: all distances by blocks of queries and argpartition in numpy, and scikit-learn's
NearestNeighbors(algorithm="brute"). Every part runs in a process of its own, on one thread, in this one run;
seconds are processor time, a peak is the largest resident memory of that process, its libraries included. The
others' time is that of the search alone, without reading; the bank's has everything.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

POINTS, MODES, QUERIES, K = 100, 12, 1000, 5
BLOCK = 40_000


def functions(count: int, block: int) -> np.ndarray:
    """Random smooth functions ``(count, 100)``, the same for each block number."""
    stream = np.random.default_rng([7, block])
    x = np.arange(POINTS) / POINTS
    modes = np.stack([f(2 * np.pi * m * x) / m for m in range(1, MODES // 2 + 1) for f in (np.cos, np.sin)])
    values = stream.standard_normal((count, MODES)) @ modes + stream.standard_normal((count, 1))
    return values.astype(np.float32)


def outputs(inputs: np.ndarray) -> np.ndarray:
    """What becomes of them: a nonlinear operator that no change of scale commutes with."""
    return np.sin(inputs) + 0.5 * np.roll(inputs, 3, axis=1)


def build(folder: Path, n: int) -> dict[str, float]:
    from chop.bank import Bank, Pairs

    start = time.process_time()
    with Bank.create(folder / "a.bank") as bank:
        for first in range(0, n, BLOCK):
            inputs = functions(min(BLOCK, n - first), first // BLOCK)
            bank.add(Pairs.from_arrays(inputs, outputs(inputs)))
    seconds = time.process_time() - start
    size = sum(path.stat().st_size for path in (folder / "a.bank").iterdir())
    return {"seconds": seconds, "bytes": size}


def bank(folder: Path, n: int) -> dict[str, float]:
    from chop.bank import Bank

    queries = functions(QUERIES, 10**6)
    start = time.process_time()
    with Bank.open(folder / "a.bank") as opened:
        rows = opened.examples(queries, K)
        searched = time.process_time() - start
        prompt = opened.shown(queries, rows)
        seconds = time.process_time() - start
        way, again = opened.likeness, time.process_time()
        opened.examples(queries, K)
        again = time.process_time() - again
        peak = peak_mb()
        assert prompt.examples == K
        np.save(folder / "rows.npy", rows.numpy())
        np.save(folder / "queries.npy", way.keys(opened._queries(queries)))
        keys = np.lib.format.open_memmap(folder / "keys.npy", "w+", np.float32, (n, POINTS))
        for first, block in opened.source.input_blocks(BLOCK):
            keys[first : first + len(block.values)] = way.keys(block)
        keys.flush()
    return {"seconds": searched, "asked": seconds, "again": again, "peak": peak, "way": way.way}


def literal(folder: Path, n: int) -> dict[str, float]:
    keys, queries = np.load(folder / "keys.npy"), np.load(folder / "queries.npy").astype(np.float32)
    start = time.process_time()
    squares = np.einsum("nd,nd->n", keys, keys)
    found = []
    for some in np.array_split(queries, max(1, len(queries) * n // 2**26)):
        distance = squares - 2 * (some @ keys.T)
        near = np.argpartition(distance, K, axis=1)[:, :K]
        order = np.argsort(np.take_along_axis(distance, near, axis=1), axis=1)
        found.append(np.take_along_axis(near, order, axis=1))
    seconds = time.process_time() - start
    return {"seconds": seconds, "peak": peak_mb(), **compared(folder, np.concatenate(found))}


def sklearn(folder: Path, n: int) -> dict[str, float]:
    from sklearn.neighbors import NearestNeighbors

    keys, queries = np.load(folder / "keys.npy"), np.load(folder / "queries.npy").astype(np.float32)
    start = time.process_time()
    found = (
        NearestNeighbors(n_neighbors=K, algorithm="brute")
        .fit(keys)
        .kneighbors(queries, return_distance=False)
    )
    seconds = time.process_time() - start
    return {"seconds": seconds, "peak": peak_mb(), **compared(folder, found)}


def compared(folder: Path, found: np.ndarray) -> dict[str, float]:
    """For how many queries the rows are the bank's; by how much another's distances are less, 0 if never."""
    rows, queries = np.load(folder / "rows.npy"), np.load(folder / "queries.npy")
    keys = np.load(folder / "keys.npy", mmap_mode="r")

    def distances(chosen: np.ndarray) -> np.ndarray:
        return np.linalg.norm(keys[chosen].astype(np.float64) - queries[:, None], axis=2)

    gain = float((distances(rows) - distances(found)).max())
    return {"same": float((rows == found).all(axis=1).mean()), "gain": max(0.0, gain)}


def peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


PARTS = {"build": build, "bank": bank, "numpy": literal, "scikit-learn": sklearn}


def in_its_own_process(part: str, folder: Path, n: int) -> dict[str, float] | None:
    command = [sys.executable, __file__, "--n", str(n), "--part", part, "--folder", str(folder)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if part == "scikit-learn" and done.returncode:
        return None
    done.check_returncode()
    return json.loads(done.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--n", type=int, default=100_000, help="pairs in the bank")
    parser.add_argument("--part", choices=PARTS, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.part:
        print(json.dumps(PARTS[given.part](given.folder, given.n)))
        return
    with tempfile.TemporaryDirectory() as name:
        found = {part: in_its_own_process(part, Path(name), given.n) for part in PARTS}
    made, ours = found["build"], found["bank"]
    size, built = made["bytes"] / 1e6, made["seconds"]
    print(f"{given.n:,} pairs of {POINTS} points: built in {built:.0f} s, {size:.0f} MB on disk")
    print(
        f"bank ({ours['way']}): {QUERIES} queries in {ours['seconds']:.1f} s from disk, the choice of the "
        f"likeness and all checksums among it; {ours['asked']:.1f} s with the prompts, {ours['again']:.1f} s "
        f"when asked again; peak {ours['peak']:.0f} MB"
    )
    for part in ("numpy", "scikit-learn"):
        other = found[part]
        if other is None:
            print(f"{part}: not there; pip install 'chain-of-operators[compare]'")
            continue
        seconds, peak = other["seconds"], other["peak"]
        print(
            f"{part}: {seconds:.1f} s in memory, peak {peak:.0f} MB: {seconds / ours['seconds']:.2f} times "
            f"the bank's time, {seconds / ours['again']:.2f} times that of asking again, "
            f"{peak / ours['peak']:.2f} times its memory; the same rows for {other['same']:.1%} of the "
            f"queries, else nearer than the bank's by {other['gain']:.0e} at most"
        )


if __name__ == "__main__":
    main()
