"""Runs what is missing and stores each batch as it is finished, until nothing is missing."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from chop.bench.conditions import Selection, entries
from chop.bench.executors import EXECUTORS
from chop.bench.results import choices
from chop.bench.store import About, Store
from chop.bench.work import Job, Setting, evaluate, fingerprint, jobs_of
from chop.core.errors import BenchError
from chop.core.text import parse
from chop.icon.config import StationConfig
from chop.icon.weights import bundled, find, provenance
from chop.runs.progress import with_progress


@dataclass(frozen=True)
class Run:
    """A benchmark: what is asked for, by whom it is answered, where it is kept."""

    selection: Selection
    out: Path
    models: tuple[str, ...] = ()
    """Names or files of networks; the bundled ones where none is given."""
    seed: int = 0
    workers: int = 0
    """0 means one for each core."""
    executor: str = "processes"

    def setting(self) -> Setting:
        """The networks that are needed, each with its fingerprint."""
        needed = {"mfc"} if self.selection.suites == ("mfc",) else {"conservation"}
        needed |= {"mfc"} & set(self.selection.suites)
        given: dict[str, str] = {}
        for model in self.models:
            config = provenance(model).config
            if isinstance(config, StationConfig):
                raise BenchError(f"{model} is a network of stations; it is measured by `chop bench air`")
            problem = "mfc" if config.coordinates == 2 else "conservation"
            if problem in given:
                raise BenchError(f"two networks for {problem} were given: {given[problem]} and {model}")
            given[problem] = model
        found = []
        for problem in sorted(needed):
            name = given.get(problem, problem)
            if problem not in given and problem not in bundled():
                raise BenchError(f"no {problem} network comes with this installation; give one with --model")
            path = find(name)
            found.append((problem, str(path.resolve()), fingerprint(path)))
        return Setting(self.seed, tuple(found))


def run(bench: Run, show: Callable[[str], None] | None = None, bar: bool = False) -> Setting:
    """Do all that is missing. Can be stopped at any moment; the same call continues."""
    from chop import __version__

    if bench.executor not in EXECUTORS:
        raise BenchError(f"executor must be one of {', '.join(EXECUTORS)}, not {bench.executor!r}")
    for text in bench.selection.programs:
        parse(text)
    setting = bench.setting()
    say = show or (lambda line: None)
    with Store(bench.out, About(__version__, bench.seed)) as store:
        for problem, path, digest in setting.models:
            store.use_model(problem, digest, Path(path).name)
        if store.damaged:
            say(f"{store.damaged} damaged lines in {store.path} are left out and measured again")
        while jobs := missing(store, bench.selection):
            _work(bench, setting, store, _first(jobs), say, bar)
    return setting


def missing(store: Store, selection: Selection) -> list[Job]:
    """What can be done now; the best program's turn comes when the evolution set has chosen it."""

    def done(job: Job) -> bool:
        return store.done(job.condition.name, job.methods[0], job.first, job.end)

    return jobs_of(entries(selection, choices(store, selection)), done)


def _first(jobs: Sequence[Job]) -> Sequence[Job]:
    """The main tables and the grids of single steps; all the rest once the best programs are known."""
    single = [job for job in jobs if job.condition.steps == 1 and job.group in ("main", "own", "grid")]
    return single or jobs


def _work(
    bench: Run, setting: Setting, store: Store, jobs: Sequence[Job], say: Callable[[str], None], bar: bool
) -> None:
    workers = bench.workers or os.cpu_count() or 1
    finished = EXECUTORS[bench.executor](jobs, setting, workers, evaluate)
    total = sum(job.cost for job in jobs)
    for _, records in with_progress(finished, total, _name, say, bar):
        store.append(records)


def _name(job: Job) -> str:
    return f"{job.condition.name} {job.methods[0][:40]}"


__all__ = ["Run", "missing", "run"]
