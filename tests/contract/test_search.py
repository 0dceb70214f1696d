"""The contract of `search` and `BanditMIPS`: every way to search keeps it, whatever the atoms look like."""

from __future__ import annotations

from dataclasses import asdict, replace
from itertools import combinations, pairwise

import numpy as np
import pytest
import scipy.sparse
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import banditmips as bm
from banditmips import StopReason

RANGE = (-20.0, 20.0)
# Every sampling and bound that makes a promise. The atoms of these tests lie within RANGE.
OPTION_SETS = {
    "default": {},
    "uniform": {"sampling": "uniform"},
    "weighted": {"sampling": "weighted", "beta": 1.0},
    "replacement": {"sampling": "weighted", "replacement": True},
    "uniform replacement": {"sampling": "uniform", "replacement": True},
    "hoeffding": {"bound": "hoeffding", "value_range": RANGE},
    "hoeffding sigma": {"bound": "hoeffding", "sigma": 30.0},
    "hoeffding_serfling": {"bound": "hoeffding_serfling", "value_range": RANGE},
    "bernstein": {"bound": "bernstein", "value_range": RANGE},
    "bernstein replacement": {
        "bound": "bernstein",
        "value_range": RANGE,
        "sampling": "weighted",
        "replacement": True,
    },
}
every_option_set = pytest.mark.parametrize("options", OPTION_SETS.values(), ids=OPTION_SETS.keys())
SAMPLINGS = ("auto", "uniform", "weighted")
OBJECTIVES = ("inner_product", "cosine", "neg_sqeuclidean", "neg_l1")


def assert_same(a, b):
    """Compare all fields of two results, traces included, exactly."""
    np.testing.assert_equal(asdict(a), asdict(b))


def assert_same_answer(a, b):
    """Compare what was found; what it cost may depend on how the atoms lie in memory."""
    np.testing.assert_array_equal(a.indices, b.indices)
    np.testing.assert_allclose(a.scores, b.scores, rtol=1e-12)
    np.testing.assert_array_equal(a.exact, b.exact)


def planted(n=40, d=2000, seed=0, m=None):
    """Return atoms whose means differ, in no order, and one query or m of them: a race that separates early."""
    rng = np.random.default_rng(seed)
    atoms = rng.permutation(np.linspace(-8.0, 8.0, n))[:, np.newaxis] + rng.normal(size=(n, d))
    return atoms, 1.0 + 0.5 * rng.normal(size=d if m is None else (m, d))


def related(n=40, d=4000, seed=0):
    """Return atoms three of which have much in common with the query: a race that separates on every kind of cell."""
    rng = np.random.default_rng(seed)
    query = rng.normal(size=d)
    shares = rng.permutation(np.concatenate([[4.0, 5.0, 6.0], np.zeros(n - 3)]))
    return shares[:, np.newaxis] * query + rng.normal(size=(n, d)), query


