"""One query's way through an express lane, as far as Python has to do with it.

On coordinates that an index has cached, `dash` does everything in one call; what it leaves to do is done here: the
exact products of the survivors where threads share them, intervals where scores are estimates, or handing over to the
general loop. On coordinates that are gathered from the atoms, the steps are the same, one call each: screen, race,
finish.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from banditmips._result import SearchResult, StopReason
from banditmips._threads import in_pieces, pieces_of
from banditmips.race import compiled, finish, kernels, screen
from banditmips.race.bounds import round_share
from banditmips.race.dash import MOST_OF_THEM
from banditmips.race.gathered import gathered_race

if TYPE_CHECKING:
    from banditmips.race.express import ExpressLane, Look
    from banditmips.race.planner import Plan
    from banditmips.race.workspace import Workspace

__all__ = [
    "NEARLY_EVEN",
    "WHOLE_QUERY",
    "Outcome",
    "Readable",
    "Sprint",
    "Unfinished",
    "delta_spent",
    "rows_for_a_thread",
]

WHOLE_QUERY = 1 << 17
"""With ``rescore=False``, queries longer than this are not read whole, so that nothing costs d."""
_SUBSET_SIZE = 2048
"""Of such queries, weights are taken within a uniform subset of this size."""
_EVEN = 1.3
"""Without a cache, uniform sampling is as good as weighted up to this unevenness, and needs no keys for the weights."""
NEARLY_EVEN = 2.0
"""Up to this unevenness, a uniform sample of a few atoms tells well enough what a weighted one would."""
_LEAST_WORK = 100_000.0
"""Nanoseconds of exact products that are worth a thread of their own."""


def rows_for_a_thread(plan: Plan) -> int:
    """How many exact products are worth a thread of their own."""
    return int(_LEAST_WORK / plan.row_cost) + 1


_NO_COORDINATES = np.empty(0, dtype=np.int64)
_UNKNOWN = np.empty(0)
_ROUND_SHARES = np.cumsum([0.0, *(round_share(r) for r in range(1, 1001))]).tolist()
"""Part of delta spent after 0, 1, 2, ... rounds."""


@dataclass
class Unfinished:
    """A race that ran out of prepared coordinates: the general loop goes on from here.

    `n_coordinates` of the general loop's own order have been played (0 if it must begin anew with the survivors), and
    `seen` are coordinates that have been read beside those.
    """

    survivors: NDArray[np.int64]
    uniform: bool
    n_coordinates: int
    n_rounds: int
    n_multiplies: int
    seen: NDArray[np.int64]


class Readable(NamedTuple):
    """The atoms as the user has them, and by coordinate where that can be read too."""

    array: NDArray[Any]
    by_column: NDArray[Any] | None


class Outcome(NamedTuple):
    """What `dash` returns, and a race on gathered coordinates likewise."""

    status: int
    n_alive: int
    n_raced: int
    n_known: int
    size: int
    n_rounds: int
    n_multiplies: int
    n_nonzero: int
    n_heads: int = 0


def delta_spent(delta: float, n_rounds: int, may_fail: bool) -> float:
    """Return the part of delta that was spent: none where nothing in the answer rests on a sample."""
    spent: float = delta * _ROUND_SHARES[n_rounds] if may_fail else 0.0
    return spent


class Sprint:
    """One query in an express lane; the candidates are the first `n_rows` of ``space.rows``."""

    def __init__(
        self,
        lane: ExpressLane,
        atoms: Readable,
        query: NDArray[Any],
        given: NDArray[Any],
        plan: Plan,
        n_rows: int,
        space: Workspace,
        checked: bool,
    ) -> None:
        self._lane = lane
        self._options = lane.options
        self._atoms = atoms
        # The query in the atoms' precision, and in the user's.
        self._query, self._given = query, given
        self._plan = plan
        self._n_rows = n_rows
        self._space = space
        self._checked = checked

    def conclude(self, outcome: Outcome, whole: bool) -> SearchResult | Unfinished | None:
        """Go on from where `dash` ended without an answer. `whole` says whether the query was read whole."""
        if outcome.status == compiled.OUT_OF_RANGE or (outcome.n_rounds == 0 and not self._options.rescore):
            return None
        if self._options.rescore:
            return self._finish(outcome, whole and self._lane.facts is not None, None)
        return self._unfinished(outcome, None)

    def gather(self, look: Look, piloted: bool) -> SearchResult | Unfinished | None:
        """Screen, race on coordinates read from the atoms, finish; None where a number turns out not to be finite.

        `piloted` says whether pilots have been asked before.
        """
        lane, space = self._lane, self._space
        screened = lane.facts is not None and look.whole and look.support is None
        n_alive, n_known = self._screen(look) if screened else (self._n_rows, 0)
        if self._options.rescore and screened and n_alive <= max(lane.k, lane.few):
            space.estimates[:n_alive] = space.centre[space.rows[:n_alive]]
            status = compiled.SEPARATED if n_alive <= lane.k else compiled.UNDECIDED
            outcome = Outcome(status, n_alive, n_alive, n_known, 0, 0, 0, look.n_nonzero)
            return self._finish(outcome, screened, None)
        status, n_left, size, n_rounds, n_multiplies, total_unit = self._race(look, n_alive, piloted)
        outcome = Outcome(status, n_left, n_alive, n_known, size, n_rounds, n_multiplies, look.n_nonzero)
        if status == compiled.OUT_OF_RANGE or (n_rounds == 0 and not self._options.rescore):
            return None
        if self._options.rescore:
            return self._finish(outcome, screened, look.support)
        if status == compiled.UNDECIDED:
            return self._unfinished(outcome, look)
        return self._estimated(outcome, total_unit)

    def _screen(self, look: Look) -> tuple[int, int]:
        """Drop what cannot win by what is known: how many stay, and how many exact scores were computed for it."""
        lane, space, absolute = self._lane, self._space, self._options.absolute
        means, _, spreads, _ = lane.fact_table
        screen.know(means, spreads, lane.d, look.moments, lane.rounding, absolute, space.centre, space.upper)
        known = (space.centre, space.upper, space.pair, space.leaders)
        if not self._options.rescore:
            return screen.settle(space.rows, self._n_rows, lane.k, *known), 0
        left: tuple[int, int] = screen.screen(
            self._atoms.array,
            self._given,
            space.rows,
            self._n_rows,
            lane.k,
            absolute,
            *known,
            space.known_rows,
            space.known_scores,
            0,
            False,
        )
        return left

    def _race(self, look: Look, n_alive: int, piloted: bool) -> tuple[int, int, int, int, int, float]:
        lane, space, options, plan = self._lane, self._space, self._options, self._plan
        sizes = lane.gathered_sizes
        subset = _NO_COORDINATES
        uniform = options.sampling != "weighted" and look.uneven <= _EVEN
        if not uniform and not look.whole:
            subset = kernels.permuted_coordinates(options.seed, lane.d, 0, _SUBSET_SIZE)
            # Beyond a quarter of the subset its own randomness would show.
            sizes = sizes[sizes <= _SUBSET_SIZE // 4]
        by_column = self._atoms.by_column
        means, _, _, needed_scatter = lane.fact_table
        outcome: tuple[int, int, int, int, int, float] = gathered_race(
            self._atoms.array if by_column is None else by_column,
            by_column is not None,
            self._query,
            space.offsets,
            uniform,
            look.uneven <= NEARLY_EVEN,
            piloted,
            subset,
            lane.d,
            options.beta,
            options.seed,
            sizes,
            lane.gathered_z,
            plan.sampling_costs,
            plan.finish_cost,
            plan.allowance,
            lane.k,
            options.absolute,
            means,
            needed_scatter,
            self._n_rows,
            n_alive,
            space.rows,
            space.trusted,
            space.estimates,
            space.ranking,
            space.beaten,
            space.leaders,
            space.gathered,
            space.vectors,
            space.scratch,
            space.groups,
        )
        return outcome

    def _finish(self, outcome: Outcome, screened: bool, support: NDArray[np.int64] | None) -> SearchResult | None:
        """Compute the survivors' exact scores, or all of them by BLAS if most atoms are left."""
        lane, space, plan = self._lane, self._space, self._plan
        k, alive, n_nonzero = lane.k, outcome.n_alive, outcome.n_nonzero
        decided = outcome.status == compiled.SEPARATED
        # An exact score computes anew only what the sample had not seen; one before the race had seen nothing.
        seen = 0
        if not decided and outcome.n_known == 0 and outcome.size:
            seen = outcome.n_heads + screen.count_nonzero(space.vectors[0, : outcome.size])
        hopeless = plan.row_cost * alive >= MOST_OF_THEM * plan.full_cost
        if hopeless and not decided and support is None and self._n_rows == lane.n:
            return self.all_products(outcome._replace(n_multiplies=outcome.n_multiplies + alive * (n_nonzero - seen)))
        n_kept, n_entries = self._exact_scores(alive, outcome, screened, support)
        indices, scores = np.empty(k, dtype=np.int64), np.empty(k)
        if not finish.take_best(space.rows, space.scores, n_kept, self._options.absolute, indices, scores):
            return None
        return SearchResult.of_one_query(
            indices,
            scores,
            None,
            min(outcome.n_multiplies - (-n_entries * (n_nonzero - seen) // lane.d), self._n_rows * n_nonzero),
            outcome.n_rounds,
            alive,
            StopReason.SEPARATED if decided else StopReason.FINISHED_EXACTLY,
            delta_spent(self._options.delta, outcome.n_rounds, alive < outcome.n_raced),
            self._checked,
        )

    def all_products(self, outcome: Outcome) -> SearchResult | None:
        """Let BLAS compute every product; `outcome` says what has come before, and what all of it counts as."""
        n_multiplies = min(outcome.n_multiplies, self._lane.n * outcome.n_nonzero)
        counts = (n_multiplies, outcome.n_rounds, outcome.n_alive)
        return self._lane.all_products(self._atoms.array, self._query, self._given, counts, self._checked)

    def _exact_scores(
        self, n_rows: int, outcome: Outcome, screened: bool, support: NDArray[np.int64] | None
    ) -> tuple[int, int]:
        """Fill in the exact scores of the rows that can win: how many those are, and how many entries were read.

        Where that is much work, the rows are divided among the threads at hand.
        """
        lane, space = self._lane, self._space
        array, query, given = self._atoms.array, self._query, self._given
        rows, scores = space.rows, space.scores
        least = rows_for_a_thread(self._plan)
        if support is not None:
            on_support = given[support].astype(np.float64)

            def sum_on_support(start: int, stop: int) -> None:
                kernels.exact_scores(array, rows[start:stop], support, on_support, kernels.PRODUCT, scores[start:stop])

            in_pieces(sum_on_support, n_rows, least)
            return n_rows, n_rows * lane.d
        upper = space.upper if screened else _UNKNOWN
        absolute, n_known = self._options.absolute, outcome.n_known
        known = (space.known_rows, space.known_scores)
        survivors = (rows, n_rows, lane.k, absolute, upper)
        facts, heads, parts = lane.fact_table, space.heads[: outcome.n_heads], space.parts
        rooms = (space.estimates, space.ranking, space.leaders)
        if len(pieces_of(n_rows, least)) == 1:
            found: tuple[int, int] = finish.finish(
                array, query, given, *survivors, facts, heads, parts, lane.rounding, *rooms, *known, n_known, scores
            )
            return found
        bar, n_known = finish.finish_bar(array, given, *survivors, *rooms, *known, n_known)
        tails = finish.query_tails(parts)

        def sum_rows(start: int, stop: int) -> tuple[slice, int]:
            part = slice(start, stop)
            kept, n_read = finish.finish_rows(
                array, query, given, rows[part], absolute, upper, facts, heads, tails, lane.rounding, bar, *known,
                n_known, scores[part],
            )  # fmt: skip
            return slice(start, start + kept), n_read

        n_kept, n_entries = 0, n_known * lane.d
        for kept, n_read in in_pieces(sum_rows, n_rows, least):
            together = slice(n_kept, n_kept + kept.stop - kept.start)
            rows[together], scores[together] = rows[kept], scores[kept]
            n_kept, n_entries = together.stop, n_entries + n_read
        return n_kept, n_entries

    def _estimated(self, outcome: Outcome, total_unit: float) -> SearchResult | None:
        """Answer with the estimates and their intervals."""
        lane, space = self._lane, self._space
        k, size = lane.k, outcome.size
        rows, estimates, radius = np.empty(k, dtype=np.int64), np.empty(k), np.empty(k)
        if not finish.take_best(space.rows, space.estimates, outcome.n_alive, self._options.absolute, rows, estimates):
            return None
        z = lane.gathered_score_z[outcome.n_rounds - 1]
        spread_query, spread_unit = space.vectors[2], space.vectors[3]
        compiled.fill_radius(
            space.gathered, rows, size, spread_query, spread_unit, estimates, space.offsets, total_unit, z, radius
        )
        return SearchResult.of_one_query(
            rows,
            estimates,
            radius,
            outcome.n_multiplies,
            outcome.n_rounds,
            outcome.n_alive,
            StopReason.SEPARATED,
            # The intervals are part of the answer, and they may fail too.
            delta_spent(self._options.delta, outcome.n_rounds, may_fail=True),
            self._checked,
        )

    def _unfinished(self, outcome: Outcome, look: Look | None) -> Unfinished:
        """Hand over to the general loop. Heads, shifts and subsets are not in its sample: it begins anew there."""
        space, cache = self._space, self._lane.cache
        nested = outcome.n_heads == 0 if look is None else look.whole
        read = space.heads[: outcome.n_heads].copy()
        if outcome.n_heads and cache is not None:
            read = np.union1d(read, cache.order[: outcome.size])
        uniform = nested and (look is None or look.uneven <= _EVEN)
        survivors = np.sort(space.rows[: outcome.n_alive])
        size = outcome.size if nested else 0
        return Unfinished(survivors, uniform, size, outcome.n_rounds, outcome.n_multiplies, read)
