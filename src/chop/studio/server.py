"""The studio served: one process for the page, worker processes behind it, everything from this machine."""

from __future__ import annotations

import os
import secrets
import socket
import threading
import time
import warnings
from collections.abc import Callable
from dataclasses import replace

from chop.core.errors import ChopError
from chop.studio.settings import Settings

DEFAULT_PORT = 8765
TRIED = 20
"""Ports that are tried from the default on, where nobody says which."""


def new_token() -> str:
    """For each start another one."""
    return secrets.token_urlsafe(24)


def listening_socket(host: str, port: int | None) -> socket.socket:
    """A socket that listens; a free port from the default on where none is given."""
    wanted = range(DEFAULT_PORT, DEFAULT_PORT + TRIED) if port is None else [port]
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    problem: OSError | None = None
    for number in wanted:
        made = socket.socket(family, socket.SOCK_STREAM)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            made.bind((host, number))
            made.listen(128)
        except OSError as error:
            made.close()
            problem = error
            continue
        return made
    assert problem is not None
    where = f"{host}:{wanted[0]}" + (f" to {wanted[-1]}" if len(wanted) > 1 else "")
    raise ChopError(f"cannot listen at {where}: {problem.strerror}; choose another with --port")


def serve(settings: Settings, port: int | None, opened: Callable[[str], None]) -> None:
    """Serve until Ctrl-C; ``opened`` is called with the address, token and all, as soon as it listens."""
    # NiceGUI keeps what pages store in a folder that this names when it is imported; ours store nothing.
    os.environ.setdefault("NICEGUI_STORAGE_PATH", str(settings.work / "pages"))
    try:
        import nicegui  # noqa: F401
    except ImportError:
        raise ChopError("chop studio needs its extra: pip install 'chain-of-operators[studio]'") from None
    listening = listening_socket(settings.host, port)
    settings = replace(settings, port=listening.getsockname()[1])
    try:
        settings.work.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ChopError(f"cannot make the folder {settings.work}: {error.strerror}") from None
    with listening:
        _run(settings, listening, opened)


def _run(settings: Settings, listening: socket.socket, opened: Callable[[str], None]) -> None:
    import uvicorn
    from fastapi import FastAPI
    from nicegui import ui

    from chop.studio.guard import Guard
    from chop.studio.page import build_page

    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    build_page(settings)
    # It looks at every object of the process, and some of torch's complain about that.
    warnings.filterwarnings("ignore", category=FutureWarning, module="nicegui")
    ui.run_with(app, title="CHOP Studio", show_welcome_message=False, reconnect_timeout=30.0)
    config = uvicorn.Config(
        Guard(app, settings), log_level="warning", timeout_graceful_shutdown=1, ws="websockets-sansio",
    )  # fmt: skip
    server = uvicorn.Server(config)

    def tell() -> None:
        while not server.started:
            time.sleep(0.05)
        opened(f"{settings.address}/?token={settings.token}")

    threading.Thread(target=tell, daemon=True).start()
    server.run(sockets=[listening])
