from libc.stdint cimport int64_t, uint8_t

ctypedef fused real:
    float
    double


cdef class Room:
    cdef void* start
    cdef void* whole


cdef class RowsOfEach:
    cdef int64_t[::1] rows, begins
    cdef Py_ssize_t most, count
    cdef int64_t* room(self) except NULL
    cdef void take(self, Py_ssize_t count) noexcept nogil
    cdef tuple found(self)


cdef struct Rounding:
    double of_norm  # error of a product for each unit of the norm of the row
    double lost  # what underflow may take from it: less than the smallest normal number in each product, or in an entry
    double lost_squares  # the same of a sum of squares
    double same_square  # stands for the sums of squares of all rows, where these are NULL


cdef Py_ssize_t n_blocks(Py_ssize_t n) noexcept nogil
cpdef double rounding_units(bint single, int64_t d) noexcept nogil
cdef Rounding rounding_of(bint single, int64_t d, double norm) noexcept nogil
cdef double kth_best(
    const real* products, Py_ssize_t n, Py_ssize_t k, bint absolute, double* maxima, double* room, Py_ssize_t* top
) noexcept nogil
cdef void fill_maxima(const real* values, Py_ssize_t n, double* maxima) noexcept nogil
cdef double certain_bar(
    const real* products, const real* squares, Py_ssize_t n, bint absolute, const double* maxima, double kth,
    const Rounding* rounding
) noexcept nogil
cdef Py_ssize_t reaching(
    const real* products, const real* squares, Py_ssize_t n, bint absolute, const double* maxima, double bar,
    const Rounding* rounding, int64_t* places
) noexcept nogil
cdef Py_ssize_t count_left(const uint8_t* out, Py_ssize_t n) noexcept nogil
cdef void leave_out(real* products, const uint8_t* out, Py_ssize_t n, bint absolute) noexcept nogil
cdef Py_ssize_t without_those(const uint8_t* out, int64_t* rows, Py_ssize_t count) noexcept nogil
