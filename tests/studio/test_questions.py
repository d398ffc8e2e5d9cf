"""Questions of the page as plain values, and as links that strangers may have written."""

import base64
import json
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

import chop
from chop.studio.copying import as_commands, as_python
from chop.studio.questions import (
    KNOTS,
    NETWORKS,
    PROGRAMS,
    AirQuestion,
    ControlQuestion,
    FileQuestion,
    LawQuestion,
    Page,
)

QUESTIONS = [
    LawQuestion(),
    LawQuestion("u**3", 7, tuple(0.01 * i for i in range(KNOTS)), 0.2, 0.5, 3, 0.05, 40),
    ControlQuestion("rho_1to2", 0.3, 4, 6),
    AirQuestion("bthsa", "O3", 48, 3, "2024-02-01T06", "similar", False),
    FileQuestion("abc/my file.npz", 3, 1),
]


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_link_restores_the_page(question):
    page = Page(question, "mfc", 'rescale(center="mean") | icon')
    link = page.link()
    assert Page.from_link(link) == page
    assert link.isascii()
    assert not set(link) & set("/+=&?#% "), "it stands in an address as it is"


@given(st.text(max_size=80))
def test_any_text_is_a_page_or_a_sentence(words):
    try:
        Page.from_link(words)
    except chop.ChopError as error:
        sentence = str(error)
    else:
        return
    assert "\n" not in sentence


def packed(content):
    return base64.urlsafe_b64encode(zlib.compress(content)).decode().rstrip("=")


@pytest.mark.parametrize(
    "plain",
    [
        {"question": {"kind": "law", "flux": "u" * 1000}, "model": "mfc", "program": "icon"},
        {"question": {"kind": "law", "number": 1e9}, "model": "mfc", "program": "icon"},
        {"question": {"kind": "law", "drawn": [1, 2]}, "model": "mfc", "program": "icon"},
        {"question": {"kind": "law", "horizon": "x"}, "model": "mfc", "program": "icon"},
        {"question": {"kind": "shell"}, "model": "mfc", "program": "icon"},
        {"question": {"kind": "law"}, "model": ["mfc"], "program": "icon"},
        ["question"],
        7,
    ],
)
def test_links_of_strangers_are_a_sentence(plain):
    with pytest.raises(chop.ChopError):
        Page.from_link(packed(json.dumps(plain).encode()))


def test_a_link_that_unpacks_to_much_is_refused():
    with pytest.raises(chop.ChopError, match="damaged"):
        Page.from_link(packed(b" " * 10**7))


def test_another_kind_of_question_brings_its_network_and_its_program():
    page = Page().about(ControlQuestion())
    assert (page.model, page.program) == (NETWORKS["control"], PROGRAMS["control"])
    mine = Page(program="krige(icon)").about(AirQuestion())
    assert (mine.model, mine.program) == ("air_bthsa", "krige(icon)"), "what somebody wrote stays"


@pytest.mark.parametrize("question", QUESTIONS[:3])
def test_the_python_that_is_copied_runs(question, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    page = Page().about(question)
    exec(as_python(page), {})
    assert (tmp_path / "trace.html").exists()
    assert page.program in capsys.readouterr().out


def test_commands_make_the_question_or_name_its_file():
    assert as_commands(Page()).startswith("chop data conservation --out question.h5 --flux 'sin(u)-cos(u)'")
    assert "chop explain question.h5" in as_commands(Page(QUESTIONS[1]))
    assert "'abc/my file.npz' --index 3" in as_commands(Page(FileQuestion("abc/my file.npz", 3)))
