"""How positions of a published graph network attend to each other: one class for each kind of attention.

A station's sequence is window, frame, window, frame ..., and last the query's window: even positions are
windows, odd ones what followed, and position p belongs to example ``p // 2``. Each position sees itself and
those before it. The kinds differ in what they add to tokens, how they turn queries and keys, and what they
add to scores; parts are named as published.

Shapes: S stations, R rows of a batch, P sequences or beginnings of them, T tokens of each, w numbers of each
head. Some kinds compare examples as a whole. What stands for an example in that is its mark, the same at all
stations: ``(R or 1, P, examples, heads, v)``, and v is 0 where examples are not compared.
"""

from __future__ import annotations

import math
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from chop.icon.config import GraphConfig
from chop.icon.published.prefixes import along_chains

ROTARY_BASE = 10_000.0
WIDEST_ANGLE = math.pi
"""By which an example of a set may be turned."""


class Asking(NamedTuple):
    """What tokens look for: queries ``(S * R, P, T, heads, w)`` and marks."""

    queries: Tensor
    marks: Tensor

    def at(self, places: slice) -> Asking:
        """That of some of the P."""
        return Asking(*(part[:, places] for part in self))


class Shown(NamedTuple):
    """What tokens show: keys and values ``(S * R, P, T, heads, w)`` and marks."""

    keys: Tensor
    values: Tensor
    marks: Tensor

    def along(self, chains: Tensor) -> Shown:
        """What a token at the end of each chain of beginnings sees: ``(S * R * chains, n, heads, w)``."""
        return Shown(*(along_chains(part, chains) for part in self))

    def alone(self) -> Shown:
        """What the tokens of each of the P show to each other: ``(S * R * P, T, heads, w)``."""
        return Shown(*(part.flatten(0, 1) for part in self))

    def then(self, others: Shown) -> Shown:
        """Others after these, both ``(N, n, heads, w)``."""
        return Shown(*(torch.cat(both, dim=1) for both in zip(self, others, strict=True)))


class Role(nn.Module):
    """Windows and frames are not told apart."""

    def __init__(self, config: GraphConfig) -> None:
        super().__init__()

    def entered(self, tokens: Tensor, positions: Tensor) -> Tensor:
        """Tokens ``(S, R, P, T, width)`` at positions ``(P or 1, T)``."""
        return tokens

    def scores(self, looking: Tensor, seen: Tensor) -> Tensor | float:
        """What is added to scores ``(heads, T, n)`` between positions ``(T,)`` and ``(n,)``."""
        return 0.0


class InputRole(Role):
    """A vector is added to windows and taken from frames."""

    def __init__(self, config: GraphConfig) -> None:
        super().__init__(config)
        self.role_vec = nn.Parameter(torch.randn(config.width))

    def entered(self, tokens: Tensor, positions: Tensor) -> Tensor:
        return tokens + (1 - 2 * (positions % 2))[..., None] * self.role_vec


class LogitRole(Role):
    """A number for each combination of who looks and who is seen."""

    def __init__(self, config: GraphConfig) -> None:
        super().__init__(config)
        self.bias = nn.Embedding(4, config.heads)

    def scores(self, looking: Tensor, seen: Tensor) -> Tensor | float:
        kind = 2 * (looking % 2)[:, None] + seen % 2
        added: Tensor = self.bias(kind).permute(2, 0, 1)
        return added


