"""`BanditMIPS` beyond the contract: adding and removing, buckets, the warm start, threads, memory."""

from __future__ import annotations

import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict

import numpy as np
import pytest
import scipy.sparse

import banditmips as bm
from banditmips.atoms import DenseStore


def fields_of(result):
    """All fields of a result, traces included, but for the plan in words, which tells how the atoms are kept."""
    fields = asdict(result)
    traces = fields["trace"]
    for trace in traces if isinstance(traces, tuple) else [traces] if traces else []:
        del trace["plan"]
    return fields


def assert_same(a, b):
    """Compare two results exactly."""
    np.testing.assert_equal(fields_of(a), fields_of(b))


def planted(n=60, d=3000, seed=0, m=4):
    """Return atoms whose means differ, in no order, and m queries."""
    rng = np.random.default_rng(seed)
    atoms = rng.permutation(np.linspace(-8.0, 8.0, n))[:, np.newaxis] + rng.normal(size=(n, d))
    return atoms, 1.0 + 0.5 * rng.normal(size=(m, d))


def uneven_norms(n=120, d=3000, seed=0):
    """Return atoms of very different norms, and a query that has something in common with all of them."""
    rng = np.random.default_rng(seed)
    norms = rng.permutation(np.geomspace(0.01, 10.0, n))
    return norms[:, np.newaxis] * (1.0 + rng.normal(size=(n, d))), 1.0 + 0.5 * rng.normal(size=d)


class Counting:
    """Atoms that count what is read of them, in a store of a user's own kind."""

    def __init__(self, array):
        self._store = DenseStore(array)
        self.shape, self.dtype = self._store.shape, self._store.dtype
        self.entries = self.blocks_read = 0

    def gather(self, rows, columns, out):
        self.entries += rows.size * columns.size
        self._store.gather(rows, columns, out)

    def scores(self, rows, columns, query, objective):
        self.entries += rows.size * query.size
        return self._store.scores(rows, columns, query, objective)

    def blocks(self, max_entries):
        for start, block in self._store.blocks(max_entries):
            self.blocks_read += 1
            self.entries += block.size
            yield start, block


# --- fit once, search many --------------------------------------------------------------------------------------------


def test_options_of_the_index_serve_every_search_and_a_search_may_change_them():
    atoms, queries = planted()
    options = {"delta": 0.1, "layout": "coordinates", "minimise": "multiplies", "rescore": False, "seed": 3}
    index = bm.BanditMIPS(**options).fit(atoms)
    assert not index.search(queries).exact.all()
    assert index.search(queries, delta=0.0).exact.all()
    assert index.search(queries, rescore=True).exact.all()
    assert_same(index.search(queries), bm.BanditMIPS(**options).fit(atoms).search(queries))


def test_fit_starts_anew():
    atoms, queries = planted()
    index = bm.BanditMIPS().fit(atoms[:5]).remove([2]).add(atoms[5:10])
    assert index.n_atoms == 10
    assert index.fit(atoms) is index
    assert (index.n_atoms, index.n_coordinates) == atoms.shape
    assert_same(index.search(queries), bm.BanditMIPS().fit(atoms).search(queries))


def test_a_uniform_race_is_the_same_with_and_without_the_cache():
    atoms, queries = planted()
    options = {"sampling": "uniform", "minimise": "multiplies", "rescore": False, "trace": True, "seed": 5}
    cached = bm.BanditMIPS(layout="coordinates", validate=False, **options).fit(atoms).search(queries, 3)
    plain = bm.search(atoms, queries, 3, **options)
    np.testing.assert_equal(fields_of(cached), fields_of(plain))


@pytest.mark.parametrize("dtype", ["f2", "f4", "i1", "?", ">f8", "g"])
def test_the_cache_holds_what_the_atoms_hold(dtype):
    atoms, queries = planted()
    atoms = atoms.astype(dtype)
    # Not validated, because what validation learns would leave fewer atoms to be raced.
    options = {"sampling": "uniform", "minimise": "multiplies", "trace": True}
    index = bm.BanditMIPS(layout="coordinates", validate=False, **options).fit(atoms)
    plain = bm.search(atoms, queries, 3, **options)
    cached = index.search(queries, 3)
    for one, other in zip(cached.trace, plain.trace, strict=True):
        np.testing.assert_equal(asdict(one.rounds[0]), asdict(other.rounds[0]))


def test_optimal_weights_find_the_columns_that_matter():
    """The atoms differ in a twentieth of their coordinates only, which the query does not tell."""
    rng = np.random.default_rng(0)
    atoms = 1e-3 * rng.normal(size=(50, 10_000))
    atoms[:, ::20] += rng.permutation(np.linspace(-3.0, 3.0, 50))[:, np.newaxis] + rng.normal(size=(50, 500))
    queries = 1.0 + 0.2 * rng.normal(size=(10, 10_000))
    index = bm.BanditMIPS(minimise="multiplies", rescore=False).fit(atoms)
    optimal, uniform = (index.search(queries, sampling=sampling) for sampling in ("optimal", "uniform"))
    np.testing.assert_array_equal(optimal.indices[:, 0], (queries @ atoms.T).argmax(axis=1))
    assert optimal.n_multiplies.sum() * 4 < uniform.n_multiplies.sum()


