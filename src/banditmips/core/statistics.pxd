from libc.stdint cimport int64_t

from banditmips.core.kernels cimport Kernels, bm_weighed


cdef struct Values:
    # Where the sampled values of the survivors are, and what is known of these.
    const char* start
    int64_t row_stride  # in bytes
    bint are_single  # floats rather than doubles
    const int64_t* rows  # the row of each survivor; NULL for one after another
    const int64_t* atoms  # which atom it is
    const double* factors  # each atom's on all of its terms; NULL for 1
    const double* offsets  # the part of each atom's score that was known before; NULL for 0


cdef inline const char* row_of(const Values* values, Py_ssize_t t) noexcept nogil:
    return values.start + (t if values.rows == NULL else values.rows[t]) * values.row_stride


cdef inline double sampled_part(const Values* values, Py_ssize_t t, const double* estimates) noexcept nogil:
    return estimates[t] if values.offsets == NULL else estimates[t] - values.offsets[values.atoms[t]]


cdef class Sample:
    cdef readonly object coordinates
    cdef readonly double total_unit
    cdef readonly int objective
    cdef readonly int64_t size
    cdef const double[::1] _query, _scale, _unit, _spread
    cdef double[:, ::1] _room
    cdef bm_weighed _cells
    cdef const Kernels* _kernels
    cdef void _fill_terms(self, const Values* values, Py_ssize_t t, double* terms) noexcept nogil
    cdef void fill_estimates(self, const Values* values, Py_ssize_t n, double* estimates) noexcept nogil
    cdef void fill_variances(
        self, const Values* values, Py_ssize_t n, const double* estimates, double* variances, double* shares
    ) noexcept nogil
    cdef void compare(
        self, const Values* values, const double* estimates, Py_ssize_t leader, double sign, const int64_t* places,
        Py_ssize_t count, double* variances, double* shares,
    ) noexcept nogil
    cdef double scatter(self, const Values* values, Py_ssize_t t, double center) noexcept nogil
