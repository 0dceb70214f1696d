"""Maps of files that may become shorter: reading beyond the end of such a file is an error, not the end of the process.

Where a map reaches beyond the end of its file, or the file cannot be read, the system sends SIGBUS to whoever reads. The
handler here knows the maps that are to be guarded: it puts zeros in the place of what is missing, notes that, and lets
the reader go on. Whoever asked then asks `was_cut` and throws the answer away. Signals for other addresses go to whom
they went before. Nothing is done, and nothing costs anything, until that happens.
"""

from libc.stdint cimport uintptr_t

import mmap

cimport numpy as cnp

cnp.import_array()

cdef extern from *:
    """
    #include <stddef.h>
    #include <stdint.h>

    #if defined(_WIN32)
    /* A file that is mapped cannot be cut there. */
    static int bm_guard(uintptr_t start, uintptr_t stop) { return -1; }
    static void bm_release(int slot) { }
    static int bm_was_cut(int slot) { return 0; }
    #else

    #include <signal.h>
    #include <sys/mman.h>
    #include <unistd.h>

    #if !defined(MAP_ANONYMOUS)
    #define MAP_ANONYMOUS MAP_ANON
    #endif

    enum { BM_N_MAPS = 4096 };

    /* Written with the GIL, read by the handler at any time: a slot whose stop is 0 guards nothing. */
    typedef struct {
        uintptr_t start;
        uintptr_t stop;
        int was_cut;
    } bm_map;

    static bm_map bm_maps[BM_N_MAPS];
    static struct sigaction bm_before;
    static uintptr_t bm_page;

    static void bm_on_bus_error(int number, siginfo_t *info, void *context) {
        const uintptr_t address = (uintptr_t)info->si_addr;
        const uintptr_t page = address - address % bm_page;
        int found = 0;
        uintptr_t stop = 0;
        /* A signal that another process has sent (a code of at most 0) is about no address. */
        for (int i = 0; i < BM_N_MAPS && info->si_code > 0; i++) {
            const uintptr_t end = __atomic_load_n(&bm_maps[i].stop, __ATOMIC_ACQUIRE);
            if (address < end && address >= bm_maps[i].start) {
                __atomic_store_n(&bm_maps[i].was_cut, 1, __ATOMIC_RELEASE);
                found = 1;
                stop = end > stop ? end : stop;
            }
        }
        /* From here to the end: a file that has lost this page has lost those behind it. */
        if (found && mmap((void *)page, stop - page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
                          0) != MAP_FAILED)
            return;
        if (bm_before.sa_flags & SA_SIGINFO)
            bm_before.sa_sigaction(number, info, context);
        else if (bm_before.sa_handler != SIG_DFL && bm_before.sa_handler != SIG_IGN)
            bm_before.sa_handler(number);
        else {
            /* What would have happened without us, as soon as the instruction is tried again. */
            signal(number, SIG_DFL);
            if (info->si_code <= 0)
                raise(number);
        }
    }

    static int bm_handle(void) {
        struct sigaction now, ours;
        if (sigaction(SIGBUS, NULL, &now) != 0)
            return -1;
        if ((now.sa_flags & SA_SIGINFO) && now.sa_sigaction == bm_on_bus_error)
            return 0;
        bm_page = (uintptr_t)sysconf(_SC_PAGESIZE);
        bm_before = now;
        sigemptyset(&ours.sa_mask);
        ours.sa_flags = SA_SIGINFO | SA_ONSTACK;
        ours.sa_sigaction = bm_on_bus_error;
        return sigaction(SIGBUS, &ours, NULL);
    }

    static int bm_guard(uintptr_t start, uintptr_t stop) {
        if (bm_handle() != 0)
            return -1;
        for (int i = 0; i < BM_N_MAPS; i++) {
            if (bm_maps[i].stop == 0) {
                bm_maps[i].start = start;
                bm_maps[i].was_cut = 0;
                __atomic_store_n(&bm_maps[i].stop, stop, __ATOMIC_RELEASE);
                return i;
            }
        }
        return -1;
    }

    static void bm_release(int slot) { __atomic_store_n(&bm_maps[slot].stop, 0, __ATOMIC_RELEASE); }
    static int bm_was_cut(int slot) { return __atomic_load_n(&bm_maps[slot].was_cut, __ATOMIC_ACQUIRE); }
    #endif
    """
    int bm_guard(uintptr_t start, uintptr_t stop)
    void bm_release(int slot)
    int bm_was_cut(int slot)


def guard(uintptr_t start, uintptr_t size):
    """Guard a map of a file, which begins at a page: a number for the other functions, -1 where that is not possible."""
    return bm_guard(start, start + size)


def release(int number):
    """Guard the map no more; before it is given back."""
    if number >= 0:
        bm_release(number)


def was_cut(int number):
    """Whether something of this map was missing when it was read."""
    return number >= 0 and bm_was_cut(number) != 0


cpdef object map_of(object array):
    """The map that an array shows a part of; None if it is in memory."""
    base = array
    while cnp.PyArray_Check(base):
        if cnp.PyArray_BASE(base) == NULL:
            return None
        base = <object> cnp.PyArray_BASE(base)
    if isinstance(base, memoryview):
        base = base.obj
    return base if isinstance(base, mmap.mmap) else None
