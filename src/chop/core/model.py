"""Frozen models: any callable that answers a prompt, adapters, and one place that calls it.

``model(prompt)`` returns the answer at ``prompt.at``, a Tensor ``(..., m, c)``. A model may also
offer ``predict_many(prompts)``: all prompts of a round at once, unstacked, so that it can encode
example pairs that prompts share (see `Origin`) only once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
import torch
import torch.utils.dlpack
from torch import Tensor, nn

from chop.core.errors import ChopError, ModelError
from chop.core.prompt import Origin, Prompt
from chop.core.stacking import concatenated, stackable_facts
from chop.core.user_code import describe_error

MAX_BYTES = 64 * 2**20
"""Prompt data handed to a model in one call, at most. Activations are a multiple of it."""

CACHE_BYTES = 2**20
"""On a CPU, prompt data up to which stacking prompts pays: beyond, activations leave the cache.

The prompt a caller brings is never cut for that, only what programs stack."""


class FrozenModel(Protocol):
    """What a program needs of a model."""

    def __call__(self, prompt: Prompt, /) -> Tensor:
        """The answer at ``prompt.at``: ``(..., m, c)``."""
        ...


@runtime_checkable
class SharesExamples(Protocol):
    """A model that answers many prompts together better than one by one."""

    def predict_many(self, prompts: Sequence[Prompt], /) -> Sequence[Tensor]:
        """One answer a prompt, each as the plain call would give it, to rounding."""
        ...


class Arrays(NamedTuple):
    """A prompt as seven plain arrays with one batch axis B, for models that know no prompts."""

    input_coords: Any
    """(B, D, n, k)"""
    input_values: Any
    """(B, D, n, c)"""
    output_coords: Any
    """(B, D, m, k)"""
    output_values: Any
    """(B, D, m, c)"""
    query_coords: Any
    """(B, n, k)"""
    query_values: Any
    """(B, n, c)"""
    at: Any
    """(B, m, k)"""


def arrays(prompt: Prompt) -> Arrays:
    """The prompt's tensors, flattened to one batch axis."""
    flat = prompt.flat()
    return Arrays(
        flat.inputs.coords,
        flat.inputs.values,
        flat.outputs.coords,
        flat.outputs.values,
        flat.query.coords,
        flat.query.values,
        flat.at,
    )


def from_torch(module: nn.Module) -> FrozenModel:
    """A torch module called with `Arrays` in its own dtype and device; returns ``(B, m, c)``.

    It answers in evaluation mode, and keeps the mode it is in.
    """
    return _TorchModel(module)


def from_numpy(function: Callable[..., Any]) -> FrozenModel:
    """A function of numpy `Arrays`, which it cannot write into, that returns ``(B, m, c)``."""
    return _NumpyModel(function)


def from_jax(function: Callable[..., Any]) -> FrozenModel:
    """A function of JAX `Arrays` that returns ``(B, m, c)``; arrays cross over by DLPack, uncopied.

    JAX computes in float32 unless its ``jax_enable_x64`` is set; the answer comes back in the
    prompt's dtype.
    """
    try:
        import jax  # noqa: F401
    except ModuleNotFoundError:
        raise ModelError("a JAX function needs JAX: pip install 'chain-of-operators[jax]'") from None
    return _JaxModel(function)


@dataclass(frozen=True)
class _TorchModel:
    module: nn.Module

    def __call__(self, prompt: Prompt, /) -> Tensor:
        own = next(self.module.parameters(), None)
        given = prompt if own is None else prompt.to(device=own.device, dtype=own.dtype)
        with _evaluating(self.module):
            return _unflattened(self.module(*map(_lent, arrays(given))), prompt)


@dataclass(frozen=True)
class _NumpyModel:
    function: Callable[..., Any]

    def __call__(self, prompt: Prompt, /) -> Tensor:
        try:
            answer = np.ascontiguousarray(self.function(*map(_read_only, arrays(prompt))))
        except ValueError as error:
            if "read-only" in str(error):
                sentence = "the function writes into its arguments, the prompt itself; let it copy them first"
                raise ModelError(sentence) from error
            raise
        # What came back may be one of the views that were lent.
        return _unflattened(torch.from_numpy(answer if answer.flags.writeable else answer.copy()), prompt)


@dataclass(frozen=True)
class _JaxModel:
    function: Callable[..., Any]

    def __call__(self, prompt: Prompt, /) -> Tensor:
        from jax.dlpack import from_dlpack

        answer = _compiled(self.function)(*(from_dlpack(part.contiguous()) for part in arrays(prompt)))
        # JAX may hand back what it was given, or keep what it hands back: nobody else writes into that.
        return _unflattened(torch.utils.dlpack.from_dlpack(answer).clone(), prompt)


@lru_cache(maxsize=32)
def _compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """One compiled function however often it is asked; kept here, because it does not pickle."""
    import jax

    compiled: Callable[..., Any] = jax.jit(function)
    return compiled


