"""Rows are read no further than they can win, and never given up wrongly."""

import numpy as np
import pytest

from banditmips.race import finish, screen

D = 10_000


def heavy(rng):
    query = rng.standard_t(2, size=D)
    return 0.3 * rng.normal() * query + rng.standard_t(3, size=D), query


def level(rng):
    return 3.5 + 0.2 * rng.normal() + 0.5 * rng.normal(size=D), 3.4 + 0.6 * rng.normal(size=D)


def far_from_zero(rng):
    return 1e6 + rng.normal(size=D), 1e5 + rng.normal(size=D)


def one_spike(rng):
    atom, query = rng.normal(size=D), 1e-3 * rng.normal(size=D)
    query[rng.integers(D)] = 1e3
    return atom, query


def constant(rng):
    return np.full(D, rng.normal()), rng.normal(size=D)


def opposite(rng):
    """The rest is as large as it can be: Cauchy and Schwarz hold with equality to the very end."""
    query = rng.normal(size=D)
    return -query, query


def tails_of(query):
    parts = screen.make_parts(query.size)
    screen.query_moments(query, parts)
    return finish.query_tails(parts)


def huge(rng):
    """Squares of the row overflow in single precision."""
    return 1e25 * rng.normal(size=D), rng.normal(size=D)


KINDS = [heavy, level, far_from_zero, one_spike, constant, opposite, huge]


@pytest.mark.parametrize("absolute", [False, True])
@pytest.mark.parametrize("n_heads", [0, 3])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("make", KINDS)
def test_a_row_is_given_up_only_if_it_is_below_the_bar(make, dtype, n_heads, absolute):
    for seed in range(20):
        row, query = (part.astype(dtype) for part in make(np.random.default_rng(seed)))
        exact_row, exact_query = row.astype(np.float64), query.astype(np.float64)
        exact = float(exact_row @ exact_query)
        size = abs(exact) if absolute else exact
        spread = np.linalg.norm(exact_row) * np.linalg.norm(exact_query)
        mean = exact_row.mean()
        scatter = float(((exact_row - mean) ** 2).sum())
        heads = np.argsort(-np.abs(query))[:n_heads]
        tails, rounding = tails_of(query), screen.rounding_of(query.dtype)
        # Far above, near above, the score itself, below.
        for distance in (1.0, 0.1, 1e-3, 1e-9, 0.0, -1e-9, -0.1):
            bar = size + distance * spread
            score, n_read = finish.score_unless_lost(
                row, query, query, tails, rounding, mean, scatter, heads, absolute, bar
            )
            if n_read < D:
                assert np.isnan(score)
                assert distance > 0.0
            else:
                assert score == pytest.approx(exact, rel=1e-12, abs=1e-12 * spread)


def test_a_hopeless_row_is_given_up_early():
    """A row without any relation to the query is seen to be below half of what it could reach, after some of it."""
    rng = np.random.default_rng(0)
    row, query = rng.normal(size=100_000), rng.normal(size=100_000)
    scatter = float(((row - row.mean()) ** 2).sum())
    bar = 0.5 * np.linalg.norm(row) * np.linalg.norm(query)
    none = np.empty(0, dtype=np.int64)
    _, n_read = finish.score_unless_lost(
        row, query, query, tails_of(query), 1e-14, row.mean(), scatter, none, False, bar
    )
    assert 0.4 * row.size < n_read < 0.6 * row.size


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("size", [1, 1_024, 2_048, 2_049, 5_000, 7_000])
def test_the_tails_of_a_query_are_sums_to_its_end_within_their_rounding(size, dtype):
    query = (1.0 + np.random.default_rng(1).normal(size=size)).astype(dtype)
    tails = tails_of(query)
    exact = query.astype(np.float64)
    starts = [*range(0, size, 2_048), size]
    assert tails.shape == (2, len(starts))
    rounding = screen.rounding_of(query.dtype)
    for start, total, squares in zip(starts, *tails, strict=True):
        rest = exact[start:]
        assert abs(total - rest.sum()) <= rounding * np.abs(rest).sum()
        assert abs(squares - (rest**2).sum()) <= rounding * (rest**2).sum()
