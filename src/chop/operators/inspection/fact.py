"""One thing that examples show or do not show, over a batch of prompts, and all of them together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from chop.core.errors import ChopError
from chop.core.prompt import Prompt
from chop.core.words import count, representation

LEAST = 3
"""Examples that must agree before anything is claimed of what links inputs and outputs."""


@dataclass(frozen=True, eq=False)
class Fact:
    """A number of each prompt, ``(...)``, and, unless it is a mere measurement, a claim about its examples.

    A claim stands where every example that can tell agrees, and enough of them can. An example cannot tell
    where it was not observed, or where nothing changes and nothing could have gone wrong.
    """

    name: str
    says: str
    """What is claimed; empty for a measurement."""
    measure: str
    """What the value is."""
    value: Tensor
    """NaN where there is none. With a claim: the worst example's, or as `measure` says."""
    applies: Tensor
    needs: str
    """What a prompt must be for the fact to apply."""
    telling: Tensor
    """How many examples can tell."""
    agreeing: Tensor
    deviation: Tensor
    """By how many tolerances the worst example fails: at most 1 where the claim stands, 0 or less inside."""
    least: int = LEAST
    choices: tuple[str, ...] = ()
    """What the number may belong to, such as programs; empty where there is nothing to choose."""
    choice: Tensor | None = None
    """Which of them it is, ``(...)``."""

    @property
    def claims(self) -> bool:
        """Whether it is more than a measurement."""
        return bool(self.says)

    @property
    def claim(self) -> Tensor:
        """Where the claim stands; nowhere for a measurement."""
        agreed = self.applies & (self.telling >= self.least) & (self.agreeing == self.telling)
        return agreed if self.claims else torch.zeros_like(agreed)

    @property
    def confidence(self) -> Tensor:
        """The chance that the next example agrees if these are all we know: Laplace's rule of succession.

        6/7 for five examples of five, however small their deviations: few examples are few.
        """
        return (self.agreeing + 1) / (self.telling + 2).double()

    def text(self) -> str:
        """What it says of one prompt, or how many prompts of a batch show it."""
        applies = int(self.applies.sum())
        if not applies:
            return f"does not apply: needs {self.needs}"
        middle = self.middle()
        if self.value.numel() == 1:
            return self._one(middle) if self.claims else f"{middle}  {self.measure}{self._chosen()}"
        among = "" if applies == self.applies.numel() else f" of {applies}"
        if not self.claims:
            return f"median {middle}{among}  {self.measure}{self._chosen()}"
        share = f"{int(self.claim.sum()) / applies:.0%}{among}"
        return f"{share}: {self.says}; {self.measure}: median {middle}"

    def middle(self) -> str:
        """The number of one prompt, the median of a batch."""
        known = self.value[~self.value.isnan()]
        return f"{float(known.median()):.4g}" if known.numel() else "unknown"

    def chosen(self) -> list[tuple[str, float]]:
        """What is chosen and in which share of the prompts that it applies to, the most frequent first."""
        if self.choice is None:
            return []
        numbers = self.choice[self.applies].tolist()
        return [(self.choices[i], n / len(numbers)) for i, n in Counter(numbers).most_common()]

    def _chosen(self) -> str:
        found = self.chosen()
        if not found:
            return ""
        if self.value.numel() == 1:
            return f": {found[0][0]}"
        return ": " + ", ".join(f"{share:.0%} {name}" for name, share in found)

    def _one(self, value: str) -> str:
        telling, agreeing = int(self.telling), int(self.agreeing)
        if telling < self.least:
            return f"not enough examples: {telling} can tell, {self.least} are needed"
        agree = f"{agreeing} of {count(telling, 'example')}"
        if not bool(self.claim):
            return f"no ({agree}); {self.measure}: {value}"
        sure = f"{agree}, the next one by {float(self.confidence):.0%}"
        return f"yes ({sure}): {self.says}; {self.measure}: {value}"

    def to_json(self) -> dict[str, Any]:
        """Plain values; a claim, its counts and its confidence only where it is more than a measurement."""
        told: dict[str, Any] = {"name": self.name, "measure": self.measure, "needs": self.needs}
        told |= {"applies": self.applies.tolist(), "value": self.value.tolist()}
        if self.claims:
            told |= {"says": self.says, "claim": self.claim.tolist(), "telling": self.telling.tolist()}
            told |= {"agreeing": self.agreeing.tolist(), "deviation": self.deviation.tolist()}
            told |= {"confidence": self.confidence.tolist()}
        if self.choice is not None:
            told |= {"choices": list(self.choices), "choice": self.choice.tolist()}
        return told


