"""The layers of the network: tokens from windows, rotary attention, and two kinds of block."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

_PERIODIC = (0, 0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 4, 4, 5, 5)
_REAL = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)


def frequencies(coordinates: int, count: int) -> Tensor:
    """``(2, count)``: how fast each pair of numbers of a head turns along t and along x.

    Integers along x, which is periodic, so that attention sees distances on the circle; any real number
    along t. With both coordinates half of the pairs turn along each.
    """
    if coordinates == 1:
        chosen = [(0.0, float(_PERIODIC[i * 16 // count])) for i in range(count)]
    else:
        half = count // 2
        chosen = [(0.0, float(_PERIODIC[i * 16 // half])) for i in range(half)]
        chosen += [(_REAL[i * 8 // (count - half)], 0.0) for i in range(count - half)]
    return torch.tensor(chosen).T


def fresh_weights(network: nn.Module, depth: int) -> None:
    """Linear maps from torch's random state: what enters one of ``2 depth`` residual sums starts small."""
    for name, part in network.named_modules():
        if isinstance(part, nn.Linear):
            scale = part.in_features**-0.5
            if name.endswith((".out", ".down")):
                scale /= (2 * depth) ** 0.5
            nn.init.normal_(part.weight, std=scale)
            if part.bias is not None:
                nn.init.zeros_(part.bias)


def rotate(heads: Tensor, turn: Tensor) -> Tensor:
    """``heads (..., tokens, H, w)`` turned by unit complex numbers ``turn (..., tokens, 1, w / 2)``."""
    pairs = torch.view_as_complex(heads.unflatten(-1, (-1, 2)))
    return torch.view_as_real(pairs * turn).flatten(-2)


def attend(query: Tensor, key: Tensor, value: Tensor, bias: Tensor | None = None) -> Tensor:
    """Softmax attention on ``(B, tokens, H, w)``; returns ``(B, tokens, H * w)``."""
    query, key, value = (part.transpose(1, 2) for part in (query, key, value))
    mixed = functional.scaled_dot_product_attention(query, key, value, attn_mask=bias)
    return mixed.transpose(1, 2).flatten(-2)


class Embed(nn.Module):
    """Window content to a token: a linear map and a small nonlinear correction to it."""

    def __init__(self, values: int, geometry: int, width: int) -> None:
        super().__init__()
        self.direct = nn.Linear(values + geometry, width)
        self.hidden = nn.Linear(values + geometry, width)
        self.out = nn.Linear(width, width, bias=False)

    def forward(self, content: Tensor) -> Tensor:
        found: Tensor = self.direct(content) + self.out(functional.gelu(self.hidden(content)))
        return found


class Feed(nn.Module):
    """The usual two-layer perceptron, normalised before."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, tokens: Tensor) -> Tensor:
        found: Tensor = self.down(functional.gelu(self.up(self.norm(tokens))))
        return found


class SelfAttention(nn.Module):
    """Tokens attend to the first ``shown`` of them (all by default)."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(width)
        self.project = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, tokens: Tensor, turn: Tensor, shown: int | None = None) -> Tensor:
        split = self.project(self.norm(tokens)).unflatten(-1, (3, self.heads, -1))
        turned = rotate(split[..., :2, :, :], turn.unsqueeze(-2))
        query, key, value = turned[..., 0, :, :], turned[..., 1, :, :], split[..., 2, :, :]
        found: Tensor = self.out(attend(query, key[:, :shown], value[:, :shown]))
        return found


class CrossAttention(nn.Module):
    """Tokens of the queries attend to the memories of the pairs, encoded before."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(width)
        self.query = nn.Linear(width, width)
        self.project = nn.Linear(width, 2 * width)
        self.out = nn.Linear(width, width)

    def remember(self, memory: Tensor, turn: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values of memory tokens ``(B, tokens, width)``, needed once for all queries."""
        key, value = self.project(memory).unflatten(-1, (2, self.heads, -1)).unbind(-3)
        return rotate(key, turn), value

    def forward(
        self, tokens: Tensor, turn: Tensor, memory: tuple[Tensor, Tensor], bias: Tensor | None
    ) -> Tensor:
        """``tokens (B, tokens of all queries, width)``."""
        query = rotate(self.query(self.norm(tokens)).unflatten(-1, (self.heads, -1)), turn)
        found: Tensor = self.out(attend(query, *memory, bias))
        return found


class EncoderBlock(nn.Module):
    """Self-attention among the tokens of one pair, then the perceptron."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.attention = SelfAttention(width, heads)
        self.feed = Feed(width)

    def forward(self, tokens: Tensor, turn: Tensor) -> Tensor:
        tokens = tokens + self.attention(tokens, turn)
        summed: Tensor = tokens + self.feed(tokens)
        return summed


class DecoderBlock(nn.Module):
    """Attention to the query's own input, to the pairs, then the perceptron."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.attention = SelfAttention(width, heads)
        self.pairs = CrossAttention(width, heads)
        self.feed = Feed(width)

    def forward(
        self,
        tokens: Tensor,
        turns: tuple[Tensor, Tensor],
        shown: int,
        memory: tuple[Tensor, Tensor],
        bias: Tensor | None,
    ) -> Tensor:
        """``tokens (B, Q, tokens, width)`` for Q queries about the same pairs.

        ``turns`` are those of the queries' tokens, query by query and laid one after the other.
        """
        size, queries = tokens.shape[:2]
        flat = tokens.flatten(0, 1)
        flat = flat + self.attention(flat, turns[0], shown)
        row = flat.unflatten(0, (size, queries)).flatten(1, 2)
        row = row + self.pairs(row, turns[1], memory, bias)
        summed: Tensor = (row + self.feed(row)).unflatten(1, (queries, -1))
        return summed


__all__ = ["DecoderBlock", "Embed", "EncoderBlock", "frequencies", "rotate"]
