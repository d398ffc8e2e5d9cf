"""Programs as trees, typed growth and moves, tuning, order, ratings, guidance."""

import math
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
import torch

import chop
from chop.core.editing import named_operators, nested_programs, replace_at
from chop.core.errors import EvolutionError
from chop.evolution.agents import KINDS, Agent, Brief, initial_agents, mostly, propose_by_moves, revised_agent
from chop.evolution.generation import ProgramGenerator, Strategy, Trial, adapted
from chop.evolution.judging import CachedModel, clearly_worse, question_chunks
from chop.evolution.moves import MOVES, Moves, line_search_step, programs_with_one_less, tunable_numbers
from chop.evolution.population import (
    INITIAL_RATING,
    RATING_STEP,
    Candidate,
    sample_by_rank,
    sample_by_rating,
    survivors,
    updated_ratings,
)
from chop.evolution.space import Space, structure_of
from chop.evolution.task import Limits, Task, relative_error
from chop.evolution.tasks import load_task
from chop.problems.case import Case
from chop.testing import make_prompt, toy_model

TOY = str(Path(__file__).parents[1] / "assets" / "toy_task.py")
REFERENCES = (
    "icon",
    "select(correct(rescale | icon), icon)",
    'rescale(center="mean", target=0.7) | average(icon, flip | icon) | finite',
)


@pytest.fixture(scope="module")
def space():
    return Space.of(load_task(TOY))


def test_a_search_goes_on_with_the_operators_it_began_with():
    """What a task leaves out is left out of new searches, and what came since does not enter an old one."""
    free = replace(load_task(TOY), operators=None)
    task = replace(free, without=("ridge",))
    names = {operator.name for operator in Space.of(free).operators}
    assert "ridge" in names
    assert {operator.name for operator in Space.of(task).operators} == names - {"ridge"}
    begun = {operator.name for operator in Space.of(task, ["icon", "ridge", "correct"]).operators}
    assert begun == {"icon", "ridge", "correct"}
    said = replace(task, operators=("icon", "flip"))
    assert {operator.name for operator in Space.of(said, ["icon", "ridge"]).operators} == {"icon", "flip"}
    with pytest.raises(EvolutionError, match="names operators that do not exist: nobody"):
        replace(task, without=("nobody",))


@pytest.fixture(scope="module")
def wide():
    """Everything that runs on a periodic grid."""
    prompt = make_prompt(1, batch=(3,), points=8, dtype=torch.float32)
    return Space.of(Task("wide", lambda p: p.query.values, Case(prompt, prompt.query.values)))


def candidate(number, text, errors=(1.0,), status="done", calls=1):
    size = chop.parse(text).size
    return Candidate(number, text, status, tuple(errors), (2.0,) * len(errors), calls, size)


def scene(space, seed, known=()):
    references = [candidate(i, text) for i, text in enumerate(REFERENCES)]
    strategy = mostly(**dict.fromkeys(MOVES, 1))
    return Moves(space, strategy, Random(seed), references, [*references, *known])


def test_parts_are_found_and_replaced():
    program = chop.parse(REFERENCES[2])
    names = [node.name for _, node in named_operators(program)]
    assert names == ["rescale", "average", "icon", "flip", "icon", "finite"]
    for path, part in nested_programs(program):
        assert replace_at(program, path, part) == program
    places = [path for path, part in nested_programs(program) if str(part) == "flip | icon"]
    assert "average(icon, ridge)" in str(replace_at(program, places[0], chop.parse("ridge")))


def test_the_space_leaves_out_what_cannot_run():
    stations = make_prompt(3, batch=(3,), dimensions=3, channels=(3, 3), points=6, dtype=torch.float32)
    there = Space.of(
        Task("air", lambda p: p.query.values[..., :6, :], Case(stations, stations.outputs.values[:, 0]))
    )
    names = {operator.name for operator in there.operators}
    assert "moving_frame" not in names, "stations are no periodic grid"
    assert {"icon", "debias", "combine", "nearest_output"} <= names
    assert there.choices["debias", "smooth"] == ("none", "graph")
    grid = make_prompt(3, batch=(3,), dtype=torch.float32)
    here = Space.of(Task("grid", lambda p: p.query.values, Case(grid, grid.query.values)))
    assert "moving_frame" in {operator.name for operator in here.operators}
    assert here.choices["debias", "smooth"] == ("none",), "there is no graph"


def test_every_program_grown_is_text_that_reads_back(wide):
    random = Random(5)
    sizes = set()
    for _ in range(300):
        program = ProgramGenerator(wide, mostly(grow=1), random).program(random.randint(1, 9))
        assert chop.parse(str(program), max_calls=10**9) == program
        sizes.add(program.size)
    assert len(sizes) > 6


