"""``python -m banditmips`` is the command ``banditmips``."""

from banditmips.cli import main

if __name__ == "__main__":
    main()
