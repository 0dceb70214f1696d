"""Kinds of data that hide from a sample what decides: in few entries, few columns, small differences or heavy tails.

Each is a function ``(rng, n, d) -> (atoms, queries)`` in the dtype that such data comes in, with `N_QUERIES` queries.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Make = Callable[[np.random.Generator, int, int], tuple[Array, Array]]

N_QUERIES = 4


@dataclass(frozen=True)
class Kind:
    """A kind of data, and what a search can make of it.

    Attributes
    ----------
    separable
        Whether estimates can rule out most of the atoms for most queries. (Measured: intervals from the signs of all
        rotated coordinates leave less than half of 64 atoms at d = 4,096.) If not, exact products have to decide.
    needles
        Whether what decides sits in so few entries, beside noise, that no sample shows it: nothing can be promised
        without a pass over the atoms.
    """

    name: str
    make: Make
    separable: bool
    needles: bool


KINDS: dict[str, Kind] = {}


def kind(*, separable: bool = True, needles: bool = False) -> Callable[[Make], Make]:
    """Register a kind under its function's name."""

    def register(make: Make) -> Make:
        KINDS[make.__name__] = Kind(make.__name__, make, separable, needles)
        return make

    return register


def _split(rows: Array, n: int) -> tuple[Array, Array]:
    """Queries of the same population as the atoms."""
    return rows[:n], rows[n:]


def _factors(rng: np.random.Generator, n_rows: int, d: int, n_factors: int) -> Array:
    return rng.normal(size=(n_rows, n_factors)) @ rng.normal(size=(n_factors, d)) / np.sqrt(n_factors)


# --- embeddings and activations ---------------------------------------------------------------------------------------


@kind()
def embeddings_with_outlier_dimensions(rng, n, d):
    rows = _factors(rng, n + N_QUERIES, d, 64) + 0.3 * rng.normal(size=(n + N_QUERIES, d))
    rows[:, rng.choice(d, 3, replace=False)] = 30.0 + 15.0 * rng.normal(size=(n + N_QUERIES, 3))
    return _split(rows.astype(np.float32), n)


@kind()
def embeddings_of_length_one(rng, n, d):
    """Columns whose spread falls off, as principal components do, all around one mean."""
    rows = 0.05 + rng.normal(size=(n + N_QUERIES, d)) / np.sqrt(1.0 + np.arange(d))
    return _split((rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32), n)


@kind()
def relu_activations(rng, n, d):
    return _split(np.maximum(_factors(rng, n + N_QUERIES, d, 32), 0.0).astype(np.float32), n)


@kind()
def sparse_relu_activations(rng, n, d):
    rows = _factors(rng, n + N_QUERIES, d, 32) - rng.uniform(1.5, 3.0, size=d)
    return _split(np.maximum(rows, 0.0).astype(np.float32), n)


@kind()
def low_rank(rng, n, d):
    return _split(_factors(rng, n + N_QUERIES, d, 3).astype(np.float32), n)


@kind()
def half_precision_ratings(rng, n, d):
    rows = 3.4 + 0.3 * rng.normal(size=(n + N_QUERIES, 1)) + 0.5 * _factors(rng, n + N_QUERIES, d, 5)
    return _split(np.clip(np.round(2.0 * rows) / 2.0, 0.5, 5.0).astype(np.float16), n)


# --- text -------------------------------------------------------------------------------------------------------------


def _word_counts(rng: np.random.Generator, n_rows: int, d: int) -> Array:
    """Documents of their own topics and lengths, words by Zipf's law in random columns."""
    base = 1.0 / (1.0 + rng.permutation(d))
    mixture = base * rng.gamma(0.1, size=(8, d))
    shares = rng.dirichlet(np.full(8, 0.3), size=n_rows) @ (mixture / mixture.sum(axis=1, keepdims=True))
    return rng.poisson(rng.lognormal(5.5, 0.5, size=(n_rows, 1)) * shares)


@kind()
def word_counts(rng, n, d):
    return _split(_word_counts(rng, n + N_QUERIES, d).astype(np.float32), n)


@kind()
def tf_idf(rng, n, d):
    counts = _word_counts(rng, n + N_QUERIES, d)
    rows = counts * np.log((1.0 + len(counts)) / (1.0 + (counts > 0).sum(axis=0)))
    return _split((rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)).astype(np.float32), n)


@kind(separable=False)
def short_queries_in_text(rng, n, d):
    """Five words against documents."""
    atoms = _word_counts(rng, n, d).astype(np.float32)
    queries = np.zeros((N_QUERIES, d), dtype=np.float32)
    for query in queries:
        query[rng.choice(np.flatnonzero(atoms.sum(axis=0) > 0), 5, replace=False)] = 1.0
    return atoms, queries


