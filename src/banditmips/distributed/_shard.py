"""A fitted part of the atoms, which stays on a worker."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from banditmips._index import BanditMIPS
from banditmips._saved import read_file
from banditmips._saving import load
from banditmips._search_options import Options
from banditmips.atoms import DenseStore
from banditmips.atoms.collecting import collect_facts
from banditmips.atoms.errors import BadAtomError
from banditmips.distributed._sources import open_part
from banditmips.race.atom_set import AtomSet
from banditmips.race.situation import WITHOUT_LENGTHS

__all__ = ["Shard", "Summary", "fit_shard", "load_shard", "naming_global_rows", "save_shard", "summarise"]


@dataclass(frozen=True)
class Shard:
    """An index of a part of the atoms, and the global index of its first one."""

    index: BanditMIPS
    first_row: int

    @property
    def atom_set(self) -> AtomSet:
        """The atoms; if they are in a saved file, it has been looked at."""
        return self.index._fitted

    @property
    def n_atoms(self) -> int:
        """How many atoms it holds."""
        return self.index.n_atoms

    def known(self, options: Options) -> AtomSet:
        """The atoms with the facts that a cosine needs, if nobody has collected them before."""
        atoms = self.atom_set
        if options.objective not in WITHOUT_LENGTHS or atoms.facts is not None:
            return atoms
        return atoms.once("with facts", lambda: replace(atoms, facts=collect_facts(atoms.store)))

    def __sizeof__(self) -> int:
        """Let Dask know what it would move."""
        store = self.index._known.store
        array = store.array if isinstance(store, DenseStore) else store
        return int(getattr(array, "nbytes", 0)) + self.index.extra_bytes


@dataclass(frozen=True)
class Summary:
    """What has to be known of a shard before it can be searched.

    Attributes
    ----------
    shape : (n, d)
    known_range : (low, high), or None
        Smallest and largest entry, if `fit` looked.
    n_first : int
        Cells of its codes that a race reads at first; 0 where there are none.
    extra_bytes : int
        Memory taken beside the atoms.
    """

    shape: tuple[int, int]
    known_range: tuple[float, float] | None
    n_first: int
    extra_bytes: int


def fit_shard(source: Any, rows: tuple[int, int] | None, first_row: int, settings: Mapping[str, Any]) -> Shard:
    """Read a part of the atoms once, as `BanditMIPS.fit` does."""
    with naming_global_rows(first_row):
        return Shard(BanditMIPS(**settings).fit(open_part(source, rows)), first_row)


def save_shard(shard: Shard, path: str) -> None:
    """Write a shard's index to a file."""
    shard.index.save(path)


def load_shard(path: str, first_row: int, verify: Any, place: Any = None) -> Shard:
    """Open a shard's index; `place` is where its atoms are said to be, if they were not saved with it."""
    is_needed = place is not None and bool(read_file(path).metadata.get("files"))
    return Shard(load(path, verify=verify, atoms=place if is_needed else None), first_row)


def summarise(shard: Shard) -> Summary:
    """Say what has to be known of a shard."""
    atoms = shard.index._known
    n, d = atoms.store.shape
    n_first = 0 if atoms.codes is None else atoms.codes.n_first
    return Summary((n, d), atoms.seen_range, n_first, shard.index.extra_bytes)


@contextmanager
def naming_global_rows(first_row: int) -> Iterator[None]:
    """Let errors about an atom name its row among all atoms."""
    try:
        yield
    except BadAtomError as error:
        raise error.counted_from(first_row) from None
