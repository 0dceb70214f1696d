"""Plain searches in one compiled call, from the user's arrays to the result.

Of a small search, or of one that certain bounds settle, everything around it would take longer than itself; more so where
other work has gone through the caches since the last one.
"""

from cpython.long cimport PyLong_CheckExact

import numpy as np

cimport numpy as cnp

from banditmips.core.maps cimport map_of

cnp.import_array()

cdef enum:
    MOST_IN_VAIN = 2  # times that products of bytes are asked in vain, one after another, before nobody asks them again

cdef extern from "Python.h":
    int PyObject_GenericSetDict(object instance, object fields, void* context) except -1


cdef class BytesFirst:
    """Products of bytes, which a kind of batch asks for who can be among the best before those of BLAS.

    Attributes
    ----------
    most_peaked : float
        They are faster where the largest entries of most queries are smaller than so many times their root mean square.
    delta : float
        With which probability they may leave out one that they should not.
    close : callable
        Takes atoms, queries, their norms unless products are ranked themselves, which atoms take no part (or None), and
        whether it is to look first if it could pay. Gives the rows that can be among the best, those of one query after those of another, and where those of each
        query begin, with the end of all; None where BLAS would take less than these rows. Queries for which it would have
        no rows.
    """

    cdef object ask(self, cnp.ndarray atoms, cnp.ndarray queries, norms, mask, Py_ssize_t n_flat):
        """The rows and where they begin, if so many queries have no large entries that it pays; None if not."""
        if 2 * n_flat <= cnp.PyArray_DIM(queries, 0) or self.n_in_vain >= MOST_IN_VAIN:
            return None
        found = self.close(atoms, queries, norms, mask, not self.pays)
        # Looking takes a good part of the time of a small batch, and is left out as long as it goes well.
        self.n_in_vain = 0 if found is not None else self.n_in_vain + (not self.pays)
        self.pays = found is not None
        return found


def without_rows(begins):
    """Which queries have no rows, by where those of each begin."""
    return np.flatnonzero(begins[1:] == begins[:-1])


