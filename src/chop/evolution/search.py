"""``chop.evolve``: races of agents on the same references, judged, rated and remembered.

Everything that happens follows from the seed and from what the journal holds: random numbers are made anew
for every decision from its name, verdicts are functions of the program and the bar, and nothing depends on
which worker was faster. So a search that was killed continues as if it had never stopped.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

from chop.core.errors import EvolutionError
from chop.core.program import Program
from chop.core.text import parse
from chop.evolution.agents import (
    LANGUAGE_MODEL,
    RANDOM,
    Agent,
    Brief,
    Proposal,
    Proposals,
    Proposer,
    initial_agents,
    propose_by_moves,
    revised_agent,
)
from chop.evolution.generation import Trial
from chop.evolution.identity import SearchIdentity, task_parts
from chop.evolution.journal import (
    Journal,
    answer_record,
    candidate_record,
    operators_begun_with,
    race_record,
    stored_verdict,
)
from chop.evolution.judging import JudgePool, Submission, Verdict
from chop.evolution.moves import programs_with_one_less
from chop.evolution.population import (
    Candidate,
    sample_by_rank,
    sample_by_rating,
    survivors,
    updated_ratings,
)
from chop.evolution.space import Space
from chop.evolution.task import Task
from chop.evolution.tasks import load_task
from chop.runs.pool import pool_named
from chop.storage.atomic import check_writable, make_folder, write_text

WORKING = 4
"""Agents that run in a race."""
REFERENCES = 3
"""Programs every one of them works on."""
PROPOSALS = 12
"""Programs a race proposes, shared by the agents that run."""
MOST_AGENTS = 12
BAR_RANK = 4
"""A candidate is given up when it is clearly worse than the survivor of this rank (or the last, at first)."""
PRUNING = 8
"""Every so many races the best program is tried without each of its parts, by nobody in particular."""
STALLED = 30
"""Races without a new program after which the space is held to be exhausted."""
GAIN = 1e-4
"""By how much a program must beat its parents for its proposal to have paid."""
SAME_ERRORS = 1e-3
"""Relative difference of mean errors that machines and libraries may make, and operators may not."""


@dataclass
class SearchState:
    """Where a search stands."""

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


@dataclass(frozen=True, eq=False)
class Evolved:
    """What an evolution found."""

    task: Task
    state: SearchState
    out: Path

    @property
    def winner(self) -> Candidate:
        """The best candidate."""
        return self.state.best

    @property
    def program(self) -> Program:
        """The best program."""
        return self.winner.program()

    @property
    def fitness(self) -> float:
        """How many times smaller its mean error is than the start program's, on the evolution set."""
        return self.winner.fitness

    @property
    def without_model(self) -> bool:
        """Whether the best program never calls the model."""
        return self.winner.calls == 0

    def save(self, path: str | Path, overwrite: bool = False) -> Path:
        """The winner's text in a file, which `chop.parse` reads."""
        path = Path(path)
        prepare_export(path, overwrite)
        return write_text(path, f"{self.winner.text}\n", EvolutionError, overwrite)


def prepare_export(path: Path, overwrite: bool = False) -> None:
    """Make the folder that a winner is to be saved in; say at once if that cannot be."""
    make_folder(path.parent, EvolutionError)
    check_writable(path, EvolutionError, overwrite)


def evolve(
    task: str | Task,
    budget: int = 300,
    *,
    out: str | Path | None = None,
    seed: int = 0,
    agents: tuple[str, ...] | list[str] | str = ("builtin",),
    workers: int = 1,
    executor: str = "inline",
    proposers: Mapping[str, Proposer] | None = None,
    guidance: str = "",
    watch: Callable[[SearchState], None] | None = None,
    show: Callable[[str], None] | None = None,
) -> Evolved:
    """Search for a program around a frozen model that answers a task's questions best.

    ``task`` is a `Task`, a name ("conservation", "mfc") or a Python file that defines one. At most
    ``budget`` candidates are judged. Everything is kept in the folder ``out``; the same call with the same
    folder continues, with a larger budget too. ``executor="processes"`` uses ``workers`` processes with
    hard limits of time and memory (0 workers means one for each core). ``proposers`` are agents of other
    kinds, such as ``{"llm": chop.evolution.LanguageModel(...)}``.
    """
    from chop import __version__

    say = show or (lambda line: None)
    loaded = load_task(task)
    folder = Path(out) if out is not None else Path("chop-evolve") / f"{loaded.name}-{seed}"
    kinds = tuple(agents.split(",")) if isinstance(agents, str) else tuple(agents)
    if budget < 1 + PROPOSALS:
        raise EvolutionError(f"the budget must be at least {1 + PROPOSALS} candidates, not {budget}")
    pool_named(executor, EvolutionError)  # an unknown one is told before anything is done
    space = Space.of(loaded, operators_begun_with(folder))
    identity = SearchIdentity(__version__, loaded.name, seed, kinds, task_parts(loaded, space, guidance))
    with Journal(folder, identity) as journal:
        if journal.damaged:
            say(
                f"{journal.damaged} damaged lines in {journal.path}: the file is kept beside as it was, "
                "and what they held is judged again"
            )
        with JudgePool(executor, task, workers or os.cpu_count() or 1, loaded.limits) as judges:
            if journal.identity.version != __version__:
                _hold_to_errors(journal, judges)
            search = _Search(seed, kinds, guidance, space, journal, judges, proposers or {})
            state = search.begin(loaded.start)
            while len(state.candidates) + PROPOSALS <= budget and state.idle < STALLED:
                search.next_race()
                if watch is not None:
                    watch(state)
            if state.idle >= STALLED:
                say(
                    f"{STALLED} races in a row proposed nothing new: the search ends after "
                    f"{len(state.candidates)} candidates"
                )
    return Evolved(loaded, state, folder)


