"""What `fit` keeps beside the atoms, and the one pass over them that it takes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from banditmips.atoms import DenseStore, JoinedStore, SparseStore
from banditmips.atoms.axes import Axes, AxesKeeper
from banditmips.atoms.cache import CacheFiller, WarmCache, build_cache, cache_size
from banditmips.atoms.coding import CodesKeeper, CodesSize, codes_size, first_look
from banditmips.atoms.collecting import collect_facts
from banditmips.atoms.facts import AtomFacts, facts_bytes
from banditmips.atoms.following import NO_FOLLOWER, Follower, Keeper, LookingKeeper
from banditmips.atoms.packed import PackedStore
from banditmips.atoms.panels import Panels
from banditmips.atoms.parts import PartStore, all_parts
from banditmips.core.codes import Codes
from banditmips.core.numbers import permuted_coordinates
from banditmips.core.rotation import Rotation
from banditmips.race.atom_set import AtomSet
from banditmips.race.buckets import N_NORM_SAMPLES, Buckets

if TYPE_CHECKING:
    from banditmips._options import Layout
    from banditmips.atoms import AtomStore

__all__ = ["Preparation", "extra_bytes"]

_LONG = 4_000
"""Coordinates from which on a tenth of the atoms is what an index may take by default; of shorter ones a fifth."""


@dataclass(frozen=True)
class Preparation:
    """What is to be kept, as the parameters of an index say."""

    layout: Layout
    max_extra_memory: int | None
    bucket_size: int | None
    validate: bool
    seed: int
    n_jobs: int

    def of(self, store: AtomStore, follower: Follower = NO_FOLLOWER) -> AtomSet:
        """Read the atoms once and keep what searches need."""
        kept = self._kept(store)
        if follower.resumes and kept != "codes":
            raise ValueError(f"checkpoint is for an index that keeps codes, not {kept!r} (layout={self.layout!r})")
        panels = Panels(store)
        room = AtomSet(store)
        n_cached = 0
        if kept == "codes" and self._codes_size(store, 0) is not None:
            room = self._room_for_codes(store, follower.looked or first_look(store, panels))
        elif kept == "coordinates":
            n_cached = self._cache_size(store)
        return self._with_bins(self._read(room, n_cached, panels, follower))

    def more(self, old: AtomSet, store: AtomStore, follower: Follower = NO_FOLLOWER) -> AtomSet:
        """Read some more atoms, which follow those that are there."""
        if isinstance(store, SparseStore):
            store.settle()
        n = store.shape[0]
        room = AtomSet(
            store,
            codes=None if old.codes is None else old.codes.like(n),
            axes=None if old.axes is None else old.axes.like(n),
        )
        n_cached = 0 if old.cache is None else old.cache.n_coordinates
        new = self._read(room, n_cached, Panels(store), follower)
        parts = old.store.stores if isinstance(old.store, JoinedStore) else (old.store,)
        joined = AtomSet(
            JoinedStore([*parts, store]),
            facts=old.facts.joined(new.facts) if old.facts is not None and new.facts is not None else None,
            axes=old.axes.joined(new.axes) if old.axes is not None and new.axes is not None else None,
            codes=old.codes.joined(new.codes) if old.codes is not None and new.codes is not None else None,
            cache=old.cache.joined(new.cache) if old.cache is not None and new.cache is not None else None,
            removed=None if old.removed is None else np.append(old.removed, np.zeros(n, dtype=np.bool_)),
            unchecked=old.unchecked,
        )
        return self._with_bins(joined)

    def restored(self, atoms: AtomSet) -> AtomSet:
        """Make what a file does not hold."""
        if isinstance(atoms.store, SparseStore):
            self._keep_sparse(atoms.store)
        return self._with_bins(replace(atoms, by_column=self._by_column(atoms.store)))

    def _kept(self, store: AtomStore) -> str:
        """Which of the layouts it is, for these atoms."""
        if isinstance(store, SparseStore):
            self._keep_sparse(store)
            return "none"
        if self.layout == "full" and not isinstance(store, DenseStore):
            raise ValueError("layout='full' copies the atoms by coordinate, which is for atoms in memory only")
        if self.layout == "full":
            return "codes"
        if self.layout != "auto":
            return self.layout
        # Codes need the whole of every atom, and atoms are packed so that nobody has to read that; bins by norm are
        # raced on coordinates.
        whole = self.validate and not isinstance(store, PackedStore)
        return "codes" if whole and self.bucket_size is None else "coordinates"

    def _room_for_codes(self, store: AtomStore, looked: dict[str, NDArray[Any]]) -> AtomSet:
        """Make room for codes, and for axes, if there are any and memory for them."""
        n, d = store.shape
        # Bounds that are certain rest on what the whole pass learns of the atoms.
        axes = Axes.along_these(looked["axes"], n) if "axes" in looked and self.validate else None
        size = self._codes_size(store, 0 if axes is None else axes.nbytes)
        if size is None:
            axes, size = None, self._codes_size(store, 0)
        assert size is not None
        codes = Codes(Rotation(d, self.seed), looked["centre"], n, size.n_cells, size.n_bits)
        return AtomSet(store, axes=axes, codes=codes)

    def _read(self, room: AtomSet, n_cached: int, panels: Panels, follower: Follower) -> AtomSet:
        """Read the atoms, and fill the room that was made for what is kept of them."""
        facts, cache = self._pass(room, n_cached, panels, follower)
        by_column = self._by_column(room.store)
        return replace(room, facts=facts, cache=cache, by_column=by_column, unchecked=not self.validate)

    def _pass(
        self, room: AtomSet, n_cached: int, panels: Panels, follower: Follower
    ) -> tuple[AtomFacts | None, WarmCache | None]:
        """Learn about the atoms what searches need, and fill codes or cache on the way."""
        store, codes = room.store, room.codes
        keepers: list[Keeper | LookingKeeper] = [] if codes is None else [CodesKeeper(codes)]
        if room.axes is not None:
            keepers.append(AxesKeeper(room.axes))
        # Everything is read once for both, if it has to be read anyway or a few coordinates cost as much as all.
        in_one_pass = (
            self.validate if isinstance(store, DenseStore) else isinstance(store, PartStore) and store.line_width > 1
        )
        filler = CacheFiller(store, self.seed, n_cached) if n_cached and in_one_pass else None
        if filler is not None:
            keepers.append(filler)
        facts = None
        if self.validate:
            facts = collect_facts(store, keepers, self.n_jobs, True, follower, panels)
        elif codes is not None:
            collect_facts(store, keepers, self.n_jobs, False, follower, panels)
        elif filler is not None:
            for part in all_parts(store, 0):
                filler.add(part.rows.start, part.values, part.first_column)
        if filler is not None:
            return facts, filler.cache()
        return facts, build_cache(store, self.seed, n_cached) if n_cached else None

    def _memory(self, store: AtomStore, fixed: int) -> int:
        """Bytes that may be taken beside the atoms, less what is fixed."""
        n, d = store.shape
        limit = self.max_extra_memory
        if limit is None:
            limit = n * d * store.dtype.itemsize // (10 if d >= _LONG else 5)
        bins = 0 if self.bucket_size is None else 24 * n
        return limit - fixed - bins - (facts_bytes(n, d) if self.validate else 0)

    def _codes_size(self, store: AtomStore, axes_bytes: int) -> CodesSize | None:
        n, d = store.shape
        # Beside the codes, whatever the number of atoms: the centre, a byte of dither and the signs of each coordinate;
        # and of each atom its norm and what axes leave of it.
        fixed = (2 + max(4, min(store.dtype.itemsize, 8))) * d + 24 * n + axes_bytes
        size = codes_size(d, self._memory(store, fixed) / n)
        if size is not None:
            return size
        if self.max_extra_memory is None:
            # Of few atoms, the signs and what is fixed are more than a tenth: what is said has to be true all the same.
            return CodesSize(-(-d // 64) * 64, 1)
        if self.layout == "auto":
            return None
        raise ValueError(f"layout={self.layout!r} needs more memory than max_extra_memory={self.max_extra_memory}")

    def _cache_size(self, store: AtomStore) -> int:
        n, d = store.shape
        limited = self.max_extra_memory is not None or d >= _LONG
        return cache_size(n, d, store.dtype.itemsize, self._memory(store, 0) if limited else None)

    def _by_column(self, store: AtomStore) -> NDArray[Any] | None:
        """Copy the atoms one coordinate after another, if the layout asks for it."""
        if self.layout != "full" or not isinstance(store, DenseStore) or store.array.flags.f_contiguous:
            return None
        if self.max_extra_memory is not None and store.array.nbytes > self.max_extra_memory:
            raise ValueError(
                f"layout='full' needs {store.array.nbytes} bytes, but max_extra_memory allows {self.max_extra_memory}"
            )
        return np.ascontiguousarray(store.array.T)

    def _keep_sparse(self, store: SparseStore) -> None:
        """Keep a sparse matrix by row and by column, if the layout asks for it or memory was allowed for it."""
        limit = self.max_extra_memory
        fits = limit is None or store.nbytes <= limit
        if self.layout in ("codes", "coordinates"):
            raise ValueError(f"layout={self.layout!r} is for dense atoms: a sparse matrix takes 'full' or 'none'")
        if self.layout == "full" and not fits:
            raise ValueError(f"layout='full' needs {store.nbytes} bytes, but max_extra_memory allows {limit}")
        store.settle()
        if self.layout == "full" or (self.layout == "auto" and limit is not None and fits):
            store.keep_both()

    def _with_bins(self, atoms: AtomSet) -> AtomSet:
        if self.bucket_size is None:
            return atoms
        n, d = atoms.store.shape
        if atoms.facts is not None:
            return replace(atoms, buckets=Buckets.from_norms(atoms.facts.squared_norms, d, self.bucket_size))
        coordinates = permuted_coordinates(self.seed, d, 0, min(N_NORM_SAMPLES, d))
        values = np.empty((n, coordinates.size))
        atoms.store.gather(np.arange(n), coordinates, values)
        return replace(atoms, buckets=Buckets.from_sample(values, d, self.bucket_size))


def extra_bytes(atoms: AtomSet) -> int:
    """Memory that is taken beside the atoms."""
    parts = (atoms.codes, atoms.axes, atoms.cache, atoms.facts, atoms.buckets, atoms.by_column, atoms.ids)
    total = sum(part.nbytes for part in parts if part is not None)
    if atoms.codes is not None:  # the dither, the norms, and what axes leave of the atoms
        total += atoms.codes.rotation.width + 24 * atoms.store.shape[0]
    stores = atoms.store.stores if isinstance(atoms.store, JoinedStore) else (atoms.store,)
    return total + sum(store.extra_bytes for store in stores if isinstance(store, SparseStore))
