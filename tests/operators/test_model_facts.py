"""What inspection tells of models that were made to have a symmetry, or a home, or not."""

import json
import math
from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import chop
from chop import Axis, Field, Graph, Prompt
from chop.core.errors import ModelError
from chop.operators.inspection.backwards import Backwards
from chop.operators.inspection.fact import joined

N, D = 24, 4
CIRCLE = (Axis("x", 1.0),)
X = torch.arange(N, dtype=torch.float64) / N


def prompt_of(inputs, outputs, axes=CIRCLE, **more):
    """Functions ``(..., D, n)`` of x; the query is the last input, backwards."""
    coords = X[:, None]
    inputs, outputs = inputs.unsqueeze(-1), outputs.unsqueeze(-1)
    query = Field(coords, inputs[..., -1, :, :].flip(-2))
    return Prompt(Field(coords, inputs), Field(coords, outputs), query, coords, axes=axes, **more)


def waves(seed=0, *batch, examples=D):
    random = torch.Generator().manual_seed(seed)
    size, phase = (torch.rand(*batch, examples, 3, 1, generator=random, dtype=torch.float64) for _ in "ab")
    k = torch.arange(1, 4, dtype=torch.float64)[:, None]
    return ((0.2 + size) * (2 * math.pi * (k * X + phase)).sin()).sum(dim=-2)


def question(seed=0, *batch, examples=D, **more):
    """Pairs u -> u moved by three cells."""
    u = waves(seed, *batch, examples=examples)
    return prompt_of(u, u.roll(3, dims=-1), **more)


def smoother(prompt):
    """Odd, equivariant under shifts, mirrors and any order; wrong."""
    u = prompt.query.values
    return (u.roll(1, dims=-2) + u.roll(-1, dims=-2)) / 2


def placed(prompt):
    return smoother(prompt) + 0.3 * prompt.query.coords


def one_sided(prompt):
    return prompt.query.values.roll(1, dims=-2)


def rectified(prompt):
    return smoother(prompt).clamp(min=0)


def first_pair(prompt):
    return smoother(prompt) + 0.3 * prompt.outputs.values[..., 0, :, :]


def claimed(model, prompt=None):
    found = chop.inspect(question() if prompt is None else prompt, model)
    return {name: bool(found[f"{name} respected"].claim) for name in ("shift", "mirror", "sign", "order")}


def test_symmetries_that_a_model_has():
    assert claimed(smoother) == {"shift": True, "mirror": True, "sign": True, "order": True}
    assert claimed(placed) == {"shift": False, "mirror": False, "sign": False, "order": True}
    assert claimed(one_sided) == {"shift": True, "mirror": False, "sign": True, "order": True}
    assert claimed(rectified) == {"shift": True, "mirror": True, "sign": False, "order": True}
    assert claimed(first_pair) == {"shift": True, "mirror": True, "sign": True, "order": False}


def test_three_examples_suffice_to_see_that_order_matters():
    """A prompt filled up to three examples is a b a, which is the same backwards."""
    assert claimed(first_pair, question(examples=3))["order"] is False
    assert claimed(smoother, question(examples=3))["order"] is True


