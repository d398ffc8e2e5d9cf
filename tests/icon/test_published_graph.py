"""Published graph networks against a literal, slow version of their description."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import chop
from chop.core.errors import ModelError
from chop.core.prompt import Field, Graph, Prompt
from chop.icon import sharing
from chop.icon.config import GraphConfig, config_from
from chop.icon.published import answering, graph_network, messages
from chop.icon.published.graph_network import PublishedGraphIcon
from chop.icon.weights import load, save
from chop.numerics.earth import geodesic, plane_direction
from chop.testing import ModelConformance, make_prompt

CHANNELS = ("hour", "PM2.5", "O3", "t2m")
PLAIN = GraphConfig(
    channels=CHANNELS, trained_order=("O3", "hour", "t2m", "PM2.5"), hours=3, width=16, heads=2, hidden=20,
    edge_width=5, message_width=7, graph_layers=2, transformer_layers=2,
)  # fmt: skip


def kind(attention: str, **settings: Any) -> GraphConfig:
    return replace(PLAIN, attention=attention, **settings)


ROLES = (None, "input", "logit")
KINDS = [
    *(kind("plain", role=role) for role in ROLES),
    kind("plain", norm="rms", heads=4),
    kind("plain", most_examples=6, absolute_positions=True),
    kind("rotary"),
    kind("rotary", heads=4, norm="rms", most_examples=6, absolute_positions=True),
    kind("relative", most_examples=6),
    kind("relative", most_examples=9, heads=4),
    *(
        kind("similar", similarity=similarity, pooling=pooling, role=role)
        for similarity, pooling, role in product(("prod", "attn"), (None, "learning", "pooling"), ROLES)
    ),
    kind("similar", similarity="attn", pooling="pooling", role="logit", heads=4, norm="rms"),
    *(
        kind("placed", similarity=similarity, role=role, most_examples=6)
        for similarity, role in product(("prod", "attn"), ROLES)
    ),
    kind("absolute", most_examples=7),
    *(kind("set_rotary", role=role) for role in ROLES),
    kind("set_rotary", role="logit", heads=4, norm="rms"),
]
ONE_OF_EACH = [
    kind("plain", role="input"),
    kind("plain", most_examples=6, absolute_positions=True),
    kind("rotary"),
    kind("relative", most_examples=6),
    kind("similar", similarity="attn", pooling="pooling", role="logit"),
    kind("placed", similarity="prod", most_examples=6),
    kind("absolute", most_examples=6),
    kind("set_rotary", role="logit"),
]


def described(config: GraphConfig) -> str:
    values = [config.attention, config.similarity, config.pooling, config.role, config.norm, config.heads]
    return "-".join(str(value) for value in values if value) + "-named" * config.absolute_positions


def random_network(config: GraphConfig, dtype: torch.dtype = torch.float64) -> PublishedGraphIcon:
    """Weights as untidy as trained ones, biases and norms too; kilometres and degrees made small."""
    network = PublishedGraphIcon(config).to(dtype).eval().requires_grad_(False)
    random = torch.Generator().manual_seed(7)
    for name, value in network.named_parameters():
        drawn = torch.randn(value.shape, generator=random, dtype=torch.float64)
        size = 0.01 if name == "edge_proj.weight" else 1 / math.sqrt(value.shape[-1])
        value.copy_((size * drawn + ("norm" in name and name.endswith("weight"))).to(dtype))
    return network


def literal(network: PublishedGraphIcon, prompt: Prompt) -> np.ndarray:
    """One prompt, position by position and edge by edge, with no thought of speed."""
    c = network.config
    w = {name: value.double().numpy() for name, value in network.state_dict().items()}
    stations, examples = len(prompt.at), prompt.examples

    def apply(name: str, vector: np.ndarray) -> np.ndarray:
        bias = w.get(f"{name}.bias", 0.0)
        return w[f"{name}.weight"] @ vector + bias

    def reordered(values: np.ndarray) -> np.ndarray:
        return np.array([values[c.channels.index(name)] for name in c.trained_order])

    def window(values: np.ndarray, s: int) -> np.ndarray:
        frames = [reordered(values[hour * stations + s]) for hour in range(c.hours)]
        return apply("pre_proj_cond", np.concatenate(frames))

    h: list[list[np.ndarray]] = []  # h[position][station]
    for j in range(examples):
        x, y = prompt.inputs.values[j].numpy(), prompt.outputs.values[j].numpy()
        h.append([window(x, s) for s in range(stations)])
        h.append([apply("pre_proj_qoi", reordered(y[s])) for s in range(stations)])
    h.append([window(prompt.query.values.numpy(), s) for s in range(stations)])
    length = len(h)
    if c.absolute_positions:
        for p, s in product(range(length), range(stations)):
            h[p][s] = h[p][s] + w["example_embeddings.weight"][p // 2] + w["type_embeddings.weight"][p % 2]

    places = prompt.at[:, 1:].double().numpy()
    pairs = list(product(range(stations), repeat=2))
    if prompt.graph is not None:
        pairs = sorted({(int(a), int(b)) for a, b in prompt.graph.edges.T})
    edges = []
    for a, b in pairs:
        if tuple(places[a]) != tuple(places[b]):
            ends = (*places[a], *places[b])
            attributes = np.array([float(geodesic(*ends)), float(plane_direction(*ends))])
            edges.append((a, b, apply("edge_proj", attributes)))

    def norm(row: np.ndarray, name: str) -> np.ndarray:
        if f"{name}.bias" not in w:
            return row / np.sqrt((row**2).mean() + 1e-6) * w[f"{name}.weight"]
        centred = row - row.mean()
        return centred / np.sqrt((centred**2).mean() + 1e-5) * w[f"{name}.weight"] + w[f"{name}.bias"]

    def gelu(row: np.ndarray) -> np.ndarray:
        return np.array([0.5 * value * (1 + math.erf(value / math.sqrt(2))) for value in row.tolist()])

    for block in range(c.graph_layers):
        at = f"gicon_blocks.{block}"
        for p in range(length):
            arrived = [np.zeros(c.width) for _ in range(stations)]
            for a, b, feature in edges:
                inner = apply(f"{at}.message_mlp.0", np.concatenate([h[p][a], h[p][b], feature]))
                arrived[b] = arrived[b] + apply(f"{at}.message_mlp.2", np.maximum(inner, 0))
            h[p] = [h[p][s] + arrived[s] for s in range(stations)]
        for layer in range(c.transformer_layers):
            part = f"{at}.incontext_transformer.layers.{layer}"
            heard = literal_attention(c, w, f"{part}.attn_layer", h, norm, apply)
            for p, s in product(range(length), range(stations)):
                row = norm(h[p][s] + heard[p][s], f"{part}.norm1")
                fed = apply(f"{part}.feed_forward.3", gelu(apply(f"{part}.feed_forward.0", row)))
                h[p][s] = norm(row + fed, f"{part}.norm2")
    answer = np.zeros((stations, len(c.channels)))
    for s in range(stations):
        for name, value in zip(c.trained_order, apply("post_proj", h[-1][s]), strict=True):
            answer[s, c.channels.index(name)] = value
    return answer


def literal_attention(c: GraphConfig, w: dict, at: str, h: list, norm: Any, apply: Any) -> list:
    """What attention adds at each position and station."""
    length, stations, heads = len(h), len(h[0]), c.heads
    each = c.width // heads
    tables = {name.removeprefix(f"{at}."): value for name, value in w.items() if name.startswith(f"{at}.")}

    def two_layers(name: str, vector: np.ndarray) -> np.ndarray:
        return apply(f"{at}.{name}.2", np.maximum(apply(f"{at}.{name}.0", vector), 0))

    inside = [[np.zeros(c.width)] * stations for _ in range(length)]
    for p, s in product(range(length), range(stations)):
        token = h[p][s]
        if c.attention == "absolute":
            token = token + tables["example_embeddings.weight"][p // 2]
            token = token + tables["type_embeddings.weight"][p % 2]
        token = norm(token, f"{at}.pre_norm")
        if c.role == "input":
            token = token + (
                tables["role_encoding.role_vec"] if p % 2 == 0 else -tables["role_encoding.role_vec"]
            )
        inside[p][s] = token

    added = np.zeros((heads, length, length))
    for head, i, j in product(range(heads), range(length), range(length)):
        if j > i:
            added[head, i, j] = -math.inf
        if c.role == "logit":
            added[head, i, j] += tables["role_encoding.bias.weight"][2 * (i % 2) + j % 2, head]
        if c.attention == "relative":
            far = min(max(j - i, -2 * c.most_examples), 2 * c.most_examples)
            added[head, i, j] += tables["pos_bias.weight"][far + length - 1, head] / math.sqrt(each)
    if c.attention in ("similar", "placed"):
        whole = []
        for i in range((length + 1) // 2):
            windows = h[2 * i]
            if c.attention == "placed":
                whole.append(tables["cond_embedding_proj.weight"][i])
            elif c.pooling == "pooling":
                parts = [two_layers("cond_embedding_proj", token) for token in windows]
                gates = [1 / (1 + math.exp(-two_layers("spatial_attention", part).item())) for part in parts]
                whole.append(sum(gate * part for gate, part in zip(gates, parts, strict=True)))
            else:
                mean = sum(windows) / stations
                whole.append(two_layers("cond_embedding_proj", mean) if c.pooling == "learning" else mean)
        ones, others = whole, whole
        if c.similarity == "attn":
            ones, others = ([apply(f"{at}.cond_{n}_proj", e) for e in whole] for n in "qk")
        for head, i, j in product(range(heads), range(length), range(length)):
            part = slice(head * each, (head + 1) * each)
            added[head, i, j] += ones[i // 2][part] @ others[j // 2][part] / math.sqrt(each)

    angles = np.zeros((length, heads, each // 2))
    if c.attention == "rotary":
        for p, i in product(range(length), range(each // 2)):
            angles[p, :, i] = p * 10000.0 ** (-2 * i / each)
    if c.attention == "set_rotary":
        raw = [apply(f"{at}.phi_readout", sum(inside[p]) / stations) for p in range(0, length, 2)]
        for p in range(length):
            angles[p] = (math.pi * np.tanh(raw[p // 2] - sum(raw) / len(raw)))[:, None]

    def turned(vector: np.ndarray, p: int) -> np.ndarray:
        """Each head as complex numbers, halves being real and imaginary parts."""
        real, imaginary = np.split(vector.reshape(heads, each), 2, axis=1)
        turned = (real + 1j * imaginary) * np.exp(1j * angles[p])
        return np.concatenate([turned.real, turned.imag], axis=1).ravel()

    found = [[np.zeros(c.width)] * stations for _ in range(length)]
    for s in range(stations):
        q, k, v = ([apply(f"{at}.attention.{n}_proj", inside[p][s]) for p in range(length)] for n in "qkv")
        q, k = ([turned(vector, p) for p, vector in enumerate(part)] for part in (q, k))
        for i in range(length):
            mixed = np.zeros(c.width)
            for head in range(heads):
                part = slice(head * each, (head + 1) * each)
                scores = np.array([q[i][part] @ k[j][part] / math.sqrt(each) for j in range(length)])
                weights = np.exp(scores + added[head, i] - (scores + added[head, i]).max())
                mixed[part] = sum(weights[j] * v[j][part] for j in range(length)) / weights.sum()
            found[i][s] = apply(f"{at}.attention.o_proj", mixed)
    return found


def all_literal(network: PublishedGraphIcon, prompt: Prompt) -> torch.Tensor:
    flat = prompt.flat()
    rows = [torch.from_numpy(literal(network, flat[i])) for i in range(len(flat.query.values))]
    return torch.stack(rows).reshape(prompt.answer_shape)


def far_apart(one: torch.Tensor, other: torch.Tensor) -> float:
    return float((one.double() - other.double()).abs().max() / other.double().abs().max())


def question(
    seed: int, batch: tuple[int, ...] = (), examples: int = 3, stations: int = 5, **changes: Any
) -> Prompt:
    """Stations within a degree of each other; edges one way, the last station alone."""
    prompt = make_prompt(
        seed, batch=batch, examples=examples, points=stations, dimensions=3, channels=(4, 4),
        dtype=changes.pop("dtype", torch.float64),
    )  # fmt: skip
    return replace(prompt, **changes)


@pytest.mark.parametrize("config", KINDS, ids=described)
def test_equal_to_the_description(config: GraphConfig) -> None:
    network, single = random_network(config), random_network(config, torch.float32)
    prompt = question(0, (), 1 + KINDS.index(config) % 6)
    expected = all_literal(network, prompt)
    assert far_apart(network(prompt), expected) < 1e-10
    assert far_apart(network.predict_many([prompt])[0], expected) < 1e-10
    assert far_apart(single(prompt.to(torch.float32)), expected) < 1e-5


@pytest.mark.parametrize("examples", range(1, 7))
@pytest.mark.parametrize("config", ONE_OF_EACH, ids=described)
def test_any_number_of_examples(config: GraphConfig, examples: int) -> None:
    network = random_network(config)
    prompt = question(examples, (2,) if examples < 3 else (), examples, stations=3)
    assert far_apart(network(prompt), all_literal(network, prompt)) < 1e-10


def test_graphs_are_taken_as_they_are() -> None:
    """One way, twice, none, all; stations at one place say nothing to each other."""
    network = random_network(kind("similar", similarity="prod"))
    prompt = question(1, (2,), stations=6)
    together = [replace_places(part, 4, 1) for part in (prompt.inputs, prompt.outputs, prompt.query)]
    crowded = Prompt(*together, together[1].coords[0, 0], prompt.graph, prompt.axes)
    graphs = [
        Graph([[0, 1, 2], [1, 2, 3]], 6),
        Graph([[1, 2, 3], [0, 1, 2]], 6),
        Graph([[0, 1, 0, 4, 1, 5], [1, 2, 1, 1, 4, 5]], 6),
        Graph(torch.zeros(2, 0, dtype=torch.long), 6),
        None,
    ]
    answers = []
    for graph, one in product(graphs, (prompt, crowded)):
        asked = replace(one, graph=graph)
        answers.append(network(asked))
        assert far_apart(answers[-1], all_literal(network, asked)) < 1e-10
    assert far_apart(answers[0], answers[2]) > 1e-3
    assert far_apart(answers[8], answers[6]) > 1e-3


def replace_places(part: Field, one: int, other: int) -> Field:
    """A station moved to where another is."""
    coords = part.coords.clone().unflatten(-2, (-1, 6))
    coords[..., one, 1:] = coords[..., other, 1:]
    return Field(coords.flatten(-3, -2), part.values)


@torch.no_grad()
@pytest.mark.parametrize("config", ONE_OF_EACH, ids=described)
def test_held_out_prompts_are_answered_as_if_alone(config: GraphConfig) -> None:
    network = random_network(config)
    prompt = question(3, (2,), examples=4)
    asked = [
        prompt,
        prompt.held_out(pad=True),
        prompt.held_out(pad=False),
        prompt.held_out(pad=True, gap=1),
        prompt.held_out(pad=False).held_out(pad=True),
        prompt.choose(torch.tensor([2, 0]).expand(2, 2)),
        prompt.choose(torch.tensor([[2, 0], [1, 3]])),
    ]
    first = network.predict_many(asked)
    for one, many, again in zip(asked, first, network.predict_many(asked), strict=True):
        assert far_apart(many, network(one)) < 1e-12
        assert torch.equal(many, again)


@torch.no_grad()
@pytest.mark.parametrize("config", ONE_OF_EACH, ids=described)
def test_remembered_examples_answer_as_fresh_ones(config: GraphConfig) -> None:
    network = random_network(config)
    prompt = question(5, (2,), examples=3, stations=3)
    network.predict_many([prompt])
    assert len(sharing._memories[network]) == 1
    asked = prompt.mapped(query=prompt.query.with_values(prompt.query.values.flip(0)))
    again = network.predict_many([asked])[0]
    assert torch.equal(again, network.predict_many([asked._each(torch.clone)])[0])
    assert far_apart(again, all_literal(network, asked)) < 1e-10
    held = prompt.held_out(pad=True)
    assert far_apart(network.predict_many([held])[0], network(held)) < 1e-12
    other = replace(asked, graph=None)
    assert far_apart(network.predict_many([other])[0], all_literal(network, other)) < 1e-10


@torch.no_grad()
def test_every_beginning_is_encoded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twenty beginnings of six sequences; where the length matters, those of each length by themselves."""
    encoded: list[int] = []
    plain = PublishedGraphIcon.encode

    def counted(self: PublishedGraphIcon, x: Any, y: Any, prefixes: Any, edges: Any) -> object:
        encoded.append(len(prefixes))
        return plain(self, x, y, prefixes, edges)

    monkeypatch.setattr(PublishedGraphIcon, "encode", counted)
    for config, counts in ((PLAIN, [20]), (kind("relative", most_examples=5), [20, 14])):
        network, prompt = random_network(config), question(0, examples=5)
        network.predict_many([prompt, prompt.held_out(pad=True), prompt.held_out(pad=False)])
        assert encoded == counts
        network.predict_many([prompt, prompt.held_out(pad=True)])
        assert encoded == counts
        encoded.clear()


