"""One round of the compiled races drops what the paired bound says, whichever way it is computed."""

import numpy as np
import pytest

from banditmips.race import block_rounds, rounds

N, D, SIZE = 120, 5_000, 128


def work(seed, dtype):
    """Atoms that differ in level and noise, so that the round drops some of them and not others."""
    rng = np.random.default_rng(seed)
    levels = rng.normal(size=(N, 1))
    prefix = (levels + rng.uniform(0.2, 3.0, size=(N, 1)) * rng.normal(size=(N, SIZE))).astype(dtype)
    query = (1.0 + 0.3 * rng.normal(size=SIZE)).astype(dtype)
    query[::7] = 0.0
    return prefix, query


def survivors(prefix, query, k, z):
    """What is left by the paired bound, pair by pair."""
    terms = query.astype(np.float64) * prefix.astype(np.float64)
    estimates = terms.sum(axis=1)
    leaders = np.argsort(-estimates, kind="stable")[:k]
    beaten = np.ones(N, dtype=bool)
    for leader in leaders:
        differences = terms[leader] - terms
        deviations = np.sqrt(SIZE * differences.var(axis=1, ddof=1) * (1.0 - SIZE / D))
        beaten &= estimates[leader] - estimates > z * deviations
    beaten[leaders] = False
    return np.flatnonzero(~beaten)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("k", [1, 2, 5, 20])
def test_rows_and_blocks_drop_what_every_leader_beats(k, dtype):
    z = 3.0
    n_left = set()
    for seed in range(20):
        prefix, query = work(seed, dtype)
        expected = survivors(prefix, query, k, z)
        n_left.add(len(expected))
        vectors = np.empty((6, SIZE), dtype=dtype)
        vectors[0] = query
        rounds.describe_uniform(vectors, SIZE, D)
        rows, everyone = np.arange(N), np.ones(N, dtype=bool)
        nothing, leaders = np.empty(0), np.empty(k + 1, dtype=np.int64)
        room, beaten = np.zeros((3, N)), np.empty(N, dtype=bool)
        count = rounds.eliminate(
            prefix, rows, N, SIZE, vectors[1], vectors[2], vectors[3], float(D), np.zeros(N), nothing, 0.0, k, False,
            z, everyone, room[0], room[1], beaten, leaders, vectors[4],
        )  # fmt: skip
        assert list(rows[:count]) == list(expected)
        rows, places = np.arange(N), np.flatnonzero(query)
        block, columns = np.ascontiguousarray(prefix.T), np.empty((4, N), dtype=dtype)
        count, _ = block_rounds.eliminate_block(
            block, prefix, places, query[places], query, 0, places.size, SIZE, D, np.zeros(N), nothing, 0.0,
            everyone.copy(), rows, k, False, z, everyone, room[0], beaten, leaders, columns, vectors[4], -1,
        )  # fmt: skip
        assert list(rows[:count]) == list(expected)
    # Neither nobody nor everybody was dropped.
    assert max(n_left) < N
    assert max(n_left) > k
