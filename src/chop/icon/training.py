"""Pretraining: a plain loop that any number of worker processes run side by side.

A run is a folder. It can be killed at any moment and continues with the same command: at most
``save_every`` seconds are lost. The rate follows the share of the planned time (or steps) that is used,
so a run that shares its machine still ends well when it was told to end. With ``steps`` instead of
minutes a run is reproducible: interrupted or not, the same steps give the same weights.
"""

from __future__ import annotations

import io
import json
import math
import os
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from chop.core.errors import ChopError
from chop.icon.config import NetworkConfig, config_from
from chop.icon.curve import curve_rows
from chop.icon.optimizer import Optimizer
from chop.icon.recipes import RECIPES
from chop.icon.weights import build, read_weights, save
from chop.storage.atomic import make_folder, write_bytes, write_text


class TrainingError(ChopError):
    """A run that cannot start or continue as asked."""


@dataclass(frozen=True)
class TrainingPlan:
    """Everything that decides a run."""

    problem: str
    folder: str
    minutes: float = 60.0
    steps: int | None = None
    seed: int = 0
    size: int = 32
    rate: float = 2e-3
    warmup: int = 200
    decay: float = 0.6
    clip: float = 1.0
    average: float = 0.998
    save_every: float = 120.0
    validate_every: float = 120.0
    start: str | None = None
    config: NetworkConfig | None = None
    data: dict[str, Any] | None = None
    """Further settings of the batches."""
    small: bool = False
    """Judge the run by a few questions only."""

    def __post_init__(self) -> None:
        if self.problem not in RECIPES:
            raise TrainingError(f"a network is trained for {' or '.join(RECIPES)}, not {self.problem!r}")
        if not (self.minutes > 0 and self.size > 0 and (self.steps is None or self.steps > 0)):
            raise TrainingError("minutes, size and steps must be positive")

    @property
    def network(self) -> NetworkConfig:
        return self.config or RECIPES[self.problem].config

    def dump(self) -> str:
        return json.dumps(asdict(self))

    @staticmethod
    def parse(text: str) -> TrainingPlan:
        plan = TrainingPlan(**json.loads(text))
        config: Any = plan.config
        return replace(plan, config=config_from(config)) if config else plan


@dataclass(frozen=True)
class Team:
    """This worker among all; alone unless torch.distributed is set up."""

    rank: int = 0
    size: int = 1
    device: str = "cpu"

    def mean(self, flat: Tensor) -> Tensor:
        if self.size > 1:
            torch.distributed.all_reduce(flat)
            flat /= self.size
        return flat


