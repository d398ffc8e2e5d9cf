"""The published in-context operator network: every point of every function is a token of one sequence.

The sequence is example after example, each the points of its input and then of its output, then the query's
points and the points asked. A token is a linear map of coordinates and values (zero where a value is asked)
plus an embedding that says which function it belongs to; transformer blocks follow, normalised after sums.
Who sees whom: an input sees all examples before its own, and itself; an output sees its input too; a point
asked sees all examples, the query and itself, no other point asked.

So nothing an example becomes depends on the query. Its keys and values are kept: prompts that begin alike
share them (`prefixes`), a rollout finds them again, and a query goes through alone. As functions see other
functions whole, attention needs a mask only where points asked see themselves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu, linear, scaled_dot_product_attention

from chop.core.errors import ModelError
from chop.core.prompt import Prompt
from chop.icon.config import PublishedConfig
from chop.icon.functions.prompts import need_functions
from chop.icon.published.answering import SequenceWork, answer_sequences
from chop.icon.published.prefixes import Path, Prefixes, along_chains
from chop.icon.sharing import InContextNetwork, Question

TOKENS = {"cpu": 4096}
"""Tokens worked on at a time (elsewhere 2**17), at least those of one prompt."""
ASKED = 256
"""Points asked that attend together: each is shown the keys of all of them, behind a mask."""
_INPUT, _OUTPUT, _ASKED = range(3)
"""The functions of an example or of the query, in the order of their embeddings."""


class Block(nn.Module):
    """Attention and a feed-forward layer, each added and then normalised; parts are named as published."""

    def __init__(self, width: int, heads: int, hidden: int) -> None:
        super().__init__()
        self.heads = heads
        self.self_attn = nn.MultiheadAttention(width, heads, batch_first=True)
        self.norm1 = nn.LayerNorm(width)
        self.linear1 = nn.Linear(width, hidden)
        self.linear2 = nn.Linear(hidden, width)
        self.norm2 = nn.LayerNorm(width)

    def remember(self, tokens: Tensor) -> KeysValues:
        """What tokens show to others."""
        width = tokens.shape[-1]
        weight, bias = self.self_attn.in_proj_weight, self.self_attn.in_proj_bias
        both = linear(tokens, weight[width:], bias[width:]).unflatten(-1, (2, self.heads, -1))
        return KeysValues(*both.unbind(-3))

    def hear(self, tokens: Tensor, seen: KeysValues, mask: Tensor | None = None) -> Tensor:
        """Tokens ``(N, tokens, width)`` after attention and the feed-forward layer."""
        width = tokens.shape[-1]
        weight, bias = self.self_attn.in_proj_weight, self.self_attn.in_proj_bias
        asked = linear(tokens, weight[:width], bias[:width]).unflatten(-1, (self.heads, -1))
        asked, keys, values = (part.transpose(1, 2) for part in (asked, *seen))
        heard = scaled_dot_product_attention(asked, keys, values, attn_mask=mask).transpose(1, 2).flatten(-2)
        tokens = self.norm1(tokens + self.self_attn.out_proj(heard))
        done: Tensor = self.norm2(tokens + self.linear2(gelu(self.linear1(tokens))))
        return done


class KeysValues(NamedTuple):
    """What tokens show to others, ``(..., tokens, heads, w)`` each."""

    keys: Tensor
    values: Tensor

    def up_to(self, tokens: int) -> KeysValues:
        """Of ``(N, tokens, heads, w)`` the first so many tokens."""
        return KeysValues(*(part[:, :tokens] for part in self))

    def along(self, chains: Tensor) -> KeysValues:
        """Of ``(rows, prefixes, tokens, heads, w)`` what a token at the end of each chain sees."""
        return KeysValues(*(along_chains(part, chains) for part in self))


def _joined(*parts: KeysValues) -> KeysValues:
    return KeysValues(*(torch.cat(side, dim=1) for side in zip(*parts, strict=True)))


@dataclass(frozen=True, eq=False)
class ExampleMemory:
    """What examples show in each block, ``(rows, prefixes, tokens, heads, w)`` for some rows of a batch."""

    prefixes: Prefixes
    blocks: tuple[KeysValues, ...]

    @property
    def nbytes(self) -> int:
        return sum(part.nbytes for block in self.blocks for part in block)


class PublishedIcon(InContextNetwork):
    """Functions of x, or of (t, x): what `PublishedConfig` describes."""

    ordered = True

    def __init__(self, config: PublishedConfig) -> None:
        super().__init__()
        self.config = c = config
        self.pre_projection = nn.Linear(c.coordinates + c.channels, c.width)
        self.function_pe = nn.Embedding(c.functions, c.width) if c.functions else None
        self.transformer = nn.ModuleDict(
            {"layers": nn.ModuleList(Block(c.width, c.heads, c.hidden) for _ in range(c.transformer_layers))}
        )
        self.post_projection = nn.Linear(c.width, c.channels)

    def check(self, prompt: Prompt) -> None:
        c = self.config
        need_functions(prompt, c.coordinates, c.channels, c.channels)
        if c.most_examples is not None and prompt.examples > c.most_examples:
            raise ModelError(
                f"this network tells {c.functions} functions apart, so it takes at most {c.most_examples} "
                f"examples, the prompt has {prompt.examples}"
            )

    def is_uniform(self, prompt: Prompt) -> bool:
        return True

    def answers(self, root: Prompt, questions: Sequence[Question], share: bool) -> list[Tensor]:
        pairs = [self._points(field.coords, field.values, root) for field in (root.inputs, root.outputs)]
        points = sum(part.shape[2] for part in pairs)
        work = SequenceWork(
            pairs,
            encode=self.encode,
            asked=lambda some: self._asked(root, some),
            ask=self.ask,
            rows=lambda prefixes: self._rows_at_once(prefixes * points),
        )
        return answer_sequences(self, root, questions, share, work)

    def encode(self, x: Tensor, y: Tensor, prefixes: Prefixes) -> ExampleMemory:
        """What examples show along all prefixes; x and y are points ``(rows, D, points, k + c)``."""
        functions = [
            self._named(self.pre_projection(points)[:, prefixes.pairs], kind, prefixes.positions)
            for kind, points in ((_INPUT, x), (_OUTPUT, y))
        ]
        tokens = torch.cat(functions, dim=2)
        shown = [self._blocks[0].remember(tokens)]
        for block, following in pairwise(self._blocks):
            levels = [
                _heard_example(block, tokens[:, places], shown[-1].along(chains), y.shape[2])
                for places, chains in prefixes.levels()
            ]
            tokens = torch.cat(levels, dim=1)
            shown.append(following.remember(tokens))
        return ExampleMemory(prefixes, tuple(shown))

    def ask(self, memory: ExampleMemory, sequences: list[Path], query: Tensor, asked: Tensor) -> Tensor:
        """Answers ``(rows, Q, points, c)`` of Q queries, each after its own, equally long sequence of pairs.

        ``query`` and ``asked`` are points ``(rows, Q, points, k + c)``.
        """
        each = self._rows_at_once(len(query) * (query.shape[2] + asked.shape[2]))
        parts = [
            self._ask(memory, memory.prefixes.chains(sequences[i : i + each]), x, at)
            for i, x, at in zip(
                range(0, len(sequences), each), query.split(each, 1), asked.split(each, 1), strict=True
            )
        ]
        return torch.cat(parts, dim=1)

    def _ask(self, memory: ExampleMemory, chains: Tensor, query: Tensor, asked: Tensor) -> Tensor:
        rows, queries = query.shape[:2]
        position = [chains.shape[1]]
        query, asked = (
            self._named(self.pre_projection(points), kind, position).flatten(0, 1)
            for kind, points in ((_INPUT, query), (_ASKED, asked))
        )
        for block, shown in zip(self._blocks, memory.blocks, strict=True):
            examples, own = shown.along(chains), block.remember(query)
            heard = []
            for some in asked.split(ASKED, dim=1):
                seen = _joined(examples, own, block.remember(some))
                heard.append(block.hear(some, seen, _own_point_last(some, seen.keys.shape[1])))
            asked = torch.cat(heard, dim=1)
            # After the last block nobody looks at the query any more.
            if block is not self._blocks[-1]:
                query = block.hear(query, seen.up_to(seen.keys.shape[1] - some.shape[1]))
        answer: Tensor = self.post_projection(asked).unflatten(0, (rows, queries))
        return answer

    @property
    def _blocks(self) -> Sequence[Block]:
        return self.transformer["layers"]  # type: ignore[return-value]

    def _rows_at_once(self, tokens: int) -> int:
        """How many rows of a batch fit what is worked on at a time, if one has so many tokens."""
        return max(1, TOKENS.get(self.post_projection.weight.device.type, 2**17) // tokens)

    def _named(self, tokens: Tensor, kind: int, positions: Sequence[int]) -> Tensor:
        """Tokens ``(rows, functions, points, width)`` that know which function of which pair they are."""
        if self.function_pe is None:
            return tokens
        names = torch.tensor([3 * position + kind for position in positions], device=tokens.device)
        named: Tensor = tokens + self.function_pe(names)[:, None]
        return named

    def _asked(self, root: Prompt, questions: Sequence[Question]) -> tuple[Tensor, Tensor]:
        """Queries and points asked of questions laid out alike, one after the other."""
        prompts = [question.prompt for question in questions]
        queries = [self._points(p.query.coords, p.query.values, root) for p in prompts]
        asked = [self._points(p.at, None, root) for p in prompts]
        return torch.cat(queries, dim=1), torch.cat(asked, dim=1)

    def _points(self, coords: Tensor, values: Tensor | None, root: Prompt) -> Tensor:
        """Points ``(rows, functions, points, k + c)`` as the network was shown them: t, x, values."""
        c = self.config
        at = self.rows(coords, len(root.batch))
        if root.axis("t") == 1:
            at = at.flip(-1)
        at = torch.cat([at[..., :-1], c.x_scale * at[..., -1:]], dim=-1)
        missing = at.new_zeros(*at.shape[:-1], c.coordinates - at.shape[-1])
        unknown = at.new_zeros(*at.shape[:-1], c.channels)
        given = unknown if values is None else self.rows(values, len(root.batch))
        return torch.cat([missing, at, given], dim=-1)


def _heard_example(block: Block, tokens: Tensor, seen: KeysValues, outputs: int) -> Tensor:
    """Examples ``(rows, N, tokens, width)`` after a block; inputs do not see outputs, the last tokens."""
    flat = tokens.flatten(0, 1)
    first, second = flat.split([flat.shape[1] - outputs, outputs], dim=1)
    heard = [block.hear(first, seen.up_to(seen.keys.shape[1] - outputs)), block.hear(second, seen)]
    return torch.cat(heard, dim=1).reshape(tokens.shape)


def _own_point_last(asked: Tensor, seen: int) -> Tensor:
    """What is added to attention so that points asked, the last ones seen, see only themselves among them."""
    points = asked.shape[1]
    own = asked.new_full((points, points), -torch.inf).fill_diagonal_(0.0)
    return torch.cat([own.new_zeros(points, seen - points), own], dim=1)
