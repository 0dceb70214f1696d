"""Exact scores of some atoms."""

from libc.math cimport isfinite
from libc.stdint cimport int64_t
from libc.string cimport memcpy

from functools import partial

import numpy as np

from banditmips._threads import in_pieces, n_threads
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

    cdef int fill(self, const int64_t* rows, Py_ssize_t count, double* out) except -1:
        """Put the exact scores of these rows into `out`."""
        if count:
            self._copy(self.scores(_as_array(rows, count)), out)
        return 0

    cdef int _copy(self, const double[::1] scores, double* out) except -1:
        memcpy(out, &scores[0], scores.shape[0] * sizeof(double))
        return 0

    cdef int64_t cost_of(self, const int64_t* rows, Py_ssize_t count) except -1:
        """Multiplies that the exact scores of these rows take."""
        return self.cost(_as_array(rows, count))


cdef object _as_array(const int64_t* rows, Py_ssize_t count):
    array = np.empty(count, dtype=np.int64)
    cdef int64_t[::1] entries = array
    if count:
        memcpy(&entries[0], rows, count * sizeof(int64_t))
    return array


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
        cdef const int64_t[::1] places = rows
        cdef double[::1] found = sums
        if found.shape[0]:
            self._turn_into_scores(&places[0], found.shape[0], &found[0])
        return sums

    cdef int _turn_into_scores(self, const int64_t* rows, Py_ssize_t count, double* sums) except -1:
        """Turn sums of the rows' terms into scores, and complain of those that are not finite."""
        cdef Py_ssize_t t
        for t in range(count):
            if self._map._has_factors:
                sums[t] *= self._map._factors[rows[t]]
            if self._map._has_offsets and self._objective == 0:
                sums[t] += self._map._offsets[rows[t]]
            if not isfinite(sums[t]):
                self._complain(int(rows[t]))
        return 0

    cdef int fill(self, const int64_t* rows, Py_ssize_t count, double* out) except -1:
        cdef Py_ssize_t d = self._query.shape[0]
        cdef bint is_plain = self._columns is None and self._rows.are_contiguous
        if type(self) is not RowsExact or not is_plain or (count * d >= _LEAST_SUMMED and n_threads() > 1):
            return Exact.fill(self, rows, count, out)
        with nogil:
            self._rows.fill_sums(rows, count, &self._query[0], self._objective, out)
        return self._turn_into_scores(rows, count, out)

    cdef int64_t cost_of(self, const int64_t* rows, Py_ssize_t count) except -1:
        return count * self.row_cost if type(self) is RowsExact else Exact.cost_of(self, rows, count)


cdef class ReaderExact(Exact):
    """Exact scores of atoms that only Python can read."""

    cdef object _reader

    def __init__(self, reader):
        self._reader = reader

    cpdef scores(self, rows):
        return self._reader.exact(rows)

    cpdef int64_t cost(self, rows) except -1:
        return self._reader.exact_cost(rows)
