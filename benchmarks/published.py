"""How much sooner CHOP answers around a published network than the network's plain forward pass does.

    python benchmarks/published.py                      D = 5 examples of 100 points
    python benchmarks/published.py --examples 10 --points 256
    python benchmarks/published.py --graph              a graph ICON, 200 stations

A network of the published size (width 256, 8 heads, 6 blocks, random weights) is asked in two ways, in one
run, on one thread: by its plain forward pass, the whole sequence under a block mask for each evaluation, with
torch's fused attention; and as `chop.load` gives it, which keeps what examples show. Programs, prompts and
answers are the same; times are the best of several repeats, taken in turn. ``--write`` puts the table into
docs/published.md.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import torch
from torch import Tensor, nn

import chop
from chop.icon import GraphConfig, PublishedConfig, PublishedGraphIcon, PublishedIcon
from chop.icon.published.messages import Edges, station_edges
from chop.problems.air.region import station_graph
from chop.problems.air.windows import WINDOW_AXES, coordinates
from chop.testing import make_prompt

PAGE = Path(__file__).parents[1] / "docs" / "published.md"
PROGRAMS = {"Raw": "icon", "`correct(icon)`": "correct(icon)", "CHOP(MFC)": "mfc"}
GRAPH_PROGRAMS = {"Raw": "icon", "`correct(icon)`": "correct(icon)", "CHOP(Air)": "air"}
MARKS = ("<!-- measured: {} -->", "<!-- end of measured: {} -->")


class PlainForward(nn.Module):
    """The same weights and the same function, the usual way: one sequence, one mask, every token."""

    def __init__(self, network: PublishedIcon) -> None:
        super().__init__()
        self.network = network

    def forward(
        self, x_at: Tensor, x: Tensor, y_at: Tensor, y: Tensor, query_at: Tensor, query: Tensor, at: Tensor
    ) -> Tensor:
        parts, names = [], []
        for j in range(x.shape[1]):
            parts += [torch.cat([x_at[:, j], x[:, j]], -1), torch.cat([y_at[:, j], y[:, j]], -1)]
            names += [3 * j, 3 * j + 1]
        asked = torch.cat([at, at.new_zeros(*at.shape[:-1], y.shape[-1])], -1)
        parts += [torch.cat([query_at, query], -1), asked]
        names += [3 * x.shape[1], 3 * x.shape[1] + 2]
        sizes = [part.shape[1] for part in parts]
        where = torch.tensor(names).repeat_interleave(torch.tensor(sizes))
        network = self.network
        tokens = network.pre_projection(torch.cat(parts, 1)) + network.function_pe(where)
        hidden = ~visible(sizes)
        for block in network.transformer["layers"]:
            heard = block.self_attn(tokens, tokens, tokens, attn_mask=hidden, need_weights=False)[0]
            tokens = block.norm1(tokens + heard)
            tokens = block.norm2(tokens + block.linear2(nn.functional.gelu(block.linear1(tokens))))
        return network.post_projection(tokens[:, -sizes[-1] :])


class PlainGraph(nn.Module):
    """The graph network the usual way: the whole sequence, a message for every edge at every position."""

    def __init__(self, network: PublishedGraphIcon, edges: Edges) -> None:
        super().__init__()
        self.network, self.edges = network, edges

    def forward(
        self, x_at: Tensor, x: Tensor, y_at: Tensor, y: Tensor, query_at: Tensor, query: Tensor, at: Tensor
    ) -> Tensor:
        network, edges = self.network, self.edges
        order = [network.config.channels.index(name) for name in network.config.trained_order]
        stations = at.shape[1]

        def windows(values: Tensor) -> Tensor:
            by_station = values[..., order].unflatten(-2, (-1, stations)).transpose(-2, -3).flatten(-2)
            return network.pre_proj_cond(by_station)

        pairs = torch.stack([windows(x), network.pre_proj_qoi(y[..., order])], dim=2).flatten(1, 2)
        tokens = torch.cat([pairs, windows(query)[:, None]], dim=1)
        along = network.edge_proj(edges.course).expand(*tokens.shape[:2], -1, -1)
        for block in network.gicon_blocks:
            ends = torch.cat([tokens[:, :, edges.start], tokens[:, :, edges.end], along], dim=-1)
            tokens = tokens.index_add(2, edges.end, block.message_mlp(ends))
            by_station = tokens.transpose(1, 2).flatten(0, 1)
            for layer in block.layers:
                inside, attention = layer.attn_layer.pre_norm(by_station), layer.attn_layer.attention
                q, k, v = (
                    attention[f"{name}_proj"](inside)
                    .unflatten(-1, (layer.attn_layer.heads, -1))
                    .transpose(1, 2)
                    for name in "qkv"
                )
                heard = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
                heard = attention["o_proj"](heard.transpose(1, 2).flatten(-2))
                by_station = layer.norm1(by_station + heard)
                by_station = layer.norm2(by_station + layer.feed_forward(by_station))
            tokens = by_station.unflatten(0, (-1, stations)).transpose(1, 2)
        back = [order.index(place) for place in range(len(order))]
        return network.post_proj(tokens[:, -1])[..., back]


def visible(sizes: list[int]) -> Tensor:
    """Who sees whom among functions of these sizes: those before, and themselves; asked points one by one."""
    function = torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes))
    seen = function[:, None] >= function
    seen[-sizes[-1] :, -sizes[-1] :] = torch.eye(sizes[-1], dtype=torch.bool)
    return seen


def best_times(works: list[Callable[[], object]], repeats: int) -> list[float]:
    """The best time of each, taken in turn, so that whatever else the machine does meets all of them."""
    best = [float("inf")] * len(works)
    for _ in range(repeats):
        for place, work in enumerate(works):
            begun = time.perf_counter()
            work()
            best[place] = min(best[place], time.perf_counter() - begun)
    return best


Model = Callable[[chop.Prompt], Tensor]


def functions(examples: int, points: int, prompts: int) -> tuple[Model, Model, chop.Prompt]:
    """A network of functions in both ways, and questions."""
    network = PublishedIcon(PublishedConfig()).eval().requires_grad_(False)
    prompt = make_prompt(0, batch=(prompts,), examples=examples, points=points, dtype=torch.float32)
    return network, chop.from_torch(PlainForward(network).eval()), prompt


def stations(examples: int, prompts: int, size: int = 200) -> tuple[Model, Model, chop.Prompt]:
    """A graph network in both ways, and questions about stations in a region of 6 by 6 degrees."""
    config = GraphConfig()
    network = PublishedGraphIcon(config).eval().requires_grad_(False)
    where = 115 + 6 * torch.rand(2, size, dtype=torch.float64)
    graph = station_graph(*where.numpy()).graph
    window, frame = coordinates(*where.numpy())
    channels = len(config.channels)

    def drawn(*shape: int) -> Tensor:
        return torch.randn(prompts, *shape, channels)

    prompt = chop.Prompt(
        chop.Field(window, drawn(examples, len(window))), chop.Field(frame, drawn(examples, size)),
        chop.Field(window, drawn(len(window))), frame, graph=graph, axes=WINDOW_AXES,
    )  # fmt: skip
    edges = station_edges(prompt, like=network.edge_proj.weight)
    return network, chop.from_torch(PlainGraph(network, edges).eval()), prompt


def measure(
    network: Model, plain: Model, prompt: chop.Prompt, programs: dict[str, str], steps: int, repeats: int
) -> list[list[str]]:
    """Times of programs, and of a rollout, around the same network in both ways."""
    prompts = prompt.batch.numel()

    def fresh() -> chop.Prompt:
        """The same questions as new objects: nothing remembered of them can help."""
        return prompt._each(lambda tensor: tensor.clone())

    def program_of(text: str) -> Callable[[Model], Tensor]:
        return lambda model: chop.parse(text).run(model, fresh()).values

    asked = {
        what: (chop.parse(text).calls(prompt.examples), program_of(text)) for what, text in programs.items()
    }
    if steps:
        asked[f"{steps} rollout steps"] = (
            steps,
            lambda model: chop.rollout("icon", model, fresh(), steps).values,
        )
    rows = [["what", "evaluations", "plain forward", "CHOP", "times faster", "largest difference"]]
    for what, (number, work) in asked.items():
        ours, theirs = work(network), work(plain)
        apart = float((ours - theirs).abs().max() / theirs.abs().max())
        slow, fast = best_times([lambda w=work: w(plain), lambda w=work: w(network)], repeats)
        each = [f"{1e3 * seconds / prompts:.0f} ms" for seconds in (slow, fast)]
        rows.append([what, str(number), *each, f"{slow / fast:.2f}", f"{apart:.0e}"])
        print("  ".join(rows[-1]), flush=True)
    return rows


def as_markdown(table: list[list[str]]) -> str:
    lines = ["| " + " | ".join(row) + " |" for row in table]
    return "\n".join([lines[0], "|" + "---|" * len(table[0]), *lines[1:]])


def main(arguments: Iterable[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--graph", action="store_true", help="a graph ICON instead")
    parser.add_argument("--examples", type=int, default=5)
    parser.add_argument("--points", type=int, default=100)
    parser.add_argument("--prompts", type=int, default=2)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--write", action="store_true", help="write the table into docs/published.md")
    chosen = parser.parse_args(list(arguments) if arguments is not None else None)
    torch.set_num_threads(1)
    torch.manual_seed(0)
    torch.backends.mha.set_fastpath_enabled(False)  # it writes all scores out: three times slower than fused
    if chosen.graph:
        made, programs, steps = stations(chosen.examples, chosen.prompts), GRAPH_PROGRAMS, 0
    else:
        made = functions(chosen.examples, chosen.points, chosen.prompts)
        programs, steps = PROGRAMS, chosen.steps
    table = measure(*made, programs, steps, chosen.repeats)
    if chosen.write:
        name = "graph" if chosen.graph else f"D = {chosen.examples}"
        begin, end = (mark.format(name) for mark in MARKS)
        head, _, rest = PAGE.read_text().partition(begin)
        PAGE.write_text(f"{head}{begin}\n{as_markdown(table)}\n{end}{rest.partition(end)[2]}")


if __name__ == "__main__":
    main()
