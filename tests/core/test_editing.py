"""Programs changed in one place: paths, what is inserted, replaced and removed, stages that know theirs."""

import re

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from chop.core.editing import nested_programs, operator_at, path_of, path_text, replace_at, walk
from chop.core.errors import ChopError, ProgramError
from chop.core.parameters import number
from chop.core.program import Icon, Program, Transform, Wrapped
from chop.core.programs import programs
from chop.core.text import parse, registry
from chop.pictures.boxes import layout
from chop.testing import make_prompt, program_values, toy_model

MFC = "select(correct(rescale | icon), icon)"


# Paths.


def test_paths_of_a_known_program():
    found = [(path, operator.name) for path, operator in parse(f"flip | {MFC} | finite").operators()]
    assert found == [
        ("inner/transform", "flip"),
        ("inner/inner", "select"),
        ("inner/inner/branches.0", "correct"),
        ("inner/inner/branches.0/base/transform", "rescale"),
        ("inner/inner/branches.0/base/inner", "icon"),
        ("inner/inner/branches.1", "icon"),
        ("projection", "finite"),
    ]


@settings(max_examples=60, deadline=None)
@given(program_values())
def test_every_part_has_one_path_and_is_found_there(program):
    texts = [path_text(path) for path, _ in walk(program)]
    assert texts[0] == ""
    assert len(set(texts)) == len(texts)
    for text, (path, part) in zip(texts, walk(program), strict=True):
        assert re.fullmatch(r"[\w./]*", text), "nothing that an attribute or an address would have to quote"
        assert path_of(text) == path
        assert program.at(text) is part
    assert [part for _, part in program.operators()] == [part for _, part in walk(program) if part.name]
    for path, part in nested_programs(program):
        assert replace_at(program, path, part) == program


@pytest.mark.parametrize(
    "path",
    ["/", "branches.0/", "branches.-1", "branches.00", "branches. 0", "branches.٣", "a b", "branches.99999",
     "branches.0.1", "é", "branches.0\n", "__class__", "name", "acting", "kind", "pad", "branches",
     "branches.2", "branches.0/inner", "inner", "branches.0/base.0", "x" * 5000, 3, None, (("branches", 0),)],
)  # fmt: skip
def test_a_wrong_path_is_a_sentence(path):
    program = parse(MFC)
    for ask in (
        program.at, program.removed, program.changed, program.insertable, program.replaceable,
        lambda path: program.inserted(path, "flip"), lambda path: program.replaced(path, "flip"),
    ):  # fmt: skip
        with pytest.raises(ProgramError) as error:
            ask(path)
        assert len(str(error.value)) < 250


@settings(max_examples=100, deadline=None)
@given(st.text(alphabet="abrnches_.0123/é -", max_size=30))
def test_any_text_is_a_path_or_a_program_error(text):
    try:
        found = path_of(text)
    except ProgramError:
        return
    assert path_text(found) == text
    if found:
        with pytest.raises(ProgramError, match="no operator stands at"):
            operator_at(Icon(), found)


# Changes, in literal texts.

INSERTED = [
    ("icon", "", "rescale", "rescale | icon"),
    ("icon", "", "finite", "icon | finite"),
    ("icon", "", "correct", "correct(icon)"),
    ("ridge", "", "select", "select(ridge, icon)"),
    ("ridge", "", "combine", "combine(ridge)"),
    ("flip | icon", "transform", "rescale", "rescale | flip | icon"),
    ("flip | icon", "inner", "rescale", "flip | rescale | icon"),
    ("flip | icon", "transform", "finite", "flip | icon | finite"),
    ("flip | icon", "inner", "finite", "flip | (icon | finite)"),
    ("flip | icon", "transform", "correct", "correct(flip | icon)"),
    ("flip | icon", "inner", "correct", "flip | correct(icon)"),
    ("icon | finite", "projection", "nonnegative", "icon | finite | nonnegative"),
    ("icon | finite", "inner", "nonnegative", "icon | nonnegative | finite"),
    ("icon | finite", "projection", "flip", "flip | (icon | finite)"),
    (MFC, "branches.0/base/inner", "krige", "select(correct(rescale | krige(icon)), icon)"),
    (MFC, "branches.0", "ridge", "select(correct(rescale | icon), ridge, icon)"),
    (MFC, "branches.1", "ridge", "select(correct(rescale | icon), icon, ridge)"),
    ("average(flip | icon)", "members.0/transform", "ridge", "average(flip | icon, ridge)"),
    ("average(icon, ridge, weights=(1.0, 3.0))", "members.0", "law", "average(icon, law, ridge)"),
]


@pytest.mark.parametrize(("before", "path", "name", "after"), INSERTED)
def test_inserted(before, path, name, after):
    program = parse(before)
    assert str(program.inserted(path, name)) == after
    assert program == parse(before), "programs are values"
    assert name in program.insertable(path)


