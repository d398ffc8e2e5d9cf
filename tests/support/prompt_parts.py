"""Small good prompts and their fields, to be spoiled or cut."""

import numpy as np
import torch

from chop import Field, Prompt

B, D, N, M = 2, 3, 4, 5  # batch, examples, input points, output points


def field(*shape, k=1, dtype=torch.float64, mask=None):
    """A field with `shape` = (..., n, c) and one grid for all."""
    coords = torch.linspace(0, 1, shape[-2] + 1, dtype=dtype)[:-1, None].expand(shape[-2], k)
    count = int(np.prod(shape))
    return Field(coords, torch.arange(count, dtype=dtype).reshape(shape) / count, mask)


def made(**changes):
    """A good prompt, apart from the changes."""
    parts = {
        "inputs": field(B, D, N, 2),
        "outputs": field(B, D, M, 1),
        "query": field(B, N, 2),
        "at": torch.linspace(0, 1, M, dtype=torch.float64)[:, None],
    }
    return Prompt(**{**parts, **changes})
