"""The shapes of in-context operator networks: plain numbers that travel in the header of their weights."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Self

from chop.core.errors import ModelError

MOST_LAYERS = 64
"""Of each kind that a network may have; files from anyone say how many, and each takes time to build."""


@dataclass(frozen=True)
class NetworkConfig:
    """What all shapes have in common: whole numbers in a range, and the way to a file and back."""

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """The inverse of `to_dict`; an unknown or missing setting is an error."""
        names = {field.name for field in fields(cls)}
        if set(values) != names:
            odd = ", ".join(sorted(set(values) ^ names))
            raise ModelError(f"the configuration of the network does not fit this version: {odd}")
        return cls(**values)

    def _check_whole_numbers(self, most: int, may_be_zero: tuple[str, ...] = ()) -> None:
        """All fields declared as ``int`` are, and in range."""
        for field in fields(self):
            value = getattr(self, field.name)
            if not str(field.type).startswith("int") or (value is None and "None" in str(field.type)):
                continue
            low = 0 if field.name in may_be_zero else 1
            high = MOST_LAYERS if field.name.endswith("_layers") else most
            if not (type(value) is int and low <= value <= high):
                raise ModelError(
                    f"{field.name} of a network must be a whole number, {low} to {high}, not {value!r:.40}"
                )

    def _check_channels(self, names: object) -> None:
        """Channels of stations: names, the hour before all others."""
        if not (isinstance(names, tuple) and names and all(type(name) is str for name in names)):
            raise ModelError(f"the channels of a network of stations are names, not {names!r:.40}")
        if names[0] != "hour":
            raise ModelError(f"the first channel of a network of stations is the hour, not {names[0]!r:.40}")


@dataclass(frozen=True)
class IconConfig(NetworkConfig):
    """What a network of functions is made of.

    ``coordinates`` is how many a prompt may have at most: 1 means x, 2 means (t, x), and x is periodic
    with period 1. With ``grid`` every function of x is read at that many equidistant points (others are
    interpolated linearly), one token carries both functions of a pair and the network predicts the
    change from the query; without it functions live on any points, and inputs, outputs and answer have
    tokens of their own.
    """

    coordinates: int = 1
    inputs: int = 1
    outputs: int = 1
    grid: int | None = 100
    width: int = 128
    heads: int = 4
    encoder_layers: int = 3
    decoder_layers: int = 4
    patch: int = 10
    margin: int = 5

    def __post_init__(self) -> None:
        self._check_whole_numbers(2**16, may_be_zero=("margin",))
        if self.coordinates > 2:
            raise ModelError(f"a network knows one or two coordinates, not {self.coordinates}")
        if self.width % self.heads or (self.width // self.heads) % 4:
            raise ModelError(f"width {self.width} must be {self.heads} heads of a multiple of 4 numbers")
        if self.grid is not None and (self.coordinates != 1 or self.grid % self.patch):
            raise ModelError("a fixed grid needs one coordinate and a whole number of patches")
        if self.grid is not None and self.inputs != self.outputs:
            raise ModelError("a network that predicts the change needs as many outputs as inputs")

    @property
    def window(self) -> int:
        """Points seen by one token: its own patch and a margin on both sides."""
        return self.patch + 2 * self.margin


@dataclass(frozen=True)
class StationConfig(NetworkConfig):
    """What a network on station graphs is made of.

    A window has ``hours`` frames of ``len(channels)`` numbers at each station; the answer is one frame
    more. ``lengths`` are the kernels' lengths in kilometres before training.
    """

    channels: tuple[str, ...] = ("hour", "NO2", "PM2.5", "O3")
    hours: int = 24
    width: int = 96
    heads: int = 4
    window_layers: int = 3
    pair_layers: int = 1
    asking_layers: int = 2
    lengths: tuple[float, ...] = (20.0, 60.0, 150.0, 400.0)
    each: int = 16
    """Numbers of a token that one kernel carries."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "channels", tuple(str(name) for name in self.channels))
        object.__setattr__(self, "lengths", tuple(float(length) for length in self.lengths))
        self._check_whole_numbers(2**12)
        self._check_channels(self.channels)
        if not self.lengths or not all(0 < length < float("inf") for length in self.lengths):
            raise ModelError(f"kernel lengths must be positive, not {self.lengths}")
        if self.width % self.heads or (self.kernels * self.each) % self.width:
            raise ModelError(
                f"width {self.width} must be a multiple of {self.heads} heads and divide "
                f"{self.kernels} kernels of {self.each} numbers"
            )

    @property
    def kernels(self) -> int:
        """Station × station matrices: each length without direction, eastward and northward."""
        return 3 * len(self.lengths)


