"""What a pursuit returns."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from banditmips._result import StopReason

if TYPE_CHECKING:
    from banditmips.atoms import AtomStore

__all__ = ["PursuitResult", "PursuitStop"]


class PursuitStop(StrEnum):
    """Why a pursuit ended."""

    N_NONZERO = "n_nonzero"
    """As many components were chosen as were asked for."""
    TOL = "tol"
    """The squared norm of the residual is at most ``tol``."""
    ZERO_RESIDUAL = "zero_residual"
    """Nothing is left but rounding errors (or the signal was 0 to begin with)."""
    UNCORRELATED = "uncorrelated"
    """Something is left, but every atom is orthogonal to it."""
    DEPENDENT = "dependent"
    """The next atom would have been a linear combination of those chosen (``method="omp"``)."""


@dataclass(frozen=True, eq=False)
class PursuitResult:
    """The components of a signal, in the order in which they were chosen.

    With pairs of atoms (``group_size=2``) a component is a pair, and the fields marked with * have shape (k, 2).

    Attributes
    ----------
    indices : int64, shape (k,) *
        The atoms chosen: indices into what the caller gave. ``method="mp"`` may choose one more than once.
    coefficients : float64, shape (k,) *
        Of ``"mp"``: what each step subtracted. Of ``"omp"``: the least-squares coefficients on all atoms chosen.
    lower, upper : float64, shape (k,) *
        Confidence intervals of the coefficients, which hold together; equal to the coefficient where it is exact. Of
        ``"mp"`` they hold for the coefficient with respect to what the steps before have left.
    exact : bool, shape (k,)
        Whether the coefficient was computed from all coordinates.
    residual_norms : float64, shape (k,)
        Norm of the residual after each step: exact where ``rescore=True``, estimated from a sample otherwise.
    signal_norm : float
        Norm of the signal, exact or estimated likewise.
    n_multiplies : int64, shape (k,)
        (atom, coordinate) pairs evaluated in each step, those that make up the residual included.
    n_multiplies_total : int
        The same for the whole pursuit, with a last step that found nothing more to choose.
    search_stops : tuple of StopReason
        Why each step's search ended.
    stop : PursuitStop
        Why the pursuit ended.
    delta_spent : float
        Part of ``delta`` that was used.
    shape : (n, d)
        Shape of the dictionary.
    """

    indices: NDArray[np.int64]
    coefficients: NDArray[np.float64]
    lower: NDArray[np.float64]
    upper: NDArray[np.float64]
    exact: NDArray[np.bool_]
    residual_norms: NDArray[np.float64]
    signal_norm: float
    n_multiplies: NDArray[np.int64]
    n_multiplies_total: int
    search_stops: tuple[StopReason, ...]
    stop: PursuitStop
    delta_spent: float
    shape: tuple[int, int]
    _store: AtomStore = field(repr=False)

    @property
    def coef_(self) -> NDArray[np.float64]:
        """The coefficients of all n atoms, zeros included, as scikit-learn has them."""
        out = np.zeros(self.shape[0])
        np.add.at(out, self.indices.ravel(), self.coefficients.ravel())
        return out

    @property
    def amplitudes(self) -> NDArray[np.float64]:
        """The size of each component's coefficients: the amplitude of the tone, for a sine and its cosine."""
        sizes: NDArray[np.float64] = np.abs(self.coefficients)
        return sizes if sizes.ndim == 1 else np.hypot(sizes[:, 0], sizes[:, 1])

    def reconstruct(self, coordinates: ArrayLike | None = None) -> NDArray[np.float64]:
        """Return the sum of the components at the given coordinates (all d of them by default)."""
        rows, positions = np.unique(self.indices.ravel(), return_inverse=True)
        weights = np.bincount(positions, weights=self.coefficients.ravel(), minlength=rows.size)
        chosen = np.arange(self.shape[1]) if coordinates is None else np.atleast_1d(np.asarray(coordinates, np.int64))
        out = np.zeros(chosen.size)
        step = max(1, (1 << 20) // max(rows.size, 1))
        for start in range(0, chosen.size if rows.size else 0, step):
            part = chosen[start : start + step]
            values = np.empty((rows.size, part.size))
            self._store.gather(rows, part, values)
            out[start : start + step] = weights @ values
        return out
