"""What can go wrong in an evolution, in a sentence for a person."""

from __future__ import annotations

from chop.errors import ChopError


class EvolutionError(ChopError):
    """A task, a journal, an executor or a language model that cannot be used as it is."""


__all__ = ["EvolutionError"]
