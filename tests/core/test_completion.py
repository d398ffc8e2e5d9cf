"""Words that fit where program text is written."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

import chop
from chop.core.completion import completions


def words(text, at=None):
    return [found.word for found in completions(text, at)]


def test_names_of_operators_at_the_beginning_and_after_a_pipe():
    assert words("resc") == ["rescale"]
    assert words("icon | cons") == ["conserve_mean"]
    assert set(chop.registry()) <= set(words(""))
    assert "mfc" in words("mf"), "a name of the catalog stands for a whole program"
    assert "mfc" not in words("icon | mf")


def test_parameters_inside_brackets_and_their_choices():
    assert words("rescale(") == ["center=", "target="]
    assert words('rescale(center="mean", ') == ["target="], "what is given already is not offered again"
    assert words("rescale(center=") == ['"auto"', '"mean"']
    assert words('rescale(center="me') == ['mean"']
    assert words("correct(icon, gate=") == ["True", "False"]
    assert "icon" in words("select(correct(")


def test_in_the_middle_of_a_text():
    text = "resc | icon"
    (found,) = completions(text, 4)
    assert found.applied(text, 4) == ("rescale | icon", 7)


def test_every_word_says_what_it_means():
    assert all(found.meaning for found in (*completions(""), *completions("rescale(")))


@pytest.mark.parametrize("text", ["", "(", ")", '"', "nothing(", "rescale(center=(", "|||", "icon)"])
def test_odd_text_is_no_error(text):
    completions(text)


@given(st.text(alphabet='abcicon_rescale()=,|" .0', max_size=40), st.integers(0, 40))
def test_a_completed_text_contains_the_word(text, at):
    at = min(at, len(text))
    for found in completions(text, at):
        done, cursor = found.applied(text, at)
        assert done[:cursor].endswith(found.word)
        assert done.endswith(text[at:])
