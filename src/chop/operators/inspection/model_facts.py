"""Which symmetries a model's held-out answers respect, and where it is at home: scale, frame, sign."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from chop.operators.inspection.answered import (
    AS_IT_IS,
    FRAME,
    HOMES,
    MIRROR,
    ORDER,
    PROGRAMS,
    SHIFT,
    SIGN,
    TARGETS,
    Answered,
    scale_name,
)
from chop.operators.inspection.observed import TOLERANCE, Evidence, Measurement, Trait, ratio
from chop.operators.statistics import first_smallest, mfc_rule

_SMALL = 0.1
"""Of a held-out error: a difference that hardly matters beside it, a hundredth in squares."""
HOME = "home"
ERROR = "held-out error"
SCALE = "scale seen"
_WHERE = {FRAME: "in the moving frame", SIGN: "with the other sign", MIRROR: "mirrored"}
_TWO = "two examples"
_LINE = "two examples, and all functions on one regular grid of one periodic coordinate"
_PERIOD = "two examples, and one coordinate with a period"


def _finite(data: Answered) -> Evidence:
    errors = data.errors(AS_IT_IS)
    lost = torch.isinf(errors).double()
    return Evidence(lost, torch.ones_like(lost, dtype=torch.bool), lost.mean(dim=-1))


def _respect(data: Answered, view: str) -> Evidence:
    """The difference that a symmetry makes beside the held-out error."""
    off, errors = data.differences(view), data.errors(AS_IT_IS)
    known = torch.isfinite(off) & torch.isfinite(errors)
    share = ratio(data.pooled(torch.where(known, off, 0)), data.pooled(torch.where(known, errors, 0)))
    return Evidence(off / torch.maximum(errors, data.floor), known & _observed(data), share)


def _better(data: Answered, view: str) -> Evidence:
    """The error in a view beside that as it is. Where both are the same an example tells nothing."""
    errors = [torch.maximum(data.errors(name), data.floor) for name in (view, AS_IT_IS)]
    there, here = errors
    both = torch.isfinite(there) & torch.isfinite(here)
    apart = (there - here).abs() > TOLERANCE * torch.maximum(there, here)
    telling = torch.where(both, apart, torch.isfinite(there) | torch.isfinite(here))
    return Evidence(there / here, telling & _observed(data), _beside(data, view))


def _observed(data: Answered) -> Tensor:
    return data.seen.flatten(-2).any(dim=-1)


def _beside(data: Answered, view: str) -> Tensor:
    """The error over all examples in a view, of that as it is; NaN where neither is finite."""
    there, here = (data.pooled(torch.maximum(data.errors(name), data.floor)) for name in (view, AS_IT_IS))
    return there / here


def _homes(data: Answered) -> Tensor:
    """Errors ``(..., places)`` as it is and in each view; infinite where one does not apply."""
    lost = torch.full_like(data.numbers, torch.inf)
    return torch.stack([data.error(n) if n in data.answers else lost for n in (AS_IT_IS, *HOMES)], dim=-1)


def _best(data: Answered) -> Tensor:
    """The place with the least error, the question as it is on ties."""
    errors = _homes(data)
    finite = torch.where(torch.isfinite(errors), errors, 0).amax(dim=-1)
    return first_smallest(errors, finite)


def _gain(data: Answered) -> Tensor:
    errors = _homes(data)
    least, here = errors.gather(-1, _best(data).unsqueeze(-1)).squeeze(-1), errors[..., 0]
    return torch.where(here > 0, least / here, 1)


def _symmetry(name: str, what: str, needs: str) -> Trait[Answered]:
    return Trait(
        f"{name} respected",
        f"held-out answers are the same {what}",
        "difference, of the held-out error",
        needs,
        lambda data: data.applies(name),
        partial(_respect, view=name),
        limit=_SMALL,
    )


def place_name(name: str) -> str:
    """The claim that a model errs less in a view."""
    return f"better {_WHERE.get(name, f'at {name}')}"


def _place(name: str, needs: str) -> Trait[Answered]:
    return Trait(
        place_name(name),
        "each held-out answer is nearer there",
        "held-out error there, of that as it is",
        needs,
        lambda data: data.applies(name),
        partial(_better, view=name),
        limit=1.0,
    )


MODEL: tuple[Trait[Answered] | Measurement[Answered], ...] = (
    Measurement(
        ERROR,
        "of the model at the examples, of the outputs' size",
        _TWO,
        lambda data: data.applies(AS_IT_IS),
        lambda data: data.error(AS_IT_IS),
    ),
    Trait(
        "finite answers",
        "each held-out answer is finite",
        "share of held-out answers that are not",
        _TWO,
        lambda data: data.applies(AS_IT_IS),
        _finite,
        least=1,
    ),
    _symmetry(SHIFT, "when the question is shifted around the circle", _PERIOD),
    _symmetry(MIRROR, "when the question is mirrored", _PERIOD),
    _symmetry(SIGN, "when the question's sign is changed", _TWO),
    _symmetry(ORDER, "whatever the order of the examples", _TWO),
    Measurement(
        SCALE,
        "spread of all that the model is shown, as rescale takes it",
        _TWO,
        lambda data: data.applies(AS_IT_IS),
        lambda data: mfc_rule(data.prompt)[1].double(),
    ),
    *(_place(scale_name(target), _TWO) for target in TARGETS),
    _place(FRAME, _LINE),
    _place(SIGN, _TWO),
    _place(MIRROR, _PERIOD),
    Measurement(
        HOME,
        "held-out error where it is least, of that as it is",
        _TWO,
        lambda data: data.applies(AS_IT_IS),
        _gain,
        choices=tuple(str(PROGRAMS[name]) for name in (AS_IT_IS, *HOMES)),
        chosen=_best,
    ),
    Measurement(
        "model evaluations",
        "for all of this, each prompt",
        _TWO,
        lambda data: data.applies(AS_IT_IS),
        lambda data: torch.full_like(data.numbers, data.evaluations),
    ),
)
