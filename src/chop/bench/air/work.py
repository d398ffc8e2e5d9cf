"""One piece of work: a few questions of one direction, at every lead and selection, by every method."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from chop.bench.air.answers import Remembering
from chop.bench.air.conditions import CHOP, METHODS, POLLUTANTS, YESTERDAY, Direction
from chop.bench.air.questions import Source
from chop.bench.store import Record
from chop.bench.work import fingerprint
from chop.core.errors import BenchError
from chop.core.text import parse
from chop.icon.stations.network import StationIcon
from chop.icon.weights import load

if TYPE_CHECKING:
    from chop.problems.case import Case

WHOLE = 2**30
"""Prompt data of one call: a whole piece of work, because slices of a prompt are not remembered."""


@dataclass(frozen=True)
class Job:
    """Questions, by their hours, that some methods answer at every lead and selection of a direction.

    Windows repeat from lead to lead, and a network remembers those it has encoded.
    """

    direction: Direction
    hours: tuple[int, ...]
    methods: tuple[str, ...]

    @property
    def cost(self) -> float:
        """A guess of its time: the paper's methods together, or a program of somebody's own, count one."""
        own = len(set(self.methods) - set(METHODS))
        main = len(self.methods) > own
        return (
            len(self.hours)
            * len(self.direction.parts)
            * (own + main * (1.0 if self.direction.carried else 0.6))
        )


@dataclass(frozen=True)
class Setting:
    """What every worker needs to know: where the networks are and where each region's questions come from."""

    models: tuple[tuple[str, str, str], ...]
    """(region, path, sha256)"""
    sources: tuple[Source, ...]

    def network(self, region: str) -> StationIcon:
        """The frozen network trained in a region, checked to be the one that was meant."""
        for name, path, digest in self.models:
            if name == region:
                return _network(path, digest)
        raise BenchError(f"no network was given for {region}")

    def source(self, region: str) -> Source:
        """A region's questions."""
        return next(source for source in self.sources if source.region == region)


@lru_cache(maxsize=2)
def _network(path: str, digest: str) -> StationIcon:
    if fingerprint(path) != digest:
        raise BenchError(f"{path} has changed since the benchmark began")
    network = load(Path(path))
    assert isinstance(network, StationIcon)
    return network


def evaluate(job: Job, setting: Setting) -> list[Record]:
    """One record for each selection, lead and method: the errors of all its questions."""
    source = setting.source(job.direction.region)
    network = Remembering(setting.network(job.direction.network))
    records = []
    for selection, lead in job.direction.parts:
        case = source.case(job.hours, selection, lead)
        network.forget()
        for method in job.methods:
            about = {"direction": job.direction.name, "selection": selection, "lead": lead, "method": method}
            records.append({**about, "hours": list(job.hours), **measured(method, network, case)})
    return records


def measured(method: str, network: Remembering, case: Case) -> Record:
    """Errors in µg/m³ of one method on a case, with its cost and, of CHOP(Air), its mean weights."""
    from chop.problems.air.windows import rmse

    begun = time.process_time()  # other work on the machine does not count
    found: dict[str, Any] = {}
    if method == YESTERDAY:
        values, calls = same_hour(case), 0
    else:
        result = parse(method).run(network, case.prompt, trace=method == CHOP, max_bytes=WHOLE)
        values, calls = result.values, result.calls
        if result.traced:
            found["weights"] = _weights(result.trace.root.notes["weights"])
    seconds = time.process_time() - begun
    errors = rmse(values, case)
    for channel, pollutant in enumerate(POLLUTANTS):
        found[pollutant] = [_number(value) for value in errors[:, channel].tolist()]
    return {**found, "calls": calls, "ms": round(1000 * seconds / len(case), 2)}


def same_hour(case: Case) -> Tensor:
    """The last frame of the query's window at the target's hour of day: yesterday's, or today's last."""
    stations = case.prompt.at.shape[-2]
    frames: Tensor = case.prompt.query.values.unflatten(-2, (-1, stations))
    back = -int(case.meta["lead"]) % 24
    return frames.select(-3, frames.shape[-3] - 1 - back)


def _weights(weights: object) -> dict[str, list[float]]:
    """Each candidate's mean weight over the questions, by pollutant; from ``(n, pollutants, K)``."""
    assert isinstance(weights, Tensor)
    means = weights.to(torch.float64).mean(dim=0).tolist()
    return {name: [round(w, 5) for w in row] for name, row in zip(POLLUTANTS, means, strict=True)}


def _number(value: float) -> float | None:
    """Six digits, None for what is not finite."""
    return float(f"{value:.6g}") if abs(value) < float("inf") else None


__all__ = ["Job", "Setting", "evaluate", "measured", "same_hour"]
