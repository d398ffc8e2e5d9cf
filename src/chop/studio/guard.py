"""Who may come in: right host, right token, own origin, bodies of bounded size. Before everything else.

A page on 127.0.0.1 can be reached by every page that the same browser has open. So the first address
carries a token, which becomes a cookie that other sites cannot send; requests that change something, and the
websocket, must come from the page itself; and a name that somebody points at 127.0.0.1 is no name of ours.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from html import escape
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode

from chop.studio.settings import Settings

Scope = dict[str, Any]
Receive = Any
Send = Any
Headers = list[tuple[bytes, bytes]]

LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
OPEN_IT = "open the address that chop studio printed in the terminal; it ends in ?token=..."
SAFE: Headers = [
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
]
"""On every answer."""


class Guard:
    """An ASGI application around another one."""

    def __init__(self, inner: Any, settings: Settings) -> None:
        self._inner = inner
        self._token = settings.token
        self._limit = settings.upload_bytes + 2**20  # a form has words around its file
        self._cookie = f"chop_studio_{settings.port}"
        names = {*LOOPBACK, f"[{settings.host}]" if ":" in settings.host else settings.host}
        self._hosts = {f"{name}:{settings.port}" for name in names}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._inner(scope, receive, send)
            return
        headers = {name.lower(): value.decode("latin-1") for name, value in scope["headers"]}
        refusal = self._refusal(scope, headers)
        if refusal is not None:
            await _refuse(scope, send, *refusal)
        elif scope["type"] == "http" and (there := self._without_token(scope)) is not None:
            await self._let_in(send, there)
        elif scope["type"] == "http":
            await self._answer(scope, receive, send)
        else:
            await self._inner(scope, receive, send)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The page's own answer, unless the body goes on after the limit."""
        body = _Counted(receive, self._limit)

        async def answering(message: Any) -> None:
            if body.exceeded:
                return  # whoever read it says that something broke; what did is told below
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message.get("headers", []), *SAFE]}
            await send(message)

        try:
            await self._inner(scope, body, answering)
        except Exception:
            if not body.exceeded:
                raise
        if body.exceeded:
            await _refuse(scope, send, *self._too_large())

    def _too_large(self) -> tuple[int, str]:
        return 413, f"that is more than the {self._limit // 2**20} MB that the studio takes: use a path"

    def _refusal(self, scope: Scope, headers: dict[bytes, str]) -> tuple[int, str] | None:
        """Why somebody may not come in: a status and a sentence."""
        if headers.get(b"host", "") not in self._hosts:
            return 403, f"this is not a name of the studio; {OPEN_IT}"
        origin = headers.get(b"origin")
        changes = scope["type"] == "websocket" or scope["method"] not in ("GET", "HEAD")
        if changes and origin is not None and origin.removeprefix("http://") not in self._hosts:
            return 403, "another page may not use the studio"
        if scope["type"] == "websocket" and origin is None:
            return 403, "only the studio's own page may talk to it"
        if not self._is_known(scope, headers):
            return 401, f"the token is missing or wrong; {OPEN_IT}"
        if int_of(headers.get(b"content-length")) > self._limit:
            return (
                413,
                f"that is more than the {self._limit // 2**20} MB that the studio takes: use a path instead",
            )
        return None

    def _is_known(self, scope: Scope, headers: dict[bytes, str]) -> bool:
        given = [value for name, value in _query(scope) if name == "token"]
        try:
            kept = SimpleCookie(headers.get(b"cookie", "")).get(self._cookie)
        except CookieError:
            kept = None
        given += [kept.value] if kept is not None else []
        return any(secrets.compare_digest(one.encode(), self._token.encode()) for one in given)

    def _without_token(self, scope: Scope) -> str | None:
        """Where to go on, if the address carries the token: it should not stay in the history."""
        query = _query(scope)
        if not any(name == "token" for name, _ in query):
            return None
        rest = urlencode([(name, value) for name, value in query if name != "token"])
        # One slash only, and quoted: two, or a backslash, would lead to another host.
        path = "/" + quote(scope["path"].lstrip("/"))
        return path + (f"?{rest}" if rest else "")

    async def _let_in(self, send: Send, there: str) -> None:
        # Lax, so that a link to the page works wherever it was kept; it is never sent with anything else.
        cookie = f"{self._cookie}={self._token}; Path=/; HttpOnly; SameSite=Lax"
        headers = [(b"location", there.encode("latin-1", "replace")), (b"set-cookie", cookie.encode())]
        await _answer(send, 303, headers, b"")


def _query(scope: Scope) -> list[tuple[str, str]]:
    return parse_qsl(scope.get("query_string", b"").decode("latin-1"), keep_blank_values=True)


def int_of(text: str | None) -> int:
    """The number of a header; 0 where there is none."""
    return int(text) if text is not None and text.isdecimal() and len(text) < 20 else 0


class _Counted:
    """A request's body, of which no more than the limit is ever read."""

    def __init__(self, receive: Receive, limit: int) -> None:
        self._receive, self._left = receive, limit

    @property
    def exceeded(self) -> bool:
        """Whether there was more than that."""
        return self._left < 0

    async def __call__(self) -> Any:
        message = await self._receive()
        if message["type"] == "http.request":
            self._left -= len(message.get("body", b""))
            if self.exceeded:
                return {"type": "http.disconnect"}  # for who reads it, the sender is gone
        return message


async def _refuse(scope: Scope, send: Send, status: int, sentence: str) -> None:
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": 1008, "reason": sentence[:120]})
        return
    page = (
        '<!DOCTYPE html><html lang="en"><meta charset="utf-8"><title>CHOP Studio</title>'
        '<meta name="color-scheme" content="light dark"><body style="font: 16px system-ui; margin: 3em">'
        f"<h1>CHOP Studio</h1><p>{escape(sentence)}</p></body></html>"
    )
    await _answer(send, status, [(b"content-type", b"text/html; charset=utf-8"), *SAFE], page.encode())


async def _answer(send: Send, status: int, headers: Iterable[tuple[bytes, bytes]], body: bytes) -> None:
    length = (b"content-length", str(len(body)).encode())
    await send({"type": "http.response.start", "status": status, "headers": [*headers, length]})
    await send({"type": "http.response.body", "body": body})
