"""Every operator keeps the general contract, and its own law against small literal oracles."""

import dataclasses
import itertools
import math
from typing import ClassVar

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import chop
from chop import Axis, Field, Graph, Prompt
from chop.errors import ProgramError
from chop.grids import nearest_index, resample, same_grid
from chop.operators import (
    Average,
    BoundVariation,
    Combine,
    ConserveMean,
    CopyQuery,
    Correct,
    Debias,
    Finite,
    FirstFrame,
    Flip,
    Icon,
    Increment,
    LastFrame,
    MeanOutput,
    Minmax,
    MovingFrame,
    NearestExamples,
    NearestOutput,
    Nonnegative,
    Normalize,
    QueryMean,
    Reflect,
    Rescale,
    Ridge,
    Select,
    UnitMass,
    WithinExamples,
)
from chop.operators.frames import _grid_shift, _spectral_shift
from chop.operators.simplex import project_to_simplex, smallest_quadratic
from chop.operators.statistics import first_smallest
from chop.program import Leaf
from chop.testing import OperatorConformance, make_prompt, toy_model
from chop.text import parse

icon = Icon()


def notes(text, prompt, model=toy_model):
    return parse(text).run(model, prompt).trace.root.notes


def fill(prompt, **values):
    """The prompt with other values in some of its fields."""
    return dataclasses.replace(
        prompt, **{name: getattr(prompt, name).with_values(new) for name, new in values.items()}
    )


# The general contract.


class TestLeaves(OperatorConformance):
    operators = (
        Icon(),
        LastFrame(),
        FirstFrame(),
        MeanOutput(),
        NearestOutput(),
        CopyQuery(),
        QueryMean(),
        Ridge(),
        Ridge(strength=1.0),
        Ridge(strength=1e-6),
    )


class TestAffineTransforms(OperatorConformance):
    operators = (
        Rescale(),
        Rescale(target=0.3),
        Rescale(center="mean"),
        Rescale(center="mean", target=5.0),
        Normalize(),
        Normalize(separate=True),
        Minmax(),
        Flip(),
    )


class TestGridTransforms(OperatorConformance):
    operators = (MovingFrame(), MovingFrame(shift="spectral"), Reflect(), Increment())

    def prompts(self, dtype=torch.float64):
        """Even and odd grids, consecutive frames, masks, and grids of (t, x) for the mirror."""
        return [
            make_prompt(1, batch=(3,), points=12, dtype=dtype),
            make_prompt(2, batch=(2,), points=11, masked=True, dtype=dtype),
            make_prompt(3, batch=(2, 2), points=16, consecutive=True, dtype=dtype),
            make_prompt(4, points=9, channels=(2, 2), examples=2, dtype=dtype),
            make_prompt(5, batch=(2,), dimensions=2, own_grids=True, dtype=dtype),
            dataclasses.replace(make_prompt(6, batch=(2,), dtype=dtype), times=[3, 5, 1, 9, 2, 7]),
        ]


class TestExampleTransforms(OperatorConformance):
    operators = tuple(NearestExamples(k=k) for k in (1, 2, 3, 4, 5, 64))


class TestProjections(OperatorConformance):
    operators = (
        ConserveMean(),
        Nonnegative(),
        UnitMass(),
        WithinExamples(),
        Finite(),
        Finite(fill=-3.0),
    )


class TestProjectionsOfOneCoordinate(OperatorConformance):
    operators = (BoundVariation(),)

    def prompts(self, dtype=torch.float64):
        """Circles: coarse and fine, with masks, several channels, own grids and other answer points."""
        return [
            make_prompt(1, batch=(3,), points=12, dtype=dtype),
            make_prompt(2, batch=(2,), points=11, masked=True, dtype=dtype),
            make_prompt(3, batch=(2, 2), points=8, own_grids=True, dtype=dtype),
            make_prompt(4, points=9, channels=(2, 2), answer_points=7, dtype=dtype),
        ]


class TestResidualValidators(OperatorConformance):
    operators = (
        Correct(icon),
        Correct(icon, weights="uniform"),
        Correct(icon, magnitude=0.5),
        Correct(icon, gate=False),
        Correct(icon, pad=False),
        Correct(Rescale() | icon, magnitude=1.0, gate=False),
        Debias(icon),
        Debias(icon, pad=True),
        Debias(icon, smooth="graph"),
        Debias(MeanOutput()),
    )


class TestResidualValidatorsWithGap(OperatorConformance):
    operators = (Correct(icon, gap=1), Debias(icon, gap=2))

    def prompts(self, dtype=torch.float64):
        return [make_prompt(1, batch=(2,), consecutive=True, dtype=dtype), make_prompt(2, dtype=dtype)]


class TestMixtures(OperatorConformance):
    operators = (
        Select((MeanOutput(), icon)),
        Select((Correct(icon), Debias(icon), icon), pad=False),
        Average((icon,)),
        Average((icon, MeanOutput(), Flip() | icon)),
    )


class FewPrompts(OperatorConformance):
    """For operators that take their time: a grid, stations with gaps, and the smallest number of pairs."""

    def prompts(self, dtype=torch.float64):
        return [
            make_prompt(1, batch=(3,), dtype=dtype),
            make_prompt(3, batch=(2,), dimensions=3, channels=(2, 2), masked=True, points=6, dtype=dtype),
            make_prompt(4, style="nonnegative", examples=2, dtype=dtype),
        ]


class TestCombinations(FewPrompts):
    operators = (
        Combine((icon,)),
        Combine((icon, MeanOutput(), NearestOutput())),
        Combine((icon, Ridge()), shrink=False, pad=True),
        Combine((icon, MeanOutput()), channels=(-1,)),
    )


class TestWholePrograms(FewPrompts):
    """The catalog's programs are operators too."""

    operators = tuple(chop.programs[name] for name in ("mfc", "corr", "air"))


