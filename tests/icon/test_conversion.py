"""From a published checkpoint to weights: what fits is the same network, what does not is said by name."""

from __future__ import annotations

import argparse
import json
from collections import OrderedDict
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner

import chop
from chop.cli.root import app
from chop.core.errors import ModelError
from chop.icon import provenance
from chop.icon.config import GraphConfig, PublishedConfig
from chop.icon.published.conversion import ORIGINS, Source, convert_checkpoint
from chop.icon.published.graph_network import PublishedGraphIcon
from chop.icon.published.network import PublishedIcon
from chop.icon.published.shapes import Hidden
from chop.testing import make_prompt

SMALL = PublishedConfig(width=16, transformer_layers=2, hidden=24, functions=30)
State = dict[str, torch.Tensor]


def network(config: PublishedConfig = SMALL) -> PublishedIcon:
    torch.manual_seed(3)
    return PublishedIcon(config).eval().requires_grad_(False)


SMALL_GRAPH = {
    "channels": ("hour", "PM2.5", "O3"), "trained_order": ("PM2.5", "hour", "O3"), "hours": 3, "width": 16,
    "hidden": 24, "edge_width": 4, "message_width": 6, "graph_layers": 2, "transformer_layers": 1,
}  # fmt: skip


def graph_checkpoint(folder: Path, config: GraphConfig, **more: Any) -> Path:
    torch.manual_seed(3)
    return checkpoint(folder, state_of(PublishedGraphIcon(config)), **more)


def state_of(model: torch.nn.Module, prefix: str = "net.") -> State:
    return OrderedDict((prefix + name, value) for name, value in model.state_dict().items())


def checkpoint(folder: Path, state: Any, **more: Any) -> Path:
    path = folder / "published.ckpt"
    torch.save({"epoch": 2, "global_step": 90000, "state_dict": state, **more}, path)
    return path


def converted(folder: Path, path: Path, source: Source | None = None, **hidden: Any) -> Path:
    return convert_checkpoint(path, folder / "out.safetensors", Hidden(**hidden), source or Source())


@pytest.mark.parametrize("prefix", ["net.", "", "net._orig_mod.", "module.net."])
def test_the_same_network_comes_out(tmp_path: Path, prefix: str) -> None:
    model = network()
    again = chop.load(converted(tmp_path, checkpoint(tmp_path, state_of(model, prefix))))
    assert isinstance(again, PublishedIcon)
    assert again.config == SMALL
    prompt = make_prompt(0, batch=(2,), dtype=torch.float32)
    assert torch.equal(again(prompt), model(prompt))


def test_a_bare_state_dict_will_do(tmp_path: Path) -> None:
    torch.save(network().state_dict(), tmp_path / "bare.pt")
    assert chop.load(converted(tmp_path, tmp_path / "bare.pt")).config == SMALL


@pytest.mark.parametrize(
    "config",
    [
        PublishedConfig(coordinates=2, width=16, transformer_layers=1, hidden=8),
        PublishedConfig(coordinates=1, channels=3, width=24, transformer_layers=3, hidden=8),
        PublishedConfig(width=16, transformer_layers=1, hidden=8, functions=0),
    ],
)
def test_shapes_are_read_off_the_tensors(tmp_path: Path, config: PublishedConfig) -> None:
    assert chop.load(converted(tmp_path, checkpoint(tmp_path, state_of(network(config))))).config == config


def test_heads_and_scale_are_options(tmp_path: Path) -> None:
    out = converted(tmp_path, checkpoint(tmp_path, state_of(network())), heads=4, x_scale=100 / 99)
    config = chop.load(out).config
    assert (config.heads, config.x_scale) == (4, 100 / 99)


def test_a_checkpoint_that_says_other_heads_is_not_guessed(tmp_path: Path) -> None:
    said = {"hyper_parameters": {"cfg": argparse.Namespace(model={"layer": {"nhead": 2}})}}
    path = checkpoint(tmp_path, state_of(network()), **said)
    with pytest.raises(ModelError, match=r"published.ckpt says of itself that it has 2 heads.*--heads 2"):
        converted(tmp_path, path)
    assert chop.load(converted(tmp_path, path, heads=8)).config.heads == 8


