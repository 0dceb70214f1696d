"""Cells of rotated codes: the source of a fitted index's race.

The query is rotated once, when the first cells are asked for, and rounded to a few bits, so that a round is bit operations.
Rounding is random (by the seed's dither), so that its error too is sub-Gaussian, with half a step for each cell.
"""

from libc.math cimport fabs, isfinite, ldexp, sqrt
from libc.stdint cimport int64_t, uint8_t, uint64_t, uintptr_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memset

from functools import partial

import numpy as np

from banditmips._threads import in_pieces, n_threads
from banditmips.core.certain cimport ScoreMap
from banditmips.core.codes cimport ALIGNED, MAX_RUNGS, Codes
from banditmips.core.kernels cimport bm_code_round, bm_kernels
from banditmips.core.source cimport Source
from banditmips.core.numbers import random_words
from banditmips.core.survivors cimport WORTH_HANDING_OVER, Survivors, kth_largest, ranked

cdef double LEAST_SQUARE = 1e-250
"""Sums of squares below this may have lost digits to underflow."""

REGRET = 0.05
"""Part of the time of all products that finding out whether a race pays may take."""
cdef double _REGRET = REGRET
cdef double MARGIN = 1.25
"""Beyond that a race goes on only if it promises to take so many times less than all products: by so much the plan may be wrong."""
cdef double CAUTIOUS = 5.0
"""Deviations by which a forecast of few multiplies is made: the best of many estimates promises too much."""
cdef double ROUND_TIME = 3e3
"""Nanoseconds of a round whatever its size."""
cdef double FINE_PART = 0.2
"""What rounding a query once more takes, of what rotating and rounding it took (37 of 188 microseconds at d = 102,000)."""
cdef double WORTH_A_THREAD = 1.5e5
"""Nanoseconds of a round that are worth a thread of their own: handing them over takes a tenth."""


cdef enum:
    # Cells that are read in the time that the rest of a round takes for an atom
    CELLS_OF_AN_ATOM = 64
    # Atoms of which all bits are read together: so few that codes of some thousand coordinates stay in the second cache
    FINE_ATOMS = 256


cdef class RotatedQuery:
    """A query less its part along the codes' centre, rotated and rounded."""

    def __init__(self, Codes codes, const double[::1] query, const uint8_t[::1] dither):
        cdef int64_t width = codes.rotation.width
        cdef int64_t n_words = (COARSE_BITS + FINE_BITS) * codes.n_words
        self.codes, self.dither = codes, dither
        # Room for all of it at once, from where vectors are read the fastest.
        self._memory = malloc(n_words * sizeof(uint64_t) + width * sizeof(float) + ALIGNED)
        if self._memory == NULL:
            raise MemoryError("there is no memory for a rotated query")
        self.rotated = <float*> (<char*> self._memory + ALIGNED - <uintptr_t> self._memory % ALIGNED)
        self.coarse, self.fine = <uint64_t*> (self.rotated + width), NULL  # a multiple of 64 numbers behind
        with nogil:
            self._rotate(&query[0])
            self.coarse_step = self._round(COARSE_BITS, self.coarse, self.coarse_totals)

    def __dealloc__(self):
        free(self._memory)

    cdef void _rotate(self, const double* query) noexcept nogil:
        cdef int64_t d = self.codes.rotation.d, width = self.codes.rotation.width
        cdef double part = 0.0, product = self.codes.centre_product(query)
        cdef int exponent = 0
        # Any part is right; that along the centre makes the rest shortest. Squares that lost digits give none.
        if LEAST_SQUARE < self.codes.centre_square and isfinite(self.codes.centre_square) and isfinite(product):
            part = product / self.codes.centre_square
        if not isfinite(self.codes.scaled_rest(query, part, &exponent, self.rotated)):
            part = 0.0
            self.codes.scaled_rest(query, part, &exponent, self.rotated)
        memset(self.rotated + d, 0, (width - d) * sizeof(float))
        self.norm = sqrt(bm_kernels().dot_f32(self.rotated, self.rotated, d))
        self.codes.rotation.apply(self.rotated)
        self.largest = bm_kernels().largest_size(self.rotated, width)
        self.along, self.on_centre, self.unit = part, product, ldexp(1.0, exponent)

    cdef double _round(self, int n_bits, uint64_t* planes, int64_t* totals) noexcept nogil:
        """Round to n_bits, as bit planes with their sums over prefixes; return the step."""
        cdef double step = self.largest / ((1 << (n_bits - 1)) - 1.0) * (1.0 + 1e-6)
        if step == 0.0:
            step = 1.0
        bm_kernels().quantise(
            self.rotated, &self.dither[0], self.codes.n_cells, <float> step, n_bits, planes, self.codes.n_words,
            &self.codes._ends[0], <int> self.codes.n_rungs, totals,
        )
        return step

    cdef void make_fine(self) noexcept nogil:
        """Round once more, finely."""
        if self.fine == NULL:
            self.fine = self.coarse + COARSE_BITS * self.codes.n_words
            self.fine_step = self._round(FINE_BITS, self.fine, self.fine_totals)


