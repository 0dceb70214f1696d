"""The short way through a search: a few compiled calls for the common case, with little Python around them.

An `ExpressLane` is made for one set of atoms, one set of options and one k; it answers a query if the query fits, and
declines (returns None) otherwise, and then the general way of `_query` takes over. It serves inner products of dense
float32 or float64 atoms with the paired bound. What it does not serve: traces, budgets, epsilon, buckets, other bounds
and objectives, sampling with replacement, `sorted` and `optimal`.

The lane decides; `sprint` runs.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from banditmips._result import StopReason
from banditmips._validate import Options
from banditmips.race import compiled, kernels, screen
from banditmips.race.bounds import MIN_SCATTER_SEEN, round_share
from banditmips.race.costs import costs
from banditmips.race.planner import Plan, cached_sizes, gathered_sizes, most_heads, plan_query
from banditmips.race.sprint import WHOLE_QUERY, ExpressAnswer, Readable, Sprint, Unfinished, rank
from banditmips.race.workspace import Workspace, workspace

if TYPE_CHECKING:
    from banditmips._query import AtomSet

__all__ = ["ExpressAnswer", "ExpressLane", "Look", "Unfinished", "serves"]

_HAS_NO_ZEROS, _HAS_NO_HEADS = 1.7, 3.0
"""Up to these, a query is not searched for zeros (a normal query is at 1.57) or for coordinates that stand out: one
coordinate then holds at most two thirds of the sum of squares, and what it adds to a score is well within a radius."""
_HEAD_BAR = 8.0
"""A coordinate stands out where |q| is at least this many times its mean: hardly any does in a normal query."""
_ENOUGH_HEADS, _HEAD_SHARE = 6, 0.02
"""Of those, the largest that are always read, and the part of the sum of squares that any further one must hold: less
would hardly shorten the reach of the rest."""
_SPARSE = 1 / 32
"""Queries with fewer non-zeros than this part of d are raced and finished on their support alone."""
_FEW, _CHEAP_FINISH = (4, 16), 2e5
"""So many atoms are finished without a further look: at least, at most, and as many as take these nanoseconds."""
_WAYS = {
    "blas": "all products at once",
    "cache": "race on cached coordinates, then exact products of the survivors",
    "gather": "race on coordinates read from the rows, then exact products of the survivors",
    "columns": "race on coordinates read from contiguous columns, then exact products of the survivors",
}
_NOTHING = np.empty(0, dtype=np.int64)
_NOTHING_KNOWN = np.empty(0)


@lru_cache(maxsize=256)
def _quantiles(sizes: tuple[Any, ...], n_pairs: int, delta: float) -> NDArray[np.float64]:
    """The Student quantile of each round, as in `bounds.PairedBound`."""
    tails = np.array([delta * round_share(r) / n_pairs for r in range(1, len(sizes) + 1)])
    table = -stdtrit(np.maximum(np.array(sizes) - 1, 1), tails)
    table.flags.writeable = False
    return np.asarray(table)


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


class Look(NamedTuple):
    """What a query looks like.

    The sums of q, |q| and q^2 (estimates, if it was not read whole), its unevenness, how many non-zeros it has, and
    which, if they are few.
    """

    moments: tuple[float, float, float]
    whole: bool
    uneven: float
    n_nonzero: int
    support: NDArray[np.int64] | None


class ExpressLane:
    """Answers queries of the common kind.

    The lane holds what depends on the atoms' shape, on what an index knows of them, on the options and on k. The atoms
    themselves come with each query, so that searches without an index share lanes.
    """

    def __init__(self, atom_set: AtomSet, options: Options, k: int) -> None:
        self.options = options
        array = atom_set.store.array  # type: ignore[attr-defined]
        self._by_row = bool(array.flags.c_contiguous)
        self._has_columns = not self._by_row or atom_set.by_column is not None
        self.n, self.d = array.shape
        self.k = k
        self._dtype = array.dtype
        self.rounding = screen.rounding_of(array.dtype)
        self.facts, self.cache = atom_set.facts, atom_set.cache
        self.cached_plan = self._make_plan("cache")
        self.gathered_plan = self._make_plan("columns" if self._has_columns else "gather")
        self._uses_cache = self.cache is not None and options.sampling != "weighted"
        self._prepared = False
        # Where every query goes to BLAS there is nothing to prepare, and a search of few microseconds shows it.
        self._always_blas = (self.cached_plan if self._uses_cache else self.gathered_plan).way == "blas"

    def _make_plan(self, way: str) -> Plan:
        return plan_query(costs(), self.n, self.d, way, not self._by_row, self.options.rescore)

    def _prepare(self) -> None:
        """Make the tables of rounds, quantiles and scatters that races need."""
        options, facts, cache = self.options, self.facts, self.cache
        n_pairs = max(self.k * (self.n - self.k), 1) * (2 if options.absolute else 1)
        # A workspace of about a megabyte stays in the processor's cache.
        limit = min(self.d, max(128, min(1024, (1 << 18) // self.n)))
        sizes = cached_sizes(limit) if self._has_columns else gathered_sizes(limit)
        self.gathered_sizes = np.array(sizes, dtype=np.int64)
        self.gathered_z = _quantiles(sizes, n_pairs, options.delta)
        # The scores' own intervals are two-sided, and there are n of them.
        self.gathered_score_z = _quantiles(sizes, 2 * self.n, options.delta)
        self._length = sizes[-1]
        self.means = _NOTHING_KNOWN if facts is None else facts.means
        self.scatter = _NOTHING_KNOWN if facts is None else facts.scatter
        self.spreads = np.sqrt(self.scatter)
        self.needed_scatter = MIN_SCATTER_SEEN * self.scatter
        if cache is not None:
            sizes = cached_sizes(cache.n_coordinates)
            self.cached_sizes = np.array(sizes, dtype=np.int64)
            self.cached_z = _quantiles(sizes, n_pairs, options.delta)
            self.cached_score_z = _quantiles(sizes, 2 * self.n, options.delta)
            means = np.zeros(self.n) if facts is None else facts.means
            self.scatters = cache.scatters(sizes, means, self.d)
            self._length = max(self._length, cache.n_coordinates)
        self._max_heads = most_heads(costs(), self.d, self._has_columns)
        # Racing a few rows, which nothing has read before, takes longer than computing them.
        self.few = int(np.clip(_CHEAP_FINISH / self.cached_plan.row_cost, *_FEW))
        self._can_begin = facts is not None and options.rescore and self.k == 1 and self._by_row
        if facts is not None:
            self._extremes = int(np.argmax(facts.means)), int(np.argmin(facts.means))
        self._prepared = True

    def _look(self, query: NDArray[Any]) -> Look | None:
        """Look at the query before anything is read of the atoms; None if it is 0 or not finite."""
        d = self.d
        whole = d <= WHOLE_QUERY or self.options.rescore
        if whole:
            return self._describe(query, screen.query_moments(query), whole)
        cache = self.cache
        # The end of the cached order, because the mean is taken out of what its beginning samples.
        sample = kernels.permuted_coordinates(self.options.seed, d, 0, 512) if cache is None else cache.order[-64:]
        return self._describe(query, compiled.sampled_moments(query, sample), whole)

    def _describe(self, query: NDArray[Any], moments: tuple[float, float, float], whole: bool) -> Look | None:
        """Say what a query with these moments looks like; None if it is 0 or not finite."""
        d = self.d
        _, size, squares = moments
        if not (squares < np.inf and size > 0.0):
            return None
        # At least d/uneven entries are not 0 (Cauchy-Schwarz), and none can hold most of the sum of squares.
        uneven = d * squares / (size * size)
        if uneven > _HAS_NO_ZEROS and whole:
            n_nonzero = screen.count_nonzero(query)
            if n_nonzero < _SPARSE * d:
                return Look(moments, whole, np.inf, n_nonzero, np.flatnonzero(query))
            return Look(moments, whole, uneven, n_nonzero, None)
        return Look(moments, whole, uneven, d, None)

    def plan(self, look: Look) -> Plan:
        """Decide how to answer a query that looks like this."""
        return self.cached_plan if self._uses_cache and look.support is None else self.gathered_plan

    def explain(self, query: NDArray[Any]) -> list[str]:
        """Say in words how a query would be answered, and why."""
        query = query.astype(self._dtype)
        look = self._look(query)
        cache = self.cache
        if look is None:
            return ["the query is 0 or not finite: nothing to race for"]
        kept = "nothing is cached" if cache is None else f"{cache.n_coordinates} coordinates of each atom are cached"
        copies = "a copy by coordinate" if self._has_columns else "no copy by coordinate"
        part = "" if look.n_nonzero == self.d else f", {look.n_nonzero} of its {self.d} entries are not 0"
        plan = self.plan(look)
        self._prepare()
        n_heads = self.heads(query, look).size
        lines = [
            f"atoms: {self.n} x {self.d}, {self._dtype}; {kept}; {copies}",
            f"query: unevenness {look.uneven:.2f} (1 is even, normal entries have 1.57)"
            f"{part}; {n_heads} coordinates stand out",
        ]
        if self.facts is not None and look.whole and plan.way != "blas":
            n_left = self._settled(look)
            lines.append(f"screen: means and norms alone leave {n_left} of {self.n} atoms")
        return [*lines, f"way: {plan.way} ({_WAYS[plan.way]})", f"because {plan.reason}"]

    def _settled(self, look: Look) -> int:
        """How many atoms are left by what is known without a multiply."""
        space = self._space()
        space.rows[: self.n] = space.everything
        absolute = self.options.absolute
        screen.know(self.means, self.spreads, self.d, look.moments, self.rounding, absolute, space.centre, space.upper)
        k = min(self.k, self.n)
        settled: int = screen.settle(space.rows, self.n, k, space.centre, space.upper, space.rooms, space.leaders)
        return settled

    def _space(self) -> Workspace:
        """The thread's workspace, made to fit."""
        workspace.fit(self.n, self._length, self.k, self._dtype, int(self.gathered_sizes[-1]))
        return workspace

    def heads(self, query: NDArray[Any], look: Look) -> NDArray[np.int64]:
        """The coordinates where the query stands out and which are worth reading for every atom."""
        if not look.whole or look.uneven <= _HAS_NO_HEADS or look.support is not None:
            return _NOTHING
        _, size, squares = look.moments
        heads: NDArray[np.int64] = screen.head_coordinates(query, _HEAD_BAR * size / self.d, self._max_heads)
        n_large = int((query[heads] ** 2 >= _HEAD_SHARE * squares).sum())
        return heads[: max(n_large, _ENOUGH_HEADS)]

    def answer(
        self,
        atom_set: AtomSet,
        query: NDArray[Any],
        candidates: NDArray[np.int64] | None,
    ) -> ExpressAnswer | Unfinished | None:
        """Answer a query of d numbers, or decline.

        Parameters
        ----------
        atom_set
            Atoms of the shape and with the knowledge that the lane was made for.
        query
            Float32 or float64. Where it or an atom turns out not to be finite, the query is declined.
        candidates
            The atoms that take part, ascending; None for all.
        """
        n_rows = self.n if candidates is None else candidates.size
        if n_rows <= self.k:
            return None
        array: NDArray[Any] = atom_set.store.array  # type: ignore[attr-defined]
        given = query
        if query.dtype != self._dtype:
            with np.errstate(over="ignore"):
                query = given.astype(self._dtype)
        if self._always_blas and candidates is None:
            n_nonzero = screen.count_nonzero(query)
            return self.all_products(array, query, given, n_nonzero) if n_nonzero else None
        if not self._prepared:
            self._prepare()
        n_alive, n_known = n_rows, 0
        # One atom is wanted, its exact score too, and the query can be read as it was given: the screen comes first.
        begun = self._can_begin and given is query and candidates is None
        if begun:
            moments, n_alive, n_kept, n_known = self._begin(array, query)
            look = self._describe(query, moments, whole=True)
            if look is not None and n_kept:
                return self._screened_answer(look, n_alive, n_kept, n_known)
        else:
            look = self._look(query)
        if look is None:
            return None
        plan = self.plan(look)
        if plan.way == "blas" and candidates is None and look.support is None:
            return self.all_products(array, query, given, look.n_nonzero)
        if plan is self.gathered_plan and self.options.sampling == "uniform":
            return None  # the general way passes over zeros of the query
        space = self._space()
        if not begun:
            space.rows[:n_rows] = space.everything if candidates is None else candidates
        atoms = Readable(array, atom_set.by_column if self._by_row else array.T)
        return Sprint(self, atoms, query, given, look, plan, n_rows, space).answer(begun, n_alive, n_known)

    def _begin(self, array: NDArray[Any], query: NDArray[Any]) -> tuple[tuple[float, float, float], int, int, int]:
        """Look, screen, and finish if few atoms are left."""
        space = self._space()
        begun: tuple[tuple[float, float, float], int, int, int] = screen.quick_answer(
            array,
            query,
            self.means,
            self.spreads,
            self.rounding,
            self.options.absolute,
            *self._extremes,
            self.few,
            space.rows,
            space.centre,
            space.upper,
            space.estimates,
            space.ranking,
            space.rooms,
            space.leaders,
            space.known_rows,
            space.known_scores,
            space.scores,
        )
        return begun

    def _screened_answer(self, look: Look, n_alive: int, n_kept: int, n_exact: int) -> ExpressAnswer | None:
        """The answer where the screen left so few atoms that all were finished."""
        space = self._space()
        best = rank(space.rows, space.scores, n_kept, 1, self.options.absolute)
        if best is None:
            return None
        reason = StopReason.SEPARATED if n_alive == 1 else StopReason.FINISHED_EXACTLY
        multiplies = n_exact * look.n_nonzero
        return ExpressAnswer(space.rows[best], space.scores[best], None, multiplies, 0, n_alive, reason, 0.0)

    def all_products(
        self, array: NDArray[Any], query: NDArray[Any], given: NDArray[Any], n_nonzero: int
    ) -> ExpressAnswer | None:
        """Let BLAS compute every product; atoms that its rounding cannot tell from the best are summed again."""
        with np.errstate(over="ignore", invalid="ignore"):
            products = array @ query
        rows, scores = np.empty(self.n, dtype=np.int64), np.empty(self.n)
        close = screen.best_products(
            array, products, query, given, self.k, self.options.absolute, self.rounding / 8.0, rows, scores
        )
        best = rank(rows, scores, close, self.k, self.options.absolute) if close > 0 else None
        if best is None:
            return None
        reason, multiplies = StopReason.FINISHED_EXACTLY, self.n * n_nonzero
        return ExpressAnswer(rows[best], scores[best], None, multiplies, 0, self.n, reason, 0.0)
