"""`auto` taken apart: error against budget, its rule beside others, what each part adds, what it costs.

    python benchmarks/auto.py [--n 40] [--out docs/results/auto.md]

Test questions; nothing is chosen here. Mean relative L2 errors; the price is the ratio of times in one run.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import chop
from chop.core import metrics
from chop.core.independence import averaged_together
from chop.core.model import MAX_BYTES, Caller
from chop.core.program import Program
from chop.core.tasks import Request, Steps, schedule
from chop.operators.auto.looking import look
from chop.operators.auto.program import explore
from chop.operators.auto.proposing import Exploration, RouteProposal
from chop.operators.auto.routes import BARE, CORRECTED, FRAME, SCALES, Route
from chop.operators.auto.trials import Candidates, QuestionRows
from chop.operators.evidence import cautious_weights, evidence_weights, judge
from chop.operators.mixtures import Combine
from chop.problems import conservation, mfc
from chop.problems.case import Case

BUDGETS = (6, 12, 24, 48, 96, 192)
FLUXES = ("sin_cos", "tanh", "buckley_leverett")
UNSEEN_FLUXES = ("log(1+u**2)", "sin(3*u)/3", "u**4/4", "exp(-u)")
"""Looked at here for the first time."""
CONTROLS = (("g_1to1", 0.3), ("g_1to2", 0.3), ("g_2to2", 0.3), ("rho_1to1", 0.3), ("rho_1to2", 0.3))
UNSEEN_LENGTHS = (("g_1to1", 0.2), ("g_2to2", 0.7), ("rho_1to1", 0.2), ("rho_1to2", 0.7))
LEFT_OUT = (
    ("moving_frame",),
    ("rescale",),
    ("views",),
    ("krige",),
    ("conserve_mean", "nonnegative", "unit_mass"),
)
BATCH = 25


@dataclass(frozen=True)
class Asked:
    """QuestionRows of one condition and the network that answers."""

    name: str
    case: Case
    model: Any

    def parts(self) -> list[Case]:
        return [self.case[i : i + BATCH] for i in range(0, len(self.case), BATCH)]

    def error(self, text: str) -> Tensor:
        program = chop.parse(text)
        found = [(part, program.run(self.model, part.prompt, trace=False)) for part in self.parts()]
        return torch.cat([metrics.rel_l2(result.values, part.target) for part, result in found])

    def seconds(self, text: str) -> float:
        """Best of three, on copies: what was made of examples is not found again."""
        program, times = chop.parse(text), []
        for _ in range(3):
            prompt = self.parts()[0].prompt._each(torch.clone)
            begun = time.perf_counter()
            program.run(self.model, prompt, trace=False)
            times.append(time.perf_counter() - begun)
        return min(times)


@dataclass(frozen=True, eq=False)
class Explored(Request):
    """The candidates that a way of proposing comes to, without weighing them."""

    questions: QuestionRows
    progress: tuple[Any, ...]

    def steps(self) -> Steps:
        return (yield from explore(self.questions, self.progress))


@dataclass
class FixedList:
    """The same budget without looking at evidence: routes in a fixed order, corrected, then views of none."""

    routes: list[Route]
    logs: dict[tuple[Route, Program], float] = field(default_factory=dict)

    def propose(self) -> RouteProposal | None:
        return RouteProposal(self.routes.pop(0), 0, (BARE, CORRECTED)) if self.routes else None


def candidates(asked: Asked, part: Case, fixed: bool) -> list[Candidates]:
    """What is weighed for each question, leaves aside."""
    prompt = part.prompt
    price = prompt.examples + 1
    possible = look(prompt, frozenset(), False, False)
    progress: list[Any] = []
    for one in possible:
        if fixed:
            frames: list[Route] = [(), (FRAME,)] if one.frame else [()]
            every = frames + [(*frame, scale) for scale in SCALES for frame in frames]
            progress.append(FixedList(every[:4]))
        else:
            progress.append(Exploration(one, 24, price, 0, True))
    request = Explored(QuestionRows(prompt), tuple(progress))
    with torch.inference_mode():
        record = schedule([request], Caller(asked.model, prompt, MAX_BYTES))
    found: list[Candidates] = record.results[request]
    return found


Rule = Callable[[chop.Prompt, list[Tensor], list[Tensor]], Tensor]


def _weighed(prompt: chop.Prompt, values: list[Tensor], held_out: list[Tensor]) -> Tensor:
    logs, counted = judge(prompt.outputs, values, held_out)
    return _mix(values, cautious_weights(logs, counted, averaged_together(prompt), 4.0).weights)


def _log_evidence(prompt: chop.Prompt, values: list[Tensor], held_out: list[Tensor]) -> Tensor:
    logs, counted = judge(prompt.outputs, values, held_out)
    return _mix(values, evidence_weights(logs, counted, 4.0)[0])


def _select(prompt: chop.Prompt, values: list[Tensor], held_out: list[Tensor]) -> Tensor:
    errors = [(part - prompt.outputs.values).square().mean() for part in held_out]
    return values[int(torch.stack(errors).argmin())]


def _combine(prompt: chop.Prompt, values: list[Tensor], held_out: list[Tensor]) -> Tensor:
    return Combine((BARE,) * len(values), pad=True).decide(prompt, values, held_out).values


def _average(prompt: chop.Prompt, values: list[Tensor], held_out: list[Tensor]) -> Tensor:
    return torch.stack(values).mean(dim=0)


def _greedy(prompt: chop.Prompt, values: list[Tensor], held_out: list[Tensor]) -> Tensor:
    """Ensemble selection with replacement (Caruana; AutoGluon's way), 25 rounds on the squared error."""
    chosen: list[int] = []
    total = torch.zeros_like(held_out[0])
    for size in range(1, 26):
        errors = [((total + part) / size - prompt.outputs.values).square().mean() for part in held_out]
        best = int(torch.stack(errors).argmin())
        chosen.append(best)
        total = total + held_out[best]
    return torch.stack([values[k] for k in chosen]).mean(dim=0)


def _mix(values: list[Tensor], weights: Tensor) -> Tensor:
    return sum(w * v for w, v in zip(weights.unbind(-1), values, strict=True)).to(values[0].dtype)  # type: ignore[union-attr]


RULES: dict[str, Rule] = {
    "auto's": _weighed, "log evidence alone": _log_evidence, "select": _select, "combine": _combine,
    "plain mean": _average, "greedy ensemble": _greedy,
}  # fmt: skip


def by_rule(asked: Asked, fixed: bool = False) -> dict[str, float]:
    """Mean errors of each rule on the same candidates, without projections."""
    errors: dict[str, list[Tensor]] = {name: [] for name in RULES}
    for part in asked.parts():
        for row, own in enumerate(candidates(asked, part, fixed)):
            prompt, target = part.prompt[row], part.target[row]
            values = [trial.values for trial in own.values()]
            held_out = [trial.held_out for trial in own.values()]
            for name, rule in RULES.items():
                errors[name].append(metrics.rel_l2(rule(prompt, values, held_out), target))
    return {name: float(torch.stack(each).mean()) for name, each in errors.items()}


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)]) + "\n"


