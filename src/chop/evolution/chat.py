"""One question to a language model over HTTP, with everything that can go wrong bounded.

Any address that speaks the chat-completions protocol of OpenAI will do. The key comes from the environment
and goes into one header, nowhere else: what is raised, logged or stored passes through `Chat.clean` before
anything is cut off. No redirect is followed, so the key never travels to another host. Time, size and
number of attempts are limited.
"""

from __future__ import annotations

import base64
import contextlib
import html
import http.client
import json
import os
import random
import socket
import ssl
import string
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from itertools import groupby
from urllib.parse import quote, urlsplit

from chop.core.errors import EvolutionError

KEY_VARIABLES = ("CHOP_LLM_KEY", "OPENAI_API_KEY")
"""Environment variables that may hold the key; the first that is set counts. A local server needs none."""
MAX_ANSWER_BYTES = 256 * 1024
"""Bytes of an answer that are read; a longer one is refused."""
SHOWN_OF_REFUSAL = 200
"""Characters of a refusal that are passed on."""
SECRET_RUN = 6
"""Characters of the key in a row that may not be seen."""
SECRET_MARK = "[key]"

Message = Mapping[str, str]


class ChatError(EvolutionError):
    """A language model did not answer as the protocol demands, or not in time."""


class _TryAgainError(Exception):
    """Try again, not before so many seconds."""

    def __init__(self, reason: str, seconds: float | None = None) -> None:
        self.seconds = seconds
        super().__init__(reason)


@dataclass(frozen=True)
class Reply:
    """What the model said, and what it cost in tokens."""

    text: str
    tokens: int


@dataclass(eq=False)
class Chat:
    """A language model at an address. ``url`` is the base, such as ``http://localhost:8080/v1``."""

    url: str
    model: str
    _: KW_ONLY
    timeout: float = 120.0
    attempts: int = 4
    max_tokens: int = 1024
    temperature: float = 0.8
    patience: float = 60.0
    """seconds to wait before another attempt, at most"""
    sleep: Callable[[float], None] = time.sleep

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise EvolutionError("the address of a language model must look like https://host/v1")
        if parts.username or parts.password or parts.query:
            raise EvolutionError(
                "the address of a language model must hold no key; set the environment variable "
                f"{KEY_VARIABLES[0]}"
            )
        self._address = parts
        self.host = parts.hostname
        self._key = next((os.environ[name] for name in KEY_VARIABLES if os.environ.get(name)), "")
        if not self._key.isascii() or any(character.isspace() for character in self._key):
            raise EvolutionError("the key in the environment is not one: it has spaces or odd characters")
        self._secret = Secret(self._key)

    def clean(self, text: str) -> str:
        """A text without the key, in case somebody echoes it."""
        return self._secret.removed(text)

    def _shown(self, text: str) -> str:
        """The beginning of what a server or the system says, fit for a terminal."""
        words = "".join(letter if letter.isprintable() else " " for letter in self.clean(text))
        return words[:SHOWN_OF_REFUSAL].strip()

    def ask(self, messages: Sequence[Message]) -> Reply:
        """The answer, after as many attempts as are allowed; waits longer after each failure."""
        problem = ""
        for attempt in range(self.attempts):
            try:
                return self._once(messages)
            except _TryAgainError as error:
                problem = str(error)
                wait = error.seconds if error.seconds is not None else 2.0**attempt * random.uniform(0.5, 1.0)
            except (OSError, http.client.HTTPException, ValueError) as error:
                problem = f"{type(error).__name__}: {error}"
                wait = 2.0**attempt * random.uniform(0.5, 1.0)
            if attempt + 1 < self.attempts:
                self.sleep(min(wait, self.patience))
        raise ChatError(f"the language model at {self.host} did not answer: {self._shown(problem)}") from None

    def _once(self, messages: Sequence[Message]) -> Reply:
        body = json.dumps(
            {
                "model": self.model,
                "messages": [dict(message) for message in messages],
                "max_tokens": self.max_tokens,
                "temperature": self.temperature,
            }
        ).encode()
        status, retry_after, answer = self._post(body)
        if status in (408, 409, 429) or status >= 500:
            raise _TryAgainError(f"status {status}", _seconds(retry_after))
        if status != 200:
            said = self._shown(answer.decode("utf-8", "replace"))
            raise ChatError(f"the language model at {self.host} refused: status {status}: {said}")
        return _reply(answer)

    def _post(self, body: bytes) -> tuple[int, str | None, bytes]:
        headers = {"Content-Type": "application/json", "Accept": "application/json", "Connection": "close"}
        if self._key:
            headers["Authorization"] = f"Bearer {self._key}"
        connection = self._connection()
        late = threading.Event()
        try:
            connection.connect()
            # A server may drip one byte a second and never run into a socket's own time-out.
            stop = threading.Timer(self.timeout, _cut, [connection.sock, late])
            stop.daemon = True
            stop.start()
            try:
                return self._exchanged(connection, body, headers, late)
            finally:
                stop.cancel()
        except (OSError, http.client.HTTPException) as error:
            if late.is_set() or isinstance(error, TimeoutError):
                raise _TryAgainError(f"no answer within {self.timeout:g} s") from None
            raise
        finally:
            connection.close()

    def _exchanged(
        self, connection: http.client.HTTPConnection, body: bytes, headers: Message, late: threading.Event
    ) -> tuple[int, str | None, bytes]:
        path = f"{self._address.path.rstrip('/')}/chat/completions"
        connection.request("POST", path, body, dict(headers))
        response = connection.getresponse()
        answer = response.read(MAX_ANSWER_BYTES + 1)
        if late.is_set():  # what was read may end anywhere
            raise TimeoutError
        if len(answer) > MAX_ANSWER_BYTES:
            raise ChatError(f"the language model at {self.host} answers more than {MAX_ANSWER_BYTES} bytes")
        return response.status, response.getheader("Retry-After"), answer

    def _connection(self) -> http.client.HTTPConnection:
        if self._address.scheme == "https":
            return http.client.HTTPSConnection(
                self.host, self._address.port, timeout=self.timeout, context=ssl.create_default_context()
            )
        return http.client.HTTPConnection(self.host, self._address.port, timeout=self.timeout)


