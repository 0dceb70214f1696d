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
    from banditmips._courses import Course
    from banditmips.atoms import AtomStore
    from banditmips.atoms.cache import WarmCache
    from banditmips.atoms.facts import AtomFacts
    from banditmips.race.buckets import Buckets
    from banditmips.race.elimination import Contest, Outcome, Reader
    from banditmips.race.express import ExpressLane, Unfinished

__all__ = ["AtomSet", "Query", "bare_lane", "candidates_of", "check_range", "check_seed", "fitted_lane", "lane_for"]


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
        nothing_known = self.facts is None and self.buckets is None
        return nothing_known and self.cache is None and self.by_column is None and hasattr(self.store, "array")

    @property
    def known_range(self) -> tuple[float, float] | None:
        """Smallest and largest entry, if somebody has looked."""
        return None if self.facts is None else (self.facts.low, self.facts.high)


_MAX_LANES = 64
"""Express lanes that are kept for one set of atoms, or for all bare ones."""
_bare_lanes: dict[tuple[Any, ...], ExpressLane] = {}


def check_range(known: tuple[float, float] | None, options: Options) -> None:
    """Refuse a range of the atoms' entries that is known not to hold them."""
    given = options.value_range
    if known is not None and given is not None and not given[0] <= known[0] <= known[1] <= given[1]:
        raise ValueError(f"value_range is {given}, but the atoms' entries lie between {known[0]} and {known[1]}")


def check_seed(store: AtomStore, options: Options) -> None:
    """Refuse a seed whose coordinates are not the ones that were packed."""
    from banditmips.atoms.packed import PackedStore

    if isinstance(store, PackedStore) and store.seed != options.seed:
        raise ValueError(f"seed must be {store.seed}, with which these atoms were packed, got {options.seed}")


def _bare_key(array: NDArray[Any], options: Options, k: int) -> tuple[Any, ...]:
    """Return what the lane of bare atoms depends on: it may serve others too of which all this is the same."""
    return id(options), k, array.shape, array.dtype, array.flags.c_contiguous, array.flags.f_contiguous


def _known_lane(
    lanes: dict[tuple[Any, ...], ExpressLane], key: tuple[Any, ...], options: Options
) -> ExpressLane | None:
    # An id may come again with other options, after the first ones are gone.
    lane = lanes.get(key)
    return lane if lane is not None and lane.options is options else None


def bare_lane(array: NDArray[Any], options: Options, k: int) -> ExpressLane | None:
    """Find the express lane for an array, if such a one has been searched before with the same options."""
    return _known_lane(_bare_lanes, _bare_key(array, options, k), options)


def fitted_lane(atom_set: AtomSet, options: Options, k: int) -> ExpressLane | None:
    """Find the express lane of an index, if it has been searched before with the same options."""
    return _known_lane(atom_set.lanes, (id(options), k), options)


