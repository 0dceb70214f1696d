"""Greedy-MIPS: which candidates it screens, and what that costs."""

from __future__ import annotations

import heapq

import numpy as np
import pytest

from banditmips.baselines import GreedyMIPS


def slow_screening(atoms, query, budget):
    """Screen candidates with a heap over the coordinates, counting every product that is formed."""
    n, d = atoms.shape
    n_products = 0
    walks = []
    for j in range(d):
        order = sorted(range(n), key=lambda i: (-atoms[i, j], i))
        walks.append(order if query[j] >= 0 else order[::-1])
    heap = []
    for j in range(d):
        heapq.heappush(heap, (-(query[j] * atoms[walks[j][0], j]), j))
        n_products += 1
    candidates = []
    while len(candidates) < budget:
        _, j = heapq.heappop(heap)
        if walks[j][0] not in candidates:
            candidates.append(walks[j][0])
        if len(candidates) == budget:
            break
        while walks[j] and walks[j][0] in candidates:
            del walks[j][0]
        if walks[j]:
            heapq.heappush(heap, (-(query[j] * atoms[walks[j][0], j]), j))
            n_products += 1
    return candidates, n_products


@pytest.mark.parametrize("budget", [1, 2, 7, 19, 20])
@pytest.mark.parametrize("shape", [(20, 8), (20, 1), (20, 50)])
@pytest.mark.parametrize("ties", [False, True])
def test_counts_what_a_counting_version_counts(budget, shape, ties):
    rng = np.random.default_rng(budget)
    for _ in range(5):
        if ties:
            atoms, query = rng.integers(-2, 3, size=shape), rng.integers(-2, 3, size=shape[1])
        else:
            atoms, query = rng.normal(size=shape), rng.normal(size=shape[1])
        candidates, n_products = slow_screening(atoms, query, budget)
        result = GreedyMIPS(budget=budget).fit(atoms).search(query, k=budget)
        assert sorted(result.indices) == sorted(candidates)
        assert result.n_multiplies == n_products + budget * shape[1]
        assert result.n_survivors == budget


@pytest.mark.parametrize("signs", ["mixed", "positive", "negative"])
def test_candidates_have_the_largest_single_products(signs):
    rng = np.random.default_rng(1)
    atoms, query = rng.normal(size=(100, 12)), rng.normal(size=12)
    if signs != "mixed":
        query = np.abs(query) * (1 if signs == "positive" else -1)
    largest = (atoms * query).max(axis=1)
    for budget in (1, 10, 60):
        result = GreedyMIPS(budget=budget).fit(atoms).search(query, k=budget)
        assert sorted(result.indices) == sorted(np.argsort(-largest)[:budget])


def test_negative_entries_are_not_passed_over():
    atoms = np.array([[-9.0, 0.1], [1.0, 1.0], [2.0, 0.0]])
    result = GreedyMIPS(budget=1).fit(atoms).search(np.array([-1.0, 1.0]))
    assert result.indices.tolist() == [0]
    assert result.scores[0] == pytest.approx(9.1)


def test_full_budget_is_exact_and_the_screening_costs_little():
    rng = np.random.default_rng(2)
    atoms, queries = rng.normal(size=(150, 40)), rng.normal(size=(20, 40))
    result = GreedyMIPS(budget=1000).fit(atoms).search(queries, k=5)
    np.testing.assert_array_equal(result.indices, np.argsort(-(queries @ atoms.T), axis=1)[:, :5])
    assert (result.n_multiplies >= 150 * 40 + 40).all()
    assert (result.n_multiplies <= 1.1 * 150 * 40 + 40).all()


def test_fewer_candidates_than_k_are_padded():
    atoms = np.random.default_rng(3).normal(size=(30, 6))
    result = GreedyMIPS(budget=2).fit(atoms).search(atoms[0], k=4)
    assert (result.indices[:2] >= 0).all()
    assert result.indices[2:].tolist() == [-1, -1]


def test_accuracy_and_work_fall_with_the_budget():
    rng = np.random.default_rng(4)
    atoms, queries = rng.normal(size=(400, 30)), rng.normal(size=(50, 30))
    best = np.argmax(queries @ atoms.T, axis=1)
    accuracies, counts = [], []
    for budget in (400, 100, 40, 10, 2):
        result = GreedyMIPS(budget=budget).fit(atoms).search(queries)
        accuracies.append(np.mean(result.indices[:, 0] == best))
        counts.append(result.n_multiplies.mean())
    assert accuracies == sorted(accuracies, reverse=True)
    assert accuracies[0] == 1.0
    assert accuracies[-1] < 0.5
    assert counts == sorted(counts, reverse=True)


def test_only_the_sorted_order_is_built_beside_the_atoms():
    atoms = np.random.default_rng(5).normal(size=(30, 20)).astype(np.float32)
    index = GreedyMIPS().fit(atoms)
    assert np.shares_memory(index._values, atoms)
    assert index._order.dtype == np.int32


@pytest.mark.parametrize(
    ("budget", "error", "message"),
    [
        (0, ValueError, "budget must be at least 1, but came as 0"),
        (2.5, TypeError, "budget must be an integer, but came as 2.5"),
    ],
)
def test_bad_parameters_are_named(budget, error, message):
    with pytest.raises(error, match=message):
        GreedyMIPS(budget=budget)
