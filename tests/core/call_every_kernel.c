/* Calls every kernel of one target on arrays that end exactly where they have to, at sizes that fit no vector, for a
 * build with the address and undefined-behaviour sanitizers. What the kernels compute is compared elsewhere. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels.h"

static const int64_t SIZES[] = {0, 1, 7, 8, 15, 16, 17, 63, 64, 65, 1000, 4097};
enum { N_SIZES = sizeof SIZES / sizeof SIZES[0] };

/* An array of that many bytes, `offset` bytes behind an aligned address; its end is the end of the allocation. */
static void *block_of(void **blocks, int *n_blocks, int64_t bytes, int64_t offset) {
    unsigned char *p = malloc((size_t)(bytes + offset));
    if (!p && bytes + offset > 0) abort();
    for (int64_t i = 0; i < bytes + offset; i++) p[i] = (unsigned char)(37 * i + 11 * (i >> 8));
    blocks[(*n_blocks)++] = p;
    return p + offset;
}

/* Some rows of a matrix by column: all of them, or every third */
static void call_turning(const struct bm_kernels *k, const float *floats, const double *doubles, int64_t n) {
    for (int64_t rows = n > BM_NEIGHBOURS ? BM_NEIGHBOURS : n; rows > 0; rows--) {
        void *blocks[2 * BM_NEIGHBOURS];
        int n_blocks = 0;
        struct bm_neighbours some = {0, rows, 0, {0}}, others = {0, rows, 0, {0}};
        const int64_t d = n / rows;
        for (int64_t r = 0; r < rows; r++) {
            if (rows <= 7 && r % 3) continue;
            some.n_wanted++, others.n_wanted++;
            some.rows[r] = block_of(blocks, &n_blocks, (int64_t)sizeof(float) * d, 0);
            others.rows[r] = block_of(blocks, &n_blocks, (int64_t)sizeof(double) * d, 0);
        }
        k->turn_some_f32(floats, (int64_t)sizeof(float) * rows, d, &some, 1, 0);
        k->turn_some_f64(doubles, (int64_t)sizeof(double) * rows, d, &others, 1, 0);
        if (d > 2) k->turn_some_f32(floats, (int64_t)sizeof(float) * rows, d - 2, &some, 1, 2); /* behind what is there */
        while (n_blocks) free(blocks[--n_blocks]);
    }
}

static double call_bytes(const struct bm_kernels *k, const float *v, int64_t n) {
    void *blocks[16];
    int n_blocks = 0;
#define NEW(type, count) ((type *)block_of(blocks, &n_blocks, (int64_t)sizeof(type) * (count), 0))
    const int64_t n_fours = (n + 3) / 4, pitch = (n + 63) / 64 * 64;
    int32_t *own = NEW(int32_t, n);
    for (int64_t j = 0; j < n; j++) own[j] &= 0xffff;
    const struct bm_dither dither = {own, NEW(uint8_t, n)};
    struct bm_bytes known[BM_BYTE_ATOMS];
    int8_t *rows = NEW(int8_t, pitch * BM_BYTES_ABREAST);
    for (int i = 0; i < BM_BYTES_ABREAST; i++) k->row_bytes(v, n, &dither, v, rows + i * pitch, &known[i]);
    double *products = NEW(double, BM_BYTES_ABREAST * BM_BYTE_QUERIES);
    memset(products, 0, BM_BYTES_ABREAST * BM_BYTE_QUERIES * sizeof *products);
    double numbers[BM_BYTE_QUERIES] = {0};
    struct bm_byte_queries queries = {NULL, numbers, numbers, n_fours, 0};
    const struct bm_byte_layout by_row = {pitch, 4}, by_column = {4, 4 * BM_BYTE_ATOMS};
    for (queries.n_groups = 1; queries.n_groups <= 4; queries.n_groups++) {
        queries.bytes = NEW(uint8_t, 64 * n_fours * queries.n_groups);
        const struct bm_fetched next = {(const char *)v, n * (int64_t)sizeof *v, n * (int64_t)sizeof *v, queries.n_groups};
        k->byte_products(rows, &by_row, known, &queries, &next, products);
    }
    float *columns = NEW(float, n * BM_BYTE_ATOMS), *room = NEW(float, n * BM_BYTE_ATOMS);
    double *wide = NEW(double, n * 5);
    memset(columns, 0, (size_t)(n * BM_BYTE_ATOMS) * sizeof *columns);
    memset(wide, 0, (size_t)(n * 5) * sizeof *wide);
    k->copy_columns_f64(wide, 5 * sizeof *wide, 5, n, room);
    k->copy_columns_f32(columns, BM_BYTE_ATOMS * sizeof *columns, BM_BYTE_ATOMS, n, room);
    int32_t *fours = NEW(int32_t, n_fours * BM_BYTE_ATOMS);
    k->column_bytes(room, n, &dither, columns, BM_BYTE_ATOMS * sizeof *columns, fours, known);
    queries.n_groups = 4;
    const struct bm_fetched nothing = {0};
    k->byte_products(fours + BM_BYTE_ATOMS - BM_BYTES_ABREAST, &by_column, known, &queries, &nothing, products);
    const double sum = products[0];
    while (n_blocks > 0) free(blocks[--n_blocks]);
#undef NEW
    return sum;
}

