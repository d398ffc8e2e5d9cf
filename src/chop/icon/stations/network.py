"""The in-context operator network on station graphs: a window, an example, a question at every station.

A window of hours is encoded by itself, whether it is an example's input or the query: stations exchange
what they see through kernels of distance and direction, so any set of stations and any graph will do. A
pair adds what followed. A query then asks, at each station, the memories of the examples, and answers by
pointing at hours of its own window and adding a change. How far ahead the answer lies is not told: the
examples show it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from chop.core.prompt import Prompt
from chop.icon.config import StationConfig
from chop.icon.layers import AskingBlock, Embed, Kernels, Memory, StationBlock, fresh_weights
from chop.icon.sharing import InContextNetwork, Question
from chop.icon.stations.prompts import need_windows, same_stations
from chop.icon.stations.sharing import ask_stations

HARMONICS = 3
_SPREAD = math.sqrt((24**2 - 1) / 12)
"""Standard deviation of the hour of day: the hour channel comes normalised by it."""


class StationIcon(InContextNetwork):
    """Windows of hours at stations: what `StationConfig` describes."""

    blocks = ("windows.", "pairs.", "asking.")

    def __init__(self, config: StationConfig) -> None:
        super().__init__()
        self.config = config
        c, width, channels = config, config.width, len(config.channels)
        self.kernels = Kernels(c.lengths)
        self.window = Embed(2 * c.hours * channels, 2 * HARMONICS, width)
        self.pair = Embed(4 * channels, 4 * HARMONICS, width)
        self.windows = nn.ModuleList(StationBlock(width, c.kernels, c.each) for _ in range(c.window_layers))
        self.pairs = nn.ModuleList(StationBlock(width, c.kernels, c.each) for _ in range(c.pair_layers))
        self.asking = nn.ModuleList(
            AskingBlock(width, c.heads, c.kernels, c.each) for _ in range(c.asking_layers)
        )
        self.memory_norm = nn.LayerNorm(width)
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, channels * (c.hours + 1))
        self.reset()

    def reset(self) -> None:
        """Fresh weights from torch's random state: what enters a residual sum starts small."""
        c = self.config
        fresh_weights(self, depth=c.window_layers + c.pair_layers + c.asking_layers)
        nn.init.zeros_(self.head.weight)
        with torch.no_grad():  # at first the answer is mostly the last hour
            self.head.bias.view(len(c.channels), -1)[:, c.hours - 1] = 4.0

    def check(self, prompt: Prompt) -> None:
        need_windows(prompt, self.config.channels, self.config.hours)

    def is_uniform(self, prompt: Prompt) -> bool:
        return same_stations(prompt, self.config.hours)

    def answers(self, root: Prompt, questions: Sequence[Question], share: bool) -> list[Tensor]:
        return ask_stations(self, root, questions, share)

    def encode_windows(self, x: Tensor, seen: Tensor, kernels: Tensor) -> Tensor:
        """Tokens ``(N, S, w)`` of windows ``(N, hours, S, c)`` and what was observed of them."""
        last = _phases(x[:, -1, :, 0])
        content = torch.cat([_soft(x), seen.to(x.dtype)], dim=-1).transpose(1, 2).flatten(2)
        tokens: Tensor = self.window(torch.cat([content, *_waves(last)], dim=-1))
        for block in self.windows:
            tokens = block(tokens, kernels)
        return tokens

    def encode_pairs(self, tokens: Tensor, last: Tensor, y: Tensor, seen: Tensor, kernels: Tensor) -> Memory:
        """Memories of D pairs from their windows' tokens ``(B, D, S, w)``.

        ``last`` and ``y`` are the last hour of the window and what followed, ``(B, D, S, c)``; ``seen``
        says what was observed of the latter.
        """
        soft = _soft(y)
        before, after = _phases(last[..., 0]), _phases(y[..., 0])
        content = torch.cat(
            [
                soft, seen.to(y.dtype), soft - _soft(last), (y - last).clamp(-4, 4),
                *_waves(after), *_waves(after - before),
            ],
            dim=-1,
        )  # fmt: skip
        flat = (tokens + self.pair(content)).flatten(0, 1)
        for block in self.pairs:
            flat = block(flat, kernels)
        memory = self.memory_norm(flat).unflatten(0, tokens.shape[:2])
        layers = []
        for block in self.asking:
            assert isinstance(block, AskingBlock)
            layers.append(block.pairs.remember(memory))
        return Memory(tuple(layers), tokens.shape[1])

    def ask(
        self, memory: Memory, tokens: Tensor, x: Tensor, counts: Tensor | None, kernels: Tensor
    ) -> Tensor:
        """Answers ``(B, Q, S, c)`` of Q queries about the same pairs.

        ``tokens (B, Q, S, w)`` and ``x (B, Q, hours, S, c)`` are the queries' windows; ``counts
        (B, Q, D)`` says how often each query sees each pair (0: not at all).
        """
        bias = None if counts is None else counts.to(tokens.dtype).log()[:, None, None]
        for block, layer in zip(self.asking, memory.layers, strict=True):
            tokens = block(tokens, layer, bias, kernels)
        found = self.head(self.norm(tokens)).unflatten(-1, (len(self.config.channels), -1))
        pointed = torch.einsum("bqsch,bqhsc->bqsc", found[..., :-1].softmax(dim=-1), x)
        answer: Tensor = pointed + found[..., -1]
        return answer


def _soft(values: Tensor) -> Tensor:
    """Large values drawn together, so that an episode of haze does not drown the rest."""
    return torch.asinh(values)


def _phases(hour: Tensor) -> Tensor:
    """The normalised hour of day as an angle, from the middle of the day."""
    return hour * (2 * math.pi * _SPREAD / 24)


def _waves(angle: Tensor) -> list[Tensor]:
    """Sines and cosines of an angle and its multiples, each ``(..., 3)``."""
    turned = angle.unsqueeze(-1) * torch.arange(1, HARMONICS + 1, device=angle.device)
    return [turned.sin(), turned.cos()]
