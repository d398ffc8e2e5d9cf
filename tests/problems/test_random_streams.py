"""Seeds: the same bits in every process, splits that share nothing, cases that do not depend on n."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from chop.core.errors import ProblemError
from chop.problems import conservation, mfc
from chop.problems.random_streams import SPLITS, random_stream

DIGEST = """
import hashlib, torch
from chop.problems import conservation, mfc
parts = [
    conservation.sample("sin(u)-cos(u)", 5, seed=7, steps=2, dtype=torch.float64).trajectory,
    conservation.sample("cubic", 5, seed=7, split="train", length=0.4).trajectory,
    mfc.sample("g_2to2", 0.3, 3, seed=7, dtype=torch.float64).target,
    mfc.sample("rho_1to2", 0.1, 2, seed=7, split="evolution").prompt.inputs.values,
    conservation.CubicStream(batch=2, seed=7, trajectories=2, frames=8).case(9).target,
    mfc.MfcStream(batch=2, seed=7).case(2).target,
]
digest = "".join(hashlib.sha256(part.contiguous().numpy().tobytes()).hexdigest()[:16] for part in parts)
"""


def test_the_same_bits_in_another_process(tmp_path: Path) -> None:
    """Other numbers of threads, another hash seed, kernels compiled anew: the same bytes."""
    here: dict[str, str] = {}
    exec(DIGEST, here)
    for threads in ("1", "2"):
        environment = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "PYTHONHASHSEED"), threads)
        found = subprocess.run(
            [sys.executable, "-c", DIGEST + "print(digest)"],
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            check=True,
        )
        assert found.stdout.strip() == here["digest"]


def test_a_case_does_not_depend_on_how_many_are_made() -> None:
    many = conservation.sample("tanh", 9, seed=1, dtype=torch.float64)
    few = conservation.sample("tanh", 2, seed=1, first=4, dtype=torch.float64)
    assert torch.equal(many.trajectory[4:6], few.trajectory)
    assert many.rows["start"][4:6].tolist() == few.rows["start"].tolist()
    many_ops = mfc.sample("rho_1to2", 0.3, 6, seed=1, dtype=torch.float64)
    one = mfc.sample("rho_1to2", 0.3, 1, seed=1, first=3, dtype=torch.float64)
    assert torch.equal(many_ops.target[3:4], one.target)
    assert torch.equal(many_ops.prompt.inputs.values[3:4], one.prompt.inputs.values)


def test_more_steps_only_add_frames() -> None:
    short = conservation.sample("sin_cos", 3, steps=1, dtype=torch.float64)
    long = conservation.sample("sin_cos", 3, steps=9, dtype=torch.float64)
    assert torch.equal(long.trajectory[:, :7], short.trajectory)


def test_streams_share_no_counter() -> None:
    """Keys differ between splits, problems and seeds; under one key, counters differ between cases."""
    places = set()
    for split in SPLITS:
        for problem in ("conservation", "mfc", "conservation stream", "mfc stream"):
            for seed in (0, 1, 2**64 - 1):
                for index in (0, 1, 5):
                    for role in (0, 1):
                        state = random_stream(problem, split, seed, index, role).bit_generator.state["state"]
                        places.add((*state["key"].tolist(), *state["counter"].tolist()[2:]))
    assert len(places) == 3 * 4 * 3 * 3 * 2
    # A stream would have to draw 2**128 blocks to reach the words that tell cases apart.
    stream = random_stream("mfc", "test", 0, 0)
    stream.standard_normal(10_000)
    assert stream.bit_generator.state["state"]["counter"].tolist()[1:] == [0, 0, 0]


def test_splits_and_seeds_have_different_data() -> None:
    digests = set()
    for split in SPLITS:
        for seed in range(3):
            for values in (
                conservation.sample("sin_cos", 4, seed=seed, split=split).trajectory[:, 0],
                mfc.sample("g_1to1", 0.5, 4, seed=seed, split=split).target[..., 0],
            ):
                digests |= {hashlib.sha256(row.numpy().tobytes()).hexdigest() for row in values}
    assert len(digests) == 3 * 3 * 2 * 4


@pytest.mark.parametrize(("seed", "index"), [(-1, 0), (0, -1), (2**64, 0), ("a", 0), (1.5, 0)])
def test_bad_seeds(seed: object, index: object) -> None:
    with pytest.raises(ProblemError, match=r"seed|index"):
        random_stream("mfc", "test", seed, index)  # type: ignore[arg-type]


def test_numpy_integers_are_seeds() -> None:
    assert (
        random_stream("mfc", "test", np.int64(3), np.uint64(4)).random()
        == random_stream("mfc", "test", 3, 4).random()
    )
