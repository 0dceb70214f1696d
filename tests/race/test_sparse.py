"""Queries to a sparse matrix by its products: right for every kind of matrix, together as alone, counted when asked."""

import pickle

import numpy as np
import pytest
import scipy.sparse

import banditmips as bm
from banditmips.core.sparse_batch import WIDTH

N, D = 60, 400
FORMS = ["csr", "csc", "both"]


def whole_numbers(dtype=np.float32, seed=0):
    """Sparse whole numbers, with which every order of a sum gives the same; some rows and columns are empty."""
    rng = np.random.default_rng(seed)
    atoms = np.where(rng.random((N, D)) < 0.15, rng.integers(0, 6, (N, D)), 0)
    atoms[[0, 7]] = 0
    atoms[:, 100:110] = 0
    return atoms.astype(dtype)


def some_queries(m, density, seed=1):
    rng = np.random.default_rng(seed)
    return np.where(rng.random((m, D)) < density, rng.integers(-3, 4, (m, D)), 0).astype(float)


def shuffled(matrix, index_dtype):
    """The same matrix, with entries in several parts and in no order."""
    rng = np.random.default_rng(5)
    n_majors = matrix.indptr.size - 1
    majors = np.repeat(np.arange(n_majors), np.diff(matrix.indptr))
    extra = rng.integers(0, matrix.nnz, 40)
    majors, places = np.append(majors, majors[extra]), np.append(matrix.indices, matrix.indices[extra])
    values = np.append(matrix.data, np.ones(40, dtype=matrix.dtype))
    np.subtract.at(values, extra, 1)
    order = np.lexsort((rng.random(majors.size), majors))
    made = type(matrix)(matrix.shape, dtype=matrix.dtype)
    made.data, made.indices = values[order], places[order].astype(index_dtype)
    made.indptr = np.searchsorted(majors[order], np.arange(n_majors + 1)).astype(index_dtype)
    np.testing.assert_array_equal(made.toarray(), matrix.toarray())
    return made


def ways(matrix, **options):
    """Search without an index, with one, and with one that keeps rows and columns."""
    yield lambda queries, k, **more: bm.search(matrix, queries, k, **options, **more)
    yield bm.BanditMIPS(**options).fit(matrix).search
    yield bm.BanditMIPS(layout="full", **options).fit(matrix).search


def assert_best(result, scores, k, absolute=False):
    """Compare with all scores, one row for each query."""
    for indices, found, of_query in zip(
        np.atleast_2d(result.indices), np.atleast_2d(result.scores), np.atleast_2d(scores), strict=True
    ):
        ranked = np.abs(of_query) if absolute else of_query
        best = np.lexsort((np.arange(of_query.size), -ranked))[:k]
        best = best[ranked[best] > -np.inf]
        np.testing.assert_array_equal(indices[: best.size], best)
        np.testing.assert_array_equal(found[: best.size], of_query[best])
        np.testing.assert_array_equal(indices[best.size :], -1)
        np.testing.assert_array_equal(found[best.size :], -np.inf)


@pytest.mark.parametrize("form", ["csr", "csc"])
@pytest.mark.parametrize("index_dtype", [np.int32, np.int64])
@pytest.mark.parametrize("dtype", ["f4", "f8", "?", "i1", "u2", "i8"])
def test_every_kind_of_matrix(form, index_dtype, dtype):
    atoms = whole_numbers(dtype)
    matrix = scipy.sparse.csr_array(atoms).asformat(form)
    if dtype != "?":
        matrix = shuffled(matrix, index_dtype)
    queries = np.vstack([some_queries(2, 0.02), some_queries(WIDTH + 3, 1.0) + 5.0, some_queries(3, 0.5)])
    scores = queries @ atoms.T.astype(float)
    for find in ways(matrix):
        assert_best(find(queries, 3), scores, 3)
        assert_best(find(queries[0], 3), scores[0], 3)
        assert_best(find(queries[4], 3), scores[4], 3)


