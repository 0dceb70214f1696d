"""NAPG-MIPS: the factors, the graph and the walk against plain Python, and what a query costs."""

from __future__ import annotations

import numpy as np
import pytest

from banditmips.baselines import graph
from banditmips.baselines.napg import NAPGMIPS, _adjusting_factors


def data(n: int = 400, d: int = 16, n_queries: int = 50, seed: int = 0):
    random = np.random.default_rng(seed)
    atoms = random.lognormal(0.0, 0.5, size=(n, 1)) * (0.5 + random.normal(size=(n, d)))
    return atoms, 0.5 + random.normal(size=(n_queries, d))


def whole_numbers(n: int, d: int, seed: int = 0):
    """Atoms whose inner products are exact in any order of summation, with many ties."""
    random = np.random.default_rng(seed)
    return random.integers(-3, 6, size=(n, d)).astype(np.float64), random.integers(-3, 6, size=(6, d)) * 1.0


def true_best(atoms, query, k):
    scores = atoms.astype(np.float64) @ query
    return np.lexsort((np.arange(scores.size), -scores))[:k]


def recall(index, atoms, queries, k):
    result = index.search(queries, k)
    return np.mean(
        [np.isin(true_best(atoms, q, k), row).mean() for q, row in zip(queries, result.indices, strict=True)]
    )


class CountedGraph:
    """The same graph and walk, sorting lists in plain Python: one call of `multiply` for each product."""

    def __init__(self, atoms, layers, alphas, max_links, ef) -> None:
        self.atoms, self.alphas, self.max_links = atoms.tolist(), alphas, max_links
        self.links = [{layer: [] for layer in range(int(top) + 1)} for top in layers]
        self.entry = 0
        self.products = 0
        for newcomer in range(1, len(self.atoms)):
            self.insert(newcomer, ef)
            if len(self.links[newcomer]) > len(self.links[self.entry]):
                self.entry = newcomer

    def multiply(self, left: float, right: float) -> float:
        self.products += 1
        return left * right

    def inner_product(self, left, right) -> float:
        return sum(self.multiply(a, b) for a, b in zip(left, right, strict=True))

    def insert(self, newcomer, ef):
        own = self.links[newcomer]
        start = {self.entry: self.inner_product(self.atoms[self.entry], self.atoms[newcomer])}
        for layer in reversed(range(len(self.links[self.entry]))):
            found = self.explore(self.atoms[newcomer], layer, start, ef if layer in own else 1)
            start = {next(iter(found)): next(iter(found.values()))}
            if layer in own:
                own[layer] = self.select(newcomer, found, self.max_links)
                for link in own[layer]:
                    self.link_back(link, newcomer, layer)

    def link_back(self, atom, newcomer, layer):
        row = self.links[atom][layer]
        row.append(newcomer)
        most = self.max_links * (2 if layer == 0 else 1)
        if len(row) > most:
            scores = {i: self.inner_product(self.atoms[i], self.atoms[atom]) for i in row}
            self.links[atom][layer] = self.select(atom, scores, most)

    def select(self, atom, scores, most):
        chosen = []
        for candidate in sorted(scores, key=lambda i: (-scores[i], i)):
            if len(chosen) < most and all(
                self.alphas[atom] * scores[candidate] >= self.inner_product(self.atoms[candidate], self.atoms[link])
                for link in chosen
            ):
                chosen.append(candidate)
        return chosen

    def explore(self, query, layer, start, ef):
        scores, followed, best = dict(start), set(), list(start)

        def rank(atom):
            return -scores[atom], atom

        while ahead := [atom for atom in best if atom not in followed]:
            followed.add(ahead[0])
            for link in self.links[ahead[0]][layer]:
                if link not in scores:
                    scores[link] = self.inner_product(self.atoms[link], query)
                    best = sorted([*best, link], key=rank)[:ef]
        return {atom: scores[atom] for atom in best}

    def search(self, query, ef, k):
        start = {self.entry: self.inner_product(self.atoms[self.entry], query)}
        for layer in reversed(range(1, len(self.links[self.entry]))):
            start = self.explore(query, layer, start, 1)
        return list(self.explore(query, 0, start, ef))[:k]


