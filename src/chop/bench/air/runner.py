"""Runs what is missing and stores each piece of work as it is finished, until nothing is missing."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

from chop.bench.air.conditions import CHUNK, METHODS, Direction, Split, directions
from chop.bench.air.questions import Source, digest_of
from chop.bench.air.store import About, Store
from chop.bench.air.work import Job, Setting, evaluate
from chop.bench.executors import EXECUTORS
from chop.bench.work import fingerprint
from chop.core.errors import BenchError
from chop.core.text import parse
from chop.icon.config import StationConfig
from chop.icon.weights import bundled, find, provenance
from chop.problems import air
from chop.runs.progress import with_progress

INDEX = "index"
"""Folder inside the results that keeps similarity indices."""
NO_DATA = (
    "say where the station data is with --data; `chop data air --fetch DIR` downloads the public data, "
    "`chop data air --world DIR` invents two regions"
)


@dataclass(frozen=True)
class Run:
    """A benchmark: what is asked for, by whom it is answered, where it is kept."""

    out: Path
    data: Path | None = None
    models: tuple[tuple[str, str], ...] = ()
    """(region it was trained in, name or file); the bundled ones where none is given."""
    programs: tuple[str, ...] = ()
    """Texts measured beside the paper's program and the baselines."""
    directions: tuple[str, ...] = ()
    every: int = 6
    cases: int | None = None
    year: int = 2024
    seed: int = 0
    workers: int = 0
    """0 means one for each core."""
    executor: str = "processes"

    @property
    def asked(self) -> tuple[Direction, ...]:
        """Carried and at home, those in the same region next to each other: a worker loads it once."""
        return tuple(
            sorted(directions(self.directions), key=lambda d: (d.region, not d.carried), reverse=True)
        )

    @property
    def split(self) -> Split:
        return Split(self.year)

    def networks(self) -> tuple[tuple[str, str, str], ...]:
        """(region, path, sha256) of every network that is needed."""
        given: dict[str, str] = {}
        for region, model in self.models:
            if region in given:
                raise BenchError(f"two networks of {region} were given: {given[region]} and {model}")
            given[region] = model
        found = []
        for region in sorted({direction.network for direction in self.asked}):
            name = given.get(region, f"air_{region}")
            if region not in given and name not in bundled():
                raise BenchError(
                    f"no network of {region} comes with this installation; give one with "
                    f"--model {region}=FILE (`chop train air --region {region}` makes it)"
                )
            path = find(name)
            if not isinstance(provenance(path).config, StationConfig):
                raise BenchError(f"{name} is not a network of stations; this benchmark asks only those")
            found.append((region, str(path.resolve()), fingerprint(path)))
        return tuple(found)

    def setting(self) -> Setting:
        """Networks and data, each with its fingerprint."""
        regions = dict.fromkeys(direction.region for direction in self.asked)
        if self.data is None:
            raise BenchError(NO_DATA)
        networks = self.networks()
        configs = {region: provenance(Path(path)).config for region, path, _ in networks}
        channels = {config.channels for config in configs.values() if isinstance(config, StationConfig)}
        if len(channels) > 1:
            raise BenchError(f"the networks {', '.join(configs)} have different channels: measure them apart")
        (wanted,) = channels
        index = str((self.out / INDEX).resolve())
        folder = str(self.data.resolve())
        sources = [
            Source(folder, region, wanted, self.split, self.every, self.seed, index, digest)
            for region in regions
            for digest in [digest_of(air.load_region(folder, region, wanted, in_order=True))]
        ]
        return Setting(networks, tuple(sources))


def run(bench: Run, show: Callable[[str], None] | None = None, bar: bool = False) -> Setting:
    """Do all that is missing. Can be stopped at any moment; the same call continues."""
    from chop import __version__

    if bench.executor not in EXECUTORS:
        raise BenchError(f"executor must be one of {', '.join(EXECUTORS)}, not {bench.executor!r}")
    if bench.every < 1 or (bench.cases is not None and bench.cases < 1):
        raise BenchError("--every and --cases count hours and questions: 1 or more")
    for text in bench.programs:
        parse(text)
    say = show or (lambda line: None)
    setting = bench.setting()
    with Store(bench.out, About(__version__, bench.seed, bench.year)) as store:
        check(store, setting)
        if store.damaged:
            say(f"{store.damaged} damaged lines in {store.path} are left out and measured again")
        for source in setting.sources:
            store.ask(source.region, source.every, source.hours()[: bench.cases])
            if any(direction.carried and direction.region == source.region for direction in bench.asked):
                source.similar()  # made here once, read by every worker
        jobs = list(missing(bench, store))
        workers = bench.workers or os.cpu_count() or 1
        finished = EXECUTORS[bench.executor](jobs, setting, workers, evaluate)
        total = sum(job.cost for job in jobs)
        for _, records in with_progress(finished, total, lambda job: job.direction.label, say, bar):
            store.append(records)
    return setting


def check(store: Store, setting: Setting) -> None:
    """Networks and data must be those that the folder's results are of."""
    for region, path, digest in setting.models:
        store.use("network", region, digest, Path(path).name)
    for source in setting.sources:
        store.use("data", source.region, source.digest, f"dataset_{source.region}.nc")


def missing(bench: Run, store: Store) -> Iterator[Job]:
    """What is still to do, all directions in turn: what a stopped run has finished serves every table.

    The paper's methods of a few questions share answers: they are done together.
    """
    every = [[(d, hours) for hours in chunks(store.asked[d.region].hours)] for d in bench.asked]
    for direction, hours in (piece for row in zip_longest(*every) for piece in row if piece is not None):
        main = [m for m in direction.methods if not _done(store, direction, hours, m)]
        own = [m for m in bench.programs if direction.carried and m not in METHODS]
        methods = [
            *(direction.methods if main else ()),
            *(m for m in own if not _done(store, direction, hours, m)),
        ]
        if methods:
            yield Job(direction, hours, tuple(dict.fromkeys(methods)))


def chunks(hours: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """Questions in pieces of a fixed size."""
    for first in range(0, len(hours), CHUNK):
        yield hours[first : first + CHUNK]


def _done(store: Store, direction: Direction, hours: tuple[int, ...], method: str) -> bool:
    parts = direction.parts
    return all(store.get((direction.name, *part, method), hours) is not None for part in parts)


__all__ = ["Run", "check", "chunks", "missing", "run"]
