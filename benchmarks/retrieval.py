"""Similar windows by frames against stacking all windows: python benchmarks/retrieval.py [--quick]

17,520 example hours of 184 stations with 4 channels, questions every hour of a year and every 6 h. The
literal way writes every window down (24 frames each), scales it to length 1 and multiplies all with all;
so much of it as fits into memory at once is multiplied at once. Both ways run in single precision on one
thread, in this one run; memory is what numpy holds at its peak beyond the record itself.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import argparse
import time
import tracemalloc
from collections.abc import Callable

import numpy as np

from chop.problems.air.history import History, prepare
from chop.problems.air.region import Region
from chop.problems.air.retrieval import KEPT, similarity_index
from chop.problems.air.sampling import similar_examples
from chop.problems.air.windows import WINDOW, eligible

PERIOD, YEAR = ("2022-01-01", "2024-01-01"), ("2024-01-01", "2025-01-01")
LEAD, COUNT = 24, 5
STEPS = {1: "every hour", 6: "every 6 h"}


def made_up(hours: int, stations: int) -> History:
    """A record whose stations go together, as real ones do: a few common patterns, a day's cycle, noise."""
    stream = np.random.default_rng(0)
    times = np.datetime64(PERIOD[0], "h") + np.arange(hours)
    drift = np.cumsum(stream.standard_normal((hours, 6)), axis=0) / np.sqrt(np.arange(1, hours + 1))[:, None]
    values = np.empty((hours, stations, 4), dtype=np.float32)
    values[:, :, 0] = (times.astype(np.int64) % 24)[:, None]
    day = np.sin(2 * np.pi * np.arange(hours) / 24)[:, None]
    for channel in (1, 2, 3):
        common = drift @ stream.standard_normal((6, stations)) + day
        values[:, :, channel] = 30 + 10 * common + 3 * stream.standard_normal((hours, stations))
    lon, lat = 120 + 2 * stream.random((2, stations))
    names = tuple(str(i) for i in range(stations))
    region = Region("made up", names, lon, lat, times, ("hour", "NO2", "PM2.5", "O3"), values)
    return prepare(region, PERIOD)


def stacked(history: History, pool: np.ndarray, queries: np.ndarray) -> np.ndarray:
    """All windows written down, all with all, the best: ``(n, KEPT)`` ends, best first."""

    def windows(ends: np.ndarray) -> np.ndarray:
        rows = ends[:, None] + np.arange(1 - WINDOW, 1)
        flat = history.values[rows].reshape(len(ends), -1)
        flat /= np.linalg.norm(flat, axis=1, keepdims=True)
        return flat

    past, asked = windows(pool), windows(queries)
    best = []
    for start in range(0, len(queries), 512):
        cosine = asked[start : start + 512] @ past.T
        top = np.argpartition(-cosine, KEPT, axis=1)[:, :KEPT]
        order = np.argsort(-np.take_along_axis(cosine, top, axis=1), axis=1)
        best.append(pool[np.take_along_axis(top, order, axis=1)])
    return np.concatenate(best)


def timed(work: Callable[[], object]) -> tuple[object, float]:
    start = time.process_time()
    return work(), time.process_time() - start


def peak(work: Callable[[], object]) -> float:
    """Megabytes at the highest point, beyond what was there before."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1] / 2**20
    finally:
        tracemalloc.stop()


def lost(history: History, queries: np.ndarray, ours: np.ndarray, theirs: np.ndarray) -> float:
    """By how much, in double precision, the literal choice is more similar than ours: 0 or less is good."""

    def cosine(end: int, other: int) -> float:
        a, b = (history.values[e + 1 - WINDOW : e + 1].astype(np.float64).ravel() for e in (end, other))
        return float(a @ b / (np.linalg.norm(a) * np.linalg.norm(b)))

    differ = np.argwhere(ours != theirs)
    gains = [
        cosine(queries[i], theirs[i, j]) - cosine(queries[i], ours[i, j])
        for i, j in differ
        if not (ours[i, :j] != theirs[i, :j]).any()  # the first difference of a row
    ]
    return max(gains, default=0.0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--quick", action="store_true", help="four months of examples, 46 stations")
    quick = parser.parse_args().quick
    history = made_up(26304, 46 if quick else 184)
    period = ("2023-09-01", PERIOD[1]) if quick else PERIOD
    pool = eligible(history, period, LEAD)
    print(f"{len(pool)} windows of {history.values.shape[1]} stations with 4 channels, lead {LEAD} h")
    for step, name in STEPS.items():
        queries = eligible(history, YEAR, LEAD, every=step)
        literal, slow = timed(lambda queries=queries: stacked(history, pool, queries)[:, :COUNT])
        index, fast = timed(lambda queries=queries: similarity_index(history, period, queries))
        chosen = similar_examples(index, queries, LEAD, COUNT)
        agree = (chosen == literal).all(axis=1).mean()
        much = peak(lambda queries=queries: stacked(history, pool, queries))
        little = peak(lambda queries=queries: similarity_index(history, period, queries))
        loss = lost(history, queries, chosen, literal)
        print(
            f"questions {name} ({len(queries)}): {slow:.1f} s against {fast:.1f} s, {slow / fast:.1f} times "
            f"faster; {much:.0f} MB against {little:.0f} MB, {much / little:.1f} times less; the same five "
            f"for {agree:.2%} of the questions, the others lose at most {loss:.1e}",
            flush=True,
        )


if __name__ == "__main__":
    main()
