"""Algorithm 1 as the oracle of the race: on integers, where sums are exact, both eliminate the same atoms."""

import numpy as np
import pytest

import banditmips as bm
from banditmips.core.numbers import permuted_coordinates
from banditmips.race.sampling import ReplacementSampler
from banditmips.reference import algorithm_1


def integer_problem(seed, n=40, d=2048):
    rng = np.random.default_rng(seed)
    theta = rng.integers(-3, 4, size=(n, 1))
    return theta + rng.integers(-2, 3, size=(n, d)), rng.integers(1, 4, size=d)


def race_sets(result):
    """(coordinates, number of survivors, leading atoms) of each round."""
    return [(r.n_coordinates, r.n_survivors, r.leader) for r in result.trace.rounds]


@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize("seed", range(8))
def test_race_eliminates_what_algorithm_1_eliminates(seed, k):
    atoms, query = integer_problem(seed)
    sigma, delta = 4.0, 0.05
    result = bm.search(
        atoms,
        query,
        k,
        delta=delta,
        bound="hoeffding",
        sigma=sigma,
        sampling="uniform",
        minimise="multiplies",
        seed=seed,
        trace=True,
    )
    order = permuted_coordinates(seed, query.size, 0, query.size)
    checkpoints = [r.n_coordinates for r in result.trace.rounds]
    oracle = algorithm_1(atoms, query, sigma, delta, order, k=k, checkpoints=checkpoints)
    assert oracle.solution_sets, "the oracle never eliminated anything"
    assert [(n, s.size) for n, s in oracle.solution_sets] == [(n, s) for n, s, _ in race_sets(result)]
    last = result.trace.rounds[-1]
    survivors = oracle.solution_sets[-1][1]
    alive = last.indices[: last.n_survivors]
    assert set(alive) <= set(survivors.tolist())
    if result.stop_reason == "separated":
        assert set(result.indices) == set(oracle.indices)


@pytest.mark.parametrize("seed", range(4))
def test_race_with_replacement_follows_algorithm_1(seed):
    atoms, query = integer_problem(seed)
    result = bm.search(
        atoms,
        query,
        delta=0.05,
        bound="hoeffding",
        sigma=4.0,
        sampling="uniform",
        replacement=True,
        minimise="multiplies",
        seed=seed,
        trace=True,
        rescore=False,
    )
    assert result.trace.rounds, "there was no race"
    draws = ReplacementSampler(np.arange(query.size), np.ones(query.size), seed).prefix(query.size).coordinates
    checkpoints = [r.n_coordinates for r in result.trace.rounds]
    oracle = algorithm_1(atoms, query, 4.0, 0.05, draws, checkpoints=checkpoints)
    assert [(n, s.size) for n, s in oracle.solution_sets] == [(n, s) for n, s, _ in race_sets(result)]
    assert result.indices[0] == oracle.indices[0]
    # The race stops sampling a little before d coordinates; up to there both have computed the same products.
    sizes = [0, *(n for n, _ in oracle.solution_sets)]
    alive = [len(atoms), *(s.size for _, s in oracle.solution_sets)]
    sampled = sum(a * (b - c) for a, b, c in zip(alive[:-1], sizes[1:], sizes[:-1], strict=True))
    finish = alive[-1] * query.size if result.stop_reason == "finished_exactly" else 0
    assert result.n_multiplies == sampled + finish


def test_algorithm_1_as_printed_finds_the_best_atom():
    atoms, query = integer_problem(0)
    rng = np.random.default_rng(1)
    found = algorithm_1(atoms, query, 4.0, 0.01, rng.integers(query.size, size=query.size))
    assert found.indices[0] == np.argmax(atoms @ query)
    assert found.n_multiplies < atoms.size


def test_algorithm_1_finishes_exactly_what_it_cannot_separate():
    atoms = np.vstack([np.ones(50), np.ones(50), np.zeros(50)])
    found = algorithm_1(atoms, np.ones(50), 10.0, 0.01, range(50), k=2)
    assert list(found.indices) == [0, 1]
    assert found.n_multiplies == 3 * 50 + 3 * 50


def test_epsilon_stops_once_the_radius_is_below_a_quarter_of_it():
    atoms, query = integer_problem(3)
    order = list(permuted_coordinates(0, query.size, 0, query.size))
    sigma, delta, epsilon = 4.0, 0.05, 8.0
    found = algorithm_1(atoms, query, sigma, delta, order, k=2, epsilon=epsilon)
    used = found.solution_sets[-1][0]
    radius = sigma * np.sqrt(2 * np.log(4 * len(atoms) * used**2 / delta) / used)
    before = sigma * np.sqrt(2 * np.log(4 * len(atoms) * (used - 1) ** 2 / delta) / (used - 1))
    assert radius < epsilon / 4 <= before
