"""The methods as data: the paper's programs, what remains of them without one operator, baselines, a grid.

A method is program text, or ``@name`` for a baseline that no program expresses.
"""

from __future__ import annotations

from collections.abc import Mapping

from chop.core.catalog import BY_HAND, FOUND, TEXTS, best_found

RAW, CONSERVATION, MFC, CORR = (TEXTS[name] for name in ("raw", "conservation", "mfc", "corr"))
LINE, DENSITIES, ANYTHING = (BY_HAND[name] for name in ("line", "densities", "anything"))
LAW = "law"
FLAT = "query_mean"
BAGGING = "@bag(12)"
FINE_TUNING = ("@finetune(0.00003)", "@finetune(0.0003)", "@finetune(0.001)")
FINE_TUNING_STEPS = (1, 3, 10)

_WITHOUT_CONSERVATION = {
    'rescale(center="mean") | icon | conserve_mean': "without moving_frame",
    "moving_frame | icon | conserve_mean": "without rescale",
    'moving_frame | rescale(center="mean") | icon': "without conserve_mean",
    "icon | conserve_mean": "conserve_mean alone",
    "moving_frame | icon": "moving_frame alone",
    'rescale(center="mean") | icon': "rescale alone",
}
_WITHOUT_MFC = {
    "correct(rescale | icon)": "without select",
    "select(rescale | icon, icon)": "without correct",
    "select(correct(icon), icon)": "without rescale",
    "rescale | icon": "rescale alone",
    CORR: "correct alone",
}
ABLATIONS: dict[str, dict[str, str]] = {
    "conservation": {**_WITHOUT_CONSERVATION, **_WITHOUT_MFC},
    "mfc": _WITHOUT_MFC,
}
"""What remains of the problem's programs, and what is then missing."""
ABLATED = {CONSERVATION: _WITHOUT_CONSERVATION, MFC: _WITHOUT_MFC}

_EVERYWHERE = {
    "minmax | icon": "min–max scaling",
    BAGGING: "prompt bagging, 12 evaluations",
    "ridge": "ridge on the examples",
    "nearest_output": "nearest output",
    "mean_output": "mean output",
}
BASELINES: dict[str, dict[str, str]] = {
    "conservation": {
        "normalize | icon": "VICON normalisation", **_EVERYWHERE, "copy_query": "the query itself",
    },
    "mfc": {"normalize(separate=True) | icon": "VICON normalisation", **_EVERYWHERE},
}  # fmt: skip

_SPECTRAL = 'moving_frame(shift="spectral")'
HAND: dict[str, dict[str, str]] = {
    "conservation": {
        LINE: "line",
        ANYTHING: "anything",
        LAW: "law, no network",
        "views(icon)": "views alone",
        "krige(icon)": "krige alone",
        f"{_SPECTRAL} | icon": "spectral frame alone",
        f"{_SPECTRAL} | views(icon)": "views in it",
        f"{_SPECTRAL} | krige(icon)": "krige in it",
        f"{_SPECTRAL} | correct(icon, magnitude=0.5, gate=False)": "half of the errors in it",
    },
    "mfc": {
        DENSITIES: "densities",
        ANYTHING: "anything",
        "views(icon)": "views alone",
        "krige(icon)": "krige alone",
    },
}
"""Programs by hand that learn from the examples, what they are made of, and the law itself."""

AUTO, AUTO_WITHOUT_LEAVES = "auto", "auto(leaves=False)"
AGENTS = {AUTO: "auto", AUTO_WITHOUT_LEAVES: "auto, only the model"}
"""Programs that decide by themselves, with their defaults; the second leaves out what needs no model."""

EVOLVED: dict[str, dict[str, str]] = {
    problem: {found.text: f"evolved, seed {found.seed}" for found in FOUND if found.task == problem}
    for problem in ("conservation", "mfc")
}
"""What `chop evolve` found on each problem's evolution set, by the seed of the run."""
BEST_EVOLVED = {problem: best_found(problem).text for problem in EVOLVED}

