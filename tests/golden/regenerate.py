"""Writes the golden answers anew: ``python tests/golden/regenerate.py`` (read README.md first)."""

import json
from pathlib import Path

import torch

import chop
from chop.testing import make_prompt, toy_model

HERE = Path(__file__).parent

# What each program is asked: the arguments of `make_prompt`.
QUESTIONS = {
    "raw": {"seed": 11, "batch": (2,)},
    "conservation": {"seed": 12, "batch": (2,), "points": 20, "consecutive": True},
    "mfc": {"seed": 13, "batch": (4,), "style": "nonnegative", "answer_points": 9},
    "corr": {"seed": 14, "batch": (4,), "dimensions": 2, "own_grids": True},
    "air": {"seed": 15, "batch": (2,), "dimensions": 3, "points": 6, "channels": (4, 4), "masked": True},
    "line": {"seed": 19, "batch": (2,), "points": 20, "consecutive": True},
    "densities": {"seed": 20, "batch": (2,), "style": "nonnegative"},
    "anything": {"seed": 21, "batch": (2,), "dimensions": 2, "own_grids": True},
    "conservation_evolved": {"seed": 16, "batch": (2,), "points": 20, "consecutive": True},
    "mfc_evolved": {"seed": 17, "batch": (2,), "style": "nonnegative"},
    "air_evolved": {
        "seed": 18,
        "batch": (2,),
        "dimensions": 3,
        "points": 6,
        "channels": (4, 4),
        "masked": True,
    },
}


def prompt_of(name):
    return make_prompt(**QUESTIONS[name])


def answer_of(name):
    """A few numbers that stand for a program's answer."""
    prompt = prompt_of(name)
    result = chop.programs[name].run(toy_model, prompt, validate=True)
    flat = result.values.reshape(prompt.batch.numel(), -1)
    return {
        "program": str(chop.programs[name]),
        "prompt": {
            "inputs": float(prompt.inputs.values.sum()),
            "outputs": float(prompt.outputs.values.sum()),
            "query": float(prompt.query.values.sum()),
        },
        "calls": result.calls,
        "rounds": result.rounds,
        "shape": list(result.values.shape),
        "first, middle and last value of each query": flat[:, [0, flat.shape[1] // 2, -1]].tolist(),
        "root mean square of each query": flat.square().mean(dim=1).sqrt().tolist(),
        "in-context error of each query": result.error.tolist(),
    }


def main():
    torch.set_num_threads(1)
    for name in QUESTIONS:
        text = json.dumps(answer_of(name), indent=2) + "\n"
        (HERE / f"{name}.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
