/* Which kernels this machine runs. */
#include "kernels.h"

#include <stdlib.h>

#include "compiler.h"

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

static int runs_here(const struct bm_kernels *kernels) {
#if BM_X86
    __builtin_cpu_init();
    /* No machine has AVX2 without F16C, and not every compiler can ask for the latter. */
    const int avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("popcnt");
    if (kernels == &bm_kernels_avx2) return avx2;
    if (kernels == &bm_kernels_avx512)
        return avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
               __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
               __builtin_cpu_supports("avx512vpopcntdq");
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
