from libc.stdint cimport int64_t

from banditmips.core.source cimport Source
from banditmips.core.survivors cimport Survivors


cdef double round_share(int number) noexcept nogil
cdef Py_ssize_t drop_by_intervals(Survivors alive) noexcept nogil


cdef class Rule:
    cdef readonly double delta
    cdef readonly bint speaks_for_atoms
    cdef readonly Py_ssize_t n_atoms
    cdef double atom_share(self, int number) noexcept nogil
    cpdef int fill_radius(self, Source source, int number) except -1
    cdef Py_ssize_t judge(self, Source source, int number) except -1
    cdef int complete_radius(self, Source source, int number) except -1
    cdef bint settles(self, Source source, int number, double epsilon) except -1


cdef class CodeRule(Rule):
    pass
