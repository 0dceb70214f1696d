/* Which kernels this machine runs. */
#include "kernels.h"

#include <stdlib.h>

#include "compiler.h"
#if BM_X86
#include <cpuid.h>
#endif

extern const struct bm_kernels bm_kernels_portable;
#if BM_X86
extern const struct bm_kernels bm_kernels_avx2, bm_kernels_avx512;
#endif

/* From the most wanted to the one that runs everywhere */
static const struct bm_kernels *const ALL[] = {
#if BM_X86
    &bm_kernels_avx512,
    &bm_kernels_avx2,
#endif
    &bm_kernels_portable,
};
enum { N_ALL = sizeof ALL / sizeof ALL[0] };

#if BM_X86
/* The processor is asked directly: what __builtin_cpu_supports needs cannot be linked into a shared library by every
 * compiler. A feature counts if the operating system also saves the registers that it uses. */
static int has_all(uint32_t found, uint32_t wanted) { return (found & wanted) == wanted; }

static int level_here(void) {
    const uint32_t FMA = 1u << 12, POPCNT = 1u << 23, OSXSAVE = 1u << 27, AVX = 1u << 28, F16C = 1u << 29;
    const uint32_t AVX2 = 1u << 5, AVX512_F_DQ_BW_VL = 1u << 16 | 1u << 17 | 1u << 30 | 1u << 31, VPOPCNTDQ = 1u << 14;
    const uint32_t YMM_SAVED = 0x06, ZMM_SAVED = 0xe6;
    uint32_t a, b, c, d, saved, saved_high;
    if (!__get_cpuid(1, &a, &b, &c, &d) || !has_all(c, FMA | POPCNT | OSXSAVE | AVX | F16C)) return 0;
    __asm__ volatile("xgetbv" : "=a"(saved), "=d"(saved_high) : "c"(0));
    if (!has_all(saved, YMM_SAVED) || !__get_cpuid_count(7, 0, &a, &b, &c, &d) || !has_all(b, AVX2)) return 0;
    return has_all(saved, ZMM_SAVED) && has_all(b, AVX512_F_DQ_BW_VL) && has_all(c, VPOPCNTDQ) ? 2 : 1;
}
#endif

static int runs_here(const struct bm_kernels *kernels) {
#if BM_X86
    if (kernels == &bm_kernels_avx512) return level_here() >= 2;
    if (kernels == &bm_kernels_avx2) return level_here() >= 1;
#endif
    return kernels == &bm_kernels_portable;
}

const struct bm_kernels *bm_kernels_named(const char *name) {
    for (int i = 0; i < N_ALL; i++)
        if (strcmp(ALL[i]->name, name) == 0) return runs_here(ALL[i]) ? ALL[i] : NULL;
    return NULL;
}

static const struct bm_kernels *choose(void) {
    int first = 0;
    const char *limit = getenv("BANDITMIPS_CPU");
    for (int i = 0; limit && i < N_ALL; i++)
        if (strcmp(ALL[i]->name, limit) == 0) first = i;
    while (!runs_here(ALL[first])) first++;
    return ALL[first];
}

const struct bm_kernels *bm_kernels(void) {
    /* Two threads that come here at once write the same pointer. */
    static const struct bm_kernels *volatile chosen;
    if (!chosen) chosen = choose();
    return chosen;
}
