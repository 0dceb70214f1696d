from banditmips.core.rows cimport Rows


cdef int fill_products(Rows rows, const void* query, void* products, void* totals, void* squares) except -1 nogil
