"""How a race reads a store line by line."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from banditmips.atoms.errors import BadAtomError
from banditmips.atoms.parts import Part, PartStore, joined_runs, part_sums
from banditmips.race.lines import QueryLines
from banditmips.race.sampled import Problem
from banditmips.race.sampling import SamplePrefix

__all__ = ["LineReader"]


class _Seen(NamedTuple):
    """Lines that one round has read: sums of terms, and of squares about the atoms' means, for each row and line."""

    rows: NDArray[np.int64]
    lines: NDArray[np.int64]
    sums: NDArray[np.float64]
    scatters: NDArray[np.float64] | None


class LineReader:
    """One query's view of a store that is read in lines. It remembers their terms, so that no line is read twice.

    Parameters
    ----------
    store : PartStore
    problem : Problem
        The query coordinate by coordinate.
    lines : QueryLines
        The same line by line.
    means : float64, shape (n,), or None
        Means of the atoms' entries, about which their scatter is measured; None if nobody asks for it.
    check_finite : bool
        Whether values have to be checked, because nobody has looked at them before.
    long_reads : bool
        Whether exact scores read all of a row rather than the most of it in pieces.
    """

    def __init__(
        self,
        store: PartStore,
        problem: Problem,
        lines: QueryLines,
        means: NDArray[np.float64] | None = None,
        check_finite: bool = False,
        long_reads: bool = False,
    ) -> None:
        self._store = store
        self._long_reads = long_reads
        self._problem = problem
        self._lines = lines
        self._means = means
        self._check_finite = check_finite
        self._seen: list[_Seen] = []
        self._row_cost = int(lines.costs().sum())

    def exact_cost(self, rows: NDArray[np.int64]) -> int:
        """Multiplies that the rows' exact scores take."""
        return rows.size * self._row_cost

    def read(self, rows: NDArray[np.int64], sample: SamplePrefix, start: int, out: NDArray[np.float64]) -> None:
        """Put the sums of the rows' terms over the sample's lines from position `start` on into `out`."""
        numbers = sample.coordinates[start:]
        lines, place = np.unique(numbers, return_inverse=True)
        sums = np.zeros((rows.size, lines.size))
        scatters = None if self._means is None else np.zeros((rows.size, lines.size))
        ascending, row_place = np.unique(rows, return_inverse=True)
        for part in self._store.read_parts(ascending, [self._store.line(number) for number in lines.tolist()]):
            sums[part.rows, part.span] += self._sum(part, ascending)
            if scatters is not None and self._means is not None:
                means = self._means[ascending[part.rows], np.newaxis]
                scatters[part.rows, part.span] += np.square(part.values - means).sum(axis=1)
        self._seen.append(_Seen(ascending, lines, sums, scatters))
        out[...] = sums[row_place][:, place]

    def _sum(self, part: Part, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        sums = part_sums(part, None, self._problem.query, self._problem.objective)
        # What is not finite carries over into the sums; so does what is merely too large.
        if self._check_finite and not (np.isfinite(sums).all() or np.isfinite(part.values).all()):
            i, j = np.argwhere(~np.isfinite(part.values))[0]
            raise BadAtomError.of_entry(part.values[i, j], rows[part.rows][i], part.first_column + j)
        return sums

    def scatters(self, rows: NDArray[np.int64], sample: SamplePrefix) -> NDArray[np.float64] | None:
        """Return what the lines seen so far show of the scatter of the rows' entries, scaled up to all."""
        if self._means is None:
            return None
        scale = np.zeros(self._lines.starts.size)
        np.add.at(scale, sample.coordinates, sample.scale)
        total = np.zeros(rows.size)
        for seen in self._seen:
            assert seen.scatters is not None
            total += seen.scatters[np.searchsorted(seen.rows, rows)] @ scale[seen.lines]
        return total

    def exact(self, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the rows' exact scores; lines that have been read are not read again, unless long reads are better."""
        ascending, place = np.unique(rows, return_inverse=True)
        totals = np.zeros(ascending.size)
        fresh = np.zeros(self._lines.starts.size, dtype=np.bool_)
        fresh[self._lines.lines] = True
        for seen in self._seen:
            at = np.searchsorted(seen.rows, ascending)
            if np.array_equal(seen.rows[np.minimum(at, seen.rows.size - 1)], ascending):
                new = fresh[seen.lines]  # with replacement, a line may have come before
                totals += seen.sums[at][:, new].sum(axis=1)
                fresh[seen.lines] = False
        line = self._store.line
        spans = [(line(first)[0], line(stop - 1)[1]) for first, stop in joined_runs(np.flatnonzero(fresh), 1)]
        if self._long_reads and 2 * int(fresh.sum()) > self._lines.lines.size:
            totals[:], spans = 0.0, [(0, self._store.shape[1])]
        for part in self._store.read_parts(ascending, spans):
            totals[part.rows] += self._sum(part, ascending)
        totals = self._problem.scores.of_sums(totals, ascending)
        if not np.isfinite(totals).all():
            self.complain(ascending[~np.isfinite(totals)][:1])
        return totals[place]

    def complain(self, row: NDArray[np.int64]) -> None:
        """Say where a row's score stops being finite."""
        for part in self._store.read_parts(row, [(0, self._store.shape[1])]):
            bad = np.flatnonzero(~np.isfinite(part.values[0]))
            if bad.size:
                raise BadAtomError.of_entry(part.values[0, bad[0]], row[0], part.first_column + bad[0])
        raise BadAtomError.of_score(row[0])
