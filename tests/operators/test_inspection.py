"""Facts of hand-made prompts beside what one can see in them, and that no claim is made by accident."""

import importlib.util
import json
import math
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import chop
from chop import Axis, Field, Prompt
from chop.core.errors import ChopError, PromptError
from chop.operators.inspection.fact import joined
from chop.operators.inspection.structure import unevenness
from chop.operators.statistics import mean_at_equal_times
from chop.testing import make_prompt

N = 16
X = torch.arange(N, dtype=torch.float64) / N
CIRCLE = (Axis("x", 1.0),)


def bench():
    """The script that counts false claims, with its prompts."""
    path = Path(__file__).parents[2] / "benchmarks" / "facts.py"
    spec = importlib.util.spec_from_file_location("facts_benchmark", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


BENCH = bench()


def prompt_of(inputs, outputs, query=None, axes=CIRCLE, x=X, times=None, masks=(None, None)):
    """Functions ``(..., D, n)`` of x, or ``(..., D, n, c)`` where x has fewer axes."""
    inputs, outputs = (
        v if v.ndim > 2 and v.shape[-1] != len(x) else v.unsqueeze(-1) for v in (inputs, outputs)
    )
    query = inputs[..., -1, :, :] if query is None else query.unsqueeze(-1)
    coords = x[:, None]
    return Prompt(
        Field(coords, inputs, masks[0]), Field(coords, outputs, masks[1]), Field(coords, query), coords,
        axes=axes, times=times,
    )  # fmt: skip


def wave(*phases, size=1.0, mean=0.0, k=1):
    return torch.stack([mean + size * (2 * math.pi * k * (X - phase)).sin() for phase in phases])


def fact(prompt, name):
    return chop.inspect(prompt)[name]


def verdict(prompt, name):
    """yes, no, few (examples) or none (does not apply), for one prompt."""
    found = fact(prompt, name)
    if not bool(found.applies):
        return "none"
    if int(found.telling) < found.least:
        return "few"
    return "yes" if bool(found.claim) else "no"


HISTORY = wave(0.0, 0.1, 0.25, 0.45, 0.7)


def test_frames_in_order_and_shuffled():
    frames = prompt_of(HISTORY[:-1], HISTORY[1:], HISTORY[-1])
    found = fact(frames, "consecutive frames")
    assert (bool(found.claim), float(found.value), int(found.telling)) == (True, 0.0, 4)
    assert float(found.confidence) == 5 / 6
    order = torch.tensor([2, 0, 3, 1])
    mixed = prompt_of(HISTORY[order], HISTORY[order + 1], HISTORY[-1])
    assert verdict(mixed, "consecutive frames") == "no"
    # ... unless somebody says at what times they are.
    told = prompt_of(HISTORY[order], HISTORY[order + 1], HISTORY[-1], times=[2, 0, 3, 1, 4])
    assert verdict(told, "consecutive frames") == "yes"
    # One wrong query is one example that disagrees.
    assert fact(prompt_of(HISTORY[:-1], HISTORY[1:], HISTORY[0]), "consecutive frames").agreeing == 3
    # Times without a successor tell nothing.
    assert (
        verdict(prompt_of(HISTORY[:-1], HISTORY[1:], times=[0, 10, 20, 30, 40]), "consecutive frames")
        == "few"
    )


def test_frames_that_stand_still_tell_nothing():
    still = prompt_of(HISTORY[:1].repeat(4, 1), HISTORY[:1].repeat(4, 1))
    for name in ("consecutive frames", "mean kept", "range kept", "variation not growing", "travels"):
        assert verdict(still, name) == "few", name


def test_grids():
    values = wave(0.0, 0.2, 0.4)
    regular = prompt_of(values, values.cos())
    assert verdict(regular, "regular grid") == verdict(regular, "one grid") == "yes"
    assert float(fact(regular, "spacing").value) == 1 / N
    assert float(fact(regular, "period").value) == 1.0
    assert float(fact(regular, "points").value) == N
    moved = X.clone()
    moved[3] += 0.25 / N
    scattered = prompt_of(values, values.cos(), x=moved, axes=(Axis("x"),))
    assert float(fact(scattered, "regular grid").value) == pytest.approx(0.25)
    assert verdict(scattered, "regular grid") == "no"
    assert (
        verdict(scattered, "spacing")
        == verdict(scattered, "period")
        == verdict(scattered, "travels")
        == "none"
    )
    elsewhere = Field(X[:, None] + 0.5 / N, values.unsqueeze(-1))
    apart = Prompt(regular.inputs, elsewhere, regular.query, regular.at, axes=CIRCLE)
    assert float(fact(apart, "one grid").value) == pytest.approx(0.5)
    assert verdict(apart, "one grid") == "no"
    fewer = Prompt(regular.inputs, Field(X[:8, None], values[:, :8, None]), regular.query, X[:8, None])
    assert verdict(fewer, "one grid") == "no"
    assert verdict(fewer, "range kept") == "none"


def test_grids_of_several_coordinates_in_any_order():
    plane = torch.cartesian_prod(torch.arange(3.0), 2 * torch.arange(4.0))
    assert float(unevenness(plane)) == 0
    assert float(unevenness(plane[torch.randperm(12, generator=torch.Generator().manual_seed(0))])) == 0
    assert math.isinf(float(unevenness(plane[:-1])))  # a corner is missing
    stretched = torch.cartesian_prod(torch.arange(3.0), torch.tensor([0.0, 1.0, 3.0]))
    assert float(unevenness(stretched)) == pytest.approx(1 / 3)  # a step of 1 where the mean is 1.5
    assert math.isinf(float(unevenness(torch.zeros(2, 1))))  # twice the same point
    assert float(unevenness(torch.zeros(1, 1))) == 0


def test_the_order_of_points_does_not_matter():
    order = torch.randperm(N, generator=torch.Generator().manual_seed(1))
    tidy = prompt_of(HISTORY[:-1], HISTORY[1:], HISTORY[-1])
    mixed = prompt_of(HISTORY[:-1, order], HISTORY[1:, order], HISTORY[-1, order], x=X[order])
    for one, other in zip(chop.inspect(tidy), chop.inspect(mixed), strict=True):
        assert bool(one.claim == other.claim), one.name
        torch.testing.assert_close(one.value, other.value, rtol=1e-9, atol=1e-12, equal_nan=True)


def test_what_closes_on_itself():
    values = wave(0.0, 0.2, 0.4)
    assert verdict(prompt_of(values, values**3), "closes on itself") == "yes"
    ramp = values + 3 * X
    assert verdict(prompt_of(ramp, ramp**2), "closes on itself") == "no"
    kink = (X - 0.5).abs() ** 2 * torch.tensor([1.0, 2.0, 3.0])[:, None] + 0 * X  # equal ends, slopes differ
    assert verdict(prompt_of(kink, 2 * kink), "closes on itself") == "no"
    # Two states and a shock between them, as on a square wave, but a step at the seam every time.
    states = torch.stack([(edge > X).double() for edge in (0.3, 0.5, 0.7, 0.8)])
    assert verdict(prompt_of(states[:-1], states[1:]), "closes on itself") == "no"
    # A shock counts wherever it stands: one example has it at the seam.
    shock = torch.stack([(X < 0.5).double().roll(i) for i in (0, 3, 8, 5)])
    assert verdict(prompt_of(shock, shock.roll(1, dims=-1)), "closes on itself") == "yes"


def test_the_mean_is_kept_or_not():
    values = wave(0.0, 0.2, 0.4, mean=0.3)
    kept = 0.3 + 0.5 * (values - 0.3)
    assert verdict(prompt_of(values, kept), "mean kept") == "yes"
    lost = fact(prompt_of(values, 0.5 * values), "mean kept")
    # The mean changes by 0.15, the change is 0.5 u with u^2 = 0.09 + 0.5.
    assert float(lost.value) == pytest.approx(0.15 / (0.5 * math.sqrt(0.59)))
    assert not bool(lost.claim)
    assert float(lost.deviation) == pytest.approx(1000 * float(lost.value))
    # Small beside the functions, but all the change there is.
    assert verdict(prompt_of(values, values + 1e-6), "mean kept") == "no"


def test_the_mean_by_channel():
    a, b = wave(0.0, 0.2, 0.4), wave(0.1, 0.3, 0.7)
    found = chop.inspect(prompt_of(torch.stack([a, b], -1), torch.stack([a.roll(1, -1), b + 1], -1)))
    assert bool(found["mean kept, channel 1"].claim)
    assert not bool(found["mean kept, channel 2"].claim)
    # A channel of tiny numbers is not lost beside one of large ones.
    small = chop.inspect(prompt_of(torch.stack([1e9 * a, b], -1), torch.stack([1e9 * a.cos(), b + 1], -1)))
    assert int(small["mean kept, channel 2"].telling) == 3


def test_mass_and_sign():
    values = wave(0.0, 0.2, 0.4, size=0.9, mean=1.0)
    moved = values.roll(1, dims=-1)
    assert verdict(prompt_of(values, moved), "unit mass") == "yes"
    assert verdict(prompt_of(values, 1.01 * moved), "unit mass") == "no"
    assert float(fact(prompt_of(values, 1.01 * moved), "unit mass").value) == pytest.approx(0.01)
    assert verdict(prompt_of(values, moved), "sign kept") == "yes"
    assert verdict(prompt_of(values, moved - 0.5), "sign kept") == "no"
    assert verdict(prompt_of(values - 1, moved), "sign kept") == "none"
    assert verdict(prompt_of(values, moved, query=values[0] - 1), "sign kept") == "none"


def test_range_and_variation():
    values = wave(0.0, 0.2, 0.4)
    mild, wild = prompt_of(values, 0.9 * values.roll(1, -1)), prompt_of(values, 1.1 * values)
    assert verdict(mild, "range kept") == verdict(mild, "variation not growing") == "yes"
    assert float(fact(mild, "variation not growing").value) == pytest.approx(-0.1)
    assert verdict(wild, "range kept") == verdict(wild, "variation not growing") == "no"
    assert float(fact(wild, "variation not growing").value) == pytest.approx(0.1)
    top, bottom = values[1].amax(), values[1].amin()
    spread = [0.1 * torch.maximum(v.amax(), -v.amin()) / (v.amax() - v.amin()) for v in values]
    assert float(fact(wild, "range kept").value) == pytest.approx(float(max(spread)))
    assert top > 0 > bottom
    # Twice as fast in the same range: only the variation grows.
    fast = prompt_of(values, 0.9 * wave(0.0, 0.2, 0.4, k=2))
    assert verdict(fast, "range kept") == "yes"
    assert verdict(fast, "variation not growing") == "no"


def test_a_shift_is_found_between_grid_points():
    found = chop.inspect(prompt_of(wave(0.0, 0.3, 0.45), wave(0.1, 0.4, 0.55)))
    assert bool(found["travels"].claim)
    assert float(found["travels"].value) == pytest.approx(1, abs=1e-3)
    assert float(found["speed"].value) == pytest.approx(1.6, abs=1 / 16)
    back = chop.inspect(prompt_of(wave(0.1, 0.4, 0.55), wave(0.0, 0.3, 0.45)))
    assert float(back["speed"].value) == pytest.approx(-1.6, abs=1 / 16)
    rough = torch.randn(4, N, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    whole = chop.inspect(prompt_of(rough, rough.roll(3, dims=-1)))
    assert float(whole["speed"].value) == 3
    assert float(whole["travels"].value) == pytest.approx(1, abs=1e-12)


def test_the_share_of_a_shift():
    """Half as high and moved: of |y - x|^2 the shift leaves |0.5 x|^2."""
    values = wave(0.0, 0.3, 0.45)
    found = fact(prompt_of(values, 0.5 * values.roll(4, dims=-1)), "travels")
    # A quarter turn: |y - x|^2 = 0.25 + 1, and 0.25 + 1 - 2 * 0.5 is left, in halves of N.
    assert float(found.value) == pytest.approx(1 - 0.25 / 1.25)
    assert not bool(found.claim)


def test_linear_and_not():
    values = torch.stack(
        [a * wave(0.0)[0] + b * wave(0.25)[0] for a, b in ((1, 0), (0, 1), (1, 1), (2, -1), (0.5, 1))]
    )
    straight = fact(prompt_of(values, 3 * values.roll(2, -1) + 1), "linear")
    assert bool(straight.claim)
    assert float(straight.value) > 0.999
    bent = fact(prompt_of(values, values**2), "linear")
    assert not bool(bent.claim)
    assert float(bent.value) < 0.9
    same = prompt_of(values, torch.ones_like(values))
    assert verdict(same, "linear") == "few"  # nothing to explain


def test_the_query_beside_the_examples():
    levels = torch.tensor([0.0, 1.0, 2.0, 3.0], dtype=torch.float64)[:, None] + 0 * X

    def asked(level):
        return chop.inspect(prompt_of(levels, levels, query=level + 0 * X))

    assert float(asked(2.0)["query distance"].value) == 0
    assert float(asked(5.0)["query distance"].value) == pytest.approx(2)
    assert float(asked(5.0)["query range"].value) == pytest.approx(2 / 3)
    assert float(asked(-1.5)["query range"].value) == pytest.approx(0.5)
    assert float(asked(1.5)["query range"].value) == 0


def test_the_spectrum_of_the_query():
    values = wave(0.0, 0.2, 0.4)
    query = wave(0.0)[0] + 2 * wave(0.1, k=3)[0]
    assert float(fact(prompt_of(values, values, query=query), "query spectrum").value) == pytest.approx(0.8)
    assert float(fact(prompt_of(values, values), "query spectrum").value) == pytest.approx(0, abs=1e-20)


def test_scale_and_offset():
    values = wave(0.0, 0.25, 0.5, size=2.0, mean=3.0)
    found = chop.inspect(prompt_of(values, 10 * values))
    assert float(found["input mean"].value) == pytest.approx(3)
    assert float(found["input spread"].value) == pytest.approx(math.sqrt(2))
    assert float(found["input rms"].value) == pytest.approx(math.sqrt(11))
    assert float(found["output rms"].value) == pytest.approx(10 * math.sqrt(11))


def test_two_examples_are_not_enough():
    few = prompt_of(HISTORY[:2], HISTORY[1:3], HISTORY[2])
    for one in chop.inspect(few):
        assert not bool(one.claim) or one.least == 1, one.name
    assert verdict(few, "consecutive frames") == verdict(few, "linear") == "few"
    single = chop.inspect(prompt_of(HISTORY[:1], HISTORY[1:2], HISTORY[1]))
    assert not bool(single["query distance"].applies)
    assert "not enough examples: 1 can tell, 3 are needed" in single.text()


def test_what_was_not_observed_does_not_count():
    values = wave(0.0, 0.2, 0.4)
    seen = torch.ones(3, N, 1, dtype=torch.bool)
    seen[1, 5] = False
    spoiled = values.roll(1, -1)
    spoiled[1, 5] = 1e6
    whole, gap = prompt_of(values, spoiled), prompt_of(values, spoiled, masks=(None, seen))
    for name in ("range kept", "variation not growing"):
        assert (verdict(whole, name), verdict(gap, name)) == ("no", "yes"), name
    assert verdict(gap, "mean kept") == "no"  # means over different points are different things
    assert int(fact(gap, "travels").telling) == 2
    assert float(fact(gap, "output rms").value) < 1
    hidden = seen.clone()
    hidden[1] = False
    assert int(fact(prompt_of(values, spoiled, masks=(None, hidden)), "mean kept").telling) == 2
    # What stands in an unobserved place makes no difference at all.
    other = spoiled.clone()
    other[1, 5] = -3.0
    for one, two in zip(
        chop.inspect(gap), chop.inspect(prompt_of(values, other, masks=(None, seen))), strict=True
    ):
        assert torch.equal(one.claim, two.claim)
        torch.testing.assert_close(one.value, two.value, equal_nan=True)


def test_frames_of_a_history_have_each_their_mass():
    """(t, x): two times of four places; the mass is 1 on the whole, and at each time or not."""
    coords = torch.cartesian_prod(torch.tensor([0.0, 0.5]), torch.arange(4) / 4).double()
    shape = torch.tensor([0.5, 1.5, 0.8, 1.2]).double()
    even, uneven = torch.cat([shape, shape.flip(0)]), torch.cat([1.5 * shape, 0.5 * shape])

    def asked(values):
        values = torch.stack([values.roll(4 * i) for i in range(3)])[..., None]
        field = Field(coords, values)
        return Prompt(field, field, Field(coords, values[0]), coords, axes=(Axis("t"), Axis("x", 1.0)))

    assert verdict(asked(even), "unit mass") == "yes"
    assert verdict(asked(uneven), "unit mass") == "no"
    assert float(fact(asked(uneven), "unit mass").value) == pytest.approx(0.5)
    assert verdict(asked(even), "regular grid") == "yes"
    assert float(fact(asked(even), "spacing").value) == 0.25
    assert verdict(asked(even), "variation not growing") == verdict(asked(even), "travels") == "none"


def test_means_at_equal_times_of_what_has_weight():
    values = torch.tensor([1.0, 2.0, 3.0, 10.0])[:, None]
    times = torch.tensor([0.5, 0.0, 0.5, 0.5])
    weight = torch.tensor([True, True, True, False])[:, None]
    assert mean_at_equal_times(values, times).flatten().tolist() == pytest.approx([14 / 3, 2, 14 / 3, 14 / 3])
    assert mean_at_equal_times(values, times, weight).flatten().tolist() == [2, 2, 2, 2]


LINES = ("closes on itself", "variation not growing", "travels", "speed", "query spectrum")


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("dimensions", [2, 3])
def test_scattered_points_and_stations_have_no_line(dimensions, masked):
    found = chop.inspect(make_prompt(0, batch=(2,), dimensions=dimensions, channels=(2, 2), masked=masked))
    assert found.prompts == 2
    for name in LINES:
        assert not bool(found[name].applies.any()), name
        assert bool(found[name].value.isnan().all()), name
        assert found[name].text().startswith("does not apply: needs functions of one coordinate"), name
    assert not bool(found["spacing"].applies.any())
    assert bool(torch.isfinite(found["linear"].value).all())
    assert bool(torch.isfinite(found["query distance"].value).all())


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), exponent=st.sampled_from((-30, -12, -3, 5, 12, 30)))
def test_units_decide_nothing(seed, exponent):
    random = BENCH.generator(seed)
    make = (BENCH.drifting, BENCH.growing, BENCH.sinking, BENCH.shuffled, BENCH.squaring)[seed % 5]
    prompt = make(random, 4, 4)
    scale = 10.0**exponent
    parts = {name: getattr(prompt, name) for name in ("inputs", "outputs", "query")}
    scaled = prompt.mapped(**{name: part.with_values(scale * part.values) for name, part in parts.items()})
    for one, other in zip(chop.inspect(prompt), chop.inspect(scaled), strict=True):
        if one.name == "unit mass":
            continue
        assert torch.equal(one.claim, other.claim), one.name
        assert torch.equal(one.telling, other.telling), one.name
        factor = scale if one.name.startswith(("input ", "output ")) else 1.0
        torch.testing.assert_close(
            factor * one.value, other.value, rtol=1e-6, atol=1e-9 * factor, equal_nan=True
        )


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    channels=st.sampled_from(((1, 1), (2, 2), (2, 1))),
    masked=st.booleans(),
    examples=st.integers(1, 5),
)
def test_a_batch_is_its_prompts(seed, channels, masked, examples):
    prompt = random_prompt(seed, channels, masked, examples)
    whole = chop.inspect(prompt)
    for i in range(2):
        for j in range(3):
            for one, all_of_them in zip(chop.inspect(prompt[i, j]), whole, strict=True):
                for name in ("claim", "applies", "telling", "agreeing"):
                    assert torch.equal(getattr(one, name), getattr(all_of_them, name)[i, j]), (one.name, name)
                torch.testing.assert_close(
                    one.value, all_of_them.value[i, j], rtol=1e-9, atol=1e-9, equal_nan=True
                )


