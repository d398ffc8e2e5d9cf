"""What a program costs beyond its model calls, as ratios measured in one run.

For each of the paper's programs: wall time of the program divided by the wall time of the very same
batched model calls alone (recorded once, then replayed), and by that of a plain implementation that
calls the model once for each logical evaluation. Peak memory likewise: each side runs in a process of
its own and reports how far its resident memory rose above what it held before.

    python benchmarks/overhead.py [--repeats 3] [--prompts 256] [--air-prompts 24]
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn

import chop
from chop.core.prompt import Axis, Field, Graph, Prompt

LIMITS = {"conservation": 1.05, "mfc": 1.10, "corr": 1.10, "air": 1.15}


class StandIn(nn.Module):
    """A plain in-context transformer of about 1.5 M parameters: one token for each run of points."""

    def __init__(
        self, points: int, channels: int, out_points: int, width: int = 160, layers: int = 5
    ) -> None:
        super().__init__()
        self.patch = max(1, points // 10)
        self.out_patch = max(1, out_points // 10)
        self.embed_in = nn.Linear(self.patch * channels, width)
        self.embed_out = nn.Linear(self.out_patch * channels, width)
        layer = nn.TransformerEncoderLayer(
            width, 4, 4 * width, dropout=0.0, batch_first=True, norm_first=True
        )
        self.body = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.head = nn.Linear(width, self.out_patch * channels)

    def forward(self, prompt: Prompt) -> torch.Tensor:
        flat = prompt.flat()
        batch = len(flat.query.values)

        def tokens(values: torch.Tensor, patch: int, embed: nn.Linear) -> torch.Tensor:
            return embed(values.reshape(batch, -1, patch * values.shape[-1]))

        query = tokens(flat.query.values, self.patch, self.embed_in)
        sequence = torch.cat(
            [
                tokens(flat.inputs.values, self.patch, self.embed_in),
                tokens(flat.outputs.values, self.out_patch, self.embed_out),
                query,
            ],
            dim=1,
        )
        answer = self.head(self.body(sequence)[:, -query.shape[1] :])
        return answer.reshape(prompt.answer_shape)


class StationStandIn(nn.Module):
    """The reference network's shape on stations, of about 1.5 M parameters.

    One token for each station and window or output; a station attends to its own tokens in all
    examples, then stations exchange what they know through one dense matrix.
    """

    def __init__(self, stations: int, hours: int, channels: int, width: int = 144, layers: int = 5) -> None:
        super().__init__()
        self.stations = stations
        self.embed_in = nn.Linear(hours * channels, width)
        self.embed_out = nn.Linear(channels, width)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.0, batch_first=True, norm_first=True)
            for _ in range(layers)
        )
        self.exchange = nn.ModuleList(nn.Linear(width, width) for _ in range(layers))
        self.head = nn.Linear(width, channels)
        self.register_buffer("near", torch.softmax(torch.randn(stations, stations), dim=-1))

    def forward(self, prompt: Prompt) -> torch.Tensor:
        flat = prompt.flat()
        batch = len(flat.query.values)

        def windows(values: torch.Tensor) -> torch.Tensor:
            """(B, ..., 24 S, c) -> (B, windows, S, 24 c)"""
            parts = values.reshape(
                batch, -1, values.shape[-2] // self.stations, self.stations, values.shape[-1]
            )
            return parts.movedim(2, 3).flatten(-2)

        tokens = torch.cat(
            [
                self.embed_in(windows(flat.inputs.values)),
                self.embed_out(windows(flat.outputs.values)),
                self.embed_in(windows(flat.query.values)),
            ],
            dim=1,
        )
        for layer, mix in zip(self.layers, self.exchange, strict=True):
            per_station = tokens.transpose(1, 2).flatten(0, 1)
            tokens = layer(per_station).unflatten(0, (batch, self.stations)).transpose(1, 2)
            tokens = tokens + self.near @ mix(tokens)
        return self.head(tokens[:, -1]).reshape(prompt.answer_shape)


def conservation_prompts(n: int) -> Prompt:
    random = torch.Generator().manual_seed(0)
    frames = torch.randn(n, 6, 100, 1, generator=random).cumsum(dim=-2) * 0.1
    grid = torch.arange(100)[:, None] / 100
    return Prompt(
        inputs=Field(grid, frames[:, :5]),
        outputs=Field(grid, frames[:, 1:]),
        query=Field(grid, frames[:, 5]),
        at=grid,
    )


def air_prompts(n: int, stations: int = 200, hours: int = 24, channels: int = 13) -> Prompt:
    random = torch.Generator().manual_seed(0)
    places = torch.rand(stations, 2, generator=random) * 8
    times = torch.arange(hours).repeat_interleave(stations)[:, None]
    window = torch.cat([times, places.repeat(hours, 1)], dim=1)
    at = torch.cat([torch.full((stations, 1), float(hours)), places], dim=1)
    near = (torch.cdist(places, places) < 1) & ~torch.eye(stations, dtype=torch.bool)
    return Prompt(
        inputs=Field(window, torch.randn(n, 5, hours * stations, channels, generator=random)),
        outputs=Field(at, torch.randn(n, 5, stations, channels, generator=random)),
        query=Field(window, torch.randn(n, hours * stations, channels, generator=random)),
        at=at,
        graph=Graph(near.nonzero().T, stations),
        axes=(Axis("t"), Axis("lon"), Axis("lat")),
    )


def setting(name: str, prompts: int, air: int) -> tuple[chop.Program, nn.Module, Prompt]:
    torch.manual_seed(0)
    if name == "air":
        return chop.programs[name], StationStandIn(200, 24, 13).eval(), air_prompts(air)
    return chop.programs[name], StandIn(100, 1, 100).eval(), conservation_prompts(prompts)


class Recorder:
    """Passes prompts on to a model and remembers them."""

    def __init__(self, model: nn.Module) -> None:
        self.model, self.prompts = model, []

    def __call__(self, prompt: Prompt) -> torch.Tensor:
        self.prompts.append(prompt)
        return self.model(prompt)


class OneByOne:
    """A plain implementation: held-out prompts are asked one after the other, nothing is stacked."""

    def __init__(self, model: nn.Module) -> None:
        self.model = model

    def predict_many(self, prompts: list[Prompt]) -> list[torch.Tensor]:
        return [self._ask(prompt) for prompt in prompts]

    def __call__(self, prompt: Prompt) -> torch.Tensor:
        return self._ask(prompt)

    def _ask(self, prompt: Prompt) -> torch.Tensor:
        if len(prompt.batch) == 1:
            return self.model(prompt)
        return torch.stack([self.model(prompt[:, h]) for h in range(prompt.batch[1])], dim=1)


def replay(model: nn.Module, prompts: list[Prompt]) -> None:
    with torch.inference_mode():
        for prompt in prompts:
            model(prompt)


@dataclass
class Timed:
    """The shortest of several runs, on the wall and on the processor."""

    wall: float = float("inf")
    processor: float = float("inf")

    def run(self, action: Callable[[], object]) -> None:
        wall, processor = time.perf_counter(), time.process_time()
        action()
        self.processor = min(self.processor, time.process_time() - processor)
        self.wall = min(self.wall, time.perf_counter() - wall)


def ratios(name: str, repeats: int, prompts: int, air: int) -> dict[str, float]:
    program, model, prompt = setting(name, prompts, air)
    recorder = Recorder(model)
    result = program.run(recorder, prompt)
    calls = recorder.prompts
    alone, harness, plain = Timed(), Timed(), Timed()
    for _ in range(repeats):  # in turn, so that a busy moment can hit each of the three
        alone.run(lambda: replay(model, calls))
        harness.run(lambda: program.run(model, prompt))
        plain.run(lambda: program.run(OneByOne(model), prompt))
    return {
        "evaluations": result.calls,
        "calls": len(calls),
        "wall": harness.wall / alone.wall,
        "processor": harness.processor / alone.processor,
        "one by one": plain.wall / alone.wall,
    }


def resident(what: str) -> int:
    """Resident memory now (VmRSS) or at its highest (VmHWM), in kilobytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(what))


