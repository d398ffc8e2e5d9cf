"""What was made of examples is known as long as they live as they are, and no longer."""

import gc

import pytest
import torch

from chop.core.remembering import REMEMBERED, KnownExamples, ancestors, first_prompt
from chop.testing import make_prompt


@pytest.fixture
def memory():
    return KnownExamples()


def test_the_next_question_about_the_same_examples_knows(memory):
    prompt = make_prompt(1, batch=(2,))
    assert memory.recall(prompt) is None
    memory.keep(prompt, "made")
    assert memory.recall(prompt) == "made"
    assert memory.recall(prompt.mapped(query=prompt.query.with_values(-prompt.query.values))) == "made"
    assert memory.recall(prompt[:]) is None
    assert memory.recall(make_prompt(1, batch=(2,))) is None


@pytest.mark.parametrize("part", ["inputs", "outputs"])
@pytest.mark.parametrize("what", ["values", "coords"])
def test_what_was_written_to_is_not_known(memory, part, what):
    prompt = make_prompt(1)
    prompt = prompt.mapped(**{part: getattr(prompt, part).each(torch.clone)})
    memory.keep(prompt, "made")
    getattr(getattr(prompt, part), what).add_(1.0)
    assert memory.recall(prompt) is None
    memory.keep(prompt, "anew")
    assert memory.recall(prompt) == "anew"
    assert len(memory) == 1


def test_other_outputs_or_another_graph_are_other_examples(memory):
    prompt = make_prompt(1, dimensions=3)
    memory.keep(prompt, "made")
    assert memory.recall(prompt.mapped(outputs=prompt.outputs.each(torch.clone))) is None
    assert memory.recall(prompt.mapped(graph=None)) is None


def test_what_else_it_depends_on_must_not_be_written_to(memory):
    prompt, weights = make_prompt(1), torch.zeros(3)
    memory.keep(prompt, "made", [weights])
    assert memory.recall(prompt, [weights]) == "made"
    assert memory.recall(prompt) is None
    weights.add_(1.0)
    assert memory.recall(prompt, [weights]) is None


@pytest.mark.parametrize("part", ["inputs", "outputs"])
def test_forgotten_with_the_examples(memory, part):
    prompt = make_prompt(1)
    other = getattr(prompt, "outputs" if part == "inputs" else "inputs")
    memory.keep(prompt, "made")
    assert len(memory) == 1
    del prompt
    gc.collect()
    assert len(memory) == 0
    assert other.points  # the other field still lives


def test_what_is_made_in_inference_mode_is_not_remembered(memory):
    with torch.inference_mode():
        memory.keep(make_prompt(1), "made")
    assert len(memory) == 0


def test_only_the_last_few_are_remembered(memory):
    prompts = [make_prompt(seed) for seed in range(REMEMBERED + 2)]
    for number, prompt in enumerate(prompts):
        memory.keep(prompt, number)
    assert [memory.recall(prompt) for prompt in prompts] == [None, None, *range(2, REMEMBERED + 2)]


def test_where_pairs_come_from():
    prompt = make_prompt(1, batch=(2,), examples=4)
    some = prompt.choose(torch.tensor([[3, 1, 0], [2, 1, 0]]))
    held = some.held_out(pad=False)
    assert [root for root, _ in ancestors(held)] == [some, prompt]
    root, kept = first_prompt(held)
    assert root is prompt
    assert kept.tolist() == [[[1, 0], [3, 0], [3, 1]], [[1, 0], [2, 0], [2, 1]]]
    root, kept = first_prompt(prompt)
    assert root is prompt
    assert kept.tolist() == [[0, 1, 2, 3]] * 2
