"""Pieces of a race on codes on their own, for whoever wants to know what they take."""

from libc.stdint cimport int64_t, uint64_t

import numpy as np

from banditmips.core.codes cimport Codes
from banditmips.core.kernels cimport bm_kernels
from banditmips.core.rotation cimport Rotation


def time_cells(Codes codes):
    """Read the first cells of all atoms once, with a query of four bits."""
    cdef uint64_t[:, ::1] planes = np.full((4, codes.n_words), 0x5555555555555555, dtype=np.uint64)
    cdef int64_t[::1] sums = np.zeros(codes.n, dtype=np.int64)
    with nogil:
        bm_kernels().bit_sums(
            &codes._first[0, 0], codes.n_first_words, NULL, codes.n, &planes[0, 0], codes.n_words, 4,
            codes.n_first_words, &sums[0],
        )


def time_rotation(Rotation rotation):
    """Rotate one vector, and write its entries once more."""
    cdef float[::1] vector = np.ones(rotation.width, dtype=np.float32)
    with nogil:
        rotation.apply(&vector[0])
