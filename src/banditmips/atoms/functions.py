"""Atoms that are computed when they are asked for: sines and cosines, Gabor atoms, chirps, or any function of yours.

Nothing is stored, so the number of coordinates d may be 10^9 as well as 10^3.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from banditmips.core.statistics import NEG_SQUARED_DIFFERENCE, PRODUCT

__all__ = ["FunctionStore", "chirps", "gabor_atoms", "sinusoids"]

_BLOCK_ENTRIES = 1 << 18
"""Entries computed at a time: 2 MB, which with the function's own temporaries stay in the processor's cache."""

_GABOR_REACH = 4.0
"""Standard deviations after which a Gabor atom ends. Its envelope has fallen to 0.0003 there."""

AtomFunction = Callable[[NDArray[np.int64], NDArray[np.int64]], Any]


class FunctionStore:
    """An `AtomStore` whose entries are values of a function.

    Parameters
    ----------
    function : callable
        ``function(atoms, coordinates)`` takes two int64 arrays that broadcast against each other and returns the
        entries at these places, in the shape that they broadcast to.
    n_atoms, n_coordinates : int
        The shape (n, d).
    supports : int array of shape (n, 2), optional
        Where each atom begins and ends: it is 0 outside ``start <= coordinate < stop``, and the function is never
        asked there. Exact products then cost the length of the support, not d.
    squared_norms : float array of shape (n,), optional
        Squared norms of the atoms, where a formula gives them. Matching pursuit estimates them otherwise.
    group_size : {1, 2}
        2 says that the atoms 2i and 2i + 1 belong together (a sine and its cosine); matching pursuit then ranks
        and chooses them together.

    Examples
    --------
    A billion coordinates, and no matrix:

    >>> import numpy as np
    >>> from banditmips.atoms import FunctionStore
    >>> decays = np.array([1e-9, 1e-8, 1e-7])
    >>> store = FunctionStore(lambda i, j: np.exp(-decays[i] * j), 3, 1_000_000_000)
    >>> store.entries([0, 2], [0, 999_999_999]).round(3)
    array([[1.   , 0.368],
           [1.   , 0.   ]])
    """

    def __init__(
        self,
        function: AtomFunction,
        n_atoms: int,
        n_coordinates: int,
        *,
        supports: ArrayLike | None = None,
        squared_norms: ArrayLike | None = None,
        group_size: int = 1,
    ) -> None:
        if not callable(function):
            raise TypeError(f"function must be callable as function(atoms, coordinates), got {function!r}")
        for name, value in (("n_atoms", n_atoms), ("n_coordinates", n_coordinates)):
            if isinstance(value, bool) or not isinstance(value, int | np.integer):
                raise TypeError(f"{name} must be an integer, got {value!r}")
            if value < 1:
                raise ValueError(f"{name} must be at least 1, got {value}")
        if group_size not in (1, 2) or n_atoms % group_size:
            raise ValueError(
                f"group_size must be 1, or 2 for an even number of atoms, got {group_size!r} for {n_atoms}"
            )
        self._function = function
        self._shape = int(n_atoms), int(n_coordinates)
        self.group_size = int(group_size)
        self.supports = None if supports is None else _check_supports(supports, *self._shape)
        self.squared_norms = None if squared_norms is None else _check_squared_norms(squared_norms, n_atoms)
        self._probe()

    def _probe(self) -> None:
        """Ask for a few entries, so that a function of the wrong kind is found out at once."""
        rows = np.array([0, self.shape[0] - 1])
        starts = np.zeros(2, dtype=np.int64) if self.supports is None else self.supports[rows, 0]
        self._compute(rows[:, np.newaxis], np.stack([starts, starts, starts], axis=1))

    @property
    def shape(self) -> tuple[int, int]:
        """(n, d)."""
        return self._shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the entries: float64."""
        return np.dtype(np.float64)

    def entries(self, atoms: ArrayLike, coordinates: ArrayLike) -> NDArray[np.float64]:
        """Return the entries at ``atoms x coordinates``."""
        rows, columns = (np.atleast_1d(np.asarray(x, dtype=np.int64)) for x in (atoms, coordinates))
        out = np.empty((rows.size, columns.size))
        self.gather(rows, columns, out)
        return out

    def _compute(self, rows: NDArray[np.int64], columns: NDArray[np.int64]) -> NDArray[np.float64]:
        values = np.asarray(self._function(rows, columns))
        expected = np.broadcast_shapes(rows.shape, columns.shape)
        if values.dtype.kind not in "fiub":
            raise TypeError(f"function must return real numbers, got dtype {values.dtype}")
        if values.shape != expected:
            raise ValueError(
                f"function must return the shape that atoms and coordinates broadcast to, {expected} for "
                f"{rows.shape} and {columns.shape}; got {values.shape}"
            )
        return values

    def gather(self, rows: NDArray[np.int64], columns: NDArray[np.int64], out: NDArray[np.float64]) -> None:
        """Put the entries at ``rows x columns`` into `out`."""
        step = max(1, _BLOCK_ENTRIES // max(columns.size, 1))
        for first in range(0, rows.size, step):
            some = rows[first : first + step]
            if self.supports is None:
                for start in range(0, columns.size, _BLOCK_ENTRIES):
                    part = slice(start, start + _BLOCK_ENTRIES)
                    out[first : first + step, part] = self._compute(some[:, np.newaxis], columns[np.newaxis, part])
                continue
            begins, ends = self.supports[some].T[:, :, np.newaxis]
            i, j = np.nonzero((columns >= begins) & (columns < ends))
            out[first : first + step] = 0.0
            if i.size:
                out[first + i, j] = self._compute(some[i], columns[j])

    def scores(
        self,
        rows: NDArray[np.int64],
        columns: NDArray[np.int64] | None,
        query: NDArray[np.float64],
        objective: int,
    ) -> NDArray[np.float64]:
        """Sum the objective's terms of each row over the given columns (None: all of them)."""
        out = np.zeros(rows.size)
        step = max(256, _BLOCK_ENTRIES // max(rows.size, 1))
        for start in range(0, query.size, step):
            part = slice(start, min(start + step, query.size))
            chosen = np.arange(part.start, part.stop) if columns is None else columns[part]
            values = np.empty((rows.size, chosen.size))
            self.gather(rows, chosen, values)
            if objective == PRODUCT:
                out += values @ query[part]
                continue
            np.subtract(query[part], values, out=values)
            out -= (values**2 if objective == NEG_SQUARED_DIFFERENCE else np.abs(values)).sum(axis=1)
        return out

    def blocks(self, max_entries: int) -> Iterator[tuple[int, NDArray[Any]]]:
        """Yield (first row, dense block of rows) over all rows."""
        n, d = self.shape
        step = max(1, max_entries // d)
        columns = np.arange(d)
        for start in range(0, n, step):
            rows = np.arange(start, min(start + step, n))
            block = np.empty((rows.size, d))
            self.gather(rows, columns, block)
            yield start, block


def sinusoids(
    frequencies: ArrayLike, n_coordinates: int, *, sample_rate: float = 1.0, pairs: bool = False
) -> FunctionStore:
    """Return the atoms ``sin(2 pi f j / sample_rate)``, one for each frequency.

    Parameters
    ----------
    frequencies
        Above 0 and below half the sample rate.
    n_coordinates
        Samples in each atom.
    sample_rate
        Samples in one unit of time, to which the frequencies refer.
    pairs
        Give each frequency its cosine as well: atom 2i is the sine and atom 2i + 1 the cosine of frequency i, and
        matching pursuit chooses them together, so that the phase of a tone does not matter.

    Examples
    --------
    >>> from banditmips.atoms import sinusoids
    >>> store = sinusoids([440.0, 660.0], 44_100 * 3_600, sample_rate=44_100, pairs=True)
    >>> store.shape
    (4, 158760000)
    >>> store.entries([0, 1], [0, 44_100]).round(6) + 0.0
    array([[0., 0.],
           [1., 1.]])
    """
    cycles = _check_frequencies("frequencies", frequencies, sample_rate) / sample_rate
    shifts = np.zeros(cycles.size)
    if pairs:
        cycles, shifts = _interleave(cycles, cycles), _interleave(shifts, shifts + 0.25)

    def function(atoms: NDArray[np.int64], coordinates: NDArray[np.int64]) -> NDArray[np.float64]:
        return np.sin(2.0 * np.pi * (cycles[atoms] * coordinates + shifts[atoms]))

    # sin^2 x = (1 - cos 2x)/2, and the cosines of an arithmetic progression have a sum in closed form.
    angles = 2.0 * np.pi * cycles
    ripple = np.sin(angles * n_coordinates) / np.sin(angles)
    squared_norms = 0.5 * (n_coordinates - ripple * np.cos(angles * (n_coordinates - 1) + 4.0 * np.pi * shifts))
    return FunctionStore(
        function,
        cycles.size,
        n_coordinates,
        squared_norms=np.maximum(squared_norms, 0.0),
        group_size=2 if pairs else 1,
    )


def gabor_atoms(
    frequencies: ArrayLike,
    centres: ArrayLike,
    widths: ArrayLike,
    n_coordinates: int,
    *,
    sample_rate: float = 1.0,
    pairs: bool = True,
) -> FunctionStore:
    """Return sines under a Gaussian envelope: tones that come and go.

    Atom i is ``exp(-((t - centre)/width)^2 / 2) * sin(2 pi frequency (t - centre))`` with ``t = j / sample_rate``; it
    ends four widths from its centre.

    Parameters
    ----------
    frequencies, centres, widths : arrays that broadcast against each other
        Of each atom: the frequency, and the envelope's centre and standard deviation in units of time.
    n_coordinates, sample_rate, pairs
        As in `sinusoids`.

    Examples
    --------
    >>> from banditmips.atoms import gabor_atoms
    >>> store = gabor_atoms([440.0, 440.0, 660.0], [0.5, 1.5, 0.5], 0.1, 88_200, sample_rate=44_100)
    >>> store.shape, store.supports[0].tolist()
    ((6, 88200), [4410, 39691])
    """
    tones, times, spreads = np.broadcast_arrays(
        _check_frequencies("frequencies", frequencies, sample_rate),
        _check_finite("centres", centres),
        _check_finite("widths", widths),
    )
    if spreads.min() <= 0.0:
        raise ValueError(f"widths must be positive, got {spreads.min()}")
    begins = np.ceil((times - _GABOR_REACH * spreads) * sample_rate)
    ends = np.floor((times + _GABOR_REACH * spreads) * sample_rate) + 1.0
    supports = np.clip(np.stack([begins, ends], axis=1), 0, n_coordinates).astype(np.int64)
    outside = np.flatnonzero(supports[:, 0] >= supports[:, 1])
    if outside.size:
        raise ValueError(f"centres must lie inside the signal: atom {outside[0]} at {times[outside[0]]:g} does not")
    shifts = np.zeros(tones.size)
    if pairs:
        tones, times, spreads = (_interleave(x, x) for x in (tones, times, spreads))
        shifts, supports = _interleave(shifts, shifts + 0.25), np.repeat(supports, 2, axis=0)

    def function(atoms: NDArray[np.int64], coordinates: NDArray[np.int64]) -> NDArray[np.float64]:
        since = coordinates / sample_rate - times[atoms]
        envelope = np.exp(-0.5 * (since / spreads[atoms]) ** 2)
        return np.asarray(envelope * np.sin(2.0 * np.pi * (tones[atoms] * since + shifts[atoms])))

    return FunctionStore(function, tones.size, n_coordinates, supports=supports, group_size=2 if pairs else 1)


def chirps(
    starts: ArrayLike, ends: ArrayLike, n_coordinates: int, *, sample_rate: float = 1.0, pairs: bool = False
) -> FunctionStore:
    """Return tones whose frequency moves evenly from a start to an end over the whole length.

    Parameters
    ----------
    starts, ends : arrays that broadcast against each other
        The first and last frequency of each atom, above 0 and below half the sample rate.
    n_coordinates, sample_rate, pairs
        As in `sinusoids`.

    Examples
    --------
    >>> from banditmips.atoms import chirps
    >>> chirps([100.0, 200.0], 400.0, 1_000_000, sample_rate=8_000).shape
    (2, 1000000)
    """
    first, last = np.broadcast_arrays(
        _check_frequencies("starts", starts, sample_rate), _check_frequencies("ends", ends, sample_rate)
    )
    cycles, bend = first / sample_rate, (last - first) / sample_rate / (2.0 * n_coordinates)
    shifts = np.zeros(cycles.size)
    if pairs:
        cycles, bend = _interleave(cycles, cycles), _interleave(bend, bend)
        shifts = _interleave(shifts, shifts + 0.25)

    def function(atoms: NDArray[np.int64], coordinates: NDArray[np.int64]) -> NDArray[np.float64]:
        phase = (cycles[atoms] + bend[atoms] * coordinates) * coordinates + shifts[atoms]
        return np.asarray(np.sin(2.0 * np.pi * phase))

    return FunctionStore(function, cycles.size, n_coordinates, group_size=2 if pairs else 1)


def _interleave(first: NDArray[np.float64], second: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.stack([first, second], axis=1).ravel()


def _check_finite(name: str, values: ArrayLike) -> NDArray[np.float64]:
    array = np.atleast_1d(np.asarray(values, dtype=np.float64))
    if array.ndim != 1 or array.size == 0:
        raise ValueError(f"{name} must be a number or a list of them, got shape {array.shape}")
    if not np.isfinite(array).all():
        raise ValueError(f"{name} must be finite, got {array[~np.isfinite(array)][0]}")
    return array


def _check_frequencies(name: str, values: ArrayLike, sample_rate: float) -> NDArray[np.float64]:
    if not 0.0 < sample_rate < np.inf:
        raise ValueError(f"sample_rate must be positive and finite, got {sample_rate!r}")
    array = _check_finite(name, values)
    wrong = array[(array <= 0.0) | (array >= sample_rate / 2.0)]
    if wrong.size:
        raise ValueError(
            f"{name} must be above 0 and below half the sample rate ({sample_rate / 2.0:g}), got {wrong[0]:g}"
        )
    return array


def _check_supports(supports: ArrayLike, n: int, d: int) -> NDArray[np.int64]:
    array = np.asarray(supports)
    if array.shape != (n, 2) or array.dtype.kind not in "iu":
        raise ValueError(f"supports must be integers of shape ({n}, 2), got {array.dtype} of shape {array.shape}")
    wrong = np.flatnonzero((array[:, 0] < 0) | (array[:, 0] >= array[:, 1]) | (array[:, 1] > d))
    if wrong.size:
        raise ValueError(f"supports must have 0 <= start < stop <= {d}, got {array[wrong[0]].tolist()}")
    return array.astype(np.int64)


def _check_squared_norms(squared_norms: ArrayLike, n: int) -> NDArray[np.float64]:
    array = np.asarray(squared_norms, dtype=np.float64)
    if array.shape != (n,) or not (array >= 0.0).all() or not np.isfinite(array).all():
        raise ValueError(f"squared_norms must be {n} finite numbers of at least 0, got {squared_norms!r}")
    return array