def hopeless(n=30, d=400, seed=0):
    """Return atoms and a query that have nothing to do with each other: hardly any atom can be dropped."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, d)), rng.normal(size=d)


def integers(n=20, d=60, seed=0, low=-3, high=4):
    """Return integer-valued atoms and a query without zeros: every sum is exact."""
    rng = np.random.default_rng(seed)
    return rng.integers(low, high, (n, d)).astype(float), rng.choice([-2.0, -1.0, 1.0, 2.0, 3.0], d)


# --- shapes -------------------------------------------------------------------------------------------------------

ANSWERS = ("indices", "scores", "lower", "upper", "exact")
COUNTS = ("n_multiplies", "n_rounds", "n_survivors", "delta_spent")


def test_one_query_gives_fields_of_one_dimension(find):
    atoms, query = planted()
    result = find(atoms, query, 3)
    assert [getattr(result, name).shape for name in ANSWERS] == [(3,)] * 5
    assert [np.ndim(getattr(result, name)) for name in COUNTS] == [0] * 4
    assert isinstance(result.n_multiplies, int)
    assert isinstance(result.stop_reason, StopReason)


@pytest.mark.parametrize("m", [0, 1, 4])
def test_a_batch_gives_fields_of_two_dimensions(find, m):
    atoms, queries = planted(m=m)
    result = find(atoms, queries, 3, trace=True)
    assert [getattr(result, name).shape for name in ANSWERS] == [(m, 3)] * 5
    assert [getattr(result, name).shape for name in COUNTS] == [(m,)] * 4
    assert len(result.stop_reason) == len(result.trace) == m


def test_types_of_the_fields(find):
    atoms, queries = planted(m=2)
    result = find(atoms.astype(np.float32), queries, 2)
    assert result.indices.dtype == np.int64
    assert result.scores.dtype == result.lower.dtype == result.upper.dtype == np.float64
    assert result.exact.dtype == bool
    assert result.n_multiplies.dtype == result.n_rounds.dtype == result.n_survivors.dtype == np.int64
    assert isinstance(result.checked, bool)
    assert result.trace is None


def test_a_result_unpacks_and_is_frozen(find):
    atoms, query = planted()
    result = find(atoms, query, 2)
    indices, scores = result
    assert indices is result.indices
    assert scores is result.scores
    with pytest.raises(AttributeError):
        result.scores = scores


# --- what atoms and queries may be ----------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", "g", "i1", "u1", "?", ">f8", ">f4", ">i2"])
def test_every_real_dtype(find, score, best, dtype):
    atoms, query = integers(n=12, d=70, low=0, high=2 if dtype == "?" else 100)
    atoms = atoms.astype(dtype)
    result = find(atoms, query.astype(np.int8), 4, delta=1e-9)
    truth = score(atoms, query)
    np.testing.assert_array_equal(result.indices, best(truth, 4))
    np.testing.assert_allclose(result.scores, truth[result.indices], rtol=1e-12)


@pytest.mark.parametrize("dtype", ["f2", "f4", "g", "i1", "u1", "?", ">f8"])
def test_every_real_dtype_as_query(find, dtype):
    atoms, query = integers(n=12, d=70)
    query = np.abs(query).astype(dtype)
    assert_same(find(atoms, query, 4, delta=1e-9), find(atoms, query.astype(float), 4, delta=1e-9))


class Exporter:
    """An array that can be reached through DLPack only."""

    def __init__(self, array):
        self._array = array

    def __dlpack__(self, **keywords):
        return self._array.__dlpack__(**keywords)

    def __dlpack_device__(self):
        return self._array.__dlpack_device__()


def unaligned(atoms):
    packed = np.zeros(len(atoms), dtype=[("before", "i1"), ("atom", "f8", atoms.shape[1])])
    packed["atom"] = atoms
    return packed["atom"]


FORMS = {
    "Fortran order": np.asfortranarray,
    "rows backwards": lambda a: a[::-1].copy()[::-1],
    "columns backwards": lambda a: a[:, ::-1].copy()[:, ::-1],
    "every other row": lambda a: np.repeat(a, 2, axis=0)[::2],
    "every third column": lambda a: np.repeat(a, 3, axis=1)[:, ::3],
    "unaligned": unaligned,
    "read-only": lambda a: np.lib.stride_tricks.as_strided(a, writeable=False),
    "matrix": np.asmatrix,
    "lists": lambda a: a.tolist(),
    "DLPack": Exporter,
    "csr_matrix": scipy.sparse.csr_matrix,
    "csr_array": scipy.sparse.csr_array,
    "csc": scipy.sparse.csc_array,
    "coo": scipy.sparse.coo_array,
    "lil": scipy.sparse.lil_array,
}


@pytest.mark.filterwarnings("ignore:the matrix subclass:PendingDeprecationWarning")
@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS.keys())
def test_the_form_of_the_atoms_changes_nothing(find, form):
    atoms, query = integers(n=20, d=300)
    assert_same_answer(find(form(atoms), query, 3), find(atoms, query, 3))


def test_a_memory_map(find, tmp_path):
    atoms, query = integers(n=20, d=300)
    np.save(tmp_path / "atoms.npy", atoms)
    mapped = np.load(tmp_path / "atoms.npy", mmap_mode="r")
    assert_same_answer(find(mapped, query, 3), find(atoms, query, 3))


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_sparse_equals_dense_for_every_objective(find_flat, objective):
    rng = np.random.default_rng(0)
    atoms = np.where(rng.random((20, 300)) < 0.1, rng.integers(-3, 4, (20, 300)), 0).astype(float)
    query = np.where(rng.random(300) < 0.3, 2.0, 0.0)
    dense = find_flat(atoms, query, 3, objective=objective)
    sparse = find_flat(scipy.sparse.csr_array(atoms), query, 3, objective=objective)
    assert_same_answer(sparse, dense)


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_a_sparse_matrix_may_hold_an_entry_in_several_parts(find_flat, score, objective):
    parts = np.array([1.0, 2.0, 3.0, -1.0]), np.array([0, 0, 1, 2]), np.array([0, 2, 4])
    atoms = scipy.sparse.csr_array(parts, shape=(2, 4))
    query = np.array([1.0, 1.0, 1.0, 2.0])
    result = find_flat(atoms, query, 2, objective=objective)
    np.testing.assert_allclose(result.scores, score(atoms.toarray(), query, objective)[result.indices])


@pytest.mark.parametrize("form", [scipy.sparse.csr_array, Exporter, list])
def test_the_form_of_the_queries_changes_nothing(find, form):
    atoms, queries = planted(m=3)
    assert_same(find(atoms, form(queries), 2), find(atoms, queries, 2))


def test_single_precision_gives_the_same_answers_within_rounding(find):
    atoms, queries = planted(m=5)
    coarse = find(atoms.astype(np.float32), queries.astype(np.float32), 3)
    fine = find(atoms, queries, 3)
    np.testing.assert_array_equal(coarse.indices, fine.indices)
    np.testing.assert_allclose(coarse.scores, fine.scores, rtol=1e-5)


@every_option_set
def test_inputs_stay_as_they_are(find, options):
    atoms, queries = planted(n=20, d=200, m=2)
    mask = np.arange(20) == 3
    before = atoms.copy(), queries.copy(), mask.copy()
    find(atoms, queries, 2, mask=mask, **options)
    np.testing.assert_equal((atoms, queries, mask), before)
    for array in (atoms, queries, mask):
        array.flags.writeable = False
    find(atoms, queries, 2, mask=mask, **options)


@pytest.mark.parametrize("form", ["csr", "csc", "coo"])
def test_a_sparse_matrix_stays_as_it_is(find, form):
    atoms, query = integers(n=10, d=50)
    matrix = scipy.sparse.coo_array(atoms).asformat(form)
    names = ("data", "row", "col") if form == "coo" else ("data", "indices", "indptr")
    before = [getattr(matrix, name).copy() for name in names]
    find(matrix, query, 2)
    np.testing.assert_equal([getattr(matrix, name) for name in names], before)


# --- ties, few atoms, masks -----------------------------------------------------------------------------------------


@every_option_set
def test_of_all_equal_atoms_the_first_are_returned(find, options):
    for n in (1, 7, 8, 15):
        for d in (9, 60):
            atom, query = integers(n=1, d=d)
            result = find(np.repeat(atom, n, axis=0), query, min(n, 3), **options)
            np.testing.assert_array_equal(result.indices, np.arange(min(n, 3)))


@every_option_set
@pytest.mark.parametrize("order", ["C", "F"])
def test_of_equal_atoms_the_smaller_index_comes_first(find, best, options, order):
    atoms, query = integers(n=6, d=90)
    atoms = np.array(atoms[[3, 0, 5, 0, 1, 2, 4, 3, 5, 1, 2, 4, 0]], order=order)
    result = find(atoms, query, 7, delta=1e-9, **options)
    np.testing.assert_array_equal(result.indices, best(atoms @ query, 7))


@pytest.mark.parametrize("options", [{}, {"sampling": "uniform"}, {"sampling": "sorted"}, {"absolute": True}])
def test_of_equal_scores_the_smaller_index_comes_first(find, best, options):
    """Small integers give different atoms the same score, and every coordinate gets sampled."""
    for seed in range(50):
        atoms, query = integers(n=12, d=2 + seed % 15, seed=seed, low=-1, high=2)
        truth = atoms @ query
        result = find(atoms, query, 4, **options)
        np.testing.assert_array_equal(result.indices, best(np.abs(truth) if "absolute" in options else truth, 4))
        np.testing.assert_array_equal(result.scores, truth[result.indices])


@pytest.mark.parametrize("rescore", [True, False])
def test_with_fewer_atoms_than_k_the_rest_is_padding(find, best, rescore):
    atoms, query = planted(n=7)
    result = find(atoms, query, 10, rescore=rescore)
    if rescore:
        np.testing.assert_array_equal(result.indices[:7], best(atoms @ query, 7))
    assert sorted(result.indices[:7]) == list(range(7))
    np.testing.assert_array_equal(result.indices[7:], -1)
    np.testing.assert_array_equal(result.scores[7:], -np.inf)
    np.testing.assert_array_equal(result.lower[7:], -np.inf)
    np.testing.assert_array_equal(result.upper[7:], -np.inf)


@every_option_set
def test_masked_atoms_are_not_found(find, best, options):
    atoms, queries = planted(m=3)
    truth = queries @ atoms.T
    mask = np.zeros((3, len(atoms)), dtype=bool)
    for i in range(3):
        mask[i, best(truth[i], i)] = True
    per_query = find(atoms, queries, 2, mask=mask, **options)
    np.testing.assert_array_equal(per_query.indices, [best(truth[i], i + 2)[i:] for i in range(3)])
    for i in range(3):
        assert_same(find(atoms, queries[i], 2, mask=mask[i], **options), per_query[i])
    assert_same(find(atoms, queries, 2, mask=mask[2], **options)[2], per_query[2])


@pytest.mark.parametrize(
    "options", [{}, {"delta": 0.0}, {"rescore": False}, {"bound": "bernstein", "value_range": RANGE}]
)
def test_everything_masked_out_gives_padding(find, options):
    atoms, query = planted(n=6)
    result = find(atoms, query, 2, mask=np.ones(6, dtype=bool), trace=True, **options)
    np.testing.assert_array_equal(result.indices, [-1, -1])
    np.testing.assert_array_equal(result.scores, [-np.inf, -np.inf])
    assert (result.n_multiplies, result.n_rounds, result.delta_spent) == (0, 0, 0.0)


# --- the same answer, whoever asks ----------------------------------------------------------------------------------


@every_option_set
def test_a_query_alone_gives_what_it_gives_in_a_batch(find, options):
    atoms, queries = planted(m=4)
    queries[2, ::3] = 0.0
    queries[3] = 0.0
    batch = find(atoms, queries, 3, trace=True, **options)
    for i, query in enumerate(queries):
        assert_same(batch[i], find(atoms, query, 3, trace=True, **options))
    assert_same(find(atoms, queries[1:2], 3, trace=True, **options)[0], batch[1])


@every_option_set
def test_two_threads_give_what_one_gives(find, options):
    atoms, queries = planted(m=9)
    alone, together = (find(atoms, queries, 3, n_jobs=n_jobs, trace=True, **options) for n_jobs in (1, 2))
    assert_same(alone, together)


@every_option_set
def test_the_seed_decides(find_racing, options):
    atoms, queries = planted(m=3)
    first, again, other, large = (
        find_racing(atoms, queries, 2, seed=seed, trace=True, **options) for seed in (7, 7, 8, 2**63 - 1)
    )
    assert_same(first, again)
    estimates = [result.trace[0].rounds[0].scores for result in (first, other, large)]
    assert not any(np.array_equal(a, b) for a, b in combinations(estimates, 2))


def test_different_seeds_need_different_counts(find_racing):
    atoms, query = planted(n=400)
    assert len({find_racing(atoms, query, seed=seed, rescore=False).n_multiplies for seed in range(10)}) > 1


# --- exact answers and small problems -------------------------------------------------------------------------------


@pytest.mark.parametrize("rescore", [True, False])
def test_delta_zero_is_the_full_product(find, best, rescore):
    atoms, query = hopeless()
    result = find(atoms, query, 4, delta=0.0, rescore=rescore)
    np.testing.assert_array_equal(result.indices, best(atoms @ query, 4))
    np.testing.assert_allclose(result.scores, (atoms @ query)[result.indices], rtol=1e-12)
    assert result.exact.all()
    np.testing.assert_array_equal(result.lower, result.upper)
    assert (result.n_multiplies, result.delta_spent) == (atoms.size, 0.0)
    assert result.stop_reason is StopReason.FINISHED_EXACTLY


@every_option_set
def test_a_zero_query_costs_nothing(find, options):
    atoms, _ = planted()
    result = find(atoms, np.zeros(atoms.shape[1]), 3, **options)
    np.testing.assert_array_equal(result.indices, [0, 1, 2])
    np.testing.assert_array_equal(result.scores, 0.0)
    assert result.exact.all()
    assert (result.n_multiplies, result.delta_spent) == (0, 0.0)


def test_a_zero_vector_has_cosine_zero(find_flat):
    atoms = np.array([[-1.0, -1.0], [0.0, 0.0], [-1.0, 0.0]])
    result = find_flat(atoms, [1.0, 1.0], objective="cosine")
    assert (result.indices[0], result.scores[0]) == (1, 0.0)
    np.testing.assert_array_equal(find_flat(atoms, [0.0, 0.0], 3, objective="cosine").scores, 0.0)


@every_option_set
def test_tiny_problems(find, options):
    for n, d in [(1, 1), (1, 50), (9, 1), (9, 2), (2, 17)]:
        atoms, query = integers(n=n, d=d)
        result = find(atoms, query, delta=1e-9, **options)
        assert (atoms @ query)[result.indices[0]] == (atoms @ query).max()
        np.testing.assert_allclose(result.scores, (atoms @ query).max(), rtol=1e-14)


@every_option_set
def test_answers_are_right(find, best, options):
    atoms, queries = planted(m=5)
    result = find(atoms, queries, 3, **options)
    truth = queries @ atoms.T
    np.testing.assert_array_equal(result.indices, [best(row, 3) for row in truth])
    np.testing.assert_allclose(result.scores, np.take_along_axis(truth, result.indices, axis=1), rtol=1e-12)


@pytest.mark.parametrize("options", [{}, {"sampling": "uniform"}, {"bound": "bernstein"}, {"rescore": False}])
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_every_objective_gives_what_brute_force_gives(find_flat, score, best, objective, options):
    rng = np.random.default_rng(0)
    atoms = rng.uniform(-1.0, 1.0, (30, 1)) + rng.normal(size=(30, 2000)).clip(-4.0, 4.0)
    query = atoms[17] + 0.2 * rng.normal(size=2000)
    extra = {"value_range": (-5.0, 5.0)} if "bound" in options else {}
    result = find_flat(atoms, query, 2, objective=objective, **options, **extra)
    truth = score(atoms, query, objective)
    np.testing.assert_array_equal(result.indices, best(truth, 2))
    assert (result.lower <= truth[result.indices] + 1e-9).all()
    assert (result.upper >= truth[result.indices] - 1e-9).all()
    if options.get("rescore", True):
        np.testing.assert_allclose(result.scores, truth[result.indices], rtol=1e-10)


@pytest.mark.parametrize("objective", ["inner_product", "cosine"])
def test_absolute_ranks_by_size_and_keeps_signs(find_flat, score, best, objective):
    for seed in range(5):
        atoms, query = planted(seed=seed)
        truth = score(atoms, query, objective)
        result = find_flat(atoms, query, 6, absolute=True, objective=objective)
        expected = best(np.abs(truth), 6)
        np.testing.assert_array_equal(result.indices, expected)
        np.testing.assert_allclose(result.scores, truth[expected], rtol=1e-10)
        assert (result.scores > 0).any()
        assert (result.scores < 0).any()


def test_absolute_within_buckets(find, best):
    atoms, query = planted()
    result = find(atoms, query, 6, absolute=True)
    np.testing.assert_array_equal(result.indices, best(np.abs(atoms @ query), 6))


def test_a_sample_without_spread_proves_nothing(find):
    """The first atom is constant; the second is less in 99 % of its entries, and more in sum."""
    atoms = np.full((2, 10_000), 31.0)
    atoms[1] = 30.0
    atoms[1, np.random.default_rng(0).choice(10_000, 100, replace=False)] = 135.0
    found = [find(atoms, np.ones(10_000), delta=1e-6, seed=seed).indices[0] for seed in range(10)]
    assert found == [1] * 10


# --- what a search costs, and when it stops ---------------------------------------------------------------------------


@pytest.mark.parametrize("sampling", ["auto", "weighted", "uniform", "sorted"])
@pytest.mark.parametrize("data", [planted, hopeless])
def test_never_more_multiplies_than_the_full_product(find_flat, codes_spend, sampling, data):
    for seed in range(5):
        atoms, query = data(seed=seed)
        result = find_flat(atoms, query, 2, sampling=sampling, rescore=False, seed=seed)
        assert 0 < result.n_multiplies <= codes_spend * atoms.size


@pytest.mark.parametrize("share", [0.005, 0.05, 0.5])
@pytest.mark.parametrize("sampling", ["auto", "weighted", "uniform"])
def test_coordinates_where_the_query_is_zero_cost_nothing(find_flat, codes_spend, share, sampling):
    for seed in range(3):
        atoms, query = hopeless(n=20, d=2000, seed=seed)
        query[int(share * 2000) :] = 0.0
        result = find_flat(atoms, query, sampling=sampling, rescore=False)
        assert result.n_multiplies <= codes_spend * len(atoms) * np.count_nonzero(query)
        exact = find_flat(atoms, query, delta=0.0)
        assert exact.n_multiplies == len(atoms) * np.count_nonzero(query)


def test_a_sparse_query_separates_as_early_as_a_full_one(find_racing_flat):
    atoms, query = planted(n=50, d=20_000)
    sparse = np.where(np.arange(20_000) % 20 == 7, query, 0.0)
    result = find_racing_flat(atoms, sparse, rescore=False)
    assert result.indices[0] == (atoms @ sparse).argmax()
    # An index that knows the atoms' sums needs next to nothing for a full query: the bar is a search without one.
    assert result.n_multiplies <= 2 * bm.search(atoms, query, minimise="multiplies", rescore=False).n_multiplies


@every_option_set
@pytest.mark.parametrize("rescore", [True, False])
def test_a_budget_is_kept_and_intervals_stay_honest(find, options, rescore):
    atoms, query = hopeless()
    for factor in (1, 10, 150):
        budget = factor * len(atoms) + 7
        result = find(atoms, query, 3, budget=budget, rescore=rescore, **options)
        truth = (atoms @ query)[result.indices]
        assert result.n_multiplies <= budget
        assert result.stop_reason is StopReason.BUDGET
        assert (result.lower <= truth + 1e-9).all()
        assert (truth <= result.upper + 1e-9).all()


@pytest.mark.parametrize("bucket_size", [1, 3])
def test_a_budget_that_does_not_reach_all_bins_still_gives_k_atoms(bucket_size):
    atoms, query = planted()
    n = len(atoms)
    result = bm.BanditMIPS(bucket_size=bucket_size, budget=n).fit(atoms).search(query, n - 5)
    assert result.stop_reason is bm.StopReason.BUDGET
    assert np.unique(result.indices).size == n - 5
    assert (result.indices >= 0).all()
    truth = (atoms @ query)[result.indices]
    assert (result.lower <= truth).all()
    assert (truth <= result.upper).all()
    assert result.n_multiplies <= n


def test_what_a_budget_leaves_goes_to_the_returned_atoms(find_racing_flat):
    """No coordinate more for all atoms fits, but the exact score of the best one does; it stays the answer."""
    for seed in range(10):
        atoms, query = hopeless(n=500, d=400, seed=seed)
        spent, left = 100 * len(atoms), 450
        rescored, estimated = (
            find_racing_flat(atoms, query, budget=spent + left, rescore=rescore, delta=1e-9)
            for rescore in (True, False)
        )
        # Codes are read in words of 64 bits.
        assert estimated.n_multiplies in (spent, 64 * len(atoms))
        assert rescored.n_multiplies == estimated.n_multiplies + 400
        assert rescored.exact[0]
        assert rescored.indices[0] == estimated.indices[0]


@pytest.mark.parametrize("options", [{}, {"bound": "hoeffding", "sigma": 1.0}, {"bound": "bernstein"}])
def test_a_budget_too_small_for_delta_zero(find, options):
    """Nothing may be dropped on a sample's word; all that is left to say is what an index knows for certain."""
    atoms, query = hopeless()
    extra = {"value_range": RANGE} if options.get("bound") == "bernstein" else {}
    result = find(atoms, query, delta=0.0, budget=10 * len(atoms), **options, **extra)
    assert result.stop_reason is StopReason.BUDGET
    assert result.delta_spent == 0.0
    assert result.lower[0] <= (atoms @ query)[result.indices[0]] <= result.upper[0]
    assert result.n_rounds == 0 or (result.lower[0], result.upper[0]) == (-np.inf, np.inf)


