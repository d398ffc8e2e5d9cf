"""A flux from pairs of frames: the solver's tangents, and laws that are known."""

import math

import numpy as np
import pytest

from chop.numerics import flux_fit
from chop.numerics.flux_fit import (
    COEFFICIENTS,
    PARAMETERS,
    FluxFit,
    cyclic_shift,
    fit_flux,
    frame_step,
    spline_basis,
)
from chop.problems.conservation.solver import solve

POINTS = np.arange(50) / 50


def waves(rows, seed=0):
    """Smooth frames whose values span [0, 1] or nearly."""
    random = np.random.default_rng(seed)
    made = [np.sin(2 * np.pi * (POINTS + random.random())) for _ in range(rows)]
    made = [wave + 0.3 * np.sin(4 * np.pi * (POINTS + random.random())) for wave in made]
    return 0.5 + np.array(made) / 2.6


def curved(seed=0):
    """Parameters of a law whose speed rises and falls."""
    random = np.random.default_rng(seed)
    speeds = 0.08 * np.sin(np.linspace(0, 4, COEFFICIENTS)) + 0.005 * random.standard_normal(COEFFICIENTS)
    return np.append(speeds, [math.log(0.115), 0.0])


def known(theta, lowest=0.0, spread=1.0):
    return FluxFit(lowest, spread, theta, 1.0, 0.0, np.zeros((PARAMETERS, PARAMETERS)))


def spreading(waves, viscosity, speed=0.0):
    """Waves a frame later by u_t + speed u_x = viscosity u_xx, exactly."""
    k = 2 * np.pi * np.fft.rfftfreq(waves.shape[-1], 1 / waves.shape[-1])
    return np.fft.irfft(np.fft.rfft(waves) * np.exp(-viscosity * k**2 - 1j * speed * k), waves.shape[-1])


def hopf_cole(viscosity, frames, points=100):
    """Frames of Burgers' law u_t + (u^2/2)_x = viscosity u_xx, exactly: -2 viscosity (log phi)_x."""
    x = np.arange(points) / points
    made = []
    for t in range(frames):
        phi, slope = np.ones(points), np.zeros(points)
        for k, size, phase in ((1, 0.75, 0.3), (2, 0.2, 1.1)):
            size *= math.exp(-viscosity * (2 * np.pi * k) ** 2 * t)
            phi += size * np.cos(2 * np.pi * k * x + phase)
            slope -= size * 2 * np.pi * k * np.sin(2 * np.pi * k * x + phase)
        made.append(-2 * viscosity * slope / phi)
    return np.array(made)


def test_splines_are_a_partition_and_give_back_straight_lines():
    values = np.linspace(0, 1, 33)
    basis = spline_basis(values)
    np.testing.assert_allclose(basis.sum(axis=1), 1, atol=1e-15)
    ends = -flux_fit.MARGIN, 1 + flux_fit.MARGIN
    width = (ends[1] - ends[0]) / (COEFFICIENTS - 3)
    np.testing.assert_allclose(basis @ (ends[0] + width * (np.arange(COEFFICIENTS) - 1)), values, atol=1e-15)


def test_beyond_the_range_splines_stay_as_they_end():
    far, end = spline_basis(np.array([-7.0, 7.0])), spline_basis(np.array([-0.1, 1.1]))
    np.testing.assert_array_equal(far, end)


@pytest.mark.parametrize(
    ("beyond", "speed", "viscosity"),
    [(0.0, 0.115, 0.0), (0.4, 0.115, 0.0), (0.0, 0.03, 0.0), (0.0, 0.115, 0.1)],
)
def test_tangents_are_finite_differences(beyond, speed, viscosity):
    """Also where values leave the range of the spline, and where f' is faster than the splitting."""
    frames, theta = waves(2) + beyond, np.append(curved()[:-2], [math.log(speed), viscosity])
    _, slopes = frame_step(frames, theta, tangents=True)
    for k in range(PARAMETERS if viscosity else PARAMETERS - 1):
        nudge = 1e-6 * np.eye(PARAMETERS)[k]
        ahead, behind = (frame_step(frames, theta + sign * nudge, tangents=False)[0] for sign in (1, -1))
        np.testing.assert_allclose(slopes[:, k], (ahead - behind) / 2e-6, atol=1e-7)
    assert np.abs(slopes).max() > 0.3