def lane_for(atom_set: AtomSet, options: Options, k: int) -> ExpressLane | None:
    """Find or make the express lane for these options, if they are of the common kind."""
    if atom_set.is_bare:
        lanes, key = _bare_lanes, _bare_key(atom_set.store.array, options, k)  # type: ignore[attr-defined]
    else:
        lanes, key = atom_set.lanes, (id(options), k)
    lane = _known_lane(lanes, key, options)
    if lane is not None:
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
        from banditmips._courses import Situation
        from banditmips.race.setup import OBJECTIVE_CODES

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
        self._candidates = self._screened(self._candidates)
        self._objective = OBJECTIVE_CODES[options.objective]
        # Where the query is 0, a product adds nothing; a difference does.
        is_product = options.objective in ("inner_product", "cosine")
        self._support = np.flatnonzero(self._query) if is_product else np.arange(d)
        self._row_scale = self._make_row_scale()
        self._situation = Situation(atom_set, options, self._query, self._objective, self._support, self._row_scale, k)
        self._exact_reader: Reader = self._situation.reader()

    def _screened(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Leave out what cannot win by what `fit` knows."""
        from banditmips.race.screen import possible_winners

        facts, options = self._atoms.facts, self._options
        if facts is None or options.objective != "inner_product" or options.delta == 0.0:
            return rows
        return possible_winners(facts, self._query, rows, self._k, options.absolute)

    def _make_row_scale(self) -> NDArray[np.float64] | None:
        if self._options.objective != "cosine":
            return None
        assert self._atoms.facts is not None
        norms = np.sqrt(self._atoms.facts.squared_norms) * np.linalg.norm(self._query)
        # The cosine with a zero vector is taken as 0.
        return np.asarray(np.divide(1.0, norms, out=np.zeros_like(norms), where=norms > 0.0))

    def _contest(self, rows: NDArray[np.int64] | None = None) -> Contest:
        """Make the contest among the candidates, or among these rows."""
        from banditmips.race import kernels
        from banditmips.race.bounds import MIN_SCATTER_SEEN
        from banditmips.race.elimination import Contest

        facts, options = self._atoms.facts, self._options
        rows = self._candidates if rows is None else rows
        is_product = self._objective == kernels.PRODUCT
        return Contest(
            candidates=rows,
            row_scale=np.ones(rows.size) if self._row_scale is None else self._row_scale[rows],
            centers=np.zeros(rows.size) if facts is None else facts.means[rows],
            needed_scatter=np.full(rows.size, np.nan) if facts is None else MIN_SCATTER_SEEN * facts.scatter[rows],
            query=self._query,
            unit_costs=(self._query != 0.0 if is_product else np.ones(self._query.size)).astype(np.int64),
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
        from banditmips.atoms.metering import metered

        with metered() as meter:
            outcome, plan = self._outcome(unfinished)
            if self._options.rescore:
                self._rescore(outcome)
        return self._result(outcome, plan, meter.bytes_read)

    def _outcome(self, unfinished: Unfinished | None) -> tuple[Outcome, str]:
        """Find the survivors; say how."""
        from banditmips.race.elimination import Outcome

        rows = self._candidates
        if rows.size == 0:
            nothing = np.empty(0)
            none = np.empty(0, dtype=np.bool_)
            return Outcome(rows, nothing, nothing, none, 0, 0, 0, StopReason.EXHAUSTED, 0.0, []), "no candidates"
        why = self.why_exactly()
        if why is not None and self._affordable(self._exact_reader.exact_cost(rows), 0):
            return self._all_exactly(), f"exact scores of all candidates: {why}"
        # Scores that overflow are caught where they become exact.
        with np.errstate(over="ignore", invalid="ignore"):
            outcome, texts = self._race(unfinished)
        return outcome, self._describe_plan(texts)

    def why_exactly(self) -> str | None:
        """Say why nothing is to be raced for, if that is so."""
        if self._options.delta == 0.0:
            return "delta is 0"
        if self._candidates.size <= self._k and self._options.rescore:
            return "no more than k are there"
        return self._situation.why_exactly()

    def explain(self) -> str:
        """Say in words how the query would be answered."""
        from banditmips._courses import make_courses

        why = self.why_exactly()
        if why is not None:
            return f"way: exact scores of all candidates\nbecause {why}"
        courses = make_courses(self._situation, self._candidates.size)
        return "\nthen: ".join(f"{'way: round by round on ' if not i else ''}{c.text}" for i, c in enumerate(courses))

    def _describe_plan(self, texts: list[str]) -> str:
        """Say what is raced here, and what an untraced search would have done with the query."""
        if not self._options.trace:
            return ""
        untraced = replace(self._options, trace=False)
        if self._candidates.size < self._n_given:
            texts.append(f"screen: means and norms alone leave {self._candidates.size} of {self._n_given} atoms")
        lane = lane_for(self._atoms, untraced, self._k)
        return "\n".join([*texts, *([] if lane is None else ["untraced:", *lane.explain(self._query)])])

    def _affordable(self, cost: int, spent: int) -> bool:
        return self._options.budget is None or spent + cost <= self._options.budget

    def _all_exactly(self) -> Outcome:
        from banditmips.race.elimination import Outcome

        rows = self._candidates
        return Outcome(
            survivors=rows,
            scores=self._exact_reader.exact(rows),
            radius=np.zeros(rows.size),
            exact=np.ones(rows.size, dtype=np.bool_),
            n_multiplies=self._exact_reader.exact_cost(rows),
            n_rounds=0,
            n_survivors=rows.size,
            stop_reason=StopReason.FINISHED_EXACTLY,
            delta_spent=0.0,
            rounds=[],
        )

    def _race(self, unfinished: Unfinished | None) -> tuple[Outcome, list[str]]:
        """Race the candidates; return the outcome, and on what they raced."""
        from banditmips._courses import course_to_measure, make_courses
        from banditmips.race.buckets import race_buckets
        from banditmips.race.elimination import measure

        contest = self._contest()
        if unfinished is not None:
            return self._go_on(contest, unfinished), ["a race on prepared coordinates, gone on with"]
        courses = make_courses(self._situation, contest.candidates.size)
        texts = [course.text for course in courses]
        if self._atoms.buckets is None or self._support.size == 0:
            return self._run(contest, courses), texts

        def run(part: Contest) -> Outcome:
            return self._run(part, make_courses(self._situation, part.candidates.size))

        def measure_best(part: Contest, size: int) -> Outcome:
            course, units = course_to_measure(self._situation, part.candidates.size, size)
            return measure(course.contest(part), course.reader, course.sampler, self._bound(course, part), units)

        return race_buckets(contest, self._atoms.buckets, run, measure_best), texts

    def _bound(self, course: Course, contest: Contest) -> Any:
        from banditmips.race.setup import make_bound

        return make_bound(
            self._options,
            course.sampler,
            self._query[self._support],
            self._atoms.known_range,
            contest.delta,
            contest.candidates.size,
            self._k,
        )

    def _run(self, contest: Contest, courses: list[Course]) -> Outcome:
        """Race on one course after another until the answer is clear."""
        from banditmips._courses import worth_going_on
        from banditmips.race.elimination import race

        def hands_over(n_survivors: int) -> bool:
            return len(courses) > 1 and worth_going_on(courses[1], n_survivors, self._k, self._options.rescore)

        first = courses[0]
        bound = self._bound(first, contest)
        self._exact_reader = first.reader
        outcome = race(
            first.contest(contest), first.reader, first.sampler, bound, first.schedule, hands_over=hands_over
        )
        if not outcome.handed_over:
            return outcome
        following = courses[1]
        self._exact_reader = following.reader
        rest = contest.part(np.flatnonzero(np.isin(contest.candidates, outcome.survivors)), contest.delta)
        if contest.budget is not None:
            rest = replace(rest, budget=contest.budget - outcome.n_multiplies)
        n_seen = 0 if following.seen is None else int(contest.unit_costs[following.seen].sum())
        final = race(
            following.contest(rest),
            following.reader,
            following.sampler,
            bound,
            following.schedule,
            n_rounds=outcome.n_rounds,
            n_seen=n_seen,
        )
        final.n_multiplies += outcome.n_multiplies
        final.rounds = outcome.rounds + final.rounds
        return final

    def _go_on(self, contest: Contest, begun: Unfinished) -> Outcome:
        """Continue a compiled race that ran out of prepared coordinates, with its rounds and multiplies counted."""
        from banditmips._courses import coordinate_course
        from banditmips.race.elimination import race
        from banditmips.race.sampling import UniformSampler

        course = coordinate_course(self._situation)
        bound = self._bound(course, contest)
        sampler = course.sampler
        if begun.uniform:
            sampler = UniformSampler(self._query.size, self._options.seed, None)
        chosen = np.searchsorted(contest.candidates, begun.survivors)
        rest = course.contest(contest.part(chosen, contest.delta))
        size = begun.n_coordinates
        seen = np.append(begun.seen, sampler.prefix(size).coordinates) if size else begun.seen
        n_seen = int(rest.unit_costs[seen].sum())
        rest.unit_costs[seen] = 0
        outcome = race(
            rest,
            course.reader,
            sampler,
            bound,
            course.schedule,
            n_rounds=begun.n_rounds,
            size=size,
            n_seen=n_seen,
        )
        outcome.n_multiplies += begun.n_multiplies
        return outcome

    def _best(self, outcome: Outcome) -> NDArray[np.int64]:
        """Positions of the k best survivors, best first; of equals the one with the smaller index."""
        scores = np.abs(outcome.scores) if self._options.absolute else outcome.scores
        places = np.arange(scores.size)
        if scores.size > self._k:
            bar = np.partition(scores, scores.size - self._k)[scores.size - self._k]
            places = np.flatnonzero(scores >= bar)
        return places[np.lexsort((outcome.survivors[places], -scores[places]))[: self._k]]

    def _rescore(self, outcome: Outcome) -> None:
        from banditmips.race.elimination import finish_exactly

        reader = self._exact_reader
        # What is returned is settled here: the others leave before scores of two kinds are compared.
        best = self._best(outcome)
        for name in ("survivors", "scores", "radius", "exact"):
            setattr(outcome, name, getattr(outcome, name)[best])
        best = np.flatnonzero(~outcome.exact)
        if best.size:
            cost = reader.exact_cost(outcome.survivors[best])
            if self._affordable(cost, outcome.n_multiplies):
                finish_exactly(outcome, reader, best, cost)

    def _result(self, outcome: Outcome, plan: str, bytes_read: int) -> SearchResult:
        best = self._best(outcome)
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
            bytes_read=bytes_read,
            checked=not self._atoms.unchecked,
            trace=Trace(tuple(outcome.rounds), plan, self._candidates.size) if self._options.trace else None,
        )
