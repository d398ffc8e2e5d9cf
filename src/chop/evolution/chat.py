"""One question to a language model over HTTP, with everything that can go wrong bounded.

Any address that speaks the chat-completions protocol of OpenAI will do. The key comes from the environment
and goes into one header, nowhere else: what is raised, logged or stored passes through `Chat.clean` before
anything is cut off. No redirect is followed, so the key never travels to another host. Time, size and
number of attempts are limited.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import random
import socket
import ssl
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from chop.core.errors import EvolutionError
from chop.evolution.secrets import Secret

KEYS = ("CHOP_LLM_KEY", "OPENAI_API_KEY")
"""Environment variables that may hold the key; the first that is set counts. A local server needs none."""
MAX_ANSWER = 256 * 1024
"""Bytes of an answer that are read; a longer one is refused."""

SHOWN = 200
"""Characters of a refusal that are passed on."""

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


class Chat:
    """A language model at an address. ``url`` is the base, such as ``http://localhost:8080/v1``."""

    def __init__(
        self,
        url: str,
        model: str,
        *,
        timeout: float = 120.0,
        attempts: int = 4,
        max_tokens: int = 1024,
        temperature: float = 0.8,
        patience: float = 60.0,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._parts = urlsplit(url)
        if self._parts.scheme not in ("http", "https") or not self._parts.hostname:
            raise EvolutionError("the address of a language model must look like https://host/v1")
        if self._parts.username or self._parts.password or self._parts.query:
            raise EvolutionError(
                f"the address of a language model must hold no key; set the environment variable {KEYS[0]}"
            )
        self.model = model
        self.host = self._parts.hostname
        self._timeout = timeout
        self._attempts = attempts
        self._max_tokens = max_tokens
        self._temperature = temperature
        self._patience = patience
        self._sleep = sleep
        self._key = next((os.environ[name] for name in KEYS if os.environ.get(name)), "")
        if not self._key.isascii() or any(character.isspace() for character in self._key):
            raise EvolutionError("the key in the environment is not one: it has spaces or odd characters")
        self._secret = Secret(self._key)

    def clean(self, text: str) -> str:
        """A text without the key, in case somebody echoes it."""
        return self._secret.removed(text)

    def _shown(self, text: str) -> str:
        """The beginning of what a server or the system says, fit for a terminal."""
        words = "".join(letter if letter.isprintable() else " " for letter in self.clean(text))
        return words[:SHOWN].strip()

    def ask(self, messages: Sequence[Message]) -> Reply:
        """The answer, after as many attempts as are allowed; waits longer after each failure."""
        problem = ""
        for attempt in range(self._attempts):
            try:
                return self._once(messages)
            except _TryAgainError as error:
                problem = str(error)
                wait = error.seconds if error.seconds is not None else 2.0**attempt * random.uniform(0.5, 1.0)
            except (OSError, http.client.HTTPException, ValueError) as error:
                problem = f"{type(error).__name__}: {error}"
                wait = 2.0**attempt * random.uniform(0.5, 1.0)
            if attempt + 1 < self._attempts:
                self._sleep(min(wait, self._patience))
        raise ChatError(f"the language model at {self.host} did not answer: {self._shown(problem)}") from None

    def _once(self, messages: Sequence[Message]) -> Reply:
        body = json.dumps(
            {
                "model": self.model,
                "messages": [dict(message) for message in messages],
                "max_tokens": self._max_tokens,
                "temperature": self._temperature,
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
            stop = threading.Timer(self._timeout, _cut, [connection.sock, late])
            stop.daemon = True
            stop.start()
            try:
                return self._exchanged(connection, body, headers, late)
            finally:
                stop.cancel()
        except (OSError, http.client.HTTPException) as error:
            if late.is_set() or isinstance(error, TimeoutError):
                raise _TryAgainError(f"no answer within {self._timeout:g} s") from None
            raise
        finally:
            connection.close()

    def _exchanged(
        self, connection: http.client.HTTPConnection, body: bytes, headers: Message, late: threading.Event
    ) -> tuple[int, str | None, bytes]:
        path = f"{self._parts.path.rstrip('/')}/chat/completions"
        connection.request("POST", path, body, dict(headers))
        response = connection.getresponse()
        answer = response.read(MAX_ANSWER + 1)
        if late.is_set():  # what was read may end anywhere
            raise TimeoutError
        if len(answer) > MAX_ANSWER:
            raise ChatError(f"the language model at {self.host} answers more than {MAX_ANSWER} bytes")
        return response.status, response.getheader("Retry-After"), answer

    def _connection(self) -> http.client.HTTPConnection:
        if self._parts.scheme == "https":
            return http.client.HTTPSConnection(
                self.host, self._parts.port, timeout=self._timeout, context=ssl.create_default_context()
            )
        return http.client.HTTPConnection(self.host, self._parts.port, timeout=self._timeout)


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


__all__ = ["KEYS", "MAX_ANSWER", "Chat", "ChatError", "Message", "Reply"]