# --- near-duplicates --------------------------------------------------------------------------------------------------


def _near_duplicates(rng: np.random.Generator, n: int, d: int, n_places: int) -> tuple[Array, Array]:
    """Atoms that are one base but for a few places each, and queries near the base."""
    base = rng.normal(size=d)
    atoms = np.repeat(base[np.newaxis], n, axis=0)
    for atom in atoms:
        atom[rng.choice(d, n_places, replace=False)] += 3.0 * rng.normal(size=n_places)
    return atoms, base + 0.1 * rng.normal(size=(N_QUERIES, d))


def _register_near_duplicates(n_places: int) -> None:
    def plain(rng, n, d):
        return _near_duplicates(rng, n, d, n_places)

    def scaled(rng, n, d):
        atoms, queries = _near_duplicates(rng, n, d, n_places)
        return (atoms * rng.lognormal(sigma=0.3, size=(n, 1))).astype(np.float32), queries.astype(np.float32)

    def noisy(rng, n, d):
        atoms, queries = _near_duplicates(rng, n, d, n_places)
        return (atoms + 0.003 * rng.normal(size=(n, d))).astype(np.float32), queries.astype(np.float32)

    for make, name in ((plain, ""), (scaled, "_scaled"), (noisy, "_noisy")):
        make.__name__ = f"near_duplicates_{n_places}{name}"
        kind(separable=make is scaled, needles=make is noisy and n_places < 100)(make)


for _n_places in (1, 10, 100):
    _register_near_duplicates(_n_places)


