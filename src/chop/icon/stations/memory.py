"""Windows a network has encoded, remembered by their content.

The same hours come back: as a query at several leads, as an example of many queries, as what a held-out
prompt asks. A window's tokens depend on the window, the stations and the weights alone, so they are kept
for the next time, the most recent ones up to a limit. Every window is encoded by itself: what it becomes
must not depend on which others were new, or answers would depend on history in their last digits.
"""

from __future__ import annotations

import weakref
from collections import OrderedDict

import torch
from torch import Tensor

from chop.icon.stations.network import StationIcon
from chop.runs.fingerprint import feed_tensor, quick_digest

LIMIT = 128 * 2**20
"""Bytes of tokens kept for one network."""


class Windows:
    """The remembered windows of one network on one set of stations."""

    def __init__(self) -> None:
        self._known: OrderedDict[bytes, Tensor] = OrderedDict()
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._known)

    def tokens(self, network: StationIcon, x: Tensor, seen: Tensor, kernels: Tensor) -> Tensor:
        """Tokens ``(N, S, w)`` of windows ``(N, hours, S, c)``; only new ones are encoded."""
        found = []
        for values, mask in zip(x, seen, strict=True):
            key = digest(values, mask)
            tokens = self._known.pop(key, None)
            if tokens is None:
                tokens = network.encode_windows(values[None], mask[None], kernels)[0]
                self._bytes += tokens.nbytes
            self._known[key] = tokens
            found.append(tokens)
        while self._bytes > LIMIT and self._known:
            self._bytes -= self._known.popitem(last=False)[1].nbytes
        return torch.stack(found)


def digest(*tensors: Tensor) -> bytes:
    """A name for the content of tensors."""
    known = quick_digest()
    for tensor in tensors:
        feed_tensor(known, tensor)
    return known.digest()


_remembered: weakref.WeakKeyDictionary[StationIcon, tuple[object, Windows]] = weakref.WeakKeyDictionary()


def windows_of(network: StationIcon, places: Tensor, neighbours: Tensor) -> Windows:
    """What is remembered; forgotten when the stations or the weights are others than the last time."""
    weights = tuple((t.data_ptr(), 0 if t.is_inference() else t._version) for t in network.parameters())
    state = (digest(places, neighbours), weights)
    known = _remembered.get(network)
    if known is None or known[0] != state:
        known = (state, Windows())
        _remembered[network] = known
    return known[1]


__all__ = ["LIMIT", "Windows", "digest", "windows_of"]
