/* Rough sums of the terms of four rows with some queries, for REAL = float or double (TYPE = f32 or f64).
 *
 * A lane adds BM_LANE_TERMS terms at most before its sum goes on in double, so that the error of a sum of sizes or
 * squares is at most so many roundings, whatever d is. Four rows at once keep more of them on their way from memory, and
 * what is loaded of a query serves four. What overflows stays inf or NaN.
 */

#if IS_FLOAT
ALWAYS_INLINE int64_t itemsize_f32(int dtype) {
    return dtype == BM_F32 ? 4 : dtype == BM_F16 || dtype == BM_I16 || dtype == BM_U16 ? 2 : 1;
}

/* The next numbers of a row of type BM_F32, BM_F16, BM_I8, BM_U8, BM_I16 or BM_U16, all of which are floats in every digit */
ALWAYS_INLINE v_f32 load_of_f32(int dtype, const void *p) {
    if (dtype == BM_F32) return load_f32(p);
    if (dtype == BM_U8) return load_bytes_f32(p);
#if BM_VECTOR_BYTES == 64
    if (dtype == BM_F16) return _mm512_cvtph_ps(_mm256_loadu_si256(p));
    if (dtype == BM_I16) return _mm512_cvtepi32_ps(_mm512_cvtepi16_epi32(_mm256_loadu_si256(p)));
    if (dtype == BM_U16) return _mm512_cvtepi32_ps(_mm512_cvtepu16_epi32(_mm256_loadu_si256(p)));
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(p)));
#elif BM_VECTOR_BYTES == 32
    if (dtype == BM_F16) return _mm256_cvtph_ps(_mm_loadu_si128(p));
    if (dtype == BM_I16) return _mm256_cvtepi32_ps(_mm256_cvtepi16_epi32(_mm_loadu_si128(p)));
    if (dtype == BM_U16) return _mm256_cvtepi32_ps(_mm256_cvtepu16_epi32(_mm_loadu_si128(p)));
    return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(p)));
#else
    float lanes[LANES_f32];
    to_f32(dtype, p, itemsize_f32(dtype), LANES_f32, lanes);
    return load_f32(lanes);
#endif
}
ALWAYS_INLINE v_f32 load_part_of_f32(int dtype, const void *p, int64_t count) {
    if (dtype == BM_F32) return load_part_f32(p, count);
#if BM_VECTOR_BYTES == 64
    const __mmask16 some = (__mmask16)((1u << count) - 1);
    if (itemsize_f32(dtype) == 2) {
        const __m256i pairs = _mm256_maskz_loadu_epi16(some, p);
        if (dtype == BM_F16) return _mm512_cvtph_ps(pairs);
        return _mm512_cvtepi32_ps(dtype == BM_U16 ? _mm512_cvtepu16_epi32(pairs) : _mm512_cvtepi16_epi32(pairs));
    }
    const __m128i bytes = _mm_maskz_loadu_epi8(some, p);
    return _mm512_cvtepi32_ps(dtype == BM_U8 ? _mm512_cvtepu8_epi32(bytes) : _mm512_cvtepi8_epi32(bytes));
#else
    float lanes[LANES_f32] = {0};
    to_f32(dtype, p, itemsize_f32(dtype), count, lanes);
    return load_f32(lanes);
#endif
}
#else
ALWAYS_INLINE int64_t itemsize_f64(int dtype) { return dtype == BM_I32 || dtype == BM_U32 ? 4 : 8; }

