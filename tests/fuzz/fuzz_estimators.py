"""scikit-learn's way to ask: estimators with every parameter, sane or not, against all products."""

from __future__ import annotations

import warnings
from random import Random
from typing import Any

import numpy as np
import scipy.sparse
from fuzz_calls import all_scores, make_data, random_call

NEIGHBORS = ("MIPSNeighbors", "MIPSNeighborsClassifier", "MIPSTransformer")
_PARAMETERS: dict[str, list[Any]] = {
    "objective": ["inner_product", "cosine", "correlation", "neg_sqeuclidean", "neg_l1", "euclidean"],
    "absolute": [True],
    "ends": ["smallest"],
    "epsilon": [0.5, -1.0],
    "layout": ["codes", "coordinates", "full", "none", "odd"],
    "random_state": [None, 3, 2**40, -1],
    "n_jobs": [1, 2, -1, 0],
}
_OF_PURSUITS: dict[str, list[Any]] = {
    "n_nonzero_coefs": [1, 1, 2, 50, 0, None],
    "tol": [1e-3, 0.0, -1.0],
    "method": ["omp", "odd"],
    "weakness": [0.3, 2.0],
    "random_state": [None, 3],
}


def random_estimator(random: Random) -> dict[str, Any]:
    """Describe an estimator, its data and what it is asked."""
    name = random.choice([*NEIGHBORS, "MatchingPursuit"])
    parameters: dict[str, Any] = {"delta": random.choice([1e-12, 1e-12, 1e-12, 1e-12, 0.0, 2.0])}
    for parameter, values in (_OF_PURSUITS if name == "MatchingPursuit" else _PARAMETERS).items():
        if random.random() < 0.15:
            parameters[parameter] = random.choice(values)
    if name == "MIPSNeighborsClassifier":
        parameters.pop("ends", None)  # there is no vote of opposites
    if name == "MatchingPursuit":
        parameters.setdefault("n_nonzero_coefs", random.choice([1, 1, 3]))
    else:
        parameters["n_neighbors"] = random.choice([1, 1, 1, 2, 2, 5, random.choice([60, 0, "3"])])
    data = random_call(random)
    if random.random() < 0.9:
        data["n_queries"] = data["n_queries"] or 2
    return {
        **{key: data[key] for key in ("shape", "dtype", "form", "values", "query_dtype", "n_queries", "data_seed")},
        "what": "estimator",
        "name": name,
        "parameters": parameters,
        "ask": random.choice(["others", "others", "more", "themselves", "graph"]),
    }


