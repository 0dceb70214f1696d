/* What this processor can do and its operating system allows, asked at run time.
 *
 * Not by __builtin_cpu_supports: neither Microsoft's compiler nor the runtime of zig's has it.
 */
#ifndef BANDITMIPS_PROCESSOR_H
#define BANDITMIPS_PROCESSOR_H

#if defined(__x86_64__) || defined(_M_X64)

#include <stdint.h>

struct bm_cpuid {
    uint32_t eax, ebx, ecx, edx;
};

#ifdef _MSC_VER
#include <intrin.h>

static struct bm_cpuid bm_ask(uint32_t leaf)
{
    struct bm_cpuid answer = {0, 0, 0, 0};
    int registers[4];
    __cpuid(registers, 0);
    if ((uint32_t)registers[0] >= leaf) {
        __cpuidex(registers, (int)leaf, 0);
        answer.eax = (uint32_t)registers[0], answer.ebx = (uint32_t)registers[1];
        answer.ecx = (uint32_t)registers[2], answer.edx = (uint32_t)registers[3];
    }
    return answer;
}

static uint64_t bm_saved_registers(void) { return _xgetbv(0); }

#else
#include <cpuid.h>

static struct bm_cpuid bm_ask(uint32_t leaf)
{
    struct bm_cpuid answer = {0, 0, 0, 0};
    __get_cpuid_count(leaf, 0, &answer.eax, &answer.ebx, &answer.ecx, &answer.edx); /* leaves zeros if unknown */
    return answer;
}

static uint64_t bm_saved_registers(void)
{
    uint32_t low, high; /* in assembly: the intrinsic wants a file compiled for processors that have it */
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (uint64_t)high << 32 | low;
}
#endif

/* Whether all bits of `wanted` are set in `found`. */
static int bm_all(uint64_t found, uint64_t wanted) { return (found & wanted) == wanted; }

/* AVX2 with what every processor that has it brings: FMA, F16C, POPCNT, BMI1 and BMI2. */
static int bm_has_avx2(void)
{
    const uint32_t fma = 1u << 12, popcnt = 1u << 23, osxsave = 1u << 27, avx = 1u << 28, f16c = 1u << 29;
    const uint32_t bmi1 = 1u << 3, avx2 = 1u << 5, bmi2 = 1u << 8;
    const uint64_t xmm_ymm = 0x6;
    return bm_all(bm_ask(1).ecx, fma | popcnt | osxsave | avx | f16c) && bm_all(bm_ask(7).ebx, bmi1 | avx2 | bmi2) &&
           bm_all(bm_saved_registers(), xmm_ymm);
}

/* AVX-512 as servers have had it since 2017 (F, DQ, CD, BW, VL), and AVX2 as above. */
static int bm_has_avx512(void)
{
    const uint32_t f = 1u << 16, dq = 1u << 17, cd = 1u << 28, bw = 1u << 30, vl = 1u << 31;
    const uint64_t opmask_zmm = 0xe0;
    return bm_has_avx2() && bm_all(bm_ask(7).ebx, f | dq | cd | bw | vl) && bm_all(bm_saved_registers(), opmask_zmm);
}

/* AVX-512 that also multiplies bytes (VNNI) and counts bits (VPOPCNTDQ). */
static int bm_has_avx512_bits_and_bytes(void)
{
    const uint32_t vnni = 1u << 11, vpopcntdq = 1u << 14;
    return bm_has_avx512() && bm_all(bm_ask(7).ecx, vnni | vpopcntdq);
}

#endif
#endif