def test_every_operator_is_covered():
    suites = [
        value
        for value in globals().values()
        if isinstance(value, type)
        and issubclass(value, OperatorConformance)
        and value is not OperatorConformance
    ]
    covered = {type(operator) for suite in suites for operator in suite.operators}
    built_in = {operator for operator in chop.registry().values() if operator.__module__.startswith("chop.")}
    assert built_in <= covered
    assert set(chop.operators.BUILT_IN) == built_in


def test_every_flag_and_choice_is_covered():
    """Each value of a finite parameter stands in some suite."""
    seen = {}
    for suite in (value for name, value in globals().items() if name.startswith("Test")):
        for operator in suite.operators:
            for name, param in operator.params().items():
                if param.kind in ("flag", "choice"):
                    seen.setdefault((type(operator), name), set()).add(getattr(operator, name))
    for (operator, name), values in seen.items():
        param = operator.params()[name]
        wanted = {True, False} if param.kind == "flag" else set(param.options)
        assert values == wanted, f"{operator.name}: {name}"


# Simplex.


@given(st.lists(st.integers(-6, 6).map(lambda i: i / 4), min_size=1, max_size=5))
@settings(max_examples=200)
def test_simplex_projection_is_the_nearest_point(point):
    """Against the best over all possible supports, each solved in closed form."""
    p = np.array(point)
    best, distance = None, np.inf
    for size in range(1, len(p) + 1):
        for support in itertools.combinations(range(len(p)), size):
            candidate = np.zeros(len(p))
            inside = list(support)
            candidate[inside] = p[inside] - (p[inside].sum() - 1) / size
            if candidate.min() >= 0 and np.sum((candidate - p) ** 2) < distance - 1e-15:
                best, distance = candidate, np.sum((candidate - p) ** 2)
    got = project_to_simplex(torch.from_numpy(p)).numpy()
    np.testing.assert_allclose(got, best, atol=1e-12)


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=8))
def test_simplex_projection_lies_on_the_simplex(point):
    got = project_to_simplex(torch.tensor(point, dtype=torch.float64))
    assert bool((got >= 0).all())
    assert float(got.sum()) == pytest.approx(1, abs=1e-8)


def test_simplex_projection_of_what_is_on_it():
    point = torch.tensor([[0.2, 0.3, 0.5], [0.0, 1.0, 0.0]], dtype=torch.float64)
    torch.testing.assert_close(project_to_simplex(point), point, rtol=0, atol=1e-15)
    assert project_to_simplex(torch.tensor([[5.0, 0.0, 0.0]])).tolist() == [[1.0, 0.0, 0.0]]


@pytest.mark.parametrize("seed", range(8))
def test_smallest_quadratic_against_a_fine_grid(seed):
    random = np.random.default_rng(seed)
    root = random.normal(size=(3, 4 + seed))
    matrix = root @ root.T
    steps = 100
    grid = np.array(
        [(i, j, steps - i - j) for i in range(steps + 1) for j in range(steps + 1 - i)], dtype=float
    )
    grid /= steps
    costs = np.einsum("gi,ij,gj->g", grid, matrix, grid)
    got = smallest_quadratic(torch.from_numpy(matrix)).numpy()
    assert got @ matrix @ got <= costs.min() + 1e-9
    assert np.abs(got - grid[costs.argmin()]).max() < 0.05


@given(seed=st.integers(0, 10**6), k=st.integers(1, 6))
@settings(max_examples=60)
def test_smallest_quadratic_is_optimal(seed, k):
    """On the support all gradients are equal, off it none is smaller."""
    root = torch.from_numpy(np.random.default_rng(seed).normal(size=(k, k + 4)))
    matrix = root @ root.T / (k + 4)
    got = smallest_quadratic(matrix)
    assert bool((got >= 0).all())
    assert float(got.sum()) == pytest.approx(1)
    gradient = matrix @ got
    level = float(got @ gradient)
    assert bool((gradient >= level - 1e-5).all())
    assert bool((gradient[got > 1e-6] <= level + 1e-5).all())


def test_smallest_quadratic_of_a_batch_is_that_of_its_elements():
    random = np.random.default_rng(0)
    roots = torch.from_numpy(random.normal(size=(7, 4, 6)) * random.uniform(0.01, 100, size=(7, 1, 1)))
    matrices = roots @ roots.mT
    matrices[3] = 0
    together = smallest_quadratic(matrices)
    alone = torch.stack([smallest_quadratic(matrix) for matrix in matrices])
    torch.testing.assert_close(together, alone, rtol=0, atol=1e-12)
    assert together[3].tolist() == [0.25] * 4  # nothing to choose by: uniform


# Grids.


def literal_nearest(source, target):
    index = []
    for t in target:
        distances = [sum((t - s) ** 2) for s in source]
        index.append(distances.index(min(distances)))
    return index


@given(
    source=st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=8),
    target=st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=8),
)
@settings(max_examples=150)
def test_nearest_index_takes_the_first_on_ties(source, target):
    got = nearest_index(torch.tensor(source).double(), torch.tensor(target).double())
    if got is None:
        assert source == target
    else:
        assert got.tolist() == literal_nearest(np.array(source), np.array(target))


def test_nearest_index_of_one_grid_is_the_identity():
    """Even where points repeat, which the nearest-first rule would not give."""
    grid = torch.tensor([[0.0], [0.5], [0.5], [1.0]])
    assert nearest_index(grid, grid.clone()) is None
    values = torch.arange(4.0)[:, None]
    assert resample(values, None) is values


def test_nearest_index_where_some_of_a_batch_coincide():
    source = torch.tensor([[0.0], [0.5], [0.5]]).expand(2, 3, 1)
    target = torch.tensor([[[0.0], [0.5], [0.5]], [[0.4], [0.5], [0.1]]])
    index = nearest_index(source, target)
    assert index.tolist() == [[0, 1, 2], [1, 1, 0]]
    values = torch.tensor([[10.0], [20.0], [30.0]])
    assert resample(values, index).squeeze(-1).tolist() == [[10, 20, 30], [20, 20, 10]]


