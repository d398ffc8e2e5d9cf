"""Builds the wheel, installs it into fresh environments and uses it there.

    python .ci/install_check.py            the wheel without extras
    python .ci/install_check.py air ray    the wheel with each of these extras, one by one
    python .ci/install_check.py all        the same for every extra

Everything an installation may need is downloaded once, into build/wheelhouse; the environments are then
filled from there alone. Commands run in an empty folder, so that nothing of the checkout helps.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
import venv
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WHEELHOUSE = ROOT / "build" / "wheelhouse"
PIP = (sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check")
NAME = "chain-of-operators"


@dataclass(frozen=True)
class Step:
    """A command of the environment, how it ends, and words it must say."""

    words: tuple[str, ...]
    says: str = ""
    code: int = 0


def python(lines: str, says: str = "", code: int = 0) -> Step:
    """Lines of Python as a step; they may name the checkout, for what is no part of the package."""
    return Step(("python", "-c", f"ROOT = {str(ROOT)!r}\n{lines}"), says, code)


def needs(extra: str) -> str:
    """What is said when an extra is missing."""
    return f"pip install '{NAME}[{extra}]'"


OWN_TASK = str(ROOT / "examples" / "own_task.py")
EVOLVE = ("chop", "evolve", "--task", OWN_TASK, "--budget", "13", "--workers", "1", "--out", "search")
WORLD = ("chop", "data", "air", "--world", "world", "--hours", "72", "--stations", "6", "5")

WITHOUT_EXTRAS = (
    Step(("chop", "demo", "--n", "4", "--steps", "2"), says="with no weight changed"),
    python(
        "import chop; print(*[chop.load(name) and name for name in chop.icon.bundled()])",
        says="air_yrd conservation mfc",
    ),
    python("from chop import *; print(parse('correct(icon)').calls(5))", says="6"),
    Step(WORLD, code=2, says=needs("air")),
    Step((*EVOLVE, "--executor", "ray"), code=2, says=needs("ray")),
    Step(("chop", "studio", "--no-browser"), code=2, says=needs("studio")),
    python("import chop; chop.from_jax(abs)", code=1, says=needs("jax")),
)
WITH_EXTRA = {
    "air": (
        Step(WORLD),
        python(
            "from chop.problems.air import load_region; print(load_region('world', name='yrd').values.shape)",
            says="(72, 5",
        ),
    ),
    "jax": (
        python(
            "import chop; from chop.testing import make_prompt; prompt = make_prompt(0)\n"
            "model = chop.from_jax(lambda *given: given[1][:, 0])\n"
            "print(model(prompt).shape == prompt.answer_shape)",
            says="True",
        ),
    ),
    "studio": (
        python(
            "import re, signal, subprocess, urllib.request\n"
            "command = ['chop', 'studio', '--no-browser', '--port', '0']\n"
            "server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)\n"
            "address = re.search('http.*', server.stdout.readline()).group()\n"
            "print(urllib.request.build_opener(urllib.request.HTTPCookieProcessor()).open(address).status)\n"
            "server.send_signal(signal.SIGINT); server.wait(20)",
            says="200",
        ),
    ),
    "ray": (Step((*EVOLVE, "--executor", "ray"), says="report.html"),),
    "llm": (
        python(
            "import sys; sys.path.append(ROOT + '/tests/support'); from chat_server import ChatServer\n"
            "from chop.evolution.chat import Chat\n"
            "with ChatServer('correct(icon)') as server:\n"
            "    print(Chat(server.url, 'any').ask([{'role': 'user', 'content': 'a program'}]).text)",
            says="correct(icon)",
        ),
    ),
    "compare": (
        python(
            "import sys; sys.path.append(ROOT + '/benchmarks'); import numpy as np, sindy\n"
            "frames = np.sin(2 * np.pi * (np.arange(100) / 100 - 0.02 * np.arange(7)[:, None]))\n"
            "print(sindy.errors(frames[None], sindy.Setting(0.15, 2, True, 0.1)) < 0.1)",
            says="[ True]",
        ),
    ),
    "docs": (Step(("sphinx-build", "-q", "-b", "html", str(ROOT / "docs"), "html")),),
    "dev": (
        Step(("ruff", "check", str(ROOT / "src" / "chop" / "core" / "text.py"))),
        Step(("mypy", "--version")),
        Step(
            ("pytest", "-c", str(ROOT / "pyproject.toml"), str(ROOT / "tests" / "core" / "test_program.py")),
            says="passed",
        ),
    ),
}


def built() -> Path:
    """The wheel of this checkout, in the wheelhouse."""
    WHEELHOUSE.mkdir(parents=True, exist_ok=True)
    for old in WHEELHOUSE.glob("chain_of_operators-*.whl"):
        old.unlink()
    with tempfile.TemporaryDirectory() as copy:  # what an earlier build left behind must not get in
        shutil.copytree(
            ROOT / "src", Path(copy) / "src", ignore=shutil.ignore_patterns("*.egg-info", "__pycache__")
        )
        for name in ("pyproject.toml", "README.md", "LICENSE"):
            shutil.copy(ROOT / name, copy)
        subprocess.run([*PIP, "wheel", "--no-deps", "--wheel-dir", str(WHEELHOUSE), copy], check=True)
    (wheel,) = WHEELHOUSE.glob("chain_of_operators-*.whl")
    return wheel


def extras() -> list[str]:
    """The names of all extras."""
    return list(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"])


def environment(wheel: Path, extra: str, folder: Path) -> dict[str, str]:
    """A fresh environment with the wheel, as the variables a command needs to run in it."""
    what = f"{NAME}[{extra}] @ {wheel.as_uri()}"
    constraints = ("-c", str(ROOT / "constraints.txt"))
    near = ("--find-links", str(WHEELHOUSE))
    subprocess.run([*PIP, "download", *near, *constraints, "-d", str(WHEELHOUSE), what], check=True)
    venv.create(folder, with_pip=True)
    python = str(folder / "bin" / "python")
    subprocess.run(
        [python, *PIP[1:], "install", "--no-index", "--no-compile", *near, *constraints, what], check=True
    )
    kept = {name: os.environ[name] for name in ("HOME", "LANG", "TMPDIR") if name in os.environ}
    return {**kept, "PATH": f"{folder / 'bin'}:/usr/bin:/bin", "OMP_NUM_THREADS": "1", "COLUMNS": "200"}


def run(step: Step, variables: dict[str, str], folder: Path) -> str | None:
    """What is wrong with how a step went, if anything."""
    done = subprocess.run(step.words, cwd=folder, env=variables, capture_output=True, text=True, check=False)
    said = done.stdout + done.stderr
    if done.returncode == step.code and step.says in said:
        return None
    return (
        f"{step.words}\nended with {done.returncode}, not {step.code}, or did not say {step.says!r}:\n{said}"
    )


def check(wheel: Path, extra: str) -> bool:
    """Whether the wheel with one extra (none if empty) installs and does what it must."""
    begun, name = time.monotonic(), extra or "no extra"
    with tempfile.TemporaryDirectory() as home:
        variables = environment(wheel, extra, Path(home) / "venv")
        installed = time.monotonic()
        empty = Path(home) / "empty"
        empty.mkdir()
        steps = WITH_EXTRA[extra] if extra else WITHOUT_EXTRAS
        wrong = [problem for step in steps if (problem := run(step, variables, empty)) is not None]
    print("\n".join([*wrong, f"{name}: {'failed' if wrong else 'passed'}, {len(steps)} steps"]), end=" ")
    print(f"({installed - begun:.0f} s to install, {time.monotonic() - installed:.0f} s to use)", flush=True)
    return not wrong


def main(asked: list[str]) -> int:
    """How many of the installations asked for fail."""
    known = extras()
    assert set(known) == set(WITH_EXTRA), f"extras without a check, or checks without an extra: {known}"
    chosen = known if asked == ["all"] else asked or [""]
    wheel = built()
    print(f"{wheel.name}: {wheel.stat().st_size / 2**20:.1f} MB", flush=True)
    return sum(not check(wheel, extra) for extra in chosen)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
