"""HNSW-MIPS: FAISS's graph walked by hand, and what a query costs."""

from __future__ import annotations

import heapq
import sys

import faiss
import numpy as np
import pytest

from banditmips.baselines import hnsw
from banditmips.baselines.hnsw import HNSWMIPS


def data(n: int = 400, d: int = 16, n_queries: int = 50, seed: int = 0):
    random = np.random.default_rng(seed)
    atoms = random.lognormal(0.0, 0.3, size=(n, 1)) * random.normal(size=(n, d))
    return atoms, random.normal(size=(n_queries, d))


def true_best(atoms, query, k):
    scores = atoms.astype(np.float64) @ query
    return np.lexsort((np.arange(scores.size), -scores))[:k]


def recall(index, atoms, queries, k):
    result = index.search(queries, k)
    return np.mean(
        [np.isin(true_best(atoms, q, k), row).mean() for q, row in zip(queries, result.indices, strict=True)]
    )


class CountedHNSW:
    """The walk through FAISS's graph in plain Python: one call of `multiply` for each product."""

    def __init__(self, fitted: HNSWMIPS) -> None:
        self.fitted = fitted
        graph = fitted._index.hnsw
        self.entry, self.top = graph.entry_point, graph.max_level
        self.offsets = faiss.vector_to_array(graph.offsets).astype(np.int64)
        self.starts = faiss.vector_to_array(graph.cum_nneighbor_per_level).astype(np.int64)
        self.neighbours = faiss.vector_to_array(graph.neighbors)
        self.atoms = fitted._atoms.astype(np.float32)
        self.products = 0

    def multiply(self, left: float, right: float) -> float:
        self.products += 1
        return left * right

    def score(self, atom, query) -> float:
        return sum(self.multiply(float(a), float(b)) for a, b in zip(self.atoms[atom], query, strict=True))

    def links(self, atom, layer):
        row = self.neighbours[self.offsets[atom] :][self.starts[layer] : self.starts[layer + 1]]
        return [int(link) for link in row if link >= 0]

    def search(self, query, k):
        atom, score = self.entry, self.score(self.entry, query)
        for layer in range(self.top, 0, -1):
            moved = True
            while moved:
                moved = False
                for link in self.links(atom, layer):
                    if (link_score := self.score(link, query)) > score:
                        best, score, moved = link, link_score, True
                if moved:
                    atom = best
        found = self.explore(query, atom, score, max(self.fitted.ef_search, k))[:k]
        exact = {atom: self.score(atom, query) for atom in found}
        return sorted(exact, key=lambda atom: (-exact[atom], atom))

    def explore(self, query, start, score, ef):
        seen, frontier, best = {start}, [(-score, start)], [(score, start)]
        while frontier:
            negative, atom = heapq.heappop(frontier)
            if len(best) >= ef and -negative < best[0][0]:
                break
            for link in self.links(atom, 0):
                if link in seen:
                    continue
                seen.add(link)
                link_score = self.score(link, query)
                if len(best) < ef or link_score > best[0][0]:
                    heapq.heappush(frontier, (-link_score, link))
                    heapq.heappush(best, (link_score, link))
                    if len(best) > ef:
                        heapq.heappop(best)
        return [atom for _, atom in sorted(best, reverse=True)]


@pytest.mark.parametrize(("n", "links"), [(1, 4), (2, 4), (30, 2), (150, 4)])
@pytest.mark.parametrize(("ef_search", "k"), [(1, 1), (2, 5), (16, 3), (200, 1)])
def test_counts_what_a_counting_version_counts(n, links, ef_search, k):
    atoms, queries = data(n=n, d=6, n_queries=4)
    queries = queries.astype(np.float32)
    index = HNSWMIPS(M=links, ef_construction=20, ef_search=ef_search).fit(atoms)
    for query in queries:
        slow = CountedHNSW(index)
        expected = slow.search(query, min(k, n))
        result = index.search(query, k)
        assert result.indices[result.indices >= 0].tolist() == expected
        assert result.n_multiplies == slow.products


def test_unpruned_graph_is_exact_at_full_effort():
    atoms, queries = data(n=81)
    result = HNSWMIPS(M=40, ef_search=81).fit(atoms).search(queries, 5)
    np.testing.assert_array_equal(result.indices, [true_best(atoms, q, 5) for q in queries])


def test_pruned_graph_misses_only_what_it_cannot_reach():
    """Effort alone does not make a pruned graph exact: what nobody links to stays out of sight."""
    atoms, queries = data()
    index = HNSWMIPS(M=2, ef_construction=4, ef_search=len(atoms)).fit(atoms)
    slow = CountedHNSW(index)
    reached, frontier = {slow.entry}, [slow.entry]
    while frontier:
        atom = frontier.pop()
        fresh = set(slow.links(atom, 0)) - reached
        reached |= fresh
        frontier += fresh
    result = index.search(queries, 10)
    assert set(result.indices.ravel().tolist()) <= reached
    some = np.array(sorted(reached))
    assert some.size < len(atoms)
    np.testing.assert_array_equal(result.indices, [some[true_best(atoms[some], q, 10)] for q in queries])


