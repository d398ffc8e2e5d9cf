"""Bands and trust measured: how often the truth lies inside, how wide that is, and whether doubt is right.

    python benchmarks/trust.py [--n 60] [--calibration 200] [--out docs/results/trust.md] [--raw numbers.json]

Test questions; everything was chosen on the evolution split. Calibration questions have another seed. With
``--raw`` the numbers are kept in a file, and read from it where it exists.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import chop
from chop.bench.functions import (
    CONDITIONS,
    FLUXES,
    HOME_FLUX,
    HOME_LENGTH,
    LENGTHS,
    control_of,
    single_step_of,
)
from chop.bench.functions import FAMILIES as CONTROLS
from chop.bench.suite import Condition
from chop.core import metrics
from chop.core.bands import band_of
from chop.core.conformal import ConformalScores
from chop.core.error_scale import AnsweredPrompt
from chop.core.trust import trust_in
from chop.problems import conservation, mfc
from chop.problems.case import Case

LEVELS = (0.8, 0.9, 0.95)
TOLERANCES = (0.02, 0.05, 0.1)
STEPS = (1, 12, 48, 144)
BATCH = 25
TEST_SEED, CALIBRATION_SEED = 0, 1000
CALIBRATED = (*map(single_step_of, FLUXES), *(control_of(family, 0.3) for family in CONTROLS))
"""Conditions with a calibration set: the others would take as long again and say the same."""
ROLLED, ROLLOUTS = "sin_cos", (30, 20)
"""The flux of the forecasts, and how many calibrate and test."""


@dataclass(frozen=True, eq=False)
class Asked:
    """Questions of one condition, answered."""

    answers: list[AnsweredPrompt]
    truth: Tensor


def questions(condition: Condition, n: int, seed: int, split: str, steps: int = 1) -> Case:
    options: dict[str, Any] = dict(condition.settings) | {"n": n, "seed": seed, "split": split}
    if condition.problem == "mfc":
        return mfc.sample(**options)
    return conservation.sample(**options, steps=steps)


def ask(text: str, model: Any, case: Case, validate: bool = False) -> Asked:
    program = chop.parse(text)
    parts = [case[i : i + BATCH] for i in range(0, len(case), BATCH)]
    results = [program.run(model, part.prompt, trace=False, validate=validate) for part in parts]
    return Asked([result.answered for result in results], case.target)


def covered(asked: Asked, scores: ConformalScores | None) -> dict[str, Any]:
    """Shares of points, and of whole answers, inside; mean half-widths beside the truth's deviation."""
    size = asked.truth.double().std(dim=(-1, -2))
    found: dict[str, Any] = {"points": [], "answers": [], "width": [], "width_all": []}
    for level in LEVELS:
        for name, wide, whole in (("points", "width", False), ("answers", "width_all", True)):
            bands = [band_of(part, level, whole, scores) for part in asked.answers]
            inside = torch.cat([band.lower for band in bands]) <= asked.truth
            inside &= asked.truth <= torch.cat([band.upper for band in bands])
            each = inside.flatten(1)
            share = each.all(dim=1).double() if whole else each.double().mean(dim=1)
            width = torch.cat([band.half_width for band in bands]).double().mean(dim=(-1, -2)) / size
            found[name].append(float(share.mean()))
            found[wide].append(float(width.median()))
    return found


def separation(good: Tensor, chance: Tensor) -> float | None:
    """The area under the curve: how often a good answer has the larger probability than a bad one."""
    one, other = chance[good].double(), chance[~good].double()
    if not len(one) or not len(other):
        return None
    wins = (one[:, None] > other).double() + 0.5 * (one[:, None] == other)
    return float(wins.mean())


def trusted(asked: Sequence[Asked]) -> list[dict[str, Any]]:
    errors = torch.cat([metrics.rel_l2(torch.cat([p.values for p in a.answers]), a.truth) for a in asked])
    rows = []
    for tolerance in TOLERANCES:
        chance = torch.cat([trust_in(part, tolerance).probability for one in asked for part in one.answers])
        good = errors <= tolerance
        rows.append(
            {
                "tolerance": tolerance,
                "questions": len(errors),
                "bad": int((~good).sum()),
                "good_share": float(good.double().mean()),
                "mean_probability": float(chance.double().mean()),
                "area": separation(good, chance),
            }
        )
    return rows