/* The next numbers of a row of type BM_F64, BM_I32, BM_U32, BM_I64 or BM_U64 */
ALWAYS_INLINE v_f64 load_of_f64(int dtype, const void *p) {
    if (dtype == BM_F64) return load_f64(p);
#if BM_VECTOR_BYTES == 64
    if (dtype == BM_I32) return _mm512_cvtepi32_pd(_mm256_loadu_si256(p));
    if (dtype == BM_U32) return _mm512_cvtepu32_pd(_mm256_loadu_si256(p));
    if (dtype == BM_I64) return _mm512_cvtepi64_pd(_mm512_loadu_si512(p));
    return _mm512_cvtepu64_pd(_mm512_loadu_si512(p));
#else
#if BM_VECTOR_BYTES == 32
    if (dtype == BM_I32) return _mm256_cvtepi32_pd(_mm_loadu_si128(p));
#endif
    double lanes[LANES_f64];
    to_f64(dtype, p, itemsize_f64(dtype), LANES_f64, lanes);
    return load_f64(lanes);
#endif
}
ALWAYS_INLINE v_f64 load_part_of_f64(int dtype, const void *p, int64_t count) {
    if (dtype == BM_F64) return load_part_f64(p, count);
    double lanes[LANES_f64] = {0};
    to_f64(dtype, p, itemsize_f64(dtype), count, lanes);
    return load_f64(lanes);
}
#endif

/* What numbers of four rows add to their sums, from place j on: as many as a vector holds, or `count` of them. What is
 * constant wherever this is called: everything but places and numbers, so that sums stay in registers. */
ALWAYS_INLINE void F(add_four)(int objective, int dtype, const void *const a[4], const REAL *b, int64_t j, int64_t count, V *s) {
    const V y = count == LANES ? F(load)(b + j) : F(load_part)(b + j, count);
    for (int r = 0; r < 4; r++) {
        const char *p = (const char *)a[r] + j * F(itemsize)(dtype);
        const V x = count == LANES ? F(load_of)(dtype, p) : F(load_part_of)(dtype, p, count);
        s[r] += F(terms)(objective, x, y);
        if (objective == BM_MOMENTS) {
            s[4 + r] += x;
            s[8 + r] += x * x;
        }
    }
}

/* objective and dtype are constants wherever this is called. */
ALWAYS_INLINE void F(four_sums)(int objective, int dtype, const void *const a[4], const REAL *b, int64_t d, double *out) {
    enum { PIECE = BM_LANE_TERMS * LANES };
    const int n_sums = objective == BM_MOMENTS ? 12 : 4;
    v_f64 total[12];
    for (int i = 0; i < n_sums; i++) total[i] = (v_f64){0};
    for (int64_t start = 0; start < d; start += PIECE) {
        const int64_t end = d - start < PIECE ? d : start + PIECE;
        V s[12];
        for (int i = 0; i < n_sums; i++) s[i] = (V){0};
        int64_t j = start;
        for (; end - j >= LANES; j += LANES) F(add_four)(objective, dtype, a, b, j, LANES, s);
        if (j < end) F(add_four)(objective, dtype, a, b, j, end - j, s);
        for (int i = 0; i < n_sums; i++) total[i] += F(widen)(s[i]);
    }
    for (int i = 0; i < n_sums; i++) out[i] = sum_f64(total[i]);
}

#define OF_DTYPE(dtype)                                                                        \
    switch (objective) {                                                                       \
        case BM_PRODUCTS: F(four_sums)(BM_PRODUCTS, dtype, a, b, d, out); break;               \
        case BM_SQUARES: F(four_sums)(BM_SQUARES, dtype, a, b, d, out); break;                 \
        case BM_SIZES: F(four_sums)(BM_SIZES, dtype, a, b, d, out); break;                     \
        default: F(four_sums)(BM_MOMENTS, dtype, a, b, d, out);                                \
    }                                                                                          \
    return;

