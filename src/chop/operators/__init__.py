"""The built-in operators, one small file a family. This list is the closed registry's core."""

from chop.core.parameters import Operator
from chop.core.program import Icon
from chop.operators.affine import Flip, Minmax, Normalize, Rescale
from chop.operators.examples import Increment, NearestExamples
from chop.operators.frames import MovingFrame, Reflect
from chop.operators.leaves import (
    CopyQuery,
    FirstFrame,
    LastFrame,
    MeanOutput,
    NearestOutput,
    QueryMean,
    Ridge,
)
from chop.operators.mixtures import Average, Combine, Select
from chop.operators.projections import (
    BoundVariation,
    ConserveMean,
    Finite,
    Nonnegative,
    UnitMass,
    WithinExamples,
)
from chop.operators.residuals import Correct, Debias

BUILT_IN: tuple[type[Operator], ...] = (
    # leaves
    Icon,
    LastFrame,
    FirstFrame,
    MeanOutput,
    NearestOutput,
    CopyQuery,
    QueryMean,
    Ridge,
    # transforms
    MovingFrame,
    Rescale,
    Normalize,
    Minmax,
    Increment,
    Flip,
    Reflect,
    NearestExamples,
    # projections
    ConserveMean,
    Nonnegative,
    UnitMass,
    WithinExamples,
    BoundVariation,
    Finite,
    # validators and mixtures
    Correct,
    Debias,
    Select,
    Combine,
    Average,
)

__all__ = ["BUILT_IN", *(operator.__name__ for operator in BUILT_IN)]