def forecast(model: Any, split: str, counts: Sequence[int]) -> list[dict[str, Any]]:
    """Rollouts: at each step a band from the errors that rollouts of calibration questions have there.

    The scale is what the first step's errors at the examples say, as far as the calibration finds it useful.
    """
    condition, last = CONDITIONS[single_step_of(ROLLED)], STEPS[-1]
    runs = []
    for n, seed in zip(counts, (CALIBRATION_SEED, TEST_SEED), strict=True):
        case = questions(condition, n, seed, split, last)
        first = chop.parse(f"auto(ahead={last})").run(model, case.prompt, trace=False)
        runs.append((case, first, chop.rollout("auto", model, case.prompt, last).values))
    rows = []
    for step in STEPS:
        at = [
            Asked(
                [
                    AnsweredPrompt(
                        case.prompt, values[:, step - 1], first.rejected, first.held_out, first.spread
                    )
                ],
                frames[:, -last + step - 1, :, None],
            )
            for case, first, values in runs
            if (frames := case.trajectory) is not None
        ]
        scores = ConformalScores.of(at[0].answers, at[0].truth)
        errors = metrics.rel_l2(at[1].answers[0].values, at[1].truth)
        rows.append({"step": step, "error": float(errors.mean()), **covered(at[1], scores)})
    return rows


def measure(n: int, calibration: int, split: str, rollouts: Sequence[int]) -> dict[str, Any]:
    networks = {name: chop.load(name) for name in ("conservation", "mfc")}
    foreign = [*map(single_step_of, FLUXES), *(control_of(f, length) for length in LENGTHS for f in CONTROLS)]
    home = [single_step_of(HOME_FLUX), *(control_of(family, HOME_LENGTH) for family in CONTROLS)]
    alone, with_scores, bare, every = [], [], [], []
    for name in (*foreign, *home):
        condition = CONDITIONS[name]
        model, begun = networks[condition.problem], time.perf_counter()
        case = questions(condition, n, TEST_SEED, split)
        asked = ask("auto", model, case)
        every.append(asked)
        bare.append(ask("icon", model, case, validate=True))
        row = {"condition": condition.label, "home": name in home, **covered(asked, None)}
        alone.append(row)
        if name in CALIBRATED:
            known = ask("auto", model, questions(condition, calibration, CALIBRATION_SEED, split))
            scores = ConformalScores.of(known.answers, known.truth)
            told = {"condition": condition.label, "power": scores.power, **covered(asked, scores)}
            with_scores.append(told)
        print(
            f"{name}: {row['points'][1]:.3f} {row['answers'][1]:.2f}, {time.perf_counter() - begun:.0f} s",
            flush=True,
        )
    return {
        "n": n,
        "calibration": calibration,
        "alone": alone,
        "calibrated": with_scores,
        "trust": {"auto": trusted(every), "icon": trusted(bare)},
        "rollout": forecast(networks["conservation"], split, rollouts),
        "rollouts": list(rollouts),
    }


def _percent(values: Sequence[float]) -> str:
    return " / ".join(f"{100 * value:.0f}" for value in values)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    yield "| " + " | ".join(head) + " |"
    yield "|" + "---|" * len(head)
    yield from ("| " + " | ".join(row) + " |" for row in rows)


def _coverage(row: dict[str, Any]) -> list[str]:
    return [
        _percent(row["points"]),
        f"{row['width'][1]:.2g}",
        _percent(row["answers"]),
        f"{row['width_all'][1]:.2g}",
    ]


def _mean(label: str, rows: Sequence[dict[str, Any]]) -> list[str]:
    def means(name: str) -> list[float]:
        return [sum(row[name][i] for row in rows) / len(rows) for i in range(len(LEVELS))]

    return [f"**{label}**", _percent(means("points")), "", _percent(means("answers")), ""]


_HEAD = ("points inside, %", "half-width", "whole answers inside, %", "half-width")


def _misses(rows: Sequence[dict[str, Any]], allowed: float) -> str:
    """The cells that are further from what they say than is allowed, in words."""
    found = [
        f"{row['condition']}: {100 * share:.0f} % of {what} at {100 * level:g} %"
        for row in rows
        for name, what in (("points", "points"), ("answers", "whole answers"))
        for level, share in zip(LEVELS, row[name], strict=True)
        if abs(share - level) > allowed
    ]
    cells = 2 * len(LEVELS) * len(rows)
    words = f"{len(found)} of {cells} numbers are off by more than {100 * allowed:g} points"
    return f"{words}: {'; '.join(found)}." if found else f"{words}."


