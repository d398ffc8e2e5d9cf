"""What `chop.inspect` finds in the benchmark's own questions, and how often it claims what is false.

`python benchmarks/facts.py` prints Markdown tables. The first has a row for each fact and a column for each
condition: the share of prompts that show it and the median of its number, "-" where it does not apply. The
second has a row for each condition and tells what the bundled network respects and where it is at home. The
third counts how often a place where each held-out answer is nearer is better for the query too. The last has
facts that are false by construction, and in how many prompts they are claimed all the same.
"""

from __future__ import annotations

import argparse
import math
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch
from torch import Tensor

import chop
from chop import Axis, Field, Prompt
from chop.bench.functions import FAMILIES, FLUXES, LENGTHS
from chop.core.model import FrozenModel
from chop.operators.inspection.answered import AS_IT_IS, HOMES, PROGRAMS
from chop.operators.inspection.fact import Fact, Facts
from chop.operators.inspection.model_facts import place_name
from chop.problems import air, conservation, mfc
from chop.problems.case import Case

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


def halving(random: torch.Generator, n: int, d: int) -> Prompt:
    """Independent pairs u -> u/2, of which the models below know the answer, but for their errors."""
    u = waves(random, n, d)
    return on_circle(u, 0.5 * u)


def odd_and_even_handed(prompt: Prompt) -> Tensor:
    """Half the query and an error of a tenth of it that has every symmetry."""
    u = prompt.query.values
    return 0.5 * u + 0.05 * (u.roll(5, dims=-2) + u.roll(-5, dims=-2))


def size(prompt: Prompt) -> Tensor:
    """A thirtieth of the query, as a constant: what breaks a symmetry is a third of the error."""
    return prompt.query.values.square().mean(dim=-2, keepdim=True).sqrt() / 30


def knows_its_place(prompt: Prompt) -> Tensor:
    return odd_and_even_handed(prompt) + size(prompt) * (2 * math.pi * prompt.query.coords).sin()


def knows_its_sign(prompt: Prompt) -> Tensor:
    return odd_and_even_handed(prompt) + size(prompt)


def knows_the_first(prompt: Prompt) -> Tensor:
    return odd_and_even_handed(prompt) + prompt.outputs.values[..., 0, :, :] / 15


def at_home_at_one(prompt: Prompt) -> Tensor:
    """Errs the more, the farther the prompt's spread is from 1."""
    spread = prompt.inputs.values.flatten(-3).std(dim=-1)[..., None, None]
    return prompt.query.values * (0.5 + 0.01 + 0.01 * spread.log().abs())


def settled(random: torch.Generator, n: int, d: int) -> Prompt:
    """The same pairs with a spread of 1."""
    prompt = halving(random, n, d)
    scale = prompt.inputs.values.flatten(-3).std(dim=-1)[:, None, None]
    sizes = {"inputs": scale[..., None], "outputs": scale[..., None], "query": scale}
    parts = {name: getattr(prompt, name) for name in sizes}
    return prompt.mapped(
        **{name: part.with_values(part.values / sizes[name]) for name, part in parts.items()}
    )


FALSE_OF_MODELS: tuple[tuple[str, Callable[..., Prompt], FrozenModel], ...] = (
    ("shift respected", halving, knows_its_place),
    ("mirror respected", halving, knows_its_place),
    ("sign respected", halving, knows_its_sign),
    ("order respected", halving, knows_the_first),
    ("better with the other sign", halving, odd_and_even_handed),
    ("better mirrored", halving, odd_and_even_handed),
    ("better at scale 0.25", settled, at_home_at_one),
    ("better at scale 4", settled, at_home_at_one),
)
"""Facts, prompts, and models that do not have them."""


def falsely_claimed(
    name: str, make: Callable[..., Prompt], n: int, seed: int = 0, model: FrozenModel | None = None
) -> tuple[int, int]:
    """In how many of n prompts, half of them with three examples, a fact is claimed; and of how many."""
    half = n // len(EXAMPLES)
    found = [chop.inspect(make(generator(seed + d), half, d), model)[name] for d in EXAMPLES]
    return sum(int(fact.claim.sum()) for fact in found), half * len(found)


class Asked(NamedTuple):
    """One condition: its name, its questions and the bundled network that is asked."""

    name: str
    case: Case
    network: str


SPLIT = "evolution"
"""What is looked at is not what programs are compared on."""


def conditions(n: int, lengths: tuple[float, ...] = (1.0, *LENGTHS)) -> Iterator[Asked]:
    """The benchmark's single steps, mean-field control at its training length too, and invented stations."""
    for flux in FLUXES:
        yield Asked(flux, conservation.sample(flux, n=n, split=SPLIT), "conservation")
    for family in FAMILIES:
        for length in lengths:
            case = mfc.sample(family, length=length, n=n, split=SPLIT)
            yield Asked(f"{family}/{length:g}", case, "mfc")
    with tempfile.TemporaryDirectory() as folder:
        air.make_world(folder)
        for region, network in (("bthsa", "air_bthsa"), ("yrd", "air_bthsa")):
            channels = chop.load(network).config.channels
            case = air.sample(region, n=n, data=folder, split=SPLIT, channels=channels)
            yield Asked(f"stations/{region}", case, network)


