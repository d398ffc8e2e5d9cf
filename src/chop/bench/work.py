"""One piece of work: a batch of questions answered by one method, one record for each question."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from chop import metrics
from chop.bench.conditions import PROMPTS_VALIDATED, Condition, Entry
from chop.bench.store import Record
from chop.core.errors import BenchError
from chop.core.forecast import rollout
from chop.core.text import parse
from chop.icon.stations.network import StationIcon
from chop.icon.weights import load
from chop.runs.fingerprint import of_network

if TYPE_CHECKING:
    from chop.icon.functions.network import Icon
    from chop.problems.case import Case

VALIDATED = ("main", "ablations", "best", "evolved", "own")
"""Groups whose programs are also asked for their in-context errors."""


@dataclass(frozen=True)
class Job:
    """A batch: questions ``first`` to ``end - 1`` of a condition, answered by several methods in turn."""

    condition: Condition
    methods: tuple[str, ...]
    first: int
    end: int
    group: str

    @property
    def cost(self) -> float:
        """A guess in model evaluations, for the time left."""
        size = (self.end - self.first) * self.condition.steps
        return size * sum(_evaluations(method) for method in self.methods)


@dataclass(frozen=True)
class Setting:
    """What every worker needs to know: the seed and where the networks are."""

    seed: int
    models: tuple[tuple[str, str, str], ...]
    """(problem, path, sha256)"""

    def network(self, problem: str) -> Icon:
        """The frozen network of a problem, checked to be the one that was meant."""
        for name, path, digest in self.models:
            if name == problem:
                return _network(path, digest)
        raise BenchError(f"no network was given for {problem}")


@lru_cache(maxsize=4)
def _network(path: str, digest: str) -> Icon:
    if fingerprint(path) != digest:
        raise BenchError(f"{path} has changed since the benchmark began")
    network = load(Path(path))
    assert not isinstance(network, StationIcon)
    return network


def fingerprint(path: str | Path) -> str:
    """The SHA-256 of a network: its shape and its weights, not what else the file says about itself."""
    network = load(Path(path))
    return of_network(network.config.to_dict(), network)


def jobs_of(entries: Sequence[Entry], done: Callable[[Job], bool]) -> list[Job]:
    """What is still to do, in batches of fixed size; rollouts of the same questions share their truth."""
    found: dict[object, Job] = {}
    for entry in entries:
        for first in range(0, entry.n, entry.condition.chunk):
            end = min(entry.n, first + entry.condition.chunk)
            job = Job(entry.condition, (entry.method,), first, end, entry.group)
            if done(job):
                continue
            shared = entry.condition.steps > 1
            key = (entry.condition.name, first, end, entry.group, None if shared else entry.method)
            known = found.get(key)
            found[key] = job if known is None else replace(known, methods=(*known.methods, entry.method))
    return list(found.values())


@lru_cache(maxsize=6)
def questions(condition: Condition, first: int, end: int, seed: int) -> Case:
    """The questions of a batch with their truth."""
    from chop.problems import conservation, mfc

    options: dict[str, Any] = dict(condition.settings)
    options |= {"n": end - first, "first": first, "seed": seed, "split": condition.split}
    if condition.problem == "mfc":
        return mfc.sample(**options)
    return conservation.sample(**options, steps=condition.steps)


def evaluate(job: Job, setting: Setting) -> list[Record]:
    """The records of a batch."""
    case = questions(job.condition, job.first, job.end, setting.seed)
    network = setting.network(job.condition.problem)
    return [record for method in job.methods for record in _answered(job, method, case, network, setting)]


def _answered(job: Job, method: str, case: Case, network: Icon, setting: Setting) -> list[Record]:
    curve: Tensor | None = None
    known: Tensor | None = None
    begun = time.perf_counter()
    if job.condition.steps > 1:
        assert case.trajectory is not None
        run = rollout(parse(method), network, case.prompt, job.condition.steps)
        seconds, calls = time.perf_counter() - begun, run.calls
        curve = metrics.rel_l2(run.values, case.trajectory[:, -job.condition.steps :, :, None])
        errors = curve[:, -1]
    elif method.startswith("@"):
        from chop.bench.baselines import answer

        errors, curve, calls = answer(method, network, case, job.first, setting.seed)
        seconds = time.perf_counter() - begun
    else:
        result = parse(method).run(network, case.prompt, trace=False)
        seconds, calls = time.perf_counter() - begun, result.calls
        errors = metrics.rel_l2(result.values, case.target)
        known = result.error
    seen = _in_context(job, method, case, network, known)
    return [
        {
            "condition": job.condition.name,
            "method": method,
            "batch": [job.first, job.end],
            "index": job.first + i,
            "error": _number(errors[i], 9),
            "calls": calls,
            "ms": round(1000 * seconds / (job.end - job.first), 3),
            **({} if curve is None else {"curve": [_number(value, 4) for value in curve[i]]}),
            **({} if seen is None else {"in_context": _number(seen[i], 6)}),
        }
        for i in range(job.end - job.first)
    ]


def _in_context(job: Job, method: str, case: Case, network: Icon, error: Tensor | None) -> Tensor | None:
    """Relative in-context error: root of the mean squared error over the mean square of the outputs."""
    wanted = job.group in VALIDATED and job.first < PROMPTS_VALIDATED and job.condition.steps == 1
    if not wanted or method.startswith("@"):
        return None
    if error is None:
        error = parse(method).run(network, case.prompt, trace=False, validate=True).error
    assert error is not None
    size = case.prompt.outputs.values.square().mean(dim=(-1, -2, -3))
    return (error / size).sqrt()


def _number(value: Tensor, digits: int) -> float | None:
    """A finite number in few digits, None for one that is not finite."""
    number = float(value)
    return float(f"{number:.{digits}g}") if torch.isfinite(value) else None


@lru_cache(maxsize=512)
def _evaluations(method: str) -> float:
    if method.startswith("@finetune"):
        return 150.0
    if method.startswith("@"):
        return 6.0
    return 0.2 + parse(method, max_calls=10**6).calls()


__all__ = ["Job", "Setting", "evaluate", "fingerprint", "jobs_of", "questions"]
