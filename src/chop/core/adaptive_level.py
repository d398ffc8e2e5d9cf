"""A level that learns, for streams whose errors drift: adaptive conformal inference.

After Gibbs and Candès, Adaptive conformal inference under distribution shift, 2021. Whatever the data, the
share of answers that were covered in the first n differs from the target by at most
(max(first, 1 - first) + rate) / (rate n), where ``first`` is the level to begin with.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from numbers import Real

from chop.core.errors import ProgramError
from chop.core.levels import check_level


@dataclass(frozen=True)
class AdaptiveLevel:
    """The level to ask bands for next, so that in the long run ``level`` of the answers are covered."""

    level: float = 0.9
    rate: float = 0.02
    """How far one miss moves it."""
    current: float | None = None
    """Where it stands; 1 or more means a band that holds everything, 0 or less one that holds nothing."""

    def __post_init__(self) -> None:
        check_level(self.level)
        rate: object = self.rate
        if isinstance(rate, bool) or not isinstance(rate, Real) or not 0 < float(rate) <= 1:
            raise ProgramError(f"the rate of an adaptive level lies between 0 and 1, not {rate!r}")
        if self.current is None:
            object.__setattr__(self, "current", float(self.level))

    @property
    def now(self) -> float:
        """Where it stands."""
        assert self.current is not None
        return self.current

    def after(self, covered: bool | float) -> AdaptiveLevel:
        """The level once it is known whether, or which share of, the last answer was covered."""
        share = float(covered)
        if not 0 <= share <= 1:
            raise ProgramError(f"covered is yes, no or a share between 0 and 1, not {covered!r}")
        return replace(self, current=self.now + self.rate * (self.level - share))
