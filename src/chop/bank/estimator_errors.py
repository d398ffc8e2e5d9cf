"""What `chop.InContextOperator` raises: our sentences, of the kinds that code around estimators expects."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from chop.core.errors import BankError, ChopError, PromptError


class NotFittedError(ChopError, ValueError, AttributeError):
    """An estimator was asked before it was fitted."""

    __module__ = "chop"


class EstimatorInputError(PromptError, ValueError):
    """Arrays or parameters that an estimator cannot use."""

    __module__ = "chop"


@contextmanager
def as_value_errors() -> Iterator[None]:
    """What is wrong with arrays, in the same words, as an error that is a ValueError too."""
    try:
        yield
    except (PromptError, BankError) as error:
        if isinstance(error, ValueError):
            raise
        raise EstimatorInputError(str(error)) from None
