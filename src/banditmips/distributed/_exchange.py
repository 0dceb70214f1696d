"""What is decided between two exchanges, for one query: who leads, who plays on and how far, and when it is over.

The race is that of `core.loop`, with atoms that live in several places. First what `fit` knows bounds all
scores, and every place (a shard) hears what the k best of all are worth at least. Each shard then plays rounds on its
own atoms and reports its best. From these the k leaders of all are chosen, and every shard that still has other
survivors gets the leaders' values at the coordinates of the next rounds: there its atoms are compared with the leaders
pair by pair, as they would be in one place. Once few survivors are left, they all go to one shard and play there (a
duel).
`core.rule` says why that needs no more delta than one place does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from banditmips._result import SearchResult, StopReason
from banditmips._validate import Options
from banditmips.core.rule import share_of_round
from banditmips.distributed._messages import Duel, Exact, Order, Play, Report, Screen
from banditmips.distributed._plan import Rounds

__all__ = ["HOST", "QueryRace"]

HOST = -1
"""Instead of a shard's number: whichever shard all survivors are brought together on."""

FIRST_EXCHANGE, GROWTH = 32, 8
"""Coordinates sampled before the first exchange, and how many times more before each next one. On normal, correlated
and ratings-like atoms (1,000 x 10,000 and 300 x 5,000), 16 and 64, or 4 times more, took as many multiplies to within
a few percent, and more exchanges or more bytes."""

MAX_SHARED = 1 << 18
"""Values of guests that may go to one shard for one query in one exchange (2 MB). Where that does not do, the survivors
are finished exactly: the multiplies that more rounds would save take less time than moving the values."""

MAX_EXTRA = 0.25
"""With ``rescore=True``, survivors are finished exactly as soon as those that will not be returned cost no more than
this part of the multiplies so far: that saves exchanges, which take longer."""


_NOTHING = np.empty(0, dtype=np.int64)


