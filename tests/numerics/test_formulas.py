"""The flux parser: what it reads, what it refuses, and that derivatives are right."""

import contextlib
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chop.core.errors import ChopError, FluxError
from chop.numerics.formulas import FORMULA_FUNCTIONS
from chop.problems.conservation.flux import Flux


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2+3*4", 14.0),
        ("-u**2", -4.0),
        ("2**-u", 0.25),
        ("2**3**2", 512.0),
        ("8/2/2", 2.0),
        ("7-2-1", 4.0),
        ("(1+u)*(1-u)", -3.0),
        ("u^3", 8.0),
        ("--u", 2.0),
        ("+u", 2.0),
        ("-2*-u", 4.0),
        ("1.5e1*u", 30.0),
        (".5*u", 1.0),
        ("u**2/(u**2+(1-u)**2)", 0.8),
        ("0.3*u**3-u", 0.4),
        ("sin(pi/2)*e", math.e),
        ("abs(-u)+sqrt(u*8)+log(exp(u))", 8.0),
        ("atan(u)+tanh(u)+sinh(u)+cosh(u)+tan(u)+cos(u)", None),
        ("u**0", 1.0),
        ("u**-2", 0.25),
        ("u**1.5", 2**1.5),
        ("u**20", 2.0**20),
        ("2**u", 4.0),
        ("u**u", 4.0),
    ],
)
def test_values_and_precedence(text: str, value: float | None) -> None:
    expected = value
    if expected is None:
        expected = math.atan(2) + math.tanh(2) + math.sinh(2) + math.cosh(2) + math.tan(2) + math.cos(2)
    assert Flux.parse(text)(2.0) == pytest.approx(expected, rel=1e-14)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "missing before the end"),
        ("v+1", "unknown name 'v'"),
        ("u+", "missing before the end"),
        ("2u", "write multiplication as *"),
        ("(u", "')' is missing"),
        ("u)", "')' follows a complete expression"),
        ("sin u", "brackets"),
        ("sin", "brackets"),
        ("sin()", "missing before ')'"),
        ("u,1", "column 2"),
        ("__import__('os')", "column 12"),
        ("__import__(u)", "unknown name '__import__'"),
        ("u.real", "column 2"),
        ("u if u else 1", "follows a complete expression"),
        ("lambda u", "unknown name 'lambda'"),
        ("eval(u)", "unknown name 'eval'"),
        ("1e999", "too large"),
        ("ü", "not part of any flux"),
        ("u" + "+u" * 200, "operations deep"),
        ("(" * 200 + "u" + ")" * 200, "nested deeper"),
        ("-" * 300 + "u", "nested deeper"),
        ("u" * 2000, "characters"),
    ],
)
def test_what_is_not_a_flux(text: str, says: str) -> None:
    with pytest.raises(FluxError, match="flux") as caught:
        Flux.parse(text)
    assert says in str(caught.value)


def test_a_flux_must_be_text() -> None:
    with pytest.raises(FluxError, match="not int"):
        Flux.parse(3)  # type: ignore[arg-type]


def test_parameters_are_names_of_a_family() -> None:
    family = Flux.parse("a*u**2+b", ("a", "b"))
    assert family(3.0, (2.0, 1.0)) == 19.0
    assert family.slope(3.0, (2.0, 1.0)) == 12.0
    with pytest.raises(FluxError, match="2 parameters"):
        family(3.0)
    for name in ("u", "sin", "pi", "2a"):
        with pytest.raises(FluxError, match="cannot be the name"):
            Flux.parse("u", (name,))


def test_shared_parts_are_computed_once_and_nesting_does_not_explode() -> None:
    assert len(Flux.parse("sin(u)*sin(u)+sin(u)").tape.code) == 3
    nested = "u"
    for _ in range(25):
        nested = f"sin({nested})*({nested})"
        if len(nested) > 400:
            break
    assert len(Flux.parse(nested).slope_tape.code) < 200
    tower = "**".join(["u"] * 12)
    assert len(Flux.parse(tower).slope_tape.code) < 200


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("1/u", "divides by zero at u = 0"),
        ("1/(u-0.1234567)", "divides by zero at u = 0.123"),
        ("1/(u-0.1234567)**2", "divides by zero at u = 0.12345"),
        ("u/(u**2-2)", "divides by zero"),
        ("u/0", "divides by zero"),
        ("(u-0.77)**-3", "negative or varying power of zero"),
        ("tan(u)", "pole of tan"),
        ("log(u)", "logarithm of zero"),
        ("log(u**2)", "logarithm of zero"),
        ("sqrt(u)", "not finite"),
        ("sqrt(abs(u))", "the derivative of flux"),
        ("u**0.5", "not finite"),
        ("exp(exp(u**2))", "not finite"),
    ],
)
def test_undefined_on_the_data_range(text: str, says: str) -> None:
    with pytest.raises(FluxError) as caught:
        Flux.parse(text).check((-3.0, 3.0))
    assert says in str(caught.value)
    assert "data range [-3, 3]" in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "u**2/(u**2+(1-u)**2)",
        "1/cosh(10*u)",
        "exp(5*u)/(1+exp(5*u))",
        "abs(u)",
        "u/(1e-3+u**2)",
        "1/exp(9*u)",
    ],
)
def test_defined_on_the_data_range(text: str) -> None:
    Flux.parse(text).check((-3.0, 3.0))