def links_of(graph, atom, layer):
    row = graph.first_row[atom] + layer
    return graph.links[row, : graph.degrees[row]].tolist()


def layers_of(index):
    rows = np.append(index._graph.first_row, index._graph.degrees.size)
    return np.diff(rows) - 1


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("n", "d", "links", "ef"), [(1, 3, 2, 5), (3, 2, 2, 1), (90, 5, 2, 6), (120, 7, 4, 20)])
def test_graph_walk_and_count_are_those_of_a_counting_version(dtype, n, d, links, ef):
    atoms, queries = whole_numbers(n, d)
    index = NAPGMIPS(M=links, ef_construction=ef, ef_search=4).fit(atoms.astype(dtype))
    slow = CountedGraph(atoms, layers_of(index), index.alphas_, links, ef)
    assert index._graph.entry == slow.entry
    for atom, rows in enumerate(slow.links):
        assert [links_of(index._graph, atom, layer) for layer in rows] == list(rows.values())
    for query in queries:
        for k in (1, 3, 7):
            slow.products = 0
            expected = slow.search(query.tolist(), max(4, min(k, n)), min(k, n))
            result = index.search(query, k)
            assert result.indices[result.indices >= 0].tolist() == expected
            assert result.n_multiplies == slow.products


def test_factors_are_the_ratio_of_the_means_in_each_range():
    atoms, _ = data(n=60, d=5)
    n_neighbours, n_ranges = 7, 3
    found = _adjusting_factors(atoms, n_ranges, 60, n_neighbours, np.random.default_rng(0))
    gram = atoms @ atoms.T
    by_norm = np.argsort(np.linalg.norm(atoms, axis=1))
    for members in np.array_split(by_norm, n_ranges):
        with_source, between = [], []
        for source in members:
            others = np.delete(np.arange(60), source)
            best = others[np.argsort(-gram[source, others])[:n_neighbours]]
            with_source += [gram[source, p] for p in best]
            between += [gram[p, r] for p in best for r in best if p != r]
        np.testing.assert_allclose(found[members], np.mean(between) / np.mean(with_source))


def test_short_atoms_get_larger_factors_and_more_links_than_ip_nsw_gives_them():
    atoms, _ = data(n=300)
    index = NAPGMIPS(M=8, ef_construction=40).fit(atoms)
    by_norm = np.argsort(np.linalg.norm(atoms, axis=1))
    factors = [index.alphas_[members].mean() for members in np.array_split(by_norm, 5)]
    assert np.all(np.diff(factors) < 0.0)
    assert factors[0] > 1.0

    plain = graph.build(atoms, layers_of(index), np.ones(300), 8, 40)
    short = by_norm[:60]

    def out_degree(graph):
        return graph.degrees[graph.first_row[short]].mean()

    assert out_degree(index._graph) > 2.0 * out_degree(plain)


def test_factor_is_one_where_the_means_have_no_sign_in_common():
    corners = np.array([[1.0, 1.0], [-1.0, -1.0], [1.0, -1.0], [-1.0, 1.0]])
    np.testing.assert_array_equal(NAPGMIPS().fit(corners).alphas_, 1.0)
    np.testing.assert_array_equal(NAPGMIPS().fit(np.zeros((6, 2))).alphas_, 1.0)


def test_unpruned_graph_is_exact_at_full_effort():
    atoms, queries = data(n=81)
    result = NAPGMIPS(M=40, ef_search=81).fit(atoms).search(queries, 5)
    np.testing.assert_array_equal(result.indices, [true_best(atoms, q, 5) for q in queries])
    assert (result.n_multiplies >= atoms.size).all()


