"""What a user can get wrong: each error names the argument, what was expected and what came."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
from dataclasses import asdict

import numpy as np
import pytest
import scipy.sparse

import banditmips as bm
from banditmips.atoms import DenseStore

N, D = 6, 40
RNG = np.random.default_rng(0)
ATOMS = RNG.normal(size=(N, D))
QUERY = RNG.normal(size=D)


def fitted(atoms, queries, k=1, *, mask=None, **options):
    return bm.BanditMIPS(**options).fit(atoms).search(queries, k, mask=mask)


def asked_of_an_index(atoms, queries, k=1, *, mask=None, **options):
    return bm.BanditMIPS().fit(atoms).search(queries, k, mask=mask, **options)


@pytest.fixture(params=[bm.search, fitted], ids=["search", "index"])
def find(request):
    return request.param


@pytest.fixture(params=[bm.search, fitted, asked_of_an_index], ids=["search", "index", "index.search"])
def find_with_options(request):
    return request.param


def assert_refused(error, parts, call, *arguments, **options):
    """Check that a call is refused with a message that holds all the parts."""
    with pytest.raises(error) as caught:
        call(*arguments, **options)
    for part in parts:
        assert part in str(caught.value)


def changed(array, row, column, value):
    copy = np.array(array)
    copy[row, column] = value
    return copy


# --- atoms ------------------------------------------------------------------------------------------------------------

BAD_ATOMS = {
    "no atoms": (np.empty((0, D)), ValueError, ["atoms", "empty", "(0, 40)"]),
    "no coordinates": (np.empty((N, 0)), ValueError, ["atoms", "empty", "(6, 0)"]),
    "one dimension": (ATOMS[0], ValueError, ["atoms", "matrix", "1 dimensions"]),
    "three dimensions": (ATOMS[np.newaxis], ValueError, ["atoms", "matrix", "3 dimensions", "(1, 6, 40)"]),
    "objects": (ATOMS.astype(object), TypeError, ["atoms", "real numbers", "object", "to_numpy"]),
    "complex": (ATOMS.astype(complex), TypeError, ["atoms", "real numbers", "complex128"]),
    "strings": (ATOMS.astype(str), TypeError, ["atoms", "real numbers", "<U"]),
    "dates": (np.zeros((N, D), dtype="M8[s]"), TypeError, ["atoms", "real numbers", "datetime64"]),
    "ragged lists": ([[1.0, 2.0], [3.0]], TypeError, ["atoms", "array", "its rows differ in length"]),
    "masked array": (np.ma.masked_less(ATOMS, 0), TypeError, ["atoms", "masked array", "filled"]),
    "nothing": (None, TypeError, ["atoms", "must be an array", "got None"]),
    "complex sparse": (scipy.sparse.csr_array(ATOMS * 1j), TypeError, ["atoms", "real numbers", "complex128"]),
    "empty sparse": (scipy.sparse.csr_array((0, D)), ValueError, ["atoms", "empty", "(0, 40)"]),
}


@pytest.mark.parametrize(("atoms", "error", "parts"), BAD_ATOMS.values(), ids=BAD_ATOMS.keys())
def test_atoms_that_are_no_matrix_of_numbers(find, atoms, error, parts):
    assert_refused(error, parts, find, atoms, QUERY)


@pytest.mark.parametrize("form", [np.asarray, np.asfortranarray, scipy.sparse.csr_array, np.float32])
@pytest.mark.parametrize(
    "options",
    [{}, {"delta": 0.0}, {"sampling": "uniform"}, {"objective": "cosine"}, {"objective": "neg_l1"}, {"delta": 1e-12}],
    ids=str,
)
def test_a_value_that_is_not_finite_is_named_by_row_and_column(find, form, options):
    """All coordinates get read here: the query is about noise, and at delta = 0 nothing is sampled."""
    for value in (np.nan, np.inf, -np.inf):
        atoms = form(changed(ATOMS, 4, 23, value))
        assert_refused(ValueError, ["atoms", f"{value} at row 4, column 23"], find, atoms, QUERY, **options)


def test_what_a_search_does_not_read_it_does_not_judge():
    noise = 0.1 * np.random.default_rng(0).normal(size=(N, 4000))
    atoms = changed(np.arange(N, dtype=float)[:, np.newaxis] + noise, 2, 77, np.nan)
    query = np.ones(4000)
    query[77] = 0.0
    result = bm.search(atoms, query, minimise="multiplies", rescore=False)
    assert result.indices[0] == N - 1
    assert result.checked is False
    with pytest.raises(ValueError, match="row 2, column 77"):
        bm.BanditMIPS().fit(atoms)


def test_a_search_without_an_index_says_that_it_did_not_check_all(tmp_path):
    path = tmp_path / "atoms.npy"
    np.save(path, ATOMS)
    for atoms in (ATOMS, ATOMS.tolist(), scipy.sparse.csr_array(ATOMS), path):
        for queries in (QUERY, ATOMS):
            for _ in range(2):  # the second time nothing is asked again
                assert bm.search(atoms, queries).checked is False
            assert bm.search(atoms, queries, objective="cosine").checked is True
    assert bm.BanditMIPS().fit(ATOMS).search(QUERY).checked is True


def test_an_index_that_was_told_not_to_look_does_not_judge():
    atoms = changed(ATOMS, 4, 23, np.nan)
    result = bm.BanditMIPS(validate=False).fit(atoms).search(QUERY, mask=np.arange(N) == 4)
    assert result.indices[0] == np.delete(atoms @ QUERY, 4).argmax()
    assert result.checked is False


def test_numbers_whose_squares_overflow(find):
    result = find(np.sign(ATOMS) * 1e200, np.sign(QUERY))
    assert result.indices[0] == (np.sign(ATOMS) @ np.sign(QUERY)).argmax()


def test_numbers_whose_products_overflow(find):
    assert_refused(ValueError, ["atoms", "overflow"], find, np.sign(ATOMS) * 1e308, np.sign(QUERY))


@pytest.mark.parametrize("form", [np.asarray, np.asfortranarray, scipy.sparse.csr_array, scipy.sparse.csc_array])
@pytest.mark.parametrize("options", [{"minimise": "multiplies"}, {"sampling": "uniform", "delta": 1e-12}], ids=str)
@pytest.mark.parametrize("absolute", [False, True])
def test_a_race_whose_estimates_overflow_ends_in_exact_scores_or_in_their_error(find, form, options, absolute):
    """It would go on with the atoms whose estimates are numbers, which are not the best."""
    rng = np.random.default_rng(0)
    for d in (16, 3_000):
        atoms, query = rng.normal(size=(20, d)), rng.normal(size=d)
        query *= 1e200
        atoms[7] *= 1e150
        parts = ["the score of atom 7 overflows double precision"]
        assert_refused(ValueError, parts, find, form(atoms), query, absolute=absolute, **options)
        # Here the sum is a number, and a sample of it times d over its size is none.
        atoms[7] = 1.0
        query = np.where(np.arange(d) % 2 == 0, 1.0, -1.0) * 1e305
        query[0] = 3e307
        found = find(form(atoms), query, absolute=absolute, **options)
        assert found.indices[0] == (np.abs(atoms @ query) if absolute else atoms @ query).argmax()


@pytest.mark.parametrize("form", [np.asarray, np.asfortranarray, scipy.sparse.csr_array, scipy.sparse.csc_array])
@pytest.mark.parametrize("objective", ["inner_product", "cosine", "correlation", "neg_sqeuclidean", "neg_l1"])
def test_numbers_too_large_for_sums_give_the_answer_or_the_same_error_in_every_form(find, form, objective):
    """Rows without a zero among them, whose squares and sums are infinite; no warning comes beside."""
    for size in (1e154, 1e200, 1e307, 1.7e308):
        signs = np.where(ATOMS > 0.0, 1.0, -1.0)
        signs[0] = 1.0
        most = {"inner_product": np.inf, "neg_l1": 1e300, "neg_sqeuclidean": 0.0}.get(objective, 1e308)
        if size > most:
            parts = ["overflows double precision", "atoms"]
            assert_refused(ValueError, parts, find, form(signs * size), QUERY, objective=objective)
            continue
        asked = QUERY / 1e10
        expected = find(signs, asked, objective="inner_product" if objective == "neg_l1" else objective).indices
        if objective != "neg_l1":  # of which all are the same there, as far as there are digits
            np.testing.assert_array_equal(find(form(signs * size), asked, objective=objective).indices, expected)


@pytest.mark.parametrize("dtype", [np.int64, np.uint64])
def test_the_largest_integers(find, dtype):
    atoms = np.zeros((3, D), dtype=dtype)
    atoms[1] = np.iinfo(dtype).max
    result = find(atoms, np.ones(D))
    assert result.indices[0] == 1
    np.testing.assert_allclose(result.scores, float(np.iinfo(dtype).max) * D)


# --- queries and masks ------------------------------------------------------------------------------------------------

BAD_QUERIES = {
    "too narrow": (QUERY[1:], ValueError, ["queries", "39 columns", "40"]),
    "batch too wide": (np.ones((2, 41)), ValueError, ["queries", "41 columns", "40", "(2, 41)"]),
    "a number": (3.0, ValueError, ["queries", "1-d", "2-d", "0 dimensions"]),
    "three dimensions": (np.ones((1, 1, D)), ValueError, ["queries", "1-d", "2-d", "3 dimensions"]),
    "NaN": (changed(QUERY[np.newaxis], 0, 7, np.nan)[0], ValueError, ["queries", "nan at column 7"]),
    "infinity in a batch": (changed(ATOMS, 2, 5, -np.inf), ValueError, ["queries", "-inf at row 2, column 5"]),
    "NaN in a sparse batch": (
        scipy.sparse.csr_array(changed(ATOMS, 2, 5, np.nan)),
        ValueError,
        ["queries", "nan at row 2, column 5"],
    ),
    "beyond float64": (np.full(D, np.longdouble("1e400")), ValueError, ["queries", "column 0"]),
    "objects": (QUERY.astype(object), TypeError, ["queries", "real numbers", "object"]),
    "complex": (QUERY * 1j, TypeError, ["queries", "real numbers", "complex128"]),
    "complex sparse": (
        scipy.sparse.csr_array(ATOMS * 1j),
        TypeError,
        ["queries", "real numbers", "complex128"],
    ),
    "strings": (QUERY.astype(str), TypeError, ["queries", "real numbers", "<U"]),
    "ragged lists": ([[1.0, 2.0], [3.0]], TypeError, ["queries", "array", "its rows differ in length"]),
    "masked array": (np.ma.masked_less(QUERY, 0), TypeError, ["queries", "masked array", "filled"]),
}


@pytest.mark.parametrize(("queries", "error", "parts"), BAD_QUERIES.values(), ids=BAD_QUERIES.keys())
@pytest.mark.skipif(np.finfo(np.longdouble).max == np.finfo(float).max, reason="longdouble is float64 here")
def test_queries_that_do_not_fit(find, queries, error, parts):
    assert_refused(error, parts, find, ATOMS, queries)


BAD_MASKS = {
    "numbers": (np.zeros(N), TypeError, ["mask", "booleans", "float64"]),
    "too short": (np.zeros(N - 1, dtype=bool), ValueError, ["mask", "(6,)", "(5,)"]),
    "for a batch": (np.zeros((1, N), dtype=bool), ValueError, ["mask", "(6,)", "(1, 6)"]),
    "indices": ([2, 3], TypeError, ["mask", "booleans", "int64"]),
}


@pytest.mark.parametrize(("mask", "error", "parts"), BAD_MASKS.values(), ids=BAD_MASKS.keys())
def test_masks_that_do_not_fit(find, mask, error, parts):
    assert_refused(error, parts, find, ATOMS, QUERY, mask=mask)


def test_a_batch_takes_one_mask_or_one_for_each_query(find):
    for shape in [(2, N), (N, 3), (5,)]:
        parts = ["mask", "(6,) or (3, 6)", str(shape)]
        assert_refused(ValueError, parts, find, ATOMS, ATOMS[:3], mask=np.zeros(shape, dtype=bool))


# --- options ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["delta", "epsilon", "beta", "sigma"])
@pytest.mark.parametrize("number", [10**400, -(10**400)], ids=["huge", "hugely negative"])
def test_integers_that_no_float_holds_are_refused_by_name(find_with_options, name, number):
    options = {name: number, "bound": "hoeffding", "sampling": "uniform"}
    assert_refused(ValueError, [f"{name} must be", "got"], find_with_options, ATOMS, QUERY, **options)


def test_a_range_that_no_float_holds(find_with_options):
    options = {"value_range": (0, 10**400), "bound": "hoeffding", "sampling": "uniform"}
    assert_refused(ValueError, ["value_range must be finite"], find_with_options, ATOMS, QUERY, **options)


@pytest.mark.parametrize(("k", "error"), [(0, ValueError), (-2, ValueError), (1.5, TypeError), (True, TypeError)])
def test_k_is_a_positive_integer(find, k, error):
    expected = "at least 1" if error is ValueError else "integer"
    assert_refused(error, ["k must be", expected, f"got {k!r}"], find, ATOMS, QUERY, k)
    for odd in (None, "3", 2.0):
        assert_refused(TypeError, ["k must be an integer", repr(odd)], find, ATOMS, QUERY, odd)
    assert len(find(ATOMS, QUERY, np.int8(2)).indices) == 2


BAD_OPTIONS = {
    "delta 1": ({"delta": 1.0}, ValueError, ["delta", "[0, 1)", "1.0"]),
    "delta negative": ({"delta": -1e-9}, ValueError, ["delta", "[0, 1)", "-1e-09"]),
    "delta NaN": ({"delta": np.nan}, ValueError, ["delta", "[0, 1)", "nan"]),
    "delta text": ({"delta": "0.1"}, TypeError, ["delta", "number", "'0.1'"]),
    "delta None": ({"delta": None}, TypeError, ["delta", "number", "None"]),
    "delta True": ({"delta": True}, TypeError, ["delta", "number", "True"]),
    "epsilon negative": ({"epsilon": -1}, ValueError, ["epsilon", "at least 0", "-1"]),
    "epsilon infinite": ({"epsilon": np.inf}, ValueError, ["epsilon", "finite", "inf"]),
    "epsilon NaN": ({"epsilon": np.nan}, ValueError, ["epsilon", "at least 0", "nan"]),
    "beta negative": ({"beta": -0.5}, ValueError, ["beta", "at least 0", "-0.5"]),
    "beta NaN": ({"beta": np.nan}, ValueError, ["beta", "at least 0", "nan"]),
    "objective": ({"objective": "cosin"}, ValueError, ["objective", "'neg_l1'", "'cosin'", "did you mean 'cosine'"]),
    "sampling": ({"sampling": "sort"}, ValueError, ["sampling", "'uniform'", "'sort'", "did you mean 'sorted'"]),
    "bound": ({"bound": "Hoeffding"}, ValueError, ["bound", "'paired'", "'Hoeffding'", "did you mean 'hoeffding'"]),
    "bound None": ({"bound": None}, ValueError, ["bound", "'bernstein'", "None"]),
    "budget zero": ({"budget": 0}, ValueError, ["budget", "at least 1", "0"]),
    "budget float": ({"budget": 1e6}, TypeError, ["budget", "integer", "1000000.0"]),
    "budget below n": ({"budget": 5}, ValueError, ["budget", "each of the 6 atoms", "5"]),
    "n_jobs zero": ({"n_jobs": 0}, ValueError, ["n_jobs", "number of threads", "0"]),
    "n_jobs negative": ({"n_jobs": -2}, ValueError, ["n_jobs", "at least -1", "-2"]),
    "n_jobs text": ({"n_jobs": "all"}, TypeError, ["n_jobs", "integer", "'all'"]),
    "minimise": ({"minimise": "multiply"}, ValueError, ["minimise", "'time'", "did you mean 'multiplies'"]),
    "objective of others": ({"objective": "L2"}, ValueError, ["objective", "'L2'", "did you mean 'neg_sqeuclidean'"]),
    "inner product of others": ({"objective": "dot"}, ValueError, ["objective", "did you mean 'inner_product'"]),
    "rescore number": ({"rescore": 1}, TypeError, ["rescore", "True or False", "1"]),
    "replacement text": ({"replacement": "no"}, TypeError, ["replacement", "True or False", "'no'"]),
    "absolute None": ({"absolute": None}, TypeError, ["absolute", "True or False", "None"]),
    "ends": ({"ends": "smalest"}, ValueError, ["ends", "'largest'", "did you mean 'smallest'"]),
    "trace number": ({"trace": 0}, TypeError, ["trace", "True or False", "0"]),
    "progress text": ({"progress": "bar"}, TypeError, ["progress", "True or False", "'bar'"]),
    "sigma zero": ({"bound": "hoeffding", "sigma": 0.0}, ValueError, ["sigma", "positive", "0.0"]),
    "sigma infinite": ({"bound": "hoeffding", "sigma": np.inf}, ValueError, ["sigma", "finite", "inf"]),
    "sigma text": ({"bound": "hoeffding", "sigma": "guess"}, ValueError, ["sigma", "'estimate'", "'guess'"]),
    "sigma unused": ({"sigma": 1.0}, ValueError, ["sigma", "'hoeffding'", "'auto'"]),
    "sigma with bernstein": ({"bound": "bernstein", "sigma": 1.0}, ValueError, ["sigma", "hoeffding", "'bernstein'"]),
    "range unused": ({"value_range": (-1, 1)}, ValueError, ["value_range", "bernstein", "'auto'"]),
    "range reversed": ({"bound": "bernstein", "value_range": (1, -1)}, ValueError, ["value_range", "low <= high"]),
    "range infinite": ({"bound": "bernstein", "value_range": (0, np.inf)}, ValueError, ["value_range", "finite"]),
    "range of three": (
        {"bound": "bernstein", "value_range": (0, 1, 2)},
        TypeError,
        ["value_range", "pair", "(0, 1, 2)"],
    ),
    "range a number": ({"bound": "bernstein", "value_range": 3}, TypeError, ["value_range", "pair", "3"]),
}


@pytest.mark.parametrize(("options", "error", "parts"), BAD_OPTIONS.values(), ids=BAD_OPTIONS.keys())
def test_options_out_of_their_range(find_with_options, options, error, parts):
    assert_refused(error, parts, find_with_options, ATOMS, QUERY, **options)


REFUSED_TOGETHER = {
    "weights without replacement": (
        {"bound": "bernstein", "sampling": "weighted", "value_range": (-9, 9)},
        ["bound='bernstein'", "replacement=True", "sampling='weighted'"],
    ),
    "serfling with replacement": (
        {"bound": "hoeffding_serfling", "replacement": True, "sigma": 1.0},
        ["hoeffding_serfling", "replacement=False"],
    ),
    "sorted with replacement": ({"sampling": "sorted", "replacement": True}, ["sampling='sorted'", "replacement"]),
    "weights for differences": (
        {"sampling": "weighted", "objective": "neg_l1"},
        ["sampling='weighted'", "objective='neg_l1'", "'uniform'"],
    ),
    "sorted for differences": (
        {"sampling": "sorted", "objective": "neg_sqeuclidean"},
        ["sampling='sorted'", "objective='neg_sqeuclidean'"],
    ),
    "size of differences": ({"absolute": True, "objective": "neg_l1"}, ["absolute=True", "objective='neg_l1'"]),
    "ends of sizes": ({"absolute": True, "ends": "both"}, ["absolute=True", "ends='both'"]),
    "most different": ({"ends": "smallest", "objective": "neg_l1"}, ["ends='smallest'", "objective='neg_l1'"]),
}


@pytest.mark.parametrize(("options", "parts"), REFUSED_TOGETHER.values(), ids=REFUSED_TOGETHER.keys())
def test_options_that_do_not_go_together(find_with_options, options, parts):
    assert_refused(ValueError, parts, find_with_options, ATOMS, QUERY, **options)


@pytest.mark.parametrize("bound", ["hoeffding", "hoeffding_serfling", "bernstein"])
def test_bounds_that_need_a_range(bound):
    parts = [f"bound='{bound}'", "range", "value_range=(low, high)", "fit"]
    assert_refused(ValueError, parts, bm.search, ATOMS, QUERY, bound=bound)
    assert_refused(ValueError, parts, fitted, ATOMS, QUERY, bound=bound, validate=False)
    assert fitted(ATOMS, QUERY, bound=bound).indices[0] == (ATOMS @ QUERY).argmax()


def test_optimal_weights_need_column_norms():
    parts = ["sampling='optimal'", "fit", "'weighted'"]
    assert_refused(ValueError, parts, bm.search, ATOMS, QUERY, sampling="optimal")
    assert_refused(ValueError, parts, fitted, ATOMS, QUERY, sampling="optimal", validate=False)


def test_a_range_that_does_not_hold_the_atoms():
    index = bm.BanditMIPS(bound="bernstein", value_range=(-1.0, 1.0))
    assert_refused(ValueError, ["value_range", "(-1.0, 1.0)", f"{ATOMS.min()}"], index.fit, ATOMS)


def test_seeds(find):
    assert_refused(ValueError, ["seed", "at least 0", "-1"], find, ATOMS, QUERY, seed=-1)
    assert_refused(ValueError, ["seed", "2**63", str(2**63)], find, ATOMS, QUERY, seed=2**63)
    for odd in (1.0, True, "0"):
        assert_refused(TypeError, ["seed must be an integer", repr(odd)], find, ATOMS, QUERY, seed=odd)


@pytest.mark.parametrize(("name", "meant"), [("detla", "delta"), ("n_job", "n_jobs"), ("samplng", "sampling")])
def test_unknown_options_suggest_the_nearest(find_with_options, name, meant):
    assert_refused(TypeError, [repr(name), f"did you mean {meant!r}"], find_with_options, ATOMS, QUERY, **{name: 1})


@pytest.mark.parametrize(
    ("name", "ours"),
    [
        ("n_neighbors", "k"),
        ("top_k", "k"),
        ("metric", "objective"),
        ("n_threads", "n_jobs"),
        ("eps", "epsilon"),
        ("exclude", "mask"),
        ("verbose", "progress"),
    ],
)
def test_what_other_libraries_call_an_option_is_answered_with_our_name(find_with_options, name, ours):
    parts = [repr(name), f"it is called {ours!r} here"]
    assert_refused(TypeError, parts, find_with_options, ATOMS, QUERY, **{name: 1})


def test_random_state_is_the_seed_which_an_index_is_made_with():
    for call in (bm.search, fitted):
        assert_refused(TypeError, ["'random_state'", "called 'seed'"], call, ATOMS, QUERY, random_state=1)
    parts = ["'random_state'", "called 'seed'", "made with"]
    assert_refused(TypeError, parts, asked_of_an_index, ATOMS, QUERY, random_state=1)


def test_k_is_given_to_search_by_whatever_name():
    assert_refused(TypeError, ["'n_neighbors'", "called 'k'", "give it to search"], bm.BanditMIPS, n_neighbors=3)


def test_an_option_like_no_other_lists_those_there_are(find_with_options):
    parts = ["'xyzzy'", "delta", "epsilon", "rescore"]
    assert_refused(TypeError, parts, find_with_options, ATOMS, QUERY, xyzzy=1)


@pytest.mark.parametrize("name", ["bucket_size", "validate", "k", "mask", "seed"])
def test_an_option_is_not_suggested_where_it_does_not_belong(name):
    def construct(atoms, queries, **options):
        bm.BanditMIPS(**options)

    calls = {"k": [construct], "mask": [construct], "seed": [asked_of_an_index]}
    for call in calls.get(name, [bm.search, asked_of_an_index]):
        with pytest.raises(TypeError, match=f"no option '{name}'") as caught:
            call(ATOMS, QUERY, **{name: 1})
        assert "did you mean" not in str(caught.value)


@pytest.mark.parametrize(
    ("size", "error", "parts"),
    [(0, ValueError, ["bucket_size", "at least 1", "0"]), (2.5, TypeError, ["bucket_size", "integer", "2.5"])],
)
def test_bucket_sizes(size, error, parts):
    assert_refused(error, parts, bm.BanditMIPS, bucket_size=size)


@pytest.mark.parametrize("objective", ["cosine", "neg_sqeuclidean", "neg_l1"])
def test_buckets_are_for_inner_products(objective):
    parts = ["bucket_size", "inner products", f"objective='{objective}'"]
    assert_refused(ValueError, parts, bm.BanditMIPS, bucket_size=3, objective=objective)
    assert_refused(ValueError, parts, bm.BanditMIPS(bucket_size=3).fit(ATOMS).search, QUERY, objective=objective)


def test_validate_is_a_boolean():
    assert_refused(TypeError, ["validate", "True or False", "'no'"], bm.BanditMIPS, validate="no")


# --- an index in the wrong state --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "use",
    [
        lambda index: index.search(QUERY),
        lambda index: index.add(ATOMS),
        lambda index: index.remove([0]),
        lambda index: index.save("unused.bm"),
        lambda index: index.n_atoms,
        lambda index: index.extra_bytes,
    ],
)
def test_an_index_without_atoms(use):
    assert_refused(ValueError, ["no atoms", "fit"], use, bm.BanditMIPS())


def test_atoms_to_add_have_the_width_of_the_others():
    index = bm.BanditMIPS().fit(ATOMS)
    before = asdict(index.search(QUERY))
    assert_refused(ValueError, ["atoms", "39 columns", "40", "(6, 39)"], index.add, ATOMS[:, 1:])
    assert_refused(ValueError, ["atoms", "nan at row 1, column 3"], index.add, changed(ATOMS, 1, 3, np.nan))
    np.testing.assert_equal(asdict(index.search(QUERY)), before)
    assert index.n_atoms == N


@pytest.mark.parametrize(
    ("indices", "error", "parts"),
    [
        ([2, 6], ValueError, ["indices", "0..5", "6"]),
        ([-1], ValueError, ["indices", "0..5", "-1"]),
        ([0.5], TypeError, ["indices", "integers", "float64"]),
        ([True], TypeError, ["indices", "integers", "bool"]),
        ([1], ValueError, ["indices", "1", "removed before"]),
    ],
)
def test_atoms_to_remove_are_there(indices, error, parts):
    index = bm.BanditMIPS().fit(ATOMS).remove([1])
    before = asdict(index.search(QUERY, N))
    assert_refused(error, parts, index.remove, indices)
    np.testing.assert_equal(asdict(index.search(QUERY, N)), before)


def test_a_single_result_has_no_trace_to_draw():
    assert_refused(ValueError, ["trace=True"], bm.search(ATOMS, QUERY).plot)


# --- Ctrl-C -----------------------------------------------------------------------------------------------------------


class Interrupting:
    """Atoms whose n-th reading is interrupted, in a store of a user's own kind."""

    def __init__(self, array):
        self._store = DenseStore(array)
        self.shape, self.dtype = self._store.shape, self._store.dtype
        self.scores, self.blocks = self._store.scores, self._store.blocks
        self.reads_left = -1

    def gather(self, rows, columns, out):
        self.reads_left -= 1
        if self.reads_left == 0:
            raise KeyboardInterrupt
        self._store.gather(rows, columns, out)


