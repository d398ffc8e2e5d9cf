"""The scheduler: everything once, model calls in rounds, whatever the order."""

import itertools
from dataclasses import dataclass

import pytest
import torch

from chop import ProgramError
from chop.core.tasks import Call, HeldOutPrompts, Request, RunRecord, schedule
from chop.testing import make_prompt

PROMPTS = [make_prompt(i, points=4) for i in range(6)]


def number(prompt):
    return float(PROMPTS.index(prompt))


class Counting:
    """Answers each prompt with its number and remembers the rounds."""

    def __init__(self):
        self.rounds = []

    def __call__(self, prompts):
        self.rounds.append([PROMPTS.index(prompt) for prompt in prompts])
        return [torch.tensor(number(prompt)) for prompt in prompts]


DONE = []


@dataclass(frozen=True)
class Sum(Request):
    """The sum of what its needs give, wave after wave."""

    name: str
    waves: tuple[tuple[Request, ...], ...]

    def steps(self):
        DONE.append(self.name)
        total = 0.0
        for wave in self.waves:
            results = yield list(wave)
            assert len(results) == len(wave)
            total += sum(float(result) for result in results)
        return total


@dataclass(frozen=True)
class Ring(Request):
    """Request i of n needs task i + 1."""

    i: int
    n: int

    def steps(self):
        yield [Ring((self.i + 1) % self.n, self.n)]


@dataclass(frozen=True)
class Fails(Request):
    after: tuple[Request, ...]

    def steps(self):
        yield list(self.after)
        raise ZeroDivisionError("own fault")


@pytest.fixture(autouse=True)
def _fresh():
    DONE.clear()


def calls(*numbers):
    return tuple(Call(PROMPTS[i]) for i in numbers)


def test_a_call_is_one_round():
    answer = Counting()
    record = schedule(calls(2), answer)
    assert float(record.results[Call(PROMPTS[2])]) == 2
    assert answer.rounds == [[2]]
    assert isinstance(record, RunRecord)
    assert record.rounds == [list(calls(2))]


def test_what_two_need_is_done_once():
    shared = Sum("shared", (calls(1),))
    left, right = Sum("left", ((shared,),)), Sum("right", ((shared, *calls(2)),))
    answer = Counting()
    record = schedule([left, right, shared], answer)
    assert DONE.count("shared") == 1
    assert [sorted(asked) for asked in answer.rounds] == [[1, 2]]
    assert (record.results[left], record.results[right]) == (1, 3)
    assert record.needs[left] == [shared]
    assert record.needs[right] == [shared, *calls(2)]


def test_equal_tasks_are_one_task():
    one, two = Sum("same", (calls(1, 3),)), Sum("same", (calls(1, 3),))
    assert one is not two
    schedule([one, two], Counting())
    assert DONE == ["same"]


def test_the_same_need_twice_in_one_wave():
    task = Sum("twice", (calls(3, 3), calls(3)))
    answer = Counting()
    assert schedule([task], answer).results[task] == 9
    assert answer.rounds == [[3]]


def test_independent_calls_share_a_round_and_dependent_ones_wait():
    deep = Sum("deep", (calls(0), calls(1), calls(2)))
    flat = Sum("flat", (calls(3, 4),))
    top = Sum("top", ((deep, flat), calls(5)))
    answer = Counting()
    record = schedule([top], answer)
    assert [sorted(asked) for asked in answer.rounds] == [[0, 3, 4], [1], [2], [5]]
    assert record.results[top] == 15


def test_a_wave_that_needs_nothing_goes_on():
    task = Sum("patient", ((), (), calls(1), ()))
    assert schedule([task], Counting()).results[task] == 1


def test_a_need_that_is_already_done():
    early = Sum("early", (calls(1),))
    late = Sum("late", (calls(2), (early,), (early, *calls(2))))
    answer = Counting()
    assert schedule([early, late], answer).results[late] == 2 + 1 + 3
    assert len(answer.rounds) == 1


def test_the_order_of_goals_does_not_matter():
    shared = Sum("shared", (calls(1), calls(2)))
    goals = [
        Sum("a", ((shared,), calls(3))),
        Sum("b", (calls(1), (shared, *calls(4)))),
        Sum("c", (calls(2), calls(5))),
        shared,
    ]
    found = set()
    for order in itertools.permutations(goals):
        answer = Counting()
        record = schedule(order, answer)
        rounds = tuple(tuple(sorted(asked)) for asked in answer.rounds)
        found.add((tuple(record.results[goal] for goal in goals), rounds))
    # Prompt 2 is asked early for c's sake, so that `shared` need not wait for a round of its own.
    assert found == {((6.0, 8.0, 7.0, 3.0), ((1, 2), (3, 4, 5)))}


def test_nothing_to_do():
    answer = Counting()
    assert schedule([], answer).results == {}
    assert answer.rounds == []


@pytest.mark.parametrize("n", [1, 2, 5])
def test_tasks_that_wait_for_each_other(n):
    with pytest.raises(ProgramError, match=rf"{n} parts of the program wait for each other"):
        schedule([Ring(0, n)], Counting())


def test_a_deadlock_beside_work_that_can_be_done():
    answer = Counting()
    with pytest.raises(ProgramError, match=r"2 parts"):
        schedule([Ring(0, 2), Sum("fine", (calls(1),))], answer)
    assert answer.rounds == [[1]]


@pytest.mark.parametrize("after", [(), calls(1)])
def test_exceptions_come_out_as_they_are(after):
    with pytest.raises(ZeroDivisionError, match="own fault"):
        schedule([Sum("outer", ((Fails(after),),))], Counting())


def test_exceptions_of_the_model_come_out_as_they_are():
    def broken(prompts):
        raise OSError("no model")

    with pytest.raises(OSError, match="no model"):
        schedule(calls(1), broken)


def test_too_few_answers_are_noticed():
    with pytest.raises(ValueError, match="shorter"):
        schedule(calls(1, 2), lambda prompts: [torch.zeros(1)])


def test_deep_chains_do_not_exhaust_the_stack():
    task = Sum("0", (calls(1),))
    for i in range(300):
        task = Sum(str(i + 1), ((task,),))
    assert schedule([task], Counting()).results[task] == 1


def test_held_out_prompts_are_one_object():
    prompt = PROMPTS[0]
    record = schedule(
        [HeldOutPrompts(prompt, True, 0), HeldOutPrompts(prompt, True, 0), HeldOutPrompts(prompt, False, 0)],
        Counting(),
    )
    assert len(record.results) == 2
    assert record.results[HeldOutPrompts(prompt, True, 0)].origin.parent is prompt


def test_a_call_has_no_steps_of_its_own():
    with pytest.raises(AssertionError):
        Call(PROMPTS[0]).steps()
