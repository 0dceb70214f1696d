"""Far more places than there are atoms: the same answer as for all atoms, and no more memory than the result takes."""

from __future__ import annotations

import tracemalloc
from dataclasses import asdict

import numpy as np
import pytest
import scipy.sparse

import banditmips as bm
from banditmips import _padding

N, D, MANY = 40, 3_000, 1_000_000
rng = np.random.default_rng(0)
ATOMS = rng.permutation(np.linspace(-4.0, 4.0, N))[:, np.newaxis] + rng.normal(size=(N, D))
QUERIES = 1.0 + 0.5 * rng.normal(size=(3, D))
SPARSE = scipy.sparse.random_array((N, D), density=0.1, format="csr", rng=np.random.default_rng(1))
NAMES = [f"atom {number}" for number in range(N)]

WAYS = {
    "all products": lambda queries, k: bm.search(ATOMS, queries, k),
    "estimates": lambda queries, k: bm.search(ATOMS, queries, k, minimise="multiplies", rescore=False),
    "both ends": lambda queries, k: bm.search(ATOMS, queries, k, ends="both"),
    "smallest": lambda queries, k: bm.search(ATOMS, queries, k, ends="smallest", minimise="multiplies"),
    "some masked": lambda queries, k: bm.search(ATOMS, queries, k, mask=np.arange(N) % 3 == 0),
    "a budget": lambda queries, k: bm.search(ATOMS, queries, k, budget=100 * N),
    "sparse": lambda queries, k: bm.search(SPARSE, queries, k),
    "an index": lambda queries, k: bm.BanditMIPS().fit(ATOMS).search(queries, k),
    "names": lambda queries, k: bm.BanditMIPS().fit(ATOMS, ids=NAMES).search(queries, k),
    "numbers": lambda queries, k: bm.BanditMIPS().fit(ATOMS, ids=range(N)).remove([3, 4]).search(queries, k),
    "coordinates": lambda queries, k: bm.BanditMIPS(layout="coordinates").fit(ATOMS).search(queries, k),
    "a baseline": lambda queries, k: bm.baselines.REGISTRY["naive"]().fit(ATOMS).search(queries, k),
}
OF_PLACES = {"indices": -1, "scores": -np.inf, "lower": -np.inf, "upper": -np.inf, "exact": True, "ids": None}


def check_wide(wide, narrow, smallest=False):
    for name, value in asdict(narrow).items():
        found = getattr(wide, name)
        if name not in OF_PLACES or value is None:
            if name not in ("smallest", "trace"):
                np.testing.assert_array_equal(found, value, err_msg=name)
            continue
        assert found.dtype == value.dtype
        np.testing.assert_array_equal(found[..., :N], value, err_msg=name)
        filling = OF_PLACES[name]
        if name == "ids":
            filling = -1 if value.dtype == np.int64 else ""
        elif filling == -np.inf and smallest:
            filling = np.inf
        assert (found[..., N:] == filling).all(), name


@pytest.mark.parametrize("queries", [QUERIES[0], QUERIES, QUERIES[:0]], ids=["one", "a batch", "none"])
@pytest.mark.parametrize("way", WAYS)
def test_more_places_than_atoms_are_filled_behind_what_all_atoms_give(way, queries):
    if way == "a baseline" and len(queries) == 0:
        pytest.skip("baselines have no result for no queries")
    wide, narrow = (WAYS[way](queries, k) for k in (N + 7, N))
    assert wide.indices.shape == (*queries.shape[:-1], N + 7)
    check_wide(wide, narrow, way == "smallest")
    if way == "both ends":
        check_wide(wide.smallest, narrow.smallest, smallest=True)


@pytest.mark.parametrize("queries", [QUERIES[0], QUERIES], ids=["one", "a batch"])
@pytest.mark.parametrize("way", WAYS)
def test_no_more_memory_is_taken_than_the_result_holds(way, queries):
    WAYS[way](queries, N)  # what is made once
    tracemalloc.start()
    try:
        result = WAYS[way](queries, MANY)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert result.indices.shape[-1] == MANY
    held = sum(
        array.nbytes
        for part in (result, result.smallest)
        if part is not None
        for array in part.__dict__.values()
        if isinstance(array, np.ndarray)
    )
    assert peak < held + 3_000_000


def test_results_that_do_not_fit_in_memory_are_an_error_that_names_k(monkeypatch):
    monkeypatch.setattr(_padding, "memory_bytes", lambda: 1_000_000_000)
    match = r"k=100000000 for 3 queries take at least 4\.8 GB, and there are 1\.0 GB of memory: k=40 finds all atoms"
    with pytest.raises(MemoryError, match=match):
        bm.search(ATOMS, QUERIES, 10**8)
    with pytest.raises(MemoryError, match=r"k=100000000 for 1 query take at least 1\.6 GB"):
        bm.BanditMIPS().fit(ATOMS).search(QUERIES[0], 10**8)
    with pytest.raises(MemoryError, match=r"for 2 queries take"):
        bm.search(ATOMS, QUERIES[0], 5 * 10**7, ends="both")
    monkeypatch.setattr(_padding, "memory_bytes", lambda: 16 * 30 * 3 - 1)
    with pytest.raises(MemoryError, match=r"k=30 for 3 queries .*: ask for fewer atoms, or for fewer queries"):
        bm.search(ATOMS, QUERIES, 30, delta=0)


def test_memory_that_the_system_refuses_is_an_error_that_names_k(monkeypatch):
    def refused(*shape, **kind):
        raise MemoryError("Unable to allocate")

    monkeypatch.setattr(_padding, "_filled", refused)
    with pytest.raises(MemoryError, match=r"no memory for results of k=50 places: k=40 finds all atoms"):
        bm.search(ATOMS, QUERIES[0], 50)


@pytest.mark.parametrize("k", [2**31, np.int64(2**31), 10**30])
def test_a_k_that_is_no_number_of_atoms_stays_refused(k):
    with pytest.raises(ValueError, match="k must be at most 2147483647"):
        bm.search(ATOMS, QUERIES, k)
    with pytest.raises(ValueError, match="k must be at most 2147483647"):
        bm.BanditMIPS().fit(ATOMS).search(QUERIES[0], k)
