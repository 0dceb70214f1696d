"""search(): validate -> plan -> race -> finish -> SearchResult."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from banditmips._result import SearchResult, StopReason, Trace
from banditmips._validate import Options, as_mask, as_queries, as_store, check_finite, check_k, reject_unknown

if TYPE_CHECKING:
    from banditmips.atoms import AtomStore
    from banditmips.atoms.cache import WarmCache
    from banditmips.atoms.facts import AtomFacts
    from banditmips.race.buckets import Buckets
    from banditmips.race.elimination import Contest, Outcome, Reader
    from banditmips.race.express import ExpressAnswer, ExpressLane, Unfinished

__all__ = ["AtomSet", "check_range", "explain_query", "run_queries", "search"]


def search(
    atoms: Any,
    queries: ArrayLike,
    k: int = 1,
    *,
    delta: float = 1e-3,
    epsilon: float = 0.0,
    objective: str = "inner_product",
    sampling: str = "auto",
    beta: float = 0.5,
    bound: str = "paired",
    sigma: float | str | None = None,
    value_range: tuple[float, float] | None = None,
    replacement: bool = False,
    absolute: bool = False,
    budget: int | None = None,
    rescore: bool = True,
    mask: ArrayLike | None = None,
    seed: int = 0,
    n_jobs: int = 1,
    trace: bool = False,
    progress: bool = False,
    **unknown: object,
) -> SearchResult:
    """Find the k atoms with the largest inner product with each query, by sampling coordinates adaptively.

    Returns the right atoms with probability at least ``1 - delta`` for each query, in the sense of the chosen bound
    (see docs/guarantees.md): ``bound="paired"`` is asymptotic; the others rest on a theorem whenever what you told them
    is true (for ``hoeffding_serfling`` that is the range, or a ``sigma`` of at least half of it). Failures of different
    queries may be correlated, because they share the seed's random numbers; for all m queries at once, divide delta
    by m.

    Parameters
    ----------
    atoms : array of shape (n, d)
        One atom in each row: any real dtype and memory order, a memory map, a SciPy sparse matrix, anything
        array-like or with DLPack, or an `AtomStore`. Never copied whole, never changed.
    queries : array of shape (d,) or (m, d)
        One query, or a batch.
    k : int
        How many atoms to find. If there are fewer, the result is padded with index -1 and score -inf.
    delta : float in [0, 1)
        Failure probability allowed for each query. 0 computes every product exactly.
    epsilon : float
        Shortfall allowed, in units of the score: stop once no atom can beat a returned one by more than that.
    objective : {"inner_product", "cosine", "neg_sqeuclidean", "neg_l1"}
        What to maximise. The cosine needs the atoms' norms: a search without an index reads all atoms for them.
    sampling : {"auto", "weighted", "optimal", "uniform", "sorted"}
        How to choose coordinates: ``weighted`` by ``|q|**(2*beta)``; ``optimal`` by Theorem 2 of the paper (needs an
        index); ``uniform``; ``sorted`` by falling |q|, which is the paper's BanditMIPS-alpha and promises nothing.
        ``auto`` is ``weighted`` for ``bound="paired"``, unless cached coordinates make ``uniform`` faster, and
        ``uniform`` for the other bounds. Coordinates where the query is 0 are never sampled for products.
    beta : float
        Exponent of the weights.
    bound : {"paired", "hoeffding", "hoeffding_serfling", "bernstein"}
        Confidence bound by which atoms are dropped.
    sigma : float, "estimate" or None
        For the Hoeffding bounds: sub-Gaussian parameter of one sampled term: ``q[J]*v[J]`` for uniform sampling,
        ``q[J]*v[J]/(d*w[J])`` with weights, over the norms for the cosine. ``"estimate"`` takes the
        largest sample deviation of the first round, which no theorem covers. None derives it from the range.
    value_range : (low, high), optional
        For the Hoeffding and Bernstein bounds: interval that holds every entry of the atoms. An index knows it.
    replacement : bool
        Draw coordinates with replacement, as in the paper's analysis.
    absolute : bool
        Rank by the size of the score, whatever its sign.
    budget : int, optional
        Multiplies allowed for each query (at least one for each atom). When they are used up, the best guess is
        returned with ``stop_reason="budget"`` and honest intervals.
    rescore : bool
        Compute the exact scores of the returned atoms (k*d multiplies, counted). The search then takes the way that is
        fastest on this machine, which may be the full product. If False, it takes the way with the fewest multiplies,
        and no atom costs d unless sampling comes to that.
    mask : bool array of shape (n,) or (m, n), optional
        True excludes an atom.
    seed : int
        The same seed gives the same answer at any batch size or number of threads.
    n_jobs : int
        Threads over queries; -1 means one for each core.
    trace : bool
        Record every round in ``result.trace``.
    progress : bool
        Show a progress bar over the queries.

    Returns
    -------
    SearchResult
        Unpacks as ``indices, scores``.

    Examples
    --------
    >>> import numpy as np
    >>> import banditmips as bm
    >>> rng = np.random.default_rng(0)
    >>> atoms = rng.normal(size=(50, 1)) + rng.normal(size=(50, 20_000))
    >>> query = 1 + rng.normal(size=20_000)
    >>> result = bm.search(atoms, query, k=2, rescore=False)
    >>> indices, scores = result
    >>> bool((indices == np.argsort(-(atoms @ query))[:2]).all())
    True
    >>> result.n_multiplies < atoms.size / 4
    True
    """
    reject_unknown(unknown, "search", ("k", "mask"))
    options = Options(
        delta=delta,
        epsilon=epsilon,
        objective=objective,
        sampling=sampling,
        beta=beta,
        bound=bound,
        sigma=sigma,
        value_range=value_range,
        replacement=replacement,
        absolute=absolute,
        budget=budget,
        rescore=rescore,
        seed=seed,
        n_jobs=n_jobs,
        trace=trace,
        progress=progress,
    )
    return run_queries(AtomSet(as_store(atoms)), queries, k, options, mask)


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
    lanes: dict[tuple[int, int], ExpressLane | None] = field(default_factory=dict, compare=False, repr=False)


_PLAIN = (np.dtype(np.float32), np.dtype(np.float64))


def run_queries(
    atom_set: AtomSet, queries: ArrayLike, k: int, options: Options, mask: ArrayLike | None
) -> SearchResult:
    """Answer one query or a batch."""
    from banditmips.atoms.facts import collect_facts
    from banditmips.race.express import ExpressAnswer

    k = check_k(k)
    n, d = atom_set.store.shape
    if type(queries) is np.ndarray and queries.shape == (d,) and queries.dtype in _PLAIN and mask is None:
        # The common case first: for a single plain query every microsecond of checking shows.
        lane = _lane(atom_set, options, k)
        if lane is not None and atom_set.removed is None:
            short = lane.answer(np.ascontiguousarray(queries), None)
            if isinstance(short, ExpressAnswer):
                return _express_result(short, atom_set)
    rows, single = as_queries(queries, d)
    masks = as_mask(mask, n, len(rows), single)
    if options.budget is not None and options.budget < n:
        raise ValueError(f"budget must allow at least one multiply for each of the {n} atoms, got {options.budget}")
    check_range(atom_set, options)
    if options.objective == "cosine" and atom_set.facts is None:
        atom_set = AtomSet(atom_set.store, facts=collect_facts(atom_set.store), removed=atom_set.removed)
    lane = _lane(atom_set, options, k)

    def answer(i: int) -> SearchResult:
        excluded = None if masks is None else masks[i]
        unfinished = None
        if lane is not None:
            short = lane.answer(_as_float(rows[i]), _candidates(n, excluded, atom_set.removed))
            if isinstance(short, ExpressAnswer):
                return _express_result(short, atom_set)
            unfinished = short
        where = "" if single else f"row {i}, "
        return _Query(atom_set, rows[i], k, options, excluded, where).answer(unfinished)

    if single:
        return answer(0)
    if len(rows) == 0:
        return _empty_batch(k, options.trace, checked=not atom_set.unchecked)
    return SearchResult.stack(list(_map(answer, len(rows), options)))


def check_range(atom_set: AtomSet, options: Options) -> None:
    """Refuse a range of the atoms' entries that is known not to hold them."""
    facts, given = atom_set.facts, options.value_range
    if facts is not None and given is not None and not given[0] <= facts.low <= facts.high <= given[1]:
        raise ValueError(f"value_range is {given}, but the atoms' entries lie between {facts.low} and {facts.high}")


