"""Published networks of functions against a literal, slow version of their description."""

from __future__ import annotations

import gc
import math
import weakref

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import chop
from chop.core.errors import ModelError
from chop.core.prompt import Axis, Field, Prompt
from chop.icon import sharing
from chop.icon.config import PublishedConfig, config_from
from chop.icon.published import answering
from chop.icon.published import network as published
from chop.icon.published.network import PublishedIcon
from chop.icon.published.prefixes import Prefixes
from chop.icon.weights import load, save
from chop.testing import ModelConformance, make_prompt

X = PublishedConfig(width=12, heads=3, transformer_layers=3, hidden=20, functions=40)
TX = PublishedConfig(coordinates=2, channels=2, width=8, heads=2, transformer_layers=2, hidden=10)
NAMELESS = PublishedConfig(width=8, heads=2, transformer_layers=1, hidden=10, functions=0)


def random_network(config: PublishedConfig, dtype: torch.dtype = torch.float64) -> PublishedIcon:
    """Weights as untidy as trained ones, biases and norms too."""
    network = PublishedIcon(config).to(dtype).eval().requires_grad_(False)
    random = torch.Generator().manual_seed(7)
    for name, value in network.named_parameters():
        drawn = torch.randn(value.shape, generator=random, dtype=torch.float64)
        value.copy_((drawn / math.sqrt(value.shape[-1]) + ("norm" in name)).to(dtype))
    return network


def literal(network: PublishedIcon, prompt: Prompt) -> np.ndarray:
    """One prompt, token by token: what is published, with no thought of speed."""
    w = {name: value.double().numpy() for name, value in network.state_dict().items()}
    heads, layers = network.config.heads, network.config.transformer_layers
    tokens: list[np.ndarray] = []
    owner: list[tuple[int, str]] = []

    def function(example: int, kind: str, coords: torch.Tensor, values: torch.Tensor | None) -> None:
        for i in range(len(coords)):
            at = [0.0] * (network.config.coordinates - coords.shape[1]) + coords[i].tolist()
            shown = [0.0] * network.config.channels if values is None else values[i].tolist()
            token = w["pre_projection.weight"] @ np.array(at + shown) + w["pre_projection.bias"]
            if network.config.functions:
                token = token + w["function_pe.weight"][3 * example + ("cond", "qoi", "asked").index(kind)]
            tokens.append(token)
            owner.append((example, kind))

    for j in range(prompt.examples):
        function(j, "cond", prompt.inputs.coords[j], prompt.inputs.values[j])
        function(j, "qoi", prompt.outputs.coords[j], prompt.outputs.values[j])
    function(prompt.examples, "cond", prompt.query.coords, prompt.query.values)
    function(prompt.examples, "asked", prompt.at, None)

    size = len(tokens)
    sees = np.zeros((size, size), dtype=bool)
    for a, (mine, kind) in enumerate(owner):
        for b, (other, what) in enumerate(owner):
            before = other < mine
            within = other == mine and (what == "cond" or kind == what == "qoi")
            itself = kind == what == "asked" and a == b
            sees[a, b] = before or within or itself

    def norm(row: np.ndarray, name: str) -> np.ndarray:
        centred = row - row.mean()
        return centred / np.sqrt((centred**2).mean() + 1e-5) * w[f"{name}.weight"] + w[f"{name}.bias"]

    gelu = np.vectorize(lambda value: 0.5 * value * (1 + math.erf(value / math.sqrt(2))))
    hidden = np.stack(tokens)
    each = hidden.shape[1] // heads
    for layer in range(layers):
        at = f"transformer.layers.{layer}"
        packed = hidden @ w[f"{at}.self_attn.in_proj_weight"].T + w[f"{at}.self_attn.in_proj_bias"]
        q, k, v = np.split(packed, 3, axis=1)
        heard = np.zeros_like(hidden)
        for head in range(heads):
            part = slice(head * each, (head + 1) * each)
            for a in range(size):
                scores = [
                    q[a, part] @ k[b, part] / math.sqrt(each) if sees[a, b] else -math.inf
                    for b in range(size)
                ]
                weights = np.exp(np.array(scores) - max(scores))
                heard[a, part] = (weights / weights.sum()) @ v[:, part]
        out = heard @ w[f"{at}.self_attn.out_proj.weight"].T + w[f"{at}.self_attn.out_proj.bias"]
        for a in range(size):
            row = norm(hidden[a] + out[a], f"{at}.norm1")
            wide = gelu(w[f"{at}.linear1.weight"] @ row + w[f"{at}.linear1.bias"])
            hidden[a] = norm(row + w[f"{at}.linear2.weight"] @ wide + w[f"{at}.linear2.bias"], f"{at}.norm2")
    asked = hidden[[kind == "asked" for _, kind in owner]]
    return asked @ w["post_projection.weight"].T + w["post_projection.bias"]