static double call_intervals(const struct bm_kernels *k, int64_t n) {
    void *blocks[16];
    int n_blocks = 0;
#define NEW(type, count) ((type *)block_of(blocks, &n_blocks, (int64_t)sizeof(type) * (count), 0))
    double *middle = NEW(double, n), *radius = NEW(double, n), *lower = NEW(double, n), *known = NEW(double, n);
    float *along = NEW(float, BM_MOST_AXES * n);
    int64_t *rows = NEW(int64_t, n), *sums = NEW(int64_t, n);
    uint8_t *beaten = NEW(uint8_t, n);
    for (int64_t t = 0; t < n; t++) {
        known[t] = (double)(t % 7), rows[t] = n - 1 - t, sums[t] = t;
        for (int j = 0; j < BM_MOST_AXES; j++) along[j * n + t] = (float)(t % 5);
    }
    const struct bm_certain certain = {known, known, known, along, n};
    const struct bm_certain_query query = {1, 2, 3, {1, 2, 3, 4, 5, 6, 7, 8}, BM_MOST_AXES};
    const struct bm_code_round signs = {along, along, NULL, NULL, known, 2, 3, 64, 1, 1, 1, 1, 1, 63, 5, 1};
    const struct bm_code_round all_bits = {along, along, along, along, known, 2, 3, 64, 1, 1, 1, 1, 1, 63, 5, 1};
    int64_t count = 0;
    for (int some = 0; some <= 1; some++) {
        const int64_t *const wanted = some ? rows : NULL;
        k->certain_intervals(&certain, &query, wanted, 0, n, middle, radius);
        k->code_estimates(&signs, wanted, n, sums, middle);
        k->code_radii(&signs, wanted, n, radius);
        k->code_radii(&all_bits, wanted, n, radius);
        k->give_up_overflowed(middle, radius, n);
        k->lower_ends(middle, radius, n, some, lower);
        count += k->mark_beaten(middle, radius, n, some, 0.5, 1, beaten);
        const struct bm_ranked ranked = {some ? known : NULL, some ? known : NULL, 1, 0.5, 1, 2, 3, some};
        k->root_sums(known, 1, known, 1, n, radius);
        k->score_ends(middle, radius, n, &ranked, lower, middle);
    }
    while (n_blocks > 0) free(blocks[--n_blocks]);
#undef NEW
    return (double)count;
}

