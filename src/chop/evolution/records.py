"""Candidates, answers and races as records of the journal, and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from chop.evolution.agents import Agent, Said
from chop.evolution.judging import Verdict
from chop.evolution.population import Candidate
from chop.evolution.shapes import CANDIDATE, Record, fitting


def candidate_record(candidate: Candidate, stream: str, seconds: float, hashes: Mapping[str, str]) -> Record:
    """A candidate with all that led to it; ``stream`` names its dice, ``hashes`` the data and the model."""
    return {
        "kind": "candidate", "candidate": candidate.number, "iteration": candidate.iteration,
        "agent": candidate.agent, "move": candidate.move, "parents": list(candidate.parents),
        "stream": stream, "program": candidate.text, "size": candidate.size, "calls": candidate.calls,
        "status": candidate.status, "reason": candidate.reason, "fitness": few_digits(candidate.fitness),
        "errors": list(candidate.errors), **hashes, "clock": {"seconds": seconds},
    }  # fmt: skip


def verdict_of(record: Record) -> Verdict:
    """The verdict a candidate's record holds."""
    fitting(record, CANDIDATE, "a stored line is no candidate")
    return Verdict(
        record["status"], tuple(record["errors"]), record["calls"], record["reason"],
        record["clock"]["seconds"],
    )  # fmt: skip


def said_record(iteration: int, agent: Agent, said: Said) -> Record:
    """What an agent outside answered."""
    return {
        "kind": "said", "iteration": iteration, "agent": agent.number,
        "programs": [proposal.text for proposal in said.proposals], "guidance": said.guidance,
        "notes": dict(said.notes),
    }  # fmt: skip


def race_record(
    iteration: int,
    references: Sequence[Candidate],
    winner: int,
    best: Candidate,
    agents: Mapping[int, Agent],
    born: Sequence[Agent],
    gone: Sequence[int],
) -> Record:
    """How a race ended: who won, the best program now, all ratings, and who came and went."""
    return {
        "kind": "race", "iteration": iteration, "references": [c.number for c in references],
        "winner": winner, "best": best.number, "value": few_digits(best.value),
        "ratings": {str(n): few_digits(agent.rating) for n, agent in sorted(agents.items())},
        "born": [agent.to_json() for agent in born], "gone": list(gone),
    }  # fmt: skip


def few_digits(value: float) -> float | None:
    """A number for people; None where there is none."""
    return float(f"{value:.9g}") if abs(value) < float("inf") else None


__all__ = ["candidate_record", "race_record", "said_record", "verdict_of"]
