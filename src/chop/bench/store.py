"""Every finished piece of work as lines of a file that only grows (see `chop.storage.log`).

The first line says what the folder is about (version, seed), some which networks and data were used and what
was asked; each further one holds what one method made of one question or of a few. What the lines of a suite
look like is its `LineLayout`. A damaged line is told about and measured again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chop.core.errors import BenchError
from chop.storage.log import OwnsLog
from chop.storage.schema import Record, Shape, checked_record, list_of, present_part, safe_int, string

if TYPE_CHECKING:
    from chop.bench.suite import SuiteEntry

FILE = "cases.jsonl"
SAME_NUMBERS = frozenset({"0.1.0"})
"""Versions that compute the same numbers: each continues what another began. A release is added here if no
number changed since the others; if one did, it stands here alone."""

Questions = range | tuple[int, ...]
"""By their numbers; a range costs nothing, whatever a file says."""
Key = tuple[str, str, Questions]
"""Condition, method, and the questions that were answered in one go."""


@dataclass(frozen=True)
class About:
    """What must be the same for results to stand side by side, beside networks and data."""

    version: str
    seed: int
    year: int | None = None
    """Of the questions, where they come from data."""

    def __str__(self) -> str:
        year = "" if self.year is None else f", questions in {self.year}"
        return f"version {self.version}, seed {self.seed}{year}"

    def fields(self, layout: LineLayout) -> Record:
        """As a first line holds them."""
        return {name: getattr(self, name) for name in layout.head}

    def may_continue(self, begun: About) -> bool:
        """Whether results can be added to what was begun."""
        same = self.version == begun.version or {self.version, begun.version} <= SAME_NUMBERS
        return same and (self.seed, self.year) == (begun.seed, begun.year)


@dataclass(frozen=True)
class Used:
    """A network or a region's data: what answered, or was asked about."""

    sha256: str
    name: str
    version: str
    """Of the library that used it last."""
    trained: str | None = None
    """The region a network was trained in, where there are regions and its name is another."""


@dataclass(frozen=True)
class Asked:
    """The questions of one region: one every so many hours, by their hours since 1970, in their order."""

    every: int
    hours: tuple[int, ...]


@dataclass(frozen=True)
class LineLayout:
    """What the lines of a file hold: the names they have on disk, and the shapes they must have."""

    format: str
    title: str
    """What the first line says that it is."""
    used: Mapping[str, str]
    """Names in lines that say what was used: of its kind (without one: a network), whose, sha256, name."""
    measured: Callable[[Any], Shape]
    """The shape that a line of results must have."""
    key: Callable[[Record], Key]
    covers: Callable[[Record], tuple[int, ...]]
    """The questions of its key that a record is about."""
    size: Callable[[Record], tuple[Any, int] | None]
    """Something that must have one size in all records of a kind: (kind, size)."""
    dated: bool = False
    """Questions come from the data of a year, and lines say which were asked."""

    @property
    def head(self) -> Shape:
        """Of the first line."""
        return {"version": string, "seed": safe_int, **({"year": safe_int} if self.dated else {})}

    @property
    def used_marker(self) -> str:
        """The name that only lines which say what was used have."""
        return next(iter(self.used.values()))


_LATER: Shape = {"version": string, "trained": string}
_ASKED: Shape = {"asked": string, "every": safe_int, "hours": list_of(safe_int)}


