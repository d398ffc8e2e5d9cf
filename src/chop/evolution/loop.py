"""The evolution: races of agents on the same references, judged, rated, remembered.

Everything that happens follows from the seed and from what the journal holds: dice are made anew for every
decision from its name, verdicts are functions of the program and the bar, and nothing depends on which
worker was faster. So a run that was killed continues as if it had never stopped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from chop.evolution import elo
from chop.evolution.agents import (
    LANGUAGE_MODEL,
    Agent,
    Brief,
    Proposal,
    Proposer,
    Said,
    built_in,
    child_of,
    ensemble,
    looked_back,
)
from chop.evolution.errors import EvolutionError
from chop.evolution.executors import Executor
from chop.evolution.guidance import Trial
from chop.evolution.journal import Journal, Record
from chop.evolution.judging import Job, Verdict
from chop.evolution.population import Candidate, sample_by_rank, survivors
from chop.evolution.space import Space
from chop.text import parse

WORKING = 4
"""Agents that run in a race."""
REFERENCES = 3
"""Programs every one of them works on."""
PROPOSALS = 12
"""Programs a race proposes, shared by the agents that run."""
MOST_AGENTS = 12
BAR = 4
"""A candidate is given up when it is clearly worse than the survivor of this rank (or the last, at first)."""
STALLED = 30
"""Races without a new program after which the space is held to be exhausted."""
GAIN = 1e-4
"""By how much a program must beat its parents for its proposal to have paid."""


@dataclass(frozen=True)
class Plan:
    """What is asked of an evolution."""

    budget: int
    """candidates, at most"""
    seed: int = 0
    agents: tuple[str, ...] = ("builtin",)
    guidance: str = ""
    """what language models are told at first"""

    def __post_init__(self) -> None:
        if self.budget < 1 + PROPOSALS:
            raise EvolutionError(f"the budget must be at least {1 + PROPOSALS} candidates, not {self.budget}")


@dataclass
class State:
    """Where an evolution stands."""

    candidates: list[Candidate]
    population: list[Candidate]
    """the survivors, best first"""
    agents: dict[int, Agent]
    """those alive"""
    kinds: dict[int, str]
    """what kind every agent is, or was"""
    iteration: int = 0
    idle: int = 0
    """races in a row that proposed nothing new"""

    @property
    def best(self) -> Candidate:
        return self.population[0]


def dice(*name: object) -> Random:
    """Dice for one decision, the same whenever it is made."""
    return Random("/".join(map(str, name)))


class Evolution:
    """Races until the budget is spent; `step` by step, so that whoever watches can stop in between."""

    def __init__(
        self,
        plan: Plan,
        start: str,
        space: Space,
        journal: Journal,
        executor: Executor,
        proposers: Mapping[str, Proposer] | None = None,
    ) -> None:
        self._plan = plan
        self._space = space
        self._journal = journal
        self._executor = executor
        self._proposers = dict(proposers or {})
        self._hashes = {"data": journal.head.data[:16], "model": journal.head.model[:16]}
        self._raw: tuple[float, ...] = ()
        agents = ensemble(plan.agents, plan.guidance)
        if LANGUAGE_MODEL in plan.agents and LANGUAGE_MODEL not in self._proposers:
            raise EvolutionError("language-model agents need an address: --llm-url and --llm-model")
        first = self._start(start)
        self.state = State(
            [first], [first], {agent.number: agent for agent in agents}, {a.number: a.kind for a in agents}
        )

    def _start(self, text: str) -> Candidate:
        """The program evolution begins from; its errors are what all scores are relative to."""
        proposal = Proposal(text, "start")
        (first,) = self._judged(0, [(Agent(0, "start", ""), proposal, f"{self._plan.seed}/start")], [], 0)
        if first.status != "done":
            raise EvolutionError(f"the start program {text} fails on this task: {first.reason}")
        return first

    def races(self) -> Iterator[State]:
        """One race after the other, as long as a whole one fits the budget."""
        while len(self.state.candidates) + PROPOSALS <= self._plan.budget and self.state.idle < STALLED:
            self._race()
            yield self.state

    def _race(self) -> None:
        state, seed = self.state, self._plan.seed
        i = state.iteration = state.iteration + 1
        ratings = {number: agent.rating for number, agent in state.agents.items()}
        running = elo.sample_by_rating(ratings, WORKING, dice(seed, i, "agents"))
        references = sample_by_rank(state.population, REFERENCES, dice(seed, i, "references"))
        said = self._asked(i, [state.agents[number] for number in running], references)
        drawn = [
            (state.agents[number], proposal, f"{seed}/{i}/{number}")
            for number in running
            for proposal in said[number].proposals
        ]
        new = self._judged(i, drawn, state.population, len(state.candidates))
        floor = state.population[-1].value
        by_number = {candidate.number: candidate for candidate in state.candidates}
        state.candidates += new
        state.population = survivors([*state.population, *new])
        state.idle = 0 if new else state.idle + 1
        best = self._settle(i, running, drawn, new, floor, by_number)
        self._revise(i, best, said, references)

    def _asked(self, i: int, agents: Sequence[Agent], references: Sequence[Candidate]) -> dict[int, Said]:
        """What each agent proposes; nobody proposes what is known or what another has just proposed."""
        taken = {candidate.text for candidate in self.state.candidates}
        said: dict[int, Said] = {}
        for agent in agents:
            brief = Brief(
                i, references, self.state.candidates, self._space, dice(self._plan.seed, i, agent.number),
                frozenset(taken), PROPOSALS // len(agents),
            )  # fmt: skip
            proposer = self._proposers.get(agent.kind)
            answer = built_in(agent, brief) if proposer is None else self._heard(i, agent, brief, proposer)
            said[agent.number] = answer
            taken |= {proposal.text for proposal in answer.proposals}
        return said

    def _heard(self, i: int, agent: Agent, brief: Brief, proposer: Proposer) -> Said:
        """What an agent outside said: from the journal if it is there, since it may not say it again."""
        record = self._journal.stored("said", i, agent.number)
        if record is None:
            record = _said_record(i, agent, proposer(agent, brief))
        self._journal.write(record)
        parents = tuple(candidate.number for candidate in brief.references)
        return Said(
            tuple(Proposal(text, agent.kind, parents) for text in record["programs"]), record["guidance"]
        )

    def _judged(
        self,
        i: int,
        drawn: Sequence[tuple[Agent, Proposal, str]],
        population: Sequence[Candidate],
        first: int,
    ) -> list[Candidate]:
        """Candidates with their verdicts, each written down before the next."""
        known = [self._remembered(first + k, proposal) for k, (_, proposal, _) in enumerate(drawn)]
        jobs = [
            self._job(proposal.text, population)
            for (_, proposal, _), verdict in zip(drawn, known, strict=True)
            if verdict is None
        ]
        fresh = self._executor.run(jobs)
        found = []
        for k, (agent, proposal, stream) in enumerate(drawn):
            verdict = known[k] or next(fresh)
            candidate = self._candidate(first + k, i, agent, proposal, verdict)
            self._journal.write(self._record(candidate, stream, verdict))
            found.append(candidate)
        return found

    def _job(self, text: str, population: Sequence[Candidate]) -> Job:
        if not population:
            return Job(text)
        program = parse(text)
        size, calls = program.size, program.calls(self._space.examples)
        rivals = [(c.number, c.errors) for c in population if c.size <= size and c.calls <= calls]
        return Job(text, population[min(BAR, len(population) - 1)].errors, tuple(rivals))

    def _remembered(self, number: int, proposal: Proposal) -> Verdict | None:
        record = self._journal.stored("candidate", number)
        if record is None or record["program"] != proposal.text:
            return None
        return Verdict(
            record["status"], tuple(record["errors"]), record["calls"], record["reason"],
            record.get("clock", {}).get("seconds", 0.0),
        )  # fmt: skip

    def _candidate(
        self, number: int, i: int, agent: Agent, proposal: Proposal, verdict: Verdict
    ) -> Candidate:
        if not self._raw:
            self._raw = verdict.errors
        made = Candidate(
            number, proposal.text, verdict.status, verdict.errors, self._raw, verdict.calls, 0,
            proposal.parents, agent.number, proposal.move, i, verdict.reason,
        )  # fmt: skip
        return replace(made, size=made.program().size)

    def _record(self, candidate: Candidate, stream: str, verdict: Verdict) -> Record:
        return {
            "kind": "candidate", "candidate": candidate.number, "iteration": candidate.iteration,
            "agent": candidate.agent, "move": candidate.move, "parents": list(candidate.parents),
            "stream": stream, "program": candidate.text, "size": candidate.size, "calls": candidate.calls,
            "status": candidate.status, "reason": candidate.reason, "fitness": _digits(candidate.fitness),
            "errors": list(candidate.errors), **self._hashes, "clock": {"seconds": verdict.seconds},
        }  # fmt: skip

    def _settle(
        self,
        i: int,
        running: Sequence[int],
        drawn: Sequence[tuple[Agent, Proposal, str]],
        new: Sequence[Candidate],
        floor: float,
        by_number: Mapping[int, Candidate],
    ) -> int:
        """Ratings and records after a race; the agent that won it."""
        state = self.state
        worst: tuple[Any, ...] = (9,)
        ranks: dict[int, tuple[Any, ...]] = dict.fromkeys(running, worst)
        for candidate in new:
            ranks[candidate.agent] = min(ranks[candidate.agent], candidate.rank)
        order = sorted(set(ranks.values()))
        places = {number: 1 + order.index(rank) for number, rank in ranks.items()}
        ratings = elo.updated({number: state.agents[number].rating for number in running}, places)
        for number in running:
            trials = [
                Trial(proposal.move, proposal.new_operators, _paid(candidate, floor, by_number))
                for (agent, proposal, _), candidate in zip(drawn, new, strict=True)
                if agent.number == number
            ]
            agent = looked_back(state.agents[number], trials)
            state.agents[number] = replace(agent, rating=ratings[number])
        return min(running, key=lambda number: (places[number], number))

    def _revise(self, i: int, winner: int, said: Mapping[int, Said], references: Sequence[Candidate]) -> None:
        """The winner may have a child; with too many agents, the worst of the others goes."""
        state = self.state
        born, gone = [], []
        child = child_of(state.agents[winner], len(state.kinds) + 1, said.get(winner))
        if child is not None:
            state.kinds[child.number] = child.kind
            state.agents[winner] = replace(state.agents[winner], trials=())
            state.agents[child.number] = child
            born.append(child.to_json())
            if len(state.agents) > MOST_AGENTS:
                rest = [n for n in state.agents if n not in (winner, child.number)]
                last = min(rest, key=lambda number: (state.agents[number].rating, number))
                del state.agents[last]
                gone.append(last)
        self._journal.write(
            {
                "kind": "race", "iteration": i, "references": [c.number for c in references],
                "winner": winner, "best": state.best.number, "value": _digits(state.best.value),
                "ratings": {str(n): _digits(agent.rating) for n, agent in sorted(state.agents.items())},
                "born": born, "gone": gone,
            }
        )  # fmt: skip


def _paid(candidate: Candidate, floor: float, known: Mapping[int, Candidate]) -> bool:
    """Whether a proposal was worth making: better than all it was made from, or than the worst survivor."""
    before = max((known[number].value for number in candidate.parents), default=floor)
    return candidate.status == "done" and candidate.value > before + GAIN


def _said_record(i: int, agent: Agent, said: Said) -> Record:
    return {
        "kind": "said", "iteration": i, "agent": agent.number,
        "programs": [proposal.text for proposal in said.proposals], "guidance": said.guidance,
        "notes": dict(said.notes),
    }  # fmt: skip


def _digits(value: float) -> float | None:
    """A number for people, in few digits; None where there is none."""
    return float(f"{value:.9g}") if abs(value) < float("inf") else None


Watcher = Callable[[State], None]

__all__ = ["PROPOSALS", "Evolution", "Plan", "State", "Watcher", "dice"]
