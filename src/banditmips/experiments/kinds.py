"""Data that hide things: a handful of kinds on which a sample of coordinates may well see nothing of what decides.

Each is drawn from a seed, small, and as a person might have it: embeddings, documents, load curves, genotypes.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

__all__ = ["KINDS", "UNEVEN_COLUMNS", "draw_kind"]

_Floats = NDArray[np.float64]
_Maker = Callable[[np.random.Generator, int, int], tuple[_Floats, _Floats]]
_STREAM = 0x6B696E64  # sets these draws apart from others with the same seed


def _outlier_dimensions(rng: np.random.Generator, n: int, d: int) -> tuple[_Floats, _Floats]:
    """Embeddings in which three coordinates are a hundred times as large as the others."""
    scales = np.ones(d)
    scales[rng.choice(d, min(3, d), replace=False)] = 100.0
    return rng.normal(size=(n, d)) * scales, rng.normal(size=d) * scales


def _word_counts(rng: np.random.Generator, n: int, d: int) -> tuple[_Floats, _Floats]:
    """Documents as counts of words whose frequencies follow Zipf's law."""
    frequencies = 1.0 / np.arange(1, d + 1)
    rates = rng.permutation(frequencies / frequencies.sum()) * 200.0
    counts = rng.poisson(rates * rng.gamma(0.5, 2.0, size=(n + 1, d))).astype(np.float64)
    return counts[1:], counts[0]


def _near_duplicates(rng: np.random.Generator, n: int, d: int) -> tuple[_Floats, _Floats]:
    """Atoms that differ from one another in ten entries each."""
    atoms = np.tile(rng.normal(size=d), (n, 1))
    for atom in atoms:
        atom[rng.choice(d, min(10, d), replace=False)] += 5.0 * rng.normal(size=min(10, d))
    return atoms, rng.normal(size=d)


def _spikes(rng: np.random.Generator, n: int, d: int) -> tuple[_Floats, _Floats]:
    """Noise with one large entry in each atom."""
    atoms = rng.normal(size=(n, d))
    atoms[np.arange(n), rng.integers(d, size=n)] += rng.uniform(1.0, 20.0, size=n) * np.sqrt(d)
    return atoms, rng.normal(size=d)


def _heavy_tails(rng: np.random.Generator, n: int, d: int) -> tuple[_Floats, _Floats]:
    """Entries of either sign whose sizes follow Pareto's law with an exponent of 1.5."""
    values = rng.pareto(1.5, size=(n + 1, d)) * rng.choice([-1.0, 1.0], size=(n + 1, d))
    return values[1:], values[0]


def _mixed_scales(rng: np.random.Generator, n: int, d: int) -> tuple[_Floats, _Floats]:
    """Atoms whose norms spread over four decades."""
    norms = 10.0 ** rng.uniform(-2.0, 2.0, size=(n, 1))
    return rng.normal(size=(n, d)) * norms, rng.normal(size=d)


def _genotypes(rng: np.random.Generator, n: int, d: int) -> tuple[_Floats, _Floats]:
    """Counts of rare alleles, standardised; the query is the child of two atoms."""
    frequencies = rng.beta(0.3, 2.0, size=d).clip(0.005, 0.5)
    counts = rng.binomial(2, frequencies, size=(n, d)).astype(np.float64)
    child = rng.binomial(1, counts[0] / 2) + rng.binomial(1, counts[1 % n] / 2)
    spread = np.sqrt(2 * frequencies * (1 - frequencies))
    return (counts - 2 * frequencies) / spread, (child - 2 * frequencies) / spread


def _load_curves(rng: np.random.Generator, n: int, d: int) -> tuple[_Floats, _Floats]:
    """Daily curves with a base load, and a few short peaks that decide."""
    hours = np.arange(d) * (2 * np.pi / 96)
    curves = 1.0 + 0.3 * np.sin(hours + rng.uniform(0, 0.2, size=(n + 1, 1))) + 0.02 * rng.normal(size=(n + 1, d))
    for curve in curves:
        curve[rng.choice(d, min(5, d), replace=False)] += rng.uniform(5.0, 30.0, size=min(5, d))
    return curves[1:], curves[0]


def _uneven_columns(rng: np.random.Generator, n: int, d: int) -> tuple[_Floats, _Floats]:
    """Atoms whose columns have norms over several decades, which the query does not show."""
    scales = rng.lognormal(0.0, 1.5, size=d)
    return (0.3 * rng.normal(size=(n, 1)) + rng.normal(size=(n, d))) * scales, 1.0 + 0.3 * rng.normal(size=d)


UNEVEN_COLUMNS = "uneven columns"
KINDS: dict[str, _Maker] = {
    "outlier dimensions": _outlier_dimensions,
    "word counts": _word_counts,
    "near-duplicates": _near_duplicates,
    "spikes": _spikes,
    "heavy tails": _heavy_tails,
    "mixed scales": _mixed_scales,
    "genotypes": _genotypes,
    "load curves": _load_curves,
    UNEVEN_COLUMNS: _uneven_columns,
}
"""What makes atoms and one query of each kind."""


def draw_kind(kind: str, n: int, d: int, n_queries: int, seed: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return atoms and queries; these kinds have one query for each set of atoms.

    Examples
    --------
    >>> atoms, queries = draw_kind("spikes", 5, 100, 1, seed=0)
    >>> atoms.shape, queries.shape, atoms.dtype
    ((5, 100), (1, 100), dtype('float32'))
    """
    if n_queries != 1:
        raise ValueError(f"n_queries must be 1 for {kind!r}, got {n_queries}")
    atoms, query = KINDS[kind](np.random.default_rng([_STREAM, seed]), n, d)
    return atoms.astype(np.float32), query[np.newaxis].astype(np.float32)
