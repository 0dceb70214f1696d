"""One query's way over what an index has prepared, in one compiled call.

Each step leaves fewer atoms to the next:

1. what `fit` knows drops atoms for certain (`screen`);
2. where the query stands out and atoms are left, those coordinates are read, and the screen is repeated (`heads`);
3. the rest are raced on cached coordinates (`compiled`);
4. the survivors' exact products are computed, again passing over those that cannot win (`finish`).

Going back to Python between them would cost more than most of them do: after a matrix has gone through the processor's
caches, a line of Python takes microseconds.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from banditmips.race.bounds import MIN_SCATTER_SEEN
from banditmips.race.compiled import OUT_OF_RANGE, SEPARATED, UNDECIDED, cached_race, fill_radius, sampled_moments
from banditmips.race.finish import finish, take_best
from banditmips.race.heads import HAS_NO_HEADS, find_heads, read_heads
from banditmips.race.packing import space_parts, table_parts
from banditmips.race.rounds import describe_uniform
from banditmips.race.screen import beginning, count_nonzero, know, look_and_lead, query_moments, screen, settle

SPARSE, HOPELESS, TO_BE_FINISHED = 3, 4, 5
"""Further ways to end: the query has few non-zeros, and nothing was done; BLAS should compute all products; undecided,
and so many survivors that threads should share them."""
HAS_NO_ZEROS = 1.7
"""Up to this unevenness, a query is not searched for zeros (a normal query is at 1.57)."""
SPARSE_PART = 1 / 32
"""Queries with fewer non-zeros than this part of d are raced and finished on their support alone."""
MOST_OF_THEM = 0.7
"""Where the exact products of the survivors would take this part of all products' time, BLAS computes all of them."""
_LEVEL = 0.1
"""Part of a query's sum of squares that its mean has to explain for the mean to be taken out of a race."""
_EAGER, _HAS_LEVEL = 100, 16.0
"""Exact products of leaders are computed, if they are one in so many of the atoms, where centres say something: where
heads were read, or where the sum of the query is larger than that of random signs would be (its square, as a multiple
of the sum of squares)."""
_FEW_AFTER_HEADS = 16
"""So many atoms are finished without a race once heads were read: most of these rows will not be read to their ends."""
_SAMPLED = 64
"""Coordinates from which the moments of a query are estimated that is too long to be read whole."""


@njit(cache=True, nogil=True)
def _known_part(
    query: NDArray[Any], moments: tuple[float, float, float], heads: NDArray[np.int64], has_facts: bool, full: bool
) -> tuple[float, float]:
    """Return what to take from the query everywhere, and the level of what is left after that or without its heads.

    The mean is taken, where the atoms' sums are known, the query has no zeros (`full`), and it explains much. The level
    is 0 if nothing is known.
    """
    total, _, squares = moments
    d = query.size
    if heads.size:
        for head in heads:
            squares -= np.float64(query[head]) ** 2
        return 0.0, max(squares, 0.0) / d
    explained = total * total / d
    if not has_facts or not full or explained < _LEVEL * squares:
        return 0.0, 0.0
    return total / d, max(squares - explained, 0.0) / d


