"""Air quality with a bank: candidates weighed on 2023, asked in 2024, and learning hour by hour.

    python benchmarks/air_bank.py --data DIR --store DIR [--past 256] [--questions 1444] [--direction D]
    python benchmarks/air_bank.py --data DIR --store DIR --report docs/results/bank_air.md

The first command measures: for every question the products of the candidates' errors, from which every
mixture follows. It is resumable, and two of them with different directions use two cores. The second writes
the tables. Past questions: 2023, with examples and normalisation from 2022. Questions: 2024, with those of
2022 and 2023, the very ones of `chop bench air`. Nothing is chosen on 2024.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

import chop
from chop.bench.air_questions import LEADS, RegionSource, YearSplit
from chop.core.text import parse
from chop.numerics.aggregation import Boa, MlPoly, quadratic_regrets
from chop.numerics.past_weights import weights_of_past
from chop.storage.atomic import atomic_path

DIRECTIONS = ("bthsa-yrd", "yrd-bthsa")
SELECTIONS = ("random", "similar")
POLLUTANTS = ("PM2.5", "O3")
CHANNELS = ("hour", "NO2", "PM2.5", "O3")
CANDIDATES = (
    "icon",
    "normalize | icon",
    "normalize(target=1.4) | icon",
    "normalize(target=0.7) | icon",
    "last_frame",
    "first_frame",
    "mean_frame",
    "mean_output",
    "nearest_output",
    "query_mean",
    "ridge",
    "increment | mean_output",
    "increment | ridge",
)
PERSISTENCE = CANDIDATES.index("last_frame")
BATCH = 32
WHOLE = 2**30
"""Prompt data of one call: slices of a prompt are not remembered."""
FOLDS = 6


class PastSplit(YearSplit):
    """Questions of one year with examples from the one before."""

    @property
    def examples(self) -> tuple[str, str]:
        return f"{self.year - 1}-01-01", f"{self.year}-01-01"


SPLITS = {2023: PastSplit(2023), 2024: YearSplit(2024)}


# Measuring.


def measure(data: Path, store: Path, direction: str, year: int, count: int) -> None:
    """The products of all candidates' errors at the first questions of a year, kept batch by batch."""
    network, region = direction.split("-")
    model = chop.load(f"air_{network}")
    index = str(store / f"index{year}")
    source = RegionSource(str(data), region, CHANNELS, SPLITS[year], 6, 0, index)
    hours = source.hours()[:count]
    programs = [parse(text) for text in CANDIDATES]
    for first in range(0, len(hours), BATCH):
        asked = hours[first : first + BATCH]
        begun = time.monotonic()
        missing = [lead for lead in LEADS if not _file(store, year, direction, lead, first).exists()]
        for lead in missing:
            errors, seen, std = [], None, None
            for selection in SELECTIONS:
                case = source.case(asked, selection, lead)
                seen, std = case.mask[..., -2:], torch.tensor(case.meta["std"][-2:], dtype=torch.float64)
                for program in programs:
                    answer = program.run(model, case.prompt, trace=False, max_bytes=WHOLE).values
                    errors.append((answer - case.target)[..., -2:].double())
            assert seen is not None
            assert std is not None
            shown = torch.where(seen, torch.stack(errors), 0) * std
            number = seen.sum(dim=1)
            moments = torch.einsum("knsc,lnsc->nckl", shown, shown) / number.clamp(min=1)[..., None, None]
            moments[number == 0] = torch.nan
            file = _file(store, year, direction, lead, first)
            file.parent.mkdir(parents=True, exist_ok=True)
            with atomic_path(file, chop.ChopError, overwrite=True) as partial, partial.open("wb") as opened:
                np.savez(opened, G=moments.numpy().astype(np.float32), hours=np.array(asked))
        if missing:
            print(f"{year} {direction} {first}: {time.monotonic() - begun:.0f} s", flush=True)


