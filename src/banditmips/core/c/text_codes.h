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
    const __m256i byte = _mm256_set1_epi32(255); /* packing would take larger and negative numbers to the nearest byte */
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
    for (int l = 0; l < n_bits; l++) words[l] = 0;
    for (int i = 0; i < BLOCK; i += 8) {
        uint64_t bytes = 0;
        for (int j = 0; j < 8; j++) bytes |= (uint64_t)(uint8_t)u[i + j] << (8 * j);
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

ALWAYS_INLINE void quantise_block(const float *p, const float *dither, const struct grid *grid, int32_t *u) {
    for (int i = 0; i < BLOCK; i += LANES_f32) {
        const v_f32 y = clamp(load_f32(p + i) * grid->inverse_step + load_f32(dither + i), grid);
        const v_i32 towards_zero = truncate_f32(y);
        store_i32(u + i, towards_zero + less_f32(y, float_i32(towards_zero)));
    }
}

static void quantise(const float *p, const float *dither, int64_t n, float step, int n_bits, uint64_t *planes,
                     int64_t plane_stride_words, const int64_t *prefix_ends, int n_prefixes, int64_t *totals) {
    const struct grid grid = make_grid(step, n_bits);
    int64_t total = 0;
    int prefix = 0;
    for (int64_t j = 0; j < n; j += BLOCK) {
        while (prefix < n_prefixes && prefix_ends[prefix] <= j) totals[prefix++] = total;
        int32_t u[BLOCK];
        uint64_t words[MAX_BITS], mask = UINT64_MAX;
        if (n - j >= BLOCK) {
            quantise_block(p + j, dither + j, &grid, u);
        } else {
            float padded_p[BLOCK], padded_dither[BLOCK];
            mask = last_block(p + j, n - j, padded_p);
            last_block(dither + j, n - j, padded_dither);
            quantise_block(padded_p, padded_dither, &grid, u);
        }
        planes_of_block(u, n_bits, words);
        for (int l = 0; l < n_bits; l++) {
            const uint64_t word = words[l] & mask;
            const int64_t weight = l < n_bits - 1 ? (int64_t)1 << l : -((int64_t)1 << l);
            planes[l * plane_stride_words + j / BLOCK] = word;
            total += weight * popcount(word);
        }
    }
    while (prefix < n_prefixes) totals[prefix++] = total;
}

/* u of a block, and what it adds to sum(c * x) and sum(c * c) */
ALWAYS_INLINE void grid_block(const float *x, const struct grid *grid, int32_t *u, v_f32 *products, v_f32 *squares) {
    for (int i = 0; i < BLOCK; i += LANES_f32) {
        const v_f32 x_i = load_f32(x + i);
        const v_f32 y = clamp(x_i * grid->inverse_step, grid);
        const v_i32 towards_zero = truncate_f32(y);
        /* A negative x belongs one lower, but for whole quotients; and also where the quotient came out as zero. */
        const v_f32 whole = float_i32(towards_zero);
        const v_i32 lower = less_f32(y, whole) | (less_f32(x_i, (v_f32){0}) & equal_i32(towards_zero, (v_i32){0}));
        const v_i32 floor = towards_zero + lower;
        const v_f32 c = float_i32(floor + floor + 1);
        store_i32(u + i, floor - (int32_t)grid->lowest);
        *products += c * x_i;
        *squares += c * c;
    }
}

static void pack_grid(const float *x, int64_t n, float step, int n_bits, uint64_t *planes, int64_t plane_stride_words,
                      double out[2]) {
    enum { STRETCH = 1024 };
    const struct grid grid = make_grid(step, n_bits);
    v_f64 total_products = {0}, total_squares = {0};
    double outside = 0; /* what the zeros behind the last block have added to the squares */
    for (int64_t start = 0; start < n; start += STRETCH) {
        const int64_t end = n - start < STRETCH ? n : start + STRETCH;
        v_f32 products = {0}, squares = {0};
        for (int64_t j = start; j < end; j += BLOCK) {
            int32_t u[BLOCK];
            uint64_t words[MAX_BITS], mask = UINT64_MAX;
            if (end - j >= BLOCK) {
                grid_block(x + j, &grid, u, &products, &squares);
            } else {
                float padded[BLOCK];
                mask = last_block(x + j, end - j, padded);
                grid_block(padded, &grid, u, &products, &squares);
                outside = (double)(BLOCK - (end - j)); /* zero has c = 1 */
            }
            planes_of_block(u, n_bits, words);
            for (int l = 0; l < n_bits; l++) planes[l * plane_stride_words + j / BLOCK] = words[l] & mask;
        }
        total_products += widen_f32(products);
        total_squares += widen_f32(squares);
    }
    out[0] = sum_f64(total_products);
    out[1] = sum_f64(total_squares) - outside;
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
