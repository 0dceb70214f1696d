"""How scores follow from inner products with atoms of which nothing is known but rough sums and sums of squares."""

from libc.math cimport INFINITY, sqrt
from libc.stdint cimport int64_t

import numpy as np

cdef enum:
    SQUARED_DIFFERENCES, COSINES, CORRELATIONS

_RANKED = {"neg_sqeuclidean": SQUARED_DIFFERENCES, "cosine": COSINES, "correlation": CORRELATIONS}


def rough_factors(str objective, totals, const double[::1] squares, int64_t d, double error, fine, bint may_be_tiny):
    """Factors and offsets of atoms by their rough sums (for correlations only) and sums of squares.

    Parameters
    ----------
    d : int
        Entries of an atom.
    error : float
        Of a sum of squares, as a part of it.
    fine : pair of float
        Norms of atoms whose products are normal numbers; 0 is one.
    may_be_tiny : bool
        Whether squares of 0 may have been too small for numbers: then nothing is known of the norm.

    Returns
    -------
    factors, offsets : float64 arrays of shape (n,), or None where there are none
    scaled : float64 array of shape (n,)
        Squares of the atoms times their factors; infinite where nothing is known.
    relative : float64 array of shape (n,), or None
        Part of scores that these are wrong by.
    None, if the norm of one is not fine.
    """
    cdef int ranked = _RANKED[objective]
    cdef Py_ssize_t n = squares.shape[0], t
    cdef double low, high, norm, square, total, scatter, slack, factor
    low, high = fine
    found = np.empty((4, n))
    cdef double[:, ::1] numbers = found
    cdef const double[::1] sums = squares if totals is None else totals
    cdef bint are_fine = True
    if sums.shape[0] != n:
        raise ValueError(f"{sums.shape[0]} sums for the squares of {n} atoms")
    with nogil:
        for t in range(n):
            square = squares[t]
            norm = sqrt(square)
            are_fine &= low < norm < high or norm == 0.0
            if ranked == SQUARED_DIFFERENCES:
                numbers[1, t] = 0.5 * square
                continue
            if ranked == COSINES:
                factor = 1.0 / norm if norm > 0.0 else 0.0
                numbers[2, t] = square * factor * factor if norm > 0.0 else (INFINITY if may_be_tiny else 0.0)
                numbers[3, t] = error
            else:
                # The square of the sum is wrong by two parts of what sizes add up to, which is no more than the squares do.
                total, slack = sums[t], 5.0 * error * square
                scatter = square - total * total / d
                factor = 1.0 / sqrt(scatter) if 2.0 * slack < scatter else 0.0
                numbers[1, t] = total * factor
                numbers[2, t] = square * factor * factor if factor > 0.0 else INFINITY
                numbers[3, t] = slack * factor * factor
            numbers[0, t] = factor
    if not are_fine:
        return None
    if ranked == SQUARED_DIFFERENCES:
        return None, found[1], np.asarray(squares), None
    return found[0], found[1] if ranked == CORRELATIONS else None, found[2], found[3]
