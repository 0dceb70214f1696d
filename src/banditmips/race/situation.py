"""A query before its race: what it asks of which atoms, who reads them for it, and whether sampling can pay."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from banditmips.atoms.dense import DenseStore
from banditmips.atoms.facts import length_of, means_of_rows
from banditmips.atoms.packed import PackedStore
from banditmips.atoms.parts import PartStore, part_sums
from banditmips.atoms.sparse import SparseStore
from banditmips.core.batch import measure_queries
from banditmips.core.certain import MeasuredQuery, ScoreMap
from banditmips.core.exact import Exact, ReaderExact, RowsExact
from banditmips.core.numbers import permuted_coordinates
from banditmips.core.quantiles import student_quantile
from banditmips.core.rule import share_of_round
from banditmips.core.statistics import PRODUCT
from banditmips.race.costs import costs
from banditmips.race.known import index_rows, inverse, norms_of, spreads_of
from banditmips.race.lines import QueryLines
from banditmips.race.plan import SamplingPlan, cells_needed, coordinates_needed, probe_quantile
from banditmips.race.readers import SparseReader, StoreReader
from banditmips.race.rules import OBJECTIVE_CODES, compares_pairs, least_sample, resolve_sampling
from banditmips.race.sampled import Problem
from banditmips.race.sampling import EVEN_ENOUGH_FOR_CACHE, unevenness
from banditmips.race.schedule import FIRST_LINES, MOST_LINES, LineSchedule, TimedSchedule

if TYPE_CHECKING:
    from banditmips._search_options import Options
    from banditmips.race.atom_set import AtomSet

__all__ = [
    "FEW_ENTRIES",
    "MOST_LEVEL",
    "WITHOUT_LENGTHS",
    "Situation",
    "good_exponents",
    "less_its_level",
    "less_their_levels",
    "map_of_products",
    "map_of_terms",
    "share_of_first_round",
    "why_not_sampled",
]

FEW_ENTRIES = 16
"""A query has few entries if so many times as many would be no more than all: a gathered value takes the time of about
as many that are read in a row, and rows are read whole unless that is more."""

WITHOUT_LENGTHS = ("cosine", "correlation")
"""Objectives that do not depend on the lengths of vectors, and so need the atoms' norms."""
MOST_LEVEL = 4.0
"""What the mean of a query may be of its square, beside the rest, before a correlation is taken of the rest alone."""
_QUERY_EXPONENT, _PRODUCT_EXPONENT = 60, 1000
"""Powers of two that the entries of queries whose length does not matter reach, and that their products with entries of
atoms do not exceed: the smallest atoms' inverse norms do not overflow then, nor do the sums of the largest."""
_PROBED, _LINE_MARGIN = 32, 1.5
"""Atoms and lines of a probe, at most; and how many times less than a scan short reads must promise to take."""
_SPARSE_RACE = 100_000
"""Stored entries of an atom from which on a race on a sparse matrix is faster than the product of the whole. On 500 x
100,000 atoms a fifth of which was stored, a race took 130 microseconds for each atom, and a stored entry 1.35
nanoseconds in the product."""


