"""One query: look at it, choose a way, race, finish."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from banditmips.atoms.facts import length_of
from banditmips.core.answer import Times, answer
from banditmips.core.certain import MeasuredQuery
from banditmips.core.exact import Exact, ReaderExact
from banditmips.core.loop import Limits, race
from banditmips.core.outcome import Outcome
from banditmips.core.records import StopReason
from banditmips.core.rule import drop_certain
from banditmips.core.survivors import Survivors
from banditmips.race.atom_set import AtomSet, candidates_of, describe
from banditmips.race.buckets import Buckets, race_buckets
from banditmips.race.code_search import may_pay, race_times, takes_codes
from banditmips.race.costs import costs
from banditmips.race.few_rows import finish_rows, time_of_all, time_of_first_round, time_of_rows
from banditmips.race.full import best_of_products, rounding_of_products
from banditmips.race.guess import guess_within
from banditmips.race.known import index_rows, known_of
from banditmips.race.rules import least_sample, make_rule
from banditmips.race.sampled import Contest, measure
from banditmips.race.situation import SamplingChoice, Situation
from banditmips.race.ways import Way, make_ways, way_to_measure, worth_going_on

if TYPE_CHECKING:
    from banditmips._search_options import Options

__all__ = ["Multiplied", "Query"]


class Multiplied(NamedTuple):
    """What all products have come to for one query; nothing where exact scores of all candidates are the way.

    Attributes
    ----------
    products
        Of all atoms, as BLAS gives them.
    rows
        Those that are not beaten for certain, if somebody has found them (`race.together`).
    scores
        Their exact scores, if somebody has computed these as well.
    n_scored : int
        Where products of bytes have left these rows, up to delta, how many were scored exactly for that; else 0.
    """

    products: NDArray[Any] | None = None
    rows: NDArray[np.int64] | None = None
    scores: NDArray[np.float64] | None = None
    n_scored: int = 0


class Query:
    """One query on its way from the user's row to the atoms found.

    Parameters
    ----------
    atoms : AtomSet
    query : array of shape (d,), finite
    k : int
    options : Options
    excluded : bool array of shape (n,), or None
        Atoms that take no part.
    n_sharing : int
        Queries that would share their products with all atoms.

    Attributes
    ----------
    ended : Outcome, or None
        What has come of it so far; if that is ``handed_over``, it waits for its products with all atoms.
    """

    def __init__(
        self,
        atoms: AtomSet,
        query: NDArray[Any],
        k: int,
        options: Options,
        excluded: NDArray[np.bool_] | None,
        n_sharing: int = 1,
    ) -> None:
        self._atoms, self._row, self._excluded = atoms, query, excluded
        self.n_sharing = n_sharing
        self._options = options
        self._k = k
        self._choice = SamplingChoice()
        self.ended: Outcome | None = None

    # What a query on codes does without, unless it comes to nothing, is made when it is asked for.

    @cached_property
    def candidates(self) -> NDArray[np.int64]:
        """The atoms that take part."""
        n = self._atoms.store.shape[0]
        candidates = candidates_of(n, self._excluded, self._atoms.removed)
        return np.arange(n) if candidates is None else candidates

    @cached_property
    def _situation(self) -> Situation:
        query = np.ascontiguousarray(self._row, dtype=np.float64)
        return Situation(self._atoms, query, self._k, self._options)

    @cached_property
    def _exact(self) -> Exact:
        return self._situation.exact()

    @property
    def _query(self) -> NDArray[np.float64]:
        return self._situation.query

    @property
    def waits(self) -> bool:
        """Whether it waits for its products with all atoms."""
        return self.ended is not None and self.ended.handed_over

    @property
    def n_all(self) -> int:
        """Atoms that take part, wherever they are."""
        return self.candidates.size

    @property
    def vector(self) -> NDArray[np.float64]:
        """The query as products with it are taken."""
        return self._query

    def outcome(self) -> Outcome:
        """Find the best k, or say that the full product is the better way (``handed_over``)."""
        rows = self.candidates
        if rows.size == 0:
            return Outcome(Survivors(rows, 0, self._k, False), StopReason.EXHAUSTED)
        all_wanted = self._options.delta == 0.0 or (rows.size <= self._k and self._options.rescore)
        if all_wanted and self._affordable(self._exact.cost(rows), 0):
            return self.handed_over(rows.size)
        # Scores that overflow are caught where they become exact.
        with np.errstate(over="ignore", invalid="ignore"):
            outcome = self._race_on_codes() if self.uses_codes() else self._race_on_samples()
        if not outcome.handed_over and self._options.rescore:
            outcome.rescore(self._k, self._options.absolute, self._exact, self._options.budget)
        return outcome

    def uses_codes(self) -> bool:
        """Whether the race is one on codes."""
        return takes_codes(self._atoms, self._options)

    def _limits(self) -> Limits:
        options = self._options
        return Limits(options.delta, options.epsilon, options.budget, options.trace)

    def _survivors(self) -> Survivors:
        return Survivors(self.candidates, self.candidates.size, self._k, self._options.absolute)

    def handed_over(self, n_survivors: int) -> Outcome:
        """Leave it to all products."""
        outcome = Outcome.finished(np.empty(0, dtype=np.int64), np.empty(0), 0)
        outcome.n_survivors = outcome.n_raced = n_survivors
        outcome.handed_over = True
        return outcome

    def leave_to_products(self) -> Outcome:
        """Leave it to all products, if there is anybody to find and the budget allows for them."""
        rows = self.candidates
        if rows.size == 0 or not self._affordable(self._exact.cost(rows), 0):
            return self.outcome()
        return self.handed_over(rows.size)

    @property
    def full_time(self) -> float:
        """Nanoseconds of all products, if a race on codes is the other choice; else 0."""
        return self._times().full if self.uses_codes() else 0.0

    def _affordable(self, cost: int, spent: int) -> bool:
        return self._options.budget is None or spent + cost <= self._options.budget

    def _race_on_codes(self) -> Outcome:
        atoms, codes = self._atoms, self._atoms.codes
        assert codes is not None
        product_map = self._situation.product_map()
        assert product_map is not None
        times = self._times()
        if self._codes_cannot_pay(times) and self._affordable(self._exact.cost(self.candidates), 0):
            return self.handed_over(self.candidates.size)
        return answer(known_of(atoms), self._survivors(), self._query, product_map, self._exact, self._limits(), times)

    def _times(self) -> Times:
        return race_times(self._atoms, self._options, self.n_sharing)

    def _codes_cannot_pay(self, times: Times) -> bool:
        """Whether all products take too little time for a race on codes, or are all 0."""
        pays = may_pay(self._atoms, times, self.candidates.size, self._k, self.n_sharing)
        return times.full > 0.0 and (not pays or self._situation.support.size == 0)

    def _race_on_samples(self) -> Outcome:
        """Race the candidates on sampled cells, where it pays."""
        alive = self._survivors() if self.candidates.size <= self._k else self._bounded()
        rows = alive.row_array.copy()
        if rows.size <= self._k and self._options.rescore:
            return Outcome(Survivors(rows, rows.size, self._k, self._options.absolute), StopReason.SEPARATED)
        if self._goes_by_rows(alive):
            return finish_rows(alive, self._exact, self.candidates.size)
        why = self.why_exactly
        if why is not None:
            if self._affordable(self._exact.cost(self.candidates), 0):
                return self.handed_over(self.candidates.size)
            guess = self._guess()
            if guess is not None:
                return guess
        options = self._options
        contest = Contest(rows, self._atoms.facts, self._k, options.absolute, self._limits())
        ways = make_ways(self._situation, rows.size, self._choice.schedule)
        bins = self._bins
        if bins is None:
            return self._run(contest, ways)

        def run(part: Contest) -> Outcome:
            return self._run(part, make_ways(self._situation, part.candidates.size))

        def measure_best(part: Contest, size: int) -> Outcome:
            way, units = way_to_measure(self._situation, part.candidates.size, size)
            return measure(way.source(part), self._rule(way, part), units, part.limits.delta)

        return race_buckets(contest, bins, length_of(self._query), run, measure_best)

    @property
    def _bins(self) -> Buckets | None:
        """Bins to look at one after another; none where time is asked for: certain bounds leave them out."""
        is_timed = self._choice.schedule is not None
        return None if is_timed or self._situation.support.size == 0 else self._atoms.buckets

    def _guess(self) -> Outcome | None:
        """Guess the best within the budget, if the atoms are in memory and time is what is asked for."""
        rows, budget = index_rows(self._atoms), self._options.budget
        if rows is None or budget is None or self._options.minimise != "time" or self._options.delta == 0.0:
            return None
        contest = self.candidates, self._k, self._options.absolute
        return guess_within(budget, rows, self._situation.problem, self._exact, *contest)

    def _bounded(self) -> Survivors:
        """The candidates that can win by what `fit` knows, with what it knows of their scores."""
        alive, scores, bounds = self._survivors(), self._situation.product_map(), known_of(self._atoms).bounds
        if bounds is not None and scores is not None and bounds.bound(alive, MeasuredQuery(self._query), scores):
            drop_certain(alive)
        return alive

    def _goes_by_rows(self, alive: Survivors) -> bool:
        """Whether the rows that certain bounds leave take less than all products, and than sampling, if it may pay."""
        options, atoms = self._options, self._atoms
        if options.minimise != "time" or not options.rescore or alive.n == self.candidates.size:
            return False
        if not self._affordable(self._exact.cost(alive.row_array), 0):
            return False
        of_rows, of_all = time_of_rows(atoms, alive), time_of_all(atoms, self.n_sharing)
        if of_rows > of_all:
            return False
        of_sampling = time_of_first_round(atoms, alive.n, least_sample(options, self._k, self.candidates.size))
        if 2.0 * of_rows <= of_all and of_rows <= of_sampling:
            return True
        return self.why_exactly is not None or of_rows <= self._choice.time

    @cached_property
    def why_exactly(self) -> str | None:
        """Why nothing is to be sampled for, if that is so."""
        why = self._situation.why_exactly()
        if why is None:
            self._choice = self._situation.plan_in_memory(self.candidates.size)
            why = self._choice.why_not
        return why

    def _rule(self, way: Way, contest: Contest) -> Any:
        return make_rule(
            self._options,
            way.sampler,
            self._situation.on_support,
            self._atoms.known_range,
            contest.limits.delta,
            self._split_over(contest),
            self._k,
        )

    def _split_over(self, contest: Contest) -> int:
        """Atoms that delta is split over: all candidates, or those of a bin, which has a share of its own."""
        return self.n_all if self._bins is None else contest.candidates.size

    def _run(self, contest: Contest, ways: list[Way]) -> Outcome:
        """Race in one way after another until the answer is clear."""
        first = ways[0]
        rule = self._rule(first, contest)

        def hands_over(n_survivors: int) -> bool:
            if len(ways) > 1:
                return worth_going_on(n_survivors, self._k, self._options.rescore)
            timed = self._choice.schedule
            if timed is None or 2 * n_survivors < timed.n_candidates:
                return False
            return self._affordable(self._exact.cost(self.candidates), source.n_multiplies)

        source = first.source(contest, least_sample(self._options, self._k, self._split_over(contest)))
        self._exact = ReaderExact(first.reader)
        outcome = race(source, rule, self._exact, contest.limits, hands_over=hands_over)
        if not outcome.handed_over or len(ways) == 1:
            return outcome
        following = ways[1]
        self._exact = ReaderExact(following.reader)
        budget = None if contest.limits.budget is None else contest.limits.budget - outcome.n_multiplies
        rest = contest.part(outcome.survivors, contest.limits.delta, budget)
        final = race(following.source(rest), rule, self._exact, rest.limits, outcome.n_rounds)
        final.n_multiplies += outcome.n_multiplies
        final.rounds, final.n_raced = outcome.rounds + final.rounds, outcome.n_raced
        return final

    @property
    def takes_products(self) -> bool:
        """Whether the products with all atoms would tell all scores."""
        covers_all = self.candidates.size == self._atoms.store.shape[0]
        return covers_all and self._situation.product_map() is not None

    @property
    def sums_products(self) -> bool:
        """Whether exact scores are sums of the products of whole rows."""
        return self._situation.is_product and not self._situation.has_few_entries

    def finish(self, found: Multiplied) -> None:
        """Answer by what all products have come to, after what its race had."""
        begun, rows, scores = self.ended, found.rows, found.scores
        assert begun is not None
        if found.products is not None and self.takes_products:
            product_map = self._situation.product_map()
            assert product_map is not None
            with np.errstate(over="ignore", invalid="ignore"):
                rounding = rounding_of_products(found.products, self._query, self._atoms.store, self._atoms.facts)
                rows, scores = best_of_products(
                    found.products, rounding, product_map, self._exact.scores, self._k, self._options.absolute
                )
        rows = self.candidates if rows is None else rows
        scores = self._exact.scores(rows) if scores is None else scores
        cost = self._exact.cost(self.candidates) + found.n_scored * self._situation.support.size
        self.ended = Outcome.finished(rows, scores, cost, begun)
        if found.n_scored:
            self.ended.n_survivors, self.ended.delta_spent = found.n_scored, self._options.delta

    def explain(self) -> str:
        """Say in words how the query would be answered, and what that is expected to take."""
        lines = [describe(self._atoms)]
        if self._options.delta == 0.0:
            return "\n".join([*lines, "way: all products, because delta is 0"])
        if self.uses_codes():
            return "\n".join([*lines, *self._explain_codes()])
        alive = self._bounded()
        if alive.n < self.candidates.size:
            lines.append(f"certain bounds: they leave {alive.n:,} of {self.candidates.size:,} atoms")
            if self._goes_by_rows(alive):
                return "\n".join([*lines, "way: exact rows of these, the most promising first"])
        why = self.why_exactly
        if why is not None and self._affordable(self._exact.cost(self.candidates), 0):
            return "\n".join([*lines, f"way: all products, because {why}"])
        if why is not None and self._guess() is not None:
            return "\n".join([*lines, f"way: a guess within the budget, which all products exceed, because {why}"])
        ways = make_ways(self._situation, self.candidates.size)
        lines += [f"{'way: ' if not i else 'then: '}{way.text}" for i, way in enumerate(ways)]
        expects = self._choice.expects
        return "\n".join(lines if expects is None else [*lines, f"because: {expects}"])

    def _explain_codes(self) -> list[str]:
        codes, times = self._atoms.codes, self._times()
        assert codes is not None
        n = self.candidates.size
        left = self._bounded().n
        bits = f"{codes.n_cells} signs" + (f" and {codes.n_bits} bits of each coordinate" if codes.n_bits > 1 else "")
        known = "means and norms" if self._atoms.axes is None else "means, norms and axes"
        lines = [f"certain bounds: {known} alone leave {left} of {n} atoms", f"codes: {bits} of each atom"]
        if times.full == 0.0:
            return [*lines, "way: codes, in rounds that double, for few multiplies"]
        first = times.prepare + left * (codes.n_first * times.cell + times.atom)
        row, full = times.row, times.full
        steps = {
            "certain bounds": n * costs().bound,
            "a first round of codes": first,
            "all their bits": left * (codes.n_bits * codes.n_cells * times.fine_cell + times.fine_atom),
            f"{self._k} row{'s' if self._k > 1 else ''}": self._k * row,
            "all products": full,
        }
        expected = ", ".join(f"{step} about {_microseconds(time)} us" for step, time in steps.items())
        if self._codes_cannot_pay(times):
            return [*lines, "way: all products at once", f"because: {expected}"]
        # As `CodeSource.is_dear` has it.
        is_dear = first + min(left * row, full) > full + times.risk and self._options.budget is None
        probe = ["probe: one in sixteen of those that are left, before a round of all of them"] if is_dear else []
        return [*lines, "way: certain bounds, codes, exact rows", *probe, f"because: {expected}"]


def _microseconds(time: float) -> str:
    """Nanoseconds in microseconds, with two digits or more."""
    return f"{time / 1e3:,.0f}" if time >= 1e4 else f"{time / 1e3:.2g}"
