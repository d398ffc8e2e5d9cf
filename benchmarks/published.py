"""How much sooner CHOP answers around a published network than the network's plain forward pass does.

    python benchmarks/published.py                      D = 5 examples of 100 points
    python benchmarks/published.py --examples 10 --points 256

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
from chop.icon.config import PublishedConfig
from chop.icon.published.network import PublishedIcon
from chop.testing import make_prompt

PAGE = Path(__file__).parents[1] / "docs" / "published.md"
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


def measure(examples: int, points: int, prompts: int, steps: int, repeats: int) -> list[list[str]]:
    torch.manual_seed(0)
    network = PublishedIcon(PublishedConfig()).eval().requires_grad_(False)
    plain = chop.from_torch(PlainForward(network).eval())
    prompt = make_prompt(0, batch=(prompts,), examples=examples, points=points, dtype=torch.float32)

    def fresh() -> chop.Prompt:
        """The same questions as new objects: nothing remembered of them can help."""
        return prompt._each(lambda tensor: tensor.clone())

    def answered(program: str, model: chop.FrozenModel) -> Tensor:
        return chop.parse(program).run(model, fresh()).values

    def rolled(model: chop.FrozenModel) -> Tensor:
        return chop.rollout("icon", model, fresh(), steps).values

    asked: dict[str, Callable[[chop.FrozenModel], Tensor]] = {
        "Raw": lambda model: answered("icon", model),
        "`correct(icon)`": lambda model: answered("correct(icon)", model),
        "CHOP(MFC)": lambda model: answered("mfc", model),
        f"{steps} rollout steps": rolled,
    }
    calls = [chop.parse(p).calls(examples) for p in ("icon", "correct(icon)", "mfc")]
    rows = [["what", "evaluations", "plain forward", "CHOP", "times faster", "largest difference"]]
    for (what, work), number in zip(asked.items(), [*calls, steps], strict=True):
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
    parser.add_argument("--examples", type=int, default=5)
    parser.add_argument("--points", type=int, default=100)
    parser.add_argument("--prompts", type=int, default=2)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--write", action="store_true", help="write the table into docs/published.md")
    chosen = parser.parse_args(list(arguments) if arguments is not None else None)
    torch.set_num_threads(1)
    torch.backends.mha.set_fastpath_enabled(False)
    table = measure(chosen.examples, chosen.points, chosen.prompts, chosen.steps, chosen.repeats)
    if chosen.write:
        begin, end = (mark.format(f"D = {chosen.examples}") for mark in MARKS)
        text = PAGE.read_text()
        head, _, rest = text.partition(begin)
        PAGE.write_text(f"{head}{begin}\n{as_markdown(table)}\n{end}{rest.partition(end)[2]}")


if __name__ == "__main__":
    main()