def draw(curves: dict[str, list[float]], path: Path) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 4), layout="constrained")
    axes: Any = figure.subplots(1, 2)
    for name, errors in curves.items():
        ax = axes[0] if "→" not in name else axes[1]
        ax.plot((1, *BUDGETS), errors, marker="o", label=name)
    for ax, title in zip(
        axes, ("conservation laws, only the model", "mean-field control, ℓ = 0.3"), strict=True
    ):
        ax.set(
            xscale="log",
            yscale="log",
            xlabel="model evaluations",
            ylabel="mean relative L2 error",
            title=title,
        )
        ax.legend(fontsize=8)
    figure.savefig(path, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, default=40)
    parser.add_argument("--out", type=Path, default=Path("docs/results/auto.md"))
    given = parser.parse_args()
    torch.set_num_threads(1)
    networks = {name: chop.load(name) for name in ("conservation", "mfc")}
    words = {
        "g_1to1": "ρ₀→ρ₁",
        "g_1to2": "ρ₀→ρ(t)",
        "g_2to2": "ρ(t)→ρ(t)",
        "rho_1to1": "g→ρ₁",
        "rho_1to2": "g→ρ(t)",
    }

    def waves(flux: str) -> Asked:
        return Asked(flux, conservation.sample(flux, given.n, seed=1), networks["conservation"])

    def control(family: str, length: float) -> Asked:
        case = mfc.sample(family, length, given.n, seed=1)
        return Asked(f"{words[family]}, ℓ = {length:g}", case, networks["mfc"])

    known = [waves(flux) for flux in FLUXES] + [control(*each) for each in CONTROLS]
    unseen = [waves(flux) for flux in UNSEEN_FLUXES] + [control(*each) for each in UNSEEN_LENGTHS]
    parts = [
        f"# `auto` taken apart\n\n`python benchmarks/auto.py --n {given.n}`: test questions of seed 1.\n"
    ]

    curves = {
        a.name: [float(a.error(f"auto(budget={b}, leaves=False)").mean()) for b in (1, *BUDGETS)]
        for a in known
    }
    rows = [[name, *(f"{e:.4f}" for e in errors)] for name, errors in curves.items()]
    parts += [
        "## Error against budget\n\nOnly programs that call the model.\n",
        table(("", "1", *map(str, BUDGETS)), rows),
    ]
    parts.append("![Error against budget](figures/auto_budget.png)\n")
    draw(curves, given.out.parent / "figures" / "auto_budget.png")
    print(parts[-2], flush=True)

    rows = []
    for asked in known:
        fixed = by_rule(asked, fixed=True)["auto's"]
        rows.append([asked.name, *(f"{e:.4f}" for e in by_rule(asked).values()), f"{fixed:.4f}"])
    text = (
        "The candidates of `auto(leaves=False)`, without projections. The last column: the same number of "
        "evaluations on a fixed list (frames, then scales), under auto's rule."
    )
    parts += [
        f"## The rule beside others, and adaptive beside fixed\n\n{text}\n",
        table(("", *RULES, "fixed list"), rows),
    ]
    print(parts[-1], flush=True)

    rows = []
    for asked in known:
        cells = [f"{float(asked.error('auto(leaves=False)').mean()):.4f}"]
        for names in LEFT_OUT:
            listed = ", ".join(f'"{name}"' for name in names) + ("," if len(names) == 1 else "")
            cells.append(f"{float(asked.error(f'auto(leaves=False, without=({listed}))').mean()):.4f}")
        rows.append([asked.name, *cells, f"{float(asked.error('auto').mean()):.5f}"])
    head = (
        "",
        "all",
        *("without " + ("projections" if len(names) > 1 else names[0]) for names in LEFT_OUT),
        "with leaves",
    )
    parts += ["## Each family left out\n", table(head, rows)]
    print(parts[-1], flush=True)

    rows = []
    for asked in unseen:
        raw = asked.error("icon")
        cells = [f"{float(raw.mean()):.4f}"]
        for text in ("auto(leaves=False)", "auto"):
            error = asked.error(text)
            cells += [
                f"{float(error.mean()):.5f}",
                f"{100 * float((error > 1.1 * raw).double().mean()):.0f} %",
            ]
        rows.append([asked.name, *cells])
    head = ("", "Raw", "auto, only the model", "10 % worse than Raw", "auto", "10 % worse than Raw")
    parts += ["## Fluxes and lengths that were not looked at while it was built\n", table(head, rows)]
    print(parts[-1], flush=True)

    rows = []
    for asked in known:
        raw, model_only, both = (asked.seconds(text) for text in ("icon", "auto(leaves=False)", "auto"))
        count = min(BATCH, given.n)
        rows.append([asked.name, f"{1000 * raw / count:.1f}", f"{model_only / raw:.1f}", f"{both / raw:.1f}"])
    head = ("", "Raw, ms a question", "auto(leaves=False), times Raw", "auto, times Raw")
    parts += ["## Price\n\nOne thread, one batch, best of three, everything included.\n", table(head, rows)]
    print(parts[-1], flush=True)
    given.out.write_text("\n".join(parts))


if __name__ == "__main__":
    main()
