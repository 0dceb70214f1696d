/* Random signs and the fast Hadamard transform.
 *
 * Stage h of the transform replaces every two numbers that lie h apart by their sum and their difference, for
 * h = 1, 2, 4, ... All targets do the same additions in the same order of stages, so they give the same floats. What
 * differs is how many stages are done between loading and storing a number: the stages inside a vector, then those over
 * RADIX vectors at once. What comes after a transform, its scale and the signs of the next one, is done before the last
 * storing.
 */

#if BM_VECTOR_BYTES == 64
enum { RADIX_BITS = 4 }; /* 32 registers hold 16 vectors at once, */
#else
enum { RADIX_BITS = 3 }; /* 16 registers hold 8. */
#endif
enum { RADIX = 1 << RADIX_BITS, LANE_BITS = (LANES_f32 > 1) + (LANES_f32 > 2) + (LANES_f32 > 4) + (LANES_f32 > 8) };

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

/* Differences are computed as v[i] - 1 * v[j] where that is one operation and the compiler does not know that it is 1: other
 * parts of a processor than those that add can do it at the same time. The float is the same. */
#if BM_VECTOR_BYTES > 16
#define DIFFERENCE(i, j) (v[i] - v[j] * one)
ALWAYS_INLINE v_f32 hidden_one(void) {
    v_f32 one = broadcast_f32(1);
    __asm__("" : "+x"(one));
    return one;
}
#else
#define DIFFERENCE(i, j) ((void)one, v[i] - v[j])
ALWAYS_INLINE v_f32 hidden_one(void) { return broadcast_f32(1); }
#endif
#define SUM_AND_DIFFERENCE(i, j)        \
    do {                                \
        const v_f32 sum = v[i] + v[j];  \
        v[j] = DIFFERENCE(i, j);        \
        v[i] = sum;                     \
    } while (0)

