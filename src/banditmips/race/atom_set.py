"""The atoms of a search, with all that is known about them."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from banditmips._search_options import Options
    from banditmips.atoms import AtomStore
    from banditmips.atoms.axes import Axes
    from banditmips.atoms.cache import WarmCache
    from banditmips.atoms.facts import AtomFacts
    from banditmips.core.codes import Codes
    from banditmips.race.buckets import Buckets

__all__ = ["AtomSet", "candidates_of", "check_range", "check_seed", "describe"]

_Made = TypeVar("_Made")
_MOST_REMEMBERED = 256
"""What is remembered of one kind for one set of atoms."""
_DTYPE_RANGES = {"b1": (0.0, 1.0), "u1": (0.0, 255.0), "i1": (-128.0, 127.0)}
"""Ranges that a dtype gives away, narrow enough to be of use."""


@dataclass(frozen=True)
class AtomSet:
    """The atoms of a search, with all that is known about them.

    Attributes
    ----------
    facts, axes, codes, cache, buckets
        What an index has prepared; None for a search without one.
    by_column : array of shape (d, n), or None
        A copy of the atoms, one coordinate after another.
    removed : bool array of shape (n,), or None
        Atoms that are no longer to be found.
    ids
        What the user calls the atoms, if anything.
    unchecked : bool
        Whether the user asked for no check of the entries.
    prepared : dict
        What searches have made of these once for all; atoms of which something else is known begin anew.
    """

    store: AtomStore
    facts: AtomFacts | None = None
    axes: Axes | None = None
    codes: Codes | None = None
    cache: WarmCache | None = None
    buckets: Buckets | None = None
    by_column: NDArray[Any] | None = None
    removed: NDArray[np.bool_] | None = None
    ids: Any = None
    unchecked: bool = False
    prepared: dict[str, Any] = field(default_factory=dict, init=False, compare=False, repr=False)

    def __getstate__(self) -> dict[str, Any]:
        """Everything but what searches can make again."""
        return {**self.__dict__, "prepared": {}}

    def once(self, name: str, make: Callable[[], _Made]) -> _Made:
        """What `make` makes of these atoms, made once for all searches."""
        if name not in self.prepared:
            self.prepared[name] = make()
        made: _Made = self.prepared[name]
        return made

    def remembered(self, name: str, key: Hashable, by: object, make: Callable[[], _Made]) -> _Made:
        """What `make` makes of these atoms for a key, made once for all searches that go by the same object."""
        kept: dict[Hashable, tuple[object, _Made]] = self.prepared.setdefault(name, {})
        found = kept.get(key)
        if found is None or found[0] is not by:
            if len(kept) >= _MOST_REMEMBERED:
                kept.clear()
            found = kept[key] = (by, make())
        return found[1]

    def without(self, rows: NDArray[np.int64]) -> AtomSet:
        """The same, but for atoms that are no longer to be found."""
        removed = np.zeros(self.store.shape[0], dtype=np.bool_) if self.removed is None else self.removed.copy()
        if removed[rows].any():
            raise ValueError(f"indices holds {rows[removed[rows]][0]}, which has been removed before")
        removed[rows] = True
        return replace(self, removed=removed, ids=None if self.ids is None else self.ids.without(removed))

    @property
    def seen_range(self) -> tuple[float, float] | None:
        """Smallest and largest entry, if somebody has looked."""
        return None if self.facts is None else (self.facts.low, self.facts.high)

    @property
    def known_range(self) -> tuple[float, float] | None:
        """An interval that holds every entry, if somebody has looked, or the type of the entries tells."""
        return self.seen_range or _DTYPE_RANGES.get(self.store.dtype.str[1:])


def check_range(known: tuple[float, float] | None, options: Options) -> None:
    """Refuse a range of the atoms' entries that is known not to hold them; `known` is what `fit` has seen."""
    given = options.value_range
    if known is not None and given is not None and not given[0] <= known[0] <= known[1] <= given[1]:
        raise ValueError(f"value_range is {given}, but the atoms' entries lie between {known[0]} and {known[1]}")


def check_seed(store: AtomStore, options: Options) -> None:
    """Refuse a seed whose coordinates are not the ones that were packed."""
    from banditmips.atoms.packed import PackedStore

    if isinstance(store, PackedStore) and store.seed != options.seed:
        raise ValueError(f"seed must be {store.seed}, with which these atoms were packed, got {options.seed}")


def candidates_of(
    n: int, excluded: NDArray[np.bool_] | None, removed: NDArray[np.bool_] | None
) -> NDArray[np.int64] | None:
    """The atoms that take part; None for all."""
    if excluded is None and removed is None:
        return None
    out = np.zeros(n, dtype=np.bool_)
    for mask in (excluded, removed):
        if mask is not None:
            out |= mask
    return np.flatnonzero(~out) if out.any() else None


def describe(atoms: AtomSet) -> str:
    """Say in words what there is."""
    n, d = atoms.store.shape
    parts = [f"atoms: {n:,} x {d:,}, {atoms.store.dtype}"]
    if atoms.codes is not None:
        parts.append(f"codes of {atoms.codes.n_bits} bit{'s' if atoms.codes.n_bits > 1 else ''}")
    if atoms.axes is not None:
        n_axes = len(atoms.axes.directions)
        parts.append(f"their products with {n_axes} {'axes' if n_axes > 1 else 'axis'}")
    if atoms.cache is not None:
        parts.append(f"{atoms.cache.n_coordinates} coordinates of each atom are kept")
    if atoms.buckets is not None:
        parts.append(f"{atoms.buckets.n_bins:,} bins of {atoms.buckets.size:,} atoms by norm")
    if atoms.by_column is not None:
        parts.append("a copy by coordinate")
    if atoms.facts is None:
        parts.append("nothing known of them")
    return "; ".join(parts)
