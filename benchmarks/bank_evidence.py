"""What a bank of 200 pairs of one operator adds: examples by likeness, evidence and bands of the past.

    python benchmarks/bank_evidence.py [--n 40] [--data DIR] [--out docs/results/bank_evidence.md]

Test questions; nothing is chosen here. Mean relative L2 errors. With ``--data`` also stations: a bank of 2022
and 2023, questions of 2024, bands from past questions.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

import chop
from chop.bank.calibration import Calibration
from chop.bank.stations import station_bank
from chop.core import metrics
from chop.core.program import Result
from chop.core.prompt import Field
from chop.problems import air, conservation, mfc

FLUXES = {"sin u − cos u": "sin_cos", "tanh u": "tanh", "u²/(u²+(1−u)²)": "buckley_leverett"}
CONTROLS = (("g_1to1", 0.3), ("g_2to2", 0.3), ("rho_1to1", 0.3), ("rho_1to2", 0.3))
OPERATORS = 3
"""Operators of each family: each has a bank of its own."""
PAIRS = 200
PAST = 100
LEVELS = (0.8, 0.9, 0.95)
STATION_PROGRAM = (
    "average(icon, normalize | icon, last_frame, first_frame, mean_frame, mean_output, nearest_output, "
    "query_mean, ridge, increment | mean_output)"
)


INTRODUCTION = """# What a bank of one operator adds

`python benchmarks/bank_evidence.py --n {n} --data DIR`; bundled networks, test seeds, mean relative L2
errors. A bank of {pairs} pairs of one operator (of {operators} operators of each mean-field-control family
in turn), other questions about the same. *random*, *similar*: which five pairs are shown. *with evidence*:
similar examples, and candidates weighed on {past} past questions of the bank (`bank.calibrate`) beside each
question's own examples. The last columns: bands of 80, 90 and 95 % of `auto` with evidence, from past
questions.
"""
STATIONS = """
## Stations

