"""``python -m generator FOLDER``: write the reference pages, and with ``--pictures`` the pictures."""

from __future__ import annotations

import argparse
from pathlib import Path

from chop.cli import app
from chop.core.errors import ChopError
from chop.operators import BUILT_IN
from chop.storage.atomic import write_text
from generator.commands import commands_page
from generator.examples import write_pictures
from generator.operators import PICTURES, operators_page


def pages() -> dict[str, str]:
    """Name and text of each page. Operators of other packages that happen to be installed are left out."""
    return {"operators.md": operators_page(BUILT_IN), "cli.md": commands_page(app)}


def main() -> None:
    """Write what the arguments ask for."""
    arguments = argparse.ArgumentParser(prog="python -m generator", description=__doc__)
    arguments.add_argument("folder", type=Path, help="where the pages go")
    arguments.add_argument("--pictures", action="store_true", help="draw the example traces too (a minute)")
    given = arguments.parse_args()
    for name, text in pages().items():
        write_text(given.folder / name, text, ChopError, overwrite=True)
    if given.pictures:
        write_pictures(given.folder / PICTURES)


if __name__ == "__main__":
    main()
