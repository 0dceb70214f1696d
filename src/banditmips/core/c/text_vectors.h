/* Vectors of the target: types, and what +, -, * and & do not say.
 *
 * `part` loads read `count` numbers, fewer than a vector, and put zeros behind them.
 * Where BM_VECTOR_BYTES is 0 a vector is one number, and the text that uses it does not change.
 */

#if BM_VECTOR_BYTES

enum { LANES_f32 = BM_VECTOR_BYTES / 4, LANES_f64 = BM_VECTOR_BYTES / 8, LANES_u64 = BM_VECTOR_BYTES / 8 };
typedef float v_f32 __attribute__((vector_size(BM_VECTOR_BYTES)));
typedef double v_f64 __attribute__((vector_size(BM_VECTOR_BYTES)));
typedef int32_t v_i32 __attribute__((vector_size(BM_VECTOR_BYTES)));
typedef int64_t v_i64 __attribute__((vector_size(BM_VECTOR_BYTES)));
typedef uint64_t v_u64 __attribute__((vector_size(BM_VECTOR_BYTES)));
typedef float half_f32 __attribute__((vector_size(BM_VECTOR_BYTES / 2))); /* as many numbers as v_f64 */

ALWAYS_INLINE v_f32 abs_f32(v_f32 x) { return (v_f32)((v_i32)x & INT32_MAX); }
ALWAYS_INLINE v_f64 abs_f64(v_f64 x) { return (v_f64)((v_i64)x & INT64_MAX); }
ALWAYS_INLINE v_f32 broadcast_f32(float x) { return (v_f32){0} + x; }

/* -1 in the lanes where it is so, else 0 */
ALWAYS_INLINE v_i32 less_f32(v_f32 a, v_f32 b) { return a < b; }
ALWAYS_INLINE v_i32 equal_i32(v_i32 a, v_i32 b) { return a == b; }

/* y in the lanes where x < 0, else 0 */
ALWAYS_INLINE v_f32 where_negative(v_f32 x, float y) {
    return (v_f32)((v_i32)broadcast_f32(y) & less_f32(x, (v_f32){0}));
}

/* 1 in the lanes where x is not 0, else 0 */
ALWAYS_INLINE v_f32 nonzero_f32(v_f32 x) { return (v_f32)((v_i32)broadcast_f32(1) & (x != 0)); }
ALWAYS_INLINE v_f64 nonzero_f64(v_f64 x) { return (v_f64)((v_i64)((v_f64){0} + 1) & (x != 0)); }

ALWAYS_INLINE v_i32 truncate_f32(v_f32 x) { return __builtin_convertvector(x, v_i32); }
ALWAYS_INLINE v_f32 float_i32(v_i32 x) { return __builtin_convertvector(x, v_f32); }

/* GCC converts one half after the other and puts them together, which takes twice as long. */
#if BM_VECTOR_BYTES == 64
ALWAYS_INLINE v_f64 wide_f32(half_f32 half) { return (v_f64)_mm512_cvtps_pd((__m256)half); }
#elif BM_X86 && BM_VECTOR_BYTES == 32
ALWAYS_INLINE v_f64 wide_f32(half_f32 half) { return (v_f64)_mm256_cvtps_pd((__m128)half); }
#else
ALWAYS_INLINE v_f64 wide_f32(half_f32 half) { return __builtin_convertvector(half, v_f64); }
#endif

/* The sum of both halves in double */
ALWAYS_INLINE v_f64 widen_f32(v_f32 x) {
    half_f32 halves[2];
    memcpy(halves, &x, sizeof x);
    return wide_f32(halves[0]) + wide_f32(halves[1]);
}
ALWAYS_INLINE v_f64 load_wide_f32(const float *p) {
    half_f32 half;
    memcpy(&half, p, sizeof half);
    return wide_f32(half);
}
ALWAYS_INLINE void store_narrow(float *p, v_f64 x) {
    const half_f32 half = __builtin_convertvector(x, half_f32);
    memcpy(p, &half, sizeof half);
}

#else

enum { LANES_f32 = 1, LANES_f64 = 1, LANES_u64 = 1 };
typedef float v_f32;
typedef double v_f64;
typedef int32_t v_i32;
typedef uint64_t v_u64;

