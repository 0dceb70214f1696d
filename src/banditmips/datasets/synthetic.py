"""Vectors drawn from simple laws: the paper's NORMAL_CUSTOM and CORRELATED_NORMAL_CUSTOM, and harder ones.

All come in float32 unless ``dtype`` says float64, and are made row by row. For one seed, a larger ``n``,
``d`` or ``n_queries`` extends the smaller dataset (but the places of the non-zeros of `sparse` and of the
needle of `needle` are drawn anew).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from banditmips.datasets._dataset import Dataset
from banditmips.datasets._random import Role, check_counts, check_dtype, normal_rows, stream

__all__ = [
    "correlated_normal_custom",
    "heavy_tailed",
    "needle",
    "normal_custom",
    "sparse",
    "symmetric_normal",
]


def normal_custom(
    *,
    n: int = 100,
    d: int = 10_000,
    n_queries: int = 1,
    seed: int = 0,
    theta_seed: int | None = None,
    dtype: DTypeLike = "float32",
) -> Dataset:
    """Return NORMAL_CUSTOM: theta_i ~ N(0, 1) for each atom, its coordinates N(theta_i, 1); queries alike.

    Parameters
    ----------
    n, d, n_queries
        Numbers of atoms, coordinates and queries.
    seed
        Seed of the coordinates.
    theta_seed
        Seed of the thetas; ``seed`` by default. They never depend on d. With a fixed ``theta_seed`` and
        changing ``seed``, the gaps between the atoms stay the same up to sampling noise.
    dtype
        float32 or float64 (the values are drawn in float32).

    Examples
    --------
    >>> from banditmips.datasets import load
    >>> short = load("normal_custom", n=3, d=10, seed=1)
    >>> long = load("normal_custom", n=3, d=1000, seed=1)
    >>> bool((long.atoms[:, :10] == short.atoms).all())
    True
    """
    theta_seed = seed if theta_seed is None else theta_seed
    check_counts(n=n, d=d, n_queries=n_queries, seed=seed, theta_seed=theta_seed)
    dtype = check_dtype(dtype)
    return Dataset(
        name="normal_custom",
        atoms=normal_rows(_thetas(n, theta_seed, Role.ATOM_PARAMETERS), d, seed, Role.ATOM_ROWS, dtype),
        queries=normal_rows(_thetas(n_queries, theta_seed, Role.QUERY_PARAMETERS), d, seed, Role.QUERY_ROWS, dtype),
        description="Each atom and query has a mean theta ~ N(0, 1) and coordinates N(theta, 1).",
        params={
            "n": n,
            "d": d,
            "n_queries": n_queries,
            "seed": seed,
            "theta_seed": theta_seed,
            "dtype": dtype.name,
        },
    )


def correlated_normal_custom(
    *,
    n: int = 100,
    d: int = 10_000,
    n_queries: int = 1,
    seed: int = 0,
    theta_seed: int | None = None,
    dtype: DTypeLike = "float32",
) -> Dataset:
    """Return CORRELATED_NORMAL_CUSTOM: a query q, and atoms w_i * q plus N(0, 1) noise.

    theta ~ N(0, 1), the query's coordinates are N(theta, 1), and w_i ~ N(0, 1) for each atom. The atoms
    depend on the query, so there is one query.

    Parameters
    ----------
    n, d
        Numbers of atoms and coordinates.
    n_queries
        1; anything else is refused.
    seed
        Seed of the query's coordinates and of the noise.
    theta_seed
        Seed of theta and of all w_i; ``seed`` by default. They never depend on d.
    dtype
        float32 or float64 (the values are drawn in float32).

    Examples
    --------
    >>> from banditmips.datasets import load
    >>> load("correlated_normal_custom", n=5, d=100).queries.shape
    (1, 100)
    """
    theta_seed = seed if theta_seed is None else theta_seed
    check_counts(n=n, d=d, n_queries=n_queries, seed=seed, theta_seed=theta_seed)
    _refuse_several_queries("correlated_normal_custom", n_queries)
    dtype = check_dtype(dtype)
    weights = _thetas(n, theta_seed, Role.ATOM_PARAMETERS)
    theta = _thetas(1, theta_seed, Role.QUERY_PARAMETERS)
    queries = normal_rows(theta, d, seed, Role.QUERY_ROWS, dtype)
    atoms = normal_rows(np.zeros(n), d, seed, Role.ATOM_ROWS, dtype)
    for atom, weight in zip(atoms, weights, strict=True):
        atom += dtype.type(weight) * queries[0]
    return Dataset(
        name="correlated_normal_custom",
        atoms=atoms,
        queries=queries,
        description="A query with coordinates N(theta, 1); atoms are w_i times the query plus N(0, 1) noise.",
        params={
            "n": n,
            "d": d,
            "n_queries": n_queries,
            "seed": seed,
            "theta_seed": theta_seed,
            "dtype": dtype.name,
        },
    )


def symmetric_normal(
    *, n: int = 100, d: int = 10_000, n_queries: int = 1, seed: int = 0, dtype: DTypeLike = "float32"
) -> Dataset:
    """Return atoms and queries whose every entry is N(0, 1).

    The gaps between the atoms vanish as d grows, so that sampling coordinates cannot pay.

    Parameters
    ----------
    n, d, n_queries
        Numbers of atoms, coordinates and queries.
    seed
        Seed of all of them.
    dtype
        float32 or float64 (the values are drawn in float32).

    Examples
    --------
    >>> from banditmips.datasets import load
    >>> load("symmetric_normal", n=5, d=100, n_queries=2).queries.shape
    (2, 100)
    """
    check_counts(n=n, d=d, n_queries=n_queries, seed=seed)
    dtype = check_dtype(dtype)
    return Dataset(
        name="symmetric_normal",
        atoms=normal_rows(np.zeros(n), d, seed, Role.ATOM_ROWS, dtype),
        queries=normal_rows(np.zeros(n_queries), d, seed, Role.QUERY_ROWS, dtype),
        description="Every entry of every atom and query is N(0, 1).",
        params={"n": n, "d": d, "n_queries": n_queries, "seed": seed, "dtype": dtype.name},
    )


def heavy_tailed(
    *, n: int = 100, d: int = 10_000, n_queries: int = 1, seed: int = 0, dtype: DTypeLike = "float32"
) -> Dataset:
    """Return a query of Student-t(2) entries and atoms 0.3 * w_i * q plus Student-t(3) noise, w_i ~ N(0, 1).

    The query's variance is infinite: a few coordinates carry most of every inner product. The atoms depend on
    the query, so there is one query.

    Parameters
    ----------
    n, d
        Numbers of atoms and coordinates.
    n_queries
        1; anything else is refused.
    seed
        Seed of everything.
    dtype
        float32 or float64.

    Examples
    --------
    >>> from banditmips.datasets import load
    >>> load("heavy_tailed", n=5, d=100).atoms.shape
    (5, 100)
    """
    check_counts(n=n, d=d, n_queries=n_queries, seed=seed)
    _refuse_several_queries("heavy_tailed", n_queries)
    dtype = check_dtype(dtype)
    query = stream(seed, Role.QUERY_ROWS).standard_t(2, d)
    atoms = np.empty((n, d), dtype=dtype)
    for i, weight in enumerate(_thetas(n, seed, Role.ATOM_PARAMETERS)):
        atoms[i] = 0.3 * weight * query + stream(seed, Role.ATOM_ROWS, i).standard_t(3, d)
    return Dataset(
        name="heavy_tailed",
        atoms=atoms,
        queries=query[np.newaxis].astype(dtype),
        description="A Student-t(2) query; atoms are 0.3 w_i times the query plus Student-t(3) noise.",
        params={"n": n, "d": d, "n_queries": n_queries, "seed": seed, "dtype": dtype.name},
    )


def sparse(
    *,
    n: int = 100,
    d: int = 10_000,
    n_queries: int = 1,
    density: float = 0.05,
    seed: int = 0,
    theta_seed: int | None = None,
    dtype: DTypeLike = "float32",
) -> Dataset:
    """Return NORMAL_CUSTOM atoms with queries in which most entries are zero.

    The arrays themselves are dense.

    Parameters
    ----------
    n, d, n_queries
        Numbers of atoms, coordinates and queries.
    density
        Share of the entries of each query that are not zero, above 0 and at most 1: ``round(density * d)`` of
        them, and at least one, at places drawn for each query.
    seed, theta_seed, dtype
        As for `normal_custom`.

    Examples
    --------
    >>> from banditmips.datasets import load
    >>> ds = load("sparse", n=5, d=1000, n_queries=2, density=0.1)
    >>> (ds.queries != 0).sum(axis=1).tolist()
    [100, 100]
    """
    if not 0 < density <= 1:
        raise ValueError(f"density must be above 0 and at most 1, got {density!r}")
    base = normal_custom(n=n, d=d, n_queries=n_queries, seed=seed, theta_seed=theta_seed, dtype=dtype)
    n_zeros = d - max(1, round(density * d))
    for i, query in enumerate(base.queries):
        query[stream(seed, Role.CHOICE, i).permutation(d)[:n_zeros]] = 0
    return Dataset(
        name="sparse",
        atoms=base.atoms,
        queries=base.queries,
        description=f"NORMAL_CUSTOM atoms; a share of {density:g} of each query's entries is not zero.",
        params={**base.params, "density": density},
    )


def needle(
    *, n: int = 100, d: int = 10_000, n_queries: int = 1, seed: int = 0, dtype: DTypeLike = "float32"
) -> Dataset:
    """Return NORMAL_CUSTOM with one entry so large that its atom wins every query by it alone.

    Whoever has not looked at that one coordinate cannot know the answer. ``params`` of the dataset also holds
    the needle's ``atom``, ``coordinate`` and ``value``; without it, that atom would win none of the queries.
    The queries' entries at that coordinate are made positive and at least 0.5, so that one needle serves all.

    Parameters
    ----------
    n, d, n_queries
        Numbers of atoms (at least one more than win without the needle), coordinates and queries.
    seed
        Seed of everything.
    dtype
        float32 or float64.

    Examples
    --------
    >>> from banditmips.datasets import load
    >>> ds = load("needle", n=20, d=1000, n_queries=4)
    >>> (ds.queries @ ds.atoms.T).argmax(axis=1).tolist() == [ds.params["atom"]] * 4
    True
    """
    base = normal_custom(n=n, d=d, n_queries=n_queries, seed=seed, dtype=dtype)
    choice = stream(seed, Role.CHOICE)
    coordinate = int(choice.integers(d))
    base.queries[:, coordinate] = np.maximum(np.abs(base.queries[:, coordinate]), 0.5)
    scores = base.queries @ base.atoms.T
    losers = np.setdiff1d(np.arange(n), scores.argmax(axis=1))
    if len(losers) == 0:
        raise ValueError(f"n must be more than the number of atoms that win a query, got n = {n}")
    atom = int(choice.choice(losers))
    # The margin, a tenth of the scores' spread, is clear of float32 rounding at any d.
    goal = scores.max(axis=1) + 0.1 * np.ptp(scores, axis=1)
    base.atoms[atom, coordinate] += ((goal - scores[:, atom]) / base.queries[:, coordinate]).max()
    value = float(base.atoms[atom, coordinate])
    known = {key: base.params[key] for key in ("n", "d", "n_queries", "seed", "dtype")}
    return Dataset(
        name="needle",
        atoms=base.atoms,
        queries=base.queries,
        description=f"NORMAL_CUSTOM; atom {atom} wins by its entry {value:g} at coordinate {coordinate}.",
        params={**known, "atom": atom, "coordinate": coordinate, "value": value},
    )


def _thetas(count: int, theta_seed: int, role: Role) -> NDArray[Any]:
    return stream(theta_seed, role).standard_normal(count)


def _refuse_several_queries(name: str, n_queries: int) -> None:
    if n_queries != 1:
        raise ValueError(
            f"n_queries must be 1 for {name}, whose atoms depend on the query; got {n_queries}"
            " (draw several datasets with different seeds instead)"
        )