@pytest.mark.parametrize("name", MOVES)
def test_every_move_makes_programs(name, wide):
    made = [MOVES[name](scene(wide, seed)) for seed in range(60)]
    found = [one for one in made if one is not None]
    assert len(found) > 20, "a move that hardly ever works is no move"
    for one in found:
        assert chop.parse(str(one.program), max_calls=10**9) == one.program
        assert set(one.parents) <= {0, 1, 2}
    again = [MOVES[name](scene(wide, seed)) for seed in range(60)]
    assert again == made, "the same dice give the same program"


def test_agents_keep_the_limits_and_repeat_nobody(space):
    tight = replace(space, limits=Limits(size=5, depth=4, calls=7))
    references = [candidate(0, "icon")]
    for kind, guidance in KINDS.items():
        taken = frozenset({"icon", "flip | icon"})
        brief = Brief(1, references, references, tight, Random(kind), taken, 6)
        said = propose_by_moves(Agent(1, kind, guidance), brief)
        texts = [proposal.text for proposal in said.programs]
        assert len(texts) == len(set(texts)) == 6
        assert not taken & set(texts)
        for text in texts:
            program = chop.parse(text)
            assert program.size <= 5
            assert program.depth <= 4
            assert program.calls(5) <= 7


def test_shorter_programs_lack_one_operator():
    program = chop.parse("select(correct(rescale | icon), flip | icon, ridge)")
    found = [str(shorter) for shorter in programs_with_one_less(program)]
    assert "select(correct(icon), flip | icon, ridge)" in found
    assert "select(correct(rescale | icon), ridge)" in found
    assert "correct(rescale | icon)" in found
    assert programs_with_one_less(chop.parse("icon")) == []


def test_a_number_is_tuned_to_its_optimum():
    """A line search through the journal finds the top of a smooth curve in a few evaluations."""
    random = Random(0)
    known = []
    text = "rescale | icon"
    for number in range(14):
        target = tunable_numbers(chop.parse(text))[0].read(chop.parse(text))
        error = 1.0 + (math.log(target) - math.log(0.31)) ** 2
        known.append(candidate(number, text, [error]))
        best = min(known, key=lambda c: c.rank)
        program = best.program()
        new = line_search_step(program, tunable_numbers(program)[0], known, 0.4, random)
        if new is None:
            break
        text = str(new)
    best = min(known, key=lambda c: c.rank).program()
    assert tunable_numbers(best)[0].read(best) == pytest.approx(0.31, rel=0.05)


def test_programs_that_differ_in_numbers_only_have_one_shape():
    assert structure_of("rescale | icon") == structure_of("rescale(target=0.3) | icon")
    assert structure_of("rescale | icon") != structure_of('rescale(center="mean") | icon')
    assert structure_of("correct(icon)") != structure_of("correct(icon, magnitude=0.5)")


def test_the_order_is_total_and_explicit():
    good = candidate(1, "rescale | icon", [1.0])
    equal_but_longer = candidate(2, "rescale | (icon | finite)", [1.0])
    equal_but_dearer = candidate(3, "rescale | icon | finite", [1.0], calls=6)
    worse = candidate(4, "flip | icon", [1.5])
    stopped = candidate(5, "ridge", [0.1], status="stopped")
    failed = candidate(6, "mean_output", [], status="failed")
    ranked = sorted([failed, stopped, worse, equal_but_dearer, equal_but_longer, good], key=lambda c: c.rank)
    assert [c.number for c in ranked] == [1, 2, 3, 4, 5, 6]
    assert failed.fitness == 0.0
    assert failed.value == -math.inf


def test_survivors_are_different_things():
    same = [candidate(i, f"rescale(target=0.{i}) | icon", [1.0 + i / 10]) for i in range(1, 7)]
    double = candidate(8, "rescale(target=0.1) | icon | finite", [1.1])
    other = candidate(9, "flip | icon", [9.0])
    kept = survivors([*same, double, other])
    assert [c.number for c in kept] == [1, 2, 3, 9]


def test_better_programs_are_sampled_more_often():
    ranked = [candidate(i, f"rescale(target={i + 1}) | icon", [1.0 + i]) for i in range(20)]
    random = Random(0)
    drawn = [c.number for _ in range(300) for c in sample_by_rank(ranked, 3, random)]
    assert drawn.count(0) > drawn.count(10) > 0
    assert len(drawn) == 900


