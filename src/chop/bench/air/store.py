"""Every finished piece of work as lines of a file that only grows (see `chop.storage.log`).

The first line says what the folder is about, some which network, data and questions were used; each further
one holds the errors of one method on a few questions at one lead. A damaged line is told about and measured
again.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from chop.bench.air.conditions import CHOP, POLLUTANTS
from chop.bench.store import Record, fitting
from chop.core.errors import BenchError
from chop.storage.log import AppendLog, OwnsLog
from chop.storage.schema import Shape, finite, list_of, optional, record_of, safe_int, string

FORMAT = "chop-bench-air-1"
FILE = "cases.jsonl"
Key = tuple[str, str, int, str]
"""Direction, selection, lead, method."""


@dataclass(frozen=True)
class About:
    """What must be the same for results to stand side by side, beside networks and data."""

    version: str
    seed: int
    year: int

    def __str__(self) -> str:
        return f"version {self.version}, seed {self.seed}, questions in {self.year}"


@dataclass(frozen=True)
class Used:
    """A network or a region's data: what answered, or was asked about."""

    sha256: str
    name: str


@dataclass(frozen=True)
class Asked:
    """The questions of one region: one every so many hours, by their hours since 1970, in their order."""

    every: int
    hours: tuple[int, ...]


_USED: Shape = {"used": string, "region": string, "sha256": string, "name": string}
_ASKED: Shape = {"asked": string, "every": safe_int, "hours": list_of(safe_int)}
_MEASURED: Shape = {
    "direction": string, "selection": string, "lead": safe_int, "method": string, "hours": list_of(safe_int),
    "calls": safe_int, "ms": finite, **dict.fromkeys(POLLUTANTS, list_of(optional(finite))),
}  # fmt: skip
_WEIGHTS = record_of(dict.fromkeys(POLLUTANTS, list_of(finite)))


def _shape(content: Any) -> Shape:
    if isinstance(content, dict) and "used" in content:
        return _USED
    if isinstance(content, dict) and "asked" in content:
        return _ASKED
    weighted = isinstance(content, dict) and (content.get("method") == CHOP or "weights" in content)
    return {**_MEASURED, "weights": _WEIGHTS} if weighted else _MEASURED


class Store(OwnsLog):
    """The measurements of one folder. ``about`` creates the folder or must fit it; None takes it as it is."""

    def __init__(self, folder: str | Path, about: About | None = None) -> None:
        self.folder = Path(folder)
        self.path = self.folder / FILE
        self.damaged = 0
        self._writing = about is not None
        self.used: dict[tuple[str, str], Used] = {}
        """By kind ("network" or "data") and region."""
        self.asked: dict[str, Asked] = {}
        """By region, as the last run asked."""
        self._weights = 0
        self._records: dict[Key, dict[tuple[int, ...], Record]] = {}
        if about is None and not self.path.exists():
            raise BenchError(f"{self.folder} holds no benchmark ({FILE} is missing)")
        self._lines = AppendLog(self.path, BenchError, writing=self._writing)
        try:
            self.about = self._load(about)
        except BenchError:
            self.close()
            raise

    def _load(self, wanted: About | None) -> About:
        if not self._lines.contents:
            if wanted is None:
                raise BenchError(f"{self.path} is empty")
            self._lines.append([{"format": FORMAT, **asdict(wanted)}])
            return wanted
        head, *rest = self._lines.contents
        if not isinstance(head, dict) or head.get("format") != FORMAT:
            raise BenchError(
                f"{self.path} does not begin like a benchmark of air quality; use another folder"
            )
        about: Shape = {"version": string, "seed": safe_int, "year": safe_int}
        fitting(head, about, f"{self.path} does not begin like a benchmark of air quality")
        found = About(head["version"], head["seed"], head["year"])
        if wanted is not None and found != wanted:
            raise BenchError(f"{self.folder} holds results of {found}; this is {wanted}: use another folder")
        for line, content in enumerate(rest, start=2):
            if content is None:
                self.damaged += 1
                continue
            what = f"{self.path}, line {line} is no result"
            fitting(content, _shape(content), what)
            if "used" in content:
                self.used[content["used"], content["region"]] = Used(content["sha256"], content["name"])
            elif "asked" in content:
                self.asked[content["asked"]] = Asked(content["every"], tuple(content["hours"]))
            elif self._fits(content):
                self._keep(content)
            else:
                raise BenchError(f"{what}: it does not fit the others; use another folder")
        return found

    def _fits(self, record: Record) -> bool:
        """Whether there is one error a question, and as many weights as before."""
        rows = [record["weights"][name] for name in POLLUTANTS] if "weights" in record else []
        self._weights = self._weights or len(rows[0]) if rows else self._weights
        return all(len(record[name]) == len(record["hours"]) for name in POLLUTANTS) and all(
            len(row) == self._weights for row in rows
        )

    def use(self, kind: str, region: str, sha256: str, name: str) -> None:
        """Note what answers or is asked about; it must be what was used before, if anything was."""
        known = self.used.get((kind, region))
        if known is None and self._writing:
            self._lines.append([{"used": kind, "region": region, "sha256": sha256, "name": name}])
            self.used[kind, region] = Used(sha256, name)
        elif known is not None and known.sha256 != sha256:
            raise BenchError(
                f"{self.folder} holds results of another {kind} of {region} ({known.name}, sha256 "
                f"{known.sha256[:12]}); {name} is {sha256[:12]}: use another folder"
            )

    def ask(self, region: str, every: int, hours: tuple[int, ...]) -> None:
        """Note which questions are asked of a region."""
        wanted = Asked(every, hours)
        if self.asked.get(region) != wanted:
            self._lines.append([{"asked": region, "every": every, "hours": list(hours)}])
            self.asked[region] = wanted

    def append(self, records: Iterable[Record]) -> None:
        """Write records that are not there yet; on a full disk nothing that was written is lost."""
        new = [r for r in records if tuple(r["hours"]) not in self._records.get(_key(r), ())]
        self._lines.append(new)
        for record in new:
            self._keep(record)

    def _keep(self, record: Record) -> None:
        self._records.setdefault(_key(record), {})[tuple(record["hours"])] = record

    def get(self, key: Key, hours: tuple[int, ...]) -> Record | None:
        """What one method made of a few questions, if it is stored."""
        return self._records.get(key, {}).get(hours)

    def methods(self) -> tuple[str, ...]:
        """Every method of which something is stored, in the order of first appearance."""
        return tuple(dict.fromkeys(method for _, _, _, method in self._records))


def _key(record: Record) -> Key:
    return record["direction"], record["selection"], record["lead"], record["method"]


__all__ = ["FILE", "FORMAT", "About", "Asked", "Key", "Store", "Used"]