def test_exact_scores_of_the_leaders_save_multiplies():
    """They raise the bar for everybody else, and are left out under a budget, however large."""
    rng = np.random.default_rng(0)
    atoms, queries = (rng.normal(size=(rows, 1)) + rng.normal(size=(rows, 4000)) for rows in (600, 8))
    index = bm.BanditMIPS(minimise="multiplies").fit(atoms)
    led, not_led = (index.search(queries, budget=budget) for budget in (None, 10 * atoms.size))
    assert 3 * led.n_multiplies.sum() < not_led.n_multiplies.sum() < queries.shape[0] * atoms.size
    for result in (led, not_led):
        np.testing.assert_array_equal(result.indices[:, 0], (queries @ atoms.T).argmax(axis=1))


@pytest.mark.parametrize("layout", ["codes", "coordinates"])
@pytest.mark.parametrize("minimise", ["time", "multiplies"])
def test_threads_may_share_an_index(layout, minimise):
    atoms, queries = planted(m=40)
    index = bm.BanditMIPS(layout=layout, minimise=minimise, trace=True).fit(atoms)
    expected = [asdict(index.search(query, 3)) for query in queries]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda query: asdict(index.search(query, 3, n_jobs=2)), queries))
    np.testing.assert_equal(found, expected)


# --- add and remove ---------------------------------------------------------------------------------------------------

EVERYTHING = {
    "default": {},
    "coordinates": {"layout": "coordinates"},
    "uniform": {"sampling": "uniform", "layout": "coordinates"},
    "optimal": {"sampling": "optimal"},
    "bernstein": {"bound": "bernstein"},
    "cosine": {"objective": "cosine"},
    "neg_l1": {"objective": "neg_l1"},
    "buckets": {"bucket_size": 7},
    "no validation": {"validate": False},
}
every_index = pytest.mark.parametrize("options", EVERYTHING.values(), ids=EVERYTHING.keys())


@every_index
def test_an_index_grown_by_add_equals_a_fresh_one(options):
    atoms, queries = planted()
    grown = bm.BanditMIPS(**options).fit(atoms[:20]).add(atoms[20:21]).add(atoms[21:])
    fresh = bm.BanditMIPS(**options).fit(atoms)
    assert (grown.n_atoms, grown.extra_bytes) == (fresh.n_atoms, fresh.extra_bytes)
    one, other = (index.search(queries, 3, minimise="multiplies") for index in (grown, fresh))
    names = ["indices", "exact", "n_multiplies", "n_rounds", "n_survivors", "stop_reason", "delta_spent"]
    if options in ({}, {"objective": "cosine"}):
        # Codes are about the mean of the atoms that came first: another one, another race.
        assert (one.n_multiplies <= 2 * other.n_multiplies).all()
        names = ["indices", "exact"]
    for name in names:
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    # Sums over all atoms (Theorem 2's column norms) are added up in another order.
    for name in ("scores", "lower", "upper"):
        np.testing.assert_allclose(getattr(one, name), getattr(other, name), rtol=1e-12)
    assert_same(grown.search(queries, 3, delta=0.0), fresh.search(queries, 3, delta=0.0))


@pytest.mark.parametrize(
    "parts",
    [
        lambda a: (a[:20], scipy.sparse.csr_array(a[20:])),
        lambda a: (a[:20].astype(np.int8), a[20:]),
        lambda a: (np.asfortranarray(a[:20]), a[20:].astype(">f4")),
        lambda a: ((a[:20] != 0).astype(bool), a[20:]),
    ],
    ids=["sparse", "integers", "orders", "booleans"],
)
def test_added_atoms_may_be_of_another_kind(parts):
    rng = np.random.default_rng(0)
    atoms, query = rng.integers(-3, 4, (50, 300)).astype(float), rng.choice([-1.0, 1.0, 2.0], 300)
    first, second = parts(atoms)
    joined = np.concatenate([np.asarray(first, dtype=float), atoms[20:]])
    options = {"layout": "coordinates", "minimise": "multiplies", "trace": True}
    index = bm.BanditMIPS(**options).fit(first).add(second)
    assert_same(index.search(query, 3), bm.BanditMIPS(**options).fit(joined).search(query, 3))
    codes = bm.BanditMIPS(minimise="multiplies").fit(first).add(second)
    np.testing.assert_array_equal(codes.search(query, 3).scores, np.sort(joined @ query)[:-4:-1])


