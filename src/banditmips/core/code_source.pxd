from libc.stdint cimport int64_t, uint8_t, uint64_t

from banditmips.core.certain cimport ScoreMap
from banditmips.core.codes cimport MAX_RUNGS, Codes
from banditmips.core.kernels cimport bm_code_round
from banditmips.core.source cimport Source
from banditmips.core.survivors cimport Survivors


cdef enum:
    # Bits of a query's rounded entries for signs, and for codes of several bits, whose own errors are smaller
    COARSE_BITS = 4
    FINE_BITS = 8
    # Of so many survivors one is probed
    PROBED = 16


cdef class RotatedQuery:
    cdef readonly double norm, unit, along, on_centre
    cdef Codes codes
    cdef const uint8_t[::1] dither
    cdef void* _memory
    cdef float* rotated
    cdef uint64_t* coarse
    cdef uint64_t* fine
    cdef double largest, coarse_step, fine_step
    # Sums of the rounded entries over the prefixes that rounds may end with
    cdef int64_t[MAX_RUNGS] coarse_totals
    cdef int64_t[MAX_RUNGS] fine_totals
    cdef void _rotate(self, const double* query) noexcept nogil
    cdef double _round(self, int n_bits, uint64_t* planes, int64_t* totals) noexcept nogil
    cdef void make_fine(self) noexcept nogil


cdef class CodeSource(Source):
    cdef Codes codes
    cdef ScoreMap scores
    cdef RotatedQuery rotated
    cdef object _query, _dither, _times
    cdef bm_code_round round
    cdef int64_t* sums
    cdef double cell_time, atom_time, fine_cell_time, fine_atom_time, row_time, full_time, prepare_time, risk
    cdef double quantile
    cdef readonly bint hopeless
    cdef readonly double time_spent
    cdef readonly int64_t n_cells_read
    cdef int64_t n_led, most
    cdef public int64_t row_cost
    cdef public bint leads_for_multiplies
    cdef CodeSource of_others(self, Survivors alive)
    cdef void take_over(self, CodeSource other)
    cdef bint is_dear(self) noexcept
    cdef double first_time(self) noexcept
    cdef bint promises(self, double rest) noexcept
    cdef double time_left(self)
    cdef double _time_of_round(self, int64_t size) noexcept
    cdef double _fine_time(self) noexcept
    cdef bint _cells_save_multiplies(self, int64_t size)
    cdef double _will_be_left(self, int64_t rung, double quantile)
    cdef double _effort_of_round(self, int64_t size) noexcept
    cdef int64_t _rung(self, int64_t size) noexcept nogil
    cdef void _read(self, int64_t size) noexcept nogil
    cdef void _read_some(self, int64_t size, Py_ssize_t first, Py_ssize_t count) noexcept nogil
    cdef void _estimate(self, int64_t size) noexcept nogil
    cdef void _fill_radius(self) noexcept nogil
    cdef const int64_t* _rows(self) noexcept nogil
    cdef void _read_signs(
        self, int64_t start, int64_t stop, const uint64_t* planes, int n_planes, Py_ssize_t first, Py_ssize_t count
    ) noexcept nogil
    cdef void _add_bits(
        self, const uint64_t* codes, int64_t stride, const uint64_t* planes, int n_planes, int64_t n_words, Py_ssize_t first,
        Py_ssize_t count,
    ) noexcept nogil
    cdef void _read_all_bits(self, Py_ssize_t first, Py_ssize_t stop) noexcept nogil
    cdef void _describe_round(self, int64_t size) noexcept nogil
