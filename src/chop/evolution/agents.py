"""Agents: ways to propose programs, each with guidance of its own and a rating.

The built-in kinds differ in nothing but the guidance they begin with. A kind is a name in `KINDS`; an agent
is a value, and so is every revision of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from types import MappingProxyType
from typing import Any, Protocol

from chop.core.errors import EvolutionError
from chop.evolution import elo, growth
from chop.evolution.guidance import Guidance, Trial, only, revised
from chop.evolution.moves import MOVE_TABLE, Made, Scene, introduced
from chop.evolution.population import Candidate
from chop.evolution.space import Space

TRIES = 40
"""Attempts to find a program nobody has proposed before."""
REVISE_AFTER = 12
"""Trials after which a winner has learnt enough to be revised."""

KINDS: Mapping[str, Guidance] = MappingProxyType(
    {
        "explorer": only(grow=2, insert=4, replace=2, cross=1),
        "mutator": only(insert=3, delete=1, replace=3, set=3),
        "breeder": only(cross=4, join=3, insert=1, tune=1),
        "validator": only(wrap=5, set=2, insert=1, replace=1),
        "simplifier": only(simplify=4, delete=3, set=1, replace=1),
        "tuner": only(tune=5, set=3, simplify=1),
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
    guidance: Guidance | str
    rating: float = elo.START
    parent: int | None = None
    trials: tuple[Trial, ...] = ()

    def to_json(self) -> dict[str, Any]:
        said = self.guidance if isinstance(self.guidance, str) else self.guidance.to_json()
        return {"agent": self.number, "kind": self.kind, "parent": self.parent, "guidance": said}


@dataclass(frozen=True)
class Proposal:
    """A program to be judged and where it comes from."""

    text: str
    move: str
    parents: tuple[int, ...] = ()
    new_operators: tuple[str, ...] = ()


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
class Said:
    """An agent's answer. ``guidance`` is new guidance in its own words; ``notes`` go to the journal."""

    proposals: tuple[Proposal, ...]
    guidance: str | None = None
    notes: Mapping[str, Any] = field(default_factory=dict)


class Proposer(Protocol):
    """How agents of a kind propose."""

    def __call__(self, agent: Agent, brief: Brief, /) -> Said:
        """At most ``brief.count`` proposals that are not taken."""
        ...


def built_in(agent: Agent, brief: Brief) -> Said:
    """Moves on the references, as the guidance says. The same brief gives the same answer."""
    assert isinstance(agent.guidance, Guidance)
    scene = Scene(brief.references, brief.known, brief.space, agent.guidance, brief.random)
    found: dict[str, Proposal] = {}
    for _ in range(TRIES * brief.count):
        if len(found) == brief.count:
            break
        name = RANDOM if agent.kind == RANDOM else agent.guidance.move(brief.random)
        made = _anything(scene) if name == RANDOM else MOVE_TABLE[name](scene)
        if made is None or not brief.space.admits(made.program):
            continue
        text = str(made.program)
        if text not in brief.taken and text not in found:
            found[text] = Proposal(text, name, made.parents, introduced(made, brief.references))
    return Said(tuple(found.values()))


def _anything(scene: Scene) -> Made:
    size = scene.random.randint(1, min(RANDOM_SIZE, scene.space.limits.size))
    return Made(growth.grown(scene.random, scene.space, scene.guidance, size), ())


def looked_back(agent: Agent, trials: Sequence[Trial]) -> Agent:
    """The agent with what came of its proposals."""
    return replace(agent, trials=(*agent.trials, *trials))


def child_of(agent: Agent, number: int, said: Said | None) -> Agent | None:
    """A revision of an agent that won: by its record, or in its own words; None if there is nothing new."""
    if isinstance(agent.guidance, str):
        if said is None or not said.guidance or said.guidance == agent.guidance:
            return None
        return Agent(number, agent.kind, said.guidance, parent=agent.number)
    if agent.kind == RANDOM or len(agent.trials) < REVISE_AFTER:
        return None
    return Agent(number, agent.kind, revised(agent.guidance, agent.trials), parent=agent.number)


def ensemble(kinds: Sequence[str], guidance_text: str = "") -> list[Agent]:
    """The agents an evolution begins with; ``builtin`` stands for one of every built-in kind."""
    names = [name for kind in kinds for name in (KINDS if kind == "builtin" else (kind,))]
    allowed = (*KINDS, RANDOM, LANGUAGE_MODEL)
    unknown = [name for name in names if name not in allowed]
    if unknown or not names:
        raise EvolutionError(
            f"there is no agent {', '.join(unknown) or '(none given)'}; "
            f"known are builtin, {', '.join(allowed)}"
        )
    begin: dict[str, Guidance | str] = {**KINDS, RANDOM: only(grow=1), LANGUAGE_MODEL: guidance_text}
    return [Agent(number, name, begin[name]) for number, name in enumerate(names, start=1)]


__all__ = [
    "KINDS", "LANGUAGE_MODEL", "RANDOM", "Agent", "Brief", "Proposal", "Proposer", "Said", "built_in",
    "child_of", "ensemble", "looked_back",
]  # fmt: skip
