"""The evolution: races of agents on the same references, judged, rated, remembered.

Everything that happens follows from the seed and from what the journal holds: dice are made anew for every
decision from its name, verdicts are functions of the program and the bar, and nothing depends on which
worker was faster. So a run that was killed continues as if it had never stopped.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from chop.core.errors import EvolutionError
from chop.core.text import parse
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
from chop.evolution.executors import Executor
from chop.evolution.guidance import Trial
from chop.evolution.journal import Journal
from chop.evolution.judging import Job, Verdict
from chop.evolution.moves import shorter
from chop.evolution.population import Candidate, sample_by_rank, survivors
from chop.evolution.records import candidate_record, race_record, said_record, verdict_of
from chop.evolution.space import Space

WORKING = 4
"""Agents that run in a race."""
REFERENCES = 3
"""Programs every one of them works on."""
PROPOSALS = 12
"""Programs a race proposes, shared by the agents that run."""
MOST_AGENTS = 12
BAR = 4
"""A candidate is given up when it is clearly worse than the survivor of this rank (or the last, at first)."""
PRUNING = 8
"""Every so many races the best program is tried without each of its parts, by nobody in particular."""
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


@dataclass(frozen=True)
class _Entry:
    """A proposal in a race: the number it gets, and whose it is."""

    number: int
    agent: int
    proposal: Proposal

    def judged(self, iteration: int, verdict: Verdict, raw: tuple[float, ...]) -> Candidate:
        made = self.proposal
        return Candidate(
            self.number, made.text, verdict.status, verdict.errors, raw, verdict.calls, parse(made.text).size,
            made.parents, self.agent, made.move, iteration, verdict.reason,
        )  # fmt: skip


def dice(*name: object) -> Random:
    """Dice for one decision, the same whenever it is made."""
    return Random("/".join(map(str, name)))


class Evolution:
    """Races until the budget is spent, one at a time, so that whoever watches can stop in between."""

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
        self._hashes = {name: journal.head.parts[name][:16] for name in ("data", "model")}
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
        (first,) = self._judged(0, [_Entry(0, 0, Proposal(text, "start"))], [])
        if first.status != "done":
            raise EvolutionError(f"the start program {text} fails on this task: {first.reason}")
        return first

    def races(self) -> Iterator[State]:
        """One race after the other, as long as a whole one fits the budget."""
        while len(self.state.candidates) + PROPOSALS <= self._plan.budget and not self.exhausted:
            if not self._prune():
                self._race()
            yield self.state

    @property
    def exhausted(self) -> bool:
        """Whether nobody has proposed anything new for long."""
        return self.state.idle >= STALLED

    def _prune(self) -> bool:
        """The best program without each of its parts, as far as that was not tried: it may not need them."""
        state, best = self.state, self.state.best
        if (state.iteration + 1) % PRUNING or self._plan.agents == ("random",):
            return False
        known = {candidate.text for candidate in state.candidates}
        fewer = [text for program in shorter(best.program()) if (text := str(program)) not in known]
        if not fewer:
            return False
        state.iteration += 1
        first = len(state.candidates)
        entries = [
            _Entry(first + k, 0, Proposal(text, "prune", (best.number,)))
            for k, text in enumerate(fewer[:PROPOSALS])
        ]
        self._kept(self._judged(state.iteration, entries, state.population))
        self._journal.write(race_record(state.iteration, [best], 0, state.best, state.agents, [], []))
        return True

    def _kept(self, new: Sequence[Candidate]) -> None:
        self.state.candidates += new
        self.state.population = survivors([*self.state.population, *new])

    def _race(self) -> None:
        state, seed = self.state, self._plan.seed
        i = state.iteration = state.iteration + 1
        ratings = {number: agent.rating for number, agent in state.agents.items()}
        running = elo.sample_by_rating(ratings, WORKING, dice(seed, i, "agents"))
        references = sample_by_rank(state.population, REFERENCES, dice(seed, i, "references"))
        said = self._asked(i, [state.agents[number] for number in running], references)
        proposed = [(number, proposal) for number in running for proposal in said[number].proposals]
        first = len(state.candidates)
        entries = [_Entry(first + k, number, proposal) for k, (number, proposal) in enumerate(proposed)]
        new = self._judged(i, entries, state.population)
        self._look_back(entries, new)
        self._kept(new)
        state.idle = 0 if new else state.idle + 1
        winner = self._rated(running, new)
        born, gone = self._revised(winner, said[winner])
        self._journal.write(race_record(i, references, winner, state.best, state.agents, born, gone))

    def _look_back(self, entries: Sequence[_Entry], new: Sequence[Candidate]) -> None:
        """Every agent learns what came of its proposals."""
        state = self.state
        known = {candidate.number: candidate for candidate in state.candidates}
        floor = state.population[-1].value
        for entry, candidate in zip(entries, new, strict=True):
            trial = Trial(entry.proposal.move, entry.proposal.new_operators, _paid(candidate, floor, known))
            state.agents[entry.agent] = looked_back(state.agents[entry.agent], [trial])

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
            record = said_record(i, agent, proposer(agent, brief))
        self._journal.write(record)
        parents = tuple(candidate.number for candidate in brief.references)
        proposals = tuple(Proposal(text, agent.kind, parents) for text in record["programs"])
        return Said(proposals, record["guidance"])

    def _judged(self, i: int, entries: Sequence[_Entry], population: Sequence[Candidate]) -> list[Candidate]:
        """Candidates with their verdicts, each written down before the next."""
        known = [self._remembered(entry) for entry in entries]
        missing = [entry for entry, verdict in zip(entries, known, strict=True) if verdict is None]
        fresh = self._executor.run([self._job(entry.proposal.text, population) for entry in missing])
        found = []
        for entry, verdict in zip(entries, known, strict=True):
            verdict = verdict or next(fresh)
            self._raw = self._raw or verdict.errors
            candidate = entry.judged(i, verdict, self._raw)
            stream = f"{self._plan.seed}/{i}/{entry.agent}"
            self._journal.write(candidate_record(candidate, stream, verdict.seconds, self._hashes))
            found.append(candidate)
        return found

    def _remembered(self, entry: _Entry) -> Verdict | None:
        record = self._journal.stored("candidate", entry.number)
        if record is None or record["program"] != entry.proposal.text:
            return None
        verdict = verdict_of(record)
        if verdict.status == "done" and len(verdict.errors) != len(self._raw or verdict.errors):
            raise EvolutionError(
                f"{self._journal.path}: candidate {entry.number} has {len(verdict.errors)} errors, but "
                f"{len(self._raw)} questions were asked; use another folder"
            )
        return verdict

    def _job(self, text: str, population: Sequence[Candidate]) -> Job:
        """What a candidate is up against: nothing, for the first."""
        if not population:
            return Job(text)
        program = parse(text)
        size, calls = program.size, program.calls(self._space.examples)
        rivals = [(c.number, c.errors) for c in population if c.size <= size and c.calls <= calls]
        return Job(text, population[min(BAR, len(population) - 1)].errors, tuple(rivals))

    def _rated(self, running: Sequence[int], new: Sequence[Candidate]) -> int:
        """New ratings for those who ran, by the best candidate of each; the agent that won."""
        agents = self.state.agents
        none: tuple[Any, ...] = (9,)  # behind every rank
        ranks = {number: min((c.rank for c in new if c.agent == number), default=none) for number in running}
        order = sorted(set(ranks.values()))
        places = {number: 1 + order.index(rank) for number, rank in ranks.items()}
        after = elo.updated({number: agents[number].rating for number in running}, places)
        for number in running:
            agents[number] = replace(agents[number], rating=after[number])
        return min(running, key=lambda number: (places[number], number))

    def _revised(self, winner: int, said: Said) -> tuple[list[Agent], list[int]]:
        """The winner may have a child; with too many agents, the worst of the others goes."""
        state = self.state
        child = child_of(state.agents[winner], len(state.kinds) + 1, said)
        if child is None:
            return [], []
        state.kinds[child.number] = child.kind
        state.agents[winner] = replace(state.agents[winner], trials=())
        state.agents[child.number] = child
        if len(state.agents) <= MOST_AGENTS:
            return [child], []
        rest = [number for number in state.agents if number not in (winner, child.number)]
        last = min(rest, key=lambda number: (state.agents[number].rating, number))
        del state.agents[last]
        return [child], [last]


def _paid(candidate: Candidate, floor: float, known: Mapping[int, Candidate]) -> bool:
    """Whether a proposal was worth making: better than all it was made from, or than the worst survivor."""
    before = max((known[number].value for number in candidate.parents), default=floor)
    return candidate.status == "done" and candidate.value > before + GAIN


__all__ = ["PROPOSALS", "STALLED", "Evolution", "Plan", "State", "dice"]
