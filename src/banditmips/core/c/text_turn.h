/* Rows of a matrix that lies column after column, for REAL = float or double (TYPE = f32 or f64).
 *
 * A tile of as many rows and columns as a vector has lanes is turned by interleaving the first half of its vectors with the
 * second half, once for every bit of a lane's number.
 */

/* a0 b0 a1 b1 ... */
#if BM_VECTOR_BYTES == 64
#if IS_FLOAT
ALWAYS_INLINE void interleave_f32(v_f32 a, v_f32 b, v_f32 *out) {
    const __m512i low = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    const __m512i high = _mm512_setr_epi32(8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
    out[0] = _mm512_permutex2var_ps(a, low, b);
    out[1] = _mm512_permutex2var_ps(a, high, b);
}
#else
ALWAYS_INLINE void interleave_f64(v_f64 a, v_f64 b, v_f64 *out) {
    out[0] = _mm512_permutex2var_pd(a, _mm512_setr_epi64(0, 8, 1, 9, 2, 10, 3, 11), b);
    out[1] = _mm512_permutex2var_pd(a, _mm512_setr_epi64(4, 12, 5, 13, 6, 14, 7, 15), b);
}
#endif
#elif BM_VECTOR_BYTES == 32
#if IS_FLOAT
ALWAYS_INLINE void interleave_f32(v_f32 a, v_f32 b, v_f32 *out) {
    const __m256 low = _mm256_unpacklo_ps(a, b), high = _mm256_unpackhi_ps(a, b); /* in each half */
    out[0] = _mm256_permute2f128_ps(low, high, 0x20);
    out[1] = _mm256_permute2f128_ps(low, high, 0x31);
}
#else
ALWAYS_INLINE void interleave_f64(v_f64 a, v_f64 b, v_f64 *out) {
    const __m256d low = _mm256_unpacklo_pd(a, b), high = _mm256_unpackhi_pd(a, b);
    out[0] = _mm256_permute2f128_pd(low, high, 0x20);
    out[1] = _mm256_permute2f128_pd(low, high, 0x31);
}
#endif
#else
ALWAYS_INLINE void F(interleave)(V a, V b, V *out) {
    REAL given[2][LANES], turned[2 * LANES];
    F(store)(given[0], a);
    F(store)(given[1], b);
    for (int i = 0; i < LANES; i++) {
        turned[2 * i] = given[0][i];
        turned[2 * i + 1] = given[1][i];
    }
    out[0] = F(load)(turned);
    out[1] = F(load)(turned + LANES);
}
#endif

ALWAYS_INLINE void F(turn_tile)(const char *src, int64_t stride_bytes, REAL *dst, int64_t row_stride) {
    V v[LANES], turned[LANES];
    for (int i = 0; i < LANES; i++) v[i] = F(load)((const REAL *)(src + i * stride_bytes));
    for (int lanes = 1; lanes < LANES; lanes *= 2) {
        for (int i = 0; i < LANES / 2; i++) F(interleave)(v[i], v[i + LANES / 2], turned + 2 * i);
        for (int i = 0; i < LANES; i++) v[i] = turned[i];
    }
    for (int i = 0; i < LANES; i++) F(store)(dst + i * row_stride, v[i]);
}

static void F(turn)(const void *columns, int64_t stride_bytes, int64_t n_rows, int64_t n_columns, REAL *rows,
                    int64_t row_stride) {
    const char *src = columns;
    int64_t j = 0;
    for (; n_columns - j >= LANES; j += LANES) {
        const char *tile = src + j * stride_bytes;
        int64_t i = 0;
        for (; n_rows - i >= LANES; i += LANES) {
            /* The processor does not see that the next columns will be wanted. */
            for (int c = 0; c < LANES; c++)
                PREFETCH(tile + (LANES + c) * stride_bytes + i * (int64_t)sizeof(REAL));
            F(turn_tile)(tile + i * (int64_t)sizeof(REAL), stride_bytes, rows + i * row_stride + j, row_stride);
        }
        for (; i < n_rows; i++)
            for (int c = 0; c < LANES; c++)
                memcpy(rows + i * row_stride + j + c, tile + c * stride_bytes + i * (int64_t)sizeof(REAL), sizeof(REAL));
    }
    for (; j < n_columns; j++)
        for (int64_t i = 0; i < n_rows; i++)
            memcpy(rows + i * row_stride + j, src + j * stride_bytes + i * (int64_t)sizeof(REAL), sizeof(REAL));
}
