"""What to try next, from what was seen so far: the route that does best at the examples grows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol

from chop.core.program import Program
from chop.operators.auto.looking import Possible
from chop.operators.auto.routes import BARE, CORRECTED, FRAME, VIEW_LEVELS, Route

_FAR_WORSE = 0.5
"""Loss, in logarithms of squared errors, after which no further scale is tried."""


@dataclass(frozen=True)
class RouteProposal:
    """A route to be asked from some more sides; ``inner`` are the programs of one model inside."""

    route: Route
    level: int
    inner: tuple[Program, ...]

    @property
    def views(self) -> tuple[Route, ...]:
        """The sides that are new."""
        return VIEW_LEVELS[self.level]


class Proposing(Protocol):
    """Who says what is tried next for one question, and is told how well it did."""

    logs: dict[tuple[Route, Program], float]

    def propose(self) -> RouteProposal | None: ...


@dataclass
class Exploration:
    """What was tried for one question: levels of views by route, and mean logarithms of squared errors."""

    possible: Possible
    left: int
    """Model evaluations."""
    price: int
    """Of one side of one route: the answer, D held-out ones, and the steps of a forecast."""
    steps: int
    """Of that forecast, none if there is none."""
    correcting: bool
    """Whether corrections are to be used at all."""
    levels: dict[Route, int] = field(default_factory=dict)
    logs: dict[tuple[Route, Program], float] = field(default_factory=dict)

    def merit(self, route: Route) -> float:
        """The larger the better: that of the best program inside."""
        return max(-log for (where, _), log in self.logs.items() if where == route)

    def propose(self) -> RouteProposal | None:
        """The next thing worth its price; None when there is nothing, or nothing that can be afforded."""
        for proposal in self._wishes():
            # A mean over sides is forecast by itself, beside the bare answer that it begins with.
            cost = len(proposal.views) * self.price + (self.steps if proposal.level == 1 else 0)
            if cost <= self.left:
                self.left -= cost
                self.levels[proposal.route] = proposal.level
                return proposal
        return None

    def _wishes(self) -> Iterator[RouteProposal]:
        if not self.levels:
            yield self._at((), 0, ())
            return
        if self.possible.frame and (FRAME,) not in self.levels:
            yield self._at((FRAME,), 0, ())
            return
        start = max((r for r in self.levels if not _scaled(r)), key=self.merit)
        scales = self._scales(start)
        best = max(self.levels, key=self.merit)
        level = self.levels[best]
        views = [self._at(best, level + 1, best)] if level < self.possible.views else []
        # One scale, one more side, and so on in turn: what is cheap and new comes before what is dear.
        first_scale = not any(map(_scaled, self.levels))
        yield from (*scales, *views) if first_scale or level > 0 else (*views, *scales)
        others = sorted((r for r in self.levels if r != best), key=self.merit, reverse=True)
        for route in others:
            if self.levels[route] < self.possible.views:
                yield self._at(route, self.levels[route] + 1, route)

    def _scales(self, start: Route) -> list[RouteProposal]:
        """The next scale on top of the best route without one, unless the last was far worse."""
        tried = [route for route in self.levels if _scaled(route)]
        if tried and self.merit(tried[-1]) < self.merit(start) - _FAR_WORSE:
            return []
        left = [scale for scale in self.possible.scales if all(scale not in route for route in tried)]
        return [self._at((*start, left[0]), 0, start)] if left else []

    def _at(self, route: Route, level: int, parent: Route) -> RouteProposal:
        """Corrections go inside where they helped before, and where a new frame makes errors alike."""
        known = self.logs.get((parent, BARE)), self.logs.get((parent, CORRECTED))
        helped = known[0] is None or (known[1] is not None and known[1] <= known[0])
        new = route in ((), (FRAME,))
        inner: tuple[Program, ...] = (BARE,)
        if self.correcting and (helped or new):
            inner = (BARE, CORRECTED)
        if level > 0:
            inner = inner[-1:]  # the sides refine what is best inside; the bare answer stays as it is
        return RouteProposal(route, level, inner)


def _scaled(route: Route) -> bool:
    """Whether a route ends in a change of scale."""
    return bool(route) and route[-1] != FRAME