@torch.no_grad()
@settings(max_examples=15, deadline=None)
@given(
    config=st.sampled_from(ONE_OF_EACH), examples=st.integers(2, 4), stations=st.integers(1, 5),
    rows=st.integers(1, 3), tokens=st.integers(1, 200), numbers=st.integers(1, 500), seed=st.integers(0, 99),
)  # fmt: skip
def test_pieces_do_not_matter(
    config: GraphConfig, examples: int, stations: int, rows: int, tokens: int, numbers: int, seed: int
) -> None:
    """However the work is cut, the answers are those of the whole; rows without room are worked out again."""
    network = random_network(config)
    prompt = question(seed, (rows,), examples, stations)
    asked = [prompt, prompt.held_out(pad=True)]
    expected = [network(one) for one in asked]
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(graph_network.STATION_TOKENS, "cpu", tokens)
        patch.setitem(messages.NUMBERS, "cpu", numbers)
        patch.setattr(answering, "REMEMBERED_BYTES", 1000 * numbers)
        for _ in range(2):
            for found, one in zip(network.predict_many(asked), expected, strict=True):
                assert far_apart(found, one) < 1e-12


@settings(max_examples=15, deadline=None)
@given(config=st.sampled_from(ONE_OF_EACH), order=st.permutations(range(6)), seed=st.integers(0, 99))
def test_the_order_of_stations_does_not_matter(config: GraphConfig, order: list[int], seed: int) -> None:
    network, prompt = random_network(config), question(seed, (2,), 2, 6)
    new = torch.tensor(order)
    assert prompt.graph is not None

    def moved(tensor: torch.Tensor) -> torch.Tensor:
        return tensor.unflatten(-2, (-1, 6))[..., new, :].flatten(-3, -2)

    graph = Graph(new.argsort()[prompt.graph.edges], 6)
    turned = prompt.mapped(
        **{name: getattr(prompt, name).each(moved) for name in ("inputs", "outputs", "query")},
        at=moved(prompt.at), graph=graph,
    )  # fmt: skip
    assert far_apart(network(turned), network(prompt)[..., new, :]) < 1e-11


