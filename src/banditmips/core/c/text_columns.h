/* Products of many rows with one query where the matrix lies column by column: rough ones of floats, and the sums of
 * dot_exact, to the bit. For these, each lane of the sums takes the columns that it takes in sums_of, in the same order,
 * but of many rows at once.
 */

#if IS_FLOAT
enum { TOGETHER = 8 };

/* sums += columns * q for `count` columns of n rows; count is a constant wherever this is called. The columns that follow are
 * on their way by the time that they are wanted: processors do not guess across pages. */
ALWAYS_INLINE void add_rough_columns(const char *a, int64_t gap, const float *q, int count, int64_t n, float *sums) {
    enum { SIZE = sizeof(float), LINE = 64 / SIZE };
    float y[TOGETHER];
    int64_t i = 0;
    memcpy(y, q, (size_t)count * sizeof *q);
    for (; n - i >= LINE; i += LINE) {
        for (int c = 0; c < count; c++) PREFETCH_LATER(a + (count + c) * gap + i * SIZE);
        for (int v = 0; v < LINE; v += LANES_f32) {
            v_f32 sum = load_f32(sums + i + v);
            for (int c = 0; c < count; c++) sum += load_f32((const float *)(a + c * gap + (i + v) * SIZE)) * y[c];
            store_f32(sums + i + v, sum);
        }
    }
    for (; i < n; i++)
        for (int c = 0; c < count; c++) {
            LOAD_UNALIGNED(float, x, a + c * gap + i * SIZE);
            sums[i] += x * y[c];
        }
}

static void columns_rough(const struct bm_columns *m, const float *q, double *room, float *out) {
    const int64_t n_blocks = (m->n + BM_ROUGH_ROWS - 1) / BM_ROUGH_ROWS;
    for (int64_t block = 0; block < n_blocks; block++) {
        const int64_t first = m->n * block / n_blocks, n = m->n * (block + 1) / n_blocks - first;
        const char *a = (const char *)m->base + first * m->row_stride;
        float *const lanes = (float *)(room + n);
        memset(room, 0, (size_t)n * sizeof *room);
        for (int64_t from = 0; from < m->d; from += BM_LANE_TERMS) {
            const int64_t to = m->d - from < BM_LANE_TERMS ? m->d : from + BM_LANE_TERMS;
            int64_t j = from;
            memset(lanes, 0, (size_t)n * sizeof *lanes);
            for (; to - j >= TOGETHER; j += TOGETHER)
                add_rough_columns(a + j * m->column_stride, m->column_stride, q + j, TOGETHER, n, lanes);
            for (; j < to; j++) add_rough_columns(a + j * m->column_stride, m->column_stride, q + j, 1, n, lanes);
            for (int64_t i = 0; i < n; i++) room[i] += lanes[i];
        }
        for (int64_t i = 0; i < n; i++) out[first + i] = (float)room[i];
    }
}
#endif

/* totals += columns, squares += columns^2 for `count` columns of n rows; count is a constant wherever this is called */
ALWAYS_INLINE void F(add_moments)(const char *a, int64_t gap, int count, int64_t n, REAL *totals, REAL *squares) {
    int64_t i = 0;
    for (; n - i >= LANES; i += LANES) {
        V total = F(load)(totals + i), square = F(load)(squares + i);
        for (int c = 0; c < count; c++) {
            const V x = F(load)((const REAL *)(a + c * gap + i * (int64_t)sizeof(REAL)));
            total += x;
            square += x * x;
        }
        F(store)(totals + i, total);
        F(store)(squares + i, square);
    }
    for (; i < n; i++) {
        REAL total = totals[i], square = squares[i];
        for (int c = 0; c < count; c++) {
            LOAD_UNALIGNED(REAL, x, a + c * gap + i * (int64_t)sizeof(REAL));
            total += x;
            square += x * x;
        }
        totals[i] = total, squares[i] = square;
    }
}

