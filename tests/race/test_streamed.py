"""Batches to a file whose queries are answered by products of bytes, in one reading."""

import numpy as np
import pytest
import zarr
from scipy.stats import binom

import banditmips as bm
from banditmips.race import streamed
from banditmips.race.costs import Costs

N, D, M, LIMIT = 1_600, 2_100, 64, 12_000_000


@pytest.fixture(autouse=True)
def costs_of_a_server(monkeypatch):
    """Costs that do not depend on the machine."""
    for module in ("direct", "code_search", "query", "rounded", "streamed"):
        monkeypatch.setattr(f"banditmips.race.{module}.costs", lambda: Costs(own_product=0.06))


def normal(seed=0, dtype=np.float32):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(N, D)).astype(dtype), rng.normal(size=(M, D)).astype(dtype)


def best(atoms, queries, k, absolute=False):
    scores = queries.astype(np.float64) @ atoms.astype(np.float64).T
    return np.argsort(-np.abs(scores) if absolute else -scores, axis=1, kind="stable")[:, :k]


def opened(atoms, folder, kind="npy"):
    path = folder / f"atoms.{kind}"
    if kind == "npy":
        np.save(path, atoms)
    else:
        zarr.create_array(path, data=atoms, chunks=(4, 700), compressors=None)
    return bm.open_atoms(path, memory_limit=LIMIT)


@pytest.mark.parametrize("kind", ["npy", "zarr"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("k", "absolute"), [(1, False), (5, False), (5, True)])
def test_the_best_are_found_in_one_reading(tmp_path, kind, dtype, k, absolute):
    atoms, queries = normal(dtype=dtype)
    result = bm.search(opened(atoms, tmp_path, kind), queries, k, absolute=absolute)
    np.testing.assert_array_equal(result.indices, best(atoms, queries, k, absolute))
    assert result.exact.all()
    assert (result.delta_spent == 1e-3).all()
    assert (result.n_survivors < 200).all()
    np.testing.assert_array_equal(result.n_multiplies, (N + result.n_survivors) * D)
    # Beside all rows, each query reads those that it returns: of chunks, with their neighbours, unless they are kept.
    again = M * k * (4 if kind == "zarr" else 1) * (atoms[0].nbytes + 8192)
    assert result.bytes_read.sum() <= atoms.nbytes + N * 4096 + again
    alone = bm.search(tmp_path / f"atoms.{kind}", queries[3], k, absolute=absolute)
    np.testing.assert_allclose(result.scores[3], alone.scores, rtol=1e-12)


def test_an_index_hands_over_what_its_races_do_not_settle(tmp_path):
    atoms, queries = normal()
    result = bm.BanditMIPS(layout="codes").fit(opened(atoms, tmp_path)).search(queries, 5)
    np.testing.assert_array_equal(result.indices, best(atoms, queries, 5))


def test_races_in_vain_are_not_tried_for_all(tmp_path):
    """After eight queries it is asked whether races pay: on these atoms codes tell nobody apart."""
    atoms, queries = normal()
    result = bm.BanditMIPS(layout="codes").fit(opened(atoms, tmp_path)).search(queries, 5)
    raced = result.n_rounds > 0
    assert not raced[16:].any()
    np.testing.assert_array_equal(result.indices, best(atoms, queries, 5))


@pytest.mark.parametrize(
    "options", [{"objective": "neg_sqeuclidean"}, {"delta": 0.0}, {"minimise": "multiplies"}, {"rescore": False}]
)
def test_other_options_go_other_ways(tmp_path, options, monkeypatch):
    monkeypatch.setattr("banditmips._begun.best_in_file", _never)
    atoms, queries = normal()
    if options != {"delta": 0.0}:
        bm.search(opened(atoms, tmp_path), queries, **options)
        return
    monkeypatch.undo()
    found = streamed.best_in_file(opened(atoms, tmp_path), list(queries), 1, False, 0.0, 0)
    assert found is None


def _never(*arguments):
    pytest.fail("products of bytes were not to be taken")


def test_a_memory_that_holds_too_few_rows(tmp_path):
    atoms, queries = normal()
    np.save(tmp_path / "atoms.npy", atoms)
    store = bm.open_atoms(tmp_path / "atoms.npy", memory_limit=4 * 4 * 4 * D)
    assert streamed.best_in_file(store, list(queries), 5, False, 1e-3, 0) is None
    np.testing.assert_array_equal(bm.search(store, queries, 5).indices, best(atoms, queries, 5))


def test_where_bytes_tell_too_few_apart_blas_does(tmp_path):
    """All atoms are the same but for what bytes cannot see."""
    rng = np.random.default_rng(0)
    atoms = np.repeat(rng.normal(size=(1, D)), N, axis=0)
    atoms[:, 7] += 1e-6 * rng.normal(size=N)
    queries = rng.normal(size=(M, D))
    store = opened(atoms, tmp_path)
    assert streamed.best_in_file(store, list(queries), 1, False, 1e-3, 0) is None
    np.testing.assert_array_equal(bm.search(store, queries).indices, best(atoms, queries, 1))


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_what_is_not_finite_is_named(tmp_path, value):
    atoms, queries = normal()
    atoms[1234, 56] = value
    with pytest.raises(ValueError, match=rf"atoms has {value} at row 1234, column 56"):
        bm.search(opened(atoms, tmp_path), queries)


def test_equals_come_in_the_order_of_their_rows(tmp_path):
    atoms, queries = normal()
    atoms[1500] = atoms[3] = atoms[900]
    queries[0] = atoms[900]
    found = bm.search(opened(atoms, tmp_path), queries, 2).indices[0]
    np.testing.assert_array_equal(found, [3, 900])


def test_wrong_answers_are_as_rare_as_promised(tmp_path):
    rng = np.random.default_rng(3)
    delta, n_wrong, n_trials = 0.1, 0, 0
    for seed in range(6):
        atoms, queries = (
            rng.normal(size=(4_000, 1_024)).astype(np.float32),
            rng.normal(size=(32, 1_024)).astype(np.float32),
        )
        found = streamed.best_in_file(opened(atoms, tmp_path), list(queries), 2, False, delta, seed)
        assert found is not None
        truth = best(atoms, queries, 2)
        n_wrong += sum(not set(rows) <= set(one.rows) for one, rows in zip(found, truth.tolist(), strict=True))
        n_trials += len(found)
    assert n_trials == 6 * 32
    assert n_wrong <= binom.isf(1e-3, n_trials, delta)