def random_prompt(seed, channels, masked, examples):
    """A batch (2, 3) whose first row has all functions on one grid and whose second row has not."""
    random = torch.Generator().manual_seed(seed)

    def values(*shape):
        return torch.randn(2, 3, *shape, generator=random, dtype=torch.float64)

    x = X[:, None].expand(2, 3, 1, N, 1).clone()
    moved = x.clone()
    moved[1] += 0.3 / N
    mask = torch.rand(2, 3, examples, N, channels[1], generator=random) < 0.8 if masked else None
    return Prompt(
        Field(x.expand(2, 3, examples, N, 1), values(examples, N, channels[0])),
        Field(moved.expand(2, 3, examples, N, 1), values(examples, N, channels[1]), mask),
        Field(x[:, :, 0], values(N, channels[0])),
        moved[:, :, 0],
        axes=CIRCLE,
    )


@pytest.mark.parametrize(("name", "make"), BENCH.FALSE, ids=lambda part: getattr(part, "__name__", part))
def test_what_is_false_is_not_claimed(name, make):
    claimed, n = BENCH.falsely_claimed(name, make, 500)
    assert n == 500
    assert claimed <= 0.01 * n


@pytest.mark.parametrize(
    ("name", "make", "model"), BENCH.FALSE_OF_MODELS, ids=lambda part: getattr(part, "__name__", part)
)
def test_what_is_false_of_a_model_is_not_claimed(name, make, model):
    claimed, n = BENCH.falsely_claimed(name, make, 60, model=model)
    assert n == 60
    assert claimed == 0


