"""Hash tables for inner products: the transformations, the tables, the count."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from banditmips.baselines import LSHMIPS


def slow_search(atoms, query, variant, n_functions, n_tables, seed, scale=0.83, n_powers=3, width=2.5):
    """Transform, hash and compare, one product at a time; return candidates and products at query time."""
    n, d = atoms.shape
    n_products = 0

    def inner(x, y):
        nonlocal n_products
        n_products += len(x)
        return sum(a * b for a, b in zip(x, y, strict=True))

    rng = np.random.default_rng(seed)
    directions = rng.normal(size=(n_tables * n_functions, d + (n_powers if variant == "l2_alsh" else 1)))
    offsets = rng.uniform(0, width, size=n_tables * n_functions)
    norms = [math.sqrt(inner(atom, atom)) for atom in atoms]
    codes = []
    for atom, norm in zip(atoms, norms, strict=True):
        length = norm / max(norms) * (scale if variant == "l2_alsh" else 1.0)
        unit = [x / norm * length for x in atom]
        if variant == "l2_alsh":
            mapped = [*unit, *(length ** (2**i) for i in range(1, n_powers + 1))]
            codes.append([math.floor((inner(a, mapped) + b) / width) for a, b in zip(directions, offsets, strict=True)])
        else:
            mapped = [*unit, math.sqrt(max(0.0, 1 - length**2))]
            codes.append([inner(a, mapped) >= 0 for a in directions])

    n_products = 0  # from here on the query's
    projections = [inner(a[:d], query) for a in directions]
    if variant == "l2_alsh":
        query_norm = math.sqrt(inner(query, query))
        tails = [sum(a[d:]) / 2 for a in directions]
        wanted = [
            math.floor((p / query_norm + tail + b) / width)
            for p, tail, b in zip(projections, tails, offsets, strict=True)
        ]
    else:
        wanted = [p >= 0 for p in projections]
    tables = [slice(t * n_functions, (t + 1) * n_functions) for t in range(n_tables)]
    candidates = [i for i in range(n) if any(codes[i][table] == wanted[table] for table in tables)]
    for i in candidates:
        inner(atoms[i], query)
    return candidates, n_products


@pytest.mark.parametrize("variant", ["l2_alsh", "simple"])
@pytest.mark.parametrize(("n_functions", "n_tables"), [(1, 1), (2, 3), (4, 6)])
def test_counts_what_a_counting_version_counts(variant, n_functions, n_tables):
    rng = np.random.default_rng(n_functions)
    atoms = rng.normal(size=(40, 9)) * rng.uniform(0.5, 2.0, size=(40, 1))
    for seed in range(5):
        query = rng.normal(size=9)
        candidates, n_products = slow_search(atoms, query, variant, n_functions, n_tables, seed)
        index = LSHMIPS(variant=variant, n_functions=n_functions, n_tables=n_tables, seed=seed).fit(atoms)
        result = index.search(query, k=40)
        assert sorted(result.indices[result.indices >= 0]) == candidates
        assert result.n_multiplies == n_products
        assert result.n_survivors == len(candidates)


def test_the_formula_of_the_count():
    atoms = np.random.default_rng(1).normal(size=(60, 11))
    for variant, norm in (("l2_alsh", 11), ("simple", 0)):
        result = LSHMIPS(variant=variant, n_functions=3, n_tables=4).fit(atoms).search(atoms[0])
        assert result.n_multiplies == 3 * 4 * 11 + norm + 11 * result.n_survivors


def meeting_rate(index_of_seed, atoms, query, n_seeds=1500):
    """How often each atom shares the query's bucket of a single hash function."""
    met = np.zeros(len(atoms))
    for seed in range(n_seeds):
        indices = index_of_seed(seed).fit(atoms).search(query, k=len(atoms)).indices
        met[indices[indices >= 0]] += 1
    return met / n_seeds, 4 / (2 * math.sqrt(n_seeds))


def test_simple_collides_as_the_angle_says():
    # After scaling to a largest norm of 1 the angle is arccos(x.q / |q|), for atoms of every norm.
    query = np.array([2.0, 0.0, 0.0])
    atoms = np.array([[4.0, 0.0, 0.0], [0.0, 4.0, 0.0], [2.0, 0.0, 0.0], [-2.0, 1.0, 0.0]])
    rates, margin = meeting_rate(
        lambda seed: LSHMIPS(variant="simple", n_functions=1, n_tables=1, seed=seed), atoms, query
    )
    expected = 1 - np.arccos(atoms @ query / 2 / 4) / np.pi
    np.testing.assert_allclose(rates, expected, atol=margin)


