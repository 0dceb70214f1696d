"""Sampled cells: coordinates, or lines of them, that a reader fetches from wherever the atoms are."""

from libc.math cimport isfinite
from libc.stdint cimport int64_t, uint8_t
from libc.string cimport memcpy, memset

import numpy as np

from banditmips.core.certain cimport ScoreMap
from banditmips.core.source cimport Source
from banditmips.core.statistics cimport Sample
from banditmips.core.survivors cimport Survivors


MIN_SCATTER_SEEN = 0.25
"""Part of the scatter of an atom's entries that the sample must show before `paired` may speak about the atom.

Sixteen coordinates of normal or ratings-like atoms show a quarter in all but one case in a thousand; an atom whose
weight sits in a few entries (a needle, or a default value with rare exceptions) shows next to nothing until one of
those is drawn.
"""


cdef class SampleSource(Source):
    """Rounds on sampled cells.

    Parameters
    ----------
    alive : Survivors
    facts : AtomFacts, or None
        What is known of all atoms: the means of their entries, and their scatter about these.
    problem : Problem
        The query, what becomes of its terms, and how many multiplies its cells take (`banditmips.race.sampled`).
    reader
        Puts the values of rows at the sample's cells into a buffer: ``read(rows, prefix, start, out)``.
    sampler
        Says which cells come next, and how they speak for all.
    schedule
        Says how large rounds are, and when exact scores are better.

    Attributes
    ----------
    sample : Sample
        Of the last round.
    """

    def __init__(self, Survivors alive, facts, problem, reader, sampler, schedule):
        self.alive, self.problem, self._scores = alive, problem, problem.scores
        self.reader, self.sampler, self.schedule = reader, sampler, schedule
        self.population, self.with_replacement = sampler.population, sampler.with_replacement
        self._taken = np.full(alive.n, problem.n_seen)
        self._buffer = np.empty((alive.n, 0))
        # Where nothing is known of the atoms' scatter, nothing has to be shown of it.
        self._guarded = facts is not None
        if self._guarded:
            self._means, self._scatter = facts.means, facts.scatter
        self._least_seen = MIN_SCATTER_SEEN * problem.share
        self._values.are_single, self._values.rows, self._values.atoms = False, NULL, alive.rows
        self._values.factors = &self._scores._factors[0] if self._scores._has_factors else NULL
        self._values.offsets = &self._scores._offsets[0] if self._scores._has_offsets else NULL

    @property
    def factors(self):
        """Factors on the survivors' terms."""
        factors = self._scores.factors
        return np.ones(self.alive.n) if factors is None else factors[self.alive.row_array]

    def variances(self):
        """Return the variances of the survivors' estimates, and the largest part of one cell in each."""
        out = np.empty((2, max(self.alive.n, 1)))
        cdef double[:, ::1] filled = out
        self.fill_variances(&filled[0, 0], &filled[1, 0])
        return out[:, : self.alive.n]

    def variances_of_differences(self, Py_ssize_t leader, double sign, const int64_t[::1] places):
        """Return the same for the leader's estimate less `sign` times that of each survivor at these places."""
        out = np.empty((2, places.shape[0]))
        cdef double[:, ::1] filled = out
        self.compare(leader, sign, &places[0], places.shape[0], &filled[0, 0], &filled[1, 0])
        return out

    cpdef int64_t next_size(self) except -1:
        return self.schedule.next_size(self.size, self.population)

    cpdef bint should_finish(self, int64_t size) except -1:
        return self.schedule.should_finish(self.alive.n, size, self.population)

    cpdef bint can_go_on(self, int64_t size) except -1:
        return not self.schedule.exceeds_buffer(self.alive.n, size)

    cpdef int64_t cell_cost(self) except -1:
        return self.problem.most_of_a_cell

    def affordable_size(self, int64_t size):
        """As many cells as asked for."""
        return size

    cdef int64_t seen(self, const int64_t* places, Py_ssize_t count) except -1:
        cdef Py_ssize_t t
        cdef int64_t total = 0
        if not self.with_replacement:
            for t in range(count):
                total += self._taken[places[t] if places != NULL else t]
        return total

    cpdef int64_t n_coordinates(self) except -1:
        widths = self.problem.widths
        return self.size if widths is None else int(widths[self.sample.coordinates].sum())

    cpdef int advance(self, int64_t size) except -1:
        """Read up to `size` cells of every survivor and estimate its score."""
        prefix = self.sampler.prefix(size)
        self._read(prefix, size)
        query = np.ascontiguousarray(self.problem.query[prefix.coordinates], dtype=np.float64)
        self.sample = Sample(prefix, query, self.problem.objective)
        self._shown = self.reader.scatters(self.alive.row_array, prefix) if self._guarded else None
        self.estimate()
        return 0

    cdef void estimate(self) noexcept:
        """Estimate every survivor's score from the sample, and see whether that gives numbers."""
        cdef Py_ssize_t t
        cdef bint finite = True
        with nogil:
            self.sample.fill_estimates(&self._values, self.alive.n, self.alive.estimates)
            for t in range(self.alive.n):
                finite &= isfinite(self.alive.estimates[t]) != 0
        self.overflowed = not finite

    def _read(self, prefix, int64_t size):
        n = self.alive.n
        cdef double[:, ::1] buffer
        if size > self._buffer.shape[1]:
            # Room for about two more rounds, so that few rounds have to move what they hold.
            grown = np.empty((n, max(size, min(2 * size, size + 4096))))
            grown[:, : self.size] = self._buffer[:n, : self.size]
            self._buffer = buffer = grown
            self._values.start, self._values.row_stride = <const char*> &buffer[0, 0], buffer.strides[0]
        counted = self.reader.read(self.alive.row_array, prefix, self.size, self._buffer[:n, self.size : size])
        taken = np.asarray(self._taken)[:n]
        if counted is None:
            each = self.problem.cost(prefix.coordinates[self.size :])
            self.n_multiplies += n * each
            taken += each
        else:
            self.n_multiplies += int(counted.sum())
            taken += counted
        self.size = size

    cdef int mark_fair(self, uint8_t* fair) except -1:
        cdef Py_ssize_t t
        cdef double[::1] shown
        memset(fair, 1, self.alive.n)
        if not self._guarded:
            return 0
        if self._shown is not None:
            shown = self._shown
        for t in range(self.alive.n):
            # A comparison with NaN is False: nothing known.
            fair[t] = not (
                (self.scatter_seen(t) if self._shown is None else shown[t])
                < self._least_seen * self._scatter[self.alive.rows[t]]
            )
        return 0

    cpdef double scatter_seen(self, Py_ssize_t t) noexcept:
        """What the sample shows of the scatter of a survivor's entries."""
        return self.sample.scatter(&self._values, t, self._means[self.alive.rows[t]])

    cdef int fill_variances(self, double* variances, double* shares) except -1:
        with nogil:
            self.sample.fill_variances(&self._values, self.alive.n, self.alive.estimates, variances, shares)
        return 0

    cdef int compare(
        self, Py_ssize_t leader, double sign, const int64_t* places, Py_ssize_t count, double* variances, double* shares
    ) except -1:
        with nogil:
            self.sample.compare(
                &self._values, self.alive.estimates, leader, sign, places, count, variances, shares
            )
        return 0

    cpdef int keep(self) except -1:
        cdef Py_ssize_t t, kept = 0
        cdef char* start = <char*> self._values.start
        for t in range(self.alive.n):
            if self.alive.beaten[t]:
                continue
            if kept < t:
                memcpy(start + kept * self._values.row_stride, start + t * self._values.row_stride, self.size * sizeof(double))
                self._taken[kept] = self._taken[t]
            kept += 1
        if self._shown is not None:
            self._shown = self._shown[self.alive.beaten_array == 0]
        self.alive.compact()
        return 0
