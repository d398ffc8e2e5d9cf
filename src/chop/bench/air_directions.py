"""Who is asked about where: networks by their names, regions by theirs, and every direction between them.

A network is known by the region it was trained in, or by a name that was given to it; a region by the name of
its file, ``dataset_NAME.nc``. The paper's two regions and the bundled networks are the usual ones.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from chop.bench.air_questions import LEADS
from chop.bench.methods import AIR_METHODS, PERSISTENCE, RAW
from chop.bench.store import Store
from chop.bench.suite import Condition
from chop.core.errors import BenchError
from chop.icon.config import GraphConfig, StationConfig
from chop.icon.weights import Provenance, bundled, find, provenance
from chop.problems.air import POLLUTANTS
from chop.problems.air.dataset import check_region_name

REGIONS = {"bthsa": "BTHSA", "yrd": "YRD"}
"""The paper's, as it writes them."""
SELECTIONS = ("random", "similar")
HOME_LEADS = (6, 12, 24, 48)
HOME_METHODS = (RAW, PERSISTENCE)
CHUNK = 32
NETWORK_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.]{0,63}")
"""As a region's, but without a hyphen: the first one in the name of a direction ends the network's."""


@dataclass(frozen=True)
class Direction:
    """A network and the region whose questions it is asked."""

    network: str
    region: str
    trained: str | None = None
    """The region the network was trained in, where its name is another."""

    @property
    def name(self) -> str:
        return f"{self.network}-{self.region}"

    @property
    def carried(self) -> bool:
        return (self.trained or self.network) != self.region

    @property
    def label(self) -> str:
        network, region = shown_name(self.network), shown_name(self.region)
        if self.carried:
            return f"{network} → {region}"
        return f"{region} at home" if self.network == network_name(self.region) else f"{network} in {region}"

    @property
    def methods(self) -> tuple[str, ...]:
        return AIR_METHODS if self.carried else HOME_METHODS

    @property
    def conditions(self) -> tuple[Condition, ...]:
        """Every selection and lead that is asked, in the order in which windows repeat most."""
        if self.carried:
            return tuple(self.condition(selection, lead) for selection in SELECTIONS for lead in LEADS)
        return tuple(self.condition(SELECTIONS[0], lead) for lead in HOME_LEADS)

    def condition(self, selection: str, lead: int) -> Condition:
        """What one question is asked."""
        settings = (("direction", self), ("selection", selection), ("lead", lead))
        name = f"{self.name}/{selection}/{lead}"
        return Condition(name, self.network, self.label, settings, chunk=CHUNK, columns=POLLUTANTS)


FORWARD, REVERSE = Direction("bthsa", "yrd"), Direction("yrd", "bthsa")
DIRECTIONS = tuple(d for carried in (FORWARD, REVERSE) for d in (carried, Direction(*[carried.network] * 2)))
"""The usual ones, each followed by its network at home."""


def shown_name(name: str) -> str:
    """A network or a region as tables and figures write it."""
    return REGIONS.get(name, name)


def network_name(text: str) -> str:
    """What a network is called after a region or a file."""
    return text.replace("-", "_")


@dataclass(frozen=True)
class StationNetwork:
    """A network that was given: what it is called, and where it is."""

    name: str
    model: str
    """A bundled one or a file."""
    trained: str | None = None
    """The region it was trained in, where its name is another."""


def given_network(text: str) -> StationNetwork:
    """A network from ``air_bthsa``, ``bthsa``, a file, or ``NAME=`` any of these.

    Without a name it is called after the region it was trained in, as its file says, or else after its file.
    """
    name, model = _named(text)
    if model not in bundled() and f"air_{model}" in bundled():
        model = f"air_{model}"
    header = provenance(find(model))
    channels_of(model, header)
    trained = _trained_in(header)
    called = network_name(trained or Path(model).stem) if name is None else name
    if not NETWORK_NAME.fullmatch(called):
        raise BenchError(
            f"the network {text} has the name {called!r}: give it one of letters, digits, '_' and '.' with "
            f"--network NAME={model}"
        )
    return StationNetwork(called, model, None if trained == called else trained)


def channels_of(model: str, header: Provenance) -> tuple[str, ...]:
    """What a network of stations sees; no other is asked."""
    if not isinstance(header.config, StationConfig | GraphConfig):
        raise BenchError(f"{model} is not a network of stations; this benchmark asks only those")
    return header.config.channels


def _named(text: str) -> tuple[str | None, str]:
    """``NAME=FILE`` in two; a file may have an equals sign in its own name."""
    name, equals, model = text.partition("=")
    if not (equals and name and model) or "/" in name or Path(text).is_file():
        return None, text
    return name, model


def _trained_in(header: Provenance) -> str | None:
    """The region that the command of a training names, if the file tells it."""
    found = re.search(r"^chop train air --region (\S+)", str(header.training.get("command", "")))
    return None if found is None else found[1]


def given_networks(texts: Iterable[str]) -> tuple[StationNetwork, ...]:
    """As `given_network`, each with a name of its own."""
    found: dict[str, StationNetwork] = {}
    for network in map(given_network, texts):
        if network.name in found:
            raise BenchError(
                f"two networks are called {network.name}, {found[network.name].model} and {network.model}: "
                "give names with --network NAME=FILE"
            )
        found[network.name] = network
    return tuple(found.values())


def directions_between(networks: Iterable[StationNetwork], regions: Iterable[str]) -> list[Direction]:
    """Every network with every region: of each network the regions it is carried to first."""
    regions = tuple(dict.fromkeys(regions))
    for region in regions:
        check_region_name(region)
    return [
        direction
        for network in networks
        for direction in sorted(
            (Direction(network.name, region, network.trained) for region in regions),
            key=lambda direction: not direction.carried,
        )
    ]


def stored_directions(store: Store) -> list[Direction]:
    """All that a store may hold results of: the usual ones first, then those of the networks it has used."""
    used = {whose: used.trained for (kind, whose), used in store.used.items() if kind == "network"}
    for name in used:
        if not NETWORK_NAME.fullmatch(name):  # it becomes the name of a figure's file
            raise BenchError(f"{store.path} has a network of the odd name {name!r:.80}; use another folder")
    networks = [StationNetwork(name, "", used.get(name)) for name in dict.fromkeys((*REGIONS, *used))]
    return directions_between(networks, (*REGIONS, *store.asked))