@njit(cache=True, nogil=True)
def _answer(
    atoms: NDArray[Any],
    columns: NDArray[Any],
    by_column: bool,
    query: NDArray[Any],
    given: NDArray[Any],
    facts: NDArray[np.float64],
    block: NDArray[Any],
    prefix: NDArray[Any],
    order: NDArray[np.int64],
    scatters: NDArray[np.float32],
    sizes: NDArray[np.int64],
    z: NDArray[np.float64],
    score_z: NDArray[np.float64],
    sampling_costs: NDArray[np.float64],
    row_cost: float,
    full_cost: float,
    allowance: float,
    k: int,
    absolute: bool,
    rescore: bool,
    whole: bool,
    few: int,
    max_heads: int,
    rounding: float,
    least_squares: float,
    largest: int,
    smallest: int,
    most_finished: int,
    n_rows: int,
    rows: NDArray[np.int64],
    rooms: NDArray[np.float64],
    marks: NDArray[np.bool_],
    heads: NDArray[np.int64],
    leaders: NDArray[np.int64],
    known_rows: NDArray[np.int64],
    known_scores: NDArray[np.float64],
    parts: NDArray[np.float64],
    places: NDArray[np.int64],
    sums: NDArray[Any],
    vectors: NDArray[Any],
    best_rows: NDArray[np.int64],
    best_scores: NDArray[np.float64],
    best_radius: NDArray[np.float64],
) -> tuple[int, int, int, int, int, int, int, int, int]:
    """Answer a query, or find out that it is better answered in another way.

    Parameters
    ----------
    atoms, columns, by_column
        The atoms by row, and by column where that can be read too.
    query, given
        The query in the atoms' precision, and in the user's.
    facts
        Mean, scatter, root of the scatter of each atom, and what a sample must show of it; of no atoms if unknown.
    block, prefix, order, scatters, sizes, z, sampling_costs, allowance
        What `cached_race` takes.
    score_z
        Quantile for the scores' own intervals after each round.
    row_cost, full_cost
        Cost of one exact product, and of all of them by BLAS.
    rescore, whole
        Whether exact scores are wanted, and whether the query may be read whole.
    few
        So many atoms are finished without a race.
    least_squares
        With a smaller sum of squares of the query, precision would be lost.
    largest, smallest
        The atoms with the largest and the smallest mean, where one atom is wanted; -1 otherwise.
    most_finished
        Exact scores, if they are wanted, are computed here for so many survivors at most.
    n_rows, rows
        The candidates, ascending; not filled in where all atoms are.
    rooms, marks, heads, leaders, known_rows, known_scores, parts, places, sums, vectors
        Workspaces; where nothing was finished here, `sprint.Sprint` reads on in them.
    best_rows, best_scores, best_radius, and what is returned
        As in `dash`.
    """
    n, d = atoms.shape[0], query.size
    estimates, ranking, scores, offsets = rooms[0], rooms[1], rooms[2], rooms[3]
    centre, upper, needed_scatter, pair = rooms[4], rooms[5], rooms[6], rooms[7:9]
    if n_rows == n:
        for i in range(n):
            rows[i] = i
    n_alive, n_known = n_rows, 0
    direction = beginning(query) if largest >= 0 and n_rows == n else 0.0
    if whole and abs(direction) > 2.0:
        likely = largest if direction > 0.0 else smallest
        moments, known_scores[0] = look_and_lead(atoms[likely], query, given, parts)
        known_rows[0], n_known = likely, 1
    elif whole:
        moments = query_moments(query, parts)
    else:
        # The end of the cached order, because the mean is taken out of what its beginning samples.
        moments = sampled_moments(query, order[-_SAMPLED:])
    total, size_of_query, squares = moments
    if not least_squares <= squares < np.inf:
        return OUT_OF_RANGE, 0, 0, 0, 0, 0, 0, 0, 0
    # At least d/uneven entries are not 0 (Cauchy-Schwarz), and none can hold most of the sum of squares.
    uneven = d * squares / (size_of_query * size_of_query)
    n_nonzero = d
    if whole and uneven > HAS_NO_ZEROS:
        n_nonzero = count_nonzero(query)
        if n_nonzero < SPARSE_PART * d:
            return SPARSE, n_rows, n_rows, 0, 0, 0, 0, n_nonzero, 0
    has_facts = facts.shape[1] > 0
    screened = whole and has_facts
    if screened:
        know(facts[0], facts[2], d, moments, rounding, absolute, centre, upper)
        if rescore:
            n_alive, n_known = screen(
                atoms, given, rows, n_alive, k, absolute, centre, upper, pair, leaders, known_rows, known_scores,
                n_known, _EAGER * k <= n_rows and total * total > _HAS_LEVEL * squares,
            )  # fmt: skip
        else:
            n_alive = settle(rows, n_alive, k, centre, upper, pair, leaders)
    n_heads, n_multiplies = 0, 0
    if screened and n_alive > few and uneven > HAS_NO_HEADS:
        n_heads = find_heads(query, moments, max_heads, heads)
    if n_heads > 0:
        n_multiplies = n_heads * n_alive
        read_heads(
            columns, by_column, query, heads[:n_heads], rows, n_alive, d, moments, rounding, facts[0], facts[1],
            MIN_SCATTER_SEEN, offsets, needed_scatter, absolute, centre, upper,
        )  # fmt: skip
        if rescore:
            n_alive, n_known = screen(
                atoms, given, rows, n_alive, k, absolute, centre, upper, pair, leaders, known_rows, known_scores,
                n_known, _EAGER * k <= n_rows,
            )  # fmt: skip
        else:
            n_alive = settle(rows, n_alive, k, centre, upper, pair, leaders)
    n_raced, size, n_rounds = n_alive, 0, 0
    if n_heads > 0:
        few = _FEW_AFTER_HEADS
    if rescore and screened and n_alive <= max(k, few):
        status = SEPARATED if n_alive <= k else UNDECIDED
        for t in range(n_alive):
            estimates[t] = centre[rows[t]]
    else:
        shift, level = _known_part(query, moments, heads[:n_heads], has_facts, n_nonzero == d)
        if shift != 0.0:
            for i in range(n):
                offsets[i] = facts[0, i] * shift * d
        elif n_heads == 0:
            offsets[:] = 0.0
        scatter = facts[1] if level > 0.0 else facts[1, :0]
        needed = needed_scatter if n_heads > 0 else facts[3]
        finish_cost = row_cost if rescore else np.inf
        rival = known_rows[0] if n_known > 0 else -1
        status, n_alive, size, n_rounds, n_sampled, _ = cached_race(
            block,
            prefix,
            order,
            query,
            heads[:n_heads],
            shift,
            offsets,
            scatter,
            level,
            sizes,
            z,
            sampling_costs,
            finish_cost,
            allowance,
            k,
            absolute,
            scatters,
            needed,
            n_rows,
            n_alive,
            rival,
            rows,
            marks[0],
            marks[1],
            estimates,
            ranking,
            marks[2],
            leaders,
            places,
            sums,
            vectors,
        )
        n_multiplies += n_sampled
    if not rescore and status == SEPARATED:
        describe_uniform(vectors, size, d)
        take_best(rows, estimates, n_alive, absolute, best_rows, best_scores)
        quantile = score_z[n_rounds - 1]
        fill_radius(
            prefix, best_rows, size, vectors[2], vectors[3], best_scores, offsets, np.float64(d), quantile, best_radius
        )  # fmt: skip
    if not rescore or status == OUT_OF_RANGE:
        return status, n_alive, n_raced, n_known, size, n_rounds, n_multiplies, n_nonzero, n_heads
    # An exact score computes anew only what the sample had not seen; one before the race had seen nothing.
    n_unseen = n_nonzero
    if status == UNDECIDED and n_known == 0 and size > 0:
        n_unseen -= n_heads + count_nonzero(vectors[0, :size])
    if status == UNDECIDED and n_rows == n and row_cost * n_alive >= MOST_OF_THEM * full_cost:
        n_multiplies = min(n_multiplies + n_alive * n_unseen, n * n_nonzero)
        return HOPELESS, n_alive, n_raced, n_known, size, n_rounds, n_multiplies, n_nonzero, n_heads
    if status == UNDECIDED and n_alive > most_finished:
        return TO_BE_FINISHED, n_alive, n_raced, n_known, size, n_rounds, n_multiplies, n_nonzero, n_heads
    ends = upper if screened else upper[:0]
    n_kept, n_entries = finish(
        atoms, query, given, rows, n_alive, k, absolute, ends, facts, heads[:n_heads], parts, rounding, estimates,
        ranking, leaders, known_rows, known_scores, n_known, scores,
    )  # fmt: skip
    if not take_best(rows, scores, n_kept, absolute, best_rows, best_scores):
        status = OUT_OF_RANGE
    # Of rows not read to their ends, the non-zeros of the query and what was seen before are counted in proportion.
    n_multiplies = min(n_multiplies + (n_entries * n_unseen + d - 1) // d, n_rows * n_nonzero)
    return status, n_alive, n_raced, n_known, size, n_rounds, n_multiplies, n_nonzero, n_heads


@njit(cache=True, nogil=True)
def dash(
    atoms: NDArray[Any],
    columns: NDArray[Any],
    by_column: bool,
    query: NDArray[Any],
    given: NDArray[Any],
    block: NDArray[Any],
    prefix: NDArray[Any],
    settings: NDArray[Any],
    tables: NDArray[np.float64],
    space: NDArray[np.float64],
    most_finished: int,
    n_rows: int,
) -> tuple[int, int, int, int, int, int, int, int, int]:
    """Unpack what `packing` has packed, and let `_answer` answer the query.

    The answer, if it was found here, is in the workspaces for it; its radius only where it is an estimate.

    Returns
    -------
    status, n_alive, n_raced, n_known, size, n_rounds, n_multiplies, n_nonzero, n_heads
        The atoms left in the end and before the race; how many exact scores were known before the finish; coordinates
        and rounds of the race; all multiplies (but those of a finish that is not done here); the query's non-zeros and
        heads.
    """
    n, fixed = atoms.shape[0], settings[0]
    facts, z, score_z, sampling_costs, sizes, order, scatters = table_parts(
        tables, n, fixed.n_known, fixed.n_rounds, prefix.shape[1]
    )
    (
        rooms, parts, known_scores, best_scores, best_radius, rows, places, heads, leaders, known_rows, best_rows,
        marks, sums, vectors,
    ) = space_parts(space, block, n, query.size, fixed.length, fixed.k)  # fmt: skip
    return _answer(
        atoms,
        columns,
        by_column,
        query,
        given,
        facts,
        block,
        prefix,
        order,
        scatters,
        sizes,
        z,
        score_z,
        sampling_costs,
        fixed.row_cost,
        fixed.full_cost,
        fixed.allowance,
        fixed.k,
        fixed.absolute,
        fixed.rescore,
        fixed.whole,
        fixed.few,
        fixed.max_heads,
        fixed.rounding,
        fixed.least_squares,
        fixed.largest,
        fixed.smallest,
        most_finished,
        n_rows,
        rows,
        rooms,
        marks,
        heads,
        leaders,
        known_rows,
        known_scores,
        parts,
        places,
        sums,
        vectors,
        best_rows,
        best_scores,
        best_radius,
    )


@njit(cache=True, nogil=True)
def dash_plain(
    atoms: NDArray[Any],
    query: NDArray[Any],
    block: NDArray[Any],
    prefix: NDArray[Any],
    settings: NDArray[Any],
    tables: NDArray[np.float64],
    space: NDArray[np.float64],
    most_finished: int,
    n_rows: int,
) -> tuple[int, int, int, int, int, int, int, int, int]:
    """Do what `dash` does for atoms by row alone and a query in their precision, with less to unpack."""
    return dash(atoms, atoms, False, query, query, block, prefix, settings, tables, space, most_finished, n_rows)