class Situation:
    """A query before its race: all that a way is chosen by.

    Attributes
    ----------
    problem : Problem
        The query, coordinate by coordinate.
    support : int64 array
        The coordinates that can contribute, ascending.
    """

    def __init__(self, atoms: AtomSet, query: NDArray[np.float64], k: int, options: Options) -> None:
        self.atoms, self.k, self.options = atoms, k, options
        if options.objective in WITHOUT_LENGTHS:
            assert atoms.facts is not None
            query = _of_good_length(query, atoms.facts.scale)
            if options.objective == "correlation":
                query = less_its_level(query)
        objective = OBJECTIVE_CODES[options.objective]
        # Where the query is 0, a product adds nothing; a difference does.
        has_zeros = objective == PRODUCT and MeasuredQuery(query).n_nonzero < query.size
        self.support = np.flatnonzero(query) if has_zeros else _all_coordinates(query.size)
        self.problem = Problem(query, objective, map_of_terms(atoms, options.objective, query))

    @property
    def query(self) -> NDArray[np.float64]:
        """The query as products with it are taken."""
        query: NDArray[np.float64] = self.problem.query
        return query

    @property
    def on_support(self) -> NDArray[np.float64]:
        """The query's entries where it can contribute; a query without zeros as it is, because a copy takes long."""
        return self.query if self.support.size == self.query.size else self.query[self.support]

    @property
    def is_product(self) -> bool:
        """Whether terms are products."""
        return self.problem.objective == PRODUCT

    @property
    def has_few_entries(self) -> bool:
        """Whether only the columns where the query is not 0 are worth reading."""
        return self.is_product and FEW_ENTRIES * self.support.size <= self.query.size

    def product_map(self) -> ScoreMap | None:
        """How scores follow from inner products, if they do."""
        return map_of_products(self.atoms, self.options.objective, self.query, self.problem.scores)

    @property
    def check_finite(self) -> bool:
        """Whether nobody has looked at the atoms before."""
        return self.atoms.facts is None and not self.atoms.unchecked

    def reader(self, cached: bool = False) -> StoreReader:
        """Make a reader of coordinates and exact scores."""
        # Visiting only the support costs a cache line for each product, so it pays where the support is small.
        columns = self.support if self.support.size <= self.query.size // 2 else None
        store, cache = self.atoms.store, self.atoms.cache if cached else None
        value_range = self.options.value_range if self.atoms.facts is None else None
        kind = SparseReader if isinstance(store, SparseStore) else StoreReader
        return kind(store, self.problem, columns, self.check_finite, value_range, cache)

    def exact(self) -> Exact:
        """Make exact scores of atoms, however they are sampled."""
        rows, reader = index_rows(self.atoms), self.reader()
        if rows is None:
            return ReaderExact(reader)
        columns = self.support if self.has_few_entries else None
        exact = RowsExact(rows, self.query, self.problem.objective, self.problem.scores, columns, reader.complain)
        exact.row_cost = self.support.size  # a product with 0 is none, whether or not the entry is read
        return exact

    @property
    def lined(self) -> PartStore | None:
        """The store, if it is read in lines."""
        store = self.atoms.store
        return store if isinstance(store, PartStore) and store.line_width > 1 else None

    @cached_property
    def query_lines(self) -> QueryLines:
        """The query line by line, weighted by its entries alone."""
        assert self.lined is not None
        return QueryLines(self.problem, self.lined.line_width)

    def takes_cache(self) -> bool:
        """Whether cached coordinates, which are uniform ones, suit the query and the options."""
        return self.atoms.cache is not None and self.takes_uniform(self.query)

    def takes_uniform(self, query: NDArray[np.float64]) -> bool:
        """Whether uniform coordinates suit the options and a query, or its non-zero part."""
        if self.options.sampling not in ("auto", "uniform") or self.options.replacement:
            return False
        return not self.is_product or (self.support.size > 0 and unevenness(query) <= EVEN_ENOUGH_FOR_CACHE)

    def takes_packed(self) -> bool:
        """Whether packed coordinates suit the query and the options: as cached ones, but zeros can be passed over."""
        asked_for = self.options.sampling == "uniform" and not self.options.replacement
        return asked_for or self.takes_uniform(self.query[self.support])

    def why_exactly(self) -> str | None:
        """Say why all exact scores are the better choice by where the atoms are, if so; None if a race may be."""
        store = self.atoms.store
        if isinstance(store, SparseStore):
            return why_not_sampled(store) if self.options.minimise == "time" else None
        if isinstance(store, PackedStore):
            return self._why_exactly_packed(store)
        if not isinstance(store, PartStore) or self.takes_cache():
            return None
        sampled = share_of_first_round(store, store.n_lines)
        if sampled * (store.line_time if self.options.minimise == "time" else 1.0) > MOST_LINES:
            return f"atoms come in {store.n_lines} lines of {store.line_width:,} coordinates, too few to sample from"
        returned = store.share_of_rows(self.k) if self.options.rescore else 0.0
        if sampled + returned >= 1.0:
            return f"a first sample takes {sampled:.0%} of all bytes, and the atoms returned {returned:.0%}"
        expected = sampled * store.line_time * self.lines_expected / FIRST_LINES
        if _LINE_MARGIN * expected + returned > 1.0:
            n_lines = f"{self.lines_expected:.0f} of {store.n_lines} lines"
            return f"a probe of a few atoms expects about {n_lines} for dropping one"
        return None

    @cached_property
    def lines_expected(self) -> float:
        """Lines that dropping a typical atom is expected to take, by a probe of a few; 0 where none is needed.

        A probe is needed where short reads take longer than long ones: there a race in vain costs more than it reads.
        """
        store, options = self.lined, self.options
        if store is None or store.line_time == 1.0 or options.minimise != "time" or not self.is_product:
            return 0.0
        lines = self.query_lines
        n, population = store.shape[0], lines.lines.size
        if population == 0:
            return 0.0
        rows = np.unique(np.linspace(0, n - 1, max(_PROBED // 8, min(n // 8, _PROBED))).astype(np.int64))
        chosen = np.sort(lines.lines[permuted_coordinates(options.seed, population, 0, min(_PROBED, population))])
        terms = np.zeros((rows.size, chosen.size))
        for part in store.read_parts(rows, [store.line(number) for number in chosen.tolist()]):
            terms[part.rows, part.span] += part_sums(part, None, self.query, PRODUCT)
        needed = cells_needed(terms, n, self.k, options.absolute, not compares_pairs(options))
        size, number = FIRST_LINES, 1
        while size < population:
            tail = options.delta * share_of_round(number) / (self.k * n)
            # None is drawn twice; with few lines their spread is not known well, and one of them stands out by chance.
            separated = student_quantile(size - 1, tail) ** 2 * needed * (1.0 - size / population) <= size
            if separated and np.log(size) / size <= 1.0 / np.log(1.0 / tail):
                break
            size, number = LineSchedule().next_size(size, population), number + 1
        return float(size)

    def _why_exactly_packed(self, store: PackedStore) -> str | None:
        n, d = store.shape
        if not store.is_whole and self.support.size and not self.takes_packed():
            # Any other coordinates would have to be read by row, and then the row is as good as read.
            packed = f"{store.order.size:,} of {d:,} coordinates"
            return f"the query is too uneven for the uniform sample that is packed, {packed}"
        returned = min(1.0, self.k * store.layout.rows_chunk[0] / n) if self.options.rescore else 0.0
        if not self.takes_cache() and store.layout.coordinates_chunk[0] / d + returned >= 1.0:
            return "a first sample and the atoms returned take all bytes"
        return None

    def plan_in_memory(self, n_candidates: int) -> SamplingChoice:
        """Ask what sampling atoms in memory would take, and plan for it; say why not, if it would not pay."""
        atoms, options, k = self.atoms, self.options, self.k
        in_memory = isinstance(atoms.store, DenseStore) or index_rows(atoms) is not None
        if options.minimise != "time" or options.delta == 0.0 or not in_memory:
            return SamplingChoice()
        shape = (*atoms.store.shape, atoms.store.dtype.itemsize)
        if self.takes_cache():
            # Cached values take so little that rounds on them are their own probe.
            assert atoms.cache is not None
            plan = SamplingPlan(costs(), *shape, weighted=False, n_leaders=k)
            return SamplingChoice(schedule=plan.schedule(0.0, at_hand=atoms.cache.n_coordinates))
        first, pairs = least_sample(options, k, n_candidates), compares_pairs(options)
        # Whether every coordinate would need a weight.
        weighted = self.support.size > 0 and resolve_sampling(options, self.on_support, has_cache=False) != "uniform"
        plan = SamplingPlan(costs(), *shape, weighted=weighted, n_leaders=k if pairs else 1)
        if not plan.can_pay(first):
            return SamplingChoice("all products take less time than the least that sampling would")
        if options.objective in WITHOUT_LENGTHS:
            return SamplingChoice(schedule=plan.schedule(0.0))
        settings = (probe_quantile(shape[0], k, options.delta), k, options.seed, options.absolute, not pairs)
        needed = coordinates_needed(atoms.store, self.query, *settings, self.problem.objective)
        probed = f"a probe of a few atoms expects about {needed:.3g} coordinates for dropping one"
        if not plan.pays(max(needed, first), first):
            return SamplingChoice(probed)
        time = plan.race_time(max(needed, first), first)
        text = f"{probed}, {time / 1e3:.0f} us in all; all products take {plan.full / 1e3:.0f} us"
        # Differences tell most atoms apart at once, but not those close to the best: there a probe can only say no.
        return SamplingChoice(None, text, plan.schedule(time if self.is_product else 0.0), time)


def map_of_terms(atoms: AtomSet, objective: str, query: NDArray[np.float64]) -> ScoreMap:
    """How scores follow from sums of the objective's own terms."""
    if objective not in WITHOUT_LENGTHS:
        return _AS_IT_IS
    assert atoms.facts is not None
    if objective == "cosine":
        return ScoreMap(inverse(norms_of(atoms) * length_of(query)))
    mean = float(means_of_rows(query[np.newaxis])[0])
    factors = inverse(spreads_of(atoms) * length_of(query - mean))
    return ScoreMap(factors, -query.size * mean * atoms.facts.means * factors)


def map_of_products(atoms: AtomSet, objective: str, query: NDArray[np.float64], of_terms: ScoreMap) -> ScoreMap | None:
    """How scores follow from inner products, if they do; `of_terms` where these are the terms."""
    if OBJECTIVE_CODES[objective] == PRODUCT:
        return of_terms
    facts = atoms.facts
    if facts is None or objective == "neg_l1":
        return None
    with np.errstate(over="ignore"):  # as squares of atoms may
        square = float(query @ query)
    twos = atoms.once("twos", lambda: np.full(facts.squared_norms.size, 2.0))
    return ScoreMap(twos, -facts.squared_norms - square)


_AS_IT_IS = ScoreMap()


@dataclass(frozen=True)
class SamplingChoice:
    """Why nothing is to be sampled for, if that is so; else what sampling is expected to take, and when it ends.

    `time` is in nanoseconds, or 0 where nobody knows.
    """

    why_not: str | None = None
    expects: str | None = None
    schedule: TimedSchedule | None = None
    time: float = 0.0


def why_not_sampled(store: SparseStore) -> str | None:
    """Say why the product of a sparse matrix takes less time than sampling it, if it does."""
    if not store.has_columns:
        return f"the matrix is stored by row: sampling columns would look at all {store.n_stored:,} entries"
    mean = store.n_stored / store.shape[0]
    if mean >= _SPARSE_RACE:
        return None
    return (
        f"atoms have {mean:.3g} stored entries on average; from {_SPARSE_RACE:,} on a race is faster "
        "(minimise='multiplies' samples all the same)"
    )


def share_of_first_round(store: PartStore, n_lines: int) -> float:
    """Part of all bytes that a race on these many lines reads at least."""
    return FIRST_LINES * store.line_cost / max(n_lines, 1)


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


def less_its_level(query: NDArray[np.float64]) -> NDArray[np.float64]:
    """The query less its mean, which no correlation sees, where the mean is most of it.

    Else products with atoms that are far from 0 too would be all rounding. A query with zeros keeps them: products with
    them are saved, and a mean is never most of it.
    """
    level = float(query.mean())
    apart = query - level
    if query.size * level**2 <= MOST_LEVEL * float(apart @ apart):
        return query
    # Of equal numbers, the mean may be another one by rounding.
    return np.zeros_like(query) if query.min() == query.max() else apart


def less_their_levels(queries: NDArray[Any]) -> NDArray[Any]:
    """Queries, of floats in C order, those that are mostly mean less their means: each as it would be alone."""
    with np.errstate(over="ignore", invalid="ignore"):
        level = queries.shape[1] * np.square(means_of_rows(queries))
        squares, *_ = measure_queries(queries)
        # By rough sums, hence half as much as it takes.
        places = np.flatnonzero(~(level <= 0.5 * MOST_LEVEL * (squares - level)))
        if places.size == 0:
            return queries
        queries = queries.astype(np.float64)
        for place in places:
            queries[place] = less_its_level(queries[place])
    return queries
