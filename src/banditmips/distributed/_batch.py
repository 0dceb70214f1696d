"""One batch of queries on its way through the exchanges, as tasks of Dask."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from banditmips._validate import Options
from banditmips.distributed._exchange import HOST, QueryRace
from banditmips.distributed._messages import Batch, Work
from banditmips.distributed._plan import AtHand, plan_rounds
from banditmips.distributed._tasks import as_is, guest_values, join_guests, reply_of, serve, work_of
from banditmips.race.rules import least_sample

if TYPE_CHECKING:
    from distributed import Future

__all__ = ["BatchSearch"]


class BatchSearch:
    """The races of a batch.

    Parameters
    ----------
    submit : callable
        ``submit(function, *arguments)`` makes a task of Dask.
    gather : callable
        ``gather(futures)`` waits for their results.
    shards : futures of `Shard`
    first_rows : int64, one more than there are shards
        Global index of each shard's first atom, and at last the number of atoms.
    queries : shape (m, d)
    masks : bool, shape (m, n), or None

    Attributes
    ----------
    races : one for each query
    works : what all tasks took
    n_exchanges : how often shards have reported
    """

    def __init__(
        self,
        submit: Callable[..., Future[Any]],
        gather: Callable[[Any], Any],
        shards: list[Future[Any]],
        first_rows: NDArray[np.int64],
        queries: NDArray[Any],
        masks: NDArray[np.bool_] | None,
        k: int,
        options: Options,
        known_range: tuple[float, float] | None,
        at_hand: AtHand,
    ) -> None:
        self._submit, self._gather = submit, gather
        self._shards, self._first_rows = shards, first_rows
        self._k, self._options = k, options
        self._masks = masks
        self._served: list[Future[Any] | None] = [None] * len(shards)
        counts = [np.diff(first_rows)] * len(queries)
        if masks is not None:
            counts = [np.add.reduceat(~mask, first_rows[:-1], dtype=np.int64) for mask in masks]
        n_candidates = np.array([each.sum() for each in counts], dtype=np.int64)
        self.races = []
        for each, query in zip(counts, queries, strict=True):
            rounds = plan_rounds(query, options, at_hand, least_sample(options, k, int(each.sum())))
            self.races.append(QueryRace(k, options, first_rows[:-1], each.tolist(), rounds))
        # As a task of its own, so that it is sent once, and can be had again if the worker that has it dies.
        self._batch = submit(as_is, Batch(queries, n_candidates, known_range, at_hand))
        self.works: list[Work] = []
        self.n_exchanges = 0

    def run(self, advance: Callable[[int], None]) -> None:
        """Play until all races are over; `advance` is told how many have just ended."""
        open_races = {number for number, race in enumerate(self.races) if race.orders}
        advance(len(self.races) - len(open_races))
        while open_races:
            self._exchange()
            over = {number for number in open_races if not self.races[number].orders}
            advance(len(over))
            open_races -= over

    def _exchange(self) -> None:
        """Send the orders out, wait for the reports, and let every race decide what comes next."""
        host = self.n_exchanges % len(self._shards)  # duels are small: one shard does for all of them, each in its turn
        leaders, works = self._invite(dueling=False)
        duelists, more_works = self._invite(dueling=True)
        works += more_works
        replies: dict[int, Future[Any]] = {}
        for number, shard in enumerate(self._shards):
            orders = {q: race.orders[number] for q, race in enumerate(self.races) if number in race.orders}
            guests = leaders
            if number == host:
                orders |= {q: race.orders[HOST] for q, race in enumerate(self.races) if HOST in race.orders}
                guests = leaders + duelists
            if not orders:
                continue
            before = self._served[number]
            served = self._submit(
                serve, shard, self._batch, self._k, self._options, orders, before, guests, self._excluded(number)
            )
            self._served[number] = served
            replies[number] = self._submit(reply_of, served)
        answers, done = self._gather((replies, works))
        reports = {number: said for number, (said, _) in answers.items()}
        done += [work for _, work in answers.values()]
        self.n_exchanges += 1
        self.works += done
        for work in done:
            for q in work.bytes_read:
                self.races[q].n_multiplies += work.n_multiplies[q]
                self.races[q].bytes_read += work.bytes_read[q]
        for q, race in enumerate(self.races):
            heard = {asked: reports[host if asked == HOST else asked][q] for asked in race.orders}
            if heard:
                race.take(heard)

    def _invite(self, dueling: bool) -> tuple[list[Future[Any]], list[Future[Any]]]:
        """Have the values of guests read where they live, and put together for whoever needs them.

        Returns the guests, as a list that is empty if there are none, and the accounts of the work.
        """
        invited = {q: race for q, race in enumerate(self.races) if race.guests and (HOST in race.orders) == dueling}
        values = []
        for number, shard in enumerate(self._shards):
            wanted = {q: (race.guests[number], race.last_round) for q, race in invited.items() if number in race.guests}
            if wanted:
                values.append(self._submit(guest_values, shard, self._batch, self._k, self._options, wanted))
        if not values:
            return [], []
        return [self._submit(join_guests, values)], [self._submit(work_of, value) for value in values]

    def _excluded(self, number: int) -> NDArray[np.bool_] | None:
        """The shard's part of the masks, for its first orders."""
        if self._masks is None or self._served[number] is not None:
            return None
        part = self._masks[:, self._first_rows[number] : self._first_rows[number + 1]]
        # One mask for all queries goes over once.
        return part[:1] if part.strides[0] == 0 else part
