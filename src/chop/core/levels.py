"""Levels of bands: probabilities between none and certainty."""

from __future__ import annotations

from numbers import Real

from chop.core.errors import ProgramError


def check_level(level: object) -> float:
    """A level between 0 and 1, or an error that says so."""
    if isinstance(level, bool) or not isinstance(level, Real) or not 0 < float(level) < 1:
        raise ProgramError(f"the level of a band lies between 0 and 1, as 0.9; not {level!r}")
    return float(level)
