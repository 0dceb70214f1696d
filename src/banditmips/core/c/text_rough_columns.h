/* Rough products of all rows of a matrix that lies column by column with some queries.
 *
 * Numbers of one, two or four bytes are made floats in registers, once for all queries. Floats are added up for at most
 * BM_LANE_TERMS columns before their sums go on in double; these columns stay in the second cache meanwhile.
 */

/* Some columns, `gap` bytes apart, and numbers of the queries there, one beside the other and those of the next column
 * `n_queries` behind; their sums with each query are `of_query` apart. There is room for a whole vector behind the last sum. */
struct rough_columns {
    const char *a;
    int64_t gap;
    const float *q;
    float *sums;
    int64_t of_query;
    float *squares;
};

/* sums += columns * q, and squares += columns^2, for a vector of rows, or `n` of them. All but places and numbers is a
 * constant wherever this is called, so that sums stay in registers. */
ALWAYS_INLINE void add_rough_vector(const struct rough_columns *of, int dtype, int count, int n_queries, int has_squares,
                                    int64_t i, int64_t n) {
    enum { MOST = BM_COLUMN_QUERIES };
    v_f32 sums[MOST], square = has_squares ? load_f32(of->squares + i) : (v_f32){0};
    UNROLLED for (int q = 0; q < n_queries; q++) sums[q] = load_f32(of->sums + q * of->of_query + i);
    UNROLLED for (int c = 0; c < count; c++) {
        const char *const p = of->a + c * of->gap + i * itemsize_f32(dtype);
        v_f32 x = n == LANES_f32 ? load_of_f32(dtype, p) : load_part_of_f32(dtype, p, n);
        KEEP_LOADED(x);
        UNROLLED for (int q = 0; q < n_queries; q++) {
            LOAD_UNALIGNED(float, y, of->q + c * n_queries + q);
            sums[q] += x * y;
        }
        if (has_squares) square += x * x;
    }
    UNROLLED for (int q = 0; q < n_queries; q++) store_f32(of->sums + q * of->of_query + i, sums[q]);
    if (has_squares) store_f32(of->squares + i, square);
}

/* The same for n rows. With several queries there is enough to do to hide that the columns that follow are asked for, since
 * processors do not guess across pages; with one or two they are faster on their own (measured: by a quarter to a third). */
ALWAYS_INLINE void add_rough_columns(const struct rough_columns *of, int dtype, int count, int n_queries, int has_squares,
                                     int64_t n) {
    const int64_t size = itemsize_f32(dtype), line = 64 / size;
    const int asks = n_queries > 2;
    int64_t i = 0;
    for (; n - i >= LANES_f32; i += LANES_f32) {
        if (asks && i % line == 0)
            for (int c = 0; c < count; c++) PREFETCH_LATER(of->a + (count + c) * of->gap + i * size);
        add_rough_vector(of, dtype, count, n_queries, has_squares, i, LANES_f32);
    }
    if (i < n) add_rough_vector(of, dtype, count, n_queries, has_squares, i, n - i);
}

ALWAYS_INLINE void add_rough_lane(struct rough_columns of, int dtype, int n_queries, int has_squares, int64_t count, int64_t n) {
    enum { ABREAST_ROUGH = 8 };
    for (; count >= ABREAST_ROUGH; count -= ABREAST_ROUGH) {
        add_rough_columns(&of, dtype, ABREAST_ROUGH, n_queries, has_squares, n);
        of.a += ABREAST_ROUGH * of.gap, of.q += ABREAST_ROUGH * n_queries;
    }
    for (; count > 0; count--) {
        add_rough_columns(&of, dtype, 1, n_queries, has_squares, n);
        of.a += of.gap, of.q += n_queries;
    }
}

/* One function for each dtype, number of queries, and whether there are squares: those of several queries come on their own. */
typedef void add_rough(const struct rough_columns *of, int64_t count, int64_t n);
#define ADD_ROUGH(dtype, n_queries, has_squares)                                                                              \
    NEVER_INLINE void add_rough_##dtype##_##n_queries##_##has_squares(const struct rough_columns *of, int64_t count, int64_t n) { \
        add_rough_lane(*of, dtype, n_queries, has_squares, count, n);                                                         \
    }
