"""What views cost and gain, in one run: `views(icon)` beside its base, on the bundled networks.

Time is told as the ratio to as many separate evaluations of the network, on turned, mirrored or negated
prompts made beforehand; errors are means over questions of the evolution split.

    python benchmarks/views.py [--prompts 50] [--repeats 3]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import torch

import chop
from chop import metrics
from chop.core.program import Stack
from chop.operators import Flip, MovingFrame, Reflect, Turn, icon, views
from chop.problems import conservation, mfc
from chop.problems.case import Case

ROUTES = {"icon": Stack(()), "icon in the spectral frame": Stack((MovingFrame(shift="spectral"),))}
OPTIONS = ({}, {"mirror": True}, {"mirror": True, "sign": True})
CASES: dict[str, tuple[str, Callable[[int], Case]]] = {
    **{
        flux: ("conservation", lambda n, flux=flux: conservation.sample(flux, n=n, seed=3, split="evolution"))
        for flux in ("sin_cos", "tanh", "buckley_leverett", "cubic")
    },
    **{
        f"{family}, 0.3": ("mfc", lambda n, f=family: mfc.sample(f, 0.3, n=n, seed=3, split="evolution"))
        for family in ("g_1to1", "rho_1to1")
    },
}


def separately(prompt: chop.Prompt, options: dict[str, bool]) -> list[chop.Prompt]:
    """The prompts that the views ask about."""
    found = []
    for sign in (False, True) if options.get("sign") else (False,):
        for mirror in (False, True) if options.get("mirror") else (False,):
            base = Flip().fit(prompt).prompt if sign else prompt
            base = Reflect().fit(base).prompt if mirror else base
            found += [Turn(cells=2 * i).fit(base).prompt for i in range(5)]
    return found


def fastest(work: Callable[[], object], repeats: int) -> float:
    times = []
    for _ in range(repeats):
        begun = time.perf_counter()
        work()
        times.append(time.perf_counter() - begun)
    return min(times)


def row(model: chop.FrozenModel, case: Case, route: Stack, options: dict[str, bool], repeats: int) -> str:
    """Views inside a route beside the route alone."""
    base, program = route | icon, route | views(icon, **options)
    before = float(metrics.rel_l2(base.run(model, case.prompt).values, case.target).mean())
    result = program.run(model, case.prompt, trace=False)
    after = float(metrics.rel_l2(result.values, case.target).mean())
    prompts = separately(case.prompt, options)
    ours = fastest(lambda: program.run(model, case.prompt, trace=False), repeats)
    apart = fastest(lambda: [icon.run(model, prompt, trace=False) for prompt in prompts], repeats)
    sides = ", ".join(["5 turns", *options])
    change = f"{100 * (after / before - 1):+.1f} %"
    return f"{before:.4f} | {sides} | {result.calls} | {after:.4f} | {change} | {ours / apart:.2f}"


def main() -> None:
    given = argparse.ArgumentParser(description=__doc__)
    given.add_argument("--prompts", type=int, default=50)
    given.add_argument("--repeats", type=int, default=3)
    asked = given.parse_args()
    torch.set_num_threads(1)
    print("| questions | base | its error | views | evaluations | error | change | time |")
    print("|---|---|---|---|---|---|---|---|")
    for name, (network, make) in CASES.items():
        model, case = chop.load(network), make(asked.prompts)
        for words, route in ROUTES.items() if network == "conservation" else [("icon", Stack(()))]:
            for options in OPTIONS:
                print(f"| {name} | {words} | {row(model, case, route, options, asked.repeats)} |", flush=True)


if __name__ == "__main__":
    main()
