"""What it costs that no answer is lost, and what a second worker gains; ratios measured in one run.

`chop.files.predict` on the bundled conservation network against plain streaming (read a batch, answer it,
write it to the file at once, which loses everything when it is stopped), in processor time, and with two
worker processes against one, by the clock: for that the machine must be idle. The worst case for keeping is a
model that costs nothing: there only reading and writing are left.

    python benchmarks/predict.py [--questions 4096] [--repeats 3]
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import h5py
import numpy as np
import torch

import chop
from chop.files import FileError, QuestionFile, predict
from chop.files.answers import Answers, write_answers
from chop.storage.atomic import atomic_path


def last_output(prompt: chop.Prompt) -> torch.Tensor:
    return prompt.outputs.values[..., -1, :, :]


def streamed(questions: Path, program: chop.Program, model: chop.FrozenModel, out: Path) -> None:
    """As version 0.1.0 did it."""
    torch.set_num_threads(1)
    with QuestionFile(questions) as file, atomic_path(out, FileError, overwrite=True) as partial:
        rejected = np.ones(len(file), dtype=bool)

        def blocks() -> Iterator[np.ndarray]:
            for part in file.batches():
                result = program.run(model, part.prompt, trace=False)
                rejected[part.first : part.first + len(part)] = result.rejected.numpy()
                yield result.values.numpy()

        answers = Answers(file.answer_shape, file.dtype, blocks(), {"rejected": rejected}, {}, {})
        write_answers(partial, out.suffix, answers)


def write_questions(path: Path, count: int, points: int) -> Path:
    random = np.random.default_rng(0)
    with h5py.File(path, "w") as file:
        for name, axes in (("input_values", (5,)), ("output_values", (5,)), ("query_values", ())):
            file[name] = random.standard_normal((count, *axes, points, 1), dtype=np.float32)
        file["input_coords"] = np.arange(points, dtype=np.float32)[:, None] / points
    return path


def least(repeats: int, clock: Callable[[], float], *ways: Callable[[], object]) -> list[float]:
    """Seconds of each by a clock, the least of some rounds in which all take turns."""
    seconds = [[_seconds(clock, way) for way in ways] for _ in range(repeats)]
    return [min(times) for times in zip(*seconds, strict=True)]


def _seconds(clock: Callable[[], float], way: Callable[[], object]) -> float:
    begun = clock()
    way()
    return clock() - begun


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--questions", type=int, default=4096)
    arguments.add_argument("--repeats", type=int, default=3)
    given = arguments.parse_args()
    program = chop.programs["conservation"]
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "answers.h5"

        def kept(questions: Path, model: chop.FrozenModel | str, **options: object) -> Callable[[], object]:
            asked = program if isinstance(model, str) else chop.parse("icon")
            return lambda: predict(questions, asked, model, out, overwrite=True, **options)

        small = write_questions(Path(folder) / "small.h5", given.questions, 100)
        network = chop.load("conservation")
        plain, keeping = least(
            given.repeats,
            time.process_time,
            lambda: streamed(small, program, network, out),
            kept(small, "conservation"),
        )
        one, two = least(
            given.repeats,
            time.perf_counter,
            kept(small, "conservation", executor="processes", workers=1),
            kept(small, "conservation", executor="processes", workers=2),
        )
        large = write_questions(Path(folder) / "large.h5", 20_000, 500)
        bare, bare_kept = least(
            given.repeats,
            time.process_time,
            lambda: streamed(large, chop.parse("icon"), last_output, out),
            kept(large, last_output, model_name="last output"),
        )
        megabytes = large.stat().st_size / 1e6
    print(f"{given.questions} questions, CHOP(Conservation) around the bundled network")
    print(f"  streamed {plain:.2f} s of processor time, kept {keeping:.2f} s: ratio {keeping / plain:.3f}")
    print(
        f"  one worker process {one:.2f} s, two {two:.2f} s (start included): {one / two:.2f} times as fast"
    )
    print(f"20000 questions of 500 points ({megabytes:.0f} MB), a model that costs nothing")
    print(f"  streamed {bare:.2f} s of processor time, kept {bare_kept:.2f} s: ratio {bare_kept / bare:.2f}")


if __name__ == "__main__":
    main()
