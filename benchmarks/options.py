"""Every option and dtype on one kind of atoms (NORMAL_CUSTOM): none may be behind, nor far behind the default."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.goals import Goals
from benchmarks.ours import Ours
from benchmarks.peers import FLAT
from benchmarks.searchers import Problem
from benchmarks.workloads import Asked, Make, Workload, changed, many_queries, to_int8

__all__ = ["NAME", "Size", "option_workloads"]

NAME = "options"
_BATCH = 64


@dataclass(frozen=True)
class Size:
    """Shape of the atoms, with shorter ones in a quick run."""

    n: int = 1_000
    d: int = 100_000
    quick_d: int = 20_000


FULL = Size()


def option_workloads(size: Size = FULL) -> tuple[Workload, ...]:
    """Return a workload for each objective and each dtype, and one for all other options."""
    plain = many_queries("normal_custom", size.n, size.d, quick_d=size.quick_d, least=_BATCH)
    return (
        Workload(f"{NAME}-plain", "NORMAL_CUSTOM", plain, _plain_ways(size)),
        *(_objective(objective, plain) for objective in ("cosine", "neg_sqeuclidean", "neg_l1")),
        *(_objective_without_index(objective, plain) for objective in ("cosine", "neg_sqeuclidean", "neg_l1")),
        _changed("int8", plain, to_int8),
        _changed("float16", plain, lambda atoms: atoms.astype(np.float16)),
        # FAISS would round such atoms.
        replace(_changed("float64", plain, lambda atoms: atoms.astype(np.float64)), peers=("blas",)),
        replace(
            _changed("Fortran order", plain, np.asfortranarray),
            every=(Asked(), Asked(10), Asked(10, _BATCH)),
            quick=(Asked(), Asked(10)),
        ),
    )


def _third(section: str = "plain") -> dict[str, Goals]:
    """A third of the default's speed-up at k = 1."""
    return {"k = 1": Goals(share_of=f"{NAME}-{section} | k = 1 | fitted")}


def _plain_ways(size: Size) -> tuple[Ours, ...]:
    # In a quick run a thousandth for each coordinate, as the paper allows, and a tenth of all products.
    epsilon, budget = 0.001 * size.quick_d, size.n * size.quick_d // 10
    more: tuple[tuple[str, dict[str, Any]], ...] = (
        ("epsilon", {"epsilon": epsilon}),
        ("budget", {"budget": budget}),
        ("trace", {"trace": True}),
        ("rescore=False", {"rescore": False}),
        ("bernstein", {"bound": "bernstein"}),
        ("hoeffding", {"bound": "hoeffding"}),
        ("hoeffding_serfling", {"bound": "hoeffding_serfling"}),
        ("paired", {"bound": "paired"}),
    )
    return (
        Ours("fitted", True, {"": Goals(150, p95=0.5)}),
        Ours("no fit", False),
        *(Ours(f"fitted, {label}", True, _third(), options) for label, options in more),
        Ours("fitted, after add", True, _third(), added=True),
    )


def _objective(objective: str, make: Make) -> Workload:
    return Workload(
        f"{NAME}-{objective}",
        f"NORMAL_CUSTOM, {objective}",
        make,
        (Ours("fitted", True, _third()),),
        problem=Problem(objective),
    )


def _objective_without_index(objective: str, make: Make) -> Workload:
    """Nobody knows the norms: the reference has to compute them too, and FAISS, which would keep them, is left out."""
    return Workload(
        f"{NAME}-{objective}-bare",
        f"NORMAL_CUSTOM, {objective}, norms unknown",
        make,
        (Ours("no fit", False),),
        peers=("blas",) if objective == "cosine" else FLAT,
        problem=Problem(objective, norms_known=False),
    )


def _changed(title: str, make: Make, change: Callable[[NDArray[Any]], NDArray[Any]]) -> Workload:
    """The same atoms in another dtype or order."""
    ours = (Ours("fitted", True, _third()), Ours("no fit", False))
    name = f"{NAME}-{title.replace(' ', '-').lower()}"
    return Workload(name, f"NORMAL_CUSTOM, {title}", changed(make, change), ours)