class QueryRace:
    """One query's race over all shards.

    Parameters
    ----------
    first_rows
        Global index of each shard's first atom, ascending.
    counts
        Candidates on each shard.
    rounds
        How the query is sampled.

    Attributes
    ----------
    orders
        What each shard has to do next; empty when the race is over.
    guests
        Global rows of the atoms whose values have to be sent to the shards that play, by the shard they live on.
    last_round
        The last round that has been ordered.
    n_multiplies, bytes_read
        What the shards have taken so far.
    """

    def __init__(
        self, k: int, options: Options, first_rows: NDArray[np.int64], counts: Sequence[int], rounds: Rounds
    ) -> None:
        self._k = k
        self._options = options
        self._first_rows = first_rows
        self._population = rounds.population
        self._sizes = rounds.sizes
        self._n_candidates = self._n_survivors = sum(counts)
        self._reports: dict[int, Report] = {}
        self._leaders = self._winners = _NOTHING
        self._dueling = False
        self._screening = False
        self._n_rounds = 0
        self._reason: StopReason | None = None
        self.orders: dict[int, Order] = {}
        self.guests: dict[int, NDArray[np.int64]] = {}
        self.last_round = 0
        self.n_multiplies = 0
        self.bytes_read = 0
        shards = [shard for shard, count in enumerate(counts) if count]
        if not shards or not rounds.population:  # nothing to choose from, or a zero query: every score is 0
            self._reason = StopReason.EXHAUSTED
            self.orders = {shard: Exact() for shard in shards}
        elif options.delta == 0.0 or not self._sizes or (self._n_candidates <= k and options.rescore):
            self._reason = StopReason.FINISHED_EXACTLY
            self.orders = {shard: Exact() for shard in shards}
        elif rounds.screened:
            self._screening = True
            self.orders = {shard: Screen() for shard in shards}
        else:
            self._begin(shards, -np.inf)

    def _begin(self, shards: Sequence[int], bar: float) -> None:
        """Order the first rounds, for atoms that can reach the bar."""
        self.last_round = self._round_within(FIRST_EXCHANGE)
        self.orders = {shard: Play(self.last_round, _NOTHING, bar) for shard in shards}

    def take(self, reports: Mapping[int, Report]) -> None:
        """Hear what the shards have to say about the last orders, and decide what comes next."""
        asked, self.orders, self.guests = self.orders, {}, {}
        if self._dueling:
            self._reports = {}  # whoever is left is in the reports that come now
        self._reports.update(reports)
        if self._reason is not None:  # these were the exact scores that were still wanted
            if not self._winners.size:
                self._winners = self._best()
            return
        self._n_rounds = max(self._n_rounds, *(report.n_rounds for report in reports.values()))
        self._n_survivors = sum(report.n_survivors for report in self._reports.values())
        if self._screening:
            self._hear_bounds()
        elif all(report.exact.all() for report in self._reports.values()):
            self._reason, self._winners = StopReason.EXHAUSTED, self._best()
        elif self._n_survivors <= self._k:
            self._settle(StopReason.SEPARATED, self._best())
        elif self._leaders.size and all(self._reports[shard].within_epsilon for shard in asked):
            self._settle(StopReason.EPSILON, self._leaders)
        else:
            self._go_on()

    def _hear_bounds(self) -> None:
        """Tell all shards what the k best are worth at least, for certain."""
        self._screening = False
        lower = np.sort(self._merged("scores") - self._merged("radius"))
        bar = float(lower[-self._k]) if lower.size >= self._k else -np.inf
        # Of whoever has reported all of its atoms it is known who reaches the bar.
        self._reports = {
            shard: report.part(report.scores + report.radius >= bar)
            if report.n_survivors == report.rows.size
            else report
            for shard, report in self._reports.items()
        }
        self._n_survivors = sum(report.n_survivors for report in self._reports.values())
        if self._n_survivors <= self._k and self._options.rescore:
            self._settle(StopReason.SEPARATED, self._best())
        else:
            self._begin([shard for shard, report in self._reports.items() if report.n_survivors], bar)

    def _settle(self, reason: StopReason, winners: NDArray[np.int64]) -> None:
        """The answer is known; its scores may still have to be made exact."""
        self._reason, self._winners = reason, winners
        if self._options.rescore:
            self.orders = {shard: Exact(rows) for shard, rows in self._by_shard(winners).items()}

    def _go_on(self) -> None:
        """Choose leaders and the next rounds, or finish the survivors exactly."""
        size = self._sizes[self.last_round - 1]
        goal = GROWTH * max(size, FIRST_EXCHANGE)
        self._leaders = self._best()
        known = self._merged("rows")
        rivals = self._rivals()
        duel = self._dueling or (
            # With one shard of rivals there is nothing to save by moving them.
            len(rivals) > 1 and known.size == self._n_survivors and known.size * goal <= MAX_SHARED
        )
        next_round = self._round_within(min(goal, MAX_SHARED // (known.size if duel else self._k)))
        extra = (self._n_survivors - self._k) * self._population
        if next_round <= self.last_round or (self._options.rescore and extra <= MAX_EXTRA * self.n_multiplies):
            self._reason = StopReason.FINISHED_EXACTLY
            if self._dueling:
                seen = dict(zip(known.tolist(), self._merged("seen").tolist(), strict=True))
                self.orders = {
                    shard: Exact(rows, sum(seen[row] for row in rows.tolist()))
                    for shard, rows in self._by_shard(known).items()
                }
            else:
                self.orders = {shard: Exact() for shard, report in self._reports.items() if report.n_survivors}
            return
        self.last_round = next_round
        if duel:
            self._dueling = True
            n_played = min(report.n_rounds for report in self._reports.values() if report.n_survivors)
            self.guests = self._by_shard(known)
            self.orders = {HOST: Duel(next_round, n_played, self._leaders)}
        else:
            # Whoever plays knows the leaders that live with him.
            homes = self._by_shard(self._leaders)
            self.guests = {shard: rows for shard, rows in homes.items() if rivals != [shard]}
            self.orders = {shard: Play(next_round, self._leaders) for shard in rivals}

    def _rivals(self) -> list[int]:
        """Shards with survivors that are no leaders."""
        leads = {shard: int(np.isin(report.rows, self._leaders).sum()) for shard, report in self._reports.items()}
        return [shard for shard, report in self._reports.items() if report.n_survivors > leads[shard]]

    def _round_within(self, size: int) -> int:
        """The last round that reaches no more than `size` coordinates, but at least the first."""
        return max(int(np.searchsorted(self._sizes, size, side="right")), 1)

    def _by_shard(self, rows: NDArray[np.int64]) -> dict[int, NDArray[np.int64]]:
        """Sort atoms by the shard that they live on."""
        owners = np.searchsorted(self._first_rows, rows, side="right") - 1
        return {int(shard): rows[owners == shard] for shard in np.unique(owners)}

    def _merged(self, name: str) -> NDArray[Any]:
        """One field of all reports, shard after shard."""
        return np.concatenate([_NOTHING, *(getattr(report, name) for report in self._reports.values())])

    def _ranking_scores(self) -> NDArray[np.float64]:
        scores = self._merged("scores")
        return np.abs(scores) if self._options.absolute else scores

    def _best(self) -> NDArray[np.int64]:
        """The k best atoms of all, best first; of equals the one with the smaller index.

        Atoms that the samples cannot speak for (an infinite radius) come last.
        """
        rows = self._merged("rows")
        return rows[np.lexsort((rows, -self._ranking_scores(), np.isinf(self._merged("radius"))))][: self._k]

    def result(self, checked: bool) -> SearchResult:
        """Put the answer together."""
        assert self._reason is not None
        rows = self._merged("rows")
        order = np.lexsort((rows, -self._ranking_scores()))
        best = order[np.isin(rows[order], self._winners)]
        pad = self._k - best.size
        scores = np.append(self._merged("scores")[best], np.full(pad, -np.inf))
        radius = np.append(self._merged("radius")[best], np.zeros(pad))
        exact = np.append(self._merged("exact")[best].astype(np.bool_), np.ones(pad, dtype=np.bool_))
        # Where every candidate's score is exact, nothing was left out on a sample's word.
        everybody = self._n_survivors == self._n_candidates and self._reason is not StopReason.EPSILON
        certain = exact.all() and (everybody or self._reason is StopReason.EXHAUSTED)
        return SearchResult(
            indices=np.append(rows[best], np.full(pad, -1, dtype=np.int64)),
            scores=scores,
            lower=scores - radius,
            upper=scores + radius,
            exact=exact,
            n_multiplies=self.n_multiplies,
            bytes_read=self.bytes_read,
            n_rounds=self._n_rounds,
            n_survivors=self._n_survivors,
            stop_reason=self._reason,
            delta_spent=0.0
            if certain
            else self._options.delta * sum(map(share_of_round, range(1, self._n_rounds + 1))),
            checked=checked,
        )
