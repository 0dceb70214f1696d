"""What all estimators do with matrices and random states."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import validate_data

__all__ = ["seed_of", "validated"]


def validated(estimator: BaseEstimator, X: Any, *, reset: bool) -> Any:
    """Check a matrix as scikit-learn does, without a copy where it is one already."""
    return validate_data(estimator, X, accept_sparse="csr", reset=reset)


def seed_of(random_state: Any) -> int | None:
    """Make a seed of what scikit-learn calls a random state; None is fresh randomness in both."""
    if random_state is None:
        return None
    if isinstance(random_state, Integral):
        return int(random_state)
    return int(check_random_state(random_state).randint(np.iinfo(np.int32).max))