def all_literal(network: PublishedIcon, prompt: Prompt) -> torch.Tensor:
    flat = prompt.flat()
    rows = [torch.from_numpy(literal(network, flat[i])) for i in range(len(flat.query.values))]
    return torch.stack(rows).reshape(prompt.answer_shape)


def far_apart(one: torch.Tensor, other: torch.Tensor) -> float:
    return float((one.double() - other).abs().max() / other.abs().max())


@pytest.mark.parametrize("examples", range(1, 7))
@pytest.mark.parametrize(
    ("config", "dimensions", "channels"), [(X, 1, 1), (TX, 2, 2), (TX, 1, 2), (NAMELESS, 1, 1)]
)
def test_equal_to_the_description(
    config: PublishedConfig, dimensions: int, channels: int, examples: int
) -> None:
    prompt = make_prompt(
        examples, batch=(2,), examples=examples, points=5, answer_points=3, dimensions=dimensions,
        channels=(channels, channels), own_grids=dimensions == 2,
    )  # fmt: skip
    network = random_network(config)
    expected = all_literal(network, prompt)
    assert far_apart(network(prompt), expected) < 1e-10
    assert far_apart(network.predict_many([prompt])[0], expected) < 1e-10
    assert far_apart(random_network(config, torch.float32)(prompt.to(torch.float32)), expected) < 1e-5


@pytest.mark.parametrize("config", [X, TX])
def test_held_out_prompts_are_answered_as_if_alone(config: PublishedConfig) -> None:
    network = random_network(config)
    prompt = make_prompt(
        3, batch=(2,), examples=4, points=4, answer_points=2, dimensions=config.coordinates,
        channels=(config.channels, config.channels), own_grids=config.coordinates == 2,
    )  # fmt: skip
    asked = [
        prompt,
        prompt.held_out(pad=True),
        prompt.held_out(pad=False),
        prompt.held_out(pad=True, gap=1),
        prompt.held_out(pad=False).held_out(pad=True),
        prompt.choose(torch.tensor([2, 0]).expand(2, 2)),
        prompt.choose(torch.tensor([[2, 0], [1, 3]])),
        prompt.choose(torch.tensor([[2, 0, 1], [1, 3, 0]])).held_out(pad=False),
    ]
    for one, many in zip(asked, network.predict_many(asked), strict=True):
        assert far_apart(many, all_literal(network, one)) < 1e-10


def test_a_query_with_points_of_its_own() -> None:
    """Inputs, outputs, query and what is asked: four numbers of points."""
    random = torch.Generator().manual_seed(1)

    def field(*shape: int) -> Field:
        draw = torch.rand(*shape, 2, generator=random, dtype=torch.float64)
        return Field(draw[..., :1], draw[..., 1:])

    prompt = Prompt(
        field(2, 3, 5), field(2, 3, 4), field(2, 7), torch.rand(2, 9, 1, generator=random).double()
    )
    network = random_network(X)
    assert far_apart(network(prompt), all_literal(network, prompt)) < 1e-10


@settings(max_examples=25, deadline=None)
@given(
    examples=st.integers(1, 4), points=st.integers(1, 6), asked=st.integers(1, 6), rows=st.integers(1, 3),
    tokens=st.integers(1, 60), together=st.integers(1, 4), seed=st.integers(0, 99),
)  # fmt: skip
def test_pieces_do_not_matter(
    examples: int, points: int, asked: int, rows: int, tokens: int, together: int, seed: int
) -> None:
    """However the work is cut, the answers are those of the whole."""
    network = random_network(X)
    prompt = make_prompt(seed, batch=(rows,), examples=examples, points=points, answer_points=asked)
    expected = network(prompt)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(published.TOKENS, "cpu", tokens)
        patch.setattr(published, "ASKED", together)
        assert far_apart(network(prompt), expected) < 1e-12
        if examples > 1:
            held = prompt.held_out(pad=True)
            assert far_apart(network.predict_many([prompt, held])[1], network(held)) < 1e-12


