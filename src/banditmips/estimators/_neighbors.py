"""Estimators that find neighbours, let them vote, or make features of them."""

from __future__ import annotations

from typing import Any, Literal, Self

import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from banditmips._index import BanditMIPS
from banditmips._options import Ends, Layout, Objective
from banditmips._result import SearchResult
from banditmips._validate import check_positive
from banditmips.estimators._checks import seed_of, validated

__all__ = ["MIPSNeighbors", "MIPSNeighborsClassifier", "MIPSTransformer"]

GraphMode = Literal["connectivity", "score"]


class _Neighbors(BaseEstimator):
    """Atoms and their neighbours, however they were fitted."""

    def __init__(
        self,
        n_neighbors: int = 5,
        *,
        delta: float = 1e-3,
        epsilon: float = 0.0,
        objective: Objective = "inner_product",
        absolute: bool = False,
        ends: Ends = "largest",
        layout: Layout = "auto",
        random_state: Any = 0,
        n_jobs: int | None = None,
    ) -> None:
        self.n_neighbors = n_neighbors
        self.delta = delta
        self.epsilon = epsilon
        self.objective = objective
        self.absolute = absolute
        self.ends = ends
        self.layout = layout
        self.random_state = random_state
        self.n_jobs = n_jobs

    def _fit_index(self, X: Any) -> None:
        check_positive("n_neighbors", self.n_neighbors)
        index = BanditMIPS(
            delta=self.delta,
            epsilon=self.epsilon,
            objective=self.objective,
            absolute=self.absolute,
            ends=self.ends,
            layout=self.layout,
            seed=seed_of(self.random_state),
            n_jobs=self.n_jobs,
        )
        self.index_ = index.fit(X)
        self.n_samples_fit_ = index.n_atoms
        self._fitted_rows = [X]

    def _scores_and_indices(self, X: Any, n_neighbors: int | None) -> tuple[NDArray[Any], NDArray[Any]]:
        check_is_fitted(self)
        k = check_positive("n_neighbors", self.n_neighbors if n_neighbors is None else n_neighbors)
        others = self.n_samples_fit_ - (X is None)
        most, whom = (others // 2, "half the atoms") if self.ends == "both" else (others, "the number of atoms")
        if k > most:
            raise ValueError(f"n_neighbors must be at most {most}, {whom} to choose from, got {k}")
        rows = self._fitted_rows if X is None else [validated(self, X, reset=False)]
        parts = [self.index_.search(some, k + (X is None)) for some in rows]
        ends = [parts, [part.smallest for part in parts if part.smallest is not None]]
        found = [self._joined(end, k, X is None) for end in ends if end]
        return np.hstack([scores for scores, _ in found]), np.hstack([indices for _, indices in found])

    def _joined(self, parts: list[SearchResult], k: int, of_atoms: bool) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return scores and indices for all queries; where the queries are the atoms, of k others than themselves."""
        scores, indices = (np.concatenate([part[field] for part in map(tuple, parts)]) for field in (1, 0))
        if not of_atoms:
            return scores, indices
        # Nobody is a neighbour of its own, though it need not be among the best: then the last one goes.
        keep = indices != np.arange(self.n_samples_fit_)[:, np.newaxis]
        keep[keep.all(axis=1), -1] = False
        return scores[keep].reshape(-1, k), indices[keep].reshape(-1, k)

    def kneighbors(self, X: Any = None, n_neighbors: int | None = None, return_distance: bool = True) -> Any:
        """Find the atoms with the largest scores.

        Parameters
        ----------
        X : matrix of shape (m, d), optional
            Queries. By default the atoms themselves, none of which is then a neighbour of its own.
        n_neighbors : int, optional
            How many, if not as many as the estimator was made with.
        return_distance : bool
            Whether to return the scores too. The name is scikit-learn's; what is returned are **scores, which fall**
            from left to right: the first column is the best neighbour. (With ``ends="smallest"`` they rise.)

        Returns
        -------
        scores : array of shape (m, n_neighbors)
            Only if `return_distance` is True.
        indices : array of shape (m, n_neighbors)
            With ``ends="both"`` both arrays have twice as many columns: the `n_neighbors` largest scores, which fall,
            and then the `n_neighbors` smallest, which rise.
        """
        scores, indices = self._scores_and_indices(X, n_neighbors)
        return (scores, indices) if return_distance else indices

    def kneighbors_graph(
        self, X: Any = None, n_neighbors: int | None = None, mode: GraphMode = "connectivity"
    ) -> scipy.sparse.csr_matrix[np.float64]:
        """Return the neighbours as a sparse matrix with a row for each query and a column for each atom.

        Parameters
        ----------
        X, n_neighbors
            As in `kneighbors`.
        mode : {"connectivity", "score"}
            Whether the entries are ones or scores (a score of 0 is kept as an entry).
        """
        if mode not in ("connectivity", "score"):
            raise ValueError(f"mode must be 'connectivity' or 'score' (there are no distances here), got {mode!r}")
        scores, indices = self._scores_and_indices(X, n_neighbors)
        m, k = indices.shape
        values = np.ones(m * k) if mode == "connectivity" else scores.ravel()
        starts = np.arange(0, m * k + 1, k)
        return scipy.sparse.csr_matrix((values, indices.ravel(), starts), shape=(m, self.n_samples_fit_))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


class MIPSNeighbors(_Neighbors):
    """The k atoms with the largest scores, in the manner of ``sklearn.neighbors.NearestNeighbors``.

    Parameters
    ----------
    n_neighbors : int
        How many neighbours to find, if a call does not say.
    delta, epsilon, objective, absolute, layout
        As in `banditmips.BanditMIPS`.
    ends : {"largest", "smallest", "both"}
        Whether neighbours are the atoms with the largest scores, with the smallest (opposites), or `n_neighbors` of
        each.
    random_state : int, RandomState or None
        The seed of `banditmips.BanditMIPS`.
    n_jobs : int or None
        Threads; None is one, -1 one for each core.

    Attributes
    ----------
    index_ : BanditMIPS
        The fitted index: ``index_.search`` says more than `kneighbors` does.
    n_samples_fit_, n_features_in_ : int
        Shape of the atoms.
    feature_names_in_ : array
        Names of the columns, where the atoms came in a data frame.

    Examples
    --------
    >>> import numpy as np
    >>> from banditmips.estimators import MIPSNeighbors
    >>> atoms = np.array([[1.0, 0.0], [0.0, 3.0], [2.0, 2.0]])
    >>> scores, indices = MIPSNeighbors(n_neighbors=2).fit(atoms).kneighbors([[1.0, 1.0]])
    >>> scores, indices
    (array([[4., 3.]]), array([[2, 1]]))
    """

    def fit(self, X: Any, y: object = None) -> Self:
        """Read the atoms, one in each row; they are kept by reference. `y` is not used."""
        self._fit_index(validated(self, X, reset=True))
        return self

    def partial_fit(self, X: Any, y: object = None) -> Self:
        """Add atoms; their indices follow those of the atoms already there. `y` is not used."""
        if not hasattr(self, "index_"):
            return self.fit(X)
        rows = validated(self, X, reset=False)
        self.index_.add(rows)
        self.n_samples_fit_ = self.index_.n_atoms
        self._fitted_rows.append(rows)
        return self


class MIPSNeighborsClassifier(ClassifierMixin, _Neighbors):
    """The class that most of the k best neighbours have.

    Parameters
    ----------
    n_neighbors, delta, epsilon, absolute, layout, random_state, n_jobs
        As in `MIPSNeighbors`.
    objective : str
        By default ``"neg_sqeuclidean"``, the nearest neighbours. ``"inner_product"`` and ``"cosine"`` are for
        embeddings that were trained for them: a long atom has a large inner product with everybody.

    Attributes
    ----------
    classes_ : array
        The classes, in the order of the columns of `predict_proba`.
    index_, n_samples_fit_, n_features_in_, feature_names_in_
        As in `MIPSNeighbors`.
    """

    def __init__(
        self,
        n_neighbors: int = 5,
        *,
        delta: float = 1e-3,
        epsilon: float = 0.0,
        objective: Objective = "neg_sqeuclidean",
        absolute: bool = False,
        layout: Layout = "auto",
        random_state: Any = 0,
        n_jobs: int | None = None,
    ) -> None:
        super().__init__(
            n_neighbors,
            delta=delta,
            epsilon=epsilon,
            objective=objective,
            absolute=absolute,
            layout=layout,
            random_state=random_state,
            n_jobs=n_jobs,
        )

    def fit(self, X: Any, y: Any) -> Self:
        """Read the atoms and their classes."""
        X, y = validate_data(self, X, y, accept_sparse="csr")
        y = column_or_1d(y, warn=True)
        check_classification_targets(y)
        self.classes_, self._class_of_atom = np.unique(y, return_inverse=True)
        self._fit_index(X)
        return self

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Return the share of the neighbours that each class has: shape (m, number of classes)."""
        indices = self._scores_and_indices(X, None)[1]
        votes = self._class_of_atom[indices]
        shares: NDArray[np.float64] = (votes[..., np.newaxis] == np.arange(len(self.classes_))).mean(axis=1)
        return shares

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the class that most neighbours have; of equal ones the first in `classes_`."""
        best = self.predict_proba(X).argmax(axis=1)
        chosen: NDArray[Any] = self.classes_[best]
        return chosen


class MIPSTransformer(ClassNamePrefixFeaturesOutMixin, TransformerMixin, _Neighbors):
    """Rows as sparse features: their scores with the k best atoms, and nothing elsewhere.

    Column i of the output is the score with the i-th atom that the transformer was fitted to. Scores are similarities,
    of any sign, so the output is no precomputed distance matrix. In `fit_transform` an atom may be a neighbour of its
    own.

    Parameters
    ----------
    n_neighbors, delta, epsilon, objective, absolute, ends, layout, random_state, n_jobs
        As in `MIPSNeighbors`.

    Attributes
    ----------
    index_, n_samples_fit_, n_features_in_, feature_names_in_
        As in `MIPSNeighbors`.
    """

    def fit(self, X: Any, y: object = None) -> Self:
        """Read the atoms, one in each row; they are kept by reference. `y` is not used."""
        self._fit_index(validated(self, X, reset=True))
        self._n_features_out = self.n_samples_fit_
        return self

    def transform(self, X: Any) -> scipy.sparse.csr_matrix[np.float64]:
        """Return the scores with the best atoms as a sparse matrix of shape (m, n_samples_fit_)."""
        return self.kneighbors_graph(X, mode="score")
