from libc.stdint cimport int64_t, uint8_t

from banditmips.core.survivors cimport Survivors


cdef class Source:
    cdef public Survivors alive
    cdef public int64_t population, size, n_multiplies
    cdef public bint with_replacement, overflowed
    cpdef int64_t next_size(self) except -1
    cpdef bint should_finish(self, int64_t size) except -1
    cpdef bint can_go_on(self, int64_t size) except -1
    cpdef int64_t cell_cost(self) except -1
    cdef int64_t seen(self, const int64_t* places, Py_ssize_t count) except -1
    cpdef int64_t n_coordinates(self) except -1
    cpdef bint wants_leaders(self) except -1
    cdef int mark_fair(self, uint8_t* fair) except -1
    cdef int fill_variances(self, double* variances, double* shares) except -1
    cdef int compare(
        self, Py_ssize_t leader, double sign, const int64_t* places, Py_ssize_t count, double* variances, double* shares
    ) except -1
    cpdef int fill_radius(self, double quantile, double reach) except -1
    cpdef int advance(self, int64_t size) except -1
    cpdef int keep(self) except -1