@kind(separable=False)
def exact_duplicates(rng, n, d):
    """Every atom is there twice: ties, of which either is right."""
    rows = rng.normal(size=(n - n // 2, d)).astype(np.float32)
    return np.concatenate([rows, rows[: n // 2]]), rng.normal(size=(N_QUERIES, d)).astype(np.float32)


@kind()
def opposites(rng, n, d):
    """Every atom with its negative, and queries that lie along one pair."""
    rows = rng.normal(size=(n - n // 2, d))
    queries = rows[:N_QUERIES] * rng.choice([-0.2, 0.2], size=(N_QUERIES, 1)) + rng.normal(size=(N_QUERIES, d))
    return np.concatenate([rows, -rows[: n // 2]]).astype(np.float32), queries.astype(np.float32)


# --- codes and categories ---------------------------------------------------------------------------------------------


@kind()
def one_hot(rng, n, d):
    """Categorical features of 16 levels each, some levels rare. A query shares two thirds of them with an atom."""
    levels = np.minimum(rng.geometric(0.3, size=(n + N_QUERIES, -(-d // 16))) - 1, 15)
    levels[n:] = np.where(rng.random(levels[n:].shape) < 0.67, levels[:N_QUERIES], levels[n:])
    rows = (levels[:, :, np.newaxis] == np.arange(16)).reshape(n + N_QUERIES, -1)[:, :d]
    return _split(rows.astype(np.uint8), n)


@kind()
def one_hot_and_measurements(rng, n, d):
    """Rows of a table: a few columns of money among thousands of indicators."""
    rows = (rng.random((n + N_QUERIES, d)) < 0.02).astype(np.float64)
    rows[:, :5] = rng.lognormal(4.0, 1.0, size=(n + N_QUERIES, 5))
    return _split(rows, n)


@kind()
def hash_codes(rng, n, d):
    """Signs, of which queries share 60 % with one atom each."""
    atoms = rng.choice(np.array([-1, 1], dtype=np.int8), size=(n, d))
    return atoms, np.where(rng.random((N_QUERIES, d)) < 0.4, -atoms[:N_QUERIES], atoms[:N_QUERIES])


@kind()
def fingerprints(rng, n, d):
    """Bits that are mostly off, as of molecules, common ones and rare ones. A query has half the bits of an atom."""
    rows = rng.random((n + N_QUERIES, d)) < rng.beta(0.3, 6.0, size=d)
    rows[n:] = (rng.random((N_QUERIES, d)) < 0.5) & rows[:N_QUERIES]
    return _split(rows, n)


@kind()
def walsh_functions(rng, n, d):
    """Square waves: rows of the Hadamard matrix, which one transform turns into single entries."""
    frequencies = rng.choice(np.arange(1, d), n, replace=False)
    common = frequencies[:, np.newaxis] & np.arange(d)
    atoms = (1 - 2 * (np.bitwise_count(common) & 1)).astype(np.int8)
    weights = rng.exponential(size=(N_QUERIES, n)) ** 3
    return atoms, (weights @ atoms).astype(np.float32)


@kind()
def implicit_feedback(rng, n, d):
    """What users clicked on: most items have been seen by nobody, a few by all."""
    popularity = np.clip(rng.pareto(1.0, size=d) * 0.01, 0.0, 0.9)
    rows = rng.random((n + N_QUERIES, d)) < popularity * rng.lognormal(0.0, 0.7, size=(n + N_QUERIES, 1))
    return _split(rows.astype(np.uint8), n)


# --- biology ----------------------------------------------------------------------------------------------------------


def _genotypes(rng: np.random.Generator, n_rows: int, d: int) -> tuple[Array, Array]:
    """Individuals of four populations; most variants are rare. The first queries are children of two atoms."""
    frequencies = rng.beta(0.2, 2.0, size=d)
    of_population = np.clip(frequencies + 0.1 * rng.normal(size=(4, d)) * np.sqrt(frequencies), 0.001, 0.999)
    chances = of_population[rng.integers(4, size=n_rows)]
    halves = rng.random((2, n_rows, d)) < chances
    parents = rng.integers(n_rows, size=(2, N_QUERIES))
    children = sum(
        halves[rng.integers(2, size=(N_QUERIES, d)), parents[i][:, np.newaxis], np.arange(d)] for i in (0, 1)
    )
    return halves.sum(axis=0).astype(np.uint8), np.asarray(children).astype(np.uint8)


@kind()
def genotypes(rng, n, d):
    return _genotypes(rng, n, d)


@kind()
def genotypes_standardised(rng, n, d):
    atoms, queries = (part.astype(np.float32) for part in _genotypes(rng, n, d))
    mean, spread = atoms.mean(axis=0), np.maximum(atoms.std(axis=0), 0.05)
    return (atoms - mean) / spread, (queries - mean) / spread


def _expression(rng: np.random.Generator, n_rows: int, d: int) -> Array:
    means = rng.lognormal(-1.0, 2.0, size=d) * rng.lognormal(sigma=0.5, size=(5, d))[rng.integers(5, size=n_rows)]
    return rng.poisson(rng.gamma(2.0, means / 2.0 * rng.lognormal(sigma=0.4, size=(n_rows, 1))))


@kind()
def expression_counts(rng, n, d):
    return _split(_expression(rng, n + N_QUERIES, d).astype(np.int32), n)


@kind()
def expression_log(rng, n, d):
    return _split(np.log1p(_expression(rng, n + N_QUERIES, d)).astype(np.float32), n)


@kind()
def spike_trains(rng, n, d):
    """Neurons that fire rarely. A query is one of them with a third of its spikes lost and others added."""
    spikes = rng.random((n, d)) < 0.02 * rng.lognormal(sigma=0.5, size=(n, 1))
    kept = spikes[:N_QUERIES] & (rng.random((N_QUERIES, d)) < 0.67)
    return spikes.astype(np.uint8), (kept | (rng.random((N_QUERIES, d)) < 0.01)).astype(np.uint8)


@kind()
def compositions(rng, n, d):
    """Shares of a whole, most of it in few parts."""
    rows = rng.gamma(0.05, size=(n + N_QUERIES, d)) * rng.lognormal(sigma=1.0, size=d) + 1e-12
    return _split(rows / rows.sum(axis=1, keepdims=True), n)


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
    return _split(np.where(rows < 8.0, 0.0, rows).astype(np.uint8), n)


@kind(separable=False)
def images_on_one_background(rng, n, d):
    rows = 100.0 + 40.0 * rng.normal(size=d) + 120.0 * _blobs(rng, n + N_QUERIES, d, 1, 0.08)
    return _split(np.clip(rows, 0.0, 255.0).astype(np.uint8), n)


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
    return _split(_spectra(rng, n + N_QUERIES, d).astype(np.float32), n)


@kind(separable=False)
def spectra_and_even_queries(rng, n, d):
    """The total over all channels, as good as: the peaks of the atoms decide, and no entry of the query says where."""
    return _spectra(rng, n, d).astype(np.float32), (1.0 + 0.01 * rng.normal(size=(N_QUERIES, d))).astype(np.float32)


@kind()
def decaying_tones(rng, n, d):
    time = np.arange(d) / d
    pitch, damping = rng.uniform(20.0, d / 8.0, size=(2, n + N_QUERIES, 1))
    rows = np.exp(-damping * time) * np.sin(2.0 * np.pi * pitch * time) + 0.001 * rng.normal(size=(n + N_QUERIES, d))
    return _split(rows.astype(np.float32), n)


# --- series -----------------------------------------------------------------------------------------------------------


@kind()
def series_with_trend_and_season(rng, n, d):
    time, size = np.arange(d) / d, (n + N_QUERIES, 1)
    trend = rng.normal(size=size) * time * 5.0
    season = rng.lognormal(sigma=0.3, size=size) * np.sin(2.0 * np.pi * (52.0 * time + rng.random(size)))
    return _split(10.0 + trend + season + 0.2 * rng.normal(size=(n + N_QUERIES, d)), n)


@kind(separable=False)
def load_curves_with_spikes(rng, n, d):
    hours = np.sin(2.0 * np.pi * np.arange(d) / 24.0)
    rows = 2.0 + hours + 0.1 * rng.normal(size=(n + N_QUERIES, d))
    spikes = rng.random((n + N_QUERIES, d)) < 0.002
    return _split((rows + spikes * rng.lognormal(3.5, 0.7, size=rows.shape)).astype(np.float32), n)


@kind()
def random_walks(rng, n, d):
    return _split(rng.normal(size=(n + N_QUERIES, d)).cumsum(axis=1), n)


@kind()
def returns_with_a_market_factor(rng, n, d):
    market = 0.01 * rng.standard_t(3, size=d)
    own = 0.02 * rng.standard_t(3, size=(n + N_QUERIES, d)) * rng.lognormal(sigma=0.4, size=(n + N_QUERIES, 1))
    return _split(rng.normal(1.0, 0.3, size=(n + N_QUERIES, 1)) * market + own, n)


@kind(separable=False)
def intermittent_demand(rng, n, d):
    size = (n + N_QUERIES, d)
    sold = rng.random(size) < (0.01 + rng.beta(0.5, 15.0, size=(n + N_QUERIES, 1)))
    return _split((sold * np.ceil(rng.lognormal(1.0, 1.2, size=size))).astype(np.int16), n)


@kind(separable=False, needles=True)
def sensors_with_events(rng, n, d):
    """Steady profiles, each with one short event that outweighs all the rest; queries are steady."""
    rows = 1.0 + 0.01 * rng.normal(size=(n + N_QUERIES, d))
    for atom in rows[:n]:
        start, length = rng.integers(d - 8), rng.integers(1, 8)
        atom[start : start + length] += rng.lognormal(4.0, 1.0)
    return _split(rows.astype(np.float32), n)


# --- tails and scales -------------------------------------------------------------------------------------------------


@kind()
def lognormal(rng, n, d):
    rows = rng.lognormal(sigma=1.2, size=(n + N_QUERIES, d)) * rng.lognormal(sigma=0.5, size=(n + N_QUERIES, 1))
    return _split(rows.astype(np.float32), n)


@kind()
def pareto_with_mixed_tails(rng, n, d):
    return _split(rng.pareto(rng.uniform(1.2, 4.0, size=(n + N_QUERIES, 1)), size=(n + N_QUERIES, d)), n)


@kind(separable=False)
def heavy_tails_of_both_signs(rng, n, d):
    return _split(rng.standard_t(1.5, size=(n + N_QUERIES, d)).astype(np.float32), n)


@kind()
def unstandardised_features(rng, n, d):
    """Columns in their own units, from thousandths to ten thousands."""
    rows = rng.normal(1.0, 0.5, size=(n + N_QUERIES, d)) * 10.0 ** rng.uniform(-3.0, 4.0, size=d)
    return _split(rows.astype(np.float32), n)


@kind()
def lengths_of_all_sizes(rng, n, d):
    """Atoms from thousandths to thousands. The query points at one of the longest, but not quite."""
    atoms = rng.normal(size=(n, d)) * np.geomspace(1e3, 1e-3, n)[:, np.newaxis]
    along = atoms[:N_QUERIES] / np.geomspace(1e3, 1e-3, n)[:N_QUERIES, np.newaxis]
    return atoms.astype(np.float32), (rng.normal(size=(N_QUERIES, d)) + 0.5 * along).astype(np.float32)


@kind(separable=False)
def large_offsets(rng, n, d):
    """Everything happens in the last digits of float32."""
    return _split((1000.0 + rng.normal(size=(n + N_QUERIES, d))).astype(np.float32), n)


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
    atoms = (_factors(rng, n, d, 16) + 0.5 * rng.normal(size=(n, d))).astype(np.float32)
    return atoms, atoms[:N_QUERIES].copy()


@kind(separable=False)
def nothing_stands_out(rng, n, d):
    return _split(rng.normal(size=(n + N_QUERIES, d)).astype(np.float32), n)
