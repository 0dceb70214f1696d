"""The command ``banditmips``: one module for each of its commands."""

from banditmips.cli._app import app, main

__all__ = ["app", "main"]
