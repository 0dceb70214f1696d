"""Kinds of signals and of plain numbers: pictures, sounds, series, heavy tails, odd queries."""

from __future__ import annotations

from typing import Any

import numpy as np
from kind_registry import N_QUERIES, factors, kind, split
from numpy.typing import NDArray

Array = NDArray[Any]

# --- pictures, sounds, spectra ----------------------------------------------------------------------------------------


def _blobs(rng: np.random.Generator, n_rows: int, d: int, n_blobs: int, spread: float) -> Array:
    """Bright spots near the middle of square pictures; what is left of d after the square stays empty."""
    side = int(np.sqrt(d))
    grid = np.linspace(-1.0, 1.0, side)
    rows = np.zeros((n_rows, d))
    for row in rows:
        x, y = rng.uniform(-0.35, 0.35, size=(2, n_blobs, 1))
        across, down = np.exp(-(((grid - x) / spread) ** 2)), np.exp(-(((grid - y) / spread) ** 2))
        row[: side * side] = np.clip(down.T @ across, 0.0, 1.0).ravel()
    return rows


@kind()
def images_with_empty_borders(rng, n, d):
    rows = 255.0 * _blobs(rng, n + N_QUERIES, d, 6, 0.12)
    return split(np.where(rows < 8.0, 0.0, rows).astype(np.uint8), n)


@kind(separable=False)
def images_on_one_background(rng, n, d):
    rows = 100.0 + 40.0 * rng.normal(size=d) + 120.0 * _blobs(rng, n + N_QUERIES, d, 1, 0.08)
    return split(np.clip(rows, 0.0, 255.0).astype(np.uint8), n)


def _spectra(rng: np.random.Generator, n_rows: int, d: int) -> Array:
    """Narrow peaks at places drawn from a common list, over noise."""
    places, channels = rng.integers(d, size=200), np.arange(d)
    rows = 0.02 * np.abs(rng.normal(size=(n_rows, d)))
    for row in rows:
        chosen = rng.choice(places, 12, replace=False)[:, np.newaxis]
        row += (rng.lognormal(sigma=1.0, size=(12, 1)) * np.exp(-0.5 * ((channels - chosen) / 1.5) ** 2)).sum(axis=0)
    return rows


@kind()
def spectra(rng, n, d):
    return split(_spectra(rng, n + N_QUERIES, d).astype(np.float32), n)


@kind(separable=False)
def spectra_and_even_queries(rng, n, d):
    """The total over all channels, as good as: the peaks of the atoms decide, and no entry of the query says where."""
    return _spectra(rng, n, d).astype(np.float32), (1.0 + 0.01 * rng.normal(size=(N_QUERIES, d))).astype(np.float32)


@kind()
def decaying_tones(rng, n, d):
    time = np.arange(d) / d
    pitch, damping = rng.uniform(20.0, d / 8.0, size=(2, n + N_QUERIES, 1))
    rows = np.exp(-damping * time) * np.sin(2.0 * np.pi * pitch * time) + 0.001 * rng.normal(size=(n + N_QUERIES, d))
    return split(rows.astype(np.float32), n)


# --- series -----------------------------------------------------------------------------------------------------------


@kind(separable=False)  # the means of the series decide
def series_with_trend_and_season(rng, n, d):
    time, size = np.arange(d) / d, (n + N_QUERIES, 1)
    trend = rng.normal(size=size) * time * 5.0
    season = rng.lognormal(sigma=0.3, size=size) * np.sin(2.0 * np.pi * (52.0 * time + rng.random(size)))
    return split(10.0 + trend + season + 0.2 * rng.normal(size=(n + N_QUERIES, d)), n)


@kind(separable=False)
def load_curves_with_spikes(rng, n, d):
    hours = np.sin(2.0 * np.pi * np.arange(d) / 24.0)
    rows = 2.0 + hours + 0.1 * rng.normal(size=(n + N_QUERIES, d))
    spikes = rng.random((n + N_QUERIES, d)) < 0.002
    return split((rows + spikes * rng.lognormal(3.5, 0.7, size=rows.shape)).astype(np.float32), n)


@kind()
def random_walks(rng, n, d):
    return split(rng.normal(size=(n + N_QUERIES, d)).cumsum(axis=1), n)


@kind()
def returns_with_a_market_factor(rng, n, d):
    market = 0.01 * rng.standard_t(3, size=d)
    own = 0.02 * rng.standard_t(3, size=(n + N_QUERIES, d)) * rng.lognormal(sigma=0.4, size=(n + N_QUERIES, 1))
    return split(rng.normal(1.0, 0.3, size=(n + N_QUERIES, 1)) * market + own, n)


