"""Plain queries that come together: each by its own race, and those for which none pays by one product for all."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import inf
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from numpy.typing import NDArray

from banditmips._threads import map_in_order
from banditmips.core.answer import Times
from banditmips.core.outcome import Outcome
from banditmips.race.code_search import code_search, race_times
from banditmips.race.costs import Costs, costs
from banditmips.race.direct import DirectSearch, Waiting, by_all_products
from banditmips.race.known import index_rows
from banditmips.race.plan import REGRET, TOGETHER, SamplingPlan, is_worth_a_race, may_be_certain
from banditmips.race.rounded import are_likely, times_by_bytes
from banditmips.race.rules import compares_pairs, least_sample
from banditmips.race.together import Found, Together

if TYPE_CHECKING:
    from banditmips._search_options import Options
    from banditmips.race.atom_set import AtomSet

__all__ = [
    "ASKED_TOGETHER",
    "Account",
    "account_of",
    "answer_batch",
    "at_places",
    "begin_while_it_pays",
    "may_sample",
    "nothing_to_try",
    "race_again",
    "races_on_codes",
]

ASKED_TOGETHER = 8
"""Queries after which it is asked again whether races pay, where rows come from a file or another machine."""
_FIRST_TRIED = 2
"""Queries that show what a race takes: the same at any number of threads, like all that is asked here."""
_MOST_IN_VAIN = 8
"""Queries after which races end that have saved nothing: more that come to nothing as these did would be a loss."""
_WORTH_THREADS = 2e5
"""Nanoseconds of a race from which two threads are faster than one: in shorter ones they wait for the interpreter's
lock (measured: 64 races of 60 or 120 microseconds took as long in two, or longer, of 300 a little more than half)."""


class Account:
    """What races have cost, and what they have saved, by the plan's times.

    They may cost a twentieth of what the products of all queries would, and half of what they have saved; and they end
    after a few if they have saved nothing.

    Parameters
    ----------
    full_time, more_time : float
        Nanoseconds of all products for one of the queries, where all share them, and for one more that shares them,
        with the rows returned. Where most queries need their products, the others save no more than the latter.
    n_queries : int
    """

    def __init__(self, full_time: float, n_queries: int, more_time: float | None = None) -> None:
        self._full_time, self._more_time = full_time, full_time if more_time is None else more_time
        self._n_queries, self._spent = n_queries, 0.0
        self._n_won = self._n_lost = 0

    @property
    def saved(self) -> float:
        """What they have saved so far; less than 0 is what they have lost."""
        # Those that wait race again if they are few, and then nobody needs the products that all would share.
        share = self._full_time if 2 * self._n_lost <= self._n_tried else self._more_time
        return self._n_won * share - self._spent

    @property
    def _allowance(self) -> float:
        """What more races may cost."""
        saved = self.saved
        return REGRET * self._full_time * self._n_queries + (0.5 * saved if saved > 0.0 else saved)

    @property
    def _n_tried(self) -> int:
        return self._n_won + self._n_lost

    @property
    def allows_more(self) -> bool:
        """Whether more races may be tried."""
        return self._allowance > 0.0 and (self.saved > 0.0 or self._n_tried < _MOST_IN_VAIN)

    @property
    def n_allowed(self) -> int:
        """How many may be tried before it is asked again: as many as could all come to nothing."""
        if not self.allows_more:
            return 0
        if self._spent == 0.0:
            return _FIRST_TRIED
        allowed = max(1, int(self._n_tried * self._allowance / self._spent))
        return allowed if self.saved > 0.0 else min(allowed, _MOST_IN_VAIN - self._n_tried)

    @property
    def are_long(self) -> bool:
        """Whether races take so long that threads help."""
        return self._spent >= _WORTH_THREADS * self._n_tried

    @property
    def n_sharing(self) -> int:
        """How many queries are likely to share their products, by those that have tried."""
        tried = self._n_tried
        return max(1, self._n_queries * self._n_lost // tried) if tried else self._n_queries

    def add(self, time_spent: float, in_vain: bool) -> None:
        """Write down how a query went that was allowed to try: what that took, and whether in vain."""
        self._spent += time_spent
        self._n_lost += in_vain
        self._n_won += not in_vain


class _Tried(Protocol):
    """A query that was allowed to race: what that took by the plan's times, and whether it needs its products."""

    @property
    def time_spent(self) -> float: ...

    @property
    def waits(self) -> bool: ...


Tried = TypeVar("Tried", bound=_Tried)


def begin_while_it_pays(begin: Callable[[int, int], Tried], account: Account, m: int, n_jobs: int) -> Iterator[Tried]:
    """Begin queries, and stop where races cost more than they save.

    `begin` takes the number of a query, and how many are likely to share their products.
    """
    start = 0
    while start < m and (allowed := account.n_allowed) > 0:
        stop, n_sharing = min(start + allowed, m), account.n_sharing
        n_threads = n_jobs if account.are_long else 1
        for one in map_in_order(lambda i, n=n_sharing: begin(i, n), range(start, stop), n_threads):  # type: ignore[misc]
            account.add(one.time_spent, one.waits)
            yield one
        start = stop


def race_again(begun: Sequence[Tried], again: Callable[[int, int], None], n_sharing: int) -> None:
    """Let those that wait race once more, where they are far fewer than were expected to share their products.

    `again` takes the number of a query, and how many really share.
    """
    waiting = [i for i, one in enumerate(begun) if one.waits]
    while 0 < 2 * len(waiting) <= n_sharing:
        n_sharing = len(waiting)
        for i in waiting:
            again(i, n_sharing)
        waiting = [i for i in waiting if begun[i].waits]


