"""matching_pursuit(), and MatchingPursuit: fit a dictionary once, decompose many signals."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from banditmips._options import GroupSize, PursuitMethod, PursuitSampling, suggests_names
from banditmips._validate import as_store, seed_or_fresh
from banditmips.pursuit._options import PursuitOptions, as_signal, as_signals, check_group_size
from banditmips.pursuit._result import PursuitResult

if TYPE_CHECKING:
    from banditmips.pursuit.dictionary import Dictionary

__all__ = ["MatchingPursuit", "matching_pursuit"]


@suggests_names("matching_pursuit", {})
def matching_pursuit(
    atoms: Any,
    signal: Any,
    n_nonzero: int | None = None,
    tol: float | None = None,
    method: PursuitMethod = "mp",
    *,
    delta: float = 1e-3,
    weakness: float = 0.0,
    sampling: PursuitSampling = "auto",
    rescore: bool = True,
    coef_rtol: float = 0.02,
    budget: int | None = None,
    group_size: GroupSize | None = None,
    seed: int | None = 0,
) -> PursuitResult:
    """Write a signal as a sum of a few atoms: choose the one that explains most of it, subtract, and go on.

    Each step searches the atom with the largest ``|<atom, residual>| / norm`` by sampling coordinates, with a share of
    delta of its own: all steps together choose as the exact algorithm would with probability at least ``1 - delta``.
    This rests on Student's t and is asymptotic, like ``bound="paired"`` of a search. The atoms need not have unit norm.

    Parameters
    ----------
    atoms : array of shape (n, d)
        The dictionary, one atom in each row: anything that `banditmips.search` takes, and dictionaries that are
        functions (`banditmips.atoms.FunctionStore`). Never copied whole, never changed.
    signal : array of shape (d,), or callable
        What to decompose. A function takes an int64 array of coordinates and returns the signal there: d may then
        be 10^9 with no array at all.
    n_nonzero : int, optional
        Components to choose, at most n and at most d. By default a tenth of n, or n where `tol` is given.
    tol : float, optional
        Stop when the squared norm of the residual is at most this, as in scikit-learn.
    method : {"mp", "omp"}
        Matching pursuit subtracts each atom's own projection, and may choose an atom again. Orthogonal matching pursuit
        fits all chosen atoms anew in every step.
    delta : float in [0, 1)
        Failure probability of the whole pursuit. 0 computes every product exactly.
    weakness : float in [0, 1)
        An atom that explains at least ``1 - weakness`` of what the best one does may be chosen instead (weak
        matching pursuit), which saves telling near equals apart.
    sampling : {"auto", "uniform", "weighted"}
        How to draw coordinates: alike, or by the size of the signal (mixed half and half with alike). ``auto`` weights
        where the signal is uneven, as sound with silence in it is. A signal that is a function cannot be weighted.
    rescore : bool
        Compute coefficients and residual norms exactly, at d multiplies for each atom chosen. If False, they are
        estimated, and nothing costs d unless there are near equals to tell apart (see `weakness` and `budget`).
    coef_rtol : float
        With ``rescore=False``: radius of the coefficients' intervals to be reached, relative to the coefficient (to the
        pair's amplitude, for pairs).
    budget : int, optional
        Multiplies allowed for each step's search and estimates. When they are used up, the best guess is taken.
    group_size : {1, 2}, optional
        2 ranks and chooses the atoms 2i and 2i + 1 together, by the norm of the projection on their plane. By default
        what the dictionary says of itself (`banditmips.atoms.sinusoids` with ``pairs=True``), and 1 for arrays.
    seed : int or None
        The same seed gives the same answer; None draws a fresh one.

    Returns
    -------
    PursuitResult
        Of equal atoms the one with the smallest index is chosen. The pursuit ends early, and ``result.stop`` says so,
        if the residual is 0, no atom explains any of it, or (``"omp"``) the next atom depends on the chosen ones.

    Examples
    --------
    >>> import numpy as np
    >>> import banditmips as bm
    >>> atoms = np.random.default_rng(0).normal(size=(200, 20_000))
    >>> signal = 3.0 * atoms[17] - 2.0 * atoms[4]
    >>> result = bm.matching_pursuit(atoms, signal, n_nonzero=2, method="omp")
    >>> result.indices.tolist(), result.coefficients.round(6).tolist()
    ([17, 4], [3.0, -2.0])
    >>> result.n_multiplies_total < atoms.size / 4
    True

    A chord of ten hours, of which less than a second is looked at:

    >>> from banditmips.atoms import sinusoids
    >>> notes = sinusoids([262.0, 294.0, 330.0, 349.0, 392.0], 44_100 * 36_000, sample_rate=44_100)
    >>> def chord(j):
    ...     return 2.0 * np.sin(2 * np.pi * 392 * j / 44_100) + np.sin(2 * np.pi * 262 * j / 44_100)
    >>> result = bm.matching_pursuit(notes, chord, n_nonzero=2, rescore=False)
    >>> result.indices.tolist(), bool(np.allclose(result.coefficients, [2.0, 1.0], rtol=0.02))
    ([4, 0], True)
    >>> result.n_multiplies_total < 44_100
    True
    """
    from banditmips.pursuit.dictionary import Dictionary
    from banditmips.pursuit.steps import pursue

    options = PursuitOptions(
        n_nonzero, tol, method, delta, weakness, sampling, rescore, coef_rtol, budget, seed_or_fresh(seed)
    )
    store = as_store(atoms)
    dictionary = Dictionary(store, check_group_size(group_size, store))
    options.check_sizes(dictionary.n_groups, dictionary.group_size, dictionary.d)
    return pursue(dictionary, as_signal(signal, dictionary.d), options)


class MatchingPursuit:
    """A dictionary that many signals are decomposed with.

    `fit` reads the atoms once: it checks them, records their norms and keeps a few hundred random coordinates of each,
    which every search with exact coefficients begins with. Dictionaries that are functions are not read.

    Parameters
    ----------
    n_nonzero_coefs, tol, method, delta, weakness, sampling, rescore, coef_rtol, budget, group_size, seed
        As in `banditmips.matching_pursuit`, where ``n_nonzero_coefs`` is called ``n_nonzero``.

    Examples
    --------
    >>> import numpy as np
    >>> import banditmips as bm
    >>> rng = np.random.default_rng(0)
    >>> atoms = rng.normal(size=(300, 10_000))
    >>> pursuit = bm.MatchingPursuit(n_nonzero_coefs=2, method="omp").fit(atoms)
    >>> codes = pursuit.transform(np.stack([2.0 * atoms[5] + atoms[7], atoms[100] - 3.0 * atoms[200]]))
    >>> codes.shape, [np.flatnonzero(code).tolist() for code in codes]
    ((2, 300), [[5, 7], [100, 200]])
    """

    @suggests_names("MatchingPursuit", {})
    def __init__(
        self,
        n_nonzero_coefs: int | None = None,
        tol: float | None = None,
        method: PursuitMethod = "mp",
        *,
        delta: float = 1e-3,
        weakness: float = 0.0,
        sampling: PursuitSampling = "auto",
        rescore: bool = True,
        coef_rtol: float = 0.02,
        budget: int | None = None,
        group_size: GroupSize | None = None,
        seed: int | None = 0,
    ) -> None:
        self._options = PursuitOptions(
            n_nonzero_coefs, tol, method, delta, weakness, sampling, rescore, coef_rtol, budget, seed_or_fresh(seed)
        )
        self._group_size = group_size
        self._dictionary: Dictionary | None = None

    def fit(self, atoms: Any) -> Self:
        """Read the dictionary once. It is kept by reference: do not change the array afterwards."""
        from banditmips.pursuit.dictionary import Dictionary

        store = as_store(atoms)
        dictionary = Dictionary(store, check_group_size(self._group_size, store))
        self._options.check_sizes(dictionary.n_groups, dictionary.group_size, dictionary.d)
        dictionary.fit(self._options.seed)
        self._dictionary = dictionary
        return self

    def _fitted(self) -> Dictionary:
        if self._dictionary is None:
            raise ValueError("this MatchingPursuit has no atoms yet: call fit(atoms) first")
        return self._dictionary

    def decompose(self, signals: Any) -> Any:
        """Decompose a signal, or each of several; delta holds for each.

        Parameters
        ----------
        signals : array of shape (d,) or (m, d), or callable
            As in `banditmips.matching_pursuit`.

        Returns
        -------
        PursuitResult, or a list of m of them for a 2-d array
        """
        from banditmips.pursuit.steps import pursue

        dictionary = self._fitted()
        rows, single = as_signals(signals, dictionary.d)
        results = [pursue(dictionary, row, self._options) for row in rows]
        return results[0] if single else results

    def transform(self, signals: Any) -> NDArray[np.float64]:
        """Return the coefficients of all n atoms for each signal: shape (n,) for one signal, (m, n) for several."""
        found = self.decompose(signals)
        if isinstance(found, PursuitResult):
            return found.coef_
        return np.array([result.coef_ for result in found]).reshape(len(found), self._fitted().store.shape[0])
