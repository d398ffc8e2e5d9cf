"""What every operator and every model must keep, checked on prompts of several shapes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from chop.core.errors import ProgramError
from chop.core.model import FrozenModel, SharesExamples
from chop.core.parameters import Operator
from chop.core.program import Icon, Program, Projection, Transform, pipe
from chop.core.prompt import Prompt
from chop.core.running import Result
from chop.core.text import parse, registry
from chop.testing.data import make_prompt, scaled, toy_model, unit_free_model


class _OnPrompts:
    """Prompts to test on; a subclass lists others if these do not suit it."""

    def prompts(self, dtype: torch.dtype = torch.float64) -> list[Prompt]:
        """Batched prompts: a grid, scattered points, stations with a graph and gaps."""
        return [
            make_prompt(1, batch=(3,), dtype=dtype),
            make_prompt(2, batch=(2, 2), dimensions=2, channels=(2, 2), own_grids=True, dtype=dtype),
            make_prompt(3, batch=(3,), dimensions=3, channels=(3, 3), masked=True, points=6, dtype=dtype),
            make_prompt(4, batch=(2,), style="nonnegative", examples=2, dtype=dtype),
        ]


class OperatorConformance(_OnPrompts):
    """Subclass with ``operators``: instances to check, one for each setting that matters."""

    operators: ClassVar[Sequence[Operator]] = ()

    def model(self, prompt: Prompt, /) -> Tensor:
        """What stands for the frozen model."""
        return toy_model(prompt)

    def as_program(self, operator: Operator) -> Program:
        """The operator around the model, as small as it can be."""
        made: object = operator
        if isinstance(operator, Transform):
            made = pipe(operator, Icon())
        elif isinstance(operator, Projection):
            made = pipe(Icon(), operator)
        assert isinstance(made, Program)
        return made

    def _suitable(
        self, dtype: torch.dtype = torch.float64
    ) -> Iterator[tuple[Program, Operator, Prompt, Result]]:
        """Each operator with each prompt it accepts and its answer; one that accepts none fails the suite."""
        for operator in self.operators:
            program = self.as_program(operator)
            accepted = 0
            for prompt in self.prompts(dtype):
                try:
                    result = program.run(self.model, prompt)
                except ProgramError:
                    continue  # an operator may refuse a domain it is not for, with a clear error
                accepted += 1
                yield program, operator, prompt, result
            assert accepted, f"{operator} accepts none of the prompts"

    def test_has_operators(self) -> None:
        """An empty suite would pass silently."""
        assert self.operators

    def test_declared(self) -> None:
        """Name, summary, law and the meaning of every parameter are stated."""
        for operator in self.operators:
            assert operator.name.isidentifier()
            assert operator.summary()
            assert operator.law
            assert all(param.doc for param in operator.params().values())

    def test_text_round_trip(self) -> None:
        """``parse(str(p)) == p``, for registered operators."""
        for operator in self.operators:
            if operator.name in registry():
                program = self.as_program(operator)
                assert parse(str(program)) == program
                assert hash(parse(str(program))) == hash(program)

    def test_batch_equals_loop(self) -> None:
        """A program on a batch is the program on each element, to rounding."""
        for program, _, prompt, result in self._suitable():
            whole = result.values.reshape(-1, *prompt.answer_shape[-2:])
            flat = prompt.flat()
            for i in range(len(whole)):
                alone = program.run(self.model, flat[i]).values
                torch.testing.assert_close(alone, whole[i], rtol=1e-9, atol=1e-9, equal_nan=True)

    def test_dtype_and_device_kept(self) -> None:
        """float32 in, float32 out, on the same device."""
        for dtype in (torch.float32, torch.float64):
            for program, _, prompt, _ in self._suitable(dtype):
                result = program.run(self.model, prompt, validate=True)
                assert result.values.dtype == dtype
                assert result.values.device == prompt.device
                assert result.error is not None
                assert result.error.dtype == dtype

    def test_deterministic(self) -> None:
        """The same question twice gives the same bits."""
        for program, _, prompt, result in self._suitable():
            again = program.run(self.model, prompt).values
            assert torch.equal(result.values.nan_to_num(), again.nan_to_num())

    def test_prompt_unchanged(self) -> None:
        """A program never writes into its prompt."""
        for program, _, prompt, _ in self._suitable():
            before = [tensor.clone() for tensor in prompt.tensors()]
            program.run(self.model, prompt, validate=True)
            assert all(torch.equal(old, new) for old, new in zip(before, prompt.tensors(), strict=True))

    def test_calls_known_beforehand(self) -> None:
        """Q counted without running is Q counted while running, or its bound where that is all it claims."""
        for program, operator, prompt, result in self._suitable():
            counted = program.calls(prompt.examples)
            bound = isinstance(operator, Program) and operator.calls_at_most
            assert result.calls <= counted if bound else result.calls == counted

    def test_inverse(self) -> None:
        """Transforms: mapped outputs come back as they were, at the examples and at the query."""
        for _, operator, prompt, _ in self._suitable():
            if not isinstance(operator, Transform) or not operator.carries_held_out:
                continue
            frame = operator.fit(prompt)
            back = frame.back_held_out(frame.prompt.outputs.values)
            torch.testing.assert_close(back, prompt.outputs.values, rtol=1e-9, atol=1e-9)
            # Ask the last example input again, at its own time: its output must come back too.
            assert prompt.times is not None
            last = prompt.mapped(
                query=_last(prompt.inputs),
                at=prompt.outputs.coords[..., -1, :, :],
                times=torch.cat([prompt.times[..., :-1], prompt.times[..., -2:-1]], dim=-1),
            )
            frame = operator.fit(last)
            back = frame.back(frame.prompt.outputs.values[..., -1, :, :])
            torch.testing.assert_close(back, prompt.outputs.values[..., -1, :, :], rtol=1e-9, atol=1e-9)

    def test_units_decide_nothing(self) -> None:
        """s times the prompt gives s times the answer, for operators that claim it (`Operator.unit_free`)."""
        for dtype, limit in ((torch.float64, 100), (torch.float32, 50)):
            close = 64 * torch.finfo(dtype).eps
            for program, operator, prompt, _ in self._suitable(dtype):
                if not operator.unit_free:
                    continue
                values = program.run(unit_free_model, prompt).values
                for power in (-limit, -27, 27, limit):  # 1e-30 and 1e30, 1e-15 and 1e15
                    got = program.run(unit_free_model, scaled(prompt, 2.0**power)).values
                    assert torch.allclose(
                        got * 2.0**-power, values, rtol=close, atol=close, equal_nan=True
                    ), f"{operator} claims to be unit_free, but 2**{power} times the prompt is another answer"

    def test_projection_is_idempotent(self) -> None:
        """Projections: once is enough."""
        for _, operator, prompt, _ in self._suitable():
            if isinstance(operator, Projection):
                once, _ = operator.project(prompt, self.model(prompt))
                twice, _ = operator.project(prompt, once)
                torch.testing.assert_close(once, twice, rtol=1e-9, atol=1e-9)


def _last(part: Any) -> Any:
    mask = None if part.mask is None else part.mask[..., -1, :, :]
    return type(part)(part.coords[..., -1, :, :], part.values[..., -1, :, :], mask)


class ModelConformance(_OnPrompts):
    """Subclass with ``make_model``, and ``prompts`` that the model understands."""

    tolerance: ClassVar[float] = 1e-5
    dtype: ClassVar[torch.dtype] = torch.float32

    def make_model(self) -> FrozenModel:
        """The model to check."""
        raise NotImplementedError

    def test_answers_where_asked(self) -> None:
        """Shape, dtype and device are the prompt's."""
        model = self.make_model()
        for prompt in self.prompts(self.dtype):
            values = Icon().run(model, prompt).values
            assert values.shape == prompt.answer_shape
            assert values.dtype == prompt.dtype

    def test_batch_equals_loop(self) -> None:
        """A batch gives what its elements give, to rounding."""
        model = self.make_model()
        for prompt in self.prompts(self.dtype):
            whole = Icon().run(model, prompt).values.reshape(-1, *prompt.answer_shape[-2:])
            alone = torch.stack([Icon().run(model, prompt.flat()[i]).values for i in range(len(whole))])
            torch.testing.assert_close(alone, whole, rtol=self.tolerance, atol=self.tolerance)

    def test_deterministic(self) -> None:
        """The same question twice gives the same bits."""
        model = self.make_model()
        for prompt in self.prompts(self.dtype):
            assert torch.equal(Icon().run(model, prompt).values, Icon().run(model, prompt).values)

    def test_prompt_unchanged(self) -> None:
        """A model never writes into its prompt."""
        model = self.make_model()
        for prompt in self.prompts(self.dtype):
            before = [tensor.clone() for tensor in prompt.tensors()]
            Icon().run(model, prompt)
            assert all(torch.equal(old, new) for old, new in zip(before, prompt.tensors(), strict=True))

    def test_learns_nothing(self) -> None:
        """The weights of a torch module are the same after a program as before."""
        model = self.make_model()
        if isinstance(model, nn.Module):
            before = {name: value.clone() for name, value in model.state_dict().items()}
            for prompt in self.prompts(self.dtype):
                parse("select(correct(icon), icon)").run(model, prompt)
            after = model.state_dict()
            assert all(torch.equal(value, after[name]) for name, value in before.items())

    def test_shared_encoding_agrees(self) -> None:
        """``predict_many`` gives what plain calls give, to rounding, for held-out prompts too."""
        model = self.make_model()
        if isinstance(model, SharesExamples):
            for prompt in self.prompts(self.dtype):
                asked = [prompt, prompt.held_out(pad=True), prompt.held_out(pad=False)]
                with torch.inference_mode():
                    together = model.predict_many(asked)
                    for answer, one in zip(together, asked, strict=True):
                        plain = model(one)
                        torch.testing.assert_close(answer, plain, rtol=self.tolerance, atol=self.tolerance)