LABELS = {
    **{
        text: label
        for table in (*EVOLVED.values(), *BASELINES.values(), *HAND.values(), AGENTS)
        for text, label in table.items()
    },
    RAW: "Raw ICON",
    CONSERVATION: "CHOP(Conservation)",
    MFC: "CHOP(MFC)",
    CORR: "CHOP(Corr)",
    FLAT: "the query's mean",
    **{method: f"fine-tuning, rate {float(method[10:-1]):g}" for method in FINE_TUNING},
}

AIR = TEXTS["air"]
PERSISTENCE = "last_frame"
YESTERDAY = "@yesterday"
AIR_LABELS = {
    AIR: "CHOP(Air)",
    RAW: "Raw ICON",
    PERSISTENCE: "persistence",
    YESTERDAY: "same hour yesterday",
    "mean_output": "mean of the examples",
    "nearest_output": "nearest example",
}
AIR_METHODS = tuple(AIR_LABELS)
"""In this order: what CHOP(Air) asks the network answers Raw ICON too."""

_MIRRORS = "average(icon, flip | icon, reflect | icon, flip | reflect | icon)"


def _scaled(target: str, base: str = "icon") -> str:
    return f'rescale(center="mean", target={target}) | {base}'


def grid_programs(problem: str) -> tuple[str, ...]:
    """Programs among which the evolution set chooses; all ask the network, the paper's are among them."""
    return {"conservation": _conservation_grid, "mfc": _mfc_grid, "rollout": _rollout_grid}[problem]()


def _conservation_grid() -> tuple[str, ...]:
    found = [RAW, CONSERVATION, MFC]
    for frame in ("", "moving_frame | ", f"{_SPECTRAL} | "):
        for scaled in ("icon", *map(_scaled, ("0.4", "0.55", "0.7", "0.85", "1.0"))):
            found.append(f"{frame}{scaled} | conserve_mean")
    several = f"icon, {_scaled('0.5')}, {_scaled('0.7')}"
    found += [
        f"{_SPECTRAL} | {_MIRRORS} | conserve_mean",
        f"{_SPECTRAL} | {_scaled('0.55', _MIRRORS)} | conserve_mean",
        f"{_SPECTRAL} | {_scaled('0.7', _MIRRORS)} | conserve_mean",
        f"{_SPECTRAL} | average({several}) | conserve_mean",
        f"{_SPECTRAL} | average(flip | reflect | icon, {several}) | conserve_mean",
        f"{_SPECTRAL} | select({several}, gap=1) | conserve_mean",
        f"{_SPECTRAL} | combine({several}, gap=1) | conserve_mean",
        f"{_SPECTRAL} | correct(icon, gap=1) | conserve_mean",
        f"{_SPECTRAL} | correct(icon) | conserve_mean",
        f"{_SPECTRAL} | correct({_MIRRORS}, gap=1) | conserve_mean",
        f"{_SPECTRAL} | {_scaled('0.7', 'correct(icon, gap=1)')} | conserve_mean",
        f"{_SPECTRAL} | {_scaled('0.55', 'correct(icon, gap=1)')} | conserve_mean",
        f"{_SPECTRAL} | {_scaled('0.7', f'correct({_MIRRORS}, gap=1)')} | conserve_mean",
        f"{_SPECTRAL} | {_scaled('0.85', f'correct({_MIRRORS}, gap=1)')} | conserve_mean",
        f"{_SPECTRAL} | {_scaled('1.0', f'correct({_MIRRORS}, gap=1)')} | conserve_mean",
        f"{_SPECTRAL} | {_scaled('0.85', 'correct(icon, gap=1)')} | conserve_mean",
        f"{_SPECTRAL} | combine(correct(icon, gap=1), icon, ridge, copy_query, gap=1) | conserve_mean",
        "moving_frame | correct(icon, gap=1) | conserve_mean",
        f"{_SPECTRAL} | debias(icon, gap=1) | conserve_mean",
        f"{_SPECTRAL} | combine(icon, copy_query, ridge, gap=1) | conserve_mean",
        f"{_SPECTRAL} | correct({_scaled('0.7')}) | conserve_mean",
        f"select({_SPECTRAL} | {_scaled('0.7')}, {_SPECTRAL} | icon, icon, gap=1) | conserve_mean",
        f"combine({_SPECTRAL} | {_scaled('0.7')}, {_SPECTRAL} | icon, icon, gap=1) | conserve_mean",
        "icon | conserve_mean | within_examples",
        f"{_SPECTRAL} | {_scaled('0.7')} | conserve_mean | within_examples",
    ]
    return tuple(dict.fromkeys(found))


