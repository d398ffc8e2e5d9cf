"""One question: D example pairs, a query, and the points where the answer is wanted."""

from dataclasses import dataclass, replace

import numpy as np

DEFAULT_AXES = {
    1: [("x", 1.0)],
    2: [("t", None), ("x", 1.0)],
    3: [("t", None), ("lon", None), ("lat", None)],
}


@dataclass(eq=False)
class Question:
    """A single unbatched prompt; times are those of x_1..x_D and x_*, an output is one later."""

    xs: list  # D arrays (n, c_in)
    x_coords: list  # D arrays (n, k)
    ys: list  # D arrays (m, c_out)
    y_coords: list  # D arrays (m, k)
    y_masks: list | None  # D bool arrays (m, c_out), True = observed; None = all observed
    query: np.ndarray  # (n, c_in)
    query_coords: np.ndarray  # (n, k)
    at: np.ndarray  # (m, k)
    edges: list | None = None  # (a, b) pairs of output points, undirected
    times: list | None = None  # D + 1 integers; None = 0..D
    axes: list | None = None  # k pairs (name, period or None); None = the defaults

    def __post_init__(self):
        if self.y_masks is None:
            self.y_masks = [np.ones(np.shape(y), dtype=bool) for y in self.ys]
        if self.times is None:
            self.times = list(range(len(self.xs) + 1))
        if self.axes is None:
            self.axes = DEFAULT_AXES[np.shape(self.at)[1]]
        for name in ("xs", "x_coords", "ys", "y_coords"):
            setattr(self, name, [np.asarray(array, dtype=float) for array in getattr(self, name)])
        for name in ("query", "query_coords", "at"):
            setattr(self, name, np.asarray(getattr(self, name), dtype=float))
        self.y_masks = [np.asarray(mask, dtype=bool) for mask in self.y_masks]
        self.times = [int(time) for time in self.times]

    @property
    def D(self):
        """The number of example pairs."""
        return len(self.xs)

    @property
    def c_out(self):
        """The number of output channels."""
        return self.ys[0].shape[1]


def take_pairs(question, kept, h):
    """The question that shows the pairs `kept`, in that order, and asks x_h at the points of y_h."""
    return replace(
        question,
        xs=[question.xs[j] for j in kept],
        x_coords=[question.x_coords[j] for j in kept],
        ys=[question.ys[j] for j in kept],
        y_coords=[question.y_coords[j] for j in kept],
        y_masks=[question.y_masks[j] for j in kept],
        query=question.xs[h],
        query_coords=question.x_coords[h],
        at=question.y_coords[h],
        times=[question.times[j] for j in kept] + [question.times[h]],
    )


def held_out(question, pad, gap=0):
    """The D held-out questions: number h hides pair h and the `gap` pairs stored after it.

    The remaining pairs keep their order and are repeated from the first until there are D of them
    (pad=True) or D - 1 (pad=False).
    """
    D = question.D
    size = D if pad else D - 1
    questions = []
    for h in range(D):
        remaining = [j for j in range(D) if j < h or j > h + gap]
        if not remaining:
            raise ValueError(f"no pair remains when pair {h} of {D} is hidden with gap {gap}")
        kept = [remaining[i % len(remaining)] for i in range(size)]
        questions.append(take_pairs(question, kept, h))
    return questions


def visible_values(question):
    """v_vis: every sampled value of the example inputs, example outputs and query, in one vector."""
    fields = [*question.xs, *question.ys, question.query]
    return np.concatenate([field.ravel() for field in fields])


def time_axis(question):
    """The position of the axis named "t", or None."""
    names = [name for name, _ in question.axes]
    return names.index("t") if "t" in names else None
