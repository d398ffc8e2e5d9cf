"""Agents: ways to propose programs, each with guidance of its own and a rating.

The built-in kinds differ in nothing but the strategy they begin with. A kind is a name in `KINDS`; an agent
is a value, and so is every revision of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from types import MappingProxyType
from typing import Any

from chop.core.errors import EvolutionError
from chop.evolution.generation import Strategy, Trial, adapted, move_shares
from chop.evolution.moves import MOVES, Moves, Offspring
from chop.evolution.population import INITIAL_RATING, Candidate
from chop.evolution.space import Space

TRIES = 40
"""Attempts to find a program nobody has proposed before."""
REVISE_AFTER = 12
"""Trials after which a winner has learnt enough to be revised."""


def mostly(**weights: float) -> Strategy:
    """A strategy that makes some moves, each as often as said, and every other rarely."""
    unknown = set(weights) - set(MOVES)
    assert not unknown, unknown
    return Strategy(move_shares({name: weights.get(name, 0.0) for name in MOVES}))


KINDS: Mapping[str, Strategy] = MappingProxyType(
    {
        "explorer": mostly(grow=2, insert=4, replace=2, cross=1),
        "mutator": mostly(insert=3, delete=1, replace=3, set=3),
        "breeder": mostly(cross=4, join=3, insert=1, tune=1),
        "validator": mostly(wrap=5, set=2, insert=1, replace=1),
        "simplifier": mostly(simplify=4, delete=3, set=1, replace=1),
        "tuner": mostly(tune=5, set=3, simplify=1),
    }
)
"""The built-in agents and what they begin with."""
RANDOM = "random"
"""Grows programs from nothing and learns nothing: what evolution must beat."""
RANDOM_SIZE = 10
LANGUAGE_MODEL = "llm"


@dataclass(frozen=True)
class Agent:
    """One of the ensemble: who it is, what it goes by, how it did."""

    number: int
    kind: str
    guidance: Strategy | str
    """a strategy, or the words of a language model"""
    rating: float = INITIAL_RATING
    parent: int | None = None
    trials: tuple[Trial, ...] = ()

    def to_json(self) -> dict[str, Any]:
        guidance = self.guidance if isinstance(self.guidance, str) else self.guidance.to_json()
        return {"agent": self.number, "kind": self.kind, "parent": self.parent, "guidance": guidance}


@dataclass(frozen=True)
class Proposal:
    """A program to be judged and where it comes from; agent 0 is nobody in particular."""

    text: str
    move: str
    parents: tuple[int, ...] = ()
    agent: int = 0


@dataclass(frozen=True, eq=False)
class Brief:
    """What every agent of a race is told: the same references for all."""

    iteration: int
    references: Sequence[Candidate]
    known: Sequence[Candidate]
    space: Space
    random: Random
    taken: frozenset[str]
    count: int


@dataclass(frozen=True)
class Proposals:
    """An agent's answer. ``guidance`` is new guidance in its own words; ``notes`` go to the journal."""

    programs: tuple[Proposal, ...]
    guidance: str | None = None
    notes: Mapping[str, Any] = field(default_factory=dict)


Proposer = Callable[[Agent, Brief], Proposals]
"""How agents of a kind propose: at most ``brief.count`` programs that are not taken."""


def propose_by_moves(agent: Agent, brief: Brief) -> Proposals:
    """Moves on the references, as the strategy says. The same brief gives the same answer."""
    strategy, random = agent.guidance, brief.random
    assert isinstance(strategy, Strategy)
    moves = Moves(brief.space, strategy, random, brief.references, brief.known)
    largest = min(RANDOM_SIZE, brief.space.limits.size)
    found: dict[str, Proposal] = {}
    for _ in range(TRIES * brief.count):
        if len(found) == brief.count:
            break
        made: Offspring | None
        if agent.kind == RANDOM:
            name, made = RANDOM, Offspring(moves.program(random.randint(1, largest)))
        else:
            name = random.choices(tuple(strategy.moves), tuple(strategy.moves.values()))[0]
            made = MOVES[name](moves)
        if made is None or not brief.space.admits(made.program):
            continue
        text = str(made.program)
        if text not in brief.taken and text not in found:
            found[text] = Proposal(text, name, made.parents, agent.number)
    return Proposals(tuple(found.values()))


def revised_agent(agent: Agent, number: int, answer: Proposals | None) -> Agent | None:
    """A child of an agent that won, its guidance revised by its record or in its own words; None if there
    is nothing new."""
    if isinstance(agent.guidance, str):
        if answer is None or not answer.guidance or answer.guidance == agent.guidance:
            return None
        return Agent(number, agent.kind, answer.guidance, parent=agent.number)
    if agent.kind == RANDOM or len(agent.trials) < REVISE_AFTER:
        return None
    return Agent(number, agent.kind, adapted(agent.guidance, agent.trials), parent=agent.number)


def initial_agents(kinds: Sequence[str], guidance: str = "") -> list[Agent]:
    """The agents an evolution begins with; ``builtin`` stands for one of every built-in kind."""
    names = [name for kind in kinds for name in (KINDS if kind == "builtin" else (kind,))]
    begin: dict[str, Strategy | str] = {**KINDS, RANDOM: mostly(grow=1), LANGUAGE_MODEL: guidance}
    unknown = [name for name in names if name not in begin]
    if unknown or not names:
        raise EvolutionError(
            f"there is no agent {', '.join(unknown) or '(none given)'}; known are builtin, {', '.join(begin)}"
        )
    return [Agent(number, name, begin[name]) for number, name in enumerate(names, start=1)]
