"""Exact scores of some atoms."""

from libc.math cimport isfinite
from libc.stdint cimport int64_t

from functools import partial

import numpy as np

from banditmips._threads import in_pieces
from banditmips.core.certain cimport ScoreMap
from banditmips.core.rows cimport Rows

_LEAST_SUMMED = 1 << 18
"""Entries in memory that are worth a thread of their own."""


cdef class Exact:
    """Gives exact scores.

    Attributes
    ----------
    row_cost : int
        Multiplies that one takes.
    """

    cpdef scores(self, rows):
        """Return the exact scores of these rows."""
        raise NotImplementedError

    cpdef int64_t cost(self, rows) except -1:
        """Multiplies that the exact scores of these rows take."""
        return rows.size * self.row_cost


cdef class RowsExact(Exact):
    """Exact scores of atoms in memory.

    Parameters
    ----------
    rows : Rows
    query : float64 array of shape (d,)
    objective : int
        What a coordinate adds (`banditmips.core.statistics`).
    scores : ScoreMap
        What becomes of the sum.
    columns : int64 array, or None
        The coordinates where the query is not 0, where these are few.
    complain : callable
        Called with a row whose score is not finite: raises an error that says why.
    """

    def __init__(self, Rows rows, query, int objective, ScoreMap scores, columns, complain):
        self._rows, self._objective, self._map = rows, objective, scores
        self._array, self._columns, self._complain = query, columns, complain
        self._query = query if columns is None else query[columns]
        self.row_cost = self._query.shape[0]

    def _sums(self, rows, start, stop):
        return self._rows.scores(rows[start:stop], self._columns, self._query, self._objective)

    cpdef scores(self, rows):
        if rows.size * self._query.shape[0] < _LEAST_SUMMED:
            sums = self._sums(rows, 0, rows.size)
        else:
            work = partial(self._sums, rows)
            sums = np.concatenate(in_pieces(work, rows.size, _LEAST_SUMMED // max(self._query.shape[0], 1)))
        if self._map.factors is not None:
            sums *= self._map.factors[rows]
        if self._map.offsets is not None and self._objective == 0:
            sums += self._map.offsets[rows]
        cdef const double[::1] checked = sums
        cdef Py_ssize_t t
        for t in range(checked.shape[0]):
            if not isfinite(checked[t]):
                self._complain(int(rows[t]))
        return sums


cdef class ReaderExact(Exact):
    """Exact scores of atoms that only Python can read."""

    cdef object _reader

    def __init__(self, reader):
        self._reader = reader

    cpdef scores(self, rows):
        return self._reader.exact(rows)

    cpdef int64_t cost(self, rows) except -1:
        return self._reader.exact_cost(rows)
