"""The key of a language model is seen nowhere: whatever is echoed, in whatever form, wherever it is cut."""

import base64
import html
import json
from urllib.parse import quote

import pytest
from chat_server import ChatServer, status
from hypothesis import given
from hypothesis import strategies as st

from chop.evolution.chat import SECRET_RUN as RUN
from chop.evolution.chat import SHOWN_OF_REFUSAL as SHOWN
from chop.evolution.chat import Chat, ChatError, Secret

KEY = 'sk-Ab3/x+Z9q"<&>\\0123456789abcdefXYZ'
keys = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=RUN, max_size=40)


def runs(key, text, width=RUN):
    """Parts of the key that a text shows."""
    parts = {key[i : i + width] for i in range(len(key) - width + 1)}
    return [part for part in parts if part in text]


@given(keys, st.text(), st.text(), st.integers(0, 400), st.integers(0, 40), st.integers(0, 40))
def test_no_run_of_the_key_survives_any_place_and_any_cut(key, before, after, cut, low, high):
    secret = Secret(key)
    for echo in (key, key[low:high], key + key[low:], key[:high] + "..." + key[low:]):
        seen = secret.removed(before + echo + after)
        assert not runs(key, seen)
        assert not runs(key, seen[:cut])
        assert not runs(key, seen[cut:])


@given(keys, st.text(st.characters(max_codepoint=126), max_size=9))
def test_no_form_of_the_key_survives(key, before):
    secret = Secret(key)
    coded = base64.b64encode(f"{before}{key}".encode()).decode()
    forms = {
        quote(key, safe=""): RUN, quote(key): RUN, json.dumps(key)[1:-1]: RUN, html.escape(key): RUN,
        key.upper(): RUN, key.encode().hex(): 2 * RUN,
    }  # fmt: skip
    for form, width in forms.items():
        assert not runs(form, secret.removed(f"they said {form}!"), width)
    seen = secret.removed(coded)
    inner = base64.b64encode(key.encode()).decode() if len(before.encode()) % 3 == 0 else coded[14:-5]
    assert not runs(inner[: len(inner) - 4], seen, 8)


def test_texts_without_the_key_stay_as_they_are():
    text = "PROGRAM: rescale(target=0.3) | icon \N{SNOWMAN} İ"
    assert Secret(KEY).removed(text) == text
    assert Secret("").removed(text) == text
    assert Secret("EMPTY").removed(f"EMPTY {text}") == f"[key] {text}", "a word that stands for no key"


@pytest.fixture
def chat(monkeypatch):
    monkeypatch.setenv("CHOP_LLM_KEY", KEY)
    return lambda server: Chat(server.url, "m", sleep=lambda seconds: None, timeout=5.0, attempts=2)


@pytest.mark.parametrize("place", [0, SHOWN - len(KEY) - 3, SHOWN - 20, SHOWN - 7, SHOWN - 1])
@pytest.mark.parametrize("form", [str, json.dumps, quote])
def test_a_refusal_that_echoes_the_key_where_it_is_cut(chat, place, form):
    body = ("." * place + form(KEY) + "." * 300).encode()
    with ChatServer(status(401, body)) as server, pytest.raises(ChatError) as error:
        chat(server).ask([])
    assert not runs(KEY, str(error.value))
    assert len(str(error.value)) < SHOWN + 100


def test_a_refusal_reaches_the_terminal_as_plain_text(chat):
    refusal = status(403, b"\x1b[31m[/red] no\x07\n such\tmodel")
    words = r"status 403: \[31m\[/red\] no  +such model$"
    with ChatServer(refusal) as server, pytest.raises(ChatError, match=words) as error:
        chat(server).ask([])
    assert str(error.value).isprintable()


def test_what_the_system_says_is_cleaned_before_it_is_cut(chat, monkeypatch):
    def fails(*about):
        raise OSError("x" * (SHOWN - 20) + f"Bearer {KEY}")

    with ChatServer("hi") as server:
        asked = chat(server)
        monkeypatch.setattr(asked, "_post", fails)
        with pytest.raises(ChatError, match="did not answer") as error:
            asked.ask([])
    assert not runs(KEY, str(error.value))
