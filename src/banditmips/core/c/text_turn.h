/* Rows of a matrix that lies column after column, for REAL = float or double (TYPE = f32 or f64).
 *
 * A tile of so many rows and columns as a vector of 32 bytes has numbers is turned within vectors; longer ones take longer to
 * exchange numbers.
 */

#if BM_VECTOR_BYTES >= 32 && IS_FLOAT
enum { TILE_f32 = 8 };
typedef __m256 tile_row_f32;
ALWAYS_INLINE void turn_tile_f32(const char *src, int64_t stride_bytes, tile_row_f32 *v) {
    __m256 two[8], four[8];
    for (int i = 0; i < 8; i++) v[i] = _mm256_loadu_ps((const float *)(src + i * stride_bytes));
    for (int i = 0; i < 8; i += 2) {
        two[i] = _mm256_unpacklo_ps(v[i], v[i + 1]);
        two[i + 1] = _mm256_unpackhi_ps(v[i], v[i + 1]);
    }
    for (int i = 0; i < 8; i += 4)
        for (int half = 0; half < 2; half++) {
            four[i + 2 * half] = _mm256_shuffle_ps(two[i + half], two[i + half + 2], 0x44);
            four[i + 2 * half + 1] = _mm256_shuffle_ps(two[i + half], two[i + half + 2], 0xEE);
        }
    for (int i = 0; i < 4; i++) {
        v[i] = _mm256_permute2f128_ps(four[i], four[i + 4], 0x20);
        v[i + 4] = _mm256_permute2f128_ps(four[i], four[i + 4], 0x31);
    }
}
ALWAYS_INLINE void store_tile_f32(float *p, tile_row_f32 x) { _mm256_storeu_ps(p, x); }
#elif BM_VECTOR_BYTES >= 32
enum { TILE_f64 = 4 };
typedef __m256d tile_row_f64;
ALWAYS_INLINE void turn_tile_f64(const char *src, int64_t stride_bytes, tile_row_f64 *v) {
    __m256d two[4];
    for (int i = 0; i < 4; i++) v[i] = _mm256_loadu_pd((const double *)(src + i * stride_bytes));
    for (int i = 0; i < 4; i += 2) {
        two[i] = _mm256_unpacklo_pd(v[i], v[i + 1]);
        two[i + 1] = _mm256_unpackhi_pd(v[i], v[i + 1]);
    }
    for (int i = 0; i < 2; i++) {
        v[i] = _mm256_permute2f128_pd(two[i], two[i + 2], 0x20);
        v[i + 2] = _mm256_permute2f128_pd(two[i], two[i + 2], 0x31);
    }
}
ALWAYS_INLINE void store_tile_f64(double *p, tile_row_f64 x) { _mm256_storeu_pd(p, x); }
#else
enum { F(TILE) = LANES };
typedef V F(tile_row);
ALWAYS_INLINE void F(turn_tile)(const char *src, int64_t stride_bytes, F(tile_row) *v) {
    REAL given[LANES][LANES], turned[LANES];
    for (int i = 0; i < LANES; i++) F(store)(given[i], F(load)((const REAL *)(src + i * stride_bytes)));
    for (int i = 0; i < LANES; i++) {
        for (int j = 0; j < LANES; j++) turned[j] = given[j][i];
        v[i] = F(load)(turned);
    }
}
ALWAYS_INLINE void F(store_tile)(REAL *p, F(tile_row) x) { F(store)(p, x); }
#endif

static void F(turn)(const void *columns, int64_t stride_bytes, int64_t n_rows, int64_t n_columns, REAL *rows,
                    int64_t row_stride) {
    const char *src = columns;
    int64_t j = 0;
    for (; n_columns - j >= F(TILE); j += F(TILE)) {
        const char *tile = src + j * stride_bytes;
        int64_t i = 0;
        for (; n_rows - i >= F(TILE); i += F(TILE)) {
            /* The processor does not see that the next columns will be wanted. */
            for (int c = 0; c < F(TILE); c++)
                PREFETCH(tile + (F(TILE) + c) * stride_bytes + i * (int64_t)sizeof(REAL));
            F(tile_row) v[F(TILE)];
            F(turn_tile)(tile + i * (int64_t)sizeof(REAL), stride_bytes, v);
            for (int r = 0; r < F(TILE); r++) F(store_tile)(rows + (i + r) * row_stride + j, v[r]);
        }
        for (; i < n_rows; i++)
            for (int c = 0; c < F(TILE); c++)
                memcpy(rows + i * row_stride + j + c, tile + c * stride_bytes + i * (int64_t)sizeof(REAL), sizeof(REAL));
    }
    for (; j < n_columns; j++)
        for (int64_t i = 0; i < n_rows; i++)
            memcpy(rows + i * row_stride + j, src + j * stride_bytes + i * (int64_t)sizeof(REAL), sizeof(REAL));
}

/* Numbers of one row of a group at n columns */
ALWAYS_INLINE void F(pick)(const char *src, int64_t stride_bytes, int64_t n, REAL *out) {
    for (int64_t c = 0; c < n; c++) memcpy(out + c, src + c * stride_bytes, sizeof(REAL));
}

static void F(turn_some)(const void *columns, int64_t stride_bytes, int64_t n_columns, const struct bm_neighbours *groups,
                         int64_t n_groups, int64_t at) {
    enum { ABREAST = 16, FEW = BM_NEIGHBOURS / 4 }; /* of so many rows, numbers are picked one by one */
    const char *src = columns;
    for (int64_t j = 0; j < n_columns; j += ABREAST, src += ABREAST * stride_bytes) {
        const int64_t count = n_columns - j < ABREAST ? n_columns - j : ABREAST;
        /* The processor does not see that the next columns will be wanted: they are fetched one after another, as they lie. */
        const char *next = src + 2 * ABREAST * stride_bytes;
        int64_t ahead = 0;
        for (int64_t g = 0; g < n_groups; g++) {
            const struct bm_neighbours *group = groups + g;
            const char *first = src + group->first * (int64_t)sizeof(REAL);
            REAL *const *rows = (REAL *const *)group->rows;
            for (int i = 0; i < ABREAST; i++) {
                PREFETCH_LATER(next + groups[ahead].first * (int64_t)sizeof(REAL));
                if (++ahead == n_groups) ahead = 0, next += stride_bytes;
            }
            if (group->n_wanted <= FEW || group->n < BM_NEIGHBOURS || count < ABREAST) {
                for (int64_t r = 0; r < group->n; r++)
                    if (rows[r]) F(pick)(first + r * (int64_t)sizeof(REAL), stride_bytes, count, rows[r] + at + j);
                continue;
            }
            for (int from = 0; from < BM_NEIGHBOURS; from += F(TILE))
                for (int c = 0; c < ABREAST; c += F(TILE)) {
                    F(tile_row) v[F(TILE)];
                    F(turn_tile)(first + c * stride_bytes + from * (int64_t)sizeof(REAL), stride_bytes, v);
                    for (int r = 0; r < F(TILE); r++)
                        if (rows[from + r]) F(store_tile)(rows[from + r] + at + j + c, v[r]);
                }
        }
    }
}
