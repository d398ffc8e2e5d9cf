"""Every operator keeps the general contract."""

import dataclasses

import torch

import chop
from chop.operators import (
    Auto,
    Average,
    BoundVariation,
    Combine,
    ConserveMean,
    CopyQuery,
    Correct,
    Debias,
    Finite,
    FirstFrame,
    Flip,
    Icon,
    Increment,
    Krige,
    LastFrame,
    Law,
    MeanFrame,
    MeanOutput,
    Minmax,
    MovingFrame,
    NearestExamples,
    NearestOutput,
    Nonnegative,
    Normalize,
    QueryMean,
    Reflect,
    Rescale,
    Ridge,
    Select,
    Turn,
    UnitMass,
    Views,
    Weigh,
    WithinExamples,
)
from chop.testing import OperatorConformance, make_prompt

icon = Icon()


class TestLeaves(OperatorConformance):
    operators = (
        Icon(),
        LastFrame(),
        FirstFrame(),
        MeanFrame(),
        MeanOutput(),
        NearestOutput(),
        CopyQuery(),
        QueryMean(),
        Ridge(),
        Ridge(strength=1.0),
        Ridge(strength=1e-6),
    )


class TestLaw(OperatorConformance):
    operators = (Law(),)

    def prompts(self, dtype=torch.float64):
        """Circles whose pairs obey no law, in order and out of it, and flat ones."""
        return [
            make_prompt(1, batch=(2,), dtype=dtype),
            make_prompt(2, consecutive=True, examples=2, dtype=dtype),
            make_prompt(3, batch=(2, 1), style="constant", dtype=dtype),
        ]


class TestAffineTransforms(OperatorConformance):
    operators = (
        Rescale(),
        Rescale(target=0.3),
        Rescale(center="mean"),
        Rescale(center="mean", target=5.0),
        Normalize(),
        Normalize(separate=True),
        Minmax(),
        Flip(),
    )


class TestGridTransforms(OperatorConformance):
    operators = (
        MovingFrame(),
        MovingFrame(shift="spectral"),
        Reflect(),
        Turn(),
        Turn(cells=-3),
        Turn(cells=5, anchored=False),
        Increment(),
    )

    def prompts(self, dtype=torch.float64):
        """Even and odd grids, consecutive frames, masks, and grids of (t, x) for the mirror."""
        return [
            make_prompt(1, batch=(3,), points=12, dtype=dtype),
            make_prompt(2, batch=(2,), points=11, masked=True, dtype=dtype),
            make_prompt(3, batch=(2, 2), points=16, consecutive=True, dtype=dtype),
            make_prompt(4, points=9, channels=(2, 2), examples=2, dtype=dtype),
            make_prompt(5, batch=(2,), dimensions=2, own_grids=True, dtype=dtype),
            dataclasses.replace(make_prompt(6, batch=(2,), dtype=dtype), times=[3, 5, 1, 9, 2, 7]),
        ]


class TestExampleTransforms(OperatorConformance):
    operators = tuple(NearestExamples(k=k) for k in (1, 2, 3, 4, 5, 64))


class TestProjections(OperatorConformance):
    operators = (
        ConserveMean(),
        Nonnegative(),
        UnitMass(),
        WithinExamples(),
        Finite(),
        Finite(fill=-3.0),
    )


class TestProjectionsOfOneCoordinate(OperatorConformance):
    operators = (BoundVariation(),)

    def prompts(self, dtype=torch.float64):
        """Circles: coarse and fine, with masks, several channels, own grids and other answer points."""
        return [
            make_prompt(1, batch=(3,), points=12, dtype=dtype),
            make_prompt(2, batch=(2,), points=11, masked=True, dtype=dtype),
            make_prompt(3, batch=(2, 2), points=8, own_grids=True, dtype=dtype),
            make_prompt(4, points=9, channels=(2, 2), answer_points=7, dtype=dtype),
        ]