def _file(store: Path, year: int, direction: str, lead: int, first: int) -> Path:
    return store / f"{year}_{direction}_{lead}_{first}.npz"


# What follows from it.


@dataclass(frozen=True)
class Measured:
    """Moments ``(c, Q, K, K)`` in the order of time, where they are known, and the questions' hours."""

    moments: Tensor
    counted: Tensor
    hours: Tensor

    def of(self, chosen: Sequence[int]) -> Measured:
        """Some of the candidates."""
        index = torch.tensor(chosen)
        return Measured(self.moments[..., index, :][..., index], self.counted, self.hours)


def load(store: Path, year: int, direction: str, lead: int, count: int) -> Measured:
    parts = []
    for first in range(0, count, BATCH):
        file = _file(store, year, direction, lead, first)
        if file.exists():
            with np.load(file) as stored:
                parts.append((stored["G"][: count - first], stored["hours"][: count - first]))
    if not parts:
        raise SystemExit(f"nothing was measured yet of {direction} in {year} at {lead} h in {store}")
    moments = torch.from_numpy(np.concatenate([p[0] for p in parts]).astype(np.float64)).transpose(0, 1)
    hours = torch.from_numpy(np.concatenate([p[1] for p in parts]))
    order = hours.argsort()
    moments = moments[:, order]
    counted = torch.isfinite(moments[..., 0, 0])
    return Measured(torch.where(counted[..., None, None], moments, 0), counted, hours[order])


def mean_error(measured: Measured, weights: Tensor) -> Tensor:
    """Mean over questions of root mean squared errors ``(c,)``; weights ``(c, Q, K)`` or ``(c, K)``."""
    if weights.ndim == 2:
        weights = weights.unsqueeze(1).expand(-1, len(measured.hours), -1)
    squares = torch.einsum("cqk,cqkl,cql->cq", weights, measured.moments, weights).clamp(min=0)
    return torch.where(measured.counted, squares.sqrt(), 0).sum(dim=1) / measured.counted.sum(dim=1)


def streamed(measured: Measured, start: Any, lead: int) -> Tensor:
    """The weights ``(c, Q, K)`` that each question is answered with: truth comes ``lead`` h later."""
    unit = torch.where(measured.counted, measured.moments[..., 0, 0], 0).sum(dim=1) / measured.counted.sum(
        dim=1
    )
    state, heard, used = start, 0, []
    for hour in measured.hours:
        while int(measured.hours[heard]) + lead <= int(hour):
            told = torch.where(measured.counted[:, heard, None, None], measured.moments[:, heard], torch.nan)
            state = state.after(quadratic_regrets(told / unit[:, None, None], used[heard]))
            heard += 1
        used.append(state.weights)
    return torch.stack(used, dim=1)


@dataclass(frozen=True)
class Row:
    """Mean errors of one of the 88 conditions, in µg/m³."""

    direction: str
    selection: str
    lead: int
    pollutant: str
    questions: int
    errors: dict[str, float]

    def beside_raw(self, name: str) -> float:
        return self.errors[name] / self.errors["Raw"] - 1