def test_accuracy_and_work_fall_with_ef_search():
    atoms, queries = data(n=1000, n_queries=100)
    indexes = [HNSWMIPS(M=8, ef_search=ef_search).fit(atoms) for ef_search in (1000, 64, 16, 4, 1)]
    recalls = [recall(index, atoms, queries, 1) for index in indexes]
    work = [index.search(queries).n_multiplies.mean() for index in indexes]
    assert recalls[0] >= 0.98
    assert np.all(np.diff(recalls) <= 0.02), recalls
    assert recalls[-1] < 0.9
    assert np.all(np.diff(work) < 0.0)


def test_one_thread_builds_and_the_setting_is_left_as_it_was(monkeypatch):
    atoms, _ = data()
    threads = []
    add = faiss.IndexHNSWFlat.add

    def watched_add(index, rows):
        threads.append(faiss.omp_get_max_threads())
        add(index, rows)

    monkeypatch.setattr(faiss.IndexHNSWFlat, "add", watched_add)
    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(2)
    try:
        HNSWMIPS().fit(atoms)
        assert threads == [1]
        assert faiss.omp_get_max_threads() == 2
    finally:
        faiss.omp_set_num_threads(before)


def test_seed_decides_the_layers():
    atoms, _ = data()
    indexes = [HNSWMIPS(seed=seed).fit(atoms) for seed in (0, 0, 1)]
    first, again, other = (faiss.vector_to_array(index._index.hnsw.levels) for index in indexes)
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


def test_two_indexes_do_not_share_their_search_effort():
    atoms, queries = data()
    narrow, wide = HNSWMIPS(ef_search=2).fit(atoms), HNSWMIPS(ef_search=100).fit(atoms)
    alone = narrow.search(queries).n_multiplies
    wide.search(queries)
    np.testing.assert_array_equal(narrow.search(queries).n_multiplies, alone)


def test_scores_are_exact_although_the_graph_is_float32():
    atoms, queries = data()
    result = HNSWMIPS().fit(atoms).search(queries[0], 5)
    np.testing.assert_allclose(result.scores, atoms[result.indices] @ queries[0], rtol=1e-14)


def test_one_atom():
    result = HNSWMIPS().fit([[1.0, -2.0]]).search([3.0, 1.0], k=2)
    assert result.indices.tolist() == [0, -1]
    assert result.scores.tolist() == [1.0, -np.inf]


def test_zero_atoms_and_equal_atoms():
    result = HNSWMIPS().fit(np.zeros((5, 3))).search(np.ones(3), k=5)
    assert result.indices.tolist() == [0, 1, 2, 3, 4]
    assert result.scores.tolist() == [0.0] * 5
    best_is_zero = np.concatenate([-np.ones((9, 3)), np.zeros((1, 3))])
    assert HNSWMIPS().fit(best_is_zero).search(np.ones(3)).indices.tolist() == [9]


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int8, np.bool_])
def test_dtypes_agree_on_the_same_numbers(dtype):
    atoms = np.random.default_rng(4).integers(0, 2, size=(80, 12)).astype(dtype)
    query = np.random.default_rng(5).normal(size=12)
    reference = HNSWMIPS().fit(atoms.astype(np.float64)).search(query, 3)
    result = HNSWMIPS().fit(atoms).search(query, 3)
    np.testing.assert_array_equal(result.indices, reference.indices)
    assert result.n_multiplies == reference.n_multiplies


def test_entries_that_float32_cannot_hold_are_refused():
    with pytest.raises(ValueError, match="atoms must fit into float32"):
        HNSWMIPS().fit([[1e39, 0.0]])
    with pytest.raises(ValueError, match="queries must fit into float32"):
        HNSWMIPS().fit([[1.0, 0.0]]).search([1e39, 0.0])


def test_missing_faiss_is_named(monkeypatch):
    hnsw._import_faiss.cache_clear()
    monkeypatch.setitem(sys.modules, "faiss", None)
    with pytest.raises(ImportError, match=r"pip install 'banditmips\[baselines\]'"):
        HNSWMIPS().fit([[1.0]])


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"M": 1}, ValueError, "M must be at least 2, but came as 1"),
        ({"ef_construction": 0}, ValueError, "ef_construction must be at least 1"),
        ({"ef_search": 0.5}, TypeError, "ef_search must be an integer"),
    ],
)
def test_bad_parameters_are_named(arguments, error, message):
    with pytest.raises(error, match=message):
        HNSWMIPS(**arguments)


def test_a_walk_that_finds_fewer_than_k_says_so_without_a_warning(monkeypatch):
    """FAISS fills up with the smallest single precision number and -1."""
    atoms, queries = data(n=30)
    index = HNSWMIPS(ef_search=8).fit(atoms)
    walk = index._index.search

    def lost(query, n_wanted, params):
        products, found = walk(query, n_wanted, params=params)
        products[0, 2:], found[0, 2:] = np.finfo(np.float32).min, -1
        return products, found

    monkeypatch.setattr(index._index, "search", lost)
    result = index.search(queries[0], 4)
    assert (result.indices >= 0).sum() == 2
