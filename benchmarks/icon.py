"""How good and how fast the bundled networks are.

    python benchmarks/icon.py                 all tables, printed
    python benchmarks/icon.py errors speed    some of them
    python benchmarks/icon.py --write         all, and written into docs/icon.md and the model cards

``--conservation`` and ``--mfc`` take other weights files. Everything runs on one thread; test questions
come from the split "test", which no training and no validation uses.
"""

from __future__ import annotations

import argparse
import importlib.util
import re
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import torch

import chop
from chop.icon import Icon, load, provenance
from chop.icon.weights import find
from chop.problems import Case, conservation, mfc

ROOT = Path(__file__).parents[1]
FLUXES = ("sin_cos", "tanh", "buckley_leverett")
LENGTHS = (1.0, 0.5, 0.3, 0.1)
SEED = 4711
Table = list[list[str]]


def errors_of(model: Icon, case: Case, program: str = "icon") -> torch.Tensor:
    values = chop.parse(program).run(model, case.prompt).values
    return chop.metrics.rel_l2(values, case.target)


def shown(errors: torch.Tensor) -> str:
    return f"{float(errors.mean()):.4f} ± {float(errors.std()):.4f}"


def in_and_out(models: dict[str, Icon]) -> dict[str, Table]:
    """Raw predictions inside the training distribution and on the conditions of the paper."""
    net = models["conservation"]
    rows = [["flux", "prompts", "mean ± deviation", "median", "90 %"]]
    for flux in ("cubic", *FLUXES):
        found = errors_of(net, conservation.sample(flux, n=500, seed=SEED))
        name = "cubic (training distribution)" if flux == "cubic" else flux
        spread = torch.quantile(found, torch.tensor([0.5, 0.9]))
        rows.append([name, "500", shown(found), *(f"{float(q):.4f}" for q in spread)])
    table = [["family", *(f"ℓ = {length:g}" for length in LENGTHS)]]
    inside = []
    for family in mfc.FAMILIES:
        found = [errors_of(models["mfc"], mfc.sample(family, length, n=100, seed=SEED)) for length in LENGTHS]
        inside.append(found[0])
        table.append([family, *(shown(errors) for errors in found)])
    table.append(["all five", shown(torch.cat(inside)), *("" for _ in LENGTHS[1:])])
    return {
        "Conservation laws, single step, relative L² error of the bare network": rows,
        "Mean-field control, 10 × 50 points, relative L² error of the bare network": table,
    }


def some_examples(case: Case, kept: list[int]) -> Case:
    prompt = case.prompt.choose(torch.tensor(kept).expand(*case.prompt.batch, len(kept)))
    return Case(prompt, case.target)


def examples(models: dict[str, Icon]) -> dict[str, Table]:
    """More examples help: random pairs, and consecutive windows grown from either end."""
    rows = [["examples", *(f"D = {d}" for d in range(1, 6))]]
    stream = conservation.CubicStream(
        batch=100, mode="pairs", split="test", seed=SEED, trajectories=3, frames=8, reuse=1
    )
    windows = [conservation.sample("cubic", n=500, seed=SEED)]
    control = [mfc.sample(family, 1.0, n=100, seed=SEED) for family in mfc.FAMILIES]
    kinds = (
        ("conservation", "random pairs of the flux", [stream.case(i) for i in range(3)], False),
        ("conservation", "window, oldest pairs", windows, False),
        ("conservation", "window, newest pairs", windows, True),
        ("mfc", "all five families", control, False),
    )
    for problem, name, cases, newest in kinds:
        line = []
        for d in range(1, 6):
            kept = list(range(5 - d, 5)) if newest else list(range(d))
            found = torch.cat([errors_of(models[problem], some_examples(case, kept)) for case in cases])
            line.append(f"{float(found.mean()):.4f}")
        rows.append([f"{problem}: {name}", *line])
    return {"Error against the number of examples (training distribution)": rows}


def every_second(case: Case) -> Case:
    """The truth of the 100-point grid, seen at every second point."""
    trajectory = case.trajectory
    assert trajectory is not None
    frames = trajectory[..., ::2]
    d = case.prompt.examples
    return Case(conservation.window(frames[:, : d + 1]), frames[:, d + 1, :, None])


def grids(models: dict[str, Icon]) -> dict[str, Table]:
    """Other grids than those of training."""
    rows = [["prompt", "error"]]
    whole = conservation.sample("cubic", n=200, seed=SEED)
    rows.append(["conservation, 100 points", shown(errors_of(models["conservation"], whole))])
    half = every_second(whole)
    rows.append(["conservation, every second point", shown(errors_of(models["conservation"], half))])
    for points in (50, 200):
        case = conservation.sample("cubic", n=200, seed=SEED, points=points)
        rows.append(
            [f"conservation, solved on {points} points", shown(errors_of(models["conservation"], case))]
        )
    for times, points in ((10, 10), (5, 20), (10, 50), (20, 25), (26, 100)):
        cases = []
        for name, family in mfc.FAMILIES.items():
            output = mfc.even_grid(family.output_window, times, points)
            inputs = mfc.even_grid(family.input_window or (0.0, 0.0), min(times, 25), points)
            cases.append(mfc.sample(name, 1.0, n=40, seed=SEED, outputs=output, inputs=inputs))
        found = torch.cat([errors_of(models["mfc"], case) for case in cases])
        rows.append([f"mfc, all families, {times} × {points}", shown(found)])
    return {"Other grids (training distribution of operators)": rows}


