"""The contract that every baseline keeps, whatever its method."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
import scipy.sparse

from banditmips import baselines
from banditmips._result import SearchResult, StopReason
from banditmips.baselines import REGISTRY, Baseline
from banditmips.baselines.h2_alsh import QALSHParameters

N, D, N_QUERIES = 300, 24, 40


@dataclass(frozen=True)
class Case:
    """How the suite drives one method.

    `usual` are parameters under which the method's own part does something at n = 300, `at_most` is the
    largest count that its formula allows under them, `exact` are the parameters of the most effort for n atoms.
    `sweep` are values of the effort parameter by falling effort, used together with `sweep_with`.
    """

    at_most: Callable[[int, int, int], int]
    usual: dict[str, Any] = field(default_factory=dict)
    exact: Callable[[int], dict[str, Any]] = lambda n: {}
    sweep: tuple[Any, ...] = ()
    sweep_with: dict[str, Any] = field(default_factory=dict)
    sweep_equal_norms: bool = False
    needs: tuple[str, ...] = ()


def h2_alsh_at_most(n: int, d: int, k: int) -> int:
    functions = QALSHParameters.choose(n, c0=1.5, delta=1e-3, n_candidates=20).n_functions
    return d * (1 + n + n // 31 * functions)


CASES = {
    "naive": Case(at_most=lambda n, d, k: n * d),
    "bounded_me": Case(
        usual={"epsilon": 1.0},
        at_most=lambda n, d, k: n * d,
        exact=lambda n: {"epsilon": 0},
        sweep=(0, 0.5, 2.0, 4.0, 8.0),
    ),
    "greedy": Case(
        usual={"budget": 50},
        at_most=lambda n, d, k: d + 2 * 50 * d,
        exact=lambda n: {"budget": n},
        sweep=(300, 100, 50, 20, 5),
    ),
    "lsh": Case(
        usual={"n_functions": 3, "n_tables": 8},
        at_most=lambda n, d, k: d * (1 + 3 * 8 + n),
        # Every table is missed with probability (1 - p)^100, where p is about one half.
        exact=lambda n: {"n_functions": 1, "n_tables": 100},
        sweep=(64, 16, 8, 4, 1),
        sweep_with={"n_functions": 4},
    ),
    "h2_alsh": Case(
        usual={"scan_limit": 30, "c0": 1.5, "n_candidates": 20, "delta": 1e-3},
        at_most=h2_alsh_at_most,
        # An atom within reach is missed with probability at most delta.
        exact=lambda n: {"scan_limit": 0, "c0": 1.5, "n_candidates": n, "delta": 1e-9},
        sweep=(300, 100, 30, 10, 1),
        sweep_with={"scan_limit": 0},
        # Atoms of unequal norms fall into many small subsets, which leave little to hashing at n = 300.
        sweep_equal_norms=True,
    ),
    "neq": Case(
        usual={"codebooks": 4, "codewords": 8, "rerank": 20},
        at_most=lambda n, d, k: d * (4 * 8 + max(20, k)) + n,
        exact=lambda n: {"codebooks": 4, "codewords": 8, "rerank": n},
        sweep=(300, 50, 20, 10, 5),
        sweep_with={"codebooks": 2, "codewords": 8},
        needs=("sklearn",),
    ),
    "pca": Case(
        usual={"depth": 3},
        at_most=lambda n, d, k: d * (3 + n),
        exact=lambda n: {"depth": 0},
        sweep=(0, 1, 3, 5, 7),
        sweep_with={"boost": False},
    ),
    "hnsw": Case(
        usual={"M": 8, "ef_search": 20},
        # The bottom layer evaluates an atom once; a step on a layer above it evaluates at most M.
        at_most=lambda n, d, k: d * (1 + n + 8 * n + k),
        exact=lambda n: {"M": max(2, n), "ef_construction": n, "ef_search": n},
        sweep=(300, 40, 20, 10, 5),
        sweep_with={"M": 4},
        needs=("faiss",),
    ),
    "napg": Case(
        usual={"M": 8, "ef_search": 20},
        at_most=lambda n, d, k: d * (1 + n + 8 * n + k),
        exact=lambda n: {"M": max(2, n), "ef_construction": n, "ef_search": n},
        sweep=(300, 40, 20, 10, 5),
        sweep_with={"M": 4},
    ),
}


@pytest.fixture(params=list(REGISTRY))
def key(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    for module in CASES[name].needs:
        if importlib.util.find_spec(module) is None:
            pytest.skip(f"the baseline {name!r} needs {module}, from the extra 'baselines'")
    return name


def make(key: str, **changes: Any) -> Baseline:
    return REGISTRY[key](**{**CASES[key].usual, **changes})


def make_exact(key: str, n: int, **changes: Any) -> Baseline:
    return REGISTRY[key](**{**CASES[key].exact(n), **changes})


@pytest.fixture(scope="module")
def atoms() -> np.ndarray:
    rng = np.random.default_rng(11)
    return rng.normal(size=(N, D)) * rng.lognormal(0, 0.2, size=(N, 1))


@pytest.fixture(scope="module")
def queries() -> np.ndarray:
    return np.random.default_rng(12).normal(size=(N_QUERIES, D))


def best(atoms: np.ndarray, queries: np.ndarray, k: int) -> np.ndarray:
    return np.argsort(-(queries @ atoms.T), axis=1, kind="stable")[:, :k]


def accuracy(result: SearchResult, truth: np.ndarray) -> float:
    k = truth.shape[1]
    pairs = zip(result.indices, truth, strict=True)
    return float(np.mean([len(set(found) & set(true)) / k for found, true in pairs]))


def assert_same(one: SearchResult, other: SearchResult) -> None:
    for name in ("indices", "scores", "lower", "upper", "exact", "n_multiplies", "n_rounds", "n_survivors"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)
    np.testing.assert_array_equal(one.delta_spent, other.delta_spent)
    assert one.stop_reason == other.stop_reason


def test_every_method_of_the_registry_has_a_case():
    assert list(REGISTRY) == list(CASES)
    assert len(REGISTRY) == 9


def test_the_registry_and_the_package_name_the_same_classes(key):
    method = REGISTRY[key]
    assert issubclass(method, Baseline)
    assert method.key == key
    assert method.title
    assert getattr(baselines, method.__name__) is method
    assert method.__name__ in baselines.__all__


def test_unknown_key_suggests_the_nearest():
    with pytest.raises(KeyError, match="'bounded_me'"):
        REGISTRY["boundedme"]
    with pytest.raises(KeyError, match=r"naive, bounded_me, .*, napg"):
        REGISTRY["xxxxxx"]
    assert "boundedme" not in REGISTRY
    assert REGISTRY.get("boundedme") is None
    with pytest.raises(AttributeError, match="LSHMIPZ"):
        _ = baselines.LSHMIPZ


def test_shapes_follow_the_query(key, atoms, queries):
    index = make(key).fit(atoms)
    batch, single = index.search(queries, k=4), index.search(queries[0], k=4)
    for name, dtype in {
        "indices": np.int64,
        "scores": np.float64,
        "lower": np.float64,
        "upper": np.float64,
        "exact": np.bool_,
    }.items():
        assert getattr(batch, name).shape == (N_QUERIES, 4)
        assert getattr(single, name).shape == (4,)
        assert getattr(batch, name).dtype == getattr(single, name).dtype == dtype
    for name in ("n_multiplies", "n_rounds", "n_survivors"):
        assert getattr(batch, name).shape == (N_QUERIES,)
        assert isinstance(getattr(single, name), int)
    assert len(batch.stop_reason) == N_QUERIES
    assert index.search(queries[:1], k=4).indices.shape == (1, 4)
    assert index.search(queries[0]).indices.shape == (1,)


def test_fit_returns_the_index_itself(key, atoms):
    index = make(key)
    assert index.fit(atoms) is index


def test_a_query_alone_gets_what_it_gets_in_a_batch(key, atoms, queries):
    index = make(key).fit(atoms)
    batch = index.search(queries, k=3)
    for position in (N_QUERIES - 1, 0, 7):
        assert_same(index.search(queries[position], k=3), batch[position])


def test_the_same_seed_gives_the_same_answer(key, atoms, queries):
    assert_same(make(key, seed=5).fit(atoms).search(queries, k=3), make(key, seed=5).fit(atoms).search(queries, k=3))


def test_fitting_again_forgets_the_former_atoms(key, atoms, queries):
    index = make(key).fit(atoms[::-1])
    assert_same(index.fit(atoms).search(queries, k=3), make(key).fit(atoms).search(queries, k=3))


def test_inputs_are_left_as_they_were(key, atoms, queries):
    atoms_before, queries_before = atoms.copy(), queries.copy()
    atoms.setflags(write=False)
    queries.setflags(write=False)
    try:
        make(key).fit(atoms).search(queries, k=3)
    finally:
        atoms.setflags(write=True)
        queries.setflags(write=True)
    np.testing.assert_array_equal(atoms, atoms_before)
    np.testing.assert_array_equal(queries, queries_before)


@pytest.mark.parametrize("k", [1, 5, N])
def test_results_are_consistent_in_themselves(key, atoms, queries, k):
    result = make(key).fit(atoms).search(queries, k=k)
    products = queries @ atoms.T
    for row in range(N_QUERIES):
        found = result.indices[row] >= 0
        indices, scores = result.indices[row][found], result.scores[row][found]
        assert len(set(indices)) == len(indices)
        assert found[: len(indices)].all(), "padding comes last"
        assert (np.diff(scores) <= 0).all()
        exact = result.exact[row][found]
        np.testing.assert_allclose(scores[exact], products[row, indices[exact]], rtol=1e-12, atol=1e-12)
        assert (result.scores[row][~found] == -np.inf).all()
    np.testing.assert_array_equal(result.lower[result.exact], result.scores[result.exact])
    np.testing.assert_array_equal(result.upper[result.exact], result.scores[result.exact])
    assert (result.lower[~result.exact] < result.scores[~result.exact]).all()
    assert (result.upper[~result.exact] > result.scores[~result.exact]).all()
    assert set(result.stop_reason) <= {StopReason.FINISHED_EXACTLY, StopReason.SEPARATED}
    assert (result.n_survivors >= (result.indices >= 0).sum(axis=1)).all()


@pytest.mark.parametrize("k", [1, 5, N])
def test_counts_are_positive_and_within_the_formula(key, atoms, queries, k):
    counts = make(key).fit(atoms).search(queries, k=k).n_multiplies
    assert (counts > 0).all()
    assert (counts <= CASES[key].at_most(N, D, k)).all()


def test_more_than_n_are_padded(key, atoms, queries):
    few = atoms[:6]
    result = make_exact(key, 6).fit(few).search(queries, k=9)
    np.testing.assert_array_equal(result.indices[:, :6], best(few, queries, 6))
    assert (result.indices[:, 6:] == -1).all()
    for name in ("scores", "lower", "upper"):
        assert (getattr(result, name)[:, 6:] == -np.inf).all()


def test_ties_go_to_the_smaller_index(key, atoms, queries):
    tied = atoms[:40].copy()
    for row, query in enumerate(queries[:10]):
        first, second, third = np.random.default_rng(row).choice(40, size=3, replace=False)
        tied[[first, second, third]] = 3 * query
        result = make_exact(key, 40).fit(tied).search(query, k=3)
        np.testing.assert_array_equal(result.indices, sorted([first, second, third]))
        assert result.scores[0] == result.scores[2]


def test_equal_atoms_come_in_order(key):
    result = make_exact(key, 12).fit(np.ones((12, 5))).search(np.arange(5.0), k=4)
    np.testing.assert_array_equal(result.indices, np.arange(4))
    np.testing.assert_array_equal(result.scores, [10.0] * 4)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16, np.int64, np.int8, np.uint8, np.bool_, ">f4"])
def test_dtypes_and_orders_agree_on_the_same_numbers(key, dtype, order):
    rng = np.random.default_rng(3)
    numbers = rng.integers(0, 2 if dtype is np.bool_ else 8, size=(50, 10))
    query = rng.integers(-4, 5, size=10)
    typed = np.asarray(numbers, dtype=dtype, order=order)
    result = make_exact(key, 50).fit(typed).search(query, k=5)
    expected = make_exact(key, 50).fit(numbers.astype(np.float64)).search(query.astype(np.float64), k=5)
    np.testing.assert_array_equal(result.scores, expected.scores)
    np.testing.assert_array_equal(result.indices, expected.indices)


def test_nested_lists_will_do(key):
    result = make_exact(key, 3).fit([[1, 0], [0, 2], [1, 1]]).search([3, 1])
    assert result.indices.tolist() == [2]
    assert result.scores.tolist() == [4.0]


@pytest.mark.parametrize("shape", [(1, 1), (1, 7), (7, 1), (2, 2)])
def test_the_smallest_shapes(key, shape):
    tiny = np.arange(1.0, 1.0 + shape[0] * shape[1]).reshape(shape)
    result = make_exact(key, shape[0]).fit(tiny).search(np.ones(shape[1]), k=1)
    assert result.indices.tolist() == [shape[0] - 1]
    np.testing.assert_allclose(result.scores, tiny[-1].sum(), rtol=1e-15)


def test_zeros(key, atoms):
    assert make_exact(key, N).fit(atoms).search(np.zeros(D), k=3).scores.tolist() == [0.0, 0.0, 0.0]
    nothing = make_exact(key, 8).fit(np.zeros((8, D))).search(np.ones(D), k=8)
    assert nothing.indices.tolist() == list(range(8))
    assert nothing.scores.tolist() == [0.0] * 8


def test_the_usual_parameters_survive_zeros(key, atoms):
    for found in (
        make(key).fit(atoms).search(np.zeros(D), k=3),
        make(key).fit(np.zeros((N, D))).search(np.ones(D), k=3),
    ):
        assert found.indices.shape == (3,)
        assert (found.scores[found.indices >= 0] == 0.0).all()


def test_default_parameters(key, atoms, queries):
    result = REGISTRY[key]().fit(atoms).search(queries, k=3)
    assert accuracy(result, best(atoms, queries, 3)) > 0.3


def test_full_effort_is_accurate(key, atoms, queries):
    index = make_exact(key, N).fit(atoms)
    for k in (1, 5):
        result = index.search(queries, k=k)
        np.testing.assert_array_equal(result.indices, best(atoms, queries, k))


def test_accuracy_falls_with_effort(key, atoms, queries):
    case, effort = CASES[key], REGISTRY[key].effort
    if key == "naive":
        assert effort == ""
        return
    if case.sweep_equal_norms:
        atoms = atoms / np.linalg.norm(atoms, axis=1, keepdims=True)
    truth = best(atoms, queries, 5)
    reached = []
    for value in case.sweep:
        index = REGISTRY[key](**{**case.sweep_with, effort: value})
        reached.append(accuracy(index.fit(atoms).search(queries, k=5), truth))
    noise = 0.03
    assert (np.diff(reached) <= noise).all(), reached
    assert reached[0] >= 0.95, reached
    assert reached[-1] <= reached[0] - 0.2, reached


def test_a_query_of_the_wrong_width(key, atoms):
    index = make(key).fit(atoms)
    message = rf"queries has {D + 1} columns, but the atoms have {D} \(argument 'queries', shape \(2, {D + 1}\)\)"
    with pytest.raises(ValueError, match=message):
        index.search(np.ones((2, D + 1)))


@pytest.mark.parametrize(
    ("queries_given", "error", "message"),
    [
        (np.ones((1, 1, D)), ValueError, r"queries must be one query \(1-d\) or a batch \(2-d\), got 3 dimensions"),
        (np.ones((0, D)), ValueError, r"queries is empty: shape \(0, 24\)"),
        (np.float64(1.0), ValueError, r"queries must be one query .*, got 0 dimensions"),
        (["a"] * D, TypeError, "queries must hold real numbers, got dtype <U1"),
        (np.ones(D, dtype=complex), TypeError, "queries must hold real numbers, got dtype complex128"),
        (np.where(np.arange(D) == 4, np.nan, 1.0), ValueError, "queries has nan at column 4"),
        (np.where(np.eye(D) == 1, np.inf, 1.0)[3:], ValueError, "queries has inf at row 0, column 3"),
        (np.ma.masked_equal(np.ones(D), 1.0), TypeError, "queries is a masked array"),
    ],
)
def test_bad_queries_are_named(key, atoms, queries_given, error, message):
    index = make(key).fit(atoms)
    with pytest.raises(error, match=message):
        index.search(queries_given)


@pytest.mark.parametrize(
    ("atoms_given", "error", "message"),
    [
        (np.ones(4), ValueError, r"atoms must be a matrix .*, shape \(4,\)"),
        (np.ones((0, 4)), ValueError, r"atoms is empty: shape \(0, 4\)"),
        (np.ones((4, 0)), ValueError, r"atoms is empty: shape \(4, 0\)"),
        ([["a"]], TypeError, "atoms must hold real numbers, got dtype <U1"),
        ([[1.0, 2.0], [3.0, np.inf]], ValueError, "atoms has inf at row 1, column 1"),
        (np.ma.masked_equal(np.ones((2, 2)), 1.0), TypeError, "atoms is a masked array"),
        (
            scipy.sparse.eye_array(3, format="csr"),
            TypeError,
            "atoms must be a dense array .*, got csr_array",
        ),
    ],
)
def test_bad_atoms_are_named(key, atoms_given, error, message):
    with pytest.raises(error, match=message):
        make(key).fit(atoms_given)


@pytest.mark.parametrize(
    ("k", "error", "message"),
    [
        (0, ValueError, "k must be at least 1, got 0"),
        (1.5, TypeError, "k must be an integer, got 1.5"),
        (True, TypeError, "k must be an integer, got True"),
    ],
)
def test_bad_k_is_named(key, atoms, queries, k, error, message):
    index = make(key).fit(atoms)
    with pytest.raises(error, match=message):
        index.search(queries, k=k)


def test_searching_before_fitting(key):
    with pytest.raises(RuntimeError, match="call fit"):
        make(key).search(np.ones(3))


def test_parameters_are_checked(key):
    with pytest.raises(TypeError, match="no_such_option"):
        REGISTRY[key](no_such_option=1)
    with pytest.raises(TypeError, match="positional"):
        REGISTRY[key](1)
    with pytest.raises(ValueError, match="seed must be at least 0, but came as -1"):
        REGISTRY[key](seed=-1)


def test_atoms_larger_than_a_block_are_read_in_parts(key, monkeypatch, atoms, queries):
    whole = make(key).fit(atoms).search(queries, k=3)
    monkeypatch.setattr("banditmips.baselines._base._BLOCK_ENTRIES", 7 * D + 1)
    parts = make(key).fit(atoms).search(queries, k=3)
    np.testing.assert_array_equal(parts.indices, whole.indices)
    np.testing.assert_array_equal(parts.n_multiplies, whole.n_multiplies)
    spoilt = atoms.copy()
    spoilt[123, 4] = np.nan
    with pytest.raises(ValueError, match="atoms has nan at row 123, column 4"):
        make(key).fit(spoilt)