def test_the_facts_of_a_grown_index_cover_all_atoms():
    """Bernstein takes the range of the entries from them: too narrow a one would drop the new best atom."""
    atoms, queries = planted()
    larger = 3.0 * atoms + 5.0
    options = {"bound": "bernstein", "minimise": "multiplies"}
    index = bm.BanditMIPS(delta=1e-6, **options).fit(atoms).add(larger)
    truth = queries @ np.concatenate([atoms, larger]).T
    np.testing.assert_array_equal(index.search(queries).indices[:, 0], truth.argmax(axis=1))
    alone = bm.BanditMIPS(**options).fit(np.concatenate([atoms, larger]))
    assert_same(index.search(queries, delta=1e-3), alone.search(queries))


@every_index
@pytest.mark.parametrize("minimise", ["time", "multiplies"])
def test_removed_atoms_are_not_found_and_the_others_keep_their_indices(options, minimise):
    atoms, queries = planted()
    index = bm.BanditMIPS(minimise=minimise, **options).fit(atoms)
    ranking = index.search(queries[0], 5, delta=0.0).indices
    assert index.remove(ranking[:2]) is index
    assert index.n_atoms == len(atoms)
    np.testing.assert_array_equal(index.search(queries[0], 3).indices, ranking[2:])
    index.remove(ranking[3])
    np.testing.assert_array_equal(index.search(queries[0], 2).indices, ranking[[2, 4]])


@pytest.mark.parametrize("layout", ["codes", "coordinates"])
@pytest.mark.parametrize("minimise", ["time", "multiplies"])
def test_removing_is_masking(layout, minimise):
    atoms, queries = planted()
    gone = np.isin(np.arange(len(atoms)), [3, 17, 58])
    index = bm.BanditMIPS(layout=layout, minimise=minimise, trace=True).fit(atoms)
    masked = index.search(queries, 4, mask=gone)
    assert_same(index.remove([58, 3, 17]).search(queries, 4), masked)


@pytest.mark.parametrize("minimise", ["time", "multiplies"])
def test_removed_atoms_stay_away_when_others_come(minimise):
    atoms, queries = planted()
    truth = queries[0] @ atoms.T
    best = int(truth[:30].argmax())
    index = bm.BanditMIPS(minimise=minimise).fit(atoms[:30]).remove([best]).add(atoms[30:])
    expected = np.argsort(-np.where(np.arange(60) == best, -np.inf, truth))[:5]
    np.testing.assert_array_equal(index.search(queries[0], 5).indices, expected)
    np.testing.assert_array_equal(
        index.search(queries[0], 5, mask=np.arange(60) == expected[0]).indices[:4], expected[1:]
    )


@pytest.mark.parametrize("layout", ["auto", "coordinates", "none"])
def test_a_search_before_does_not_bring_removed_atoms_back(layout):
    atoms = np.random.default_rng(0).normal(size=(40, 600))
    index = bm.BanditMIPS(layout=layout).fit(atoms)
    assert index.search(atoms[3]).indices[0] == 3
    assert index.remove([3]).search(atoms[3]).indices[0] != 3


def test_all_atoms_removed():
    atoms, queries = planted(n=3)
    index = bm.BanditMIPS().fit(atoms).remove([0, 1, 2])
    np.testing.assert_array_equal(index.search(queries, 2).indices, -1)
    assert index.add(atoms[:1]).search(queries[0]).indices[0] == 3


def test_removing_nothing():
    atoms, queries = planted()
    assert_same(bm.BanditMIPS().fit(atoms).remove([]).search(queries), bm.BanditMIPS().fit(atoms).search(queries))


# --- buckets ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("validate", [True, False])
@pytest.mark.parametrize("minimise", ["time", "multiplies"])
@pytest.mark.parametrize("bucket_size", [1, 7, 30, 119, 120, 1000])
def test_buckets_find_what_brute_force_finds(bucket_size, minimise, validate):
    atoms, query = uneven_norms()
    truth = atoms @ query
    index = bm.BanditMIPS(bucket_size=bucket_size, minimise=minimise, validate=validate, delta=1e-9).fit(atoms)
    for sign in (1.0, -1.0):
        np.testing.assert_array_equal(index.search(sign * query, 5).indices, np.argsort(-sign * truth)[:5])
    np.testing.assert_array_equal(index.search(query, 5, absolute=True).indices, np.argsort(-np.abs(truth))[:5])


@pytest.mark.parametrize("validate", [True, False])
def test_buckets_save_multiplies_where_norms_differ(validate):
    with_buckets = without = 0
    for seed in range(10):
        atoms, query = uneven_norms(seed=seed)
        options = {"minimise": "multiplies", "rescore": False, "seed": seed}
        with_buckets += (
            bm.BanditMIPS(bucket_size=30, validate=validate, **options).fit(atoms).search(query).n_multiplies
        )
        # A fitted search without bins knows the norms too, and drops by them for certain: see the test of the screen.
        without += bm.search(atoms, query, **options).n_multiplies
    assert with_buckets < without


