"""The methods that a comparison knows, by name, with their parameters checked before any of them runs."""

from __future__ import annotations

import difflib
import importlib
import inspect
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from banditmips._index import BanditMIPS
from banditmips._result import SearchResult
from banditmips._search import search
from banditmips._validate import Options, reject_unknown
from banditmips.baselines import REGISTRY

__all__ = ["METHODS", "Method", "plan_methods"]

METHODS = ("banditmips", "banditmips_search", "banditmips_alpha", *REGISTRY)
"""A fitted `BanditMIPS`, `banditmips.search` without an index, the same with ``sampling="sorted"`` (the paper's
BanditMIPS-alpha), and the baselines."""


@dataclass(frozen=True)
class Method:
    """A method to run, with its parameters.

    Attributes
    ----------
    key
        One of `METHODS`, or ``module:Class`` for a class of your own with ``fit(atoms)`` and ``search(query, k)``,
        whose results have ``indices`` and ``n_multiplies`` like a `SearchResult`.
    parameters
        Arguments of the class; numbers, strings, booleans, None, or lists of them.
    """

    key: str
    parameters: Mapping[str, Any]

    def make(self) -> Any:
        """Return an object that can be fitted."""
        if ":" in self.key:
            module, _, name = self.key.partition(":")
            return getattr(importlib.import_module(module), name)(**self.parameters)
        if self.key == "banditmips":
            return BanditMIPS(**self.parameters)
        if self.key in METHODS[1:3]:
            chosen = {"sampling": "sorted"} if self.key == "banditmips_alpha" else {}
            return _Unfitted(**{**chosen, **self.parameters})
        known = inspect.signature(REGISTRY[self.key]).parameters
        for name in self.parameters:
            if name not in known:
                raise TypeError(f"there is no parameter {name!r}{_nearest(name, known)}")
        return REGISTRY[self.key](**self.parameters)


class _Unfitted:
    """`banditmips.search` in the shape of an index."""

    def __init__(self, **options: Any) -> None:
        reject_unknown(options, "search", ())
        Options(**options)
        self._options = options

    def fit(self, atoms: NDArray[Any]) -> None:
        self._atoms = atoms

    def search(self, query: NDArray[Any], k: int) -> SearchResult:
        return search(self._atoms, query, k, **self._options)


def plan_methods(
    keys: Iterable[str] | None = None, parameters: Mapping[str, Mapping[str, Any]] | None = None, seed: int = 0
) -> list[Method]:
    """Return the methods with their parameters, each once; raise for what can be seen to be wrong before any runs."""
    wanted = list(dict.fromkeys(METHODS if keys is None else [keys] if isinstance(keys, str) else keys))
    given = parameters or {}
    if not wanted:
        raise ValueError(f"methods must name at least one of {', '.join(METHODS)}")
    for key in wanted:
        if key not in METHODS and ":" not in key:
            raise ValueError(f"there is no method {key!r}{_nearest(key, [*METHODS, 'module:Class for your own'])}")
    for key in given:
        if key not in wanted:
            raise ValueError(f"parameters are given for {key!r}, which is not among the methods")
    return [_plan(key, given.get(key, {}), seed) for key in wanted]


def _plan(key: str, parameters: Mapping[str, Any], seed: int) -> Method:
    if ":" in key:
        method = Method(key, parameters)
    else:
        method = Method(key, {"seed": seed, **parameters})
        try:
            method.make()
        except (TypeError, ValueError) as error:
            raise type(error)(f"{key}: {error}") from error
    try:
        json.dumps(method.parameters, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise TypeError(
            f"{key}: parameters must be finite numbers, strings, lists, booleans or None: {error}"
        ) from None
    return method


def _nearest(word: str, known: Iterable[str]) -> str:
    known = list(known)
    near = difflib.get_close_matches(word, known, n=1)
    return f"; did you mean {near[0]!r}?" if near else f"; known are {', '.join(known)}"
