"""Every ``chop ...`` and ``make ...`` that the documentation names exists, with the options it is given."""

import inspect
import re
import shlex
from enum import Enum
from itertools import product
from pathlib import Path
from typing import get_args, get_type_hints

import pytest
from typer.main import get_command

from chop.cli import app

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    page
    for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "src").rglob("weights/*.md")]
    if "_build" not in page.parts
)
CHOP = get_command(app)


def code(text):
    """Lines of fenced blocks and spans of inline code."""
    fences = re.findall(r"^```[^\n]*\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE)
    prose = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    lines = [line for block in fences for line in block.replace("\\\n", " ").splitlines()]
    return [*lines, *re.findall(r"`([^`\n]+(?:\n[^`\n]+)?)`", prose)]


def commands(text, name):
    """The words of every call of a command; ``a|b`` are two calls, ``[--option VALUE]`` is given."""
    for line in code(text):
        shown = " ".join(line.split()).removeprefix("$ ")
        if re.match(rf"{name} [\w-]", shown):
            shown = re.sub(r"\[(-[^\]]*|OPTIONS)\]", r"\1", shown)
            words = shlex.split(shown, comments=True)[1:]
            choices = [w.split("|") if re.fullmatch(r"[\w-]+(\|[\w-]+)+", w) else [w] for w in words]
            yield from map(list, product(*choices))


def choices(function, name):
    """The values a parameter may take, where it is one of a list."""
    hint = get_type_hints(inspect.unwrap(function))[name]
    for kind in (hint, *get_args(hint)):
        if isinstance(kind, type) and issubclass(kind, Enum):
            return [member.value for member in kind]
    return []


def problem(words):
    """What is wrong with the words after ``chop``, if anything."""
    command, said, rest = CHOP, "chop", list(words)
    while rest and not rest[0].startswith("-") and rest[0] in getattr(command, "commands", {}):
        said = f"{said} {rest[0]}"
        command = command.commands[rest.pop(0)]
    options = {name: option for option in command.params for name in (*option.opts, *option.secondary_opts)}
    arguments = any(option.param_type_name == "argument" for option in command.params)
    while rest:
        word, _, value = rest.pop(0).partition("=")
        if word in ("...", "…") or word.isupper():  # the reader's own
            continue
        if not word.startswith("-"):
            if not arguments:
                return f"`{said}` has no command or argument {word!r}"
            continue
        if word in ("-h", "--help"):
            continue
        if word not in options:
            return f"`{said}` has no option {word}"
        option = options[word]
        if getattr(option, "is_flag", False):
            continue
        values = [value] if value else [rest.pop(0) for _ in range(min(option.nargs, len(rest)))]
        allowed = choices(command.callback, option.name)
        for given in values if allowed else ():
            if given.islower() and given not in allowed:
                return f"`{said} {word}` takes one of {', '.join(allowed)}, not {given!r}"
    return None


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_exist(page):
    text = page.read_text(encoding="utf-8")
    wrong = {f"chop {shlex.join(words)}": problem(words) for words in commands(text, "chop")}
    wrong = {command: reason for command, reason in wrong.items() if reason}
    assert not wrong, f"{page.name}: {wrong}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_make_targets_exist(page):
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z][\w-]*):", makefile, flags=re.MULTILINE))
    asked = {words[0] for words in commands(page.read_text(encoding="utf-8"), "make")}
    assert asked <= targets, f"{page.name}: make has no target {asked - targets}"


def test_every_make_target_is_explained():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    explained = set(re.findall(r'@echo "make ([\w-]+) ', makefile))
    parts_of_test = {"help", "setup", "check", "unit"}
    phony = set(re.search(r"^\.PHONY: (.*)$", makefile, flags=re.MULTILINE)[1].split())
    assert explained == phony - parts_of_test


def test_readme_names_both_kinds():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert ["demo"] in list(commands(text, "make"))
    assert ["bench", "all"] in list(commands(text, "chop"))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("evolve --task mfc --executor processes", None),
        ("data mfc --out a.h5 --family g_1to1", None),
        ("data air --stations 6 5 --world DIR", None),
        ("bench air --data DIR ...", None),
        ("nonsense", "no command or argument 'nonsense'"),
        ("demo --fluxes u", "no option --fluxes"),
        ("evolve --task mfc --executor gpu", "not 'gpu'"),
        ("data mfc --out a.h5 b.h5", "'b.h5'"),
    ],
)
def test_what_is_found_wrong(words, said):
    found = problem(words.split())
    assert found is None if said is None else said in found
