"""Tensors and what is made of them in a few words: for traces, and for what an interpreter shows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from chop.core.fields import Field
    from chop.core.forecast import Rollout
    from chop.core.prompt import Prompt
    from chop.core.running import Result
    from chop.core.trace import Trace

Facts = dict[str, str]

MAX_TEXT = 200
"""Longest program text in a representation."""


def number_text(tensor: Tensor) -> str:
    """A few numbers as they are, many as a range."""
    flat = tensor.reshape(-1)
    if flat.dtype == torch.bool:
        words = ["yes" if bool(v) else "no" for v in flat]
        if len(set(words)) == 1:
            return words[0]
        return " ".join(words[:16])
    if flat.numel() == 1:
        return f"{flat.item():.4g}"
    if flat.numel() <= 16 or (tensor.ndim > 1 and flat.numel() <= 64):
        rows = tensor.reshape(-1, tensor.shape[-1]).tolist()
        return " ".join("[" + " ".join(f"{v:.4g}" for v in row) + "]" for row in rows)
    return f"{flat.min().item():.3g} .. {flat.max().item():.3g}"


def span(values: Tensor, what: str = "") -> str:
    """Where values lie, or how many of them are no numbers."""
    if not values.numel():
        return "no values"
    bad = int((~torch.isfinite(values)).sum())
    if bad:
        return f"{bad} of {values.numel()} values are not finite"
    return f"{what}{values.min().item():.4g} .. {values.max().item():.4g}"


def count(n: int, noun: str) -> str:
    """``1 round``, ``2 rounds``."""
    return f"{n} {noun}{'s' * (n != 1)}"


def size(count: int) -> str:
    """Bytes as a person reads them: ``1.4 MB``."""
    amount, unit = float(count), "bytes"
    for larger in ("kB", "MB", "GB", "TB"):
        if amount < 1000:
            break
        amount, unit = amount / 1000, larger
    return f"{count} bytes" if unit == "bytes" else f"{amount:.3g} {unit}"


def duration(seconds: float) -> str:
    """Seconds as a person reads them: ``0.4 s``, ``3 min 20 s``, ``2 h 5 min``."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    return f"{minutes // 60} h {minutes % 60} min"


def sizes_text(prompt: Prompt) -> str:
    """From what to what: examples, points and channels."""
    inputs, outputs = prompt.inputs, prompt.outputs
    return (
        f"{count(prompt.examples, 'example')}, {inputs.points} points x {inputs.channels} ch -> "
        f"{prompt.at.shape[-2]} points x {outputs.channels} ch"
    )


def axes_text(prompt: Prompt) -> str:
    """What the coordinates are: names, periods, and what was taken for granted."""
    names = ", ".join(map(str, prompt.axes or ()))
    return f"{names}, assumed: {prompt.assumed}" if prompt.assumed else names


def short_text(program: object) -> str:
    """A program's text, its middle left out where it is long."""
    text = str(program)
    half = (MAX_TEXT - 5) // 2
    return text if len(text) <= MAX_TEXT else f"{text[:half]} ... {text[-half:]}"


# Facts are short words under short names. An interpreter shows them in one line, a notebook as a list.


def representation(kind: str, facts: Facts) -> str:
    """Facts in one line, as a representation."""
    return f"<{kind}: {'; '.join(f'{name} {said}' for name, said in facts.items())}>"


def field_facts(field: Field) -> Facts:
    """What a field is, without its numbers."""
    facts = {"values": array(field.values), "coordinates": str(field.coords.shape[-1])}
    return facts if field.mask is None else {**facts, "observed": f"{float(field.mask.float().mean()):.0%}"}


def prompt_facts(prompt: Prompt) -> Facts:
    """What a prompt asks."""
    parts = {name: getattr(prompt, name).values for name in ("inputs", "outputs", "query")}
    return {
        "shows": sizes_text(prompt),
        **({"batch": str(tuple(prompt.batch))} if prompt.batch else {}),
        "axes": axes_text(prompt),
        "dtype": _kind(prompt.query.values),
        **{name: span(values) for name, values in parts.items()},
    }


def outcome_facts(values: Tensor, held_out: Tensor | None, notes: Mapping[str, object]) -> Facts:
    """What was answered, and of what there is more to know."""
    facts = {"values": array(values)}
    if held_out is not None:
        facts["held out"] = array(held_out)
    return {**facts, "notes": ", ".join(notes)} if notes else facts


def cost_facts(run: Result | Trace) -> Facts:
    """What a run missed, refused and cost."""
    facts = {}
    if run.error is not None:
        facts["in-context error"] = _error(run.error)
    if run.rejected is not None:
        facts["rejected"] = f"{int(run.rejected.sum())} of {run.rejected.numel()}"
    return {**facts, "cost": cost(run.calls, run.rounds)}


def rollout_facts(rollout: Rollout) -> Facts:
    """How far a forecast went."""
    gone = rollout.rejected
    return {
        "steps": str(rollout.values.shape[-3]),
        "values": array(rollout.values),
        "rejected": f"{int(gone.sum())} of {gone.numel()}",
        "cost": f"{count(rollout.calls, 'model evaluation')} a query",
    }


def cost(calls: int, rounds: int) -> str:
    """Model evaluations and the rounds they went out in."""
    return f"{count(calls, 'model evaluation')} a query in {count(rounds, 'round')}"


def array(values: Tensor) -> str:
    """Shape, dtype and where the values lie."""
    return f"{tuple(values.shape)} {_kind(values)}, {span(values)}"


def _kind(values: Tensor) -> str:
    """The dtype, and the device where it is not the usual one."""
    dtype = str(values.dtype).removeprefix("torch.")
    return dtype if values.device.type == "cpu" else f"{dtype} on {values.device}"


def _error(error: Tensor) -> str:
    if error.numel() == 1:
        return f"{error.item():.4g}"
    return f"{span(error)}, mean {error.mean().item():.4g}"
