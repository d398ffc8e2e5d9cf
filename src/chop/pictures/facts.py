"""What inspection found, as one picture: examples, claims with their evidence, numbers, a model's home.

Colour never carries a meaning alone: every state has its own mark and its own word.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from chop.core.words import count
from chop.operators.inspection.answered import FRAME, MIRROR, SIGN, TARGETS, scale_name
from chop.operators.inspection.fact import Fact, Facts
from chop.operators.inspection.model_facts import ERROR, HOME, SCALE, place_name
from chop.pictures.figure import HEIGHT, SMALL, TEXT_COLOR, WIDTH, paint
from chop.pictures.panels import Panel, prompt_panel

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PAGE = 12.6
"""Width in inches: a panel of the prompt, and two for a model."""
HEAD, ROW, GAP = 0.62, 0.205, 0.42
STRIP = (2.5, 2.0)
"""Where the strip beside a claim begins and how wide it is."""
REACH = 4.0
"""Powers of ten of a tolerance that a strip shows to either side."""


class State(NamedTuple):
    """How a claim stands: a word, a mark, a colour (Okabe and Ito's, told apart by all eyes), a hatch."""

    word: str
    mark: str
    color: str
    hatch: str


SHOWN = State("shown", "o", "#0072b2", "")
NOT_SHOWN = State("not shown", "X", "#d55e00", "////")
CANNOT_TELL = State("cannot tell", "_", "#8a8a8a", "....")
STATES = (SHOWN, NOT_SHOWN, CANNOT_TELL)


def states_of(fact: Fact) -> list[tuple[State, int]]:
    """In how many prompts a claim stands, does not, or cannot be told of."""
    told = fact.applies & (fact.telling >= fact.least)
    shown, whole = int(fact.claim.sum()), fact.applies.numel()
    numbers = (shown, int(told.sum()) - shown, whole - int(told.sum()))
    return list(zip(STATES, numbers, strict=True))


def facts_figure(facts: Facts) -> Figure:
    """All of it; of a batch the first prompt is drawn, and shares and medians are told."""
    from matplotlib.figure import Figure

    places = {place_name(name) for name in (*map(scale_name, TARGETS), FRAME, SIGN, MIRROR)}
    claims = [fact for fact in facts if fact.claims and fact.name not in places]
    numbers = [fact for fact in facts if not fact.claims]
    asked = ERROR in facts.names
    height = HEAD + HEIGHT + GAP + ROW * len(claims) + 0.3
    if asked:  # numbers need a place of their own
        height += 0.27 + ROW * math.ceil(len(numbers) / 2)
    figure = Figure(figsize=(PAGE, height), facecolor="white")
    top = height - HEAD
    panel = prompt_panel(facts.prompt)
    _head(figure, facts, panel, top)
    paint(figure, panel, 0.0, top - HEIGHT)
    if asked:
        _scales(figure, facts, WIDTH + 0.75, top - HEIGHT + 0.44)
        _places(figure, facts, WIDTH + 5.05, top - HEIGHT + 0.44)
        _numbers(figure, numbers, 0.40, 0.15 + ROW * math.ceil(len(numbers) / 2), columns=2)
    else:
        _numbers(figure, numbers, WIDTH + 0.75, top + 0.22, columns=1)
    _claims(figure, claims, facts.prompts, top - HEIGHT - GAP)
    return figure


def _write(figure: Figure, x: float, y: float, words: str, **more: Any) -> None:
    width, height = figure.get_size_inches()
    look = {"va": "center", "ha": "left", "color": TEXT_COLOR, "parse_math": False, "fontsize": SMALL + 0.5}
    figure.text(x / width, y / height, words, **{**look, **more})


def _axes(figure: Figure, left: float, bottom: float, wide: float, tall: float) -> Any:
    width, height = figure.get_size_inches()
    axes = figure.add_axes((left / width, bottom / height, wide / width, tall / height))
    axes.tick_params(labelsize=SMALL - 0.5, length=2.5, width=0.5, pad=2)
    for spine in axes.spines.values():
        spine.set_linewidth(0.5)
    return axes


def _head(figure: Figure, facts: Facts, panel: Panel, top: float) -> None:
    several = facts.prompts > 1
    prompt = facts.prompt
    about = f"{count(prompt.examples, 'example')}, {prompt.inputs.points} points to {prompt.at.shape[-2]}"
    who = f"{facts.prompts} prompts: {about}" if several else about
    _write(figure, 0.14, top + 0.44, f"What the examples show ({who})", fontsize=11, weight="bold")
    curves = any(view.form in ("lines", "points") for view in panel.views)
    words = ["the first prompt"] * several
    words += ["examples from dark to light, the query black"] * curves + [panel.found] * bool(panel.found)
    _write(figure, 0.58, top + 0.12, "; ".join(words))


def _middles(facts: Sequence[Fact], factor: torch.Tensor | float = 1.0) -> list[list[float]]:
    """Quartiles of each, ``[low, middle, high]``, NaN where there is nothing."""
    found = []
    for fact in facts:
        values = (fact.value * factor).flatten()
        known = values[torch.isfinite(values)]
        share = torch.tensor([0.25, 0.5, 0.75], dtype=values.dtype)
        # The lower of two, as `Fact.middle` has it.
        found.append(known.quantile(share, interpolation="lower").tolist() if len(known) else [math.nan] * 3)
    return found


def _scales(figure: Figure, facts: Facts, left: float, bottom: float) -> None:
    """The held-out error against the spread that the model is shown."""
    axes = _axes(figure, left, bottom, 3.0, HEIGHT - 0.70)
    error = facts[ERROR]
    asked = [facts[place_name(scale_name(target))] for target in TARGETS]
    low, middle, high = zip(*_middles(asked, error.value), strict=True)
    several = facts.prompts > 1
    if several:
        axes.fill_between(TARGETS, low, high, color="#0072b2", alpha=0.18, linewidth=0)
    axes.plot(TARGETS, middle, "-o", color="#0072b2", markersize=4, linewidth=1.4, label="rescaled to")
    (scale,), (here,) = _middles([facts[SCALE]]), _middles([error])
    bars = {
        "xerr": [[scale[1] - scale[0]], [scale[2] - scale[1]]],
        "yerr": [[here[1] - here[0]], [here[2] - here[1]]],
    }
    axes.errorbar(
        scale[1], here[1], **(bars if several else {}), fmt="D", color="#d55e00", markersize=6,
        elinewidth=0.8, label="as it is",
    )  # fmt: skip
    axes.set_xscale("log", base=2)
    axes.set_xlabel("spread of what the model is shown", fontsize=SMALL, labelpad=1)
    middle_word = "median and quartiles" if several else "of the outputs' size"
    axes.set_title(f"held-out error by scale ({middle_word})", fontsize=SMALL + 0.5, pad=4, color=TEXT_COLOR)
    known = [value for value in (*middle, here[1]) if math.isfinite(value)]
    if known:
        _plain_numbers(axes, known)
        axes.legend(fontsize=SMALL - 0.5, frameon=False, loc="best")
    else:
        _say(axes, "no finite answer" if bool(error.applies.any()) else "does not apply")


def _say(axes: Any, words: str) -> None:
    """Words where there is nothing to draw."""
    axes.text(0.5, 0.5, words, transform=axes.transAxes, ha="center", va="center", fontsize=SMALL + 1)
    axes.set(xticks=[], yticks=[])
    axes.minorticks_off()


def _plain_numbers(axes: Any, errors: Sequence[float]) -> None:
    """Ticks as people write them; a logarithmic axis where errors differ much."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator, NullFormatter

    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}"))
    if max(errors) > 20 * min(errors) > 0:
        axes.set_yscale("log")
    else:
        axes.set_ylim(bottom=0)
        axes.yaxis.set_major_locator(MaxNLocator(5))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y:g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())


def _places(figure: Figure, facts: Facts, left: float, bottom: float) -> None:
    """Errors in other frames beside that as it is: left of the line is better."""
    from matplotlib.ticker import FuncFormatter, NullFormatter

    axes = _axes(figure, left, bottom, 2.35, HEIGHT - 0.70)
    names = ("moving frame", "other sign", "mirrored")
    asked = [facts[place_name(name)] for name in (FRAME, SIGN, MIRROR)]
    axes.axvline(1, color="#d55e00", linewidth=1.0, linestyle="--")
    reach = [1.0]
    for row, (fact, (low, middle, high)) in enumerate(zip(asked, _middles(asked), strict=True)):
        if not math.isfinite(middle) or middle <= 0:
            said = "does not apply" if not bool(fact.applies.any()) else "unknown"
            axes.text(0.04, row, said, transform=axes.get_yaxis_transform(), va="center", fontsize=SMALL)
            continue
        reach += [low, high]
        axes.plot([low, high], [row, row], color="#0072b2", linewidth=1.2)
        claimed = bool(fact.claim.all())
        axes.plot(middle, row, "o", color="#0072b2", markersize=6, fillstyle="full" if claimed else "none")
        axes.annotate(
            f"{middle:.2f}", (middle, row), (0, 6), textcoords="offset points", ha="center", fontsize=SMALL
        )
    axes.set_xscale("log")
    axes.set_xlim(min(reach) / 1.6, max(reach) * 1.6)
    low, high = axes.get_xlim()
    ticks = [tick for tick in (0.01, 0.1, 0.25, 0.5, 1, 2, 4, 10, 100, 1000) if low <= tick <= high]
    if len(ticks) > 5:
        ticks = [tick for tick in ticks if math.log10(tick).is_integer()]
    axes.set_xticks(ticks)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.set_xlabel("held-out error, of that as it is (filled: at each example)", fontsize=SMALL, labelpad=1)
    axes.set_title(_least(facts), fontsize=SMALL + 0.5, pad=4, color=TEXT_COLOR, parse_math=False)


def _least(facts: Facts) -> str:
    """The program that errs least, most often."""
    home = facts[HOME]
    if not bool(torch.isfinite(home.value).any()):
        return ""
    program, share = home.chosen()[0]
    return f"least: {program}" + (f" ({share:.0%})" if facts.prompts > 1 else "")


def _claims(figure: Figure, claims: Sequence[Fact], prompts: int, top: float) -> None:
    """A row for each: how it stands, the strip, the evidence and the number."""
    several = prompts > 1
    heads = ("claim", f"share of the {prompts} prompts" if several else "deviation, in tolerances")
    bold: dict[str, Any] = {"weight": "bold"}
    for x, words in zip((0.40, STRIP[0]), heads, strict=True):
        _write(figure, x, top + 0.04, words, **bold)
    _write(figure, 4.75, top + 0.04, "agreeing", **bold)
    _write(figure, 5.75, top + 0.04, "median number" if several else "number", **bold)
    _key(figure, 9.2, top + 0.04)
    axes = _strip(figure, len(claims), top, several)
    for row, fact in enumerate(claims):
        y = top - ROW * (row + 0.75)
        found = states_of(fact)
        main = max(found, key=lambda item: item[1])[0]
        width, height = figure.get_size_inches()
        figure.add_artist(_mark(main, 0.25 / width, y / height, figure.transFigure))
        _write(figure, 0.40, y, fact.name, color=TEXT_COLOR if main is not CANNOT_TELL else CANNOT_TELL.color)
        if several:
            _shares(axes, row, found)
        else:
            _deviation(axes, row, fact, main)
        agree, number = _evidence(fact, several)
        _write(figure, 4.75, y, agree)
        _write(figure, 5.75, y, number)
        _write(figure, 6.65, y, fact.measure if bool(fact.applies.any()) else f"needs {fact.needs}")


def _key(figure: Figure, x: float, y: float) -> None:
    width, height = figure.get_size_inches()
    for i, state in enumerate(STATES):
        left = x + 1.1 * i
        figure.add_artist(_mark(state, left / width, y / height, figure.transFigure))
        _write(figure, left + 0.12, y, state.word)


def _mark(state: State, x: float, y: float, where: Any) -> Any:
    from matplotlib.lines import Line2D

    look: dict[str, Any] = {
        "color": state.color,
        "marker": state.mark,
        "markersize": 6,
        "markeredgewidth": 1.2,
    }
    return Line2D([x], [y], linestyle="none", transform=where, **look)


def _strip(figure: Figure, rows: int, top: float, several: bool) -> Any:
    axes = _axes(figure, STRIP[0], top - ROW * (rows + 0.25), STRIP[1], ROW * rows)
    axes.set_ylim(rows - 0.5, -0.5)
    axes.set(yticks=[])
    axes.spines[["left", "right", "top"]].set_visible(False)
    if several:
        axes.set_xlim(0, 1)
        axes.set_xticks([0, 0.5, 1], ["0", "50 %", "100 %"])
    else:
        axes.set_xlim(-REACH - 0.3, REACH + 0.3)
        axes.set_xticks([-REACH, 0, REACH], ["<1e-4", "1", ">1e4"])
        axes.axvline(0, color="#333333", linewidth=0.8, linestyle="--")
    axes.tick_params(labelsize=SMALL - 1)
    return axes


def _shares(axes: Any, row: int, found: Sequence[tuple[State, int]]) -> None:
    whole, left = sum(number for _, number in found), 0.0
    for state, number in found:
        share = number / whole
        axes.barh(
            row, share, 0.62, left=left, color="white" if state.hatch else state.color,
            edgecolor=state.color, hatch=state.hatch, linewidth=0.6,
        )  # fmt: skip
        left += share


def _deviation(axes: Any, row: int, fact: Fact, state: State) -> None:
    """By how many tolerances the worst example fails, on a logarithmic strip; inside is left."""
    if state is CANNOT_TELL:
        return
    deviation = float(fact.deviation)
    power = -REACH if deviation <= 0 else max(-REACH, min(REACH, math.log10(deviation)))
    axes.plot([-REACH, power], [row, row], color=state.color, linewidth=1.0)
    axes.add_artist(_mark(state, power, row, axes.transData))


def _evidence(fact: Fact, several: bool) -> tuple[str, str]:
    applies = int(fact.applies.sum())
    if not applies:
        return "", "does not apply"
    if several:
        told = int((fact.applies & (fact.telling >= fact.least)).sum())
        return (f"{int(fact.claim.sum())} of {told}" if told else "none can tell"), fact.middle()
    telling = int(fact.telling)
    return (f"{int(fact.agreeing)} of {telling}" if telling else "none can tell"), fact.middle()


def _numbers(figure: Figure, numbers: Sequence[Fact], left: float, top: float, columns: int) -> None:
    """Measurements in columns."""
    _write(figure, left, top + 0.04, "number", weight="bold")
    rows = math.ceil(len(numbers) / columns)
    for i, fact in enumerate(numbers):
        column, row = divmod(i, rows)
        x, y = left + column * 6.25, top - ROW * (row + 0.75)
        applies = bool(fact.applies.any())
        grey = {} if applies else {"color": CANNOT_TELL.color}
        _write(figure, x, y, fact.name, **grey)
        _write(figure, x + 1.35, y, fact.middle() if applies else "does not apply", **grey)
        if applies:
            _write(figure, x + 2.05, y, _cut(fact.measure, 64))


def _cut(words: str, most: int) -> str:
    return words if len(words) <= most else f"{words[: most - 3]}..."
