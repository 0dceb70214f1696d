"""BanditMIPS: fit once, search many; save, load."""

from __future__ import annotations

import os
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any, Self, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from banditmips._options import (
    BoundName,
    CallOptions,
    Layout,
    Minimise,
    Objective,
    Sampling,
    Sigma,
    suggests_names,
)
from banditmips._query import AtomSet, check_range, check_seed, fitted_lane
from banditmips._result import SearchResult
from banditmips._search import explain_query, run_queries, show_compilation
from banditmips._validate import (
    Options,
    as_store,
    changed_options,
    check_bucket_size,
    check_flag,
    check_layout,
    check_rows,
    n_jobs_or_one,
    reject_unknown,
    seed_or_fresh,
)

if TYPE_CHECKING:
    from banditmips._saved import SavedFile
    from banditmips._saving import Verify
    from banditmips.atoms import AtomStore, SparseStore
    from banditmips.atoms.cache import CacheSize, WarmCache
    from banditmips.atoms.facts import AtomFacts
    from banditmips.race.buckets import Buckets

__all__ = ["BanditMIPS", "load"]

_MAX_CHANGED = 64
"""Combinations of changed options that an index remembers."""

_OF_A_CALL = "give it to search"
_BEFORE_FIT = {
    "seed": "an index's coordinates are kept for the seed it was made with",
    **dict.fromkeys(("bucket_size", "layout", "max_extra_memory", "validate"), "give it to BanditMIPS before fit"),
}


