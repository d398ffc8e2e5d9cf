"""Runs what is missing and stores each piece of work as it is finished, until nothing is missing."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from chop.bench.store import Store
from chop.bench.suite import Evaluate, Piece, Setting, Suite, missing_pieces
from chop.core.errors import BenchError
from chop.runs.pool import Lost, Pool, Site, pool_named
from chop.runs.progress import with_progress
from chop.storage.schema import Record


@dataclass(frozen=True)
class Run:
    """A benchmark: what is asked for, where it is kept, by whom it is done."""

    suite: Suite
    out: Path
    workers: int = 0
    """0 means one for each core."""
    executor: str = "processes"


@dataclass(frozen=True)
class _MakeWork:
    """Makes a worker's work: a piece in, its records out."""

    evaluate: Evaluate
    setting: Setting

    def __call__(self) -> Callable[[Piece], list[Record]]:
        return lambda piece: self.evaluate(piece, self.setting)


def run_benchmark(bench: Run, show: Callable[[str], None] | None = None, bar: bool = False) -> Setting:
    """Do all that is missing. Can be stopped at any moment; the same call continues."""
    from chop import __version__

    suite, say = bench.suite, show or (lambda line: None)
    make_pool = pool_named(bench.executor, BenchError)
    suite.check()
    setting = suite.setting(bench.out)
    with Store(bench.out, suite.layout, suite.about(__version__)) as store:
        setting.check(store)
        if store.damaged:
            say(f"{store.damaged} damaged lines in {store.path} are left out and measured again")
        suite.prepare(store, setting)
        pieces = suite.now(missing_pieces(suite, store))
        if pieces:
            make = _MakeWork(suite.evaluate, setting)
            workers = bench.workers or os.cpu_count() or 1
            with make_pool(Site(make, workers, "the benchmark", BenchError)) as pool:
                while pieces:
                    total = sum(piece.cost for piece in pieces)
                    finished = _finished(pool, pieces, suite)
                    for _, records in with_progress(finished, total, suite.name, say, bar):
                        store.append(records)
                    pieces = suite.now(missing_pieces(suite, store))
    return setting


def _finished(pool: Pool, pieces: list[Piece], suite: Suite) -> Iterator[tuple[Piece, list[Record]]]:
    """Pieces with their records, as they are finished."""
    numbered = enumerate(pieces)
    with closing(pool.finished(lambda: next(numbered, None))) as finished:
        for number, outcome in finished:
            if isinstance(outcome, Lost):
                raise BenchError(
                    f"{suite.name(pieces[number])}: {outcome.reason} (out of memory?); what is finished is "
                    "kept, the same command continues"
                )
            yield pieces[number], outcome


__all__ = ["Run", "run_benchmark"]
