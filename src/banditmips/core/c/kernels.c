/* Which kernels this machine runs. */
#include "kernels.h"

#include <stdlib.h>

#include "compiler.h"

extern const struct bm_kernels bm_kernels_portable;
#if BM_X86
#include "processor.h"

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
    if (kernels == &bm_kernels_avx2) return bm_has_avx2();
    if (kernels == &bm_kernels_avx512) return bm_has_avx512_bits_and_bytes();
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
