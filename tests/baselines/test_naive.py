"""The full product."""

from __future__ import annotations

import numpy as np

from banditmips.baselines import NaiveMIPS


def test_counts_what_a_counting_version_counts():
    rng = np.random.default_rng(0)
    atoms, query = rng.integers(-9, 10, size=(7, 5)), rng.integers(-9, 10, size=5)
    n_products = 0
    scores = []
    for atom in atoms:
        score = 0
        for a, q in zip(atom, query, strict=True):
            score += int(a) * int(q)
            n_products += 1
        scores.append(score)
    result = NaiveMIPS().fit(atoms).search(query, k=7)
    assert result.n_multiplies == n_products == 35
    assert result.scores.tolist() == sorted(scores, reverse=True)
    assert result.indices.tolist() == sorted(range(7), key=lambda i: (-scores[i], i))


def test_every_atom_is_ranked_exactly():
    rng = np.random.default_rng(1)
    atoms, queries = rng.normal(size=(200, 30)), rng.normal(size=(20, 30))
    result = NaiveMIPS().fit(atoms).search(queries, k=4)
    products = queries @ atoms.T
    np.testing.assert_array_equal(result.indices, np.argsort(-products, axis=1)[:, :4])
    np.testing.assert_allclose(result.scores, -np.sort(-products, axis=1)[:, :4], rtol=1e-12)
    assert result.exact.all()
    assert (result.n_survivors == 200).all()
    assert (result.n_multiplies == 200 * 30).all()
    assert (result.delta_spent == 0).all()


def test_equal_atoms_get_equal_scores_wherever_they_stand():
    # A matrix-vector product by BLAS may round the last rows of a block otherwise than the first.
    rng = np.random.default_rng(2)
    atom, query = rng.normal(size=1001), rng.normal(size=1001)
    for n in range(1, 40):
        result = NaiveMIPS().fit(np.tile(atom, (n, 1))).search(query, k=n)
        assert len(set(result.scores)) == 1
        assert result.indices.tolist() == list(range(n))


def test_atoms_on_disk_are_searched_where_they_are(tmp_path):
    rng = np.random.default_rng(3)
    numbers, query = rng.normal(size=(50, 20)).astype(np.float32), rng.normal(size=20)
    path = tmp_path / "atoms.npy"
    np.save(path, numbers)
    on_disk = np.load(path, mmap_mode="r")
    index = NaiveMIPS().fit(on_disk)
    assert np.shares_memory(index._atoms, on_disk)
    assert index.search(query).indices.tolist() == NaiveMIPS().fit(numbers).search(query).indices.tolist()