def test_the_card_says_where_it_comes_from(tmp_path: Path) -> None:
    out = converted(tmp_path, checkpoint(tmp_path, state_of(network())), Source("icon-chop"))
    facts = provenance(out).training
    assert (facts["origin"], facts["licence"]) == ORIGINS["icon-chop"]
    assert facts["checkpoint"] == "published.ckpt"
    assert facts["steps"] == 90000
    assert len(facts["sha256"]) == 64
    page = out.with_suffix(".md").read_text()
    assert "| licence | Apache-2.0 |" in page
    assert "The order of the examples matters" in page
    assert "At most 9 examples" in page


def test_words_of_ones_own_cannot_break_the_card(tmp_path: Path) -> None:
    source = Source("a|b\nc", "CC-BY-4.0")
    out = converted(tmp_path, checkpoint(tmp_path, state_of(network())), source)
    assert "| origin | a\\|b c |" in out.with_suffix(".md").read_text()
    assert provenance(out).training["licence"] == "CC-BY-4.0"


def without(name: str) -> State:
    state = state_of(network())
    del state[name]
    return state


def with_tensor(name: str, value: Any) -> dict[str, Any]:
    return {**state_of(network()), name: value}


LINEAR = "net.transformer.layers.1.linear1.weight"


@pytest.mark.parametrize(
    ("state", "words"),
    [
        (without("net.post_projection.weight"), "published.ckpt has no tensor post_projection.weight"),
        (without(LINEAR), "published.ckpt has no tensor transformer.layers.1.linear1.weight"),
        (without("net.function_pe.weight") | {"net.more": torch.zeros(2)}, "more is no tensor of an ICON"),
        (with_tensor("loss.weights", torch.zeros(3)), "loss.weights is no tensor of an ICON"),
        (with_tensor("pre_projection.bias", torch.zeros(16)), "has two tensors pre_projection.bias"),
        (with_tensor(LINEAR, torch.zeros(24, 16).double()), "linear1.weight is float64 .24, 16.*has float32"),
        (with_tensor(LINEAR, torch.zeros(24, 16, dtype=torch.int64)), "linear1.weight is int64"),
        (with_tensor(LINEAR, torch.zeros(24, 16).half()), "linear1.weight is float16"),
        (
            with_tensor(LINEAR, torch.zeros(16, 24)),
            r"linear1.weight is float32 \(16, 24\), .* float32 \(24, 16\)",
        ),
        (
            with_tensor(LINEAR, torch.full((24, 16), torch.nan)),
            "linear1.weight has values that are not finite",
        ),
        (with_tensor(LINEAR, "text"), "linear1.weight in its state_dict is no tensor"),
        (with_tensor("net.pre_projection.weight", torch.zeros(4)), r"has shape \(4,\), not 2 axes"),
        (with_tensor("net.pre_projection.weight", torch.zeros(16, 1)), "coordinates of a network must be"),
        (with_tensor("net.pre_projection.weight", torch.zeros(16, 9)), "one or two coordinates, not 8"),
        ({"patch_pos_encoding": torch.zeros(4, 4)}, "is a VICON, a network of images"),
        ({"a": torch.zeros(2), "b": torch.zeros(2)}, "holds a, b ..., not a published ICON"),
        ({}, "has no state_dict"),
        ([torch.zeros(2)], "has no state_dict"),
    ],
)
def test_what_does_not_fit_is_said_by_name(tmp_path: Path, state: Any, words: str) -> None:
    path = checkpoint(tmp_path, state)
    with pytest.raises(ModelError, match=words) as caught:
        converted(tmp_path, path)
    assert "\n" not in str(caught.value)
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


def test_a_shape_that_claims_the_world_is_refused_before_anything_is_read(tmp_path: Path) -> None:
    """A tensor of 10^13 numbers, all of them the same stored one."""
    state = {**state_of(network()), "net.function_pe.weight": torch.zeros(1, 1).expand(10**9, 10**4)}
    with pytest.raises(ModelError, match=r"published.ckpt: functions of a network must be a whole number"):
        converted(tmp_path, checkpoint(tmp_path, state))
    state["net.function_pe.weight"] = torch.zeros(1, 1).expand(60000, 16)
    with pytest.raises(ModelError, match=r"says 3,855,940 bytes of tensors, but has .* in all"):
        converted(tmp_path, checkpoint(tmp_path, state))


