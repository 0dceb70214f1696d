"""The command ``banditmips``: one module for each of its commands."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from banditmips.cli._app import app

__all__ = ["app", "main"]


def main() -> None:
    """Run the command line, and exit with 0, or 2 for a user's mistake, 1 for a failure, 130 for Ctrl-C."""
    try:
        # Here, because it takes most of a second, in which somebody may have thought better of it; and Typer then takes
        # a while to put the commands together, before any of them could listen.
        from banditmips.cli._app import app

        app(prog_name="banditmips")
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(130)


def __getattr__(name: str) -> Any:
    """Import the commands when they are asked for."""
    if name == "app":
        from banditmips.cli._app import app

        return app
    raise AttributeError(f"module 'banditmips.cli' has no attribute {name!r}")
