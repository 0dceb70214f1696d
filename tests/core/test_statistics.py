"""What sampled cells say, against plain NumPy, at sizes that do not fill vector registers."""

from types import SimpleNamespace

import numpy as np
import pytest

from banditmips.core.certain import ScoreMap
from banditmips.core.sample_source import SampleSource
from banditmips.core.statistics import NEG_ABSOLUTE_DIFFERENCE, NEG_SQUARED_DIFFERENCE, PRODUCT
from banditmips.core.survivors import Survivors
from banditmips.race.sampled import Problem
from banditmips.race.sampling import SamplePrefix
from banditmips.race.schedule import Schedule

OBJECTIVES = {
    PRODUCT: lambda q, v: q * v,
    NEG_SQUARED_DIFFERENCE: lambda q, v: -((q - v) ** 2),
    NEG_ABSOLUTE_DIFFERENCE: lambda q, v: -np.abs(q - v),
}
every_objective = pytest.mark.parametrize("objective", OBJECTIVES)
every_size = pytest.mark.parametrize("size", [1, 7, 8, 15, 33])
TOTAL_UNIT = 17.0


class AtHand:
    """A reader of given values, and a sampler of a given prefix."""

    with_replacement = False

    def __init__(self, values, prefix):
        self.values, self._prefix, self.population = values, prefix, 10 * values.shape[1]

    def prefix(self, size):
        return SamplePrefix(*(getattr(self._prefix, name)[:size] for name in NAMES), self._prefix.total_unit)

    def read(self, rows, sample, start, out):
        out[...] = self.values[rows, start : sample.coordinates.size]

    def scatters(self, rows, sample):
        return None


NAMES = ("coordinates", "scale", "unit", "spread")


def source_of(values, prefix, query, objective, factors=None, centers=None):
    """Rounds on values of which all are at hand."""
    at_hand = AtHand(values, prefix)
    facts = None if centers is None else SimpleNamespace(means=centers, scatter=np.ones(len(values)))
    problem = Problem(query, objective, ScoreMap(factors))
    alive = Survivors(None, len(values), 1, False)
    return SampleSource(alive, facts, problem, at_hand, at_hand, Schedule())


def sampled(n, size, objective, seed=0):
    """Return a source that has read all, the atoms' factors and centres, and their terms and weights."""
    rng = np.random.default_rng(seed)
    values, factors, query = rng.normal(size=(n, size)), rng.uniform(0.5, 2.0, n), rng.normal(size=size)
    scale, unit, spread = rng.uniform(1.0, 3.0, size), rng.uniform(0.5, 1.5, size), rng.uniform(0.0, 2.0, size)
    centers = rng.normal(size=n)
    prefix = SamplePrefix(np.arange(size), scale, unit, spread, TOTAL_UNIT)
    source = source_of(values, prefix, query, objective, factors, centers)
    source.advance(size)
    terms = factors[:, np.newaxis] * OBJECTIVES[objective](query, values)
    return source, (values, centers), terms, (scale, unit, spread)


@every_objective
@every_size
@pytest.mark.parametrize("n", [1, 8, 15])
def test_estimates(n, size, objective):
    source, (values, centers), terms, (scale, unit, spread) = sampled(n, size, objective)
    assert source.sample.size == size
    estimates, (variances, shares) = source.alive.estimate_array, source.variances()
    expected = terms @ scale
    np.testing.assert_allclose(estimates, expected, rtol=1e-12, atol=1e-12)
    residuals = spread * (terms - np.outer(expected / TOTAL_UNIT, unit))
    np.testing.assert_allclose(variances, (residuals**2).sum(axis=1), rtol=1e-12)
    squares = [residuals**2, (spread * terms) ** 2]
    largest = [part.max(axis=1) / part.sum(axis=1) for part in squares]
    np.testing.assert_allclose(shares, np.maximum(*largest), rtol=1e-12)
    scatters = [source.scatter_seen(i) for i in range(n)]
    np.testing.assert_allclose(scatters, (values - centers[:, np.newaxis]) ** 2 @ scale, rtol=1e-12)


@every_objective
@every_size
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_paired_variances(size, objective, sign):
    source, _, terms, (_, unit, spread) = sampled(15, size, objective)
    estimates = source.alive.estimate_array
    rows = np.array([14, 0, 3, 5])
    variances, shares = source.variances_of_differences(5, sign, rows)
    residuals = terms - np.outer(estimates / TOTAL_UNIT, unit)
    squares = (spread * (residuals[5] - sign * residuals[rows])) ** 2
    expected = squares.sum(axis=1)
    np.testing.assert_allclose(variances, expected, rtol=1e-11, atol=1e-25)
    assert variances.shape == shares.shape == (4,)
    differing = expected > 1e-20
    as_they_are = (spread * (terms[5] - sign * terms[rows])) ** 2
    largest = [(part.max(axis=1)[differing] / part.sum(axis=1)[differing]) for part in (squares, as_they_are)]
    np.testing.assert_allclose(shares[differing], np.maximum(*largest), rtol=1e-9)


def test_one_term_among_zeros_holds_all_that_is_seen_whatever_the_weights():
    """About the ratio to the weights the zeros deviate too, and the term does not if it was certain to be seen."""
    size = 20
    scale, unit, spread = np.full(size, 2.0), np.ones(size), np.full(size, 1.5)
    spread[0] = 1e-3
    values = np.zeros((3, size))
    values[0, 0] = 10.0
    values[1] = 0.1 * np.random.default_rng(0).normal(size=size)
    source = source_of(values, SamplePrefix(np.arange(size), scale, unit, spread, 40.0), np.ones(size), PRODUCT)
    source.advance(size)
    estimates, (variances, shares) = source.alive.estimate_array, source.variances()
    assert shares[0] == 1.0
    assert shares[1] < 0.5
    assert shares[2] == 1.0  # of nothing but zeros it is said that they hang on one cell
    about_ratio = (spread * (values[0] - estimates[0] / 40.0 * unit)) ** 2
    assert about_ratio.max() / about_ratio.sum() < 0.06
    assert variances[0] == pytest.approx(about_ratio.sum())
    _, shares = source.variances_of_differences(0, 1.0, np.array([1, 2]))
    assert shares[0] < 0.5
    assert shares[1] == 1.0


def test_an_atom_never_differs_from_itself():
    source, _, _, _ = sampled(5, 15, PRODUCT)
    variances, shares = source.variances_of_differences(2, 1.0, np.array([2]))
    np.testing.assert_array_equal(variances, 0.0)
    np.testing.assert_array_equal(shares, 1.0)


def test_values_may_be_a_part_of_a_larger_buffer():
    """A source keeps room for later rounds behind the cells that it has."""
    rng = np.random.default_rng(0)
    values, query, centers = rng.normal(size=(6, 15)), rng.normal(size=15), rng.normal(size=6)
    prefix = SamplePrefix(np.arange(15), np.full(15, 2.0), np.ones(15), np.full(15, 1.5), TOTAL_UNIT)
    at_once, in_rounds = (source_of(values, prefix, query, PRODUCT, None, centers) for _ in range(2))
    at_once.advance(15)
    for size in (8, 15):  # the first round makes room for the second
        in_rounds.advance(size)
    np.testing.assert_array_equal(in_rounds.alive.estimate_array, at_once.alive.estimate_array)
    np.testing.assert_array_equal(in_rounds.variances(), at_once.variances())
    assert [in_rounds.scatter_seen(i) for i in range(6)] == [at_once.scatter_seen(i) for i in range(6)]
