from libc.stdint cimport int64_t

from banditmips.core.near_best cimport real
from banditmips.core.rows cimport Rows


cdef int fill_many_products(Rows rows, const real* queries, int64_t m, real* products) except -1