def nothing_to_try(atoms: AtomSet, k: int, options: Options, n_queries: int) -> bool:
    """Whether the products that so many queries share take less than any race of one of them could.

    That is so for atoms in memory, wherever nothing is asked for but time.
    """
    if options.delta == 0.0:
        return not options.trace and options.budget is None
    if not asks_for_time(atoms, options):
        return False
    here = costs()
    if atoms.codes is not None and options.objective != "neg_l1":
        if n_queries > 1 and not options.trace and not code_search(atoms, k, options).past(n_queries).allows_races:
            return True
        kind = k, options, n_queries
        return not atoms.remembered("races to try", kind, here, lambda: _may_race(here, atoms, *kind))
    return not may_sample(atoms, k, options, n_queries)


def may_sample(atoms: AtomSet, k: int, options: Options, n_queries: int) -> bool:
    """Whether sampling coordinates of atoms in memory may take less than the products that so many queries share."""
    n, d = atoms.store.shape
    itemsize, first = atoms.store.dtype.itemsize, least_sample(options, k, n)
    n_leaders = k if compares_pairs(options) else 1
    plans = [SamplingPlan(costs(), n, d, itemsize, n_queries, weighted, n_leaders) for weighted in (True, False)]
    return any(plan.can_pay(first) for plan in plans)


def _may_race(here: Costs, atoms: AtomSet, k: int, options: Options, n_queries: int) -> bool:
    """Whether a race on codes of one of so many queries may take less than the products that they share."""
    assert atoms.codes is not None
    n, times = atoms.store.shape[0], race_times(atoms, options, n_queries)
    # Certain bounds alone are tried for plain queries, elsewhere.
    is_tried = n_queries > 1 and options.epsilon == 0.0 and DirectSearch.is_plain(atoms, k, options)
    # The first of a batch may all come to nothing.
    most = 2.0 * REGRET * n_queries * times.full / _FIRST_TRIED if n_queries > 1 else inf
    bounds = here.call_overhead + n * here.bound
    may_be = is_tried and bounds <= most and may_be_certain(here, times, n, k)
    may_race = times.prepare + n * times.atom <= most
    return may_be or (may_race and is_worth_a_race(here, times, atoms.codes, n, k, n_queries))


def asks_for_time(atoms: AtomSet, options: Options) -> bool:
    """Whether nothing is asked for but the best in the least time, in whatever way; perhaps a record of it."""
    return (
        options.minimise == "time"
        and options.budget is None
        and not options.says_how_to_sample
        and atoms.buckets is None
        and atoms.cache is None
    )


def races_on_codes(atoms: AtomSet, options: Options) -> bool:
    """Whether nothing is asked for but time, and races would be those on codes, of which no record is wanted."""
    is_kind = atoms.codes is not None and options.objective != "neg_l1" and not options.trace
    return is_kind and asks_for_time(atoms, options)


def account_of(atoms: AtomSet, queries: NDArray[Any], k: int, options: Options, times: Times) -> Account:
    """What races of these queries on codes may cost, beside the products that they would share."""
    rows, here, m = index_rows(atoms), costs(), len(queries)
    assert rows is not None
    itemsize, returned = atoms.store.dtype.itemsize, k * times.row
    full, more = times.full, rows.n * rows.d * here.one_more * max(itemsize / 4, 1.0)
    if options.objective != "neg_l1":
        shared, own = times_by_bytes(rows, min(m, TOGETHER), k)
        by_bytes = shared / min(m, TOGETHER) + own
        if min(by_bytes - full, own - more) < 0.0 and are_likely(rows, queries, k, options.absolute, options.delta):
            full, more = min(full, by_bytes), min(more, own)
    return Account(full + returned, m, more + returned)


def answer_batch(atoms: AtomSet, rows: NDArray[Any], k: int, options: Options) -> list[Outcome] | None:
    """Answer plain queries; None where atoms, options or one of the queries are not of the plain kind."""
    direct = DirectSearch(atoms, k, options, len(rows))
    if not direct.serves:
        return None
    begun = _begin_plain(direct, atoms, rows)
    if begun is None:
        return None
    answers = {place: one for place, one in enumerate(begun) if isinstance(one, Outcome)}
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


def _begin_plain(direct: DirectSearch, atoms: AtomSet, rows: NDArray[Any]) -> list[Outcome | Waiting] | None:
    """Begin plain queries as long as races pay; None where one of them is not plain."""
    m, n_jobs, times = len(rows), direct.options.n_jobs, direct.times

    def begin(i: int, n_sharing: int = 1) -> Outcome | Waiting:
        if times is not None:
            direct.share_products(n_sharing)
        one = direct.begin(atoms, rows[i])
        if one is None:
            raise _NotPlainError
        return one

    def again(i: int, n_sharing: int) -> None:
        before = begun[i]
        begun[i] = begin(i, n_sharing)
        if isinstance(before, Waiting) and before.begun is not None:
            begun[i].add_multiplies(before.begun.n_multiplies)

    try:
        if times is None:
            return list(map_in_order(begin, range(m), n_jobs))
        account = account_of(atoms, rows, direct.k, direct.options, times)
        begun = list(begin_while_it_pays(begin, account, m, n_jobs))
        code_search(atoms, direct.k, direct.options).past(m).add(account.saved)
        if len(begun) == m:
            race_again(begun, again, m)
    except _NotPlainError:
        return None
    return begun


class _NotPlainError(Exception):
    """A query that has to go another way."""


def _answers(
    found: Found, places: Sequence[int], raced: Mapping[int, Outcome | None], n: int, delta: float
) -> dict[int, Outcome]:
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
