"""Sampled cells: coordinates, or lines of them, that a reader fetches from wherever the atoms are."""

from libc.stdint cimport int64_t

import numpy as np

from banditmips.core.loop cimport Source
from banditmips.core.statistics import Sample
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
        Of the last round, with `variances` and `scatters` of the survivors.
    """

    cdef public object atoms, problem, reader, sampler, schedule, sample, variances, scatters, taken
    cdef object _values
    cdef bint _guarded

    def __init__(self, Survivors alive, atoms, problem, reader, sampler, schedule):
        self.alive, self.atoms, self.problem = alive, atoms, problem
        self.reader, self.sampler, self.schedule = reader, sampler, schedule
        self.population, self.with_replacement = sampler.population, sampler.with_replacement
        self.taken = np.full(alive.n, problem.n_seen)
        self._values = np.empty((alive.n, 0))
        # Where nothing is known of the atoms' scatter, nothing has to be shown of it.
        self._guarded = not np.isnan(atoms.needed_scatter).all()

    @property
    def row_scale(self):
        """Factors on the survivors' terms."""
        return self.atoms.row_scale

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

    cpdef int64_t seen(self, places) except -1:
        return 0 if self.with_replacement else int(self.taken[places].sum())

    cpdef int64_t n_coordinates(self) except -1:
        widths = self.problem.widths
        return self.size if widths is None else int(widths[self.sample.coordinates].sum())

    cpdef int advance(self, int64_t size) except -1:
        """Read up to `size` cells of every survivor and make the statistics that rules look at."""
        prefix = self.sampler.prefix(size)
        values = self._read(prefix, size)
        self.sample = Sample(prefix, self.problem.query[prefix.coordinates], self.problem.objective)
        atoms = self.atoms
        shown = self.reader.scatters(self.alive.row_array, prefix) if self._guarded else None
        estimates, self.variances, self.scatters = self.sample.estimates(
            values, atoms.row_scale, atoms.centers, self._guarded and shown is None
        )
        if shown is not None:
            self.scatters = shown
        self.alive.estimate_array[:] = estimates if atoms.offsets is None else estimates + atoms.offsets
        return 0

    def _read(self, prefix, int64_t size):
        n = self.alive.n
        if size > self._values.shape[1]:
            # Room for about two more rounds, so that few rounds have to move what they hold.
            grown = np.empty((n, max(size, min(2 * size, size + 4096))))
            grown[:, : self.size] = self._values[:, : self.size]
            self._values = grown
        counted = self.reader.read(self.alive.row_array, prefix, self.size, self._values[:, self.size : size])
        if counted is None:
            each = self.problem.cost(prefix.coordinates[self.size :])
            self.n_multiplies += n * each
            self.taken += each
        else:
            self.n_multiplies += int(counted.sum())
            self.taken += counted
        self.size = size
        return self._values[:, :size]

    def unrepresentative(self):
        """Atoms of which the sample has not seen their fair share (a comparison with NaN is False: nothing known)."""
        return self.scatters < self.atoms.needed_scatter

    def paired_variances(self, leader, rows, sign):
        """Variances of the leader's estimate less `sign` times each row's, and the largest part of one cell in each."""
        offsets, estimates = self.atoms.offsets, self.alive.estimate_array
        sampled = estimates if offsets is None else estimates - offsets
        return self.sample.paired_variances(
            self._values[:, : self.size], self.atoms.row_scale, sampled, leader, sign, rows
        )

    cpdef int keep(self) except -1:
        kept = self.alive.beaten_array == 0
        self.atoms = self.atoms.part(kept)
        self.taken = self.taken[kept]
        self._values = self._values[kept, : self.size]
        self.variances, self.scatters = self.variances[kept], self.scatters[kept]
        self.alive.compact()
        return 0
