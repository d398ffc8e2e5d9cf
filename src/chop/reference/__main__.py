"""``python -m chop.reference FOLDER``: write the reference pages, and with ``--pictures`` the pictures."""

from __future__ import annotations

import argparse
from pathlib import Path

from chop.atomic import write_text
from chop.errors import ChopError
from chop.reference.pages import pages


def main() -> None:
    """Write what the arguments ask for."""
    arguments = argparse.ArgumentParser(prog="python -m chop.reference", description=__doc__)
    arguments.add_argument("folder", type=Path, help="where the pages go")
    arguments.add_argument("--pictures", action="store_true", help="draw the example traces too (a minute)")
    given = arguments.parse_args()
    for name, text in pages().items():
        write_text(given.folder / name, text, ChopError, overwrite=True)
    if given.pictures:
        from chop.reference.operators import PICTURES
        from chop.reference.pictures import write_pictures

        write_pictures(given.folder / PICTURES)


if __name__ == "__main__":
    main()
