"""Failure rates of races on lines of coordinates that are as alike as they can be."""

import numpy as np
import pytest
from scipy.stats import binom

import banditmips as bm

pytestmark = pytest.mark.statistical

N_ATOMS, WIDTH, D = 10, 8, 2003
N_LINES = -(-D // WIDTH)  # the last is shorter
TRIALS = {0.1: 300, 0.01: 1000}


def repeated(values):
    """Let every coordinate of a line have the line's value."""
    return np.repeat(values, WIDTH, axis=-1)[..., :D]


def constant_lines(rng):
    lines = 0.3 * rng.normal(size=(N_ATOMS, 1)) + rng.normal(size=(N_ATOMS, N_LINES))
    return repeated(lines), repeated(1.0 + 0.2 * rng.normal(size=N_LINES))


def symmetric_lines(rng):
    return repeated(rng.normal(size=(N_ATOMS, N_LINES))), repeated(rng.normal(size=N_LINES))


def heavy_lines(rng):
    return repeated(0.3 * rng.normal(size=(N_ATOMS, 1)) + rng.standard_t(3, size=(N_ATOMS, N_LINES))), np.ones(D)


def uneven_query(rng):
    atoms, _ = constant_lines(rng)
    return atoms, repeated(rng.standard_t(2, size=N_LINES))


def sparse_lines(rng):
    """The best atom has 5 % of its lines filled, the others are steady."""
    atoms = 1.0 + 0.1 * repeated(rng.normal(size=(N_ATOMS, N_LINES)))
    filled = rng.random(N_LINES) < 0.05
    atoms[0] = repeated(np.where(filled, 1.3 / max(filled.mean(), 0.01), 0.0))
    return atoms, np.ones(D)


def assert_rate_at_most(delta, make, answer):
    failures = raced = 0
    for seed in range(TRIALS[delta]):
        if seed % 8 == 0:
            atoms, query = make(np.random.default_rng([seed, 5]))
            best = int((atoms @ query).argmax())
        found = answer(atoms, query, seed)
        failures += int(found.indices[0] != best)
        raced += found.n_rounds > 0
    assert raced == TRIALS[delta]
    assert binom.sf(failures - 1, TRIALS[delta], delta) > 1e-3, f"{failures} failures at delta = {delta}"


@pytest.mark.parametrize(
    ("make", "delta"),
    [(constant_lines, 0.1), (symmetric_lines, 0.1), (symmetric_lines, 0.01), (heavy_lines, 0.1), (uneven_query, 0.1)],
)
def test_lines_without_fit(make, delta, lined_array):
    def answer(atoms, query, seed):
        return bm.search(lined_array(atoms, WIDTH), query, delta=delta, seed=seed, rescore=False)

    assert_rate_at_most(delta, make, answer)


@pytest.mark.parametrize("make", [symmetric_lines, sparse_lines])
def test_lines_after_fit(make, lined_array):
    def answer(atoms, query, seed):
        index = bm.BanditMIPS(delta=0.1, seed=seed, rescore=False, layout="none").fit(lined_array(atoms, WIDTH))
        return index.search(query)

    assert_rate_at_most(0.1, make, answer)


def test_a_cache_and_then_lines(lined_array):
    """The cache is left with most atoms still in the race; delta covers both together."""

    def answer(atoms, query, seed):
        index = bm.BanditMIPS(delta=0.1, seed=seed, rescore=False, layout="coordinates", max_extra_memory=40_000)
        found = index.fit(lined_array(atoms, WIDTH)).search(query, trace=True)
        sizes, n_cached = [entry.n_coordinates for entry in found.trace.rounds], index._fitted.cache.n_coordinates
        assert 150 < n_cached < 500
        assert n_cached in sizes
        assert sizes[sizes.index(n_cached) + 1] in (32 * WIDTH, 32 * WIDTH - 5)  # the last line is 5 shorter
        return found

    assert_rate_at_most(0.1, symmetric_lines, answer)