class TrainingRun:
    """The state of a run: weights, their average, the optimiser, and where we are."""

    def __init__(self, plan: TrainingPlan, team: Team, report: Callable[[dict[str, Any]], None]) -> None:
        self.plan, self.team, self.report = plan, team, report
        self.folder = Path(plan.folder)
        torch.manual_seed(plan.seed)
        self.recipe = RECIPES[plan.problem]
        self.network = build(plan.network)
        self.ancestor: dict[str, Any] = {}
        if plan.start is not None:
            given, header = read_weights(Path(plan.start))
            if given.config != plan.network:
                raise TrainingError(f"{plan.start} holds a network of another shape")
            self.network.load_state_dict(given.state_dict())
            self.ancestor = dict(header.training)
        self.network.to(team.device)
        self.averaged = build(plan.network).to(team.device).requires_grad_(False)
        self.averaged.load_state_dict(self.network.state_dict())
        self.optimizer = Optimizer(self.network)
        data = {"size": plan.size, "seed": plan.seed, **(plan.data or {})}
        self.batches = self.recipe.batches(**data)
        self.step, self.seconds, self.loss, self.skipped = 0, 0.0, float("nan"), 0
        self.errors: dict[str, float] = {}
        self._resume()

    @property
    def share(self) -> float:
        """How much of the plan is done, 0 to 1."""
        if self.plan.steps is not None:
            return self.step / self.plan.steps
        return self.seconds / (60 * self.plan.minutes)

    def rate(self) -> float:
        """Warm-up, plateau, then a straight line to zero."""
        rising = (self.step + 1) / self.plan.warmup
        falling = (1 - self.share) / self.plan.decay
        return self.plan.rate * max(0.0, min(1.0, rising, falling))

    def train(self) -> None:
        """Until the plan is done."""
        begun = time.monotonic() - self.seconds
        saved = validated = self.seconds
        parent = os.getppid()
        while self.share < 1:
            self._advance(time.monotonic() - begun)
            if self.team.rank == 0:
                if self.seconds - validated >= self.plan.validate_every:
                    validated = self.seconds
                    self._validate()
                if self.seconds - saved >= self.plan.save_every:
                    saved = self.seconds
                    self._save()
            elif os.getppid() != parent:
                raise TrainingError("the launcher is gone")
        if self.team.rank == 0:
            self._validate()
            self._save()
            self.export(self.folder / "weights.safetensors")

    def _advance(self, seconds: float) -> None:
        plan, team = self.plan, self.team
        batch = _on(self.batches(self.step * team.size + team.rank), team.device)
        self.network.zero_grad(set_to_none=False)
        loss = self.recipe.loss(self.network, batch)
        loss.backward()
        parameters: list[Tensor] = list(self.network.parameters())
        gradients = [
            value.grad if value.grad is not None else torch.zeros_like(value) for value in parameters
        ]
        extra = torch.tensor([loss.item(), seconds * team.size if team.rank == 0 else 0.0])
        flat = torch.cat([*(g.flatten() for g in gradients), extra.to(team.device)])
        flat = team.mean(flat)
        norm = flat[:-2].norm()
        if bool(torch.isfinite(norm)):
            flat[:-2] *= (plan.clip / (norm + 1e-6)).clamp(max=1.0)
            offset = 0
            for value in parameters:
                value.grad = flat[offset : offset + value.numel()].view_as(value)
                offset += value.numel()
            self.optimizer.step(self.rate())
        else:
            self.skipped += 1
        self.step += 1
        self.seconds = float(flat[-1])
        now = float(flat[-2])
        self.loss = now if math.isnan(self.loss) else 0.99 * self.loss + 0.01 * now
        pull = max(1 - plan.average, 1 / (1 + self.step))
        with torch.no_grad():
            torch._foreach_lerp_(list(self.averaged.parameters()), parameters, pull)
        if self.team.rank == 0:
            self.report(self.state())

    def state(self) -> dict[str, Any]:
        """Where the run is, in plain values."""
        return {
            "step": self.step,
            "seconds": round(self.seconds, 2),
            "share": round(self.share, 5),
            "rate": self.rate(),
            "loss": round(self.loss, 6),
            "skipped": self.skipped,
            "workers": self.team.size,
            "errors": self.errors,
        }

    def _validate(self) -> None:
        self.errors = self.recipe.errors(self.averaged, self.batches, self.plan.small)
        with (self.folder / "curve.jsonl").open("a") as file:
            file.write(json.dumps(self.state()) + "\n")
        self.report({**self.state(), "validated": True})

    def export(self, path: Path) -> None:
        """The averaged weights, with their history."""
        save(self.averaged, path, history(self.plan, self.state(), self.ancestor))

    def _save(self) -> None:
        state = {
            "plan": self.plan.dump(),
            "network": self.network.state_dict(),
            "averaged": self.averaged.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "where": self.state(),
            "ancestor": json.dumps(self.ancestor),
        }
        packed = io.BytesIO()
        torch.save(state, packed)
        write_bytes(self.folder / "checkpoint.pt", packed.getvalue(), TrainingError, overwrite=True)

    def _resume(self) -> None:
        """Every worker reads the same checkpoint; the curve is cut back to it."""
        path = make_folder(self.folder, TrainingError) / "checkpoint.pt"
        if not path.exists():
            return
        try:
            state = torch.load(path, map_location=self.team.device, weights_only=True)
            before = TrainingPlan.parse(state["plan"])
            same = replace(before, **{name: getattr(self.plan, name) for name in _MAY_CHANGE})
            if same != self.plan:
                raise TrainingError(
                    f"{self.folder} holds a run with other settings; continue that one or use another folder"
                )
            self.network.load_state_dict(state["network"])
            self.averaged.load_state_dict(state["averaged"])
            self.optimizer.load_state_dict(state["optimizer"])
        except TrainingError:
            raise
        except Exception as error:
            raise TrainingError(
                f"{path} cannot be continued from ({type(error).__name__}: {error})"
            ) from None
        where = state["where"]
        self.ancestor = json.loads(state["ancestor"])
        self.step, self.seconds, self.loss = where["step"], where["seconds"], where["loss"]
        self.skipped, self.errors = where["skipped"], where["errors"]
        curve = self.folder / "curve.jsonl"
        if self.team.rank == 0 and curve.exists():
            lines = [json.dumps(row) + "\n" for row in curve_rows(curve) if row["step"] <= self.step]
            write_text(curve, "".join(lines), TrainingError, overwrite=True)


_MAY_CHANGE = ("minutes", "steps", "folder", "save_every", "validate_every")


def _on(batch: Any, device: str) -> Any:
    """A batch (a dataclass of tensors) on another device."""
    if device == "cpu":
        return batch
    parts = {field.name: getattr(batch, field.name) for field in fields(batch)}
    return replace(
        batch, **{name: part.to(device) for name, part in parts.items() if isinstance(part, Tensor)}
    )


def history(plan: TrainingPlan, where: dict[str, Any], ancestor: dict[str, Any]) -> dict[str, Any]:
    """What the header of the weights says about how they came about."""
    from chop import __version__

    workers = where.get("workers", 1)
    return {
        "problem": plan.problem,
        "command": _command(plan),
        "seed": plan.seed,
        "steps": where["step"],
        "workers": workers,
        "operators_per_step": plan.size * workers,
        "seconds": round(where["seconds"]),
        "share_of_plan": round(where["share"], 4),
        "rate": plan.rate,
        "validation": where["errors"],
        "version": __version__,
        "torch": torch.__version__,
        "before": ancestor,
    }


def export_weights(folder: str | Path, path: str | Path) -> Path:
    """The averaged weights of a run's last checkpoint as a weights file, finished or not."""
    source = Path(folder) / "checkpoint.pt"
    try:
        state = torch.load(source, map_location="cpu", weights_only=True)
        plan = TrainingPlan.parse(state["plan"])
        network = build(plan.network)
        network.load_state_dict(state["averaged"])
    except FileNotFoundError:
        raise TrainingError(f"{folder} holds no checkpoint yet") from None
    except Exception as error:
        raise TrainingError(f"{source} cannot be read ({type(error).__name__}: {error})") from None
    return save(network, path, history(plan, state["where"], json.loads(state["ancestor"])))


def _command(plan: TrainingPlan) -> str:
    length = f"--steps {plan.steps}" if plan.steps is not None else f"--minutes {plan.minutes:g}"
    start = f" --from {Path(plan.start).name}" if plan.start else ""
    region = f" --region {plan.data['region']}" if plan.data and "region" in plan.data else ""
    return f"chop train {plan.problem}{region} {length} --seed {plan.seed} --size {plan.size}{start}"