@contextmanager
def _evaluating(module: nn.Module) -> Iterator[None]:
    """Evaluation mode for a while; afterwards every part is in the mode it was in."""
    modes = [(part, part.training) for part in module.modules()]
    module.eval()
    try:
        yield
    finally:
        for part, training in modes:
            part.training = training


def _lent(part: Tensor) -> Tensor:
    """A copy, since torch knows no read-only tensors and a module may work in place.

    Views that repeat themselves need none: torch refuses to write into those.
    """
    repeats = any(stride == 0 and size > 1 for stride, size in zip(part.stride(), part.shape, strict=True))
    return part if repeats else part.clone()


def _read_only(part: Tensor) -> Any:
    """A tensor as a contiguous array that cannot be written into, without a copy where that is possible."""
    view = np.ascontiguousarray(part.cpu().numpy()).view()
    view.flags.writeable = False
    return view


def _need_frozen(module: nn.Module) -> None:
    if module.training:
        raise ModelError("the model is in training mode; call model.eval() first")


def _unflattened(answer: object, prompt: Prompt) -> Tensor:
    """An adapted function's answer ``(B, m, c)`` as the prompt asks for it.

    Checked before it is reshaped: ``(B, c, m)`` has as many numbers.
    """
    wanted = (prompt.batch.numel(), *prompt.answer_shape[-2:])
    if not isinstance(answer, Tensor):
        raise ModelError(f"the function must return an array, not {type(answer).__name__}")
    if answer.shape != wanted or not answer.is_floating_point():
        raise ModelError(
            f"the function returned shape {tuple(answer.shape)}, {answer.dtype}, "
            f"but (B, m, c) is {wanted} here, floating point"
        )
    return answer.to(device=prompt.device, dtype=prompt.dtype).reshape(prompt.answer_shape)


