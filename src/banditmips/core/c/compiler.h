/* What differs between compilers and machines, for the sources of the kernels. */
#ifndef BANDITMIPS_COMPILER_H
#define BANDITMIPS_COMPILER_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Vectors need the extensions that GCC and Clang have; AVX2 and AVX-512 also that they can switch their target inside a
 * file. Other compilers get plain numbers, and so does BM_NO_VECTORS, with which the tests see what those get. */
#if defined(__GNUC__) && defined(__x86_64__) && !defined(BM_NO_VECTORS)
#define BM_X86 1
#include <immintrin.h>
#else
#define BM_X86 0
#endif

#if defined(__GNUC__) && defined(__ARM_NEON) && defined(__aarch64__) && !defined(BM_NO_VECTORS)
#define BM_NEON 1
#include <arm_neon.h>
#else
#define BM_NEON 0
#endif

#if defined(__GNUC__)
#define ALWAYS_INLINE static inline __attribute__((always_inline, unused))
#define NEVER_INLINE static __attribute__((noinline))
#define PREFETCH(address) __builtin_prefetch(address)
#define PREFETCH_LATER(address) __builtin_prefetch(address, 0, 2) /* not into the first cache */
#elif defined(_MSC_VER)
#define ALWAYS_INLINE static __forceinline
#define NEVER_INLINE static __declspec(noinline)
#define PREFETCH(address) ((void)(address))
#define PREFETCH_LATER(address) ((void)(address))
#else
#define ALWAYS_INLINE static inline
#define NEVER_INLINE static
#define PREFETCH(address) ((void)(address))
#define PREFETCH_LATER(address) ((void)(address))
#endif

/* What comes before is added up before what comes after, although the compiler may otherwise add in any order: for a vector
 * or number in a register, and for an array. Where there are no vectors nobody needs the first, and compilers that do not
 * know the second keep the order anyway. */
#if BM_X86
#define IN_ORDER(sum) __asm__("" : "+x"(sum))
#elif BM_NEON
#define IN_ORDER(sum) __asm__("" : "+w"(sum))
#endif
/* Loaded once, although compilers would rather load it again for each use */
#if BM_X86 || BM_NEON
#define KEEP_LOADED(vector) IN_ORDER(vector)
#else
#define KEEP_LOADED(vector) ((void)(vector))
#endif
#if defined(__GNUC__)
#define KEEP_IN_MEMORY(array) __asm__("" : "+m"(array))
#else
#define KEEP_IN_MEMORY(array) ((void)(array))
#endif

/* Before a loop of a few turns, whose number is known: written out, so that what it works on can stay in registers */
#if defined(__clang__)
#define UNROLLED _Pragma("unroll")
#elif defined(__GNUC__)
#define UNROLLED _Pragma("GCC unroll 16")
#else
#define UNROLLED
#endif

/* "f32" from f and 32, also where both are macros */
#define BM_JOIN_(a, b) a##b
#define BM_JOIN(a, b) BM_JOIN_(a, b)

/* A number that need not be aligned */
#define LOAD_UNALIGNED(type, name, address) \
    type name;                              \
    memcpy(&name, (address), sizeof name)

#endif
