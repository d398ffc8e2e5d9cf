"""The network: conformance, order, grids, sharing, and what it refuses."""

from __future__ import annotations

import gc
import weakref

import pytest
import torch

import chop
from chop.core.errors import ModelError
from chop.core.prompt import Field, Prompt
from chop.icon import CONSERVATION, MFC, Icon, IconConfig
from chop.icon import sharing as sharing_module
from chop.icon.functions.tokens import at_points, count_rows, cut_patches, interpolated
from chop.problems import conservation, mfc
from chop.testing.conformance import ModelConformance
from chop.testing.data import make_prompt

ON_GRID = IconConfig(width=32, heads=2, encoder_layers=1, decoder_layers=2)
ON_POINTS = IconConfig(coordinates=2, grid=None, width=32, heads=2, encoder_layers=1, decoder_layers=2)


def network(config: IconConfig, seed: int = 0) -> Icon:
    """Random weights whose answer is not the trivial one."""
    torch.manual_seed(seed)
    made = Icon(config)
    torch.nn.init.normal_(made.head.weight, std=0.2)
    return made.eval().requires_grad_(False)


class TestOnGrid(ModelConformance):
    def make_model(self):
        return network(ON_GRID)

    def prompts(self, dtype=torch.float32):
        return [
            make_prompt(1, batch=(3,), points=100, dtype=dtype),
            make_prompt(2, batch=(2, 2), points=50, answer_points=30, own_grids=True, dtype=dtype),
            make_prompt(3, batch=(2,), points=12, examples=2, dtype=dtype),
            make_prompt(4, points=200, batch=(1,), consecutive=True, dtype=dtype),
        ]


class TestOnPoints(ModelConformance):
    def make_model(self):
        return network(ON_POINTS)

    def prompts(self, dtype=torch.float32):
        return [
            make_prompt(1, batch=(3,), dtype=dtype),
            make_prompt(2, batch=(2, 2), dimensions=2, own_grids=True, dtype=dtype),
            make_prompt(3, batch=(2,), dimensions=2, points=23, answer_points=7, dtype=dtype),
            mfc.sample("g_2to2", n=2, dtype=dtype).prompt,
            mfc.sample("rho_1to1", n=2, dtype=dtype).prompt,
        ]


def cases() -> list[tuple[IconConfig, Prompt]]:
    return [
        (ON_GRID, conservation.sample("cubic", n=3).prompt),
        (ON_POINTS, mfc.sample("g_1to2", n=2).prompt),
    ]


@pytest.mark.parametrize(("config", "prompt"), cases())
def test_order_of_examples_does_not_matter(config: IconConfig, prompt: Prompt) -> None:
    model = network(config)
    order = torch.tensor([3, 1, 4, 0, 2]).expand(*prompt.batch, 5)
    torch.testing.assert_close(model(prompt.choose(order)), model(prompt), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("config", "prompt"), cases())
def test_batches_of_pairs_are_encoded_once(config: IconConfig, prompt: Prompt, monkeypatch) -> None:
    model = network(config)
    encoded = []
    plain = Icon.encode

    def counting(self, x, *rest):
        encoded.append(x.shape[0] * x.shape[1])
        return plain(self, x, *rest)

    monkeypatch.setattr(Icon, "encode", counting)
    pairs = prompt.batch.numel() * prompt.examples
    chop.parse("correct(icon)").run(model, prompt)
    assert sum(encoded) == pairs
    encoded.clear()
    fresh = prompt.to(torch.float32)._each(lambda tensor: tensor.clone())
    chop.parse("select(correct(rescale | icon), icon)").run(model, fresh)
    # the bare prompt, the rescaled one, and five rescaled held-out ones with four distinct pairs each
    assert sum(encoded) == pairs * (1 + 1 + 4)


@pytest.mark.parametrize("gap", [0, 1])
@pytest.mark.parametrize("pad", [False, True])
def test_nested_held_out_prompts_share(pad: bool, gap: int) -> None:
    model = network(ON_GRID)
    prompt = make_prompt(5, batch=(2,), points=40, examples=6, dtype=torch.float32)
    inner = prompt.held_out(pad=pad, gap=gap).held_out(pad=pad)
    with torch.inference_mode():
        torch.testing.assert_close(model.predict_many([prompt, inner])[1], model(inner), rtol=1e-5, atol=1e-5)


def test_rollout_encodes_once_and_forgets(monkeypatch) -> None:
    model = network(ON_GRID)
    prompt = conservation.sample("cubic", n=2).prompt
    calls = []
    plain = Icon.encode
    monkeypatch.setattr(Icon, "encode", lambda self, *a: (calls.append(1), plain(self, *a))[1])
    long = chop.rollout(chop.parse("icon"), model, prompt, 4)
    assert len(calls) == 1
    step = prompt
    for i in range(4):
        values = model(step)
        torch.testing.assert_close(long.values[:, i], values, rtol=1e-4, atol=1e-4)
        step = step.mapped(query=step.query.with_values(values))
    inputs = weakref.ref(prompt.inputs)
    assert len(sharing_module._memories[model]) == 1
    del prompt, step
    gc.collect()
    assert inputs() is None
    assert not sharing_module._memories[model]