def test_prefixes_of_held_out_prompts() -> None:
    """Thirty pairs of six sequences have twenty beginnings."""
    sequences = [
        (0, 1, 2, 3, 4),
        (1, 2, 3, 4, 1),
        (0, 2, 3, 4, 0),
        (0, 1, 3, 4, 0),
        (0, 1, 2, 4, 0),
        (0, 1, 2, 3, 0),
    ]
    tree = Prefixes.of(sequences)
    assert len(tree) == 20
    assert tree.paths[:5] == ((0,), (1,), (0, 1), (0, 2), (1, 2))
    assert tree.pairs[:5] == [0, 1, 1, 2, 2]
    assert tree.positions[:5] == [0, 0, 1, 1, 1]
    assert tree.chains([(0, 1), (1, 2)]).tolist() == [[0, 2], [1, 4]]
    assert [places for places, _ in tree.levels()] == [
        slice(0, 2), slice(2, 5), slice(5, 9), slice(9, 14), slice(14, 20)
    ]  # fmt: skip


def test_examples_are_encoded_as_often_as_they_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    network = random_network(X, torch.float32)
    encoded: list[int] = []
    plain = PublishedIcon.encode

    def counted(self: PublishedIcon, x: torch.Tensor, y: torch.Tensor, prefixes: Prefixes) -> object:
        encoded.append(len(prefixes))
        return plain(self, x, y, prefixes)

    monkeypatch.setattr(PublishedIcon, "encode", counted)
    prompt = make_prompt(0, batch=(2,), points=6, dtype=torch.float32)
    chop.parse("correct(icon)").run(network, prompt)
    assert encoded == [20]
    chop.rollout("icon", network, make_prompt(1, batch=(2,), points=6, dtype=torch.float32), 4)
    assert encoded == [20, 5]


def test_a_rollout_remembers_and_forgets() -> None:
    network = random_network(X)
    prompt = make_prompt(4, batch=(2,), points=6)
    steps = chop.rollout("icon", network, prompt, 3)
    step = prompt
    for i in range(3):
        values = all_literal(network, step)
        assert far_apart(steps.values[:, i], values) < 1e-9
        step = step.mapped(query=step.query.with_values(values))
    inputs = weakref.ref(prompt.inputs)
    assert len(sharing._memories[network]) == 1
    del prompt, step
    gc.collect()
    assert inputs() is None
    assert not sharing._memories[network]


def test_rows_without_room_are_worked_out_again(monkeypatch: pytest.MonkeyPatch) -> None:
    network = random_network(X)
    prompt = make_prompt(4, batch=(5,), points=6)
    expected = chop.rollout("icon", network, make_prompt(4, batch=(5,), points=6), 3).values
    monkeypatch.setitem(published.TOKENS, "cpu", 60)
    monkeypatch.setattr(answering, "REMEMBERED_BYTES", 2 * 5 * 12 * 12 * 2 * 8 * 3)
    steps = chop.rollout("icon", network, prompt, 3)
    assert far_apart(steps.values, expected) < 1e-12
    remembered = sharing.recall_examples(network, prompt)
    assert [memory is not None for memory in remembered.memories] == [True, True, False, False, False]


def test_what_else_was_asked_leaves_the_bits_alone() -> None:
    network = random_network(X, torch.float32)
    prompt = make_prompt(4, batch=(3,), points=6, dtype=torch.float32)
    raw = chop.parse("icon")
    before = raw.run(network, prompt).values
    chop.parse("correct(icon)").run(network, prompt)
    assert torch.equal(raw.run(network, prompt).values, before)