def report(found: dict[str, Any]) -> str:
    """The page."""
    away = [row for row in found["alone"] if not row["home"]]
    home = [row for row in found["alone"] if row["home"]]
    lines = [
        "# Bands and trust",
        "",
        f"Made by `python benchmarks/trust.py`: program `auto`, {found['n']} test questions of each "
        "condition, everything chosen on other questions. Three numbers in a cell are for bands of 80, 90 "
        "and 95 %. Half-widths are those of the 90 % band: the median over questions of the mean over "
        "points, beside the standard deviation of the truth. By chance alone the share of "
        f"{found['n']} whole answers is off by {100 * (0.09 / found['n']) ** 0.5:.0f} points at 90 %.",
        "",
        "## From five examples alone",
        "",
        "`result.band(level)` and `result.band(level, simultaneous=True)`: from the errors at the examples, "
        "without any other question.",
        "",
        *_table(
            ("condition", *_HEAD),
            [[row["condition"], *_coverage(row)] for row in away]
            + [_mean("mean, unseen operators", away)]
            + [[row["condition"], *_coverage(row)] for row in home]
            + [_mean("mean, at home", home)],
        ),
        "",
        _misses(found["alone"], 0.07),
        "",
        f"## With {found['calibration']} calibration questions",
        "",
        "`result.calibrated(scores)`: questions of the same condition with another seed. The scale of a "
        "band is the question's own predicted error to the power that the calibration found best; power 0 "
        "is one scale for all.",
        "",
        *_table(
            ("condition", *_HEAD, "power"),
            [[row["condition"], *_coverage(row), f"{row['power']:g}"] for row in found["calibrated"]]
            + [[*_mean("mean", found["calibrated"]), ""]],
        ),
        "",
        "By chance the calibration and the test questions alone let whole answers be off by "
        f"{100 * (0.16 / found['n'] + 0.16 / found['calibration']) ** 0.5:.0f} points at 80 %.",
        _misses(found["calibrated"], 0.03),
        "",
        "## Forecasts of 144 steps",
        "",
        f"Flux {FLUXES[ROLLED]}: {found['rollouts'][0]} rollouts calibrate each step by itself, "
        f"{found['rollouts'][1]} others test it.",
        "",
        *_table(
            ("step", "mean relative error", *_HEAD),
            [[str(row["step"]), f"{row['error']:.2g}", *_coverage(row)] for row in found["rollout"]],
        ),
        "",
        "## Trust",
        "",
        "`result.trust(tolerance)` on all questions above together, at home and away: the area under the "
        "curve that separates errors above the tolerance from those below (1/2 is chance), and how well the "
        "probabilities are calibrated. `icon` is the bare model run with `validate=True`, which errs more "
        "often.",
        "",
        *_table(
            ("program", "tolerance", "questions", "errors above", "within, %", "mean probability, %", "area"),
            [
                [
                    name, f"{row['tolerance']:g}", str(row["questions"]), str(row["bad"]),
                    f"{100 * row['good_share']:.1f}", f"{100 * row['mean_probability']:.1f}",
                    "" if row["area"] is None else f"{row['area']:.3f}",
                ]
                for name, rows in found["trust"].items()
                for row in rows
            ],
        ),
        "",
    ]  # fmt: skip
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--n", type=int, default=60)
    parser.add_argument("--calibration", type=int, default=200)
    parser.add_argument("--rollouts", type=int, nargs=2, default=ROLLOUTS)
    parser.add_argument("--split", default="test")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--raw", type=Path)
    given = parser.parse_args()
    torch.set_num_threads(1)
    if given.raw is not None and given.raw.exists():
        found = json.loads(given.raw.read_text(encoding="utf-8"))
    else:
        found = measure(given.n, given.calibration, given.split, given.rollouts)
        if given.raw is not None:
            given.raw.write_text(json.dumps(found), encoding="utf-8")
    page = report(found)
    if given.out is not None:
        given.out.write_text(page, encoding="utf-8")
    print(page)


if __name__ == "__main__":
    main()
