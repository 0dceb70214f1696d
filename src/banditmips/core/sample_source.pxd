from libc.stdint cimport int64_t

from banditmips.core.source cimport Source
from banditmips.core.statistics cimport Sample, Values


cdef class SampleSource(Source):
    cdef readonly object atoms, problem, reader, sampler, schedule
    cdef readonly Sample sample
    cdef object _buffer, _shown
    cdef Values _values
    cdef bint _guarded
    cdef const double[::1] _row_scale, _offsets, _centers, _needed
    cdef int64_t[::1] _places, _taken
    cdef void estimate(self) noexcept
