/* Random signs and the fast Hadamard transform.
 *
 * Stage h of the transform replaces every two numbers that lie h apart by their sum and their difference, for
 * h = 1, 2, 4, ... All targets do the same additions in the same order of stages, so they give the same floats. What
 * differs is how many stages are done between loading and storing a number: the stages inside a vector, then those over
 * RADIX vectors at once.
 */

#if BM_VECTOR_BYTES == 64
enum { RADIX_BITS = 4 }; /* 32 registers hold 16 vectors at once, */
#else
enum { RADIX_BITS = 3 }; /* 16 registers hold 8. */
#endif
enum { RADIX = 1 << RADIX_BITS };

/* The stages inside a vector: each adds a vector, with some signs changed, to itself with its lanes exchanged. */
#if BM_VECTOR_BYTES == 64
ALWAYS_INLINE v_f32 stages_in_vector(v_f32 x) {
    const v_f32 s1 = {1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1, 1, -1};
    const v_f32 s2 = {1, 1, -1, -1, 1, 1, -1, -1, 1, 1, -1, -1, 1, 1, -1, -1};
    const v_f32 s4 = {1, 1, 1, 1, -1, -1, -1, -1, 1, 1, 1, 1, -1, -1, -1, -1};
    const v_f32 s8 = {1, 1, 1, 1, 1, 1, 1, 1, -1, -1, -1, -1, -1, -1, -1, -1};
    x = x * s1 + (v_f32)_mm512_permute_ps(x, 0xB1);
    x = x * s2 + (v_f32)_mm512_permute_ps(x, 0x4E);
    x = x * s4 + (v_f32)_mm512_shuffle_f32x4(x, x, 0xB1);
    return x * s8 + (v_f32)_mm512_shuffle_f32x4(x, x, 0x4E);
}
#elif BM_VECTOR_BYTES == 32
ALWAYS_INLINE v_f32 stages_in_vector(v_f32 x) {
    const v_f32 s1 = {1, -1, 1, -1, 1, -1, 1, -1};
    const v_f32 s2 = {1, 1, -1, -1, 1, 1, -1, -1};
    const v_f32 s4 = {1, 1, 1, 1, -1, -1, -1, -1};
    x = x * s1 + (v_f32)_mm256_permute_ps(x, 0xB1);
    x = x * s2 + (v_f32)_mm256_permute_ps(x, 0x4E);
    return x * s4 + (v_f32)_mm256_permute2f128_ps(x, x, 1);
}
#elif BM_VECTOR_BYTES == 16
ALWAYS_INLINE v_f32 stages_in_vector(v_f32 x) {
    const v_f32 s1 = {1, -1, 1, -1}, s2 = {1, 1, -1, -1};
#if BM_NEON
    x = x * s1 + (v_f32)vrev64q_f32((float32x4_t)x);
    return x * s2 + (v_f32)vextq_f32((float32x4_t)x, (float32x4_t)x, 2);
#else
    x = x * s1 + (v_f32)_mm_shuffle_ps(x, x, 0xB1);
    return x * s2 + (v_f32)_mm_shuffle_ps(x, x, 0x4E);
#endif
}
#else
ALWAYS_INLINE v_f32 stages_in_vector(v_f32 x) { return x; }
#endif

#define SUM_AND_DIFFERENCE(i, j)        \
    do {                                \
        const v_f32 sum = v[i] + v[j];  \
        v[j] = v[i] - v[j];             \
        v[i] = sum;                     \
    } while (0)

ALWAYS_INLINE void stages_over_2(v_f32 *v) { SUM_AND_DIFFERENCE(0, 1); }
ALWAYS_INLINE void stages_over_4(v_f32 *v) {
    stages_over_2(v);
    stages_over_2(v + 2);
    SUM_AND_DIFFERENCE(0, 2);
    SUM_AND_DIFFERENCE(1, 3);
}
ALWAYS_INLINE void stages_over_8(v_f32 *v) {
    stages_over_4(v);
    stages_over_4(v + 4);
    SUM_AND_DIFFERENCE(0, 4);
    SUM_AND_DIFFERENCE(1, 5);
    SUM_AND_DIFFERENCE(2, 6);
    SUM_AND_DIFFERENCE(3, 7);
}
ALWAYS_INLINE void stages_over_16(v_f32 *v) {
    stages_over_8(v);
    stages_over_8(v + 8);
    SUM_AND_DIFFERENCE(0, 8);
    SUM_AND_DIFFERENCE(1, 9);
    SUM_AND_DIFFERENCE(2, 10);
    SUM_AND_DIFFERENCE(3, 11);
    SUM_AND_DIFFERENCE(4, 12);
    SUM_AND_DIFFERENCE(5, 13);
    SUM_AND_DIFFERENCE(6, 14);
    SUM_AND_DIFFERENCE(7, 15);
}
#undef SUM_AND_DIFFERENCE

/* The stages h, 2h, ... over `radix` vectors, which is a constant wherever this is called. */
ALWAYS_INLINE void stages_over(v_f32 *v, int radix) {
    if (radix == 2) stages_over_2(v);
    if (radix == 4) stages_over_4(v);
    if (radix == 8) stages_over_8(v);
    if (radix == 16) stages_over_16(v);
}

