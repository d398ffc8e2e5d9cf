"""How fast and how exact truth is made: python benchmarks/truth.py [--quick]

1. The compiled conservation-law solver against a straightforward torch WENO3 / RK4 with fixed step
   0.0005, on the same 500 trajectories of sin u - cos u, with the same splitting speed.
2. The Hopf-Cole matrices against direct quadrature of the Hopf-Cole integrals, point by point.
3. Two processes that train (torch) and solve (compiled) at once against one alone.

Parts 1 and 2 run on one core with one thread; every ratio is taken within this one run.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from chop.problems import conservation, mfc
from chop.problems.conservation.sampling import InitialCondition
from chop.problems.mfc.sampling import draw_cost, draw_density, nodes_for
from chop.problems.random_streams import random_stream

FLUX = "sin(u)-cos(u)"
FRAMES = 0.1 * np.arange(1, 8)


def timed(work: Callable[[], object]) -> tuple[object, float]:
    """Processor time: one thread on one core, so the wall time of an idle machine."""
    start = time.process_time()
    result = work()
    return result, time.process_time() - start


# 1. Conservation laws ------------------------------------------------------------------------------


def torch_rhs(u: torch.Tensor, speed: float, dx: float) -> torch.Tensor:
    """-d/dx of the WENO3 flux, the plain way: one tensor operation after the other."""
    flux = torch.sin(u) - torch.cos(u)

    def reconstruct(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
        w0 = (1 / 3) / (1e-6 + (b - a) ** 2) ** 2
        w1 = (2 / 3) / (1e-6 + (c - b) ** 2) ** 2
        return (w0 * (1.5 * b - 0.5 * a) + w1 * (0.5 * b + 0.5 * c)) / (w0 + w1)

    right, left = (flux + speed * u) / 2, (flux - speed * u) / 2
    edge = reconstruct(right.roll(1, -1), right, right.roll(-1, -1))
    edge = edge + reconstruct(left.roll(-2, -1), left.roll(-1, -1), left)
    return -(edge - edge.roll(1, -1)) / dx


def torch_solve(initial: torch.Tensor, times: np.ndarray, speed: float, dt: float) -> torch.Tensor:
    u, t, frames, dx = initial, 0.0, [], 1.0 / initial.shape[-1]
    for end in times:
        for _ in range(round((end - t) / dt)):
            k1 = torch_rhs(u, speed, dx)
            k2 = torch_rhs(u + 0.5 * dt * k1, speed, dx)
            k3 = torch_rhs(u + 0.5 * dt * k2, speed, dx)
            k4 = torch_rhs(u + dt * k3, speed, dx)
            u = u + dt / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        t = end
        frames.append(u)
    return torch.stack(frames, 1)


def initial_conditions(rows: int, points: int) -> np.ndarray:
    streams = (random_stream("conservation", "test", 0, i) for i in range(rows))
    return np.array([InitialCondition().draw(stream, points) for stream in streams])


def conservation_speed(rows: int, checked: int) -> None:
    start = initial_conditions(rows, 100)
    speed = float(conservation.Flux.parse(FLUX).speed((-3.0, 3.0))[0])
    conservation.solve(FLUX, start[:1], FRAMES[:1])  # compile, or load what was compiled
    ours, fast = timed(lambda: conservation.solve(FLUX, start, FRAMES, speed=speed).values)
    theirs, slow = timed(lambda: torch_solve(torch.from_numpy(start), FRAMES, speed, 5e-4).numpy())
    fine = conservation.solve(FLUX, initial_conditions(checked, 1600), FRAMES, bound=3.001).values[..., ::16]
    still = conservation.solve(FLUX, start[:checked], FRAMES, speed=speed, cfl=0.02).values

    def error(values: object, reference: np.ndarray) -> float:
        return float(np.abs(np.asarray(values)[:checked] - reference).mean())

    print(f"conservation laws, {rows} trajectories x {len(FRAMES)} frames of {FLUX}, speed {speed:.4f}")
    print(f"  compiled WENO3 / SSP-RK3          {fast:8.3f} s")
    print(f"  torch WENO3 / RK4, step 0.0005    {slow:8.3f} s   ratio {slow / fast:.1f}")
    print("  mean |error| against 1600 points, and of time stepping alone (same grid, 25 times the steps):")
    print(f"    compiled  {error(ours, fine):.6e}   {error(ours, still):.2e}")
    print(f"    torch     {error(theirs, fine):.6e}   {error(theirs, still):.2e}")
    shifts = np.abs(np.asarray(ours).mean(-1) - start.mean(-1)[:, None]).max()
    print(f"  largest change of a mean: {shifts:.1e}")


# 2. Mean-field control -----------------------------------------------------------------------------


def quadrature(cost: np.ndarray, density: np.ndarray, grid: mfc.SubGrid) -> np.ndarray:
    """rho = psi * eta with both Hopf-Cole integrals summed for each point, as they are written."""
    c, mu, nodes = 20.0, 0.02, len(cost)
    y = np.arange(nodes) / nodes
    psi_end = np.exp(-cost / (2 * c * mu))

    def kernel(t: float, x: float) -> np.ndarray:
        if t == 0:
            return np.where(np.abs(x - y) < 1e-12, float(nodes), 0.0)
        images = x - y[:, None] + np.arange(-4, 5)
        return np.exp(-(images**2) / (4 * mu * t)).sum(1) / np.sqrt(4 * np.pi * mu * t)

    def psi(t: float, x: float) -> float:
        return float((kernel(1 - t, x) * psi_end).mean())

    eta_start = density / np.array([psi(0.0, x) for x in y])
    return np.array([psi(t, x) * (kernel(t, x) * eta_start).mean() for t, x in grid.coords])


def control_speed(operators: int, slow_pairs: int) -> None:
    grid, nodes = mfc.even_grid((0.5, 1.0)), nodes_for(0.5)
    rng = np.random.default_rng(0)
    costs = np.array([draw_cost(0.5, rng, nodes) for _ in range(operators)])[:, None]
    densities = np.array([[draw_density(1.0, rng, nodes) for _ in range(6)] for _ in range(operators)])
    mfc.hopf_cole(costs[0], densities[0]).density(grid)
    ours, fast = timed(lambda: mfc.hopf_cole(costs, densities).density(grid))
    fast /= operators * 6
    # The plain way gets a node set that puts the points among the nodes, and is as fine.
    coarse, plain = 300, []
    chosen = [(i, j) for i in range(operators) for j in range(6)][:slow_pairs]
    resampled = [(resample(costs[i, 0], coarse), resample(densities[i, j], coarse)) for i, j in chosen]

    def direct() -> None:
        plain.extend(quadrature(g, rho, grid) for g, rho in resampled)

    slow = timed(direct)[1] / len(chosen)
    fine = [
        mfc.hopf_cole(resample(costs[i, 0], 2048), resample(densities[i, j], 2048)).density(grid)
        for i, j in chosen
    ]
    mine = max(
        np.abs(np.asarray(ours)[i, j] - exact).max() for (i, j), exact in zip(chosen, fine, strict=True)
    )
    other = max(np.abs(a - b).max() for a, b in zip(plain, fine, strict=True))
    print(f"mean-field control, rho on {len(grid)} points of [1/2, 1] x circle, length scale 0.5")
    print(
        f"  matrices, {operators} operators x 6 pairs {fast * 1e3:8.4f} ms per solution ({1 / fast:,.0f}/s)"
    )
    print(f"  quadrature, point by point     {slow * 1e3:8.2f} ms per solution   ratio {slow / fast:.0f}")
    print(f"  largest |error| against 2048 nodes: matrices {mine:.1e}, quadrature {other:.1e}")


def resample(values: np.ndarray, nodes: int) -> np.ndarray:
    """The same band-limited function at other nodes."""
    spectrum = np.fft.rfft(values) / len(values)
    padded = np.zeros(nodes // 2 + 1, dtype=complex)
    keep = min(len(spectrum), len(padded)) - 1
    padded[:keep] = spectrum[:keep]
    return np.fft.irfft(padded * nodes, nodes)


# 3. Two processes at once --------------------------------------------------------------------------


def worker(seconds: float) -> None:
    """Train and solve in turns; print the median wall and processor time of each, in milliseconds.

    Processor time counts every thread of this process: threads that spin show there, and other people's
    work on the same machine does not.
    """
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(128, 4, 256, batch_first=True)
    optimizer = torch.optim.AdamW(layer.parameters())
    tokens, start = torch.randn(96, 20, 128), initial_conditions(20, 100)

    def train() -> None:
        optimizer.zero_grad()
        layer(tokens).square().mean().backward()
        optimizer.step()

    def solve() -> None:
        conservation.solve(FLUX, start, FRAMES)

    solve()
    print("ready", flush=True)
    sys.stdin.readline()
    taken, end = [], time.perf_counter() + seconds
    while time.perf_counter() < end:
        marks = [(time.perf_counter(), time.process_time())]
        for work in (train, solve):
            work()
            marks.append((time.perf_counter(), time.process_time()))
        taken.append(np.diff(marks, axis=0))
    print(json.dumps((1e3 * np.median(taken, axis=0)).tolist()), flush=True)


def together(count: int, seconds: float) -> np.ndarray:
    command = [sys.executable, __file__, "--worker", str(seconds)]
    started = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(count)
    ]
    for process in started:
        assert process.stdout is not None
        process.stdout.readline()
    for process in started:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    return np.array([json.loads(process.communicate()[0]) for process in started]).mean(0)


def background() -> float:
    """How many cores are busy with something else, over one second (Linux)."""

    def ticks() -> np.ndarray:
        line = Path("/proc/stat").read_text().splitlines()[0]
        return np.array(line.split()[1:], dtype=float)

    before = ticks()
    time.sleep(1.0)
    spent = ticks() - before
    return float((1 - (spent[3] + spent[4]) / spent.sum()) * (os.cpu_count() or 1))


def two_processes(seconds: float) -> None:
    cores = len(os.sched_getaffinity(0))
    print(f"two processes that train and solve at once, {cores} cores, one thread each")
    if cores < 2:
        print("  needs two cores")
        return
    rounds, loads = [], []
    for _ in range(3):
        loads.append(background())
        rounds.append((together(1, seconds), together(2, seconds)))
    alone, both = (np.median([pair[i] for pair in rounds], axis=0) for i in range(2))
    for name, one, two in zip(("training step", "solving 20 trajectories"), alone, both, strict=True):
        for kind, x, y in zip(("wall", "processor"), one, two, strict=True):
            print(
                f"  {name:24s}{kind:10s} alone {x:7.2f} ms, two at once {y:7.2f} ms each, ratio {y / x:.2f}"
            )
    print(f"  cores busy with other work meanwhile: {', '.join(f'{load:.1f}' for load in loads)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="smaller, to see that it runs")
    parser.add_argument("--worker", type=float, help=argparse.SUPPRESS)
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.worker:
        worker(options.worker)
        return
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cores)})
    conservation_speed(*((50, 10) if options.quick else (500, 100)))
    control_speed(*((10, 1) if options.quick else (100, 4)))
    os.sched_setaffinity(0, cores)
    two_processes(1.0 if options.quick else 5.0)


if __name__ == "__main__":
    main()
