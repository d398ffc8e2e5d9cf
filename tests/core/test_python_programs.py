"""Programs in Python as in text: names, pipes, calls, binding, files."""

import inspect
import pickle

import pytest
import torch
from hypothesis import assume, given, settings
from program_sizes import needs_at_most

import chop
from chop import operators
from chop.core.text import MAX_FILE_CHARACTERS
from chop.files import choose_program
from chop.operators import average, combine, conserve_mean, correct, flip, icon, rescale, ridge, select
from chop.testing import make_prompt, toy_model
from chop.testing.strategies import program_values

BUILT_IN = {operator.name: operator for operator in operators.BUILT_IN}
SLOTS = ("program", "programs")


def with_slots(operator):
    return [param for param in operator.params().values() if param.kind in SLOTS]


@pytest.mark.parametrize("name", BUILT_IN)
def test_every_operator_has_its_name_and_the_text_of_the_parser(name):
    assert name in operators.__all__
    value, slots = getattr(operators, name), with_slots(BUILT_IN[name])
    text = f"{name}({', '.join(['icon'] * slots[0].at_least)})" if slots else name
    made = value(*[icon] * slots[0].at_least) if slots else value
    assert type(made) is BUILT_IN[name]
    assert str(made) == text
    if made.role == "program":
        assert made == chop.parse(text)
    else:
        whole = made | icon if made.role == "transform" else icon | made
        assert whole == chop.parse(f"{text} | icon" if made.role == "transform" else f"icon | {text}")


@pytest.mark.parametrize("name", BUILT_IN)
def test_names_have_the_signature_and_the_words_of_their_class(name):
    value, operator = getattr(operators, name), BUILT_IN[name]
    shown = inspect.signature(value).parameters
    options = {key: param for key, param in operator.params().items() if param.kind not in SLOTS}
    declared = {key: inspect.signature(operator).parameters[key] for key in options}
    assert {key: shown[key].default for key in options} == {k: p.default for k, p in declared.items()}
    assert {key: shown[key].annotation for key in options} == {k: p.annotation for k, p in declared.items()}
    assert value.__doc__


def test_options_are_given_as_in_text():
    assert rescale(center="mean") == operators.Rescale(center="mean")
    assert icon() == icon == operators.Icon()
    assert ridge(strength=0.5) == chop.parse("ridge(strength=0.5)")
    written = (
        'combine(rescale(center="mean") | icon, correct(icon, gap=1), average(icon, ridge), channels=(-1,))'
    )
    assert chop.parse(written) == combine(
        rescale(center="mean") | icon, correct(icon, gap=1), average(icon, ridge), channels=(-1,)
    )
    assert chop.programs["mfc"] == select(correct(rescale | icon), icon)
    assert operators.Select((icon, ridge)) == select(icon, ridge)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: rescale(centre="mean"), "rescale has no option 'centre'; its options: center, target"),
        (lambda: icon(gap=1), "icon has no option 'gap'; its options: none"),
        (lambda: rescale(center="median"), 'center must be one of "auto", "mean"'),
        (lambda: select(icon), "select: branches must be at least 2 programs"),
        (lambda: conserve_mean | icon, "a projection stands right of a program"),
        (lambda: icon | rescale, "a transform stands left of a program: write rescale"),
        (lambda: icon | icon, "two programs cannot be piped"),
        (lambda: correct | icon, "Correct is a class of operators"),
        (lambda: rescale | 3, "only operators can be piped, not int"),
        (lambda: 3 | rescale, "only operators can be piped, not int"),
    ],
)
def test_mistakes_are_said(make, words):
    with pytest.raises(chop.ProgramError, match=words):
        make()


def test_names_are_values_like_any_other():
    assert pickle.loads(pickle.dumps(rescale)) == rescale
    assert hash(rescale) == hash(operators.Rescale())
    assert (rescale | flip | icon) == (rescale | (flip | icon))
    assert repr(rescale(target=2.0)) == "<transform: rescale(target=2.0)>"


def test_a_program_is_called_with_a_model_and_a_prompt():
    program, prompt = select(correct(rescale | icon), icon), make_prompt(1, batch=(2,))
    expected = program.run(toy_model, prompt, validate=True).values
    assert torch.equal(program(toy_model, prompt, validate=True).values, expected)
    assert torch.equal(program(model=toy_model, prompt=prompt).values, expected)
    assert icon(toy_model, prompt, trace=False).calls == 1
    with pytest.raises(TypeError, match="model"):
        program()


def test_a_bound_program_answers_prompts():
    program, prompt = correct(icon), make_prompt(1, batch=(2,))
    bound = program.bind(toy_model, trace=False, validate=True)
    result = bound(prompt)
    assert torch.equal(result.values, program.run(toy_model, prompt).values)
    assert not result.traced
    assert (bound.program, bound.model) == (program, toy_model)
    assert torch.equal(bound.rollout(prompt, 3).values, chop.rollout(program, toy_model, prompt, 3).values)
    assert "correct(icon)" in repr(bound)
    with pytest.raises(chop.ProgramError, match="not finite"):
        icon.bind(lambda p: toy_model(p) * torch.nan, strict=True)(prompt)
    with pytest.raises(TypeError, match="strikt"):
        program.bind(toy_model, strikt=True)


@settings(max_examples=60)
@given(program=program_values())
def test_what_is_saved_is_loaded(program, tmp_path_factory):
    assume(needs_at_most(program, 2000))
    folder = tmp_path_factory.mktemp("programs")
    path = program.save(folder / "p.txt", note="found by\nnobody: é # (", date="today")
    assert chop.Program.load(path) == choose_program(str(path)) == program


def test_a_saved_program_says_where_it_comes_from(tmp_path):
    path = correct(icon).save(tmp_path / "deep" / "p.txt", note="for the poster", date="2026-01-02")
    head = f"# chop program, format 1\n# chop {chop.__version__}\n# 2026-01-02\n# for the poster\n"
    assert path.read_text() == f"{head}correct(icon)\n"
    with pytest.raises(chop.ProgramError, match="exists already"):
        icon.save(path)
    assert chop.Program.load(icon.save(path, overwrite=True)) == icon
    assert path.read_text().splitlines()[1:] == [f"# chop {chop.__version__}", "icon"]


def test_files_that_are_no_programs_are_refused(tmp_path):
    path = tmp_path / "p.txt"
    with pytest.raises(chop.ChopError, match="there is no file"):
        chop.Program.load(path)
    for content, words in {
        "# chop program, format 2\nicon": "format 2.*reads chop program, format 1",
        "# nothing\n": "the text is empty",
        "icon | nothing  # more": "no operator 'nothing'",
        "# " + "x" * MAX_FILE_CHARACTERS + "\nicon": "the text is empty",
    }.items():
        path.write_text(content)
        with pytest.raises(chop.ChopError, match=words):
            chop.Program.load(path)
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(chop.ChopError, match="cannot be read as program text"):
        chop.Program.load(path)
    for note in ("a\x00", "x" * MAX_FILE_CHARACTERS):
        with pytest.raises(chop.ProgramError, match="note"):
            icon.save(tmp_path / "q.txt", note=note)


def test_comments_are_not_part_of_a_program():
    """And hide nothing that stands on the next line."""
    assert chop.parse("icon # the model\n| conserve_mean") == icon | conserve_mean
    assert chop.parse("# é\n rescale |\n# between\nicon") == rescale | icon
    with pytest.raises(chop.ParseError) as raised:
        chop.parse("# why\nicon | nothing")
    assert raised.value.column == 14
    with pytest.raises(chop.ParseError, match="must be one of"):
        chop.parse('rescale(center="#") | icon')
