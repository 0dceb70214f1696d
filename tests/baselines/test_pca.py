"""PCA-MIPS: the mapping, the components, the tree, and what a query costs."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.decomposition import PCA

from banditmips.baselines import pca
from banditmips.baselines.pca import PCAMIPS


def data(n: int = 200, d: int = 30, n_queries: int = 40, seed: int = 0):
    random = np.random.default_rng(seed)
    factors = random.normal(size=(6, d))
    atoms = random.normal(size=(n, 6)) @ factors + 0.3 * random.normal(size=(n, d))
    queries = random.normal(size=(n_queries, 6)) @ factors
    return atoms, queries


def true_best(atoms, query, k):
    scores = atoms.astype(np.float64) @ query
    return np.lexsort((np.arange(scores.size), -scores))[:k]


def recall(index, atoms, queries, k):
    result = index.search(queries, k)
    return np.mean(
        [np.isin(true_best(atoms, q, k), row).mean() for q, row in zip(queries, result.indices, strict=True)]
    )


class CountedPCA:
    """The search of a fitted PCAMIPS in plain Python: one call of `multiply` for each product."""

    def __init__(self, fitted: PCAMIPS) -> None:
        self.fitted = fitted
        self.products = 0

    def multiply(self, left: float, right: float) -> float:
        self.products += 1
        return left * right

    def inner_product(self, left, right) -> float:
        return sum(self.multiply(float(a), float(b)) for a, b in zip(left, right, strict=True))

    def leaves(self, node, turns=()):
        """Every leaf with the turns that lead to it."""
        if isinstance(node, pca._Leaf):
            return [(turns, node)]
        return self.leaves(node.below, (*turns, False)) + self.leaves(node.above, (*turns, True))

    def search(self, query, k):
        position = [
            self.inner_product(direction, query) - offset
            for direction, offset in zip(self.fitted._directions, self.fitted._offsets, strict=True)
        ]
        node, own = self.fitted._tree, []
        while isinstance(node, pca._Split):
            own.append(bool(position[len(own)] > node.threshold))
            node = node.above if own[-1] else node.below
        radius = 1 if self.fitted.boost else 0
        candidates = [
            member
            for turns, leaf in self.leaves(self.fitted._tree)
            if sum(a != b for a, b in zip(turns, own, strict=True)) <= radius
            for member in leaf.members
        ]
        scores = {i: self.inner_product(self.fitted._atoms[i], query) for i in candidates}
        return sorted(scores, key=lambda i: (-scores[i], i))[:k]


@pytest.mark.parametrize("boost", [True, False])
@pytest.mark.parametrize("depth", [0, 1, 3, 5])
def test_counts_what_a_counting_version_counts(depth, boost):
    atoms, queries = data(n=64, d=7, n_queries=5)
    index = PCAMIPS(depth=depth, boost=boost).fit(atoms)
    for query in queries:
        slow = CountedPCA(index)
        expected = slow.search(query, 3)
        result = index.search(query, 3)
        found = result.indices[result.indices >= 0].tolist()
        assert found == expected
        assert result.n_multiplies == slow.products


def test_depth_zero_is_exact_and_costs_the_full_product():
    atoms, queries = data()
    result = PCAMIPS(depth=0).fit(atoms).search(queries, 5)
    np.testing.assert_array_equal(result.indices, [true_best(atoms, q, 5) for q in queries])
    assert (result.n_multiplies == atoms.size).all()


@pytest.mark.parametrize("boost", [True, False])
def test_accuracy_and_work_fall_with_depth(boost):
    atoms, queries = data(n=512, n_queries=100)
    indexes = [PCAMIPS(depth=depth, boost=boost).fit(atoms) for depth in (0, 1, 2, 4, 6)]
    recalls = [recall(index, atoms, queries, 5) for index in indexes]
    candidates = [index.search(queries).n_survivors.mean() for index in indexes]
    assert recalls[0] == 1.0
    assert np.all(np.diff(recalls) <= 0.03), recalls
    assert recalls[-1] < 0.9
    # Half of the atoms are one comparison away from any query: depth 1 with boost still visits both leaves.
    assert np.all(np.diff(candidates) <= 0.0)
    assert candidates[-1] < 0.2 * candidates[0]


def test_boost_visits_more_and_finds_more():
    atoms, queries = data(n=512, n_queries=100)
    plain, boosted = (PCAMIPS(depth=4, boost=boost).fit(atoms) for boost in (False, True))
    assert recall(boosted, atoms, queries, 5) > recall(plain, atoms, queries, 5) + 0.1
    np.testing.assert_array_equal(plain.search(queries).n_survivors, 512 // 16)
    np.testing.assert_array_equal(boosted.search(queries).n_survivors, 5 * 512 // 16)


def test_mapping_turns_largest_inner_product_into_nearest_neighbour():
    atoms, queries = data()
    mapped = pca._same_norm(atoms)
    np.testing.assert_allclose(np.linalg.norm(mapped, axis=1), np.linalg.norm(atoms, axis=1).max())
    for query in queries:
        gaps = np.linalg.norm(mapped - np.concatenate([[0.0], query]), axis=1)
        assert np.argmin(gaps) == np.argmax(atoms @ query)


@pytest.mark.parametrize("shape", [(40, 200), (200, 40), (50, 50)])
def test_components_are_those_of_scikit_learn(shape):
    rows = np.random.default_rng(1).normal(size=shape) * np.linspace(3.0, 0.1, shape[1])
    ours = pca._principal_components(rows - rows.mean(axis=0), 4)
    theirs = PCA(n_components=4, svd_solver="full").fit(rows).components_
    np.testing.assert_allclose(np.abs(np.sum(ours * theirs, axis=1)), 1.0, atol=1e-8)
    np.testing.assert_allclose(ours @ ours.T, np.eye(4), atol=1e-10)


def test_a_hundred_thousand_coordinates():
    random = np.random.default_rng(2)
    atoms = random.normal(size=(20, 100_000)).astype(np.float32)
    result = PCAMIPS(depth=2).fit(atoms).search(atoms[4])
    assert result.indices[0] == 4
    assert result.n_multiplies == (2 + 15) * 100_000


@pytest.mark.parametrize("depth", [0, 1, 4, 50])
def test_one_atom(depth):
    result = PCAMIPS(depth=depth).fit([[1.0, -2.0]]).search([3.0, 1.0], k=2)
    assert result.indices.tolist() == [0, -1]
    assert result.scores.tolist() == [1.0, -np.inf]
    assert result.n_multiplies == 2


def test_equal_atoms_stay_together_and_are_ranked_by_index():
    result = PCAMIPS(depth=3).fit(np.ones((9, 4))).search(np.ones(4), k=4)
    assert result.indices.tolist() == [0, 1, 2, 3]


def test_zero_atoms_are_found_when_they_are_best():
    atoms = np.concatenate([np.zeros((5, 3)), -np.ones((5, 3))])
    result = PCAMIPS(depth=2).fit(atoms).search(np.ones(3), k=2)
    assert result.indices.tolist() == [0, 1]
    assert result.scores.tolist() == [0.0, 0.0]


def test_no_leaf_is_empty_whatever_the_ties():
    atoms = np.random.default_rng(3).integers(0, 2, size=(100, 3))
    index = PCAMIPS(depth=10).fit(atoms)
    leaves = [leaf.members for _, leaf in CountedPCA(index).leaves(index._tree)]
    assert min(leaf.size for leaf in leaves) > 0
    np.testing.assert_array_equal(np.sort(np.concatenate(leaves)), np.arange(100))


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int8, np.uint8, np.bool_])
def test_dtypes_agree_on_the_same_numbers(dtype):
    atoms = np.random.default_rng(4).integers(0, 2, size=(80, 12)).astype(dtype)
    query = np.random.default_rng(5).normal(size=12)
    reference = PCAMIPS(depth=2).fit(atoms.astype(np.float64)).search(query, 3)
    result = PCAMIPS(depth=2).fit(atoms).search(query, 3)
    np.testing.assert_array_equal(result.indices, reference.indices)
    assert result.n_multiplies == reference.n_multiplies


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"depth": -1}, ValueError, "depth must be at least 0, but came as -1"),
        ({"depth": 1.5}, TypeError, "depth must be an integer"),
        ({"boost": 1}, TypeError, "boost must be True or False, but came as 1"),
    ],
)
def test_bad_parameters_are_named(arguments, error, message):
    with pytest.raises(error, match=message):
        PCAMIPS(**arguments)
