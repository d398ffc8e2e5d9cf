"""Prompts as a question file (HDF5), written as they come, whole or not at all."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from chop.core.errors import FileError
from chop.core.fields import without_repeats
from chop.core.prompt import Prompt
from chop.files.sources import Values
from chop.storage.atomic import NewHdf5, atomic_path

_PACKING: dict[str, Any] = {"compression": "gzip", "compression_opts": 1, "shuffle": True}


def write_questions(path: str | Path, prompts: Iterable[Prompt], overwrite: bool = False) -> int:
    """Prompts with one batch axis each as one file; how many questions there are is returned."""
    with atomic_path(Path(path), FileError, overwrite) as partial, NewHdf5(partial) as new:
        rows = _Rows(new.file)
        for prompt in prompts:
            rows.add(prompt)
            new.check()
        rows.finish()
    return rows.count


class _Rows:
    """A file that grows by questions; points that all of them share are written once, at the end."""

    def __init__(self, file: Any) -> None:
        self._file = file
        self._shared: dict[str, Values] = {}
        self.count = 0

    def add(self, prompt: Prompt) -> None:
        assert prompt.times is not None
        parts = {"input": prompt.inputs, "output": prompt.outputs, "query": prompt.query}
        for name, part in parts.items():
            self._append(f"{name}_values", _numpy(part.values))
            self._points(f"{name}_coords", part.coords)
            if part.mask is not None or f"{name}_mask" in self._file:
                self._append(f"{name}_mask", _numpy(part.observed), before=True)
        self._points("at", prompt.at)
        self._append("times", _numpy(prompt.times))
        if not self.count:
            if prompt.graph is not None:
                self._file["graph"] = _numpy(prompt.graph.edges)
            if prompt.axes_stated:
                words = (a.name if a.period is None else f"{a.name}={a.period!r}" for a in prompt.axes or ())
                self._file.attrs["axes"] = ", ".join(words)
        self.count += len(prompt.query.values)

    def _points(self, name: str, coords: Tensor) -> None:
        """Kept back while all questions so far, and all their examples, have the same."""
        once = _numpy(without_repeats(coords))
        same = once.size == coords.shape[-2] * coords.shape[-1]
        if same and not self.count:
            self._shared[name] = once
        if name in self._shared and not (same and np.array_equal(once, self._shared[name])):
            before = self._shared.pop(name)
            if self.count:
                self._file.create_dataset(
                    name, data=np.broadcast_to(before, (self.count, *coords.shape[1:])),
                    maxshape=(None, *coords.shape[1:]), chunks=(1, *coords.shape[1:]), **_PACKING,
                )  # fmt: skip
        if name not in self._shared:
            self._append(name, _numpy(coords))

    def _append(self, name: str, values: Values, before: Any = 0) -> None:
        """Rows behind those there are; ``before`` stands where earlier questions had none of it."""
        if name not in self._file:
            self._file.create_dataset(
                name, shape=(self.count, *values.shape[1:]), dtype=values.dtype, fillvalue=before,
                maxshape=(None, *values.shape[1:]), chunks=(1, *values.shape[1:]), **_PACKING,
            )  # fmt: skip
        self._file[name].resize(self.count + len(values), axis=0)
        self._file[name][self.count :] = values

    def finish(self) -> None:
        """What all share."""
        for name, values in self._shared.items():
            self._file[name] = values


def _numpy(tensor: Tensor) -> Values:
    return np.asarray(torch.as_tensor(tensor).detach().cpu().numpy())