REPLACED = [
    ("icon", "", "ridge", "ridge"),
    ("ridge(strength=2.0)", "", "select", "select(icon, icon)"),
    ('rescale(center="mean", target=2.0) | icon', "transform", "normalize", "normalize | icon"),
    ("flip | icon", "", "reflect", "reflect | icon"),
    ("icon | finite", "projection", "nonnegative", "icon | nonnegative"),
    (MFC, "", "combine", "combine(correct(rescale | icon), icon)"),
    (MFC, "", "krige", "krige(correct(rescale | icon))"),
    (MFC, "", "ridge", "ridge"),
    (MFC, "branches.0", "select", "select(select(rescale | icon, icon), icon)"),
    ("correct(ridge, gap=2)", "", "debias", "debias(ridge)"),
    ("correct(ridge, gap=2)", "", "correct", "correct(ridge)"),
]


@pytest.mark.parametrize(("before", "path", "name", "after"), REPLACED)
def test_replaced(before, path, name, after):
    program = parse(before)
    assert str(program.replaced(path, name)) == after
    replaceable = program.replaceable(path)
    acting = program.at(path).acting if isinstance(program.at(path), Program) else program.at(path)
    assert (name in replaceable) == (name != acting.name)


REMOVED = [
    ("flip | icon", "transform", "icon"),
    ("flip | rescale | icon", "inner/transform", "flip | icon"),
    ("flip | (icon | finite)", "transform", "icon | finite"),
    ("icon | finite", "projection", "icon"),
    ("correct(flip | icon)", "", "flip | icon"),
    (MFC, "", "correct(rescale | icon)"),
    (MFC, "branches.0", "select(rescale | icon, icon)"),
    ("combine(icon, ridge)", "candidates.0", "combine(ridge)"),
    ("select(icon, ridge, law)", "branches.1", "select(icon, law)"),
    ("weigh(icon, ridge, law, prior=(1.0, 2.0, 3.0))", "candidates.2", "weigh(icon, ridge)"),
]


@pytest.mark.parametrize(("before", "path", "after"), REMOVED)
def test_removed(before, path, after):
    assert str(parse(before).removed(path)) == after


def test_options_changed():
    program = parse(MFC)
    changed = program.changed("branches.0/base/transform", center="mean", target=2)
    assert str(changed) == 'select(correct(rescale(center="mean", target=2.0) | icon), icon)'
    assert str(program.changed("", pad=not program.pad)).endswith(f"icon, pad={not program.pad})")
    assert str(parse("flip | icon").changed("")) == "flip | icon"
    assert program.changed("branches.0/base", target=2).at("branches.0/base/transform").target == 2.0
    listed = parse("average(icon, ridge)").changed("", weights=[1, 3])
    assert str(listed) == "average(icon, ridge, weights=(1.0, 3.0))"


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda p: p.inserted("", "ridge"), "ridge takes no program .* replace that instead"),
        (lambda p: p.inserted("branches.0/base/inner", "icon"), "cannot stand around icon"),
        (lambda p: p.inserted("", "nobody"), "there is no operator 'nobody'; known are .*average"),
        (lambda p: p.inserted("", ["icon"]), "there is no operator"),
        (lambda p: p.replaced("", "flip"), "flip is a transform and cannot replace select, a program"),
        (lambda p: p.replaced("branches.0/base", "finite"), "cannot replace rescale, a transform"),
        (
            lambda p: p.removed("branches.1"),
            "select needs at least 2 programs: replace icon, or remove select",
        ),
        (
            lambda p: p.removed("branches.0/base/inner"),
            "a program needs something that answers: replace icon",
        ),
        (lambda p: parse("icon").removed(""), "a program needs something that answers"),
        (lambda p: parse("combine(icon)").removed("candidates.0"), "combine needs at least 1 program: "),
        (lambda p: p.changed("", gap=-1), "select: gap must be a whole number from 0"),
        (lambda p: p.changed("", nothing=1), "select has no option 'nothing'; its options: pad, gap"),
        (lambda p: p.changed("", branches=()), "no option 'branches'"),
        (lambda p: p.changed("", self=1, path=2), "no option 'self'"),
        (lambda p: p.changed("branches.1", k=1), "icon has no option 'k'; its options: none"),
        (lambda p: p.changed("branches.0", magnitude=float("nan")), "magnitude must be a number from"),
    ],
)
def test_what_does_not_fit_is_a_sentence(change, sentence):
    with pytest.raises(ProgramError, match=sentence):
        change(parse(MFC))


def test_a_program_that_would_grow_too_large_is_refused():
    deep = parse("flip | " * 18 + "icon")
    assert str(deep.inserted("", "rescale")).startswith("rescale | flip")
    with pytest.raises(ProgramError, match=r"cannot be written down: .* nested 21 deep"):
        deep.inserted("", "rescale").inserted("", "rescale")
    full = deep.inserted("", "rescale")
    assert full.insertable("") == ()
    assert "normalize" in full.replaceable("transform")
    dear = parse("views(views(views(icon, turns=20), turns=20), turns=5)")
    assert "views" not in dear.insertable("")
    assert "flip" in dear.insertable("")


