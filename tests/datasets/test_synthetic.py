import tracemalloc

import numpy as np
import pytest
from scipy import stats

from banditmips.datasets import load


def means(rows):
    return rows.mean(axis=1, dtype=np.float64)


def standard_deviations(rows):
    return rows.std(axis=1, dtype=np.float64)


def looks_standard_normal(values):
    """Judge by a Kolmogorov-Smirnov test at a fixed seed."""
    return stats.kstest(np.asarray(values, dtype=np.float64), "norm").pvalue > 1e-3


class TestNormalCustom:
    def test_laws(self):
        dataset = load("normal_custom", n=500, d=2000, n_queries=400, seed=1)
        for rows in (dataset.atoms, dataset.queries):
            assert looks_standard_normal(means(rows))
            np.testing.assert_allclose(standard_deviations(rows), 1, atol=0.1)
            assert looks_standard_normal((rows[7] - means(rows)[7]) / standard_deviations(rows)[7])

    def test_theta_does_not_depend_on_d_and_larger_datasets_extend_smaller_ones(self):
        small = load("normal_custom", n=20, d=50, n_queries=2, seed=5)
        large = load("normal_custom", n=40, d=20_000, n_queries=3, seed=5)
        np.testing.assert_array_equal(large.atoms[:20, :50], small.atoms)
        np.testing.assert_array_equal(large.queries[:2, :50], small.queries)

    def test_theta_seed_fixes_theta_alone(self):
        one, two, other = (
            load("normal_custom", n=50, d=20_000, n_queries=5, seed=seed, theta_seed=theta_seed)
            for seed, theta_seed in ((1, 9), (2, 9), (1, 8))
        )
        for rows in ("atoms", "queries"):
            noise = getattr(one, rows) - getattr(two, rows)
            # Without theta, the difference of two standard normals is left: its mean has sd 0.01.
            assert np.abs(means(noise)).max() < 0.05
            np.testing.assert_allclose(standard_deviations(noise), np.sqrt(2), rtol=0.05)
            shift = getattr(one, rows) - getattr(other, rows)
            assert standard_deviations(shift).max() < 1e-5
            assert np.abs(means(shift)).max() > 0.5

    def test_atoms_and_queries_are_independent(self):
        dataset = load("normal_custom", n=3, d=10_000, n_queries=3, seed=0)
        rows = np.concatenate([dataset.atoms, dataset.queries])
        correlations = np.corrcoef(rows)[np.triu_indices(6, 1)]
        assert np.abs(correlations).max() < 0.05

    def test_needs_no_second_matrix(self):
        tracemalloc.start()
        dataset = load("normal_custom", n=100, d=50_000)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 1.1 * (dataset.atoms.nbytes + dataset.queries.nbytes)


class TestCorrelatedNormalCustom:
    def test_laws(self):
        dataset = load("correlated_normal_custom", n=400, d=5000, seed=2)
        query = dataset.queries[0].astype(np.float64)
        weights = dataset.atoms @ query / (query @ query)
        noise = dataset.atoms - np.outer(weights, query)
        assert looks_standard_normal(weights)
        assert abs(query.std() - 1) < 0.05
        assert looks_standard_normal(noise[3])
        np.testing.assert_allclose(standard_deviations(noise), 1, atol=0.06)

    def test_theta_seed_fixes_theta_and_weights_at_any_d(self):
        estimates = []
        for seed, d in ((1, 4000), (2, 40_000)):
            dataset = load("correlated_normal_custom", n=50, d=d, seed=seed, theta_seed=3)
            query = dataset.queries[0].astype(np.float64)
            estimates.append(np.append(dataset.atoms @ query / (query @ query), query.mean()))
        np.testing.assert_allclose(*estimates, atol=0.08)

    def test_query_means_vary_with_the_seed(self):
        thetas = [load("correlated_normal_custom", n=1, d=1000, seed=seed).queries.mean() for seed in range(200)]
        assert looks_standard_normal(thetas)


@pytest.mark.parametrize("name", ["correlated_normal_custom", "heavy_tailed"])
def test_atoms_made_from_the_query_allow_one_query_only(name):
    with pytest.raises(ValueError, match=f"n_queries must be 1 for {name}.*got 2"):
        load(name, n_queries=2)


