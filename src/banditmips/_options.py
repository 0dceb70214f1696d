"""The options by name: which values type checkers know for each, and what to say to a name that is not among them."""

from __future__ import annotations

import difflib
import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Literal, ParamSpec, TypedDict, TypeVar

__all__ = [
    "BoundName",
    "CallOptions",
    "ClusterOptions",
    "Ends",
    "GroupSize",
    "Layout",
    "Minimise",
    "MissingChunks",
    "Objective",
    "PursuitMethod",
    "PursuitSampling",
    "Sampling",
    "SharedOptions",
    "Sigma",
    "check_names",
    "our_name",
    "suggests_names",
]

Objective = Literal["inner_product", "cosine", "correlation", "neg_sqeuclidean", "neg_l1"]
Sampling = Literal["auto", "weighted", "optimal", "uniform", "sorted"]
BoundName = Literal["auto", "codes", "paired", "hoeffding", "hoeffding_serfling", "bernstein"]
Ends = Literal["largest", "smallest", "both"]
Minimise = Literal["time", "multiplies"]
Layout = Literal["auto", "codes", "coordinates", "full", "none"]
Sigma = float | Literal["estimate"] | None

PursuitMethod = Literal["mp", "omp"]
PursuitSampling = Literal["auto", "uniform", "weighted"]
GroupSize = Literal[1, 2]

MissingChunks = Literal["error", "fill_value"]


class SharedOptions(TypedDict, total=False):
    """Options of `banditmips.search` that can be changed in any call, wherever the atoms are."""

    delta: float
    epsilon: float
    objective: Objective
    sampling: Sampling
    beta: float
    bound: BoundName
    sigma: Sigma
    value_range: tuple[float, float] | None
    replacement: bool
    absolute: bool
    ends: Ends
    minimise: Minimise
    budget: int | None
    rescore: bool
    progress: bool


class CallOptions(SharedOptions, total=False):
    """Options that a call of `BanditMIPS.search` can change."""

    n_jobs: int | None
    trace: bool


class ClusterOptions(SharedOptions, total=False):
    """Options of a `DistributedMIPS`."""

    seed: int | None


_OTHER_NAMES = {
    "k": ("n_neighbors", "n_neighbours", "top_k", "topk", "n_results", "limit"),
    "objective": ("metric", "distance", "similarity", "space"),
    "seed": ("random_state", "rng", "random_seed"),
    "n_jobs": ("n_threads", "num_threads", "threads", "workers", "num_workers"),
    "delta": ("failure_probability", "confidence", "alpha", "error_rate"),
    "epsilon": ("eps", "tolerance"),
    "ends": ("smallest", "largest", "bottom_k", "reverse", "descending"),
    "mask": ("filter", "exclude", "excluded"),
    "progress": ("verbose", "show_progress", "progress_bar"),
    "budget": ("max_multiplies", "n_multiplies"),
    "queries": ("query", "q"),
    "atoms": ("data", "X", "x", "vectors", "dictionary"),
    "signal": ("y",),
    "n_nonzero": ("n_nonzero_coefs", "n_components", "max_iter"),
    "n_nonzero_coefs": ("n_nonzero", "n_components", "max_iter"),
    "validate": ("check_finite", "check_input"),
    "max_extra_memory": ("max_memory", "memory_limit"),
}
"""What other libraries call our arguments."""


def our_name(name: str, known: Iterable[str]) -> str | None:
    """The one of the known names that other libraries call `name`."""
    return next((ours for ours in known if name in _OTHER_NAMES.get(ours, ())), None)


def check_names(names: Iterable[str], where: str, known: Iterable[str], elsewhere: Mapping[str, str]) -> None:
    """Raise for the first name that `where` does not know, and say what it is called or where it belongs.

    `elsewhere` holds names that belong to another call, each with what to do about it.
    """
    known = sorted(known)
    for name in names:
        if name in known:
            continue
        ours = our_name(name, known)
        if ours is not None:
            raise TypeError(f"{where} has no option {name!r}; it is called {ours!r} here")
        foreign = name if name in elsewhere else our_name(name, elsewhere)
        if foreign is not None:
            renamed = "" if foreign == name else f"it is called {foreign!r} here, and "
            raise TypeError(f"{where} has no option {name!r}: {renamed}{elsewhere[foreign]}")
        near = difflib.get_close_matches(name, known, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else f"; the options are {', '.join(known)}"
        raise TypeError(f"{where} has no option {name!r}{hint}")


_P = ParamSpec("_P")
_R = TypeVar("_R")


def suggests_names(where: str, elsewhere: Mapping[str, str]) -> Callable[[Callable[_P, _R]], Callable[_P, _R]]:
    """Make a function answer an unknown keyword with the one that was probably meant.

    Type checkers and `inspect.signature` see the function's own signature.
    """

    def decorate(function: Callable[_P, _R]) -> Callable[_P, _R]:
        known = frozenset(inspect.signature(function).parameters) - {"self"}

        @functools.wraps(function)
        def checked(*args: _P.args, **kwargs: _P.kwargs) -> _R:
            if not known.issuperset(kwargs):
                check_names(kwargs, where, known, elsewhere)
            return function(*args, **kwargs)

        return checked

    return decorate
