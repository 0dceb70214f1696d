"""Many short reads of a file in one call, without the GIL and without waiting for one after another."""

from libc.stdint cimport int64_t

cdef extern from *:
    """
    #include <stdint.h>

    #if defined(_WIN32)
    static int64_t bm_read_runs(int file, const int64_t *begins, const int64_t *sizes, int64_t n, unsigned char *room) {
        return 0;
    }
    #else

    #include <errno.h>
    #include <sys/types.h>
    #include <sys/uio.h>
    #include <unistd.h>

    #if defined(__linux__)
    #include <sys/syscall.h>
    #endif

    /* What the system has in memory; of anything else Linux begins to read it, and does not wait for that. */
    static int bm_at_hand(int file, unsigned char *room, int64_t size, int64_t begin) {
    #if defined(SYS_preadv2) && defined(__LP64__)
        struct iovec where = {room, (size_t)size};
        return syscall(SYS_preadv2, file, &where, 1L, (long)begin, 0L, 8L /* RWF_NOWAIT */) == size;
    #else
        return 0;
    #endif
    }

    static int bm_wait_for(int file, unsigned char *room, int64_t size, int64_t begin) {
        while (size > 0) {
            const ssize_t came = pread(file, room, (size_t)size, (off_t)begin);
            if (came < 0 && errno == EINTR)
                continue;
            if (came <= 0)
                return 0;
            room += came;
            begin += came;
            size -= came;
        }
        return 1;
    }

    enum { BM_TOGETHER = 512 };

    static int64_t bm_read_runs(int file, const int64_t *begins, const int64_t *sizes, int64_t n, unsigned char *room) {
        for (int64_t first = 0; first < n; first += BM_TOGETHER) {
            const int64_t stop = n - first < BM_TOGETHER ? n : first + BM_TOGETHER;
            unsigned char *at = room;
            unsigned char has_come[BM_TOGETHER];
            for (int64_t i = first; i < stop; i++) {
                has_come[i - first] = (unsigned char)bm_at_hand(file, at, sizes[i], begins[i]);
                at += sizes[i];
            }
            for (int64_t i = first; i < stop; i++) {
                if (!has_come[i - first] && !bm_wait_for(file, room, sizes[i], begins[i]))
                    return i;
                room += sizes[i];
            }
        }
        return n;
    }
    #endif
    """
    int64_t bm_read_runs(int file, const int64_t *begins, const int64_t *sizes, int64_t n, unsigned char *room) nogil


def read_runs(int descriptor, const int64_t[::1] begins, const int64_t[::1] sizes, unsigned char[::1] room):
    """Read runs of so many bytes, each from its own place on, one behind the other into the room.

    Return how many came before one that does not come whole, or cannot be read: all, if nothing is wrong; none on a
    system that cannot do this. The room must hold all of them.
    """
    cdef int64_t n = begins.shape[0], n_bytes = 0, i
    if sizes.shape[0] != n:
        raise ValueError(f"begins and sizes must be as many, got {n} and {sizes.shape[0]}")
    for i in range(n):
        if sizes[i] < 0:
            raise ValueError(f"sizes must not be negative, got {sizes[i]}")
        n_bytes += sizes[i]
    if n_bytes > room.shape[0]:
        raise ValueError(f"the room must hold {n_bytes} bytes, got {room.shape[0]}")
    if n == 0:
        return 0
    if room.shape[0] == 0:
        return n
    cdef const int64_t *first = &begins[0]
    cdef const int64_t *wide = &sizes[0]
    cdef unsigned char *out = &room[0]
    with nogil:
        i = bm_read_runs(descriptor, first, wide, n, out)
    return i