A bank of 2022 and 2023 (`chop.bank.stations.station_bank`), calibrated on 200 of its own questions without
their examples (`examples=False`), similar examples; 96 questions of 2024 a row. Bands of 80, 90 and 95 %,
points of the two pollutants, whole answers of all four channels.
"""


@dataclass(frozen=True)
class OneOperator:
    """A bank of pairs of one operator, and other questions about it."""

    name: str
    bank: chop.Bank
    queries: Field
    truth: Tensor
    model: Any


def operators(count: int) -> Iterator[OneOperator]:
    network = chop.load("conservation")
    for name, flux in FLUXES.items():
        case = conservation.sample(flux, PAIRS + count, seed=3, steps=1)
        x = case.prompt.query
        bank = chop.Bank(
            x.values[:PAIRS, :, 0],
            case.target[:PAIRS, :, 0],
            coords=x.coords[0, :, 0],
            axes=chop.Axis("x", 1.0),
        )
        yield OneOperator(name, bank, _cut(x, PAIRS), case.target[PAIRS:], network)
    network = chop.load("mfc")
    for family, length in CONTROLS:
        for operator in range(OPERATORS):
            each = max(8, count // OPERATORS)
            case = mfc.sample(family, length, 1, first=operator, seed=3, examples=PAIRS + each)
            prompt = case.prompt
            inputs, outputs = (part.each(lambda t: t[0]) for part in (prompt.inputs, prompt.outputs))
            pairs = chop.bank.Pairs(
                inputs.each(lambda t: t[:PAIRS]), outputs.each(lambda t: t[:PAIRS]), axes=prompt.axes
            )
            yield OneOperator(
                f"{family}, ℓ = {length}",
                chop.Bank.of(pairs),
                _cut(inputs, PAIRS),
                outputs.values[PAIRS:],
                network,
            )


def _cut(part: Field, first: int) -> Field:
    return part.each(lambda tensor: tensor[first:])


def functions(count: int) -> list[str]:
    columns = ("icon", "auto(leaves=false)", "auto")
    programs = {"icon": "icon", "auto(leaves=false)": "auto(leaves=False)", "auto": "auto"}
    found: dict[str, dict[str, list[float]]] = {}
    for one in operators(count):
        row = found.setdefault(one.name, {})
        for by in ("random", "similar"):
            prompt = one.bank.prompts(one.queries, by=by)
            for name in columns:
                result = chop.parse(programs[name]).run(one.model, prompt, trace=False)
                row.setdefault(f"{name}, {by}", []).append(_error(result.values, one.truth))
        calibrations: dict[str, Calibration] = {}
        for name in columns[1:]:
            begun = time.monotonic()
            calibrations[name] = one.bank.calibrate(programs[name], one.model, questions=PAST)
            result = calibrations[name].run(one.model, prompt, trace=False)
            row.setdefault(f"{name}, evidence", []).append(_error(result.values, one.truth))
            print(one.name, name, f"{time.monotonic() - begun:.0f} s", calibrations[name].program, flush=True)
        for level in LEVELS:
            band = result.band(level)
            whole = result.band(level, simultaneous=True).covers(one.truth).flatten(1).all(dim=1)
            row.setdefault(f"points {level}", []).append(float(band.covers(one.truth).double().mean()))
            row.setdefault(f"whole {level}", []).append(float(whole.double().mean()))
    lines = [
        "| operator | Raw: random | similar | auto without leaves: random | similar | with evidence | "
        "auto: random | similar | with evidence | points inside, % | whole answers inside, % |",
        "|" + "---|" * 11,
    ]
    for name, row in found.items():
        mean = {key: float(np.mean(values)) for key, values in row.items()}
        errors = [mean["icon, random"], mean["icon, similar"]]
        for column in columns[1:]:
            errors += [mean[f"{column}, {way}"] for way in ("random", "similar", "evidence")]
        inside = [
            " / ".join(f"{100 * mean[f'{kind} {level}']:.0f}" for level in LEVELS)
            for kind in ("points", "whole")
        ]
        lines.append(
            f"| {name} | " + " | ".join(f"{e:.4f}" for e in errors) + f" | {inside[0]} | {inside[1]} |"
        )
    return lines


def _error(values: Tensor, truth: Tensor) -> float:
    return float(metrics.rel_l2(values, truth).mean())


def stations(data: Path, count: int) -> list[str]:
    """Bands of the calibrated mixture at stations, from past questions alone."""
    lines = [
        "| network → region | lead (h) | error beside Raw, PM2.5 and O3 | points inside, % | "
        "whole answers inside, % |",
        "|---|---|---|---|---|",
    ]
    for network, region in (("bthsa", "yrd"), ("yrd", "bthsa")):
        model = chop.load(f"air_{network}")
        history = air.load_history(data, region, ("hour", "NO2", "PM2.5", "O3"), ("2022-01-01", "2024-01-01"))
        for lead in (6, 24, 72):
            bank = station_bank(history, lead, ("2022-01-01", "2024-01-01"))
            found = bank.calibrate(STATION_PROGRAM, model, questions=200, examples=False)
            case = air.sample(history, count, lead=lead, selection="similar", seed=1)
            raw = chop.parse("icon").run(model, case.prompt, trace=False)
            result = found.run(model, case.prompt, trace=False)
            before, after = (air.rmse(one.values, case).nanmean(dim=0) for one in (raw, result))
            change = " / ".join(f"{100 * float(c):+.1f} %" for c in after / before - 1)
            lines.append(f"| {network} → {region} | {lead} | {change} | {_inside(result, case)} |")
            print(lines[-1], flush=True)
    return lines


def _inside(result: Result, case: Any) -> str:
    """Coverage of what was observed: of the pollutants' points, and of whole answers in all channels."""
    seen, cells = case.mask, []
    for simultaneous in (False, True):
        shares = []
        for level in LEVELS:
            inside = result.band(level, simultaneous).covers(case.target) | ~seen
            told = inside.flatten(1).all(dim=1) if simultaneous else inside[..., -2:][seen[..., -2:]]
            shares.append(100 * float(told.double().mean()))
        cells.append(" / ".join(f"{share:.0f}" for share in shares))
    return " | ".join(cells)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--n", type=int, default=40)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    torch.set_num_threads(1)
    lines = [
        INTRODUCTION.format(n=given.n, pairs=PAIRS, operators=OPERATORS, past=PAST),
        *functions(given.n),
    ]
    if given.data is not None:
        lines += [STATIONS, *stations(given.data, 96)]
    text = "\n".join(lines) + "\n"
    print(text)
    if given.out is not None:
        given.out.write_text(text)


if __name__ == "__main__":
    main()
