"""One query: look at it, choose a way, race, finish."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from banditmips.atoms import DenseStore, PartStore
from banditmips.atoms.facts import length_of, longest
from banditmips.atoms.packed import PackedStore
from banditmips.core.answer import Times, answer
from banditmips.core.certain import MeasuredQuery, ScoreMap
from banditmips.core.exact import Exact, ReaderExact, RowsExact
from banditmips.core.loop import Limits, Outcome
from banditmips.core.records import StopReason, Trace
from banditmips.core.rule import MIN_SCATTER_SEEN, drop_certain
from banditmips.core.sample_source import PerAtom
from banditmips.core.statistics import PRODUCT
from banditmips.core.survivors import Survivors
from banditmips.race.atom_set import AtomSet, candidates_of, describe
from banditmips.race.buckets import race_buckets
from banditmips.race.costs import costs
from banditmips.race.full import best_of_products, can_use_blas, rounding_of_products
from banditmips.race.known import index_rows, inverse, known_of, norms_of, spreads_of
from banditmips.race.passes import close_rows
from banditmips.race.plan import (
    NO_TIMES,
    SamplingPlan,
    code_times,
    coordinates_needed,
    file_times,
    is_worth_a_race,
    probe_quantile,
)
from banditmips.race.rules import OBJECTIVE_CODES, compares_pairs, least_sample, make_rule, resolve_sampling
from banditmips.race.sampled import Contest, Problem, measure, race_on
from banditmips.race.schedule import TimedSchedule
from banditmips.race.ways import Situation, Way, make_ways, way_to_measure, worth_going_on

if TYPE_CHECKING:
    from banditmips._search_options import Options

__all__ = ["FEW_ENTRIES", "Query", "good_exponents"]

FEW_ENTRIES = 16
"""A query has few entries if so many times as many would be no more than all: a gathered value takes the time of about
as many that are read in a row, and rows are read whole unless that is more."""

_WITHOUT_LENGTHS = ("cosine", "correlation")
"""Objectives that do not depend on the lengths of vectors."""
_QUERY_EXPONENT, _PRODUCT_EXPONENT = 60, 1000
"""Powers of two that the entries of queries whose length does not matter reach, and that their products with entries of
atoms do not exceed: the smallest atoms' inverse norms do not overflow then, nor do the sums of the largest."""


