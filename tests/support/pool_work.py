"""Work for pools of workers, in a module of its own so that it can be sent to them."""

import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

from chop.core.errors import ChopError


@dataclass(frozen=True)
class MakeWork:
    """Makes work that does as each job says; every worker that is made leaves a mark in a folder."""

    folder: Path

    def __call__(self):
        (self.folder / f"made_{os.getpid()}").touch()
        made = time.time_ns()

        def work(job):
            what, *rest = job if isinstance(job, tuple) else (job,)
            if what == "die":
                os.kill(os.getpid(), signal.SIGKILL)
            if what == "die once" and not (self.folder / "died").exists():
                (self.folder / "died").touch()
                os.kill(os.getpid(), signal.SIGKILL)
            if what == "sleep":
                time.sleep(rest[0])
            if what == "refuse":
                raise ChopError("not this")
            if what == "fail":
                raise Unpicklable(lambda: None)
            if what == "where":
                return os.getpid(), made, str(Path.cwd()), threads()
            return what, rest

        return work


class Unpicklable(Exception):
    pass


def threads():
    import torch

    return torch.get_num_threads()


@dataclass(frozen=True)
class Broken:
    """Work that cannot be made."""

    def __call__(self):
        raise ChopError("there is no model here")


class Kills:
    """A model that takes its process down at one question, known by its first value."""

    def __init__(self, first):
        self.first = first

    def __call__(self, prompt):
        if (prompt.query.values[..., 0, 0] == self.first).any():
            os.kill(os.getpid(), signal.SIGKILL)
        return prompt.outputs.values.mean(dim=-3) + prompt.query.values.tanh()
