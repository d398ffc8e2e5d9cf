"""Messages between stations: along every edge one, made of both ends and of how they lie to each other.

The message of an edge is a two-layer perceptron of what stands at its start and at its end, and of a linear
map of its length and direction. The first layer is linear in these three, so stations go through it once
instead of once for each edge, and it and the map of an edge are one; the second is linear in the sum over
edges, so it comes after the sum. What is left for each edge is to add three vectors and to cut off what is
negative.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from chop.core.prompt import Prompt
from chop.icon.stations.prompts import first_places
from chop.numerics.earth import geodesic, plane_direction

NUMBERS = {"cpu": 2**18}
"""Of messages worked on at a time (elsewhere 2**26), at least those of one edge: they stay in the cache."""


@dataclass(frozen=True, eq=False)
class Edges:
    """Who is told by whom: starts and ends ``(E,)``, kilometres and degrees between them ``(E, 2)``."""

    start: Tensor
    end: Tensor
    course: Tensor


def station_edges(prompt: Prompt, like: Tensor) -> Edges:
    """The edges of a prompt's graph one way, as it has them, each once; without a graph all there can be.

    None joins stations at the same place. Device and dtype are those of ``like``.
    """
    places = first_places(prompt).double().cpu()
    size = len(places)
    if prompt.graph is None:
        start, end = torch.ones(size, size, dtype=torch.bool).nonzero(as_tuple=True)
    else:
        given = prompt.graph.edges.cpu()
        number = torch.unique(given[1] * size + given[0])  # in the order of their ends
        start, end = number % size, number // size
    apart = (places[start] != places[end]).any(dim=-1)
    start, end = start[apart], end[apart]
    ends = (*places[start].T.numpy(), *places[end].T.numpy())
    course = torch.from_numpy(np.stack([geodesic(*ends), plane_direction(*ends)], axis=-1))
    return Edges(start.to(like.device), end.to(like.device), course.to(like.device, like.dtype))


def pass_messages(perceptron: nn.Sequential, edge_map: nn.Linear, tokens: Tensor, edges: Edges) -> Tensor:
    """Tokens ``(S, ..., width)``, to each of which the messages that arrive at its station are added."""
    first, last = perceptron[0], perceptron[-1]
    assert isinstance(first, nn.Linear)
    assert isinstance(last, nn.Linear)
    width = tokens.shape[-1]
    of_start, of_end, of_edge = first.weight.split([width, width, first.in_features - 2 * width], dim=1)
    flat = tokens.flatten(1, -2)
    told, own = linear(flat, of_start), linear(flat, of_end, first.bias)
    along = linear(edges.course, of_edge @ edge_map.weight, of_edge @ edge_map.bias)[:, None]
    heard = torch.zeros_like(own)
    each = max(1, NUMBERS.get(own.device.type, 2**26) // own[0].numel())
    pieces = (part.split(each) for part in (edges.start, edges.end, along))
    for start, end, course in zip(*pieces, strict=True):
        both = told.index_select(0, start).add_(own.index_select(0, end)).add_(course)
        heard.index_add_(0, end, both.relu_())
    count = tokens.new_zeros(len(tokens), 1, 1).index_add_(
        0, edges.end, tokens.new_ones(len(edges.end), 1, 1)
    )
    arrived = linear(heard, last.weight) + count * last.bias
    return tokens + arrived.reshape(tokens.shape)
