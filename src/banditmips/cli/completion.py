"""``banditmips completion``: the script by which a shell completes commands, options and names."""

from __future__ import annotations

import os
from pathlib import PurePath
from typing import Annotated

import typer

from banditmips.cli._completion import one_of

__all__ = ["completion"]

_SHELLS = ("bash", "zsh", "fish")


def completion(
    shell: Annotated[
        str | None,
        typer.Argument(
            metavar="bash|zsh|fish",
            help="Shell to complete in; by default the one that SHELL names.",
            autocompletion=one_of(_SHELLS),
            show_default=False,
        ),
    ] = None,
) -> None:
    """Print the script that completes commands, options and names with the TAB key.

    In bash: echo 'eval "$(banditmips completion bash)"' >> ~/.bashrc

    In zsh, after compinit: echo 'eval "$(banditmips completion zsh)"' >> ~/.zshrc

    In fish: banditmips completion fish > ~/.config/fish/completions/banditmips.fish
    """
    from typer.completion import get_completion_script  # type: ignore[attr-defined]  # Typer has no __all__

    chosen = PurePath(os.environ.get("SHELL", "")).name if shell is None else shell
    if chosen not in _SHELLS:
        raise ValueError(f"the shell must be one of {', '.join(_SHELLS)}, got {chosen!r}")
    print(get_completion_script(prog_name="banditmips", complete_var="_BANDITMIPS_COMPLETE", shell=chosen))
