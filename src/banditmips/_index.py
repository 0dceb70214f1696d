"""BanditMIPS: fit once, search many; save, load."""

from __future__ import annotations

import inspect
import os
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Self, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from banditmips._direct import directly, scored_directly
from banditmips._ends import at_ends
from banditmips._ids import Ids, joined_ids
from banditmips._index_parameters import IndexParameters
from banditmips._options import (
    BoundName,
    CallOptions,
    Ends,
    Layout,
    Minimise,
    Objective,
    Sampling,
    Sigma,
    suggests_names,
)
from banditmips._padding import widened
from banditmips._queries import explain_query, run_queries
from banditmips._result import SearchResult
from banditmips._threads import ForkedLock
from banditmips._validate import as_store, check_rows, seed_or_fresh
from banditmips.atoms import check_maps
from banditmips.core.plain import answer_plainly
from banditmips.race.atom_set import AtomSet, check_range, check_seed
from banditmips.race.known import first_array
from banditmips.race.preparing import extra_bytes
from banditmips.race.unsampled import plain_for_products

if TYPE_CHECKING:
    from banditmips._saved import SavedFile

__all__ = ["BanditMIPS"]

_OF_A_CALL = "give it to search"


class BanditMIPS:
    """Atoms that are searched many times: checked once, and with a warm start for every query.

    `fit` reads the atoms once. It checks them for NaN and infinities, records their means, norms, range and column
    norms, and keeps a code of each: the signs, or a few bits, of its coordinates after a random rotation, from which
    a search reads where its score lies. A search may be called from several threads at once.

    Parameters
    ----------
    delta, epsilon, objective, sampling, beta, bound, sigma, value_range, replacement, absolute, ends, budget, \
    minimise, rescore, seed, n_jobs, trace, progress
        As in `banditmips.search`. All but ``seed`` can be changed in a call of `search`; the seed belongs to the index,
        and ``seed=None`` is drawn once, when the index is made.
    bucket_size : int, optional
        Sort the atoms by norm into bins of this size and race them bin by bin (the paper's Bucket_AE, which takes 30):
        fewer atoms are looked at where norms differ. Inner products only.
    layout : {"auto", "codes", "coordinates", "full", "none"}
        What to keep beside the atoms: ``codes`` a few bits of every rotated coordinate; ``coordinates`` a few hundred
        to a few thousand random coordinates of each atom as they are (the paper's warm start); ``full`` codes and a
        copy of all atoms, one coordinate after another; ``none`` nothing. ``auto`` is ``codes``, but ``coordinates``
        with ``validate=False``, with bins and for packed atoms. Atoms in Fortran order are used as they are and need
        no copy. Of a sparse matrix, ``full`` keeps the rows and the columns, and ``auto`` what was given, unless
        `max_extra_memory` allows both. Atoms in a file are never copied.
    max_extra_memory : int, optional
        Bytes that the index may take beside the atoms. By default a tenth of them where d >= 4,000, and a fifth where
        it is less; of few atoms with entries of one byte, codes take more than that.
    validate : bool
        False skips the pass over the atoms: nothing is checked or recorded, results say ``checked=False``, and
        ``paired`` has no protection against needles.

    Attributes
    ----------
    n_atoms, n_coordinates : int
        Shape of the atoms, removed ones included.
    extra_bytes : int
        Memory that the index takes beside the atoms.
    seed : int
        The seed, drawn if none was given.

    Examples
    --------
    >>> import numpy as np
    >>> import banditmips as bm
    >>> rng = np.random.default_rng(0)
    >>> atoms = rng.normal(size=(200, 1)) + rng.normal(size=(200, 5_000))
    >>> index = bm.BanditMIPS(delta=0.01).fit(atoms)
    >>> queries = 2 + rng.normal(size=(3, 5_000))
    >>> indices, scores = index.search(queries, k=2)
    >>> indices.shape
    (3, 2)
    >>> bool((indices[:, 0] == (queries @ atoms.T).argmax(axis=1)).all())
    True
    """

    @suggests_names("BanditMIPS", dict.fromkeys(("k", "mask", "queries"), _OF_A_CALL))
    def __init__(
        self,
        *,
        delta: float = 1e-3,
        epsilon: float = 0.0,
        objective: Objective = "inner_product",
        sampling: Sampling = "auto",
        beta: float = 0.5,
        bound: BoundName = "auto",
        sigma: Sigma = None,
        value_range: tuple[float, float] | None = None,
        replacement: bool = False,
        absolute: bool = False,
        ends: Ends = "largest",
        minimise: Minimise = "time",
        budget: int | None = None,
        rescore: bool = True,
        seed: int | None = 0,
        n_jobs: int | None = 1,
        trace: bool = False,
        progress: bool = False,
        bucket_size: int | None = None,
        layout: Layout = "auto",
        max_extra_memory: int | None = None,
        validate: bool = True,
    ) -> None:
        given = {name: value for name, value in locals().items() if name != "self"}
        self._parameters = IndexParameters(given, seed_or_fresh(seed))
        self._atom_set: AtomSet | None = None
        self._file: SavedFile | None = None
        self._changing = ForkedLock()

    def __getstate__(self) -> dict[str, Any]:
        """Everything but the lock, which belongs to one process."""
        return {name: value for name, value in self.__dict__.items() if name != "_changing"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._changing = ForkedLock()

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters as they were given, as scikit-learn's estimators do; `deep` is for its sake alone."""
        return dict(self._parameters.given)

    def set_params(self, **params: Any) -> Self:
        """Change parameters.

        Options of a search act from the next one on. The others (``seed``, ``layout``, ...) say what `fit` prepares:
        the index forgets its atoms and has to be fitted again.
        """
        self._parameters = self._parameters.changed(params)
        if IndexParameters.ask_for_a_fit(params):
            self._atom_set = self._file = None
        return self

    def changed_params(self) -> dict[str, Any]:
        """Return the parameters that differ from the defaults."""
        defaults = inspect.signature(type(self)).parameters
        given = self._parameters.given
        return {name: value for name, value in given.items() if repr(value) != repr(defaults[name].default)}

    def __repr__(self) -> str:
        """Name the parameters that were changed, and what the index holds."""
        from banditmips._display import index_text

        return index_text(self)

    def _repr_html_(self) -> str:
        from banditmips._display import index_html

        return index_html(self)

    def _restore(self, file: SavedFile, atom_set: AtomSet, ids: Ids | None) -> None:
        if self._parameters.layout == "full" or self._parameters.bucket_size is not None:
            file.check()  # atoms are read here
        self._file = file
        self._atom_set = replace(self._parameters.preparation().restored(atom_set), ids=ids)

    def fit(
        self,
        atoms: Any,
        y: object = None,
        *,
        ids: ArrayLike | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
    ) -> Self:
        """Read the atoms once and prepare for searches.

        Parameters
        ----------
        atoms : array of shape (n, d)
            As in `banditmips.search`. The index keeps a reference, not a copy: do not change the array afterwards.
        y
            Not used; scikit-learn's pipelines hand it over.
        ids : n integers or n strings, optional
            What you call the atoms; unique. Results then carry ``ids`` beside ``indices``, `add` asks for the ids of
            new atoms, and `remove` takes ids. -1 and the empty string stand for no atom.
        checkpoint : path, optional
            For atoms in a file that takes long to read: where to write down, about twice a minute, what is known so
            far. After a kill or a power cut, the same call goes on from there. The file is removed when all is read.
        """
        from banditmips._fitting import following

        store = as_store(atoms)
        names = None if ids is None else Ids.of_user(ids, store.shape[0])
        check_seed(store, self._parameters.options)
        settings = self._parameters.of_fit()
        try:
            with following(store, self._parameters.options.progress, checkpoint, settings) as follower:
                atom_set = self._parameters.preparation().of(store, follower)
        finally:
            check_maps(store)
        check_range(atom_set.seen_range, self._parameters.options)
        with self._changing:
            self._atom_set, self._file = replace(atom_set, ids=names), None
        return self

    @property
    def _known(self) -> AtomSet:
        """The atoms, to be asked about but not to be read."""
        if self._atom_set is None:
            raise ValueError("this BanditMIPS has no atoms yet: call fit(atoms) first")
        return self._atom_set

    @property
    def _fitted(self) -> AtomSet:
        """The atoms, to be read: if they are in a file, it has been looked at."""
        if self._file is not None:
            self._file.check()
        return self._known

    def _check_read(self, atoms: AtomSet) -> None:
        """Raise if what was read of files was not what is in them; before any other error, which may follow from it."""
        if self._file is not None:
            self._file.check_unchanged()
        check_maps(atoms.store)

    @property
    def ids(self) -> NDArray[Any] | None:
        """The ids of all atoms by index, removed ones included; None if `fit` was given none."""
        atoms = self._atom_set
        return None if atoms is None or atoms.ids is None else atoms.ids.values

    @property
    def is_fitted(self) -> bool:
        """Whether there are atoms to be searched."""
        return self._atom_set is not None

    @property
    def seed(self) -> int:
        """The seed of every search, drawn if none was given."""
        return self._parameters.options.seed

    @property
    def n_atoms(self) -> int:
        """Number of atoms, removed ones included."""
        return self._known.store.shape[0]

    @property
    def n_coordinates(self) -> int:
        """Number of coordinates of an atom."""
        return self._known.store.shape[1]

    @property
    def n_removed(self) -> int:
        """Number of atoms that were removed."""
        removed = self._known.removed
        return 0 if removed is None else int(removed.sum())

    @property
    def dtype(self) -> np.dtype[Any]:
        """The atoms' own dtype."""
        return self._known.store.dtype

    @property
    def extra_bytes(self) -> int:
        """Memory that the index takes beside the atoms."""
        return extra_bytes(self._known)

    def search(
        self, queries: ArrayLike, k: int = 1, *, mask: ArrayLike | None = None, **options: Unpack[CallOptions]
    ) -> SearchResult:
        """Find the k best atoms for each query.

        Parameters
        ----------
        queries : array of shape (d,) or (m, d)
        k : int
        mask : bool array of shape (n,) or (m, n), optional
            True excludes an atom.
        **options
            Options of `banditmips.search` that differ from the index's for this call.

        Returns
        -------
        SearchResult
            The failure probability ``delta`` holds for each query.
        """
        chosen, fitted = self._parameters.of_call(options), self._fitted
        if chosen.says_how_to_sample or fitted.cache is not None:
            fitted, chosen = plain_for_products(fitted, queries, k, chosen)
        kinds = fitted.prepared.get("plain")
        if kinds and self._file is None:
            plain: SearchResult | None = answer_plainly(kinds, first_array(fitted), queries, k, (chosen,), mask)
            if plain is not None:
                return plain if fitted.ids is None else plain.labelled(chosen.seed, fitted.store.shape, fitted.ids)

        def find(queries: ArrayLike, wanted: int, mask: ArrayLike | None) -> SearchResult:
            short, n_spent = directly(fitted, queries, wanted, chosen) if mask is None else (None, None)
            short = scored_directly(fitted, queries, wanted, chosen, mask) if short is None else short
            return run_queries(fitted, queries, wanted, chosen, mask, n_spent) if short is None else short

        found = at_ends(find, fitted.store.shape, queries, k, mask, chosen, partial(self._check_read, fitted))
        return widened(found.labelled(chosen.seed, fitted.store.shape, fitted.ids), k, chosen.ends)

    def explain(self, query: ArrayLike, k: int = 1) -> str:
        """Say in words how a query would be answered: which way, and what the planner expects it to cost.

        Examples
        --------
        >>> import numpy as np
        >>> import banditmips as bm
        >>> atoms = np.random.default_rng(0).normal(size=(10, 100))
        >>> print(bm.BanditMIPS().fit(atoms).explain(atoms[0]))
        atoms: 10 x 100, float64; codes of ...
        way: all products at once
        because: ...
        """
        return explain_query(self._fitted, query, k, self._parameters.options)

    def add(self, atoms: Any, *, ids: ArrayLike | None = None) -> Self:
        """Add atoms; their indices follow those of the atoms already there. Only the new atoms are read.

        Parameters
        ----------
        atoms : array of shape (n_new, d)
        ids : n_new integers or strings, optional
            What you call them, if and only if the index has ids. An id that was removed may come again.
        """
        from banditmips._fitting import following

        store = as_store(atoms)
        # Searches go on with what they have; other changes wait, so that none is lost.
        with self._changing:
            old = self._fitted
            if store.shape[1] != self.n_coordinates:
                raise ValueError(
                    f"atoms has {store.shape[1]} columns, but the index has {self.n_coordinates} "
                    f"(argument 'atoms', shape {store.shape})"
                )
            names = joined_ids(old.ids, ids, store.shape[0])
            try:
                with following(store, self._parameters.options.progress, None, {}) as follower:
                    joined = self._parameters.preparation().more(old, store, follower)
            finally:
                self._check_read(old)
                check_maps(store)
            check_range(joined.seen_range, self._parameters.options)
            self._atom_set = replace(joined, ids=names)
        return self

    def remove(self, ids: ArrayLike) -> Self:
        """Take atoms out of all later searches. The other atoms keep their indices.

        Parameters
        ----------
        ids : integers or strings
            The atoms' ids; of an index without ids, their indices.
        """
        with self._changing:
            old = self._fitted
            rows = check_rows("indices", ids, self.n_atoms) if old.ids is None else old.ids.rows_of(ids)
            if rows.size:
                self._atom_set = old.without(rows)
        return self

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the atoms and everything prepared for them to one file; `banditmips.load` opens it again.

        Atoms that were fitted where they lie stay there: what is written is what was prepared, where they are, and what
        shows whether they are still the same.

        The file is written beside its destination and renamed when it is complete, so a failure leaves the old
        file as it was.
        """
        from banditmips._saving import save_index

        atoms = self._fitted
        save_index(path, atoms, self._parameters.to_save(), lambda: self._check_read(atoms))

    def verify(self) -> None:
        """Read the whole file that this index was loaded from and compare every block with its checksum.

        Raises
        ------
        CorruptFileError
            If a block is damaged; the message names the file and the block.
        """
        if self._file is None:
            raise ValueError("this index was not loaded from a file, so there is nothing to verify")
        self._file.verify()