def test_one_coordinate_shows_no_deviation_to_estimate(find_flat):
    atoms, query = planted()
    result = find_flat(atoms, query, bound="hoeffding", sigma="estimate", budget=len(atoms), rescore=False)
    truth = (atoms @ query)[result.indices[0]]
    assert result.lower[0] <= truth <= result.upper[0]


def test_the_smallest_delta_there_is(find):
    atoms, query = planted(d=200)
    for options in OPTION_SETS.values():
        assert find(atoms, query, delta=5e-324, **options).indices[0] == (atoms @ query).argmax()


@pytest.fixture
def epsilon(request):
    """A shortfall that ends races on planted atoms: codes tell less of atoms most of whose norm is their level."""
    by_codes = "codes, racing" in request.node.callspec.params.values()
    return 20_000.0 if by_codes and not request.node.callspec.params.get("options") else 1500.0


@every_option_set
def test_epsilon_returns_what_is_within_epsilon(find_racing, options, epsilon):
    reasons = set()
    for seed in range(5):
        atoms, query = planted(n=60, d=4000, seed=seed)
        truth = np.sort(atoms @ query)[::-1]
        result = find_racing(atoms, query, 3, epsilon=epsilon, seed=seed, **options)
        reasons.add(result.stop_reason)
        assert ((atoms @ query)[result.indices] >= truth[2] - epsilon).all()
        assert result.exact.all()
    if options.get("bound", "paired") == "paired":
        assert StopReason.EPSILON in reasons