def try_estimator(case: dict[str, Any]) -> str | None:
    """Fit, ask and compare with all products; say what is wrong, if anything is."""
    from banditmips import estimators

    atoms, queries, _ = make_data({**case, "mask": None})
    if not np.isfinite(_dense(atoms)).all():
        warnings.simplefilter("ignore")  # scikit-learn's look at the entries warns before it refuses them
    estimator = getattr(estimators, case["name"])(**case["parameters"])
    if case["name"] == "MatchingPursuit":
        return _problem_of_pursuit(case, estimator.fit(atoms), atoms, queries)
    labels = np.random.default_rng(case["data_seed"]).integers(0, 3, size=case["shape"][0])
    n = case["shape"][0]
    if case["ask"] == "more" and n > 1 and case["name"] == "MIPSNeighbors" and not isinstance(atoms, list):
        rows = atoms.tocsr() if scipy.sparse.issparse(atoms) else atoms
        estimator.partial_fit(rows[: n // 2]).partial_fit(rows[n // 2 :])
    else:
        estimator.fit(atoms, labels)
    asked = None if case["ask"] == "themselves" else queries
    if case["ask"] == "graph":
        graph = estimator.kneighbors_graph(asked, mode="score")
        m, k = queries.shape[0], case["parameters"]["n_neighbors"]
        scores, indices = graph.data.reshape(m, k), graph.indices.reshape(m, k)
    else:
        scores, indices = estimator.kneighbors(asked)
    rows = _dense(atoms if asked is None else asked)
    problem = _problem_of_neighbors(case, _dense(atoms), rows, scores, indices, themselves=asked is None)
    if problem is not None or asked is None:
        return problem
    if case["name"] == "MIPSNeighborsClassifier":
        return _problem_of_classes(estimator, asked, labels[indices])
    if case["name"] == "MIPSTransformer":
        expected = np.zeros((len(rows), n))
        np.put_along_axis(expected, indices, scores, axis=1)
        return None if (estimator.transform(asked).toarray() == expected).all() else "transform is not the scores"
    return None


def _dense(rows: Any) -> np.ndarray[Any, Any]:
    return (rows.astype(np.float64).toarray() if scipy.sparse.issparse(rows) else np.asarray(rows)).astype(np.float64)


def _problem_of_neighbors(
    case: dict[str, Any],
    atoms: np.ndarray[Any, Any],
    rows: np.ndarray[Any, Any],
    scores: np.ndarray[Any, Any],
    indices: np.ndarray[Any, Any],
    themselves: bool,
) -> str | None:
    parameters = case["parameters"]
    objective = parameters.get("objective", "inner_product")
    if case["name"] == "MIPSNeighborsClassifier":
        objective = parameters.get("objective", "neg_sqeuclidean")
    k = parameters["n_neighbors"]
    if indices.shape != (len(rows), k) or scores.shape != indices.shape:
        return f"shapes {scores.shape}, {indices.shape}, expected {(len(rows), k)}"
    for i, row in enumerate(rows):
        truth, found = all_scores(objective, atoms, row), indices[i]
        if np.unique(found).size < k or (found < 0).any() or (found >= len(atoms)).any() or (themselves and i in found):
            return f"row {i}: indices {found}"
        largest = np.abs(atoms).max() + np.abs(row).max()
        with np.errstate(over="ignore"):
            square = np.square(largest) * row.size
        scale = {"cosine": 1.0, "correlation": 1.0, "neg_l1": largest * row.size}.get(objective, square)
        slack = 1e-4 * scale + 1e-300
        if (np.abs(scores[i] - truth[found]) > slack).any():
            return f"row {i}: scores {scores[i]}, true {truth[found]}"
        ranked = -truth if parameters.get("ends") == "smallest" else truth
        ranked = np.abs(truth) if parameters.get("absolute") else ranked
        others = np.delete(ranked, i) if themselves else ranked
        best = np.sort(others)[::-1][:k]
        if (np.sort(ranked[found])[::-1] < best - parameters.get("epsilon", 0.0) - 2 * slack).any():
            return f"row {i}: found {found} of scores {ranked[found]}, the best are {best}"
    return None


def _problem_of_classes(estimator: Any, queries: Any, votes: np.ndarray[Any, Any]) -> str | None:
    shares = (votes[..., np.newaxis] == estimator.classes_).mean(axis=1)
    if not np.allclose(estimator.predict_proba(queries), shares):
        return "probabilities are not the neighbours' shares"
    if (estimator.predict(queries) != estimator.classes_[shares.argmax(axis=1)]).any():
        return "the class is not that of most neighbours"
    return None


def _problem_of_pursuit(case: dict[str, Any], estimator: Any, atoms: Any, queries: Any) -> str | None:
    dense, rows, most = _dense(atoms), _dense(queries), case["parameters"]["n_nonzero_coefs"]
    coefficients = estimator.transform(queries)
    if coefficients.shape != (len(rows), len(dense)) or not np.isfinite(coefficients).all():
        return f"coefficients of shape {coefficients.shape}, or not finite"
    if most is not None and (np.count_nonzero(coefficients, axis=1) > most).any():
        return f"more than {most} coefficients"
    sizes = np.abs(dense).max(axis=1, keepdims=True)
    lengths = sizes[:, 0] * np.linalg.norm(dense / np.where(sizes > 0.0, sizes, 1.0), axis=1)  # squares may overflow
    rest, whole = np.linalg.norm(rows - coefficients @ dense, axis=1), np.linalg.norm(rows, axis=1)
    if (rest > whole * (1 + 1e-6)).any():
        return f"the rest is {rest}, of rows of length {whole}"
    plain = most == 1 and not case["parameters"].keys() & {"tol", "weakness"}
    if not plain:
        return None
    along = np.divide(rows @ dense.T, lengths, where=lengths > 0, out=np.zeros((len(rows), len(dense))))
    least = np.sqrt(np.maximum(whole**2 - np.square(along).max(axis=1), 0.0))
    return None if (rest <= least + 1e-3 * whole).all() else f"the rest is {rest}, of the best atom {least}"