cdef class PlainKind:
    """One kind of plain search: atoms and a query of one type in C order and in memory.

    Parameters
    ----------
    asked : tuple
        What a search of this kind is asked with beside atoms, query and k: numbers, strings and other objects.
    shape : (n, d)
    type_num : int
        NumPy's number of the type of atoms and query, float32 or float64.
    k : int
    absolute : bool
    few_entries : int
        A query of which no more than one in so many entries is not 0 is of another kind.
    result_type, fields
        What a result is, and those of its fields that are always the same.

    Attributes
    ----------
    n_uses : int
        How many more searches it may answer; as many as there are if it is less than 0.
    """

    def __init__(self, tuple asked, shape, int type_num, k, bint absolute, int64_t few_entries, result_type, fields):
        if type_num not in (cnp.NPY_FLOAT, cnp.NPY_DOUBLE):
            raise ValueError("plain searches are those of float32 or float64")
        self.asked, self.type_num, self.k, self.absolute = asked, type_num, k, absolute
        self.n, self.d = shape
        self.few_entries, self.result_type, self.fields, self.n_uses = few_entries, result_type, fields, -1

    cdef bint serves(self, cnp.ndarray atoms, cnp.ndarray row, k, tuple asked):
        """Whether these are of this kind."""
        return (
            cnp.PyArray_NDIM(atoms) == 2
            and cnp.PyArray_DIM(atoms, 0) == self.n
            and cnp.PyArray_DIM(atoms, 1) == self.d
            and are_floats(atoms, self.type_num)
            and cnp.PyArray_NDIM(row) == 1
            and cnp.PyArray_DIM(row, 0) == self.d
            and are_floats(row, self.type_num)
            and k == self.k
            and are_same(asked, self.asked)
        )

    cdef bint takes(self, mask):
        """Whether searches of this kind may leave out the atoms of such a mask."""
        return mask is None

    cdef object answer(self, cnp.ndarray atoms, cnp.ndarray row, cnp.ndarray mask):
        """The result; None where a number is not finite, or the query not plain."""
        raise NotImplementedError

    cdef object result(self, dict fields):
        """A result with these fields."""
        result = self.result_type.__new__(self.result_type)
        PyObject_GenericSetDict(result, fields, NULL)
        return result

    cdef object batch_result(self, indices, scores, cnp.ndarray counts, int64_t n_left, by_bytes):
        """The result of a batch that was answered by its products with so many atoms.

        `counts` are the multiplies of each query. Where products of bytes have found who is close to some of them, these are
        given as `by_bytes`: where the rows of each query begin, and delta.
        """
        cdef cnp.npy_intp m = cnp.PyArray_DIM(counts, 0)
        cdef cnp.ndarray survivors = cnp.PyArray_SimpleNew(1, &m, cnp.NPY_INT64)
        cdef cnp.ndarray spent = cnp.PyArray_ZEROS(1, &m, cnp.NPY_FLOAT64, 0), places
        cdef int64_t* left = <int64_t*> cnp.PyArray_DATA(survivors)
        cdef int64_t* multiplies = <int64_t*> cnp.PyArray_DATA(counts)
        cdef const int64_t* begins = NULL
        cdef double delta = 0.0
        cdef Py_ssize_t t
        if by_bytes is not None:
            places, delta = by_bytes
            begins = <const int64_t*> cnp.PyArray_DATA(places)
        for t in range(m):
            left[t] = n_left
            if begins != NULL and begins[t + 1] > begins[t]:
                left[t] = begins[t + 1] - begins[t]
                multiplies[t] += left[t] * (multiplies[t] // n_left)
                (<double*> cnp.PyArray_DATA(spent))[t] = delta
        fields = self.fields.copy()
        fields["indices"], fields["scores"], fields["n_multiplies"], fields["n_survivors"] = indices, scores, counts, survivors
        fields["n_rounds"] = cnp.PyArray_ZEROS(1, &m, cnp.NPY_INT64, 0)
        fields["bytes_read"] = cnp.PyArray_ZEROS(1, &m, cnp.NPY_INT64, 0)
        fields["delta_spent"] = spent
        return self.result(fields)


def answer_plainly(list kinds, atoms, row, k, tuple asked, mask=None):
    """The result of a search of one of these kinds; None where it is of another."""
    cdef PlainKind kind
    if not (cnp.PyArray_CheckExact(atoms) and cnp.PyArray_CheckExact(row) and PyLong_CheckExact(k)):
        return None
    for kind in kinds:
        if kind.n_uses != 0 and kind.takes(mask) and kind.serves(atoms, row, k, asked):
            kind.n_uses -= kind.n_uses > 0
            return kind.answer(atoms, row, mask)
    return None


cdef bint are_floats(cnp.ndarray array, int type_num):
    """Whether these are native numbers of that type in C order, and in memory."""
    return cnp.PyArray_TYPE(array) == type_num and cnp.PyArray_ISCARRAY_RO(array) and map_of(array) is None


cdef bint are_same(tuple values, tuple others):
    """Whether all are the same object, or equal numbers or strings of one type: True, 1 and 1.0 are equal too."""
    cdef Py_ssize_t t
    for t in range(len(others)):
        value, other = values[t], others[t]
        if value is not other and not (
            type(value) is type(other) and isinstance(value, (float, int, str)) and value == other
        ):
            return False
    return True


cdef bint is_plain_mask(mask, int64_t n):
    """Whether it says of each of n atoms if it takes part, for all queries alike; or there is none."""
    return mask is None or (
        cnp.PyArray_CheckExact(mask)
        and cnp.PyArray_TYPE(mask) == cnp.NPY_BOOL
        and cnp.PyArray_NDIM(mask) == 1
        and cnp.PyArray_DIM(mask, 0) == n
        and cnp.PyArray_ISCARRAY_RO(mask)
    )