def explain_query(atom_set: AtomSet, query: ArrayLike, k: int, options: Options) -> str:
    """Say in words how one query would be answered."""
    rows, single = as_queries(query, atom_set.store.shape[1])
    if not single:
        raise ValueError(f"query must be one query (1-d), got a batch of shape {rows.shape}")
    lane = _lane(atom_set, options, check_k(k))
    if lane is None:
        return f"way: round by round in Python ({_why_general(atom_set, options)})"
    return "\n".join(lane.explain(_as_float(rows[0])))


def _why_general(atom_set: AtomSet, options: Options) -> str:
    """Name what keeps a search from the compiled races."""
    plain = Options()
    names = ("bound", "objective", "sampling", "replacement", "trace", "budget", "epsilon", "delta")
    changed = [f"{name}={getattr(options, name)!r}" for name in names if getattr(options, name) != getattr(plain, name)]
    kept = f"atoms in a {type(atom_set.store).__name__} of {atom_set.store.dtype}"
    return ", ".join([*changed, kept, *(["bins"] if atom_set.buckets is not None else [])])


def _lane(atom_set: AtomSet, options: Options, k: int) -> ExpressLane | None:
    """Find or make the express lane for these options, if they are of the common kind."""
    from banditmips.race.express import ExpressLane, serves

    key = (id(options), k)
    lane = atom_set.lanes.get(key)
    # An id may come again with other options, after the first ones are gone.
    if lane is not None and lane.options is options:
        return lane
    if not serves(atom_set, options):
        return None
    lane = ExpressLane(atom_set, options, k)
    atom_set.lanes[key] = lane
    return lane