@pytest.mark.parametrize("form", ["csr", "csc"])
@pytest.mark.parametrize("k", [1, 2, 25, 60, 70])
@pytest.mark.parametrize("absolute", [False, True])
def test_k_signs_and_masks(form, k, absolute):
    atoms = whole_numbers()
    matrix = scipy.sparse.csr_array(atoms).asformat(form)
    queries = np.vstack([some_queries(3, 0.02), some_queries(8, 1.0), np.zeros((1, D))])
    masks = np.random.default_rng(3).random((12, N)) < 0.4
    masks[2] = True
    scores = queries @ atoms.T.astype(float)
    allowed = np.where(masks, np.nan, scores)
    for find in ways(matrix, absolute=absolute):
        assert_best(find(queries, k), scores, k, absolute)
        result = find(queries, k, mask=masks)
        for i, mask in enumerate(masks):
            rows = np.flatnonzero(~mask)
            of_query = scores[i, rows]
            best = np.lexsort((rows, -(np.abs(of_query) if absolute else of_query)))[:k]
            np.testing.assert_array_equal(result.indices[i, : best.size], rows[best])
            np.testing.assert_array_equal(result.scores[i, : best.size], allowed[i, rows[best]])
            np.testing.assert_array_equal(result.indices[i, best.size :], -1)
            alone = find(queries[i], k, mask=mask)
            np.testing.assert_array_equal(alone.indices, result.indices[i])
            assert alone.n_multiplies == result.n_multiplies[i] == np.count_nonzero(atoms[rows] * queries[i])
            assert alone.n_survivors == result.n_survivors[i] == rows.size
            assert alone.stop_reason is result.stop_reason[i]
        assert result.stop_reason[2] is bm.StopReason.EXHAUSTED
        assert result.stop_reason[3] is bm.StopReason.FINISHED_EXACTLY


@pytest.mark.parametrize("objective", ["cosine", "correlation", "neg_sqeuclidean", "neg_l1"])
@pytest.mark.parametrize("form", ["csr", "csc"])
def test_other_objectives(form, objective):
    atoms = whole_numbers(np.float64)
    matrix = shuffled(scipy.sparse.csr_array(atoms).asformat(form), np.int32)
    queries = some_queries(5, 0.3)
    for find in ways(matrix, objective=objective):
        found = find(queries, 4)
        dense = bm.search(atoms, queries, 4, objective=objective, delta=0.0)
        np.testing.assert_array_equal(found.indices, dense.indices)
        np.testing.assert_allclose(found.scores, dense.scores, rtol=1e-12)