class Query:
    """One query on its way from the user's row to the atoms found.

    Parameters
    ----------
    atoms : AtomSet
    query : float64 array of shape (d,), finite
    k : int
    options : Options
    excluded : bool array of shape (n,), or None
        Atoms that take no part.
    n_sharing : int
        Queries that would share their products with all atoms.
    """

    def __init__(
        self,
        atoms: AtomSet,
        query: NDArray[np.float64],
        k: int,
        options: Options,
        excluded: NDArray[np.bool_] | None,
        n_sharing: int = 1,
    ) -> None:
        self._atoms = atoms
        self.n_sharing = n_sharing
        self._options = options
        self._k = k
        n, d = atoms.store.shape
        if options.objective in _WITHOUT_LENGTHS:
            assert atoms.facts is not None
            query = _of_good_length(query, atoms.facts.scale)
        self._query = query
        candidates = candidates_of(n, excluded, atoms.removed)
        self._candidates = np.arange(n) if candidates is None else candidates
        self._objective = OBJECTIVE_CODES[options.objective]
        # Where the query is 0, a product adds nothing; a difference does.
        has_zeros = self._objective == PRODUCT and MeasuredQuery(query).n_nonzero < d
        self._support = np.flatnonzero(query) if has_zeros else _all_coordinates(d)
        self._map = self._score_map()
        self._situation = Situation(atoms, options, query, self._objective, self._support, self._map, k)
        self._exact = self._make_exact()
        self._schedule: TimedSchedule | None = None
        self._expects: str | None = None

    @property
    def vector(self) -> NDArray[np.float64]:
        """The query as products with it are taken."""
        return self._query

    @property
    def _on_support(self) -> NDArray[np.float64]:
        """The query's entries where it can contribute; a query without zeros as it is, because a copy takes long."""
        return self._query if self._support.size == self._query.size else self._query[self._support]

    def _score_map(self) -> ScoreMap:
        """How scores follow from inner products; from sums of the objective's own terms, for those that have some."""
        objective, facts, query = self._options.objective, self._atoms.facts, self._query
        if objective not in _WITHOUT_LENGTHS:
            return ScoreMap()
        assert facts is not None
        if objective == "cosine":
            return ScoreMap(inverse(norms_of(self._atoms) * length_of(query)))
        mean = float(query.mean())
        factors = inverse(spreads_of(self._atoms) * length_of(query - mean))
        return ScoreMap(factors, -query.size * mean * facts.means * factors)

    def _product_map(self) -> ScoreMap | None:
        """How scores follow from inner products, if they do."""
        if self._options.objective == "neg_l1":
            return None
        if self._options.objective != "neg_sqeuclidean":
            return self._map
        facts = self._atoms.facts
        if facts is None:
            return None
        square = float(self._query @ self._query)
        return ScoreMap(np.full(facts.squared_norms.size, 2.0), -facts.squared_norms - square)

    def _make_exact(self) -> Exact:
        rows = index_rows(self._atoms)
        if rows is None:
            return ReaderExact(self._situation.reader())
        reader = self._situation.reader()
        columns = self._support if self._has_few_entries else None
        exact = RowsExact(rows, self._query, self._objective, self._map, columns, reader.complain)
        exact.row_cost = self._support.size  # a product with 0 is none, whether or not the entry is read
        return exact

    @property
    def _has_few_entries(self) -> bool:
        """Whether only the columns where the query is not 0 are worth reading."""
        return self._objective == PRODUCT and FEW_ENTRIES * self._support.size <= self._query.size

    @property
    def candidates(self) -> NDArray[np.int64]:
        """The atoms that take part."""
        return self._candidates

    @property
    def covers_all(self) -> bool:
        """Whether all atoms take part."""
        return self._candidates.size == self._atoms.store.shape[0]

    def outcome(self) -> Outcome:
        """Find the best k, or say that the full product is the better way (``handed_over``)."""
        rows = self._candidates
        if rows.size == 0:
            return Outcome(Survivors(rows, 0, self._k, False), StopReason.EXHAUSTED)
        all_wanted = self._options.delta == 0.0 or (rows.size <= self._k and self._options.rescore)
        if all_wanted and self._affordable(self._exact.cost(rows), 0):
            return self.handed_over(rows.size)
        # Scores that overflow are caught where they become exact.
        with np.errstate(over="ignore", invalid="ignore"):
            outcome = self._race_on_codes() if self.uses_codes() else self._race_on_samples()
        if not outcome.handed_over and self._options.rescore:
            self._rescore(outcome)
        return outcome

    def uses_codes(self) -> bool:
        """Whether the race is one on codes."""
        options = self._options
        return (
            self._atoms.codes is not None
            and options.bound in ("auto", "codes")
            and options.sampling == "auto"
            and not options.replacement
            and self._atoms.buckets is None
            and self._product_map() is not None
        )

    def _limits(self) -> Limits:
        options = self._options
        return Limits(options.delta, options.epsilon, options.budget, options.trace)

    def _survivors(self) -> Survivors:
        return Survivors(self._candidates, self._candidates.size, self._k, self._options.absolute)

    def handed_over(self, n_survivors: int) -> Outcome:
        """Leave it to all products."""
        outcome = Outcome(Survivors(None, n_survivors, self._k, False), StopReason.FINISHED_EXACTLY)
        outcome.handed_over = True
        return outcome

    def _affordable(self, cost: int, spent: int) -> bool:
        return self._options.budget is None or spent + cost <= self._options.budget

    def _race_on_codes(self) -> Outcome:
        atoms, codes = self._atoms, self._atoms.codes
        assert codes is not None
        product_map = self._product_map()
        assert product_map is not None
        times = self._times()
        if self._codes_cannot_pay(times) and self._affordable(self._exact.cost(self._candidates), 0):
            return self.handed_over(self._candidates.size)
        return answer(known_of(atoms), self._survivors(), self._query, product_map, self._exact, self._limits(), times)

    def _times(self) -> Times:
        """What the steps of a race on codes take; zeros where that does not matter."""
        if self._options.minimise != "time":
            return NO_TIMES
        store, codes = self._atoms.store, self._atoms.codes
        assert codes is not None
        by_row = store.by_row if isinstance(store, PackedStore) else store
        if isinstance(by_row, PartStore):
            return file_times(costs(), codes, by_row, self.n_sharing)
        array = store.array if isinstance(store, DenseStore) else None
        by_blas = array is not None and can_use_blas(array)
        contiguous = array is None or array.strides[1] == array.itemsize
        return code_times(costs(), codes, store.shape[0], store.dtype.itemsize, contiguous, by_blas, self.n_sharing)

    def _codes_cannot_pay(self, times: Times) -> bool:
        """Whether all products take too little time for a race on codes, or are all 0."""
        codes, n = self._atoms.codes, self._candidates.size
        assert codes is not None
        pays = is_worth_a_race(costs(), times, codes, n, self._k, self.n_sharing)
        return times.full > 0.0 and (not pays or self._support.size == 0)

    def _race_on_samples(self) -> Outcome:
        """Race the candidates on sampled cells, where it pays."""
        rows = self._certain_survivors()
        if rows.size <= self._k and self._options.rescore:
            return Outcome(Survivors(rows, rows.size, self._k, self._options.absolute), StopReason.SEPARATED)
        if self._are_few(rows):
            return self._exactly(rows)
        why = self.why_exactly()
        if why is not None and self._affordable(self._exact.cost(self._candidates), 0):
            return self.handed_over(self._candidates.size)
        contest = self._contest(rows)
        ways = make_ways(self._situation, contest.candidates.size, self._schedule)
        if self._atoms.buckets is None or self._support.size == 0:
            return self._run(contest, ways)

        def run(part: Contest) -> Outcome:
            return self._run(part, make_ways(self._situation, part.candidates.size))

        def measure_best(part: Contest, size: int) -> Outcome:
            way, units = way_to_measure(self._situation, part.candidates.size, size)
            rule = self._rule(way, part)
            return measure(way.contest(part), way.reader, way.sampler, rule, way.schedule, units)

        return race_buckets(contest, self._atoms.buckets, run, measure_best)

    def _certain_survivors(self) -> NDArray[np.int64]:
        """Leave out what cannot win by what `fit` knows."""
        rows, product_map = self._candidates, self._product_map()
        bounds = known_of(self._atoms).bounds
        if bounds is None or product_map is None or rows.size <= self._k:
            return rows
        alive = self._survivors()
        if bounds.bound(alive, MeasuredQuery(self._query), product_map):
            drop_certain(alive)
        return alive.row_array.copy()

    def _is_weighted(self) -> bool:
        """Whether every coordinate would need a weight."""
        if self._support.size == 0:
            return False
        return resolve_sampling(self._options, self._on_support, has_cache=False) != "uniform"

    def _are_few(self, rows: NDArray[np.int64]) -> bool:
        """Whether certain bounds have left so few that their rows take less time than any sampling, and half of all."""
        options, store = self._options, self._atoms.store
        if options.minimise != "time" or not options.rescore or not isinstance(store, DenseStore):
            return False
        if rows.size == self._candidates.size or not self._affordable(self._exact.cost(rows), 0):
            return False
        plan = SamplingPlan(costs(), *store.shape, store.dtype.itemsize)
        return plan.rows_take_less(rows.size, least_sample(options, self._k, self._candidates.size))

    def _exactly(self, rows: NDArray[np.int64]) -> Outcome:
        """Finish by the exact scores of these rows."""
        alive = Survivors(rows, rows.size, self._k, self._options.absolute)
        alive.estimate_array[:] = self._exact.scores(rows)
        alive.radius_array[:] = 0.0
        cost = self._exact.cost(rows)
        return Outcome(alive, StopReason.FINISHED_EXACTLY, exact=True, n_multiplies=cost)

    def why_exactly(self) -> str | None:
        """Say why nothing is to be sampled for, if that is so."""
        why = self._situation.why_exactly()
        if why is not None or self._options.minimise != "time" or self._options.delta == 0.0:
            return why
        return self._why_not_sampled()

    def _why_not_sampled(self) -> str | None:
        """Ask what sampling atoms in memory would take, and plan for it; say why not, if it would not pay."""
        store, options = self._atoms.store, self._options
        in_memory = isinstance(store, DenseStore) or index_rows(self._atoms) is not None
        if not in_memory or self._atoms.buckets is not None:
            return None
        n, d = store.shape
        if self._situation.takes_cache():
            # Cached values take so little that rounds on them are their own probe.
            assert self._atoms.cache is not None
            plan = SamplingPlan(costs(), n, d, store.dtype.itemsize, weighted=False, n_leaders=self._k)
            self._schedule = plan.schedule(0.0, at_hand=self._atoms.cache.n_coordinates)
            return None
        first = least_sample(options, self._k, self._candidates.size)
        n_leaders = self._k if compares_pairs(options) else 1
        plan = SamplingPlan(costs(), n, d, store.dtype.itemsize, weighted=self._is_weighted(), n_leaders=n_leaders)
        if not plan.can_pay(first):
            return "all products take less time than the least that sampling would"
        expected = 0.0
        if options.objective not in _WITHOUT_LENGTHS:
            quantile = probe_quantile(n, self._k, options.delta)
            by_range = not compares_pairs(options)
            settings = (quantile, self._k, options.seed, options.absolute, by_range)
            needed = coordinates_needed(store, self._query, *settings, self._objective)
            probed = f"a probe of a few atoms expects about {needed:.3g} coordinates for dropping one"
            if not plan.pays(max(needed, first), first):
                return probed
            expected = plan.race_time(max(needed, first), first)
            self._expects = f"{probed}, {expected / 1e3:.0f} us in all; all products take {plan.full / 1e3:.0f} us"
        # Differences tell most atoms apart at once, but not those close to the best: there a probe can only say no.
        self._schedule = plan.schedule(expected if self._objective == PRODUCT else 0.0)
        return None

    def _contest(self, rows: NDArray[np.int64]) -> Contest:
        facts, options = self._atoms.facts, self._options
        atoms = PerAtom(
            np.ones(rows.size) if self._map.factors is None else self._map.factors[rows],
            np.zeros(rows.size) if facts is None else facts.means[rows],
            np.full(rows.size, np.nan) if facts is None else MIN_SCATTER_SEEN * facts.scatter[rows],
            None if self._map.offsets is None else self._map.offsets[rows],
        )
        problem = Problem(self._query, self._objective)
        return Contest(rows, atoms, problem, self._k, options.absolute, self._limits())

    def _rule(self, way: Way, contest: Contest) -> Any:
        return make_rule(
            self._options,
            way.sampler,
            self._on_support,
            self._atoms.known_range,
            contest.limits.delta,
            self._split_over(contest),
            self._k,
        )

    def _split_over(self, contest: Contest) -> int:
        """Atoms that delta is split over: all candidates, or those of a bin, which has a share of its own."""
        return self._candidates.size if self._atoms.buckets is None else contest.candidates.size

    def _run(self, contest: Contest, ways: list[Way]) -> Outcome:
        """Race in one way after another until the answer is clear."""
        first = ways[0]
        rule = self._rule(first, contest)

        def hands_over(n_survivors: int) -> bool:
            if len(ways) > 1:
                return worth_going_on(n_survivors, self._k, self._options.rescore)
            timed = self._schedule
            return timed is not None and n_survivors * timed.row_time >= timed.n_candidates * timed.row_time / 2

        schedule = first.schedule.starting_with(least_sample(self._options, self._k, self._split_over(contest)))
        outcome = race_on(first.contest(contest), first.reader, first.sampler, rule, schedule, hands_over=hands_over)
        self._exact = ReaderExact(first.reader)
        if not outcome.handed_over or len(ways) == 1:
            return outcome
        following = ways[1]
        self._exact = ReaderExact(following.reader)
        budget = None if contest.limits.budget is None else contest.limits.budget - outcome.n_multiplies
        chosen = np.flatnonzero(np.isin(contest.candidates, outcome.survivors))
        rest = following.contest(contest.part(chosen, contest.limits.delta, budget))
        final = race_on(rest, following.reader, following.sampler, rule, following.schedule, outcome.n_rounds)
        final.n_multiplies += outcome.n_multiplies
        final.rounds, final.n_raced = outcome.rounds + final.rounds, outcome.n_raced
        return final

    @property
    def takes_products(self) -> bool:
        """Whether the products with all atoms would tell all scores."""
        return self.covers_all and self._product_map() is not None

    @property
    def sums_products(self) -> bool:
        """Whether exact scores are sums of the products of whole rows."""
        return self._objective == PRODUCT and not self._has_few_entries

    @property
    def takes_pass(self) -> bool:
        """Whether rough sums of rows take less than exact ones: not where few entries of each matter."""
        rows = index_rows(self._atoms)
        return rows is not None and rows.are_contiguous and not self._has_few_entries

    def all_products(
        self, products: NDArray[Any] | None, begun: Outcome, close: NDArray[np.int64] | None = None
    ) -> Outcome:
        """Finish by the scores of all candidates.

        Parameters
        ----------
        products
            Of all atoms, as BLAS gives them, if it does.
        begun
            What came before.
        close
            Those that are not beaten for certain (`close_rows`), if somebody has found them for several queries.
        """
        rows = self._candidates
        cost = self._exact.cost(rows)
        if products is None or not self.takes_products:
            indices = self._close_rows() if close is None else close
            scores = self._exact.scores(indices)
        else:
            product_map = self._product_map()
            assert product_map is not None
            with np.errstate(over="ignore", invalid="ignore"):
                indices, scores = best_of_products(
                    products, self._rounding(products), product_map, self._exact.scores, self._k, self._options.absolute
                )
        alive = Survivors(indices, indices.size, self._k, self._options.absolute)
        alive.estimate_array[:] = scores
        alive.radius_array[:] = 0.0
        outcome = Outcome(alive, StopReason.FINISHED_EXACTLY, exact=True, n_multiplies=begun.n_multiplies + cost)
        outcome.n_rounds, outcome.rounds, outcome.n_survivors = begun.n_rounds, begun.rounds, begun.n_survivors
        outcome.n_raced = begun.n_raced
        return outcome

    def _close_rows(self) -> NDArray[np.int64]:
        """Candidates that one pass over them leaves; all of them where a pass is of no use."""
        rows = index_rows(self._atoms)
        if rows is None or not self.takes_pass:
            return self._candidates
        options = self._options
        return close_rows(rows, self._candidates, self._query, options.objective, self._k, options.absolute)

    def _rounding(self, products: NDArray[Any]) -> float:
        """By how much these products by BLAS may be wrong."""
        facts, store = self._atoms.facts, self._atoms.store
        d = store.shape[1]
        if facts is not None:
            largest = float(longest(facts.squared_norms.max(), d))
        else:
            # Nobody knows the norms, which would take as long as the products: those of the best row have to do.
            best = int(np.argmax(np.abs(products)))
            values = np.empty((1, d))
            store.gather(np.array([best]), np.arange(d), values)
            largest = 4.0 * length_of(values[0])
        return rounding_of_products(products.dtype, d, length_of(self._query), largest)

    def trace(self, outcome: Outcome) -> Trace:
        """What happened, round by round, and why it was done so."""
        return Trace(tuple(outcome.rounds), self.explain(), outcome.n_raced)

    def explain(self) -> str:
        """Say in words how the query would be answered, and what that is expected to take."""
        lines = [describe(self._atoms)]
        if self._options.delta == 0.0:
            return "\n".join([*lines, "way: all products, because delta is 0"])
        if self.uses_codes():
            return "\n".join([*lines, *self._explain_codes()])
        why = self.why_exactly()
        if why is not None:
            return "\n".join([*lines, f"way: all products, because {why}"])
        ways = make_ways(self._situation, self._candidates.size)
        lines += [f"{'way: ' if not i else 'then: '}{way.text}" for i, way in enumerate(ways)]
        return "\n".join(lines if self._expects is None else [*lines, f"because: {self._expects}"])

    def _explain_codes(self) -> list[str]:
        codes, times = self._atoms.codes, self._times()
        assert codes is not None
        n = self._candidates.size
        left = self._certain_survivors().size
        bits = f"{codes.n_cells} signs" + (f" and {codes.n_bits} bits of each coordinate" if codes.n_bits > 1 else "")
        known = "means and norms" if self._atoms.axes is None else "means, norms and axes"
        lines = [f"certain bounds: {known} alone leave {left} of {n} atoms", f"codes: {bits} of each atom"]
        if times.full == 0.0:
            return [*lines, "way: codes, in rounds that double, for few multiplies"]
        first = times.prepare + left * codes.n_first * times.cell
        row, full = times.row, times.full
        expected = f"first round about {first / 1e3:.0f} us, a row {row / 1e3:.2g} us, all products {full / 1e3:.0f} us"
        way = "all products at once" if self._codes_cannot_pay(times) else "certain bounds, codes, exact rows"
        return [*lines, f"way: {way}", f"because: {expected}"]

    def best(self, outcome: Outcome) -> NDArray[np.int64]:
        """Positions of the k best survivors, best first; of equals the one with the smaller index."""
        places: NDArray[np.int64] = outcome.best(self._k, self._options.absolute)
        return places

    def _rescore(self, outcome: Outcome) -> None:
        # What is returned is settled here: the others leave before scores of two kinds are compared.
        best = self.best(outcome)
        for name in ("survivors", "scores", "radius", "exact"):
            setattr(outcome, name, getattr(outcome, name)[best])
        left = np.flatnonzero(~outcome.exact)
        cost = self._exact.cost(outcome.survivors[left])
        if left.size and self._affordable(cost, outcome.n_multiplies):
            outcome.scores[left] = self._exact.scores(outcome.survivors[left])
            outcome.radius[left] = 0.0
            outcome.exact[left] = True
            outcome.n_multiplies += cost


@lru_cache(maxsize=4)
def _all_coordinates(d: int) -> NDArray[np.int64]:
    """0, ..., d - 1: shared by queries, because making it anew would take as long as preparing half of one."""
    coordinates = np.arange(d)
    coordinates.setflags(write=False)
    return coordinates


def _of_good_length(query: NDArray[np.float64], scale: float) -> NDArray[np.float64]:
    """The query times a power of two, which takes nothing from its digits, for atoms with entries up to `scale`."""
    return np.asarray(np.ldexp(query, good_exponents(np.abs(query).max(), scale)))


def good_exponents(largest: Any, scale: float) -> Any:
    """Exponents of the powers of two that queries with such largest entries are multiplied by (see above)."""
    return min(_QUERY_EXPONENT, _PRODUCT_EXPONENT - int(np.frexp(scale)[1])) - np.frexp(largest)[1]
