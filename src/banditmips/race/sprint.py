"""One query's way through an express lane: screen, heads, race, finish.

Each step is one compiled call, and each leaves fewer atoms to the next:

1. what `fit` knows drops atoms for certain (`screen`);
2. where the query stands out and atoms are left, those coordinates are read, and the screen is repeated;
3. the rest are raced on sampled coordinates (`compiled`, `gathered`);
4. the survivors' exact products are computed, again passing over those that cannot win (``rescore=True``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from banditmips._result import StopReason
from banditmips._threads import in_pieces, pieces_of
from banditmips.race import compiled, kernels, screen
from banditmips.race.bounds import MIN_SCATTER_SEEN, round_share
from banditmips.race.gathered import gathered_race
from banditmips.race.rounds import describe_uniform

if TYPE_CHECKING:
    from banditmips.race.express import ExpressLane, Look
    from banditmips.race.planner import Plan
    from banditmips.race.workspace import Workspace

__all__ = ["ExpressAnswer", "Sprint", "Unfinished", "rank"]

WHOLE_QUERY = 1 << 17
"""With ``rescore=False``, queries longer than this are not read whole, so that nothing costs d."""
_SUBSET_SIZE = 2048
"""Of such queries, weights are taken within a uniform subset of this size."""
_EVEN = 1.3
"""Without a cache, uniform sampling is as good as weighted up to this unevenness, and needs no keys for the weights."""
_NEARLY_EVEN = 2.0
"""Up to this unevenness, a uniform sample of a few atoms tells well enough what a weighted one would."""
_LEAST_WORK = 100_000.0
"""Nanoseconds of exact products that are worth a thread of their own."""
_LEVEL = 0.1
"""Part of a query's sum of squares that its mean has to explain for the mean to be taken out of a cached race."""
_NO_HEADS = np.empty(0, dtype=np.int64)
_UNKNOWN = np.empty(0)
_ROUND_SHARES = np.cumsum([0.0, *(round_share(r) for r in range(1, 1001))])
"""Part of delta spent after 0, 1, 2, ... rounds."""


@dataclass
class ExpressAnswer:
    """A finished search, best first. `radius` is None where the scores are exact."""

    finished: ClassVar[bool] = True

    indices: NDArray[np.int64]
    scores: NDArray[np.float64]
    radius: NDArray[np.float64] | None
    n_multiplies: int
    n_rounds: int
    n_survivors: int
    stop_reason: StopReason
    delta_spent: float


@dataclass
class Unfinished:
    """A race that ran out of prepared coordinates: the general loop goes on from here.

    `n_coordinates` of the general loop's own order have been played (0 if it must begin anew with the survivors), and
    `seen` are coordinates that have been read beside those.
    """

    finished: ClassVar[bool] = False

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


class _Outcome(NamedTuple):
    """What a compiled race returns."""

    status: int
    n_alive: int
    size: int
    n_rounds: int
    n_multiplies: int
    total_unit: float


_FIRST = np.zeros(1, dtype=np.int64)


def rank(
    rows: NDArray[np.int64], scores: NDArray[np.float64], n_rows: int, k: int, absolute: bool
) -> NDArray[np.int64] | None:
    """Positions of the k best of the first `n_rows`, best first; of equals the one with the smaller index.

    None if a score is not finite.
    """
    if n_rows == 1:
        return _FIRST if np.isfinite(scores[0]) else None
    scores = scores[:n_rows]
    if not np.isfinite(scores).all():
        return None
    return np.lexsort((rows[:n_rows], -np.abs(scores) if absolute else -scores))[:k]