def memory_probe(name: str, side: str, prompts: int, air: int) -> None:
    """Run in a process of its own: prints how far the peak rose above the state before."""
    program, model, prompt = setting(name, prompts, air)
    with torch.inference_mode():
        model(prompt[:1])  # the library's own first use
    Path("/proc/self/clear_refs").write_text("5")  # the highest mark starts anew
    before = resident("VmRSS")
    if side == "program":
        program.run(model, prompt)
    else:
        replay(model, calls_only(program, prompt))  # the prompts must exist for the calls to be made
    print(resident("VmHWM") - before)


def calls_only(program: chop.Program, prompt: Prompt) -> list[Prompt]:
    """The prompts a program asks, found with a model that costs nothing."""
    asked: list[Prompt] = []

    def free(p: Prompt) -> torch.Tensor:
        asked.append(p)
        return torch.zeros(p.answer_shape)

    program.run(free, prompt, trace=False)
    return asked


def memory_ratio(name: str, prompts: int, air: int) -> float:
    peaks = {}
    for side in ("program", "calls"):
        command = [sys.executable, __file__, "--probe", name, side]
        command += ["--prompts", str(prompts), "--air-prompts", str(air)]
        peaks[side] = int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return peaks["program"] / peaks["calls"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--prompts", type=int, default=256)
    parser.add_argument("--air-prompts", type=int, default=24)
    parser.add_argument("--probe", nargs=2, metavar=("PROGRAM", "SIDE"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.probe:
        memory_probe(*options.probe, options.prompts, options.air_prompts)
        return
    sizes = [
        sum(p.numel() for p in net.parameters()) / 1e6
        for net in (StandIn(100, 1, 100), StationStandIn(200, 24, 13))
    ]
    print(
        f"stand-in networks of {sizes[0]:.2f} M and (air) {sizes[1]:.2f} M parameters; "
        f"{options.prompts} prompts, {options.air_prompts} for air; best of {options.repeats}, one thread"
    )
    head = f"{'program':14} {'Q':>3} {'calls':>5}  {'wall':>6} {'cpu':>6} {'limit':>6}"
    print(f"{head}  {'one by one':>10}  memory")
    for name, limit in LIMITS.items():
        found = ratios(name, options.repeats, options.prompts, options.air_prompts)
        memory = memory_ratio(name, options.prompts, options.air_prompts)
        print(
            f"{name:14} {found['evaluations']:3.0f} {found['calls']:5.0f}  {found['wall']:6.3f} "
            f"{found['processor']:6.3f} {limit:6.2f}  {found['one by one']:10.3f}  {memory:6.2f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
