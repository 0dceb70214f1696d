"""The innermost sums in C, linked into this module alone: a copy in every module would be two megabytes each."""

cdef extern from "c/kernels.h" nogil:
    const Kernels *best_kernels "bm_kernels"() noexcept


cdef const Kernels *bm_kernels() noexcept nogil:
    """The best kernels that this machine can run."""
    return best_kernels()
