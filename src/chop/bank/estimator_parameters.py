"""Parameters by their names, as scikit-learn asks for them: what the constructor takes is what there is."""

from __future__ import annotations

import inspect
from typing import Any, Self

from chop.bank.estimator_errors import EstimatorInputError
from chop.core.program import Program


class NamedParameters:
    """An estimator whose constructor only keeps its arguments, each under its name."""

    @classmethod
    def parameter_names(cls) -> dict[str, Any]:
        """Parameters with their defaults."""
        signature = inspect.signature(cls.__init__)
        return {name: given.default for name, given in list(signature.parameters.items())[1:]}

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """All parameters by their names; no parameter has any of its own, so ``deep`` changes nothing."""
        return {name: getattr(self, name) for name in self.parameter_names()}

    def set_params(self, **params: Any) -> Self:
        """Change parameters by their names."""
        known = self.parameter_names()
        for name, value in params.items():
            if name not in known:
                raise EstimatorInputError(
                    f"Invalid parameter {name!r} for estimator {type(self).__name__}: it has "
                    f"{', '.join(known)}"
                )
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        changed = [
            f"{name}={_short(value)}"
            for name, value in self.get_params().items()
            if not _is_default(value, self.parameter_names()[name])
        ]
        return f"{type(self).__name__}({', '.join(changed)})"

    def __sklearn_clone__(self) -> Self:
        """The same parameters, unfitted. A frozen model is shared: nothing changes it."""
        return type(self)(**self.get_params(deep=False))


def _short(value: Any) -> str:
    """A parameter in a few characters."""
    if isinstance(value, str | int | float | tuple) and len(repr(value)) < 80:
        return repr(value)
    if isinstance(value, Program):
        return repr(str(value))
    return f"<{type(value).__name__}>"


def _is_default(value: Any, usual: Any) -> bool:
    return value is usual or (
        isinstance(value, str | int | float) and type(value) is type(usual) and value == usual
    )