@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("reads", [1, 2, 7])
def test_an_interrupted_search_leaves_the_index_usable(n_jobs, reads):
    rng = np.random.default_rng(1)
    store = Interrupting(rng.normal(size=(20, 2000)))
    queries = rng.standard_t(2, size=(8, 2000))
    index = bm.BanditMIPS(n_jobs=n_jobs, sampling="weighted").fit(store)
    before = asdict(index.search(queries, 2))
    store.reads_left = reads
    with pytest.raises(KeyboardInterrupt):
        index.search(queries, 2)
    np.testing.assert_equal(asdict(index.search(queries, 2)), before)


SIGNALLED = """
    import os, signal
    from dataclasses import asdict
    import numpy as np
    import banditmips as bm
    from banditmips.atoms import DenseStore

    signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in a shell's background was told to ignore it

    class Signalling:
        def __init__(self, array):
            self._store = DenseStore(array)
            self.shape, self.dtype = self._store.shape, self._store.dtype
            self.scores, self.blocks = self._store.scores, self._store.blocks
            self.reads, self.signal_at = 0, -1

        def gather(self, rows, columns, out):
            self.reads += 1
            if self.reads == self.signal_at:
                os.kill(os.getpid(), signal.SIGINT)
            self._store.gather(rows, columns, out)

    rng = np.random.default_rng(1)
    store = Signalling(rng.normal(size=(20, 2000)))
    queries = rng.standard_t(2, size=(300, 2000))
    index = bm.BanditMIPS(n_jobs={n_jobs}, sampling="weighted").fit(store)
    before = asdict(index.search(queries[:4], 2))
    store.reads, store.signal_at = 0, 10
    try:
        index.search(queries, 2)
    except KeyboardInterrupt:
        # A query takes several reads: far fewer than 300 were answered.
        print("interrupted", "early" if store.reads < 600 else "late")
    np.testing.assert_equal(asdict(index.search(queries[:4], 2)), before)
    print("usable")
"""


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGINT to send")
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_a_real_signal_leaves_the_index_usable(n_jobs):
    program = textwrap.dedent(SIGNALLED).format(n_jobs=n_jobs)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300, check=False)
    assert done.stdout.splitlines() == ["interrupted early", "usable"], done.stderr
    assert done.returncode != -signal.SIGINT