static void F(rough_sums)(int objective, int dtype, const void *const a[4], const REAL *b, int64_t d, double *out) {
#if IS_FLOAT
    if (dtype == BM_F16) { OF_DTYPE(BM_F16) }
    if (dtype == BM_I8) { OF_DTYPE(BM_I8) }
    if (dtype == BM_U8) { OF_DTYPE(BM_U8) }
    if (dtype == BM_I16) { OF_DTYPE(BM_I16) }
    if (dtype == BM_U16) { OF_DTYPE(BM_U16) }
    OF_DTYPE(BM_F32)
#else
    if (dtype == BM_I32) { OF_DTYPE(BM_I32) }
    if (dtype == BM_U32) { OF_DTYPE(BM_U32) }
    if (dtype == BM_I64) { OF_DTYPE(BM_I64) }
    if (dtype == BM_U64) { OF_DTYPE(BM_U64) }
    OF_DTYPE(BM_F64)
#endif
}
#undef OF_DTYPE

/* Four rows and some queries, one `query_stride` behind the other. What follows of the rows is asked for if there is enough to
 * do to hide that. All but places and numbers is a constant wherever this is called. */
ALWAYS_INLINE void F(tile)(int objective, int n_queries, const REAL *const a[4], const REAL *b, int64_t query_stride,
                           int64_t count, double *sums, int64_t sums_stride) {
    enum { MOST = 4, PIECE = BM_LANE_TERMS * LANES, AHEAD = 1024 / sizeof(REAL) };
    v_f64 total[MOST][4];
    for (int q = 0; q < n_queries; q++)
        for (int r = 0; r < 4; r++) total[q][r] = (v_f64){0};
    for (int64_t start = 0; start < count; start += PIECE) {
        const int64_t end = count - start < PIECE ? count : start + PIECE;
        V s[MOST][4], x[4];
        UNROLLED for (int q = 0; q < n_queries; q++)
            UNROLLED for (int r = 0; r < 4; r++) s[q][r] = (V){0};
        int64_t j = start;
        for (; end - j >= LANES; j += LANES) {
            UNROLLED for (int r = 0; r < 4; r++) {
                if (n_queries == MOST) PREFETCH(a[r] + j + AHEAD);
                x[r] = F(load)(a[r] + j);
                KEEP_LOADED(x[r]); /* once for all queries */
            }
            UNROLLED for (int q = 0; q < n_queries; q++) {
                const V y = F(load)(b + q * query_stride + j);
                UNROLLED for (int r = 0; r < 4; r++) s[q][r] += F(terms)(objective, x[r], y);
            }
        }
        if (j < end) {
            UNROLLED for (int r = 0; r < 4; r++) x[r] = F(load_part)(a[r] + j, end - j);
            UNROLLED for (int q = 0; q < n_queries; q++) {
                const V y = F(load_part)(b + q * query_stride + j, end - j);
                UNROLLED for (int r = 0; r < 4; r++) s[q][r] += F(terms)(objective, x[r], y);
            }
        }
        for (int q = 0; q < n_queries; q++)
            for (int r = 0; r < 4; r++) total[q][r] += F(widen)(s[q][r]);
    }
    for (int q = 0; q < n_queries; q++)
        for (int r = 0; r < 4; r++) sums[q * sums_stride + r] += sum_f64(total[q][r]);
}

#define FOR_QUERIES(objective, n)                                                          \
    for (; n_queries >= n; n_queries -= n, b += n * query_stride, sums += n * sums_stride) \
        F(tile)(objective, n, a, b, query_stride, count, sums, sums_stride);
#define FOR_ALL_QUERIES(objective) FOR_QUERIES(objective, 4) FOR_QUERIES(objective, 2) FOR_QUERIES(objective, 1)
static void F(rough_tiles)(int objective, const REAL *const a[4], const REAL *b, int64_t query_stride, int64_t n_queries,
                           int64_t count, double *sums, int64_t sums_stride) {
    switch (objective) {
        case BM_SQUARES: FOR_ALL_QUERIES(BM_SQUARES) break;
        case BM_SIZES: FOR_ALL_QUERIES(BM_SIZES) break;
        default: FOR_ALL_QUERIES(BM_PRODUCTS)
    }
}
#undef FOR_ALL_QUERIES
#undef FOR_QUERIES
