"""Plain queries, which most searches are: straight to the core."""

from __future__ import annotations

from copy import copy
from functools import partial
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np
from numpy.typing import NDArray

from banditmips.atoms import DenseStore
from banditmips.core.answer import Direct, Times
from banditmips.core.certain import MeasuredQuery
from banditmips.core.outcome import Outcome
from banditmips.core.products import best_of, best_of_all, best_of_rows
from banditmips.core.survivors import Survivors
from banditmips.race.code_search import code_search, race_times
from banditmips.race.costs import costs
from banditmips.race.full import can_use_blas, products_with_one
from banditmips.race.known import known_of
from banditmips.race.plan import (
    SamplingPlan,
    coordinates_needed,
    full_time,
    is_worth_a_race,
    may_be_certain,
    probe_quantile,
)
from banditmips.race.rules import least_sample
from banditmips.race.sampling import EVEN_ENOUGH
from banditmips.race.situation import FEW_ENTRIES

if TYPE_CHECKING:
    from banditmips._search_options import Options
    from banditmips.core.plain import PlainKind
    from banditmips.race.atom_set import AtomSet

__all__ = ["DirectSearch", "Waiting", "are_plain", "by_all_products", "plain_row", "plain_rows", "squares_of"]

_PLAIN = {"objective": "inner_product", "sampling": "auto", "replacement": False, "minimise": "time"}

_NO_SAMPLING: dict[bool, SamplingPlan | None] = {True: None, False: None}
"""Plans by whether coordinates have weights, where sampling cannot pay."""


def plain_row(queries: Any, d: int) -> TypeGuard[NDArray[Any]]:
    """Whether these are one row of native floats."""
    return are_plain(queries) and queries.ndim == 1 and queries.size == d


def plain_rows(queries: Any, d: int) -> TypeGuard[NDArray[Any]]:
    """Whether these are several rows of native floats."""
    return are_plain(queries) and queries.ndim == 2 and queries.shape[0] > 1 and queries.shape[1] == d


def are_plain(queries: Any) -> bool:
    """Whether these are native floats, one row after another."""
    return (
        type(queries) is np.ndarray
        and queries.dtype in (np.float32, np.float64)
        and queries.dtype.isnative
        and queries.flags.c_contiguous
    )


class Waiting:
    """A plain query that waits for its products with all atoms; `begun` is what its race has come to, if any."""

    __slots__ = ("begun", "n_nonzero", "time_spent")
    waits = True

    def __init__(self, query: MeasuredQuery, begun: Outcome | None) -> None:
        self.n_nonzero, self.begun = query.n_nonzero, begun
        self.time_spent = 0.0 if begun is None else begun.time_spent

    def add_multiplies(self, n_before: int) -> None:
        """Count what was multiplied before."""
        if self.begun is not None:
            self.begun.n_multiplies += n_before


