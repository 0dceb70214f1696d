from libc.stdint cimport int64_t, uint32_t


cdef class Rotation:
    cdef readonly int64_t d, width, seed
    cdef readonly double rounding
    cdef int64_t window
    cdef int n_transforms
    cdef uint32_t[:, ::1] signs
    cdef void apply(self, float* x) noexcept nogil
    cdef void apply_flipped(self, float* x) noexcept nogil