def test_layouts_and_what_one_was_called():
    parts = ["layout must be one of", "'codes'", "got 'cache'", "did you mean 'coordinates'"]
    assert_refused(ValueError, parts, bm.BanditMIPS, layout="cache")


@pytest.mark.parametrize("kind", [np.ma.array, lambda array: np.ma.masked_greater(array, 1e9)], ids=["bare", "mask"])
def test_masked_arrays_without_masked_entries(find, kind):
    result = find(kind(ATOMS), kind(QUERY))
    assert result.indices[0] == (ATOMS @ QUERY).argmax()


def test_masked_signals():
    found = bm.matching_pursuit(ATOMS, np.ma.array(ATOMS[2]), n_nonzero=1)
    assert found.indices.tolist() == [2]
    with pytest.raises(TypeError, match="signal is a masked array"):
        bm.matching_pursuit(ATOMS, np.ma.masked_less(ATOMS[2], 0), n_nonzero=1)


@pytest.mark.parametrize("form", ["csr", "csc", "coo"])
def test_sparse_queries_with_places_outside_their_shape_are_refused(form):
    """SciPy believes these places, and would write wherever they lead."""
    queries = scipy.sparse.csr_array(np.ones((2, 4))).asformat(form)
    (queries.coords[1] if form == "coo" else queries.indices)[3] = 10**6
    with pytest.raises(ValueError, match=r"queries\.(indices|coords\[1\]) must lie in 0\.\.\d, got 1000000"):
        bm.search(np.eye(4), queries)