def test_nearest_index_shares_what_the_batch_shares():
    source = torch.rand(5, 2).expand(3, 4, 5, 2)
    target = torch.rand(6, 2).expand(4, 6, 2)
    index = nearest_index(source, target)
    assert index.shape == (3, 4, 6)
    assert index.stride()[:2] == (0, 0)
    assert index[0, 0].tolist() == literal_nearest(source[0, 0].numpy(), target[0].numpy())


def test_same_grid():
    grid = torch.rand(2, 5, 1)
    examples = grid.unsqueeze(1).expand(2, 3, 5, 1)
    assert same_grid(grid, grid.clone(), examples)
    assert not same_grid(grid, grid[:, :4])
    assert not same_grid(grid, grid.flip(0))
    other = examples.clone()
    other[1, 2, 4] += 1e-6
    assert not same_grid(grid, other)


def test_first_smallest_ignores_rounding():
    costs = torch.tensor([[1.0, 0.3 + 1e-16, 0.3], [2.0, 1.0, 0.5]], dtype=torch.float64)
    assert first_smallest(costs, torch.ones(2, dtype=torch.float64)).tolist() == [1, 2]


# Moving frames and mirrors.


@pytest.mark.parametrize("n", [16, 15])
@pytest.mark.parametrize("shift", [0.0, 1.0, 0.3, -2.71, 40.5])
def test_spectral_shift_of_a_sine_is_exact(n, shift):
    j = torch.arange(n, dtype=torch.float64)
    wave = torch.sin(2 * math.pi * 3 * j / n + 0.4) + 2
    moved = torch.sin(2 * math.pi * 3 * (j - shift) / n + 0.4) + 2
    got = _spectral_shift(wave[:, None], torch.tensor(shift, dtype=torch.float64))
    torch.testing.assert_close(got[:, 0], moved, rtol=0, atol=1e-12)


@pytest.mark.parametrize("n", [8, 9])
def test_spectral_shift_by_whole_points_is_the_grid_shift(n):
    """On what a grid resolves: an even grid's highest mode has no phase and stays."""
    values = torch.from_numpy(np.random.default_rng(0).normal(size=(3, n, 2)))
    if n % 2 == 0:
        values -= values * 0 + (values * _alternating(n)).mean(dim=-2, keepdim=True) * _alternating(n)
    shift = torch.tensor([0, 2, -3])
    torch.testing.assert_close(
        _spectral_shift(values, shift.double()), _grid_shift(values, shift), rtol=0, atol=1e-12
    )


def _alternating(n):
    return (1 - 2 * (torch.arange(n) % 2)).double()[:, None]


def test_grid_shift_moves_values_forward():
    values = torch.arange(5.0)[None, :, None].expand(3, 5, 1)
    moved = _grid_shift(values, torch.tensor([1, -2, 7])).squeeze(-1)
    assert moved.tolist() == [np.roll(range(5), s).tolist() for s in (1, -2, 7)]


def travelling(shift, n=20, examples=4):
    """A profile that moves by `shift` points each step and keeps its shape."""
    profile = np.exp(-(np.linspace(-3, 3, n) ** 2)) + 0.3 * np.sin(2 * np.pi * np.arange(n) / n)
    modes = np.fft.fftfreq(n)
    frames = [
        np.fft.ifft(np.fft.fft(profile) * np.exp(-2j * np.pi * modes * shift * t)).real
        for t in range(examples + 2)
    ]
    frames = np.array(frames)[..., None]
    grid = np.arange(n)[:, None] / n
    return (
        Prompt(
            inputs=Field(grid, frames[:examples]),
            outputs=Field(grid, frames[1 : examples + 1]),
            query=Field(grid, frames[examples]),
            at=grid,
        ),
        torch.from_numpy(frames[-1]),
    )


@pytest.mark.parametrize("shift", [-5, -1, 0, 2, 5])
def test_a_moving_frame_stands_still(shift):
    prompt, target = travelling(shift)
    frame = MovingFrame().fit(prompt)
    assert int(frame.notes["shift"]) == shift
    profile = frame.prompt.query.values
    for part in (*frame.prompt.inputs.values, *frame.prompt.outputs.values):
        torch.testing.assert_close(part, profile, rtol=0, atol=1e-12)
    result = parse("moving_frame | copy_query").run(toy_model, prompt)
    torch.testing.assert_close(result.values, target, rtol=0, atol=1e-12)


def test_a_shift_beyond_a_quarter_is_not_searched():
    prompt, _ = travelling(8)
    assert abs(int(MovingFrame().fit(prompt).notes["shift"])) <= 5


def test_a_spectral_frame_follows_fractions():
    prompt, target = travelling(1.4)
    whole = MovingFrame().fit(prompt).notes["shift"]
    assert int(whole) == 1
    fine = float(MovingFrame(shift="spectral").fit(prompt).notes["shift"])
    assert abs(fine - 1.4) < 0.05
    errors = [
        float((parse(f"{route} | copy_query").run(toy_model, prompt).values - target).abs().max())
        for route in ("moving_frame", 'moving_frame(shift="spectral")')
    ]
    assert errors[1] < 0.2 * errors[0]


def test_the_latest_pair_decides_the_shift():
    prompt, _ = travelling(2)
    outputs = prompt.outputs.values.clone()
    outputs[0] = _grid_shift(prompt.inputs.values[0], torch.tensor(-4))
    prompt = fill(prompt, outputs=outputs)
    assert int(MovingFrame().fit(prompt).notes["shift"]) == 2
    first_is_latest = dataclasses.replace(prompt, times=[9, 1, 2, 3, 10])
    assert int(MovingFrame().fit(first_is_latest).notes["shift"]) == -4


def test_masks_move_with_the_frame():
    prompt = make_prompt(1, masked=True)
    frame = MovingFrame().fit(prompt)
    step = int(frame.notes["shift"])
    assert step != 0
    for j in range(5):
        expected = np.roll(prompt.outputs.mask[j].numpy(), -(j + 1) * step, axis=0)
        assert np.array_equal(frame.prompt.outputs.mask[j].numpy(), expected)


