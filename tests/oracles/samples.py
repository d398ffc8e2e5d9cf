"""Small random questions and toy models to try the oracles on."""

from dataclasses import replace

import numpy as np

from .grids import resample
from .prompt import Question


def order_sensitive_model(question):
    """A nonlinear answer that depends on every pair, on their order and number, and on the query."""
    result = np.zeros((len(question.at), question.c_out))
    for j in range(question.D):
        x = resample(question.x_coords[j], question.query_coords, question.xs[j])
        similarity = np.exp(-np.mean((x - question.query) ** 2)) / (j + 2.0)
        result += similarity * resample(question.y_coords[j], question.at, question.ys[j])
    query = resample(question.query_coords, question.at, question.query)
    return np.tanh(result) + 0.3 * np.sin(query.mean(axis=1, keepdims=True)) + 0.05 * question.D


def constant_model(value):
    """A model that answers `value` everywhere."""
    return lambda question: np.full((len(question.at), question.c_out), float(value))


def line(n):
    """The periodic grid of n points on [0, 1)."""
    return np.arange(n)[:, None] / n


def on_one_grid(xs, ys, query, coords, masks=None, **extra):
    """All functions on the grid `coords`."""
    D = len(xs)
    return Question(xs, [coords] * D, ys, [coords] * D, masks, query, coords, coords, **extra)


def single_points(xs, ys, query, masks=None):
    """One point, one channel, D pairs of numbers."""

    def column(v):
        return np.array([[float(v)]])

    masks = None if masks is None else [np.array([[m]]) for m in masks]
    return on_one_grid(
        [column(x) for x in xs], [column(y) for y in ys], column(query), np.zeros((1, 1)), masks
    )


def travelling(seed, D=5, n=17, c=1, speed=2, noise=0.1):
    """D + 1 consecutive frames of a profile that moves by `speed` points per step."""
    rng = np.random.default_rng(seed)
    field = rng.normal(size=(n, c)).cumsum(axis=0)
    frames = [np.roll(field, speed * t, axis=0) + noise * rng.normal(size=(n, c)) for t in range(D + 1)]
    return on_one_grid(frames[:-1], frames[1:], frames[-1], line(n))


def scattered(seed, D=4, k=2, nonnegative=False, noise=0.3, m=7, c_in=2, c_out=3):
    """Every grid is its own, inputs and outputs differ in size and channels."""
    rng = np.random.default_rng(seed)
    n = 9
    phase, sign = rng.random(c_out), np.abs if nonnegative else np.positive
    y_coords = [rng.random((m, k)) for _ in range(D)]
    shapes = [np.sin(3 * (coords.sum(axis=1, keepdims=True) + phase)) + 0.5 for coords in y_coords]
    return Question(
        xs=[sign(rng.normal(size=(n, c_in))) for _ in range(D)],
        x_coords=[rng.random((n, k)) for _ in range(D)],
        ys=[sign(shape + noise * rng.normal(size=(m, c_out))) for shape in shapes],
        y_coords=y_coords,
        y_masks=None,
        query=sign(rng.normal(size=(n, c_in))),
        query_coords=rng.random((n, k)),
        at=rng.random((m, k)),
    )


def stations(seed, D=5, S=6, T=4, c=4):
    """Windows of T frames over S stations, one of them isolated in the graph."""
    rng = np.random.default_rng(seed)
    places = rng.random((S, 2))
    window = np.concatenate([np.column_stack([np.full(S, float(t)), places]) for t in range(T)])
    out = np.column_stack([np.full(S, float(T)), places])
    xs = [rng.normal(size=(S * T, c)) for _ in range(D + 1)]
    ys = [x[-S:] * 0.7 + 0.4 * rng.normal(size=(S, c)) + 0.5 for x in xs[:-1]]
    edges = [(0, 1), (1, 2), (2, 0), (1, 0), (3, 4)]
    return Question(xs[:-1], [window] * D, ys, [out] * D, None, xs[-1], window, out, edges=edges)


def masked(question, seed, share=0.6):
    """The question with about `share` of its output values observed."""
    rng = np.random.default_rng(seed)
    return replace(question, y_masks=[rng.random(y.shape) < share for y in question.ys])
