"""Hypothesis strategies: prompts of every shape, and programs made from the whole registry."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from chop.core.parameters import Operator, Param
from chop.core.program import Program, Projection, Transform
from chop.core.prompt import Prompt
from chop.core.text import registry
from chop.testing.data import make_prompt

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy


def prompts(**fixed: Any) -> SearchStrategy[Prompt]:
    """Prompts from `make_prompt`; keyword arguments fix what is not to vary."""
    from hypothesis import strategies as st

    free = {
        "seed": st.integers(0, 2**32 - 1),
        "batch": st.sampled_from([(), (1,), (3,), (2, 2)]),
        "examples": st.integers(2, 7),
        "points": st.integers(4, 14),
        "masked": st.booleans(),
        "style": st.sampled_from(["smooth", "integers", "constant", "nonnegative"]),
        "own_grids": st.booleans(),
        "dimensions": st.sampled_from([1, 2, 3]),
        "channels": st.sampled_from([(1, 1), (2, 2), (3, 3)]),
    }
    chosen = {**free, **{name: st.just(value) for name, value in fixed.items()}}
    seed = chosen.pop("seed")
    return st.builds(make_prompt, seed, **chosen)


def program_values(max_leaves: int = 6) -> SearchStrategy[Program]:
    """Programs over the registry, with parameters from their declared ranges."""
    from hypothesis import strategies as st

    def parameters(operator: type[Operator]) -> dict[str, SearchStrategy[Any]]:
        return {
            name: _parameter(param)
            for name, param in operator.params().items()
            if param.kind not in ("program", "programs")
        }

    def of_role(role: type[Operator]) -> list[type[Operator]]:
        return [operator for operator in registry().values() if issubclass(operator, role)]

    def slots(operator: type[Operator]) -> dict[str, Param]:
        return {k: p for k, p in operator.params().items() if p.kind in ("program", "programs")}

    leaves = [operator for operator in of_role(Program) if not slots(operator)]
    branching = [operator for operator in of_role(Program) if slots(operator)]
    transforms = st.one_of([st.builds(t, **parameters(t)) for t in of_role(Transform)])
    projections = st.one_of([st.builds(p, **parameters(p)) for p in of_role(Projection)])

    def grow(inner: SearchStrategy[Program]) -> SearchStrategy[Program]:
        def branch(operator: type[Operator]) -> SearchStrategy[Any]:
            parts = {
                key: inner
                if param.kind == "program"
                else st.lists(inner, min_size=param.at_least, max_size=param.at_least + 2).map(tuple)
                for key, param in slots(operator).items()
            }
            return st.builds(operator, **parts, **parameters(operator))

        wrapped = st.builds(lambda t, p: t | p, transforms, inner)
        projected = st.builds(lambda p, q: p | q, inner, projections)
        return st.one_of([wrapped, projected, *map(branch, branching)])

    start: SearchStrategy[Any] = st.one_of([st.builds(leaf, **parameters(leaf)) for leaf in leaves])
    return st.recursive(start, grow, max_leaves=max_leaves)


def _parameter(param: Param) -> SearchStrategy[Any]:
    from hypothesis import strategies as st

    match param.kind:
        case "number":
            assert param.low is not None
            assert param.high is not None
            values: SearchStrategy[Any] = st.floats(param.low, param.high, allow_nan=False)
        case "whole":
            assert param.low is not None
            assert param.high is not None
            values = st.integers(int(param.low), int(param.high))
        case "flag":
            values = st.booleans()
        case "choice":
            values = st.sampled_from(param.options)
        case "names":
            values = st.lists(st.sampled_from(param.options), max_size=3, unique=True).map(tuple)
        case "numbers":
            values = st.just(())  # how many are right depends on the programs beside them
        case _:
            values = st.lists(st.integers(-4, 3), max_size=3).map(tuple)
    return st.none() | values if param.optional else values
