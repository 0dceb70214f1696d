"""Atoms by their largest single product with a query (the screening of the baseline Greedy-MIPS)."""

from libc.stdint cimport int32_t, int64_t

import numpy as np

ctypedef fused real:
    float
    double

ctypedef fused index:
    int32_t
    int64_t


cdef inline bint _precedes(const double* best, int64_t i, int64_t j) noexcept nogil:
    return best[i] > best[j] or (best[i] == best[j] and i < j)


cdef void _sift_down(int64_t* heap, int64_t size, int64_t place, const double* best) noexcept nogil:
    """Let a coordinate sink to where it belongs: the one with the largest product is on top, of equals the first."""
    cdef int64_t child, sinking = heap[place]
    while 2 * place + 1 < size:
        child = 2 * place + 1
        if child + 1 < size and _precedes(best, heap[child + 1], heap[child]):
            child += 1
        if not _precedes(best, heap[child], sinking):
            break
        heap[place] = heap[child]
        place = child
    heap[place] = sinking


def first_atoms(const real[:, :] values, const index[:, ::1] order, const double[::1] query, int64_t budget):
    """Visit the products of single coordinates from the largest down until `budget` different atoms are met.

    Parameters
    ----------
    values : shape (n, d)
        The atoms.
    order : shape (d, n)
        The atoms by falling value, at each coordinate.
    query : shape (d,)
    budget : int
        At most n.

    Returns
    -------
    atoms : int64 array of shape (budget,)
    n_multiplies : int
    """
    cdef int64_t n = values.shape[0], d = values.shape[1], size = d
    if order.shape[0] != d or order.shape[1] != n or query.shape[0] != d or not 0 <= budget <= n:
        raise ValueError(f"order, query and budget must suit {n} atoms of {d} coordinates")
    found = np.empty(budget, dtype=np.int64)
    cdef int64_t[::1] atoms = found
    cdef int64_t[::1] heap = np.arange(d), position = np.zeros(d, dtype=np.int64)
    cdef double[::1] best = np.empty(d)
    cdef unsigned char[::1] visited = np.zeros(n, dtype=np.uint8)
    cdef int64_t j, atom, n_found = 0, n_multiplies = d
    with nogil:
        for j in range(d):
            best[j] = query[j] * values[order[j, 0 if query[j] >= 0.0 else n - 1], j]
        for j in range(d // 2 - 1, -1, -1):
            _sift_down(&heap[0], d, j, &best[0])
        while n_found < budget:
            j = heap[0]
            atom = order[j, position[j] if query[j] >= 0.0 else n - 1 - position[j]]
            if not visited[atom]:
                visited[atom] = True
                atoms[n_found] = atom
                n_found += 1
            # Atoms met through another coordinate are stepped over: their products would be wasted.
            while position[j] < n and visited[atom]:
                position[j] += 1
                if position[j] < n:
                    atom = order[j, position[j] if query[j] >= 0.0 else n - 1 - position[j]]
            if position[j] == n:
                size -= 1
                heap[0] = heap[size]
            elif n_found < budget:
                best[j] = query[j] * values[atom, j]
                n_multiplies += 1
            _sift_down(&heap[0], size, 0, &best[0])
    return found, n_multiplies