def test_ratings_are_a_zero_sum_game_in_which_surprises_count():
    ratings = {1: 1500.0, 2: 1500.0, 3: 1700.0}
    after = updated_ratings(ratings, {1: 1, 2: 2, 3: 2})
    assert sum(after.values()) == pytest.approx(sum(ratings.values()))
    assert after[1] > 1500 + RATING_STEP / 2, "it beat somebody far above it"
    assert after[3] < 1700
    assert updated_ratings({1: 1500.0, 2: 1500.0}, {1: 1, 2: 2}) == {1: 1516.0, 2: 1484.0}
    random = Random(1)
    drawn = [n for _ in range(200) for n in sample_by_rating(ratings, 1, random)]
    assert drawn.count(3) > drawn.count(1)


def test_guidance_follows_what_paid():
    before = mostly(insert=1, delete=1)
    trials = [Trial("insert", ("rescale",), True)] * 6 + [Trial("delete", ("flip",), False)] * 6
    after = adapted(before, trials)
    assert after.moves["insert"] > before.moves["insert"]
    assert after.moves["delete"] < before.moves["delete"]
    assert after.operators["rescale"] > 1 > after.operators["flip"]
    assert sum(after.moves.values()) == pytest.approx(1)
    assert min(after.moves.values()) > 0
    for _ in range(50):
        after = adapted(after, trials)
    assert min(after.moves.values()) > 0.01, "no move ever disappears"
    child = revised_agent(Agent(1, "mutator", before, trials=tuple(trials)), 9, None)
    assert child is not None
    assert (child.number, child.parent, child.rating) == (9, 1, INITIAL_RATING)
    assert isinstance(child.guidance, Strategy)


def test_unknown_agents_are_named():
    assert len(initial_agents(["builtin"])) == len(KINDS)
    with pytest.raises(EvolutionError, match="no agent wizard; known are builtin, explorer"):
        initial_agents(["wizard"])


def test_questions_come_in_growing_chunks():
    assert question_chunks(100) == [slice(0, 10), slice(10, 25), slice(25, 50), slice(50, 100)]
    assert question_chunks(3) == [slice(0, 2), slice(2, 3)]
    assert clearly_worse([2.0, 2.1, 2.2], [1.0, 1.0, 1.0, 1.0])
    assert not clearly_worse([2.0, 0.1, 1.0], [1.0, 1.0, 1.0, 1.0]), "too different to tell"
    assert not clearly_worse([1.0, 1.0], [1.0, 1.0])


def test_what_was_asked_once_is_not_asked_again():
    asked = []

    def model(prompt):
        asked.append(tuple(prompt.batch))
        return prompt.query.values * 0.9

    prompt = make_prompt(1, batch=(4,), dtype=torch.float32)
    remembering = CachedModel(model)
    one = chop.parse("select(correct(rescale | icon), icon)").run(remembering, prompt)
    first = len(asked)
    for text in ("correct(rescale | icon)", "rescale | icon", "average(icon, rescale | icon)"):
        chop.parse(text).run(remembering, prompt)
    assert len(asked) == first, "all of it was part of the first program"
    bare = chop.parse("select(correct(rescale | icon), icon)").run(model, prompt)
    torch.testing.assert_close(one.values, bare.values)
    small = CachedModel(model, max_bytes=1)
    assert torch.equal(chop.parse("correct(icon)").run(small, prompt).values,
                       chop.parse("correct(icon)").run(remembering, prompt).values)  # fmt: skip


def test_an_answer_does_not_depend_on_what_was_asked_before():
    """Bit for bit, with a network that shares encodings: the law behind resuming."""
    model = chop.load("conservation")
    case = chop.problems.conservation.sample("sin_cos", 4, split="evolution")
    texts = (
        "correct(icon)",
        "rescale | icon",
        "select(correct(rescale | icon), icon)",
        "flip | correct(icon)",
    )
    warm = CachedModel(model)
    for text in (*texts, *texts):
        chop.parse(text).run(warm, case.prompt)
    for text in texts:
        cold = chop.parse(text).run(CachedModel(model), case.prompt).values
        assert torch.equal(cold, chop.parse(text).run(warm, case.prompt).values)


# What was not observed is not scored.


def test_the_usual_metric_leaves_out_what_was_not_observed():
    cases = holed(rows_seen=(True, True))
    answers = cases.target.clone()
    answers[:, 0] += 1e6  # nobody knows what was there
    assert relative_error(answers, cases).tolist() == [0, 0]


def test_questions_without_any_truth_are_refused():
    cases = holed(rows_seen=(True, False))
    with pytest.raises(EvolutionError, match="nothing was observed of the target of question 1 of the cases"):
        Task("holed", toy_model, cases)


def holed(rows_seen):
    prompt = make_prompt(1, batch=(2,))
    mask = torch.ones(prompt.answer_shape, dtype=torch.bool)
    mask[:, 0] = False
    mask &= torch.tensor(rows_seen)[:, None, None]
    return Case(prompt, toy_model(prompt), mask=mask)
