"""NEQ-MIPS: codebooks for norms and directions, and what a query costs."""

from __future__ import annotations

import numpy as np
import pytest

from banditmips.baselines.neq import NEQMIPS

METHODS = ["rq", "pq"]


def data(n: int = 300, d: int = 24, n_queries: int = 50, seed: int = 0):
    random = np.random.default_rng(seed)
    norms = random.lognormal(0.0, 0.5, size=(n, 1))
    atoms = norms * random.normal(size=(n, d)) / np.sqrt(d)
    return atoms, random.normal(size=(n_queries, d))


def true_best(atoms, query, k):
    scores = atoms.astype(np.float64) @ query
    return np.lexsort((np.arange(scores.size), -scores))[:k]


def recall(index, atoms, queries, k):
    result = index.search(queries, k)
    return np.mean(
        [np.isin(true_best(atoms, q, k), row).mean() for q, row in zip(queries, result.indices, strict=True)]
    )


def estimates(index, query):
    return index._norms * index._quantiser.look_up(index._quantiser.tables(query))


class CountedNEQ:
    """The search of a fitted NEQMIPS in plain Python: one call of `multiply` for each product."""

    def __init__(self, fitted: NEQMIPS) -> None:
        self.fitted = fitted
        self.products = 0

    def multiply(self, left: float, right: float) -> float:
        self.products += 1
        return left * right

    def inner_product(self, left, right) -> float:
        return sum(self.multiply(float(a), float(b)) for a, b in zip(left, right, strict=True))

    def search(self, query, k):
        fitted = self.fitted
        tables, start = [], 0
        for book in fitted._quantiser.books:
            width = book.shape[1]
            tables.append([self.inner_product(word, query[start : start + width]) for word in book])
            if fitted.method == "pq":
                start += width
        estimate = {}
        for i, codes in enumerate(fitted._quantiser.codes):
            direction = sum(table[code] for table, code in zip(tables, codes, strict=True))
            estimate[i] = self.multiply(fitted._norms[i], direction)
        best = sorted(estimate, key=lambda i: (-estimate[i], i))[: max(fitted.rerank, k)]
        scores = {i: self.inner_product(fitted._atoms[i], query) for i in best}
        return sorted(scores, key=lambda i: (-scores[i], i))[:k]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(("codebooks", "codewords", "rerank", "k"), [(3, 5, 4, 2), (1, 1, 1, 3), (20, 2, 9, 1)])
def test_counts_what_a_counting_version_counts(method, codebooks, codewords, rerank, k):
    atoms, queries = data(n=40, d=10, n_queries=4)
    index = NEQMIPS(codebooks=codebooks, codewords=codewords, method=method, rerank=rerank).fit(atoms)
    for query in queries:
        slow = CountedNEQ(index)
        expected = slow.search(query, k)
        result = index.search(query, k)
        assert result.indices.tolist() == expected
        assert result.n_multiplies == slow.products


def test_the_formula_of_the_count():
    atoms, queries = data(n=100, d=24)
    residual = NEQMIPS(codebooks=4, codewords=20, rerank=7).fit(atoms).search(queries[0])
    product = NEQMIPS(codebooks=4, codewords=20, rerank=7, method="pq").fit(atoms).search(queries[0])
    assert residual.n_multiplies == 4 * 20 * 24 + 100 + 7 * 24
    assert product.n_multiplies == 20 * 24 + 100 + 7 * 24


@pytest.mark.parametrize("method", METHODS)
def test_reranking_everyone_is_exact(method):
    atoms, queries = data()
    result = NEQMIPS(codebooks=2, codewords=4, method=method, rerank=len(atoms)).fit(atoms).search(queries, 5)
    np.testing.assert_array_equal(result.indices, [true_best(atoms, q, 5) for q in queries])


@pytest.mark.parametrize("method", METHODS)
def test_accuracy_falls_with_rerank(method):
    atoms, queries = data(n_queries=100)
    recalls = [
        recall(NEQMIPS(codebooks=4, codewords=8, method=method, rerank=rerank).fit(atoms), atoms, queries, 1)
        for rerank in (300, 50, 10, 3, 1)
    ]
    # The candidates of a smaller rerank are among those of a larger one: there is no noise here.
    assert recalls[0] == 1.0
    assert np.all(np.diff(recalls) <= 0.0), recalls
    assert recalls[-1] < 0.9


@pytest.mark.parametrize("method", METHODS)
def test_more_codebooks_and_codewords_estimate_better(method):
    atoms, queries = data()
    truth = atoms @ queries[0]

    def error(codebooks, codewords):
        index = NEQMIPS(codebooks=codebooks, codewords=codewords, method=method).fit(atoms)
        return np.sqrt(np.mean((estimates(index, queries[0]) - truth) ** 2))

    assert error(8, 16) < 0.9 * error(2, 16)
    assert error(4, 64) < 0.9 * error(4, 4)


@pytest.mark.parametrize("method", METHODS)
def test_as_many_codewords_as_atoms_reproduce_them(method):
    atoms, queries = data(n=30, n_queries=10)
    index = NEQMIPS(codebooks=2, codewords=500, method=method, rerank=1).fit(atoms)
    for query in queries:
        np.testing.assert_allclose(estimates(index, query), atoms @ query, rtol=1e-4, atol=1e-5)
    assert recall(index, atoms, queries, 1) == 1.0