@pytest.mark.parametrize("form", ["csr", "csc"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_query_alone_gives_what_it_gives_in_a_batch(form, dtype):
    """To the last bit, though a batch adds up in another order."""
    rng = np.random.default_rng(4)
    atoms = np.where(rng.random((N, D)) < 0.3, rng.normal(size=(N, D)), 0.0).astype(dtype)
    atoms[30:] = np.roll(atoms[:30], 1, axis=0)  # equal rows
    matrix = scipy.sparse.csr_array(atoms).asformat(form)
    queries = np.vstack([rng.normal(size=(2 * WIDTH + 5, D)), rng.normal(size=(6, D)) * (rng.random((6, D)) < 0.05)])
    for find in ways(matrix):
        batch = find(queries, 5)
        for n_jobs in (1, 2):
            again = find(queries, 5, n_jobs=n_jobs)
            np.testing.assert_array_equal(again.scores, batch.scores)
        single = find(queries.astype(np.float32), 5)
        np.testing.assert_array_equal(find(queries[1].astype(np.float32), 5).scores, single.scores[1])
        for i, query in enumerate(queries):
            alone = find(query, 5)
            np.testing.assert_array_equal(alone.indices, batch.indices[i])
            np.testing.assert_array_equal(alone.scores, batch.scores[i])
            assert alone.n_multiplies == batch.n_multiplies[i]


@pytest.mark.parametrize("form", ["csr", "csc"])
def test_multiplies_are_counted_when_asked_for(form):
    atoms = whole_numbers()
    matrix = scipy.sparse.csr_array(atoms).asformat(form)
    queries = some_queries(6, 0.4)
    truth = np.count_nonzero(atoms[np.newaxis] * queries[:, np.newaxis], axis=(1, 2))
    for find in ways(matrix):
        given = queries.copy()
        one, batch = find(given[0], 2), find(given, 2)
        saved = pickle.dumps(find(given[1], 2)), pickle.dumps(find(given, 2))
        given[...] = 1.0  # what was asked is what is counted
        assert one.n_multiplies == truth[0]
        np.testing.assert_array_equal(batch.n_multiplies, truth)
        assert batch[3].n_multiplies == truth[3]
        assert pickle.loads(saved[0]).n_multiplies == truth[1]
        np.testing.assert_array_equal(pickle.loads(saved[1]).n_multiplies, truth)
        assert "_count" not in one.__dict__
        assert one.share == truth[0] / (N * D)


def test_a_matrix_that_is_only_multiplied_is_not_copied_or_sorted():
    matrix = shuffled(scipy.sparse.csr_array(whole_numbers()), np.int32)
    before = matrix.data.copy(), matrix.indices.copy(), matrix.indptr.copy()
    bm.search(matrix, np.ones(D), 2)
    np.testing.assert_equal((matrix.data, matrix.indices, matrix.indptr), before)
    index = bm.BanditMIPS().fit(matrix)
    assert index._fitted.store.by_row is not matrix  # some entries are in two parts
    unsorted = index._fitted.store.by_row[:, ::-1]
    unsorted.indices = (D - 1 - unsorted.indices[::1]).astype(np.int32)
    unsorted.has_sorted_indices = unsorted.has_canonical_format = False
    assert bm.BanditMIPS().fit(unsorted)._fitted.store.by_row is unsorted


@pytest.mark.parametrize("form", ["csr", "csc"])
@pytest.mark.parametrize("place", [10**9, -1])
@pytest.mark.parametrize("m", [1, 40])
def test_a_place_outside_is_named(form, place, m):
    matrix = scipy.sparse.csr_array(whole_numbers()).asformat(form)
    matrix.indices[50] = place
    with pytest.raises(ValueError, match=rf"atoms\.indices must lie in 0\.\.\d+, got {place} at position 50"):
        bm.search(matrix, np.ones((m, D)))
    with pytest.raises(ValueError, match=rf"atoms\.indices must lie in 0\.\.\d+, got {place} at position 50"):
        bm.BanditMIPS(validate=False).fit(matrix)


@pytest.mark.parametrize("form", ["csr", "csc"])
@pytest.mark.parametrize("m", [1, 40])
def test_scores_that_are_not_finite_are_named(form, m):
    atoms = whole_numbers(np.float64)
    atoms[31, 77] = np.inf
    with pytest.raises(ValueError, match=r"atoms has inf at row 31, column 77"):
        bm.search(scipy.sparse.csr_array(atoms).asformat(form), np.ones((m, D)))
    atoms[31, 77] = 1e300
    with pytest.raises(ValueError, match="the score of atom 31 overflows"):
        bm.search(scipy.sparse.csr_array(atoms).asformat(form), np.full((m, D), 1e300))


@pytest.mark.parametrize("form", ["csr", "csc"])
def test_removed_atoms_take_no_part(form):
    atoms = whole_numbers()
    index = bm.BanditMIPS().fit(scipy.sparse.csr_array(atoms).asformat(form))
    queries = some_queries(WIDTH, 1.0)
    scores = queries @ atoms.T.astype(float)
    gone = np.unique(scores.argmax(axis=1))
    scores[:, gone] = -np.inf
    index.remove(gone)
    assert_best(index.search(queries, 3), scores, 3)
    assert_best(index.search(queries[0], N), scores[0], N)
