/* The kernels for AVX2 with FMA, F16C and POPCNT: x86 machines since 2013. */
#include "compiler.h"

#if BM_X86

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma,f16c,popcnt"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c,popcnt")
#endif

#define BM_KERNELS bm_kernels_avx2
#define BM_NAME "avx2"
#define BM_VECTOR_BYTES 32
#include "kernels_text.h"

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

#endif
