from libc.stdint cimport int64_t

cimport numpy as cnp


cdef class BytesFirst:
    cdef public double most_peaked, delta
    cdef public object close
    cdef bint pays
    cdef int n_in_vain
    cdef object ask(self, cnp.ndarray atoms, cnp.ndarray queries, norms, mask, Py_ssize_t n_flat)


cdef class PlainKind:
    cdef tuple asked
    cdef object k, result_type
    cdef dict fields
    cdef int64_t n, d, few_entries
    cdef int type_num
    cdef bint absolute
    cdef public int64_t n_uses
    cdef bint serves(self, cnp.ndarray atoms, cnp.ndarray row, k, tuple asked)
    cdef bint takes(self, mask)
    cdef object answer(self, cnp.ndarray atoms, cnp.ndarray row, cnp.ndarray mask)
    cdef object result(self, dict fields)
    cdef object batch_result(self, indices, scores, cnp.ndarray counts, int64_t n_left, by_bytes)


cdef bint are_floats(cnp.ndarray array, int type_num)
cdef bint are_same(tuple values, tuple others)
cdef bint is_plain_mask(mask, int64_t n)
