"""How a command ends: one sentence on standard error, and an exit code that a script can rely on.

===  =========================================================================================
0    done
1    a bug: the traceback is shown
2    something the caller can mend: the command, a file, the disk, a model, a program's text
3    done, but some questions could not be answered; which and why is said
129  the terminal was closed (SIGHUP)
130  Ctrl-C (SIGINT)
141  whoever read the output has gone (``| head``)
143  ended by a batch scheduler, ``timeout`` or ``kill`` (SIGTERM)
===  =========================================================================================
"""

from __future__ import annotations

import errno
import io
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import typer
from typer.core import TyperGroup

from chop.core.errors import ChopError, ParseError
from chop.storage.json_text import printable

DONE, MENDABLE, INCOMPLETE, STOPPED, CLOSED_PIPE = 0, 2, 3, 130, 141
ECHO = 5.0
"""Seconds in which further signals say what the first one said."""

# Typer brings a click of its own in some versions and uses the package in others.
_UsageError: type[Exception] = next(k for k in typer.BadParameter.__mro__ if k.__name__ == "UsageError")

_HINTS = {
    errno.ENOSPC: "make room and repeat the command",
    errno.EDQUOT: "make room and repeat the command",
    errno.EACCES: "choose a place that you may write to",
    errno.EPERM: "choose a place that you may write to",
    errno.EROFS: "choose a place that you may write to",
    errno.EISDIR: "name a file",
    errno.ENOTDIR: "check the folders of the path",
    errno.ENOENT: "check the path",
}


class Commands(TyperGroup):
    """Commands that say so when they are stopped; those that can go on say it in their own words."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            typer.echo("chop: stopped", err=True)
            raise typer.Exit(STOPPED) from None


def run_command(app: typer.Typer, arguments: Sequence[str] | None = None) -> int:
    """Run the command that the arguments (those of the process) name, and tell what a user can cause."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="surrogateescape")  # names of files are bytes, and printed as they are
    with _stop_signals() as heard:
        code = _run(app, arguments)
    # ``python -m`` ends itself by SIGINT if the last string it executed was interrupted, even if that was
    # handled (numba executes strings while it loads); executing another one makes it forget.
    exec("")
    return 128 + heard[0] if code == STOPPED and heard else code


@contextmanager
def _stop_signals() -> Iterator[list[int]]:
    """The polite signals end a command like Ctrl-C: what it has is kept, and its workers end with it.

    Gives those that came. What follows at once (a terminal that closes sends both) does not cut the way out
    short; a signal that is ignored (``nohup``) stays ignored.
    """
    heard: list[int] = []
    until = 0.0

    def stop(number: int, frame: Any) -> None:
        nonlocal until
        heard.append(number)
        if time.monotonic() >= until:
            until = time.monotonic() + ECHO
            raise KeyboardInterrupt

    polite = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    main = threading.current_thread() is threading.main_thread()
    ours = [number for number in polite if main and signal.getsignal(number) is signal.SIG_DFL]
    for number in ours:
        signal.signal(number, stop)
    try:
        yield heard
    finally:
        for number in ours:
            signal.signal(number, signal.SIG_DFL)


def _run(app: typer.Typer, arguments: Sequence[str] | None) -> int:
    try:
        code = app(arguments, prog_name="chop", standalone_mode=False)
        sys.stdout.flush()  # here, where a full disk or a closed pipe can still be told
    except ChopError as error:
        _say(str(error))
        if isinstance(error, ParseError):
            typer.echo(printable(error.pointer()), err=True)
        return MENDABLE
    except KeyboardInterrupt:
        _say("stopped")
        return STOPPED
    except BrokenPipeError:
        return _closed_pipe()
    except OSError as error:
        _forget_output()
        _say(_sentence(error))
        return MENDABLE
    except MemoryError:
        _say("the memory does not suffice; ask for less at a time")
        return MENDABLE
    except _UsageError as error:
        return _misused(error)
    except SystemExit as left:
        # That is how typer answers a closed pipe.
        return _closed_pipe() if isinstance(left.__context__, BrokenPipeError) else _code(left.code)
    return _code(code)


def _code(code: Any) -> int:
    return code if isinstance(code, int) else DONE if code is None else 1


def _say(sentence: str) -> None:
    # Whoever named a file, or an array in it, may have named it to command the terminal.
    typer.echo(f"chop: {printable(' '.join(sentence.split()))}", err=True)


def _sentence(error: OSError) -> str:
    reason = error.strerror or str(error)
    what = f"{error.filename}: {reason}" if error.filename is not None else reason
    hint = _HINTS.get(error.errno or 0)
    return f"{what}; {hint}" if hint else what


def _misused(error: Any) -> int:
    """A wrong command: what is wrong with it, and where to read what is right."""
    context = getattr(error, "ctx", None)
    path = context.command_path if context is not None else "chop"
    if type(error).__name__ == "NoArgsIsHelpError":  # its message is the help itself
        typer.echo(error.format_message(), err=True)
    else:
        sentence = " ".join(error.format_message().split())
        end = "" if sentence.endswith((".", "?")) else "."
        typer.echo(f"{path}: {printable(sentence)}{end} See {path} --help.", err=True)
    return MENDABLE


def _closed_pipe() -> int:
    _forget_output()
    return CLOSED_PIPE


def _forget_output() -> None:
    """What is still to be written has nowhere to go; Python would complain about it at the very end."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.close(nowhere)
