"""``python -m chop.cli``."""

from chop.cli.root import main

if __name__ == "__main__":
    main()
