"""Rotated codes: a few bits of every coordinate of every atom, with what makes them an honest estimate.

With c a fixed vector (the mean of some atoms) and r the rotated ``v - c``, a code is a vector x of small odd integers: the
signs of r, or a grid of 2 to 4 bits. For a rotated query p, ``<x, p> * |r|^2 / <x, r>`` estimates ``<r, p>`` without bias,
and for a uniformly random rotation its error is sub-Gaussian with deviation at most

    |p| * |r| * sqrt(|x|^2 |r|^2 / <x, r>^2 - 1) / sqrt(D - 1),

whatever the atom and the query are (docs/guarantees.md has the proof). The first m signs alone, zeros elsewhere, are such a
code too: the same formula serves every prefix. So each atom keeps, for every prefix that a round may end with, two
numbers: its *scale* ``|r|^2 / <x, r>`` and its *error*, the deviation for ``|p| = 1``.
"""

from libc.float cimport FLT_MAX, FLT_MIN
from libc.math cimport INFINITY, frexp, isfinite, ldexp, sqrt
from libc.stdint cimport int64_t, uint64_t, uintptr_t
from libc.stdlib cimport free, malloc
from libc.string cimport memset

import numpy as np

from banditmips.core.entries cimport Learnt, learnt_in, look_at_row
from banditmips.core.kernels cimport bm_kernels, bm_rest

MAX_BITS = 4
_FIRST_CELLS = 2048
_GRID_STEPS = np.array([np.nan, np.nan, 0.9957, 0.586, 0.3352])
cdef double[5] GRID_STEPS = _GRID_STEPS
"""The best step of a uniform grid of 2, 3 and 4 bits for normal numbers, in standard deviations (Max 1960)."""
cdef double LEAST_LENGTH = 1e-32, MOST_LENGTH = 1e32
"""Between these, scales and errors are within single precision."""


def prefix_ends(int64_t n_cells):
    """Where rounds may end: 64, 128, 256, ... cells, and all of them."""
    ends = []
    cdef int64_t end = 64
    while end < n_cells:
        ends.append(end)
        end *= 2
    return np.array([*ends, n_cells], dtype=np.int64)


def bytes_for_atom(int64_t n_cells, int n_bits):
    """Memory that the codes of one atom take."""
    n_rungs = prefix_ends(n_cells).size + (n_bits > 1)
    return n_bits * n_cells // 8 + 8 * n_rungs + 8


cdef int exponent_of(double largest) noexcept nogil:
    """The exponent of a power of two close to a number, that is itself finite; 0 where there is none."""
    cdef int exponent = 1
    if isfinite(largest) and largest > 0.0:
        frexp(largest, &exponent)
    return exponent - 1


