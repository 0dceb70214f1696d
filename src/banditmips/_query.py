"""One query's general way: set up the race, run it round by round, finish, and put the result together.

Queries of the common kind take the short way of `race.express`; this one serves everything.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from banditmips._result import SearchResult, StopReason, Trace
from banditmips._validate import Options, check_finite

if TYPE_CHECKING:
    from banditmips.atoms import AtomStore
    from banditmips.atoms.cache import WarmCache
    from banditmips.atoms.facts import AtomFacts
    from banditmips.race.buckets import Buckets
    from banditmips.race.elimination import Contest, Outcome, Reader
    from banditmips.race.express import ExpressLane, Unfinished

__all__ = ["AtomSet", "Query", "candidates_of", "check_range", "lane_for"]


@dataclass(frozen=True)
class AtomSet:
    """The atoms of a search, with all that is known about them.

    Attributes
    ----------
    facts, cache, buckets
        What an index has prepared; None for a search without one.
    by_column : array of shape (d, n), or None
        A copy of the atoms, one coordinate after another.
    removed : bool array of shape (n,), or None
        Atoms that are no longer to be found.
    unchecked : bool
        Whether the user asked for no check of the entries.
    lanes : dict
        The express lanes made so far.
    """

    store: AtomStore
    facts: AtomFacts | None = None
    cache: WarmCache | None = None
    buckets: Buckets | None = None
    by_column: NDArray[Any] | None = None
    removed: NDArray[np.bool_] | None = None
    unchecked: bool = False
    lanes: dict[tuple[Any, ...], ExpressLane] = field(default_factory=dict, compare=False, repr=False)

    @property
    def is_bare(self) -> bool:
        """Whether these are atoms in an array with nothing known or prepared."""
        return self.facts is None and self.cache is None and self.by_column is None and hasattr(self.store, "array")


_MAX_LANES = 64
"""Express lanes that are kept for one set of atoms, or for all bare ones."""
_bare_lanes: dict[tuple[Any, ...], ExpressLane] = {}


def check_range(atom_set: AtomSet, options: Options) -> None:
    """Refuse a range of the atoms' entries that is known not to hold them."""
    facts, given = atom_set.facts, options.value_range
    if facts is not None and given is not None and not given[0] <= facts.low <= facts.high <= given[1]:
        raise ValueError(f"value_range is {given}, but the atoms' entries lie between {facts.low} and {facts.high}")


def lane_for(atom_set: AtomSet, options: Options, k: int) -> ExpressLane | None:
    """Find or make the express lane for these options, if they are of the common kind."""
    lanes = atom_set.lanes
    key: tuple[Any, ...] = (id(options), k)
    if atom_set.is_bare:
        # Where nothing was prepared, a lane depends on no more of the atoms than this, and may serve others too.
        array = atom_set.store.array  # type: ignore[attr-defined]
        lanes = _bare_lanes
        key = (*key, array.shape, array.dtype, array.flags.c_contiguous, array.flags.f_contiguous)
    lane = lanes.get(key)
    # An id may come again with other options, after the first ones are gone.
    if lane is not None and lane.options is options:
        return lane
    from banditmips.race.express import ExpressLane, serves

    if not serves(atom_set, options):
        return None
    lane = ExpressLane(atom_set, options, k)
    if len(lanes) >= _MAX_LANES:
        lanes.clear()
    lanes[key] = lane
    return lane


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