static void F(columns_moments)(const REAL *first, int64_t gap, int64_t n, int64_t d, double *totals, double *squares) {
    enum { ROWS = 512, COLUMNS = 8 };
    REAL some_totals[ROWS], some_squares[ROWS];
    memset(totals, 0, (size_t)n * sizeof *totals);
    memset(squares, 0, (size_t)n * sizeof *squares);
    for (int64_t start = 0; start < n; start += ROWS) {
        const int64_t rows = n - start < ROWS ? n - start : ROWS;
        for (int64_t from = 0; from < d; from += BM_LANE_TERMS) {
            const int64_t to = d - from < BM_LANE_TERMS ? d : from + BM_LANE_TERMS;
            const char *const a = (const char *)(first + start);
            int64_t j = from;
            memset(some_totals, 0, sizeof some_totals);
            memset(some_squares, 0, sizeof some_squares);
            for (; to - j >= COLUMNS; j += COLUMNS) F(add_moments)(a + j * gap, gap, COLUMNS, rows, some_totals, some_squares);
            for (; j < to; j++) F(add_moments)(a + j * gap, gap, 1, rows, some_totals, some_squares);
            for (int64_t i = 0; i < rows; i++) totals[start + i] += some_totals[i], squares[start + i] += some_squares[i];
        }
    }
}

#if BM_VECTOR_BYTES
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

/* The same for n rows. The columns at `next`, `gap` bytes apart, are on their way by the time that they are wanted:
 * processors do not guess across pages. */
ALWAYS_INLINE void F(add_columns)(const char *a, int64_t step, const double *b, int count, int64_t n, const char *next,
                                  int64_t gap, double *sums) {
    enum { SIZE = sizeof(REAL), LINE = 64 / SIZE };
    int64_t i = 0;
    for (; n - i >= LINE; i += LINE) {
        for (int c = 0; c < count; c++) PREFETCH_LATER(next + c * gap + i * SIZE);
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

static void F(add_some_columns)(const char *a, int64_t step, const double *b, int count, int64_t n, const char *next,
                                int64_t gap, double *sums) {
    if (count == ABREAST)
        F(add_columns)(a, step, b, ABREAST, n, next, gap, sums);
    else
        for (int c = 0; c < count; c++) F(add_columns)(a + c * step, step, b + c * N_SUMS, 1, n, next + c * gap, gap, sums);
}
#endif

#if !IS_FLOAT
#if BM_VECTOR_BYTES
/* Add the products of n rows from `a` on with columns `from` to `to`, at most a stretch, to `sums` */
static void add_stretch(const struct bm_columns *m, const char *a, int64_t n, const double *b, int64_t from, int64_t to,
                        double *room, double *sums) {
    double *const wide = room + N_SUMS * n;
    const int64_t gap = m->column_stride, step = N_SUMS * gap;
    memset(room, 0, (size_t)(N_SUMS * n) * sizeof *room);
    for (int64_t group = from; group < to; group += ABREAST * N_SUMS)
        for (int lane = 0; lane < N_SUMS && group + lane < to; lane++) {
            const int64_t j = group + lane, n_left = (to - j + N_SUMS - 1) / N_SUMS;
            const int64_t following = group + ABREAST * (N_SUMS + lane); /* those of the next group, as they lie */
            const int count = n_left < ABREAST ? (int)n_left : ABREAST;
            const char *at = a + j * gap, *next = following + ABREAST <= m->d ? a + following * gap : at;
            if (m->dtype == BM_F32 && m->row_stride == sizeof(float))
                add_some_columns_f32(at, step, b + j, count, n, next, gap, room + lane * n);
            else if (m->dtype == BM_F64 && m->row_stride == sizeof(double))
                add_some_columns_f64(at, step, b + j, count, n, next, gap, room + lane * n);
            else if (m->dtype == BM_F32 || (m->dtype >= BM_F16 && m->dtype <= BM_U16)) {
                /* Their numbers are floats, which take half of the room of doubles. */
                float *const floats = (float *)wide;
                for (int c = 0; c < count; c++) to_f32(m->dtype, at + c * step, m->row_stride, n, floats + c * n);
                const int64_t size = n * (int64_t)sizeof *floats;
                add_some_columns_f32((const char *)floats, size, b + j, count, n, (const char *)floats, 0, room + lane * n);
            } else {
                for (int c = 0; c < count; c++) to_f64(m->dtype, at + c * step, m->row_stride, n, wide + c * n);
                const int64_t size = n * (int64_t)sizeof *wide;
                add_some_columns_f64((const char *)wide, size, b + j, count, n, (const char *)wide, 0, room + lane * n);
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