static void call_rough_columns(const struct bm_kernels *k, int64_t n, int64_t offset) {
    const int dtypes[] = {BM_F32, BM_F16, BM_I8, BM_U8, BM_I16, BM_U16}, sizes[] = {4, 2, 1, 1, 2, 2};
    for (int t = 0; t < 6; t++)
        for (int m = 1; m <= 8; m *= 2)
            for (int has_squares = 0; has_squares <= 1; has_squares++) {
                void *blocks[5];
                int n_blocks = 0;
#define NEW(type, count, off) ((type *)block_of(blocks, &n_blocks, (int64_t)sizeof(type) * (count), off))
                const int64_t rows = n ? 1000 / n + 1 : 5, size = sizes[t];
                const struct bm_columns columns = {NEW(char, rows * n * size, offset), size, rows * size, rows, n, dtypes[t]};
                double *const room = NEW(double, 3 * m * (rows + BM_ROUGH_PADDING), 0);
                float *const squares = has_squares ? NEW(float, rows, 0) : NULL;
                k->columns_rough(&columns, NEW(float, n * m, offset), m, room, NEW(float, m * rows, 0), squares);
                while (n_blocks > 0) free(blocks[--n_blocks]);
#undef NEW
            }
}

static void call_exact_columns(const struct bm_kernels *k, int64_t n, int64_t offset) {
    const int dtypes[] = {BM_F32, BM_F64, BM_F16, BM_I8, BM_U8, BM_I16, BM_U16, BM_I32, BM_U32, BM_I64};
    const int sizes[] = {4, 8, 2, 1, 1, 2, 2, 4, 4, 8};
    for (int t = 0; t < 10; t++)
        for (int m = 1; m <= BM_COLUMN_QUERIES; m++) {
            void *blocks[4];
            int n_blocks = 0;
#define NEW(type, count, off) ((type *)block_of(blocks, &n_blocks, (int64_t)sizeof(type) * (count), off))
            const int64_t rows = 1 + n % 70, size = sizes[t], room = BM_COLUMN_ROOM * rows * BM_COLUMN_QUERIES;
            const struct bm_columns columns = {NEW(char, rows * n * size, offset), size, rows * size, rows, n, dtypes[t]};
            double *const at_hand = NEW(double, room < 2 * BM_STRETCH ? 2 * BM_STRETCH : room, 0);
            k->columns_exact(&columns, m % 2 ? BM_PRODUCTS : BM_SQUARES, NEW(double, n * m, offset), m, at_hand, NEW(double, m * rows, 0));
            while (n_blocks > 0) free(blocks[--n_blocks]);
#undef NEW
        }
}

static void call_panels(const struct bm_kernels *k, const float *a, const double *c, int64_t n, int64_t offset) {
    for (int64_t rows = 1; rows <= 14 && rows <= n; rows++) /* as many numbers of each row as fit */
        for (int vectors = 1; vectors <= 2; vectors++) {
            void *blocks[4];
            int n_blocks = 0;
#define NEW(type, count, off) ((type *)block_of(blocks, &n_blocks, (int64_t)sizeof(type) * (count), off))
            const int64_t size = n / rows, wide = vectors * k->panel_lanes_f32, narrow = vectors * k->panel_lanes_f64;
            const struct bm_panel f32 = {a, NEW(float, size * wide, offset), NULL, size, wide, size, wide, 0};
            const struct bm_panel f64 = {c, NEW(double, size * narrow, offset), c, size, narrow, size, narrow, 1};
            k->panel_products_f32(&f32, rows, vectors, NEW(float, rows * wide, offset));
            k->panel_products_f64(&f64, rows, vectors, NEW(double, rows * narrow, offset));
            while (n_blocks > 0) free(blocks[--n_blocks]);
#undef NEW
        }
}

