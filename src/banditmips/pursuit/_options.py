"""The options of a pursuit, checked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, get_args

import numpy as np
from numpy.typing import NDArray

from banditmips._options import PursuitMethod, PursuitSampling
from banditmips._search_options import Options, check_choice, check_integer, check_real

if TYPE_CHECKING:
    from banditmips.atoms import AtomStore

__all__ = ["PursuitOptions", "as_signal", "as_signals", "check_group_size"]

METHODS: tuple[PursuitMethod, ...] = get_args(PursuitMethod)
SAMPLINGS: tuple[PursuitSampling, ...] = get_args(PursuitSampling)


@dataclass(frozen=True)
class PursuitOptions:
    """All options of a pursuit. The docstring of `banditmips.matching_pursuit` says what each means."""

    n_nonzero: Any = None
    tol: Any = None
    method: PursuitMethod = "mp"
    delta: float = 1e-3
    weakness: float = 0.0
    sampling: PursuitSampling = "auto"
    rescore: bool = True
    coef_rtol: float = 0.02
    budget: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        """Check each option; those that a search has too are checked as there."""
        Options(delta=self.delta, rescore=self.rescore, budget=self.budget, seed=self.seed)
        check_choice("method", self.method, METHODS)
        check_choice("sampling", self.sampling, SAMPLINGS)
        if self.n_nonzero is not None:
            check_integer("n_nonzero", self.n_nonzero, minimum=1)
        if self.tol is not None:
            check_real("tol", self.tol, "at least 0 and finite", is_fine=lambda x: 0.0 <= x < np.inf)
        check_real("weakness", self.weakness, "in [0, 1)", is_fine=lambda x: 0.0 <= x < 1.0)
        check_real("coef_rtol", self.coef_rtol, "positive and finite", is_fine=lambda x: 0.0 < x < np.inf)

    def check_sizes(self, n_groups: int, group_size: int, d: int) -> None:
        """Check what depends on the dictionary."""
        what = "atoms" if group_size == 1 else "pairs of atoms"
        if self.n_nonzero is not None and self.n_nonzero > n_groups:
            raise ValueError(f"n_nonzero must be at most {n_groups}, the number of {what}, got {self.n_nonzero}")
        if self.n_nonzero is not None and self.n_nonzero > d:
            raise ValueError(
                f"n_nonzero must be at most {d}, the number of coordinates (no more atoms are linearly independent), "
                f"got {self.n_nonzero}"
            )
        least = 32 * n_groups * group_size
        if self.budget is not None and self.budget < least:
            raise ValueError(
                f"budget must allow at least 32 multiplies for each of the {n_groups * group_size} atoms ({least}), "
                f"got {self.budget}"
            )


def check_group_size(group_size: int | None, store: AtomStore) -> int:
    """Return the size of the groups: as given, or else as the store has it."""
    size = getattr(store, "group_size", 1) if group_size is None else group_size
    if isinstance(size, bool) or size not in (1, 2):
        raise ValueError(f"group_size must be 1 or 2, got {size!r}")
    if store.shape[0] % size:
        raise ValueError(f"group_size is 2, so the number of atoms must be even, got {store.shape[0]}")
    return int(size)


def as_signal(signal: Any, d: int) -> Any:
    """Return a signal as an array of d finite numbers, or as the function that it is."""
    if callable(signal):
        return signal
    array = _as_real(signal)
    if array.ndim != 1:
        raise ValueError(f"signal must be one signal (1-d) or a function, got shape {array.shape} (argument 'signal')")
    return _check_length_and_values(array, d)


def as_signals(signals: Any, d: int) -> tuple[list[Any], bool]:
    """Return the signals as a list, and whether there was a single one."""
    if callable(signals):
        return [signals], True
    array = _as_real(signals)
    if array.ndim not in (1, 2):
        raise ValueError(f"signals must be 1-d or 2-d, got {array.ndim} dimensions (argument 'signals')")
    rows = array[np.newaxis] if array.ndim == 1 else array
    return [_check_length_and_values(row, d) for row in rows], array.ndim == 1


def _as_real(signal: Any) -> NDArray[Any]:
    if np.ma.is_masked(signal):
        raise TypeError("signal is a masked array; fill the masked entries first (numpy.ma.filled)")
    array = np.asarray(signal)
    if array.dtype.kind not in "fiub":
        raise TypeError(f"signal must hold real numbers, got dtype {array.dtype} (argument 'signal')")
    return array


def _check_length_and_values(array: NDArray[Any], d: int) -> NDArray[Any]:
    if array.size != d:
        raise ValueError(f"signal has {array.size} coordinates, but the atoms have {d} (argument 'signal')")
    if array.dtype.kind == "f":
        with np.errstate(over="ignore"):
            floats = np.asarray(array, dtype=np.float64) if array.dtype.itemsize > 8 else array
        if not np.isfinite(floats).all():
            j = int(np.flatnonzero(~np.isfinite(floats))[0])
            raise ValueError(f"signal has {floats[j]} at coordinate {j} (argument 'signal')")
    return array