ALWAYS_INLINE v_f32 abs_f32(v_f32 x) { return fabsf(x); }
ALWAYS_INLINE v_f64 abs_f64(v_f64 x) { return fabs(x); }
ALWAYS_INLINE v_f32 broadcast_f32(float x) { return x; }
ALWAYS_INLINE v_i32 less_f32(v_f32 a, v_f32 b) { return -(a < b); }
ALWAYS_INLINE v_i32 equal_i32(v_i32 a, v_i32 b) { return -(a == b); }
ALWAYS_INLINE v_f32 where_negative(v_f32 x, float y) { return x < 0 ? y : 0; }
ALWAYS_INLINE v_f32 nonzero_f32(v_f32 x) { return x != 0; }
ALWAYS_INLINE v_f64 nonzero_f64(v_f64 x) { return x != 0; }
ALWAYS_INLINE v_i32 truncate_f32(v_f32 x) { return (int32_t)x; }
ALWAYS_INLINE v_f32 float_i32(v_i32 x) { return (float)x; }
ALWAYS_INLINE v_f64 widen_f32(v_f32 x) { return x; }
ALWAYS_INLINE v_f64 load_wide_f32(const float *p) {
    LOAD_UNALIGNED(float, x, p);
    return x;
}
ALWAYS_INLINE void store_narrow(float *p, v_f64 x) { *p = (float)x; }

#endif

ALWAYS_INLINE v_f32 load_f32(const float *p) {
    LOAD_UNALIGNED(v_f32, x, p);
    return x;
}
ALWAYS_INLINE v_f64 load_f64(const double *p) {
    LOAD_UNALIGNED(v_f64, x, p);
    return x;
}
ALWAYS_INLINE v_u64 load_u64(const uint64_t *p) {
    LOAD_UNALIGNED(v_u64, x, p);
    return x;
}
ALWAYS_INLINE void store_f32(float *p, v_f32 x) { memcpy(p, &x, sizeof x); }
ALWAYS_INLINE void store_f64(double *p, v_f64 x) { memcpy(p, &x, sizeof x); }
ALWAYS_INLINE void store_i32(int32_t *p, v_i32 x) { memcpy(p, &x, sizeof x); }
ALWAYS_INLINE v_f64 load_wide_f64(const double *p) { return load_f64(p); }
ALWAYS_INLINE v_f64 widen_f64(v_f64 x) { return x; }

/* What a coordinate adds to a sum; the objective (enum bm_objective) is a constant wherever this is called */
ALWAYS_INLINE v_f32 terms_f32(int objective, v_f32 x, v_f32 y) {
    return objective == BM_SQUARES ? (x - y) * (x - y) : objective == BM_SIZES ? abs_f32(x - y) : x * y;
}
ALWAYS_INLINE v_f64 terms_f64(int objective, v_f64 x, v_f64 y) {
    return objective == BM_SQUARES ? (x - y) * (x - y) : objective == BM_SIZES ? abs_f64(x - y) : x * y;
}

ALWAYS_INLINE int64_t sum_i32(v_i32 x) {
    int32_t lanes[LANES_f32];
    int64_t sum = 0;
    memcpy(lanes, &x, sizeof x);
    for (int i = 0; i < LANES_f32; i++) sum += lanes[i];
    return sum;
}
ALWAYS_INLINE double sum_f64(v_f64 x) {
    double lanes[LANES_f64], sum = 0;
    memcpy(lanes, &x, sizeof x);
    for (int i = 0; i < LANES_f64; i++) sum += lanes[i];
    return sum;
}
/* The same in an order that no compiler changes: halves, and halves of these */
ALWAYS_INLINE double sum_in_order(v_f64 x) {
    double lanes[LANES_f64];
    store_f64(lanes, x);
    for (int half = LANES_f64 / 2; half > 0; half /= 2) {
        KEEP_IN_MEMORY(lanes);
        for (int i = 0; i < half; i++) lanes[i] += lanes[half + i];
    }
    return lanes[0];
}

