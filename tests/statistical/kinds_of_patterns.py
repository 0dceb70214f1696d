"""Kinds with a pattern that a rotation, a sample or single precision might not like: orders, scales, rare values."""

from __future__ import annotations

import numpy as np
from kind_registry import N_QUERIES, factors, kind, split

# --- orders and shifts ------------------------------------------------------------------------------------------------


@kind(separable=False, needles=True)
def sorted_rows(rng, n, d):
    """Quantiles of samples, as good as equal but for the few outermost."""
    rows = rng.normal(size=(n + N_QUERIES, d)) * rng.uniform(0.8, 1.2, size=(n + N_QUERIES, 1))
    return split(np.sort(rows, axis=1).astype(np.float32), n)


@kind()
def shifts_of_one_signal(rng, n, d):
    signal = np.convolve(rng.standard_t(3, size=d), np.ones(9) / 9.0, "same")
    atoms = np.stack([np.roll(signal, shift) for shift in rng.choice(d, n, replace=False)])
    return atoms.astype(np.float32), (atoms[:N_QUERIES] + 0.5 * rng.normal(size=(N_QUERIES, d))).astype(np.float32)


@kind(separable=False)
def permutations_of_one_vector(rng, n, d):
    """All norms, means and histograms are the same."""
    rows = np.repeat(rng.lognormal(sigma=1.5, size=(1, d)), n + N_QUERIES, axis=0)
    return split(rng.permuted(rows, axis=1), n)


@kind()
def stairs(rng, n, d):
    """Signals that are constant but for twelve jumps."""
    rows = np.zeros((n + N_QUERIES, d))
    for row in rows:
        row[rng.choice(d, 12, replace=False)] = rng.standard_t(3, size=12)
    rows = rows.cumsum(axis=1)
    rows[n:] += 0.5 * rows[:N_QUERIES]
    return split(rows.astype(np.float32), n)


# --- what a Hadamard transform is made of -----------------------------------------------------------------------------


@kind(separable=False)
def single_entries(rng, n, d):
    """Atoms that are 0 but for one entry, which the query meets or does not."""
    atoms = np.zeros((n, d), dtype=np.float32)
    atoms[np.arange(n), rng.choice(d, n, replace=False)] = rng.uniform(0.5, 2.0, size=n)
    return atoms, rng.normal(size=(N_QUERIES, d)).astype(np.float32)


@kind()
def checkerboards(rng, n, d):
    """Square pictures of two colours in fields of all sizes, a tenth of the pixels turned."""
    side = int(np.sqrt(d))
    place, rows = np.arange(side), np.zeros((n + N_QUERIES, d), dtype=np.int8)
    for row in rows:
        height, width, shift = rng.integers(1, 40, size=3)
        fields = ((place[:, np.newaxis] + shift) // height + place // width) % 2
        row[: side * side] = 2 * (fields ^ (rng.random((side, side)) < 0.1)).ravel() - 1
    return split(rows, n)


@kind()
def powers_of_two(rng, n, d):
    """Entries that all bits of a product come from, half of which a query shares with an atom."""
    rows = rng.choice([-1.0, 1.0], size=(n + N_QUERIES, d)) * 2.0 ** rng.integers(-6, 7, size=(n + N_QUERIES, d))
    rows[n:] = np.where(rng.random((N_QUERIES, d)) < 0.5, rows[:N_QUERIES], rows[n:])
    return split(rows, n)


# --- scales -----------------------------------------------------------------------------------------------------------


@kind(separable=False)
def norms_of_twelve_decades(rng, n, d):
    rows = rng.normal(size=(n + N_QUERIES, d))
    rows[n:] += 0.1 * rows[:N_QUERIES]
    rows[:n] *= 10.0 ** rng.uniform(-6.0, 6.0, size=(n, 1))
    return split(rows.astype(np.float32), n)


@kind(separable=False)
def scales_of_blocks(rng, n, d):
    """Eight groups of columns in units from ten thousandths to thousands."""
    scales = 10.0 ** np.repeat(rng.permutation(np.linspace(-4.0, 3.0, 8)), -(-d // 8))[:d]
    return split((rng.normal(size=(n + N_QUERIES, d)) * scales).astype(np.float32), n)


@kind(separable=False)
def an_offset_of_a_million(rng, n, d):
    """What is left about the mean atom has to be taken off in double precision."""
    return split(1e6 + 10.0 * rng.normal(size=(n + N_QUERIES, d)), n)


# --- rare values ------------------------------------------------------------------------------------------------------


@kind(needles=True)
def payments(rng, n, d):
    """Few of the days have a payment, and one payment can be worth more than all others."""
    size = (n + N_QUERIES, d)
    return split((rng.random(size) < 0.03) * np.round(rng.lognormal(2.0, 1.5, size=size), 2), n)


@kind()
def survey_answers(rng, n, d):
    """Answers from 1 to 5 by four traits, 0 where there is none."""
    rows = np.clip(np.round(3.0 + 1.4 * factors(rng, n + N_QUERIES, d, 4) + rng.normal(size=(n + N_QUERIES, d))), 1, 5)
    rows[rng.random(rows.shape) < 0.3] = 0
    return split(rows.astype(np.int8), n)
