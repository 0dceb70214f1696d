from libc.stdint cimport int64_t

from banditmips.core.survivors cimport Survivors


cdef struct Candidate:
    # A score as it is ranked, where its interval ends, what comes first of equals, and its place.
    double rank
    double upper
    int64_t tie
    int64_t place


cdef int compare(const void* first, const void* second) noexcept nogil
cdef void* room_for(Py_ssize_t size) except NULL


cdef class Outcome:
    cdef public object survivors, scores, radius, exact, stop_reason, rounds
    cdef public int64_t n_multiplies
    cdef public Py_ssize_t n_survivors, n_raced
    cdef public int n_rounds
    cdef public bint handed_over
    cdef public double delta_spent, time_spent
    cdef bint _best_first

    cdef void _adopt(self, Survivors alive)
