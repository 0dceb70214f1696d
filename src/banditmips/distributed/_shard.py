"""A fitted part of the atoms, which stays on a worker."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from banditmips._courses import Situation
from banditmips._index import BanditMIPS
from banditmips._query import AtomSet
from banditmips._validate import Options
from banditmips.atoms import DenseStore
from banditmips.atoms.errors import BadAtomError
from banditmips.atoms.packed import PackedStore
from banditmips.atoms.parts import PartStore
from banditmips.atoms.sparse import SparseStore
from banditmips.distributed._sources import open_part
from banditmips.race.kernels import PRODUCT

__all__ = ["Shard", "Summary", "fit_shard", "naming_global_rows", "summarise"]


@dataclass(frozen=True)
class Shard:
    """A fitted part of the atoms, and the global index of its first one."""

    atom_set: AtomSet
    first_row: int
    extra_bytes: int

    @property
    def n_atoms(self) -> int:
        """How many atoms it holds."""
        return self.atom_set.store.shape[0]

    def __sizeof__(self) -> int:
        """Let Dask know what it would move."""
        atoms = self.atom_set
        array = atoms.store.array if isinstance(atoms.store, DenseStore) else atoms.store
        held = (array, atoms.facts, atoms.cache)
        return sum(int(getattr(part, "nbytes", 0)) for part in held)


@dataclass(frozen=True)
class Summary:
    """What has to be known of a shard before it can be searched.

    Attributes
    ----------
    known_range : (low, high), or None
        Smallest and largest entry, if `fit` looked.
    n_cached : int
        Coordinates of each atom that are cached.
    on_file : bool
        Whether one coordinate costs as much as its whole page or chunk.
    too_sparse : bool
        Whether sampling a sparse matrix takes longer than multiplying all that it stores.
    extra_bytes : int
        Memory taken beside the atoms.
    """

    known_range: tuple[float, float] | None
    n_cached: int
    on_file: bool
    too_sparse: bool
    extra_bytes: int


def fit_shard(source: Any, rows: tuple[int, int] | None, first_row: int, settings: Mapping[str, Any]) -> Shard:
    """Read a part of the atoms once, as `BanditMIPS.fit` does."""
    store = open_part(source, rows)
    if settings["layout"] == "auto" and not isinstance(store, SparseStore):
        settings = {**settings, "layout": "coordinates"}  # a copy by coordinate would not be used
    with naming_global_rows(first_row):
        index = BanditMIPS(**settings).fit(store)
    return Shard(index._fitted, first_row, index.extra_bytes)


def summarise(shard: Shard) -> Summary:
    """Say what has to be known of a shard."""
    atoms = shard.atom_set
    too_sparse = False
    if isinstance(atoms.store, SparseStore):
        # Which depends on what is stored, not on the query.
        nothing = np.empty(0, dtype=np.int64)
        situation = Situation(atoms, Options(), np.empty(0), PRODUCT, nothing, None, k=1)
        too_sparse = situation.why_exactly() is not None
    return Summary(
        known_range=atoms.known_range,
        n_cached=0 if atoms.cache is None else atoms.cache.n_coordinates,
        on_file=isinstance(atoms.store, PackedStore)
        or (isinstance(atoms.store, PartStore) and atoms.store.line_width > 1),
        too_sparse=too_sparse,
        extra_bytes=shard.extra_bytes,
    )


@contextmanager
def naming_global_rows(first_row: int) -> Iterator[None]:
    """Let errors about an atom name its row among all atoms."""
    try:
        yield
    except BadAtomError as error:
        raise error.counted_from(first_row) from None