def _cut(sock: socket.socket, late: threading.Event) -> None:
    """End a conversation from outside; whoever reads gets less than was promised."""
    late.set()
    with contextlib.suppress(OSError):
        sock.shutdown(socket.SHUT_RDWR)


def _seconds(retry_after: str | None) -> float | None:
    """What a server asks us to wait; dates and nonsense count as nothing said."""
    try:
        seconds = float(retry_after or "")
    except ValueError:
        return None
    return seconds if 0 <= seconds < 86400 else None


def _reply(answer: bytes) -> Reply:
    """The text and the tokens of a chat completion; anything else is worth another attempt."""
    try:
        content = json.loads(answer)
        text = content["choices"][0]["message"]["content"]
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        raise _TryAgainError(f"the answer is not a chat completion ({type(error).__name__})") from None
    if not isinstance(text, str):
        raise _TryAgainError("the answer holds no text")
    used = content.get("usage")
    tokens = used.get("total_tokens") if isinstance(used, dict) else None
    counted = isinstance(tokens, int) and not isinstance(tokens, bool) and 0 <= tokens < 10**9
    return Reply(text, int(tokens or 0) if counted else len(answer) // 3)


# The key.

_SMALL = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)  # keeps the length, unlike str.lower


class Secret:
    """A key that must not be seen, taken out of texts before anything else is done with them.

    Every run of six or more characters of the key goes, so that what is left of an echo that somebody cut
    or masked is of no use; and so do the forms in which a server may hand it back: escaped for addresses,
    JSON or HTML, in base64 or in hexadecimal digits, in small or capital letters. There may be no key.
    """

    def __init__(self, key: str) -> None:
        self._short = key if len(key) < SECRET_RUN else ""
        self._runs = {
            SECRET_RUN: _runs(_written_forms(key), SECRET_RUN),
            2 * SECRET_RUN: _runs([key.encode().hex()], 2 * SECRET_RUN),  # two digits a character
        }

    def removed(self, text: str) -> str:
        """The text without the key."""
        if self._short:
            return text.replace(self._short, SECRET_MARK)
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


def _written_forms(key: str) -> list[str]:
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
    runs = groupby(zip(text, hidden, strict=True), key=lambda pair: pair[1])
    return "".join(SECRET_MARK if inside else "".join(c for c, _ in run) for inside, run in runs)
