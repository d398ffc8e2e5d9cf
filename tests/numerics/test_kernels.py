"""The compiled interpreter against numpy, and how kernels are compiled."""

import subprocess
import sys

import numba
import numpy as np
import pytest

from chop.numerics import kernels
from chop.numerics.heat import carry
from chop.numerics.tape import OPCODES, Tape, compile_tape
from chop.problems.conservation.flux import Flux


def compiled(tape: Tape, u: np.ndarray) -> np.ndarray:
    registers = np.full((tape.registers, u.size), np.nan)
    registers[0] = u
    kernels._fill(registers, np.empty(0), tape.numbers)
    kernels.run_tape(tape.code, registers)
    return registers[tape.result]


@pytest.mark.parametrize("name", sorted(set(OPCODES) - {"add", "sub", "mul", "div", "pow", "neg", "sign"}))
def test_functions_agree_with_numpy(name: str) -> None:
    flux = Flux.parse(f"{name}(u)")
    low = 1e-3 if name in ("log", "sqrt") else -20.0
    u = np.concatenate([np.linspace(low, 20, 10001), [low, 0.5, 1e-5, 1.0]])
    expected = flux(u)
    scale = 1.0 if name in ("sin", "cos", "tanh") else np.abs(expected)
    assert (np.abs(compiled(flux.tape, u) - expected) <= 4.5e-16 * scale + 1e-300).all()


@pytest.mark.parametrize("name", ["sin", "cos", "exp", "tanh"])
def test_arguments_beyond_the_fast_range(name: str) -> None:
    flux = Flux.parse(f"{name}(u)")
    u = np.array([1e7, -1e7, 1e16, 0.3, np.inf, -np.inf, np.nan, 750.0, -750.0])
    assert compiled(flux.tape, u) == pytest.approx(flux(u), rel=1e-14, abs=1e-300, nan_ok=True)


def test_angles_up_to_the_fast_limit() -> None:
    u = np.random.default_rng(0).uniform(-9.9e4, 9.9e4, 100_000)
    for name, function in (("sin", np.sin), ("cos", np.cos)):
        assert np.abs(compiled(Flux.parse(f"{name}(u)").tape, u) - function(u)).max() < 2.3e-16


@pytest.mark.parametrize(
    "text",
    ["u", "3", "u+1", "-u", "u-2*u/3", "u**u", "u**7", "u**-3", "u**2.5", "u**2/(u**2+(1-u)**2)", "2**u"],
)
def test_short_tapes_agree_with_numpy(text: str) -> None:
    check_tapes(text)


@pytest.mark.parametrize(
    "text", ["sin(u)-cos(u)", "exp(sin(u)*2)/(1+exp(u))**3+log(2+u)", "abs(u-1)", "tanh(u)/cosh(u)**2"]
)
def test_tapes_with_functions_agree_with_numpy(text: str) -> None:
    check_tapes(text)


def check_tapes(text: str) -> None:
    u = np.linspace(0.1, 3, 101)
    for tape in (Flux.parse(text).tape, Flux.parse(text).slope_tape):
        assert compiled(tape, u) == pytest.approx(tape.evaluate(u), rel=1e-13, abs=1e-15)


def test_no_instruction_writes_what_it_reads() -> None:
    tape = compile_tape(Flux.parse("sin(u)*cos(u)+exp(sin(u))-u**5/(1+u**2)").root)
    for _, to, a, b in tape.code:
        assert to not in (a, b)
    assert tape.registers < 10


def test_matrix_product_does_not_depend_on_the_batch() -> None:
    rng = np.random.default_rng(0)
    rows, matrix = rng.normal(size=(7, 5, 131)), rng.normal(size=(131, 300))
    whole = carry(rows, matrix)
    assert whole == pytest.approx(rows @ matrix, rel=1e-12, abs=1e-12)
    assert np.array_equal(carry(rows[3, 2], matrix), whole[3, 2])
    assert np.array_equal(carry(rows[:, :1], matrix), whole[:, :1])


def test_kernels_work_where_nothing_can_be_cached(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = numba.njit

    def read_only(**options: object) -> object:
        if options.pop("cache", False):
            raise RuntimeError("cannot cache function: no locator available")
        return plain(**options)

    monkeypatch.setattr(numba, "njit", read_only)
    assert kernels._compiled(lambda x: x + 1)(1) == 2


def test_kernels_are_single_threaded() -> None:
    for name in ("integrate", "run_tape", "matrix_product"):
        assert not getattr(kernels, name).targetoptions.get("parallel", False)


def test_numba_is_loaded_only_to_solve() -> None:
    code = """
import sys
import chop.cli.data
assert not {"numba", "h5py", "matplotlib"} & set(sys.modules)
from chop.problems import conservation, mfc
conservation.CubicStream()
assert "numba" not in sys.modules
conservation.sample("u", 1)
assert "numba" in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)
