"""What a benchmark measures, as data: conditions, the methods that meet them, and the pieces of work.

A *condition* is a set of questions; a *method* answers them: program text, or ``@name`` for a baseline that
is no program. An *entry* is one condition, one method and some questions; a *piece* is what one worker does
in one go. A *suite* says which entries there are and how a piece is answered; who does the work, where it is
kept and how it is told is the same for all (`runner`, `store`, `results`, `report`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chop.bench.store import About, LineLayout, Questions, Store
from chop.core.errors import BenchError
from chop.core.text import parse
from chop.icon.weights import bundled, find, load
from chop.runs.fingerprint import of_network
from chop.storage.schema import Record

if TYPE_CHECKING:
    from chop.bench.air_questions import RegionSource
    from chop.bench.report import Report


@dataclass(frozen=True)
class Condition:
    """A set of questions: ``settings`` say how they are sampled."""

    name: str
    problem: str
    """Whose network answers."""
    label: str
    settings: tuple[tuple[str, Any], ...]
    n: int = 0
    """Questions of the paper; 0 where the data says how many there are."""
    chunk: int = 25
    """Questions of one piece of work. Fixed, so that rounding does not depend on who does the work."""
    split: str = "test"
    steps: int = 1
    columns: tuple[str, ...] = ()
    """What is scored, if it is more than one thing: the names of its errors in a record."""

    def scored(self) -> list[tuple[str, str]]:
        """Names under which there are errors, and where a record has them."""
        return [(f"{self.name}/{column}", column) for column in self.columns] or [(self.name, "error")]


@dataclass(frozen=True)
class SuiteEntry:
    """One condition, one method, and the questions by their numbers."""

    condition: Condition
    method: str
    questions: Questions
    group: str = "main"
    share: Hashable = None
    """Entries that share a piece of work have the same; None: its pieces are its own."""
    redone_together: bool = False
    """Answers are shared too: if one such entry of a piece is missing, all of them are done again."""

    @property
    def n(self) -> int:
        return len(self.questions)

    def batches(self) -> Iterator[Questions]:
        """The questions in pieces of the condition's fixed size."""
        for first in range(0, self.n, self.condition.chunk):
            yield self.questions[first : first + self.condition.chunk]


@dataclass(frozen=True)
class Piece:
    """Questions that one worker answers in one go, under some conditions by some methods."""

    asked: tuple[tuple[Condition, tuple[str, ...]], ...]
    """Conditions with their methods, in the order of work."""
    questions: Questions
    group: str
    number: int
    """Which of the pieces of its entries it is."""
    cost: float
    """A guess, for the time left."""

    @property
    def condition(self) -> Condition:
        """The first of its conditions."""
        return self.asked[0][0]


@dataclass(frozen=True)
class Network:
    """A frozen network by the name under which conditions ask for it."""

    name: str
    path: str
    sha256: str
    trained: str | None = None
    """The region it was trained in, where there are regions and its name is another."""


@dataclass(frozen=True)
class Setting:
    """What every worker needs to know: where the networks are, and where questions come from."""

    networks: tuple[Network, ...]
    seed: int = 0
    sources: tuple[RegionSource, ...] = ()
    """Each region's data, where questions come from data."""
    device: str | None = None
    """Where networks work; None: the CPU."""

    def network(self, name: str) -> Any:
        """A frozen network, checked to be the one that was meant."""
        for network in self.networks:
            if network.name == name:
                return _loaded(network, self.device)
        raise BenchError(f"no network was given for {name}")

    def source(self, region: str) -> RegionSource:
        """A region's questions."""
        return next(source for source in self.sources if source.region == region)

    def check(self, store: Store) -> None:
        """Networks and data must be those that a folder's results are of."""
        for network in self.networks:
            _loaded(network, self.device)  # a device that is not there is said here, not by every worker
            name = Path(network.path).name
            store.use("network", network.name, network.sha256, name, network.trained)
        for source in self.sources:
            store.use("data", source.region, source.digest, f"dataset_{source.region}.nc")


@lru_cache(maxsize=4)
def _loaded(network: Network, device: str | None) -> Any:
    if fingerprint_of_weights(network.path) != network.sha256:
        raise BenchError(f"{network.path} has changed since the benchmark began")
    return load(Path(network.path), device=device)