def test_symmetric_normal():
    dataset = load("symmetric_normal", n=50, d=4000, n_queries=3, seed=1)
    assert looks_standard_normal(dataset.atoms.ravel())
    assert looks_standard_normal(dataset.queries.ravel())
    assert np.abs(means(dataset.atoms)).max() < 0.08


class TestHeavyTailed:
    def test_laws(self):
        dataset = load("heavy_tailed", n=300, d=5000, seed=4)
        query = dataset.queries[0].astype(np.float64)
        assert stats.kstest(query, stats.t(2).cdf).pvalue > 1e-3
        assert stats.kstest(query, "norm").pvalue < 1e-6
        weights = dataset.atoms @ query / (0.3 * (query @ query))
        assert looks_standard_normal(weights)
        noise = dataset.atoms[5] - 0.3 * weights[5] * query
        assert stats.kstest(noise, stats.t(3).cdf).pvalue > 1e-3

    def test_larger_datasets_extend_smaller_ones(self):
        small, large = (load("heavy_tailed", n=n, d=d, seed=4) for n, d in ((5, 100), (8, 900)))
        np.testing.assert_array_equal(large.queries[:, :100], small.queries)
        np.testing.assert_array_equal(large.atoms[:5, :100], small.atoms)


class TestSparse:
    @pytest.mark.parametrize(("density", "d", "expected"), [(0.05, 2000, 100), (0.3, 10, 3), (1e-6, 50, 1), (1, 9, 9)])
    def test_number_of_non_zeros(self, density, d, expected):
        dataset = load("sparse", n=4, d=d, n_queries=6, density=density)
        assert (np.count_nonzero(dataset.queries, axis=1) == expected).all()
        assert np.count_nonzero(dataset.atoms) == dataset.atoms.size
        assert dataset.params["density"] == density

    def test_what_is_not_zero_is_normal_custom(self):
        dataset = load("sparse", n=4, d=500, n_queries=6, seed=2)
        dense = load("normal_custom", n=4, d=500, n_queries=6, seed=2)
        np.testing.assert_array_equal(dataset.atoms, dense.atoms)
        np.testing.assert_array_equal(dataset.queries, np.where(dataset.queries, dense.queries, 0))

    def test_each_query_has_places_of_its_own(self):
        places = load("sparse", n=1, d=2000, n_queries=50).queries != 0
        # Two independent sets of 5 % share 5 of 100 places on average.
        assert (places[0] & places[1:]).sum(axis=1).max() < 20
        # All places occur: in none of 50 queries with probability 0.95 ** 50 = 0.08.
        assert abs((~places.any(axis=0)).mean() - 0.95**50) < 0.03

    @pytest.mark.parametrize("density", [0, -0.1, 1.01, float("nan")])
    def test_bad_density(self, density):
        with pytest.raises(ValueError, match="density must be above 0 and at most 1"):
            load("sparse", density=density)


class TestNeedle:
    @pytest.mark.parametrize("n_queries", [1, 7])
    @pytest.mark.parametrize("seed", range(5))
    def test_one_entry_decides_every_query(self, seed, n_queries):
        dataset = load("needle", n=60, d=3000, n_queries=n_queries, seed=seed)
        atom, coordinate = dataset.params["atom"], dataset.params["coordinate"]
        assert dataset.atoms[atom, coordinate] == dataset.params["value"]
        exact = dataset.queries.astype(np.float64) @ dataset.atoms.T.astype(np.float64)
        assert (exact.argmax(axis=1) == atom).all()
        without = np.delete(dataset.queries, coordinate, axis=1) @ np.delete(dataset.atoms, coordinate, axis=1).T
        assert (without.argmax(axis=1) != atom).all()
        others = np.delete(dataset.atoms, atom, axis=0)
        assert dataset.params["value"] > 10 * np.abs(others).max()
        assert str(coordinate) in dataset.description

    def test_place_varies_with_the_seed(self):
        places = [load("needle", n=60, d=300, seed=seed).params for seed in range(20)]
        assert len({p["atom"] for p in places}) > 10
        assert len({p["coordinate"] for p in places}) > 10

    def test_the_rest_is_normal_custom(self):
        dataset, plain = (load(name, n=60, d=300, seed=6) for name in ("needle", "normal_custom"))
        differs = dataset.atoms != plain.atoms
        assert np.argwhere(differs).tolist() == [[dataset.params["atom"], dataset.params["coordinate"]]]

    def test_too_few_atoms(self):
        with pytest.raises(ValueError, match="n must be more than"):
            load("needle", n=1)
