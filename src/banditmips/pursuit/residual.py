"""The signal, and what is left of it: formed at the coordinates that somebody asks for, and nowhere else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from banditmips.pursuit.dictionary import Dictionary

__all__ = ["Residual", "Signal"]

Signal = NDArray[Any] | Callable[[NDArray[np.int64]], Any]

_BLOCK = 1 << 17


class Residual:
    """The signal minus the components chosen so far.

    At sampled coordinates it is computed from the signal and the chosen atoms there. Exact products need all d
    coordinates: an array's residual is then kept as an array and brought up to date when it is needed, and a
    function's is computed block by block.

    Attributes
    ----------
    is_array : bool
        Whether the signal is an array rather than a function.
    rows, weights
        The atoms chosen and their coefficients.
    """

    def __init__(self, signal: Signal, dictionary: Dictionary) -> None:
        self._signal = signal
        self._dictionary = dictionary
        self.is_array = isinstance(signal, np.ndarray)
        self.rows = np.empty(0, dtype=np.int64)
        self.weights = np.empty(0)
        self._dense: NDArray[np.float64] | None = None
        self._subtracted = np.empty(0)

    def set_weights(self, rows: NDArray[np.int64], weights: NDArray[np.float64]) -> None:
        """Set the coefficients of these atoms; the first ones must be those chosen before, in their order."""
        new = np.zeros(rows.size - self.rows.size)
        self._subtracted = np.append(self._subtracted, new)
        self._dictionary.residual_changed(rows[np.append(self.weights, new) != weights])
        self.rows, self.weights = rows, weights

    def add(self, rows: NDArray[np.int64], weights: NDArray[np.float64]) -> None:
        """Add to the coefficients of these atoms."""
        new = rows[~np.isin(rows, self.rows)]
        all_rows = np.append(self.rows, new)
        all_weights = np.append(self.weights, np.zeros(new.size))
        for row, weight in zip(rows, weights, strict=True):
            all_weights[all_rows == row] += weight
        self.set_weights(all_rows, all_weights)

    def signal_at(self, coordinates: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the signal at these coordinates."""
        if isinstance(self._signal, np.ndarray):
            return self._signal[coordinates].astype(np.float64, copy=False)
        values = np.asarray(self._signal(coordinates))
        if values.shape != coordinates.shape or values.dtype.kind not in "fiub":
            raise ValueError(
                f"signal must return one real number for each of the {coordinates.size} coordinates it is given, "
                f"got {values.dtype} of shape {values.shape} (argument 'signal')"
            )
        values = values.astype(np.float64)  # a copy: what the function returned is the caller's
        if not np.isfinite(values).all():
            bad = int(np.flatnonzero(~np.isfinite(values))[0])
            raise ValueError(f"signal gave {values[bad]} at coordinate {coordinates[bad]} (argument 'signal')")
        return values

    def at(self, coordinates: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the residual at these coordinates."""
        values = self.signal_at(coordinates)
        if self.rows.size:
            values -= self.weights @ self._dictionary.entries(self.rows, coordinates)
        return values

    def span(self, start: int, stop: int) -> NDArray[np.float64]:
        """Return the residual from one coordinate to before another."""
        if self.is_array:
            return self.dense()[start:stop]
        return self.at(np.arange(start, stop))

    def dense(self) -> NDArray[np.float64]:
        """Return the whole residual of a signal that is an array."""
        assert isinstance(self._signal, np.ndarray)
        if self._dense is None:
            self._dense = self._signal.astype(np.float64)
        changes = self.weights - self._subtracted
        changed = np.flatnonzero(changes)
        if changed.size:
            for start in range(0, self._dense.size, _BLOCK):
                block = np.arange(start, min(start + _BLOCK, self._dense.size))
                self._dense[block] -= changes[changed] @ self._dictionary.entries(self.rows[changed], block)
            self._subtracted = self.weights.copy()
        return self._dense

    def squared_norm(self) -> float:
        """Return the exact squared norm."""
        if self.is_array:
            values = self.dense()
            return float(np.einsum("j,j->", values, values))  # as in `ExactSystem`
        total, d = 0.0, self._dictionary.d
        for start in range(0, d, _BLOCK):
            values = self.at(np.arange(start, min(start + _BLOCK, d)))
            total += float(values @ values)
        return total
