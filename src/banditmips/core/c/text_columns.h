/* Sums over many rows at once where the matrix lies column by column: rough moments of floats, and the sums of dot_exact, to
 * the bit, with some queries. For these, each lane of the sums takes the columns that it takes in sums_of, in the same order,
 * but of many rows.
 */

/* totals += columns, squares += columns^2 for `count` columns of n rows, while those that follow are on their way; count is a
 * constant wherever this is called */
ALWAYS_INLINE void F(add_moments)(const char *a, int64_t gap, int count, int64_t n, REAL *totals, REAL *squares) {
    int64_t i = 0;
    for (; n - i >= LANES; i += LANES) {
        for (int c = 0; c < count; c++) PREFETCH_LATER(a + (count + c) * gap + i * (int64_t)sizeof(REAL));
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
enum { N_SUMS = 2 * LANES_f64, ABREAST = 8, BESIDE = 4 /* vectors of rows whose sums are in registers, with one query */ };
enum { MOST_AT_ONCE = BM_VECTOR_BYTES == 64 ? 8 : 4 /* queries whose sums with two vectors are, too */ };
#endif

/* What is added to the sums of a lane: terms of its columns, `step` bytes apart, with numbers of some queries, one beside the
 * other and those of the next column `next_b` behind; their sums are `of_query` apart. How many columns, queries and vectors
 * of rows there are, and whether terms are products or squared differences, is a constant wherever these are used. */
#if IS_FLOAT
struct lane {
    const char *a;
    int64_t step;
    const double *b;
    int64_t next_b;
    double *sums;
    int64_t of_query;
};
#endif

ALWAYS_INLINE void F(add_vectors)(const struct lane *lane, int objective, int64_t i, int count, int n_queries, int n_vectors) {
    v_f64 sums[MOST_AT_ONCE][BESIDE];
    UNROLLED for (int q = 0; q < n_queries; q++)
        UNROLLED for (int v = 0; v < n_vectors; v++)
            sums[q][v] = load_f64(lane->sums + q * lane->of_query + i + v * LANES_f64);
    UNROLLED for (int c = 0; c < count; c++) {
        v_f64 x[BESIDE];
        UNROLLED for (int v = 0; v < n_vectors; v++) {
            x[v] = F(load_wide)((const REAL *)(lane->a + c * lane->step) + i + v * LANES_f64);
            KEEP_LOADED(x[v]); /* once for all queries */
        }
        UNROLLED for (int q = 0; q < n_queries; q++) {
            LOAD_UNALIGNED(double, y, lane->b + c * lane->next_b + q);
            UNROLLED for (int v = 0; v < n_vectors; v++) {
                sums[q][v] += terms_f64(objective, x[v], (v_f64){0} + y);
                IN_ORDER(sums[q][v]);
            }
        }
    }
    UNROLLED for (int q = 0; q < n_queries; q++)
        UNROLLED for (int v = 0; v < n_vectors; v++)
            store_f64(lane->sums + q * lane->of_query + i + v * LANES_f64, sums[q][v]);
}

/* The same for n rows. What follows is not asked for: of one or two queries there is too little to do to hide that, and
 * processors that read ahead on their own are faster (measured: by a quarter to a third, also where pages are small). */
ALWAYS_INLINE void F(add_columns)(const struct lane *lane, int objective, int count, int n_queries, int64_t n) {
    const int beside = n_queries == 1 ? BESIDE : 2;
    int64_t i = 0;
    for (; n - i >= beside * LANES_f64; i += beside * LANES_f64) F(add_vectors)(lane, objective, i, count, n_queries, beside);
    for (; n - i >= LANES_f64; i += LANES_f64) F(add_vectors)(lane, objective, i, count, n_queries, 1);
    for (; i < n; i++)
        for (int q = 0; q < n_queries; q++) {
            double sum = lane->sums[q * lane->of_query + i];
            for (int c = 0; c < count; c++) {
                LOAD_UNALIGNED(REAL, x, lane->a + c * lane->step + i * (int64_t)sizeof(REAL));
                LOAD_UNALIGNED(double, y, lane->b + c * lane->next_b + q);
                sum += objective == BM_SQUARES ? (x - y) * (x - y) : x * y;
                IN_ORDER(sum);
            }
            lane->sums[q * lane->of_query + i] = sum;
        }
}

/* The same for up to ABREAST columns: all of them, or four or one at a time */
ALWAYS_INLINE void F(add_for_some)(struct lane lane, int objective, int count, int n_queries, int64_t n) {
    while (count > 0) {
        const int some = count == ABREAST ? ABREAST : count >= 4 ? 4 : 1;
        if (some == ABREAST)
            F(add_columns)(&lane, objective, ABREAST, n_queries, n);
        else if (some == 4)
            F(add_columns)(&lane, objective, 4, n_queries, n);
        else
            F(add_columns)(&lane, objective, 1, n_queries, n);
        lane.a += some * lane.step, lane.b += some * lane.next_b, count -= some;
    }
}

#define FOR_QUERIES(objective, n_queries)                                                               \
    NEVER_INLINE void F(add_##objective##_##n_queries)(const struct lane *lane, int count, int64_t n) { \
        F(add_for_some)(*lane, objective, count, n_queries, n);                                         \
    }
FOR_QUERIES(BM_PRODUCTS, 1)
FOR_QUERIES(BM_PRODUCTS, 2)
FOR_QUERIES(BM_PRODUCTS, 4)
FOR_QUERIES(BM_SQUARES, 1)
FOR_QUERIES(BM_SQUARES, 2)
FOR_QUERIES(BM_SQUARES, 4)
#undef FOR_QUERIES

#define ADD_FOR(n)                                      \
    while (n_queries >= n) {                            \
        if (objective == BM_SQUARES)                    \
            F(add_BM_SQUARES_##n)(&some, count, rows);  \
        else                                            \
            F(add_BM_PRODUCTS_##n)(&some, count, rows); \
        n_queries -= n;                                 \
        some.b += n, some.sums += n * some.of_query;    \
    }

static void F(add_some_columns)(const struct lane *lane, int objective, int count, int n_queries, int64_t rows) {
    struct lane some = *lane;
    ADD_FOR(4)
    ADD_FOR(2)
    ADD_FOR(1)
}
#undef ADD_FOR
#endif

#if !IS_FLOAT
#if BM_VECTOR_BYTES
#include "text_tiles.h"

/* Add the terms of n rows from `a` on with columns `from` to `to`, at most a stretch, to the `sums` of each query */
static void add_stretch(const struct bm_columns *m, int objective, const char *a, int64_t n, const double *b, int n_queries,
                        int64_t from, int64_t to, double *room, double *sums) {
    double *const wide = room + n_queries * N_SUMS * n;
    const int64_t gap = m->column_stride;
    struct lane lane = {.step = N_SUMS * gap, .next_b = N_SUMS * n_queries, .of_query = N_SUMS * n};
    memset(room, 0, (size_t)(n_queries * N_SUMS * n) * sizeof *room);
    for (int64_t group = from; group < to; group += ABREAST * N_SUMS)
        for (int l = 0; l < N_SUMS && group + l < to; l++) {
            const int64_t j = group + l, n_left = (to - j + N_SUMS - 1) / N_SUMS;
            const int count = n_left < ABREAST ? (int)n_left : ABREAST;
            const char *at = a + j * gap;
            lane.a = at, lane.b = b + j * n_queries, lane.sums = room + l * n, lane.step = N_SUMS * gap;
            if (m->dtype == BM_F32 && m->row_stride == sizeof(float))
                add_some_columns_f32(&lane, objective, count, n_queries, n);
            else if (m->dtype == BM_F64 && m->row_stride == sizeof(double))
                add_some_columns_f64(&lane, objective, count, n_queries, n);
            else if (m->dtype == BM_F32 || (m->dtype >= BM_F16 && m->dtype <= BM_U16)) {
                /* Their numbers are floats, which take half of the room of doubles. */
                float *const floats = (float *)wide;
                for (int c = 0; c < count; c++) to_f32(m->dtype, at + c * lane.step, m->row_stride, n, floats + c * n);
                lane.a = (const char *)floats, lane.step = n * (int64_t)sizeof *floats;
                add_some_columns_f32(&lane, objective, count, n_queries, n);
            } else {
                for (int c = 0; c < count; c++) to_f64(m->dtype, at + c * lane.step, m->row_stride, n, wide + c * n);
                lane.a = (const char *)wide, lane.step = n * (int64_t)sizeof *wide;
                add_some_columns_f64(&lane, objective, count, n_queries, n);
            }
        }
    /* As sum_in_order does */
    for (int q = 0; q < n_queries; q++) {
        double *const own = room + q * N_SUMS * n;
        for (int64_t half = N_SUMS / 2; half > 0; half /= 2)
            for (int64_t i = 0; i < half * n; i++) own[i] += own[half * n + i];
        for (int64_t i = 0; i < n; i++) sums[q * m->n + i] += own[i];
    }
}
#else
/* The compiler adds up plain numbers as it likes: only row by row they are added as elsewhere. */
static void add_stretch(const struct bm_columns *m, int objective, const char *a, int64_t n, const double *b, int n_queries,
                        int64_t from, int64_t to, double *room, double *sums) {
    const int64_t count = to - from;
    for (int q = 0; q < n_queries; q++) {
        double *const query = room + BM_STRETCH;
        for (int64_t j = 0; j < count; j++) query[j] = b[(from + j) * n_queries + q];
        for (int64_t i = 0; i < n; i++) {
            to_f64(m->dtype, a + i * m->row_stride + from * m->column_stride, m->column_stride, count, room);
            const double *const same[4] = {room, room, room, room};
            double sum[4];
            sums_exact_f64(objective, same, 1, query, count, sum);
            sums[q * m->n + i] += sum[0];
        }
    }
}
#endif

static void columns_exact(const struct bm_columns *m, int objective, const double *b, int n_queries, double *room,
                          double *sums) {
    const int64_t most = BM_COLUMN_ROWS / n_queries, n_blocks = (m->n + most - 1) / most;
    memset(sums, 0, (size_t)(n_queries * m->n) * sizeof *sums);
#if BM_VECTOR_BYTES
    if (are_for_tiles(m, n_queries)) {
        for (int64_t from = 0; from < m->d; from += BM_STRETCH)
            add_tiles(m, objective, b, n_queries, from, m->d - from < BM_STRETCH ? m->d : from + BM_STRETCH, sums);
        return;
    }
#endif
    for (int64_t block = 0; block < n_blocks; block++) {
        const int64_t first = m->n * block / n_blocks, last = m->n * (block + 1) / n_blocks;
        const char *a = (const char *)m->base + first * m->row_stride;
        for (int64_t from = 0; from < m->d; from += BM_STRETCH) {
            const int64_t to = m->d - from < BM_STRETCH ? m->d : from + BM_STRETCH;
            add_stretch(m, objective, a, last - first, b, n_queries, from, to, room, sums + first);
        }
    }
}
#endif
