"""Operators as declared values: a name, typed parameters with ranges, and their text.

Help, validation, documentation, printing and mutation all read the same declarations, so an
operator says each thing once.
"""

from __future__ import annotations

import dataclasses
import inspect
from abc import ABC
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from chop.core.deprecated import renamed
from chop.core.errors import ProgramError
from chop.core.words import short_text

ParamKind = Literal["number", "whole", "flag", "choice", "indices", "numbers", "names", "program", "programs"]


MOST_NUMBERS = 1024
"""In one tuple of numbers."""


@dataclass(frozen=True)
class Param:
    """One declared parameter: what it means and which values it takes."""

    kind: ParamKind
    doc: str
    low: float | None = None
    high: float | None = None
    options: tuple[str, ...] = ()
    optional: bool = False
    at_least: int = 1
    searched: bool = True
    """Whether an evolution tries other values; one that an operator was given later is not, or kept searches
    would go on otherwise than they began."""

    @property
    def allowed(self) -> str:
        """The permitted values, in words."""
        words = {
            "number": f"a number from {self.low:g} to {self.high:g}" if self.low is not None else "a number",
            "whole": f"a whole number from {self.low} to {self.high}",
            "flag": "True or False",
            "choice": "one of " + ", ".join(f'"{option}"' for option in self.options),
            "indices": f"a tuple of at most 64 whole numbers from {self.low} to {self.high}",
            "numbers": f"a tuple of at most {MOST_NUMBERS} numbers from {self.low} to {self.high}",
            "names": "a tuple of " + ", ".join(f'"{option}"' for option in self.options),
            "program": "a program",
            "programs": f"at least {self.at_least} programs",
        }[self.kind]
        return f"{words}, or left out" if self.optional else words

    def check(self, value: object) -> Any:
        """The value in its normal form; ValueError if it is not one of the permitted ones."""
        if value is None and self.optional:
            return None
        match self.kind:
            case "number" if isinstance(value, int | float) and not isinstance(value, bool):
                if self._inside(value):  # before float(): a huge int would overflow
                    return float(value)
            case "whole" if isinstance(value, int) and not isinstance(value, bool):
                if self._inside(value):
                    return value
            case "flag" if isinstance(value, bool):
                return value
            case "choice" if isinstance(value, str) and value in self.options:
                return value
            case "indices" if isinstance(value, tuple) and len(value) <= 64:
                if all(isinstance(v, int) and not isinstance(v, bool) and self._inside(v) for v in value):
                    return value
            case "numbers" if isinstance(value, tuple) and len(value) <= MOST_NUMBERS:
                numeric = all(isinstance(v, int | float) and not isinstance(v, bool) for v in value)
                if numeric and all(self._inside(v) for v in value):
                    return tuple(map(float, value))
            case "names" if isinstance(value, tuple):
                if all(isinstance(v, str) and v in self.options for v in value):
                    return tuple(dict.fromkeys(value))
            case "program" if isinstance(value, Operator) and value.role == "program":
                return value
            case "programs" if isinstance(value, tuple) and len(value) >= self.at_least:
                if all(isinstance(part, Operator) and part.role == "program" for part in value):
                    return value
        raise ValueError(self.allowed)

    def _inside(self, value: float) -> bool:
        # Written so that NaN is outside.
        return (self.low is None or value >= self.low) and (self.high is None or value <= self.high)


def _declare(param: Param, **default: Any) -> Any:
    return dataclasses.field(metadata={"param": param}, **default)


def number(default: float | None, low: float, high: float, doc: str, searched: bool = True) -> Any:
    """A real parameter; a default of None makes it optional."""
    param = Param("number", doc, low, high, optional=default is None, searched=searched)
    return _declare(param, default=default)


def integer(default: int, low: int, high: int, doc: str) -> Any:
    """An integer parameter."""
    return _declare(Param("whole", doc, low, high), default=default)


def flag(default: bool, doc: str) -> Any:
    """A yes-or-no parameter."""
    return _declare(Param("flag", doc), default=default)


def choice(default: str, options: tuple[str, ...], doc: str) -> Any:
    """One of a few words."""
    return _declare(Param("choice", doc, options=options), default=default)


def indices(doc: str, low: int = -64, high: int = 63) -> Any:
    """A tuple of whole numbers, empty by default."""
    return _declare(Param("indices", doc, low, high), default=())


def numbers(doc: str, low: float, high: float) -> Any:
    """A tuple of real numbers, empty by default."""
    return _declare(Param("numbers", doc, low, high), default=())


def names(doc: str, options: tuple[str, ...]) -> Any:
    """Any of a few words, none by default."""
    return _declare(Param("names", doc, options=options), default=())


def subprogram(doc: str) -> Any:
    """One sub-program, given first and without a keyword."""
    return _declare(Param("program", doc))


def subprogram_list(doc: str, at_least: int = 1) -> Any:
    """Several sub-programs, given first and without keywords."""
    return _declare(Param("programs", doc, at_least=at_least))


