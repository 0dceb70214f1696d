"""What comes of a race: who is left, with scores and intervals, and what it took."""

from libc.math cimport INFINITY, fabs, isnan
from libc.stdint cimport int64_t, uint8_t
from libc.stdlib cimport free, malloc, qsort
from libc.string cimport memchr, memcpy, memset

import numpy as np

cimport numpy as cnp

from banditmips.core.exact cimport Exact
from banditmips.core.records import StopReason
from banditmips.core.survivors cimport WORTH_HANDING_OVER, Survivors, kth_largest

cnp.import_array()


cdef int compare(const void* first, const void* second) noexcept nogil:
    """The best comes first, and what is not a number last."""
    cdef const Candidate* a = <const Candidate*> first
    cdef const Candidate* b = <const Candidate*> second
    if isnan(a.rank) or isnan(b.rank):
        if isnan(a.rank) != isnan(b.rank):
            return 1 if isnan(a.rank) else -1
    elif a.rank != b.rank:
        return -1 if a.rank > b.rank else 1
    return -1 if a.tie < b.tie else 1


cdef Py_ssize_t _order_best(
    const double[::1] scores, const int64_t[::1] rows, Py_ssize_t k, bint absolute, Candidate* order
) noexcept nogil:
    """Put those that reach the k-th best in order; return how many. There is room for n + k numbers behind n candidates."""
    cdef Py_ssize_t t, found = 0, n = min(scores.shape[0], rows.shape[0])
    cdef double* ranks = <double*> (order + n)
    cdef double bar = -INFINITY
    for t in range(n):
        ranks[t] = fabs(scores[t]) if absolute else scores[t]
    if 0 < k < n:
        bar = kth_largest(ranks, n, k, ranks + n)
    for t in range(n):
        if not ranks[t] < bar:
            order[found].rank, order[found].tie, order[found].place = ranks[t], rows[t], t
            found += 1
    qsort(order, found, sizeof(Candidate), compare)
    return found


cdef void* room_for(Py_ssize_t size) except NULL:
    """Memory, which whoever asks for it gives back."""
    cdef void* room = malloc(max(size, <Py_ssize_t> 1))
    if room == NULL:
        raise MemoryError("there is no memory for a list of survivors")
    return room


cdef object _copied(const void* entries, cnp.npy_intp n, int type_num):
    """An array of so many entries of 8 bytes."""
    array = cnp.PyArray_EMPTY(1, &n, type_num, 0)
    memcpy(cnp.PyArray_DATA(array), entries, n * 8)
    return array