def test_stations_may_differ_from_prompt_to_prompt() -> None:
    network = random_network(PLAIN)
    one, other = question(1, examples=2), question(2, examples=2)

    def both(name: str) -> Field:
        parts = [getattr(prompt, name) for prompt in (one, other)]
        coords, values = (torch.stack([getattr(p, part) for p in parts]) for part in ("coords", "values"))
        return Field(coords, values)

    prompt = Prompt(
        both("inputs"), both("outputs"), both("query"), torch.stack([one.at, other.at]), one.graph, one.axes
    )
    assert far_apart(network(prompt), all_literal(network, prompt)) < 1e-10


def test_channels_are_put_in_the_order_of_training_and_back() -> None:
    """The same weights, trained in the prompt's own order, find the same in a prompt that was turned."""
    network, prompt = random_network(PLAIN), question(1, batch=(2,))
    straight = random_network(replace(PLAIN, channels=("hour", "O3", "t2m", "PM2.5")))
    order = [0, 2, 3, 1]  # hour, O3, t2m, PM2.5 among hour, PM2.5, O3, t2m
    turned = prompt.mapped(
        **{
            name: getattr(prompt, name).with_values(getattr(prompt, name).values[..., order])
            for name in ("inputs", "outputs", "query")
        }
    )
    assert far_apart(straight(turned), network(prompt)[..., order]) < 1e-12
    frames = torch.arange(4.0, dtype=torch.float64).expand(1, 1, 5, 4)  # hour 0, PM2.5 1, O3 2, t2m 3
    assert network._as_trained(frames)[0, 0, 0].tolist() == [2.0, 0.0, 3.0, 1.0]


