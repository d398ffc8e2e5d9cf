"""Machines, hooks and people check the same: what the Makefile says, and nothing of their own."""

import importlib.util
import os
import re
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
RUN = ROOT / ".ci" / "run"
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
WORKFLOW = yaml.safe_load((ROOT / ".github" / "workflows" / "test.yml").read_text(encoding="utf-8"))
HOOKS = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))


def recipe(target):
    """The commands of a target of the Makefile."""
    return re.search(rf"^{target}:.*\n((?:\t.*\n)+)", MAKEFILE, flags=re.MULTILINE)[1].split("\n\t")


def script(name):
    """A Python file of .ci as a module."""
    spec = importlib.util.spec_from_file_location(name, ROOT / ".ci" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


quick = script("quick")


def test_make_test_is_called_in_an_almost_empty_environment(tmp_path):
    make = tmp_path / "make"
    make.write_text('#!/bin/sh\necho "called with $*"\nenv\n')
    make.chmod(0o755)
    kept = {
        "HOME": str(tmp_path), "PATH": f"{tmp_path}:{os.environ['PATH']}", "LANG": "C.UTF-8",
        "PIP_CONFIG_FILE": "/a file", "HTTPS_PROXY": "http://127.0.0.1:1", "SSL_CERT_FILE": "/certs",
        "CI": "1", "REQUESTS_CA_BUNDLE": "/certs", "TMPDIR": str(tmp_path),
    }  # fmt: skip
    hidden = {
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONPATH": "/elsewhere",
        "OPENAI_API_KEY": "sk-1",
        "PIPE": "x",
    }
    done = subprocess.run([RUN], env={**kept, **hidden}, capture_output=True, text=True, check=True)
    first, *lines = done.stdout.splitlines()
    assert first == "called with test"
    found = dict(line.split("=", 1) for line in lines)
    assert {name: found.get(name) for name in kept} == kept
    assert found.keys() - kept.keys() <= {"PWD", "SHLVL", "_", "OLDPWD"}


def test_the_workflow_calls_targets_that_exist():
    targets = set(re.findall(r"^([a-z][\w-]*):", MAKEFILE, flags=re.MULTILINE))
    runs = [step["run"] for job in WORKFLOW["jobs"].values() for step in job["steps"] if "run" in step]
    called = {words.split()[1] for words in runs if words.startswith("make ")}
    assert len(called) == len(runs), "the workflow calls make, and nothing else"
    assert {"test", "docs"} <= called <= targets


def test_the_workflow_runs_the_pythons_that_are_promised():
    tested = WORKFLOW["jobs"]["test"]["strategy"]["matrix"]["python"]
    assert all(isinstance(version, str) for version in tested), "3.10 is 3.1 without quotes"
    declared = re.findall(r"Python :: (3\.\d+)", "\n".join(PROJECT["classifiers"]))
    assert tested == declared
    assert PROJECT["requires-python"] == f">={declared[0]}"


def test_what_is_cached_depends_on_files_that_exist():
    for job in WORKFLOW["jobs"].values():
        (setup,) = (step["with"] for step in job["steps"] if "setup-python" in step.get("uses", ""))
        assert setup["cache"] == "pip"
        assert all((ROOT / name).is_file() for name in setup["cache-dependency-path"].split())


def test_hooks_are_the_checks_of_make():
    local = [hook for repo in HOOKS["repos"] for hook in repo["hooks"]]
    assert {repo["repo"] for repo in HOOKS["repos"]} == {"local"}, "hooks work without a network"
    checks = {line.replace("$(BIN)", ".venv/bin").strip() for line in recipe("check")}
    hooks = {hook["entry"].removesuffix(" --force-exclude") for hook in local if hook["language"] == "system"}
    assert hooks == {re.sub(r" --check\b| \.$", "", line) for line in checks}, "hooks repair what they can"
    assert len({hook["id"] for hook in local}) == len(local)


@pytest.mark.parametrize(
    ("hook", "bad", "good"),
    [("trailing-space", "a \nb\n", "a\nb\n"), ("last-line", "a\nb", "a\nb\n")],
)
def test_what_hooks_look_for(hook, bad, good):
    (entry,) = (hooks["entry"] for repo in HOOKS["repos"] for hooks in repo["hooks"] if hooks["id"] == hook)
    assert re.search(entry, bad, flags=re.MULTILINE)
    assert not re.search(entry, good, flags=re.MULTILINE)


@pytest.mark.parametrize(
    ("file", "tests"),
    [
        ("src/chop/files/layout.py", "tests/files"),
        ("src/chop/problems/air/region.py", "tests/problems"),
        ("src/chop/__init__.py", "tests/project"),
        ("tests/icon/test_weights.py", "tests/icon/test_weights.py"),
        ("tests/support/bridge.py", None),
        ("tests/conftest.py", None),
        ("docs/index.md", "tests/project"),
        ("Makefile", "tests/project"),
    ],
)
def test_which_tests_belong_to_a_change(file, tests):
    assert (ROOT / file).exists()
    assert quick.tests_of(file) == tests
    assert tests is None or (ROOT / tests).exists()


def test_the_quick_check_runs_the_core_and_what_changed():
    assert quick.chosen([]) == ["tests/core", "tests/operators"]
    changed = ["tests/core/test_text.py", "src/chop/runs/progress.py", "src/chop/core/text.py"]
    assert quick.chosen(changed) == ["tests/core", "tests/operators", "tests/runs"]