@pytest.mark.parametrize("n", [8, 9])
def test_reflect_flips_a_grid(n):
    prompt = make_prompt(1, points=n, batch=(2,))
    mapped = Reflect().fit(prompt).prompt
    # x -> 1 - x takes point j to point n - j: the first stays, the others turn round.
    flipped = np.roll(np.flip(prompt.query.values.numpy(), -2), 1, -2)
    np.testing.assert_array_equal(mapped.query.values.numpy(), flipped)
    flipped = np.roll(np.flip(prompt.outputs.values.numpy(), -2), 1, -2)
    np.testing.assert_array_equal(mapped.outputs.values.numpy(), flipped)
    torch.testing.assert_close(mapped.query.coords, prompt.query.coords, rtol=0, atol=1e-15)
    torch.testing.assert_close(mapped.at, prompt.at, rtol=0, atol=1e-15)


@pytest.mark.parametrize("options", [{"points": 8}, {"points": 7}, {"dimensions": 2}, {"own_grids": True}])
def test_reflecting_twice_changes_nothing(options):
    prompt = make_prompt(1, batch=(2,), masked=True, **options)
    once = Reflect().fit(prompt).prompt
    twice = Reflect().fit(once).prompt
    if options.get("dimensions") or options.get("own_grids"):
        # Scattered points come back in ascending order.
        order = _lexicographic(prompt.query.coords)
        expected = prompt.query.values.gather(-2, order.unsqueeze(-1))
        torch.testing.assert_close(twice.query.values, expected, rtol=0, atol=0)
    else:
        assert torch.equal(twice.query.values, prompt.query.values)
        assert torch.equal(twice.outputs.mask, prompt.outputs.mask)
        torch.testing.assert_close(twice.outputs.coords, prompt.outputs.coords, rtol=0, atol=1e-15)


def _lexicographic(coords):
    flat = coords.reshape(-1, *coords.shape[-2:]).numpy()
    order = [np.lexsort(one.T[::-1]) for one in flat]
    return torch.from_numpy(np.array(order)).reshape(coords.shape[:-1])


def test_reflected_answers_come_back_to_their_points():
    """A model that answers f(x) in mirrored coordinates answers f(-x) in the old ones."""
    prompt = make_prompt(1, points=10, answer_points=7)
    result = parse("reflect | icon").run(lambda p: torch.sin(2 * math.pi * p.at), prompt)
    torch.testing.assert_close(result.values, torch.sin(-2 * math.pi * prompt.at), rtol=0, atol=1e-12)


def test_reflect_knows_its_period():
    grid = np.arange(6)[:, None] * 0.5
    prompt = Prompt(
        inputs=Field(grid, np.zeros((2, 6, 1))),
        outputs=Field(grid, np.zeros((2, 6, 1))),
        query=Field(grid, np.arange(6.0)[:, None]),
        at=grid,
        axes=(Axis("angle", 3.0),),
    )
    mapped = Reflect().fit(prompt).prompt
    assert mapped.query.values.flatten().tolist() == [0, 5, 4, 3, 2, 1]
    assert mapped.query.coords.flatten().tolist() == [0, 0.5, 1, 1.5, 2, 2.5]


# Affine maps.


def visible(prompt):
    parts = (prompt.inputs.values, prompt.outputs.values, prompt.query.values)
    return np.concatenate([part.reshape(-1).numpy() for part in parts])


@pytest.mark.parametrize("target", [1.0, 0.25])
def test_rescale_gives_the_target_spread(target):
    prompt = make_prompt(3, channels=(2, 2))
    for center in ("auto", "mean"):
        frame = Rescale(center=center, target=target).fit(prompt)
        mapped = visible(frame.prompt)
        assert np.mean(mapped) == pytest.approx(0, abs=1e-12)
        assert np.std(mapped, ddof=1) == pytest.approx(target)
        assert float(frame.notes["centre"]) == pytest.approx(visible(prompt).mean())
        assert float(frame.notes["scale"]) == pytest.approx(visible(prompt).std(ddof=1))


def test_rescale_keeps_densities_non_negative():
    prompt = make_prompt(3, style="nonnegative")
    frame = Rescale().fit(prompt)
    mapped = visible(frame.prompt)
    assert mapped.min() >= 0
    assert np.sqrt(np.mean(mapped**2)) == pytest.approx(1)
    assert float(frame.notes["centre"]) == 0
    centred = visible(Rescale(center="mean").fit(prompt).prompt)
    assert centred.min() < 0


def test_rescale_decides_for_each_query():
    mixed = make_prompt(3, batch=(2,))
    values = {
        name: torch.stack([getattr(mixed, name).values[0].abs(), getattr(mixed, name).values[1]])
        for name in ("inputs", "outputs", "query")
    }
    centre = Rescale().fit(fill(mixed, **values)).notes["centre"]
    assert float(centre[0]) == 0
    assert float(centre[1]) != 0


def test_rescale_of_a_flat_prompt_stays_finite():
    prompt = fill(
        make_prompt(1), inputs=torch.ones(5, 12, 1), outputs=torch.ones(5, 12, 1), query=torch.ones(12, 1)
    )
    prompt = prompt.to(torch.float64)
    for text in ('rescale(center="mean") | icon', "rescale | icon", "normalize | icon", "minmax | icon"):
        assert parse(text).run(toy_model, prompt).values.isfinite().all()