@dataclass(frozen=True, eq=False)
class Facts:
    """All facts of a batch of prompts, in a fixed order; ``facts["mean kept"]`` is one."""

    facts: tuple[Fact, ...]
    prompt: Prompt
    """What they are about; of a batch the first, as an example."""

    def __iter__(self) -> Iterator[Fact]:
        return iter(self.facts)

    def __len__(self) -> int:
        return len(self.facts)

    def __getitem__(self, name: str) -> Fact:
        for fact in self.facts:
            if fact.name == name:
                return fact
        raise ChopError(f"there is no fact {name!r}; known are {', '.join(self.names)}")

    @property
    def names(self) -> tuple[str, ...]:
        """What they are called."""
        return tuple(fact.name for fact in self.facts)

    @property
    def prompts(self) -> int:
        """How many prompts they are about."""
        return self.facts[0].value.numel()

    def text(self) -> str:
        """A line for each fact: of one prompt, or summed up over a batch."""
        width = max(len(fact.name) for fact in self.facts)
        return "\n".join(f"{fact.name:{width}}  {fact.text()}" for fact in self.facts)

    def to_json(self) -> list[dict[str, Any]]:
        """Plain values of every fact, nested as the batch is."""
        return [fact.to_json() for fact in self.facts]

    def plot(self, path: str | Path | None = None) -> Any:
        """The examples, the claims with their evidence, the numbers, with a model its home: a figure.

        Of a batch the first prompt is drawn and the shares of all are told. Given a path it is also saved, as
        .png, .pdf or .svg.
        """
        from chop.pictures.facts import facts_figure
        from chop.pictures.saving import FIGURE_FORMS, save_as

        figure = facts_figure(self)
        if path is not None:
            save_as(Path(path), FIGURE_FORMS, figure)
        return figure

    def save(self, path: str | Path) -> Path:
        """A file of the kind that its suffix says.

        .png, .pdf and .svg are the figure of `plot`, .html is a page with it and every fact, .json what
        `to_json` says. A file that exists is replaced.
        """
        from chop.pictures.facts_page import FACTS_FORMS
        from chop.pictures.saving import save_as

        return save_as(Path(path), FACTS_FORMS, self, {})

    def __repr__(self) -> str:
        shown = [fact.name for fact in self.facts if fact.claims and bool(fact.claim.all())]
        about = {
            "prompts": str(self.prompts),
            "facts": str(len(self)),
            "shown": ", ".join(shown) or "nothing",
        }
        return representation("Facts", about)


def joined(parts: Sequence[Facts]) -> Facts:
    """Facts of several batches of the same kind, each with one batch axis, as those of one."""

    def one(facts: tuple[Fact, ...]) -> Fact:
        names: tuple[str, ...] = ("value", "applies", "telling", "agreeing", "deviation")
        if facts[0].choice is not None:
            names = (*names, "choice")
        whole: dict[str, Any] = {name: torch.cat([getattr(fact, name) for fact in facts]) for name in names}
        return replace(facts[0], **whole)

    together = zip(*(part.facts for part in parts), strict=True)
    return Facts(tuple(one(facts) for facts in together), parts[0].prompt)
