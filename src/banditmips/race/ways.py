"""What a query samples: coordinates, cached coordinates, lines.

Atoms in memory are sampled coordinate by coordinate. Where one coordinate costs as much as its whole line (pages of a
file, chunks), a race begins on cached coordinates, if an index has them, and goes on with lines.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from banditmips.atoms.packed import PackedStore
from banditmips.atoms.parts import PartStore
from banditmips.atoms.sparse import SparseStore
from banditmips.core.sample_source import SampleSource
from banditmips.core.survivors import Survivors
from banditmips.race.line_reader import LineReader
from banditmips.race.lines import QueryLines
from banditmips.race.rules import compares_pairs, indicator, make_sampler, name_of_bound
from banditmips.race.sampled import Contest, Problem, Reader
from banditmips.race.sampling import Sampler, UniformSampler, unevenness
from banditmips.race.schedule import MOST_LINES, LimitedSchedule, LineSchedule, PackedSchedule, Schedule
from banditmips.race.situation import Situation, share_of_first_round

__all__ = ["Way", "make_ways", "way_to_measure", "worth_going_on"]

_EVEN_LINES = 1.2
"""Up to this unevenness of the query's weight over lines, these are drawn uniformly."""
_SPARSE_BUFFER, _SMALL_BUFFER = 1 / 16, 1 << 17
"""Sampled values that a race may hold, as a part of the stored entries (they take about 33 bytes each while they are
gathered, so all together a sixth of the matrix), and what is always allowed."""


@dataclass(frozen=True)
class Way:
    """One thing to sample, and how; `text` says it in words."""

    text: str
    problem: Problem
    reader: Reader
    sampler: Sampler
    schedule: Schedule

    def source(self, contest: Contest, first: int = 0) -> SampleSource:
        """All candidates at the beginning of the race, whose first round has so many cells at least."""
        alive = Survivors(contest.candidates, contest.candidates.size, contest.k, contest.absolute)
        schedule = self.schedule.starting_with(first)
        return SampleSource(alive, contest.facts, self.problem, self.reader, self.sampler, schedule)


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
        replace(situation.problem, share=support.size / situation.query.size),
        situation.reader(cached=sampler.follows_uniform_order),
        sampler,
        schedule,
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
                situation.problem,
                situation.reader(cached=True),
                UniformSampler(situation.query.size, situation.options.seed, None),
                LimitedSchedule(limit=cache.n_coordinates),
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
    inside = None if everywhere else indicator(support, query.size)  # mostly zeros, which are passed over
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
        replace(situation.problem, share=population / query.size),
        situation.reader(cached=everywhere),
        UniformSampler(query.size, seed, inside),
        schedule,
    )


def way_to_measure(situation: Situation, n_candidates: int, size: int) -> tuple[Way, int]:
    """Choose what to measure a few atoms on with `size` coordinates, and how many units of it are as many."""
    way = make_ways(situation, n_candidates)[0]
    if isinstance(way.schedule, LimitedSchedule):
        return way, min(size, way.schedule.limit)
    if way.problem.widths is None:
        return way, size
    n_lines = size // int(way.problem.widths[0])
    return (way, n_lines) if n_lines > 1 else (coordinate_way(situation), size)


def _line_way(situation: Situation, store: PartStore, n_candidates: int, seen: NDArray[np.int64] | None) -> Way | None:
    """Sample lines; None if there are too few."""
    options, facts = situation.options, situation.atoms.facts
    squares = facts.column_squares if options.sampling == "optimal" and facts is not None else None
    lines = situation.query_lines
    if squares is not None:
        lines = QueryLines(situation.problem, store.line_width, squares)
    if share_of_first_round(store, lines.lines.size) > MOST_LINES:
        return None
    if options.sampling == "auto" and unevenness(lines.weights[lines.lines]) <= _EVEN_LINES:
        options = replace(options, sampling="uniform")
    line_time = store.line_time if options.minimise == "time" else 1.0
    known = None if facts is None else np.ones(lines.starts.size, dtype=np.float32)
    sampler = make_sampler(lines.weights, lines.lines, options, known, has_cache=False)
    reader = LineReader(
        store,
        situation.problem,
        lines,
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
    return Way(text, lines.problem(seen), reader, sampler, schedule)


def worth_going_on(n_survivors: int, k: int, rescore: bool) -> bool:
    """Whether to race the survivors on other cells, rather than to read all of them."""
    # A few atoms more than those that are read anyway are not worth many short reads.
    return not rescore or n_survivors > 4 * k
