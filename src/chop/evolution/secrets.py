"""A key that must not be seen, taken out of texts before anything else is done with them.

Every run of six or more characters of the key goes, so that what is left of an echo that somebody cut or
masked is of no use; and so do the forms in which a server may hand it back: escaped for addresses, JSON or
HTML, in base64 or in hexadecimal digits, in small or capital letters.
"""

from __future__ import annotations

import base64
import html
import json
import string
from urllib.parse import quote

RUN = 6
"""Characters of the key in a row that may not be seen."""
MARK = "[key]"

_SMALL = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)  # keeps the length, unlike str.lower


class Secret:
    """A key, and how to take it out of texts; there may be none."""

    def __init__(self, key: str) -> None:
        self._short = key if len(key) < RUN else ""
        self._runs = {
            RUN: _runs(_forms(key), RUN),
            2 * RUN: _runs([key.encode().hex()], 2 * RUN),  # two digits a character
        }

    def removed(self, text: str) -> str:
        """The text without the key."""
        if self._short:
            return text.replace(self._short, MARK)
        while any(hidden := self._hidden(text)):
            # Again, since the mark may make a run with what is beside it; a run is longer than the mark.
            text = _marked(text, hidden)
        return text

    def _hidden(self, text: str) -> bytearray:
        """For each character, whether it belongs to a run of the key."""
        small, hidden = text.translate(_SMALL), bytearray(len(text))
        for width, runs in self._runs.items():
            for i in range(len(small) - width + 1):
                if small[i : i + width] in runs:
                    hidden[i : i + width] = b"\x01" * width
        return hidden


def _forms(key: str) -> list[str]:
    """The key as it may be written; base64 depends on what stands before it, in three ways."""
    coded = [base64.b64encode(b"\0" * shift + key.encode())[-(-4 * shift // 3) :] for shift in range(3)]
    texts = [form.rstrip(b"=")[: len(form.rstrip(b"=")) - 1].decode() for form in coded]
    return [
        key, quote(key), quote(key, safe=""), html.escape(key), json.dumps(key)[1:-1],
        key.replace("/", "\\/"), *texts, *(text.translate(str.maketrans("+/", "-_")) for text in texts),
    ]  # fmt: skip


def _runs(forms: list[str], width: int) -> frozenset[str]:
    small = [form.translate(_SMALL) for form in forms]
    return frozenset(form[i : i + width] for form in small for i in range(len(form) - width + 1))


def _marked(text: str, hidden: bytearray) -> str:
    """Runs of hidden characters replaced by one mark each."""
    parts: list[str] = []
    begun = 0
    while begun < len(text):
        inside = hidden[begun]
        end = begun
        while end < len(text) and hidden[end] == inside:
            end += 1
        parts.append(MARK if inside else text[begun:end])
        begun = end
    return "".join(parts)


__all__ = ["MARK", "RUN", "Secret"]