class Sprint:
    """One query in an express lane; the candidates are the first `n_rows` of ``space.rows``."""

    def __init__(
        self,
        lane: ExpressLane,
        atoms: Readable,
        query: NDArray[Any],
        given: NDArray[Any],
        look: Look,
        plan: Plan,
        n_rows: int,
        space: Workspace,
    ) -> None:
        self._lane = lane
        self._options = lane.options
        self._atoms = atoms
        # The query in the atoms' precision, and in the user's.
        self._query, self._given = query, given
        self._look = look
        self._plan = plan
        self._cached = plan is lane.cached_plan
        self._n_rows = self._n_alive = n_rows
        self._space = space
        # Exact scores in ``space.known_rows``.
        self._n_known = 0
        self._heads = _NO_HEADS
        self._screened = lane.facts is not None and look.whole and look.support is None

    def answer(self, begun: bool, n_alive: int, n_known: int) -> ExpressAnswer | Unfinished | None:
        """Run the steps, but for a first screen that was `begun` and has left so many atoms and so many exact scores.

        None where a number turns out not to be finite.
        """
        few = self._lane.few
        if begun:
            self._n_alive, self._n_known = n_alive, n_known
        elif self._screened:
            lane, space = self._lane, self._space
            screen.know(
                lane.means,
                lane.spreads,
                lane.d,
                self._look.moments,
                lane.rounding,
                self._options.absolute,
                space.centre,
                space.upper,
            )
            self._screen()
        if self._n_alive > few and self._cached and self._screened:
            self._heads = self._lane.heads(self._query, self._look)
            if self._heads.size:
                self._read_heads()
        if self._options.rescore and self._n_alive <= max(self._lane.k, few) and self._screened:
            self._space.estimates[: self._n_alive] = self._space.centre[self._space.rows[: self._n_alive]]
            status = compiled.SEPARATED if self._n_alive <= self._lane.k else compiled.UNDECIDED
            return self._finish(_Outcome(status, self._n_alive, 0, 0, 0, 0.0))
        outcome = _Outcome(*(self._race_cached() if self._cached else self._race_gathered()))
        if outcome.status == compiled.NOT_FINITE or (outcome.n_rounds == 0 and not self._options.rescore):
            return None
        if self._options.rescore:
            return self._finish(outcome)
        return self._estimated(outcome)

    def _screen(self) -> None:
        """Drop what cannot win by what is known: against exact scores, or without any if those are not wanted."""
        lane, space, absolute = self._lane, self._space, self._options.absolute
        if self._options.rescore:
            self._n_alive, self._n_known = screen.screen(
                self._atoms.array,
                self._given,
                space.rows,
                self._n_alive,
                lane.k,
                absolute,
                space.centre,
                space.upper,
                space.rooms,
                space.leaders,
                space.known_rows,
                space.known_scores,
                self._n_known,
            )
        else:
            self._n_alive = screen.settle(
                space.rows, self._n_alive, lane.k, space.centre, space.upper, space.rooms, space.leaders
            )

    def _read_heads(self) -> None:
        """Read the atoms where the query stands out, and screen again with what that tells."""
        lane, space = self._lane, self._space
        by_column = self._atoms.by_column
        screen.read_heads(
            self._atoms.array if by_column is None else by_column,
            by_column is not None,
            self._query,
            self._heads,
            space.rows,
            self._n_alive,
            lane.d,
            self._look.moments,
            lane.rounding,
            lane.means,
            lane.scatter,
            MIN_SCATTER_SEEN,
            space.offsets,
            space.needed_scatter,
            self._options.absolute,
            space.centre,
            space.upper,
        )
        self._n_head_rows = self._n_alive
        self._screen()

    def _known_part(self) -> tuple[float, float]:
        """What to take from the query everywhere, and the level of what is left of it after that or without its heads.

        The mean is taken, where the atoms' sums are known and it explains much. The level is 0 if nothing is known.
        """
        total, _, squares = self._look.moments
        d = self._lane.d
        if self._heads.size:
            at_heads = self._query[self._heads].astype(np.float64)
            return 0.0, max(squares - float(at_heads @ at_heads), 0.0) / d
        explained = total * total / d
        if self._lane.facts is None or self._look.n_nonzero < d or explained < _LEVEL * squares:
            return 0.0, 0.0
        return total / d, max(squares - explained, 0.0) / d

    def _race_cached(self) -> tuple[Any, ...]:
        lane, space, plan = self._lane, self._space, self._plan
        cache = lane.cache
        assert cache is not None
        shift, level = self._known_part()
        if shift != 0.0:
            np.multiply(lane.means, shift * lane.d, out=space.offsets)
        elif self._heads.size == 0:
            space.offsets[:] = 0.0
        outcome: tuple[Any, ...] = compiled.cached_race(
            cache.block,
            cache.prefix,
            cache.order,
            self._query,
            self._heads,
            shift,
            space.offsets,
            lane.scatter if level > 0.0 else _UNKNOWN,
            level,
            lane.cached_sizes,
            lane.cached_z,
            plan.sampling_costs,
            plan.finish_cost,
            plan.allowance,
            lane.k,
            self._options.absolute,
            lane.scatters,
            space.needed_scatter if self._heads.size else lane.needed_scatter,
            self._n_rows,
            self._n_alive,
            int(space.known_rows[0]) if self._n_known else -1,
            space.rows,
            space.alive,
            space.trusted,
            space.estimates,
            space.ranking,
            space.beaten,
            space.leaders,
            space.places,
            space.columns,
            space.vectors,
        )
        return outcome

    def _race_gathered(self) -> tuple[Any, ...]:
        lane, space, options, plan = self._lane, self._space, self._options, self._plan
        space.trusted[:] = True
        space.offsets[:] = 0.0
        sizes = lane.gathered_sizes
        subset = _NO_HEADS
        uniform = options.sampling != "weighted" and self._look.uneven <= _EVEN
        if not uniform and not self._look.whole:
            subset = kernels.permuted_coordinates(options.seed, lane.d, 0, _SUBSET_SIZE)
            # Beyond a quarter of the subset its own randomness would show.
            sizes = sizes[sizes <= _SUBSET_SIZE // 4]
        by_column = self._atoms.by_column
        outcome: tuple[Any, ...] = gathered_race(
            self._atoms.array if by_column is None else by_column,
            by_column is not None,
            self._query,
            space.offsets,
            uniform,
            self._look.uneven <= _NEARLY_EVEN,
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
            lane.means,
            lane.needed_scatter,
            self._n_rows,
            self._n_alive,
            space.rows,
            space.trusted,
            space.estimates,
            space.ranking,
            space.beaten,
            space.leaders,
            space.values,
            space.vectors,
            space.scratch,
            space.groups,
        )
        return outcome

    def _sampled(self, outcome: _Outcome) -> int:
        """Multiplies before the finish: the heads' and the race's."""
        return int(outcome.n_multiplies + (self._heads.size and self._heads.size * self._n_head_rows))

    def _finish(self, outcome: _Outcome) -> ExpressAnswer | None:
        """Compute the survivors' exact scores, or all of them by BLAS if most atoms are left."""
        lane, space, look, plan = self._lane, self._space, self._look, self._plan
        k, absolute, alive = lane.k, self._options.absolute, outcome.n_alive
        decided = outcome.status == compiled.SEPARATED
        # An exact score computes anew only what the sample had not seen; one before the race had seen nothing.
        seen = 0
        if not decided and self._n_known == 0 and outcome.size:
            seen = self._heads.size + screen.count_nonzero(space.vectors[0, : outcome.size])
        hopeless = plan.row_cost * alive >= 0.7 * plan.full_cost
        if hopeless and not decided and look.support is None and self._n_rows == lane.n:
            answer = lane.all_products(self._atoms.array, self._query, self._given, look.n_nonzero)
            if answer is not None:
                multiplies = self._sampled(outcome) + alive * (look.n_nonzero - seen)
                answer.n_multiplies = min(multiplies, lane.n * look.n_nonzero)
                answer.n_rounds, answer.n_survivors = outcome.n_rounds, alive
            return answer
        n_kept, n_exact = self._exact_scores(alive)
        best = rank(space.rows, space.scores, n_kept, k, absolute)
        if best is None:
            return None
        multiplies = self._sampled(outcome) + n_exact * (look.n_nonzero - seen)
        return ExpressAnswer(
            space.rows[best],
            space.scores[best],
            None,
            min(multiplies, self._n_rows * look.n_nonzero),
            outcome.n_rounds,
            alive,
            StopReason.SEPARATED if decided else StopReason.FINISHED_EXACTLY,
            self._spent(outcome),
        )

    def _exact_scores(self, n_rows: int) -> tuple[int, int]:
        """Fill in the exact scores of the rows that can win: how many those are, and how many had to be computed.

        Where that is much work, the rows are divided among the threads at hand.
        """
        lane, space, support = self._lane, self._space, self._look.support
        array, given = self._atoms.array, self._given
        # The workspace is another one in every thread; these are the arrays of this one.
        rows, scores = space.rows, space.scores
        least = int(_LEAST_WORK / self._plan.row_cost) + 1
        if support is not None:
            on_support = given[support].astype(np.float64)

            def sum_on_support(start: int, stop: int) -> None:
                kernels.exact_scores(array, rows[start:stop], support, on_support, kernels.PRODUCT, scores[start:stop])

            in_pieces(sum_on_support, n_rows, least)
            return n_rows, n_rows
        upper = space.upper if self._screened else _UNKNOWN
        known = (space.known_rows, space.known_scores)
        survivors = (array, given, rows, n_rows, lane.k, self._options.absolute, upper)
        rooms = (space.estimates, space.ranking, space.leaders)
        if len(pieces_of(n_rows, least)) == 1:
            found: tuple[int, int] = screen.finish(*survivors, *rooms, *known, self._n_known, scores)
            return found
        bar, n_known = screen.finish_bar(*survivors, *rooms, *known, self._n_known)

        def sum_rows(start: int, stop: int) -> tuple[slice, int]:
            part = slice(start, stop)
            kept, n_new = screen.finish_rows(array, given, rows[part], upper, bar, *known, n_known, scores[part])
            return slice(start, start + kept), n_new

        n_kept, n_exact = 0, n_known
        for kept, n_new in in_pieces(sum_rows, n_rows, least):
            together = slice(n_kept, n_kept + kept.stop - kept.start)
            rows[together], scores[together] = rows[kept], scores[kept]
            n_kept, n_exact = together.stop, n_exact + n_new
        return n_kept, n_exact

    def _spent(self, outcome: _Outcome) -> float:
        """The part of delta that was spent: none where no atom was dropped by a sample."""
        dropped = outcome.n_alive < self._n_alive
        return self._options.delta * float(_ROUND_SHARES[outcome.n_rounds]) if dropped else 0.0

    def _estimated(self, outcome: _Outcome) -> ExpressAnswer | Unfinished | None:
        """Answer with the estimates and their intervals, as `bounds.PairedBound.score_radius` makes them."""
        lane, space, cache = self._lane, self._space, self._lane.cache
        size, multiplies = outcome.size, self._sampled(outcome)
        if outcome.status == compiled.UNDECIDED:
            # Heads, shifts and subsets are not in the general loop's sample: it begins anew with the survivors.
            nested = self._heads.size == 0 and (self._cached or self._look.whole)
            read = self._heads
            if self._cached and not nested and cache is not None:
                read = np.union1d(self._heads, cache.order[:size])
            uniform = nested and (self._cached or self._look.uneven <= _EVEN)
            survivors = np.sort(space.rows[: outcome.n_alive])
            return Unfinished(survivors, uniform, size if nested else 0, outcome.n_rounds, multiplies, read)
        best = rank(space.rows, space.estimates, outcome.n_alive, lane.k, self._options.absolute)
        if best is None:
            return None
        rows, estimates = space.rows[best], space.estimates[best]
        values = space.values
        if self._cached and cache is not None:
            values = cache.prefix
            describe_uniform(space.vectors, size, lane.d)
        deviation = compiled.score_deviations(
            values, rows, size, space.vectors[2], space.vectors[3], estimates - space.offsets[rows], outcome.total_unit
        )
        z = (lane.cached_score_z if self._cached else lane.gathered_score_z)[outcome.n_rounds - 1]
        return ExpressAnswer(
            rows,
            estimates,
            z * deviation,
            multiplies,
            outcome.n_rounds,
            outcome.n_alive,
            StopReason.SEPARATED,
            # The intervals are part of the answer, and they may fail too.
            self._options.delta * float(_ROUND_SHARES[outcome.n_rounds]),
        )