class GraphAttention(nn.Module):
    """Attention by content alone; other kinds change one of its steps."""

    whole: ClassVar[bool] = False
    """Whether what a position becomes depends on what comes after it."""
    by_length: ClassVar[bool] = False
    """Whether it depends on how long the sequence is."""

    def __init__(self, config: GraphConfig) -> None:
        super().__init__()
        self.heads = config.heads
        self.pre_norm = nn.LayerNorm(config.width)
        self.attention = nn.ModuleDict(
            {f"{name}_proj": nn.Linear(config.width, config.width, bias=False) for name in "qkvo"}
        )
        self.role_encoding = _ROLES[config.role](config)

    def look(self, tokens: Tensor, positions: Tensor) -> tuple[Asking, Shown]:
        """What tokens ``(S, R, P, T, width)`` at positions ``(P or 1, T)`` want and show; even ones first."""
        inside = self.role_encoding.entered(self.pre_norm(self.placed(tokens, positions)), positions)
        flat = inside.flatten(0, 1)
        queries, keys, values = (self._split(self.attention[name](flat)) for name in _PROJECTIONS)
        queries, keys = (self.turned(part, positions) for part in (queries, keys))
        looking, seen = self.marks(tokens, inside, positions)
        return Asking(queries, looking), Shown(keys, values, seen)

    def hear(self, asking: Asking, shown: Shown, looking: Tensor, length: int) -> Tensor:
        """What tokens at positions ``looking (T,)`` find, ``(S * R, P, T, width)``.

        ``shown`` are all positions up to the last of them; ``length`` is that of the complete sequence.
        """
        seen = torch.arange(shown.keys.shape[1], device=looking.device)
        queries, keys = self.met(asking, shown)
        added = self.scores(asking, shown, looking, seen, length) + self.role_encoding.scores(looking, seen)
        added = added.masked_fill(seen > looking[:, None], -torch.inf)
        if len(added) > 1:
            added = added.expand(len(keys) // len(added), *added.shape).flatten(0, 1)
        queries, keys, values = (part.transpose(1, 2) for part in (queries, keys, shown.values))
        heard = scaled_dot_product_attention(queries, keys, values, attn_mask=added)
        found = self.attention["o_proj"](heard.transpose(1, 2).flatten(-2))
        by_row: Tensor = found.unflatten(0, asking.queries.shape[:2])
        return by_row

    def placed(self, tokens: Tensor, positions: Tensor) -> Tensor:
        """Tokens as they enter."""
        return tokens

    def turned(self, heads: Tensor, positions: Tensor) -> Tensor:
        """Queries or keys ``(S * R, P, T, heads, w)``."""
        return heads

    def marks(self, tokens: Tensor, inside: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
        """What stands for the examples of tokens, when they look and when they are seen."""
        none = tokens.new_zeros(1, tokens.shape[2], 1, self.heads, 0)
        return none, none

    def met(self, asking: Asking, shown: Shown) -> tuple[Tensor, Tensor]:
        """Queries and keys, ``(S * R * P, tokens, heads, w)`` both."""
        return asking.queries.flatten(0, 1), shown.keys

    def scores(self, asking: Asking, shown: Shown, looking: Tensor, seen: Tensor, length: int) -> Tensor:
        """What is added to scores, ``(R * P, heads, T, n)``, or 1 for what is the same everywhere."""
        return asking.queries.new_zeros(1, 1, len(looking), len(seen))

    def _split(self, numbers: Tensor) -> Tensor:
        by_head: Tensor = numbers.unflatten(-1, (self.heads, -1))
        return by_head


class RotaryAttention(GraphAttention):
    """Queries and keys are turned by their position, each pair of numbers at a speed of its own."""

    def turned(self, heads: Tensor, positions: Tensor) -> Tensor:
        width = heads.shape[-1]
        places = torch.arange(0, width, 2, device=heads.device, dtype=torch.float64)
        angles = positions[..., None, None] * ROTARY_BASE ** (-places / width)
        return _turned_by(heads, angles)


class RelativeAttention(GraphAttention):
    """A number for each distance is added to scores, found in a table from the length of the sequence on."""

    by_length = True

    def __init__(self, config: GraphConfig) -> None:
        super().__init__(config)
        self.pos_bias = nn.Embedding(4 * config.most_examples + 1, config.heads)

    def scores(self, asking: Asking, shown: Shown, looking: Tensor, seen: Tensor, length: int) -> Tensor:
        added: Tensor = self.pos_bias(seen - looking[:, None] + length - 1) * asking.queries.shape[-1] ** -0.5
        return added.permute(2, 0, 1)[None]


class SimilarAttention(GraphAttention):
    """How similar two examples are is added to scores between them."""

    def __init__(self, config: GraphConfig) -> None:
        super().__init__(config)
        width = config.width
        self.pooling = config.pooling
        learned = config.similarity == "attn"
        self.cond_q_proj = nn.Linear(width, width, bias=False) if learned else nn.Identity()
        self.cond_k_proj = nn.Linear(width, width, bias=False) if learned else nn.Identity()
        if self.pooling is not None:
            self.cond_embedding_proj: nn.Module = _two_layers(width, width // 2, width)
        if self.pooling == "pooling":
            self.spatial_attention = _two_layers(width, width // 4, 1)

    def summary(self, tokens: Tensor, positions: Tensor) -> Tensor:
        """What is compared of each example, ``(R or 1, P, examples, width)``."""
        windows = tokens[..., ::2, :]
        if self.pooling == "pooling":
            parts = self.cond_embedding_proj(windows)
            weighted: Tensor = parts * self.spatial_attention(parts).sigmoid()
            return weighted.sum(dim=0)
        mean = windows.mean(dim=0)
        mapped: Tensor = mean if self.pooling is None else self.cond_embedding_proj(mean)
        return mapped

    def marks(self, tokens: Tensor, inside: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
        summary = self.summary(tokens, positions)
        return self._split(self.cond_q_proj(summary)), self._split(self.cond_k_proj(summary))

    def scores(self, asking: Asking, shown: Shown, looking: Tensor, seen: Tensor, length: int) -> Tensor:
        own = asking.marks.flatten(0, 1)
        similar = torch.einsum("nihv,njhv->nhij", own, shown.marks) * own.shape[-1] ** -0.5
        added: Tensor = similar[..., looking // 2 - looking[0] // 2, :][..., seen // 2]
        return added


class PlacedAttention(SimilarAttention):
    """The same of embeddings that say which example of the sequence it is."""

    def __init__(self, config: GraphConfig) -> None:
        super().__init__(config)
        self.cond_embedding_proj = nn.Embedding(config.most_examples + 1, config.width)

    def summary(self, tokens: Tensor, positions: Tensor) -> Tensor:
        found: Tensor = self.cond_embedding_proj(positions[:, ::2] // 2)
        return found.expand(1, tokens.shape[2], -1, -1)


class AbsoluteAttention(GraphAttention):
    """What enters attention knows its example and whether it is a window or a frame."""

    def __init__(self, config: GraphConfig) -> None:
        super().__init__(config)
        self.example_embeddings, self.type_embeddings = position_embeddings(config)

    def placed(self, tokens: Tensor, positions: Tensor) -> Tensor:
        named: Tensor = tokens + self.example_embeddings(positions // 2) + self.type_embeddings(positions % 2)
        return named


class SetRotaryAttention(GraphAttention):
    """Queries and keys of an example are turned by how it differs from the mean of all and the query."""

    whole = True

    def __init__(self, config: GraphConfig) -> None:
        super().__init__(config)
        self.phi_readout = nn.Linear(config.width, config.heads, bias=False)

    def marks(self, tokens: Tensor, inside: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
        found = self._split(self.phi_readout(inside[..., ::2, :].mean(dim=0)))
        return found, found

    def met(self, asking: Asking, shown: Shown) -> tuple[Tensor, Tensor]:
        angles = WIDEST_ANGLE * torch.tanh(shown.marks - shown.marks.mean(dim=1, keepdim=True))
        angles = angles.repeat_interleave(2, dim=1)[:, : shown.keys.shape[1]]
        found = (part.unflatten(0, (-1, len(angles))) for part in super().met(asking, shown))
        queries, keys = (_turned_by(part, angles).flatten(0, 1) for part in found)
        return queries, keys


def position_embeddings(config: GraphConfig) -> tuple[nn.Embedding, nn.Embedding]:
    """Of which example a position belongs to, and of whether it is a window or a frame."""
    return nn.Embedding(config.most_examples + 1, config.width), nn.Embedding(2, config.width)


def _two_layers(inputs: int, hidden: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(inputs, hidden), nn.ReLU(), nn.Linear(hidden, outputs))


def _turned_by(heads: Tensor, angles: Tensor) -> Tensor:
    """The two halves of ``(..., w)`` as coordinates in planes, turned by ``(..., w / 2 or 1)``."""
    first, second = heads.chunk(2, dim=-1)
    cos, sin = (part.to(heads.dtype) for part in (angles.cos(), angles.sin()))
    return torch.cat([first * cos - second * sin, first * sin + second * cos], dim=-1)


_PROJECTIONS = ("q_proj", "k_proj", "v_proj")
_ROLES = {None: Role, "input": InputRole, "logit": LogitRole}
ATTENTIONS: dict[str, type[GraphAttention]] = {
    "plain": GraphAttention,
    "rotary": RotaryAttention,
    "relative": RelativeAttention,
    "similar": SimilarAttention,
    "placed": PlacedAttention,
    "absolute": AbsoluteAttention,
    "set_rotary": SetRotaryAttention,
}
