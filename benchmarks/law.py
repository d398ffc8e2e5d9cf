"""How well `law` finds an equation from one prompt, as Markdown tables: python benchmarks/law.py

One step and step 144 on the benchmark's own questions, on fluxes that were not used while it was built, with
noise, on truth from other schemes (`other_truth.py`), its time, and PySINDy's weak form on the same six
frames. The latter needs an extra that developers choose: pip install -e ".[compare]"; without it that table
is left out. The benchmark's truth is made by the same kind of scheme that `law` has inside.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from importlib.util import find_spec

import numpy as np
import torch
from torch import Tensor

import chop
from chop.bench.function_answers import questions
from chop.bench.functions import CONDITIONS, FLUXES, rollout_of
from chop.numerics.flux_fit import FluxFit, fit_flux
from chop.operators import law
from chop.problems import conservation
from chop.problems.case import Case
from chop.problems.conservation.sampling import FRAME_STEP, InitialCondition
from chop.problems.random_streams import random_stream
from chop.testing import toy_model
from other_truth import REFINED, averages, viscous_frames, volume_frames

STEPS, BATCH, NOISE = 144, 100, 0.01
UNSEEN = {
    "u**4/4-u**2/2": {"scale": 0.5, "bound": 1.5},
    "sin(2*u)/2+u/3": {},
    "exp(-u**2)": {},
    "u/(1+u**2)": {},
    "sqrt(1+u**2)": {},
    "0.3*u**5": {"scale": 0.5, "bound": 1.5},
    "atan(3*u)": {},
}
"""Fluxes that nothing was tried on before this table; steep ones get values that keep waves on the circle."""
SLOPES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "sin_cos": lambda u: np.cos(u) + np.sin(u),
    "tanh": lambda u: 1 / np.cosh(u) ** 2,
    "buckley_leverett": lambda u: 2 * u * (1 - u) / (u * u + (1 - u) ** 2) ** 2,
}
VALUES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "sin_cos": lambda u: np.sin(u) - np.cos(u),
    "tanh": np.tanh,
    "buckley_leverett": lambda u: u * u / (u * u + (1 - u) ** 2),
}
VISCOSITIES = (0.005, 0.01, 0.02, 0.05)


def table(title: str, columns: Iterable[str], rows: Iterable[Iterable[object]]) -> None:
    columns = list(columns)
    print(f"\n{title}\n\n| {' | '.join(columns)} |\n|{'---|' * len(columns)}", flush=True)
    for row in rows:
        print(f"| {' | '.join(map(str, row))} |", flush=True)


def batches(n: int) -> list[tuple[int, int]]:
    return [(first, min(first + BATCH, n)) for first in range(0, n, BATCH)]


def relative(found: np.ndarray, truth: np.ndarray) -> np.ndarray:
    return np.linalg.norm(found - truth, axis=-1) / np.linalg.norm(truth, axis=-1)


def frames_of(case: Case) -> np.ndarray:
    """The six frames of each prompt and the one that is asked for, ``(n, 7, points)``."""
    prompt = case.prompt
    query = torch.stack([prompt.query.values, case.target], dim=1)
    return torch.cat([prompt.inputs.values, query], dim=1)[..., 0].double().numpy()


# One step, and 144 ---------------------------------------------------------------------------------


def long_errors(case: Case) -> tuple[Tensor, Tensor, Tensor]:
    """Errors of one step, of the last step, and of the flat line at the last step."""
    steps = case.trajectory[:, -STEPS:, :, None]
    run = chop.rollout(law, toy_model, case.prompt, STEPS).values
    flat = case.prompt.query.values.mean(dim=-2, keepdim=True).expand_as(case.target)
    ends = steps[:, 0], steps[:, -1]
    errors = (chop.metrics.rel_l2(run[:, k], end) for k, end in zip((0, -1), ends, strict=True))
    return (*errors, chop.metrics.rel_l2(flat, ends[1]))


def accuracy_row(name: str, cases: Iterable[Case]) -> tuple[object, ...]:
    one, last, flat = (torch.cat(part) for part in zip(*map(long_errors, cases), strict=True))
    return (
        name, len(one), f"{one.mean():.5f}", f"{one.median():.5f}", f"{one.max():.4f}",
        f"{last.mean():.4f}", f"{last.median():.4f}", f"{flat.mean():.4f}",
    )  # fmt: skip


ACCURACY = (
    "flux",
    "trajectories",
    "one step, mean",
    "median",
    "worst",
    "step 144, mean",
    "median",
    "flat line",
)


def benchmark_rows(n: int) -> Iterable[tuple[object, ...]]:
    for name, label in FLUXES.items():
        condition = CONDITIONS[rollout_of(name)]
        yield accuracy_row(label, (questions(condition, *part, 0) for part in batches(n)))


def unseen_rows(n: int) -> Iterable[tuple[object, ...]]:
    for flux, settings in UNSEEN.items():
        parts = batches(n)
        cases = (
            conservation.sample(flux, n=end - first, first=first, steps=STEPS, **settings)
            for first, end in parts
        )
        yield accuracy_row(f"`{flux}`", cases)


# Noise ---------------------------------------------------------------------------------------------


def noise_rows(n: int) -> Iterable[tuple[object, ...]]:
    """The same frame is as noisy as an output as it is as the next input; the target has no noise."""
    for name, label in FLUXES.items():
        frames = frames_of(conservation.sample(name, n=n))
        random = np.random.default_rng(1)
        errors, informed, raw, speeds = [], [], [], []
        for clean in frames:
            spread = np.ptp(clean[:6])
            noisy = clean[:6] + NOISE * spread * random.standard_normal(clean[:6].shape)
            fit, known = fit_flux(noisy[:-1], noisy[1:]), fit_flux(clean[:5], clean[1:6])
            errors.append(relative(fit.advance(noisy[5:])[0], clean[6]))
            informed.append(relative(known.advance(noisy[5:])[0], clean[6]))
            raw.append(relative(noisy[5], clean[5]))
            speeds.append(speed_error(fit, SLOPES[name], clean[:6]))
        means = (f"{np.mean(part):.4f}" for part in (errors, informed, raw))
        yield label, n, *means, f"{np.median(errors):.4f}", f"{np.median(speeds):.1%}"


def speed_error(fit: FluxFit, slope: Callable[[np.ndarray], np.ndarray], frames: np.ndarray) -> float:
    """Root mean square error of f' over the values shown, of the largest |f'| there."""
    levels = fit.levels
    shown = (levels >= frames.min()) & (levels <= frames.max())
    true = FRAME_STEP * slope(levels[shown])
    return float(np.sqrt(np.mean((fit.speeds[shown] - true) ** 2)) / np.abs(true).max())


# Time ----------------------------------------------------------------------------------------------


def time_rows() -> Iterable[tuple[object, ...]]:
    for name, label in FLUXES.items():
        case = questions(replace(CONDITIONS[rollout_of(name)], steps=1), 0, BATCH, 0)
        law.run(toy_model, case.prompt[:1], trace=False)
        taken = []
        for _ in range(2):
            begun = time.process_time()
            law.run(toy_model, case.prompt[:], trace=False)  # other fields each time: nothing is remembered
            taken.append(1e3 * (time.process_time() - begun) / BATCH)
        yield label, f"{min(taken):.0f}"


# Truth from other schemes --------------------------------------------------------------------------


def starts(rows: int, points: int) -> np.ndarray:
    streams = (random_stream("conservation", "test", 1, i) for i in range(rows))
    return np.array([InitialCondition().draw(stream, points) for stream in streams])


def scheme_rows(rows: int) -> Iterable[tuple[object, ...]]:
    for name, label in FLUXES.items():
        fine = volume_frames(VALUES[name], SLOPES[name], starts(rows, 100 * REFINED), FRAME_STEP * times())
        frames = averages(fine)
        fits = [fit_flux(one[:5], one[1:6]) for one in frames]
        found = np.array([fit.advance(one[5:6])[0] for fit, one in zip(fits, frames, strict=True)])
        told = conservation.solve(name, frames[:, 5], [FRAME_STEP], bound=3.5).values[:, 0]
        speeds = [speed_error(fit, SLOPES[name], one) for fit, one in zip(fits, frames, strict=True)]
        errors = (relative(part, frames[:, 6]) for part in (found, told, frames[:, 5]))
        yield label, rows, *(f"{one.mean():.4f}" for one in errors), f"{np.median(speeds):.1%}"


def viscous_rows(rows: int) -> Iterable[tuple[object, ...]]:
    for viscosity in VISCOSITIES:
        frames = averages(viscous_frames(starts(rows, 100 * REFINED), viscosity, FRAME_STEP * times()))
        fits = [fit_flux(one[:5], one[1:6]) for one in frames]
        found = np.array([fit.advance(one[5:6])[0] for fit, one in zip(fits, frames, strict=True)])
        nu = np.array([fit.viscosity for fit in fits]) / FRAME_STEP
        low, middle, high = np.quantile(nu, (0.1, 0.5, 0.9))
        said = np.median([fit.viscosity_uncertainty for fit in fits]) / FRAME_STEP
        speeds = [speed_error(fit, lambda u: u, one) for fit, one in zip(fits, frames, strict=True)]
        error = relative(found, frames[:, 6])
        yield (
            viscosity, rows, f"{middle:.4f}", f"{low:.4f} to {high:.4f}", f"{said:.1e}",
            f"{error.mean():.4f}", f"{np.median(speeds):.1%}",
        )  # fmt: skip


def times() -> np.ndarray:
    return np.arange(7) + 0.5


# Beside PySINDy ------------------------------------------------------------------------------------


def sindy_table(chosen_on: int, n: int) -> None:
    if find_spec("pysindy") is None:
        print('\nPySINDy is not installed: pip install -e ".[compare]" in an environment of its own')
        return
    import sindy

    rows = []
    for name, label in FLUXES.items():
        seen = frames_of(conservation.sample(name, n=chosen_on, split="evolution"))
        setting = sindy.best_setting(seen)
        frames = frames_of(conservation.sample(name, n=n))
        errors = sindy.errors(frames, setting)
        whole = np.isfinite(errors)
        ours = np.array([relative(fit_flux(f[:5], f[1:6]).advance(f[5:6])[0], f[6]) for f in frames])
        rows.append(
            (
                label, n, f"{np.median(ours):.5f}", f"{ours.mean():.5f}", f"{np.median(errors):.3f}",
                f"{errors[whole].mean():.3f}", int((~whole).sum()),
                f"{relative(frames[:, 5], frames[:, 6]).mean():.3f}", setting.words,
            )
        )  # fmt: skip
    table(
        "One step from the same six frames, beside PySINDy's weak form.",
        ("flux", "prompts", "`law`, median", "mean", "PySINDy, median", "mean of what is finite", "blown up",
         "the query itself, mean", "its setting, the best on the evolution split"),
        rows,
    )  # fmt: skip


def benchmark(n: int) -> None:
    table("The benchmark's questions, test split.", ACCURACY, benchmark_rows(n))


def duration(_: int) -> None:
    table("Milliseconds of processor time a prompt, one thread, batches of 100.", ("flux", "ms"), time_rows())


def unseen(n: int) -> None:
    table("Fluxes that were not used while it was built.", ACCURACY, unseen_rows(n))


def noise(n: int) -> None:
    table(
        "Noise of 1 % of the range on all six frames; errors against the frame without noise.",
        ("flux", "prompts", "mean", "law of frames without noise, noisy query", "noise of the query alone",
         "median", "f' off by, median"),
        noise_rows(n),
    )  # fmt: skip


def schemes(n: int) -> None:
    table(
        "Truth from another scheme: finite volumes, minmod, Rusanov, 800 cells averaged to 100, inviscid.",
        ("flux", "prompts", "one step, mean", "the true flux with the benchmark's solver", "the query itself",
         "f' off by, median"),
        scheme_rows(n // 5),
    )  # fmt: skip


def viscous(n: int) -> None:
    table(
        "Burgers' law with viscosity, spectral truth on 800 points averaged to 100.",
        ("viscosity", "prompts", "found, median", "four fifths lie in", "its uncertainty", "one step, mean",
         "f' off by, median"),
        viscous_rows(n // 5),
    )  # fmt: skip


def pysindy(n: int) -> None:
    sindy_table(n // 5, n // 2)


PARTS = (benchmark, duration, unseen, noise, schemes, viscous, pysindy)


def main() -> None:
    names = [part.__name__ for part in PARTS]
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--cases", type=int, default=500, help="trajectories of each benchmark flux")
    arguments.add_argument(
        "--others", type=int, default=100, help="prompts a row of the other tables, at most"
    )
    arguments.add_argument("--only", nargs="+", choices=names, default=names, help="some of the tables")
    given = arguments.parse_args()
    if given.cases < 1 or given.others < 10:
        arguments.error("--cases must be 1 or more, --others 10 or more")
    torch.set_num_threads(1)
    for part in PARTS:
        if part.__name__ in given.only:
            part(given.cases if part is benchmark else given.others)


if __name__ == "__main__":
    main()
