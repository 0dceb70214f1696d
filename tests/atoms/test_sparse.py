"""Sparse atoms: stored entries are what is counted, and nothing is made dense."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
import scipy.sparse

import banditmips as bm
from banditmips.core.numbers import permuted_coordinates
from banditmips.race import situation

FORMS = {"csr": scipy.sparse.csr_array, "csc": scipy.sparse.csc_array}
every_form = pytest.mark.parametrize("form", FORMS.values(), ids=FORMS.keys())


def planted(n=30, d=3000, density=0.5, seed=0):
    """Return sparse atoms whose scores differ, and a query without zeros."""
    rng = np.random.default_rng(seed)
    means = rng.permutation(np.linspace(1.0, 9.0, n))[:, np.newaxis]
    atoms = np.where(rng.random((n, d)) < density, means + 0.3 * rng.normal(size=(n, d)), 0.0)
    return atoms, 1.0 + 0.2 * rng.normal(size=d)


def tf_idf_like(n, d, per_row, seed=0):
    rng = np.random.default_rng(seed)
    columns = np.sort(rng.integers(0, d, (n, per_row)), axis=1).astype(np.int32)
    values = rng.gamma(1.0, size=(n, per_row))
    matrix = scipy.sparse.csr_array((values.ravel(), columns.ravel(), np.arange(0, n * per_row + 1, per_row)), (n, d))
    matrix.sum_duplicates()
    return matrix, rng.normal(size=d)


@every_form
def test_exact_scores_cost_the_stored_entries(form):
    atoms, query = planted()
    query[::3] = 0.0
    matrix = form(atoms)
    result = bm.search(matrix, query, 2, delta=0.0)
    assert result.n_multiplies == np.count_nonzero(atoms * query)
    np.testing.assert_array_equal(result.indices, np.argsort(-(atoms @ query))[:2])
    some = np.isin(np.arange(30), [3, 4, 5])
    assert bm.search(matrix, query, 2, delta=0.0, mask=some).n_multiplies == np.count_nonzero(atoms[~some] * query)


@every_form
def test_rounds_cost_the_stored_entries_of_their_columns(form):
    atoms, query = planted()
    options = {"sampling": "uniform", "rescore": False, "trace": True, "delta": 1e-300}  # drops nobody
    result = bm.search(form(atoms), query, budget=2000, **options)
    n_sampled = result.trace.rounds[-1].n_coordinates
    assert result.n_survivors == 30
    columns = permuted_coordinates(0, 3000, 0, n_sampled)
    assert result.n_multiplies == np.count_nonzero(atoms[:, columns]) <= 2000


@pytest.mark.parametrize("form", [scipy.sparse.csc_array, np.asfortranarray])
def test_steep_weights_do_not_hide_what_decides(form):
    """Small counts and weights |q|^6: what a sample never saw decided 6 of these searches, before."""
    n_sampled = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        density = rng.choice([0.01, 0.05, 0.2, 0.5])
        atoms = (rng.integers(0, 3, size=(31, 308)) * (rng.random((31, 308)) < density)).astype(np.int32)
        query = 3 * rng.normal(size=308)
        scores = atoms @ query
        for k in (1, 3):
            found = bm.search(form(atoms), query, k, delta=1e-12, beta=3.0, seed=seed, minimise="multiplies")
            np.testing.assert_allclose(found.scores, np.sort(scores)[::-1][:k], atol=1e-9)
            n_sampled += found.delta_spent > 0.0
    assert n_sampled >= 10


@pytest.mark.parametrize("seed", [127, 233])
def test_heavy_tails_of_atoms_and_query_lead_to_the_full_product(seed):
    """One large term that is certain to be seen, and weights, made a calm sample of what one entry decides."""
    rng = np.random.default_rng(seed)
    density = rng.choice([0.01, 0.05, 0.2])
    atoms = np.round(5.0 * rng.standard_cauchy((31, 308))) * (rng.random((31, 308)) < density)
    query = rng.standard_cauchy(308)
    found = bm.search(scipy.sparse.csc_array(atoms), query, delta=1e-12, seed=seed, minimise="multiplies")
    assert found.indices[0] == np.argmax(atoms @ query)


@pytest.mark.parametrize("form", ["csr", "csc", "coo"])
@pytest.mark.parametrize(
    "options", [{}, {"minimise": "multiplies"}, {"objective": "neg_l1"}, {"layout": "none"}], ids=str
)
def test_entries_of_more_than_double_precision(form, options):
    atoms = planted(n=10, d=400)[0].astype(np.longdouble)
    query = np.random.default_rng(0).normal(size=400)
    truth = -np.abs(atoms - query).sum(axis=1) if "objective" in options else atoms @ query
    found = bm.BanditMIPS(delta=1e-9, **options).fit(scipy.sparse.csr_array(atoms).asformat(form)).search(query, 3)
    np.testing.assert_array_equal(found.indices, np.argsort(-truth)[:3])
    assert found.scores.dtype == np.float64


@pytest.mark.parametrize("dtype", [np.float16, ">f8", ">i4"])
def test_entries_that_scipy_does_not_know(dtype):
    atoms = np.round(planted(n=10, d=400)[0])
    plain = scipy.sparse.csr_array(atoms)
    matrix = scipy.sparse.csr_array((plain.data.astype(dtype), plain.indices, plain.indptr), plain.shape)
    query = np.random.default_rng(0).normal(size=400)
    for found in (bm.search(matrix, query, 3), bm.BanditMIPS().fit(matrix).search(query, 3)):
        np.testing.assert_array_equal(found.indices, np.argsort(-(atoms @ query))[:3])
    assert matrix.dtype == dtype


def test_a_finish_counts_what_the_rounds_have_not_seen():
    rng = np.random.default_rng(0)
    atoms = np.where(rng.random((10, 400)) < 0.3, rng.normal(size=(10, 400)), 0.0)
    result = bm.search(scipy.sparse.csc_array(atoms), np.ones(400), rescore=False, delta=1e-9)
    assert result.stop_reason is bm.StopReason.FINISHED_EXACTLY
    assert result.n_multiplies <= np.count_nonzero(atoms)


@every_form
@pytest.mark.parametrize("options", [{}, {"rescore": False}, {"sampling": "uniform"}, {"absolute": True}])
@pytest.mark.parametrize("layout", ["none", "full"])
def test_sparse_finds_what_dense_finds(form, options, layout):
    atoms, query = planted()
    truth = np.argsort(-(atoms @ query))[:3]
    np.testing.assert_array_equal(bm.search(form(atoms), query, 3, delta=1e-6, **options).indices, truth)
    index = bm.BanditMIPS(layout=layout, delta=1e-6, **options).fit(form(atoms))
    result = index.search(query, 3)
    np.testing.assert_array_equal(result.indices, truth)
    assert result.n_multiplies <= np.count_nonzero(atoms) + 3 * 3000


def test_the_planner_takes_the_product_where_a_race_cannot_pay():
    matrix, query = tf_idf_like(500, 40_000, 20)
    by_row = bm.search(matrix, query, trace=True)
    assert "the matrix is stored by row" in by_row.trace.plan
    by_column = bm.search(matrix.tocsc(), query, trace=True)
    assert "atoms have 20 stored entries on average; from 100,000 on a race is faster" in by_column.trace.plan
    for result in (by_row, by_column):
        assert (result.n_rounds, result.n_multiplies) == (0, matrix.nnz)
        assert result.indices[0] == (matrix @ query).argmax()
    text = bm.BanditMIPS().fit(matrix).explain(query)
    assert "way: all products, because the matrix is stored by row" in text


def test_the_planner_races_where_columns_are_at_hand_and_rows_are_long(monkeypatch):
    monkeypatch.setattr(situation, "_SPARSE_RACE", 1000)
    atoms, query = planted()
    result = bm.BanditMIPS(layout="full").fit(scipy.sparse.csr_array(atoms)).search(query, trace=True)
    assert result.n_rounds > 0
    assert result.n_multiplies < np.count_nonzero(atoms) / 2
    assert "sampled uniformly" in result.trace.plan  # the query is even


@every_form
def test_memory_stays_near_that_of_the_matrix(form):
    matrix, query = tf_idf_like(20_000, 40_000, 100)
    matrix = form(matrix)
    size = sum(part.nbytes for part in (matrix.data, matrix.indices, matrix.indptr))
    bm.BanditMIPS().fit(matrix[:50]).search(query)  # compiles
    bm.search(matrix[:50], query)
    tracemalloc.start()
    try:
        found = bm.search(matrix, query)
        index = bm.BanditMIPS().fit(matrix)
        fitted = index.search(query)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    truth = (matrix @ query).argmax()
    assert found.indices[0] == fitted.indices[0] == truth
    assert peak < 0.2 * size  # the matrix itself was there before
    assert index.extra_bytes < 0.1 * size


def test_a_copy_by_column_has_to_be_allowed():
    matrix, _ = tf_idf_like(200, 3000, 50)
    assert bm.BanditMIPS().fit(matrix)._fitted.store.by_column is None
    assert bm.BanditMIPS(max_extra_memory=10**6).fit(matrix)._fitted.store.by_column is not None
    assert bm.BanditMIPS(max_extra_memory=10**4).fit(matrix)._fitted.store.by_column is None
    with pytest.raises(ValueError, match=r"layout='full' needs \d+ bytes, but max_extra_memory allows 10000"):
        bm.BanditMIPS(layout="full", max_extra_memory=10**4).fit(matrix)
    with pytest.raises(ValueError, match="a sparse matrix takes 'full' or 'none'"):
        bm.BanditMIPS(layout="coordinates").fit(matrix)


@every_form
def test_a_nan_is_named_by_its_place(form):
    matrix, _ = tf_idf_like(50, 300, 10)
    dense = matrix.toarray()
    dense[31, 77] = np.nan
    with pytest.raises(ValueError, match=r"atoms has nan at row 31, column 77 \(argument 'atoms'\)"):
        bm.BanditMIPS().fit(form(dense))
    with pytest.raises(ValueError, match=r"atoms has nan at row 31, column 77 \(argument 'atoms'\)"):
        bm.search(form(dense), np.ones(300))