def test_a_range_can_save_a_flux() -> None:
    Flux.parse("log(u)+1/u").check((0.5, 2.0))


def test_splitting_speeds() -> None:
    # max |f'| over [-3, 3] by hand, plus 0.1
    assert Flux.parse("sin_cos").speed((-3, 3))[0] == pytest.approx(math.sqrt(2) + 0.1, abs=1e-6)
    assert Flux.parse("tanh").speed((-3, 3))[0] == pytest.approx(1.1, abs=1e-12)
    assert Flux.parse("buckley_leverett").speed((-3, 3))[0] == pytest.approx(2.1, abs=1e-6)
    cubic = Flux.parse("cubic").speed((-3, 3), np.array([[1.0, 0.0, 0.0], [0.0, -1.0, 0.5]]))
    assert cubic == pytest.approx([27.1, 6.6], abs=1e-12)


# Random expressions: (text, function of u in plain Python).
_LEAF = st.sampled_from(["u", "0.7", "2", "1.3", "pi"])


def _wrap(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    smooth = [name for name in FORMULA_FUNCTIONS if name != "abs"]
    return st.one_of(
        st.tuples(inner, st.sampled_from(["+", "-", "*", "/"]), inner).map(
            lambda t: f"({t[0]}){t[1]}({t[2]})"
        ),
        st.tuples(st.sampled_from(smooth), inner).map(lambda t: f"{t[0]}({t[1]})"),
        st.tuples(inner, st.integers(-3, 5)).map(lambda t: f"({t[0]})**{t[1]}"),
        inner.map(lambda t: f"-({t})"),
        st.tuples(inner, inner).map(lambda t: f"(1.5+tanh({t[0]}))**({t[1]})"),
    )


@settings(max_examples=300, deadline=None)
@given(st.recursive(_LEAF, _wrap, max_leaves=12), st.floats(0.2, 1.8))
def test_derivative_against_the_complex_step(text: str, u: float) -> None:
    """Im f(u + ih) / h is the derivative to rounding, for everything analytic near u."""
    flux = Flux.parse(text)
    value, slope = float(flux(u)), float(flux.slope(u))
    stepped = complex(flux(u + 1e-30j))
    if not np.isfinite([value, slope, stepped.real, stepped.imag]).all():
        return
    if abs(stepped.real - value) > 1e-12 * (1 + abs(value)) or abs(value) > 1e8 or abs(slope) > 1e8:
        return  # another branch of a logarithm or power, or too steep to compare
    wobble = max(abs(float(flux.slope(u * (1 + d))) - slope) for d in (-1e-15, 1e-15))
    assert stepped.imag / 1e-30 == pytest.approx(slope, rel=1e-9, abs=1e-9 + 100 * wobble)


@pytest.mark.parametrize(
    "text", ["abs(u)*u", "u**2/(u**2+(1-u)**2)", "tan(u/2)**2", "2**u+u**u", "atan(u)/u"]
)
def test_derivative_against_differences(text: str) -> None:
    flux, u, h = Flux.parse(text), np.linspace(0.3, 2.5, 41), 1e-4
    five_points = (8 * (flux(u + h) - flux(u - h)) - (flux(u + 2 * h) - flux(u - 2 * h))) / (12 * h)
    assert flux.slope(u) == pytest.approx(five_points, rel=1e-8)
    assert Flux.parse("abs(u)").slope(np.array([-2.0, 3.0])) == pytest.approx([-1, 1])


_NOISE = st.one_of(
    st.text(max_size=40),
    st.text(alphabet="u()+-*/^. 0123456789eEpisncoxab_,", max_size=60),
    st.lists(
        st.sampled_from(["u", "sin(", ")", "(", "**", "*", "/", "-", "+", "2", ".5", "e", "log(", " "])
    ).map("".join),
)


@settings(max_examples=500, deadline=None)
@given(_NOISE)
def test_any_text_is_a_flux_or_a_clear_error(text: str) -> None:
    with contextlib.suppress(ChopError):
        flux = Flux.parse(text)
        flux(0.5)
        flux.check((-1.0, 1.0))
