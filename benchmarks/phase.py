"""What makes long rollouts wrong: the shape, or where it stands? Trajectories of tanh u that no table uses.

`python benchmarks/phase.py` rolls programs out over 144 steps and prints the mean error of the last step,
what is left of it after the best cyclic shift, and that shift. Then each program is asked for single steps
from true frames: by how many grid cells is the answer displaced, is that the same early and late in a
trajectory, and do the held-out examples foretell it?
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

import chop
from chop import metrics
from chop.core.forecast import rollout
from chop.problems import conservation

STEPS, EARLY, LATE = 144, 36, 120
PROGRAMS = (
    "icon",
    'moving_frame | rescale(center="mean") | icon | conserve_mean',
    'moving_frame(shift="spectral") | rescale(center="mean", target=0.7) | icon | conserve_mean',
    'moving_frame(shift="spectral") | average(icon, reflect | icon) | bound_variation | conserve_mean',
)


def best_shift(values: Tensor, truth: Tensor) -> tuple[Tensor, Tensor]:
    """Error ``(b)`` after the best cyclic shift of ``(b, n, 1)``, and that shift in cells."""
    n = values.shape[-2]
    shifts = torch.arange(-(n // 2), n // 2)
    errors = torch.stack([metrics.rel_l2(values.roll(int(s), dims=-2), truth) for s in shifts], dim=-1)
    least, where = errors.min(dim=-1)
    return least, shifts[where]


def displacement(values: Tensor, truth: Tensor) -> Tensor:
    """By how many cells ``(..., n, 1)`` stands right of the truth, to first order in that distance."""
    n = truth.shape[-2]
    modes = torch.arange(n // 2 + 1, dtype=truth.dtype).unsqueeze(-1)
    slope = torch.fft.irfft(torch.fft.rfft(truth, dim=-2) * (2j * math.pi / n) * modes, n=n, dim=-2)
    size = slope.square().sum(dim=(-1, -2)).clamp(min=torch.finfo(truth.dtype).tiny)
    return -((values - truth) * slope).sum(dim=(-1, -2)) / size


def correlation(a: Tensor, b: Tensor) -> float:
    return float(torch.corrcoef(torch.stack([a, b]))[0, 1])


def main() -> None:
    torch.set_num_threads(1)
    model = chop.load("conservation")
    case = conservation.sample("tanh", n=50, split="train", seed=7, steps=STEPS)
    frames = case.trajectory
    assert frames is not None
    frames, prompt = frames[..., None], case.prompt
    first = prompt.examples  # the index of the query's frame
    print("| program | error | after the best shift | median shift | per step | early, late | examples |")
    print("|---|---|---|---|---|---|---|")
    for text in PROGRAMS:
        program = chop.parse(text)

        def moved(step: int, program: chop.Program = program) -> Tensor:
            asked = prompt.mapped(query=prompt.query.with_values(frames[:, first + step]))
            return displacement(program.run(model, asked, trace=False).values, frames[:, first + step + 1])

        with torch.inference_mode():
            last = rollout(program, model, prompt, STEPS).values[:, -1]
            held_out = program.run(model, prompt.held_out(pad=True, gap=1), trace=False).values
            early, late = moved(EARLY), moved(LATE)
        error = metrics.rel_l2(last, frames[:, -1])
        aligned, shift = best_shift(last, frames[:, -1])
        seen = displacement(held_out, prompt.outputs.values).mean(dim=-1)
        cells = (
            f"{error.mean():.3f}",
            f"{aligned.mean():.3f}",
            f"{shift.abs().float().median():.0f} cells",
            f"{early.abs().median():.2f} cells",
            f"r = {correlation(early, late):.2f}",
            f"r = {correlation(seen, early):.2f}",
        )
        print("| " + " | ".join((f"`{text}`".replace("|", "\\|"), *cells)) + " |", flush=True)


if __name__ == "__main__":
    main()
