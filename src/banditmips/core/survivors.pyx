"""The atoms still in the race, and what the last round says of each of them."""

from libc.math cimport INFINITY, NAN, isnan
from libc.stdint cimport int64_t, uint8_t
from libc.string cimport memcpy, memset

import numpy as np

cimport numpy as cnp

cnp.import_array()


cdef double kth_largest(const double* values, Py_ssize_t n, Py_ssize_t k, double* heap) noexcept nogil:
    """The k-th largest of n values (k <= n), by a heap of the k best; `heap` is room for k. NaN is below everything."""
    cdef Py_ssize_t t
    for t in range(n):
        if t < k or values[t] > heap[0]:
            keep_largest(values[t], heap, min(t, k), k)
    return heap[0]


cdef void keep_largest(double value, double* heap, Py_ssize_t size, Py_ssize_t k) noexcept nogil:
    """Put a value into a heap of the k largest so far, of which there are `size`; the smallest is on top."""
    cdef Py_ssize_t place, child
    value = -INFINITY if isnan(value) else value
    if size < k:  # sift up
        place = size
        while place > 0 and heap[(place - 1) // 2] > value:
            heap[place] = heap[(place - 1) // 2]
            place = (place - 1) // 2
    else:
        place = 0
        while True:
            child = 2 * place + 1
            if child >= k:
                break
            if child + 1 < k and heap[child + 1] < heap[child]:
                child += 1
            if heap[child] >= value:
                break
            heap[place] = heap[child]
            place = child
    heap[place] = value


cdef class Survivors:
    """Who is still in the race for the best k.

    Parameters
    ----------
    candidates : int64 array, or None
        The atoms that take part; None for 0, ..., n-1.
    n : int
        How many.
    k : int
    absolute : bool
        Whether atoms are ranked by the size of their scores.

    Attributes
    ----------
    n : int
        How many are left.
    bar : float
        What k atoms are known to reach for certain (of which exact scores are known); an atom below it has lost.
    reach : float
        The part of its radius by which one of the best k may exceed its estimate: for an answer to be right only their
        upper ends have to hold, for the intervals that are reported those of all atoms.
    """

    def __init__(self, candidates, Py_ssize_t n, Py_ssize_t k, bint absolute):
        self._make_room(n, k, absolute)
        self.begin_again(n)
        self.estimate_array[:] = 0.0
        if candidates is not None:
            self.row_array[:] = candidates

    @staticmethod
    def with_room(Py_ssize_t n, Py_ssize_t k, bint absolute):
        """Nobody yet, with room for n."""
        cdef Survivors self = Survivors.__new__(Survivors)
        self._make_room(n, k, absolute)
        return self

    cdef int _make_room(self, Py_ssize_t n, Py_ssize_t k, bint absolute) except -1:
        """One array of numbers of 8 bytes holds everything: a search would notice what many small ones take."""
        self.k, self.absolute, self._n_room = k, absolute, n
        self.n = self.n_known = 0
        self.bar, self.reach = -INFINITY, 1.0
        k = max(k, 1)
        self._n_room_known = 2 * k  # leaders are known once or twice
        self._numbers = np.empty(4 * n + 5 * k + n // 8 + 1)
        cdef double* numbers = <double*> cnp.PyArray_DATA(self._numbers)
        self.rows, self.estimates = <int64_t*> numbers, numbers + n
        self.radius, self.lower = numbers + 2 * n, numbers + 3 * n
        self.heap = numbers + 4 * n
        self.known_rows, self.known_scores = <int64_t*> (self.heap + k), self.heap + 3 * k
        self.beaten = <uint8_t*> (self.heap + 5 * k)
        return 0

    cdef void begin_again(self, Py_ssize_t n) noexcept nogil:
        """All of 0, ..., n-1 are in the race, and nothing is known of them; there must be room."""
        cdef Py_ssize_t t
        self.n, self.n_known, self.bar, self.reach = n, 0, -INFINITY, 1.0
        for t in range(n):
            self.rows[t], self.radius[t], self.beaten[t] = t, INFINITY, 0

    cdef int make_room_for_known(self, Py_ssize_t count) except -1:
        """Make room for `count` more exact scores."""
        cdef Py_ssize_t size = self.n_known + count
        cdef double* numbers
        if size > self._n_room_known:
            grown = np.empty(4 * size)
            numbers = <double*> cnp.PyArray_DATA(grown)
            memcpy(numbers, self.known_rows, self.n_known * sizeof(int64_t))
            memcpy(numbers + 2 * size, self.known_scores, self.n_known * sizeof(double))
            self.known_rows, self.known_scores = <int64_t*> numbers, numbers + 2 * size
            self._n_room_known, self._grown = 2 * size, grown
        return 0

    @property
    def row_array(self):
        """The atoms that are left."""
        return self._numbers[: self.n].view(np.int64)

    @property
    def estimate_array(self):
        """Their estimated scores."""
        return self._numbers[self._n_room : self._n_room + self.n]

    @property
    def radius_array(self):
        """The radii of the scores' confidence intervals."""
        return self._numbers[2 * self._n_room : 2 * self._n_room + self.n]

    @property
    def beaten_array(self):
        """Which of them have lost."""
        return self._numbers[<double*> self.beaten - <double*> self.rows :].view(np.uint8)[: self.n]

    def ranking(self):
        """The estimates as they are ranked."""
        return np.abs(self.estimate_array) if self.absolute else self.estimate_array

    cdef Py_ssize_t find_leaders(self, Py_ssize_t count, int64_t* places, const uint8_t* among=NULL) noexcept nogil:
        """Fill in the places of the best by estimate, best first; of equals the earlier one. Returns how many.

        Where `among` is given, only those that it marks are looked at.
        """
        cdef Py_ssize_t t, place, found = 0
        cdef double value, least = 0.0
        for t in range(self.n):
            if among != NULL and not among[t]:
                continue
            value = ranked(self, t)
            if found == count and not value > least:
                continue
            place = found if found < count else count - 1
            while place > 0 and value > ranked(self, places[place - 1]):
                places[place] = places[place - 1]
                place -= 1
            places[place] = t
            found = min(found + 1, count)
            least = ranked(self, places[found - 1])
        return found

    def leaders(self, Py_ssize_t count):
        """The places of the best by estimate, best first."""
        out = np.empty(max(min(count, self.n), 1), dtype=np.int64)
        cdef int64_t[::1] places = out
        return out[: self.find_leaders(min(count, self.n), &places[0])]

    cdef double known_score(self, int64_t row) noexcept nogil:
        """The exact score of a row, NaN if it is not known."""
        cdef Py_ssize_t t
        for t in range(self.n_known):
            if self.known_rows[t] == row:
                return self.known_scores[t]
        return NAN

    cdef void learn(self, int64_t row, double score) noexcept nogil:
        """Remember an exact score; there must be room."""
        self.known_rows[self.n_known] = row
        self.known_scores[self.n_known] = score
        self.n_known += 1

    cdef void compact(self) noexcept nogil:
        """Leave out those that have lost."""
        cdef Py_ssize_t t, kept = 0
        for t in range(self.n):  # no branches: who has lost is as good as random
            self.rows[kept] = self.rows[t]
            self.estimates[kept] = self.estimates[t]
            self.radius[kept] = self.radius[t]
            kept += not self.beaten[t]
        self.n = kept
        memset(self.beaten, 0, kept)
