"""The published graph in-context operator network: windows and frames of all stations, one after the other.

The sequence is example after example, each the window and then the frame that followed, then the query's
window. A position is a token at each station. In every block stations first send each other messages, at
every position by itself (`messages`), and then a transformer goes along the sequence, at every station by
itself (`graph_attention`): layers that are normalised after sums. The answer is read off the last position.

Nobody sees what comes later, so what an example becomes depends on the beginning of the sequence up to it:
each beginning is worked out once for all prompts that share it, and a query goes through alone. Two kinds of
attention are different: one depends on how long the sequence is, so only sequences of the same length share;
one looks at all examples and the query, and whole sequences go through.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import repeat
from typing import cast

import torch
from torch import Tensor, nn

from chop.core.errors import ModelError
from chop.core.prompt import Prompt
from chop.icon.config import GraphConfig
from chop.icon.published.answering import SequenceWork, answer_sequences
from chop.icon.published.graph_attention import ATTENTIONS, Shown, position_embeddings
from chop.icon.published.messages import Edges, pass_messages, station_edges
from chop.icon.published.prefixes import Path, Prefixes
from chop.icon.sharing import InContextNetwork, Question
from chop.icon.stations.prompts import need_windows, same_stations

STATION_TOKENS = {"cpu": 4096}
"""Tokens worked on at a time (elsewhere 2**17), at least those of one prompt."""


class SequenceLayer(nn.Module):
    """Attention and a feed-forward layer, each added and then normalised; parts are named as published."""

    def __init__(self, config: GraphConfig) -> None:
        super().__init__()
        width = config.width
        self.attn_layer = ATTENTIONS[config.attention](config)
        # Nothing stands where the published one has its dropout.
        self.feed_forward = nn.Sequential(
            nn.Linear(width, config.hidden), nn.GELU(), nn.Identity(), nn.Linear(config.hidden, width)
        )
        self.norm1, self.norm2 = (
            nn.LayerNorm(width) if config.norm == "layer" else nn.RMSNorm(width, eps=1e-6) for _ in range(2)
        )

    def after(self, tokens: Tensor, heard: Tensor) -> Tensor:
        """Tokens once they have heard, and gone through the feed-forward layer."""
        tokens = self.norm1(tokens + heard.reshape(tokens.shape))
        done: Tensor = self.norm2(tokens + self.feed_forward(tokens))
        return done


class MessageBlock(nn.Module):
    """Messages between stations, then layers along the sequence."""

    def __init__(self, config: GraphConfig) -> None:
        super().__init__()
        self.message_mlp = nn.Sequential(
            nn.Linear(2 * config.width + config.edge_width, config.message_width),
            nn.ReLU(),
            nn.Linear(config.message_width, config.width),
        )
        layers = nn.ModuleList(SequenceLayer(config) for _ in range(config.transformer_layers))
        self.incontext_transformer = nn.ModuleDict({"layers": layers})

    @property
    def layers(self) -> Sequence[SequenceLayer]:
        return cast("Sequence[SequenceLayer]", self.incontext_transformer["layers"])


@dataclass(frozen=True, eq=False)
class BeginningsMemory:
    """What examples show in each layer, for all beginnings of sequences."""

    edges: Edges
    prefixes: Prefixes
    layers: tuple[Shown, ...]

    @property
    def nbytes(self) -> int:
        return sum(part.nbytes for layer in self.layers for part in layer)


@dataclass(frozen=True, eq=False)
class PairTokens:
    """Examples before they have seen anything, ``(S, rows, D, 2, width)``."""

    edges: Edges
    tokens: Tensor

    @property
    def nbytes(self) -> int:
        return self.tokens.nbytes


class PublishedGraphIcon(InContextNetwork):
    """Windows of hours at stations: what `GraphConfig` describes."""

    ordered = True

    def __init__(self, config: GraphConfig) -> None:
        super().__init__()
        self.config = c = config
        channels = len(c.channels)
        self.pre_proj_cond = nn.Linear(c.hours * channels, c.width)
        self.pre_proj_qoi = nn.Linear(channels, c.width)
        self.post_proj = nn.Linear(c.width, channels)
        self.edge_proj = nn.Linear(2, c.edge_width)
        if c.absolute_positions:
            self.example_embeddings, self.type_embeddings = position_embeddings(c)
        self.gicon_blocks = nn.ModuleList(MessageBlock(c) for _ in range(c.graph_layers))

    def check(self, prompt: Prompt) -> None:
        c = self.config
        need_windows(prompt, c.channels, c.hours)
        if c.most_examples and prompt.examples > c.most_examples:
            raise ModelError(
                f"this network has embeddings of {c.most_examples} examples, the prompt has {prompt.examples}"
            )

    def is_uniform(self, prompt: Prompt) -> bool:
        return same_stations(prompt, self.config.hours)

    def answers(self, root: Prompt, questions: Sequence[Question], share: bool) -> list[Tensor]:
        kind = ATTENTIONS[self.config.attention]
        encode, ask = (self.pair_tokens, self.ask_whole) if kind.whole else (self.encode, self.ask)
        edges = cache(lambda: station_edges(root, like=self.edge_proj.weight))  # unless they are remembered
        stations = root.at.shape[-2]
        work = SequenceWork(
            [self.rows(field.values, len(root.batch)) for field in (root.inputs, root.outputs)],
            encode=lambda x, y, prefixes: encode(x, y, prefixes, edges()),
            asked=lambda some: [
                torch.cat([self.rows(q.prompt.query.values, len(root.batch)) for q in some], dim=1)
            ],
            ask=ask,
            rows=lambda prefixes: self._at_once(prefixes * 2 * stations),
        )
        if not kind.by_length:
            return answer_sequences(self, root, questions, share, work)
        found: dict[int, Tensor] = {}
        for length in {question.prompt.examples: None for question in questions}:
            numbers = [n for n, question in enumerate(questions) if question.prompt.examples == length]
            alike = [questions[n] for n in numbers]
            # One length is remembered: that of the prompt itself, whose answer is asked again and again.
            again = share and length == root.examples
            found.update(zip(numbers, answer_sequences(self, root, alike, again, work), strict=True))
        return [found[number] for number in range(len(questions))]

    def encode(self, x: Tensor, y: Tensor, prefixes: Prefixes, edges: Edges) -> BeginningsMemory:
        """What examples show along all prefixes; x is ``(rows, D, hours * S, c)``, y ``(rows, D, S, c)``."""
        positions = torch.tensor([[2 * i, 2 * i + 1] for i in prefixes.positions], device=x.device)
        tokens = self._named(self.pair_tokens(x, y, prefixes, edges).tokens[:, :, prefixes.pairs], positions)
        levels = list(prefixes.levels())
        length = _length(prefixes.positions[-1] + 1)
        shown: list[Shown] = []
        for block in self._blocks:
            tokens = pass_messages(block.message_mlp, self.edge_proj, tokens, edges)
            for layer in block.layers:
                attention = layer.attn_layer
                asking, examples = attention.look(tokens, positions)
                shown.append(examples)
                if layer is self._blocks[-1].layers[-1]:
                    break  # nobody looks at examples after it
                parts = []
                for places, chains in levels:
                    seen = examples.along(chains)
                    heard = attention.hear(asking.at(places), seen, positions[places.start], length)
                    parts.append(layer.after(tokens[:, :, places], heard))
                tokens = torch.cat(parts, dim=2)
        return BeginningsMemory(edges, prefixes, tuple(shown))

    def pair_tokens(self, x: Tensor, y: Tensor, prefixes: Prefixes, edges: Edges) -> PairTokens:
        """Examples by themselves; x and y as in `encode`."""
        return PairTokens(edges, torch.stack([self._window_tokens(x), self._frame_tokens(y)], dim=3))

    def ask(self, memory: BeginningsMemory, sequences: list[Path], query: Tensor) -> Tensor:
        """Answers ``(rows, Q, S, c)`` of Q queries, each after its own, equally long sequence of pairs.

        ``query`` are windows ``(rows, Q, hours * S, c)``.
        """
        length = _length(len(sequences[0]))
        found = []
        for paths, some in self._pieces(sequences, query, length):
            chains = memory.prefixes.chains(paths)
            before = (layer.along(chains) for layer in memory.layers)
            tokens = self._window_tokens(some)[..., None, :]
            found.append(self._answer(tokens, length, memory.edges, before))
        return torch.cat(found, dim=1)

    def ask_whole(self, memory: PairTokens, sequences: list[Path], query: Tensor) -> Tensor:
        """The same, of examples that have not gone through anything without their query."""
        length = _length(len(sequences[0]))
        found = []
        for paths, some in self._pieces(sequences, query, length):
            examples = memory.tokens[:, :, torch.tensor(paths, device=query.device)].flatten(3, 4)
            tokens = torch.cat([examples, self._window_tokens(some)[..., None, :]], dim=3)
            found.append(self._answer(tokens, length, memory.edges, repeat(None)))
        return torch.cat(found, dim=1)

    def _answer(self, tokens: Tensor, length: int, edges: Edges, before: Iterable[Shown | None]) -> Tensor:
        """What is read off the last of tokens ``(S, rows, Q, T, width)``, in each layer after others.

        They are the last positions of sequences of this length.
        """
        positions = torch.arange(length - tokens.shape[3], length, device=tokens.device)[None]
        tokens = self._named(tokens, positions)
        others = iter(before)
        for block in self._blocks:
            tokens = pass_messages(block.message_mlp, self.edge_proj, tokens, edges)
            for layer in block.layers:
                asking, own = layer.attn_layer.look(tokens, positions)
                examples, seen = next(others), own.alone()
                if examples is not None:
                    seen = examples.then(seen)
                tokens = layer.after(tokens, layer.attn_layer.hear(asking, seen, positions[0], length))
        answer: Tensor = self.post_proj(tokens[..., -1, :]).movedim(0, 2)
        c = self.config
        return answer[..., [c.trained_order.index(name) for name in c.channels]]

    @property
    def _blocks(self) -> Sequence[MessageBlock]:
        return cast("Sequence[MessageBlock]", self.gicon_blocks)

    def _window_tokens(self, windows: Tensor) -> Tensor:
        """Windows ``(rows, n, hours * S, c)`` at each station by itself, ``(S, rows, n, width)``."""
        by_station = self._as_trained(windows).unflatten(2, (self.config.hours, -1)).movedim(3, 0)
        tokens: Tensor = self.pre_proj_cond(by_station.flatten(-2))
        return tokens

    def _frame_tokens(self, frames: Tensor) -> Tensor:
        """Frames ``(rows, n, S, c)`` at each station by itself, ``(S, rows, n, width)``."""
        tokens: Tensor = self.pre_proj_qoi(self._as_trained(frames).movedim(2, 0))
        return tokens

    def _as_trained(self, values: Tensor) -> Tensor:
        c = self.config
        return values[..., [c.channels.index(name) for name in c.trained_order]]

    def _named(self, tokens: Tensor, positions: Tensor) -> Tensor:
        """Tokens ``(S, rows, P, T, width)`` that know their positions ``(P or 1, T)``, if any are told."""
        if not self.config.absolute_positions:
            return tokens
        named: Tensor = tokens + self.example_embeddings(positions // 2) + self.type_embeddings(positions % 2)
        return named

    def _at_once(self, tokens: int) -> int:
        """How many of something fit what is worked on at a time, if one has so many tokens."""
        return max(1, STATION_TOKENS.get(self.post_proj.weight.device.type, 2**17) // tokens)

    def _pieces(
        self, sequences: list[Path], query: Tensor, length: int
    ) -> Iterator[tuple[list[Path], Tensor]]:
        """Queries ``(rows, Q, hours * S, c)`` with their sequences, as many as fit."""
        each = self._at_once(len(query) * query.shape[2] // self.config.hours * length)
        for first, some in zip(range(0, len(sequences), each), query.split(each, dim=1), strict=True):
            yield sequences[first : first + each], some


def _length(examples: int) -> int:
    """Positions of a sequence of so many examples and a query."""
    return 2 * examples + 1
