"""Units decide nothing: data in metres and in nanometres get the same answer, each in its own."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import chop
from chop import Field, Prompt, metrics
from chop.core.parameters import Operator
from chop.core.running import validation_error
from chop.core.text import parse
from chop.core.units import binary_unit, in_units
from chop.testing import make_prompt, toy_model
from chop.testing.data import scaled, unit_free_model

PROGRAMS = [
    *(name for name in chop.programs if "unit_mass" not in str(chop.programs[name])),
    "ridge",
    "nearest_examples(k=2) | icon",
    'moving_frame(shift="spectral") | correct(icon)',
    "normalize | minmax | icon | within_examples",
    "combine(icon, mean_output, copy_query, ridge)",
    "icon | bound_variation",
]


def suited(text, dtype):
    if "graph" in text or text in ("air", "air_evolved"):
        return make_prompt(3, batch=(2,), dimensions=3, channels=(3, 3), masked=True, points=6, dtype=dtype)
    style = "nonnegative" if "mfc" in text else "smooth"
    return make_prompt(5, batch=(3,), points=16, style=style, consecutive="moving" in text, dtype=dtype)


@pytest.mark.parametrize("text", PROGRAMS)
@given(power=st.floats(-30, 30))
@settings(max_examples=12)
def test_any_unit_in_double_precision(text, power):
    prompt, factor = suited(text, torch.float64), 10.0**power
    values = parse(text).run(unit_free_model, prompt).values
    got = parse(text).run(unit_free_model, scaled(prompt, factor)).values
    torch.testing.assert_close(got / factor, values, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("text", PROGRAMS)
@pytest.mark.parametrize("power", [-50, -33, -12, 12, 33, 50])
def test_any_unit_in_single_precision(text, power):
    """Up to 1e-15 and 1e15; a power of two loses no digit, so nothing can hide behind rounding."""
    prompt, factor = suited(text, torch.float32), 2.0**power
    values = parse(text).run(unit_free_model, prompt).values
    got = parse(text).run(unit_free_model, scaled(prompt, factor)).values
    torch.testing.assert_close(got / factor, values, rtol=1e-5, atol=1e-6)


def biased(prompt):
    """The identity, off by a third of the size of the data."""
    return prompt.query.values + 0.4 * prompt.query.values.square().mean(dim=(-1, -2), keepdim=True).sqrt()


@pytest.mark.parametrize("size", [1.0, 1e-4, 1e-5, 1e-12, 1e12])
def test_correct_mends_a_bias_of_any_size(size):
    x = torch.arange(64).double()[:, None] / 64
    phases = torch.arange(6).double()[:, None, None] / 6
    u = size * torch.sin(2 * math.pi * (x + phases))
    prompt = Prompt(Field(x, u[:5]), Field(x, u[:5]), Field(x, u[5]), x)
    got = chop.programs["corr"].run(biased, prompt).values
    assert float(metrics.rel_l2(got, u[5])) < 1e-6


def test_rescaling_survives_the_ends_of_single_precision():
    """Squares of 1e18 overflow: the rescaled route gave way to the bare model without a word."""
    prompt = make_prompt(13, batch=(4,), style="nonnegative", dtype=torch.float32)
    plain = chop.programs["mfc"].run(unit_free_model, prompt)
    huge = chop.programs["mfc"].run(unit_free_model, scaled(prompt, 2.0**62))
    torch.testing.assert_close(huge.values / 2.0**62, plain.values, rtol=1e-5, atol=1e-6)
    chosen = [result.trace.root.notes["chose branch"].tolist() for result in (plain, huge)]
    assert chosen[0] == chosen[1]
    assert 1 in chosen[0]


def test_rescaled_prompts_have_the_same_size_in_every_unit():
    prompt = make_prompt(2, style="nonnegative", dtype=torch.float32)
    for power in (-100, -40, 0, 40, 60):
        mapped = parse("rescale | icon").transform.fit(scaled(prompt, 2.0**power)).prompt
        parts = [part.values.flatten() for part in (mapped.inputs, mapped.outputs, mapped.query)]
        assert float(torch.cat(parts).square().mean().sqrt()) == pytest.approx(1, rel=1e-5)


def test_inputs_and_outputs_in_different_units():
    """Pressures in, concentrations out: what is corrected is measured against the outputs' own size."""
    x = torch.arange(32).double()[:, None] / 32
    u = 1e5 * torch.sin(2 * math.pi * (x + torch.arange(6).double()[:, None, None] / 6))
    prompt = Prompt(Field(x, u[:5]), Field(x, 1e-9 * u[:5]), Field(x, u[5]), x)
    got = chop.programs["corr"].run(lambda p: 1e-9 * p.query.values + 3e-5, prompt).values
    assert float(metrics.rel_l2(got, 1e-9 * u[5])) < 1e-6


def test_ordinary_data_are_not_touched():
    """The paper's numbers stay what they are, bit by bit."""
    values = torch.tensor([0.0, 1.0, 1e-6, 1e6, 2.0**20, 2.0**-20], dtype=torch.float64)
    unit = binary_unit(values)
    assert unit.tolist() == [1.0] * 6
    assert in_units(values, unit) is values


@given(
    size=st.floats(1e-320, 1e308),
    dtype=st.sampled_from([torch.float32, torch.float64]),
)
def test_a_unit_is_a_power_of_two_near_the_size(size, dtype):
    number = torch.tensor(size, dtype=dtype)
    unit = binary_unit(number)
    mantissa, _ = math.frexp(float(unit))
    assert mantissa == 0.5
    assert unit.dtype == dtype
    limits = torch.finfo(dtype)
    if limits.tiny <= float(number) <= limits.max and float(unit) != 1:
        assert 1 <= float(number / unit) < 2


def test_what_has_no_size_has_the_unit_one():
    odd = torch.tensor([float("inf"), float("nan"), 0.0])
    assert binary_unit(odd).tolist() == [1, 1, 1]


@pytest.mark.parametrize("factor", [1e-25, 1e-19, 1.0, 1e19, 1e25])
def test_errors_in_any_unit(factor):
    prompt = make_prompt(1, batch=(2,), dtype=torch.float32)
    answer = toy_model(prompt)
    relative = metrics.rel_l2(answer, prompt.query.values)
    torch.testing.assert_close(metrics.rel_l2(answer * factor, prompt.query.values * factor), relative)
    got = metrics.rmse(answer * factor, prompt.query.values * factor)
    torch.testing.assert_close(got / factor, metrics.rmse(answer, prompt.query.values))


def test_the_in_context_error_is_in_squares_of_the_data():
    prompt = make_prompt(1, batch=(2,), masked=True)
    held_out = toy_model(prompt).unsqueeze(-3).expand_as(prompt.outputs.values)
    error = validation_error(prompt.outputs, held_out)
    small = scaled(prompt, 1e-20)
    torch.testing.assert_close(validation_error(small.outputs, held_out * 1e-20) * 1e40, error)


def test_who_claims_it():
    """Every operator but those that bring a size of their own; third parties claim nothing unasked."""
    silent = {name for name, operator in chop.registry().items() if not operator.unit_free}
    assert silent == {"unit_mass", "finite", "auto"}  # auto knows a mass of 1
    assert not Operator.unit_free
