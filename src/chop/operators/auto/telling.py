"""What `auto` has to say of one question: what it saw, tried, kept and why."""

from __future__ import annotations

import math
from collections.abc import Sequence

from torch import Tensor

from chop.core.program import Program, Projection
from chop.operators.auto.looking import Possible


def told(
    possible: Possible,
    candidates: Sequence[Program],
    weights: Tensor,
    gains: Tensor,
    deviations: Tensor,
    projections: Sequence[Projection],
) -> str:
    """A few lines; all tensors are ``(c, K)`` of one question."""
    order = sorted(range(len(candidates)), key=lambda k: -float(gains[:, k].mean()))
    kept = [k for k in order if bool((weights[:, k] > 0).any())]
    if kept == [0]:
        lines = [f"nothing clearly better than the bare model among {len(candidates)} candidates"]
    else:
        lines = [f"{len(kept)} of {len(candidates)} candidates to keep"]
    lines.append("  seen: " + ("; ".join(possible.seen) or "nothing that examples would claim"))
    lines.append("  tried, best first: error at the examples beside the bare model's, weight")
    for k in order:
        lines.append(f"  {_ratio(gains[:, k], deviations[:, k])} {_share(weights[:, k])}  {candidates[k]}")
    if projections:
        lines.append(f"  then {', '.join(p.name for p in projections)}: all examples obey that")
    return "\n".join(lines)


def _ratio(gain: Tensor, deviation: Tensor) -> str:
    """The ratio of errors in the mean over channels, with its uncertainty."""
    if float(gain.mean()) < -300:
        return f"{'no answer':>19}"
    ratio = math.exp(-float(gain.mean()) / 2)
    spread = ratio * float(deviation.mean()) / 2
    return f"{ratio:>9.3g} ± {spread:<7.2g}"


def _share(weight: Tensor) -> str:
    """One weight, or the range over channels."""
    low, high = 100 * float(weight.min()), 100 * float(weight.max())
    return f"{high:>6.0f} %" if high - low < 0.5 else f"{f'{low:.0f}-{high:.0f}':>6} %"
