"""Training of networks of functions: batches, their loss, and the errors that a run is judged by.

Batches are made while training runs: batch ``number`` is always the same.

Each operator of a batch brings six pairs, and every pair is predicted from the others, so one batch gives
six full-shot predictions of each operator. Which pairs a prediction may see is said by counts: never the
asked one, in a consecutive window not the following one either (it shows the answer as its input), and
now and then only a few, so that the network learns to work with any number of examples.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from chop.core.metrics import rel_l2
from chop.icon.functions.network import Icon
from chop.numerics import Array
from chop.problems import conservation, mfc
from chop.problems.case import Case
from chop.problems.conservation.sampling import FRAME_STEP, GRID, InitialCondition
from chop.problems.conservation.training import draw_pairs, solve_cubics
from chop.problems.random_streams import random_stream

PAIRS = 6
VALIDATION_STREAM = 20_000_001
"""The seed of the questions that judge a run."""


@dataclass(frozen=True, eq=False)
class Batch:
    """B operators with P pairs each: values ``(B, P, n, c)``, coordinates, counts ``(B, P, P)``."""

    x: Tensor
    x_at: Tensor
    y: Tensor
    y_at: Tensor
    counts: Tensor
    name: str = ""


def visible_pairs(stream: np.random.Generator, window: Array, few: float = 0.3) -> Tensor:
    """Counts for operators that are consecutive windows or not; a share ``few`` sees 1 to 4 pairs."""
    size = len(window)
    seen = np.broadcast_to(1 - np.eye(PAIRS), (size, PAIRS, PAIRS)).copy()
    seen[window] -= np.eye(PAIRS, k=1)
    rank = stream.random((size, PAIRS, PAIRS)) * np.where(seen > 0, 1.0, np.inf)
    keep = np.where(stream.random((size, 1)) < few, stream.integers(1, PAIRS - 1, (size, PAIRS)), PAIRS)
    order = np.argsort(np.argsort(rank, axis=-1), axis=-1)
    return torch.from_numpy(np.where(order < keep[..., None], seen, 0.0).astype(np.float32))


@dataclass(frozen=True)
class ConservationBatches:
    """The cubic family, half random pairs of one flux, half consecutive windows.

    Truth costs more time than a training step, so each solved flux is used about ``turns`` times, among
    ``keep`` blocks of others, in ever different pairs and in one of four guises: the equation keeps its
    form under x -> -x with f -> -f and under u -> -u with f(u) -> -f(-u), both within the training
    distribution, and under shifts of x.
    """

    size: int = 16
    seed: int = 0
    split: str = "train"
    fluxes: int = 16
    trajectories: int = 6
    frames: int = 16
    keep: int = 32
    turns: int = 48

    def __call__(self, number: int) -> Batch:
        stream = random_stream("conservation stream", self.split, self.seed, number, 7)
        newest = self.keep // 4 + number * self.size // (self.fluxes * self.turns)
        oldest = max(0, newest - self.keep + 1)
        window = np.arange(self.size) % 2 == 1
        functions = [self._operator(stream, oldest, newest, bool(kind)) for kind in window]
        x, y = (torch.from_numpy(np.stack(part)).unsqueeze(-1) for part in zip(*functions, strict=True))
        coords = (torch.arange(GRID, dtype=torch.float64) / GRID).float()[:, None].expand(*x.shape)
        return Batch(x, coords, y, coords, visible_pairs(stream, window), "conservation")

    def _operator(
        self, stream: np.random.Generator, oldest: int, newest: int, window: bool
    ) -> tuple[Array, Array]:
        """Six pairs ``(6, 100)`` of one flux of the blocks at hand."""
        block = _solved(self, int(stream.integers(oldest, newest + 1)))
        frames = block[stream.integers(self.fluxes)]
        rows, starts = draw_pairs(stream, frames, PAIRS, window)
        shifts = np.full(PAIRS, stream.integers(GRID)) if window else stream.integers(0, GRID, PAIRS)
        sign, turn = 1 - 2 * stream.integers(0, 2, 2)
        places = (turn * np.arange(GRID) + shifts[:, None]) % GRID
        x, y = (np.take_along_axis(frames[rows, s], places, axis=-1) for s in (starts, starts + 1))
        return np.float32(sign) * x, np.float32(sign) * y


@lru_cache(maxsize=64)
def _solved(settings: ConservationBatches, number: int) -> Array:
    """Block ``number``: frames (fluxes, trajectories, frame, 100), float32."""
    stream = random_stream("conservation stream", settings.split, settings.seed, number, 8)
    rows = settings.fluxes * settings.trajectories
    coefficients = stream.uniform(-1, 1, (settings.fluxes, 3))
    starts = stream.uniform(0, FRAME_STEP, rows)
    initial = np.array([InitialCondition().draw(stream, GRID) for _ in range(rows)])
    return solve_cubics(coefficients, initial, starts, FRAME_STEP, settings.frames)


@dataclass(frozen=True)
class MfcBatches:
    """The five families in turn, functions of (t, x) on sub-grids from 10 x 10 to 10 x 50.

    Most sub-grids have 100 points in few or many rows, so that a batch costs the same whatever the
    spacing; the large ones come with fewer operators. Rows are spread evenly over the time window or
    drawn at random, points are spread evenly with a random offset (or, few of them, at random).
    """

    size: int = 16
    seed: int = 0
    split: str = "train"
    grids: tuple[tuple[int, int], ...] = (
        (2, 50), (10, 10), (4, 25), (10, 50), (2, 50), (5, 20), (2, 50), (10, 50),
    )  # fmt: skip

    def __call__(self, number: int) -> Batch:
        times, points = self.grids[number // len(mfc.FAMILIES) % len(self.grids)]
        size = self.size if times * points <= 100 else max(1, self.size // 3)
        case = mfc.MfcStream(
            batch=size, seed=self.seed, split=self.split, times=times, points=points, spacing="rows"
        ).case(number)
        stream = random_stream("mfc stream", self.split, self.seed, number, 7)
        first, second = case.pairs()
        counts = visible_pairs(stream, np.zeros(size, dtype=bool))
        return Batch(first.values, first.coords, second.values, second.coords, counts, case.meta["family"])


def function_loss(network: Icon, batch: Batch) -> Tensor:
    """Mean over predictions of the root mean square error relative to the answer's own size."""
    memory = network.encode(batch.x, batch.x_at, batch.y, batch.y_at)
    answer = network.decode(memory, batch.x, batch.x_at, batch.y_at, batch.counts)
    error = (answer - batch.y).square().mean(dim=(-1, -2))
    size = batch.y.square().mean(dim=(-1, -2))
    return ((error + 1e-6).sqrt() / (size + 0.02).sqrt()).mean()


def function_errors(
    network: Icon, batches: ConservationBatches | MfcBatches, small: bool = False
) -> dict[str, float]:
    """Mean relative L2 error on questions of the training distribution that are never trained on, by name."""
    found = {}
    with torch.inference_mode():
        for name, case in _validation(isinstance(batches, MfcBatches), small).items():
            found[name] = round(float(rel_l2(network(case.prompt), case.target).mean()), 6)
    return found


@lru_cache(maxsize=8)
def _validation(control: bool, small: bool) -> dict[str, Case]:
    """Cases by name. Their random streams are others than those of the training batches."""
    seed, split = VALIDATION_STREAM, "train"
    if control:
        n = 4 if small else 40
        return {name: mfc.sample(name, 1.0, n, seed=seed, split=split) for name in mfc.FAMILIES}
    return {"conservation": conservation.sample("cubic", 8 if small else 200, seed=seed, split=split)}