def test_facts_as_text_and_plain_values():
    facts = chop.inspect(prompt_of(HISTORY[:-1], HISTORY[1:], HISTORY[-1]))
    lines = facts.text().splitlines()
    assert len(lines) == len(facts) == len(list(facts))
    assert lines[0] == (
        "consecutive frames     yes (4 of 4 examples, the next one by 83%): each output is the next input, "
        "the last one the query; largest gap, of the change: 0"
    )
    assert "sign kept              does not apply: needs inputs and a query that are not below 0" in lines
    assert any(
        line.startswith("unit mass              no (0 of 4 examples); largest distance") for line in lines
    )
    told = json.loads(json.dumps(facts.to_json()))
    assert told[0]["claim"] is True
    assert told[0]["confidence"] == pytest.approx(5 / 6)
    assert "claim" not in next(one for one in told if one["name"] == "spacing")
    assert repr(facts).startswith(
        "<Facts: prompts 1; facts 24; shown consecutive frames, regular grid, one grid"
    )


def test_a_batch_is_summed_up_and_batches_are_joined():
    both = BENCH.drifting(BENCH.generator(0), 3, 4)
    facts = chop.inspect(both)
    assert "consecutive frames     0%: " in facts.text()
    assert "mean kept              0%: " in facts.text()
    assert "points                 median 64  points of an input" in facts.text()
    again = joined([chop.inspect(both[:1]), chop.inspect(both[1:])])
    assert again.text() == facts.text()
    assert again.prompts == 3
    # Only the first prompt is kept, and none of the memory of the others.
    assert torch.equal(again.prompt.inputs.values, both[0].inputs.values)
    assert facts.prompt.inputs.values.untyped_storage().nbytes() == both[0].inputs.values.nbytes


def test_wrong_uses():
    with pytest.raises(PromptError, match="inspect reads a Prompt, not list"):
        chop.inspect([])
    with pytest.raises(ChopError, match="there is no fact 'mean'; known are consecutive frames, "):
        chop.inspect(prompt_of(HISTORY[:-1], HISTORY[1:]))["mean"]
