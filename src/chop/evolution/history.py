"""A search as it happened, read from its journal: every candidate, the scores and the ratings over time.

Reading takes no lock and changes nothing, so it may be done while a search writes. A line that is being
written is not there yet.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import get_args

from chop.core.errors import EvolutionError
from chop.evolution.agents import Agent, initial_agents
from chop.evolution.journal import Journal
from chop.evolution.population import Candidate, Status
from chop.storage.schema import Record, Shape, mismatch, safe_int, string

_BORN: Shape = {"agent": safe_int, "kind": string}


@dataclass(frozen=True)
class ProgressPoint:
    """A candidate that was judged on every question, and where the search stood then."""

    candidate: int
    evaluations: int
    """model evaluations spent so far"""
    score: float
    best: float
    """the highest score so far"""


@dataclass(frozen=True)
class RaceOutcome:
    """How a race ended: the agent that won (0 where none ran), the best candidate, all ratings."""

    iteration: int
    winner: int
    best: int
    ratings: Mapping[int, float]


@dataclass(frozen=True)
class RatingCurve:
    """The Elo rating of one agent after each race that it lived through."""

    agent: int
    kind: str
    points: tuple[tuple[int, float], ...]


@dataclass(frozen=True)
class SearchHistory:
    """What a journal holds. How far a search is to go stands in no journal: its budget is the command's."""

    folder: Path
    version: str
    task: str
    seed: int
    candidates: tuple[Candidate, ...]
    """by number"""
    races: tuple[RaceOutcome, ...]
    kinds: Mapping[int, str]
    """what kind every agent is, or was"""

    @classmethod
    def read(cls, folder: str | Path) -> SearchHistory:
        """The history of the search in a folder, as far as it is written."""
        try:
            with Journal(folder, None) as journal:
                return cls._of(journal)
        except OSError as problem:
            raise EvolutionError(f"{folder}: {problem.strerror or problem}") from None

    @classmethod
    def _of(cls, journal: Journal) -> SearchHistory:
        if journal.damaged:
            raise EvolutionError(
                f"{journal.path} is damaged ({journal.damaged} lines): chop evolve on its folder mends it"
            )
        identity, records = journal.identity, journal.records
        try:
            candidates = _candidates(records)
            races = race_outcomes(records)
            kinds = _kinds(initial_agents(identity.agents), records, candidates, races)
        except _OddError as odd:
            raise EvolutionError(f"{journal.path} is no whole evolution: {odd}") from None
        return cls(journal.folder, identity.version, identity.task, identity.seed, candidates, races, kinds)

    def best(self) -> Candidate | None:
        """The best candidate, as the search ranks them; None before the first is judged."""
        done = (candidate for candidate in self.candidates if candidate.status == "done")
        return min(done, key=lambda candidate: candidate.rank, default=None)

    def family(self) -> tuple[Candidate, ...]:
        """The best candidate and all it comes from, oldest first."""
        best = self.best()
        return () if best is None else family_of(best, self.candidates)

    def progress(self) -> tuple[ProgressPoint, ...]:
        """Scores over the model evaluations spent."""
        return progress_of(self.candidates)

    def ratings(self) -> tuple[RatingCurve, ...]:
        """Ratings over the races, by the numbers of the agents."""
        return rating_curves(self.races, self.kinds)

    def counts(self) -> dict[Status, int]:
        """How many candidates were judged on every question, given up early, or failed."""
        found = Counter(candidate.status for candidate in self.candidates)
        return {status: found[status] for status in get_args(Status)}

    @property
    def evaluations(self) -> int:
        """Model evaluations spent."""
        return sum(candidate.evaluations for candidate in self.candidates)


# Series, of what a search holds in memory as of what a journal holds.


def family_of(candidate: Candidate, candidates: Sequence[Candidate]) -> tuple[Candidate, ...]:
    """A candidate with all its ancestors among all ``candidates``, oldest first."""
    found: set[int] = set()
    waiting = [candidate.number]
    while waiting:
        number = waiting.pop()
        if number not in found:
            found.add(number)
            waiting += candidates[number].parents
    return tuple(candidates[number] for number in sorted(found))


def progress_of(candidates: Iterable[Candidate]) -> tuple[ProgressPoint, ...]:
    """Every finished candidate's score, and the best so far, over the model evaluations spent."""
    spent, best = 0, -math.inf
    points: list[ProgressPoint] = []
    for candidate in candidates:
        spent += candidate.evaluations
        if candidate.status == "done":
            best = max(best, candidate.fitness)
            points.append(ProgressPoint(candidate.number, spent, candidate.fitness, best))
    return tuple(points)


def race_outcomes(records: Iterable[Record]) -> tuple[RaceOutcome, ...]:
    """The races among the records of a journal."""
    return tuple(
        RaceOutcome(
            record["iteration"], record["winner"], record["best"],
            MappingProxyType({_agent(name): rating for name, rating in record["ratings"].items()}),
        )
        for record in records
        if record["kind"] == "race"
    )  # fmt: skip


def rating_curves(races: Iterable[RaceOutcome], kinds: Mapping[int, str]) -> tuple[RatingCurve, ...]:
    """The agents' ratings over the races; a revision begins where it was born."""
    points: dict[int, list[tuple[int, float]]] = {}
    for race in races:
        for agent, rating in race.ratings.items():
            points.setdefault(agent, []).append((race.iteration, rating))
    return tuple(RatingCurve(agent, kinds[agent], tuple(found)) for agent, found in sorted(points.items()))


# A line may have the right checksum and the right shape, and still not fit the lines before.


class _OddError(Exception):
    """A line that does not fit the others."""


def _candidates(records: Iterable[Record]) -> tuple[Candidate, ...]:
    found: list[Candidate] = []
    for r in records:
        if r["kind"] != "candidate":
            continue
        number = r["candidate"]
        if number != len(found):
            raise _OddError(f"candidate {number} stands where candidate {len(found)} should be")
        if not all(0 <= parent < number for parent in r["parents"]):
            raise _OddError(f"candidate {number} comes from one that was not there before")
        errors = tuple(r["errors"])
        raw = found[0].errors if found else errors
        found.append(
            Candidate(
                number, r["program"], r["status"], errors, raw, r["calls"], r["size"], tuple(r["parents"]),
                r["agent"], r["move"], r["iteration"], r["reason"],
            )
        )  # fmt: skip
    return tuple(found)


def _agent(name: str) -> int:
    try:
        return int(name)
    except ValueError:
        raise _OddError(f"there is no agent {name[:40]!r}") from None


def _kinds(
    first: Iterable[Agent], records: Iterable[Record], candidates: Iterable[Candidate],
    races: Iterable[RaceOutcome],
) -> Mapping[int, str]:  # fmt: skip
    """The kinds of all agents, those born in races too; everybody who does something must be known."""
    kinds = {agent.number: agent.kind for agent in first}
    for record in records:
        for born in record["born"] if record["kind"] == "race" else ():
            if mismatch(born, _BORN):
                raise _OddError(f"race {record['iteration']} says nothing of an agent that was born")
            kinds[born["agent"]] = born["kind"]
    acting = {agent for race in races for agent in race.ratings} | {c.agent for c in candidates} - {0}
    if unknown := acting - set(kinds):
        raise _OddError(f"nobody knows agent {min(unknown)}")
    return MappingProxyType(kinds)
