/* Exact sums of tiles of a matrix that lies column by column, with several queries: as many rows as a few vectors hold.
 *
 * Of a stretch, the columns of one lane of the sums come one after another, so that the sums of a tile stay in registers,
 * and what is loaded of a column serves all queries. They are added in the order of sums_of, to the bit.
 */

/* Vectors of rows: all their sums with so many queries stay in registers */
ALWAYS_INLINE int tile_vectors(int n_queries) { return BM_VECTOR_BYTES == 64 && n_queries < 8 ? 4 : 2; }

/* Some columns, `gap` bytes apart, from the first row of a tile on, and numbers of queries there: one beside the other, and
 * those of the next column `next_b` behind */
struct tile {
    const char *a;
    int64_t gap, count;
    const double *b;
    int64_t next_b;
};

ALWAYS_INLINE int is_wide(int dtype) { return dtype == BM_F64 || dtype == BM_I32 || dtype == BM_I64; }
ALWAYS_INLINE int64_t tile_itemsize(int dtype) { return is_wide(dtype) ? itemsize_f64(dtype) : itemsize_f32(dtype); }

ALWAYS_INLINE void load_tile(int dtype, const char *p, int n_vectors, v_f64 *x) {
    UNROLLED for (int v = 0; v < n_vectors; v += 2) {
        const char *const two = p + v * LANES_f64 * tile_itemsize(dtype);
        if (is_wide(dtype)) {
            x[v] = load_of_f64(dtype, two), x[v + 1] = load_of_f64(dtype, two + LANES_f64 * tile_itemsize(dtype));
        } else if (dtype == BM_F32) {
            x[v] = load_wide_f32((const float *)two), x[v + 1] = load_wide_f32((const float *)two + LANES_f64);
        } else {
            const v_f32 floats = load_of_f32(dtype, two);
            half_f32 halves[2];
            memcpy(halves, &floats, sizeof floats);
            x[v] = wide_f32(halves[0]), x[v + 1] = wide_f32(halves[1]);
        }
        KEEP_LOADED(x[v]); /* once for all queries */
        KEEP_LOADED(x[v + 1]);
    }
}

/* What a stretch adds to the sums of a tile with each query. Types, objective and the number of queries are constants
 * wherever this is called. The next tile's numbers are on their way meanwhile, if it `asks` for them: there is enough to
 * do to hide that. */
ALWAYS_INLINE void sum_tile(const struct tile *of, int dtype, int objective, int n_queries, int asks, double *out) {
    enum { MOST_VECTORS = 4, MOST_SUMS = 16 };
    const int n_vectors = tile_vectors(n_queries), n_sums = n_queries * n_vectors;
    const int64_t line = n_vectors * LANES_f64 * tile_itemsize(dtype);
    v_f64 lanes[N_SUMS][MOST_SUMS];
    for (int l = 0; l < N_SUMS; l++) {
        v_f64 sums[MOST_SUMS];
        UNROLLED for (int s = 0; s < n_sums; s++) sums[s] = (v_f64){0};
        const char *p = of->a + l * of->gap;
        const double *b = of->b + l * of->next_b;
        for (int64_t j = l; j < of->count; j += N_SUMS, p += N_SUMS * of->gap, b += N_SUMS * of->next_b) {
            v_f64 x[MOST_VECTORS];
            load_tile(dtype, p, n_vectors, x);
            for (int64_t at = 2 * line - 1; asks && at >= line; at -= 64) PREFETCH_LATER(p + at);
            UNROLLED for (int q = 0; q < n_queries; q++) {
                LOAD_UNALIGNED(double, y, b + q);
                UNROLLED for (int v = 0; v < n_vectors; v++) {
                    sums[q * n_vectors + v] += terms_f64(objective, x[v], (v_f64){0} + y);
                    IN_ORDER(sums[q * n_vectors + v]);
                }
            }
        }
        UNROLLED for (int s = 0; s < n_sums; s++) lanes[l][s] = sums[s];
    }
    /* As sum_in_order does */
    for (int half = N_SUMS / 2; half > 0; half /= 2) {
        KEEP_IN_MEMORY(lanes);
        for (int l = 0; l < half; l++)
            for (int s = 0; s < n_sums; s++) lanes[l][s] += lanes[half + l][s];
    }
    for (int s = 0; s < n_sums; s++) store_f64(out + s * LANES_f64, lanes[0][s]);
}

