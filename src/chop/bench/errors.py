"""What can go wrong with a benchmark, said in one sentence."""

from __future__ import annotations

from chop.errors import ChopError


class BenchError(ChopError):
    """A benchmark that cannot start, continue or be written down as asked."""


__all__ = ["BenchError"]
