"""The short way through a search: one compiled call for the common case, with little Python around it.

An `ExpressLane` is made for one set of atoms, one set of options and one k; it answers a query if the query fits, and
declines (returns None) otherwise, and then the general way of `_query` takes over. It serves inner products of dense
float32 or float64 atoms with the paired bound. What it does not serve: traces, budgets, epsilon, buckets, other bounds
and objectives, sampling with replacement, `sorted` and `optimal`.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from banditmips._result import StopReason
from banditmips._validate import Options
from banditmips.race import compiled, kernels
from banditmips.race.bounds import MIN_SCATTER_SEEN, round_share
from banditmips.race.costs import costs
from banditmips.race.gathered import gathered_race
from banditmips.race.planner import Plan, cached_sizes, gathered_sizes, plan_query

if TYPE_CHECKING:
    from banditmips._query import AtomSet

__all__ = ["ExpressAnswer", "ExpressLane", "Unfinished", "serves"]

_WHOLE_QUERY = 1 << 17
"""With ``rescore=False``, queries longer than this are not read whole, so that nothing costs d."""
_SUBSET_SIZE = 2048
"""Of such queries, weights are taken within a uniform subset of this size."""
_MAX_HEADS = 16
"""Coordinates that may be read for all atoms because the query stands out there: each costs a cache line an atom."""
_EVEN = 1.3
"""Without a cache, uniform sampling is as good as weighted up to this unevenness, and needs no keys for the weights."""
_HAS_NO_ZEROS, _HAS_NO_HEADS = 1.7, 3.0
"""Up to these, a query is not searched for zeros (a normal query is at 1.57) or for coordinates that stand out: one
coordinate then holds at most two thirds of the sum of squares, and what it adds to a score is well within a radius."""
_SPARSE = 1 / 32
"""Queries with fewer non-zeros than this part of d are raced and finished on their support alone."""
_WAYS = {
    "blas": "all products at once",
    "cache": "race on cached coordinates, then exact products of the survivors",
    "gather": "race on coordinates read from the rows, then exact products of the survivors",
    "columns": "race on coordinates read from contiguous columns, then exact products of the survivors",
}
_NOTHING = np.empty(0, dtype=np.int64)
_NOTHING_KNOWN = np.empty(0)
_ROUND_SHARES = np.cumsum([0.0, *(round_share(r) for r in range(1, 1001))])
"""Part of delta spent after 0, 1, 2, ... rounds."""


@dataclass
class ExpressAnswer:
    """A finished search, best first."""

    indices: NDArray[np.int64]
    scores: NDArray[np.float64]
    radius: NDArray[np.float64]
    exact: bool
    n_multiplies: int
    n_rounds: int
    n_survivors: int
    stop_reason: StopReason
    delta_spent: float


@dataclass
class Unfinished:
    """A race that ran out of prepared coordinates: the general loop goes on from here.

    `n_coordinates` of the general loop's own order have been played (0 if it must begin anew with the survivors), and
    `seen` are coordinates that have been read beside those.
    """

    survivors: NDArray[np.int64]
    uniform: bool
    n_coordinates: int
    n_rounds: int
    n_multiplies: int
    seen: NDArray[np.int64]


@lru_cache(maxsize=256)
def _quantiles(sizes: tuple[Any, ...], n_pairs: int, delta: float) -> NDArray[np.float64]:
    """The Student quantile of each round, as in `bounds.PairedBound`."""
    tails = np.array([delta * round_share(r) / n_pairs for r in range(1, len(sizes) + 1)])
    table = -stdtrit(np.maximum(np.array(sizes) - 1, 1), tails)
    table.flags.writeable = False
    return np.asarray(table)


class _Workspace(threading.local):
    """Arrays that one thread uses again and again."""

    def __init__(self) -> None:
        self.shape: tuple[Any, ...] = ()

    def fit(self, n: int, length: int, k: int, dtype: np.dtype[Any], gathered: int) -> None:
        """Make the arrays, unless they are there from the last search."""
        shape = (n, length, k, dtype, gathered)
        if shape == self.shape:
            return
        self.shape = shape
        self.rows = np.empty(n, dtype=np.int64)
        self.estimates = np.empty(n)
        self.ranking = np.empty(n)
        self.offsets = np.zeros(n)
        self.needed_scatter = np.empty(n)
        self.alive = np.empty(n, dtype=np.bool_)
        self.beaten = np.empty(n, dtype=np.bool_)
        self.trusted = np.ones(n, dtype=np.bool_)
        self.leaders = np.empty(k + 1, dtype=np.int64)
        self.columns = np.empty((4, n), dtype=dtype)
        self.vectors = np.empty((5, length), dtype=dtype)
        self.values = np.empty((n, gathered), dtype=dtype)
        self.scratch = np.empty((2, 1 << 13))
        self.groups = np.empty((2, 1 << 13))
        self.everything = np.arange(n)


_workspace = _Workspace()


def serves(atom_set: AtomSet, options: Options) -> bool:
    """Whether the options and the atoms are of the common kind."""
    from banditmips.atoms import DenseStore

    if not isinstance(atom_set.store, DenseStore) or atom_set.buckets is not None:
        return False
    array = atom_set.store.array
    return (
        array.dtype in (np.float32, np.float64)
        and array.dtype.isnative
        and (array.flags.c_contiguous or array.flags.f_contiguous)
        and options.bound == "paired"
        and options.objective == "inner_product"
        and options.sampling in ("auto", "weighted", "uniform")
        and not options.replacement
        and not options.trace
        and options.budget is None
        and options.epsilon == 0.0
        and options.delta > 0.0
    )


class _Look(NamedTuple):
    """What a query looks like.

    Its unevenness, the coordinates where it stands out, how many non-zeros it has, and which, if they are few.
    """

    uneven: float
    heads: NDArray[np.int64]
    n_nonzero: int
    support: NDArray[np.int64] | None


class ExpressLane:
    """Answers queries of the common kind."""

    def __init__(self, atom_set: AtomSet, options: Options, k: int) -> None:
        self._set = atom_set
        self.options = options
        array = atom_set.store.array  # type: ignore[attr-defined]
        self._by_row: NDArray[Any] | None = array if array.flags.c_contiguous else None
        self._by_column: NDArray[Any] | None = atom_set.by_column if self._by_row is not None else array.T
        self._array: NDArray[Any] = array
        self._readable: NDArray[Any] = array if self._by_column is None else self._by_column
        self._n, self._d = array.shape
        self._k = k
        self._dtype = array.dtype
        self._rounding = 4.0 * float(np.finfo(array.dtype).eps)
        self._cached_plan = self._make_plan("cache")
        self._gathered_plan = self._make_plan("gather" if self._by_column is None else "columns")
        cached = atom_set.cache is not None and options.sampling != "weighted"
        self._prepared = False
        # Where every query goes to BLAS there is nothing to prepare, and a search of few microseconds shows it.
        self._always_blas = (self._cached_plan if cached else self._gathered_plan).way == "blas"

    def _prepare(self) -> None:
        """Make the tables of rounds, quantiles and scatters that races need."""
        if self._prepared:
            return
        options, facts, cache = self.options, self._set.facts, self._set.cache
        n_pairs = max(self._k * (self._n - self._k), 1) * (2 if options.absolute else 1)
        # A workspace of about a megabyte stays in the processor's cache.
        limit = min(self._d, max(128, min(1024, (1 << 18) // self._n)))
        sizes = gathered_sizes(limit) if self._by_column is None else cached_sizes(limit)
        self._gathered_sizes = np.array(sizes, dtype=np.int64)
        self._gathered_z = _quantiles(sizes, n_pairs, options.delta)
        # The scores' own intervals are two-sided, and there are n of them.
        self._gathered_score_z = _quantiles(sizes, 2 * self._n, options.delta)
        self._length = sizes[-1]
        self._centers = _NOTHING_KNOWN if facts is None else facts.means
        self._scatter = _NOTHING_KNOWN if facts is None else facts.scatter
        self._needed_scatter = MIN_SCATTER_SEEN * self._scatter
        if cache is not None:
            sizes = cached_sizes(cache.n_coordinates)
            self._cached_sizes = np.array(sizes, dtype=np.int64)
            self._cached_z = _quantiles(sizes, n_pairs, options.delta)
            self._cached_score_z = _quantiles(sizes, 2 * self._n, options.delta)
            means = np.zeros(self._n) if facts is None else facts.means
            self._scatters = cache.scatters(sizes, means, self._d)
            self._length = max(self._length, cache.n_coordinates)
        self._prepared = True

    def _make_plan(self, way: str) -> Plan:
        return plan_query(costs(), self._n, self._d, way, self._by_row is None, self.options.rescore)

    def _look(self, query: NDArray[Any]) -> _Look | None:
        """Look at the query before anything is read of the atoms; None if it is 0 or not finite."""
        if self._d > _WHOLE_QUERY and not self.options.rescore:
            cache, seed = self._set.cache, self.options.seed
            order = kernels.permuted_coordinates(seed, self._d, 0, 512) if cache is None else cache.order
            uneven = compiled.sampled_unevenness(query, order, min(512, order.size))
            return _Look(uneven, _NOTHING, self._d, None) if uneven < np.inf else None
        total, squares = compiled.query_moments(query)
        if not (squares < np.inf and total > 0.0):
            return None
        # At least d/uneven entries are not 0 (Cauchy-Schwarz), and none can hold most of the sum of squares.
        uneven = self._d * squares / (total * total)
        heads, n_nonzero = _NOTHING, self._d
        if uneven > _HAS_NO_ZEROS:
            n_nonzero = int(np.count_nonzero(query))
            if n_nonzero < _SPARSE * self._d:
                return _Look(np.inf, _NOTHING, n_nonzero, np.flatnonzero(query))
        if uneven > _HAS_NO_HEADS:
            heads = compiled.head_coordinates(query, total / self._d, _MAX_HEADS)
        return _Look(uneven, heads, n_nonzero, None)

    def plan(self, look: _Look) -> Plan:
        """Decide how to answer a query that looks like this."""
        cached = self._set.cache is not None and self.options.sampling != "weighted" and look.support is None
        return self._cached_plan if cached else self._gathered_plan

    def explain(self, query: NDArray[Any]) -> list[str]:
        """Say in words how a query would be answered, and why."""
        look = self._look(query.astype(self._dtype))
        cache = self._set.cache
        if look is None:
            return ["the query is 0 or not finite: nothing to race for"]
        kept = "nothing is cached" if cache is None else f"{cache.n_coordinates} coordinates of each atom are cached"
        copies = "a copy by coordinate" if self._by_column is not None else "no copy by coordinate"
        part = "" if look.n_nonzero == self._d else f", {look.n_nonzero} of its {self._d} entries are not 0"
        plan = self.plan(look)
        return [
            f"atoms: {self._n} x {self._d}, {self._dtype}; {kept}; {copies}",
            f"query: unevenness {look.uneven:.2f} (1 is even, normal entries have 1.57)"
            f"{part}; {look.heads.size} coordinates stand out",
            f"way: {plan.way} ({_WAYS[plan.way]})",
            f"because {plan.reason}",
        ]

    def answer(self, query: NDArray[Any], candidates: NDArray[np.int64] | None) -> ExpressAnswer | Unfinished | None:
        """Answer a query of d numbers, or decline.

        Parameters
        ----------
        query
            Float32 or float64. Where it or an atom turns out not to be finite, the query is declined.
        candidates
            The atoms that take part, ascending; None for all.
        """
        n_rows = self._n if candidates is None else candidates.size
        if n_rows <= self._k:
            return None
        given = query
        if query.dtype != self._dtype:
            with np.errstate(over="ignore"):
                query = given.astype(self._dtype)
        if self._always_blas and candidates is None:
            n_nonzero = int(np.count_nonzero(query))
            return self._all_products(query, given, n_nonzero) if n_nonzero else None
        look = self._look(query)
        if look is None:
            return None
        plan = self.plan(look)
        if plan.way == "blas" and candidates is None and look.support is None:
            return self._all_products(query, given, look.n_nonzero)
        self._prepare()
        space = _workspace
        space.fit(self._n, self._length, self._k, self._dtype, int(self._gathered_sizes[-1]))
        space.rows[:n_rows] = space.everything if candidates is None else candidates
        if plan is self._cached_plan:
            outcome = self._cached(query, look.heads, n_rows, candidates is None)
        elif self.options.sampling == "uniform":
            return None  # the general way passes over zeros of the query
        else:
            outcome = self._gathered(query, look, n_rows)
        if outcome[0] == compiled.NOT_FINITE or (outcome[3] == 0 and not self.options.rescore):
            return None
        return self._finish(query, given, outcome, plan, look, n_rows)

    def _cached(self, query: NDArray[Any], heads: NDArray[np.int64], n_rows: int, everything: bool) -> tuple[Any, ...]:
        cache, space, plan = self._set.cache, _workspace, self._cached_plan
        assert cache is not None
        space.alive[:] = everything
        if not everything:
            space.alive[space.rows[:n_rows]] = True
        needed = self._needed_scatter
        if heads.size:
            needed = space.needed_scatter if needed.size else needed
            compiled.read_heads(
                self._readable,
                self._by_column is not None,
                query,
                heads,
                space.rows,
                n_rows,
                self._centers,
                self._scatter,
                MIN_SCATTER_SEEN,
                space.offsets,
                space.needed_scatter,
            )
        else:
            space.offsets[:] = 0.0
        outcome: tuple[Any, ...] = compiled.cached_race(
            cache.block,
            cache.prefix,
            cache.order,
            query,
            heads,
            space.offsets,
            self._cached_sizes,
            self._cached_z,
            plan.sampling_costs,
            plan.finish_cost,
            plan.allowance,
            self._k,
            self.options.absolute,
            self._scatters,
            needed,
            n_rows,
            space.rows,
            space.alive,
            space.trusted,
            space.estimates,
            space.ranking,
            space.beaten,
            space.leaders,
            space.columns,
            space.vectors,
        )
        return outcome

    def _gathered(self, query: NDArray[Any], look: _Look, n_rows: int) -> tuple[Any, ...]:
        space, options, plan = _workspace, self.options, self._gathered_plan
        space.trusted[:] = True
        space.offsets[:] = 0.0
        sizes = self._gathered_sizes
        subset = _NOTHING
        uniform = options.sampling != "weighted" and look.uneven <= _EVEN
        if not uniform and self._d > _WHOLE_QUERY and not options.rescore:
            subset = kernels.permuted_coordinates(options.seed, self._d, 0, _SUBSET_SIZE)
            # Beyond a quarter of the subset its own randomness would show.
            sizes = sizes[sizes <= _SUBSET_SIZE // 4]
        outcome: tuple[Any, ...] = gathered_race(
            self._readable,
            self._by_column is not None,
            query,
            space.offsets,
            uniform,
            subset,
            self._d,
            options.beta,
            options.seed,
            sizes,
            self._gathered_z,
            plan.sampling_costs,
            plan.finish_cost,
            plan.allowance,
            self._k,
            options.absolute,
            self._centers,
            self._needed_scatter,
            n_rows,
            space.rows,
            space.trusted,
            space.estimates,
            space.ranking,
            space.beaten,
            space.leaders,
            space.values,
            space.vectors,
            space.scratch,
            space.groups,
        )
        return outcome

    def _finish(
        self,
        query: NDArray[Any],
        given: NDArray[Any],
        outcome: tuple[Any, ...],
        plan: Plan,
        look: _Look,
        n_rows: int,
    ) -> ExpressAnswer | Unfinished | None:
        """Turn a race's outcome into an answer: exact scores, or the estimates if those are wanted.

        `query` has the atoms' precision, `given` the user's.
        """
        status, alive, size, rounds, multiplies, total_unit = outcome
        cached = plan is self._cached_plan
        n_heads = look.heads.size if cached else 0
        multiplies += n_heads * n_rows
        survivors = _workspace.rows[:alive]
        spent = self.options.delta * float(_ROUND_SHARES[rounds])
        if not self.options.rescore:
            if status == compiled.UNDECIDED:
                # Heads and subsets are not part of the general loop's sample: it begins anew with the survivors.
                nested = n_heads == 0 and (cached or self._d <= _WHOLE_QUERY)
                uniform = nested and (cached or look.uneven <= _EVEN)
                cache = self._set.cache
                read = (
                    look.heads if nested or not cached or cache is None else np.union1d(look.heads, cache.order[:size])
                )
                return Unfinished(np.sort(survivors), uniform, size if nested else 0, rounds, multiplies, read)
            return self._estimates(alive, size, rounds, multiplies, total_unit, spent, cached)
        decided = status == compiled.SEPARATED
        seen = n_heads + int(np.count_nonzero(_workspace.vectors[0, :size]))
        multiplies += alive * (look.n_nonzero if decided else look.n_nonzero - seen)
        hopeless = plan.row_cost * alive >= 0.7 * plan.full_cost
        if hopeless and not decided and look.support is None and n_rows == self._n:
            answer = self._all_products(query, given, look.n_nonzero)
            if answer is not None:
                answer.n_rounds, answer.n_survivors, answer.n_multiplies = rounds, alive, multiplies
            return answer
        scores = np.empty(alive)
        if look.support is None:
            compiled.exact_rows(self._array, survivors, alive, given, scores)
        else:
            on_support = given[look.support].astype(np.float64)
            kernels.exact_scores(self._array, survivors, look.support, on_support, kernels.PRODUCT, scores)
        if not np.isfinite(scores).all():
            return None
        best = self._rank(survivors, scores)
        reason = StopReason.SEPARATED if decided else StopReason.FINISHED_EXACTLY
        radius = np.zeros(best.size)
        risk = spent if alive < n_rows else 0.0
        return ExpressAnswer(survivors[best], scores[best], radius, True, multiplies, rounds, alive, reason, risk)

    def _rank(self, rows: NDArray[np.int64], scores: NDArray[np.float64]) -> NDArray[np.int64]:
        """Positions of the k best, best first; of equals the one with the smaller index."""
        if scores.size == 1:
            return np.zeros(1, dtype=np.int64)
        ranked = np.abs(scores) if self.options.absolute else scores
        return np.lexsort((rows, -ranked))[: self._k]

    def _estimates(
        self, alive: int, size: int, rounds: int, multiplies: int, total_unit: float, spent: float, cached: bool
    ) -> ExpressAnswer:
        """Answer with the estimates and their intervals, as `bounds.PairedBound.score_radius` makes them."""
        space, cache = _workspace, self._set.cache
        best = self._rank(space.rows[:alive], space.estimates[:alive])
        rows = space.rows[best]
        estimates = space.estimates[best]
        values = cache.prefix if cached and cache is not None else space.values
        sampled = estimates - space.offsets[rows]
        deviation = compiled.score_deviations(
            values, rows, size, space.vectors[2], space.vectors[3], sampled, total_unit
        )
        z = (self._cached_score_z if cached else self._gathered_score_z)[rounds - 1]
        return ExpressAnswer(
            rows, estimates, z * deviation, False, multiplies, rounds, alive, StopReason.SEPARATED, spent
        )

    def _all_products(self, query: NDArray[Any], given: NDArray[Any], n_nonzero: int) -> ExpressAnswer | None:
        """Let BLAS compute every product; atoms that its rounding cannot tell from the best are summed again."""
        with np.errstate(over="ignore", invalid="ignore"):
            products = self._array @ query
            ranked = np.abs(products) if self.options.absolute else products
            top = int(ranked.argmax())
            kth = float(ranked[top] if self._k == 1 else np.partition(ranked, self._n - self._k)[self._n - self._k])
            best_atom = self._array[top]
            doubt = self._rounding * float(np.sqrt(best_atom @ best_atom)) * float(np.sqrt(query @ query))
        if not (-np.inf < ranked.min() and kth < np.inf and doubt < np.inf):
            return None
        close = np.flatnonzero(ranked >= kth - doubt)
        scores = np.empty(close.size)
        compiled.exact_rows(self._array, close, close.size, given, scores)
        best = self._rank(close, scores)
        radius = np.zeros(best.size)
        reason, multiplies = StopReason.FINISHED_EXACTLY, self._n * n_nonzero
        return ExpressAnswer(close[best], scores[best], radius, True, multiplies, 0, self._n, reason, 0.0)