def test_one_sparse_query_is_one_query():
    query = scipy.sparse.coo_array(np.array([0.0, 3.0, 0.0, 1.0]))
    assert bm.search(np.eye(4), query).indices.tolist() == [1]
    query.coords[0][1] = 10**6
    with pytest.raises(ValueError, match=r"queries\.coords\[0\] must lie in 0\.\.3, got 1000000"):
        bm.search(np.eye(4), query)


@pytest.mark.parametrize("layout", ["none", "coordinates"])
@pytest.mark.parametrize("bound", ["hoeffding", "hoeffding_serfling", "bernstein"])
def test_a_range_that_is_seen_not_to_hold_is_refused(layout, bound):
    """Nobody has looked at all entries, but a search looks at some."""
    atoms = np.random.default_rng(0).normal(size=(50, 2_000)).astype(np.float32)
    index = bm.BanditMIPS(bound=bound, value_range=(0.0, 1.0), validate=False, layout=layout, minimise="multiplies")
    with pytest.raises(ValueError, match=r"value_range is \(0.0, 1.0\), but atoms has .* at row \d+, column \d+"):
        index.fit(atoms).search(atoms[0])
    true = bm.BanditMIPS(bound=bound, value_range=(-9.0, 9.0), validate=False, layout=layout, minimise="multiplies")
    assert true.fit(atoms).search(atoms[0]).indices[0] == 0
