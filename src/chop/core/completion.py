"""What may stand where somebody writes program text: names of operators, their parameters, their choices."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from chop.core.catalog import NAMED
from chop.core.parameters import Operator, Param
from chop.core.text import registry

_WORD = re.compile(r"[A-Za-z_][A-Za-z_0-9]*$")
_CALL = re.compile(r"([A-Za-z_][A-Za-z_0-9]*)\s*$")
_GIVEN = re.compile(r"([A-Za-z_][A-Za-z_0-9]*)\s*=\s*\"?$")


@dataclass(frozen=True)
class Completion:
    """A word that fits, and what it means."""

    word: str
    meaning: str
    start: int
    """Where the part of it that is there already begins, from 0."""

    def applied(self, text: str, at: int) -> tuple[str, int]:
        """The text with the word in it, and where the cursor is then."""
        done = text[: self.start] + self.word
        return done + text[at:], len(done)


def completions(text: str, at: int | None = None) -> tuple[Completion, ...]:
    """The words that fit at a place of a program's text (its end by default), in order."""
    before = text[: len(text) if at is None else at]
    written = _WORD.search(before)
    part = written.group() if written else ""
    start = len(before) - len(part)
    operator = _enclosing(before)
    found = _words(before[:start], operator, alone=not before[:start].strip())
    return tuple(
        Completion(word, meaning, start)
        for word, meaning in found
        if word.strip('"').startswith(part) and word != part
    )


def _words(before: str, operator: type[Operator] | None, alone: bool) -> Iterator[tuple[str, str]]:
    params = {} if operator is None else operator.params()
    given = _GIVEN.search(before)
    if given and given.group(1) in params:
        yield from _values(params[given.group(1)], quoted=before.endswith('"'))
        return
    takes_programs = operator is None or any(p.kind in ("program", "programs") for p in params.values())
    for key, param in params.items():
        if param.kind not in ("program", "programs") and not re.search(rf"\b{key}\s*=", before):
            yield f"{key}=", f"{param.doc} ({param.allowed})"
    if takes_programs:
        for name, known in registry().items():
            yield name, known.summary()
    if alone:
        for name, meant in NAMED.items():
            yield name, meant


def _values(param: Param, quoted: bool) -> Iterator[tuple[str, str]]:
    if param.kind == "flag":
        yield from (("True", param.doc), ("False", param.doc))
    for option in param.options:
        yield (f'{option}"' if quoted else f'"{option}"'), param.doc


def _enclosing(before: str) -> type[Operator] | None:
    """The operator between whose brackets the text ends."""
    depth, quoted = 0, before.count('"') % 2 == 1
    for i in reversed(range(len(before))):
        character = before[i]
        quoted ^= character == '"'
        if quoted:
            continue
        depth += (character == ")") - (character == "(")
        if depth < 0:
            called = _CALL.search(before[:i])
            return registry().get(called.group(1)) if called else None
    return None