def rows(store: Path, past: int, count: int, published: Path) -> Iterator[Row]:
    """All conditions; the bank's rules are fitted on 2023 alone."""
    known = _published(published)
    own = {s: [i + p * len(CANDIDATES) for i in range(len(CANDIDATES))] for p, s in enumerate(SELECTIONS)}
    for direction in DIRECTIONS:
        for lead in LEADS:
            before, asked = (
                load(store, year, direction, lead, n) for year, n in ((2023, past), (2024, count))
            )
            for selection in SELECTIONS:
                others = own[SELECTIONS[1 - SELECTIONS.index(selection)]]
                sets = {"bank": own[selection], "bank, both selections": [*own[selection], *others]}
                errors: dict[str, Tensor] = {}
                for name, chosen in sets.items():
                    old, new = before.of(chosen), asked.of(chosen)
                    folds = torch.arange(len(old.hours)) * FOLDS // len(old.hours)
                    prior = weights_of_past(old.moments, old.counted, folds).weights
                    errors[name] = mean_error(new, prior)
                    errors[f"{name}, learning"] = mean_error(new, streamed(new, Boa.start(prior), lead))
                new = asked.of(own[selection])
                single = torch.eye(len(CANDIDATES), dtype=torch.float64)
                errors["Raw"] = mean_error(new, single[:1].expand(2, -1))
                errors["persistence"] = mean_error(new, single[PERSISTENCE : PERSISTENCE + 1].expand(2, -1))
                alike = torch.full((2, len(CANDIDATES)), 1 / len(CANDIDATES), dtype=torch.float64)
                errors["BOA from nothing"] = mean_error(new, streamed(new, Boa.start(alike), lead))
                errors["ML-Poly (opera)"] = mean_error(new, streamed(new, MlPoly.start(alike), lead))
                best = torch.stack(
                    [mean_error(new, single[k : k + 1].expand(2, -1)) for k in range(len(CANDIDATES))]
                )
                errors["best candidate of 2024"] = best.amin(dim=0)
                for place, pollutant in enumerate(POLLUTANTS):
                    found = {name: float(values[place]) for name, values in errors.items()}
                    each = known[direction, selection, lead, pollutant]
                    told = [each[int(h)] for h, c in zip(asked.hours, asked.counted[place], strict=True) if c]
                    found["CHOP(Air)"] = float(np.mean([one for one in told if one is not None]))
                    yield Row(direction, selection, lead, pollutant, int(asked.counted[place].sum()), found)


def _published(file: Path) -> dict[tuple[str, str, int, str], dict[int, float | None]]:
    """CHOP(Air)'s errors by question, from the committed benchmark."""
    content = json.loads(file.read_text())
    text = chop.programs["air"]
    found = {}
    for one in content["measured"]:
        if one["method"] == str(text):
            hours = content["hours since 1970 of the questions"][one["direction"]]
            for pollutant in POLLUTANTS:
                key = one["direction"], one["selection"], one["lead"], pollutant
                found[key] = dict(zip(hours, one[pollutant], strict=True))
    return found


# The report.

SHOWN = (
    "CHOP(Air)", "persistence", "bank", "bank, learning", "bank, both selections",
    "bank, both selections, learning", "BOA from nothing", "ML-Poly (opera)", "best candidate of 2024",
)  # fmt: skip


INTRODUCTION = """# Air quality with a bank

`python benchmarks/air_bank.py --data DIR --store DIR`, then `--report docs/results/bank_air.md`; bundled
networks, each carried to the other region, 88 conditions (2 directions, 2 ways to choose examples, 11
leads, 2 pollutants). Root mean squared error over stations, mean over questions, beside that of Raw on the
same questions. Weights of {count} candidates were fitted on {past} questions of 2023 with examples of 2022,
for each direction, selection, lead and pollutant; asked were {least} to {most} questions of 2024 a
condition, spread over the year (the first of the order of `chop bench air`).

- *bank*: those weights, fixed, on the condition's own examples; *both selections*: the bank also shows the
  examples of the other selection, so candidates are twice as many.
- *learning*: the same weights as a prior of BOA, told each truth when it is there, through 2024.
- *BOA from nothing*, *ML-Poly (opera)*: the same candidates without a prior; ML-Poly is what the R package
  opera does by default. *best candidate of 2024*: the best single one in hindsight.
"""
TABLE = (
    "| rule | below Raw | worse by more than 0.3 % | mean | worst | best |",
    "|---|---|---|---|---|---|",
)