def test_published_order_of_channels() -> None:
    config = GraphConfig()
    assert config.channels[0] == "hour"
    assert config.trained_order.index("hour") == 8
    assert [name for name in config.trained_order if name != "hour"] == list(config.channels[1:])


def test_names_are_those_published() -> None:
    config = kind(
        "similar", similarity="attn", pooling="pooling", role="logit", graph_layers=1, transformer_layers=1,
        most_examples=6, absolute_positions=True,
    )  # fmt: skip
    layer = "gicon_blocks.0.incontext_transformer.layers.0."
    expected = {
        "pre_proj_cond.weight": (16, 12), "pre_proj_cond.bias": (16,),
        "pre_proj_qoi.weight": (16, 4), "pre_proj_qoi.bias": (16,),
        "post_proj.weight": (4, 16), "post_proj.bias": (4,),
        "edge_proj.weight": (5, 2), "edge_proj.bias": (5,),
        "example_embeddings.weight": (7, 16), "type_embeddings.weight": (2, 16),
        "gicon_blocks.0.message_mlp.0.weight": (7, 37), "gicon_blocks.0.message_mlp.0.bias": (7,),
        "gicon_blocks.0.message_mlp.2.weight": (16, 7), "gicon_blocks.0.message_mlp.2.bias": (16,),
        f"{layer}attn_layer.pre_norm.weight": (16,), f"{layer}attn_layer.pre_norm.bias": (16,),
        f"{layer}attn_layer.attention.q_proj.weight": (16, 16),
        f"{layer}attn_layer.attention.k_proj.weight": (16, 16),
        f"{layer}attn_layer.attention.v_proj.weight": (16, 16),
        f"{layer}attn_layer.attention.o_proj.weight": (16, 16),
        f"{layer}attn_layer.role_encoding.bias.weight": (4, 2),
        f"{layer}attn_layer.cond_q_proj.weight": (16, 16), f"{layer}attn_layer.cond_k_proj.weight": (16, 16),
        f"{layer}attn_layer.cond_embedding_proj.0.weight": (8, 16),
        f"{layer}attn_layer.cond_embedding_proj.0.bias": (8,),
        f"{layer}attn_layer.cond_embedding_proj.2.weight": (16, 8),
        f"{layer}attn_layer.cond_embedding_proj.2.bias": (16,),
        f"{layer}attn_layer.spatial_attention.0.weight": (4, 16),
        f"{layer}attn_layer.spatial_attention.0.bias": (4,),
        f"{layer}attn_layer.spatial_attention.2.weight": (1, 4),
        f"{layer}attn_layer.spatial_attention.2.bias": (1,),
        f"{layer}feed_forward.0.weight": (20, 16), f"{layer}feed_forward.0.bias": (20,),
        f"{layer}feed_forward.3.weight": (16, 20), f"{layer}feed_forward.3.bias": (16,),
        f"{layer}norm1.weight": (16,), f"{layer}norm1.bias": (16,),
        f"{layer}norm2.weight": (16,), f"{layer}norm2.bias": (16,),
    }  # fmt: skip
    found = {name: tuple(value.shape) for name, value in PublishedGraphIcon(config).state_dict().items()}
    assert found == expected


