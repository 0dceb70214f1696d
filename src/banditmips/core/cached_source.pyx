"""Rounds on cached coordinates: of a query, nothing is read but its entries there."""

from libc.math cimport isfinite
from libc.stdint cimport int64_t, uint8_t

cimport numpy as cnp
import numpy as np

from banditmips.core.kernels cimport BM_F32, BM_F64, bm_kernels, bm_moments
from banditmips.core.sample_source cimport SampleSource
from banditmips.core.statistics cimport Sample
from banditmips.core.survivors cimport Survivors

cnp.import_array()


cdef class CachedSource(SampleSource):
    """Rounds on the coordinates that an index has cached of all its atoms; for one query after another.

    Parameters
    ----------
    alive : Survivors
        With room for all atoms.
    facts : AtomFacts, or None
    problem : Problem
        Its query has the entries at the cached coordinates, in the order of these; `look_at` fills them in.
    order : int64, shape (p,)
        The cached coordinates.
    values : float32 or float64, shape (n, p)
        The atoms' entries there.
    sampler, schedule
        They are asked once for all queries.
    """

    cdef object _cached, _samples, _fair_ones
    cdef double[::1] _entries
    cdef const int64_t[::1] _order
    cdef int64_t[::1] _sizes
    cdef int64_t _most_values
    cdef Py_ssize_t _n_atoms

    def __init__(self, Survivors alive, facts, problem, order, values, sampler, schedule):
        super().__init__(alive, facts, problem, None, sampler, schedule)
        self._order, self._cached, self._entries = order, values, problem.query
        self._n_atoms, self._most_values = alive.n, schedule.max_buffer
        self._samples, self._fair_ones = {}, {}
        sizes, size = [], schedule.next_size(0, self.population)
        # Where all coordinates are cached, sizes come to an end by themselves.
        while max(sizes, default=0) < size <= order.size and not schedule.should_finish(1, size, self.population):
            sizes.append(size)
            size = schedule.next_size(size, self.population)
        self._sizes = np.array(sizes, dtype=np.int64)
        self._values.start = <const char*> cnp.PyArray_DATA(values)
        self._values.row_stride, self._values.are_single = values.strides[0], values.itemsize == 4
        self._values.rows = alive.rows

    def look_at(self, row):
        """Take the entries of a query, a contiguous row of floats. All atoms are in the race again.

        Returns how many times more coordinates uniform sampling needs than sampling by their size; NaN or infinite if they
        are not finite, or if squares would over- or underflow.
        """
        cdef bm_moments moments
        cdef int dtype = BM_F32 if row.itemsize == 4 else BM_F64
        cdef int64_t p = self._order.shape[0]
        cdef double squares
        bm_kernels().gather(
            dtype, cnp.PyArray_DATA(row), row.itemsize, &self._order[0], p, &self._entries[0]
        )
        bm_kernels().moments_f64(&self._entries[0], p, NULL, &moments)
        self.alive.begin_again(self._n_atoms)
        self.size = self.n_multiplies = 0
        squares = moments.squares
        if not isfinite(moments.total) or not 1e-250 < squares < 1e250:
            return np.nan
        return p * squares / (moments.size * moments.size)

    cpdef int64_t next_size(self) except -1:
        cdef Py_ssize_t r
        for r in range(self._sizes.shape[0]):
            if self._sizes[r] > self.size:
                return self._sizes[r]
        return self.size

    cpdef bint should_finish(self, int64_t size) except -1:
        return False

    cpdef bint can_go_on(self, int64_t size) except -1:
        return self.alive.n * size <= self._most_values

    cdef int64_t seen(self, const int64_t* places, Py_ssize_t count) except -1:
        return 0

    cpdef int advance(self, int64_t size) except -1:
        """Estimate the score of every survivor from `size` cells."""
        cdef int64_t j, n_new = 0
        self.sample = self._samples.get(size)
        if self.sample is None:
            self.sample = self._samples[size] = Sample(
                self.sampler.prefix(size), self.problem.query[:size], self.problem.objective
            )
        for j in range(self.size, size):
            n_new += self._entries[j] != 0.0 or self.sample.objective != 0
        self.n_multiplies += self.alive.n * n_new
        self.size = size
        self.estimate()
        return 0

    cdef int mark_fair(self, uint8_t* fair) except -1:
        cdef Py_ssize_t t
        cdef uint8_t[::1] known
        if self.size not in self._fair_ones:  # what a sample shows of the atoms' entries has nothing to do with the query
            self._fair_ones[self.size] = known = np.ones(self._n_atoms, dtype=np.uint8)
            self._values.rows = NULL
            for t in range(self._n_atoms if self._guarded else 0):
                known[t] = not self.sample.scatter(&self._values, t, self._means[t]) < self._least_seen * self._scatter[t]
            self._values.rows = self.alive.rows
        known = self._fair_ones[self.size]
        for t in range(self.alive.n):
            fair[t] = known[self.alive.rows[t]]
        return 0

    cpdef int keep(self) except -1:
        self.alive.compact()
        return 0
