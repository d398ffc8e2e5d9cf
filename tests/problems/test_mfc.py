"""Mean-field control: equations, an independent solver, invariants, and the five families."""

import numpy as np
import pytest
import torch

from chop.core.errors import ProblemError
from chop.numerics.heat import SubGrid, heat_matrix, hopf_cole
from chop.problems import mfc
from chop.problems.mfc.sampling import draw_cost, draw_density, nodes_for

C, MU = 20.0, 0.02


def functions(length: float, nodes: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """A cost and a density of one length scale, at so many nodes."""
    rng = np.random.default_rng(seed)
    return draw_cost(length, rng, nodes), draw_density(length, rng, nodes)


def slope(values: np.ndarray, times: int = 1) -> np.ndarray:
    """Spectral derivative along the last axis."""
    n = values.shape[-1]
    waves = (2j * np.pi * np.arange(n // 2 + 1)) ** times
    waves[-1] *= times % 2 == 0
    return np.fft.irfft(waves * np.fft.rfft(values), n)


@pytest.mark.parametrize("length", [1.0, 0.5, 0.3, 0.1])
def test_both_equations_hold(length: float) -> None:
    """Residuals of Fokker-Planck and Hamilton-Jacobi, relative to the largest term of each."""
    nodes = nodes_for(length)
    g, rho0 = functions(length, nodes)
    solution = hopf_cole(g, rho0)
    x, h = tuple(np.arange(nodes) / nodes), 1e-3
    for t in (0.1, 0.5, 0.9):
        grid = SubGrid(tuple(t + h * np.arange(-2, 3)), x)
        rho = solution.density(grid).reshape(5, nodes)
        phi = (-2 * C * MU * np.log(solution.weight(grid))).reshape(5, nodes)

        def rate(f: np.ndarray) -> np.ndarray:  # fourth order in h
            return (f[0] - 8 * f[1] + 8 * f[3] - f[4]) / (12 * h)

        terms = [-rate(phi), -MU * slope(phi[2], 2), slope(phi[2]) ** 2 / (2 * C)]
        assert np.abs(sum(terms)).max() < 1e-6 * max(np.abs(term).max() for term in terms)
        terms = [rate(rho), slope(-rho[2] * slope(phi[2]) / C), -MU * slope(rho[2], 2)]
        assert np.abs(sum(terms)).max() < 1e-6 * max(np.abs(term).max() for term in terms)


def test_it_starts_and_ends_where_it_must() -> None:
    nodes = 256
    g, rho0 = functions(0.5, nodes)
    solution = hopf_cole(g, rho0)
    x = tuple(np.arange(nodes) / nodes)
    assert solution.density(SubGrid((0.0,), x)) == pytest.approx(rho0, rel=1e-10)
    phi = -2 * C * MU * np.log(solution.weight(SubGrid((1.0,), x)))
    assert phi - phi.mean() == pytest.approx(g - g.mean(), abs=1e-10)


def finite_differences(g: np.ndarray, rho0: np.ndarray, steps: int) -> np.ndarray:
    """rho at every second time level, from the nonlinear equations: no Hopf-Cole, no Fourier series.

    Fourth-order central differences in x, classical Runge-Kutta in t: backwards for the value function,
    then forwards for the density, which takes steps twice as long to have the values in between.
    """
    n = len(g)

    def d1(f: np.ndarray) -> np.ndarray:
        return (8 * (np.roll(f, -1) - np.roll(f, 1)) - (np.roll(f, -2) - np.roll(f, 2))) * (n / 12)

    def d2(f: np.ndarray) -> np.ndarray:
        near, far = np.roll(f, -1) + np.roll(f, 1), np.roll(f, -2) + np.roll(f, 2)
        return (16 * near - far - 30 * f) * (n**2 / 12)

    def runge_kutta(f: np.ndarray, dt: float, rate) -> np.ndarray:
        k1 = rate(f, 0)
        k2 = rate(f + dt / 2 * k1, 1)
        k3 = rate(f + dt / 2 * k2, 1)
        k4 = rate(f + dt * k3, 2)
        return f + dt / 6 * (k1 + 2 * k2 + 2 * k3 + k4)

    dt = 1.0 / steps
    values = [g]
    for _ in range(steps):
        values.append(runge_kutta(values[-1], dt, lambda f, _: MU * d2(f) - d1(f) ** 2 / (2 * C)))
    velocity = [-d1(phi) / C for phi in reversed(values)]
    frames = [rho0]
    for level in range(0, steps, 2):
        frames.append(
            runge_kutta(
                frames[-1], 2 * dt, lambda f, part, at=level: MU * d2(f) - d1(f * velocity[at + part])
            )
        )
    return np.array(frames)


@pytest.mark.parametrize(("length", "nodes", "within"), [(1.0, 64, 1e-5), (0.5, 64, 1.5e-4)])
def test_agreement_with_an_independent_solver(length: float, nodes: int, within: float) -> None:
    """The differences fall sixteenfold when the other solver's spacing is halved: they are its own."""
    times, gaps = np.array([0.02, 0.1, 0.5, 0.76, 1.0]), []
    for points, steps in ((nodes, nodes**2 // 8), (2 * nodes, nodes**2 // 2)):
        steps -= steps % 100
        g, rho0 = functions(length, points, seed=4)
        expected = finite_differences(g, rho0, steps)[np.round(times * steps / 2).astype(int)]
        exact = hopf_cole(*functions(length, 600, seed=4))
        found = exact.density(SubGrid(tuple(times), tuple(np.arange(points) / points)))
        gaps.append(np.abs(found.reshape(expected.shape) - expected).max() / expected.max())
    assert gaps[0] / gaps[1] > 12
    assert gaps[1] < within


@pytest.mark.parametrize("length", [1.0, 0.3, 0.1])
def test_mass_and_positivity(length: float) -> None:
    nodes = nodes_for(length)
    times, x = (0.0, 0.02, 0.5, 0.98, 1.0), tuple(np.arange(nodes) / nodes)
    for seed in range(3):
        rho = hopf_cole(*functions(length, nodes, seed)).density(SubGrid(times, x)).reshape(5, nodes)
        assert np.abs(rho.mean(-1) - 1).max() < 1e-10
        assert (rho > 0).all()
        on_hundred = hopf_cole(*functions(length, nodes, seed)).density(mfc.even_grid((0.5, 1.0), 26, 100))
        # On 100 points a short cost is seen coarsely; the mean there is a quadrature, not the mass.
        assert np.abs(on_hundred.reshape(26, 100)[:25].mean(-1) - 1).max() < 1e-10


def test_positive_also_where_the_density_is_tiny() -> None:
    """A cost 200 times as large: rho spans hundreds of decades and stays positive, without underflow."""
    x = np.arange(2048) / 2048
    g, rho0 = 200 * np.cos(2 * np.pi * x), np.ones(2048)
    rho = hopf_cole(g, rho0).density(mfc.even_grid((0.5, 1.0), 26, 100)).reshape(26, 100)
    assert (rho > 0).all()
    assert rho.min() < 1e-30
    assert np.abs(rho[:25].mean(-1) - 1).max() < 1e-10  # at t = 1 100 points no longer resolve it


def test_any_sub_grid_is_the_same_function() -> None:
    g, rho0 = functions(0.3, 512)
    solution = hopf_cole(g, rho0)
    full = solution.density(mfc.even_grid((0.5, 1.0), 26, 100)).reshape(26, 100)
    part = solution.density(SubGrid((0.5, 0.74, 1.0), (0.03, 0.5, 0.97))).reshape(3, 3)
    assert part == pytest.approx(full[np.ix_([0, 12, 25], [3, 50, 97])], rel=1e-12)
    moved = solution.density(SubGrid((0.5, 0.74, 1.0), (1.03, -0.5, 2.97))).reshape(3, 3)
    assert moved == pytest.approx(part, rel=1e-10)
    finer = hopf_cole(*functions(0.3, 1024)).density(mfc.even_grid((0.5, 1.0), 26, 100)).reshape(26, 100)
    assert finer == pytest.approx(full, rel=1e-10)


def test_tiny_times_join_up() -> None:
    """The two forms of the heat kernel agree where one takes over from the other."""
    x = np.linspace(0, 1, 37)
    f = np.exp(np.sin(2 * np.pi * np.arange(256) / 256))
    edge = 40.0 / (np.pi * 256) ** 2
    below, above = (f @ heat_matrix(256, edge * factor, x) for factor in (1 - 1e-12, 1 + 1e-12))
    assert below == pytest.approx(above, rel=1e-13)
    assert f @ heat_matrix(256, 0.0, x) == pytest.approx(np.exp(np.sin(2 * np.pi * x)), rel=1e-13)


def test_leading_axes_broadcast() -> None:
    g, _ = functions(0.5, 256)
    densities = np.stack([functions(0.5, 256, seed)[1] for seed in range(6)]).reshape(2, 3, 256)
    grid = mfc.even_grid((0.5, 1.0))
    together = hopf_cole(g, densities).density(grid)
    assert together.shape == (2, 3, 500)
    assert np.array_equal(together[1, 2], hopf_cole(g, densities[1, 2]).density(grid))


@pytest.mark.parametrize(
    ("family", "points_in", "points_out", "t_in", "t_out"),
    [
        ("g_1to1", 100, 100, (0, 0), (1, 1)),
        ("g_1to2", 100, 500, (0, 0), (0.5, 1)),
        ("g_2to2", 500, 500, (0, 0.48), (0.5, 1)),
        ("rho_1to1", 100, 100, (0, 0), (1, 1)),
        ("rho_1to2", 100, 500, (0, 0), (0.5, 1)),
    ],
)
def test_the_shape_of_a_case(family, points_in, points_out, t_in, t_out) -> None:
    case = mfc.sample(family, 0.5, 4)
    prompt = case.prompt
    assert prompt.inputs.values.shape == (4, 5, points_in, 1)
    assert prompt.outputs.values.shape == (4, 5, points_out, 1)
    assert case.target.shape == (4, points_out, 1)
    assert prompt.dtype == torch.float32
    assert [axis.name for axis in prompt.axes] == ["t", "x"]
    for coords, (low, high) in ((prompt.query.coords, t_in), (prompt.at, t_out)):
        assert float(coords[..., 0].min()) == pytest.approx(low)
        assert float(coords[..., 0].max()) == pytest.approx(high)
    assert case.rows["condition"].shape == (4, 100)
    assert (case.target > 0).all()
    pairs = torch.cat([prompt.inputs.values, prompt.query.values.unsqueeze(1)], 1)[0, :, :, 0]
    assert len(torch.unique(pairs, dim=0)) == 6  # six different functions
    assert case.trajectory is None


@pytest.mark.parametrize("family", list(mfc.FAMILIES))
def test_length_touches_only_the_hidden_function(family: str) -> None:
    long, short = (mfc.sample(family, length, 3, dtype=torch.float64) for length in (1.0, 0.1))
    if family != "g_2to2":  # an early density depends on the hidden cost already
        assert torch.allclose(long.prompt.inputs.values, short.prompt.inputs.values, rtol=0, atol=1e-12)
        assert torch.allclose(long.prompt.query.values, short.prompt.query.values, rtol=0, atol=1e-12)
    else:
        at_zero = long.prompt.query.coords[0, :, 0] == 0
        gap = (long.prompt.query.values - short.prompt.query.values).abs()
        assert float(gap[:, at_zero].max()) < 1e-12
        assert float(gap.max()) > 1e-3
    assert np.abs(long.rows["condition"] - short.rows["condition"]).max() > 0.1
    assert float((long.target - short.target).abs().max()) > 0.01


def test_hidden_functions_are_what_the_protocol_says() -> None:
    cost = mfc.sample("g_1to1", 1.0, 50).rows["condition"]
    density = mfc.sample("rho_1to1", 1.0, 50).rows["condition"]
    assert np.abs(cost.mean(-1)).max() < 1e-12
    assert np.abs(density.mean(-1) - 1).max() < 1e-12
    assert (density > 0).all()
    assert 0.5 < cost.std() < 0.9  # a unit field without its mean: 1 - exp(-1) I_0(1) = 0.534


def test_families_show_the_same_operator() -> None:
    """One seed, one set of functions: the families differ only in what they show of it."""
    one, two = (mfc.sample(name, 0.3, 2, dtype=torch.float64) for name in ("g_1to2", "g_2to2"))
    assert torch.equal(one.target, two.target)
    end = mfc.sample("g_1to1", 0.3, 2, dtype=torch.float64)
    last = one.prompt.at[0, :, 0] == 1.0
    assert torch.allclose(one.target[:, last, 0], end.target[:, ::2, 0], rtol=1e-12)


def test_own_sub_grids() -> None:
    grid = SubGrid((0.6, 0.9), (0.1, 0.25, 0.7))
    case = mfc.sample("g_2to2", 0.5, 2, inputs=SubGrid((0.1,), (0.0, 0.5)), outputs=grid)
    assert case.target.shape == (2, 6, 1)
    assert case.prompt.at[0].numpy() == pytest.approx(grid.coords, abs=1e-7)
    assert case.prompt.inputs.values.shape == (2, 5, 2, 1)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"family": "g_3to1"}, "g_1to1, g_1to2, g_2to2, rho_1to1, rho_1to2"),
        ({"length": 0.001}, "length scale"),
        ({"length": -1.0}, "length scale"),
        ({"n": 0}, "n must be a whole number"),
        ({"split": "dev"}, "split"),
        ({"outputs": SubGrid((0.2,), (0.0,))}, "outputs must have times in [0.5, 1.0]"),
    ],
)
def test_bad_settings(arguments: dict[str, object], says: str) -> None:
    with pytest.raises(ProblemError) as caught:
        mfc.sample(**{"n": 1, **arguments})
    assert says in str(caught.value)


def test_bad_functions() -> None:
    flat = np.ones(64)
    with pytest.raises(ProblemError, match="same nodes"):
        hopf_cole(flat, np.ones(32))
    with pytest.raises(ProblemError, match="positive everywhere"):
        hopf_cole(flat, 0 * flat)
    with pytest.raises(ProblemError, match="not finite"):
        hopf_cole(flat * np.nan, flat)
    with pytest.raises(ProblemError, match="floating-point numbers can hold"):
        hopf_cole(1000 * np.cos(np.arange(64)), flat)
    with pytest.raises(ProblemError, match="positive, not"):
        hopf_cole(flat, flat, viscosity=0.0)
    with pytest.raises(ProblemError, match=r"\[0, 1\]"):
        SubGrid((1.5,), (0.0,))
    with pytest.raises(ProblemError, match="at least one"):
        SubGrid((), (0.0,))
    with pytest.raises(ProblemError, match="do not fit"):
        mfc.even_grid((0.5, 1.0), 60, 10)