def test_time_comes_first_and_x_is_scaled() -> None:
    network = random_network(TX)
    prompt = make_prompt(1, batch=(2,), examples=2, points=4, dimensions=2, channels=(2, 2))

    def flipped(part: Field) -> Field:
        return Field(part.coords.flip(-1), part.values)

    turned = Prompt(
        flipped(prompt.inputs), flipped(prompt.outputs), flipped(prompt.query), prompt.at.flip(-1),
        axes=(Axis("x", 1.0), Axis("t")),
    )  # fmt: skip
    assert far_apart(network(turned), all_literal(network, prompt)) < 1e-10

    stretched = PublishedIcon(PublishedConfig(**{**TX.to_dict(), "x_scale": 2.0})).double().eval()
    stretched.load_state_dict(network.state_dict())
    scale = torch.tensor([1.0, 2.0])

    def doubled(part: Field) -> Field:
        return Field(part.coords * scale, part.values)

    wide = Prompt(doubled(prompt.inputs), doubled(prompt.outputs), doubled(prompt.query), prompt.at * scale)
    assert far_apart(stretched(prompt).detach(), all_literal(network, wide)) < 1e-10


def test_function_of_x_alone_stands_at_time_zero() -> None:
    """As terminal costs did in training."""
    network = random_network(TX)
    prompt = make_prompt(1, batch=(2,), examples=2, points=4, channels=(2, 2))

    def timed(part: Field) -> Field:
        return Field(torch.cat([torch.zeros_like(part.coords), part.coords], -1), part.values)

    at = torch.cat([torch.zeros_like(prompt.at), prompt.at], -1)
    both = Prompt(timed(prompt.inputs), timed(prompt.outputs), timed(prompt.query), at)
    assert torch.equal(network(prompt), network(both))


class TestConformance(ModelConformance):
    def make_model(self) -> PublishedIcon:
        return random_network(X, torch.float32)

    def prompts(self, dtype: torch.dtype = torch.float32) -> list[Prompt]:
        return [make_prompt(seed, batch=(3,), points=6, dtype=dtype) for seed in range(3)]


def test_saved_and_loaded(tmp_path) -> None:
    network = random_network(TX, torch.float32)
    again = load(save(network, tmp_path / "net.safetensors", {"source": "elsewhere"}))
    assert isinstance(again, PublishedIcon)
    assert again.config == TX
    assert config_from(TX.to_dict()) == TX
    prompt = make_prompt(1, batch=(2,), dimensions=2, channels=(2, 2), dtype=torch.float32)
    assert torch.equal(again(prompt), network(prompt))


@pytest.mark.parametrize(
    ("prompt", "words"),
    [
        (make_prompt(0, examples=13), "tells 40 functions apart, so it takes at most 12 examples"),
        (make_prompt(0, dimensions=2), "knows functions of 1 coordinate, the prompt has 2"),
        (make_prompt(0, channels=(2, 1)), "maps 1 channel.s. to 1, the prompt 2 to 1"),
    ],
)
def test_prompts_it_cannot_be_asked(prompt: Prompt, words: str) -> None:
    with pytest.raises(ModelError, match=words):
        random_network(X)(prompt)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"coordinates": 3}, "one or two coordinates"),
        ({"heads": 5}, "width 12 must be a multiple of 5 heads"),
        ({"transformer_layers": 65}, "transformer_layers of a network must be a whole number, 1 to 64"),
        ({"width": True}, "width of a network must be a whole number"),
        ({"x_scale": 0.0}, "x_scale must be a positive number"),
        ({"x_scale": "1"}, "x_scale must be a positive number"),
        ({"functions": -1}, "functions of a network must be a whole number, 0 to"),
    ],
)
def test_shapes_that_cannot_be(changes: dict[str, object], words: str) -> None:
    with pytest.raises(ModelError, match=words):
        config_from({**X.to_dict(), **changes})


def test_everything_happens_on_the_network_s_own_device() -> None:
    """On a device that only knows shapes: what lies elsewhere would not meet it."""
    network = random_network(X, torch.float32).to("meta")
    prompt = make_prompt(0, batch=(2,), dtype=torch.float32)
    asked = [prompt, prompt.held_out(pad=True), prompt.held_out(pad=False)]
    questions = [sharing.Question.about_root(one, alike=True) for one in asked]
    answers = network.answers(prompt, questions, share=False)
    assert [(values.device.type, tuple(values.shape)) for values in answers] == [
        ("meta", (2, 1, 12, 1)), ("meta", (2, 5, 12, 1)), ("meta", (2, 5, 12, 1)),
    ]  # fmt: skip