def seconds(work: Callable[[], object], repeats: int = 5) -> float:
    work()
    best = float("inf")
    for _ in range(repeats):
        begun = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - begun)
    return best


def fresh(case: Case) -> chop.Prompt:
    """The same questions as new objects, so that nothing encoded before can be reused."""
    return case.prompt._each(lambda tensor, trailing: tensor.clone())


def reference() -> Callable[[chop.Prompt], torch.Tensor]:
    path = ROOT / "examples" / "own_model.py"
    spec = importlib.util.spec_from_file_location("own_model", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return chop.from_torch(module.PointTokens())


def speed(models: dict[str, Icon]) -> dict[str, Table]:
    """Ratios, all on one thread in one run."""
    net = models["conservation"]
    case = conservation.sample("cubic", n=256, seed=SEED)
    icon, correct = chop.parse("icon"), chop.parse("correct(icon)")
    one = seconds(lambda: icon.run(net, fresh(case)))
    model = reference()
    few = case[0:4]
    slow = seconds(lambda: icon.run(model, few.prompt), repeats=2) / len(few) * len(case)
    rows = [["what", "asked", "measured", "detail"]]

    def row(what: str, asked: str, ratio: float, detail: str) -> None:
        rows.append([what, asked, f"{ratio:.3g}×", detail])

    row(
        "throughput of 256 prompts against the reference shape", "at least 100×", slow / one,
        f"{1e3 * one / 256:.2f} ms against {1e3 * slow / 256:.0f} ms a prompt",
    )  # fmt: skip
    six = seconds(lambda: correct.run(net, fresh(case)))
    row(
        "correct(icon), 6 evaluations, conservation",
        "at most 2×",
        six / one,
        f"{1e3 * six / 256:.2f} ms a prompt",
    )
    control = mfc.sample("g_1to2", 1.0, n=64, seed=SEED)
    field = models["mfc"]
    bare = seconds(lambda: icon.run(field, fresh(control)))
    six = seconds(lambda: correct.run(field, fresh(control)))
    row("correct(icon), 6 evaluations, mfc", "at most 2×", six / bare, f"{1e3 * six / 64:.2f} ms a prompt")
    twelve = seconds(lambda: chop.programs["mfc"].run(field, fresh(control)))
    row("CHOP(MFC), 12 evaluations", "at most 8×", twelve / bare, f"{1e3 * twelve / 64:.2f} ms a prompt")
    some = case[0:32]
    step = seconds(lambda: icon.run(net, fresh(some)))
    long = seconds(lambda: chop.rollout(icon, net, fresh(some), 144), repeats=2)
    row("144 rollout steps against one", "at most 50×", long / step, f"{1e3 * long / 32:.0f} ms a trajectory")
    return {"Speed, one thread": rows}


def as_markdown(title: str, table: Table) -> str:
    head, *body = table
    lines = [f"**{title}**", "", "| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in body)])


def between_marks(text: str, content: str) -> str:
    pattern = r"(<!-- measured -->\n).*?(\n<!-- end of measured -->)"
    assert re.search(pattern, text, flags=re.DOTALL), "the page has lost its marks"
    return re.sub(pattern, lambda m: m.group(1) + content + m.group(2), text, flags=re.DOTALL)


PARTS = {"errors": in_and_out, "examples": examples, "grids": grids, "speed": speed}


def main(arguments: Iterable[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("parts", nargs="*", help=f"what to measure: {', '.join(PARTS)}")
    parser.add_argument("--conservation", default="conservation", help="weights")
    parser.add_argument("--mfc", default="mfc", help="weights")
    parser.add_argument("--write", action="store_true", help="write into docs/icon.md and the model cards")
    chosen = parser.parse_args(list(arguments) if arguments is not None else None)
    if unknown := set(chosen.parts) - set(PARTS):
        parser.error(f"unknown: {', '.join(sorted(unknown))}")
    torch.set_num_threads(1)
    models = {name: load(getattr(chosen, name)) for name in ("conservation", "mfc")}
    tables: dict[str, Table] = {}
    for part in chosen.parts or PARTS:
        for title, table in PARTS[part](models).items():
            tables[title] = table
            print(as_markdown(title, table) + "\n", flush=True)
    if chosen.write:
        page = ROOT / "docs" / "icon.md"
        text = "\n\n".join(as_markdown(title, table) for title, table in tables.items())
        page.write_text(between_marks(page.read_text(), text))
        for name in models:
            path = find(getattr(chosen, name)).with_suffix(".md")
            path.write_text(between_marks(path.read_text(), card(name, tables)))


def card(name: str, tables: dict[str, Table]) -> str:
    """The measured part of a model card: its history, and its own tables."""
    training = provenance(name).training
    facts = {
        "seed": training["seed"],
        "steps": training["steps"],
        "operators in a step": training["operators_per_step"],
        "workers, one thread each": training["workers"],
        "wall time": f"{training['seconds'] / 60:.0f} minutes",
        "made with": f"`{training['command']}`, torch {training['torch']}",
    }
    if training.get("before"):
        before = training["before"]
        facts["continued from"] = f"`{before['command']}`, {before['steps']} steps"
    wanted = "Conservation" if name == "conservation" else "Mean-field"
    parts = [as_markdown(title, table) for title, table in tables.items() if title.startswith(wanted)]
    return "\n\n".join(["| | |\n|---|---|\n" + "\n".join(f"| {k} | {v} |" for k, v in facts.items()), *parts])


if __name__ == "__main__":
    main()
