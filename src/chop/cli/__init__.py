"""All commands, how they end and how they talk."""

from chop.cli.root import app, main

__all__ = ["app", "main"]