class Store(OwnsLog):
    """The results of one folder. ``about`` creates the folder or must fit it; None takes it as it is."""

    def __init__(self, folder: str | Path, layout: LineLayout, about: About | None = None) -> None:
        self.folder, self.layout = Path(folder), layout
        self.path = self.folder / FILE
        self.used: dict[tuple[str, str], Used] = {}
        """By kind ("network" or "data") and whose it is."""
        self.asked: dict[str, Asked] = {}
        """By region, as the last run asked."""
        self._writer = None if about is None else about.version
        self._records: dict[Key, dict[tuple[int, ...], Record]] = {}
        self._sizes: dict[Any, int] = {}
        head = None if about is None else {"format": layout.format, **about.fields(layout)}
        with self._opened(self.path, BenchError, "benchmark", head) as log:
            self.damaged = log.damaged
            self.about = self._begun(log.contents[0], about)
            for line, content in log.records(lambda content: ("result", self._shape_of(content)), after=1):
                self._take(content, line)

    def _begun(self, head: Any, wanted: About | None) -> About:
        """What the first line says, which must fit what is wanted."""
        odd = f"{self.path} does not begin like {self.layout.title}"
        if not isinstance(head, dict) or "format" not in head:
            raise BenchError(f"{odd}; use another folder")
        if head["format"] != self.layout.format:
            raise BenchError(
                f"{odd}: {self.folder} holds results of format {head['format']!r}, not "
                f"{self.layout.format!r}; use another folder"
            )
        checked_record(head, self.layout.head, odd, BenchError)
        begun = About(**{name: head[name] for name in self.layout.head})
        if wanted is not None and not wanted.may_continue(begun):
            raise BenchError(f"{self.folder} holds results of {begun}; this is {wanted}: use another folder")
        return begun

    def _shape_of(self, content: Any) -> Shape:
        if isinstance(content, dict) and self.layout.used_marker in content:
            return {**dict.fromkeys(self.layout.used.values(), string), **present_part(content, _LATER)}
        if isinstance(content, dict) and self.layout.dated and "asked" in content:
            return _ASKED
        return self.layout.measured(content)

    def _take(self, content: Record, line: int) -> None:
        """One line of the file, which has the shape it should have."""
        names = self.layout.used
        if self.layout.used_marker in content:
            kind = content[names["kind"]] if "kind" in names else "network"
            version = content.get("version", self.about.version)
            used = Used(content[names["sha256"]], content[names["name"]], version, content.get("trained"))
            self.used[kind, content[names["whose"]]] = used
        elif self.layout.dated and "asked" in content:
            self.asked[content["asked"]] = Asked(content["every"], tuple(content["hours"]))
        elif self._fits(content):
            self._keep(content)
        else:
            what = f"{self.path}, line {line} is no result"
            raise BenchError(f"{what}: it does not fit the others; use another folder")

    def _fits(self, record: Record) -> bool:
        """Whether a record is about questions of its batch, and has the size of those of its kind."""
        counted = self.layout.size(record)
        sized = counted is None or self._sizes.setdefault(counted[0], counted[1]) == counted[1]
        covered = self.layout.covers(record)
        batch = self.layout.key(record)[2]
        return sized and bool(covered) and (covered == batch or all(part in batch for part in covered))

    @property
    def versions(self) -> tuple[str, ...]:
        """Of the library that wrote here, the first one first."""
        return tuple(dict.fromkeys((self.about.version, *(used.version for used in self.used.values()))))

    def use(self, kind: str, whose: str, sha256: str, name: str, trained: str | None = None) -> None:
        """Note what answers or is asked about, and which version writes; it must be what was used before."""
        known = self.used.get((kind, whose))
        if known is not None and known.sha256 != sha256:
            raise BenchError(
                f"{self.folder} holds results of another {kind} of {whose} ({known.name}, sha256 "
                f"{known.sha256[:12]}); {name} is {sha256[:12]}: use another folder"
            )
        wanted = None if self._writer is None else Used(sha256, name, self._writer, trained)
        if wanted is None or (known is not None and replace(known, name=name) == wanted):
            return
        values = {"kind": kind, "whose": whose, "sha256": sha256, "name": name}
        line = {written: values[field] for field, written in self.layout.used.items()}
        # A later version says so here: lines of results stay as they were, and readable by the first.
        later = {} if self._writer == self.about.version else {"version": self._writer}
        elsewhere = {} if trained is None else {"trained": trained}
        self._log.append([{**line, **later, **elsewhere}])
        self.used[kind, whose] = wanted

    def ask(self, region: str, every: int, hours: tuple[int, ...]) -> None:
        """Note which questions are asked of a region."""
        wanted = Asked(every, hours)
        if self.asked.get(region) != wanted:
            self._log.append([{"asked": region, "every": every, "hours": list(hours)}])
            self.asked[region] = wanted

    def append(self, records: Iterable[Record]) -> None:
        """Write records that are not there yet; on a full disk nothing that was written is lost."""
        layout = self.layout
        new = [r for r in records if layout.covers(r) not in self._records.get(layout.key(r), ())]
        self._log.append(new)
        for record in new:
            self._keep(record)

    def _keep(self, record: Record) -> None:
        self._records.setdefault(self.layout.key(record), {})[self.layout.covers(record)] = record

    def done(self, condition: str, method: str, batch: Questions) -> bool:
        """Whether a batch is stored with all its questions."""
        found = self._records.get((condition, method, batch), ())
        return sum(map(len, found)) == len(batch)

    def records(self, entry: SuiteEntry) -> list[Record] | None:
        """All that is stored of an entry, in the order of its questions; None unless it is complete."""
        found: list[Record] = []
        name = entry.condition.name
        for batch in entry.batches():
            if not self.done(name, entry.method, batch):
                return None
            place = {question: i for i, question in enumerate(batch)}
            stored = self._records[name, entry.method, batch]
            found += [stored[part] for part in sorted(stored, key=lambda part: place[part[0]])]
        return found

    def methods(self) -> tuple[str, ...]:
        """Every method of which something is stored, in the order of first appearance."""
        return tuple(dict.fromkeys(method for _, method, _ in self._records))
