"""Air quality carried from region to region, as data: leads, selections, pollutants; the work.

A network trained in one region answers questions about another, at many leads, with random or with similar
examples; both pollutants are scored at once. Questions are known by their hours since 1970.
"""

from __future__ import annotations

import time
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from chop.bench.air_directions import (
    DIRECTIONS,
    REGIONS,
    SELECTIONS,
    Direction,
    StationNetwork,
    channels_of,
    directions_between,
    given_networks,
    stored_directions,
)
from chop.bench.air_questions import LEADS, RegionSource, YearSplit, digest_of
from chop.bench.methods import AIR, AIR_METHODS, YESTERDAY
from chop.bench.store import About, LineLayout, Store
from chop.bench.suite import Condition, Piece, Setting, Suite, SuiteEntry, by_name, find_networks
from chop.core.errors import BenchError
from chop.core.model import SharesExamples
from chop.core.prompt import Prompt
from chop.core.text import parse
from chop.icon.weights import provenance
from chop.problems.air import POLLUTANTS, load_region
from chop.problems.air.dataset import regions_in
from chop.storage.schema import Record, Shape, finite, list_of, optional, record_of, safe_int, string

if TYPE_CHECKING:
    from chop.bench.report import Report
    from chop.problems.case import Case

WRITTEN = {"PM2.5": "PM₂.₅", "O3": "O₃"}
INDEX = "index"
"""Folder inside the results that keeps similarity indices."""
WHOLE = 2**30
"""Prompt data of one call: a whole piece of work, because slices of a prompt are not remembered."""


class Forecast(NamedTuple):
    """One row of the paper's tables: a condition and what is scored."""

    direction: Direction
    selection: str
    lead: int
    pollutant: str

    @property
    def name(self) -> str:
        return f"{self.direction.condition(self.selection, self.lead).name}/{self.pollutant}"


def forecasts(directions: Sequence[Direction] = DIRECTIONS) -> Iterator[Forecast]:
    """The paper's 88, or those of fewer directions, as its tables list them."""
    for direction in directions:
        for pollutant in POLLUTANTS if direction.carried else ():
            for lead in LEADS:
                for selection in SELECTIONS:
                    yield Forecast(direction, selection, lead, pollutant)


def _measured(content: Any) -> Shape:
    """One line holds the errors of a method on a few questions; CHOP(Air)'s the weights it gave, too."""
    found = content if isinstance(content, dict) else {}
    hours, weights = found.get("hours"), found.get("weights")
    errors = list_of(optional(finite), len(hours) if isinstance(hours, list) else None)
    row = weights.get("O3") if isinstance(weights, dict) else None
    some = list_of(finite, len(row) if isinstance(row, list) else None)
    weighted = found.get("method") == AIR or "weights" in found
    return {
        **dict.fromkeys(("direction", "selection", "method"), string),
        "lead": safe_int,
        "hours": list_of(safe_int),
        "calls": safe_int,
        "ms": finite,
        **dict.fromkeys(POLLUTANTS, errors),
        **({"weights": record_of(dict.fromkeys(POLLUTANTS, some))} if weighted else {}),
    }


def _key(record: Record) -> tuple[str, str, tuple[int, ...]]:
    name = f"{record['direction']}/{record['selection']}/{record['lead']}"
    return name, record["method"], tuple(record["hours"])


_LAYOUT = LineLayout(
    format="chop-bench-air-1",
    title="a benchmark of air quality",
    used={"kind": "used", "whose": "region", "sha256": "sha256", "name": "name"},
    measured=_measured,
    key=_key,
    covers=lambda record: tuple(record["hours"]),
    size=lambda record: ("weights", len(record["weights"]["O3"])) if "weights" in record else None,
    dated=True,
)