cdef class CodeSource(Source):
    """Rounds on codes.

    Parameters
    ----------
    alive : Survivors
    codes : Codes
    query : float64 array of shape (d,)
    dither : uint8 array of shape (width,)
    scores : ScoreMap
    times : Times
        What things take (`banditmips.core.answer.Times`).

    Attributes
    ----------
    row_cost : int
        Multiplies of an exact row.
    leads_for_multiplies : bool
        Whether the exact scores of the leaders may be asked for where multiplies are to be saved.
    time_spent : float
        Nanoseconds that the rounds so far have taken, by the costs.
    n_cells_read : int
        Multiplies of the rounds alone.
    hopeless : bool
        Whether all products would take less time than reading on.
    """

    def __init__(self, Survivors alive, Codes codes, query, dither, ScoreMap scores, times):
        self.alive, self.codes, self.scores = alive, codes, scores
        self._query, self._dither, self._times = query, dither, times
        self.cell_time, self.atom_time, self.row_time = times.cell, times.atom, times.row
        self.full_time, self.prepare_time, self.risk = times.full, times.prepare, times.risk
        self.fine_cell_time, self.fine_atom_time = times.fine_cell, times.fine_atom
        self.most = codes.n_cells * codes.n_bits
        # Having read all bits of a code is not to know the score: there is no end where a race would be exhausted.
        self.population = self.most + 1
        self.sums = <int64_t*> calloc(max(alive.n, <Py_ssize_t> 1), sizeof(int64_t))
        if self.sums == NULL:
            raise MemoryError("there is no memory for the sums of a round")
        self.row_cost = -1  # until it is told, rows are no choice
        self.n_led = -1

    def __dealloc__(self):
        free(self.sums)

    cdef CodeSource of_others(self, Survivors alive):
        """The same query with other survivors."""
        return CodeSource(alive, self.codes, self._query, self._dither, self.scores, self._times)

    cdef void take_over(self, CodeSource other):
        """Go on with what another source has made of the query, and remember what it took."""
        self.rotated = other.rotated
        self.time_spent += other.time_spent
        self.n_multiplies += other.n_multiplies
        self.n_cells_read += other.n_cells_read

    cdef bint is_dear(self) noexcept:
        """Whether a first round that comes to nothing is more than may be risked.

        Where many have been left out before, the rows of the others take less than all products do.
        """
        return self.first_time() + min(self.alive.n * self.row_time, self.full_time) > self.full_time + self.risk

    cdef double first_time(self) noexcept:
        """What making the query ready and a first round take."""
        return self.prepare_time + self._time_of_round(self.next_size())

    cdef bint promises(self, double rest) noexcept:
        """Whether a race takes less time than all products, if so much is to be done after the first round."""
        return MARGIN * (self._time_of_round(self.next_size()) + rest) < self.full_time

    cpdef int64_t next_size(self) except -1:
        """Double by double for few multiplies; for time, the first cells of all atoms, then four times as many."""
        cdef int64_t n_cells = self.codes.n_cells, size
        if self.size >= n_cells:
            return self.most
        if self.full_time > 0.0:
            size = self.codes.n_first if self.size == 0 else 4 * self.size
            # What would leave but a few cells for a round of their own takes them along.
            return n_cells if 2 * size > n_cells else size
        return min(2 * self.size if self.size else 64, n_cells)

    def affordable_size(self, int64_t size):
        """The largest number of cells up to `size` that a round may end with."""
        for t in range(self.codes.n_rungs - 1, -1, -1):
            if self.codes._ends[t] <= size:
                return int(self.codes._ends[t])
        return 0

    cpdef bint can_go_on(self, int64_t size) except -1:
        return size <= self.most

    cpdef bint should_finish(self, int64_t size) except -1:
        """Whether the survivors' rows take less time, or fewer multiplies, than reading on."""
        if self.full_time == 0.0:
            return not self._cells_save_multiplies(size)
        if self.rotated is None:
            return self.alive.n * self.row_time <= self.prepare_time + self._time_of_round(size)
        if self.size and self.time_spent + self._time_of_round(size) > _REGRET * self.full_time:
            if MARGIN * self.time_left() >= self.full_time:
                self.hopeless = True
                return True
        return self.alive.n * self.row_time <= self._time_of_round(size)

    cdef double _time_of_round(self, int64_t size) noexcept:
        """What the next round takes for all survivors, if it reaches `size` cells."""
        cdef double of_atom = self.atom_time
        of_atom += (size - self.size) * self.cell_time if size <= self.codes.n_cells else self._fine_time()
        return self.alive.n * of_atom + ROUND_TIME + (FINE_PART * self.prepare_time if size > self.codes.n_cells else 0.0)

    cdef double _fine_time(self) noexcept:
        """What all bits of an atom take: every plane of them meets a query of more bits than the signs do."""
        return self.fine_atom_time + self.codes.n_cells * self.codes.n_bits * self.fine_cell_time

    cdef double time_left(self):
        """What reading on to the end would take, by the estimates of now: all signs, all bits if there are more, rows."""
        cdef int64_t last = self.codes.n_rungs - 1
        cdef int64_t n_cells = max(self.codes.n_cells - self.size, 0)
        cdef double signs = self.alive.n * (n_cells * self.cell_time + (self.atom_time if n_cells else 0.0))
        cdef double n_left = self._will_be_left(last, self.quantile) if self.size < self.codes.n_cells else self.alive.n
        cdef double rows = n_left * self.row_time
        cdef double fine
        if self.codes.n_bits > 1:
            fine = n_left * (self._fine_time() + self.atom_time) + FINE_PART * self.prepare_time
            rows = min(rows, fine + self._will_be_left(last + 1, self.quantile) * self.row_time)
        return signs + rows

    cdef bint _cells_save_multiplies(self, int64_t size):
        """Whether reading on may take fewer multiplies than the survivors' rows.

        Half of what a row takes is risked on codes; more only if reading on to the end of some round is likely to save it.
        """
        cdef int64_t t, n = self.alive.n, n_more
        if self.row_cost < 0 or 2 * size <= self.row_cost or self.size == 0:
            return self.row_cost < 0 or 2 * size <= self.row_cost
        for t in range(self.codes._errors.shape[0]):
            n_more = self.codes._ends[t] - self.size if t < self.codes.n_rungs else self.codes.n_cells
            if n_more > 0 and n_more * n < (n - self._will_be_left(t, CAUTIOUS)) * self.row_cost:
                return True
        return False

    cdef double _will_be_left(self, int64_t rung, double quantile):
        """How many would be left if the codes were read up to this rung, at so many deviations, by the estimates of now."""
        cdef Survivors alive = self.alive
        cdef Py_ssize_t t, n_left = 0
        cdef double reach = quantile * self.rotated.norm * self.rotated.unit, bar, error
        if alive.n <= alive.k:
            return alive.n
        for t in range(alive.n):
            alive.lower[t] = ranked(alive, t)
        bar = max(alive.bar, kth_largest(alive.lower, alive.n, alive.k, alive.heap))
        for t in range(alive.n):
            error = reach * self.codes._errors[rung, alive.rows[t]]
            if self.scores._has_factors:
                error *= fabs(self.scores._factors[alive.rows[t]])
            n_left += alive.lower[t] + error >= bar
        return n_left

    cpdef bint wants_leaders(self) except -1:
        """Exact scores of the leaders are worth their time, or multiplies, where they take little of what is left to do."""
        if self.alive.n <= self.alive.k or self.n_led == self.size:
            return False
        if self.full_time == 0.0 and not self.leads_for_multiplies:
            return False
        cdef double row = self.row_time if self.full_time > 0.0 else self.row_cost
        cdef double rest = self.alive.n * row
        if self.size < self.most:
            rest = min(rest, self._effort_of_round(self.next_size()))
        if 2.0 * self.alive.k * row > rest:
            return False
        self.n_led = self.size
        return True

    cdef double _effort_of_round(self, int64_t size) noexcept:
        """Time of the next round, or its multiplies where these are to be saved."""
        if self.full_time > 0.0:
            return self._time_of_round(size)
        return self.alive.n * (size - self.size if size <= self.codes.n_cells else self.codes.n_cells)

    cpdef int advance(self, int64_t size) except -1:
        """Read the codes up to `size` cells, and estimate."""
        if self.rotated is None:
            self.rotated = RotatedQuery(self.codes, self._query, self._dither)
            self.time_spent += self.prepare_time
        cdef double time = self._time_of_round(size)
        self.time_spent += time
        cdef int64_t n_cells = self.codes.n_cells
        # A coordinate of a code counts as one multiply, however many bits it has.
        cdef int64_t read = self.alive.n * (size - self.size if size <= n_cells else n_cells)
        self.n_multiplies += read
        self.n_cells_read += read
        if self.full_time > 0.0 and time >= 2.0 * WORTH_A_THREAD and n_threads() > 1:
            if size > n_cells:
                self.rotated.make_fine()
            in_pieces(partial(self.read_part, size), self.alive.n, int(self.alive.n * WORTH_A_THREAD / time))
            self._estimate(size)
        elif self.alive.n * CELLS_OF_AN_ATOM + read < CELLS_OF_AN_ATOM * WORTH_HANDING_OVER:
            self._read(size)
        else:
            with nogil:
                self._read(size)
        self.size = size
        return 0

    def read_part(self, int64_t size, Py_ssize_t first, Py_ssize_t stop):
        """Read the codes of some of the survivors up to `size` cells."""
        with nogil:
            self._read_some(size, first, stop - first)

    cdef void _read(self, int64_t size) noexcept nogil:
        """Do that for all of them, and estimate."""
        if size > self.codes.n_cells:
            self.rotated.make_fine()
        self._read_some(size, 0, self.alive.n)
        self._estimate(size)

    cdef void _read_some(self, int64_t size, Py_ssize_t first, Py_ssize_t count) noexcept nogil:
        if size > self.codes.n_cells:
            self._read_all_bits(first, first + count)
        else:
            self._read_signs(self.size, size, self.rotated.coarse, COARSE_BITS, first, count)

    cdef void _estimate(self, int64_t size) noexcept nogil:
        """Say what the sums of so many cells mean for the scores."""
        self._describe_round(size)
        bm_kernels().code_estimates(&self.round, self._rows(), self.alive.n, self.sums, self.alive.estimates)
        self.scores.apply(self.alive)

    cdef int64_t _rung(self, int64_t size) noexcept nogil:
        cdef int64_t t = 0
        while self.codes._ends[t] < size:
            t += 1
        return t

    cdef const int64_t* _rows(self) noexcept nogil:
        """The survivors' rows; NULL where they are all atoms, in order."""
        return NULL if self.alive.n == self.codes.n else self.alive.rows

    cdef void _read_signs(
        self, int64_t start, int64_t stop, const uint64_t* planes, int n_planes, Py_ssize_t first, Py_ssize_t count
    ) noexcept nogil:
        """Add the products of signs and rounded query from cell `start` to `stop` to the sums of some survivors."""
        cdef int64_t begin = start // 64, end = stop // 64, split = self.codes.n_first_words
        if begin < split:
            self._add_bits(
                &self.codes._first[0, begin], split, planes + begin, n_planes, min(end, split) - begin, first, count
            )
        if end > split:
            begin = max(begin, split)
            self._add_bits(
                &self.codes._rest[0, begin - split], self.codes.n_words - split, planes + begin, n_planes, end - begin,
                first, count,
            )

    cdef void _add_bits(
        self, const uint64_t* codes, int64_t stride, const uint64_t* planes, int n_planes, int64_t n_words, Py_ssize_t first,
        Py_ssize_t count,
    ) noexcept nogil:
        """Do that for words of codes that lie `stride` apart: of `count` survivors from the one numbered `first` on."""
        cdef const int64_t* rows = self._rows()
        bm_kernels().bit_sums(
            codes + (first * stride if rows == NULL else 0), stride, NULL if rows == NULL else rows + first, count, planes,
            self.codes.n_words, n_planes, n_words, self.sums + first,
        )

    cdef void _read_all_bits(self, Py_ssize_t first, Py_ssize_t stop) noexcept nogil:
        """Products of the whole codes with the finely rounded query: ``sum over planes of 2^p (2 S_p - T)``."""
        cdef int64_t n_words = self.codes.n_words
        cdef int plane, n_planes = self.codes.n_bits - 1
        cdef Py_ssize_t t, count
        memset(self.sums + first, 0, (stop - first) * sizeof(int64_t))
        # A few survivors at a time, whose planes lie together in memory, by Horner's rule from the signs down.
        while first < stop:
            count = min(<Py_ssize_t> FINE_ATOMS, stop - first)
            self._read_signs(0, self.codes.n_cells, self.rotated.fine, FINE_BITS, first, count)
            for plane in range(n_planes - 1, -1, -1):
                for t in range(first, first + count):
                    self.sums[t] *= 2
                self._add_bits(
                    &self.codes._finer[0, plane * n_words], n_planes * n_words, self.rotated.fine, FINE_BITS, n_words, first,
                    count,
                )
            first += count

    cdef void _describe_round(self, int64_t size) noexcept nogil:
        """Say what the sums of so many cells mean; the quantile comes with the radii."""
        cdef bm_code_round* round = &self.round
        cdef int64_t n_cells = self.codes.n_cells, last = self.codes.n_rungs - 1
        cdef int64_t rung = self._rung(size) if size <= n_cells else last + 1
        round.scales, round.errors = &self.codes._scales[rung, 0], &self.codes._errors[rung, 0]
        round.along, round.weight, round.n_cells = &self.codes._along[0], 2, min(size, n_cells)
        if rung <= last:
            round.scales_of_signs = round.errors_of_signs = NULL
            round.total, round.step = self.rotated.coarse_totals[rung], self.rotated.coarse_step
        else:
            round.scales_of_signs, round.errors_of_signs = &self.codes._scales[last, 0], &self.codes._errors[last, 0]
            # Every plane's bits are 0 and 1 where its signs are -1 and 1.
            round.total = self.rotated.fine_totals[last] * ((1 << self.codes.n_bits) - 1)
            round.step = self.rotated.fine_step
        round.unit, round.part, round.on_centre = self.rotated.unit, self.rotated.along, self.rotated.on_centre
        # Squares are of numbers in units of the query's largest entry, so that none of them under- or overflows.
        round.norm, round.width = self.rotated.norm, self.codes.rotation.width - 1.0

    cpdef int fill_radius(self, double quantile, double reach) except -1:
        """Fill in the radii, at so many deviations; `reach` as in `Survivors`."""
        cdef Survivors alive = self.alive
        cdef Codes codes = self.codes
        # Of the rotation, and of what the atom has along the centre, which was summed from rounded differences: no
        # matter of chance, so nothing of it is taken off by `reach`.
        cdef double slack = 4.0 * codes.rotation.rounding * self.rotated.norm
        slack += 2.0**-23 * fabs(self.rotated.along) * sqrt(codes.centre_square) / self.rotated.unit
        alive.reach, self.quantile = reach, reach * quantile
        self.round.quantile, self.round.slack = quantile, slack / reach
        if alive.n < WORTH_HANDING_OVER:
            self._fill_radius()
        else:
            with nogil:
                self._fill_radius()
        return 0

    cdef void _fill_radius(self) noexcept nogil:
        bm_kernels().code_radii(&self.round, self._rows(), self.alive.n, self.alive.radius)
        self.scores.widen(self.alive)

    cpdef int keep(self) except -1:
        """Leave out those that are beaten."""
        cdef Py_ssize_t t, kept = 0
        for t in range(self.alive.n):
            self.sums[kept] = self.sums[t]
            kept += not self.alive.beaten[t]
        self.alive.compact()
        return 0


def make_dither(Codes codes):
    """Random bytes by which queries are rounded, one for each cell."""
    words = random_words(codes.rotation.seed, 2, -(-codes.rotation.width // 4))
    return words.view(np.uint8)[: codes.rotation.width]