typedef void sum_some(const struct tile *of, int asks, double *out);
#define SUM_TILE(dtype, objective, n_queries)                                                                          \
    NEVER_INLINE void sum_##dtype##_##objective##_##n_queries(const struct tile *of, int asks, double *out) {           \
        if (asks)                                                                                                      \
            sum_tile(of, dtype, objective, n_queries, 1, out);                                                         \
        else                                                                                                           \
            sum_tile(of, dtype, objective, n_queries, 0, out);                                                         \
    }
#if BM_VECTOR_BYTES == 64
#define OF_QUERIES(WITH, dtype, objective) \
    WITH(dtype, objective, 1) WITH(dtype, objective, 2) WITH(dtype, objective, 4) WITH(dtype, objective, 8)
#else
#define OF_QUERIES(WITH, dtype, objective) WITH(dtype, objective, 1) WITH(dtype, objective, 2) WITH(dtype, objective, 4)
#endif
#define OF_OBJECTIVES(WITH, dtype) OF_QUERIES(WITH, dtype, BM_PRODUCTS) OF_QUERIES(WITH, dtype, BM_SQUARES)
#define OF_DTYPES(WITH)                                                                                              \
    OF_OBJECTIVES(WITH, BM_F32) OF_OBJECTIVES(WITH, BM_F64) OF_OBJECTIVES(WITH, BM_F16) OF_OBJECTIVES(WITH, BM_I8)  \
    OF_OBJECTIVES(WITH, BM_U8) OF_OBJECTIVES(WITH, BM_I16) OF_OBJECTIVES(WITH, BM_U16) OF_OBJECTIVES(WITH, BM_I32)  \
    OF_OBJECTIVES(WITH, BM_I64)
OF_DTYPES(SUM_TILE)

static sum_some *sum_for(int dtype, int objective, int n_queries) {
#define IF_ASKED(of_dtype, of_objective, of_queries)                                      \
    if (dtype == of_dtype && objective == of_objective && n_queries == of_queries) \
        return sum_##of_dtype##_##of_objective##_##of_queries;
    OF_DTYPES(IF_ASKED)
#undef IF_ASKED
    return NULL;
}
#undef OF_DTYPES
#undef OF_OBJECTIVES
#undef OF_QUERIES
#undef SUM_TILE

/* Add the terms of columns `from` to `to`, at most a stretch, to the sums of all rows with each query. There are as many
 * rows as a tile has at least: the last tile goes back to make that many. */
static void add_tiles(const struct bm_columns *m, int objective, const double *b, int n_queries, int64_t from, int64_t to,
                      double *sums) {
    struct tile of = {.gap = m->column_stride, .count = to - from, .next_b = n_queries};
    const int64_t rows = tile_vectors(n_queries) * LANES_f64;
    double found[MOST_AT_ONCE * 4 * LANES_f64];
    for (int64_t i = 0; i < m->n; i += rows) {
        const int64_t first = i + rows <= m->n ? i : m->n - rows;
        of.a = (const char *)m->base + first * m->row_stride + from * m->column_stride;
        for (int done = 0, some; done < n_queries; done += some) {
            for (some = MOST_AT_ONCE; some > n_queries - done;) some /= 2;
            of.b = b + from * n_queries + done;
            sum_for(m->dtype, objective, some)(&of, done == 0, found);
            for (int q = 0; q < some; q++)
                for (int64_t r = i - first; r < rows; r++) sums[(done + q) * m->n + first + r] += found[q * rows + r];
        }
    }
}

/* Whether that takes less than going column by column: not of floats with one or two queries, since processors read ahead
 * along columns; other numbers are converted in registers here, and there before. */
static int are_for_tiles(const struct bm_columns *m, int n_queries) {
    const int is_float = m->dtype == BM_F32 || m->dtype == BM_F64;
    const int is_other = m->dtype >= BM_F16 && m->dtype <= BM_U16 ? 1 : m->dtype == BM_I32 || m->dtype == BM_I64;
    return (is_other || (is_float && n_queries > 2)) && m->row_stride == tile_itemsize(m->dtype) &&
           m->n >= tile_vectors(n_queries) * LANES_f64;
}