def _mfc_grid() -> tuple[str, ...]:
    mirrored = "average(icon, reflect | icon)"
    found = [RAW, MFC, CORR, "rescale | icon", "correct(rescale | icon)"]
    found += [mirrored, f"correct({mirrored})"]
    found += [
        "debias(icon)",
        "debias(rescale | icon)",
        f"debias({mirrored})",
        "correct(icon) | nonnegative",
        "correct(icon) | nonnegative | unit_mass",
        "correct(icon, pad=False)",
        "correct(icon, magnitude=1.0)",
        'correct(icon, weights="uniform")',
        "select(correct(icon), ridge, icon)",
        "select(correct(icon) | nonnegative | unit_mass, ridge, icon)",
        f"select(correct({mirrored}), ridge, correct(icon), icon)",
        f"select(correct({mirrored}) | nonnegative | unit_mass, ridge, correct(icon), icon)",
        f"correct({mirrored}) | nonnegative | unit_mass",
        "combine(icon, debias(icon), ridge, mean_output)",
        "combine(debias(icon), icon, ridge, nearest_output)",
        "combine(correct(icon), ridge, icon)",
        f"combine(correct({mirrored}), ridge, icon)",
        "combine(ridge, icon)",
        "correct(combine(icon, ridge))",
        "correct(correct(icon))",
        "debias(correct(icon))",
        "correct(debias(icon))",
    ]
    return tuple(dict.fromkeys(found))


def _rollout_grid() -> tuple[str, ...]:
    """Programs of 1 to 4 evaluations a step, among which long rollouts choose.

    Mixtures with the query or its mean are left out on purpose: at the last step, where phases are lost, they
    win by forgetting, and are no forecast before it.
    """
    twice = "average(icon, reflect | icon)"
    rougher = [
        "icon",
        "icon | within_examples",
        "moving_frame | icon",
        f"moving_frame | {_scaled('0.7')}",
        f"{_SPECTRAL} | {_scaled('0.55')}",
        f"{_SPECTRAL} | {_scaled('0.7')}",
        f"{_SPECTRAL} | {_scaled('1.0')}",
        f"{_SPECTRAL} | {_scaled('0.7', twice)}",
    ]
    bounded = [
        "icon",
        "moving_frame | icon",
        _scaled("0.7"),
        f"moving_frame | {_scaled('0.7')}",
        'moving_frame | rescale(center="mean") | icon',
        f"{_SPECTRAL} | {_scaled('0.7')}",
        twice,
        "average(icon, flip | reflect | icon)",
        f"{_SPECTRAL} | {twice}",
        f"{_SPECTRAL} | {_scaled('0.7', twice)}",
        'average(icon, moving_frame | rescale(center="mean") | icon)',
        _MIRRORS,
    ]
    found = [RAW, CONSERVATION, *(f"{text} | conserve_mean" for text in rougher)]
    return (*found, *(f"{text} | bound_variation | conserve_mean" for text in bounded))


def label_of(method: str, labels: Mapping[str, str] = LABELS) -> str:
    """A short name for tables and legends; a program without one is its text."""
    return labels.get(method, method)
