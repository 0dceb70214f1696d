"""What a query samples: coordinates, cached coordinates, lines; and when there is nothing to sample for.

Atoms in memory are sampled coordinate by coordinate. Where one coordinate costs as much as its whole line (pages of a
file, chunks), a race begins on cached coordinates, if an index has them, and goes on with lines.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from banditmips.atoms.packed import PackedStore
from banditmips.atoms.parts import PartStore, part_sums
from banditmips.atoms.sparse import SparseStore
from banditmips.core.certain import ScoreMap
from banditmips.core.numbers import permuted_coordinates
from banditmips.core.rule import share_of_round
from banditmips.core.sample_source import PerAtom
from banditmips.core.statistics import PRODUCT
from banditmips.race.line_reader import LineReader
from banditmips.race.lines import QueryLines
from banditmips.race.plan import cells_needed
from banditmips.race.readers import CachedReader, SparseReader, StoreReader
from banditmips.race.rules import compares_pairs, make_sampler, name_of_bound
from banditmips.race.sampled import Contest, Reader
from banditmips.race.sampling import EVEN_ENOUGH_FOR_CACHE, Sampler, UniformSampler, unevenness
from banditmips.race.schedule import (
    FIRST_LINES,
    MOST_LINES,
    LimitedSchedule,
    LineSchedule,
    PackedSchedule,
    Schedule,
)

if TYPE_CHECKING:
    from banditmips._search_options import Options
    from banditmips.race.atom_set import AtomSet

__all__ = [
    "Situation",
    "Way",
    "coordinate_way",
    "make_ways",
    "way_to_measure",
    "why_not_sampled",
    "worth_going_on",
]

_EVEN_LINES = 1.2
"""Up to this unevenness of the query's weight over lines, these are drawn uniformly."""
_PROBED, _LINE_MARGIN = 32, 1.5
"""Atoms and lines of a probe, at most; and how many times less than a scan short reads must promise to take."""
_SPARSE_RACE = 100_000
"""Stored entries of an atom from which on a race on a sparse matrix is faster than the product of the whole. On 500 x
100,000 atoms a fifth of which was stored, a race took 130 microseconds for each atom, and a stored entry 1.35
nanoseconds in the product."""
_SPARSE_BUFFER, _SMALL_BUFFER = 1 / 16, 1 << 17
"""Sampled values that a race may hold, as a part of the stored entries (they take about 33 bytes each while they are
gathered, so all together a sixth of the matrix), and what is always allowed."""


@dataclass(frozen=True)
class Way:
    """One thing to sample, and how.

    Attributes
    ----------
    text
        What it is, in words.
    share
        Part of all coordinates that lie in the sampler's population.
    seen
        Coordinates that an earlier way has seen.
    lines
        The query line by line, if lines are sampled.
    """

    text: str
    reader: Reader
    sampler: Sampler
    schedule: Schedule
    share: float
    seen: NDArray[np.int64] | None = None
    lines: QueryLines | None = None

    def contest(self, contest: Contest) -> Contest:
        """Turn a contest about all coordinates into one on what is sampled here."""
        atoms = _scaled_needs(contest.atoms, self.share)
        if self.lines is None:
            return replace(contest, atoms=atoms)
        n_seen = 0 if self.seen is None else contest.problem.cost(self.seen)
        return replace(contest, atoms=atoms, problem=self.lines.problem(self.seen, n_seen))


def _scaled_needs(atoms: PerAtom, share: float) -> PerAtom:
    """What is known of atoms, if only a share of their scatter lies where it can be sampled."""
    return PerAtom(atoms.row_scale, atoms.centers, share * atoms.needed_scatter, atoms.offsets)