def shown(fact: Fact | None) -> str:
    """Of a column's prompts: the share that show a fact, or the median of a number."""
    if fact is None:
        return ""
    applies = int(fact.applies.sum())
    if not applies:
        return "-"
    known = fact.value[~fact.value.isnan()]
    if not known.numel():
        return "cannot tell"
    middle = float(known.median())
    if not fact.claims:
        return f"{middle:.3g}"
    among = "" if applies == fact.applies.numel() else f" of {applies}"
    return f"{int(fact.claim.sum()) / applies:.0%}{among} ({middle:.2g})"


def print_facts(n: int) -> None:
    """A row for each fact, a column for each condition."""
    names, columns = [], []
    for asked in conditions(n):
        names.append(asked.name)
        columns.append({fact.name: fact for fact in chop.inspect(asked.case.prompt)})
    print("| fact |", " | ".join(names), "|")
    print("|---|" + "---|" * len(names))
    # Channels of stations have rows of their own, after the mean of the others.
    rows = sorted({row: None for column in columns for row in column}, key=lambda row: _order(columns, row))
    for row in rows:
        print("|", " | ".join([row, *(shown(column.get(row)) for column in columns)]), "|")


def _order(columns: list[dict[str, Fact]], row: str) -> float:
    """The first place at which a fact stands; a further channel's just behind the mean."""
    places = [list(column).index(row) for column in columns if row in column]
    return list(columns[0]).index("mean kept") + places[0] / 100 if "channel" in row else places[0]


HOME_COLUMNS = (
    "held-out error", "shift respected", "mirror respected", "sign respected", "order respected",
    "scale seen", "better at scale 0.25", "better at scale 0.5", "better at scale 1", "better at scale 2",
    "better at scale 4", "better in the moving frame", "better with the other sign", "better mirrored",
)  # fmt: skip


def print_homes(n: int) -> None:
    """A row for each condition; then how often a claim about a place holds for the query."""
    print("| condition | network |", " | ".join(HOME_COLUMNS), "| home |")
    print("|---" * (len(HOME_COLUMNS) + 3) + "|")
    claimed: Counter[str] = Counter()
    confirmed: Counter[str] = Counter()
    for asked in conditions(n):
        model = chop.load(asked.network)
        facts = chop.inspect(asked.case.prompt, model)
        cells = [shown(facts[name]) for name in HOME_COLUMNS]
        print("|", " | ".join([asked.name, asked.network, *cells, home_text(facts)]), "|", flush=True)
        here = query_errors(asked.case, AS_IT_IS, model)
        for name in HOMES:
            claim = facts[place_name(name)].claim
            if bool(claim.any()):
                claimed[name] += int(claim.sum())
                confirmed[name] += int((claim & (query_errors(asked.case, name, model) < here)).sum())
    print("\n| claimed | prompts | true of the query |\n|---|---|---|")
    for name in HOMES:
        share = f" ({confirmed[name] / claimed[name]:.0%})" if claimed[name] else ""
        print(f"| {place_name(name)} | {claimed[name]} | {confirmed[name]}{share} |")
    whole = sum(claimed.values())
    print(f"| all | {whole} | {sum(confirmed.values())} ({sum(confirmed.values()) / max(whole, 1):.0%}) |")


def query_errors(case: Case, view: str, model: FrozenModel) -> Tensor:
    """Relative errors of the answers to the queries themselves, asked in a view."""
    answer = PROGRAMS[view].run(model, case.prompt, trace=False).values
    return chop.metrics.rel_l2(answer, case.target, case.mask)


def home_text(facts: Facts) -> str:
    """The two places that are best most often, and the median of the least error."""
    places = [f"{share:.0%} `{name}`".replace("|", "\\|") for name, share in facts["home"].chosen()[:2]]
    return f"{float(facts['home'].value.nanmedian()):.2f}: {', '.join(places)}"


def print_false(n: int) -> None:
    """A row for each fact that is false by construction."""
    print("| false by construction | prompts | claimed |\n|---|---|---|")
    for name, make in FALSE:
        claimed, whole = falsely_claimed(name, make, n)
        words = make.__name__.replace("_", " ")
        print(f"| {name}: {words} | {whole} | {claimed} ({claimed / whole:.2%}) |", flush=True)
    for name, make, model in FALSE_OF_MODELS:
        claimed, whole = falsely_claimed(name, make, n, model=model)
        words = model.__name__.replace("_", " ")
        print(f"| {name}: {words} (a model) | {whole} | {claimed} ({claimed / whole:.2%}) |", flush=True)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--prompts", type=int, default=100, help="of each condition")
    arguments.add_argument(
        "--asked", type=int, default=40, help="of each condition, about which networks are asked"
    )
    arguments.add_argument("--false", type=int, default=10_000, help="prompts for each fact that is false")
    given = arguments.parse_args()
    torch.set_num_threads(1)
    print_facts(given.prompts)
    print()
    print_homes(given.asked)
    print()
    print_false(given.false)


if __name__ == "__main__":
    main()
