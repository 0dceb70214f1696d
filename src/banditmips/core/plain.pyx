"""Plain searches in one compiled call, from the user's arrays to the result.

Of a small search, or of one that certain bounds settle, everything around it would take longer than itself; more so where
other work has gone through the caches since the last one.
"""

from cpython.long cimport PyLong_CheckExact

cimport numpy as cnp

from banditmips.core.maps cimport map_of

cnp.import_array()

cdef extern from "Python.h":
    int PyObject_GenericSetDict(object instance, object fields, void* context) except -1


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
    """

    def __init__(self, tuple asked, shape, int type_num, k, bint absolute, int64_t few_entries, result_type, fields):
        if type_num not in (cnp.NPY_FLOAT, cnp.NPY_DOUBLE):
            raise ValueError("plain searches are those of float32 or float64")
        self.asked, self.type_num, self.k, self.absolute = asked, type_num, k, absolute
        self.n, self.d = shape
        self.few_entries, self.result_type, self.fields = few_entries, result_type, fields

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


def answer_plainly(list kinds, atoms, row, k, tuple asked, mask=None):
    """The result of a search of one of these kinds; None where it is of another."""
    cdef PlainKind kind
    if not (cnp.PyArray_CheckExact(atoms) and cnp.PyArray_CheckExact(row) and PyLong_CheckExact(k)):
        return None
    for kind in kinds:
        if kind.takes(mask) and kind.serves(atoms, row, k, asked):
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
