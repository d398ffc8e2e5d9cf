"""Evolve programs around a model of your own, on questions of your own.

Run it with ``chop evolve --task examples/own_task.py --budget 300``: the file is imported, and its ``task``
is what programs are judged on.
"""

import torch

import chop

x = torch.arange(32)[:, None] / 32


def questions(seed: int, n: int = 40) -> chop.evolution.Case:
    """n prompts of five pairs (u, exp(-k t) u) with a hidden k each, and the answers wanted."""
    dice = torch.Generator().manual_seed(seed)
    size, phase = 4 * torch.rand(n, 6, 1, 1, generator=dice), torch.rand(n, 6, 1, 1, generator=dice)
    u = size * torch.sin(2 * torch.pi * (x + phase)) + size
    v = torch.exp(-torch.rand(n, 1, 1, 1, generator=dice)) * u
    prompt = chop.Prompt.from_arrays(u[:, :5], v[:, :5], u[:, 5], coords=x)
    return chop.evolution.Case(prompt, v[:, 5])


def model(prompt: chop.Prompt) -> torch.Tensor:
    """Your frozen model: any callable. This one knows the decay, and saturates above 1."""
    decay = (prompt.outputs.values / prompt.inputs.values.clamp(min=1e-3)).mean(dim=(-3, -2, -1))
    return torch.tanh(decay[..., None, None] * prompt.query.values)


task = chop.evolution.Task("decay", model, questions(0), validation=questions(1))
