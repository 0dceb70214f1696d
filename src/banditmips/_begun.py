"""One query on its way: begun, answered, or waiting for its products with all atoms."""

from __future__ import annotations

from collections.abc import Sequence

from banditmips._direct import of_outcome
from banditmips._result import SearchResult, Trace
from banditmips._validate import Options, as_finite
from banditmips.atoms import PartStore
from banditmips.atoms.metering import metered
from banditmips.core.outcome import Outcome
from banditmips.race.atom_set import AtomSet
from banditmips.race.code_search import CodeSearch
from banditmips.race.full import can_stream
from banditmips.race.plan import TOGETHER
from banditmips.race.query import Multiplied, Query
from banditmips.race.streamed import best_in_file

__all__ = ["Begun", "finish_in_file"]

_AROUND = 60_000.0
"""Nanoseconds of a query of a batch beside its race, where it does not go straight to the core (measured: 40 to 80
thousand)."""


class Begun(Query):
    """A query that was answered, or that waits for its products with all atoms; it knows what it has read."""

    ended: Outcome
    bytes_read = 0
    where = ""

    def begin(self, n_spent: int, races: bool = True, codes: CodeSearch | None = None) -> None:
        """Begin, or begin again; `n_spent` multiplies came before. Most queries go the short way of `codes`, if any."""
        ended, self._codes = None, codes
        if races and codes is not None and codes.serves:
            ended = codes.outcome(self._atoms, self._row, self._excluded, self.n_sharing)
        if ended is None:
            self._row = as_finite(self._row, self.where)
            with metered() as meter:
                ended = self.outcome() if races else self.leave_to_products()
            self.bytes_read += meter.bytes_read
        self.ended = ended
        ended.n_multiplies += n_spent

    def begin_again(self, n_sharing: int) -> None:
        """Race again on codes, if it does, where so many share their products."""
        if self.uses_codes():
            self.n_sharing = n_sharing
            self.begin(self.ended.n_multiplies, codes=self._codes)

    @property
    def time_spent(self) -> float:
        """What it has taken by the plan's times, and around them."""
        return self.ended.time_spent + _AROUND

    def finish(self, found: Multiplied) -> None:
        """Answer by what all products have come to."""
        with metered() as meter:
            super().finish(found)
        self.bytes_read += meter.bytes_read

    def result(self, k: int, options: Options, checked: bool) -> SearchResult:
        """Put the result together."""
        ended = self.ended
        trace = Trace(tuple(ended.rounds), self.explain(), ended.n_raced) if options.trace else None
        return of_outcome(ended, k, options.absolute, checked, trace, self.bytes_read)


def finish_in_file(atom_set: AtomSet, waiting: Sequence[Begun], k: int, options: Options) -> Sequence[Begun]:
    """Answer plain queries that come together by products of bytes with the atoms of a file; the others are left."""
    store = atom_set.store
    is_plain = options.objective == "inner_product" and options.minimise == "time" and options.budget is None
    if not (is_plain and options.rescore and isinstance(store, PartStore) and can_stream(store, k)):
        return waiting
    plain = [one for one in waiting if one.takes_products and one.sums_products]
    for start in range(0, len(plain) if len(plain) > 1 else 0, TOGETHER):
        some = plain[start : start + TOGETHER]
        found = best_in_file(store, [one.vector for one in some], k, options.absolute, options.delta, options.seed)
        for one, best in zip(some, found or (), strict=found is not None):
            one.finish(Multiplied(rows=best.rows, n_scored=best.n_scored))
    return [one for one in waiting if one.waits]