def test_epsilon_saves_multiplies(find_racing, epsilon):
    atoms, query = planted(n=60, d=4000)
    early, late = (find_racing(atoms, query, 3, epsilon=allowed, rescore=False) for allowed in (epsilon, 0.0))
    assert early.n_multiplies < late.n_multiplies


def test_epsilon_returns_the_atoms_it_speaks_about(find):
    """An atom that was not among the leaders does not slip in because theirs are the scores that got corrected."""
    for seed in range(10):
        rng = np.random.default_rng(seed)
        atoms = 0.02 * rng.normal(size=(100, 1)) + rng.normal(size=(100, 5000))
        query = 1.0 + 0.1 * rng.normal(size=5000)
        rescored, estimated = (find(atoms, query, 5, epsilon=400.0, rescore=rescore) for rescore in (True, False))
        assert set(rescored.indices) == set(estimated.indices)
        assert rescored.exact.all()


@every_option_set
def test_intervals_hold_the_true_scores(find, options):
    atoms, queries = planted(m=5)
    truth = queries @ atoms.T
    for rescore in (True, False):
        result = find(atoms, queries, 3, rescore=rescore, **options)
        of_returned = np.take_along_axis(truth, result.indices, axis=1)
        assert (result.lower <= result.scores).all()
        assert (result.scores <= result.upper).all()
        assert (result.lower <= of_returned + 1e-9).all()
        assert (of_returned <= result.upper + 1e-9).all()
        assert (result.lower[result.exact] == result.upper[result.exact]).all()
        assert result.exact.all() or not rescore
        assert (result.delta_spent <= 1e-3).all()
        assert (np.diff(result.scores) <= 0).all()