class BanditMIPS:
    """Atoms that are searched many times: checked once, and with a warm start for every query.

    `fit` reads the atoms once. It checks them for NaN and infinities, records their norms, range and column norms, and
    caches a few hundred random coordinates of each in the layouts that a search reads fast (the paper's warm start). A
    search may be called from several threads at once.

    Parameters
    ----------
    delta, epsilon, objective, sampling, beta, bound, sigma, value_range, replacement, absolute, budget, minimise, \
    rescore, seed, n_jobs, trace, progress
        As in `banditmips.search`. All but ``seed`` can be changed in a call of `search`; the seed belongs to the index,
        and ``seed=None`` is drawn once, when the index is made.
    bucket_size : int, optional
        Sort the atoms by norm into bins of this size and race them bin by bin (the paper's Bucket_AE, which takes 30):
        fewer atoms are looked at where norms differ. Inner products only.
    layout : {"auto", "codes", "coordinates", "full", "none"}
        What to keep beside the atoms: ``coordinates`` a few hundred to a few thousand random coordinates of each atom,
        and so does ``codes``; ``full`` also a copy of all atoms, one coordinate after another, which makes uneven and
        sparse queries faster; ``none`` nothing. ``auto`` is ``coordinates``, or ``full`` where `max_extra_memory`
        allows it. Atoms in Fortran
        order are used as they are and need no copy. Of a sparse matrix, ``full`` keeps the rows and the columns, and
        ``auto`` what was given, unless `max_extra_memory` allows both. Atoms in a file are never copied.
    max_extra_memory : int, optional
        Bytes that the index may take beside the atoms. By default a tenth of them where d >= 10,000.
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
        self._options = Options(
            delta=delta,
            epsilon=epsilon,
            objective=objective,
            sampling=sampling,
            beta=beta,
            bound=bound,
            sigma=sigma,
            value_range=value_range,
            replacement=replacement,
            absolute=absolute,
            minimise=minimise,
            budget=budget,
            rescore=rescore,
            seed=seed_or_fresh(seed),
            n_jobs=n_jobs_or_one(n_jobs),
            trace=trace,
            progress=progress,
        )
        self._bucket_size = check_bucket_size(bucket_size, self._options.objective)
        self._layout, self._max_extra_memory = check_layout(layout, max_extra_memory)
        self._validate = check_flag("validate", validate)
        self._atom_set: AtomSet | None = None
        self._file: SavedFile | None = None
        self._changed_options: dict[Any, Options] = {}

    def _restore(self, file: SavedFile, atom_set: AtomSet) -> None:
        if self._layout == "full" or self._max_extra_memory is not None or self._bucket_size is not None:
            file.check()  # atoms are read here
        taken = 0 if atom_set.cache is None else atom_set.cache.nbytes
        by_column = self._copy_by_column(atom_set.store, taken)
        self._file = file
        self._atom_set = replace(atom_set, by_column=by_column, buckets=self._make_buckets(atom_set))

    def fit(self, atoms: Any) -> Self:
        """Read the atoms once and prepare for searches.

        Parameters
        ----------
        atoms : array of shape (n, d)
            As in `banditmips.search`. The index keeps a reference, not a copy: do not change the array afterwards.
        """
        store = as_store(atoms)
        with show_compilation(self._options.progress):
            self._atom_set = self._prepare(store, self._cache_size(store))
        self._file = None
        return self

    def _prepare(self, store: AtomStore, size: CacheSize) -> AtomSet:
        check_seed(store, self._options)
        facts, cache = self._read(store, size)
        by_column = self._copy_by_column(store, 0 if cache is None else cache.nbytes)
        atom_set = AtomSet(store, facts=facts, cache=cache, by_column=by_column, unchecked=not self._validate)
        check_range(atom_set.known_range, self._options)
        return replace(atom_set, buckets=self._make_buckets(atom_set))

    def _cache_size(self, store: AtomStore) -> CacheSize:
        """Coordinates of each atom to be cached."""
        from banditmips.atoms import SparseStore
        from banditmips.atoms.cache import NO_CACHE, cache_size

        # Cached columns of a sparse matrix would be little but zeros.
        if self._layout == "none" or isinstance(store, SparseStore):
            return NO_CACHE
        return cache_size(*store.shape, store.dtype.itemsize, self._memory_for_cache(store))

    def _read(self, store: AtomStore, size: CacheSize) -> tuple[AtomFacts | None, WarmCache | None]:
        """Learn about the atoms what searches need, and fill the cache."""
        from banditmips.atoms import DenseStore
        from banditmips.atoms.cache import CacheFiller, build_cache
        from banditmips.atoms.facts import collect_facts
        from banditmips.atoms.parts import PartStore, all_parts

        seed, n_jobs = self._options.seed, self._options.n_jobs
        # Everything is read once for both, if it has to be read anyway or a few coordinates cost as much as all.
        in_one_pass = (
            self._validate if isinstance(store, DenseStore) else isinstance(store, PartStore) and store.line_width > 1
        )
        if size.by_atom == 0 or not in_one_pass:
            facts = collect_facts(store, n_jobs=n_jobs) if self._validate else None
            return facts, build_cache(store, seed, size) if size.by_atom else None
        filler = CacheFiller(store, seed, size)
        if self._validate:
            return collect_facts(store, filler, n_jobs), filler.cache(n_jobs)
        for part in all_parts(store, 0):
            filler.add(part.rows.start, part.values, part.first_column)
        return None, filler.cache()

    def _memory_for_cache(self, store: AtomStore) -> int | None:
        """Bytes that the cache may take; None for as many as it likes."""
        from banditmips.atoms.facts import facts_bytes

        n, d = store.shape
        limit = self._max_extra_memory
        if limit is None:
            # Where atoms are long, a tenth of them is what an index may take by default.
            limit = n * d * store.dtype.itemsize // 10 if d >= 10_000 else None
        if limit is None:
            return None
        bins = 0 if self._bucket_size is None else 24 * n
        return limit - bins - (facts_bytes(n, d) if self._validate else 0)

    def _copy_by_column(self, store: AtomStore, taken: int) -> NDArray[Any] | None:
        """Copy the atoms one coordinate after another, if the layout asks for it or memory was allowed for it."""
        from banditmips.atoms import DenseStore, SparseStore

        limit = self._max_extra_memory
        if isinstance(store, SparseStore):
            self._copy_sparse(store)
            return None
        dense = isinstance(store, DenseStore) and not store.array.flags.f_contiguous
        if self._layout == "full" and not isinstance(store, DenseStore):
            raise ValueError("layout='full' copies the atoms by coordinate, which is for atoms in memory only")
        if not dense or self._layout not in ("auto", "full") or (self._layout == "auto" and limit is None):
            return None
        needed = store.array.nbytes + taken  # type: ignore[attr-defined]
        if limit is not None and needed > limit:
            if self._layout == "auto":
                return None
            raise ValueError(f"layout='full' needs {needed} bytes, but max_extra_memory allows {limit}")
        return np.ascontiguousarray(store.array.T)  # type: ignore[attr-defined]

    def _copy_sparse(self, store: SparseStore) -> None:
        """Keep a sparse matrix by row and by column, if the layout asks for it or memory was allowed for it."""
        limit = self._max_extra_memory
        fits = limit is None or store.nbytes <= limit
        if self._layout in ("codes", "coordinates"):
            raise ValueError(f"layout={self._layout!r} is for dense atoms: a sparse matrix takes 'full' or 'none'")
        if self._layout == "full" and not fits:
            raise ValueError(f"layout='full' needs {store.nbytes} bytes, but max_extra_memory allows {limit}")
        if self._layout == "full" or (self._layout == "auto" and limit is not None and fits):
            store.keep_both()

    def _make_buckets(self, atom_set: AtomSet) -> Buckets | None:
        from banditmips.race.buckets import N_NORM_SAMPLES, Buckets
        from banditmips.race.kernels import permuted_coordinates

        if self._bucket_size is None:
            return None
        n, d = atom_set.store.shape
        if atom_set.facts is not None:
            return Buckets.from_norms(atom_set.facts.squared_norms, d, self._bucket_size)
        coordinates = permuted_coordinates(self._options.seed, d, 0, min(N_NORM_SAMPLES, d))
        values = np.empty((n, coordinates.size))
        atom_set.store.gather(np.arange(n), coordinates, values)
        return Buckets.from_sample(values, d, self._bucket_size)

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

    @property
    def seed(self) -> int:
        """The seed of every search, drawn if none was given."""
        return self._options.seed

    @property
    def n_atoms(self) -> int:
        """Number of atoms, removed ones included."""
        return self._known.store.shape[0]

    @property
    def n_coordinates(self) -> int:
        """Number of coordinates of an atom."""
        return self._known.store.shape[1]

    @property
    def extra_bytes(self) -> int:
        """Memory that the index takes beside the atoms."""
        from banditmips.atoms import JoinedStore, SparseStore

        fitted = self._known
        total = 0 if fitted.cache is None else fitted.cache.nbytes
        if fitted.facts is not None:
            total += fitted.facts.nbytes
        if fitted.buckets is not None:
            total += fitted.buckets.nbytes
        if fitted.by_column is not None:
            total += fitted.by_column.nbytes
        stores = fitted.store.stores if isinstance(fitted.store, JoinedStore) else (fitted.store,)
        total += sum(store.extra_bytes for store in stores if isinstance(store, SparseStore))
        return total

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
        chosen = self._options
        if options:
            reject_unknown(options, "search", ("k", "mask", "queries"), _BEFORE_FIT)
            chosen = self._changed(options)
        fitted = self._fitted
        if mask is None and type(k) is int and fitted.removed is None:
            # If there was a search like this one before, nothing has to be asked again.
            lane = fitted_lane(fitted, chosen, k)
            if lane is not None:
                array = fitted.store.array  # type: ignore[attr-defined]
                short = lane.answer_plain(array, fitted.by_column, queries, not fitted.unchecked)
                if short is not None:
                    return short.labelled(self.seed)
        return run_queries(fitted, queries, k, chosen, mask).labelled(self.seed)

    def _changed(self, options: CallOptions) -> Options:
        """The index's options with some changed; the same ones come again and again, and then are the same object."""
        try:
            key = tuple((name, type(value), value) for name, value in options.items())
            known = self._changed_options.get(key)
        except TypeError:  # a value that cannot be hashed: the options will say what is wrong with it
            key, known = None, None
        if known is None:
            known = changed_options(self._options, options)
            check_bucket_size(self._bucket_size, known.objective)
            if key is not None and len(self._changed_options) < _MAX_CHANGED:
                self._changed_options[key] = known
        return known

    def explain(self, query: ArrayLike, k: int = 1) -> str:
        """Say in words how a query would be answered: which way, and what the planner expects it to cost.

        Examples
        --------
        >>> import numpy as np
        >>> import banditmips as bm
        >>> atoms = np.random.default_rng(0).normal(size=(10, 100))
        >>> print(bm.BanditMIPS().fit(atoms).explain(atoms[0]))
        atoms: 10 x 100, float64; 25 coordinates of each atom are cached; no copy by coordinate
        query: unevenness ... (1 is even, normal entries have 1.57); 0 coordinates stand out
        way: blas (all products at once)
        because all products take about ...
        """
        return explain_query(self._fitted, query, k, self._options)

    def add(self, atoms: Any) -> Self:
        """Add atoms; their indices follow those of the atoms already there. Only the new atoms are read."""
        from banditmips.atoms import JoinedStore
        from banditmips.atoms.cache import NO_CACHE

        old = self._fitted
        store = as_store(atoms)
        if store.shape[1] != self.n_coordinates:
            raise ValueError(
                f"atoms has {store.shape[1]} columns, but the index has {self.n_coordinates} "
                f"(argument 'atoms', shape {store.shape})"
            )
        new = self._prepare(store, NO_CACHE if old.cache is None else old.cache.size)
        parts = old.store.stores if isinstance(old.store, JoinedStore) else (old.store,)
        joined = AtomSet(
            JoinedStore([*parts, store]),
            facts=old.facts.joined(new.facts) if old.facts is not None and new.facts is not None else None,
            cache=old.cache.joined(new.cache) if old.cache is not None and new.cache is not None else None,
            removed=None if old.removed is None else np.append(old.removed, np.zeros(store.shape[0], dtype=np.bool_)),
            unchecked=old.unchecked,
        )
        self._atom_set = replace(joined, buckets=self._make_buckets(joined))
        return self

    def remove(self, indices: ArrayLike) -> Self:
        """Take atoms out of all later searches. The other atoms keep their indices."""
        old = self._fitted
        rows = check_rows("indices", indices, self.n_atoms)
        removed = np.zeros(self.n_atoms, dtype=np.bool_) if old.removed is None else old.removed.copy()
        if removed[rows].any():
            raise ValueError(f"indices holds {rows[removed[rows]][0]}, which has been removed before")
        removed[rows] = True
        self._atom_set = replace(old, removed=removed)
        return self

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the atoms and everything prepared for them to one file; `banditmips.load` opens it again.

        The file is written beside its destination and renamed when it is complete, so a failure leaves the old
        file as it was.
        """
        from banditmips._saving import save_index

        settings = {
            **asdict(self._options),
            "bucket_size": self._bucket_size,
            "layout": self._layout,
            "max_extra_memory": self._max_extra_memory,
            "validate": self._validate,
        }
        save_index(path, self._fitted, settings)

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


def load(path: str | os.PathLike[str], *, verify: Verify = "lazy") -> BanditMIPS:
    """Open a saved index. The atoms stay on disk and are memory-mapped.

    Parameters
    ----------
    path
        What `BanditMIPS.save` has written.
    verify : {"lazy", "now", "never"}
        When to compare the file's contents with their checksums: ``lazy`` when the index is first used, ``now`` before
        this returns, ``never`` unless `BanditMIPS.verify` is called. The comparison reads the file once
        (docs/reliability.md says at what speed). ``never`` is for files much larger than memory, of which a search
        shall read a little; they are then trusted to be what was saved.

    Raises
    ------
    CorruptFileError
        If the file is damaged. Searches raise it too: where ``verify="lazy"`` finds damage, and whenever the file has
        changed since it was opened.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> import numpy as np
    >>> import banditmips as bm
    >>> atoms = np.random.default_rng(0).normal(size=(10, 1000))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "atoms.bm")
    ...     bm.BanditMIPS().fit(atoms).save(path)
    ...     index = bm.load(path, verify="now")
    ...     int(index.search(atoms[3]).indices[0])
    3
    """
    from banditmips._saving import load_index

    file, settings, atom_set = load_index(path, verify)
    index = BanditMIPS(**settings)
    index._restore(file, atom_set)
    return index