@dataclass(frozen=True)
class AirSuite(Suite):
    """Which directions, of which data, and how often is asked."""

    data: Path | None = None
    models: tuple[tuple[str, str], ...] = ()
    """(region it was trained in, name or file); the bundled ones where none is given."""
    programs: tuple[str, ...] = ()
    directions: tuple[str, ...] = ()
    """Names of some of the usual ones; all of these if empty."""
    every: int = 6
    cases: int | None = None
    year: int = 2024
    seed: int = 0
    device: str | None = None
    networks: tuple[str, ...] = ()
    """Bundled ones or files (`air_directions.given_network`), each asked about every one of ``regions``."""
    regions: tuple[str, ...] = ()
    """By the names of their files; with them, or with networks, nobody else is asked about anything else."""

    layout = _LAYOUT

    @property
    def asked(self) -> tuple[Direction, ...]:
        """Carried and at home, those in the same region next to each other: a worker loads it once."""
        chosen = directions_between(self.given, self.regions) if self.regions else self._usual()
        return tuple(sorted(chosen, key=lambda d: (d.region, not d.carried), reverse=True))

    def _usual(self) -> list[Direction]:
        """The bundled directions, or some of them, each with its network at home."""
        known = [direction.name for direction in DIRECTIONS if direction.carried]
        for name in self.directions:
            if name not in known:
                raise BenchError(
                    f"there is no direction {name!r}; known are {', '.join(known)}, "
                    "and --network with --region ask any network about any region"
                )
        networks = [name.partition("-")[0] for name in self.directions or known]
        return [direction for direction in DIRECTIONS if direction.network in networks]

    @property
    def given(self) -> tuple[StationNetwork, ...]:
        """The networks that are asked about ``regions``; the bundled ones where none is given."""
        return given_networks(self.networks or REGIONS) if self.regions else ()

    def check(self) -> None:
        if self.every < 1 or (self.cases is not None and self.cases < 1):
            raise BenchError("--every and --cases count hours and questions: 1 or more")
        if (self.networks or self.regions) and (self.models or self.directions):
            raise BenchError(
                "--model and --direction belong to the bundled directions: with --network or --region, say "
                "--network NAME=FILE instead"
            )
        super().check()

    def about(self, version: str) -> About:
        return About(version, self.seed, self.year)

    def setting(self, out: Path) -> Setting:
        asked = self.asked
        if self.data is None:
            raise BenchError(
                "say where the station data is with --data; `chop data air --fetch DIR` downloads the public "
                "data, `chop data air --world DIR` invents two regions"
            )
        if self.networks and not self.regions:
            there = ", ".join(regions_in(self.data)) or "none"
            raise BenchError(f"say which regions are asked about with --region; {self.data} has {there}")
        given = by_name([*self.models, *((network.name, network.model) for network in self.given)], "of")
        trained = {direction.network: direction.trained for direction in asked}
        missing = (
            "no network of {0} comes with this installation; give one with --model {0}=FILE "
            "(`chop train air --region {0}` makes it)"
        )
        found = find_networks(trained, given, "air_{}", missing)
        networks = tuple(replace(network, trained=trained[network.name]) for network in found)
        channels = set()
        for network in networks:
            header = provenance(Path(network.path))
            channels.add(channels_of(given.get(network.name, network.name), header))
        if len(channels) > 1:
            names = ", ".join(network.name for network in networks)
            raise BenchError(f"the networks {names} have different channels: measure them apart")
        (wanted,) = channels
        folder, index = str(self.data.resolve()), str((out / INDEX).resolve())
        digests = {
            region: digest_of(load_region(folder, region, wanted, in_order=True))
            for region in dict.fromkeys(direction.region for direction in asked)
        }
        sources = [
            RegionSource(folder, region, wanted, YearSplit(self.year), self.every, self.seed, index, digest)
            for region, digest in digests.items()
        ]
        return Setting(networks, self.seed, tuple(sources), self.device)

    def prepare(self, store: Store, setting: Setting) -> None:
        for source in setting.sources:
            store.ask(source.region, source.every, source.hours()[: self.cases])
            if any(direction.carried and direction.region == source.region for direction in self.asked):
                source.similar()  # made here once, read by every worker

    def entries(self, store: Store) -> list[SuiteEntry]:
        own = tuple(method for method in self.programs if method not in AIR_METHODS)
        found = []
        for direction in self.asked:
            hours = store.asked[direction.region].hours
            # Windows repeat from lead to lead, and the paper's methods share answers: one piece of work.
            for condition in direction.conditions:
                found += [
                    SuiteEntry(condition, method, hours, "main", share=direction, redone_together=True)
                    for method in direction.methods
                ]
                found += [SuiteEntry(condition, m, hours, "own", direction) for m in own if direction.carried]
        return found

    def reported(self, store: Store) -> list[SuiteEntry]:
        """The questions last asked for, as far as all of the paper's methods have answered them."""
        own = tuple(method for method in store.methods() if method not in AIR_METHODS)
        found = []
        for direction in stored_directions(store):
            asked = store.asked.get(direction.region)
            hours = () if asked is None else asked.hours
            every = [
                SuiteEntry(c, method, hours) for c in direction.conditions for method in direction.methods
            ]
            finished = _answered(store, every)
            for condition in direction.conditions if finished else ():
                found += [SuiteEntry(condition, method, finished) for method in direction.methods]
                for method in own:
                    answered = _answered(store, [SuiteEntry(condition, method, finished)])
                    found += [SuiteEntry(condition, method, answered, "own")] if answered else []
        return found

    def now(self, pieces: list[Piece]) -> list[Piece]:
        """All directions in turn: what a stopped run has finished serves every table."""
        return sorted(pieces, key=lambda piece: piece.number)

    def cost(self, condition: Condition, methods: Sequence[str]) -> float:
        """The paper's methods together, or a program of somebody's own, count one."""
        own = len(set(methods) - set(AIR_METHODS))
        main = 0.0 if len(methods) == own else 1.0 if AIR in methods else 0.6
        return own + main

    @staticmethod
    def evaluate(piece: Piece, setting: Setting) -> list[Record]:
        """One record for each condition and method: the errors of all its questions."""
        network = Remembering(setting.network(piece.condition.problem))
        records = []
        for condition, methods in piece.asked:
            asked = dict(condition.settings)
            direction, selection, lead = (asked[name] for name in ("direction", "selection", "lead"))
            case = setting.source(direction.region).case(tuple(piece.questions), selection, lead)
            network.forget()
            about = {"direction": direction.name, "selection": selection, "lead": lead}
            for method in methods:
                found = measured(method, network, case)
                records.append({**about, "method": method, "hours": list(piece.questions), **found})
        return records

    def name(self, piece: Piece) -> str:
        return piece.condition.label

    def report(self) -> Report:
        from chop.bench.air_tables import AIR_REPORT

        return AIR_REPORT