def test_normalize_uses_example_inputs_only():
    prompt = make_prompt(3, channels=(3, 3))
    mapped = Normalize().fit(prompt).prompt
    pooled = mapped.inputs.values.reshape(-1, 3).numpy()
    np.testing.assert_allclose(pooled.mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(pooled.std(axis=0, ddof=1), 1)
    own = prompt.inputs.values.reshape(-1, 3).numpy()
    expected = (prompt.outputs.values.numpy() - own.mean(axis=0)) / own.std(axis=0, ddof=1)
    np.testing.assert_allclose(mapped.outputs.values.numpy(), expected)
    separate = Normalize(separate=True).fit(prompt).prompt.outputs.values.reshape(-1, 3).numpy()
    np.testing.assert_allclose(separate.mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(separate.std(axis=0, ddof=1), 1)


def test_minmax_reaches_both_ends():
    for seed in range(4):
        mapped = visible(Minmax().fit(make_prompt(seed)).prompt)
        assert mapped.min() == pytest.approx(-1, abs=1e-12)
        assert mapped.max() == pytest.approx(1, abs=1e-12)


def test_flip_is_its_own_inverse():
    prompt = make_prompt(1)
    once = Flip().fit(prompt).prompt
    assert torch.equal(once.query.values, -prompt.query.values)
    assert torch.equal(Flip().fit(once).prompt.outputs.values, prompt.outputs.values)


def test_increment_shows_changes():
    prompt = make_prompt(1, consecutive=True)
    mapped = Increment().fit(prompt).prompt
    assert torch.equal(mapped.outputs.values, prompt.outputs.values - prompt.inputs.values)
    result = parse("increment | icon").run(lambda p: torch.zeros(p.answer_shape, dtype=p.dtype), prompt)
    assert torch.equal(result.values, prompt.query.values)


# Projections.


def test_conserve_mean():
    prompt = make_prompt(1, batch=(2,), channels=(2, 2), answer_points=7)
    values = parse("icon | conserve_mean").run(toy_model, prompt).values
    torch.testing.assert_close(values.mean(dim=-2), prompt.query.values.mean(dim=-2), rtol=0, atol=1e-14)
    bare = toy_model(prompt)
    torch.testing.assert_close((values - bare).std(dim=-2), torch.zeros(2, 2).double(), rtol=0, atol=1e-14)


def test_nonnegative():
    prompt = make_prompt(1)
    values, found = Nonnegative().project(prompt, torch.tensor([[-1.0], [0.0], [2.0], [-0.5]]))
    assert values.flatten().tolist() == [0, 0, 2, 0]
    assert int(found["raised"]) == 2


def test_unit_mass_at_each_time():
    at = torch.tensor([[0.0, 0.1], [1.0, 0.2], [0.0, 0.7], [1.0, 0.8], [1.0, 0.9], [2.0, 0.5]]).double()
    grid = torch.rand(4, 2).double()
    prompt = Prompt(
        inputs=Field(grid, torch.ones(2, 2, 4, 1).double()),
        outputs=Field(at, torch.ones(2, 2, 6, 1).double()),
        query=Field(grid, torch.ones(2, 4, 1).double()),
        at=at,
    )
    values = torch.tensor([[1.0, 2, 3, 4, 6, -5], [0, 1, 0, 1, 1, 8]]).double().unsqueeze(-1)
    projected, _ = UnitMass().project(prompt, values)
    assert projected[0, :, 0].tolist() == pytest.approx([0.5, 0.5, 1.5, 1, 1.5, -5])
    assert projected[1, :, 0].tolist() == pytest.approx([0, 1, 0, 1, 1, 1])


def test_unit_mass_without_time():
    prompt = make_prompt(1, batch=(2,))
    projected, _ = UnitMass().project(prompt, toy_model(prompt).abs())
    assert projected.mean(dim=-2).flatten().tolist() == pytest.approx([1, 1])


def test_within_examples():
    prompt = make_prompt(1, channels=(2, 2), masked=True)
    values = 100 * toy_model(prompt)
    clipped, found = WithinExamples().project(prompt, values)
    count = 0
    for c in range(2):
        seen = prompt.outputs.values[..., c][prompt.outputs.mask[..., c]]
        expected = values[:, c].clamp(seen.min(), seen.max())
        assert torch.equal(clipped[:, c], expected)
        count += int((expected != values[:, c]).sum())
    assert int(found["clipped"]) == count > 0


def test_within_examples_where_a_channel_was_never_seen():
    prompt = make_prompt(1, channels=(2, 2), masked=True)
    mask = prompt.outputs.mask.clone()
    mask[..., 1] = False
    prompt = dataclasses.replace(prompt, outputs=dataclasses.replace(prompt.outputs, mask=mask))
    values = 100 * toy_model(prompt)
    clipped, _ = WithinExamples().project(prompt, values)
    assert torch.equal(clipped[:, 1], values[:, 1])
    assert not torch.equal(clipped[:, 0], values[:, 0])


def test_bound_variation():
    prompt = make_prompt(1, batch=(2,), points=12)

    def variation(values):
        return (values - values.roll(1, dims=-2)).abs().sum(dim=-2)

    allowed = variation(prompt.query.values)
    rough, found = BoundVariation().project(prompt, 3 * prompt.query.values + 1)
    torch.testing.assert_close(variation(rough), allowed)
    torch.testing.assert_close(rough.mean(dim=-2), 3 * prompt.query.values.mean(dim=-2) + 1)
    torch.testing.assert_close(found["kept"], torch.full((2, 1), 1 / 3).double())
    smooth = 0.5 * prompt.query.values
    assert torch.equal(BoundVariation().project(prompt, smooth)[0], smooth)
    flat = torch.full_like(smooth, 2.0)
    assert torch.equal(BoundVariation().project(prompt, flat)[0], flat)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"dimensions": 2}, "one coordinate, not of t, x"),
        ({"channels": (2, 1)}, "2 channels; the answer has 1"),
    ],
)
def test_bound_variation_says_what_it_needs(options, said):
    with pytest.raises(ProgramError, match=said):
        parse("icon | bound_variation").run(toy_model, make_prompt(1, **options))


def test_finite():
    prompt = make_prompt(1)
    nan, inf = float("nan"), float("inf")
    values, found = Finite(fill=2.0).project(prompt, torch.tensor([[nan], [inf], [-inf], [5.0]]))
    assert values.flatten().tolist() == [2, 2, 2, 5]
    assert int(found["replaced"]) == 3


# Leaves.