class Query:
    """One query on its way from the user's row to a result."""

    def __init__(
        self,
        atom_set: AtomSet,
        query: NDArray[Any],
        k: int,
        options: Options,
        excluded: NDArray[np.bool_] | None,
        where: str,
    ) -> None:
        from banditmips.race.setup import OBJECTIVE_CODES, make_sampler

        self._atoms = atom_set
        self._options = options
        self._k = k
        n, d = atom_set.store.shape
        with np.errstate(over="ignore"):
            self._query = np.asarray(query, dtype=np.float64)
        check_finite(self._query, where)
        candidates = candidates_of(n, excluded, atom_set.removed)
        self._candidates = np.arange(n) if candidates is None else candidates
        self._n_given = self._candidates.size
        if atom_set.facts is not None and options.objective == "inner_product" and options.delta > 0.0:
            from banditmips.race.screen import possible_winners

            self._candidates = possible_winners(atom_set.facts, self._query, self._candidates, k, options.absolute)
        self._objective = OBJECTIVE_CODES[options.objective]
        # Where the query is 0, a product adds nothing; a difference does.
        is_product = options.objective in ("inner_product", "cosine")
        self._support = np.flatnonzero(self._query) if is_product else np.arange(d)
        self._row_scale = self._make_row_scale()
        facts = atom_set.facts
        self._sampler = make_sampler(
            self._query,
            self._support,
            options,
            None if facts is None else facts.column_squares,
            has_cache=atom_set.cache is not None,
        )

    def _make_row_scale(self) -> NDArray[np.float64] | None:
        if self._options.objective != "cosine":
            return None
        assert self._atoms.facts is not None
        norms = np.sqrt(self._atoms.facts.squared_norms) * np.linalg.norm(self._query)
        # The cosine with a zero vector is taken as 0.
        return np.asarray(np.divide(1.0, norms, out=np.zeros_like(norms), where=norms > 0.0))

    def _reader(self) -> Reader:
        from banditmips.atoms.cache import CachedReader
        from banditmips.atoms.reading import StoreReader

        # Visiting only the support costs a cache line for each product, so it pays where the support is small.
        few = self._support.size <= self._query.size // 2
        cache = self._atoms.cache
        reader = (CachedReader if cache is not None and self._sampler.follows_uniform_order else StoreReader)(
            self._atoms.store,
            self._query,
            self._support if few else None,
            self._objective,
            self._row_scale,
            check_finite=self._atoms.facts is None and not self._atoms.unchecked,
        )
        if isinstance(reader, CachedReader) and cache is not None:
            reader.cache = cache
        return reader

    def _needed_scatter(self) -> NDArray[np.float64]:
        """What a sample must show of each candidate's scatter: of the support's share of it, where that is small."""
        from banditmips.race.bounds import MIN_SCATTER_SEEN

        facts, rows = self._atoms.facts, self._candidates
        if facts is None:
            return np.full(rows.size, np.nan)
        share = self._support.size / self._query.size
        return np.asarray(MIN_SCATTER_SEEN * share * facts.scatter[rows])

    def _contest(self) -> Contest:
        from banditmips.race.elimination import Contest

        facts, rows, options = self._atoms.facts, self._candidates, self._options
        return Contest(
            candidates=rows,
            row_scale=np.ones(rows.size) if self._row_scale is None else self._row_scale[rows],
            centers=np.zeros(rows.size) if facts is None else facts.means[rows],
            needed_scatter=self._needed_scatter(),
            query=self._query,
            objective=self._objective,
            k=self._k,
            delta=options.delta,
            epsilon=options.epsilon,
            absolute=options.absolute,
            budget=options.budget,
            traced=options.trace,
        )

    def answer(self, unfinished: Unfinished | None = None) -> SearchResult:
        """Race (or go on with a race that was begun), finish, and put the result together."""
        from banditmips.race.elimination import Outcome

        reader = self._reader()
        rows = self._candidates
        if rows.size == 0:
            nothing = np.empty(0)
            outcome = Outcome(
                rows, nothing, nothing, np.empty(0, dtype=np.bool_), 0, 0, 0, StopReason.EXHAUSTED, 0.0, []
            )
            return self._result(outcome, "no candidates")
        everything = self._options.delta == 0.0 or (rows.size <= self._k and self._options.rescore)
        if everything and self._affordable(rows.size * reader.exact_cost, 0):
            outcome = self._all_exactly(reader)
            plan = "exact products of all candidates"
        else:
            # Scores that overflow are caught where they become exact.
            with np.errstate(over="ignore", invalid="ignore"):
                outcome = self._race(reader, unfinished)
            plan = self._describe_plan()
        if self._options.rescore:
            self._rescore(outcome, reader)
        return self._result(outcome, plan)

    def _describe_plan(self) -> str:
        """Say what is raced here, and what an untraced search would have done with the query."""
        untraced = replace(self._options, trace=False)
        lines = [f"{type(self._sampler).__name__}, bound {self._options.bound}"]
        if self._candidates.size < self._n_given:
            lines.append(f"screen: means and norms alone leave {self._candidates.size} of {self._n_given} atoms")
        if self._options.trace:
            lane = lane_for(self._atoms, untraced, self._k)
            lines += [] if lane is None else ["untraced:", *lane.explain(self._query)]
        return "\n".join(lines)

    def _affordable(self, cost: int, spent: int) -> bool:
        return self._options.budget is None or spent + cost <= self._options.budget

    def _all_exactly(self, reader: Reader) -> Outcome:
        from banditmips.race.elimination import Outcome

        rows = self._candidates
        return Outcome(
            survivors=rows,
            scores=reader.exact(rows),
            radius=np.zeros(rows.size),
            exact=np.ones(rows.size, dtype=np.bool_),
            n_multiplies=rows.size * reader.exact_cost,
            n_rounds=0,
            n_survivors=rows.size,
            stop_reason=StopReason.FINISHED_EXACTLY,
            delta_spent=0.0,
            rounds=[],
        )

    def _race(self, reader: Reader, unfinished: Unfinished | None) -> Outcome:
        from banditmips.race.buckets import race_buckets
        from banditmips.race.elimination import measure, race
        from banditmips.race.planner import Schedule
        from banditmips.race.setup import make_bound

        options, facts = self._options, self._atoms.facts
        known_range = None if facts is None else (facts.low, facts.high)
        on_support = self._query[self._support]

        def bound_for(contest: Contest) -> Any:
            return make_bound(
                options,
                self._sampler,
                on_support,
                known_range,
                contest.delta,
                contest.candidates.size,
                self._k,
            )

        def run(contest: Contest) -> Outcome:
            return race(contest, reader, self._sampler, bound_for(contest), Schedule())

        def measure_best(contest: Contest, size: int) -> Outcome:
            return measure(contest, reader, self._sampler, bound_for(contest), size)

        contest = self._contest()
        if unfinished is not None:
            return self._go_on(contest, reader, unfinished)
        if self._atoms.buckets is None or self._support.size == 0:
            return run(contest)
        return race_buckets(contest, self._atoms.buckets, run, measure_best)

    def _go_on(self, contest: Contest, reader: Reader, begun: Unfinished) -> Outcome:
        """Continue a compiled race that ran out of prepared coordinates, with its rounds and multiplies counted."""
        from banditmips.race.elimination import race
        from banditmips.race.planner import Schedule
        from banditmips.race.sampling import UniformSampler
        from banditmips.race.setup import make_bound

        bound = make_bound(
            self._options, self._sampler, self._query, None, contest.delta, contest.candidates.size, self._k
        )
        sampler = UniformSampler(self._query.size, self._options.seed, None) if begun.uniform else self._sampler
        chosen = np.searchsorted(contest.candidates, begun.survivors)
        rest = contest.part(chosen, contest.delta)
        size = begun.n_coordinates
        seen = np.append(begun.seen, sampler.prefix(size).coordinates) if size else begun.seen
        outcome = race(rest, reader, sampler, bound, Schedule(), n_rounds=begun.n_rounds, size=size, seen=seen)
        outcome.n_multiplies += begun.n_multiplies
        return outcome

    def _ranking(self, outcome: Outcome) -> NDArray[np.int64]:
        """Positions of the survivors, best first; of equals the one with the smaller index."""
        scores = np.abs(outcome.scores) if self._options.absolute else outcome.scores
        return np.lexsort((outcome.survivors, -scores))

    def _rescore(self, outcome: Outcome, reader: Reader) -> None:
        from banditmips.race.elimination import finish_exactly

        # What is returned is settled here: the others leave before scores of two kinds are compared.
        best = self._ranking(outcome)[: self._k]
        for name in ("survivors", "scores", "radius", "exact"):
            setattr(outcome, name, getattr(outcome, name)[best])
        best = np.flatnonzero(~outcome.exact)
        if best.size and self._affordable(best.size * reader.exact_cost, outcome.n_multiplies):
            finish_exactly(outcome, reader, best, reader.exact_cost)

    def _result(self, outcome: Outcome, plan: str) -> SearchResult:
        best = self._ranking(outcome)[: self._k]
        pad = self._k - best.size
        scores = np.append(outcome.scores[best], np.full(pad, -np.inf))
        radius = np.append(outcome.radius[best], np.zeros(pad))
        return SearchResult(
            indices=np.append(outcome.survivors[best], np.full(pad, -1, dtype=np.int64)),
            scores=scores,
            lower=scores - radius,
            upper=scores + radius,
            exact=np.append(outcome.exact[best], np.ones(pad, dtype=np.bool_)),
            n_multiplies=outcome.n_multiplies,
            n_rounds=outcome.n_rounds,
            n_survivors=outcome.n_survivors,
            stop_reason=outcome.stop_reason,
            delta_spent=outcome.delta_spent,
            checked=not self._atoms.unchecked,
            trace=Trace(tuple(outcome.rounds), plan, self._candidates.size) if self._options.trace else None,
        )