cdef class Outcome:
    """How a race ended: the survivors with their estimates, intervals and costs.

    `n_raced` atoms took part in the first round. `handed_over` says that the race ended where its source did, with the
    answer still open. `time_spent` is what it has taken, in nanoseconds, by the costs that the race was planned with.
    """

    def __init__(self, Survivors alive, stop_reason, *, exact=False, n_multiplies=0, n_rounds=0, delta_spent=0.0, rounds=()):
        cdef cnp.npy_intp n = alive.n
        self.survivors = _copied(alive.rows, n, cnp.NPY_INT64)
        self.scores = _copied(alive.estimates, n, cnp.NPY_FLOAT64)
        self.radius = _copied(alive.radius, n, cnp.NPY_FLOAT64)
        self.exact = cnp.PyArray_EMPTY(1, &n, cnp.NPY_BOOL, 0)
        memset(cnp.PyArray_DATA(self.exact), bool(exact), n)
        self.n_multiplies, self.n_rounds, self.n_survivors = n_multiplies, n_rounds, alive.n
        self.stop_reason, self.delta_spent, self.rounds = stop_reason, delta_spent, list(rounds)
        self.handed_over, self.n_raced, self.time_spent = False, alive.n, 0.0
        if alive.n_known:
            self._adopt(alive)

    @staticmethod
    def finished(rows, scores, int64_t n_multiplies, Outcome begun=None, bint best_first=False):
        """What comes of the exact scores of some rows, after what a race had come to, if there was one."""
        cdef Outcome self = Outcome.__new__(Outcome)
        cdef cnp.npy_intp n = rows.size
        self.survivors, self.scores = rows, scores
        self.radius, self.exact = cnp.PyArray_ZEROS(1, &n, cnp.NPY_FLOAT64, 0), cnp.PyArray_EMPTY(1, &n, cnp.NPY_BOOL, 0)
        memset(cnp.PyArray_DATA(self.exact), 1, n)
        self.stop_reason, self.n_multiplies, self._best_first = StopReason.FINISHED_EXACTLY, n_multiplies, best_first
        if begun is None:
            self.n_survivors = self.n_raced = n
            self.rounds = []
        else:
            self.n_multiplies += begun.n_multiplies
            self.n_survivors, self.n_raced = begun.n_survivors, begun.n_raced
            self.n_rounds, self.rounds = begun.n_rounds, begun.rounds
        return self

    @property
    def waits(self):
        """Whether it is left to the products with all atoms."""
        return self.handed_over

    def add_multiplies(self, int64_t n_before):
        """Count what was multiplied before."""
        self.n_multiplies += n_before

    cdef void _adopt(self, Survivors alive):
        """Take exact scores that are known already."""
        cdef double* scores = <double*> cnp.PyArray_DATA(self.scores)
        cdef double* radius = <double*> cnp.PyArray_DATA(self.radius)
        cdef uint8_t* exact = <uint8_t*> cnp.PyArray_DATA(self.exact)
        cdef double score
        cdef Py_ssize_t t
        for t in range(alive.n):
            score = alive.known_score(alive.rows[t])
            if not isnan(score):
                scores[t], radius[t], exact[t] = score, 0.0, 1

    def best(self, Py_ssize_t k, bint absolute):
        """Positions of the k best survivors, best first; of equals the one with the smaller index."""
        cdef const double[::1] scores = self.scores
        cdef const int64_t[::1] rows = self.survivors
        cdef Py_ssize_t t, found, n = min(scores.shape[0], rows.shape[0])
        cdef Candidate* order = <Candidate*> room_for(n * sizeof(Candidate) + (n + k) * sizeof(double))
        if n < WORTH_HANDING_OVER:
            found = _order_best(scores, rows, k, absolute, order)
        else:
            with nogil:
                found = _order_best(scores, rows, k, absolute, order)
        places = np.empty(min(k, found), dtype=np.int64)
        cdef int64_t* out = <int64_t*> cnp.PyArray_DATA(places)
        for t in range(min(k, found)):
            out[t] = order[t].place
        free(order)
        return places

    def rescore(self, Py_ssize_t k, bint absolute, Exact exact, budget=None):
        """Leave the k best, best first, with exact scores where the budget allows for them."""
        # What is returned is settled here: the others leave before scores of two kinds are compared.
        self.keep_best(k, absolute)
        if memchr(cnp.PyArray_DATA(self.exact), 0, self.exact.shape[0]) == NULL:
            return
        left = np.flatnonzero(~self.exact)
        rows = self.survivors[left]
        cost = exact.cost(rows)
        if budget is None or self.n_multiplies + cost <= budget:
            self.scores[left] = exact.scores(rows)
            self.radius[left], self.exact[left] = 0.0, True
            self.n_multiplies += cost
            self._best_first = False
            self.keep_best(k, absolute)

    def keep_best(self, Py_ssize_t k, bint absolute):
        """Leave the k best, best first."""
        if self._best_first and self.survivors.shape[0] <= k:
            return
        places = self.best(k, absolute)
        self.survivors, self.scores = self.survivors.take(places), self.scores.take(places)
        self.radius, self.exact = self.radius.take(places), self.exact.take(places)
        self._best_first = True