cdef class Codes:
    """Codes of n atoms.

    Parameters
    ----------
    rotation : Rotation
    centre : array of shape (d,)
        What is taken off every atom, in single precision if the atoms are. Any vector will do; the closer it is to the
        atoms, the shorter the intervals.
    n : int
    n_cells : int
        Signs that are kept of each atom: the rotation's width, or a smaller multiple of 64.
    n_bits : int
        Bits of each coordinate, from 1 (signs only) to 4. More than one only where all signs are kept.

    Attributes
    ----------
    first, rest : uint64
        The signs that the first round reads, of all atoms together; the rest of them, of one atom together.
    finer : uint64
        The lower bits, one plane after another, of one atom together.
    ends, scales, errors
        The prefixes that rounds may end with, and each atom's scale and error for each of them; the last row of both is
        for all bits, where there are several.
    along : float64, shape (n,)
        Inner product of ``v - c`` with c.
    """

    def __init__(self, Rotation rotation, centre, int64_t n, int64_t n_cells, int n_bits=1):
        if n_cells % 64 or not 0 < n_cells <= rotation.width:
            raise ValueError(f"n_cells must be a multiple of 64 up to {rotation.width}, got {n_cells}")
        if not 1 <= n_bits <= MAX_BITS or (n_bits > 1 and n_cells < rotation.width):
            raise ValueError(f"n_bits must be 1 to {MAX_BITS}, and 1 where not all signs are kept, got {n_bits}")
        self.rotation, self.n, self.n_cells, self.n_bits = rotation, n, n_cells, n_bits
        self.n_first = min(n_cells, _FIRST_CELLS)
        self.n_words, self.n_first_words = n_cells // 64, self.n_first // 64
        self.ends = prefix_ends(n_cells)
        self.n_rungs = self.ends.size
        n_factors = self.n_rungs + (n_bits > 1)
        self._take(
            np.ascontiguousarray(centre, dtype=centre.dtype if centre.dtype == np.float32 else np.float64),
            np.zeros(n),
            np.zeros((n_factors, n), dtype=np.float32),
            np.zeros((n_factors, n), dtype=np.float32),
            np.zeros((n, self.n_first_words), dtype=np.uint64),
            np.zeros((n, self.n_words - self.n_first_words), dtype=np.uint64),
            np.zeros((n, (n_bits - 1) * self.n_words), dtype=np.uint64),
        )

    def _take(self, centre, along, scales, errors, first, rest, finer):
        self.centre, self.along, self.scales, self.errors = centre, along, scales, errors
        self.first, self.rest, self.finer = first, rest, finer
        self._along, self._ends = along, self.ends
        self.single_centre = centre.dtype == np.float32
        if self.single_centre:
            self._centre32 = centre
        else:
            self._centre64 = centre
        self._scales, self._errors = scales, errors
        self._first, self._rest, self._finer = first, rest, finer
        with np.errstate(over="ignore"):
            self.centre_square = float(np.dot(centre.astype(np.float64), centre))

    def arrays(self):
        """The arrays that a saved index keeps, by name."""
        names = ("centre", "along", "scales", "errors", "first", "rest", "finer")
        return {name: getattr(self, name) for name in names}

    @classmethod
    def from_arrays(cls, Rotation rotation, int64_t n_cells, int n_bits, arrays):
        """Make codes of arrays that were saved; their shapes must be those of `arrays()`."""
        centre, n = arrays["centre"], arrays["along"].size
        cdef Codes self = cls(rotation, np.zeros(rotation.d), 0, n_cells, n_bits)
        empty = self.arrays()
        for name, given in arrays.items():
            shape = tuple(n if length == 0 and axis != 1 or name in ("scales", "errors") and axis == 1 else length
                          for axis, length in enumerate(empty[name].shape))
            dtypes = (np.float32, np.float64) if name == "centre" else (empty[name].dtype,)
            if given.shape != shape or given.dtype not in dtypes:
                raise ValueError(f"codes: {name} has shape {given.shape} and dtype {given.dtype}, not {shape}")
        self.n = n
        self._take(centre, *(arrays[name] for name in ("along", "scales", "errors", "first", "rest", "finer")))
        return self

    def __reduce__(self):
        return Codes.from_arrays, (self.rotation, self.n_cells, self.n_bits, self.arrays())

    @property
    def nbytes(self):
        """Memory taken."""
        return sum(array.nbytes for array in self.arrays().values()) + self.rotation.nbytes

    def like(self, int64_t n):
        """Room for the codes of n other atoms, of the same kind and about the same centre."""
        return Codes(self.rotation, self.centre, n, self.n_cells, self.n_bits)

    def joined(self, Codes other):
        """The codes of these atoms followed by those of `other`, which must be of the same kind."""
        cdef Codes both = Codes(self.rotation, self.centre, 0, self.n_cells, self.n_bits)
        both.n = self.n + other.n
        mine, theirs = self.arrays(), other.arrays()
        axes = {"scales": 1, "errors": 1}
        names = ("along", "scales", "errors", "first", "rest", "finer")
        both._take(
            self.centre, *(np.concatenate([mine[name], theirs[name]], axis=axes.get(name, 0)) for name in names)
        )
        return both

    def look_and_encode(self, int64_t first_row, atoms, bases, means, scatters, column_squares):
        """Make the codes of some atoms, and learn what `banditmips.core.entries.look_at` does, in one pass.

        The atoms are a contiguous matrix of single or double precision; returned is their range.
        """
        if first_row < 0 or first_row + atoms.shape[0] > self.n or atoms.shape[1] != self.rotation.d:
            raise ValueError(f"rows {first_row} to {first_row + atoms.shape[0]} of {self.n} cannot be encoded")
        if not self.single_centre:
            atoms = atoms.astype(np.float64, copy=False)
        return _look_and_encode(self, first_row, atoms, bases, means, scatters, column_squares)

    def encode(self, int64_t first_row, atoms):
        """Make the codes of some atoms, given as a contiguous matrix of single or double precision."""
        n = atoms.shape[0]
        if n:
            self.look_and_encode(first_row, atoms, np.full(n, np.nan), np.empty(n), np.empty(n), np.zeros(atoms.shape[1]))

    cdef double centre_at(self, int64_t j) noexcept nogil:
        return self._centre32[j] if self.single_centre else self._centre64[j]

    cdef double centre_product(self, const double* query) noexcept nogil:
        """The product of a query with the centre."""
        if self.single_centre:
            return bm_kernels().dot_exact_f32(&self._centre32[0], query, self.rotation.d)
        return bm_kernels().dot_exact_f64(query, &self._centre64[0], self.rotation.d)

    cdef double rest_product(self, const float* x) noexcept nogil:
        """The product of a vector of single precision with the centre."""
        cdef double product = 0.0
        cdef int64_t j
        if not self.single_centre:
            return bm_kernels().dot_exact_f32(x, &self._centre64[0], self.rotation.d)
        for j in range(self.rotation.d):
            product += <double> x[j] * self._centre32[j]
        return product

    cdef double scaled_rest(self, const double* v, double part, int* exponent, float* out) noexcept nogil:
        """Fill in a vector less so much of the centre, over 2^exponent; return the size of its largest entry.

        The exponent is 0 where squares in single precision neither overflow nor lose anything that counts.
        """
        cdef double[2] scale
        scale[0] = scale[1] = 1.0
        exponent[0] = 0
        cdef double largest = self._scaled_rest(v, part, scale, out)
        if not 1e-9 < largest < 1e9:
            exponent[0] = exponent_of(largest)
            # In two steps: the inverse of the smallest numbers is infinite.
            scale[0], scale[1] = ldexp(1.0, -(exponent[0] // 2)), ldexp(1.0, -(exponent[0] - exponent[0] // 2))
            self._scaled_rest(v, part, scale, out)
        return largest

    cdef double _scaled_rest(self, const double* v, double part, const double* scale, float* out) noexcept nogil:
        if self.single_centre:
            return bm_kernels().scaled_rest_f32(v, &self._centre32[0], part, scale, self.rotation.d, out)
        return bm_kernels().scaled_rest_f64(v, &self._centre64[0], part, scale, self.rotation.d, out)

    cdef bint _is_of_this_precision(self, const real* v) noexcept nogil:
        """Whether atoms are of the centre's precision."""
        return self.single_centre if real is float else not self.single_centre

    cdef bm_rest _rest_in(self, float* x) noexcept nogil:
        """Say where to put what is left of an atom of the centre's precision."""
        cdef bm_rest rest
        rest.centre = <const void*> &self._centre32[0] if self.single_centre else <const void*> &self._centre64[0]
        rest.signs, rest.x, rest.product, rest.square = &self.rotation.signs[0, 0], x, 0.0, 0.0
        return rest

    cdef int _take_centre_off(self, const real* v, float* x, bm_rest* rest) noexcept nogil:
        """Do what `look_at_row` does for `rest`, of any atom; return the exponent of the power of two that x is a part of.

        Scaled before they become single precision, numbers neither over- nor underflow. Sums that are not finite say that
        this cannot be done.
        """
        cdef int64_t j, d = self.rotation.d
        cdef int exponent = 0
        cdef double largest = 0.0
        if real is double:
            largest = self.scaled_rest(v, 1.0, &exponent, x)
        else:
            for j in range(d):
                largest = max(largest, abs(<double> v[j] - self.centre_at(j)))
            exponent = exponent_of(largest)
            for j in range(d):
                x[j] = <float> ldexp(<double> v[j] - self.centre_at(j), -exponent)
        rest.product = ldexp(1.0, exponent) * self.rest_product(x) if isfinite(largest) else largest
        rest.square = bm_kernels().dot_f32(x, x, d)
        bm_kernels().flip_signs(x, &self.rotation.signs[0, 0], d)
        return exponent

    cdef void _encode_row(self, const real* v, int64_t row, EncodingRoom room, bm_rest* rest) noexcept nogil:
        """Encode an atom of which `rest` is left in the room's x, if both are of the same precision."""
        cdef int64_t d = self.rotation.d
        cdef float* x = room.x
        cdef double unit = 1.0, square
        # Between these limits single precision holds what counts; of floats nothing is left only if all are the centre's.
        cdef double least = 1e-30 if real is float else 1e-18
        cdef bint done = self._is_of_this_precision(v) and (
            least * d < rest.square < 1.0 / least or (real is float and rest.square == 0.0)
        )
        if not done:
            unit = ldexp(1.0, self._take_centre_off(v, x, rest))
        memset(x + d, 0, (self.rotation.width - d) * sizeof(float))
        square = rest.square
        (<double*> &self._along[row])[0] = rest.product
        if not isfinite(rest.product):
            (<double*> &self._along[row])[0] = 0.0
            self._unknown(row)
            return
        if square > 0.0 and not LEAST_LENGTH < unit * sqrt(square) < MOST_LENGTH:
            self._unknown(row)
            return
        self.rotation.apply_flipped(x)
        if self.n_bits > 1:
            bm_kernels().pack_grid(
                x, self.n_cells, <float> max(GRID_STEPS[self.n_bits] * sqrt(square / self.rotation.width), 1e-30),
                self.n_bits, room.planes, self.n_words, room.sums + MAX_RUNGS - 2,
            )
        else:
            bm_kernels().pack_signs(x, self.n_cells, room.planes)
        bm_kernels().prefix_sizes(x, &self._ends[0], <int> self.n_rungs, room.sums)
        self._store(row, unit, square, room.planes, room.sums)

    cdef void _unknown(self, int64_t row) noexcept nogil:
        """Say of an atom whose numbers are too large or too small that nothing is known."""
        cdef int64_t t
        for t in range(self._scales.shape[0]):
            self._put(t, row, 0.0, INFINITY)

    cdef void _put(self, int64_t rung, int64_t row, double scale, double error) noexcept nogil:
        if scale > FLT_MAX or 0.0 < scale < FLT_MIN or error > FLT_MAX:  # more than single precision can say
            scale, error = 0.0, INFINITY
        elif 0.0 < error < FLT_MIN:
            error = FLT_MIN
        # The arrays are constant to everybody else: those of a saved index are a file's.
        (<float*> &self._scales[rung, row])[0] = <float> scale
        (<float*> &self._errors[rung, row])[0] = <float> error

    cdef void _store(self, int64_t row, double unit, double square, uint64_t* planes, double* sums) noexcept nogil:
        """Keep a code: signs first, the lower planes in their place, and scale and error of every prefix."""
        cdef int64_t w, t, n_planes = self.n_bits - 1
        cdef uint64_t* signs = planes + n_planes * self.n_words
        for w in range(self.n_first_words):
            (<uint64_t*> &self._first[row, w])[0] = signs[w]
        for w in range(self.n_first_words, self.n_words):
            (<uint64_t*> &self._rest[row, w - self.n_first_words])[0] = signs[w]
        for w in range(n_planes * self.n_words):
            (<uint64_t*> &self._finer[row, w])[0] = planes[w]
        cdef double code_square, product, error
        for t in range(self._scales.shape[0]):
            if t < self.n_rungs:
                product, code_square = sums[t], <double> self._ends[t]
            else:
                product, code_square = sums[MAX_RUNGS - 2], sums[MAX_RUNGS - 1]
            if square == 0.0:  # the atom is the centre itself: nothing is left to be estimated
                self._put(t, row, 0.0, 0.0)
            elif product <= 0.0:  # a prefix that has seen nothing of the atom
                self._put(t, row, 0.0, INFINITY)
            else:
                error = square * max(code_square * square / (product * product) - 1.0, 0.0)
                self._put(t, row, unit * square / product, unit * sqrt(error / (self.rotation.width - 1.0)))


cdef class EncodingRoom:
    """Memory for one atom: the vector that is rotated, its planes, and what is summed over prefixes."""

    def __cinit__(self, Codes codes):
        cdef int64_t width = codes.rotation.width
        self._memory = malloc(width * sizeof(float) + codes.n_bits * (width // 64) * sizeof(uint64_t) + ALIGNED)
        if self._memory == NULL:
            raise MemoryError("there is no memory for rotating an atom")
        self.x = <float*> (<char*> self._memory + ALIGNED - <uintptr_t> self._memory % ALIGNED)
        self.planes = <uint64_t*> (self.x + width)  # a multiple of 64 numbers behind

    def __dealloc__(self):
        free(self._memory)


def _look_and_encode(
    Codes codes, int64_t first_row, const real[:, ::1] atoms, double[::1] bases, double[::1] means,
    double[::1] scatters, double[::1] column_squares,
):
    cdef Learnt learnt = learnt_in(bases, means, scatters, column_squares)
    cdef EncodingRoom room = EncodingRoom(codes)
    cdef const real* atom
    cdef bm_rest rest
    cdef int64_t i
    with nogil:
        for i in range(atoms.shape[0]):
            atom = &atoms[i, 0]
            rest = codes._rest_in(room.x)
            look_at_row(atom, atoms.shape[1], i, &learnt, &rest if codes._is_of_this_precision(atom) else <bm_rest*> NULL)
            codes._encode_row(atom, first_row + i, room, &rest)
    return learnt.low, learnt.high