def test_l2_alsh_collides_as_the_length_of_the_difference_says():
    scale, powers, width = 0.8, 2, 1.5
    query = np.array([3.0, 0.0])
    atoms = np.array([[2.0, 0.0], [0.0, 2.0], [1.0, 0.0], [-2.0, 0.0]])
    rates, margin = meeting_rate(
        lambda seed: LSHMIPS(scale=scale, n_powers=powers, width=width, n_functions=1, n_tables=1, seed=seed),
        atoms,
        query,
    )
    lengths = scale * np.linalg.norm(atoms, axis=1) / 2
    cosines = scale * atoms @ query / 2 / 3
    ratio = width / np.sqrt(1 + powers / 4 - 2 * cosines + lengths ** (2 ** (powers + 1)))
    expected = 1 - 2 * stats.norm.cdf(-ratio) - 2 / (math.sqrt(2 * math.pi) * ratio) * (1 - np.exp(-(ratio**2) / 2))
    np.testing.assert_allclose(rates, expected, atol=margin)


@pytest.mark.parametrize("variant", ["l2_alsh", "simple"])
def test_more_functions_meet_fewer_and_more_tables_meet_more(variant):
    rng = np.random.default_rng(2)
    atoms, queries = rng.normal(size=(300, 20)), rng.normal(size=(30, 20))

    def met(n_functions, n_tables):
        index = LSHMIPS(variant=variant, n_functions=n_functions, n_tables=n_tables).fit(atoms)
        return index.search(queries).n_survivors.mean()

    assert met(1, 4) > met(3, 4) > met(8, 4)
    assert met(3, 1) < met(3, 4) < met(3, 16)


@pytest.mark.parametrize("variant", ["l2_alsh", "simple"])
def test_candidates_are_better_than_chance(variant):
    # Of the atoms met, more than their share must be among the best tenth.
    rng = np.random.default_rng(3)
    atoms, queries = rng.normal(size=(500, 10)), rng.normal(size=(100, 10))
    result = LSHMIPS(variant=variant, n_functions=4, n_tables=4).fit(atoms).search(queries, k=500)
    share_met = result.n_survivors.mean() / 500
    tops = np.argsort(-(queries @ atoms.T), axis=1)[:, :50]
    top_met = np.mean([np.isin(top, found).mean() for top, found in zip(tops, result.indices, strict=True)])
    assert top_met > 1.2 * share_met


@pytest.mark.parametrize("variant", ["l2_alsh", "simple"])
def test_the_scale_of_the_data_does_not_matter(variant):
    rng = np.random.default_rng(4)
    atoms, queries = rng.normal(size=(100, 10)), rng.normal(size=(10, 10))
    index = LSHMIPS(variant=variant)
    once = index.fit(atoms).search(queries, k=100)
    scaled = index.fit(atoms * 2.0**20).search(queries * 2.0**-30, k=100)
    np.testing.assert_array_equal(once.indices, scaled.indices)


def test_empty_buckets_give_no_atom():
    rng = np.random.default_rng(5)
    atoms, queries = rng.normal(size=(20, 30)), rng.normal(size=(20, 30))
    result = LSHMIPS(n_functions=40, n_tables=1).fit(atoms).search(queries, k=2)
    assert (result.n_survivors == 0).any()
    empty = result[int(np.flatnonzero(result.n_survivors == 0)[0])]
    assert empty.indices.tolist() == [-1, -1]
    assert empty.n_multiplies == 40 * 30 + 30


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"variant": "sign"}, ValueError, "variant must be 'l2_alsh' or 'simple', but came as 'sign'"),
        ({"n_functions": 0}, ValueError, "n_functions must be at least 1"),
        ({"n_tables": 0}, ValueError, "n_tables must be at least 1"),
        ({"n_powers": 0}, ValueError, "n_powers must be at least 1"),
        ({"scale": 1.0}, ValueError, "scale must be below 1"),
        ({"width": 0.0}, ValueError, "width must be above 0"),
        ({"n_tables": 2.0}, TypeError, "n_tables must be an integer"),
    ],
)
def test_bad_parameters_are_named(arguments, error, message):
    with pytest.raises(error, match=message):
        LSHMIPS(**arguments)