/* max and min give b where a is a NaN; floor is for numbers that fit an int32. count_u64 gives the number of ones of
 * each word, or of each byte where that is what the target can do (at most 8 each): COUNTS_UNTIL_FLUSH of them may be
 * added before flush_u64 adds up the bytes of each word. */
#if BM_VECTOR_BYTES == 64

ALWAYS_INLINE v_f32 max_f32(v_f32 a, v_f32 b) { return _mm512_max_ps(a, b); }
ALWAYS_INLINE v_f64 max_f64(v_f64 a, v_f64 b) { return _mm512_max_pd(a, b); }
ALWAYS_INLINE v_f32 min_f32(v_f32 a, v_f32 b) { return _mm512_min_ps(a, b); }
ALWAYS_INLINE v_f64 min_f64(v_f64 a, v_f64 b) { return _mm512_min_pd(a, b); }
ALWAYS_INLINE float sum_f32(v_f32 x) { return _mm512_reduce_add_ps(x); }
ALWAYS_INLINE v_f32 floor_f32(v_f32 x) { return _mm512_floor_ps(x); }
ALWAYS_INLINE v_f32 load_part_f32(const float *p, int64_t count) {
    return _mm512_maskz_loadu_ps((__mmask16)((1u << count) - 1), p);
}
ALWAYS_INLINE v_f64 load_part_f64(const double *p, int64_t count) {
    return _mm512_maskz_loadu_pd((__mmask8)((1u << count) - 1), p);
}
ALWAYS_INLINE v_f64 load_part_wide_f32(const float *p, int64_t count) {
    return _mm512_cvtps_pd(_mm256_maskz_loadu_ps((__mmask8)((1u << count) - 1), p));
}
ALWAYS_INLINE v_u64 load_part_u64(const uint64_t *p, int64_t count) {
    return (v_u64)_mm512_maskz_loadu_epi64((__mmask8)((1u << count) - 1), p);
}
ALWAYS_INLINE v_f32 load_bytes_f32(const uint8_t *p) {
    return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)p)));
}
enum { COUNTS_UNTIL_FLUSH = 1 << 20 };
ALWAYS_INLINE v_u64 count_u64(v_u64 x) { return (v_u64)_mm512_popcnt_epi64((__m512i)x); }
ALWAYS_INLINE v_u64 flush_u64(v_u64 counts) { return counts; }
ALWAYS_INLINE int64_t sum_u64(v_u64 x) { return _mm512_reduce_add_epi64((__m512i)x); }

#elif BM_VECTOR_BYTES == 32

ALWAYS_INLINE v_f32 max_f32(v_f32 a, v_f32 b) { return _mm256_max_ps(a, b); }
ALWAYS_INLINE v_f64 max_f64(v_f64 a, v_f64 b) { return _mm256_max_pd(a, b); }
ALWAYS_INLINE v_f32 min_f32(v_f32 a, v_f32 b) { return _mm256_min_ps(a, b); }
ALWAYS_INLINE v_f64 min_f64(v_f64 a, v_f64 b) { return _mm256_min_pd(a, b); }
ALWAYS_INLINE float sum_f32(v_f32 x) {
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}
ALWAYS_INLINE v_f32 floor_f32(v_f32 x) { return _mm256_floor_ps(x); }
ALWAYS_INLINE v_f32 load_part_f32(const float *p, int64_t count) {
    const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return _mm256_maskload_ps(p, _mm256_cmpgt_epi32(_mm256_set1_epi32((int)count), lane));
}
ALWAYS_INLINE v_f64 load_part_f64(const double *p, int64_t count) {
    return _mm256_maskload_pd(p, _mm256_cmpgt_epi64(_mm256_set1_epi64x(count), _mm256_setr_epi64x(0, 1, 2, 3)));
}
ALWAYS_INLINE v_u64 load_part_u64(const uint64_t *p, int64_t count) {
    return (v_u64)load_part_f64((const double *)p, count);
}
ALWAYS_INLINE v_f32 load_bytes_f32(const uint8_t *p) {
    return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)p)));
}
enum { COUNTS_UNTIL_FLUSH = 31 };
ALWAYS_INLINE v_u64 count_u64(v_u64 x) { /* a table of the 16 halves of a byte */
    const __m256i ones = _mm256_setr_epi8(0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4,
                                          0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4);
    const __m256i low = _mm256_set1_epi8(15);
    const __m256i lower = _mm256_and_si256((__m256i)x, low);
    const __m256i upper = _mm256_and_si256(_mm256_srli_epi16((__m256i)x, 4), low);
    return (v_u64)_mm256_add_epi8(_mm256_shuffle_epi8(ones, lower), _mm256_shuffle_epi8(ones, upper));
}
ALWAYS_INLINE v_u64 flush_u64(v_u64 counts) {
    return (v_u64)_mm256_sad_epu8((__m256i)counts, _mm256_setzero_si256());
}
ALWAYS_INLINE int64_t sum_u64(v_u64 x) {
    const __m128i halves = _mm_add_epi64(_mm256_castsi256_si128((__m256i)x), _mm256_extracti128_si256((__m256i)x, 1));
    return _mm_cvtsi128_si64(halves) + _mm_extract_epi64(halves, 1);
}