def test_rescoring_costs_k_full_products(find_racing_flat):
    atoms, query = related()
    rescored, estimated = (find_racing_flat(atoms, query, 3, rescore=rescore) for rescore in (True, False))
    assert estimated.stop_reason is StopReason.SEPARATED
    assert not estimated.exact.any()
    assert rescored.n_multiplies == estimated.n_multiplies + 3 * atoms.shape[1]


def test_every_stop_reason_can_be_reached(find_racing, request):
    atoms, query = planted()
    reached = {
        find_racing(*related(), 3, rescore=False).stop_reason,
        find_racing(*hopeless(d=4000), epsilon=1e5).stop_reason,
        find_racing(atoms, query, budget=5 * len(atoms)).stop_reason,
        find_racing(*hopeless()).stop_reason,
        find_racing(atoms[:, :10], query[:10], trace=True).stop_reason,
    }
    # What codes tell of an atom is never all of it.
    never = {StopReason.EXHAUSTED} if "codes, racing" in request.node.callspec.params.values() else set()
    assert reached == set(StopReason) - never


@every_option_set
def test_a_trace_tells_what_happened(find_racing_flat, options):
    atoms, query = planted()
    result = find_racing_flat(atoms, query, 3, trace=True, rescore=False, **options)
    rounds = result.trace.rounds
    assert len(rounds) == result.n_rounds > 1
    assert rounds[-1].n_survivors == result.n_survivors
    assert all(a.n_coordinates < b.n_coordinates for a, b in pairwise(rounds))
    assert all(a.n_survivors >= b.n_survivors for a, b in pairwise(rounds))
    assert 3 <= result.trace.n_candidates <= len(atoms)
    seen, racing, multiplies = 0, result.trace.n_candidates, 0
    for entry in rounds:
        multiplies += racing * (entry.n_coordinates - seen)
        seen, racing = entry.n_coordinates, entry.n_survivors
        assert entry.leader == entry.indices[2]
        assert (np.diff(entry.scores) <= 0).all()
        assert (entry.lower <= entry.scores).all()
        assert (entry.scores <= entry.upper).all()
    if result.stop_reason is StopReason.SEPARATED:
        assert result.n_multiplies == multiplies
        np.testing.assert_array_equal(result.indices, rounds[-1].indices[:3])
        np.testing.assert_array_equal(result.scores, rounds[-1].scores[:3])