def fingerprint_of_weights(path: str | Path) -> str:
    """The SHA-256 of a network: its shape and its weights, not what else the file says about itself."""
    network = load(Path(path))
    return of_network(network.config.to_dict(), network)


def find_networks(
    needed: Iterable[str], given: Mapping[str, str], bundled_as: str, missing: str
) -> tuple[Network, ...]:
    """The networks of these names: the given file, else the bundled one.

    ``bundled_as`` and ``missing``, the error where there is neither, have a place for the name.
    """
    found = []
    for name in sorted(needed):
        own = bundled_as.format(name)
        if name not in given and own not in bundled():
            raise BenchError(missing.format(name))
        path = find(given.get(name, own))
        found.append(Network(name, str(path.resolve()), fingerprint_of_weights(path)))
    return tuple(found)


def by_name(models: Iterable[tuple[str, str]], words: str) -> dict[str, str]:
    """Networks by the name under which they are asked; two of one name are an error."""
    given: dict[str, str] = {}
    for name, model in models:
        if name in given:
            raise BenchError(f"two networks {words} {name} were given: {given[name]} and {model}")
        given[name] = model
    return given


Evaluate = Callable[[Piece, Setting], list[Record]]


class Suite(ABC):
    """What is asked for, and what is special about measuring it."""

    layout: LineLayout
    """Of the file in which results are kept."""
    programs: tuple[str, ...]
    """Texts of programs that are measured beside the others."""
    device: str | None
    """Where networks work; None: the CPU."""

    @abstractmethod
    def about(self, version: str) -> About:
        """What must be the same for results to stand side by side."""

    @abstractmethod
    def setting(self, out: Path) -> Setting:
        """The networks and data that are needed, each with its fingerprint."""

    @abstractmethod
    def entries(self, store: Store) -> list[SuiteEntry]:
        """What is to be measured, in the order of work, as far as it is known."""

    def reported(self, store: Store) -> list[SuiteEntry]:
        """What is told if it is finished."""
        return self.entries(store)

    def chosen(self, store: Store) -> dict[str, str]:
        """Programs that searches among stored results have chosen."""
        return {}

    def prepare(self, store: Store, setting: Setting) -> None:  # noqa: B027
        """What is done once, before the work; usually nothing."""

    @abstractmethod
    def now(self, pieces: list[Piece]) -> list[Piece]:
        """Of what is missing, what is done now and in which order; the rest comes when that is finished."""

    @abstractmethod
    def cost(self, condition: Condition, methods: Sequence[str]) -> float:
        """A guess of the time one question takes under a condition."""

    @staticmethod
    @abstractmethod
    def evaluate(piece: Piece, setting: Setting) -> list[Record]:
        """The records of a piece of work, made by a worker."""

    @abstractmethod
    def name(self, piece: Piece) -> str:
        """A few words, for the progress bar."""

    @abstractmethod
    def report(self) -> Report:
        """What is special about telling it."""

    def check(self) -> None:
        """Say what cannot be asked, before anything is loaded."""
        for text in self.programs:
            parse(text)


def missing_pieces(suite: Suite, store: Store) -> list[Piece]:
    """What can be done now, in batches of fixed size."""
    shared: dict[tuple[Hashable, Questions], list[tuple[int, SuiteEntry, bool]]] = {}
    for entry in suite.entries(store):
        for number, batch in enumerate(entry.batches()):
            own = (entry.condition.name, entry.method, entry.group)
            key = (own if entry.share is None else entry.share, batch)
            done = store.done(entry.condition.name, entry.method, batch)
            shared.setdefault(key, []).append((number, entry, done))
    found = []
    for (_, batch), members in shared.items():
        torn = any(entry.redone_together and not done for _, entry, done in members)
        todo = [entry for _, entry, done in members if (torn if entry.redone_together else not done)]
        if todo:
            by_condition: dict[Condition, list[str]] = {}
            for entry in todo:
                by_condition.setdefault(entry.condition, []).append(entry.method)
            cost = len(batch) * sum(suite.cost(*pair) for pair in by_condition.items())
            asked = tuple((condition, tuple(methods)) for condition, methods in by_condition.items())
            found.append(Piece(asked, batch, todo[0].group, members[0][0], cost))
    return found