def test_one_step_is_that_of_the_benchmarks_solver(monkeypatch):
    """A straight speed is Burgers' law; WENO's floor is in units of the speed here, of the flux there."""
    monkeypatch.setattr(flux_fit, "SMOOTHNESS_FLOOR", 1e-6 / 1.1**2)
    ends = -flux_fit.MARGIN, 1 + flux_fit.MARGIN
    width = (ends[1] - ends[0]) / (COEFFICIENTS - 3)
    speeds = 0.1 * (ends[0] + width * (np.arange(COEFFICIENTS) - 1))
    frames = waves(3)
    got, _ = frame_step(frames, np.append(speeds, [math.log(0.11), 0.0]), tangents=False)
    want = solve("u**2/2", frames, [0.1], speed=1.1).values[:, 0]
    np.testing.assert_allclose(got, want, atol=1e-12)
    assert np.abs(want - frames).max() > 0.1


def test_a_known_law_is_found_again():
    """Its own frames, in other units: speeds, dissipation and the next frame."""
    theta, first = curved(), waves(1)
    frames = [(first - first.min()) / (first.max() - first.min())]  # so that both have the same knots
    for _ in range(5):
        frames.append(frame_step(frames[-1], theta, tangents=False)[0])
    units = 3.0 * np.concatenate(frames) - 7.0
    fit = fit_flux(units[:-2], units[1:-1])
    assert fit.residual < 2e-5
    np.testing.assert_allclose(fit.levels, np.linspace(-7, -4, 25))
    np.testing.assert_allclose(fit.speeds, known(theta).speeds, atol=3e-4)
    assert fit.dissipation == pytest.approx(0.115, rel=1e-3)
    np.testing.assert_allclose(fit.advance(units[-2:-1]), units[-1:], atol=5e-5)


def test_a_scheme_that_smears_more_than_its_waves_need_is_found_too():
    theta = curved()
    theta[COEFFICIENTS] = math.log(2.3)
    before = waves(3)
    after, _ = frame_step(before, theta, tangents=False)
    found = fit_flux(before, after)
    assert found.dissipation == pytest.approx(2.3, rel=0.05)
    assert found.residual < 1e-4 * (after.max() - after.min())
    capped = np.copy(found.theta)
    capped[COEFFICIENTS] = 0.0  # a circle a frame, where the search for speeds ends
    off = frame_step(before, capped, tangents=False)[0] - frame_step(before, found.theta, tangents=False)[0]
    assert np.sqrt(np.square(off).mean()) > 10 * found.residual


def test_advection_is_a_shift():
    """Three points a step, so that the exact answer lies on the grid; no law is named."""
    frames = waves(6)
    fit = fit_flux(frames, np.roll(frames, 3, axis=1))
    np.testing.assert_allclose(fit.speeds, 3 / 50, atol=2e-3)
    assert fit.dissipation >= (1 - 1e-12) * fit.speeds.max()
    query = waves(1, seed=9)
    np.testing.assert_allclose(fit.advance(query), np.roll(query, 3, axis=1), atol=0.02)


def test_long_forecasts_stay_within_the_values_they_began_with():
    frames = waves(6)
    fit = fit_flux(frames, np.roll(frames, 3, axis=1))
    now = waves(1, seed=9)
    low, high = now.min(), now.max()
    for _ in range(300):
        now = fit.advance(now)
    assert low - 1e-3 <= now.min() <= now.max() <= high + 1e-3


def test_uncertainty_covers_noise():
    """With noise on the outputs f' is off by about what it says, and less smoothness is bought."""
    theta, frames = curved(), waves(6)
    after, _ = frame_step(frames, theta, tangents=False)
    noisy = fit_flux(frames, after + 0.01 * np.random.default_rng(1).standard_normal(after.shape))
    clean = fit_flux(frames, after)
    assert noisy.residual == pytest.approx(0.01, rel=0.2)
    assert noisy.penalty > clean.penalty
    off = np.abs(noisy.speeds - spline_basis(noisy.levels) @ theta[:COEFFICIENTS])[3:-3]
    assert (off < 4 * noisy.uncertainty[3:-3] + 2e-3).all()
    assert noisy.uncertainty.mean() > 3 * clean.uncertainty.mean()


