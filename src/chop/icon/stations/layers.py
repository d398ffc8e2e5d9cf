"""Layers of the station network: exchange between stations by kernels, attention over examples."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from chop.icon.layers import Feed

KM_PER_DEGREE = 111.195


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

    @property
    def count(self) -> int:
        return 3 * self.logarithm.numel()

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


class Attention(nn.Module):
    """A station's query asks the same station's memories of the examples."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(width)
        self.query = nn.Linear(width, width)
        self.project = nn.Linear(width, 2 * width)
        self.out = nn.Linear(width, width)

    def remember(self, memory: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values ``(B, S, H, D, w)`` of memories ``(B, D, S, width)``."""
        split = self.project(memory).unflatten(-1, (2, self.heads, -1))
        key, value = split.permute(3, 0, 2, 4, 1, 5).unbind(0)
        return key, value

    def forward(self, tokens: Tensor, memory: tuple[Tensor, Tensor], bias: Tensor | None) -> Tensor:
        """Tokens ``(B, Q, S, width)``; bias ``(B, 1, 1, Q, D)`` is added to the attention."""
        query = self.query(self.norm(tokens)).unflatten(-1, (self.heads, -1)).permute(0, 2, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(query, *memory, attn_mask=bias)
        found: Tensor = self.out(mixed.permute(0, 3, 1, 2, 4).flatten(-2))
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
        self.pairs = Attention(width, heads)
        self.stations = StationBlock(width, kernels, each)

    def forward(
        self, tokens: Tensor, memory: tuple[Tensor, Tensor], bias: Tensor | None, kernels: Tensor
    ) -> Tensor:
        """``(B, Q, S, w)`` to the same."""
        tokens = tokens + self.pairs(tokens, memory, bias)
        mixed: Tensor = self.stations(tokens.flatten(0, 1), kernels)
        return mixed.reshape(tokens.shape)


__all__ = ["AskingBlock", "Attention", "Exchange", "Kernels", "StationBlock", "offsets"]
