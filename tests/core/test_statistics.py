"""What sampled cells say, against plain NumPy, at sizes that do not fill vector registers."""

import numpy as np
import pytest

from banditmips.core.statistics import NEG_ABSOLUTE_DIFFERENCE, NEG_SQUARED_DIFFERENCE, PRODUCT, Sample
from banditmips.race.sampling import SamplePrefix

OBJECTIVES = {
    PRODUCT: lambda q, v: q * v,
    NEG_SQUARED_DIFFERENCE: lambda q, v: -((q - v) ** 2),
    NEG_ABSOLUTE_DIFFERENCE: lambda q, v: -np.abs(q - v),
}
every_objective = pytest.mark.parametrize("objective", OBJECTIVES)
every_size = pytest.mark.parametrize("size", [1, 7, 8, 15, 33])
TOTAL_UNIT = 17.0


def sampled(n, size, objective, seed=0):
    """Return a sample, the sampled values of n atoms with their row scales and centres, and the atoms' terms."""
    rng = np.random.default_rng(seed)
    values, row_scale, query = rng.normal(size=(n, size)), rng.uniform(0.5, 2.0, n), rng.normal(size=size)
    scale, unit, spread = rng.uniform(1.0, 3.0, size), rng.uniform(0.5, 1.5, size), rng.uniform(0.0, 2.0, size)
    sample = Sample(SamplePrefix(np.arange(size), scale, unit, spread, TOTAL_UNIT), query, objective)
    terms = row_scale[:, np.newaxis] * OBJECTIVES[objective](query, values)
    return sample, (values, row_scale, rng.normal(size=n)), terms, (scale, unit, spread)


@every_objective
@every_size
@pytest.mark.parametrize("n", [1, 8, 15])
def test_estimates(n, size, objective):
    sample, (values, row_scale, centers), terms, (scale, unit, spread) = sampled(n, size, objective)
    assert sample.size == size
    estimates, variances, shares = sample.estimates(values, row_scale)
    expected = terms @ scale
    np.testing.assert_allclose(estimates, expected, rtol=1e-12, atol=1e-12)
    residuals = spread * (terms - np.outer(expected / TOTAL_UNIT, unit))
    np.testing.assert_allclose(variances, (residuals**2).sum(axis=1), rtol=1e-12)
    squares = [residuals**2, (spread * terms) ** 2]
    largest = [part.max(axis=1) / part.sum(axis=1) for part in squares]
    np.testing.assert_allclose(shares, np.maximum(*largest), rtol=1e-12)
    scatters = sample.scatters(values, centers)
    np.testing.assert_allclose(scatters, (values - centers[:, np.newaxis]) ** 2 @ scale, rtol=1e-12)


@every_objective
@every_size
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_paired_variances(size, objective, sign):
    sample, (values, row_scale, _), terms, (_, unit, spread) = sampled(15, size, objective)
    estimates, _, _ = sample.estimates(values, row_scale)
    rows = np.array([14, 0, 3, 5])
    variances, shares = sample.paired_variances(values, row_scale, estimates, 5, sign, rows)
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
    sample = Sample(SamplePrefix(np.arange(size), scale, unit, spread, 40.0), np.ones(size), PRODUCT)
    values = np.zeros((3, size))
    values[0, 0] = 10.0
    values[1] = 0.1 * np.random.default_rng(0).normal(size=size)
    estimates, variances, shares = sample.estimates(values, np.ones(3))
    assert shares[0] == 1.0
    assert shares[1] < 0.5
    assert shares[2] == 1.0  # of nothing but zeros it is said that they hang on one cell
    about_ratio = (spread * (values[0] - estimates[0] / 40.0 * unit)) ** 2
    assert about_ratio.max() / about_ratio.sum() < 0.06
    assert variances[0] == pytest.approx(about_ratio.sum())
    _, shares = sample.paired_variances(values, np.ones(3), estimates, 0, 1.0, np.array([1, 2]))
    assert shares[0] < 0.5
    assert shares[1] == 1.0


def test_an_atom_never_differs_from_itself():
    sample, (values, row_scale, _), _, _ = sampled(5, 15, PRODUCT)
    estimates, _, _ = sample.estimates(values, row_scale)
    variances, shares = sample.paired_variances(values, row_scale, estimates, 2, 1.0, np.array([2]))
    np.testing.assert_array_equal(variances, 0.0)
    np.testing.assert_array_equal(shares, 1.0)


def test_values_may_be_a_part_of_a_larger_buffer():
    """A source keeps room for later rounds behind the cells that it has."""
    sample, (values, row_scale, centers), _, _ = sampled(6, 15, PRODUCT)
    room = np.full((6, 40), np.nan)
    room[:, :15] = values
    for here, there in zip(
        sample.estimates(room[:, :15], row_scale),
        sample.estimates(values, row_scale),
        strict=True,
    ):
        np.testing.assert_array_equal(here, there)
    np.testing.assert_array_equal(sample.scatters(room[:, :15], centers), sample.scatters(values, centers))
