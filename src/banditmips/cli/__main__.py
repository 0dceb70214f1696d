"""``python -m banditmips.cli``."""

from banditmips.cli import main

if __name__ == "__main__":  # processes that a command starts import this module under another name
    main()
