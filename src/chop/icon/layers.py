"""The layers of the networks: tokens, attention (rotary or not), exchange between stations, blocks."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

_PERIODIC = (0, 0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 4, 4, 5, 5)
_REAL = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
KM_PER_DEGREE = 111.195


@dataclass(frozen=True, eq=False)
class Memory:
    """Encoded pairs: for each layer that asks them keys and values ``(B, remembered, ..., heads, w)``."""

    layers: tuple[tuple[Tensor, Tensor], ...]
    pairs: int


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
    """Softmax attention along the second axis of ``(B, tokens, ..., H, w)``; the heads become one axis."""
    query, key, value = (part.movedim(1, -2) for part in (query, key, value))
    mixed = functional.scaled_dot_product_attention(query, key, value, attn_mask=bias)
    return mixed.movedim(-2, 1).flatten(-2)


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

    def remember(self, memory: Tensor, turn: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Keys and values of memory tokens ``(B, remembered, ..., width)``, needed once for all queries."""
        key, value = self.project(memory).unflatten(-1, (2, self.heads, -1)).unbind(-3)
        return key if turn is None else rotate(key, turn), value

    def forward(
        self, tokens: Tensor, memory: tuple[Tensor, Tensor], bias: Tensor | None, turn: Tensor | None = None
    ) -> Tensor:
        """``tokens (B, asking, ..., width)``; the bias is added to the attention."""
        query = self.query(self.norm(tokens)).unflatten(-1, (self.heads, -1))
        if turn is not None:
            query = rotate(query, turn)
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
        row = row + self.pairs(row, memory, bias, turns[1])
        summed: Tensor = (row + self.feed(row)).unflatten(1, (queries, -1))
        return summed


def offsets(places: Tensor) -> tuple[Tensor, Tensor]:
    """Kilometres east and north from each station to each other, ``(S, S)`` twice.

    ``places`` is ``(S, 2)``: longitude and latitude in degrees. The plane is flat at the mean latitude of
    each pair, which is right to a fraction of a percent over the reach of a station graph.
    """
    east, north = (places[None, :, i] - places[:, None, i] for i in range(2))
    east = torch.remainder(east + 180.0, 360.0) - 180.0
    middle = torch.deg2rad((places[None, :, 1] + places[:, None, 1]) / 2)
    return KM_PER_DEGREE * east * torch.cos(middle), KM_PER_DEGREE * north


class Kernels(nn.Module):
    """Station × station matrices: a few learned lengths, each without direction, eastward and northward.

    A neighbour weighs exp(-distance / length), and the weights of a station's neighbours and its own sum
    to one; the directed matrices are the same weights times the cosine or sine of the direction. Only
    neighbours in the graph count, so a station alone sees itself.
    """

    def __init__(self, lengths: tuple[float, ...]) -> None:
        super().__init__()
        self.logarithm = nn.Parameter(torch.tensor(lengths).log())

    def forward(self, places: Tensor, neighbours: Tensor) -> Tensor:
        """``(3 L, S, S)`` from places ``(S, 2)`` and who neighbours whom ``(S, S)``."""
        east, north = offsets(places)
        distance = torch.hypot(east, north)
        own = torch.eye(len(places), dtype=torch.bool, device=places.device)
        weight = torch.exp(-distance / self.logarithm.exp()[:, None, None]) * (neighbours | own)
        weight = weight / weight.sum(dim=-1, keepdim=True)
        away = distance.clamp(min=1e-6)
        return torch.cat([weight, weight * (east / away), weight * (north / away)])


class Exchange(nn.Module):
    """Every station hears a weighted mean of its neighbours, one kernel for a few numbers of its token."""

    def __init__(self, width: int, kernels: int, each: int) -> None:
        super().__init__()
        self.kernels = kernels
        self.norm = nn.LayerNorm(width)
        self.say = nn.Linear(width, kernels * each)
        self.out = nn.Linear(kernels * each, width)

    def forward(self, tokens: Tensor, kernels: Tensor) -> Tensor:
        """Tokens ``(N, S, w)``; kernels ``(K, S, S)``."""
        said = self.say(self.norm(tokens)).unflatten(-1, (self.kernels, -1))
        count, stations, _, each = said.shape
        heard = kernels @ said.permute(2, 1, 0, 3).reshape(self.kernels, stations, count * each)
        heard = heard.unflatten(-1, (count, each)).permute(2, 1, 0, 3).flatten(-2)
        found: Tensor = self.out(heard)
        return found


class StationBlock(nn.Module):
    """Exchange between stations, then a perceptron at each."""

    def __init__(self, width: int, kernels: int, each: int) -> None:
        super().__init__()
        self.exchange = Exchange(width, kernels, each)
        self.feed = Feed(width)

    def forward(self, tokens: Tensor, kernels: Tensor) -> Tensor:
        """``(N, S, w)`` to the same."""
        tokens = tokens + self.exchange(tokens, kernels)
        summed: Tensor = tokens + self.feed(tokens)
        return summed


class AskingBlock(nn.Module):
    """Attention over the examples at each station, then a station block."""

    def __init__(self, width: int, heads: int, kernels: int, each: int) -> None:
        super().__init__()
        self.pairs = CrossAttention(width, heads)
        self.stations = StationBlock(width, kernels, each)

    def forward(
        self, tokens: Tensor, memory: tuple[Tensor, Tensor], bias: Tensor | None, kernels: Tensor
    ) -> Tensor:
        """``(B, Q, S, w)`` to the same."""
        tokens = tokens + self.pairs(tokens, memory, bias)
        mixed: Tensor = self.stations(tokens.flatten(0, 1), kernels)
        return mixed.reshape(tokens.shape)