def _answered(store: Store, entries: Sequence[SuiteEntry]) -> tuple[int, ...]:
    """Of the questions of some entries, batch by batch, those to which all have answers."""
    return tuple(
        question
        for batch in entries[0].batches()
        if all(store.done(entry.condition.name, entry.method, batch) for entry in entries)
        for question in batch
    )


class Remembering:
    """A network that remembers what it was asked about one case: programs that ask the same pay once.

    Two prompts are the same if they are one object, or show the same pairs of one prompt and ask the same
    query: so the held-out prompts of two programs are the same too.
    """

    def __init__(self, network: SharesExamples) -> None:
        self._network = network
        self._known: dict[Hashable, tuple[Prompt, Tensor]] = {}

    def __call__(self, prompt: Prompt, /) -> Tensor:
        return self.predict_many([prompt])[0]

    def predict_many(self, prompts: Sequence[Prompt], /) -> list[Tensor]:
        """One answer a prompt; only what is new is asked, all at once."""
        keys = [_prompt_key(prompt) for prompt in prompts]
        new = {key: prompt for key, prompt in zip(keys, prompts, strict=True) if key not in self._known}
        if new:
            answers = self._network.predict_many(list(new.values()))
            for (key, prompt), answer in zip(new.items(), answers, strict=True):
                self._known[key] = prompt, answer  # the prompt too: while it lives its identity is its own
        return [self._known[key][1].reshape(p.answer_shape) for key, p in zip(keys, prompts, strict=True)]

    def forget(self) -> None:
        """Before the next case."""
        self._known.clear()


def _prompt_key(prompt: Prompt) -> Hashable:
    if prompt.origin is None:
        return id(prompt)
    shown = prompt.origin.kept.contiguous()
    parent = _prompt_key(prompt.origin.parent)
    return parent, id(prompt.query), tuple(shown.shape), shown.cpu().numpy().tobytes()


def measured(method: str, network: Remembering, case: Case) -> Record:
    """Errors in µg/m³ of one method on a case, with its cost and, of CHOP(Air), its mean weights."""
    from chop.problems.air.windows import rmse

    begun = time.process_time()  # other work on the machine does not count
    found: dict[str, Any] = {}
    if method == YESTERDAY:
        values, calls = same_hour(case), 0
    else:
        result = parse(method).run(network, case.prompt, trace=method == AIR, max_bytes=WHOLE)
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