def test_frames():
    prompt = make_prompt(1, dimensions=3, points=4, channels=(2, 2))
    query = prompt.query.values
    assert torch.equal(parse("last_frame").run(toy_model, prompt).values, query[8:])
    assert torch.equal(parse("first_frame").run(toy_model, prompt).values, query[:4])


def test_frames_are_found_by_time_not_by_position():
    prompt = make_prompt(1, dimensions=3, points=4)
    order = torch.randperm(12, generator=torch.Generator().manual_seed(0))
    shuffled = Field(prompt.query.coords[order], prompt.query.values[order])
    mixed = dataclasses.replace(prompt, query=shuffled)
    for text in ("last_frame", "first_frame"):
        one, two = (parse(text).run(toy_model, p).values for p in (prompt, mixed))
        assert torch.equal(one, two)


def test_without_time_every_frame_is_the_query():
    prompt = make_prompt(1)
    for text in ("last_frame", "first_frame", "copy_query"):
        assert torch.equal(parse(text).run(toy_model, prompt).values, prompt.query.values)


def test_mean_output_of_what_was_observed():
    prompt = make_prompt(1, masked=True)
    mask = prompt.outputs.mask.clone()
    mask[:, 3] = False  # never observed: all filled-in values count
    prompt = dataclasses.replace(prompt, outputs=dataclasses.replace(prompt.outputs, mask=mask))
    got = parse("mean_output").run(toy_model, prompt).values
    for i in range(12):
        seen = prompt.outputs.values[:, i, 0][mask[:, i, 0]] if i != 3 else prompt.outputs.values[:, i, 0]
        assert float(got[i, 0]) == pytest.approx(float(seen.mean()))


def test_nearest_output():
    prompt = make_prompt(1, batch=(3,))
    query = prompt.query.values.clone()
    for row, example in enumerate((2, 0, 4)):
        query[row] = prompt.inputs.values[row, example] + 1e-3
    prompt = fill(prompt, query=query)
    result = parse("nearest_output").run(toy_model, prompt)
    assert result.trace.root.notes["example"].tolist() == [3, 1, 5]  # counted from 1
    assert torch.equal(result.values[1], prompt.outputs.values[1, 0])


def test_nearest_output_takes_the_first_on_ties():
    prompt = make_prompt(1)
    inputs = prompt.inputs.values.clone()
    inputs[3] = inputs[1]
    prompt = fill(prompt, inputs=inputs, query=inputs[1] + 0.01)
    assert int(notes("nearest_output", prompt)["example"]) == 2


@pytest.mark.parametrize("seed", range(3))
def test_ridge_knows_affine_operators(seed):
    """Exact where the query is an affine combination of the examples, as strength goes to 0."""
    random = np.random.default_rng(seed)
    n, m, d = 6, 4, 5
    matrix, offset = random.normal(size=(m, n)), random.normal(size=m)
    inputs = random.normal(size=(d, n))
    mix = random.normal(size=d)
    mix += (1 - mix.sum()) / d
    query = mix @ inputs
    prompt = Prompt(
        inputs=Field(np.arange(n)[:, None] / n, inputs[..., None]),
        outputs=Field(np.arange(m)[:, None] / m, (inputs @ matrix.T + offset)[..., None]),
        query=Field(np.arange(n)[:, None] / n, query[:, None]),
        at=np.arange(m)[:, None] / m,
    )
    truth = torch.from_numpy(query @ matrix.T + offset)[:, None]
    errors = [
        float((Ridge(strength=s).run(toy_model, prompt).values - truth).abs().max())
        for s in (1e-8, 1e-3, 10.0)
    ]
    assert errors[0] < 1e-5
    assert errors[0] < errors[1] < errors[2]
    mean = prompt.outputs.values.mean(dim=0)
    assert torch.allclose(Ridge(strength=1e3).run(toy_model, prompt).values, mean, atol=0.05)


def test_ridge_of_equal_inputs_is_the_mean_output():
    prompt = fill(make_prompt(1), inputs=torch.ones(5, 12, 1, dtype=torch.float64))
    got = Ridge().run(toy_model, prompt).values
    torch.testing.assert_close(got, prompt.outputs.values.mean(dim=0))


# Examples.


def test_nearest_examples_keep_order_and_number():
    prompt = make_prompt(1, batch=(4,))
    for k in (1, 2, 4):
        frame = NearestExamples(k=k).fit(prompt)
        kept = frame.prompt.origin.kept
        assert torch.equal(frame.notes["kept examples"], kept + 1)  # told from 1
        assert kept.shape == (4, k)
        assert torch.equal(kept, kept.sort(dim=-1).values)
        assert frame.prompt.examples == k
        for i in range(4):
            # The scale is the same for all examples, so that plain distances order alike.
            distance = (prompt.inputs.values[i] - prompt.query.values[i]).square().mean(dim=(-1, -2))
            assert set(kept[i].tolist()) == set(distance.argsort()[:k].tolist())
            assert torch.equal(frame.prompt.inputs.values[i], prompt.inputs.values[i, kept[i]])
            assert torch.equal(frame.prompt.outputs.values[i], prompt.outputs.values[i, kept[i]])
            assert frame.prompt.times[i].tolist() == [*kept[i].tolist(), 5]


def test_nearest_examples_leave_small_prompts_alone():
    prompt = make_prompt(1)
    for k in (5, 6):
        assert NearestExamples(k=k).fit(prompt).prompt is prompt


# Validators.


@dataclasses.dataclass(frozen=True)
class Constant(Leaf):
    """A fixed number everywhere, to be compared with known outputs."""

    name: ClassVar[str] = "constant"
    law: ClassVar[str] = "Constant."
    value: float = 0.0

    def __post_init__(self):
        """NaN and infinities are wanted here, which no declared number would take."""

    def __str__(self):
        return f"constant({self.value})"

    head = __str__

    def answer(self, prompt):
        return torch.full(prompt.answer_shape, self.value, dtype=prompt.dtype), {}


