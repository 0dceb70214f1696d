from libc.stdint cimport uint64_t


cdef inline uint64_t mix(uint64_t x) noexcept nogil:
    """Scramble 64 bits (the finaliser of SplitMix64): the same number for the same input, whoever asks and when."""
    x = x + <uint64_t> 0x9E3779B97F4A7C15
    x = (x ^ (x >> 30)) * <uint64_t> 0xBF58476D1CE4E5B9
    x = (x ^ (x >> 27)) * <uint64_t> 0x94D049BB133111EB
    return x ^ (x >> 31)


cdef inline double unit_interval(uint64_t bits) noexcept nogil:
    """A number in (0, 1) from 64 random bits."""
    return (<double> (bits >> 11) + 0.5) * 1.1102230246251565e-16