def test_tracing_changes_no_answer(find):
    atoms, queries = planted(m=2)
    traced, plain = (find(atoms, queries, 2, trace=trace) for trace in (True, False))
    assert len(traced.trace) == 2
    assert plain.trace is None
    assert_same(replace(traced, trace=None), plain)


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_a_progress_bar_changes_nothing_else(find, n_jobs, capfd):
    atoms, queries = planted(m=3)
    assert_same(find(atoms, queries, 2, progress=True, n_jobs=n_jobs), find(atoms, queries, 2))
    assert capfd.readouterr().out == ""


def test_a_frame_has_a_row_for_each_query_and_rank(find):
    pytest.importorskip("pandas")
    atoms, queries = planted(m=2)
    frame = find(atoms, queries, 3).to_frame()
    assert frame["query"].tolist() == [0, 0, 0, 1, 1, 1]
    assert frame["rank"].tolist() == [1, 2, 3, 1, 2, 3]
    np.testing.assert_array_equal(frame["index"], find(atoms, queries, 3).indices.ravel())


def test_results_of_a_batch_can_be_taken_apart(find):
    atoms, queries = planted(m=3)
    batch = find(atoms, queries, 2, trace=True)
    assert_same(bm.SearchResult.stack([batch[0], batch[1], batch[2]]), batch)
    with pytest.raises(TypeError, match="single query"):
        batch[0][0]