#define OF_DTYPE(dtype)   \
    ADD_ROUGH(dtype, 0, 1) \
    ADD_ROUGH(dtype, 1, 0) \
    ADD_ROUGH(dtype, 1, 1) \
    ADD_ROUGH(dtype, 2, 0) \
    ADD_ROUGH(dtype, 4, 0) \
    ADD_ROUGH(dtype, 8, 0)
OF_DTYPE(BM_F32)
OF_DTYPE(BM_F16)
OF_DTYPE(BM_I8)
OF_DTYPE(BM_U8)
OF_DTYPE(BM_I16)
OF_DTYPE(BM_U16)
#undef OF_DTYPE
#undef ADD_ROUGH

#define OF_DTYPE(dtype)                                                                                                \
    switch (n_queries) {                                                                                               \
        case 0: return add_rough_##dtype##_0_1;                                                                        \
        case 1: return has_squares ? add_rough_##dtype##_1_1 : add_rough_##dtype##_1_0;                                \
        case 2: return add_rough_##dtype##_2_0;                                                                        \
        case 4: return add_rough_##dtype##_4_0;                                                                        \
        default: return add_rough_##dtype##_8_0;                                                                       \
    }
static add_rough *rough_for(int dtype, int n_queries, int has_squares) {
    switch (dtype) {
        case BM_F16: OF_DTYPE(BM_F16)
        case BM_I8: OF_DTYPE(BM_I8)
        case BM_U8: OF_DTYPE(BM_U8)
        case BM_I16: OF_DTYPE(BM_I16)
        case BM_U16: OF_DTYPE(BM_U16)
        default: OF_DTYPE(BM_F32)
    }
}
#undef OF_DTYPE

#if BM_VECTOR_BYTES
/* The same for BM_COLUMN_QUERIES, of a tile of rows: two vectors, whose sums stay in registers for BM_LANE_TERMS columns. There
 * are so many columns at a time that what follows, the next tile's, is still near when it is wanted. (With four queries that
 * takes a fifth longer from memory.) */
enum { ROUGH_TILE = 2 * LANES_f32, TILE_COLUMNS = 2048 };

struct rough_tile {
    const char *a;
    int64_t gap, count;
    const float *q;
    int64_t next_q;
};

/* wide[q * ROUGH_TILE + i] += product of query q with row i. All but places and numbers is a constant wherever this is called. */
ALWAYS_INLINE void add_rough_tile(const struct rough_tile *of, int dtype, int n_queries, double *wide) {
    const int64_t size = itemsize_f32(dtype);
    const char *p = of->a;
    const float *y = of->q;
    for (int64_t left = of->count; left > 0; left -= BM_LANE_TERMS) {
        v_f32 sums[MOST_AT_ONCE][2];
        UNROLLED for (int q = 0; q < n_queries; q++) sums[q][0] = sums[q][1] = (v_f32){0};
        for (int64_t c = left < BM_LANE_TERMS ? left : BM_LANE_TERMS; c > 0; c--, p += of->gap, y += of->next_q) {
            v_f32 x0 = load_of_f32(dtype, p), x1 = load_of_f32(dtype, p + LANES_f32 * size);
            KEEP_LOADED(x0); /* once for all queries */
            KEEP_LOADED(x1);
            for (int64_t at = 2 * ROUGH_TILE * size - 1; at >= ROUGH_TILE * size; at -= 64) PREFETCH_LATER(p + at);
            UNROLLED for (int q = 0; q < n_queries; q++) {
                LOAD_UNALIGNED(float, same, y + q);
                sums[q][0] += x0 * same;
                sums[q][1] += x1 * same;
            }
        }
        UNROLLED for (int q = 0; q < n_queries; q++)
            UNROLLED for (int v = 0; v < 2; v++) {
                double *const own = wide + q * ROUGH_TILE + v * LANES_f32;
                half_f32 halves[2];
                memcpy(halves, &sums[q][v], sizeof halves);
                store_f64(own, load_f64(own) + wide_f32(halves[0]));
                store_f64(own + LANES_f64, load_f64(own + LANES_f64) + wide_f32(halves[1]));
            }
    }
}

