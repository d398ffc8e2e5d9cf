"""Operators under the names that texts have for them: ``rescale | icon``, ``rescale(center="mean") | icon``.

A name alone is the operator with its default options, a value like any other; called with options it is the
operator with those. At runtime that is an instance and its ``__call__``. The classes below exist for editors
and type checkers, which learn the options from the constructor of the operator's class.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, TypeVar, Unpack, overload

from chop.core.program import Program, Projection, Transform

P = ParamSpec("P")
OneTransform = TypeVar("OneTransform", bound=Transform)
OneProjection = TypeVar("OneProjection", bound=Projection)
OneProgram = TypeVar("OneProgram", bound=Program)

if TYPE_CHECKING:
    from chop.core.model import FrozenModel
    from chop.core.prompt import Prompt
    from chop.core.running import Result, RunOptions

    class BareTransform(Transform, Generic[P, OneTransform]):
        """A transform with its default options; called, one with others."""

        def __call__(self, *none: P.args, **options: P.kwargs) -> OneTransform: ...

    class BareProjection(Projection, Generic[P, OneProjection]):
        """A projection with its default options; called, one with others."""

        def __call__(self, *none: P.args, **options: P.kwargs) -> OneProjection: ...

    class BareLeaf(Program, Generic[P, OneProgram]):
        """A leaf with its default options; called with options one with others, with a prompt its answer."""

        @overload
        def __call__(self, *none: P.args, **options: P.kwargs) -> OneProgram: ...
        @overload
        def __call__(self, model: FrozenModel, prompt: Prompt, **options: Unpack[RunOptions]) -> Result: ...
        def __call__(self, *asked: Any, **options: Any) -> Any: ...


@overload
def bare(operator: Callable[P, OneTransform]) -> BareTransform[P, OneTransform]: ...
@overload
def bare(operator: Callable[P, OneProjection]) -> BareProjection[P, OneProjection]: ...
@overload
def bare(operator: Callable[P, OneProgram]) -> BareLeaf[P, OneProgram]: ...
def bare(operator: Callable[[], Any]) -> Any:
    """What the name of a transform, a projection or a leaf means by itself."""
    return operator()


def around_one(
    operator: Callable[Concatenate[Any, P], OneProgram],
) -> Callable[Concatenate[Program, P], OneProgram]:
    """A class of programs around another one, which has to be given and is given first."""
    return operator


__all__ = ["around_one", "bare"]