def test_the_command(tmp_path: Path) -> None:
    path, out = checkpoint(tmp_path, state_of(network())), tmp_path / "weights.safetensors"
    run = CliRunner().invoke(app, ["convert", str(path), str(out), "--origin", "icon-core"])
    assert run.exit_code == 0, run.output
    assert "licence            MIT" in run.output
    assert str(out.with_suffix(".md")) in run.output
    refused = CliRunner().invoke(app, ["convert", str(path), str(out)])
    assert "exists already" in str(refused.exception)
    again = CliRunner().invoke(app, ["convert", str(path), str(out), "--force", "--json"])
    assert json.loads(again.output)["config"]["width"] == 16
    other = CliRunner().invoke(app, ["convert", str(path), str(tmp_path / "weights.pt")])
    assert "must end in .safetensors" in str(other.exception)


def test_its_page_is_not_written_over_unasked(tmp_path: Path) -> None:
    path = checkpoint(tmp_path, state_of(network()))
    (tmp_path / "out.md").write_text("notes of my own")
    with pytest.raises(ModelError, match=r"out.md exists already"):
        converted(tmp_path, path)
    assert not (tmp_path / "out.safetensors").exists()


@pytest.mark.parametrize(
    "kind",
    [
        {"attention": "relative", "most_examples": 5},
        {"attention": "absolute", "most_examples": 4},
        {"attention": "set_rotary", "role": "logit"},
        {"attention": "placed", "similarity": "attn", "most_examples": 3, "role": "input"},
        {"attention": "similar", "similarity": "attn"},
        {"attention": "similar", "similarity": "prod", "pooling": "learning"},
        {"attention": "similar", "similarity": "attn", "pooling": "pooling", "role": "logit"},
        {"attention": "similar", "similarity": "prod", "role": "logit"},
        {"attention": "plain", "absolute_positions": True, "most_examples": 7},
        {"attention": "relative", "most_examples": 5, "norm": "rms"},
    ],
    ids=lambda kind: "-".join(map(str, kind.values())),
)
def test_graph_networks_are_read_off_their_tensors(tmp_path: Path, kind: dict[str, Any]) -> None:
    config = GraphConfig(**SMALL_GRAPH, **kind)
    out = converted(tmp_path, graph_checkpoint(tmp_path, config), channels=config.trained_order)
    again = chop.load(out)
    assert again.config == config
    assert isinstance(again, PublishedGraphIcon)
    assert "It was trained with them in the order PM2.5, hour, O3" in out.with_suffix(".md").read_text()


TARGET = "src.models.gicon.gicon_attn."


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ({"attention": "plain"}, "VanillaAttentionLayer"),
        ({"attention": "rotary"}, "RoPEAttentionLayer"),
        ({"attention": "similar", "similarity": "prod"}, "AttnBiasAttentionLayer"),
    ],
)
def test_attention_that_no_tensor_shows_is_said_or_asked_for(
    tmp_path: Path, kind: dict[str, Any], name: str
) -> None:
    config = GraphConfig(**SMALL_GRAPH, **kind)
    channels = {"channels": config.trained_order}
    with pytest.raises(ModelError, match="do not show whether attention is plain, rotary or similar"):
        converted(tmp_path, graph_checkpoint(tmp_path, config), **channels)
    given = converted(tmp_path, graph_checkpoint(tmp_path, config), **channels, attention=kind["attention"])
    assert chop.load(given).config == config
    for file in (given, given.with_suffix(".md")):
        file.unlink()
    said = {"hyper_parameters": {"cfg": {"model": {"attn_layer": {"_target_": TARGET + name}}}}}
    assert (
        chop.load(converted(tmp_path, graph_checkpoint(tmp_path, config, **said), **channels)).config
        == config
    )


@pytest.mark.parametrize(
    ("hidden", "said", "words"),
    [
        ({}, {}, "has 3 channels, the published ones are 13; name them"),
        ({"channels": ("hour", "O3", "O3")}, {}, "have one name twice"),
        ({"channels": ("NO2", "O3", "PM2.5")}, {}, "the first channel of a network of stations is the hour"),
        (
            {"channels": ("hour", "O3", "PM2.5"), "attention": "plain"},
            {},
            "of set_rotary attention, not of plain",
        ),
        ({"channels": ("hour", "O3", "PM2.5")}, {"phi_max": 1.5}, "turns examples by up to 1.5"),
    ],
)
def test_graph_networks_that_do_not_fit(tmp_path: Path, hidden: Any, said: Any, words: str) -> None:
    path = graph_checkpoint(
        tmp_path, GraphConfig(**SMALL_GRAPH, attention="set_rotary"), hyper_parameters={"cfg": said}
    )
    with pytest.raises(ModelError, match=words):
        converted(tmp_path, path, **hidden)