def test_changed_examples_are_encoded_again() -> None:
    model = network(ON_GRID)
    prompt = conservation.sample("cubic", n=2).prompt
    with torch.inference_mode():
        before = model.predict_many([prompt])[0]
    prompt.outputs.values.mul_(0.5)
    with torch.inference_mode():
        after = model.predict_many([prompt])[0]
        torch.testing.assert_close(after, model(prompt))
    assert not torch.allclose(before, after)


def test_answer_does_not_depend_on_what_else_is_asked() -> None:
    model = network(ON_POINTS)
    whole = mfc.sample("g_1to2", n=2).prompt
    rows = whole.at.unflatten(-2, (10, 50))
    part = whole.mapped(at=rows[:, 3:5].flatten(1, 2))
    expected = model(whole).unflatten(-2, (10, 50))[:, 3:5].flatten(1, 2)
    torch.testing.assert_close(model(part), expected, rtol=1e-5, atol=1e-5)


def test_shifted_question_has_shifted_answer() -> None:
    """Rotary coordinates with integer frequencies: a shift by whole patches changes nothing."""
    model = network(ON_GRID)
    prompt = conservation.sample("cubic", n=2).prompt

    def shifted(part: Field) -> Field:
        return Field(part.coords, part.values.roll(30, dims=-2))

    turned = Prompt(
        inputs=shifted(prompt.inputs),
        outputs=shifted(prompt.outputs),
        query=shifted(prompt.query),
        at=prompt.at,
    )
    torch.testing.assert_close(model(turned), model(prompt).roll(30, dims=-2), rtol=1e-4, atol=1e-4)


def test_mixed_batch_of_rows_and_scattered_points() -> None:
    model = network(ON_POINTS)
    rows = mfc.sample("g_2to2", n=1).prompt
    scattered = make_prompt(3, batch=(1,), dimensions=2, points=500, dtype=torch.float32)
    both = chop.stack([rows, scattered])
    torch.testing.assert_close(model(both), torch.cat([model(rows), model(scattered)]), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("points", [1, 3, 10, 12, 50, 100, 101])
@pytest.mark.parametrize("rows", [1, 4])
def test_layout_covers_every_point_once(points: int, rows: int) -> None:
    cut = cut_patches(points * rows, rows, 10, 5)
    assert len(cut.place.unique()) == points * rows
    assert cut.window.shape == (cut.tokens, 20)
    own = cut.window[:, 5:15].flatten()[cut.place]
    assert own.tolist() == list(range(points * rows))
    row_of_token = cut.centre // points
    assert bool((cut.window // points == row_of_token[:, None]).all())


def test_rows_are_found() -> None:
    t = torch.tensor([0.0, 0.5, 1.0]).repeat_interleave(4)
    grid = torch.stack([t, torch.rand(12)], dim=-1)
    assert int(count_rows(grid)) == 3
    assert int(count_rows(torch.rand(12, 2))) == 1
    uneven = grid.clone()
    uneven[4, 0] = 0.0
    assert int(count_rows(uneven)) == 1


def test_interpolation() -> None:
    x = torch.arange(100)[:, None] / 100
    u = torch.sin(2 * torch.pi * x)
    torch.testing.assert_close(interpolated(x[::2], u[::2], 100)[::2], u[::2])
    torch.testing.assert_close(interpolated(x[::2], u[::2], 100), u, atol=3e-3, rtol=0)
    shuffled = torch.randperm(100)
    torch.testing.assert_close(interpolated(x[shuffled], u[shuffled], 100), u, atol=1e-6, rtol=0)
    half = at_points(x, u, torch.tensor([[0.995]]))
    torch.testing.assert_close(half, (u[-1:] + u[:1]) / 2, atol=1e-4, rtol=0)


@pytest.mark.parametrize(
    ("config", "prompt", "word"),
    [
        (CONSERVATION, make_prompt(1, dimensions=2), "coordinate"),
        (CONSERVATION, make_prompt(1, channels=(2, 2)), "channel"),
        (MFC, make_prompt(1, dimensions=3), "coordinate"),
        (MFC, make_prompt(1, dimensions=2, channels=(1, 2)), "channel"),
        (
            MFC,
            Prompt(**{**vars(make_prompt(1)), "axes": (chop.Axis("x", 2.0),)}),
            "period",
        ),
    ],
)
def test_unsuitable_prompts_are_refused(config: IconConfig, prompt: Prompt, word: str) -> None:
    with pytest.raises(ModelError, match=word):
        chop.parse("icon").run(network(config), prompt)


@pytest.mark.parametrize(
    "changes",
    [
        {"width": 30},
        {"coordinates": 3},
        {"grid": 95},
        {"inputs": 2},
        {"patch": 0},
        {"heads": "4"},
        {"encoder_layers": True},
    ],
)
def test_bad_configurations(changes: dict[str, object]) -> None:
    with pytest.raises(ModelError):
        IconConfig.from_dict({**CONSERVATION.to_dict(), **changes})


def test_configuration_round_trip() -> None:
    assert IconConfig.from_dict(MFC.to_dict()) == MFC
    with pytest.raises(ModelError, match="depth"):
        IconConfig.from_dict({**MFC.to_dict(), "depth": 3})


def test_a_run_before_training_does_no_harm():
    """What is remembered about grids may be made in inference mode; autograd must accept it later."""
    from chop.icon.functions.tokens import cut_patches

    cut_patches.cache_clear()
    with torch.inference_mode():
        cut = cut_patches(30, 1, 10, 5)
    assert not cut.window.is_inference()