class Caller:
    """Answers the rounds of one run: stacks, splits by memory, checks shapes, counts.

    ``evaluations`` is the paper's Q: logical model evaluations for each query of the root prompt.
    """

    def __init__(self, model: FrozenModel, root: Prompt, max_bytes: int = MAX_BYTES) -> None:
        if not callable(model):
            raise ModelError(f"a model must be callable with a prompt; {type(model).__name__} is not")
        if isinstance(model, nn.Module):
            _need_frozen(model)
        self._model = model
        self._root = root
        self._queries = root.batch.numel()
        self._max_bytes = max_bytes
        self._asked = 0
        self.invocations = 0

    @property
    def evaluations(self) -> int:
        """For each query, or in the mean where queries are asked differently, rounded up."""
        return -(-self._asked // max(1, self._queries))

    def __call__(self, prompts: list[Prompt]) -> list[Tensor]:
        """One round: an answer for each prompt, in order."""
        self._asked += sum(prompt.batch.numel() for prompt in prompts)
        if isinstance(self._model, SharesExamples):
            return self._together(self._model, prompts)
        answers: dict[int, Tensor] = {}
        groups: dict[object, list[int]] = {}
        for i, prompt in enumerate(prompts):
            groups.setdefault((stackable_facts(prompt), id(prompt.graph)), []).append(i)
        for group in groups.values():
            for i, values in zip(group, self._stacked([prompts[i] for i in group]), strict=True):
                answers[i] = values
        return [answers[i] for i in range(len(prompts))]

    def _together(self, model: SharesExamples, prompts: list[Prompt]) -> list[Tensor]:
        """Through ``predict_many``, in slices of the batch so that shared examples stay together."""
        if sum(_row_bytes(p) * p.batch.numel() for p in prompts) <= self._max_bytes:
            return self._checked_many(model, prompts)
        # A program that decides query by query also asks about some of the queries alone: one leading axis.
        axes = len(self._root.batch)
        leads = [p.batch[:axes] if p.batch[:axes] == self._root.batch else p.batch[:1] for p in prompts]
        answers: dict[int, Tensor] = {}
        for lead in dict.fromkeys(leads):
            family = [i for i, other in enumerate(leads) if other == lead]
            found = self._sliced(model, [prompts[i] for i in family], lead)
            answers.update(zip(family, found, strict=True))
        return [answers[i] for i in range(len(prompts))]

    def _sliced(self, model: SharesExamples, prompts: list[Prompt], lead: torch.Size) -> list[Tensor]:
        """Prompts whose batch begins with these axes, as many of their rows at a time as memory allows."""
        queries = lead.numel()
        cost = sum(_row_bytes(p) * p.batch.numel() for p in prompts) // max(1, queries)
        rows = max(1, self._max_bytes // max(1, cost))
        if rows >= queries:
            return self._checked_many(model, prompts)
        parts = []
        for low in range(0, queries, rows):
            cut = _Slicer(len(lead), low, low + rows)
            parts.append(self._checked_many(model, [cut(prompt) for prompt in prompts]))
        return [
            torch.cat(pieces).reshape(prompt.answer_shape)
            for prompt, pieces in zip(prompts, zip(*parts, strict=True), strict=True)
        ]

    def _checked_many(self, model: SharesExamples, prompts: list[Prompt]) -> list[Tensor]:
        self.invocations += 1
        answers = _guarded(model.predict_many, prompts, prompts[0])
        if not isinstance(answers, Sequence) or len(answers) != len(prompts):
            raise ModelError(f"predict_many must return {len(prompts)} answers, one for each prompt")
        return [_checked(answer, prompt) for answer, prompt in zip(answers, prompts, strict=True)]

    def _stacked(self, prompts: list[Prompt]) -> list[Tensor]:
        """Prompts of one shape stacked, in chunks of a fixed size."""
        each = _row_bytes(prompts[0])
        allowed = max(1, self._max_bytes // each)
        total = sum(prompt.batch.numel() for prompt in prompts)
        if len(prompts) == 1 and total <= min(allowed, self._queries):
            return [self._one(prompts[0])]  # untouched: the bare model's own answer, bit for bit
        rows = min(allowed, max(1, CACHE_BYTES // each)) if prompts[0].device.type == "cpu" else allowed
        if total <= rows:
            values = self._one(concatenated(prompts))
        else:
            flat = [prompt.flat() for prompt in prompts]
            values = torch.cat([self._one(chunk) for chunk in _chunks(flat, rows)])
        pieces = values.split([prompt.batch.numel() for prompt in prompts])
        return [piece.reshape(p.answer_shape) for piece, p in zip(pieces, prompts, strict=True)]

    def _one(self, prompt: Prompt) -> Tensor:
        self.invocations += 1
        return _checked(_guarded(self._model, prompt, prompt), prompt)


class _Slicer:
    """Rows low..high of the first axes of a prompt's batch, and of the prompts it came from."""

    def __init__(self, root_axes: int, low: int, high: int) -> None:
        self._axes, self._rows = root_axes, slice(low, high)
        self._done: dict[Prompt, Prompt] = {}

    def __call__(self, prompt: Prompt) -> Prompt:
        if prompt not in self._done:
            cut = prompt._each(self._slice)
            if prompt.origin is not None:
                origin = Origin(self(prompt.origin.parent), self._slice(prompt.origin.kept))
                cut = cut.mapped(inputs=cut.inputs, outputs=cut.outputs, origin=origin)
            self._done[prompt] = cut
        return self._done[prompt]

    def _slice(self, tensor: Tensor) -> Tensor:
        return tensor.reshape(-1, *tensor.shape[self._axes :])[self._rows]


def _chunks(flat: list[Prompt], rows: int) -> Any:
    """Flat prompts end to end, cut into stacks of ``rows``; the copy is never larger than a chunk."""
    waiting: list[Prompt] = []
    room = rows
    for prompt in flat:
        low, size = 0, prompt.batch.numel()
        while low < size:
            high = min(size, low + room)
            waiting.append(prompt[low:high])
            room -= high - low
            low = high
            if room == 0:
                yield concatenated(waiting)
                waiting, room = [], rows
    if waiting:
        yield concatenated(waiting)


def _row_bytes(prompt: Prompt) -> int:
    """Memory of one prompt of the batch, coordinates written out."""
    parts = (prompt.inputs, prompt.outputs, prompt.query)
    skip = len(prompt.batch)
    numbers = sum(p.values.shape[skip:].numel() + p.coords.shape[skip:].numel() for p in parts)
    return (numbers + prompt.at.shape[skip:].numel()) * prompt.query.values.element_size()


def _guarded(function: Callable[[Any], Any], argument: Any, prompt: Prompt) -> Any:
    """The model's own failure, said as a sentence that names the prompt it failed on."""
    try:
        return function(argument)
    except ChopError:
        raise
    except Exception as error:
        raise ModelError(
            f"the model failed on prompts of batch {tuple(prompt.batch)} with {prompt.examples} examples "
            f"{describe_error(error)}"
        ) from error


def _checked(answer: object, prompt: Prompt) -> Tensor:
    """Shape, dtype and device as promised. Non-finite values pass: they are the program's to handle."""
    if not isinstance(answer, Tensor):
        raise ModelError(f"the model must return a Tensor, not {type(answer).__name__}")
    if answer.shape != prompt.answer_shape:
        raise ModelError(
            f"the model returned shape {tuple(answer.shape)}, but the prompt asks for "
            f"{tuple(prompt.answer_shape)}: its batch, {prompt.at.shape[-2]} points and "
            f"{prompt.outputs.channels} channels"
        )
    if not answer.is_floating_point() or answer.device != prompt.device:
        raise ModelError(
            f"the model returned {answer.dtype} on {answer.device}, "
            f"the prompt is {prompt.dtype} on {prompt.device}"
        )
    return answer.to(prompt.dtype)