def _hold_to_errors(journal: Journal, judges: JudgePool) -> None:
    """Another version may continue if it comes to the same errors, of the start and of the best program."""
    done = [r for r in journal.records if r["kind"] == "candidate" and r["status"] == "done"]
    known = {r["candidate"]: r for r in (*done[:1], *sorted(done, key=lambda r: sum(r["errors"]))[:1])}
    verdicts = judges.run([Submission(record["program"]) for record in known.values()])
    for record, verdict in zip(known.values(), verdicts, strict=True):
        if not math.isclose(sum(verdict.errors), sum(record["errors"]), rel_tol=SAME_ERRORS):
            raise EvolutionError(
                f"{journal.folder} was written by version {journal.identity.version}, and this one comes to "
                f"other errors for candidate {record['candidate']}, {record['program']}; use another folder"
            )


def random_for(*name: object) -> Random:
    """Random numbers for one decision, the same whenever it is made."""
    return Random("/".join(map(str, name)))


@dataclass(eq=False)
class _Search:
    """Races, one at a time, so that whoever watches can stop in between."""

    seed: int
    kinds: tuple[str, ...]
    guidance: str
    space: Space
    journal: Journal
    judges: JudgePool
    proposers: Mapping[str, Proposer]

    def __post_init__(self) -> None:
        agents = initial_agents(self.kinds, self.guidance)
        if LANGUAGE_MODEL in self.kinds and LANGUAGE_MODEL not in self.proposers:
            raise EvolutionError("language-model agents need an address: --llm-url and --llm-model")
        self.state = SearchState([], [], {a.number: a for a in agents}, {a.number: a.kind for a in agents})

    def begin(self, start: str) -> SearchState:
        """Judge the program to begin from; its errors are what all scores are relative to."""
        self._keep(self._judged([Proposal(start, "start")]))
        (first,) = self.state.candidates
        if first.status != "done":
            raise EvolutionError(f"the start program {start} fails on this task: {first.reason}")
        return self.state

    def next_race(self) -> None:
        """The next race, or at times the best program without each of its parts: it may not need them."""
        state = self.state
        state.iteration += 1
        if state.iteration % PRUNING == 0 and self.kinds != (RANDOM,):
            known = {candidate.text for candidate in state.candidates}
            shorter = [str(program) for program in programs_with_one_less(state.best.program())]
            new = [text for text in shorter if text not in known]
            if new:
                self._prune(state.best, new[:PROPOSALS])
                return
        self._race()

    def _prune(self, best: Candidate, shorter: Sequence[str]) -> None:
        state = self.state
        self._keep(self._judged([Proposal(text, "prune", (best.number,)) for text in shorter]))
        self.journal.write(race_record(state.iteration, [best], 0, state.best, state.agents))

    def _race(self) -> None:
        state, i = self.state, self.state.iteration
        ratings = {number: agent.rating for number, agent in state.agents.items()}
        running = sample_by_rating(ratings, WORKING, random_for(self.seed, i, "agents"))
        references = sample_by_rank(state.population, REFERENCES, random_for(self.seed, i, "references"))
        answers = self._ask([state.agents[number] for number in running], references)
        proposals = [proposal for number in running for proposal in answers[number].programs]
        new = self._judged(proposals)
        self._note_trials(proposals, new)
        self._keep(new)
        state.idle = 0 if new else state.idle + 1
        winner = self._rate(running, new)
        born, gone = self._revise(winner, answers[winner])
        self.journal.write(race_record(i, references, winner, state.best, state.agents, born, gone))

    def _keep(self, new: Sequence[Candidate]) -> None:
        self.state.candidates += new
        self.state.population = survivors([*self.state.population, *new])

    def _ask(self, agents: Sequence[Agent], references: Sequence[Candidate]) -> dict[int, Proposals]:
        """What each agent proposes; nobody proposes what is known or what another has just proposed."""
        i = self.state.iteration
        taken = {candidate.text for candidate in self.state.candidates}
        answers: dict[int, Proposals] = {}
        for agent in agents:
            brief = Brief(
                i, references, self.state.candidates, self.space, random_for(self.seed, i, agent.number),
                frozenset(taken), PROPOSALS // len(agents),
            )  # fmt: skip
            proposer = self.proposers.get(agent.kind)
            answer = (
                propose_by_moves(agent, brief) if proposer is None else self._hear(agent, brief, proposer)
            )
            answers[agent.number] = answer
            taken |= {proposal.text for proposal in answer.programs}
        return answers

    def _hear(self, agent: Agent, brief: Brief, proposer: Proposer) -> Proposals:
        """What an agent outside says: from the journal if it is there, since it may not say it again."""
        record = self.journal.stored("said", brief.iteration, agent.number)
        if record is None:
            record = answer_record(brief.iteration, agent, proposer(agent, brief))
        self.journal.write(record)
        parents = tuple(candidate.number for candidate in brief.references)
        programs = [Proposal(t, agent.kind, parents, agent.number) for t in record["programs"]]
        return Proposals(tuple(programs), record["guidance"])

    def _judged(self, proposals: Sequence[Proposal]) -> list[Candidate]:
        """Candidates with their verdicts, each written down before the next."""
        state = self.state
        numbered = list(enumerate(proposals, start=len(state.candidates)))
        known = [self._remembered(number, proposal) for number, proposal in numbered]
        missing = [p for p, verdict in zip(proposals, known, strict=True) if verdict is None]
        fresh = self.judges.run([self._submission(proposal.text) for proposal in missing])
        hashes = {name: self.journal.identity.parts[name][:16] for name in ("data", "model")}
        found = []
        for (number, proposal), remembered in zip(numbered, known, strict=True):
            verdict = remembered or next(fresh)
            candidate = Candidate(
                number, proposal.text, verdict.status, verdict.errors, self._raw or verdict.errors,
                verdict.calls, parse(proposal.text).size, proposal.parents, proposal.agent, proposal.move,
                state.iteration, verdict.reason,
            )  # fmt: skip
            stream = f"{self.seed}/{state.iteration}/{proposal.agent}"
            self.journal.write(candidate_record(candidate, stream, verdict.seconds, hashes))
            found.append(candidate)
        return found

    @property
    def _raw(self) -> tuple[float, ...]:
        """The errors of the start program, once they are known."""
        return self.state.candidates[0].errors if self.state.candidates else ()

    def _remembered(self, number: int, proposal: Proposal) -> Verdict | None:
        record = self.journal.stored("candidate", number)
        if record is None or record["program"] != proposal.text:
            return None
        verdict = stored_verdict(record)
        if verdict.status == "done" and len(verdict.errors) != len(self._raw or verdict.errors):
            raise EvolutionError(
                f"{self.journal.path}: candidate {number} has {len(verdict.errors)} errors, but "
                f"{len(self._raw)} questions were asked; use another folder"
            )
        return verdict

    def _submission(self, text: str) -> Submission:
        """What a candidate is up against: nothing, for the first."""
        population = self.state.population
        if not population:
            return Submission(text)
        program = parse(text)
        size, calls = program.size, program.calls(self.space.examples)
        rivals = [(c.number, c.errors) for c in population if c.size <= size and c.calls <= calls]
        return Submission(text, population[min(BAR_RANK, len(population) - 1)].errors, tuple(rivals))

    def _note_trials(self, proposals: Sequence[Proposal], new: Sequence[Candidate]) -> None:
        """Every agent learns what came of its proposals, which operators were new in them, and whether they
        were better than all they were made from, or than the worst survivor."""
        state = self.state
        floor = state.population[-1].value
        for proposal, candidate in zip(proposals, new, strict=True):
            parents = [state.candidates[number] for number in proposal.parents]
            before = max((parent.value for parent in parents), default=floor)
            won = candidate.status == "done" and candidate.value > before + GAIN
            old = {name for parent in parents for name in parent.operators}
            trial = Trial(proposal.move, tuple(sorted(candidate.operators - old)), won)
            agent = state.agents[proposal.agent]
            state.agents[agent.number] = replace(agent, trials=(*agent.trials, trial))

    def _rate(self, running: Sequence[int], new: Sequence[Candidate]) -> int:
        """New ratings for those who ran, by the best candidate of each; the agent that won."""
        agents = self.state.agents
        none: tuple[Any, ...] = (9,)  # behind every rank
        ranks = {number: min((c.rank for c in new if c.agent == number), default=none) for number in running}
        order = sorted(set(ranks.values()))
        places = {number: 1 + order.index(rank) for number, rank in ranks.items()}
        after = updated_ratings({number: agents[number].rating for number in running}, places)
        for number in running:
            agents[number] = replace(agents[number], rating=after[number])
        return min(running, key=lambda number: (places[number], number))

    def _revise(self, winner: int, answer: Proposals) -> tuple[list[Agent], list[int]]:
        """The winner may have a child; with too many agents, the worst of the others goes."""
        state = self.state
        child = revised_agent(state.agents[winner], len(state.kinds) + 1, answer)
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
