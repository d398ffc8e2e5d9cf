"""Program text: parsed against the registry, never executed, and printed back the same."""

import contextlib
import importlib.metadata
import itertools
import random
import sys
import time
import warnings
from dataclasses import dataclass
from typing import ClassVar, final

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from program_sizes import needs_at_most

import chop
from chop.core import text as text_module
from chop.core.errors import ChopError, ParseError
from chop.core.parameters import number
from chop.core.program import Frame, Transform
from chop.core.text import MAX_BRACKETS, MAX_CHARACTERS, parse, registry
from chop.operators import BUILT_IN
from chop.testing import make_prompt, program_values, toy_model


@given(program=program_values())
@settings(max_examples=400)
def test_printing_and_parsing_are_inverse(program):
    assume(needs_at_most(program, 10**5))
    again = parse(str(program), max_calls=10**5)
    assert again == program
    assert hash(again) == hash(program)
    assert str(again) == str(program)


@pytest.mark.parametrize(
    ("written", "printed"),
    [
        ("icon", "icon"),
        ("icon()", "icon"),
        ("  rescale()|icon ", "rescale | icon"),
        ("rescale(center='mean')|icon", 'rescale(center="mean") | icon'),
        ("(moving_frame | rescale) | icon", "moving_frame | rescale | icon"),
        ("moving_frame | (rescale | icon)", "moving_frame | rescale | icon"),
        ("rescale | (icon | finite)", "rescale | (icon | finite)"),
        ("rescale | icon | finite", "rescale | icon | finite"),
        ("rescale(target=2)|icon", "rescale(target=2.0) | icon"),
        ("combine(icon, mean_output, channels=(-1,))", "combine(icon, mean_output, channels=(-1,))"),
        ("correct(icon, magnitude=+0.5, gate=False)", "correct(icon, magnitude=0.5, gate=False)"),
        ("select(\n\tcorrect(icon),\n\ticon\n)", "select(correct(icon), icon)"),
        ("icon | finite(fill=-1)", "icon | finite(fill=-1.0)"),
    ],
)
def test_what_is_written_and_how_it_prints(written, printed):
    assert str(parse(written)) == printed


def test_brackets_decide_what_a_projection_belongs_to():
    assert parse("rescale | (icon | nonnegative)") != parse("rescale | icon | nonnegative")


@pytest.mark.parametrize(
    ("text", "column", "words"),
    [
        ("", 1, "empty"),
        ("   ", 1, "empty"),
        ("icn", 1, "did you mean icon"),
        ("rescale | icn", 11, "did you mean icon"),
        ("rescale", 1, "a transform, not a program"),
        ("moving_frame | rescale", 1, "without a program"),
        ("nonnegative", 1, "a projection, not a program"),
        ("icon | rescale", 8, "left of a program"),
        ("icon | icon", 8, "two programs"),
        ("rescale | nonnegative", 11, "right of a program"),
        ("rescale(target=0) | icon", 1, "from 0.01 to 100"),
        ("rescale(target=1e400) | icon", 1, "from 0.01 to 100"),
        ("rescale(target='a') | icon", 1, "must be a number"),
        ("rescale(spread=1) | icon", 1, "no option 'spread'"),
        ('rescale("mean") | icon', 9, "a bare value"),
        ("correct()", 1, "needs a program"),
        ("correct(icon, icon)", 1, "takes one program"),
        ("icon(icon)", 1, "takes no program"),
        ("correct(rescale)", 1, "must be a program"),
        ("select(icon)", 1, "at least 2 programs"),
        ("correct(base=icon)", 14, "not a value"),
        ("correct(icon, gate=1)", 1, "True or False"),
        ("correct(icon, gap=True)", 1, "whole number"),
        ("correct(icon, gap=-1)", 1, "whole number"),
        ("combine(icon, channels=[1])", 24, "not a value"),
        ("combine(icon, channels=(1, 'a'))", 1, "whole numbers from"),
        ("correct(icon, gap=1, gap=2)", 26, "written once"),
        ("icon.__class__", 1, "a dotted name"),
        ("icon + icon", 1, "other than |"),
        ("(lambda: 0)()", 1, "a call of something"),
        ("icon[0]", 1, "an index"),
        ("correct(*icon)", 9, "Starred"),
        ("correct(**icon)", 11, "name=value"),
        ("icon; icon", 5, "not an expression"),
        ("icon |", 7, "not an expression"),
        ("icön", 3, "ASCII"),
        ("icon\x00", 5, "ASCII"),
        ("ic\u03bfn", 3, "ASCII"),
        ("x := icon", 3, "not an expression"),
        ("icon if icon else icon", 1, "IfExp"),
        ("-icon", 1, "UnaryOp"),
        ("rescale(target=-True) | icon", 16, "only numbers carry a sign"),
    ],
)
def test_errors_point_at_the_place(text, column, words):
    with pytest.raises(ParseError, match="column") as caught:
        parse(text)
    assert words in str(caught.value)
    assert caught.value.column == column
    assert caught.value.pointer().endswith("^")


