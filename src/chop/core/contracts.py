"""What operators promise: the operator that breaks a promise is named, whatever the program around it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from torch import Tensor

from chop.core.errors import ChopError, ProgramError
from chop.core.parameters import Operator
from chop.core.prompt import Prompt
from chop.core.user_code import describe_error


@contextmanager
def named_in_failures(operator: Operator) -> Iterator[None]:
    """What another package's operator raises becomes a sentence with its name and the place in its code.

    A failure of a built-in operator is a bug of ours and keeps its traceback.
    """
    try:
        yield
    except ChopError:
        raise
    except Exception as error:
        if type(operator).__module__.partition(".")[0] == "chop":
            raise
        raise ProgramError(f"{operator} failed {describe_error(error)}") from error


def require_type(operator: Operator, what: str, found: Any, kind: type[Any]) -> None:
    """Something of a kind was promised."""
    if not isinstance(found, kind):
        raise ProgramError(f"{operator}: {what} must be a {kind.__name__}, not {type(found).__name__}")


def require_values_and_notes(operator: Operator, returned: object) -> Any:
    """The pair that leaves and projections return."""
    if not (isinstance(returned, tuple) and len(returned) == 2):
        raise ProgramError(f"{operator} must return (values, notes), not {type(returned).__name__}")
    return returned


def require_values(operator: Operator, values: object, shape: Sequence[int], prompt: Prompt) -> None:
    """Values of a shape were promised, in the prompt's dtype and on its device."""
    require_type(operator, "its answer", values, Tensor)
    assert isinstance(values, Tensor)
    if values.shape != tuple(shape):
        raise ProgramError(
            f"{operator} answered with shape {tuple(values.shape)}, the prompt asks for {tuple(shape)}"
        )
    if (values.dtype, values.device) != (prompt.dtype, prompt.device):
        raise ProgramError(
            f"{operator} answered in {values.dtype} on {values.device}, the prompt is {prompt.dtype} on "
            f"{prompt.device}"
        )


__all__ = ["named_in_failures", "require_type", "require_values", "require_values_and_notes"]
