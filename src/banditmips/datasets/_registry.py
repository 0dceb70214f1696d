"""Names of the datasets, and `load`, which imports a family only when one of its names is asked for."""

from __future__ import annotations

import difflib
import importlib
import inspect
from collections.abc import Callable, Iterable
from typing import Any

from banditmips.datasets._dataset import Dataset

__all__ = ["load", "names"]

# name -> module of this package; the module's function of the same name is the loader.
_FAMILIES = {
    "normal_custom": "synthetic",
    "correlated_normal_custom": "synthetic",
    "symmetric_normal": "synthetic",
    "heavy_tailed": "synthetic",
    "sparse": "synthetic",
    "needle": "synthetic",
    "simple_song": "simple_song",
    "ratings": "ratings",
    "pixels": "pixels",
    "movielens_100k": "movielens",
    "movielens_1m": "movielens",
    "netflix": "netflix",
    "sift_1m": "vectors",
    "crypto_pairs": "crypto",
}


def names() -> list[str]:
    """Return the names that `load` knows, sorted.

    Examples
    --------
    >>> from banditmips import datasets
    >>> "normal_custom" in datasets.names()
    True
    """
    return sorted(_FAMILIES)


def load(name: str, **params: Any) -> Dataset:
    """Return a dataset by name: atoms, queries, and what is known about them.

    Parameters
    ----------
    name
        One of `names`.
    **params
        What the loader of that name takes, for instance ``n``, ``d``, ``n_queries`` and ``seed``; each
        loader's own documentation lists them. All have defaults, apart from the place of files that must be
        fetched first.

    Returns
    -------
    Dataset

    Raises
    ------
    ValueError
        If the name is not known; the message suggests the nearest.
    TypeError
        If the dataset has no such parameter; the message suggests the nearest.

    Examples
    --------
    >>> from banditmips import datasets
    >>> ds = datasets.load("normal_custom", n=20, d=500, n_queries=3, seed=7)
    >>> ds.atoms.shape, ds.queries.shape, ds.atoms.dtype
    ((20, 500), (3, 500), dtype('float32'))
    """
    if name not in _FAMILIES:
        raise ValueError(f"unknown dataset {name!r}{_nearest(name, _FAMILIES)}")
    module = importlib.import_module(f"banditmips.datasets.{_FAMILIES[name]}")
    loader: Callable[..., Dataset] = getattr(module, name)
    known = inspect.signature(loader).parameters
    for given in params:
        if given not in known:
            raise TypeError(f"dataset {name!r} has no parameter {given!r}{_nearest(given, known)}")
    return loader(**params)


def _nearest(word: str, known: Iterable[str]) -> str:
    """Return the end of a sentence that suggests the nearest known word, or lists all of them."""
    known = sorted(known)
    close = difflib.get_close_matches(str(word).lower(), known, n=1)
    return f": did you mean {close[0]!r}?" if close else f"; known are {', '.join(known)}"