__getattr__ = renamed(__name__, {"whole": "integer", "program": "subprogram", "programs": "subprogram_list"})

Role = Literal["program", "transform", "projection"]


class _SignatureOfOptions:
    """What an editor shows of a value that can be called: the signature of its class's constructor."""

    def __get__(self, value: Operator | None, owner: type[Operator]) -> inspect.Signature:
        if value is None:
            raise AttributeError("a class has the signature of its constructor")
        return inspect.signature(owner)


@dataclass(frozen=True)
class Operator(ABC):
    """An immutable, printable, comparable building block with a name in the registry."""

    name: ClassVar[str] = ""
    role: ClassVar[Role]
    law: ClassVar[str] = ""
    """What always holds of it, in one sentence; the conformance suites test it."""
    helps: ClassVar[str] = ""
    """When it pays, as the end of a sentence that begins with "Helps"."""
    unit_free: ClassVar[bool] = False
    """Whether it claims that s times the prompt gives s times the answer, around a model that keeps that."""

    def __post_init__(self) -> None:
        for f in dataclasses.fields(self):
            if "param" not in f.metadata and not isinstance(getattr(self, f.name), Operator):
                raise ProgramError(
                    f"{type(self).__name__}: {f.name} is not declared; give it number(), integer(), flag(), "
                    "choice(), indices(), numbers(), names(), subprogram() or subprogram_list() of "
                    "chop.core.parameters"
                )
        for key, param in self.params().items():
            given = getattr(self, key)
            if param.kind in ("programs", "indices", "numbers", "names") and isinstance(given, list):
                given = tuple(given)
            try:
                object.__setattr__(self, key, param.check(given))
            except ValueError as error:
                raise ProgramError(f"{self.name}: {key} must be {error}, not {_shown(given)}") from None

    __signature__: ClassVar[_SignatureOfOptions] = _SignatureOfOptions()

    if not TYPE_CHECKING:  # checkers are told by `chop.operators.bare` which options an operator has

        def __call__(self, **options):
            """The same operator with other options: ``rescale(center="mean")``, as in program text."""
            return self.with_options(**options)

    def with_options(self, **options: Any) -> Self:
        """The same operator with some of its parameters changed."""
        known = [key for key, param in self.params().items() if param.kind not in ("program", "programs")]
        for key in options:
            if key not in known:
                raise ProgramError(
                    f"{self.name} has no option {key!r}; its options: {', '.join(known) or 'none'}"
                )
        return dataclasses.replace(self, **options)

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        # A dataclass writes a representation of its own, with all defaults, into every class that has none.
        cls.__repr__ = cls.__repr__  # type: ignore[method-assign]

    def __repr__(self) -> str:
        text = short_text(self)
        whole = self.role == "program" and text == str(self)
        return f"parse({text!r})" if whole else f"<{self.role}: {text}>"

    @classmethod
    def params(cls) -> dict[str, Param]:
        """The declared parameters, sub-programs first."""
        return {f.name: f.metadata["param"] for f in dataclasses.fields(cls) if "param" in f.metadata}

    @classmethod
    def summary(cls) -> str:
        """The first sentence of the docstring."""
        return (inspect.getdoc(cls) or "").split("\n\n")[0].replace("\n", " ")

    def parts(self) -> Iterator[Operator]:
        """The operators directly inside this one, in the order in which they are written."""
        for f in dataclasses.fields(self):
            value = getattr(self, f.name)
            if isinstance(value, Operator):
                yield value
            elif isinstance(value, tuple):
                yield from (part for part in value if isinstance(part, Operator))

    @property
    def size(self) -> int:
        """How many operators there are, this one included (a pipe is not one)."""
        return (1 if self.name else 0) + sum(part.size for part in self.parts())

    @property
    def depth(self) -> int:
        """How deeply operators are nested; each stage of a pipe counts."""
        return 1 + max((part.depth for part in self.parts()), default=0)

    def __str__(self) -> str:
        """The program text; `chop.parse` is its inverse."""
        return self._text([str(part) for part in self.parts()])

    def head(self) -> str:
        """The text without sub-programs: name and parameters."""
        return self._text([])

    def _text(self, words: list[str]) -> str:
        for f in dataclasses.fields(self):
            value = getattr(self, f.name)
            if f.metadata["param"].kind not in ("program", "programs") and value != f.default:
                words = [*words, f"{f.name}={_literal(value)}"]
        return f"{self.name}({', '.join(words)})" if words else self.name


def _literal(value: object) -> str:
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, tuple):
        inside = ", ".join(_literal(part) for part in value)
        return f"({inside},)" if len(value) == 1 else f"({inside})"
    return repr(value)


def _shown(value: object) -> str:
    """A bad value for an error message, never long."""
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= 10**18:
        return "a huge number"
    text = str(value) if isinstance(value, Operator) else repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
