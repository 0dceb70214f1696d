"""Projections of a residual on groups of atoms and their covariances, against plain linear algebra."""

import numpy as np
import pytest

from banditmips.pursuit.projections import Projections
from banditmips.race.sampling import SamplePrefix

CASES = [(1, 1, 1), (6, 1, 33), (5, 2, 40), (2, 2, 1000), (3, 1, 3001)]


def sample(m, g, size, seed=0):
    rng = np.random.default_rng(seed)
    scale, unit, spread = rng.uniform(0.5, 2.0, size=(3, size))
    prefix = SamplePrefix(np.arange(size), scale, unit, spread, 3.0 * size)
    return rng.normal(size=(m, g, size)), rng.normal(size=size), prefix


def expected_errors(group, residual, prefix, stretch, norm_noise):
    """What each coordinate adds to the error of the group's beta: u * (rest + norm_noise * projection)."""
    basis = np.linalg.solve(np.linalg.cholesky((group * prefix.scale) @ group.T), group)
    beta = basis @ (prefix.scale * residual)
    projection = beta @ basis
    terms = stretch * basis * (residual - projection + norm_noise * projection)
    ratios = (terms @ prefix.scale) / prefix.total_unit
    return prefix.spread * (terms - ratios[:, np.newaxis] * prefix.unit)


@pytest.mark.parametrize(("m", "g", "size"), CASES)
def test_the_mixing_makes_groups_orthonormal(m, g, size):
    values, residual, prefix = sample(m, g, size)
    found = Projections(values, residual, prefix)
    orthonormal = found.mixing @ values
    np.testing.assert_allclose(
        (orthonormal * prefix.scale) @ orthonormal.transpose(0, 2, 1), [np.eye(g)] * m, atol=1e-9
    )
    np.testing.assert_allclose(found.beta, orthonormal @ (prefix.scale * residual))
    energies = prefix.scale * values**2
    np.testing.assert_allclose(found.energies, energies.sum(axis=2))
    shares = energies / found.energies[:, :, np.newaxis]
    np.testing.assert_allclose(found.effective, g / (shares**2).sum(axis=(1, 2)))


@pytest.mark.parametrize(("m", "g", "size"), CASES)
def test_covariances_are_those_of_the_errors(m, g, size):
    values, residual, prefix = sample(m, g, size)
    stretch, norm_noise = np.linspace(0.8, 1.2, m), np.resize([0.5, 0.0], m)
    own, shared = Projections(values, residual, prefix).covariances(stretch, norm_noise, m - 1)
    errors = [expected_errors(values[i], residual, prefix, stretch[i], norm_noise[i]) for i in range(m)]
    np.testing.assert_allclose(own, [e @ e.T for e in errors], rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(shared, [e @ errors[-1].T for e in errors], rtol=1e-9, atol=1e-9)


def test_atoms_that_add_nothing_have_no_part():
    values, residual, prefix = sample(4, 2, 50)
    values[0] = 0.0
    values[1, 0] = 0.0
    values[2, 1] = -3.0 * values[2, 0]
    found = Projections(values, residual, prefix)
    assert np.count_nonzero(np.diagonal(found.mixing, axis1=1, axis2=2), axis=1).tolist() == [0, 1, 1, 2]
    assert found.effective[0] == 0.0
    assert found.beta[[0, 0, 1, 2], [0, 1, 0, 1]].tolist() == [0.0] * 4
    own, shared = found.covariances(np.ones(4), np.full(4, 0.5), 3)
    assert np.isfinite([own, shared]).all()
    assert not own[0].any()


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0)])
def test_values_may_lie_in_any_order(order):
    values, residual, prefix = sample(5, 2, 30)
    wide = np.zeros((7, 2, 45))
    wide[:5, :, 10:40] = values
    strided = np.transpose(np.transpose(wide, order).copy(), order)[:5, :, 10:40]
    plain, other = (Projections(some, residual, prefix) for some in (values, strided))
    np.testing.assert_array_equal(plain.beta, other.beta)
    for_both = [found.covariances(np.ones(5), np.zeros(5), 2) for found in (plain, other)]
    np.testing.assert_array_equal(*for_both)


def test_what_does_not_fit_together_is_refused():
    values, residual, prefix = sample(3, 1, 10)
    with pytest.raises(ValueError, match="do not suit 9 coordinates"):
        Projections(values, residual[1:], prefix)
    with pytest.raises(ValueError, match="groups of 1 or 2"):
        Projections(np.ones((2, 3, 10)), residual, prefix)
    with pytest.raises(ValueError, match="leader must suit 3 groups"):
        Projections(values, residual, prefix).covariances(np.ones(3), np.ones(3), 3)
