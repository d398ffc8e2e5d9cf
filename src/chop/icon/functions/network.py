"""The in-context operator network: a pair encoder, and a decoder that asks all pairs' memories.

A pair is encoded by itself, so the answer does not depend on the order of the examples, and prompts that
share examples share their encoding (`chop.icon.functions.sharing`). The decoder lets the tokens of a query
attend to the query's own input and to the memories of all pairs; where an answer is wanted elsewhere than
at the input's points, further tokens that carry coordinates only are asked. They do not see each other, so
the answer at one patch does not depend on which others are asked.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from chop.core.errors import ModelError
from chop.core.prompt import Prompt, without_repeats
from chop.icon.config import IconConfig
from chop.icon.functions.prompts import need_functions
from chop.icon.functions.sharing import ask, encoded_pairs
from chop.icon.functions.tokens import (
    TokenPlaces,
    at_points,
    count_rows,
    interpolated,
    regular_grid,
    token_places,
    unpatch,
    windows,
)
from chop.icon.layers import DecoderBlock, Embed, EncoderBlock, Memory, frequencies, fresh_weights
from chop.icon.sharing import InContextNetwork, Question


class Icon(InContextNetwork):
    """Functions of x, or of (t, x): what `IconConfig` describes."""

    blocks = ("encoder.", "decoder.")

    def __init__(self, config: IconConfig) -> None:
        super().__init__()
        self.config = config
        c, width, window = config, config.width, config.window
        geometry = 0 if c.grid else 3 * window
        if c.grid:
            self.pair = Embed(window * (c.inputs + c.outputs), 0, width)
        else:
            self.first = Embed(window * c.inputs, geometry, width)
            self.second = Embed(window * c.outputs, geometry, width)
            self.asked = Embed(0, geometry, width)
        self.query = Embed(window * c.inputs, geometry, width)
        self.encoder = nn.ModuleList(EncoderBlock(width, c.heads) for _ in range(c.encoder_layers))
        self.decoder = nn.ModuleList(DecoderBlock(width, c.heads) for _ in range(c.decoder_layers))
        self.memory_norm = nn.LayerNorm(width)
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, c.patch * c.outputs)
        self.turns: Tensor
        self.register_buffer(
            "turns", 2 * torch.pi * frequencies(c.coordinates, width // c.heads // 2), persistent=False
        )
        self.reset()

    def reset(self) -> None:
        """Fresh weights from torch's random state: what enters a residual sum starts small."""
        fresh_weights(self, depth=len(self.encoder) + len(self.decoder))
        nn.init.zeros_(self.head.weight)

    def check(self, prompt: Prompt) -> None:
        c = self.config
        need_functions(prompt, c.coordinates, c.inputs, c.outputs)
        for axis in prompt.axes or ():
            if axis.name == "x" and axis.period not in (1.0, None):
                raise ModelError(f"this network knows x with period 1, the prompt has period {axis.period}")
        for coords in (prompt.inputs.coords, prompt.outputs.coords, prompt.query.coords, prompt.at):
            x = without_repeats(coords)[..., -1]
            if float(x.max() - x.min()) > 1 + 1e-6:
                raise ModelError(
                    f"this network knows x with period 1, the prompt's x reaches from {float(x.min()):g} to "
                    f"{float(x.max()):g}; divide it by its period"
                )

    def is_uniform(self, prompt: Prompt) -> bool:
        if self.config.grid is not None or prompt.dimensions == 1:
            return True
        where = (prompt.inputs.coords, prompt.outputs.coords, prompt.query.coords, prompt.at)
        rows = [count_rows(without_repeats(coords)) for coords in where]
        return all(bool((part == part.flatten()[0]).all()) for part in rows)

    def answers(self, root: Prompt, questions: Sequence[Question], share: bool) -> list[Tensor]:
        return ask(self, root, encoded_pairs(self, root, share), questions)

    def pair_tokens(self, x_at: Tensor, y_at: Tensor) -> int:
        """How many tokens the D pairs of one prompt have, at coordinates ``(B, D, n, k)``."""
        if self.config.grid:
            return x_at.shape[1] * (self.config.grid // self.config.patch)
        return x_at.shape[1] * sum(self._places(part).patches.tokens for part in (x_at, y_at))

    def encode(self, x: Tensor, x_at: Tensor, y: Tensor, y_at: Tensor) -> Memory:
        """Pairs: values ``(B, D, n, c)`` at coordinates ``(B, D, n, k)``, and what they map to."""
        if self.config.grid:
            tokens, turn = self._joint_tokens(x, x_at, y, y_at)
        else:
            tokens, turn = self._separate_tokens(x, x_at, y, y_at)
        size, pairs, count, _ = tokens.shape
        flat, spin = tokens.flatten(0, 1), _for_each(turn, size, pairs)
        for block in self.encoder:
            flat = block(flat, spin)
        memory = self.memory_norm(flat).reshape(size, pairs * count, -1)
        spin = _for_row(turn, size, pairs)
        layers = []
        for block in self.decoder:
            assert isinstance(block, DecoderBlock)
            layers.append(block.pairs.remember(memory, spin))
        return Memory(tuple(layers), pairs)

    def decode(
        self, memory: Memory, x: Tensor, x_at: Tensor, at: Tensor, counts: Tensor | None = None
    ) -> Tensor:
        """Q queries ``(B, Q, n, c)`` about the same pairs, answered at ``(B, Q, m, k)``.

        ``counts (B, Q, D)`` says how often each query sees each pair (0: not at all).
        """
        c = self.config
        if c.grid:
            read = interpolated(x_at, x, c.grid)
            place = self._grid_places(read)
            tokens = self.query(windows(read, place.patches))
            shown, turn = tokens.shape[-2], self._turn(place)
        else:
            before, place = self._places(x_at), self._places(at)
            given = self.query(self._content(x, before))
            asked = self.asked(place.geometry).expand(*given.shape[:2], -1, -1)
            tokens, shown = torch.cat([given, asked], dim=-2), given.shape[-2]
            turn = _joined([self._turn(part) for part in (before, place)])
        bias = None if counts is None else _bias(counts, tokens.shape[-2], memory)
        size, queries = tokens.shape[:2]
        turns = (_for_each(turn, size, queries), _for_row(turn, size, queries))
        for i, block in enumerate(self.decoder):
            tokens = block(tokens, turns, shown, memory.layers[i], bias)
        if not c.grid:
            tokens = tokens[..., shown:, :]
        answer = unpatch(self.head(self.norm(tokens)), place.patches, c.outputs)
        if not c.grid:
            return answer
        return at_points(regular_grid(c.grid, like=at), answer + read, at)

    def _joint_tokens(self, x: Tensor, x_at: Tensor, y: Tensor, y_at: Tensor) -> tuple[Tensor, Tensor]:
        """One token for a patch of both functions of a pair, on the network's own grid."""
        assert self.config.grid
        x, y = interpolated(x_at, x, self.config.grid), interpolated(y_at, y, self.config.grid)
        place = self._grid_places(x)
        return self.pair(windows(torch.cat([x, y - x], dim=-1), place.patches)), self._turn(place)

    def _separate_tokens(self, x: Tensor, x_at: Tensor, y: Tensor, y_at: Tensor) -> tuple[Tensor, Tensor]:
        """Tokens of the input, then tokens of the output, each on its own points."""
        before, after = self._places(x_at), self._places(y_at)
        tokens = [self.first(self._content(x, before)), self.second(self._content(y, after))]
        return torch.cat(tokens, dim=-2), _joined([self._turn(place) for place in (before, after)])

    def _places(self, coords: Tensor) -> TokenPlaces:
        return token_places(coords, self.config.patch, self.config.margin)

    def _grid_places(self, like: Tensor) -> TokenPlaces:
        return self._places(regular_grid(like.shape[-2], like)[None, None])

    def _content(self, values: Tensor, place: TokenPlaces) -> Tensor:
        seen = windows(values, place.patches)
        return torch.cat([seen, place.geometry.expand(*seen.shape[:-1], -1)], dim=-1)

    def _turn(self, place: TokenPlaces) -> Tensor:
        angle = place.centres @ self.turns
        return torch.polar(torch.ones_like(angle), angle).unsqueeze(-2)


def _joined(turns: list[Tensor]) -> Tensor:
    """Turns of two kinds of tokens one after the other; what all functions share stays shared."""
    lead = torch.broadcast_shapes(*(turn.shape[:2] for turn in turns))
    return torch.cat([turn.expand(*lead, -1, -1, -1) for turn in turns], dim=-3)


def _for_each(turn: Tensor, size: int, functions: int) -> Tensor:
    """Turns ``(B or 1, Q or 1, tokens, 1, w)`` for functions that are batched; 1 if they are all alike."""
    if turn.shape[0] == turn.shape[1] == 1:
        return turn[0]
    return turn.expand(size, functions, -1, -1, -1).flatten(0, 1)


def _for_row(turn: Tensor, size: int, functions: int) -> Tensor:
    """The same for functions laid one after the other."""
    batch = 1 if turn.shape[0] == 1 else size
    return turn.expand(batch, functions, -1, -1, -1).flatten(1, 2)


def _bias(counts: Tensor, tokens: int, memory: Memory) -> Tensor:
    """What is added to the attention of every query token to every memory token: log of the count."""
    if bool((counts == counts[:1]).all()):
        counts = counts[:1]
    key = memory.layers[0][0]
    each = key.shape[1] // memory.pairs
    spread = counts.to(key.dtype).log().repeat_interleave(each, dim=-1).repeat_interleave(tokens, dim=1)
    return spread.unsqueeze(1)