def flat_prompt(outputs, batch=()):
    """Examples whose outputs are given constants."""
    prompt = make_prompt(1, batch=batch, examples=len(outputs))
    levels = torch.tensor(outputs, dtype=torch.float64)[:, None, None]
    return fill(prompt, outputs=levels.expand(prompt.outputs.values.shape).clone())


@pytest.mark.parametrize(
    ("values", "chosen"),
    [
        ((1.0, 0.0), 1),  # better than the fallback
        ((0.0, 1.0), 2),  # worse
        ((1.0, 1.0), 2),  # equal: the fallback stays
        ((3.0, 1.0, 0.0), 2),  # the best wins
        ((1.0, 1.0, 0.0), 1),  # the first on ties
        ((2.0, 0.0, 0.0), 3),  # equal to the fallback by symmetry: not strictly smaller
        ((float("nan"), 0.0), 2),
        ((float("inf"), float("nan"), 5.0), 3),
        ((5.0, float("nan")), 1),  # a fallback that is not finite loses
        ((float("nan"), float("nan")), 2),  # nobody wins: the fallback
    ],
)
def test_select(values, chosen):
    prompt = flat_prompt([1.0, 1.0, 1.0])
    result = Select(tuple(Constant(v) for v in values)).run(toy_model, prompt)
    assert int(result.trace.root.notes["chose branch"]) == chosen
    expected = torch.full((12, 1), values[chosen - 1], dtype=torch.float64)
    torch.testing.assert_close(result.values, expected, equal_nan=True, rtol=0, atol=0)
    torch.testing.assert_close(
        result.error, torch.tensor((values[chosen - 1] - 1) ** 2).double(), equal_nan=True
    )


def test_select_decides_for_each_query():
    prompt = flat_prompt([1.0, 1.0, 1.0], batch=(2,))
    outputs = prompt.outputs.values.clone()
    outputs[1] = 3
    result = Select((Constant(1.0), Constant(3.0))).run(toy_model, fill(prompt, outputs=outputs))
    assert result.values[:, 0, 0].tolist() == [1, 3]


@given(seed=st.integers(0, 10**6), shrink=st.booleans(), masked=st.booleans())
@settings(max_examples=15)
def test_combine_weights_lie_on_the_simplex(seed, shrink, masked):
    prompt = make_prompt(seed, batch=(2,), channels=(2, 2), masked=masked)
    program = Combine((icon, MeanOutput(), NearestOutput(), CopyQuery()), shrink=shrink)
    result = program.run(toy_model, prompt)
    weights = result.trace.root.notes["weights"]
    assert weights.shape == (2, 2, 4)
    assert bool((weights >= 0).all())
    torch.testing.assert_close(weights.sum(dim=-1), torch.ones(2, 2).double())
    answers = torch.stack([part.run(toy_model, prompt).values for part in program.candidates], dim=-1)
    expected = torch.einsum("bmck,bck->bmc", answers, weights)
    torch.testing.assert_close(result.values, expected)


def test_combine_finds_the_exact_candidate():
    """One candidate knows the operator: it gets all the weight, and full trust."""
    prompt = make_prompt(1, consecutive=True)
    prompt = fill(prompt, outputs=prompt.inputs.values)
    result = parse("combine(mean_output, copy_query, icon)").run(toy_model, prompt)
    torch.testing.assert_close(result.values, prompt.query.values, rtol=0, atol=1e-6)
    found = result.trace.root.notes
    torch.testing.assert_close(found["weights"], torch.tensor([[0.0, 1.0, 0.0]]).double(), rtol=0, atol=1e-6)
    assert float(found["trust"]) == pytest.approx(1)


def test_combine_mixes_what_only_a_mixture_knows():
    """Candidates 0 and 4, truth 1: three quarters and one quarter."""
    prompt = flat_prompt([1.0] * 4)
    result = Combine((Constant(0.0), Constant(4.0))).run(toy_model, prompt)
    torch.testing.assert_close(result.trace.root.notes["weights"], torch.tensor([[0.75, 0.25]]).double())
    torch.testing.assert_close(result.values, torch.ones(12, 1).double())


def test_combine_does_not_trust_what_the_jackknife_shakes():
    """One example disagrees: deleting it moves the weights, so that the reference keeps some."""
    prompt = flat_prompt([0.0, 0.0, 4.0])
    with_shrink = Combine((Constant(0.0), Constant(4.0))).run(toy_model, prompt)
    without = Combine((Constant(0.0), Constant(4.0)), shrink=False).run(toy_model, prompt)
    trust = float(with_shrink.trace.root.notes["trust"])
    # Full fit 1/3; deleted fits 1/2, 1/2, 0 around 1/3: unrest (2/3) * (2/36 + 4/36); moved 1/9.
    assert trust == pytest.approx((1 / 9) / (1 / 9 + 2 / 3 * 6 / 36))
    assert float(without.trace.root.notes["weights"][0, 1]) == pytest.approx(1 / 3)
    assert float(with_shrink.trace.root.notes["weights"][0, 1]) == pytest.approx(trust / 3)


def test_combine_leaves_other_channels_to_the_first():
    prompt = make_prompt(1, channels=(3, 3))
    result = parse("combine(icon, mean_output, channels=(-1,))").run(toy_model, prompt)
    assert torch.equal(result.values[..., :2], toy_model(prompt)[..., :2])
    assert not torch.equal(result.values[..., 2], toy_model(prompt)[..., 2])


def test_average_is_the_mean():
    prompt = make_prompt(1)
    got = Average((Constant(1.0), Constant(2.0), Constant(6.0))).run(toy_model, prompt).values
    assert torch.equal(got, torch.full((12, 1), 3.0, dtype=torch.float64))


def off_by(bias):
    """A model that is wrong by a fixed field on an operator that copies its input."""

    def model(prompt):
        query = resample(prompt.query.values, nearest_index(prompt.query.coords, prompt.at))
        return query + bias(prompt)

    return model