@pytest.mark.parametrize(
    ("config", "own"),
    [
        (kind("rotary", norm="rms"), {}),
        (kind("plain", role="input"), {"role_encoding.role_vec": (16,)}),
        (kind("relative", most_examples=3), {"pos_bias.weight": (13, 2)}),
        (kind("similar", similarity="prod"), {}),
        (kind("placed", similarity="prod", most_examples=3), {"cond_embedding_proj.weight": (4, 16)}),
        (
            kind("absolute", most_examples=3),
            {"example_embeddings.weight": (4, 16), "type_embeddings.weight": (2, 16)},
        ),
        (kind("set_rotary"), {"phi_readout.weight": (2, 16)}),
    ],
    ids=lambda value: described(value) if isinstance(value, GraphConfig) else "",
)
def test_what_each_kind_has_of_its_own(config: GraphConfig, own: dict[str, tuple[int, ...]]) -> None:
    def parts(config: GraphConfig) -> dict[str, tuple[int, ...]]:
        at = "gicon_blocks.0.incontext_transformer.layers.0."
        state = PublishedGraphIcon(config).state_dict()
        return {name.removeprefix(at): tuple(v.shape) for name, v in state.items() if name.startswith(at)}

    expected = parts(PLAIN) | {f"attn_layer.{name}": shape for name, shape in own.items()}
    if config.norm == "rms":
        del expected["norm1.bias"], expected["norm2.bias"]
    assert parts(config) == expected


