"""The estimators: scikit-learn's own checks, and what they find beside brute force."""

from __future__ import annotations

import inspect
import pickle
import subprocess
import sys

import numpy as np
import pytest
import scipy.sparse

pytest.importorskip("sklearn", minversion="1.6", reason="scikit-learn is not installed")

from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.neighbors import KNeighborsClassifier, NearestNeighbors
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import banditmips as bm
from banditmips.estimators import MatchingPursuit, MIPSNeighbors, MIPSNeighborsClassifier, MIPSTransformer

ALL = (MIPSNeighbors, MIPSNeighborsClassifier, MIPSTransformer, MatchingPursuit)
RNG = np.random.default_rng(0)
ATOMS = 3 * RNG.normal(size=(80, 1)) + RNG.normal(size=(80, 1_500))
QUERIES = 1 + RNG.normal(size=(5, 1_500))
SCORES = QUERIES @ ATOMS.T
RANKED = np.argsort(-SCORES, axis=1)


@parametrize_with_checks([make() for make in ALL])
def test_scikit_learn_finds_nothing_to_complain_about(estimator, check):
    check(estimator)


# --- neighbours -------------------------------------------------------------------------------------------------------


def test_neighbours_come_with_falling_scores():
    neighbours = MIPSNeighbors(n_neighbors=4).fit(ATOMS)
    scores, indices = neighbours.kneighbors(QUERIES)
    np.testing.assert_array_equal(indices, RANKED[:, :4])
    np.testing.assert_allclose(scores, np.take_along_axis(SCORES, indices, axis=1))
    assert (np.diff(scores, axis=1) < 0).all()
    np.testing.assert_array_equal(neighbours.kneighbors(QUERIES, 2, return_distance=False), RANKED[:, :2])
    assert (neighbours.n_samples_fit_, neighbours.n_features_in_) == ATOMS.shape
    assert isinstance(neighbours.index_, bm.BanditMIPS)


def test_the_smallest_scores_and_both_ends():
    scores, indices = MIPSNeighbors(n_neighbors=3, ends="smallest").fit(ATOMS).kneighbors(QUERIES)
    np.testing.assert_array_equal(indices, RANKED[:, :-4:-1])
    np.testing.assert_allclose(scores, np.take_along_axis(SCORES, indices, axis=1))
    both = MIPSNeighbors(n_neighbors=3, ends="both").fit(ATOMS)
    scores, indices = both.kneighbors(QUERIES)
    np.testing.assert_array_equal(indices, np.hstack([RANKED[:, :3], RANKED[:, :-4:-1]]))
    np.testing.assert_allclose(scores, np.take_along_axis(SCORES, indices, axis=1))
    graph = both.kneighbors_graph(QUERIES, mode="score").toarray()
    np.testing.assert_allclose(np.take_along_axis(graph, indices, axis=1), scores)
    assert np.count_nonzero(graph) == graph.shape[0] * 6
    among_themselves = np.where(np.eye(80), np.nan, ATOMS @ ATOMS.T)
    ranked = np.argsort(among_themselves, axis=1)[:, :79]  # NaN comes last
    expected = np.hstack([ranked[:, :-4:-1], ranked[:, :3]])
    np.testing.assert_array_equal(both.kneighbors(return_distance=False), expected)
    np.testing.assert_array_equal(
        MIPSTransformer(n_neighbors=3, ends="both").fit(ATOMS).transform(QUERIES).toarray(), graph
    )
    with pytest.raises(ValueError, match="n_neighbors must be at most 40, half the atoms to choose from, got 41"):
        both.kneighbors(QUERIES, 41)
    with pytest.raises(ValueError, match="n_neighbors must be at most 39, half the atoms"):
        both.kneighbors(n_neighbors=40)


def test_squared_differences_give_the_neighbours_of_scikit_learn():
    theirs = NearestNeighbors(n_neighbors=3).fit(ATOMS)
    ours = MIPSNeighbors(n_neighbors=3, objective="neg_sqeuclidean").fit(ATOMS)
    for queries in (QUERIES, None):
        distances, expected = theirs.kneighbors(queries)
        scores, indices = ours.kneighbors(queries)
        np.testing.assert_array_equal(indices, expected)
        np.testing.assert_allclose(scores, -(distances**2))