@pytest.mark.parametrize("viscosity", [0.0, 1e-4, 2e-3])
def test_viscosity_is_found_again(viscosity):
    """Waves that travel and spread, exactly: where nothing spreads, none is made up."""
    frames = waves(6)
    fit = fit_flux(frames, spreading(frames, viscosity, speed=0.06))
    assert fit.viscosity == pytest.approx(viscosity, rel=0.03, abs=2e-5)
    np.testing.assert_allclose(fit.speeds, 0.06, atol=2e-3)
    query = waves(1, seed=9)
    np.testing.assert_allclose(fit.advance(query), spreading(query, viscosity, speed=0.06), atol=0.02)


def test_viscous_burgers_by_hopf_and_cole():
    frames = hopf_cole(2e-3, 7)
    fit = fit_flux(frames[:5], frames[1:6])
    assert fit.viscosity == pytest.approx(2e-3, rel=0.01)
    assert 0 < fit.viscosity_uncertainty < 1e-4
    np.testing.assert_allclose(fit.speeds, fit.levels, atol=1e-3)  # f' = u
    np.testing.assert_allclose(fit.flux, (fit.levels**2 - fit.levels[0] ** 2) / 2, atol=2e-5)
    np.testing.assert_allclose(fit.advance(frames[5:6]), frames[6:], atol=1e-3 * np.abs(frames).max())
    assert np.abs(frames[6] - frames[5]).max() > 0.02 * np.abs(frames).max()


def test_a_viscous_step_is_exact_to_the_scheme_and_keeps_the_mean():
    still = np.append(np.zeros(COEFFICIENTS), [math.log(1e-3), 0.5])  # 0.5 hundredths of a squared circle
    after = known(still).advance(waves(4))
    np.testing.assert_allclose(after, spreading(waves(4), 0.005), atol=2e-3)
    np.testing.assert_allclose(after.mean(axis=1), waves(4).mean(axis=1), rtol=0, atol=1e-14)


def test_the_flux_is_the_integral_of_the_speeds():
    fit, fine = known(curved(), lowest=-2.0, spread=3.0), np.linspace(0, 1, 24 * 200 + 1)
    speeds = spline_basis(fine) @ curved()[:COEFFICIENTS]
    steps = (speeds[1:] + speeds[:-1]) / 2 * np.diff(fine)
    want = 3.0 * np.concatenate([[0.0], np.cumsum(steps)])[::200]
    np.testing.assert_allclose(fit.flux, want, atol=1e-8)
    assert fit.flux[0] == 0


def test_the_flux_is_as_certain_as_its_speeds():
    """One speed for all values, known to 0.01: f is known to 0.01 times the way from the lowest."""
    covariance = np.zeros((PARAMETERS, PARAMETERS))
    covariance[:COEFFICIENTS, :COEFFICIENTS] = 1e-4
    fit = FluxFit(0.0, 2.0, curved(), 1.0, 0.0, covariance)
    np.testing.assert_allclose(fit.uncertainty, 0.01, rtol=1e-9)
    np.testing.assert_allclose(fit.flux_uncertainty, 0.01 * fit.levels, atol=1e-12)


def test_the_mean_stays():
    after = known(curved()).advance(waves(4))
    np.testing.assert_allclose(after.mean(axis=1), waves(4).mean(axis=1), rtol=0, atol=1e-14)


def test_pairs_without_differences_show_no_motion():
    flat = np.full((3, 8), 2.5)
    query = np.arange(8.0)[None]
    np.testing.assert_array_equal(fit_flux(flat, flat).advance(query), query)


def test_what_is_not_finite_stays_so():
    frames = waves(3)
    broken = frames.copy()
    broken[1, 4] = np.nan
    assert np.isnan(fit_flux(broken, frames).advance(frames)).all()
    query = frames[:1].copy()
    query[0, 4] = np.nan
    assert np.isnan(known(curved()).advance(query)).any()
    huge = np.where(np.eye(3, 50) > 0, np.inf, frames)
    assert np.isnan(fit_flux(frames, huge).advance(frames)).all()


@pytest.mark.parametrize("shift", [-12, -3, 0, 7, 12])
def test_cyclic_shift(shift):
    (wave,) = waves(1)
    assert cyclic_shift(wave, np.roll(wave, shift)) == shift / 50
