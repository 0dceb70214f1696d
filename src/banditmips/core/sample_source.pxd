from libc.stdint cimport int64_t

from banditmips.core.certain cimport ScoreMap
from banditmips.core.source cimport Source
from banditmips.core.statistics cimport Sample, Values


cdef class SampleSource(Source):
    cdef readonly object problem, reader, sampler, schedule
    cdef readonly Sample sample
    cdef object _buffer, _shown
    cdef Values _values
    cdef bint _guarded
    cdef ScoreMap _scores
    cdef const double[::1] _means, _scatter
    cdef double _least_seen
    cdef int64_t[::1] _taken
    cpdef double scatter_seen(self, Py_ssize_t t) noexcept
    cdef void estimate(self) noexcept