class TestSimilarConformance(ModelConformance):
    config = kind("similar", similarity="attn", pooling="learning", role="input")

    def make_model(self) -> PublishedGraphIcon:
        return random_network(self.config, torch.float32)

    def prompts(self, dtype: torch.dtype = torch.float32) -> list[Prompt]:
        return [
            question(seed, (3,), dtype=dtype, **change) for seed, change in enumerate([{}, {"graph": None}])
        ]


class TestRelativeConformance(TestSimilarConformance):
    config = kind("relative", most_examples=3)


class TestWholeConformance(TestSimilarConformance):
    config = kind("set_rotary")


@pytest.mark.parametrize("config", ONE_OF_EACH, ids=described)
def test_saved_and_loaded(config: GraphConfig, tmp_path) -> None:
    network = random_network(config, torch.float32)
    again = load(save(network, tmp_path / "net.safetensors", {"source": "elsewhere"}))
    assert isinstance(again, PublishedGraphIcon)
    assert again.config == config
    assert config_from(config.to_dict()) == config
    prompt = question(1, (2,), dtype=torch.float32)
    assert torch.equal(again(prompt), network(prompt))


def test_gradients_flow() -> None:
    network = random_network(kind("set_rotary")).requires_grad_(True)
    network(question(1)).square().sum().backward()
    assert all(value.grad is not None and bool(value.grad.any()) for value in network.parameters())