@dataclass(frozen=True)
class PublishedConfig(NetworkConfig):
    """What a published ICON is made of: one token for each point of each function, in one sequence.

    A token is made of ``coordinates`` (x, or t and x) and ``channels`` values. ``functions`` is how many
    functions the embedding tells apart, three for each example and the query; 0: it has none. The network
    was shown x times ``x_scale``.
    """

    coordinates: int = 1
    channels: int = 1
    width: int = 256
    heads: int = 8
    transformer_layers: int = 6
    hidden: int = 1024
    functions: int = 100
    x_scale: float = 1.0

    def __post_init__(self) -> None:
        self._check_whole_numbers(2**16, may_be_zero=("functions",))
        if self.coordinates > 2:
            raise ModelError(f"a network knows one or two coordinates, not {self.coordinates}")
        if self.width % self.heads:
            raise ModelError(f"width {self.width} must be a multiple of {self.heads} heads")
        if not (type(self.x_scale) is float and 0 < self.x_scale < float("inf")):
            raise ModelError(f"x_scale must be a positive number, not {self.x_scale!r:.40}")

    @property
    def most_examples(self) -> int | None:
        """How many examples its embedding has room for; None: any number."""
        return self.functions // 3 - 1 if self.functions else None


_SIMILARITIES, _POOLINGS, _ROLES = ("prod", "attn"), (None, "learning", "pooling"), (None, "input", "logit")
_ATTENTIONS: dict[str, dict[str, tuple[str | None, ...]]] = {
    "plain": {"role": _ROLES},
    "rotary": {},
    "relative": {},
    "similar": {"similarity": _SIMILARITIES, "pooling": _POOLINGS, "role": _ROLES},
    "placed": {"similarity": _SIMILARITIES, "role": _ROLES},
    "absolute": {},
    "set_rotary": {"role": _ROLES},
}
"""The kinds of attention of a graph network, and what each leaves to choose."""


