"""Small frozen models for the tests of the core."""

import torch
from torch import nn

from chop.core.model import arrays


def plain_arithmetic(prompt):
    """Only sums and products, entry by entry: the same bits however a batch is cut."""
    outputs = prompt.outputs.values
    return 0.5 * outputs[..., 0, :, :] + 0.25 * outputs[..., -1, :, :] + 2 * prompt.at[..., :1]


class Recording:
    """A model that remembers every prompt it was asked."""

    def __init__(self, model=plain_arithmetic):
        self.model = model
        self.asked = []

    def __call__(self, prompt):
        self.asked.append(prompt)
        return self.model(prompt)

    @property
    def invocations(self):
        return len(self.asked)

    @property
    def rows(self):
        return sum(prompt.batch.numel() for prompt in self.asked)


class Attention(nn.Module):
    """One attention layer from the asked points to all points of all pairs and of the query."""

    def __init__(self, dimensions=1, channels=(1, 1), width=16, seed=0):
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            c_in, c_out = channels
            self.read_input = nn.Linear(dimensions + c_in, width)
            self.read_output = nn.Linear(dimensions + c_out, width)
            self.ask = nn.Linear(dimensions, width)
            self.attend = nn.MultiheadAttention(width, 2, batch_first=True)
            self.tell = nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.Linear(width, c_out))
        self.double().eval()

    def forward(self, input_coords, input_values, output_coords, output_values, coords, values, at):
        tokens = [
            self.read_input(torch.cat([input_coords, input_values], dim=-1)).flatten(1, 2),
            self.read_output(torch.cat([output_coords, output_values], dim=-1)).flatten(1, 2),
            self.read_input(torch.cat([coords, values], dim=-1)),
        ]
        memory = torch.cat(tokens, dim=1)
        found, _ = self.attend(self.ask(at), memory, memory, need_weights=False)
        return self.tell(found)


class PromptAttention(nn.Module):
    """The same, asked with prompts."""

    def __init__(self, **options):
        super().__init__()
        self.network = Attention(**options)
        self.eval()

    def forward(self, prompt):
        return self.network(*arrays(prompt)).reshape(prompt.answer_shape)


class Sharing:
    """Encodes each pair alone, and in `predict_many` each pair of a common parent only once."""

    def __init__(self):
        self.encoded = 0
        self.batches = []

    def __call__(self, prompt):
        return self._decode(self._encode(prompt), prompt)

    def predict_many(self, prompts):
        self.batches.append(list(prompts))
        codes = {}
        answers = []
        for prompt in prompts:
            source = prompt if prompt.origin is None else prompt.origin.parent
            if source not in codes:
                codes[source] = self._encode(source)
            code = codes[source]
            if prompt.origin is not None:
                kept = prompt.origin.kept
                while code.ndim < kept.ndim + 2:  # held out: every element sees the parent's pairs
                    code = code.unsqueeze(-4)
                code = code.expand(*kept.shape[:-1], *code.shape[-3:])
                code = code.gather(-3, kept[..., None, None].expand(*kept.shape, *code.shape[-2:]))
            answers.append(self._decode(code, prompt))
        return answers

    def _encode(self, prompt):
        self.encoded += prompt.batch.numel() * prompt.examples
        return prompt.outputs.values + prompt.inputs.values.mean(dim=(-1, -2), keepdim=True)

    def _decode(self, code, prompt):
        return code.mean(dim=-3) + prompt.query.values.mean(dim=(-1, -2), keepdim=True)
