"""``python -m banditmips.cli``."""

from banditmips.cli import main

main()