# --- random problems --------------------------------------------------------------------------------------------------


@st.composite
def small_problems(draw, max_d):
    n, d = draw(st.integers(1, 8)), draw(st.integers(1, max_d))
    atoms = draw(hnp.arrays(np.int8, (n, d), elements=st.integers(-3, 3)))
    query = draw(hnp.arrays(np.int8, d, elements=st.integers(-3, 3)))
    return atoms, query, draw(st.integers(1, n)), draw(st.integers(0, 3))


def assert_as_good_as_brute_force(result, atoms, query, k):
    truth = atoms.astype(int) @ query.astype(int)
    assert len(set(result.indices)) == k
    np.testing.assert_array_equal(np.sort(truth[result.indices])[::-1], np.sort(truth)[::-1][:k])
    np.testing.assert_allclose(result.scores, truth[result.indices], atol=1e-12)


random_problems = settings(
    max_examples=150,
    deadline=None,
    derandomize=True,
    # The ways to search are functions without state.
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


@random_problems
@given(problem=small_problems(max_d=16))
def test_small_problems_are_solved_exactly(find, problem):
    atoms, query, k, seed = problem
    assert_as_good_as_brute_force(find(atoms, query, k, delta=1e-9, seed=seed), atoms, query, k)


@random_problems
@given(problem=small_problems(max_d=60), bound=st.sampled_from(["hoeffding", "hoeffding_serfling", "bernstein"]))
def test_bounds_with_a_theorem_do_not_fail(find, problem, bound):
    atoms, query, k, seed = problem
    result = find(atoms, query, k, delta=1e-9, seed=seed, bound=bound, value_range=(-3, 3))
    assert_as_good_as_brute_force(result, atoms, query, k)


@random_problems
@given(seed=st.integers(0, 10**6), n=st.integers(1, 12), d=st.integers(1, 200), sampling=st.sampled_from(SAMPLINGS))
def test_paired_at_a_tiny_delta_equals_brute_force(find, seed, n, d, sampling):
    atoms, query = integers(n=n, d=d, seed=seed)
    k = 1 + seed % n
    result = find(atoms, query, k, delta=1e-9, seed=seed, sampling=sampling)
    assert_as_good_as_brute_force(result, atoms, query, k)