def test_one_bucket_for_all_atoms_is_a_plain_race():
    atoms, queries = planted()
    options = {"layout": "coordinates", "minimise": "multiplies", "trace": True}
    plain = bm.BanditMIPS(**options).fit(atoms).search(queries, 2)
    bucketed = bm.BanditMIPS(bucket_size=len(atoms), **options).fit(atoms).search(queries, 2)
    for one, other in zip(bucketed.trace, plain.trace, strict=True):
        # First rounds are as long as a share of delta asks for, and bins split it in another way.
        assert 0.5 <= one.rounds[0].n_coordinates / other.rounds[0].n_coordinates <= 2.0
        assert set(one.rounds[0].indices) == set(other.rounds[0].indices)
    np.testing.assert_array_equal(bucketed.indices, plain.indices)


def test_buckets_never_spend_more_than_delta():
    atoms, query = uneven_norms()
    for bucket_size in (1, 30, 500):
        options = {"delta": 0.01, "minimise": "multiplies", "rescore": False}
        index = bm.BanditMIPS(bucket_size=bucket_size, **options).fit(atoms)
        assert 0.0 < index.search(query).delta_spent <= 0.01


# --- memory and reading -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("n", "dtype"), [(1000, "f8"), (100, "f8"), (100, "f4"), (1000, "i1"), (20, "f8")])
def test_an_index_takes_at_most_a_tenth_of_the_atoms(n, dtype):
    atoms = np.ones((n, 10_000), dtype=dtype)
    assert bm.BanditMIPS().fit(atoms).extra_bytes <= 0.1 * atoms.nbytes
    assert bm.BanditMIPS(bucket_size=30).fit(atoms).extra_bytes <= 0.1 * atoms.nbytes


def test_of_few_atoms_of_one_byte_an_entry_codes_take_more_than_a_tenth_unless_that_is_forbidden():
    """The centre and the column norms are floats, however few the atoms."""
    atoms = np.ones((100, 10_000), dtype=np.int8)
    by_default = bm.BanditMIPS().fit(atoms)
    assert by_default._fitted.codes is not None
    assert by_default.extra_bytes <= 0.25 * atoms.nbytes
    limited = bm.BanditMIPS(max_extra_memory=atoms.nbytes // 10).fit(atoms)
    assert limited._fitted.codes is None
    assert limited.extra_bytes <= 0.1 * atoms.nbytes


@pytest.mark.parametrize("form", [np.asarray, np.asfortranarray, scipy.sparse.csr_array, scipy.sparse.csc_array])
def test_extra_bytes_tells_what_fit_keeps(form):
    rng = np.random.default_rng(0)
    atoms = form(np.where(rng.random((200, 10_000)) < 0.2, 1.0, 0.0))
    bm.BanditMIPS().fit(atoms[:5])
    tracemalloc.start()
    try:
        index = bm.BanditMIPS().fit(atoms)
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert 0.9 * index.extra_bytes <= kept <= 1.1 * index.extra_bytes + 50_000


def test_fit_reads_every_atom_once_and_the_cache():
    atoms, _ = planted(n=100, d=5000)
    store = Counting(atoms)
    bm.BanditMIPS(layout="coordinates").fit(store)
    assert store.blocks_read >= 1
    assert atoms.size <= store.entries <= 1.25 * atoms.size


def test_for_codes_fit_reads_every_atom_once_and_a_few_for_their_mean():
    atoms, _ = planted(n=2000, d=500)
    store = Counting(atoms)
    bm.BanditMIPS().fit(store)
    assert store.blocks_read >= 1
    assert atoms.size <= store.entries <= atoms.size + 256 * 500


def test_without_validation_fit_reads_the_cache_only():
    atoms, queries = planted(n=100, d=5000)
    store = Counting(atoms)
    index = bm.BanditMIPS(validate=False).fit(store)
    assert store.blocks_read == 0
    assert store.entries <= atoms.size / 4
    result = index.search(queries)
    assert result.checked is False
    assert store.blocks_read == 0
    np.testing.assert_array_equal(result.indices[:, 0], (queries @ atoms.T).argmax(axis=1))
    assert bm.BanditMIPS().fit(atoms).search(queries).checked is True


def test_a_search_reads_no_more_than_it_counts():
    atoms, queries = planted(n=100, d=5000)
    for sampling in ("uniform", "weighted"):
        store = Counting(atoms)
        index = bm.BanditMIPS(sampling=sampling).fit(store)
        store.entries = 0
        counted = index.search(queries, 3).n_multiplies.sum()
        assert store.entries <= counted
        assert store.entries > 0