class DirectSearch:
    """Plain queries for one set of atoms (or one shape of bare arrays), one k and one set of options.

    Parameters
    ----------
    n_queries : int
        Queries that come together and would share their products.

    Attributes
    ----------
    serves : bool
        Whether these atoms and options are of the plain kind.
    dtype : NumPy dtype
        Of the atoms.
    contiguous : bool
        Whether rows of the atoms lie one after another.
    compiled : Direct or None
        What looks at a query and its certain bounds, where races may pay.
    times : Times or None
        What the steps of a race take; None where all products take less than any race.
    certain_time : float
        Nanoseconds of certain bounds.
    kind : PlainKind or None
        What answers such searches in one compiled call, if somebody has made it.
    """

    def __init__(self, atoms: AtomSet, k: int, options: Options, n_queries: int = 1) -> None:
        self.k, self.options, self.dtype, self._n_queries = k, options, atoms.store.dtype, n_queries
        self.serves = self.is_plain(atoms, k, options)
        self.compiled: Direct | None = None
        self.times: Times | None = None
        self.contiguous, self.certain_time = False, 0.0
        self.kind: PlainKind | None = None
        self._sampling: dict[bool, SamplingPlan | None] = _NO_SAMPLING.copy()
        if not self.serves:
            return
        store, here = atoms.store, costs()
        assert isinstance(store, DenseStore)
        assert store.rows is not None
        n, d = store.shape
        self.contiguous = contiguous = store.array.flags.c_contiguous
        self._sweeps = contiguous and here.sweeps(store.array.size)
        self._by_columns = here.by_columns(n, d, store.dtype.itemsize, k)
        if atoms.codes is None:
            self._first = least_sample(options, k, n)
            for weighted in (True, False):
                plan = SamplingPlan(here, n, d, store.dtype.itemsize, n_queries, weighted, k)
                self._sampling[weighted] = plan if plan.can_pay(self._first) else None
            self.serves = options.epsilon == 0.0 or self._sampling == _NO_SAMPLING
            return
        times = copy(race_times(atoms, options, n_queries))  # how many share their products may turn out later
        # The queries of a batch may try whether certain bounds are enough: what they lose by that is written down.
        tries = n_queries > 1 and may_be_certain(here, times, n, k)
        if tries or is_worth_a_race(here, times, atoms.codes, n, k, n_queries):
            self.serves = options.epsilon == 0.0  # a race that may end sooner is another one
            self.times, self.certain_time, self._n_sharing = times, n * here.bound, n_queries
            self._full_time = partial(full_time, here, n, d, store.dtype.itemsize, True, contiguous=contiguous)
            self.compiled = Direct(store.rows, known_of(atoms), (k, options.absolute, options.delta), times)

    @property
    def needs_products(self) -> bool:
        """Whether nothing is tried before the products with all atoms."""
        return self.serves and self.compiled is None and self._sampling == _NO_SAMPLING

    @property
    def sweeps(self) -> bool:
        """Whether that is so, and our own loop computes them."""
        return self.needs_products and self._sweeps

    @property
    def _is_alone(self) -> bool:
        """Whether nobody writes down what races come to but this."""
        return self._n_queries == 1

    def share_products(self, n_queries: int) -> None:
        """Expect so many queries to share their products."""
        assert self.times is not None
        if n_queries != self._n_sharing:
            self._n_sharing, self.times.full = n_queries, self._full_time(n_queries)

    @staticmethod
    def is_plain(atoms: AtomSet, k: int, options: Options) -> bool:
        """Whether these atoms and options are of the plain kind."""
        return (
            isinstance(atoms.store, DenseStore)
            and can_use_blas(atoms.store.array)
            and 1 <= k <= atoms.store.shape[0]
            and atoms.removed is None
            and atoms.buckets is None
            and atoms.cache is None
            and (atoms.facts is not None or atoms.codes is None)
            and (options.bound == "auto" or (options.bound == "codes" and atoms.codes is not None))
            and options.value_range is None
            and options.budget is None
            and (options.rescore or atoms.codes is None)
            and options.delta > 0.0
            and all(getattr(options, name) == value for name, value in _PLAIN.items())
        )

    def answer(self, atoms: AtomSet, row: NDArray[Any]) -> Outcome | None:
        """Answer a query; None where it turns out not to be plain."""
        query = MeasuredQuery(row)
        return self._by_products(atoms, query, self._begin(atoms, query))

    def go_on(
        self, atoms: AtomSet, query: MeasuredQuery, alive: Survivors | None, n_certain: int = 0
    ) -> Outcome | None:
        """Answer a query of which certain bounds have left these, after so many of which they left few.

        Where they were not asked (None), by its products. None where it turns out not to be plain.
        """
        assert self.times is not None
        past = code_search(atoms, self.k, self.options).past()
        if n_certain:
            past.add_certain(n_certain, self.times.full - self.certain_time - self.k * self.times.row)
        if alive is None:
            past.leave_out()
            return self._by_products(atoms, query, Waiting(query, None))
        return self._by_products(atoms, query, self._by_codes(atoms, query, alive))

    def _by_products(self, atoms: AtomSet, query: MeasuredQuery, begun: Outcome | Waiting | None) -> Outcome | None:
        """Answer a query that waits by all products; others as they are."""
        if not isinstance(begun, Waiting):
            return begun
        store, row = atoms.store, query.given
        assert isinstance(store, DenseStore)
        assert store.rows is not None
        n, k, absolute = store.shape[0], self.k, self.options.absolute
        if self._by_columns and store.rows.are_columns:
            best = best_of(np.arange(n), store.rows.column_products(query.exact, 0, n), k, absolute)
        elif self._sweeps and row.dtype == store.dtype:
            best = best_of_rows(store.rows, squares_of(atoms), row, query.squares, (k, absolute))
        else:
            with np.errstate(over="ignore", invalid="ignore"):
                products = products_with_one(store.array, row.astype(store.dtype, copy=False))
            best = best_of_all(products, squares_of(atoms), store.rows, query, k, absolute)
        return None if best is None else by_all_products((best.indices, best.scores), n, begun.n_nonzero, begun.begun)

    def begin(self, atoms: AtomSet, row: NDArray[Any]) -> Outcome | Waiting | None:
        """Answer a query if that takes less than its products; None where it turns out not to be plain."""
        begun = self._begin(atoms, MeasuredQuery(row))
        if begun is not None:
            begun.time_spent += self.certain_time
        return begun

    def _begin(self, atoms: AtomSet, query: MeasuredQuery) -> Outcome | Waiting | None:
        # Of a query with few entries only their columns are read, elsewhere.
        if not query.is_fine or FEW_ENTRIES * query.n_nonzero <= query.given.size:
            return None
        if self.compiled is None:
            return None if atoms.codes is None and self._may_sample(atoms, query) else Waiting(query, None)
        if self._is_alone and not code_search(atoms, self.k, self.options).may_race():
            return Waiting(query, None)
        alive = self.compiled.survivors(query)
        if self.compiled.few(alive):
            found = self.compiled.finish(alive, query)
            if found is None:
                return None
            best, n_read = found
            answer = Outcome.finished(best.indices, best.scores, n_read * query.n_nonzero, best_first=True)
            answer.n_survivors = answer.n_raced = alive.n
            assert self.times is not None
            answer.time_spent = n_read * self.times.row
            return answer
        return self._by_codes(atoms, query, alive)

    def _may_sample(self, atoms: AtomSet, query: MeasuredQuery) -> bool:
        """Whether a probe of a few atoms says that sampling would pay: then it is done elsewhere."""
        plan, options = self._sampling[query.unevenness > EVEN_ENOUGH], self.options
        if plan is None:
            return False
        quantile = probe_quantile(plan.n, self.k, options.delta)
        needed = coordinates_needed(atoms.store, query.exact, quantile, self.k, options.seed, options.absolute)
        return plan.pays(max(needed, self._first), self._first)

    def _by_codes(self, atoms: AtomSet, query: MeasuredQuery, alive: Survivors) -> Outcome | Waiting | None:
        assert self.times is not None
        search = code_search(atoms, self.k, self.options)
        outcome = search.race(atoms, query, alive, self.times)
        if self._is_alone:
            search.write_down(outcome, self.certain_time)
        return outcome if outcome is None or not outcome.waits else Waiting(query, outcome)


def squares_of(atoms: AtomSet) -> NDArray[Any] | None:
    """The atoms' sums of squares in their own type, if they are known."""
    if "squares" not in atoms.prepared:
        with np.errstate(over="ignore"):
            known = None if atoms.facts is None else atoms.facts.squared_norms.astype(atoms.store.dtype)
        atoms.prepared["squares"] = known
    squares: NDArray[Any] | None = atoms.prepared["squares"]
    return squares


def by_all_products(
    found: tuple[NDArray[np.int64], NDArray[np.float64]], n: int, n_nonzero: int, begun: Outcome | None
) -> Outcome:
    """What came of a query with so many entries by its products with n atoms, after what its race had come to."""
    answer = Outcome.finished(*found, n * n_nonzero, begun, best_first=True)
    if begun is None:
        answer.n_survivors = answer.n_raced = n
    return answer
