"""What the TAB key offers for the values of options and arguments."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

from banditmips.cli._names import DATASETS

__all__ = ["complete_atoms", "complete_list", "one_of"]


def one_of(names: Sequence[str]) -> Callable[[str], list[str]]:
    """Return what completes one of these names.

    Examples
    --------
    >>> one_of(["cosine", "neg_l1"])("c")
    ['cosine']
    """

    def complete(incomplete: str) -> list[str]:
        return [name for name in names if name.startswith(incomplete)]

    return complete


def complete_list(names: Sequence[str]) -> Callable[[str], list[str]]:
    """Return what completes the last of several names with commas between.

    Examples
    --------
    >>> complete_list(["greedy", "hnsw"])("greedy,h")
    ['greedy,hnsw']
    """

    def complete(incomplete: str) -> list[str]:
        before, comma, last = incomplete.rpartition(",")
        return [f"{before}{comma}{name}" for name in names if name.startswith(last)]

    return complete


def complete_atoms(incomplete: str) -> list[str]:
    """Offer the datasets that are called so, and then the files too; nothing leaves it to the shell to offer files."""
    datasets = [name for name in DATASETS if name.startswith(incomplete)] if incomplete else []
    if not datasets:
        return []
    # Datasets have no folders in their names, so these are files of the current folder.
    return [*datasets, *sorted(name for name in os.listdir() if name.startswith(incomplete))]
