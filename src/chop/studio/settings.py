"""How a studio was started."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Settings:
    """Where it listens, what it may read, and who may use it."""

    port: int
    token: str
    """Whoever knows it may use the page."""
    work: Path
    """For uploads, searches and the invented world."""
    host: str = "127.0.0.1"
    data: Path | None = None
    """A folder with station data."""
    models: tuple[str, ...] = ()
    """Frozen models of one's own, beside the bundled ones."""
    upload_bytes: int = 64 * 2**20

    @property
    def address(self) -> str:
        """Where the page is, without the token."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}"