def _as_float(query: NDArray[Any]) -> NDArray[Any]:
    """The query as a contiguous array of floats, itself where it is one."""
    if query.dtype in (np.float32, np.float64) and query.dtype.isnative:
        return np.ascontiguousarray(query)
    with np.errstate(over="ignore"):
        return query.astype(np.float64)


def _express_result(found: ExpressAnswer, atom_set: AtomSet) -> SearchResult:
    return SearchResult(
        indices=found.indices,
        scores=found.scores,
        lower=found.scores.copy() if found.exact else found.scores - found.radius,
        upper=found.scores.copy() if found.exact else found.scores + found.radius,
        exact=np.full(found.indices.size, found.exact),
        n_multiplies=found.n_multiplies,
        n_rounds=found.n_rounds,
        n_survivors=found.n_survivors,
        stop_reason=found.stop_reason,
        delta_spent=found.delta_spent,
        checked=not atom_set.unchecked,
    )


def _map(answer: Callable[[int], SearchResult], m: int, options: Options) -> Iterable[SearchResult]:
    """Answer queries 0, ..., m-1, in threads if asked for, with a progress bar if asked for."""
    n_jobs = (os.cpu_count() or 1) if options.n_jobs == -1 else options.n_jobs
    if n_jobs == 1 or m == 1:
        yield from _with_progress(map(answer, range(m)), m, options.progress)
        return
    pool = ThreadPoolExecutor(min(n_jobs, m))
    try:
        yield from _with_progress(pool.map(answer, range(m)), m, options.progress)
    finally:
        # After Ctrl-C or an error, queries that have not begun are dropped.
        pool.shutdown(wait=True, cancel_futures=True)


def _with_progress(results: Iterator[SearchResult], m: int, progress: bool) -> Iterator[SearchResult]:
    if not progress:
        yield from results
        return
    from rich.console import Console
    from rich.progress import track

    yield from track(results, description="searching", total=m, console=Console(stderr=True))


class _Query:
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
        candidates = _candidates(n, excluded, atom_set.removed)
        self._candidates = np.arange(n) if candidates is None else candidates
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
        lines = [f"round by round: {type(self._sampler).__name__}, bound {self._options.bound}"]
        if self._options.trace:
            lane = _lane(self._atoms, untraced, self._k)
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
            trace=Trace(tuple(outcome.rounds), plan) if self._options.trace else None,
        )


def _candidates(
    n: int, excluded: NDArray[np.bool_] | None, removed: NDArray[np.bool_] | None
) -> NDArray[np.int64] | None:
    """The atoms that take part; None for all."""
    if excluded is None and removed is None:
        return None
    out = np.zeros(n, dtype=np.bool_)
    for mask in (excluded, removed):
        if mask is not None:
            out |= mask
    return np.flatnonzero(~out)


def _empty_batch(k: int, traced: bool, checked: bool) -> SearchResult:
    counts = np.empty(0, dtype=np.int64)
    scores = np.empty((0, k))
    return SearchResult(
        indices=np.empty((0, k), dtype=np.int64),
        scores=scores,
        lower=scores,
        upper=scores,
        exact=np.empty((0, k), dtype=np.bool_),
        n_multiplies=counts,
        n_rounds=counts,
        n_survivors=counts,
        stop_reason=(),
        delta_spent=np.empty(0),
        checked=checked,
        trace=() if traced else None,
    )
