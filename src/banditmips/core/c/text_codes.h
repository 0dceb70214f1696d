/* Rotated coordinates as bits. Everything is done in blocks of 64 coordinates, one word of each plane. */

enum { BLOCK = 64, MAX_BITS = 8 };

/* Bit l of u[0..63] as word l of `words`, for l < n_bits */
#if BM_VECTOR_BYTES == 64

ALWAYS_INLINE void planes_of_block(const int32_t *u, int n_bits, uint64_t *words) {
    __m512i bytes = _mm512_castsi128_si512(_mm512_cvtepi32_epi8(_mm512_loadu_si512(u)));
    bytes = _mm512_inserti32x4(bytes, _mm512_cvtepi32_epi8(_mm512_loadu_si512(u + 16)), 1);
    bytes = _mm512_inserti32x4(bytes, _mm512_cvtepi32_epi8(_mm512_loadu_si512(u + 32)), 2);
    bytes = _mm512_inserti32x4(bytes, _mm512_cvtepi32_epi8(_mm512_loadu_si512(u + 48)), 3);
    for (int l = 0; l < n_bits; l++) words[l] = _mm512_test_epi8_mask(bytes, _mm512_set1_epi8((char)(1 << l)));
}

#elif BM_VECTOR_BYTES == 32

/* The lowest bytes of 32 numbers */
ALWAYS_INLINE __m256i bytes_of_32(const int32_t *u) {
    const __m256i *v = (const __m256i *)u;
    /* Packing would take larger and negative numbers to the nearest byte. */
    const __m256i byte = _mm256_set1_epi32(255);
    const __m256i a = _mm256_and_si256(_mm256_loadu_si256(v), byte);
    const __m256i b = _mm256_and_si256(_mm256_loadu_si256(v + 1), byte);
    const __m256i c = _mm256_and_si256(_mm256_loadu_si256(v + 2), byte);
    const __m256i d = _mm256_and_si256(_mm256_loadu_si256(v + 3), byte);
    const __m256i packed = _mm256_packus_epi16(_mm256_packus_epi32(a, b), _mm256_packus_epi32(c, d));
    /* Packing works in each half of a vector, so groups of four lie as 0 2 4 6 1 3 5 7. */
    return _mm256_permutevar8x32_epi32(packed, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}

ALWAYS_INLINE void planes_of_block(const int32_t *u, int n_bits, uint64_t *words) {
    const __m256i lower = bytes_of_32(u), upper = bytes_of_32(u + 32);
    for (int l = 0; l < n_bits; l++) {
        const __m128i to_top = _mm_cvtsi32_si128(7 - l); /* movemask reads the top bit of each byte */
        const uint32_t low = (uint32_t)_mm256_movemask_epi8(_mm256_sll_epi16(lower, to_top));
        const uint32_t high = (uint32_t)_mm256_movemask_epi8(_mm256_sll_epi16(upper, to_top));
        words[l] = (uint64_t)high << 32 | low;
    }
}

#else

ALWAYS_INLINE void planes_of_block(const int32_t *u, int n_bits, uint64_t *words) {
    uint8_t lowest[BLOCK];
    for (int i = 0; i < BLOCK; i++) lowest[i] = (uint8_t)u[i];
    for (int l = 0; l < n_bits; l++) words[l] = 0;
    for (int i = 0; i < BLOCK; i += 8) {
        const uint8_t *b = lowest + i;
        const uint64_t bytes = (uint64_t)b[7] << 56 | (uint64_t)b[6] << 48 | (uint64_t)b[5] << 40 |
                               (uint64_t)b[4] << 32 | (uint64_t)b[3] << 24 | (uint64_t)b[2] << 16 |
                               (uint64_t)b[1] << 8 | b[0];
        /* The factor brings the lowest bits of the eight bytes together in the top byte. */
        for (int l = 0; l < n_bits; l++)
            words[l] |= (((bytes >> l & 0x0101010101010101u) * 0x0102040810204080u) >> 56) << i;
    }
}

#endif

ALWAYS_INLINE uint64_t signs_of_block(const float *x) {
    uint64_t word = 0;
#if BM_VECTOR_BYTES == 64
    for (int i = 0; i < BLOCK; i += 16)
        word |= (uint64_t)_mm512_cmp_ps_mask(load_f32(x + i), _mm512_setzero_ps(), _CMP_GE_OQ) << i;
#elif BM_VECTOR_BYTES == 32
    for (int i = 0; i < BLOCK; i += 8)
        word |= (uint64_t)_mm256_movemask_ps(_mm256_cmp_ps(load_f32(x + i), _mm256_setzero_ps(), _CMP_GE_OQ)) << i;
#elif BM_VECTOR_BYTES == 16 && BM_X86
    for (int i = 0; i < BLOCK; i += 4)
        word |= (uint64_t)_mm_movemask_ps(_mm_cmpge_ps(load_f32(x + i), _mm_setzero_ps())) << i;
#else
    int32_t u[BLOCK];
    for (int i = 0; i < BLOCK; i++) u[i] = x[i] >= 0;
    planes_of_block(u, 1, &word);
#endif
    return word;
}

/* The last block, shorter than the others: its numbers with zeros behind them, and the mask of its bits */
ALWAYS_INLINE uint64_t last_block(const float *x, int64_t length, float *padded) {
    memset(padded, 0, BLOCK * sizeof *padded);
    memcpy(padded, x, (size_t)length * sizeof *x);
    return ((uint64_t)1 << length) - 1;
}

static void pack_signs(const float *x, int64_t n, uint64_t *bits) {
    int64_t j = 0;
    for (; n - j >= BLOCK; j += BLOCK) bits[j / BLOCK] = signs_of_block(x + j);
    if (j < n) {
        float padded[BLOCK];
        const uint64_t mask = last_block(x + j, n - j, padded);
        bits[j / BLOCK] = signs_of_block(padded) & mask;
    }
}

/* A grid of 2^n_bits steps around zero */
struct grid {
    float inverse_step, lowest, highest;
};

static struct grid make_grid(float step, int n_bits) {
    const float half = (float)(1 << (n_bits - 1));
    const struct grid grid = {1 / step, -half, half - 1};
    return grid;
}

/* In this order the clamp turns a NaN into the lowest. */
ALWAYS_INLINE v_f32 clamp(v_f32 y, const struct grid *grid) {
    return min_f32(max_f32(y, broadcast_f32(grid->lowest)), broadcast_f32(grid->highest));
}

/* u of a block, added to `sum` too */
ALWAYS_INLINE void quantise_block(const float *p, const uint8_t *dither, const struct grid *grid, int32_t *u,
                                  v_i32 *sum) {
    for (int i = 0; i < BLOCK; i += LANES_f32) {
        const v_f32 random = (load_bytes_f32(dither + i) + 0.5f) * (1.0f / 256.0f);
        const v_f32 y = clamp(load_f32(p + i) * grid->inverse_step + random, grid);
        const v_i32 whole = truncate_f32(floor_f32(y));
        store_i32(u + i, whole);
        *sum += whole;
    }
}

/* n_bits is a constant wherever this is called. */
ALWAYS_INLINE void quantise_bits(const float *p, const uint8_t *dither, int64_t n, float step, int n_bits,
                                 uint64_t *planes, int64_t plane_stride, const int64_t *prefix_ends, int n_prefixes,
                                 int64_t *totals) {
    const struct grid grid = make_grid(step, n_bits);
    int32_t u[BLOCK];
    uint64_t words[MAX_BITS];
    int64_t total = 0, j = 0;
    for (int t = 0; t < n_prefixes; t++) {
        v_i32 sum = {0}; /* 2^24 numbers of 8 bits fit, even in one lane */
        for (; j < prefix_ends[t]; j += BLOCK) {
            if (n - j >= BLOCK) {
                quantise_block(p + j, dither + j, &grid, u, &sum);
            } else { /* zeros behind the end become u = 0: no bits, and nothing to the sum */
                float padded_p[BLOCK];
                uint8_t padded_dither[BLOCK] = {0};
                last_block(p + j, n - j, padded_p);
                memcpy(padded_dither, dither + j, (size_t)(n - j));
                quantise_block(padded_p, padded_dither, &grid, u, &sum);
            }
            planes_of_block(u, n_bits, words);
            for (int l = 0; l < n_bits; l++) planes[l * plane_stride + j / BLOCK] = words[l];
        }
        total += sum_i32(sum);
        totals[t] = total;
    }
}

/* `call` with n_bits as a constant 1..8 */
#define FOR_CONSTANT_BITS(n_bits, call)     \
    switch (n_bits) {                       \
        case 1: call(1); break;             \
        case 2: call(2); break;             \
        case 3: call(3); break;             \
        case 4: call(4); break;             \
        case 5: call(5); break;             \
        case 6: call(6); break;             \
        case 7: call(7); break;             \
        case 8: call(8); break;             \
    }

static void quantise(const float *p, const uint8_t *dither, int64_t n, float step, int n_bits, uint64_t *planes,
                     int64_t plane_stride_words, const int64_t *prefix_ends, int n_prefixes, int64_t *totals) {
#define CALL(bits) \
    quantise_bits(p, dither, n, step, bits, planes, plane_stride_words, prefix_ends, n_prefixes, totals)
    FOR_CONSTANT_BITS(n_bits, CALL)
#undef CALL
}

/* floor(x / step) of a block, and what it adds to sum(c * x) and sum(c * c) */
ALWAYS_INLINE void grid_block(const float *x, const struct grid *grid, int32_t *steps, v_f32 *products,
                              v_f32 *squares) {
    for (int i = 0; i < BLOCK; i += LANES_f32) {
        const v_f32 x_i = load_f32(x + i);
        /* A negative x belongs below zero even where its quotient is too small for a float; no other quotient is
         * moved by so little. */
        const v_f32 y = clamp(x_i * grid->inverse_step + where_negative(x_i, -1e-30f), grid);
        const v_f32 whole = floor_f32(y);
        const v_f32 c = whole + whole + 1;
        store_i32(steps + i, truncate_f32(whole));
        *products += c * x_i;
        *squares += c * c;
    }
}

/* n_bits is a constant wherever this is called. */
ALWAYS_INLINE void grid_bits(const float *x, int64_t n, float step, int n_bits, uint64_t *planes, int64_t plane_stride,
                             double out[2]) {
    enum { STRETCH = 256 }; /* so many squares of numbers of 8 bits are exact even in one float */
    const struct grid grid = make_grid(step, n_bits);
    v_f64 total_products = {0}, total_squares = {0};
    double outside = 0; /* what the zeros behind the last block have added to the squares */
    for (int64_t start = 0; start < n; start += STRETCH) {
        const int64_t end = n - start < STRETCH ? n : start + STRETCH;
        v_f32 products = {0}, squares = {0};
        for (int64_t j = start; j < end; j += BLOCK) {
            int32_t steps[BLOCK];
            uint64_t words[MAX_BITS], mask = UINT64_MAX;
            if (end - j >= BLOCK) {
                grid_block(x + j, &grid, steps, &products, &squares);
            } else {
                float padded[BLOCK];
                mask = last_block(x + j, end - j, padded);
                grid_block(padded, &grid, steps, &products, &squares);
                outside = (double)(BLOCK - (end - j)); /* zero has c = 1 */
            }
            planes_of_block(steps, n_bits, words);
            words[n_bits - 1] = ~words[n_bits - 1]; /* u is 2^(n_bits-1) more: the other sign bit */
            for (int l = 0; l < n_bits; l++) planes[l * plane_stride + j / BLOCK] = words[l] & mask;
        }
        total_products += widen_f32(products);
        total_squares += widen_f32(squares);
    }
    out[0] = sum_f64(total_products);
    out[1] = sum_f64(total_squares) - outside;
}

static void pack_grid(const float *x, int64_t n, float step, int n_bits, uint64_t *planes, int64_t plane_stride_words,
                      double out[2]) {
#define CALL(bits) grid_bits(x, n, step, bits, planes, plane_stride_words, out)
    FOR_CONSTANT_BITS(n_bits, CALL)
#undef CALL
}

static void prefix_sizes(const float *x, const int64_t *prefix_ends, int n_prefixes, double *sums) {
    int64_t start = 0;
    double sum = 0;
    for (int t = 0; t < n_prefixes; t++) {
        sum += size_f32(x + start, prefix_ends[t] - start);
        start = prefix_ends[t];
        sums[t] = sum;
    }
}
