"""What happened, as a file that only grows; reading it again leads to the same place.

The first line says what the folder is about. Then, race after race, what language models said, every
candidate, and the race's outcome. An evolution that begins on an old journal goes through it line by line,
takes verdicts from it instead of judging again, and must meet every stored line where it is; after the
last one it goes on. What a clock says stands under ``clock`` and is never compared.

A damaged line loses nothing but itself: the file as it was is kept beside, the lines before the damage stay,
and what later lines knew is used when the evolution comes by again.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from chop.core.errors import EvolutionError
from chop.evolution.agents import Agent, Proposals
from chop.evolution.identity import SearchIdentity
from chop.evolution.judging import Verdict
from chop.evolution.population import Candidate
from chop.storage.log import AppendLog, OwnsLog
from chop.storage.schema import (
    Record,
    Shape,
    anything,
    checked_record,
    finite,
    list_of,
    mapping_of,
    one_of,
    optional,
    record_of,
    safe_int,
    string,
)

JOURNAL_FILE = "journal.jsonl"

_SHAPES: Mapping[str, Shape] = {
    "candidate": {
        "candidate": safe_int, "iteration": safe_int, "agent": safe_int, "move": string,
        "parents": list_of(safe_int), "program": string, "size": safe_int, "calls": safe_int,
        "status": one_of("done", "stopped", "failed"), "reason": string, "fitness": optional(finite),
        "errors": list_of(finite), "clock": record_of({"seconds": finite}),
    },
    "said": {
        "iteration": safe_int, "agent": safe_int, "programs": list_of(string), "guidance": optional(string),
        "notes": mapping_of(anything),
    },
    "race": {
        "iteration": safe_int, "references": list_of(safe_int), "winner": safe_int, "best": safe_int,
        "value": optional(finite), "ratings": mapping_of(finite), "born": list_of(anything),
        "gone": list_of(safe_int),
    },
    "head": {},  # it is read, and checked, as the first line is
}  # fmt: skip
"""What is read of each kind of record."""


def _shape_of(content: Any) -> tuple[str, Shape]:
    kind = content.get("kind") if isinstance(content, dict) else None
    if isinstance(kind, str) and kind in _SHAPES:
        return kind, _SHAPES[kind]
    return "record of an evolution", {"kind": one_of(*_SHAPES)}


def operators_begun_with(folder: Path) -> list[str] | None:
    """The operators of the search that a folder holds, None if it holds none yet.

    A search goes on with them, whatever operators have been added to the library since.
    """
    if not (folder / JOURNAL_FILE).is_file():
        return None
    with Journal(folder, None) as journal:
        return list(journal.identity.parts.get("operators", [])) or None


class Journal(OwnsLog):
    """The journal of one folder. ``wanted`` creates it or must fit it; None takes it as it is, to be read."""

    def __init__(self, folder: str | Path, wanted: SearchIdentity | None) -> None:
        self.folder = Path(folder)
        self.path = self.folder / JOURNAL_FILE
        head = None if wanted is None else wanted.to_json()
        with self._opened(self.path, EvolutionError, "evolution", head) as log:
            self._read(log, wanted)

    def _read(self, log: AppendLog, wanted: SearchIdentity | None) -> None:
        self.identity = SearchIdentity.from_json(log.contents[0], self.path)
        self.damaged = log.damaged
        first_bad = log.contents.index(None) if log.damaged else len(log.contents)
        lines = list(log.records(_shape_of, after=1))
        older = [AppendLog(path, EvolutionError, writing=False) for path in self._damaged_files()]
        everything = [record for each in (*older, log) for _, record in each.records(_shape_of, after=1)]
        for record in everything:
            if record["kind"] == "head":  # of a later version that went on here, and was held to the first
                self.identity = SearchIdentity.from_json(record, self.path)
        self._stored = {_subject(record): record for record in everything}
        self._to_meet = [
            (line, record)
            for line, record in lines
            if record["kind"] != "head" and (wanted is None or line <= first_bad)
        ]
        self._met = 0
        self.records = [record for _, record in self._to_meet]
        self._unwritten: list[Record] = []
        if wanted is not None:
            self._hold_to(wanted)
            if self.damaged:
                self._cut_after(first_bad)

    def _hold_to(self, wanted: SearchIdentity) -> None:
        difference = self.identity.difference(wanted)
        if difference:
            raise EvolutionError(f"{self.folder} holds another evolution: {difference}; use another folder")
        if self.identity != wanted:
            # An evolution of an older version learns what it did not know once something new is added to it.
            self._unwritten = [{"kind": "head", **wanted.to_json()}]

    def _cut_after(self, lines: int) -> None:
        """Keep the file as it is beside, and go on from the last line before the damage."""
        try:
            shutil.copyfile(
                self.path, self.folder / f"journal.damaged-{len(self._damaged_files()) + 1}.jsonl"
            )
            with self.path.open("r+b") as file:
                for _ in range(lines):
                    file.readline()
                file.truncate(file.tell())
        except OSError as problem:
            raise EvolutionError(f"{self.path} cannot be mended: {problem.strerror}") from None

    def _damaged_files(self) -> list[Path]:
        return sorted(self.folder.glob("journal.damaged-*.jsonl"))

    def stored(self, kind: str, number: int, agent: int = 0) -> Record | None:
        """What an earlier session wrote about something, wherever it stands."""
        return self._stored.get((kind, number, agent))

    def write(self, record: Record) -> None:
        """The next record: appended, or compared with the one that stands there already."""
        if self._met < len(self._to_meet):
            line, there = self._to_meet[self._met]
            if comparable(there) != comparable(record):
                raise EvolutionError(
                    f"{self.path}, line {line}: a {there['kind']} is stored that this version would not have "
                    "come to; it continues only its own evolutions: use another folder"
                )
            self._met += 1
        else:
            self._log.append([*self._unwritten, record])
            self._unwritten = []
            self.records.append(record)


def _subject(record: Record) -> tuple[str, int, int]:
    """What a record is about: its kind, the number of the candidate or race, the agent that spoke."""
    kind = record["kind"]
    number = record.get("candidate" if kind == "candidate" else "iteration", 0)
    return kind, number, record["agent"] if kind == "said" else 0


def comparable(record: Record) -> Record:
    """A record without what a clock said."""
    return {name: value for name, value in record.items() if name != "clock"}


# Records of what happens.


def candidate_record(candidate: Candidate, stream: str, seconds: float, hashes: Mapping[str, str]) -> Record:
    """A candidate with all that led to it; ``stream`` names its random stream, ``hashes`` data and model."""
    return {
        "kind": "candidate", "candidate": candidate.number, "iteration": candidate.iteration,
        "agent": candidate.agent, "move": candidate.move, "parents": list(candidate.parents),
        "stream": stream, "program": candidate.text, "size": candidate.size, "calls": candidate.calls,
        "status": candidate.status, "reason": candidate.reason, "fitness": _few_digits(candidate.fitness),
        "errors": list(candidate.errors), **hashes, "clock": {"seconds": seconds},
    }  # fmt: skip


def stored_verdict(record: Record) -> Verdict:
    """The verdict a candidate's record holds."""
    checked_record(record, _SHAPES["candidate"], "a stored line is no candidate", EvolutionError)
    return Verdict(
        record["status"], tuple(record["errors"]), record["calls"], record["reason"],
        record["clock"]["seconds"],
    )  # fmt: skip


def answer_record(iteration: int, agent: Agent, answer: Proposals) -> Record:
    """What an agent outside answered."""
    return {
        "kind": "said", "iteration": iteration, "agent": agent.number,
        "programs": [proposal.text for proposal in answer.programs], "guidance": answer.guidance,
        "notes": dict(answer.notes),
    }  # fmt: skip


def race_record(
    iteration: int,
    references: Sequence[Candidate],
    winner: int,
    best: Candidate,
    agents: Mapping[int, Agent],
    born: Sequence[Agent] = (),
    gone: Sequence[int] = (),
) -> Record:
    """How a race ended: who won, the best program now, all ratings, and who came and went."""
    return {
        "kind": "race", "iteration": iteration, "references": [c.number for c in references],
        "winner": winner, "best": best.number, "value": _few_digits(best.value),
        "ratings": {str(n): _few_digits(agent.rating) for n, agent in sorted(agents.items())},
        "born": [agent.to_json() for agent in born], "gone": list(gone),
    }  # fmt: skip


def _few_digits(value: float) -> float | None:
    """A number for people; None where there is none."""
    return float(f"{value:.9g}") if abs(value) < float("inf") else None
