"""A random rotation of vectors of any length, in time d log d: signs and fast Hadamard transforms.

A vector of d numbers is filled up with zeros to the next multiple of 64. Where that is a power of two, a pass is
random signs and one transform; elsewhere it is signs and a transform of the first 2^b numbers, then signs and a
transform of the last 2^b, which overlap (2^b is the largest power of two that fits), and then sum and difference of the
two halves, which carry to each end what is at the other. There are two passes: after one,
vectors that share a few large entries are still recognisable by them. Every step is orthonormal, so inner products
and norms stay as they are, up to rounding (`ROUNDING`).
"""

from libc.math cimport sqrt
from libc.stdint cimport int64_t, uint32_t

import numpy as np

from banditmips.core.kernels cimport bm_kernels
from banditmips.core.numbers import random_words

CELLS_IN_WORD = 64


cdef class Rotation:
    """The rotation of vectors of length d that belongs to a seed.

    Attributes
    ----------
    d, width
        Length of a vector before and after: `width` is the next multiple of 64.
    rounding : float
        What rounding may add to a rotated vector at most, as a part of its norm.
    """

    def __init__(self, int64_t d, int64_t seed):
        self.d, self.seed = d, seed
        self.width = -(-d // CELLS_IN_WORD) * CELLS_IN_WORD
        self.window = CELLS_IN_WORD
        while 2 * self.window <= self.width:
            self.window *= 2
        self.n_transforms = 2 if self.window == self.width else 4
        words = random_words(seed, 1, self.n_transforms * self.width // 32)
        self.signs = words.reshape(self.n_transforms, self.width // 32)
        # A butterfly rounds once, so each transform adds at most log2(window) half units in the last place of the norm
        # of what it transforms, its normalisation one more, and the exchange of halves two.
        self.rounding = self.n_transforms * (np.log2(self.window) + 3.0) * 2.0**-24

    def __reduce__(self):
        return Rotation, (self.d, self.seed)

    @property
    def nbytes(self):
        """Memory taken."""
        return self.signs.nbytes

    cdef void apply(self, float* x) noexcept nogil:
        """Rotate `width` numbers in place. (Fastest where they begin at a multiple of 64 bytes.)"""
        bm_kernels().flip_signs(x, &self.signs[0, 0], self.width)
        self.apply_flipped(x)

    cdef void apply_flipped(self, float* x) noexcept nogil:
        """Rotate numbers whose signs have been changed already as the first row of `signs` says."""
        cdef int t
        cdef uint32_t* next_signs
        cdef int64_t last = self.width - self.window
        cdef float scale = <float> (1.0 / sqrt(<double> self.window))
        if last == 0:
            bm_kernels().hadamard(x, self.window, scale, &self.signs[1, 0])
            bm_kernels().hadamard(x, self.window, scale, NULL)
            return
        for t in range(0, self.n_transforms, 2):
            # The signs of the second transform, which are changed outside its window too: where the first did not reach,
            # and where it did.
            bm_kernels().flip_signs(x + self.window, &self.signs[t + 1, self.window // 32], last)
            bm_kernels().hadamard(x, self.window, scale, &self.signs[t + 1, 0])
            bm_kernels().hadamard(x + last, self.window, scale, NULL)
            next_signs = &self.signs[t + 2, 0] if t + 2 < self.n_transforms else NULL
            # Windows that overlap little would carry little from one end to the other.
            bm_kernels().exchange_halves(x, self.width, next_signs)

    def rotated(self, vectors):
        """Return the rotated rows of a matrix, in single precision."""
        given = np.atleast_2d(vectors)
        out = np.zeros((given.shape[0], self.width), dtype=np.float32)
        out[:, : self.d] = given
        cdef float[:, ::1] rows = out
        cdef int64_t i
        with nogil:
            for i in range(rows.shape[0]):
                self.apply(&rows[i, 0])
        return out
