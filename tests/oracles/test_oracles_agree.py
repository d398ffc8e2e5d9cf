"""The interpreter against the straight-line chains, and against values worked out by hand."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from .chains import candidate_combination, chop_air, chop_conservation, chop_corr, chop_mfc
from .combination import stabilized_weights
from .grids import resample
from .interpreter import answer, held_answers
from .leaves import LEAVES
from .projections import project
from .prompt import held_out
from .samples import (
    constant_model,
    masked,
    on_one_grid,
    order_sensitive_model,
    scattered,
    single_points,
    stations,
    travelling,
)
from .scales import conservation_scale, mfc_scale
from .simplex import minimize_on_simplex, project_to_simplex
from .transforms import fit
from .validators import choose, correction, graph_average, validation_error

ICON = ("icon",)
CONSERVATION = (
    "project",
    ("wrap", ("moving_frame", {}), ("wrap", ("rescale", {"center": "mean"}), ICON)),
    ("conserve_mean", {}),
)
MFC = ("select", [("correct", ("wrap", ("rescale", {}), ICON), {}), ICON], {})
CORR = ("correct", ICON, {})
AIR = (
    "combine",
    [
        ICON,
        ("last_frame",),
        ("first_frame",),
        ("mean_output",),
        ("nearest_output",),
        ("debias", ICON, {}),
        ("debias", ICON, {"smooth": "graph"}),
    ],
    {"channels": (-2, -1)},
)


def agree(a, b, tolerance=1e-12):
    np.testing.assert_allclose(a, b, rtol=0, atol=tolerance)


# The chains.


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("c", [1, 2])
def test_conservation(seed, c):
    question = travelling(seed, c=c, speed=seed - 2)
    agree(
        answer(CONSERVATION, question, order_sensitive_model),
        chop_conservation(question, order_sensitive_model),
    )


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("noise", [0.3, 2.0])
@pytest.mark.parametrize("nonnegative", [True, False])
def test_mfc_and_corr(seed, noise, nonnegative):
    question = scattered(seed, nonnegative=nonnegative, noise=noise)
    agree(answer(MFC, question, order_sensitive_model), chop_mfc(question, order_sensitive_model))
    agree(answer(CORR, question, order_sensitive_model), chop_corr(question, order_sensitive_model))


def test_the_random_questions_reach_both_sides_of_both_decisions():
    gates, branches = set(), set()
    for seed, noise in product(range(4), [0.3, 2.0]):
        question = scattered(seed, noise=noise)
        base = held_answers(("wrap", ("rescale", {}), ICON), question, order_sensitive_model, pad=True)
        raw = held_answers(ICON, question, order_sensitive_model, pad=True)
        fitted = correction(question, base)
        gates.add(fitted.gate_open)
        branches.add(choose([fitted.e_fit, validation_error(question, raw)]))
    assert gates == {True, False}
    assert branches == {0, 1}


@pytest.mark.parametrize("seed", range(5))
def test_air(seed):
    question = stations(seed)
    agree(answer(AIR, question, order_sensitive_model), chop_air(question, order_sensitive_model))


def test_air_without_finite_answers():
    def broken(question):
        values = order_sensitive_model(question)
        values[0, -1] = np.nan
        values[1, 0] = np.inf
        return values

    question = stations(11)
    found = answer(AIR, question, broken)
    with np.errstate(all="ignore"):
        agree(found, chop_air(question, broken))
    assert np.isfinite(found).all()
    assert found[0, -1] == 0.0
    assert found[1, 0] == 0.0


# Prompts, grids and scales.


def kept(question):
    return [int(x[0, 0]) for x in question.xs], question.times


def test_held_out_order_padding_and_gap():
    question = single_points([0, 1, 2, 3], [10, 11, 12, 13], 4)
    padded = held_out(question, pad=True)
    assert kept(padded[0]) == ([1, 2, 3, 1], [1, 2, 3, 1, 0])
    assert kept(padded[2]) == ([0, 1, 3, 0], [0, 1, 3, 0, 2])
    assert kept(held_out(question, pad=False)[3]) == ([0, 1, 2], [0, 1, 2, 3])
    assert kept(held_out(question, pad=True, gap=1)[0]) == ([2, 3, 2, 3], [2, 3, 2, 3, 0])
    assert kept(held_out(question, pad=False, gap=1)[0]) == ([2, 3, 2], [2, 3, 2, 0])
    assert kept(held_out(question, pad=True, gap=1)[3]) == ([0, 1, 2, 0], [0, 1, 2, 0, 3])
    assert padded[2].query[0, 0] == 2
    with pytest.raises(ValueError, match="no pair remains"):
        held_out(single_points([0, 1], [0, 1], 2), pad=True, gap=1)


def test_resample_takes_the_first_on_ties_and_is_the_identity_on_one_grid():
    source = np.array([[0.0], [1.0], [1.0]])
    values = np.array([[10.0], [20.0], [30.0]])
    target = np.array([[0.5], [1.0], [0.6]])
    assert resample(source, target, values).ravel().tolist() == [10.0, 20.0, 20.0]
    assert resample(source, source.copy(), values).ravel().tolist() == [10.0, 20.0, 30.0]


def test_scales():
    assert mfc_scale(single_points([3], [4], 0)) == (0.0, pytest.approx(np.sqrt(25 / 3)))
    assert mfc_scale(single_points([-1], [1], 3)) == (1.0, 2.0)
    assert conservation_scale(single_points([1], [3], 5)) == (3.0, 2.0)
    assert mfc_scale(single_points([0], [0], 0))[1] == np.sqrt(np.finfo(float).eps)
    assert conservation_scale(single_points([2], [2], 2)) == (2.0, 2 * np.finfo(float).eps)


def test_validation_error_counts_observed_entries_only():
    masks = [np.array([[True, False]]), np.array([[True, True]]), np.array([[False, False]])]
    ys = [np.array([[1.0, 9.0]]), np.array([[1.0, 3.0]]), np.array([[7.0, 7.0]])]
    question = on_one_grid(ys, ys, ys[0], np.zeros((1, 1)), masks)
    zeros = [np.zeros((1, 2))] * 3
    assert validation_error(question, zeros) == (1 + (1 + 9) / 2) / 2
    assert np.isnan(validation_error(replace(question, y_masks=[masks[2]] * 3), zeros))


# Validators.


def test_simplex():
    agree(project_to_simplex(np.array([0.5, 0.9])), [0.3, 0.7])
    agree(project_to_simplex(np.array([2.0, 0.0])), [1.0, 0.0])
    agree(project_to_simplex(np.array([-1.0, -1.0, -1.0])), np.ones(3) / 3)
    agree(minimize_on_simplex(np.diag([1.0, 4.0])), [0.8, 0.2], 1e-8)
    agree(minimize_on_simplex(np.zeros((3, 3))), np.ones(3) / 3)


def test_gate_opens_when_residuals_agree():
    question = single_points([0, 1], [1, 1], 0.5)
    agree(answer(CORR, question, constant_model(0)), [[1.0]])
    fitted = correction(question, [np.zeros((1, 1))] * 2)
    assert (fitted.alpha_hat, fitted.e_base, fitted.e_fit, fitted.gate_open) == (1.0, 1.0, 0.0, True)


def test_gate_stays_closed_when_residuals_disagree_or_are_not_finite():
    question = single_points([0, 1], [1, -3], 0.5)
    agree(answer(CORR, question, constant_model(0)), [[0.0]])

    def broken_on_examples(asked):
        return constant_model(5 if asked.query[0, 0] == 0.5 else np.nan)(asked)

    agree(answer(CORR, question, broken_on_examples), [[5.0]])
    fixed = ("correct", ICON, {"magnitude": 0.5, "gate": False})
    agree(answer(fixed, question, constant_model(0)), [[-0.5]])
    agree(np.ravel(held_answers(fixed, question, constant_model(0), pad=True)), [-1.5, 0.5])


def test_similarity_weights():
    question = single_points([0, 1], [1, 3], 0)
    w = np.exp(-2.0)
    options = {"magnitude": 1.0, "gate": False}
    agree(answer(("correct", ICON, options), question, constant_model(0)), [[(1 + 3 * w) / (1 + w)]])
    options["weights"] = "uniform"
    agree(answer(("correct", ICON, options), question, constant_model(0)), [[2.0]])


def test_correction_with_masks():
    question = single_points([0, 1, 2], [2, 4, 99], 1, masks=[True, True, False])
    uniform = {"weights": "uniform", "gate": False}
    # Delta_1 = 4, Delta_2 = 2, Delta_3 = 3; alpha = (8 + 8) / (16 + 4); Delta_* = 3.
    agree(answer(("correct", ICON, uniform), question, constant_model(0)), [[0.8 * 3]])
    held = held_answers(("correct", ICON, uniform), question, constant_model(0), pad=True)
    agree(np.ravel(held), [3.2, 1.6, 2.4])


def test_debias_and_its_held_out_answers():
    question = single_points([0, 1, 2], [1, 2, 6], 3)
    program = ("debias", ICON, {})
    agree(answer(program, question, constant_model(0)), [[3.0]])
    agree(np.ravel(held_answers(program, question, constant_model(0), pad=True)), [4.0, 3.5, 1.5])
    hidden = replace(question, y_masks=[np.array([[m]]) for m in (True, True, False)])
    agree(answer(program, hidden, constant_model(0)), [[1.5]])
    agree(answer(program, question, constant_model(np.nan)), [[np.nan]])


def test_graph_average_skips_unknown_neighbours():
    z = np.array([[1.0], [2.0], [4.0], [8.0]])
    edges = [(0, 1), (2, 0), (1, 0)]
    agree(graph_average(edges, z, np.ones((4, 1), dtype=bool)), [[3.0], [1.0], [1.0], [8.0]])
    agree(graph_average(edges, z, np.array([[False], [True], [False], [True]])), [[2.0], [2.0], [4.0], [8.0]])


def test_choose():
    assert choose([1.0, 2.0]) == 0
    assert choose([2.0, 2.0]) == 1
    assert choose([1.0, 0.5, 0.5, 2.0]) == 1
    assert choose([np.nan, 2.0]) == 1
    assert choose([7.0, np.nan]) == 0
    assert choose([np.inf, np.inf]) == 1


def test_combination_by_hand():
    # M_1 = diag(0, 1) and M_2 = diag(1, 0): the refits swing from one end to the other, lambda = 1/2.
    zero, one = np.array([0.0]), np.array([1.0])
    found = candidate_combination([zero, zero], [[zero, one], [one, zero]], [zero, one])
    agree(found, [0.25], 1e-8)
    a = stabilized_weights([np.diag([0.0, 1.0]), np.diag([1.0, 0.0])], K=2, shrink=True)
    agree(a.query, [0.75, 0.25], 1e-8)
    agree(a.examples, [[0.5, 0.5], [1.0, 0.0]], 1e-8)
    unshrunk = stabilized_weights([np.diag([0.0, 1.0]), np.diag([1.0, 0.0])], K=2, shrink=False)
    agree(unshrunk.query, [0.5, 0.5], 1e-8)


def test_combination_without_observations_is_the_reference():
    question = replace(stations(3), y_masks=[np.zeros((6, 4), dtype=bool)] * 5)
    agree(answer(AIR, question, order_sensitive_model), order_sensitive_model(question))


# Leaves and projections.


def test_frames_are_found_by_time():
    question = stations(0)
    agree(LEAVES["last_frame"](question), question.query[-6:])
    agree(LEAVES["first_frame"](question), question.query[:6])
    shuffled = np.random.default_rng(1).permutation(24)
    mixed = replace(question, query=question.query[shuffled], query_coords=question.query_coords[shuffled])
    agree(LEAVES["last_frame"](mixed), question.query[-6:])


def test_mean_and_nearest_output():
    question = single_points([0, 5, 9], [1, 2, 6], 5, masks=[True, False, True])
    agree(LEAVES["mean_output"](question), [[3.5]])
    agree(LEAVES["nearest_output"](question), [[2.0]])
    agree(LEAVES["nearest_output"](single_points([4, 6], [1, 2], 5)), [[1.0]])
    nothing = replace(question, y_masks=[np.array([[False]])] * 3)
    agree(LEAVES["mean_output"](nothing), [[3.0]])


def test_projections():
    values = np.array([[1.0, -2.0], [3.0, np.nan]])
    at = np.array([[0.0, 0.0], [1.0, 0.0]])
    ys = [np.array([[2.0, 0.0], [2.5, 0.0]])]
    question = on_one_grid(ys, ys, ys[0], at, [np.array([[True, False], [True, False]])])
    agree(project(("nonnegative", {}), values, question), [[1, 0], [3, np.nan]])
    agree(project(("finite", {}), values, question), [[1, -2], [3, 0]])
    agree(project(("within_examples", {}), values, question), [[2, -2], [2.5, np.nan]])
    agree(project(("unit_mass", {}), values[:, :1], question), [[1.0], [1.0]])
    timeless = replace(question, axes=[("a", None), ("b", None)])
    agree(project(("unit_mass", {}), values[:, :1], timeless), [[0.5], [1.5]])
    agree(
        project(("conserve_mean", {}), values[:, :1], replace(question, query=ys[0][:, :1])), [[1.25], [3.25]]
    )


def test_bound_variation():
    x = np.array([[0.0], [0.25], [0.5], [0.75]])
    query = np.array([[0.0], [1.0], [0.0], [1.0]])  # varies by 4 around the circle, by 3 along a line
    question = on_one_grid([query], [query], query, x, [np.full((4, 1), True)])
    rough = np.array([[0.0], [4.0], [0.0], [4.0]])
    agree(project(("bound_variation", {}), rough, question), [[1.5], [2.5], [1.5], [2.5]])
    agree(project(("bound_variation", {}), 0.9 * query, question), 0.9 * query)
    line = replace(question, axes=[("x", None)])
    step = np.array([[0.0], [0.0], [6.0], [6.0]])
    agree(project(("bound_variation", {}), step, line), [[1.5], [1.5], [4.5], [4.5]])
    agree(project(("bound_variation", {}), step, question), [[2], [2], [4], [4]])


# Transforms, and validators inside them.


@pytest.mark.parametrize(
    "transform",
    [
        ("rescale", {"target": 0.5}),
        ("rescale", {"center": "mean", "target": 2.0}),
        ("normalize", {}),
        ("normalize", {"separate": True}),
        ("minmax", {}),
        ("flip", {}),
        ("increment", {}),
        ("moving_frame", {}),
    ],
)
def test_transforms_come_back(transform):
    question = masked(travelling(4, c=2), 4)
    fitted = fit(transform, question)
    for h in range(question.D):
        agree(fitted.back_held(h, fitted.question.ys[h]), question.ys[h])
    alone = held_answers(("wrap", transform, ICON), question, order_sensitive_model, pad=True)
    for h, hidden in enumerate(held_out(question, pad=True)):
        agree(alone[h], answer(("wrap", transform, ICON), hidden, order_sensitive_model))


def test_held_out_answers_return_from_the_moving_frame():
    question = travelling(5, noise=0.0)
    steady = ("wrap", ("moving_frame", {}), ("select", [ICON, ("copy_query",)], {}))
    held = held_answers(steady, question, constant_model(0), pad=True)
    for h in range(question.D):
        agree(held[h], question.ys[h])
    agree(answer(steady, question, constant_model(0)), np.roll(question.query, 2, axis=0))


def test_held_out_answers_return_from_increments_and_projections():
    question = single_points([0, 1, 5], [2, 3, 7], -1)
    growing = ("wrap", ("increment", {}), ("debias", ICON, {}))
    agree(np.ravel(held_answers(growing, question, constant_model(0), pad=True)), [2.0, 3.0, 7.0])
    agree(answer(growing, question, constant_model(0)), [[1.0]])
    kept_mean = ("project", growing, ("conserve_mean", {}))
    agree(np.ravel(held_answers(kept_mean, question, constant_model(0), pad=True)), [0.0, 1.0, 5.0])
    clipped = ("project", growing, ("within_examples", {}))
    agree(np.ravel(held_answers(clipped, question, constant_model(0), pad=True)), [3.0, 3.0, 3.0])


def test_average_of_validators_runs_on_held_out_prompts():
    question = scattered(2)
    program = ("average", [CORR, ("mean_output",)], {})
    held = held_answers(program, question, order_sensitive_model, pad=False)
    for h, hidden in enumerate(held_out(question, pad=False)):
        expected = (chop_corr(hidden, order_sensitive_model) + LEAVES["mean_output"](hidden)) / 2
        agree(held[h], expected)


@pytest.mark.parametrize(
    "program",
    [
        ("correct", ICON, {"weights": "uniform"}),
        ("debias", ICON, {}),
        ("select", [("debias", ICON, {}), ICON], {}),
        ("combine", [ICON, ("copy_query",), ("debias", ICON, {})], {}),
    ],
)
def test_what_is_filled_in_where_nothing_was_observed_does_not_matter(program):
    # The model ignores the outputs here, and so does everything that is not a validator.
    question = masked(travelling(7, c=2), 7)
    model = constant_model(0.3)
    rng = np.random.default_rng(8)
    pairs = zip(question.ys, question.y_masks, strict=True)
    other = replace(question, ys=[np.where(mask, y, rng.normal(size=y.shape)) for y, mask in pairs])
    agree(answer(program, question, model), answer(program, other, model))
    held = held_answers(program, question, model, pad=True)
    agree(held, held_answers(program, other, model, pad=True))
