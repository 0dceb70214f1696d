"""Kinds of records: embeddings, texts, near-duplicates, categories, genes."""

from __future__ import annotations

from typing import Any

import numpy as np
from kind_registry import N_QUERIES, factors, kind, split
from numpy.typing import NDArray

Array = NDArray[Any]

# --- embeddings and activations ---------------------------------------------------------------------------------------


@kind()
def embeddings_with_outlier_dimensions(rng, n, d):
    rows = factors(rng, n + N_QUERIES, d, 64) + 0.3 * rng.normal(size=(n + N_QUERIES, d))
    rows[:, rng.choice(d, 3, replace=False)] = 30.0 + 15.0 * rng.normal(size=(n + N_QUERIES, 3))
    return split(rows.astype(np.float32), n)


@kind()
def embeddings_of_length_one(rng, n, d):
    """Columns whose spread falls off, as principal components do, all around one mean."""
    rows = 0.05 + rng.normal(size=(n + N_QUERIES, d)) / np.sqrt(1.0 + np.arange(d))
    return split((rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32), n)


@kind()
def relu_activations(rng, n, d):
    return split(np.maximum(factors(rng, n + N_QUERIES, d, 32), 0.0).astype(np.float32), n)


@kind()
def sparse_relu_activations(rng, n, d):
    rows = factors(rng, n + N_QUERIES, d, 32) - rng.uniform(1.5, 3.0, size=d)
    return split(np.maximum(rows, 0.0).astype(np.float32), n)


@kind()
def low_rank(rng, n, d):
    return split(factors(rng, n + N_QUERIES, d, 3).astype(np.float32), n)


@kind()
def half_precision_ratings(rng, n, d):
    rows = 3.4 + 0.3 * rng.normal(size=(n + N_QUERIES, 1)) + 0.5 * factors(rng, n + N_QUERIES, d, 5)
    return split(np.clip(np.round(2.0 * rows) / 2.0, 0.5, 5.0).astype(np.float16), n)


# --- text -------------------------------------------------------------------------------------------------------------


def _word_counts(rng: np.random.Generator, n_rows: int, d: int) -> Array:
    """Documents of their own topics and lengths, words by Zipf's law in random columns."""
    base = 1.0 / (1.0 + rng.permutation(d))
    mixture = base * rng.gamma(0.1, size=(8, d))
    shares = rng.dirichlet(np.full(8, 0.3), size=n_rows) @ (mixture / mixture.sum(axis=1, keepdims=True))
    return rng.poisson(rng.lognormal(5.5, 0.5, size=(n_rows, 1)) * shares)


@kind()
def word_counts(rng, n, d):
    return split(_word_counts(rng, n + N_QUERIES, d).astype(np.float32), n)


@kind()
def tf_idf(rng, n, d):
    counts = _word_counts(rng, n + N_QUERIES, d)
    rows = counts * np.log((1.0 + len(counts)) / (1.0 + (counts > 0).sum(axis=0)))
    return split((rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)).astype(np.float32), n)


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
    return split(rows.astype(np.uint8), n)


@kind()
def one_hot_and_measurements(rng, n, d):
    """Rows of a table: a few columns of money among thousands of indicators."""
    rows = (rng.random((n + N_QUERIES, d)) < 0.02).astype(np.float64)
    rows[:, :5] = rng.lognormal(4.0, 1.0, size=(n + N_QUERIES, 5))
    return split(rows, n)


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
    return split(rows, n)


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
    return split(rows.astype(np.uint8), n)


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
    return split(_expression(rng, n + N_QUERIES, d).astype(np.int32), n)


@kind()
def expression_log(rng, n, d):
    return split(np.log1p(_expression(rng, n + N_QUERIES, d)).astype(np.float32), n)


@kind()
def spike_trains(rng, n, d):
    """Neurons that fire rarely. A query is one of them with a third of its spikes lost and others added."""
    spikes = rng.random((n, d)) < 0.02 * rng.lognormal(sigma=0.5, size=(n, 1))
    kept = spikes[:N_QUERIES] & (rng.random((N_QUERIES, d)) < 0.67)
    return spikes.astype(np.uint8), (kept | (rng.random((N_QUERIES, d)) < 0.01)).astype(np.uint8)


@kind(separable=False, needles=True)
def compositions(rng, n, d):
    """Shares of a whole, nearly all of it in a few parts of thousands, which a sample need not meet."""
    rows = rng.gamma(0.05, size=(n + N_QUERIES, d)) * rng.lognormal(sigma=1.0, size=d) + 1e-12
    return split(rows / rows.sum(axis=1, keepdims=True), n)


@kind()
def opposed_halves(rng, n, d):
    """Atoms agree with the query in one half of the features and contradict it in the other; one agrees a little."""
    query, half = rng.normal(size=d), d // 2
    atoms, agrees = rng.normal(size=(n, d)), rng.random(n) < 0.5
    atoms[:, :half] += np.where(agrees, 1.0, -1.0)[:, np.newaxis] * query[:half]
    atoms[:, half:] -= np.where(agrees, 1.0, -1.0)[:, np.newaxis] * query[half:]
    atoms[n // 2] = 0.3 * query + rng.normal(size=d)
    queries = query + 0.05 * rng.normal(size=(N_QUERIES, d))
    return atoms.astype(np.float32), queries.astype(np.float32)
