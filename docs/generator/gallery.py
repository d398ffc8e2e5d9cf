"""A picture of each problem, made by the code that makes the data: python -m generator.gallery docs"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from chop.core.errors import ProblemError
from chop.problems import conservation, mfc
from chop.problems.conservation.flux import Flux
from chop.storage.atomic import atomic_path

_SHOWN_FLUXES = (
    ("sin u - cos u", "sin_cos"),
    ("tanh u", "tanh"),
    ("u² / (u² + (1 - u)²)", "buckley_leverett"),
    ("0.3 u³ - u", "0.3*u**3-u"),
)
_LENGTHS = (1.0, 0.5, 0.3, 0.1)
_INK, _QUIET, _ACCENT = "#1f2430", "#8a8f9c", "#c2410c"


def _canvas(columns: int, title: str, heights: Sequence[float]) -> tuple[Any, Any]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(3.1 * columns, 2.1 * sum(heights)), layout="constrained", dpi=110)
    figure.suptitle(title, fontsize=13, color=_INK)
    axes = figure.subplots(len(heights), columns, height_ratios=heights, squeeze=False)
    for axis in axes.flat:
        axis.tick_params(labelsize=8, colors=_QUIET)
        axis.spines[["top", "right"]].set_visible(False)
    return figure, axes


def _heat_map(figure: Any, axis: Any, rows: Any, end: float, prompt: float, ink: str, **style: Any) -> None:
    """A function of (t, x) up to a time, with a dotted line where the prompt ends."""
    image = axis.imshow(rows, origin="lower", aspect="auto", extent=(0, 1, 0, end), **style)
    axis.axhline(prompt, color=ink, linewidth=0.8, linestyle=":")
    figure.colorbar(image, ax=axis, pad=0.02).ax.tick_params(labelsize=7, colors=_QUIET)


def _label(axes: Sequence[Any], along: Sequence[str], left: Sequence[str]) -> None:
    """What runs along each panel of a column and, in the first column, what is drawn in it."""
    for axis, name in zip(axes, along, strict=True):
        axis.set_xlabel(name, fontsize=8, color=_QUIET)
    for axis, name in zip(axes, left, strict=False):
        axis.set_ylabel(name, fontsize=8, color=_QUIET)
    if left:
        axes[-1].legend(fontsize=7, frameon=False)


def conservation_picture(path: Path, seed: int = 3) -> Path:
    """Each flux, one trajectory over 50 frames, and what a prompt shows of it."""
    from matplotlib import colormaps

    figure, axes = _canvas(
        len(_SHOWN_FLUXES), "Conservation laws: $u_t + f(u)_x = 0$ on the circle", (0.8, 1.6, 1.0)
    )
    shades = colormaps["viridis"](np.linspace(0.0, 0.85, 6))
    for column, (title, name) in enumerate(_SHOWN_FLUXES):
        case = conservation.sample(name, 1, seed=seed, steps=44, dtype=torch.float64)
        assert case.trajectory is not None
        frames = case.trajectory[0].numpy()
        top, middle, bottom = axes[:, column]
        u = np.linspace(-3, 3, 400)
        top.plot(u, Flux.parse(name)(u), color=_INK)
        top.set_title(f"f(u) = {title}", fontsize=10, color=_INK)
        limit = float(np.abs(frames).max())
        _heat_map(figure, middle, frames, 5, 0.6, _INK, cmap="RdBu_r", vmin=-limit, vmax=limit)
        x = np.arange(frames.shape[1]) / frames.shape[1]
        for k in range(6):
            bottom.plot(
                x, frames[k], color=shades[k], linewidth=1.2, label="the six shown" if k == 3 else None
            )
        bottom.plot(x, frames[6], color=_ACCENT, linewidth=1.8, label="asked")
        left = ("", "t (dotted: end of the prompt)", "u at frames 0..6") if column == 0 else ()
        _label(axes[:, column], ("u", "x", "x"), left)
    return _written(figure, path)


def mfc_picture(path: Path, seed: int = 1) -> Path:
    """For each length scale: the hidden cost, one density over time, and starts and ends of three pairs."""
    figure, axes = _canvas(
        len(_LENGTHS), "Mean-field control: the density steered to where the cost is low", (0.8, 1.6, 1.0)
    )
    x = np.arange(100) / 100
    whole = mfc.SubGrid(tuple(np.arange(26) / 50), tuple(x))
    late = mfc.SubGrid(tuple(np.arange(25, 51) / 50), tuple(x))
    for column, length in enumerate(_LENGTHS):
        case = mfc.sample("g_2to2", length, 1, seed=seed, inputs=whole, outputs=late, dtype=torch.float64)
        early, after = (
            part.values[0].numpy().reshape(5, 26, 100) for part in (case.prompt.inputs, case.prompt.outputs)
        )
        top, middle, bottom = axes[:, column]
        top.plot(x, case.rows["condition"][0], color=_INK)
        top.set_title(f"length scale {length:g}", fontsize=10, color=_INK)
        flow = np.concatenate([early[0], after[0][1:]])
        _heat_map(figure, middle, flow, 1, 0.5, "white", cmap="viridis")
        for k in range(3):
            bottom.plot(x, early[k, 0], color=_QUIET, linewidth=1.2, label="ρ(0, x)" if k == 0 else None)
            bottom.plot(x, after[k, -1], color=_ACCENT, linewidth=1.4, label="ρ(1, x)" if k == 0 else None)
        left = ("hidden cost g", "t (one density ρ)", "three pairs") if column == 0 else ()
        _label(axes[:, column], ("x", "x", "x"), left)
    return _written(figure, path)


def _written(figure: Any, path: Path) -> Path:
    with atomic_path(path, ProblemError, overwrite=True) as partial:
        figure.savefig(partial, format="png")
    return path


def draw_all(folder: str | Path) -> list[Path]:
    """Both pictures into a folder."""
    where = Path(folder)
    if not where.is_dir():
        raise ProblemError(f"there is no folder {where} for the pictures")
    return [
        conservation_picture(where / "gallery_conservation.png"),
        mfc_picture(where / "gallery_mfc.png"),
    ]


if __name__ == "__main__":
    for made in draw_all(sys.argv[1] if len(sys.argv) > 1 else "docs"):
        print(made)
