"""The built-in operators, one small file a family. The list `BUILT_IN` is the closed registry's core.

Each has the name that program texts have for it: ``select(correct(rescale | icon), icon)`` is Python as it
is text. A name alone is the operator with its default options, as is ``icon()``; ``Rescale`` and the other
classes are what these values are instances of.
"""

from __future__ import annotations

from chop.core.parameters import Operator
from chop.core.program import Icon, Program
from chop.operators.affine import Flip, Minmax, Normalize, Rescale
from chop.operators.auto.program import Auto
from chop.operators.bare import around_one, bare
from chop.operators.examples import Increment, NearestExamples
from chop.operators.frames import MovingFrame, Reflect, Turn
from chop.operators.kriging import Krige
from chop.operators.laws import Law
from chop.operators.leaves import (
    CopyQuery,
    FirstFrame,
    LastFrame,
    MeanFrame,
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
from chop.operators.views import Views
from chop.operators.weighing import Weigh

BUILT_IN: tuple[type[Operator], ...] = (
    # leaves
    Icon,
    LastFrame,
    FirstFrame,
    MeanFrame,
    MeanOutput,
    NearestOutput,
    CopyQuery,
    QueryMean,
    Ridge,
    Law,
    # transforms
    MovingFrame,
    Rescale,
    Normalize,
    Minmax,
    Increment,
    Flip,
    Reflect,
    Turn,
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
    Krige,
    Debias,
    Select,
    Combine,
    Weigh,
    Average,
    Views,
    Auto,
)

icon = bare(Icon)
auto = bare(Auto)
last_frame = bare(LastFrame)
first_frame = bare(FirstFrame)
mean_frame = bare(MeanFrame)
mean_output = bare(MeanOutput)
nearest_output = bare(NearestOutput)
copy_query = bare(CopyQuery)
query_mean = bare(QueryMean)
ridge = bare(Ridge)
law = bare(Law)
moving_frame = bare(MovingFrame)
rescale = bare(Rescale)
normalize = bare(Normalize)
minmax = bare(Minmax)
increment = bare(Increment)
flip = bare(Flip)
reflect = bare(Reflect)
turn = bare(Turn)
nearest_examples = bare(NearestExamples)
conserve_mean = bare(ConserveMean)
nonnegative = bare(Nonnegative)
unit_mass = bare(UnitMass)
within_examples = bare(WithinExamples)
bound_variation = bare(BoundVariation)
finite = bare(Finite)
correct = around_one(Correct)
krige = around_one(Krige)
debias = around_one(Debias)
views = around_one(Views)


def select(*branches: Program, pad: bool = True, gap: int = 0) -> Select:
    """The branch with the smallest in-context error, if it beats the last, the fallback (see `Select`)."""
    return Select(branches, pad=pad, gap=gap)


def combine(
    *candidates: Program,
    channels: tuple[int, ...] = (),
    shrink: bool = True,
    pad: bool = False,
    gap: int = 0,
) -> Combine:
    """A convex mixture, fitted at the example inputs and shrunk towards the first (see `Combine`)."""
    return Combine(candidates, channels=channels, shrink=shrink, pad=pad, gap=gap)


def weigh(
    *candidates: Program,
    trust: float = 4.0,
    shrink: bool = False,
    prior: tuple[float, ...] = (),
    pad: bool = True,
    gap: int = 0,
) -> Weigh:
    """A mixture by the mean logarithm of errors at the examples (see `Weigh`)."""
    return Weigh(candidates, trust=trust, shrink=shrink, prior=prior, pad=pad, gap=gap)


def average(*members: Program, weights: tuple[float, ...] = ()) -> Average:
    """The mean of several programs' answers, plain or with fixed weights (see `Average`)."""
    return Average(members, weights=weights)


__all__ = [
    "BUILT_IN",
    "Auto",
    "Average",
    "BoundVariation",
    "Combine",
    "ConserveMean",
    "CopyQuery",
    "Correct",
    "Debias",
    "Finite",
    "FirstFrame",
    "Flip",
    "Icon",
    "Increment",
    "Krige",
    "LastFrame",
    "Law",
    "MeanFrame",
    "MeanOutput",
    "Minmax",
    "MovingFrame",
    "NearestExamples",
    "NearestOutput",
    "Nonnegative",
    "Normalize",
    "QueryMean",
    "Reflect",
    "Rescale",
    "Ridge",
    "Select",
    "Turn",
    "UnitMass",
    "Views",
    "Weigh",
    "WithinExamples",
    "auto",
    "average",
    "bound_variation",
    "combine",
    "conserve_mean",
    "copy_query",
    "correct",
    "debias",
    "finite",
    "first_frame",
    "flip",
    "icon",
    "increment",
    "krige",
    "last_frame",
    "law",
    "mean_frame",
    "mean_output",
    "minmax",
    "moving_frame",
    "nearest_examples",
    "nearest_output",
    "nonnegative",
    "normalize",
    "query_mean",
    "reflect",
    "rescale",
    "ridge",
    "select",
    "turn",
    "unit_mass",
    "views",
    "weigh",
    "within_examples",
]
