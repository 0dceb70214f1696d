"""H2-ALSH: subsets by norm, query-aware hashing, early termination, the count."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from banditmips.baselines import H2ALSH
from banditmips.baselines.h2_alsh import QALSHParameters


def slow_search(atoms, query, k, *, c0, c, delta, n_candidates, scan_limit, seed):
    """Search subset by subset with explicit QNF vectors; count every product with the query."""
    n_products = 0

    def inner(x, y):
        nonlocal n_products
        n_products += len(x)
        return sum(a * b for a, b in zip(x, y, strict=True))

    n, d = atoms.shape
    norms = [math.sqrt(sum(x * x for x in atom)) for atom in atoms]
    rest = sorted(range(n), key=lambda i: (-norms[i], i))
    ratio = math.sqrt((c0**4 - 1) / (c0**4 - c))
    rng = np.random.default_rng(seed)
    query_norm = math.sqrt(inner(query, query))
    scores = {}

    def kth():
        return sorted(scores.values())[-k] if len(scores) >= k else -math.inf

    def rank(indices):
        bound = kth()
        scores.update({i: inner(atoms[i], query) for i in indices if norms[i] * query_norm * (1 + 1e-9) >= bound})

    searching = True
    while rest:
        M = norms[rest[0]]
        members = [i for i in rest if norms[i] >= ratio * M]
        rest = rest[len(members) :]
        hashed = len(members) > scan_limit
        if hashed:
            p = QALSHParameters.choose(len(members), c0=c0, delta=delta, n_candidates=n_candidates)
            directions = rng.normal(size=(p.n_functions, d + 1))
        searching = searching and M * query_norm * (1 + 1e-9) >= kth()
        if not searching:
            continue
        if not hashed:
            rank(members)
            continue
        mapped = {i: [*atoms[i], math.sqrt(max(0.0, M**2 - norms[i] ** 2))] for i in members}
        # Appended to the query is a 0, so its part of a direction needs no product.
        centres = [M / query_norm * inner(a[:d], query) for a in directions]
        gaps = {
            i: np.abs([float(a @ mapped[i]) - centre for a, centre in zip(directions, centres, strict=True)])
            for i in members
        }
        reach = min(2 * M, math.sqrt(max(0.0, 2 * M**2 - 2 * M / query_norm * kth())))
        candidates = []
        radius = 0.0
        while radius < reach and len(candidates) < min(n_candidates + k - 1, len(members)):
            unseen = np.array([gaps[i] for i in members])
            unseen[unseen <= radius * p.width / 2] = math.inf
            nearest = unseen.min(axis=0)
            nearest = nearest[nearest < math.inf]
            if nearest.size:
                needed = 2 * np.median(nearest) / p.width
                radius = min(reach, max(c0 * radius, c0 ** math.ceil(math.log(needed, c0))))
            else:
                radius = reach
            counts = {i: int((gaps[i] <= radius * p.width / 2).sum()) for i in members}
            new = [i for i in members if counts[i] >= p.threshold and i not in candidates]
            new.sort(key=lambda i: -counts[i])
            new = new[: n_candidates + k - 1 - len(candidates)]
            candidates += new
            rank(new)
    return scores, n_products


@pytest.mark.parametrize("spread", [0.0, 0.3])
@pytest.mark.parametrize("scan_limit", [0, 10, 100])
@pytest.mark.parametrize(("k", "n_candidates"), [(1, 3), (4, 2), (2, 80)])
def test_counts_what_a_counting_version_counts(spread, scan_limit, k, n_candidates):
    rng = np.random.default_rng(scan_limit + k)
    atoms = rng.normal(size=(80, 6)) * rng.lognormal(0, spread, size=(80, 1))
    settings = {"c0": 1.5, "c": 0.3, "delta": 0.3, "n_candidates": n_candidates, "scan_limit": scan_limit}
    for seed in range(3):
        query = rng.normal(size=6)
        scores, n_products = slow_search(atoms, query, k, seed=seed, **settings)
        result = H2ALSH(seed=seed, **settings).fit(atoms).search(query, k=k)
        assert result.n_survivors == len(scores)
        assert result.n_multiplies == n_products
        assert result.indices.tolist() == sorted(scores, key=lambda i: (-scores[i], i))[:k]


def test_subsets_hold_narrow_ranges_of_the_norm():
    rng = np.random.default_rng(1)
    atoms = rng.normal(size=(500, 8))
    norms = np.linalg.norm(atoms, axis=1)
    for c0, c in ((2.0, 0.5), (1.2, 0.9), (3.0, 0.1)):
        index = H2ALSH(c0=c0, c=c).fit(atoms)
        assert sorted(np.concatenate([subset.members for subset in index._subsets])) == list(range(500))
        largest = [norms[subset.members].max() for subset in index._subsets]
        assert largest == sorted(largest, reverse=True)
        ratio = math.sqrt((c0**4 - 1) / (c0**4 - c))
        for subset, M in zip(index._subsets, largest, strict=True):
            assert norms[subset.members].min() >= ratio * M * (1 - 1e-12)


@pytest.mark.parametrize("n", [500, 5000])
@pytest.mark.parametrize("c0", [1.2, 1.5, 2.0, 4.0])
@pytest.mark.parametrize("delta", [1 / math.e, 0.01])
def test_the_threshold_keeps_both_errors_rare(n, c0, delta):
    p = QALSHParameters.choose(n, c0=c0, delta=delta, n_candidates=100)
    near = 1 - 2 * stats.norm.cdf(-p.width / 2)
    far = 1 - 2 * stats.norm.cdf(-p.width / (2 * c0))
    missed = stats.binom.cdf(p.threshold - 1, p.n_functions, near)
    admitted = n * stats.binom.sf(p.threshold - 1, p.n_functions, far)
    assert missed <= delta
    assert admitted <= 100 / 2


def test_the_authors_own_parameters():
    # Their defaults for 1,000 atoms: c0 = 2, delta = 1/e, 100 candidates.
    p = QALSHParameters.choose(1000, c0=2.0, delta=1 / math.e, n_candidates=100)
    assert p.width == pytest.approx(math.sqrt(32 * math.log(2) / 3))
    alpha = p.threshold / p.n_functions
    assert 0.503 < alpha < 0.826
    assert p.n_functions == math.ceil((math.sqrt(math.log(20)) + 1) ** 2 / (2 * (0.82600 - 0.50336) ** 2))


def test_long_atoms_end_the_search_early():
    rng = np.random.default_rng(2)
    atoms = rng.normal(size=(1000, 20))
    atoms[:50] *= 10
    result = H2ALSH(scan_limit=1000).fit(atoms).search(atoms[3])
    assert result.indices.tolist() == [3]
    assert result.n_multiplies <= 20 * (1 + 50)


def test_scanning_everything_is_exact():
    rng = np.random.default_rng(3)
    atoms, queries = rng.normal(size=(400, 15)), rng.normal(size=(50, 15))
    result = H2ALSH(scan_limit=400).fit(atoms).search(queries, k=5)
    np.testing.assert_array_equal(result.indices, np.argsort(-(queries @ atoms.T), axis=1)[:, :5])
    assert (result.delta_spent == 0).all()
    assert (result.n_multiplies <= 15 * 401).all()


def test_rounding_does_not_put_the_norm_bound_below_a_score():
    # Both atoms have the same score; the first is parallel to the query, so that its bound is that very score.
    rng = np.random.default_rng(4)
    for _ in range(50):
        query = np.append(rng.normal(size=7), 0.0)
        atoms = np.vstack([0.3 * query, 0.3 * query])
        atoms[1, 7] = 5.0
        result = H2ALSH().fit(atoms).search(query)
        assert result.indices.tolist() == [0]


def test_accuracy_falls_with_the_candidates_and_small_delta_makes_it_certain():
    rng = np.random.default_rng(5)
    atoms, queries = rng.normal(size=(600, 40)), rng.normal(size=(40, 40))
    atoms /= np.linalg.norm(atoms, axis=1, keepdims=True)
    best = np.argmax(queries @ atoms.T, axis=1)

    def accuracy(**settings):
        result = H2ALSH(scan_limit=0, **settings).fit(atoms).search(queries)
        return float(np.mean(result.indices[:, 0] == best))

    reached = [accuracy(n_candidates=m, delta=0.01) for m in (600, 100, 30, 3)]
    assert reached == sorted(reached, reverse=True)
    assert reached[0] == 1.0
    assert reached[-1] < 0.8


def test_an_atom_is_missed_no_more_often_than_delta():
    # All candidates allowed: only the collision threshold can lose the best atom of a later subset.
    rng = np.random.default_rng(6)
    atoms = rng.normal(size=(200, 10))
    atoms[100:] *= 0.7
    missed = trials = 0
    for seed in range(40):
        index = H2ALSH(scan_limit=0, n_candidates=200, delta=0.2, c0=1.5, seed=seed).fit(atoms)
        queries = rng.normal(size=(10, 10))
        best = np.argmax(queries @ atoms.T, axis=1)
        missed += int((index.search(queries).indices[:, 0] != best).sum())
        trials += 10
    assert missed <= 0.2 * trials


def test_scale_moves_the_radii_by_whole_steps():
    rng = np.random.default_rng(7)
    atoms, queries = rng.normal(size=(300, 10)), rng.normal(size=(10, 10))
    index = H2ALSH(scan_limit=0, c0=2.0, n_candidates=10)
    once = index.fit(atoms).search(queries, k=3)
    scaled = index.fit(atoms * 2.0**10).search(queries * 2.0**-3, k=3)
    np.testing.assert_array_equal(once.indices, scaled.indices)
    np.testing.assert_array_equal(once.n_multiplies, scaled.n_multiplies)


def test_all_inner_products_negative():
    rng = np.random.default_rng(8)
    atoms = -np.abs(rng.normal(size=(300, 6)))
    query = np.abs(rng.normal(size=6))
    result = H2ALSH(scan_limit=0, n_candidates=300, delta=1e-6).fit(atoms).search(query, k=4)
    np.testing.assert_array_equal(result.indices, np.argsort(-(atoms @ query))[:4])


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"c0": 1.0}, ValueError, "c0 must be above 1, but came as 1.0"),
        ({"c": 1.0}, ValueError, "c must be below 1, but came as 1.0"),
        ({"c": 0.0}, ValueError, "c must be above 0"),
        ({"delta": 1.0}, ValueError, "delta must be below 1"),
        ({"n_candidates": 0}, ValueError, "n_candidates must be at least 1"),
        ({"scan_limit": -1}, ValueError, "scan_limit must be at least 0"),
        ({"c0": "2"}, TypeError, "c0 must be a real number"),
    ],
)
def test_bad_parameters_are_named(arguments, error, message):
    with pytest.raises(error, match=message):
        H2ALSH(**arguments)
