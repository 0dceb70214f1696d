from libc.stdint cimport int64_t

from banditmips.core.kernels cimport bm_columns
from banditmips.core.places cimport Place


cdef struct Wanted:
    # Rows, each once and in their order; the matrix by column that they are of, or NULL
    const Place* places
    const int64_t* numbers
    int64_t n
    int64_t d
    const bm_columns* columns


cdef struct Asked:
    # Queries, one behind the other; for each pair which of the wanted rows it is of, and where the pairs of each query begin
    const void* queries
    bint are_single
    int64_t n
    const int64_t* slots
    const int64_t* begins


ctypedef fused real:
    float
    double


cdef bint may_share(int64_t n_pairs, int64_t n, int64_t row_bytes) noexcept nogil
cpdef bint are_shared(const int64_t[::1] rows, int64_t n, int64_t row_bytes)
cdef int add_pairs(const Wanted* wanted, const Asked* asked, int objective, double* sums) except -1
cdef int copy_rows(const Wanted* wanted, real* rows) except -1
