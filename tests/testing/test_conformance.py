"""The suites notice what breaks the contract: each check fails on something that only it can see."""

from dataclasses import dataclass
from typing import ClassVar

import pytest
import torch

from chop import ChopError
from chop.core.program import Frame, Projection, Transform
from chop.testing import ModelConformance, OperatorConformance, make_prompt, toy_model


@dataclass(frozen=True)
class Clip(Projection):
    """A projection that keeps the contract; the ones below each break it in one place."""

    name: ClassVar[str] = "clip"
    law: ClassVar[str] = "Nothing is above one."

    def project(self, prompt, values):
        return values.clamp(max=1.0), {}


class Lawless(Clip):
    """States no law."""

    law: ClassVar[str] = ""


class Halving(Clip):
    """Changes its own answer again."""

    def project(self, prompt, values):
        return values / 2, {}


class Widening(Clip):
    """Answers in another precision."""

    def project(self, prompt, values):
        return values.double(), {}


class Mixing(Clip):
    """Lets the questions of a batch see each other."""

    def project(self, prompt, values):
        return values - values.mean(), {}


class Writing(Clip):
    """Writes into its prompt."""

    def project(self, prompt, values):
        prompt.query.values.zero_()
        return values, {}


class Metric(Clip):
    """Claims that units decide nothing, and clips at an absolute number."""

    unit_free: ClassVar[bool] = True


@dataclass(frozen=True)
class Lossy(Transform):
    """Does not find the way back."""

    name: ClassVar[str] = "lossy"
    law: ClassVar[str] = "The way back undoes the way there."

    def fit(self, prompt):
        return Frame(prompt, lambda values: values + 1, lambda values: values + 1, {})


@pytest.mark.parametrize(
    ("operator", "check"),
    [
        (Lawless(), "test_declared"),
        (Halving(), "test_projection_is_idempotent"),
        (Widening(), "test_dtype_and_device_kept"),
        (Mixing(), "test_batch_equals_loop"),
        (Writing(), "test_prompt_unchanged"),
        (Metric(), "test_units_decide_nothing"),
        (Lossy(), "test_inverse"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_a_broken_operator_is_noticed(operator, check):
    suite = OperatorConformance()
    suite.operators = [Clip()]
    getattr(suite, check)()
    suite.operators = [operator]
    with pytest.raises((AssertionError, ChopError)):
        getattr(suite, check)()


def test_an_empty_suite_does_not_pass():
    with pytest.raises(AssertionError):
        OperatorConformance().test_has_operators()


def forgetful(prompt):
    """Answers at other points than it was asked."""
    return toy_model(prompt)[..., 1:, :]


def restless():
    """Answers the same question differently."""
    count = iter(range(10**6))
    return lambda prompt: toy_model(prompt) + next(count)


def mixing(prompt):
    """Lets the questions of a batch see each other."""
    values = toy_model(prompt)
    return values - values.mean()


@pytest.mark.parametrize(
    ("model", "check"),
    [
        (forgetful, "test_answers_where_asked"),
        (restless(), "test_deterministic"),
        (mixing, "test_batch_equals_loop"),
    ],
    ids=["forgetful", "restless", "mixing"],
)
def test_a_broken_model_is_noticed(model, check):
    suite = ModelConformance()
    suite.make_model = lambda: toy_model
    getattr(suite, check)()
    suite.make_model = lambda: model
    with pytest.raises((AssertionError, ChopError)):
        getattr(suite, check)()


def test_prompts_are_functions_of_their_number():
    one, again, other = make_prompt(1), make_prompt(1), make_prompt(2)
    assert all(torch.equal(a, b) for a, b in zip(one.tensors(), again.tensors(), strict=True))
    assert not torch.equal(one.query.values, other.query.values)