def test_debias_is_exact_for_a_fixed_error():
    prompt = make_prompt(1, batch=(3,), consecutive=True)
    prompt = fill(prompt, outputs=prompt.inputs.values)
    model = off_by(lambda p: 1 + torch.sin(2 * math.pi * p.at))
    result = parse("debias(icon)").run(model, prompt)
    torch.testing.assert_close(result.values, prompt.query.values, rtol=0, atol=1e-12)
    torch.testing.assert_close(result.held_out, prompt.outputs.values, rtol=0, atol=1e-12)
    assert float(result.error.max()) < 1e-20
    assert float(icon.run(model, prompt, validate=True).error.min()) > 0.5


def test_debias_with_gaps_in_the_outputs():
    """What was not observed says nothing of the bias; where nothing was, there is none."""
    prompt = make_prompt(1, consecutive=True)
    values = prompt.inputs.values.clone()
    mask = torch.rand(values.shape, generator=torch.Generator().manual_seed(0)) < 0.6
    mask[0, :] = True
    mask[:, 5] = False
    values[~mask] = 77.0
    prompt = dataclasses.replace(prompt, outputs=Field(prompt.outputs.coords, values, mask))
    result = parse("debias(icon)").run(off_by(lambda p: 2.0), prompt)
    expected = prompt.query.values.clone()
    expected[5] += 2
    torch.testing.assert_close(result.values, expected, rtol=0, atol=1e-12)


def test_debias_over_a_graph():
    """The bias of a station is replaced by its neighbours' mean; an isolated one keeps its own."""
    prompt = make_prompt(1, dimensions=3, points=4)
    prompt = dataclasses.replace(prompt, graph=Graph([[0, 1], [1, 2]], 4))
    bias = torch.tensor([[1.0], [2.0], [4.0], [8.0]], dtype=torch.float64)
    outputs = parse("last_frame").run(toy_model, prompt, validate=True).held_out + bias
    prompt = fill(prompt, outputs=outputs)
    plain, smooth = (
        parse(text).run(toy_model, prompt).values - parse("last_frame").run(toy_model, prompt).values
        for text in ("debias(last_frame)", 'debias(last_frame, smooth="graph")')
    )
    torch.testing.assert_close(plain, bias, rtol=0, atol=1e-12)
    assert smooth.flatten().tolist() == pytest.approx([2.0, 2.5, 2.0, 8.0])


def test_correct_helps_where_like_inputs_have_like_errors():
    """An error that changes smoothly with the input: less of it is left, and never more."""
    gains = []
    for seed in range(20):
        random = np.random.default_rng(seed)
        n, d = 16, 6
        grid = np.arange(n)[:, None] / n
        levels = np.linspace(0, 1, d + 1)[random.permutation(d + 1)]
        inputs = levels[:, None, None] + 0.1 * np.sin(2 * np.pi * grid + 6 * levels[:, None, None])
        prompt = Prompt(
            inputs=Field(grid, inputs[:d]),
            outputs=Field(grid, inputs[:d]),
            query=Field(grid, inputs[d]),
            at=grid,
        )
        model = off_by(lambda p: -0.5 - 0.3 * p.query.values.mean(dim=(-1, -2), keepdim=True))
        base, better = (
            float((parse(text).run(model, prompt).values - prompt.query.values).square().mean())
            for text in ("icon", "correct(icon)")
        )
        gains.append(better / base)
    assert max(gains) < 0.1
    assert np.median(gains) < 0.02


@pytest.mark.parametrize("magnitude", [None, 1.0])
def test_correct_closes_its_gate_where_errors_teach_nothing(magnitude):
    """Errors that change sign from example to example: the answer is the base's, bit for bit."""
    prompt = make_prompt(1, examples=4)
    sign = torch.tensor([1.0, -1.0, 1.0, -1.0], dtype=torch.float64)[:, None, None]
    answer = toy_model(prompt)

    def model(asked):
        """The query and then the held-out prompts, as one round stacks them."""
        assert asked.batch == (1 + 4,)
        return torch.cat([answer.unsqueeze(0), prompt.outputs.values - sign])

    result = Correct(icon, weights="uniform", magnitude=magnitude).run(model, prompt)
    found = result.trace.root.notes
    assert float(found["error before"]) == pytest.approx(1)
    assert float(found["magnitude"]) == (magnitude or 0)
    assert not bool(found["gate open"])
    assert torch.equal(result.values, answer)


def test_a_bad_held_out_answer_does_not_reach_an_uncorrected_one():
    prompt = make_prompt(1)
    answer = toy_model(prompt)

    def model(asked):
        return torch.cat([answer.unsqueeze(0), torch.full_like(prompt.outputs.values, torch.nan)])

    result = parse("correct(icon)").run(model, prompt)
    assert torch.equal(result.values, answer)
    assert not bool(result.rejected)
    assert bool(result.error.isnan())


@pytest.mark.parametrize("magnitude", [0.0, 0.5, 1.0])
def test_correct_with_a_fixed_magnitude(magnitude):
    """A constant error: the weights sum to one, so that the correction is the magnitude times it."""
    prompt = make_prompt(1, consecutive=True)
    prompt = fill(prompt, outputs=prompt.inputs.values)
    program = Correct(icon, magnitude=magnitude, gate=False)
    result = program.run(off_by(lambda p: 3.0), prompt)
    torch.testing.assert_close(result.values, prompt.query.values + 3 * (1 - magnitude), rtol=0, atol=1e-12)
    assert float(result.error) == pytest.approx((3 * (1 - magnitude)) ** 2)


def test_correct_weights_favour_likeness():
    prompt = make_prompt(1)
    prompt = fill(prompt, query=prompt.inputs.values[2] + 1e-3)
    weights = notes("correct(icon)", prompt)["weights"]
    assert int(weights.argmax()) == 2
    assert float(weights.sum()) == pytest.approx(1)
    uniform = notes('correct(icon, weights="uniform")', prompt)["weights"]
    assert uniform.tolist() == pytest.approx([0.2] * 5)