class TestResidualValidators(OperatorConformance):
    operators = (
        Correct(icon),
        Correct(icon, weights="uniform"),
        Correct(icon, magnitude=0.5),
        Correct(icon, gate=False),
        Correct(icon, pad=False),
        Correct(Rescale() | icon, magnitude=1.0, gate=False),
        Debias(icon),
        Debias(icon, pad=True),
        Debias(icon, smooth="graph"),
        Debias(MeanOutput()),
    )


class TestKriging(OperatorConformance):
    operators = (
        Krige(icon),
        Krige(icon, pad=False, trust=2.0),
        Krige(icon, kernel="smooth"),
        Krige(Rescale() | icon, kernel="rough"),
        Krige(MeanOutput(), kernel="linear", strength=0.1),
    )


class TestResidualValidatorsWithGap(OperatorConformance):
    operators = (Correct(icon, gap=1), Krige(icon, gap=1), Debias(icon, gap=2))

    def prompts(self, dtype=torch.float64):
        return [make_prompt(1, batch=(2,), consecutive=True, dtype=dtype), make_prompt(2, dtype=dtype)]


class TestMixtures(OperatorConformance):
    operators = (
        Select((MeanOutput(), icon)),
        Select((Correct(icon), Debias(icon), icon), pad=False),
        Average((icon,)),
        Average((icon, MeanOutput(), Flip() | icon)),
        Views(icon),
        Views(icon, turns=1, mirror=True, sign=True),
        Views(Correct(icon), turns=2, step=3, mirror=True),
        Views(icon, turns=2, step=5, mirror=True, anchored=False),
        Average((icon, MeanOutput()), weights=(0.3, 0.7)),
        Average((Correct(icon), Debias(icon)), weights=(3, 1)),
    )


class FewPrompts(OperatorConformance):
    """For operators that take their time: a grid, stations with gaps, and the smallest number of pairs."""

    def prompts(self, dtype=torch.float64):
        return [
            make_prompt(1, batch=(3,), dtype=dtype),
            make_prompt(3, batch=(2,), dimensions=3, channels=(2, 2), masked=True, points=6, dtype=dtype),
            make_prompt(4, style="nonnegative", examples=2, dtype=dtype),
        ]


class TestCombinations(FewPrompts):
    operators = (
        Combine((icon,)),
        Combine((icon, MeanOutput(), NearestOutput())),
        Combine((icon, Ridge()), shrink=False, pad=True),
        Combine((icon, MeanOutput()), channels=(-1,)),
        Weigh((icon, MeanOutput(), NearestOutput())),
        Auto(),
        Auto(budget=1),
        Auto(budget=12, leaves=False, trust=1.0, without=("views", "krige")),
        Auto(ahead=5),
        Weigh((MeanOutput(), icon), trust=1.0, shrink=True, pad=False),
    )


class TestWholePrograms(FewPrompts):
    """The catalog's programs are operators too."""

    operators = tuple(chop.programs[name] for name in ("mfc", "corr", "air"))


def test_every_operator_is_covered():
    suites = [
        value
        for value in globals().values()
        if isinstance(value, type)
        and issubclass(value, OperatorConformance)
        and value is not OperatorConformance
    ]
    covered = {type(operator) for suite in suites for operator in suite.operators}
    built_in = {operator for operator in chop.registry().values() if operator.__module__.startswith("chop.")}
    assert built_in <= covered
    assert set(chop.operators.BUILT_IN) == built_in


def test_every_flag_and_choice_is_covered():
    """Each value of a finite parameter stands in some suite."""
    seen = {}
    for suite in (value for name, value in globals().items() if name.startswith("Test")):
        for operator in suite.operators:
            for name, param in operator.params().items():
                if param.kind in ("flag", "choice"):
                    seen.setdefault((type(operator), name), set()).add(getattr(operator, name))
    for (operator, name), values in seen.items():
        param = operator.params()[name]
        wanted = {True, False} if param.kind == "flag" else set(param.options)
        assert values == wanted, f"{operator.name}: {name}"