def test_pruned_graph_misses_only_what_it_cannot_reach():
    """Effort alone does not make a pruned graph exact: what nobody links to stays out of sight."""
    atoms, queries = data()
    index = NAPGMIPS(M=2, ef_construction=4, ef_search=len(atoms)).fit(atoms)
    result = index.search(queries, 10)
    for query, row in zip(queries, result.indices, strict=True):
        reached, _, _ = index._graph.walk(query, len(atoms))
        assert reached.size < len(atoms)
        for atom in reached:
            assert np.isin(links_of(index._graph, atom, 0), reached).all()
        some = np.sort(reached)
        np.testing.assert_array_equal(row, some[true_best(atoms[some], query, 10)])


def test_accuracy_and_work_fall_with_ef_search():
    atoms, queries = data(n=1000, n_queries=100)
    indexes = [NAPGMIPS(M=8, ef_search=ef_search).fit(atoms) for ef_search in (1000, 64, 16, 4, 1)]
    recalls = [recall(index, atoms, queries, 1) for index in indexes]
    work = [index.search(queries).n_multiplies.mean() for index in indexes]
    assert recalls[0] >= 0.98
    assert np.all(np.diff(recalls) <= 0.02), recalls
    assert recalls[-1] < 0.9
    assert np.all(np.diff(work) < 0.0)


def test_seed_decides_the_layers_and_the_samples():
    atoms, _ = data()
    first, again, other = (NAPGMIPS(seed=seed, samples=5).fit(atoms) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first._graph.links, again._graph.links)
    np.testing.assert_array_equal(first.alphas_, again.alphas_)
    assert not np.array_equal(layers_of(first), layers_of(other))
    assert not np.array_equal(first.alphas_, other.alphas_)


def test_one_atom():
    result = NAPGMIPS().fit([[1.0, -2.0]]).search([3.0, 1.0], k=2)
    assert result.indices.tolist() == [0, -1]
    assert result.scores.tolist() == [1.0, -np.inf]
    assert result.n_multiplies == 2


def test_zero_atoms_and_equal_atoms():
    for atoms in (np.zeros((5, 3)), np.ones((5, 3))):
        result = NAPGMIPS().fit(atoms).search(np.ones(3), k=5)
        assert result.indices.tolist() == [0, 1, 2, 3, 4]
    best_is_zero = np.concatenate([-np.ones((9, 3)), np.zeros((1, 3))])
    assert NAPGMIPS().fit(best_is_zero).search(np.ones(3)).indices.tolist() == [9]


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int8, np.bool_])
@pytest.mark.parametrize("order", ["C", "F"])
def test_dtypes_and_orders_agree_on_the_same_numbers(dtype, order):
    atoms = np.random.default_rng(4).integers(0, 2, size=(80, 12)).astype(dtype, order=order)
    query = np.random.default_rng(5).integers(-4, 5, size=12)
    reference = NAPGMIPS().fit(atoms.astype(np.float64)).search(query, 3)
    result = NAPGMIPS().fit(atoms).search(query, 3)
    np.testing.assert_array_equal(result.indices, reference.indices)
    assert result.n_multiplies == reference.n_multiplies


def test_contiguous_atoms_are_not_copied():
    atoms, _ = data(n=20)
    for dtype in (np.float32, np.float64):
        given = atoms.astype(dtype)
        assert np.shares_memory(NAPGMIPS().fit(given)._rows, given)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"M": 1}, ValueError, "M must be at least 2, but came as 1"),
        ({"ef_construction": 0}, ValueError, "ef_construction must be at least 1"),
        ({"ef_search": "all"}, TypeError, "ef_search must be an integer"),
        ({"norm_ranges": 0}, ValueError, "norm_ranges must be at least 1"),
        ({"samples": 0}, ValueError, "samples must be at least 1"),
    ],
)
def test_bad_parameters_are_named(arguments, error, message):
    with pytest.raises(error, match=message):
        NAPGMIPS(**arguments)
