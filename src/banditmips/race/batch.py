"""Plain queries that come together: each by its own race, and those for which none pays by one product for all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from banditmips._threads import map_in_order
from banditmips.atoms import DenseStore
from banditmips.core.answer import Times
from banditmips.core.loop import Outcome
from banditmips.race.costs import costs
from banditmips.race.direct import Answer, DirectSearch, Waiting, by_all_products
from banditmips.race.full import can_use_blas
from banditmips.race.known import index_rows
from banditmips.race.plan import REGRET, SamplingPlan, code_times, is_worth_a_race, may_be_certain
from banditmips.race.rules import least_sample
from banditmips.race.together import Found, Together

if TYPE_CHECKING:
    from banditmips._search_options import Options
    from banditmips.race.atom_set import AtomSet

__all__ = ["ASKED_TOGETHER", "Account", "answer_batch", "at_places", "nothing_to_try", "races_on_codes", "shared_times"]

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


def nothing_to_try(atoms: AtomSet, k: int, options: Options, n_queries: int) -> bool:
    """Whether the products that so many queries share take less than any race of one of them could.

    That is so for atoms in memory, wherever nothing is asked for but time.
    """
    if options.delta == 0.0:
        return not options.trace and options.budget is None
    if not asks_for_time(atoms, options):
        return False
    n, d = atoms.store.shape
    here, itemsize = costs(), atoms.store.dtype.itemsize
    if races_on_codes(atoms, options):
        assert atoms.codes is not None
        times = shared_times(atoms, n_queries)
        return not (may_be_certain(here, times, n, k) or is_worth_a_race(here, times, atoms.codes, n, k, n_queries))
    first = least_sample(options, k, n)
    plans = [SamplingPlan(here, n, d, itemsize, n_queries, weighted, k) for weighted in (True, False)]
    return not any(plan.can_pay(first) for plan in plans)


def asks_for_time(atoms: AtomSet, options: Options) -> bool:
    """Whether nothing is asked for but the best in the least time, in whatever way."""
    return (
        options.minimise == "time"
        and options.epsilon == 0.0
        and options.rescore
        and options.budget is None
        and options.bound in ("auto", "codes")
        and options.sampling == "auto"
        and not options.replacement
        and not options.trace
        and atoms.buckets is None
        and atoms.cache is None
    )


def races_on_codes(atoms: AtomSet, options: Options) -> bool:
    """Whether nothing is asked for but time, and races would be those on codes."""
    return atoms.codes is not None and options.objective != "neg_l1" and asks_for_time(atoms, options)


def shared_times(atoms: AtomSet, n_queries: int) -> Times:
    """What the steps of a race on codes take, for one of so many queries to atoms in memory."""
    rows, store = index_rows(atoms), atoms.store
    assert rows is not None
    assert atoms.codes is not None
    by_blas = isinstance(store, DenseStore) and can_use_blas(store.array)
    return code_times(costs(), atoms.codes, rows.n, store.dtype.itemsize, rows.are_contiguous, by_blas, n_queries)


def answer_batch(atoms: AtomSet, rows: NDArray[Any], k: int, options: Options) -> list[Answer] | None:
    """Answer plain queries; None where atoms, options or one of the queries are not of the plain kind."""
    direct = DirectSearch(atoms, k, options, len(rows))
    if not direct.serves:
        return None
    account = None if direct.times is None else Account(direct.times.full, len(rows), direct.more_time)
    begun: list[Answer | Waiting] = []
    for start in range(0, len(rows), ASKED_TOGETHER):
        if account is not None and not account.allows_more:
            break
        if account is not None:
            direct.share_products(account.n_sharing)

        def begin(row: NDArray[Any]) -> Answer | Waiting | None:
            return direct.begin(atoms, row)

        for one in map_in_order(begin, list(rows[start : start + ASKED_TOGETHER]), options.n_jobs):
            if one is None:
                return None
            if account is not None:
                raced = one.begun if isinstance(one, Waiting) else one
                spent = 0.0 if raced is None else raced.time_spent
                account.add(spent + direct.certain_time, isinstance(one, Waiting))
            begun.append(one)
    answers = {place: one for place, one in enumerate(begun) if isinstance(one, Answer)}
    places = [place for place in range(len(rows)) if place not in answers]
    if places:
        together, left = Together(atoms, k, options), at_places(rows, places)
        measured = together.measure(left)
        found = together.best(left, measured, None) if measured.fine.all() else None
        if found is None:
            return None
        waiting = {place: one.begun for place, one in enumerate(begun) if isinstance(one, Waiting)}
        answers |= _answers(found, places, waiting, atoms.store.shape[0], options.delta)
    return [answers[place] for place in range(len(rows))]


def _answers(
    found: Found, places: Sequence[int], raced: Mapping[int, Outcome | None], n: int, delta: float
) -> dict[int, Answer]:
    """What was found for queries at some places by their products with n atoms, after what their races had come to."""
    answers = {}
    for t, place in enumerate(places):
        n_nonzero, n_close = int(found.n_nonzero[t]), int(found.n_close[t])
        answer = by_all_products((found.indices[t], found.scores[t]), n, n_nonzero, raced.get(place))
        if n_close:
            answer.n_multiplies += n_close * n_nonzero
            answer.n_survivors, answer.delta_spent = n_close, delta
        answers[place] = answer
    return answers


def at_places(rows: NDArray[Any], places: Sequence[int]) -> NDArray[Any]:
    """Some of the rows; no copy is made of those that lie one after another."""
    first, stop = places[0], places[-1] + 1
    return rows[first:stop] if stop - first == len(places) else rows[list(places)]
