"""What a race asks of whoever gives it cells."""

from libc.stdint cimport int64_t, uint8_t

from banditmips.core.survivors cimport Survivors


cdef class Source:
    """Who fills the next cells of every survivor, and how they speak for the whole score.

    Attributes
    ----------
    alive : Survivors
    population, size : int
        Cells that there are, and cells of each survivor that have been read.
    n_multiplies : int
        What reading them has taken.
    with_replacement : bool
        Whether a cell may come again, so that having read them all proves nothing.
    overflowed : bool
        Whether an estimate of the last round is no finite number, so that nobody can be judged by it.
    """

    cpdef int64_t next_size(self) except -1:
        """How many cells the next round reaches."""
        raise NotImplementedError

    cpdef bint should_finish(self, int64_t size) except -1:
        """Whether exact scores of the survivors are better than a round that reaches `size` cells."""
        return False

    cpdef bint can_go_on(self, int64_t size) except -1:
        """Whether a round that reaches `size` cells is possible at all."""
        return True

    cpdef int64_t cell_cost(self) except -1:
        """Multiplies that one more cell takes of an atom at most."""
        return 1

    cdef int64_t seen(self, const int64_t* places, Py_ssize_t count) except -1:
        """Multiplies of the exact scores of the survivors at these places (NULL: the first) that the rounds have done."""
        return 0

    cpdef int64_t n_coordinates(self) except -1:
        """Cells read so far, in coordinates."""
        return self.size

    cpdef bint wants_leaders(self) except -1:
        """Whether the exact scores of the k leaders would be worth their time now."""
        return False

    cdef int mark_fair(self, uint8_t* fair) except -1:
        """Mark the survivors of which sampled cells have shown their fair share."""
        raise NotImplementedError

    cdef int fill_variances(self, double* variances, double* shares) except -1:
        """Fill in the variances of the survivors' sampled estimates, and the largest part of one cell in each."""
        raise NotImplementedError

    cdef int compare(
        self, Py_ssize_t leader, double sign, const int64_t* places, Py_ssize_t count, double* variances, double* shares
    ) except -1:
        """Fill in the same for the leader's estimate less `sign` times that of each survivor at these places."""
        raise NotImplementedError

    cpdef int fill_radius(self, double quantile, double reach) except -1:
        """Fill in the radii of estimates whose deviations are known, at so many deviations; `reach` as in `Survivors`."""
        raise NotImplementedError

    cpdef int advance(self, int64_t size) except -1:
        """Read up to `size` cells of every survivor and fill in its estimate."""
        raise NotImplementedError

    cpdef int keep(self) except -1:
        """Leave out those that are beaten."""
        self.alive.compact()
        return 0