def test_text_must_be_text():
    with pytest.raises(ChopError, match="must be a string"):
        parse(b"icon")


def test_errors_survive_pickling():
    import pickle

    with pytest.raises(ParseError) as caught:
        parse("icon | icn")
    again = pickle.loads(pickle.dumps(caught.value))
    assert (str(again), again.column, again.text) == (str(caught.value), 8, "icon | icn")


# Bounds: hostile text is refused quickly, whatever it nests.

HOSTILE = [
    "correct(" * 500 + "icon" + ")" * 500,
    "(" * 5000,
    "(" * (MAX_BRACKETS - 1) + "icon" + ")" * (MAX_BRACKETS - 1) + " | finite" * 300,
    "rescale | " * 390 + "icon",
    "correct(average(icon, " * 9 + "icon" + "))" * 9,
    "icon" + " | finite" * 150,
    "rescale(target=" + "9" * 3900 + ") | icon",
    "rescale(target=0x" + "f" * 3900 + ") | icon",
    "combine(" + "icon," * 700 + ")",
    "-" * 3999 + "1",
    "not " * 900 + "icon",
    "icon" * 900,
    "'" + "a" * 3990 + "'",
    "a" * (MAX_CHARACTERS + 1),
    "__import__('os').system('false')",
    "exec('1')",
    "open('x')",
    "icon.__init__.__globals__",
    "(lambda: (yield))()",
    "[icon for icon in ()]",
    "{**icon}",
    "f'{icon}'",
    "f'{__import__(1)}'",
    "icon @ icon",
    "9**9**9**9",
    "'%s' % icon",
    "'{0.__class__}'.format(icon)",
    "await icon",
    "print(icon)",
    "eval(icon)",
    "correct(icon, pad=__import__)",
    "rescale(center=icon) | icon",
    "rescale(center=('mean',)) | icon",
    "rescale(center='mean\\x00') | icon",
    "combine(icon, channels=(" + "1," * 1500 + "))",
    "combine(icon, channels=((((1,),),),))",
    "correct(icon, magnitude=1j)",
    "correct(icon, magnitude=nan)",
    "correct(icon, magnitude=1_0)",
    "correct(icon, magnitude=...)",
    "correct(icon, magnitude=None)",
    "b'icon'",
    "icon\\\n",
    "# icon",
    "'''icon",
    "icon|\ticn",
    "yield",
    "import os",
    "def f(): pass",
    "os",
    "type",
    "_",
    "True",
    "...",
]


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_text_is_refused(text):
    with pytest.raises(ParseError):
        parse(text)


def test_hostile_texts_together_take_no_time():
    start = time.process_time()
    for text in HOSTILE:
        with pytest.raises(ParseError):
            parse(text)
    assert time.process_time() - start < 20  # a loose bound against blow-up, not a speed test


def test_a_program_may_not_ask_too_often():
    nested = "correct(average(icon, " * 4 + "icon" + "))" * 4
    with pytest.raises(ParseError, match="more than 100 model evaluations"):
        parse(nested, max_calls=100)
    assert parse(nested, max_calls=10**6).calls(5) > 100


# Fuzz: anything is either a program or an error with a position.

WORDS = [
    *registry(), "|", "|", "|", "(", ")", "(", ")", ",", ",", "=", "target", "center", "gate", "True",
    "False", "None", "1", "-1", "0.5", "1e9", "'mean'", '"auto"', "channels", "[", "]", "{", "}", ".", "*",
    "**", "+", "lambda", ":", "if", "else", "for", "in", "not", "import", "__import__", "f'{icon}'", "\n",
    "\t", " ", "#", "\\", "é", "\x00", "'", '"', "@", ";", ":=", "0x", "1j", "...",
]  # fmt: skip