def test_an_operator_that_text_does_not_know_is_refused():
    class Secret(Transform):
        name = "secret"
        amount: float = number(1.0, 0.0, 2.0, "how much")

        def fit(self, prompt):
            raise NotImplementedError

    with pytest.raises(ProgramError, match=r"cannot be written down: .*no operator 'secret'"):
        (Secret() | Icon()).inserted("inner", "flip")
    assert (Secret() | Icon()).removed("transform") == Icon()


# Changes, of any program.


@settings(max_examples=25, deadline=None)
@given(program_values(max_leaves=4), st.data())
def test_every_name_of_the_menus_works_and_gives_text_that_is_read_again(program, data):
    assume(readable(program))
    path, operator = data.draw(st.sampled_from(program.operators()))
    roles = {name: kind.role for name, kind in registry().items()}
    insertable, replaceable = program.insertable(path), program.replaceable(path)
    for name in insertable:
        larger = program.inserted(path, name)
        assert parse(str(larger)) == larger
        assert larger.size > program.size
        names = [part.name for _, part in larger.operators()]
        assert names.count(name) > [part.name for _, part in program.operators()].count(name)
    for name in replaceable:
        other = program.replaced(path, name)
        assert parse(str(other)) == other
        assert other.at(path).name == name != operator.name
        assert roles[name] == operator.role
    for name in registry().keys() - set(insertable):
        with pytest.raises(ProgramError):
            program.inserted(path, name)
    if program.size < 8 and program.depth < 8 and program.calls() < 50:
        wrapping = {name for name, role in roles.items() if role != "program"} | {"correct", "average"}
        assert wrapping <= set(insertable)
        assert {name for name, role in roles.items() if role == operator.role} - {operator.name} == set(
            replaceable
        )


@settings(max_examples=40, deadline=None)
@given(program_values(max_leaves=5), st.data())
def test_what_was_inserted_can_be_removed_again(program, data):
    assume(readable(program))
    path, part = data.draw(st.sampled_from(nested_programs(program)))
    names = [
        name
        for name in ("flip", "finite", "correct", "select")
        if name in program.insertable(path_text(path))
    ]
    for name in names:
        # What is put around a part stands where the part stood.
        assert program.inserted(path_text(path), name).removed(path_text(path)) == program
    try:
        smaller = program.removed(path_text(path))
    except ProgramError:
        assert not list(part.parts()), "only what answers by itself is ever needed"
    else:
        assert smaller.size < program.size
        assert parse(str(smaller)) == smaller


def readable(program):
    try:
        return parse(str(program)) == program
    except ChopError:
        return False


# Stages know their operators.


def stages_of(program, **kept):
    trace = program.run(toy_model, make_prompt(3, examples=6, points=8, style="nonnegative", **kept)).trace
    return [step.stage for step in trace.stages()]


@pytest.mark.parametrize(
    "name", [*programs, "flip | (average(icon, rescale | ridge | finite) | nonnegative)"]
)
def test_a_stage_has_the_path_of_its_box(name):
    program = parse(name)
    boxes = {box.path: box for box in layout(program).boxes if box.path is not None and box.kind != "undo"}
    stations = {"dimensions": 3, "channels": (2, 2)} if "graph" in str(program) else {}
    stages = stages_of(program, **stations)
    for stage in stages:
        assert stage.path is None or stage.title == program.at(stage.path).head()
        assert stage.path is None or boxes[stage.path].kind in (stage.kind, "model")
        assert (stage.path is None) == (stage.kind == "held_out") or "views" in str(program)
    shared = {str(program.at(path)) for path in {stage.path for stage in stages} - {None}}
    for path, operator in program.operators():
        assert any(stage.path == path for stage in stages) or str(operator) in shared, path


def test_paths_of_the_stages_of_a_known_run():
    assert [(stage.title[:8], stage.path) for stage in stages_of(parse("correct(flip | icon | finite)"))] == [
        ("correct", ""),
        ("flip", "base/inner/transform"),
        ("icon", "base/inner/inner"),
        ("flip", "base/inner/transform"),
        ("finite", "base/projection"),
        ("held out", None),
        ("flip", "base/inner/transform"),
        ("icon", "base/inner/inner"),
        ("flip", "base/inner/transform"),
        ("finite", "base/projection"),
        ("held out", None),
        ("correct", ""),
    ]
    twins = [stage.path for stage in stages_of(parse("average(icon, icon)")) if stage.title == "icon"]
    assert set(twins) == {"members.0"}, "a shared stage has the first path"


def test_what_a_program_builds_has_no_path():
    viewed = stages_of(parse("views(icon, turns=2, anchored=False, sign=True)"))
    assert {(stage.title.split("(")[0], stage.path) for stage in viewed} == {
        ("views", ""), ("icon", "base"), ("turn", None), ("flip", None),
    }  # fmt: skip
    auto = stages_of(parse("flip | auto(budget=8)"))
    assert {stage.path for stage in auto} == {"transform", "inner", None}


def test_paths_leave_answers_alone():
    program, prompt = parse(MFC), make_prompt(1)
    with_trace, without = (program.run(toy_model, prompt, trace=kept).values for kept in (True, False))
    assert torch.equal(with_trace, without)
    assert isinstance(parse("flip | icon"), Wrapped)