#else /* 16 or 0 */

ALWAYS_INLINE float sum_f32(v_f32 x) {
    float lanes[LANES_f32], sum = 0;
    memcpy(lanes, &x, sizeof x);
    for (int i = 0; i < LANES_f32; i++) sum += lanes[i];
    return sum;
}
ALWAYS_INLINE v_f32 floor_f32(v_f32 x) {
    const v_f32 towards_zero = float_i32(truncate_f32(x));
    return towards_zero + float_i32(less_f32(x, towards_zero));
}
ALWAYS_INLINE v_f32 load_part_f32(const float *p, int64_t count) {
    float lanes[LANES_f32] = {0};
    for (int64_t i = 0; i < count; i++) memcpy(lanes + i, p + i, sizeof *p);
    return load_f32(lanes);
}
ALWAYS_INLINE v_f64 load_part_f64(const double *p, int64_t count) {
    double lanes[LANES_f64] = {0};
    for (int64_t i = 0; i < count; i++) memcpy(lanes + i, p + i, sizeof *p);
    return load_f64(lanes);
}
ALWAYS_INLINE v_u64 load_part_u64(const uint64_t *p, int64_t count) {
    uint64_t lanes[LANES_u64] = {0};
    for (int64_t i = 0; i < count; i++) memcpy(lanes + i, p + i, sizeof *p);
    return load_u64(lanes);
}
ALWAYS_INLINE v_f32 load_bytes_f32(const uint8_t *p) {
    float lanes[LANES_f32];
    for (int i = 0; i < LANES_f32; i++) lanes[i] = p[i];
    return load_f32(lanes);
}
enum { COUNTS_UNTIL_FLUSH = 31 };
ALWAYS_INLINE int64_t sum_u64(v_u64 x) {
    uint64_t lanes[LANES_u64], sum = 0;
    memcpy(lanes, &x, sizeof x);
    for (int i = 0; i < LANES_u64; i++) sum += lanes[i];
    return (int64_t)sum;
}