@dataclass(frozen=True)
class Situation:
    """A query before the race: all that a way is chosen by."""

    atoms: AtomSet
    options: Options
    query: NDArray[np.float64]
    objective: int
    support: NDArray[np.int64]
    scores: ScoreMap
    k: int

    @property
    def check_finite(self) -> bool:
        """Whether nobody has looked at the atoms before."""
        return self.atoms.facts is None and not self.atoms.unchecked

    def reader(self, cached: bool = False) -> StoreReader:
        """Make a reader of coordinates and exact scores."""
        # Visiting only the support costs a cache line for each product, so it pays where the support is small.
        few = self.support.size <= self.query.size // 2
        cache = self.atoms.cache if cached else None
        kind = SparseReader if isinstance(self.atoms.store, SparseStore) else StoreReader
        reader = (kind if cache is None else CachedReader)(
            self.atoms.store,
            self.query,
            self.support if few else None,
            self.objective,
            self.scores,
            check_finite=self.check_finite,
            value_range=self.options.value_range if self.atoms.facts is None else None,
        )
        if isinstance(reader, CachedReader) and cache is not None:
            reader.cache = cache
        return reader

    @property
    def lined(self) -> PartStore | None:
        """The store, if it is read in lines."""
        store = self.atoms.store
        return store if isinstance(store, PartStore) and store.line_width > 1 else None

    @cached_property
    def query_lines(self) -> QueryLines:
        """The query line by line, weighted by its entries alone."""
        assert self.lined is not None
        return QueryLines(self.query, self.lined.line_width, self.objective)

    def takes_cache(self) -> bool:
        """Whether cached coordinates, which are uniform ones, suit the query and the options."""
        return self.atoms.cache is not None and self.takes_uniform(self.query)

    def takes_uniform(self, query: NDArray[np.float64]) -> bool:
        """Whether uniform coordinates suit the options and a query, or its non-zero part."""
        if self.options.sampling not in ("auto", "uniform") or self.options.replacement:
            return False
        is_product = self.objective == PRODUCT
        return not is_product or (self.support.size > 0 and unevenness(query) <= EVEN_ENOUGH_FOR_CACHE)

    def takes_packed(self) -> bool:
        """Whether packed coordinates suit the query and the options: as cached ones, but zeros can be passed over."""
        asked_for = self.options.sampling == "uniform" and not self.options.replacement
        return asked_for or self.takes_uniform(self.query[self.support])

    def why_exactly(self) -> str | None:
        """Say why all exact scores are the better choice, if they are; None if a race may be."""
        store = self.atoms.store
        if isinstance(store, SparseStore):
            return why_not_sampled(store) if self.options.minimise == "time" else None
        if isinstance(store, PackedStore):
            return self._why_exactly_packed(store)
        if not isinstance(store, PartStore) or self.takes_cache():
            return None
        sampled = _share_of_first_round(store, store.n_lines)
        if sampled * (store.line_time if self.options.minimise == "time" else 1.0) > MOST_LINES:
            return f"atoms come in {store.n_lines} lines of {store.line_width:,} coordinates, too few to sample from"
        returned = store.share_of_rows(self.k) if self.options.rescore else 0.0
        if sampled + returned >= 1.0:
            return f"a first sample takes {sampled:.0%} of all bytes, and the atoms returned {returned:.0%}"
        expected = _share_of_first_round(store, store.n_lines) * store.line_time * self.lines_expected / FIRST_LINES
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
        if store is None or store.line_time == 1.0 or options.minimise != "time" or self.objective != PRODUCT:
            return 0.0
        lines = self.query_lines
        n, population = store.shape[0], lines.lines.size
        if population == 0:
            return 0.0
        rows = np.unique(np.linspace(0, n - 1, max(_PROBED // 8, min(n // 8, _PROBED))).astype(np.int64))
        chosen = np.sort(lines.lines[permuted_coordinates(options.seed, population, 0, min(_PROBED, population))])
        terms = np.zeros((rows.size, chosen.size))
        for part in store.read_parts(rows, [store.line(number) for number in chosen.tolist()]):
            terms[part.rows, part.span] += part_sums(part, None, self.query, self.objective)
        needed = cells_needed(terms, n, self.k, options.absolute, not compares_pairs(options))
        size, number = FIRST_LINES, 1
        while size < population:
            tail = options.delta * share_of_round(number) / (self.k * n)
            # None is drawn twice; with few lines their spread is not known well, and one of them stands out by chance.
            separated = float(stdtrit(size - 1, tail)) ** 2 * needed * (1.0 - size / population) <= size
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


def _share_of_first_round(store: PartStore, n_lines: int) -> float:
    """Part of all bytes that a race on these many lines reads at least."""
    return FIRST_LINES * store.line_cost / max(n_lines, 1)


def coordinate_way(situation: Situation, schedule: Schedule | None = None) -> Way:
    """Sample coordinates."""
    atoms, options, support = situation.atoms, situation.options, situation.support
    sampler = make_sampler(
        situation.query,
        support,
        options,
        None if atoms.facts is None else atoms.facts.column_squares,
        has_cache=atoms.cache is not None,
    )
    schedule = schedule or Schedule()
    if isinstance(atoms.store, SparseStore):
        schedule = replace(schedule, max_buffer=max(int(_SPARSE_BUFFER * atoms.store.n_stored), _SMALL_BUFFER))
    return Way(
        f"coordinates {sampler.in_words}, bound {name_of_bound(options)}",
        situation.reader(cached=sampler.follows_uniform_order),
        sampler,
        schedule,
        support.size / situation.query.size,
    )


def make_ways(situation: Situation, n_candidates: int, schedule: Schedule | None = None) -> list[Way]:
    """Choose what to sample first, and what to go on with where that has not decided the race.

    `schedule` is that of coordinates which are gathered from memory.
    """
    packed = situation.atoms.store
    if isinstance(packed, PackedStore) and situation.takes_packed():
        return [_packed_way(situation, packed, n_candidates)]
    store = situation.lined
    if store is None or not compares_pairs(situation.options):
        return [coordinate_way(situation, schedule)]
    ways: list[Way] = []
    seen = None
    cache = situation.atoms.cache
    if cache is not None and situation.takes_cache():
        seen = cache.order
        ways.append(
            Way(
                f"{cache.n_coordinates} cached coordinates, bound paired",
                situation.reader(cached=True),
                UniformSampler(situation.query.size, situation.options.seed, None),
                LimitedSchedule(limit=cache.n_coordinates),
                share=1.0,
            )
        )
    lines = _line_way(situation, store, n_candidates, seen)
    if lines is not None:
        ways.append(lines)
    return ways or [coordinate_way(situation, schedule)]


def _packed_way(situation: Situation, store: PackedStore, n_candidates: int) -> Way:
    """Sample uniformly as far as coordinates are stored by coordinate, from the cache as far as that goes."""
    query, support, seed = situation.query, situation.support, situation.options.seed
    cache, layout = situation.atoms.cache, store.layout
    everywhere = support.size == query.size or situation.takes_uniform(query)
    inside = None
    if not everywhere:  # mostly zeros, which are passed over
        inside = np.zeros(query.size, dtype=np.bool_)
        inside[support] = True
    population = query.size if inside is None else support.size
    n_packed = store.order.size if inside is None else int(np.count_nonzero(inside[store.order]))
    schedule = PackedSchedule(
        max_buffer=max(store.memory_limit // 16, 1 << 20),
        limit=n_packed,
        n_candidates=n_candidates,
        at_hand=cache.n_coordinates if everywhere and cache is not None else 0,
        # Of a sparse query's coordinates, fewer lie in a chunk.
        chunk_width=max(1, layout.coordinates_chunk[0] * population // query.size),
        chunk_height=layout.atoms_per_block,
        n_blocks=layout.n_blocks,
        row_cost=layout.rows_chunk[0] * layout.d if situation.options.rescore else None,
        n_returned=situation.k,
    )
    return Way(
        f"{n_packed} packed coordinates, bound {name_of_bound(situation.options)}",
        situation.reader(cached=everywhere),
        UniformSampler(query.size, seed, inside),
        schedule,
        share=population / query.size,
    )


def way_to_measure(situation: Situation, n_candidates: int, size: int) -> tuple[Way, int]:
    """Choose what to measure a few atoms on with `size` coordinates, and how many units of it are as many."""
    way = make_ways(situation, n_candidates)[0]
    if isinstance(way.schedule, LimitedSchedule):
        return way, min(size, way.schedule.limit)
    if way.lines is None:
        return way, size
    n_lines = size // int(way.lines.widths[0])
    return (way, n_lines) if n_lines > 1 else (coordinate_way(situation), size)


def _line_way(situation: Situation, store: PartStore, n_candidates: int, seen: NDArray[np.int64] | None) -> Way | None:
    """Sample lines; None if there are too few."""
    options, facts = situation.options, situation.atoms.facts
    squares = facts.column_squares if options.sampling == "optimal" and facts is not None else None
    lines = situation.query_lines
    if squares is not None:
        lines = QueryLines(situation.query, store.line_width, situation.objective, squares)
    if _share_of_first_round(store, lines.lines.size) > MOST_LINES:
        return None
    if options.sampling == "auto" and unevenness(lines.weights[lines.lines]) <= _EVEN_LINES:
        options = replace(options, sampling="uniform")
    line_time = store.line_time if options.minimise == "time" else 1.0
    known = None if facts is None else np.ones(lines.starts.size, dtype=np.float32)
    sampler = make_sampler(lines.weights, lines.lines, options, known, has_cache=False)
    reader = LineReader(
        store,
        situation.query,
        lines,
        situation.objective,
        situation.scores,
        None if facts is None else facts.means,
        situation.check_finite,
        long_reads=line_time > 1.0,
    )
    schedule = LineSchedule(
        n_candidates=n_candidates,
        line_cost=store.line_cost,
        line_time=line_time,
        expected=situation.lines_expected,
    )
    text = f"{lines.lines.size} lines of {store.line_width} coordinates, {sampler.in_words}, bound paired"
    return Way(text, reader, sampler, schedule, lines.share, seen, lines)


def worth_going_on(n_survivors: int, k: int, rescore: bool) -> bool:
    """Whether to race the survivors on other cells, rather than to read all of them."""
    # A few atoms more than those that are read anyway are not worth many short reads.
    return not rescore or n_survivors > 4 * k
