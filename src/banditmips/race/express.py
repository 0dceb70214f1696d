"""The short way through a search: a few compiled calls for the common case, with little Python around them.

An `ExpressLane` is made for one set of atoms, one set of options and one k; it answers a query if the query fits, and
declines (returns None) otherwise, and then the general way of `_query` takes over. It serves inner products of dense
float32 or float64 atoms with the paired bound. What it does not serve: traces, budgets, epsilon, buckets, other bounds
and objectives, sampling with replacement, `sorted` and `optimal`.

The lane decides; `dash` runs on what an index has prepared, `sprint` elsewhere.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from banditmips._result import SearchResult, StopReason
from banditmips._threads import count_threads, helped_by, n_threads
from banditmips._validate import Options
from banditmips.race import compiled, finish, heads, kernels, screen
from banditmips.race.bounds import MIN_SCATTER_SEEN, round_share
from banditmips.race.compiled import SEPARATED, UNDECIDED
from banditmips.race.costs import costs
from banditmips.race.dash import HAS_NO_ZEROS, HOPELESS, SPARSE, SPARSE_PART, TO_BE_FINISHED, dash, dash_plain
from banditmips.race.packing import SETTINGS, pack_tables, table_parts
from banditmips.race.pilots import PILOTS_ARE_SURE, look_and_pilot
from banditmips.race.planner import Plan, cached_sizes, gathered_sizes, most_heads, plan_query
from banditmips.race.rounds import N_PILOTS
from banditmips.race.sprint import (
    NEARLY_EVEN,
    WHOLE_QUERY,
    Outcome,
    Readable,
    Sprint,
    Unfinished,
    delta_spent,
    rows_for_a_thread,
)
from banditmips.race.workspace import Workspace, workspace_for

if TYPE_CHECKING:
    from banditmips._query import AtomSet
    from banditmips.atoms.cache import WarmCache

__all__ = ["ExpressLane", "Look", "Unfinished", "serves"]

_FEW, _CHEAP_FINISH = (4, 16), 4e4
"""So many atoms are finished without a further look: at least, at most, and as many as take these nanoseconds."""
_WAYS = {
    "blas": "all products at once",
    "cache": "race on cached coordinates, then exact products of the survivors",
    "gather": "race on coordinates read from the rows, then exact products of the survivors",
    "columns": "race on coordinates read from contiguous columns, then exact products of the survivors",
}
_PLAIN = (np.dtype(np.float32), np.dtype(np.float64))
_NOTHING_KNOWN = np.empty((4, 0))
_SEPARATED, _FINISHED_EXACTLY = StopReason.SEPARATED, StopReason.FINISHED_EXACTLY


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
        self._query_shape = (self.d,)
        self._delta, self._rescore = options.delta, options.rescore
        self._n_threads, self._progress = count_threads(options.n_jobs), options.progress
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
        length = sizes[-1]
        self.fact_table = _NOTHING_KNOWN
        if facts is not None:
            scatter = facts.scatter
            self.fact_table = np.stack([facts.means, scatter, np.sqrt(scatter), MIN_SCATTER_SEEN * scatter])
        if cache is not None:
            length = max(length, cache.n_coordinates)
        self._least_squares = screen.least_squares(self._dtype, self.d, facts)
        self._max_heads = most_heads(costs(), self.d, self._has_columns)
        # Racing a few rows, which nothing has read before, takes longer than computing them.
        self.few = int(np.clip(_CHEAP_FINISH / self.cached_plan.row_cost, *_FEW))
        # One atom is wanted, its exact score too: the one that leads by its mean is looked at first.
        largest, smallest = -1, -1
        if facts is not None and options.rescore and self.k == 1 and self._by_row:
            largest, smallest = int(np.argmax(facts.means)), int(np.argmin(facts.means))
        self._whole = self.d <= WHOLE_QUERY or options.rescore
        self._most_finished = 2 * rows_for_a_thread(self.cached_plan) - 1
        self._workspace_shape = (self.n, self.d, length, self.k, self._dtype, int(self.gathered_sizes[-1]))
        self._pilots_first = (
            facts is None
            and not self._has_columns
            and options.rescore
            and options.sampling != "uniform"
            and self.gathered_plan.way != "blas"
            and self.n >= 4 * N_PILOTS
        )
        self._most_needed = PILOTS_ARE_SURE * 0.5 * self.gathered_plan.row_cost / self.gathered_plan.sampling_costs[0]
        self._pilot_z = float(self.gathered_z[0])
        if cache is not None:
            self._dash_tables = self._pack(cache, n_pairs, length, (largest, smallest))
        self._prepared = True

    def _pack(self, cache: WarmCache, n_pairs: int, length: int, leads_by_mean: tuple[int, int]) -> tuple[Any, ...]:
        """Return what `dash` takes between the query and the workspaces."""
        options, plan = self.options, self.cached_plan
        sizes = cached_sizes(cache.n_coordinates)
        # Behind the rounds' quantiles, that of a single round on all cached coordinates.
        one_round = _quantiles(sizes[-1:], n_pairs, options.delta)
        z = np.append(_quantiles(sizes, n_pairs, options.delta), one_round)
        score_z = _quantiles(sizes, 2 * self.n, options.delta)
        means = np.zeros(self.n) if self.facts is None else self.facts.means
        scatters = cache.scatters(sizes, means, self.d)
        n_known = self.fact_table.shape[1]
        tables = pack_tables(self.fact_table, z, score_z, plan.sampling_costs, np.array(sizes), cache.order, scatters)
        self.fact_table = table_parts.py_func(tables, self.n, n_known, len(sizes), cache.order.size)[0]
        fixed = {
            "row_cost": plan.row_cost,
            "full_cost": plan.full_cost,
            "allowance": plan.allowance,
            "rounding": self.rounding,
            "least_squares": self._least_squares,
            "k": self.k,
            "few": self.few,
            "max_heads": self._max_heads,
            "largest": leads_by_mean[0],
            "smallest": leads_by_mean[1],
            "n_rounds": len(sizes),
            "n_known": n_known,
            "length": length,
            "absolute": options.absolute,
            "rescore": options.rescore,
            "whole": self._whole,
        }
        settings = np.zeros(1, dtype=SETTINGS)
        for name, value in fixed.items():
            settings[name] = value
        return cache.block, cache.prefix, settings, tables

    def _moments(self, query: NDArray[Any], space: Workspace) -> tuple[float, float, float]:
        """Sums of q, |q| and q^2, or estimates of them if the query must not be read whole."""
        if self._whole:
            moments: tuple[float, float, float] = screen.query_moments(query, space.parts)
        else:
            sample = kernels.permuted_coordinates(self.options.seed, self.d, 0, 128)
            moments = compiled.sampled_moments(query, sample)
        return moments

    def _look(self, query: NDArray[Any], moments: tuple[float, float, float]) -> Look | None:
        """Look at the query before anything is read of the atoms; None if it is 0, not finite or tiny."""
        d, whole = self.d, self._whole
        _, size, squares = moments
        if not self._least_squares <= squares < np.inf:
            return None
        uneven = d * squares / (size * size)
        n_nonzero, support = d, None
        if uneven > HAS_NO_ZEROS and whole:
            n_nonzero = screen.count_nonzero(query)
            if n_nonzero < SPARSE_PART * d:
                uneven, support = np.inf, np.flatnonzero(query)
        return Look(moments, whole, uneven, n_nonzero, support)

    def plan(self, look: Look) -> Plan:
        """Decide how to answer a query that looks like this."""
        return self.cached_plan if self._uses_cache and look.support is None else self.gathered_plan

    def explain(self, query: NDArray[Any]) -> list[str]:
        """Say in words how a query would be answered, and why."""
        self._prepare()
        space = workspace_for(self._workspace_shape)
        query = query.astype(self._dtype)
        look = self._look(query, self._moments(query, space))
        cache = self.cache
        if look is None:
            return ["the query is 0, or too small or too large for compiled races: round by round"]
        kept = "nothing is cached" if cache is None else f"{cache.n_coordinates} coordinates of each atom are cached"
        copies = "a copy by coordinate" if self._has_columns else "no copy by coordinate"
        part = "" if look.n_nonzero == self.d else f", {look.n_nonzero} of its {self.d} entries are not 0"
        plan = self.plan(look)
        n_heads = 0
        if plan is self.cached_plan and look.whole and look.uneven > heads.HAS_NO_HEADS:
            n_heads = heads.find_heads(query, look.moments, self._max_heads, space.heads)
        lines = [
            f"atoms: {self.n} x {self.d}, {self._dtype}; {kept}; {copies}",
            f"query: unevenness {look.uneven:.2f} (1 is even, normal entries have 1.57)"
            f"{part}; {n_heads} coordinates stand out",
        ]
        if self.facts is not None and look.whole and plan.way != "blas":
            n_left = self._settled(look, space)
            lines.append(f"screen: means and norms alone leave {n_left} of {self.n} atoms")
        return [*lines, f"way: {plan.way} ({_WAYS[plan.way]})", f"because {plan.reason}"]

    def _settled(self, look: Look, space: Workspace) -> int:
        """How many atoms are left by what is known without a multiply."""
        rows, centre, upper = space.rows, space.centre, space.upper
        rows[: self.n] = space.everything
        means, _, spreads, _ = self.fact_table
        screen.know(means, spreads, self.d, look.moments, self.rounding, self.options.absolute, centre, upper)
        k = min(self.k, self.n)
        settled: int = screen.settle(rows, self.n, k, centre, upper, space.pair, space.leaders)
        return settled

    def answer_plain(
        self, array: NDArray[Any], by_column: NDArray[Any] | None, queries: Any, checked: bool
    ) -> SearchResult | None:
        """Answer a single query that needs no conversion; or leave it to more careful hands (None)."""
        if self._progress or not (
            type(queries) is np.ndarray
            and queries.shape == self._query_shape
            and queries.dtype in _PLAIN
            and queries.flags.c_contiguous
        ):
            return None
        if self._n_threads == 1:
            short = self.answer(array, by_column, queries, None, checked)
        else:
            with helped_by(self._n_threads):
                short = self.answer(array, by_column, queries, None, checked)
        return short if type(short) is SearchResult else None

    def answer(
        self,
        array: NDArray[Any],
        by_column: NDArray[Any] | None,
        query: NDArray[Any],
        candidates: NDArray[np.int64] | None,
        checked: bool = True,
    ) -> SearchResult | Unfinished | None:
        """Answer a query of d numbers, or decline.

        Parameters
        ----------
        array, by_column
            The atoms that the lane was made for, or bare ones like them, and a copy by column where there is one.
        query
            Float32 or float64. Where it or an atom turns out not to be finite, the query is declined.
        candidates
            The atoms that take part, ascending; None for all.
        checked
            Whether the atoms' entries have been checked, as the result shall tell.
        """
        n_rows = self.n if candidates is None else candidates.size
        if n_rows <= self.k:
            return None
        given = query
        if query.dtype != self._dtype:
            with np.errstate(over="ignore"):
                query = given.astype(self._dtype)
        if self._always_blas and candidates is None:
            n_nonzero = screen.count_nonzero(query)
            counts = (self.n * n_nonzero, 0, self.n)
            return self.all_products(array, query, given, counts, checked) if n_nonzero else None
        if not self._prepared:
            self._prepare()
        space = workspace_for(self._workspace_shape)
        if candidates is not None:
            space.rows[:n_rows] = candidates
        columns = by_column if self._by_row else array.T
        if not self._uses_cache:
            return self._gather(Readable(array, columns), query, given, candidates is None, n_rows, space, checked)
        most_finished = n_rows if n_threads() == 1 else self._most_finished
        packed: tuple[Any, ...] = (*self._dash_tables, space.space, most_finished, n_rows)
        if columns is None and given is query:
            outcome = dash_plain(array, query, *packed)
        else:
            outcome = dash(array, array if columns is None else columns, columns is not None, query, given, *packed)
        status, n_alive, n_raced, _, _, n_rounds, n_multiplies, _, _ = outcome
        if status == SEPARATED or (status == UNDECIDED and self._rescore):
            return SearchResult.of_one_query(
                space.best_rows.copy(),
                space.best_scores.copy(),
                None if self._rescore else space.best_radius.copy(),
                n_multiplies,
                n_rounds,
                n_alive,
                _SEPARATED if status == SEPARATED else _FINISHED_EXACTLY,
                # Intervals are part of the answer, and they may fail too.
                delta_spent(self._delta, n_rounds, n_alive < n_raced or not self._rescore),
                checked,
            )
        if status == HOPELESS:
            return self.all_products(array, query, given, (n_multiplies, n_rounds, n_alive), checked)
        atoms = Readable(array, columns)
        if status == SPARSE:
            return self._gather(atoms, query, given, candidates is None, n_rows, space, checked)
        sprint = Sprint(self, atoms, query, given, self.cached_plan, n_rows, space, checked)
        left = UNDECIDED if status == TO_BE_FINISHED else status
        return sprint.conclude(Outcome(left, *outcome[1:]), self._whole)

    def _gather(
        self,
        atoms: Readable,
        query: NDArray[Any],
        given: NDArray[Any],
        everyone: bool,
        n_rows: int,
        space: Workspace,
        checked: bool,
    ) -> SearchResult | Unfinished | None:
        """Answer from the atoms themselves."""
        plan = self.gathered_plan
        piloted = self._pilots_first and everyone
        if piloted:
            found = look_and_pilot(
                atoms.array, query, space.parts, self.options.seed, self._pilot_z, NEARLY_EVEN, space.gathered,
                space.vectors,
            )  # fmt: skip
            look = self._look(query, found[:3])
            if look is not None and found[3] > self._most_needed:
                return self.all_products(atoms.array, query, given, (self.n * look.n_nonzero, 0, self.n), checked)
        else:
            look = self._look(query, self._moments(query, space))
        if look is None:
            return None
        if plan.way == "blas" and everyone and look.support is None:
            return self.all_products(atoms.array, query, given, (self.n * look.n_nonzero, 0, self.n), checked)
        if self.options.sampling == "uniform":
            return None  # the general way passes over zeros of the query
        if everyone:
            space.rows[:n_rows] = space.everything
        return Sprint(self, atoms, query, given, plan, n_rows, space, checked).gather(look, piloted)

    def all_products(
        self,
        array: NDArray[Any],
        query: NDArray[Any],
        given: NDArray[Any],
        counts: tuple[int, int, int],
        checked: bool,
    ) -> SearchResult | None:
        """Let BLAS compute every product; atoms that its rounding cannot tell from the best are summed again.

        `counts` are the multiplies, the rounds and the survivors that the result shall tell.
        """
        indices, scores = np.empty(self.k, dtype=np.int64), np.empty(self.k)
        # NumPy's BLAS rather than the one that compiled code could call: where both have threads, they stand in each
        # other's way.
        with np.errstate(over="ignore", invalid="ignore"):
            products = array @ query
        absolute = self.options.absolute
        if not finish.best_products(array, products, given, absolute, self.rounding, indices, scores):
            return None
        return SearchResult.of_one_query(indices, scores, None, *counts, _FINISHED_EXACTLY, 0.0, checked)