static double call_all(const struct bm_kernels *k, int64_t n, int64_t offset) {
    void *blocks[96];
    int n_blocks = 0;
#define NEW(type, count, off) ((type *)block_of(blocks, &n_blocks, (int64_t)sizeof(type) * (count), off))
    const int64_t words = (n + 63) / 64;
    float *a = NEW(float, n, offset), *b = NEW(float, n, offset);
    double *c = NEW(double, n, offset), *e = NEW(double, n, offset);
    /* Floats as good as random bits would be NaN and subnormal; these are plain. */
    for (int64_t j = 0; j < n; j++) {
        const float x = (float)(j % 17) - 8.5f, y = (float)(j % 23) / 7;
        const double z = x, u = y;
        memcpy(a + j, &x, sizeof x);
        memcpy(b + j, &y, sizeof y);
        memcpy(c + j, &z, sizeof z);
        memcpy(e + j, &u, sizeof u);
    }
    struct bm_moments moments;
    double three[3], sum = 0;
    double *in_double = NEW(double, n, 0);
    k->moments_f32(a, n, in_double, &moments);
    k->moments_f64(c, n, NULL, &moments);
    sum += k->dot_f32(a, b, n) + k->dot_f64(c, e, n) + k->dot_exact_f32(a, c, n) + k->dot_exact_f64(c, e, n);
    const float *four_f32[] = {a, b, b, a};
    const double *four_f64[] = {c, e, e, c};
    double four[4];
    float *products_f32 = NEW(float, 9, 0);
    double *products_f64 = NEW(double, 9, 0);
    float *squares_f32 = NEW(float, 9, 0);
    double *squares_f64 = NEW(double, 9, 0);
    for (int64_t rows = n > 9 ? 9 : n; rows >= 0; rows--) { /* as many rows as fit, of all columns or a part of them */
        const int64_t d = rows ? n / rows : n;
        k->products_f32(a, (int64_t)sizeof *a * d, rows, b, d, products_f32, NULL);
        k->products_f32(a, (int64_t)sizeof *a * d, rows, b, d, products_f32, squares_f32);
        k->products_f64(c, (int64_t)sizeof *c * d, rows, e, d, products_f64, squares_f64);
    }
    sum += k->largest_f32(a, n, 1) + k->largest_f64(c, n, 0);
    double *maxima = NEW(double, 2 * k->panel_lanes_f32, 0), *reaching = NEW(double, n, 0);
    k->group_maxima_f32(a, n, 0, 2 * k->panel_lanes_f32, maxima);
    k->group_maxima_f64(c, n, 1, 2 * k->panel_lanes_f64, maxima);
    sum += (double)k->those_reaching_f32(a, n, 1, 2, reaching) + (double)k->those_reaching_f64(c, n, 0, -1, reaching);
    int64_t *who = NEW(int64_t, n, 0);
    sum += (double)k->places_reaching_f32(a, n, 0, 0.1, who) + (double)k->places_reaching_f64(c, n, 1, 3, who);
    call_panels(k, a, c, n, offset);
    for (int objective = BM_PRODUCTS; objective <= BM_SIZES; objective++)
        for (int count = 1; count <= 4; count++) {
            k->sums_exact_f32(objective, four_f32, count, c, n, four);
            k->sums_exact_f64(objective, four_f64, count, c, n, four);
            sum += four[count - 1];
            if (count == 3 || n > BM_STRETCH) continue; /* parts of a stretch are for 1, 2 or 4 queries */
            double lanes[4 * BM_SUMS] = {0}, added[4] = {0};
            const double *const some[4] = {c, e, c, e};
            k->add_part_f32(objective, a, some, count, n, lanes);
            k->add_part_f64(objective, e, some, count, n, lanes);
            const float *const floats[4] = {a, b, a, b};
            k->add_part_of_floats(objective, b, floats, count, n, lanes);
            k->end_stretch(lanes, count, added);
            sum += added[count - 1];
        }
    for (int dtype = BM_F32; dtype <= BM_F64; dtype++) /* contiguous columns, and some with a gap after each number */
        for (int64_t gap = 0; gap <= 1; gap++) {
            const int64_t size = dtype == BM_F32 ? 4 : 8, rows = n ? 1000 / n + 1 : 5, stride = size + gap;
            const int64_t bytes = n ? rows * n * stride - gap : 0, room = 24 * (rows < 8192 ? rows : 8192);
            const struct bm_columns m = {NEW(char, bytes, offset), stride, rows * stride, rows, n, dtype};
            k->columns_exact(&m, gap ? BM_PRODUCTS : BM_SQUARES, c, 1, NEW(double, room < 2 * BM_STRETCH ? 2 * BM_STRETCH : room, 0), NEW(double, rows, 0));
            if (dtype == BM_F32 && !gap)
                k->columns_moments_f32(m.base, m.column_stride, rows, n, NEW(double, rows, 0), NEW(double, rows, 0));
            if (dtype == BM_F64 && !gap)
                k->columns_moments_f64(m.base, m.column_stride, rows, n, NEW(double, rows, 0), NEW(double, rows, 0));
        }
    call_rough_columns(k, n, offset);
    call_exact_columns(k, n, offset);
    double twelve[12], tiles[3][4] = {{0}};
    const unsigned char *halves = NEW(unsigned char, 2 * n, offset), *bytes = NEW(unsigned char, n, offset);
    const void *rows_f32[] = {a, b, b, a}, *rows_f64[] = {c, e, e, c};
    const void *rows_f16[] = {halves, halves, halves, halves}, *rows_of_bytes[] = {bytes, bytes, bytes, bytes};
    float *three_queries = NEW(float, 3 * n, offset);
    double *wide_queries = NEW(double, 3 * n, offset);
    for (int objective = BM_PRODUCTS; objective <= BM_MOMENTS; objective++) {
        k->rough_sums_f32(objective, BM_F32, rows_f32, b, n, twelve);
        k->rough_sums_f32(objective, BM_F16, rows_f16, b, n, twelve);
        k->rough_sums_f32(objective, BM_I8, rows_of_bytes, b, n, twelve);
        k->rough_sums_f32(objective, BM_U8, rows_of_bytes, b, n, twelve);
        k->rough_sums_f32(objective, BM_I16, rows_f16, b, n, twelve);
        k->rough_sums_f32(objective, BM_U16, rows_f16, b, n, twelve);
        k->rough_sums_f64(objective, BM_F64, rows_f64, e, n, twelve);
        k->rough_sums_f64(objective, BM_I32, rows_f32, e, n, twelve);
        k->rough_sums_f64(objective, BM_U32, rows_f32, e, n, twelve);
        k->rough_sums_f64(objective, BM_I64, rows_f64, e, n, twelve);
        k->rough_sums_f64(objective, BM_U64, rows_f64, e, n, twelve);
        if (objective == BM_MOMENTS) continue;
        k->rough_tiles_f32(objective, four_f32, three_queries, n, 3, n, tiles[0], 4);
        k->rough_tiles_f64(objective, four_f64, wide_queries, n, 3, n, tiles[0], 4);
    }
    struct bm_look seen;
    if (n > 0) k->look_f32(a, n, 0.5, NULL, &seen, NULL);
    if (n > 0) k->look_f64(c, n, 0.5, NULL, &seen, NULL);
    int64_t *places = NEW(int64_t, n, 0);
    sum += k->largest_lower(c, e, n, 1) + (double)k->reaching(c, e, n, 1, 5.0, places);

    static const int64_t ITEM[] = {4, 8, 2, 1, 1, 2, 2, 4, 4, 8, 8};
    float *floats = NEW(float, n, 0);
    double *doubles = NEW(double, n, 0);
    int64_t *coordinates = NEW(int64_t, n, 0);
    for (int64_t j = 0; j < n; j++) coordinates[j] = n - 1 - j;
    for (int dtype = BM_F32; dtype <= BM_U64; dtype++) {
        for (int64_t step = 1; step <= 2; step++) { /* contiguous, and with a byte between */
            const int64_t stride = ITEM[dtype] + step - 1, bytes = n ? (n - 1) * stride + ITEM[dtype] : 0;
            const unsigned char *source = NEW(unsigned char, bytes, offset);
            k->to_f32(dtype, source, stride, n, floats);
            k->to_f64(dtype, source, stride, n, doubles);
            k->gather(dtype, source, stride, coordinates, n, doubles);
            if (n) k->to_f32(dtype, source + (n - 1) * stride, -stride, n, floats);
        }
    }

    /* Three rows of a sparse matrix with n columns: empty, every second column, all; and a place that is outside. */
    const int64_t stored = n / 2 + n;
    float *singles = NEW(float, stored, 0), *a_query = NEW(float, n, 0);
    double *numbers = NEW(double, stored, 0), *queries = NEW(double, n * BM_SPARSE_WIDTH, 0), *sums = NEW(double, n, 0);
    double *many = NEW(double, 3 * BM_SPARSE_WIDTH, 0), products[3], factors[3] = {1.5, -2, 0.5};
    int32_t *narrow = NEW(int32_t, stored, 0), narrow_starts[] = {0, 0, (int32_t)(n / 2), (int32_t)stored};
    int64_t *wide = NEW(int64_t, stored, 0), wide_starts[] = {0, 0, n / 2, stored};
    for (int64_t j = 0; j < stored; j++) {
        wide[j] = j < n / 2 ? 2 * j : j - n / 2;
        narrow[j] = (int32_t)wide[j];
        singles[j] = (float)(numbers[j] = (double)(j % 13) / 3);
    }
    for (int64_t j = 0; j < n * BM_SPARSE_WIDTH; j++) queries[j] = (double)(j % 19) / 5;
    for (int64_t j = 0; j < n; j++) a_query[j] = (float)(sums[j] = 0);
    for (int64_t j = 0; j < 3 * BM_SPARSE_WIDTH; j++) many[j] = 0;
    for (int64_t size = n; size >= 0 && size >= n - 1; size--) { /* of the smaller size, the last column is outside */
        const struct bm_sparse m[] = {{singles, narrow, narrow_starts, stored, size},
                                      {numbers, narrow, narrow_starts, stored, size},
                                      {singles, wide, wide_starts, stored, size},
                                      {numbers, wide, wide_starts, stored, size}};
        const int64_t dots[] = {k->sparse_dot_f32_i32(m, NULL, 3, a_query, 1, products),
                                k->sparse_dot_f64_i64(m + 3, NULL, 3, a_query, 1, products),
                                k->sparse_dot_f32_i32(m, NULL, 3, queries, 0, products),
                                k->sparse_dot_f64_i32(m + 1, NULL, 3, queries, 0, products),
                                k->sparse_dot_f32_i64(m + 2, NULL, 3, queries, 0, products),
                                k->sparse_dot_f64_i64(m + 3, NULL, 3, queries, 0, products),
                                k->sparse_add_f32_i32(m, NULL, 3, factors, sums),
                                k->sparse_add_f64_i32(m + 1, NULL, 3, factors, sums),
                                k->sparse_add_f32_i64(m + 2, NULL, 3, factors, sums),
                                k->sparse_add_f64_i64(m + 3, NULL, 3, factors, sums),
                                k->sparse_dots_f32_i32(m, 3, queries, many),
                                k->sparse_dots_f64_i32(m + 1, 3, queries, many),
                                k->sparse_dots_f32_i64(m + 2, 3, queries, many),
                                k->sparse_dots_f64_i64(m + 3, 3, queries, many)};
        for (int i = 0; i < 14; i++)
            if (dots[i] != (size == n || stored == 0 ? stored : -1)) abort();
    }

    float *x = NEW(float, n, 0);
    uint8_t *dither = NEW(uint8_t, n, 0);
    const double scale[2] = {0.5, 2};
    sum += k->scaled_rest_f32(c, a, 0.5, scale, n, x) + k->scaled_rest_f64(c, e, 0.5, scale, n, x);
    sum += k->largest_size(x, n);
    const uint32_t *signs = NEW(uint32_t, (n + 31) / 32, 0);
    double *squares = NEW(double, n, 0);
    if (n > 0) {
        struct bm_rest rest = {b, signs, x, 0, 0}, rest_of_doubles = {e, signs, x, 0, 0};
        k->look_f32(a, n, 0.5, squares, &seen, &rest);
        k->look_f64(c, n, 0.5, squares, &seen, &rest_of_doubles);
        sum += rest.square + rest_of_doubles.square;
    }
    k->turn_f32(a, 4, 1, n, floats, n); /* one row, and one column */
    k->turn_f64(c, 8 * n, n, 1, doubles, 1);
    call_turning(k, a, c, n);
    for (int64_t j = 0; j < n; j++) {
        x[j] = (float)(j % 29) / 9 - 1.3f;
        dither[j] = (uint8_t)(8 * (j % 31));
    }
    if ((n & (n - 1)) == 0 && n > 0) k->hadamard(x, n, 0.5f, signs);
    k->flip_signs(x, signs, n);
    k->exchange_halves(x, n / 2 * 2, NULL);
    k->exchange_halves(x, n / 64 * 64, signs);
    uint64_t *codes = NEW(uint64_t, 5 * words, 0);
    for (int row = 0; row < 5; row++) k->pack_signs(x, n, codes + row * words);
    const int64_t ends[] = {0, n / 64 / 2 * 64, n};
    double sizes[3];
    k->prefix_sizes(x, ends, 3, sizes);
    for (int bits = 1; bits <= 8; bits++) {
        uint64_t *planes = NEW(uint64_t, bits * words, 0);
        int64_t totals[3];
        k->pack_grid(x, n, 0.1f, bits, planes, words, three);
        k->quantise(x, dither, n, 0.1f, bits, planes, words, ends, 3, totals);
        const int64_t rows[] = {4, 0, 3, 3, 1, 2, 4};
        int64_t sums[7] = {0};
        k->bit_sums(codes, words, NULL, 5, planes, words, bits, words, sums);
        k->bit_sums(codes, words, rows, 7, planes, words, bits, words, sums);
        sum += (double)sums[6] + (double)totals[2];
    }
    double *terms = NEW(double, n, 0), *query = NEW(double, n, 0), *spread = NEW(double, n, 0), share;
    for (int64_t j = 0; j < n; j++) query[j] = spread[j] = (double)(j % 11) / 4;
    const struct bm_weighed cells = {terms, query, spread, n};
    for (int objective = 0; objective < 3; objective++) {
        k->cell_terms_f32(a, query, n, objective, 0.5, terms);
        sum += k->cell_spread(&cells, NULL, 1, 0.5, &share) + share;
        k->cell_terms_f64(c, query, n, objective, 0.5, terms);
        sum += k->cell_spread(&cells, query, -1, 0.5, &share) + share;
    }
    sum += k->cell_scatter_f32(a, spread, n, 0.5) + k->cell_scatter_f64(c, spread, n, 0.5);
    if (n > 0 && n <= BM_BYTE_STRETCH) sum += call_bytes(k, a, n);
    sum += call_intervals(k, n);
    while (n_blocks > 0) free(blocks[--n_blocks]);
    return sum + three[0] + sizes[2] + moments.total;
}

int main(int argc, char **argv) {
    const struct bm_kernels *k = argc == 2 ? bm_kernels_named(argv[1]) : NULL;
    if (!k) return 2;
    double sum = 0;
    for (int i = 0; i < N_SIZES; i++)
        for (int64_t offset = 0; offset < 2; offset++) sum += call_all(k, SIZES[i], offset);
    for (int bits = 0; bits <= 17; bits++) {
        float *x = calloc((size_t)1 << bits, sizeof *x);
        if (!x) return 2;
        k->hadamard(x, (int64_t)1 << bits, 1, NULL);
        free(x);
    }
    printf("%s: every kernel called\n", k->name);
    return sum != sum; /* all numbers above are finite */
}
