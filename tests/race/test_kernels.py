"""The kernels against plain NumPy, at sizes that do not fill vector registers."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import kstest

from banditmips.race import kernels

OBJECTIVES = {
    kernels.PRODUCT: lambda q, v: q * v,
    kernels.NEG_SQUARED_DIFFERENCE: lambda q, v: -((q - v) ** 2),
    kernels.NEG_ABSOLUTE_DIFFERENCE: lambda q, v: -np.abs(q - v),
}
every_objective = pytest.mark.parametrize("objective", OBJECTIVES)
RAGGED = [1, 7, 8, 15, 33]
every_size = pytest.mark.parametrize("size", RAGGED)


def sampled(n, size, seed=0):
    """Return sampled values of n atoms with all that belongs to a sample."""
    rng = np.random.default_rng(seed)
    return {
        "values": rng.normal(size=(n, size)),
        "row_scale": rng.uniform(0.5, 2.0, n),
        "query": rng.normal(size=size),
        "scale": rng.uniform(1.0, 3.0, size),
        "unit": rng.uniform(0.5, 1.5, size),
        "spread": rng.uniform(0.0, 2.0, size),
        "total_unit": 17.0,
        "centers": rng.normal(size=n),
    }


@every_objective
@every_size
@pytest.mark.parametrize("n", [1, 8, 15])
def test_sample_estimates(n, size, objective):
    s = sampled(n, size)
    estimates, variances, scatters = kernels.sample_estimates(**s, objective=objective)
    terms = s["row_scale"][:, np.newaxis] * OBJECTIVES[objective](s["query"], s["values"])
    expected = terms @ s["scale"]
    np.testing.assert_allclose(estimates, expected, rtol=1e-12, atol=1e-12)
    residuals = s["spread"] * (terms - np.outer(expected / 17.0, s["unit"]))
    np.testing.assert_allclose(variances, (residuals**2).sum(axis=1), rtol=1e-12)
    centered = s["values"] - s["centers"][:, np.newaxis]
    np.testing.assert_allclose(scatters, centered**2 @ s["scale"], rtol=1e-12)


@every_objective
@every_size
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_paired_variances(size, objective, sign):
    s = sampled(15, size)
    estimates, _, _ = kernels.sample_estimates(**s, objective=objective)
    del s["scale"], s["centers"]
    rows = np.array([14, 0, 3, 5])
    result = kernels.paired_variances(**s, objective=objective, estimates=estimates, leader=5, sign=sign, rows=rows)
    terms = s["row_scale"][:, np.newaxis] * OBJECTIVES[objective](s["query"], s["values"])
    residuals = terms - np.outer(estimates / 17.0, s["unit"])
    expected = ((s["spread"] * (residuals[5] - sign * residuals[rows])) ** 2).sum(axis=1)
    np.testing.assert_allclose(result, expected, rtol=1e-11, atol=1e-25)
    assert result.shape == (4,)


def test_an_atom_never_differs_from_itself():
    s = sampled(5, 15)
    estimates, _, _ = kernels.sample_estimates(**s, objective=kernels.PRODUCT)
    del s["scale"], s["centers"]
    own = kernels.paired_variances(
        **s, objective=kernels.PRODUCT, estimates=estimates, leader=2, sign=1.0, rows=np.array([2])
    )
    np.testing.assert_allclose(own, 0.0, atol=1e-28)


@every_objective
@every_size
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("kernel", [kernels.exact_scores, kernels.exact_scores_by_column])
def test_exact_scores(size, objective, order, kernel):
    rng = np.random.default_rng(0)
    atoms, query = np.array(rng.normal(size=(20, size)), order=order), rng.normal(size=size)
    every, none = np.arange(20), np.empty(0, dtype=np.int64)
    expected = OBJECTIVES[objective](query, atoms).sum(axis=1)
    for rows in (every, every[[7]], every[[19, 0, 4, 4]], every[:0]):
        out = np.full(rows.size, np.nan)
        kernel(atoms, rows, none, query, objective, out)
        np.testing.assert_allclose(out, expected[rows], rtol=1e-12, atol=1e-12)
    columns = np.unique([0, size // 2, size - 1])
    out = np.full(20, np.nan)
    kernel(atoms, every, columns, query[columns], objective, out)
    np.testing.assert_allclose(out, OBJECTIVES[objective](query, atoms)[:, columns].sum(axis=1), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("kernel", [kernels.exact_scores, kernels.exact_scores_by_column])
@pytest.mark.parametrize("n", [1, 7, 8, 15])
def test_equal_atoms_have_equal_scores_to_the_last_bit(kernel, n):
    rng = np.random.default_rng(0)
    atom, query = rng.normal(size=(1, 101)), rng.normal(size=101)
    out = np.empty(n)
    kernel(np.repeat(atom, n, axis=0), np.arange(n), np.empty(0, dtype=np.int64), query, kernels.PRODUCT, out)
    assert np.unique(out).size == 1


@every_size
def test_not_a_number_and_infinity_keep_their_meaning(size):
    atoms, query = np.ones((3, size)), np.ones(size)
    atoms[0, -1], atoms[1, -1] = np.nan, np.inf
    for kernel in (kernels.exact_scores, kernels.exact_scores_by_column):
        out = np.empty(3)
        kernel(atoms, np.arange(3), np.empty(0, dtype=np.int64), query, kernels.PRODUCT, out)
        np.testing.assert_array_equal(out, [np.nan, np.inf, size])


@pytest.mark.parametrize("dtype", ["f4", "f8", "i1", "u1", "?"])
@every_size
def test_gather(dtype, size):
    atoms = np.random.default_rng(0).integers(0, 2, (20, 40)).astype(dtype)
    rows, columns = np.arange(19, 19 - size, -1) % 20, np.arange(size) * 5 % 40
    out = np.full((size, size + 2), np.nan)
    kernels.gather(atoms, rows, columns, out[:, :size])
    np.testing.assert_array_equal(out[:, :size], atoms[np.ix_(rows, columns)])
    assert np.isnan(out[:, size:]).all()


# --- random numbers ---------------------------------------------------------------------------------------------------


def test_uniform_numbers_are_uniform_and_belong_to_their_positions():
    numbers = kernels.uniforms(3, 0, 20_000)
    assert kstest(numbers, "uniform").pvalue > 1e-4
    assert (numbers > 0).all()
    assert (numbers < 1).all()
    np.testing.assert_array_equal(kernels.uniforms(3, 700, 950), numbers[700:950])
    # Neighbours and other seeds are not correlated (standard error 0.007).
    assert abs(np.corrcoef(numbers[:-1], numbers[1:])[0, 1]) < 0.03
    assert abs(np.corrcoef(numbers, kernels.uniforms(4, 0, 20_000))[0, 1]) < 0.03


def test_exponential_keys_are_exponential_over_weight():
    coordinates, weights = np.arange(20_000) * 11, np.linspace(0.5, 3.0, 20_000)
    keys = kernels.exponential_keys(3, coordinates, weights)
    assert kstest(keys * weights, "expon").pvalue > 1e-4
    np.testing.assert_array_equal(kernels.exponential_keys(3, coordinates[5:9], weights[5:9]), keys[5:9])
    others = kernels.exponential_keys(4, coordinates, weights)
    assert abs(np.corrcoef(keys * weights, others * weights)[0, 1]) < 0.03


@pytest.mark.parametrize(
    "weights",
    [
        np.array([1.0]),
        np.full(1000, 3.0),
        np.random.default_rng(0).exponential(size=10_000),
        np.abs(np.random.default_rng(1).standard_t(1, 10_000)),
        np.geomspace(1e-100, 1e100, 5000),
    ],
    ids=["one", "equal", "exponential", "Cauchy", "all magnitudes"],
)
def test_a_weight_profile_keeps_count_and_sum(weights):
    means, counts = kernels.weight_profile(weights)
    assert counts.sum() == weights.size
    np.testing.assert_allclose((means * counts).sum(), weights.sum(), rtol=1e-12)
    assert (np.diff(means) > 0).all()
    assert means.size <= weights.size
    # What it is for: inclusion probabilities sum to what they should within 0.1 %.
    for tau in 1.0 / np.quantile(weights, [0.1, 0.5, 0.9]):
        expected = -np.expm1(-weights * tau).sum()
        np.testing.assert_allclose(-(counts * np.expm1(-means * tau)).sum(), expected, rtol=1e-3)
