"""What `chop.inspect` finds in the benchmark's own questions, and how often it claims what is false.

`python benchmarks/facts.py` prints two Markdown tables. The first has a row for each fact and a column for
each condition: the share of prompts that show it and the median of its number, "-" where it does not apply.
The second has facts that are false by construction, and in how many prompts they are claimed all the same.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

import chop
from chop import Axis, Field, Prompt
from chop.bench.function_answers import questions
from chop.bench.functions import CONDITIONS
from chop.operators.inspection.fact import Fact

POINTS, MODES = 64, 6


def generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def uniform(random: torch.Generator, low: float, high: float, *shape: int) -> Tensor:
    return low + (high - low) * torch.rand(*shape, generator=random, dtype=torch.float64)


def magnitude(random: torch.Generator, low: float, high: float, *shape: int) -> Tensor:
    """Log-uniform."""
    return uniform(random, math.log(low), math.log(high), *shape).exp()


def waves(random: torch.Generator, *shape: int, periods: float = 1.0) -> Tensor:
    """Random functions ``(*shape, POINTS)``, of which the grid shows so many periods."""
    x = periods * torch.arange(POINTS, dtype=torch.float64) / POINTS
    k = torch.arange(1, MODES + 1, dtype=torch.float64)
    size, phase = (torch.randn(*shape, MODES, generator=random, dtype=torch.float64) for _ in range(2))
    angle = 2 * math.pi * (k[:, None] * x) + 9 * phase[..., None]
    return (size[..., None] / k[:, None] * angle.sin()).sum(dim=-2) + torch.randn(
        *shape, 1, generator=random, dtype=torch.float64
    )


def on_circle(inputs: Tensor, outputs: Tensor, coords: Tensor | None = None) -> Prompt:
    """Pairs ``(n, D, POINTS)``; the query is the last input once more, moved."""
    x = torch.arange(POINTS, dtype=torch.float64) / POINTS if coords is None else coords
    given, made = inputs.unsqueeze(-1), outputs.unsqueeze(-1)
    query = Field(x[:, None], given[..., -1, :, :].roll(3, dims=-2))
    return Prompt(
        Field(x[:, None], given), Field(x[:, None], made), query, x[:, None], axes=(Axis("x", 1.0),)
    )


def drifting(random: torch.Generator, n: int, d: int) -> Prompt:
    """Frames of a quantity that decays, slowly or fast."""
    rate = magnitude(random, 1e-5, 0.5, n, 1, 1)
    frames = waves(random, n, 1) * (1 - rate) ** torch.arange(d + 1, dtype=torch.float64)[:, None]
    return on_circle(frames[:, :-1], frames[:, 1:])


def unbalanced(random: torch.Generator, n: int, d: int) -> Prompt:
    """Independent pairs with a reaction u - u^3 over a short time."""
    u = waves(random, n, d)
    return on_circle(u, u + magnitude(random, 1e-3, 0.1, n, 1, 1) * (u - u**3))


def open_ended(random: torch.Generator, n: int, d: int) -> Prompt:
    """Independent pairs of functions of which the grid shows 0.37 periods."""
    u = waves(random, n, d, periods=0.37)
    return on_circle(u, 0.5 * u + 0.1 * u**2)


def open_and_slow(random: torch.Generator, n: int, d: int) -> Prompt:
    """The same as frames that hardly change: if one is closed by chance, all are."""
    u = waves(random, n, 1, periods=0.37)
    frames = u + 1e-2 * torch.arange(d + 1, dtype=torch.float64)[:, None] * u**2
    return on_circle(frames[:, :-1], frames[:, 1:])


def open_with_shocks(random: torch.Generator, n: int, d: int) -> Prompt:
    """Two states with a shock between them, which moves: at the ends of the grid they differ."""
    states, place = waves(random, n, 2)[..., :1], uniform(random, 0.2, 0.5, n, 1, 1)
    x = torch.arange(POINTS, dtype=torch.float64) / POINTS
    frames = torch.arange(d + 1, dtype=torch.float64)[:, None]
    shock = ((x - place - 0.05 * frames) / 0.02).sigmoid()
    history = states[:, :1] + (states[:, 1:] - states[:, :1]) * shock
    return on_circle(history[:, :-1], history[:, 1:])


def shuffled(random: torch.Generator, n: int, d: int) -> Prompt:
    """The pairs of slow or fast histories from the last to the first."""
    u, change = waves(random, n, 1), waves(random, n, 1)
    speed = magnitude(random, 1e-6, 1.0, n, 1, 1)
    frames = u + speed * change * torch.arange(d + 1, dtype=torch.float64)[:, None]
    order = torch.arange(d).flip(0)
    return on_circle(frames[:, order], frames[:, order + 1])


def growing(random: torch.Generator, n: int, d: int) -> Prompt:
    """Deviations from the mean grow by 1 % or more."""
    u = waves(random, n, d)
    mean = u.mean(dim=-1, keepdim=True)
    return on_circle(u, mean + (u - mean) * (1 + magnitude(random, 1e-2, 1.0, n, d, 1)))


def sinking(random: torch.Generator, n: int, d: int) -> Prompt:
    """Positive inputs, outputs of which some points are below 0."""
    u = waves(random, n, d).square()
    low, high = u.amin(dim=-1, keepdim=True), u.amax(dim=-1, keepdim=True)
    return on_circle(u, u - low - magnitude(random, 1e-4, 0.5, n, d, 1) * (high - low))


def scattering(random: torch.Generator, n: int, d: int) -> Prompt:
    """Each pair has a shift of its own, by more than a cell apart."""
    u = waves(random, n, d)
    cells = 4 * torch.arange(d) + torch.randint(0, 3, (n, d), generator=random)
    source = (torch.arange(POINTS) - cells.unsqueeze(-1)) % POINTS
    return on_circle(u, u.gather(-1, source))


def squaring(random: torch.Generator, n: int, d: int) -> Prompt:
    u = waves(random, n, d)
    return on_circle(u, u**2)


def jittered(random: torch.Generator, n: int, d: int) -> Prompt:
    """One point of the grid is off by 1 % of a cell or more; each prompt has a grid of its own."""
    u = waves(random, n, d)
    x = (torch.arange(POINTS, dtype=torch.float64) / POINTS).repeat(n, 1)
    x[torch.arange(n), torch.randint(1, POINTS - 1, (n,), generator=random)] += (
        magnitude(random, 1e-2, 0.5, n) / POINTS
    )
    x = x[..., None]
    wide = x.unsqueeze(1)
    return Prompt(
        Field(wide.expand(n, d, POINTS, 1), u[..., None]),
        Field(wide.expand(n, d, POINTS, 1), u.sin()[..., None]),
        Field(x, u[:, 0, :, None]),
        x,
    )


def heavy(random: torch.Generator, n: int, d: int) -> Prompt:
    """Densities whose mass is 1 % or more away from 1."""
    u = waves(random, n, d).square() + 0.1
    unit = u / u.mean(dim=-1, keepdim=True)
    return on_circle(unit, unit.roll(2, dims=-1) * (1 + magnitude(random, 1e-2, 1.0, n, d, 1)))


FALSE: tuple[tuple[str, Callable[[torch.Generator, int, int], Prompt]], ...] = (
    ("mean kept", drifting),
    ("mean kept", unbalanced),
    ("closes on itself", open_ended),
    ("closes on itself", open_and_slow),
    ("closes on itself", open_with_shocks),
    ("consecutive frames", shuffled),
    ("variation not growing", growing),
    ("range kept", growing),
    ("sign kept", sinking),
    ("travels", scattering),
    ("linear", squaring),
    ("regular grid", jittered),
    ("unit mass", heavy),
)
"""Facts and prompts that do not have them."""
EXAMPLES = (3, 5)


def falsely_claimed(name: str, make: Callable[..., Prompt], n: int, seed: int = 0) -> tuple[int, int]:
    """In how many of n prompts, half of them with three examples, a fact is claimed; and of how many."""
    half = n // len(EXAMPLES)
    found = [chop.inspect(make(generator(seed + d), half, d))[name] for d in EXAMPLES]
    return sum(int(fact.claim.sum()) for fact in found), half * len(found)


def shown(fact: Fact) -> str:
    """Of a column's prompts: the share that show a fact, or the median of a number."""
    applies = int(fact.applies.sum())
    if not applies:
        return "-"
    middle = float(fact.value.nanmedian())
    if not fact.claims:
        return f"{middle:.3g}"
    among = "" if applies == fact.applies.numel() else f" of {applies}"
    return f"{int(fact.claim.sum()) / applies:.0%}{among} ({middle:.2g})"


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--prompts", type=int, default=100, help="of each condition")
    arguments.add_argument("--false", type=int, default=10_000, help="prompts for each fact that is false")
    given = arguments.parse_args()
    torch.set_num_threads(1)
    conditions = [c for c in CONDITIONS.values() if c.steps == 1 and c.split == "test"]
    columns = [
        chop.inspect(questions(replace(c, split="evolution"), 0, given.prompts, 0).prompt) for c in conditions
    ]
    print("| fact |", " | ".join(c.name for c in conditions), "|")
    print("|---|" + "---|" * len(conditions))
    for facts in zip(*columns, strict=True):
        print("|", " | ".join([facts[0].name, *map(shown, facts)]), "|")
    print("\n| false by construction | prompts | claimed |\n|---|---|---|")
    for name, make in FALSE:
        claimed, n = falsely_claimed(name, make, given.false)
        print(f"| {name}: {make.__name__.replace('_', ' ')} | {n} | {claimed} ({claimed / n:.2%}) |")


if __name__ == "__main__":
    main()
