"""What all estimators do with matrices and random states."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import validate_data

from banditmips._search_options import check_integer
from banditmips._validate import check_positive

__all__ = ["check_most", "seed_of", "validated"]


def validated(estimator: BaseEstimator, X: Any, *, reset: bool) -> Any:
    """Check a matrix as scikit-learn does, without a copy where it is one already."""
    return validate_data(estimator, X, accept_sparse="csr", reset=reset)


def check_most(name: str, value: Any, n_atoms: int) -> None:
    """Check a number of atoms that need not be given, under the name that it has here."""
    if value is not None and check_positive(name, value) > n_atoms:
        raise ValueError(f"{name} must be at most {n_atoms}, the number of atoms, got {value}")


def seed_of(random_state: Any) -> int | None:
    """Make a seed of what scikit-learn calls a random state; None is fresh randomness in both."""
    if random_state is None:
        return None
    if isinstance(random_state, Integral):
        return check_integer("random_state", random_state, minimum=0)
    return int(check_random_state(random_state).randint(np.iinfo(np.int32).max))