@dataclass(frozen=True)
class GraphConfig(NetworkConfig):
    """What a published graph ICON is made of: windows and frames in one sequence, a token at each station.

    Prompts have ``channels``; the network was trained with the same ones in ``trained_order``. Each of
    ``graph_layers`` blocks passes messages of ``message_width`` numbers along edges, and then goes through
    ``transformer_layers`` at each station. How these attend is ``attention``:

    - ``plain``: by content alone; ``rotary``: turned by the position in the sequence; ``absolute``: with an
      embedding of the position;
    - ``relative``: plus a number for each distance in the sequence;
    - ``similar``: plus how similar two examples are as a whole: of what is pooled over stations (the mean,
      through a map if ``pooling`` is "learning", weighted if it is "pooling") the inner product, or with
      ``similarity`` "attn" that of two maps; ``placed``: the same of embeddings of their places;
    - ``set_rotary``: turned by an angle that each example has as one of its set.

    ``role`` says how attention tells windows from what followed, if it does: by what enters ("input") or by
    a number for each combination ("logit"). ``most_examples`` is how many the embeddings have room for, 0 if
    there are none; with ``absolute_positions`` the tokens themselves have one.
    """

    channels: tuple[str, ...] = (
        "hour", "t2m", "d2m", "tp", "sp", "blh", "msdwswrf", "u100", "v100", "wind_speed", "wind_direction",
        "PM2.5", "O3",
    )  # fmt: skip
    trained_order: tuple[str, ...] = (
        "t2m", "d2m", "tp", "sp", "blh", "msdwswrf", "u100", "v100", "hour", "wind_speed", "wind_direction",
        "PM2.5", "O3",
    )  # fmt: skip
    hours: int = 24
    width: int = 256
    heads: int = 8
    hidden: int = 1024
    edge_width: int = 256
    message_width: int = 256
    graph_layers: int = 3
    transformer_layers: int = 2
    attention: str = "plain"
    similarity: str | None = None
    pooling: str | None = None
    role: str | None = None
    norm: str = "layer"
    most_examples: int = 0
    absolute_positions: bool = False

    def __post_init__(self) -> None:
        for name in ("channels", "trained_order"):
            given = getattr(self, name)
            object.__setattr__(self, name, tuple(given) if isinstance(given, list) else given)
        self._check_channels(self.channels)
        self._check_whole_numbers(2**12, may_be_zero=("most_examples",))
        self._check_choices()
        if len(set(self.channels)) < len(self.channels):
            raise ModelError(f"the channels {', '.join(self.channels)!r:.80} have one name twice")
        order: object = self.trained_order
        if not isinstance(order, tuple) or sorted(map(repr, order)) != sorted(map(repr, self.channels)):
            raise ModelError(f"trained_order has the channels in another order, and is not {order!r:.80}")
        if self.graph_layers * self.transformer_layers > MOST_LAYERS:
            raise ModelError(
                f"{self.graph_layers} blocks of {self.transformer_layers} layers are more than {MOST_LAYERS}"
            )
        turned = self.attention in ("rotary", "set_rotary")
        if self.width % self.heads or (turned and self.width // self.heads % 2):
            even = "an even number of numbers" if turned else "equally many numbers"
            raise ModelError(f"width {self.width} must be {self.heads} heads of {even} each")
        if self.pooling is not None and self.width < 4:
            raise ModelError(f"pooling needs a width of 4 or more, not {self.width}")

    def _check_choices(self) -> None:
        if type(self.attention) is not str or self.attention not in _ATTENTIONS:
            raise ModelError(f"attention is one of {', '.join(_ATTENTIONS)}, not {self.attention!r:.40}")
        if type(self.absolute_positions) is not bool:
            raise ModelError(f"absolute_positions is true or false, not {self.absolute_positions!r:.40}")
        free = _ATTENTIONS[self.attention]
        for name in ("similarity", "pooling", "role"):
            value, allowed = getattr(self, name), free.get(name, (None,))
            if value not in allowed:
                choices = " or ".join(map(str, allowed))
                raise ModelError(f"{name} of {self.attention} attention is {choices}, not {value!r:.40}")
        if self.norm not in ("layer", "rms"):
            raise ModelError(f"norm of a network is layer or rms, not {self.norm!r:.40}")
        embedded = self.absolute_positions or self.attention in ("relative", "placed", "absolute")
        if embedded != bool(self.most_examples):
            kind, least = ("with", "1 or more") if embedded else ("without", "0")
            raise ModelError(
                f"most_examples of a network {kind} embeddings of positions must be {least}, "
                f"not {self.most_examples}"
            )


_SHAPES: tuple[type[NetworkConfig], ...] = (IconConfig, StationConfig, PublishedConfig, GraphConfig)


def config_from(values: Mapping[str, Any]) -> NetworkConfig:
    """The shape that a header or a plan describes: the kind of network whose settings these are."""
    if not isinstance(values, Mapping):
        raise ModelError(f"the configuration of a network is a table, not {type(values).__name__}")
    settings = {kind: {field.name for field in fields(kind)} for kind in _SHAPES}
    nearest = min(_SHAPES, key=lambda kind: len(settings[kind] ^ set(values)))
    return nearest.from_dict(values)


CONSERVATION = IconConfig()
MFC = IconConfig(coordinates=2, grid=None)
AIR = StationConfig()