def test_a_difference_is_told_beside_the_error():
    """The error is 1 everywhere, and -1 with the sign changed."""

    def model(prompt):
        return prompt.query.values.roll(3, dims=-2) + 1

    def striped(prompt):
        return prompt.query.values.roll(3, dims=-2) + torch.tensor([1.0, 0.25]).repeat(N // 2).unsqueeze(-1)

    found = chop.inspect(question(), model)["sign respected"]
    assert float(found.value) == pytest.approx(2)
    assert float(found.deviation) == pytest.approx(20)
    # An odd number of cells: the pattern of two points does not fall on itself.
    assert not bool(chop.inspect(question(), striped)["shift respected"].claim)


def test_a_small_difference_counts_as_none():
    """The error is a tenth of u and a share of u^2, of which a change of sign makes twice that share."""

    def nearly(share):
        return lambda prompt: (
            1.1 * prompt.query.values.roll(3, dims=-2) + share * prompt.query.values.square()
        )

    assert bool(chop.inspect(question(), nearly(0.001))["sign respected"].claim)
    assert not bool(chop.inspect(question(), nearly(0.1))["sign respected"].claim)


def test_a_model_without_error_respects_what_it_does_exactly():
    facts = chop.inspect(question(), lambda prompt: prompt.query.values.roll(3, dims=-2))
    assert float(facts["held-out error"].value) == 0
    assert bool(facts["shift respected"].claim)
    # Three cells to the right are three to the left in a mirror.
    assert not bool(facts["mirror respected"].claim)
    assert facts["home"].chosen() == [("icon", 1.0)]
    assert float(facts["home"].value) == 1
    assert int(facts["better with the other sign"].telling) == 0


def at_home_at(scale):
    """Right at one spread, wrong by the logarithm of how far it is from there."""

    def model(prompt):
        spread = prompt.inputs.values.std(dim=(-1, -2, -3), correction=0)[..., None, None]
        answer = prompt.query.values.roll(3, dims=-2)
        return answer * (1 + 0.1 * (spread / scale).log().abs())

    return model


@pytest.mark.parametrize("scale", [0.25, 1.0, 4.0])
def test_the_scale_at_which_a_model_is_at_home(scale):
    asked = prompt_of(30 * waves(), 30 * waves().roll(3, dims=-1))
    facts = chop.inspect(asked, at_home_at(scale))
    assert facts["home"].chosen() == [(str(chop.parse(f"rescale(target={scale}) | icon")), 1.0)]
    errors = {t: float(facts[f"better at scale {t:g}"].value) for t in (0.25, 0.5, 1, 2, 4)}
    ordered = [errors[t] for t in sorted(errors, key=lambda t: abs(math.log(t / scale)))]
    assert all(near <= 1.1 * far for near, far in pairwise(ordered)), errors
    assert float(facts["home"].value) == pytest.approx(errors[scale])
    assert errors[scale] < 0.1
    assert bool(facts[f"better at scale {scale:g}"].claim)
    parts = (getattr(asked, part).values.flatten() for part in ("inputs", "outputs", "query"))
    assert float(facts["scale seen"].value) == pytest.approx(float(torch.cat(list(parts)).std()))


def test_the_sign_at_which_a_model_is_at_home():
    """Negative inputs are answered right, positive ones are answered by nothing."""
    u = waves().abs() + 0.1
    asked = prompt_of(u, u.roll(3, dims=-1))

    def model(prompt):
        return prompt.query.values.roll(3, dims=-2).clamp(max=0.05)

    facts = chop.inspect(asked, model)
    assert facts["home"].chosen() == [("flip | icon", 1.0)]
    assert bool(facts["better with the other sign"].claim)
    assert int(facts["better with the other sign"].agreeing) == D
    assert float(facts["held-out error"].value) > 0.5
    assert not bool(facts["better mirrored"].claim)


def test_the_frame_and_the_mirror():
    frames = torch.stack([waves(examples=1)[0].roll(3 * i) for i in range(D + 1)])
    asked = prompt_of(frames[:-1], frames[1:])

    def persistence(prompt):
        return prompt.query.values

    facts = chop.inspect(asked, persistence)
    assert facts["home"].chosen() == [("moving_frame | icon", 1.0)]
    assert float(facts["better in the moving frame"].value) < 1e-5

    def leftwards(prompt):
        return prompt.query.values.roll(-3, dims=-2)

    facts = chop.inspect(asked, leftwards)
    assert bool(facts["better mirrored"].claim)
    assert float(facts["better mirrored"].value) < 1e-5


def test_errors_are_those_of_a_validated_run():
    prompt = question(0, 2)
    facts = chop.inspect(prompt, placed)
    run = chop.parse("icon").run(placed, prompt, validate=True)
    size = prompt.outputs.values.square().mean(dim=(-1, -2, -3))
    torch.testing.assert_close(facts["held-out error"].value, (run.error / size).sqrt())
    half = chop.parse("rescale(target=0.5) | icon").run(placed, prompt, validate=True)
    torch.testing.assert_close(facts["better at scale 0.5"].value, (half.error / run.error).sqrt())


def test_evaluations_are_counted_and_asked_in_one_round():
    rounds, rows = [], []

    class Sharing:
        def __call__(self, prompt):
            raise AssertionError("asked one by one")

        def predict_many(self, prompts):
            rounds.append(len(prompts))
            rows.extend(prompt.batch.numel() for prompt in prompts)
            return [smoother(prompt) for prompt in prompts]

    facts = chop.inspect(question(0, 3), Sharing())
    assert rounds == [11]  # as it is, five scales, frame, sign, mirror, shift, order
    assert sum(rows) == 3 * 11 * D
    assert facts["model evaluations"].value.tolist() == [11 * D] * 3
    assert facts.text().endswith("median 44  for all of this, each prompt")


def test_a_large_batch_is_asked_in_parts(monkeypatch):
    whole = chop.inspect(question(0, 5), placed)
    monkeypatch.setattr("chop.operators.inspection.answered.MAX_BYTES", 2 * 11 * D * (2 * D + 1) * N * 8)
    sizes = []

    def counting(prompt):
        sizes.append(prompt.batch.numel())
        return placed(prompt)

    parts = chop.inspect(question(0, 5), counting)
    assert sum(sizes) == 5 * 11 * D
    assert max(sizes) <= 2 * 11 * D
    for one, other in zip(whole, parts, strict=True):
        torch.testing.assert_close(one.value, other.value, equal_nan=True)
        assert torch.equal(one.claim, other.claim)


def test_prompts_without_a_period_and_graphs():
    line = chop.inspect(question(axes=(Axis("x"),)), smoother)
    none = ("shift respected", "mirror respected", "better in the moving frame", "better mirrored")
    for name in none:
        assert not bool(line[name].applies), name
        assert line[name].text().startswith("does not apply: needs two examples, and "), name
    assert bool(line["sign respected"].claim)
    assert int(line["model evaluations"].value) == 8 * D
    graph = Graph(size=N, edges=torch.stack([torch.arange(N), (torch.arange(N) + 1) % N]))
    stations = chop.inspect(question(graph=graph), smoother)
    for name in ("shift respected", "mirror respected", "better mirrored"):
        assert not bool(stations[name].applies), name
    assert bool(stations["order respected"].claim)


def test_one_example_cannot_be_held_out():
    facts = chop.inspect(question(examples=1), placed)
    assert facts["held-out error"].text() == "does not apply: needs two examples"
    assert facts["home"].text() == "does not apply: needs two examples"
    assert facts["home"].chosen() == []
    assert "home" in facts.text()
    json.dumps(facts.to_json())
    two = chop.inspect(question(examples=2), placed)
    assert two["sign respected"].text() == "not enough examples: 2 can tell, 3 are needed"


def test_a_model_that_answers_nan():
    facts = chop.inspect(question(), lambda prompt: torch.full_like(prompt.query.values, torch.nan))
    assert float(facts["finite answers"].value) == 1
    assert facts["finite answers"].text().startswith("no (0 of 4 examples)")
    assert math.isinf(float(facts["held-out error"].value))
    for fact in list(facts)[-13:]:
        assert not bool(fact.claim), fact.name
    assert facts["shift respected"].text() == "not enough examples: 0 can tell, 3 are needed"
    assert facts["home"].chosen() == [("icon", 1.0)]
    assert math.isnan(float(facts["home"].value))
    assert facts["home"].text().startswith("unknown")


def test_a_model_that_answers_nan_to_large_numbers_is_at_home_below():
    def model(prompt):
        answer = placed(prompt)
        large = prompt.inputs.values.abs().amax(dim=(-1, -2, -3)) > 3
        return torch.where(large[..., None, None], torch.nan, answer)

    facts = chop.inspect(prompt_of(100 * waves(), 100 * waves().roll(3, dims=-1)), model)
    assert bool(facts["better at scale 0.5"].claim)
    assert not bool(facts["better at scale 4"].claim)
    assert facts["home"].chosen()[0][0].startswith("rescale")
    assert float(facts["home"].value) == 0


def test_a_model_that_fails_says_so():
    with pytest.raises(ModelError, match="the model returned shape"):
        chop.inspect(question(), lambda prompt: prompt.query.values[..., :3, :])
    with pytest.raises(ModelError, match="a model must be callable"):
        chop.inspect(question(), "conservation")


def test_what_was_not_observed_of_an_output_does_not_count():
    prompt = question()
    seen = torch.ones_like(prompt.outputs.values, dtype=torch.bool)
    seen[1, 5:9] = False
    spoiled = torch.where(seen, prompt.outputs.values, 1e3)
    whole = chop.inspect(prompt.mapped(outputs=Field(X[:, None], prompt.outputs.values, seen)), smoother)
    gaps = chop.inspect(prompt.mapped(outputs=Field(X[:, None], spoiled, seen)), smoother)
    assert torch.equal(whole["held-out error"].value, gaps["held-out error"].value)
    for name in ("shift", "mirror", "sign", "order"):
        assert bool(gaps[f"{name} respected"].claim), name


@settings(max_examples=6, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_a_batch_is_its_prompts(seed):
    prompt = question(seed, 3)
    whole = chop.inspect(prompt, placed)
    parts = [chop.inspect(prompt[i : i + 1], placed) for i in range(3)]
    for one, other in zip(whole, joined(parts), strict=True):
        assert torch.equal(one.claim, other.claim), one.name
        torch.testing.assert_close(one.value, other.value, equal_nan=True, rtol=1e-9, atol=1e-12)
        if one.choice is not None:
            assert torch.equal(one.choice, other.choice)


def test_plain_values():
    """The names and keys that scripts read."""
    told = json.loads(json.dumps(chop.inspect(question(0, 2), at_home_at(1.0)).to_json()))
    without = chop.inspect(question(0, 2)).to_json()
    assert [fact["name"] for fact in told[: len(without)]] == [fact["name"] for fact in without]
    assert [fact["name"] for fact in told[len(without) :]] == [
        "held-out error", "finite answers", "shift respected", "mirror respected", "sign respected",
        "order respected", "scale seen", "better at scale 0.25", "better at scale 0.5", "better at scale 1",
        "better at scale 2", "better at scale 4", "better in the moving frame", "better with the other sign",
        "better mirrored", "home", "model evaluations",
    ]  # fmt: skip
    home = next(fact for fact in told if fact["name"] == "home")
    assert list(home) == ["name", "measure", "needs", "applies", "value", "choices", "choice"]
    assert [home["choices"][i] for i in home["choice"]] == ["rescale | icon"] * 2
    for text in home["choices"]:
        chop.parse(text)
    assert all("choice" not in fact for fact in told if fact["name"] != "home")


def test_examples_in_another_order_keep_their_times():
    prompt = question()
    frame = Backwards().fitted(prompt)
    assert frame.prompt.times.tolist() == [1, 0, 3, 2, 4]
    assert torch.equal(frame.prompt.inputs.values, prompt.inputs.values[[1, 0, 3, 2]])
    assert torch.equal(frame.back_held_out(frame.prompt.outputs.values), prompt.outputs.values)
