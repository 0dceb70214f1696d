"""Sampled cells: coordinates, or lines of them, that a reader fetches from wherever the atoms are."""

from libc.math cimport isfinite
from libc.stdint cimport int64_t, uint8_t
from libc.string cimport memcpy, memset

import numpy as np

from banditmips.core.source cimport Source
from banditmips.core.statistics cimport Sample
from banditmips.core.survivors cimport Survivors


class PerAtom:
    """What is known of each candidate before anything is sampled.

    Attributes
    ----------
    row_scale : float64
        A factor on all of its terms (the cosine's norms).
    centers, needed_scatter : float64
        The mean of its entries, and what a sample must show of their scatter about it (NaN where nothing is known).
    offsets : float64, or None
        The part of its score that is known already.
    """

    __slots__ = ("centers", "needed_scatter", "offsets", "row_scale")

    def __init__(self, row_scale, centers, needed_scatter, offsets=None):
        self.row_scale, self.centers, self.needed_scatter = row_scale, centers, needed_scatter
        self.offsets = offsets

    @classmethod
    def nothing_known(cls, n):
        """Of n atoms."""
        return cls(np.ones(n), np.zeros(n), np.full(n, np.nan))

    def part(self, chosen):
        """That of some of the candidates."""
        return PerAtom(*(None if (a := getattr(self, name)) is None else a[chosen] for name in self._order))

    _order = ("row_scale", "centers", "needed_scatter", "offsets")


cdef class SampleSource(Source):
    """Rounds on sampled cells.

    Parameters
    ----------
    alive : Survivors
    atoms : PerAtom
    problem : Problem
        The query and how many multiplies its cells take (`banditmips.race.sampled`).
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

    def __init__(self, Survivors alive, atoms, problem, reader, sampler, schedule):
        self.alive, self.atoms, self.problem = alive, atoms, problem
        self.reader, self.sampler, self.schedule = reader, sampler, schedule
        self.population, self.with_replacement = sampler.population, sampler.with_replacement
        self._taken, self._places = np.full(alive.n, problem.n_seen), np.arange(alive.n)
        self._buffer = np.empty((alive.n, 0))
        # Where nothing is known of the atoms' scatter, nothing has to be shown of it.
        self._guarded = not np.isnan(atoms.needed_scatter).all()
        self._row_scale, self._offsets = atoms.row_scale, atoms.offsets
        self._centers, self._needed = atoms.centers, atoms.needed_scatter
        self._values.are_single, self._values.rows = False, NULL
        if alive.n:
            self._values.places, self._values.row_scale = &self._places[0], &self._row_scale[0]
            self._values.offsets = NULL if atoms.offsets is None else &self._offsets[0]

    @property
    def row_scale(self):
        """Factors on the survivors' terms."""
        return self.atoms.row_scale[np.asarray(self._places)[: self.alive.n]]

    @property
    def variances(self):
        """Variances of the survivors' estimates."""
        out = np.empty((2, max(self.alive.n, 1)))
        cdef double[:, ::1] filled = out
        self.fill_variances(&filled[0, 0], &filled[1, 0])
        return out[0, : self.alive.n]

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
                (self.sample.scatter(&self._values, t, self._centers[self._places[t]]) if self._shown is None else shown[t])
                < self._needed[self._places[t]]
            )
        return 0

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
                self._places[kept], self._taken[kept] = self._places[t], self._taken[t]
            kept += 1
        if self._shown is not None:
            self._shown = self._shown[self.alive.beaten_array == 0]
        self.alive.compact()
        return 0