def _mutated(rng, base):
    characters = list(base)
    for _ in range(rng.randint(1, 4)):
        place = rng.randrange(len(characters) + 1)
        action = rng.random()
        if action < 0.4:
            characters.insert(place, rng.choice("()|,='\"0-.:[]{}*_ \n" + "abcxyz"))
        elif characters and action < 0.8:
            characters.pop(min(place, len(characters) - 1))
        else:
            characters[place:place] = rng.choice(WORDS)
    return "".join(characters)


@pytest.mark.slow
def test_a_hundred_thousand_texts(monkeypatch):
    """Random words, mutated programs: a program or a ParseError with a position, nothing else."""
    bases = [str(program) for program in chop.programs.values()]
    touched = []
    monkeypatch.setattr("builtins.eval", lambda *_: touched.append("eval"))
    monkeypatch.setattr("builtins.exec", lambda *_: touched.append("exec"))
    rng = random.Random(20260101)
    parsed = 0
    for i in range(100_000):
        if i % 2:
            written = _mutated(rng, rng.choice(bases))
        else:
            written = rng.choice(["", " "]).join(rng.choice(WORDS) for _ in range(rng.randint(1, 12)))
        try:
            program = parse(written)
        except ParseError as error:
            column = error.column
        else:
            column = 1
            parsed += 1
            assert parse(str(program)) == program
        assert 1 <= column <= len(written) + 2
    assert not touched
    assert parsed > 1000  # the fuzz also reaches valid programs


@given(st.text(max_size=200))
@settings(max_examples=300)
def test_any_unicode(written):
    with contextlib.suppress(ParseError):
        parse(written)


# Operators of other packages.


@final
@dataclass(frozen=True)
class Double(Transform):
    """Twice everything."""

    name: ClassVar[str] = "double"
    law: ClassVar[str] = "The way back undoes the way there."
    factor: float = number(2.0, 1.0, 4.0, "how much larger")

    def fit(self, prompt):
        mapped = prompt.mapped(
            inputs=prompt.inputs.with_values(prompt.inputs.values * self.factor),
            outputs=prompt.outputs.with_values(prompt.outputs.values * self.factor),
            query=prompt.query.with_values(prompt.query.values * self.factor),
        )
        return Frame(mapped, lambda v: v / self.factor, lambda v: v / self.factor)


class Impostor(Double):
    name: ClassVar[str] = "icon"


def _with_entries(monkeypatch, *values):
    entries = [
        importlib.metadata.EntryPoint(name=f"e{i}", value=value, group=text_module.ENTRY_POINTS)
        for i, value in enumerate(values)
    ]
    monkeypatch.setattr(text_module, "entry_points", lambda group: entries)
    registry.cache_clear()


@pytest.fixture(autouse=True)
def _fresh_registry():
    yield
    registry.cache_clear()


def test_a_third_party_operator_is_read_printed_and_run(monkeypatch):
    monkeypatch.setitem(sys.modules, "their_package", sys.modules[__name__])
    _with_entries(monkeypatch, "their_package:Double")
    program = parse("double(factor=3) | icon")
    assert str(program) == "double(factor=3.0) | icon"
    assert program.run(toy_model, make_prompt(0)).calls == 1


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("their_package:Impostor", "taken"),
        ("their_package:nothing", "nothing"),
        ("no_such_package:X", "no_such_package"),
        ("their_package:parse", "not a class"),
        ("their_package:Transform", "abstract"),
    ],
)
def test_a_broken_plug_in_is_left_out_with_a_warning(monkeypatch, value, reason):
    monkeypatch.setitem(sys.modules, "their_package", sys.modules[__name__])
    _with_entries(monkeypatch, value)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        known = registry()
    assert any(reason in str(warning.message) for warning in caught)
    assert set(known) == {operator.name for operator in BUILT_IN}


def test_every_operator_stands_in_the_registry_once():
    names = [operator.name for operator in BUILT_IN]
    assert len(set(names)) == len(names) == len(registry())
    assert all(a is not b for a, b in itertools.combinations(registry().values(), 2))