/* All stages of `radix` vectors that lie together */
ALWAYS_INLINE void first_stages(float *x, int64_t n, int radix) {
    v_f32 v[RADIX];
    for (int64_t j = 0; j < n; j += radix * LANES_f32) {
        for (int r = 0; r < radix; r++) v[r] = stages_in_vector(load_f32(x + j + r * LANES_f32));
        stages_over(v, radix);
        for (int r = 0; r < radix; r++) store_f32(x + j + r * LANES_f32, v[r]);
    }
}

/* The stages h, 2h, ..., radix/2 * h */
ALWAYS_INLINE void later_stages(float *x, int64_t n, int64_t h, int radix) {
    v_f32 v[RADIX];
    for (int64_t group = 0; group < n; group += radix * h)
        for (int64_t j = group; j < group + h; j += LANES_f32) {
            for (int r = 0; r < radix; r++) v[r] = load_f32(x + j + r * h);
            stages_over(v, radix);
            for (int r = 0; r < radix; r++) store_f32(x + j + r * h, v[r]);
        }
}

static void later_stages_by_bits(float *x, int64_t n, int64_t h, int bits) {
    if (bits == 1) later_stages(x, n, h, 2);
    if (bits == 2) later_stages(x, n, h, 4);
    if (bits == 3) later_stages(x, n, h, 8);
#if BM_VECTOR_BYTES == 64
    if (bits == 4) later_stages(x, n, h, 16);
#endif
}

/* Up to NEAR numbers lie in the first cache. Numbers farther apart compete for the same few places of it, so that fewer
 * of them than registers allow are handled at once. */
enum { NEAR_BITS = 12, FAR_RADIX_BITS = 3, NEAR = 1 << NEAR_BITS };

/* How many of the `left` last stages to do in one pass, so that none has more than `most` and all about as many */
static int stages_of_a_pass(int left, int most) {
    const int passes = (left + most - 1) / most;
    return (left + passes - 1) / passes;
}

/* Transforms parts one after the other and then goes over the whole, so that parts stay in the cache that they fit. */
static void transform(float *x, int bits) {
    const int64_t n = (int64_t)1 << bits;
    const int64_t first = RADIX * LANES_f32;
    if (n < LANES_f32) {
        for (int64_t h = 1; h < n; h *= 2)
            for (int64_t group = 0; group < n; group += 2 * h)
                for (int64_t j = group; j < group + h; j++) {
                    const float a = x[j], b = x[j + h];
                    x[j] = a + b;
                    x[j + h] = a - b;
                }
    } else if (n < first) {
        first_stages(x, n, 1);
        for (int64_t h = LANES_f32; h < n; h *= 2) later_stages_by_bits(x, n, h, 1);
    } else if (n == first) {
        first_stages(x, n, RADIX);
    } else {
        int left = 0;
        while (n >> left > (n > NEAR ? NEAR : first)) left++;
        const int later = stages_of_a_pass(left, n > NEAR ? FAR_RADIX_BITS : RADIX_BITS);
        const int64_t part = n >> later;
        for (int64_t start = 0; start < n; start += part) transform(x + start, bits - later);
        later_stages_by_bits(x, n, part, later);
    }
}

static void hadamard(float *x, int64_t n) {
    int bits = 0;
    while ((int64_t)1 << bits < n) bits++;
    transform(x, bits);
}

/* x with the signs of those lanes changed whose bit is 1 */
ALWAYS_INLINE v_f32 flip(v_f32 x, uint32_t bits) {
#if BM_VECTOR_BYTES == 64
    return (v_f32)_mm512_mask_xor_epi32((__m512i)x, (__mmask16)bits, (__m512i)x, _mm512_set1_epi32(INT32_MIN));
#elif BM_VECTOR_BYTES
    v_i32 lane_bit;
    for (int i = 0; i < LANES_f32; i++) lane_bit[i] = 1 << i;
    const v_i32 set = equal_i32(((v_i32){0} + (int32_t)bits) & lane_bit, lane_bit);
    return (v_f32)((v_i32)x ^ (set & INT32_MIN));
#else
    return bits & 1 ? -x : x;
#endif
}

static void flip_signs(float *x, const uint32_t *sign_words, int64_t n, float scale) {
    int64_t j = 0;
    for (; n - j >= 32; j += 32) {
        const uint32_t word = sign_words[j / 32];
        for (int i = 0; i < 32; i += LANES_f32) store_f32(x + j + i, flip(load_f32(x + j + i) * scale, word >> i));
    }
    for (; j < n; j++) x[j] *= sign_words[j / 32] >> (j % 32) & 1 ? -scale : scale;
}

static void exchange_halves(float *x, int64_t n) {
    const int64_t half = n / 2;
    const float scale = 0.70710678f;
    int64_t j = 0;
    for (; half - j >= LANES_f32; j += LANES_f32) {
        const v_f32 a = load_f32(x + j), b = load_f32(x + j + half);
        store_f32(x + j, (a + b) * scale);
        store_f32(x + j + half, (a - b) * scale);
    }
    for (; j < half; j++) {
        const float a = x[j], b = x[j + half];
        x[j] = (a + b) * scale;
        x[j + half] = (a - b) * scale;
    }
}