def test_nobody_is_a_neighbour_of_its_own():
    neighbours = MIPSNeighbors(n_neighbors=3).fit(ATOMS[:50]).partial_fit(ATOMS[50:])
    products = ATOMS @ ATOMS.T
    np.fill_diagonal(products, -np.inf)
    expected = np.argsort(-products, axis=1)[:, :3]
    scores, indices = neighbours.kneighbors()
    np.testing.assert_array_equal(indices, expected)
    np.testing.assert_allclose(scores, np.take_along_axis(products, expected, axis=1))


def test_graphs():
    neighbours = MIPSNeighbors(n_neighbors=3).fit(ATOMS)
    ones, scores = (neighbours.kneighbors_graph(QUERIES, mode=mode) for mode in ("connectivity", "score"))
    assert ones.shape == scores.shape == SCORES.shape
    chosen = np.zeros(SCORES.shape, dtype=bool)
    np.put_along_axis(chosen, RANKED[:, :3], True, axis=1)
    np.testing.assert_array_equal(ones.toarray(), chosen)
    np.testing.assert_allclose(scores.toarray(), np.where(chosen, SCORES, 0.0))
    assert neighbours.kneighbors_graph(n_neighbors=1).diagonal().sum() == 0
    with pytest.raises(ValueError, match=r"mode must be 'connectivity' or 'score' \(there are no .*got 'distance'"):
        neighbours.kneighbors_graph(QUERIES, mode="distance")


def test_partial_fit_adds_atoms():
    neighbours = MIPSNeighbors(n_neighbors=2)
    for part in np.array_split(ATOMS, 3):
        neighbours.partial_fit(part)
    assert neighbours.n_samples_fit_ == 80
    np.testing.assert_array_equal(neighbours.kneighbors(QUERIES, return_distance=False), RANKED[:, :2])
    assert neighbours.fit(ATOMS[:10]).n_samples_fit_ == 10


def test_names_of_columns_are_kept_and_asked_for():
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    frame = pandas.DataFrame(ATOMS[:, :5], columns=list("abcde"))
    for make in ALL:
        estimator = make().fit(frame, np.arange(80) % 2)
        assert estimator.feature_names_in_.tolist() == list("abcde")
    with pytest.raises(ValueError, match="feature names"):
        MIPSNeighbors().fit(frame).kneighbors(frame[list("edcba")])


@pytest.mark.parametrize("k", [0, 81, 2.5])
def test_numbers_of_neighbours_are_checked(k):
    neighbours = MIPSNeighbors().fit(ATOMS)
    with pytest.raises((TypeError, ValueError), match="n_neighbors must be"):
        neighbours.kneighbors(QUERIES, k)
    if k != 81:
        with pytest.raises((TypeError, ValueError), match="n_neighbors must be"):
            MIPSNeighbors(n_neighbors=k).fit(ATOMS)


def test_options_are_those_of_the_index():
    with pytest.raises(ValueError, match="delta must be"):
        MIPSNeighbors(delta=2.0).fit(ATOMS)
    made = MIPSNeighbors(delta=0.1, layout="none", n_jobs=2, objective="cosine", random_state=3).fit(ATOMS).index_
    assert made.changed_params() == {"delta": 0.1, "layout": "none", "n_jobs": 2, "objective": "cosine", "seed": 3}
    assert MIPSNeighbors(random_state=np.random.RandomState(0)).fit(ATOMS).index_.seed > 0
    fresh = MIPSNeighbors(random_state=None)
    assert fresh.fit(ATOMS).index_.seed != clone(fresh).fit(ATOMS).index_.seed
    largest = MIPSNeighbors(1, absolute=True).fit(ATOMS).kneighbors(QUERIES, return_distance=False)
    np.testing.assert_array_equal(largest[:, 0], np.abs(SCORES).argmax(axis=1))


