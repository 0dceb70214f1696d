/* The kernels for AVX-512 with a popcount of words and products of bytes: Intel since Ice Lake (2019), AMD since Zen 4 (2022). */
#include "compiler.h"

#if BM_X86

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target( \
    "avx2,fma,f16c,popcnt,avx512f,avx512bw,avx512vl,avx512dq,avx512vpopcntdq,avx512vnni"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c,popcnt,avx512f,avx512bw,avx512vl,avx512dq,avx512vpopcntdq,avx512vnni")
#endif

#define BM_KERNELS bm_kernels_avx512
#define BM_NAME "avx512"
#define BM_VECTOR_BYTES 64
#include "kernels_text.h"

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

#endif
