"""Grids that differ from example to example: what nearest neighbours cost, by a tree and by all distances.

    python benchmarks/grids.py

Prints what two programs take on one question whose functions all have their own points: seconds, and how far
the resident memory rose (first, before anything else has raised it). Then the time of one search both ways,
and their ratio.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Callable
from typing import Any

import torch

from chop.core.grids import _by_all, _by_tree
from chop.core.prompt import Field, Prompt
from chop.core.text import parse


def question(points: int, examples: int = 5) -> Prompt:
    random = torch.Generator().manual_seed(points)
    grids = torch.rand(2, examples + 1, points, 2, generator=random, dtype=torch.float64)
    values = torch.sin(6 * grids.sum(dim=-1, keepdim=True)) + torch.rand(
        2, examples + 1, 1, 1, generator=random
    )
    return Prompt(
        Field(grids[0, :-1], values[0, :-1]),
        Field(grids[1, :-1], values[1, :-1]),
        Field(grids[0, -1], values[0, -1]),
        grids[1, -1],
    )


def answer_of_nothing(prompt: Prompt) -> torch.Tensor:
    """A model that costs nothing, so that what is measured is ours."""
    return torch.zeros(prompt.answer_shape, dtype=prompt.dtype)


def seconds(work: Callable[..., Any], *given: Any) -> float:
    begun = time.perf_counter()
    work(*given)
    return time.perf_counter() - begun


def megabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    torch.set_num_threads(1)
    _by_tree(torch.rand(9, 2), torch.rand(9, 2))  # the first search imports scipy
    for text, points in (("correct(icon)", 4096), ("mean_output", 30_000)):
        prompt, before = question(points), megabytes()
        took = seconds(parse(text).run, answer_of_nothing, prompt)
        grown = megabytes() - before
        print(f"{text}, {prompt.examples} examples of {points} points: {took:.2f} s, {grown:.0f} MB")
    print("points  tree     all distances  ratio")
    for points in (512, 2048, 8192):
        source, target = torch.rand(2, points, 2, dtype=torch.float64)
        tree, every = (min(seconds(way, source, target) for _ in range(3)) for way in (_by_tree, _by_all))
        print(f"{points:6} {tree:7.4f} s {every:9.4f} s {every / tree:10.1f}")


if __name__ == "__main__":
    main()