/* As many queries at once as there are registers for */
NEVER_INLINE void add_some_rough(const struct rough_tile *of, int dtype, double *wide) {
    switch (dtype) {
        case BM_F16: add_rough_tile(of, BM_F16, MOST_AT_ONCE, wide); break;
        case BM_I8: add_rough_tile(of, BM_I8, MOST_AT_ONCE, wide); break;
        case BM_U8: add_rough_tile(of, BM_U8, MOST_AT_ONCE, wide); break;
        case BM_I16: add_rough_tile(of, BM_I16, MOST_AT_ONCE, wide); break;
        case BM_U16: add_rough_tile(of, BM_U16, MOST_AT_ONCE, wide); break;
        default: add_rough_tile(of, BM_F32, MOST_AT_ONCE, wide);
    }
}

/* Add the products of n rows, as many as a tile has at least, to wide[q * of_query + i]. The last tile goes back to be whole. */
static void add_rough_tiles(const struct rough_tile *all, int dtype, int64_t n, double *wide, int64_t of_query) {
    for (int64_t i = 0; i < n; i += ROUGH_TILE) {
        const int64_t first = i + ROUGH_TILE <= n ? i : n - ROUGH_TILE;
        double found[MOST_AT_ONCE * ROUGH_TILE];
        for (int done = 0; done < BM_COLUMN_QUERIES; done += MOST_AT_ONCE) {
            struct rough_tile of = *all;
            of.a += first * itemsize_f32(dtype), of.q += done;
            memset(found, 0, sizeof found);
            add_some_rough(&of, dtype, found);
            for (int q = 0; q < MOST_AT_ONCE; q++)
                for (int64_t r = i - first; r < ROUGH_TILE; r++)
                    wide[(done + q) * of_query + first + r] += found[q * ROUGH_TILE + r];
        }
    }
}
#endif

static void columns_rough(const struct bm_columns *m, const float *q, int n_queries, double *room, float *out, float *squares) {
    const int64_t most = BM_ROUGH_ROWS / n_queries, n_blocks = (m->n + most - 1) / most;
    const int has_squares = squares && n_queries == 1;
    add_rough *const of_products = rough_for(m->dtype, n_queries, has_squares);
    add_rough *const of_squares = squares && !has_squares ? rough_for(m->dtype, 0, 1) : NULL;
    for (int64_t block = 0; block < n_blocks; block++) {
        const int64_t first = m->n * block / n_blocks, n = m->n * (block + 1) / n_blocks - first;
        const int64_t padded = (n + LANES_f32 - 1) / LANES_f32 * LANES_f32, n_sums = padded * (n_queries + (squares != NULL));
        double *const wide = room, *const wide_squares = wide + n_queries * padded;
        float *const sums = (float *)(wide + n_sums);
        struct rough_columns of = {.gap = m->column_stride, .sums = sums, .of_query = padded, .squares = sums + n_queries * padded};
        memset(wide, 0, (size_t)n_sums * sizeof *wide);
        int in_tiles = 0;
#if BM_VECTOR_BYTES
        in_tiles = n_queries == BM_COLUMN_QUERIES && n >= ROUGH_TILE;
        for (int64_t from = 0; in_tiles && from < m->d; from += TILE_COLUMNS) {
            struct rough_tile tile = {.gap = m->column_stride, .next_q = n_queries, .q = q + from * n_queries};
            tile.a = (const char *)m->base + first * m->row_stride + from * m->column_stride;
            tile.count = m->d - from < TILE_COLUMNS ? m->d - from : TILE_COLUMNS;
            add_rough_tiles(&tile, m->dtype, n, wide, padded);
        }
#endif
        for (int64_t from = 0; (!in_tiles || of_squares) && from < m->d; from += BM_LANE_TERMS) {
            const int64_t count = m->d - from < BM_LANE_TERMS ? m->d - from : BM_LANE_TERMS;
            of.a = (const char *)m->base + first * m->row_stride + from * m->column_stride, of.q = q + from * n_queries;
            memset(sums, 0, (size_t)n_sums * sizeof *sums);
            if (!in_tiles) of_products(&of, count, n);
            if (of_squares) of_squares(&of, count, n);
            for (int64_t i = 0; i < n_sums; i++) wide[i] += sums[i];
        }
        for (int query = 0; query < n_queries; query++)
            for (int64_t i = 0; i < n; i++) out[query * m->n + first + i] = (float)wide[query * padded + i];
        for (int64_t i = 0; squares && i < n; i++) squares[first + i] = (float)wide_squares[i];
    }
}