@kind(separable=False)
def intermittent_demand(rng, n, d):
    size = (n + N_QUERIES, d)
    sold = rng.random(size) < (0.01 + rng.beta(0.5, 15.0, size=(n + N_QUERIES, 1)))
    return split((sold * np.ceil(rng.lognormal(1.0, 1.2, size=size))).astype(np.int16), n)


@kind(separable=False, needles=True)
def sensors_with_events(rng, n, d):
    """Steady profiles, each with one short event that outweighs all the rest; queries are steady."""
    rows = 1.0 + 0.01 * rng.normal(size=(n + N_QUERIES, d))
    for atom in rows[:n]:
        start, length = rng.integers(d - 8), rng.integers(1, 8)
        atom[start : start + length] += rng.lognormal(4.0, 1.0)
    return split(rows.astype(np.float32), n)


# --- tails and scales -------------------------------------------------------------------------------------------------


@kind()
def lognormal(rng, n, d):
    rows = rng.lognormal(sigma=1.2, size=(n + N_QUERIES, d)) * rng.lognormal(sigma=0.5, size=(n + N_QUERIES, 1))
    return split(rows.astype(np.float32), n)


@kind()
def pareto_with_mixed_tails(rng, n, d):
    return split(rng.pareto(rng.uniform(1.2, 4.0, size=(n + N_QUERIES, 1)), size=(n + N_QUERIES, d)), n)


@kind(separable=False)
def heavy_tails_of_both_signs(rng, n, d):
    return split(rng.standard_t(1.5, size=(n + N_QUERIES, d)).astype(np.float32), n)


@kind()
def unstandardised_features(rng, n, d):
    """Columns in their own units, from thousandths to ten thousands."""
    rows = rng.normal(1.0, 0.5, size=(n + N_QUERIES, d)) * 10.0 ** rng.uniform(-3.0, 4.0, size=d)
    return split(rows.astype(np.float32), n)


@kind()
def lengths_of_all_sizes(rng, n, d):
    """Atoms from thousandths to thousands. The query points at one of the longest, but not quite."""
    atoms = rng.normal(size=(n, d)) * np.geomspace(1e3, 1e-3, n)[:, np.newaxis]
    along = atoms[:N_QUERIES] / np.geomspace(1e3, 1e-3, n)[:N_QUERIES, np.newaxis]
    return atoms.astype(np.float32), (rng.normal(size=(N_QUERIES, d)) + 0.5 * along).astype(np.float32)


@kind(separable=False)
def large_offsets(rng, n, d):
    """Everything happens in the last digits of float32."""
    return split((1000.0 + rng.normal(size=(n + N_QUERIES, d))).astype(np.float32), n)


@kind(separable=False, needles=True)
def one_sparse_atom_among_steady_ones(rng, n, d):
    """One atom has all its weight, which is more than the others', in a hundredth of its entries."""
    atoms = 1.0 + 0.1 * rng.normal(size=(n, d))
    atoms[0] = 0.0
    n_large = max(d // 100, 1)
    atoms[0, rng.choice(d, n_large, replace=False)] = 1.3 * d / n_large
    return atoms, 1.0 + 0.1 * rng.normal(size=(N_QUERIES, d))


@kind()
def blocks(rng, n, d):
    """Atoms that live in one stretch of coordinates each. A query is one of them and noise of its size elsewhere."""
    width = max(d // 32, 1)
    atoms = np.zeros((n, d), dtype=np.float32)
    for atom in atoms:
        start = rng.integers(d - width + 1)
        atom[start : start + width] = rng.normal(1.0, 1.0, size=width)
    return atoms, (atoms[:N_QUERIES] + 0.2 * rng.normal(size=(N_QUERIES, d))).astype(np.float32)


# --- queries ----------------------------------------------------------------------------------------------------------


@kind()
def sparse_queries(rng, n, d):
    atoms = rng.normal(size=(n, 1)) + rng.normal(size=(n, d))
    return atoms, np.where(rng.random((N_QUERIES, d)) < 0.05, rng.exponential(size=(N_QUERIES, d)), 0.0)


@kind(separable=False)
def queries_with_one_large_entry(rng, n, d):
    queries = rng.normal(size=(N_QUERIES, d))
    queries[np.arange(N_QUERIES), rng.integers(d, size=N_QUERIES)] = 100.0
    return rng.normal(size=(n, d)).astype(np.float32), queries.astype(np.float32)


@kind()
def queries_that_are_atoms(rng, n, d):
    atoms = (factors(rng, n, d, 16) + 0.5 * rng.normal(size=(n, d))).astype(np.float32)
    return atoms, atoms[:N_QUERIES].copy()


@kind(separable=False)
def nothing_stands_out(rng, n, d):
    return split(rng.normal(size=(n + N_QUERIES, d)).astype(np.float32), n)
