"""The paper's station data, downloaded: checked, and continued where a transfer broke off.

A file grows under its name with ``.part`` at the end and gets its own name only when its MD5 is right.
"""

from __future__ import annotations

import hashlib
import http.client
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path

from chop.core.errors import DataError
from chop.storage.atomic import rename_durably

ZENODO = "https://zenodo.org/records/15614907/files"
KNOWAIR = {
    "dataset_bthsa.nc": "7c738d99246683c2711ac48f3a737aa9",
    "stations_bthsa.csv": "a7fd2302a5b21276276e78c9355af764",
    "dataset_yrd.nc": "7c7dcef8b5070cbff3ec9abc198a0fb9",
    "stations_yrd.csv": "1a23d70eb49fd0a350d475518089d45e",
}
"""KnowAir-V2 (CC BY 4.0): name to MD5."""

_PIECE = 1 << 20
_LATER = (408, 425, 429, 500, 502, 503, 504)  # answers that may be better next time

DownloadProgress = Callable[[str, int, int | None], None]
"""Hears a file's name, the bytes that are there, and how many there will be (None if nobody says)."""


class _Retry(Exception):  # noqa: N818 - nobody's error yet: a reason to try again
    pass


def fetch(
    folder: str | Path,
    base_url: str = ZENODO,
    files: Mapping[str, str] = KNOWAIR,
    *,
    tries: int = 5,
    pause: float = 1.0,
    timeout: float = 60.0,
    progress: DownloadProgress = lambda name, have, total: None,
) -> list[Path]:
    """Download ``files`` (name to MD5) into a folder; what is there and right is left as it is.

    A transfer that breaks is continued up to ``tries`` times, with a pause that doubles; if it cannot
    be finished, what has arrived stays and the same call goes on from there.
    """
    folder = Path(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DataError(f"cannot make the folder {folder}: {error.strerror}") from None
    return [
        _one(folder / name, f"{base_url}/{name}?download=1", md5, tries, pause, timeout, progress)
        for name, md5 in files.items()
    ]


def _one(
    target: Path, url: str, md5: str, tries: int, pause: float, timeout: float, progress: DownloadProgress
) -> Path:
    if target.exists():
        if _md5(target) == md5:
            return target
        raise DataError(f"{target} exists but is not the file of the record; move it away first")
    part = target.with_name(target.name + ".part")
    reason = ""
    for attempt in range(max(1, tries)):
        if attempt:
            time.sleep(pause * 2 ** (attempt - 1))
        try:
            _transfer(url, part, timeout, progress)
        except _Retry as retry:
            reason = str(retry)
            continue
        if _md5(part) == md5:
            rename_durably(part, target)
            return target
        part.unlink()  # whole but wrong: nothing in it can be trusted
        reason = "the checksum of what arrived is wrong"
    kept = f"; {part.stat().st_size} bytes are kept, and the same command continues" if part.exists() else ""
    raise DataError(
        f"could not download {target.name} from {url.partition('?')[0]} in {max(1, tries)} tries: {reason} "
        f"(is there a network?){kept}"
    )


def _transfer(url: str, part: Path, timeout: float, progress: DownloadProgress) -> None:
    """Bring a partial file to its full length, or say why to try again."""
    have = part.stat().st_size if part.exists() else 0
    request = urllib.request.Request(url, headers={"Range": f"bytes={have}-"} if have else {})
    try:
        with urllib.request.urlopen(request, timeout=timeout) as answer:
            # A server that does not know ranges, or answers with another one, sends 200 or a wrong start.
            if answer.status == 206 and not _continues(answer.headers.get("Content-Range", ""), have):
                part.unlink()
                raise _Retry("the server continued at another place")
            if answer.status != 206:
                have = 0
            _receive(answer, part, have, progress)
    except urllib.error.HTTPError as error:
        _refused(error, part, url)
    except (OSError, http.client.HTTPException) as error:
        raise _Retry(_why(error)) from None


def _receive(answer: http.client.HTTPResponse, part: Path, have: int, progress: DownloadProgress) -> None:
    length = answer.headers.get("Content-Length")
    total = have + int(length) if length is not None and length.isdigit() else None
    name = part.name.removesuffix(".part")
    _store(part, b"", append=have > 0)
    progress(name, have, total)
    while piece := answer.read(_PIECE):
        _store(part, piece)
        have += len(piece)
        progress(name, have, total)
    if total is not None and have < total:
        raise _Retry(f"the transfer broke off after {have} of {total} bytes")


def _store(part: Path, piece: bytes, append: bool = True) -> None:
    """Our own disk's errors are not the network's: no use in trying again."""
    try:
        with part.open("ab" if append else "wb") as file:
            file.write(piece)
    except OSError as error:
        raise DataError(f"cannot write {part}: {error.strerror}") from None


def _refused(error: urllib.error.HTTPError, part: Path, url: str) -> None:
    """What an answer other than success means; returns where the partial file is already whole."""
    with error:
        if error.code == 416:  # nothing lies beyond what we have: whole, or too long; the checksum decides
            return
        if error.code in _LATER:
            raise _Retry(f"the server answered {error.code} {error.reason}") from None
        raise DataError(f"{url.partition('?')[0]}: the server answered {error.code} {error.reason}") from None


def _continues(content_range: str, start: int) -> bool:
    """Whether ``bytes 100-199/200`` begins at a place."""
    return content_range.replace("bytes", "").strip().partition("-")[0] == str(start)


def _why(error: Exception) -> str:
    reason = error.reason if isinstance(error, urllib.error.URLError) else error
    return f"{type(reason).__name__}: {reason}" if isinstance(reason, Exception) else str(reason)


def _md5(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()


__all__ = ["KNOWAIR", "ZENODO", "fetch"]