def report(found: Sequence[Row], past: int) -> str:
    least, most = min(row.questions for row in found), max(row.questions for row in found)
    lines = [INTRODUCTION.format(count=len(CANDIDATES), past=past, least=least, most=most), *TABLE]
    for name in SHOWN:
        change = np.array([row.beside_raw(name) for row in found])
        lines.append(
            f"| {name} | {int((change < 0).sum())} of {len(found)} | {int((change > 0.003).sum())} | "
            f"{100 * change.mean():+.2f} % | {100 * change.max():+.2f} % | {100 * change.min():+.2f} % |"
        )
    lines += ["", "![Change of the error by lead](bank_air.png)", "", "## Condition by condition", ""]
    names = (
        "CHOP(Air)",
        "bank",
        "bank, learning",
        "bank, both selections",
        "bank, both selections, learning",
    )
    lines += [
        "|  | examples |  | lead (h) | n | Raw | " + " | ".join(names) + " |",
        "|" + "---|" * (6 + len(names)),
    ]
    for row in found:
        change = " | ".join(f"{100 * row.beside_raw(name):+.1f} %" for name in names)
        lines.append(
            f"| {row.direction} | {row.selection} | {row.pollutant} | {row.lead} | {row.questions} | "
            f"{row.errors['Raw']:.2f} | {change} |"
        )
    return "\n".join(lines) + "\n"


def draw(found: Sequence[Row], path: Path) -> None:
    """Change of the mean error against Raw by lead, a panel for each direction and pollutant."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot as plt

    lines = (
        ("CHOP(Air)", "random", "#999999", "o:"), ("CHOP(Air)", "similar", "#999999", "o-"),
        ("bank", "random", "#0072b2", "s:"), ("bank", "similar", "#0072b2", "s-"),
        ("bank, both selections", "random", "#d55e00", "^:"),
        ("bank, both selections", "similar", "#d55e00", "^-"),
    )  # fmt: skip
    figure, panels = plt.subplots(2, 2, figsize=(9, 6), sharex=True, sharey=True, layout="constrained")
    for row, direction in zip(panels, DIRECTIONS, strict=True):
        for panel, pollutant in zip(row, POLLUTANTS, strict=True):
            for name, selection, colour, style in lines:
                wanted = direction, selection, pollutant
                own = [r for r in found if (r.direction, r.selection, r.pollutant) == wanted]
                change = [100 * r.beside_raw(name) for r in own]
                label = f"{name}; {selection} examples"
                panel.plot([r.lead for r in own], change, style, color=colour, label=label, ms=4, lw=1.2)
            panel.axhline(0, color="black", lw=0.8)
            panel.set_xscale("log")
            panel.set_xticks(LEADS, [str(lead) for lead in LEADS], fontsize=7)
            panel.minorticks_off()
            network, region = direction.upper().split("-")
            panel.set_title(f"{network} network in {region}: {pollutant}", fontsize=9)
    for panel in panels[:, 0]:
        panel.set_ylabel("error beside Raw (%)")
    for panel in panels[1]:
        panel.set_xlabel("lead (h)")
    figure.legend(*panels[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=3, fontsize=8)
    figure.savefig(path, dpi=90)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--store", type=Path, required=True)
    parser.add_argument("--past", type=int, default=256)
    parser.add_argument("--questions", type=int, default=10_000)
    parser.add_argument("--direction", choices=DIRECTIONS, action="append")
    parser.add_argument("--published", type=Path, default=Path("docs/results/air/results.json"))
    parser.add_argument("--report", type=Path)
    given = parser.parse_args()
    torch.set_num_threads(1)
    if given.report is None:
        for direction in given.direction or DIRECTIONS:
            measure(given.data, given.store, direction, 2023, given.past)
            measure(given.data, given.store, direction, 2024, given.questions)
        return
    found = sorted(
        rows(given.store, given.past, given.questions, given.published),
        key=lambda row: (row.direction, row.selection, row.pollutant == "O3", row.lead),
    )
    given.report.write_text(report(found, given.past))
    draw(found, given.report.with_suffix(".png"))


if __name__ == "__main__":
    main()
