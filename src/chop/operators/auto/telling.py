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
    lines = [""]
    lines.append("  seen: " + ("; ".join(possible.seen) or "nothing that examples would claim"))
    lines.append("  tried, best first (error at the examples beside the bare model's; weight):")
    order = sorted(range(len(candidates)), key=lambda k: -float(gains[:, k].mean()))
    for k in order:
        lines.append(f"    {_ratio(gains[:, k], deviations[:, k])}  {_share(weights[:, k])}  {candidates[k]}")
    kept = [k for k in order if bool((weights[:, k] > 0).any())]
    if kept == [0]:
        lines.append("  kept: the bare model; nothing is clearly better")
    else:
        bare = _share(weights[:, 0]).strip()
        lines.append(f"  kept: {len(kept)} of {len(candidates)}; the bare model with {bare}")
    if projections:
        lines.append(f"  then: {', '.join(p.name for p in projections)}, which all examples obey")
    return "\n".join(lines)


def _ratio(gain: Tensor, deviation: Tensor) -> str:
    """The ratio of errors in the mean over channels, with its uncertainty."""
    if float(gain.mean()) < -300:
        return "  no answer  "
    ratio = math.exp(-float(gain.mean()) / 2)
    spread = ratio * float(deviation.mean()) / 2
    return f"{ratio:6.3g} ± {spread:<4.2g}"


def _share(weight: Tensor) -> str:
    """One weight, or the range over channels."""
    low, high = 100 * float(weight.min()), 100 * float(weight.max())
    return f"{low:3.0f} %    " if high - low < 0.5 else f"{low:2.0f}-{high:2.0f} %"
