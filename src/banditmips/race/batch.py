"""Plain queries that come together: each by its own race, and those for which none pays by one product for all."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from banditmips._threads import map_in_order
from banditmips.atoms import DenseStore
from banditmips.race.direct import Answer, DirectSearch, Waiting
from banditmips.race.full import products_with_all
from banditmips.race.plan import REGRET, TOGETHER

if TYPE_CHECKING:
    from banditmips._search_options import Options
    from banditmips.race.atom_set import AtomSet

__all__ = ["ASKED_TOGETHER", "Account", "answer_batch"]

ASKED_TOGETHER = 8
"""Queries after which it is asked again whether races pay: the same at any number of threads."""


class Account:
    """What races have cost, and what they have saved, by the plan's times.

    They may cost a twentieth of what the products of all queries would, and half of what they have saved.

    Parameters
    ----------
    full_time, more_time : float
        Nanoseconds of all products for one of the queries, where all share them, and for one more that shares them.
        Where some query needs its products, the others save no more than that.
    n_queries : int
    """

    def __init__(self, full_time: float, n_queries: int, more_time: float | None = None) -> None:
        self._full_time, self._more_time = full_time, full_time if more_time is None else more_time
        self._n_queries, self._spent = n_queries, 0.0
        self._n_won = self._n_lost = 0

    @property
    def allows_more(self) -> bool:
        """Whether more races may be tried."""
        saved = self._n_won * (self._more_time if self._n_lost else self._full_time) - self._spent
        return REGRET * self._full_time * self._n_queries + (0.5 * saved if saved > 0.0 else saved) > 0.0

    @property
    def n_sharing(self) -> int:
        """How many queries are likely to share their products, by those that have tried."""
        tried = self._n_won + self._n_lost
        return max(1, self._n_queries * self._n_lost // tried) if tried else self._n_queries

    def add(self, time_spent: float, in_vain: bool) -> None:
        """Write down how a query went that was allowed to try: what that took, and whether in vain."""
        self._spent += time_spent
        self._n_lost += in_vain
        self._n_won += not in_vain


def answer_batch(atoms: AtomSet, rows: NDArray[Any], k: int, options: Options) -> list[Answer] | None:
    """Answer plain queries; None where atoms, options or one of the queries are not of the plain kind."""
    direct = DirectSearch(atoms, k, options, len(rows))
    if not direct.serves:
        return None
    account = None if direct.times is None else Account(direct.times.full, len(rows), direct.more_time)
    begun: list[Answer | Waiting] = []
    for start in range(0, len(rows), ASKED_TOGETHER):
        races = account is not None and account.allows_more
        if account is not None:
            direct.share_products(account.n_sharing)

        def begin(row: NDArray[Any], races: bool = races) -> Answer | Waiting | None:
            return direct.begin(atoms, row, races)

        for one in map_in_order(begin, list(rows[start : start + ASKED_TOGETHER]), options.n_jobs):
            if one is None:
                return None
            if account is not None and races:
                raced = one.begun if isinstance(one, Waiting) else one
                spent = 0.0 if raced is None else raced.time_spent
                account.add(spent + direct.certain_time, isinstance(one, Waiting))
            begun.append(one)
    return _finished(atoms, direct, rows, begun)


def _finished(
    atoms: AtomSet, direct: DirectSearch, rows: NDArray[Any], begun: list[Answer | Waiting]
) -> list[Answer] | None:
    """Let those that wait share their products."""
    store = atoms.store
    assert isinstance(store, DenseStore)
    waiting = [(place, one) for place, one in enumerate(begun) if isinstance(one, Waiting)]
    for start in range(0, len(waiting), TOGETHER):
        some = waiting[start : start + TOGETHER]
        places = [place for place, _ in some]
        close = direct.close_by_bytes(atoms, [one for _, one in some])
        left = [t for t, found in enumerate(close) if found is None]
        answers = direct.finish(
            atoms, [one for _, one in some], close, _products(store, rows, [places[t] for t in left])
        )
        if answers is None:
            return None
        for place, answer in zip(places, answers, strict=True):
            begun[place] = answer
    return begun  # type: ignore[return-value]


def _products(store: DenseStore, rows: NDArray[Any], places: list[int]) -> NDArray[Any]:
    """Products of all atoms with the queries at these places."""
    if not places:
        return np.empty((0, store.shape[0]), dtype=store.dtype)
    first, stop = places[0], places[-1] + 1
    # Rows one after another need no copy.
    together = rows[first:stop] if stop - first == len(places) else rows[places]
    with np.errstate(over="ignore", invalid="ignore"):
        return products_with_all(store.array, together.astype(store.dtype, copy=False))
