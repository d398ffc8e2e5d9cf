"""Operators of third parties work like those that are built in."""

from dataclasses import dataclass
from typing import ClassVar

import pytest
import torch
from sample_models import plain_arithmetic

from chop import ProgramError
from chop.core.parameters import flag, number, subprogram, subprogram_list
from chop.core.program import Frame, Leaf, Outcome, Program, Transform
from chop.core.tasks import Answer
from chop.core.text import parse
from chop.operators import (
    Average,
    Correct,
    Debias,
    Flip,
    Icon,
    Increment,
    LastFrame,
    MeanOutput,
    Normalize,
    Rescale,
    Select,
)
from chop.testing import OperatorConformance, make_prompt, toy_model

icon = Icon()


@dataclass(frozen=True)
class Logarithm(Transform):
    """Logarithms of values, shifted to be positive where asked."""

    name: ClassVar[str] = "logarithm"
    law: ClassVar[str] = "The way back undoes the way there."
    floor: float = number(20.0, 10.0, 100.0, "added before the logarithm")

    def fit(self, prompt):
        def there(part):
            return part.with_values((part.values + self.floor).log())

        def back(values):
            return values.exp() - self.floor

        mapped = prompt.mapped(
            inputs=there(prompt.inputs), outputs=there(prompt.outputs), query=there(prompt.query)
        )
        return Frame(mapped, back, back, {"floor": torch.full(prompt.batch, self.floor)})


@dataclass(frozen=True)
class Twice(Program):
    """Asks its base, then asks it again about its own answer."""

    name: ClassVar[str] = "twice"
    kind: ClassVar[str] = "mixture"
    law: ClassVar[str] = "Two rounds."
    base: Program = subprogram("what is asked")
    again: bool = flag(True, "whether to ask again")

    def plan(self, prompt):
        (outcome,) = yield [Answer(self.base, prompt)]
        if not self.again:
            return Outcome(outcome.values)
        if prompt.query.values.shape != outcome.values.shape:
            raise ProgramError("twice feeds answers back and needs one shape")
        following = prompt.mapped(query=prompt.query.with_values(outcome.values))
        (outcome,) = yield [Answer(self.base, following)]
        return Outcome(outcome.values, notes={"asked": "twice"})

    def count(self, where, calls):
        self.base.count(where, calls)
        if self.again:
            self.base.count((*where, FedBack()), calls)


@dataclass(frozen=True)
class FedBack:
    """The step from a prompt to the one with the answer as its query."""

    def examples_after(self, examples):
        return examples

    def prompts_after(self, examples):
        return 1


@dataclass(frozen=True)
class Median(Program):
    """The median of several programs."""

    name: ClassVar[str] = "median"
    kind: ClassVar[str] = "mixture"
    law: ClassVar[str] = "Between the smallest and the largest."
    members: tuple[Program, ...] = subprogram_list("what is asked", at_least=3)

    def plan(self, prompt):
        outcomes = yield [Answer(member, prompt) for member in self.members]
        return Outcome(torch.stack([outcome.values for outcome in outcomes]).median(dim=0).values)

    def count(self, where, calls):
        for member in self.members:
            member.count(where, calls)


class TestThirdParties(OperatorConformance):
    operators = (
        Logarithm(),
        Logarithm(floor=30),
        Twice(Icon()),
        Twice(Rescale() | Icon(), again=False),
        Twice(Debias(Icon())),
        Median((Icon(), MeanOutput(), Flip() | Icon())),
    )


def test_a_third_partys_program_takes_part():
    prompt = make_prompt(1, batch=(2,))
    made = Select((Correct(Logarithm() | Twice(icon)), Average((icon, LastFrame()))))
    result = made.run(toy_model, prompt, validate=True)
    assert str(made) == "select(correct(logarithm | twice(icon)), average(icon, last_frame))"
    assert result.calls == made.calls(5) == 12 + 6
    assert result.rounds == 2
    assert "twice" in result.trace.explain()
    one = parse("icon").run(toy_model, prompt).values
    two = icon.run(toy_model, prompt.mapped(query=prompt.query.with_values(one))).values
    assert torch.equal(Twice(icon).run(toy_model, prompt).values, two)


def test_an_abstract_operator_cannot_be_made():
    with pytest.raises(TypeError):
        Program()
    with pytest.raises(TypeError):
        Transform()


def test_transforms_of_the_library_are_not_touched_by_a_run():
    made = Increment() | Normalize() | icon
    before = hash(made), str(made)
    made.run(plain_arithmetic, make_prompt(1))
    assert (hash(made), str(made)) == before


def test_an_undeclared_field_is_named():
    @dataclass(frozen=True)
    class Loose(Leaf):
        """A field that nobody can print or check."""

        name: ClassVar[str] = "loose"
        number: int = 3

        def answer(self, prompt):
            return prompt.query.values, {}

    with pytest.raises(ProgramError, match=r"Loose: number is not declared; .*chop\.core\.parameters"):
        Loose()