@pytest.mark.parametrize("method", METHODS)
def test_norms_have_codebooks_of_their_own(method):
    """Two codebooks are too few for the directions, yet every atom nearly keeps its norm."""
    atoms, _ = data()
    atoms = np.abs(atoms)
    index = NEQMIPS(codebooks=2, codewords=32, method=method).fit(atoms)
    kept = index._norms * index._quantiser.lengths()
    norms = np.linalg.norm(atoms, axis=1)
    # 32 scalar codewords for norms that spread over two decades: a few per cent at worst.
    assert np.quantile(np.abs(kept / norms - 1.0), 0.9) < 0.1
    assert np.unique(index._norms).size <= 32
    finer = NEQMIPS(codebooks=2, codewords=32, method=method, norm_codebooks=2).fit(atoms)
    finer_error = np.abs(finer._norms * finer._quantiser.lengths() - norms)
    assert finer_error.mean() < 0.2 * np.abs(kept - norms).mean()


def test_each_residual_codebook_takes_away_from_what_is_left_of_the_directions():
    atoms, _ = data()
    quantiser = NEQMIPS(codebooks=6, codewords=16).fit(atoms)._quantiser
    rest = atoms / np.linalg.norm(atoms, axis=1, keepdims=True)
    left = []
    for book, codes in zip(quantiser.books, quantiser.codes.T, strict=True):
        rest = rest - book[codes]
        left.append(np.mean(rest**2))
    assert np.all(np.diff(left) < 0.0)
    assert left[-1] < 0.5 * left[0]


def test_codewords_of_the_shares_of_the_coordinates():
    atoms, _ = data(d=10)
    index = NEQMIPS(codebooks=4, codewords=6, method="pq").fit(atoms)
    assert [book.shape for book in index._quantiser.books] == [(6, 3), (6, 3), (6, 2), (6, 2)]
    assert len(NEQMIPS(codebooks=99, method="pq").fit(atoms)._quantiser.books) == 10


@pytest.mark.parametrize("method", METHODS)
def test_one_atom(method):
    result = NEQMIPS(method=method).fit([[1.0, -2.0]]).search([3.0, 1.0], k=2)
    assert result.indices.tolist() == [0, -1]
    assert result.scores.tolist() == [1.0, -np.inf]


@pytest.mark.parametrize("method", METHODS)
def test_zero_atoms_keep_a_norm_of_zero(method):
    atoms, queries = data(n=60)
    atoms[::3] = 0.0
    index = NEQMIPS(method=method, codewords=40).fit(atoms)
    np.testing.assert_allclose(estimates(index, queries[0])[::3], 0.0, atol=1e-3)
    everything_zero = NEQMIPS(method=method).fit(np.zeros((4, 3))).search(np.ones(3), k=3)
    assert everything_zero.indices.tolist() == [0, 1, 2]
    assert everything_zero.scores.tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize("method", METHODS)
def test_opposite_directions_in_one_codeword(method):
    """Their codeword is the zero vector: no norm can make up for that, and nothing is divided by it."""
    atoms = np.array([[1.0, 1.0], [-1.0, -1.0]])
    result = NEQMIPS(codebooks=1, codewords=1, method=method, rerank=2).fit(atoms).search([1.0, 0.0])
    assert result.indices.tolist() == [0]


@pytest.mark.parametrize("method", METHODS)
def test_equal_atoms_are_ranked_by_index(method):
    result = NEQMIPS(method=method, codewords=4, rerank=3).fit(np.ones((9, 4))).search(np.ones(4), k=5)
    assert result.indices.tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int8, np.bool_])
def test_dtypes_agree_on_the_same_numbers(dtype):
    atoms = np.random.default_rng(4).integers(0, 2, size=(80, 12)).astype(dtype)
    query = np.random.default_rng(5).normal(size=12)
    reference = NEQMIPS().fit(atoms.astype(np.float64)).search(query, 3)
    result = NEQMIPS().fit(atoms).search(query, 3)
    np.testing.assert_array_equal(result.indices, reference.indices)
    assert result.n_multiplies == reference.n_multiplies


def test_seed_decides_the_codebooks():
    atoms, queries = data()
    first, again, other = (NEQMIPS(seed=seed).fit(atoms) for seed in (0, 0, 1))
    np.testing.assert_array_equal(estimates(first, queries[0]), estimates(again, queries[0]))
    assert not np.array_equal(estimates(first, queries[0]), estimates(other, queries[0]))


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"codebooks": 0}, ValueError, "codebooks must be at least 1, but came as 0"),
        ({"codewords": 2.0}, TypeError, "codewords must be an integer"),
        ({"method": "aq"}, ValueError, "method must be one of rq, pq, but came as 'aq'"),
        ({"norm_codebooks": 0}, ValueError, "norm_codebooks must be at least 1"),
        ({"rerank": 0}, ValueError, "rerank must be at least 1"),
    ],
)
def test_bad_parameters_are_named(arguments, error, message):
    with pytest.raises(error, match=message):
        NEQMIPS(**arguments)