def test_a_rollout_is_its_steps() -> None:
    network, prompt = random_network(PLAIN), question(4, (2,), stations=4)
    answers = network.predict_many([prompt])
    for factor in (2.0, 3.0):
        step = prompt.mapped(query=prompt.query.with_values(factor * prompt.query.values))
        answers = chop.parse("icon").run(network, step).values
        assert far_apart(answers, all_literal(network, step)) < 1e-10


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"examples": 4}, "has embeddings of 3 examples, the prompt has 4"),
        (
            {"channels": (3, 4)},
            "maps the 4 channels hour, PM2.5, O3, t2m to themselves, the prompt maps 3 to 4",
        ),
        ({"dimensions": 2}, r"knows functions of \(t, lon, lat\)"),
    ],
)
def test_prompts_it_cannot_be_asked(change: dict[str, Any], words: str) -> None:
    given = {"examples": 2, "points": 5, "dimensions": 3, "channels": (4, 4), **change}
    with pytest.raises(ModelError, match=words):
        random_network(kind("absolute", most_examples=3))(make_prompt(0, **given))


def test_windows_it_cannot_read() -> None:
    network, prompt = random_network(replace(PLAIN, hours=2)), question(0)
    with pytest.raises(ModelError, match="needs 2 frames of the 5 stations asked, not 15 points"):
        network(prompt)
    network = random_network(PLAIN)
    late = prompt.query.coords * torch.tensor([-1.0, 1.0, 1.0])
    with pytest.raises(ModelError, match="must follow each other, the oldest first"):
        network(prompt.mapped(query=Field(late, prompt.query.values)))
    fewer = Field(prompt.outputs.coords[..., :4, :], prompt.outputs.values[..., :4, :])
    with pytest.raises(ModelError, match="outputs have 4 stations, but 5 are asked"):
        network(prompt.mapped(outputs=fewer, graph=None))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"channels": ("PM2.5", "hour")}, "first channel of a network of stations is the hour, not 'PM2.5'"),
        ({"channels": 7}, "are names, not 7"),
        ({"channels": ()}, "are names"),
        ({"channels": ("hour", 3)}, "are names"),
        ({"channels": "hour"}, "are names, not 'hour'"),
        ({"channels": ("hour", "O3", "O3", "t2m")}, "have one name twice"),
        ({"trained_order": ("hour", "PM2.5", "O3")}, "has the channels in another order"),
        ({"trained_order": 4}, "has the channels in another order, and is not 4"),
        ({"trained_order": ("hour", "PM2.5", "O3", 3)}, "has the channels in another order"),
        ({"heads": 3}, "width 16 must be 3 heads of equally many numbers each"),
        ({"heads": 16, "attention": "rotary"}, "must be 16 heads of an even number of numbers each"),
        ({"hours": 0}, "hours of a network must be a whole number, 1 to"),
        ({"width": 16.0}, "width of a network must be a whole number"),
        ({"width": True}, "width of a network must be a whole number"),
        ({"graph_layers": 9, "transformer_layers": 8}, "9 blocks of 8 layers are more than 64"),
        ({"attention": "flash"}, "attention is one of plain, rotary, .* not 'flash'"),
        ({"attention": ["plain"]}, "attention is one of"),
        ({"attention": "similar"}, "similarity of similar attention is prod or attn, not None"),
        ({"similarity": "prod"}, "similarity of plain attention is None, not 'prod'"),
        ({"attention": "rotary", "role": "input"}, "role of rotary attention is None, not 'input'"),
        ({"attention": "placed", "similarity": "prod", "pooling": "learning"}, "pooling of placed attention"),
        ({"role": ["input"]}, "role of plain attention is None or input or logit"),
        ({"norm": "batch"}, "norm of a network is layer or rms, not 'batch'"),
        ({"attention": "absolute"}, "most_examples of a network with .* must be 1 or more, not 0"),
        ({"absolute_positions": True}, "most_examples of a network with .* must be 1 or more, not 0"),
        ({"most_examples": 2}, "most_examples of a network without .* must be 0, not 2"),
        ({"absolute_positions": 1}, "absolute_positions is true or false, not 1"),
    ],
)
def test_shapes_that_are_none(change: dict[str, Any], words: str) -> None:
    with pytest.raises(ModelError, match=words) as raised:
        config_from({**PLAIN.to_dict(), **change})
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("config", ONE_OF_EACH, ids=described)
def test_everything_happens_on_the_network_s_own_device(config: GraphConfig) -> None:
    """On a device that only knows shapes: what lies elsewhere would not meet it."""
    network, prompt = random_network(config).to("meta"), question(1, batch=(2,))
    asked = [prompt, prompt.held_out(pad=True), prompt.held_out(pad=False)]
    questions = [sharing.Question.about_root(one, alike=True) for one in asked]
    answers = network.answers(prompt, questions, share=False)
    assert {values.device.type for values in answers} == {"meta"}
    assert [values.shape[1] for values in answers] == [1, prompt.examples, prompt.examples]
