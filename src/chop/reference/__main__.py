"""``python -m chop.reference FOLDER``: write the reference pages, and with ``--pictures`` the pictures."""

from __future__ import annotations

import argparse
from pathlib import Path

from chop.reference.pages import pages


def main() -> None:
    """Write what the arguments ask for."""
    arguments = argparse.ArgumentParser(prog="python -m chop.reference", description=__doc__)
    arguments.add_argument("folder", type=Path, help="where the pages go")
    arguments.add_argument("--pictures", action="store_true", help="draw the example traces too (a minute)")
    given = arguments.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    for name, text in pages().items():
        (given.folder / name).write_text(text, encoding="utf-8")
    if given.pictures:
        from chop.reference.operators import PICTURES
        from chop.reference.pictures import write_pictures

        write_pictures(given.folder / PICTURES)


if __name__ == "__main__":
    main()