#if BM_NEON
ALWAYS_INLINE v_f32 max_f32(v_f32 a, v_f32 b) { return (v_f32)vmaxnmq_f32((float32x4_t)a, (float32x4_t)b); }
ALWAYS_INLINE v_f64 max_f64(v_f64 a, v_f64 b) { return (v_f64)vmaxnmq_f64((float64x2_t)a, (float64x2_t)b); }
ALWAYS_INLINE v_f32 min_f32(v_f32 a, v_f32 b) { return (v_f32)vminnmq_f32((float32x4_t)a, (float32x4_t)b); }
ALWAYS_INLINE v_f64 min_f64(v_f64 a, v_f64 b) { return (v_f64)vminnmq_f64((float64x2_t)a, (float64x2_t)b); }
ALWAYS_INLINE v_u64 count_u64(v_u64 x) { return (v_u64)vcntq_u8((uint8x16_t)x); }
ALWAYS_INLINE v_u64 flush_u64(v_u64 counts) {
    return (v_u64)vpaddlq_u32(vpaddlq_u16(vpaddlq_u8((uint8x16_t)counts)));
}
#else
ALWAYS_INLINE v_u64 count_u64(v_u64 x) { /* pairs of bits, then fours, then bytes */
    x -= (x >> 1) & 0x5555555555555555u;
    x = (x & 0x3333333333333333u) + ((x >> 2) & 0x3333333333333333u);
    return (x + (x >> 4)) & 0x0f0f0f0f0f0f0f0fu;
}
#if BM_VECTOR_BYTES
ALWAYS_INLINE v_f32 max_f32(v_f32 a, v_f32 b) { return _mm_max_ps(a, b); }
ALWAYS_INLINE v_f64 max_f64(v_f64 a, v_f64 b) { return _mm_max_pd(a, b); }
ALWAYS_INLINE v_f32 min_f32(v_f32 a, v_f32 b) { return _mm_min_ps(a, b); }
ALWAYS_INLINE v_f64 min_f64(v_f64 a, v_f64 b) { return _mm_min_pd(a, b); }
ALWAYS_INLINE v_u64 flush_u64(v_u64 counts) { return (v_u64)_mm_sad_epu8((__m128i)counts, _mm_setzero_si128()); }
#else
ALWAYS_INLINE v_f32 max_f32(v_f32 a, v_f32 b) { return a > b ? a : b; }
ALWAYS_INLINE v_f64 max_f64(v_f64 a, v_f64 b) { return a > b ? a : b; }
ALWAYS_INLINE v_f32 min_f32(v_f32 a, v_f32 b) { return a < b ? a : b; }
ALWAYS_INLINE v_f64 min_f64(v_f64 a, v_f64 b) { return a < b ? a : b; }
ALWAYS_INLINE v_u64 flush_u64(v_u64 counts) {
    const uint64_t pairs = (counts & 0x00ff00ff00ff00ffu) + ((counts >> 8) & 0x00ff00ff00ff00ffu);
    return (pairs * 0x0001000100010001u) >> 48;
}
#endif
#endif

#endif

/* flip(x, word, lanes_at(j)) is a vector from place j of many, a multiple of its lanes, with the signs changed of those
 * numbers whose bit is 1: that of number j is bit j % 32 of `word`, and so on. */
#if BM_VECTOR_BYTES == 64
ALWAYS_INLINE v_i32 lanes_at(int64_t j) { /* how far each bit is from the top */
    const v_i32 from_31 = {31, 30, 29, 28, 27, 26, 25, 24, 23, 22, 21, 20, 19, 18, 17, 16};
    return from_31 - (int32_t)(j & 31);
}
ALWAYS_INLINE v_f32 flip(v_f32 x, uint32_t word, v_i32 lanes) {
    const __m512i bits = _mm512_sllv_epi32(_mm512_set1_epi32((int32_t)word), (__m512i)lanes);
    return (v_f32)_mm512_ternarylogic_epi32((__m512i)x, bits, _mm512_set1_epi32(INT32_MIN), 0x78); /* x ^ (bits & top) */
}
#elif BM_VECTOR_BYTES
ALWAYS_INLINE v_i32 lanes_at(int64_t j) {
    v_i32 bits;
    for (int i = 0; i < LANES_f32; i++) bits[i] = (int32_t)(1u << i);
    return bits << (int32_t)(j & 31);
}
ALWAYS_INLINE v_f32 flip(v_f32 x, uint32_t word, v_i32 lanes) {
    const v_i32 set = equal_i32(((v_i32){0} + (int32_t)word) & lanes, lanes);
    return (v_f32)((v_i32)x ^ (set & INT32_MIN));
}
#else
ALWAYS_INLINE v_i32 lanes_at(int64_t j) { return (int32_t)(j & 31); }
ALWAYS_INLINE v_f32 flip(v_f32 x, uint32_t word, v_i32 lanes) { return word >> lanes & 1 ? -x : x; }
#endif

#if BM_VECTOR_BYTES != 64
ALWAYS_INLINE v_f64 load_part_wide_f32(const float *p, int64_t count) {
    double lanes[LANES_f64] = {0};
    for (int64_t i = 0; i < count; i++) {
        LOAD_UNALIGNED(float, x, p + i);
        lanes[i] = x;
    }
    return load_f64(lanes);
}
#endif
ALWAYS_INLINE v_f64 load_part_wide_f64(const double *p, int64_t count) { return load_part_f64(p, count); }
