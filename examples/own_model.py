"""Programs around a network of your own: a torch module with one token for each point.

CHOP needs nothing of a model but an answer at the points asked. A module that takes plain arrays (see
`chop.core.model.Arrays`) and returns ``(B, m, c)`` is wrapped by `chop.from_torch`; its dtype and device, the
batch axes of prompts, memory and counting are taken care of. The module below has the shape of the
reference networks: every point of every function is a token (1,200 of them for five examples on 100
points), 256 wide, 6 layers. Load your own weights where it says so.

Run it with ``python examples/own_model.py``.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

import chop


class PointTokens(nn.Module):
    """One token for each point: its coordinates, its value, and whose it is."""

    def __init__(
        self, coordinates: int = 1, channels: int = 1, examples: int = 5,
        width: int = 256, layers: int = 6, heads: int = 8,
    ) -> None:  # fmt: skip
        super().__init__()
        self.embed = nn.Linear(coordinates + channels, width)
        # Inputs and outputs of each example, the query's input, and the points asked.
        self.whose = nn.Embedding(2 * examples + 2, width)
        layer = nn.TransformerEncoderLayer(
            width, heads, 4 * width, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
        )
        self.body = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.head = nn.Linear(width, channels)

    def forward(
        self, input_coords: Tensor, input_values: Tensor, output_coords: Tensor, output_values: Tensor,
        query_coords: Tensor, query_values: Tensor, at: Tensor,
    ) -> Tensor:  # fmt: skip
        """Arrays with one batch axis in, the answer ``(B, m, c)`` at the points asked out."""
        examples = input_values.shape[1]
        functions = [(input_coords[:, i], input_values[:, i]) for i in range(examples)]
        functions += [(output_coords[:, i], output_values[:, i]) for i in range(examples)]
        functions += [(query_coords, query_values), (at, at.new_zeros(*at.shape[:2], query_values.shape[-1]))]
        tokens = [
            self.embed(torch.cat(function, dim=-1)) + self.whose.weight[i]
            for i, function in enumerate(functions)
        ]
        seen = self.body(torch.cat(tokens, dim=1))
        answer: Tensor = self.head(seen[:, -at.shape[1] :])
        return answer


def main(width: int = 256, layers: int = 6) -> None:
    """The module as a frozen model, bare and inside two programs."""
    torch.manual_seed(0)
    module = PointTokens(width=width, layers=layers)
    # module.load_state_dict(torch.load("your_weights.pt", weights_only=True))
    model = chop.from_torch(module)

    case = chop.problems.conservation.sample(flux="sin(u)-cos(u)", n=2, seed=0)
    for text in ("icon", "correct(icon)", "moving_frame | rescale(center='mean') | icon | conserve_mean"):
        result = chop.parse(text).run(model, case.prompt)
        error = chop.metrics.rel_l2(result.values, case.target).mean()
        print(f"{text}: {result.calls} evaluations, relative error {float(error):.3f}")


if __name__ == "__main__":
    main()
