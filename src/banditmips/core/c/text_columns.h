/* Products of many rows with one query where the matrix lies column by column: the sums of dot_exact, to the bit.
 *
 * Each lane of the sums takes the columns that it takes in dots_of, in the same order, but of many rows at once.
 */

#if BM_VECTOR_BYTES
#define F(name) BM_JOIN(name##_, TYPE)

#if IS_FLOAT
enum { N_SUMS = 2 * LANES_f64, ABREAST = 8 };
#endif

/* sums += column * b, for `count` columns of one lane, `step` bytes apart; count is a constant wherever this is called */
ALWAYS_INLINE void F(add_vectors)(const char *a, int64_t step, const double *b, int count, double *sums) {
    v_f64 sum = load_f64(sums);
    for (int c = 0; c < count; c++) {
        LOAD_UNALIGNED(double, y, b + c * N_SUMS);
        sum += F(load_wide)((const REAL *)(a + c * step)) * y;
        IN_ORDER(sum);
    }
    store_f64(sums, sum);
}

/* The same for n rows. The columns at `next` are on their way by the time that they are wanted: processors do not guess
 * across pages. */
ALWAYS_INLINE void F(add_columns)(const char *a, const char *next, int64_t step, const double *b, int count, int64_t n,
                                  double *sums) {
    enum { SIZE = sizeof(REAL), LINE = 64 / SIZE };
    int64_t i = 0;
    for (; n - i >= LINE; i += LINE) {
        for (int c = 0; c < count; c++) PREFETCH_LATER(next + c * step + i * SIZE);
        for (int v = 0; v < LINE; v += LANES_f64) F(add_vectors)(a + (i + v) * SIZE, step, b, count, sums + i + v);
    }
    for (; n - i >= LANES_f64; i += LANES_f64) F(add_vectors)(a + i * SIZE, step, b, count, sums + i);
    for (; i < n; i++) {
        double sum = sums[i];
        for (int c = 0; c < count; c++) {
            LOAD_UNALIGNED(REAL, x, a + c * step + i * SIZE);
            LOAD_UNALIGNED(double, y, b + c * N_SUMS);
            sum += x * y;
            IN_ORDER(sum);
        }
        sums[i] = sum;
    }
}

static void F(add_some_columns)(const char *a, const char *next, int64_t step, const double *b, int count, int64_t n,
                                double *sums) {
    if (count == ABREAST)
        F(add_columns)(a, next, step, b, ABREAST, n, sums);
    else if (count == ABREAST / 2)
        F(add_columns)(a, next, step, b, ABREAST / 2, n, sums);
    else
        F(add_columns)(a, next, step, b, 1, n, sums);
}

#undef F
#endif

#if !IS_FLOAT
#if BM_VECTOR_BYTES
/* Add the products of n rows from `a` on with columns `from` to `to`, at most a stretch, to `sums` */
static void add_stretch(const struct bm_columns *m, const char *a, int64_t n, const double *b, int64_t from, int64_t to,
                        double *room, double *sums) {
    double *const wide = room + N_SUMS * n;
    const int64_t step = N_SUMS * m->column_stride;
    memset(room, 0, (size_t)(N_SUMS * n) * sizeof *room);
    for (int lane = 0; lane < N_SUMS; lane++)
        for (int64_t j = from + lane, count; j < to; j += count * N_SUMS) {
            const int64_t n_left = (to - j + N_SUMS - 1) / N_SUMS;
            count = n_left >= ABREAST ? ABREAST : n_left >= ABREAST / 2 ? ABREAST / 2 : 1;
            const int64_t following = j + count * N_SUMS;
            const char *at = a + j * m->column_stride;
            const char *next = a + (following < to ? following : from + lane + 1) * m->column_stride;
            if (m->dtype == BM_F32 && m->row_stride == sizeof(float))
                add_some_columns_f32(at, next, step, b + j, (int)count, n, room + lane * n);
            else if (m->dtype == BM_F64 && m->row_stride == sizeof(double))
                add_some_columns_f64(at, next, step, b + j, (int)count, n, room + lane * n);
            else {
                for (int64_t c = 0; c < count; c++)
                    to_f64(m->dtype, at + c * step, m->row_stride, n, wide + c * n);
                const char *columns = (const char *)wide;
                const int64_t size = n * (int64_t)sizeof *wide;
                add_some_columns_f64(columns, columns, size, b + j, (int)count, n, room + lane * n);
            }
        }
    /* As sum_in_order does */
    for (int64_t half = N_SUMS / 2; half > 0; half /= 2)
        for (int64_t i = 0; i < half * n; i++) room[i] += room[half * n + i];
    for (int64_t i = 0; i < n; i++) sums[i] += room[i];
}
#else
/* The compiler adds up plain numbers as it likes: only row by row they are added as elsewhere. */
static void add_stretch(const struct bm_columns *m, const char *a, int64_t n, const double *b, int64_t from, int64_t to,
                        double *room, double *sums) {
    for (int64_t i = 0; i < n; i++) {
        to_f64(m->dtype, a + i * m->row_stride + from * m->column_stride, m->column_stride, to - from, room);
        sums[i] += dot_exact_f64(room, b + from, to - from);
    }
}
#endif

static void columns_exact(const struct bm_columns *m, const double *b, double *room, double *sums) {
    const int64_t n_blocks = (m->n + BM_COLUMN_ROWS - 1) / BM_COLUMN_ROWS;
    memset(sums, 0, (size_t)m->n * sizeof *sums);
    for (int64_t block = 0; block < n_blocks; block++) {
        const int64_t first = m->n * block / n_blocks, last = m->n * (block + 1) / n_blocks;
        const char *a = (const char *)m->base + first * m->row_stride;
        for (int64_t from = 0; from < m->d; from += BM_STRETCH) {
            const int64_t to = m->d - from < BM_STRETCH ? m->d : from + BM_STRETCH;
            add_stretch(m, a, last - first, b, from, to, room, sums + first);
        }
    }
}
#endif
