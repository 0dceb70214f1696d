"""The estimator that writes rows as sums of a few atoms."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from banditmips._options import PursuitMethod
from banditmips.estimators._checks import check_most, seed_of
from banditmips.pursuit import MatchingPursuit as _Pursuit

__all__ = ["MatchingPursuit"]


class MatchingPursuit(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Rows as sums of a few atoms: `banditmips.MatchingPursuit` with scikit-learn's manners.

    `fit` takes the dictionary, one atom in each row; `transform` returns the coefficients of all atoms for each row,
    most of them 0, and `inverse_transform` adds the atoms up again.

    Parameters
    ----------
    n_nonzero_coefs, tol, method, delta, weakness
        As in `banditmips.MatchingPursuit`.
    random_state : int, RandomState or None
        The seed of `banditmips.MatchingPursuit`.

    Attributes
    ----------
    pursuit_ : banditmips.MatchingPursuit
        The fitted dictionary: ``pursuit_.decompose`` says more than `transform` does.
    components_ : array of shape (n, d)
        The atoms, kept by reference.
    n_features_in_ : int
        Number of coordinates.
    feature_names_in_ : array
        Names of the columns, where the atoms came in a data frame.

    Examples
    --------
    >>> import numpy as np
    >>> from banditmips.estimators import MatchingPursuit
    >>> atoms = np.eye(3)
    >>> pursuit = MatchingPursuit(n_nonzero_coefs=2).fit(atoms)
    >>> pursuit.transform([[0.0, 3.0, -2.0]])
    array([[ 0.,  3., -2.]])
    >>> pursuit.score([[0.0, 3.0, -2.0]])
    1.0
    """

    def __init__(
        self,
        n_nonzero_coefs: int | None = None,
        tol: float | None = None,
        method: PursuitMethod = "mp",
        *,
        delta: float = 1e-3,
        weakness: float = 0.0,
        random_state: Any = 0,
    ) -> None:
        self.n_nonzero_coefs = n_nonzero_coefs
        self.tol = tol
        self.method = method
        self.delta = delta
        self.weakness = weakness
        self.random_state = random_state

    def fit(self, X: Any, y: object = None) -> Self:
        """Read the dictionary, one atom in each row. `y` is not used."""
        self.components_ = validate_data(self, X)
        check_most("n_nonzero_coefs", self.n_nonzero_coefs, len(self.components_))
        self.pursuit_ = _Pursuit(
            self.n_nonzero_coefs,
            self.tol,
            self.method,
            delta=self.delta,
            weakness=self.weakness,
            seed=seed_of(self.random_state),
        ).fit(self.components_)
        self._n_features_out = len(self.components_)
        return self

    def transform(self, X: Any) -> NDArray[np.float64]:
        """Return the coefficients of the n atoms for each of the m rows: shape (m, n)."""
        check_is_fitted(self)
        return self.pursuit_.transform(validate_data(self, X, reset=False))

    def inverse_transform(self, X: Any) -> NDArray[np.float64]:
        """Return the sums of atoms that coefficients of shape (m, n) stand for: shape (m, d)."""
        check_is_fitted(self)
        coefficients = check_array(X)
        if coefficients.shape[1] != len(self.components_):
            expected = f"a coefficient for each of the {len(self.components_)} atoms in a row"
            raise ValueError(f"X must hold {expected}, got shape {coefficients.shape}")
        sums: NDArray[np.float64] = coefficients @ self.components_
        return sums

    def score(self, X: Any, y: object = None) -> float:
        """Return the part of the rows' squared norm that the chosen atoms explain, at most 1. `y` is not used."""
        rows = validate_data(self, X, reset=False)
        rest = rows - self.inverse_transform(self.transform(X))
        total = np.square(rows, dtype=np.float64).sum()
        return 1.0 - float(np.square(rest).sum() / total) if total > 0.0 else 1.0