@pytest.mark.parametrize("make", ALL, ids=lambda make: make.__name__)
def test_parameters_are_documented_and_copied(make):
    for name in inspect.signature(make).parameters:
        assert name in make.__doc__, name
    estimator = make(delta=0.05)
    assert clone(estimator).get_params() == estimator.get_params()
    fitted = estimator.fit(ATOMS, np.arange(80) % 2)
    assert not hasattr(clone(fitted), "n_features_in_")
    assert pickle.loads(pickle.dumps(fitted)).n_features_in_ == 1_500


def test_sparse_rows():
    sparse = scipy.sparse.random_array((60, 400), density=0.05, rng=np.random.default_rng(0), format="csr")
    expected = np.argsort(-(sparse @ sparse[:4].T).toarray().T, axis=1)[:, :1]
    neighbours = MIPSNeighbors(1).fit(sparse)
    np.testing.assert_array_equal(neighbours.kneighbors(sparse[:4], return_distance=False), expected)


# --- classes, features, sums ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def digits():
    return train_test_split(*load_digits(return_X_y=True), test_size=200, random_state=0)


def test_votes_are_those_of_scikit_learn(digits):
    X, X_test, y, _ = digits
    theirs = KNeighborsClassifier(5).fit(X, y)
    ours = MIPSNeighborsClassifier(5).fit(X, y)
    # Of atoms that are equally far, others may be chosen.
    assert np.mean(ours.predict(X_test) == theirs.predict(X_test)) > 0.99
    shares = ours.predict_proba(X_test)
    np.testing.assert_allclose(shares.sum(axis=1), 1.0)
    assert np.mean(np.abs(shares - theirs.predict_proba(X_test)) < 1e-12) > 0.99
    np.testing.assert_array_equal(ours.classes_, theirs.classes_)


def test_a_grid_search_over_a_pipeline(digits):
    X, X_test, y, y_test = digits
    grid = {"mipsneighborsclassifier__n_neighbors": [1, 3], "mipsneighborsclassifier__objective": ["cosine", "neg_l1"]}
    pipeline = make_pipeline(StandardScaler(), MIPSNeighborsClassifier(layout="none"))
    search = GridSearchCV(pipeline, grid, cv=2).fit(X[:300], y[:300])
    assert search.best_params_["mipsneighborsclassifier__n_neighbors"] in (1, 3)
    assert search.score(X_test, y_test) > 0.85


def test_scores_as_features(digits):
    X, X_test, y, y_test = digits
    transformer = MIPSTransformer(n_neighbors=20, objective="cosine")
    features = transformer.fit_transform(X[:400])
    assert features.shape == (400, 400)
    assert (np.diff(features.indptr) == 20).all()
    np.testing.assert_allclose(features.diagonal(), 1.0)
    assert len(transformer.get_feature_names_out()) == 400
    model = make_pipeline(clone(transformer), LogisticRegression(max_iter=500)).fit(X[:400], y[:400])
    assert model.score(X_test, y_test) > 0.85


def test_a_pursuit_in_a_grid_search():
    atoms = RNG.normal(size=(40, 300))
    codes = np.zeros((6, 40))
    codes[np.arange(6), RNG.integers(0, 20, 6)], codes[np.arange(6), RNG.integers(20, 40, 6)] = 3.0, -2.0
    pursuit = MatchingPursuit(2, method="omp").fit(atoms)
    np.testing.assert_allclose(pursuit.transform(codes @ atoms), codes, atol=1e-10)
    np.testing.assert_allclose(pursuit.inverse_transform(codes), codes @ atoms)
    assert pursuit.score(codes @ atoms) == pytest.approx(1.0)
    assert 0.5 < MatchingPursuit(1).fit(atoms).score(codes @ atoms) < 0.95
    assert pursuit.score(np.zeros((2, 300))) == 1.0
    # Half of the atoms are written as sums of the other half: more of them explain more.
    search = GridSearchCV(MatchingPursuit(), {"n_nonzero_coefs": [1, 3, 5]}, cv=2).fit(atoms)
    assert search.best_params_ == {"n_nonzero_coefs": 5}


def test_without_scikit_learn_the_error_names_the_extra():
    program = """
import sys
sys.modules["sklearn"] = None
import banditmips as bm
try:
    bm.estimators
except ImportError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "pip install 'banditmips[sklearn]'" in done.stdout