ALWAYS_INLINE void stages_over_2(v_f32 *v, v_f32 one) { SUM_AND_DIFFERENCE(0, 1); }
ALWAYS_INLINE void stages_over_4(v_f32 *v, v_f32 one) {
    stages_over_2(v, one);
    stages_over_2(v + 2, one);
    SUM_AND_DIFFERENCE(0, 2);
    SUM_AND_DIFFERENCE(1, 3);
}
ALWAYS_INLINE void stages_over_8(v_f32 *v, v_f32 one) {
    stages_over_4(v, one);
    stages_over_4(v + 4, one);
    SUM_AND_DIFFERENCE(0, 4);
    SUM_AND_DIFFERENCE(1, 5);
    SUM_AND_DIFFERENCE(2, 6);
    SUM_AND_DIFFERENCE(3, 7);
}
ALWAYS_INLINE void stages_over_16(v_f32 *v, v_f32 one) {
    stages_over_8(v, one);
    stages_over_8(v + 8, one);
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
#undef DIFFERENCE

/* The stages h, 2h, ... over `radix` vectors, which is a constant wherever this is called. */
ALWAYS_INLINE void stages_over(v_f32 *v, int radix) {
    const v_f32 one = hidden_one();
    if (radix == 2) stages_over_2(v, one);
    if (radix == 4) stages_over_4(v, one);
    if (radix == 8) stages_over_8(v, one);
    if (radix == 16) stages_over_16(v, one);
}

/* What comes after the last stage: a scale, and the signs of some are changed */
struct ending {
    float scale;
    const uint32_t *signs;
};
enum ends { NOT_YET, SCALED, SCALED_AND_FLIPPED };

/* A vector that goes to x[j]; `ends` is a constant wherever this is called. */
ALWAYS_INLINE void put(float *x, int64_t j, v_f32 v, v_i32 lanes, enum ends ends, struct ending ending) {
    if (ends != NOT_YET) v = v * ending.scale;
    if (ends == SCALED_AND_FLIPPED) v = flip(v, ending.signs[(uint64_t)j / 32], lanes);
    store_f32(x + j, v);
}

/* All stages of `radix` vectors that lie together */
ALWAYS_INLINE void first_stages(float *x, int64_t n, int radix, enum ends ends, struct ending ending) {
    v_f32 v[RADIX];
    for (int64_t j = 0; j < n; j += radix * LANES_f32) {
        for (int r = 0; r < radix; r++) v[r] = stages_in_vector(load_f32(x + j + r * LANES_f32));
        stages_over(v, radix);
        for (int r = 0; r < radix; r++) {
            const int64_t place = j + r * LANES_f32;
            put(x, place, v[r], lanes_at(place), ends, ending);
        }
    }
}

/* The stages h, 2h, ..., radix/2 * h */
ALWAYS_INLINE void later_stages(float *x, int64_t n, int64_t h, int radix, enum ends ends, struct ending ending) {
    v_f32 v[RADIX];
    for (int64_t group = 0; group < n; group += radix * h)
        for (int64_t j = group; j < group + h; j += LANES_f32) {
            const v_i32 lanes = lanes_at(j); /* of all, where h is a multiple of 32: wherever there are vectors */
            for (int r = 0; r < radix; r++) v[r] = load_f32(x + j + r * h);
            stages_over(v, radix);
            for (int r = 0; r < radix; r++)
                put(x, j + r * h, v[r], LANES_f32 > 1 ? lanes : lanes_at(j + r * h), ends, ending);
        }
}

/* `call` for 2^bits vectors and with an ending or none, all of it as constants */
#define FOR_CONSTANT_RADIX(bits, ends, call)              \
    if (bits == 0) call(1, ends);                         \
    if (bits == 1) call(2, ends);                         \
    if (bits == 2) call(4, ends);                         \
    if (bits == 3) call(8, ends);                         \
    if (RADIX == 16 && bits == 4) call(16, ends);
#define FOR_CONSTANTS(bits, ends, call)                   \
    if (ends == NOT_YET) {                                \
        FOR_CONSTANT_RADIX(bits, NOT_YET, call)           \
    } else if (ends == SCALED) {                          \
        FOR_CONSTANT_RADIX(bits, SCALED, call)            \
    } else {                                              \
        FOR_CONSTANT_RADIX(bits, SCALED_AND_FLIPPED, call) \
    }

static void first_stages_by_bits(float *x, int64_t n, int bits, enum ends ends, struct ending ending) {
#define CALL(radix, ends) first_stages(x, n, radix, ends, ending)
    FOR_CONSTANTS(bits, ends, CALL)
#undef CALL
}

static void later_stages_by_bits(float *x, int64_t n, int64_t h, int bits, enum ends ends, struct ending ending) {
#define CALL(radix, ends) later_stages(x, n, h, radix, ends, ending)
    FOR_CONSTANTS(bits, ends, CALL)
#undef CALL
}
#undef FOR_CONSTANTS
#undef FOR_CONSTANT_RADIX

/* Up to NEAR numbers lie in the first cache. Numbers farther apart compete for the same few places of it, so that fewer
 * of them than registers allow are handled at once. */
enum { NEAR_BITS = 12, FAR_RADIX_BITS = 3, NEAR = 1 << NEAR_BITS };

/* How many of the `left` last stages to do in one pass, so that none has more than `most` and all about as many */
static int stages_of_a_pass(int left, int most) {
    const int passes = (left + most - 1) / most;
    return (left + passes - 1) / passes;
}

/* Transforms parts one after the other and then goes over the whole, so that parts stay in the cache that they fit. */
static void transform(float *x, int bits, enum ends ends, struct ending ending) {
    const int64_t n = (int64_t)1 << bits;
    const int64_t first = RADIX * LANES_f32;
    if (n <= first) {
        first_stages_by_bits(x, n, bits - LANE_BITS, ends, ending);
    } else {
        int left = 0;
        while (n >> left > (n > NEAR ? NEAR : first)) left++;
        const int later = stages_of_a_pass(left, n > NEAR ? FAR_RADIX_BITS : RADIX_BITS);
        const int64_t part = n >> later;
        for (int64_t start = 0; start < n; start += part) transform(x + start, bits - later, NOT_YET, ending);
        later_stages_by_bits(x, n, part, later, ends, ending);
    }
}

/* Fewer numbers than a vector has */
static void transform_few(float *x, int64_t n, struct ending ending) {
    for (int64_t h = 1; h < n; h *= 2)
        for (int64_t group = 0; group < n; group += 2 * h)
            for (int64_t j = group; j < group + h; j++) {
                const float a = x[j], b = x[j + h];
                x[j] = a + b;
                x[j + h] = a - b;
            }
    for (int64_t j = 0; j < n; j++)
        x[j] *= ending.signs && ending.signs[0] >> j & 1 ? -ending.scale : ending.scale;
}

static void hadamard(float *x, int64_t n, float scale, const uint32_t *sign_words) {
    const struct ending ending = {scale, sign_words};
    int bits = 0;
    while ((int64_t)1 << bits < n) bits++;
    if (n < LANES_f32)
        transform_few(x, n, ending);
    else
        transform(x, bits, sign_words ? SCALED_AND_FLIPPED : SCALED, ending);
}

static void flip_signs(float *x, const uint32_t *sign_words, int64_t n) {
    int64_t j = 0;
    for (; n - j >= LANES_f32; j += LANES_f32) 
        store_f32(x + j, flip(load_f32(x + j), sign_words[(uint64_t)j / 32], lanes_at(j)));
    for (; j < n; j++)
        if (sign_words[j / 32] >> (j % 32) & 1) x[j] = -x[j];
}

ALWAYS_INLINE void exchange(float *x, int64_t half, enum ends ends, struct ending ending) {
    int64_t j = 0;
    for (; half - j >= LANES_f32; j += LANES_f32) {
        const v_f32 a = load_f32(x + j), b = load_f32(x + j + half);
        put(x, j, a + b, lanes_at(j), ends, ending);
        put(x, j + half, a - b, lanes_at(j + half), ends, ending);
    }
    for (; j < half; j++) { /* nowhere where signs are changed */
        const float a = x[j], b = x[j + half];
        x[j] = (a + b) * ending.scale;
        x[j + half] = (a - b) * ending.scale;
    }
}

static void exchange_halves(float *x, int64_t n, const uint32_t *sign_words) {
    const struct ending ending = {0.70710678f, sign_words};
    if (sign_words)
        exchange(x, n / 2, SCALED_AND_FLIPPED, ending);
    else
        exchange(x, n / 2, SCALED, ending);
}
