"""Starting the workers of a run: processes, allocator, threads, and the terminal.

On a CPU one thread for each worker is best at this width, and memory that glibc gives back to the kernel
after every step is expensive to get again: it is told to keep it. Under ``torchrun`` (on several machines,
on GPUs) the workers are there already and this process is one of them.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

from chop.icon.training import Team, TrainingError, TrainingPlan, TrainingRun

_M_TRIM_THRESHOLD, _M_MMAP_MAX = -1, -4
_STORE, _RANK, _SIZE = "CHOP_TRAIN_STORE", "CHOP_TRAIN_RANK", "CHOP_TRAIN_SIZE"
Report = Callable[[dict[str, Any]], None]


def keep_memory() -> bool:
    """Tell glibc to keep what it has; False where there is no glibc."""
    try:
        mallopt = ctypes.CDLL("libc.so.6").mallopt
    except (OSError, AttributeError):
        return False
    return bool(mallopt(_M_TRIM_THRESHOLD, 2**31 - 1)) and bool(mallopt(_M_MMAP_MAX, 0))


def run_training(plan: TrainingPlan, workers: int = 1, report: Report | None = None) -> None:
    """Train as planned; with several workers the others are started here and end with this one."""
    if "TORCHELASTIC_RUN_ID" in os.environ:
        _work(plan, os.environ, report)
    elif workers <= 1:
        _train(plan, Team(device=_device(0)), report)
    else:
        _run_team(plan, workers, report)


def _run_team(plan: TrainingPlan, workers: int, report: Report | None) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        store = str(Path(scratch) / "store")
        others = []
        environment = {**os.environ, "OMP_NUM_THREADS": "1", _STORE: store, _SIZE: str(workers)}
        environment.setdefault("GLOO_SOCKET_IFNAME", "lo")
        command = [sys.executable, "-m", "chop.icon.launch", plan.dump()]
        try:
            for rank in range(1, workers):
                others.append(subprocess.Popen(command, env={**environment, _RANK: str(rank)}))
            _work(plan, {**environment, _RANK: "0"}, report)
            if any(worker.wait(timeout=60) for worker in others):
                raise TrainingError("a training worker failed; its own message is above")
        finally:
            for worker in others:
                if worker.poll() is None:
                    worker.kill()
                worker.wait()


def _work(plan: TrainingPlan, environment: Mapping[str, str], report: Report | None) -> None:
    """One worker of a team: join, train, leave."""
    import torch.distributed as distributed

    under_torchrun = "TORCHELASTIC_RUN_ID" in environment
    rank = int(environment["RANK" if under_torchrun else _RANK])
    size = int(environment["WORLD_SIZE" if under_torchrun else _SIZE])
    device = _device(int(environment.get("LOCAL_RANK", rank)))
    method = "env://" if under_torchrun else f"file://{environment[_STORE]}"
    if "GLOO_SOCKET_IFNAME" in environment:
        os.environ["GLOO_SOCKET_IFNAME"] = environment["GLOO_SOCKET_IFNAME"]
    distributed.init_process_group(
        "nccl" if device != "cpu" else "gloo", init_method=method, rank=rank, world_size=size
    )
    try:
        _train(plan, Team(rank, size, device), report)
    finally:
        distributed.destroy_process_group()


def _device(local_rank: int) -> str:
    return f"cuda:{local_rank % torch.cuda.device_count()}" if torch.cuda.is_available() else "cpu"


def _train(plan: TrainingPlan, team: Team, report: Report | None) -> None:
    keep_memory()
    threads = torch.get_num_threads()
    if team.device == "cpu":
        torch.set_num_threads(1)
    try:
        TrainingRun(plan, team, report or (lambda state: None)).train()
    finally:
        torch.set_num_threads(threads)


def progress_printer(plan: TrainingPlan, every: float = 10.0) -> Report:
    """A report that prints a line now and then: progress, loss, error, and when it will end."""
    shown = [time.monotonic() - every, -1.0]

    def report(state: dict[str, Any]) -> None:
        now = time.monotonic()
        if not state.get("validated") and now - shown[0] < every:
            return
        shown[0] = now
        share = max(state["share"], 1e-6)
        left = state["seconds"] * (1 - share) / share
        end = time.strftime("%H:%M:%S", time.localtime(time.time() + left))
        errors = "  ".join(f"{name} {value:.4f}" for name, value in state["errors"].items())
        print(
            f"{plan.problem}: step {state['step']}  {100 * share:.1f} %  loss {state['loss']:.4f}  "
            f"rate {state['rate']:.1e}  ends about {end}  {errors}",
            flush=True,
        )

    return report


if __name__ == "__main__":
    try:
        _work(TrainingPlan.parse(sys.argv[1]), os.environ, None)
    except TrainingError as problem:
        sys.exit(f"worker {os.environ.get(_RANK)}: {problem}")
