"""What CHOP(Air) costs beside the bare network, as ratios within one run, on one thread.

    python benchmarks/air.py [--data DIR] [--queries 24]

Every question has windows that were not seen before, so nothing is remembered from question to question;
the two programs take turns on the same questions. Without data two invented regions of the real size serve.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
import torch

import chop
from chop.icon.stations import sharing as station_sharing
from chop.problems import air

SIZE = (209, 184)
PERIOD, YEAR = ("2022-01-01", "2024-01-01"), ("2024-01-01", "2025-01-01")


def seconds(program: chop.Program, model: object, case: object) -> float:
    station_sharing._remembered.clear()
    begun = time.perf_counter()
    program.run(model, case.prompt, trace=False)
    return time.perf_counter() - begun


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, help="folder with dataset_yrd.nc and stations_yrd.csv")
    parser.add_argument("--queries", type=int, default=24)
    parser.add_argument("--lead", type=int, default=24)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    model = chop.load("air_bthsa")
    period, year, folder = PERIOD, YEAR, asked.data
    with tempfile.TemporaryDirectory() as scratch:
        if folder is None:
            folder, period, year = Path(scratch), ("2023-10-01", "2024-01-01"), ("2024-01-01", "2024-03-01")
            air.make_world(folder, stations=SIZE)
        history = air.prepare(air.load_region(folder, "yrd", channels=model.config.channels), period)
    ends = air.eligible(history, year, asked.lead)
    ends = np.random.default_rng(0).permutation(ends)[: asked.queries]
    cases = [
        air.case(history, part, air.random_examples(history, part, asked.lead, period), asked.lead)
        for part in np.array_split(ends, max(1, len(ends) // 4))
    ]
    raw, chain = chop.parse("icon"), chop.programs["air"]
    spent = np.array([[seconds(program, model, case) for program in (raw, chain)] for case in cases[1:]])
    each = 1000 * np.median(spent, axis=0) / len(cases[1])
    ratio = np.median(spent[:, 1] / spent[:, 0])
    stations = len(history.region.stations)
    print(f"{stations} stations, {len(cases[0].prompt.inputs.values[0])} examples, one thread")
    print(f"Raw       {each[0]:7.1f} ms a question, 1 evaluation")
    print(f"CHOP(Air) {each[1]:7.1f} ms a question, {chain.calls(5)} evaluations: {ratio:.2f} times Raw")
    print(f"a year of hourly questions at one lead on two cores: {8760 * each[1] / 2 / 60_000:.1f} minutes")


if __name__ == "__main__":
    main()
