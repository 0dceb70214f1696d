/* The innermost sums of the search, in plain C.
 *
 * Everything is written once (kernels_text.h and the text_*.h that it names) and compiled once for every kind of
 * processor that is worth it; `bm_kernels()` hands out the best set that this machine can run.
 *
 * All sizes are int64_t. No pointer has to be aligned to more than its own element; atoms and queries (`const REAL *`,
 * `const void *`) not even to that. Nothing is read or written past the end. All functions may be called from several
 * threads at once. Sums run over stretches: a stretch is added in the numbers' own precision, in many lanes, and the
 * sums of the stretches are added in double. NaN and infinities come through every sum.
 */
#ifndef BANDITMIPS_KERNELS_H
#define BANDITMIPS_KERNELS_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { BM_SPARSE_WIDTH = 16 /* queries whose products with sparse rows are computed together */ };

enum bm_dtype { BM_F32, BM_F64, BM_F16, BM_I8, BM_U8 /* bool too */, BM_I16, BM_U16, BM_I32, BM_U32, BM_I64, BM_U64 };

/* What a coordinate adds to a rough sum: a * b, (a - b)^2, |a - b|; or a * b, a and a^2 */
enum bm_objective { BM_PRODUCTS, BM_SQUARES, BM_SIZES, BM_MOMENTS };

/* What a pass over a stretch of a row learns: sums about a pivot, and the range. */
struct bm_look {
    double total, squares, low, high;
};

struct bm_moments {
    double total;   /* the sum; NaN if there is a NaN */
    double size;    /* the sum of |q| */
    double squares; /* the sum of squares, right also where squares of float would overflow or vanish */
    double largest; /* max |q|, 0 for no numbers, NaN if there is a NaN */
    int64_t n_nonzero; /* how many numbers are not 0 */
};

/* What is left of a row v without a centre c, x = v - c: it goes to `x`, with the other sign where bit j % 32 of signs[j / 32]
 * is 1; sum(x * c) and sum(x * x) are added to the last two. */
struct bm_rest {
    const void *centre;
    const uint32_t *signs;
    float *x;
    double product, square;
};

/* A sparse matrix by row or by column: the entries of line t are numbers starts[t] to starts[t + 1] of `n_stored`; each
 * has a value (float or double) and a place in its line, below `size`. Places and starts are both int32_t or both
 * int64_t, and nobody needs to have checked them. */
struct bm_sparse {
    const void *values, *places, *starts;
    int64_t n_stored, size;
};
typedef int64_t bm_sparse_dot(const struct bm_sparse *m, const int64_t *rows, int64_t n_rows, const void *query,
                              int is_single, double *products);
typedef int64_t bm_sparse_add(const struct bm_sparse *m, const int64_t *columns, int64_t n_columns, const double *query,
                              double *sums);
typedef int64_t bm_sparse_dots(const struct bm_sparse *m, int64_t n_rows, const double *table, double *sums);

/* A matrix of which neighbours in a column are closer to each other than neighbours in a row */
struct bm_columns {
    const void *base;
    int64_t row_stride; /* bytes, as the next */
    int64_t column_stride;
    int64_t n;
    int64_t d;
    int dtype; /* one of enum bm_dtype */
};

/* Terms of an atom at sampled cells, and how the cells speak for all (`banditmips.core.statistics.Sample`) */
struct bm_weighed {
    const double *terms, *unit, *spread;
    int64_t size;
};

enum { BM_FAR = 1 << 25 /* bytes that no cache is taken to hold */, BM_STRETCH = 2048, BM_LANE_TERMS = 64 /* that are added to a sum before it goes on in double */ };

/* Rows whose sums are held at a time, and how many numbers of each: up to 16 sums of each, and eight entries.
 * (Columns of 4,096 rows at a time take a fifth longer from memory; those of 8,192 as long as longer ones.) */
enum { BM_COLUMN_ROWS = 8192, BM_COLUMN_ROOM = 24, BM_COLUMN_QUERIES = 8 };
enum { BM_SUMS = 16 /* that a row and a query have within a stretch, at most */, BM_NEIGHBOURS = 16 };

/* Neighbouring rows of a matrix by column, up to BM_NEIGHBOURS: number of the first, how many they are and are wanted, and
 * where the numbers of each are to go; NULL if nobody wants it */
struct bm_neighbours {
    int64_t first;
    int64_t n, n_wanted;
    void *rows[BM_NEIGHBOURS];
};

enum { BM_ROUGH_ROWS = 32768, BM_ROUGH_PADDING = 16 }; /* the same for sums of floats: what is held of so many fits the second cache */

enum {
    BM_BYTE_STRETCH = 1024, /* numbers that are rounded to bytes of the same step */
    BM_BYTE_ATOMS = 48,     /* atoms in Fortran order that are rounded together */
    BM_BYTES_ABREAST = 6,   /* atoms whose bytes are multiplied together */
    BM_BYTE_QUERIES = 64,   /* and with how many queries at most */
};

/* What is known of each of n atoms for certain: the mean of its entries, its norm, the norm of what means and axes leave of it,
 * and its products with the axes, those of all atoms with the first axis first */
struct bm_certain {
    const double *means, *norms, *spreads;
    const float *along;
    int64_t n;
};

enum { BM_MOST_AXES = 8 };

/* What is known of a query: its sum, its products with so many axes, the norm of what these leave of it, and by what part of
 * an atom's norm rounding may be wrong */
struct bm_certain_query {
    double total, reach, slack;
    double along[BM_MOST_AXES];
    int n_axes;
};

/* A round on codes, as far as it is the same for all atoms. Of every atom: `scales` and `errors` of its code, and its product
 * `along` the centre. Where all bits of codes are read, also those of the signs alone; else these are NULL. */
struct bm_code_round {
    const float *scales, *errors, *scales_of_signs, *errors_of_signs;
    const double *along;
    int64_t weight, total, n_cells;      /* `weight` times a sum less `total` is the product of code and rounded query */
    double step, unit, part, on_centre;  /* of the query: step of rounding, its unit, part and product along the centre */
    double norm, width, quantile, slack; /* its norm, D - 1, deviations of the radius, and what is no matter of chance */
};

/* Random numbers of the coordinates of a stretch: those by which numbers are rounded, in units of 2^-16, and the upper bytes
 * of those by which the numbers are rounded that they will be multiplied with. */
struct bm_dither {
    const int32_t *own;
    const uint8_t *levels_of_others;
};

/* What is known of a stretch of bytes b: number j is about step * (b_j + 1/2 - dither_j), and the norm of these is no larger
 * than `norm`, nor is that of the numbers themselves; `squares` is the sum of the numbers' squares, added up in floats. Where
 * a number is not finite, step and norm are not. */
struct bm_bytes {
    double step, norm, squares;
    int32_t total, levelled; /* sum(b), sum(b * levels_of_others) */
};

/* How far apart bytes lie in memory: those of neighbouring atoms, and of one atom the next four */
struct bm_byte_layout {
    int64_t of_atom, of_four;
};

/* Numbers that will be rounded next, and are fetched from memory meanwhile: `size` bytes of each of n_rows rows */
struct bm_fetched {
    const char *first;
    int64_t stride_bytes, size, n_rows;
};

/* Rows of `size` numbers each, and vectors that lie beside each other: number t of them from panel + t * stride on; all strides
 * are in numbers. Sums of row r begin at sums + r * sums_stride; they are added to what is there if `adds`. Rows that will be
 * multiplied next are fetched from memory meanwhile, unless they are NULL. */
struct bm_panel {
    const void *rows, *panel, *next_rows;
    int64_t row_stride, stride, size, sums_stride;
    int adds;
};

/* A stretch of BM_BYTE_QUERIES queries or fewer, in n_groups groups of 16: for every four coordinates, the four bytes of each
 * query, plus 128. `steps` are theirs, and `shifts` what each adds to a product, in units of the atom's step. */
struct bm_byte_queries {
    const uint8_t *bytes;
    const double *steps, *shifts;
    int64_t n_fours;
    int n_groups;
};

/* How what is ranked follows from products: times factors, less offsets times `centre` (both NULL: products themselves).
 * `part` of both, and `besides`, is what it may be wrong by besides so many deviations below and above. */
struct bm_ranked {
    const double *factors, *offsets;
    double centre, part, besides, below, above;
    int absolute;
};

struct bm_kernels {
    const char *name; /* "portable", "avx2" or "avx512" */

    /* ---- Sums over the coordinates of rows ---- */

    /* The numbers themselves go to `wide`, unless it is NULL. */
    void (*moments_f32)(const float *q, int64_t d, double *wide, struct bm_moments *out);
    void (*moments_f64)(const double *q, int64_t d, double *wide, struct bm_moments *out);

    /* sum(a * b). Float products overflow into a second look in double, and below 1e-38 they vanish. */
    double (*dot_f32)(const float *a, const float *b, int64_t d);
    double (*dot_f64)(const double *a, const double *b, int64_t d);

    /* out[t] = product of q with the row at rows + t * stride_bytes, for t < n, in one pass; the same but for rounding.
     * squares[t] = sum of the squares of that row, as it comes (`passes.SQUARE_TERMS`), unless `squares` is NULL. */
    void (*products_f32)(const float *rows, int64_t stride_bytes, int64_t n, const float *q, int64_t d, float *out,
                         float *squares);
    void (*products_f64)(const double *rows, int64_t stride_bytes, int64_t n, const double *q, int64_t d, double *out,
                         double *squares);

    /* The largest of n numbers, or of their sizes; NaN if their sum is not finite, -inf of none */
    float (*largest_f32)(const float *v, int64_t n, int absolute);
    double (*largest_f64)(const double *v, int64_t n, int absolute);
    /* out[g] = the largest of v[g], v[g + n_groups], ... or of their sizes, as far as whole vectors go; n_groups is a multiple of
     * `panel_lanes`. And those numbers, or sizes, that reach a bar, which is one of them: how many, and which; `out` has room for n. */
    void (*group_maxima_f32)(const float *v, int64_t n, int absolute, int64_t n_groups, double *out);
    void (*group_maxima_f64)(const double *v, int64_t n, int absolute, int64_t n_groups, double *out);
    int64_t (*those_reaching_f32)(const float *v, int64_t n, int absolute, double bar, double *out);
    int64_t (*those_reaching_f64)(const double *v, int64_t n, int absolute, double bar, double *out);

    /* Where those that reach any bar are (perhaps also one that misses it by less than rounding), and how many. */
    int64_t (*places_reaching_f32)(const float *v, int64_t n, int absolute, double bar, int64_t *places);
    int64_t (*places_reaching_f64)(const double *v, int64_t n, int absolute, double bar, int64_t *places);

    /* sum(a * b), every product and sum in double; sums of BM_STRETCH products each are added up one after another */
    double (*dot_exact_f32)(const float *a, const double *b, int64_t d);
    double (*dot_exact_f64)(const double *a, const double *b, int64_t d);

    /* The same for up to four rows at once, to the bit, or sums of (a - b)^2 or |a - b| for BM_SQUARES or BM_SIZES. Behind
     * the last row others are to stand, to make four. */
    void (*sums_exact_f32)(int objective, const float *const a[4], int n_rows, const double *b, int64_t d, double out[4]);
    void (*sums_exact_f64)(int objective, const double *const a[4], int n_rows, const double *b, int64_t d, double out[4]);

    /* The same for one row and 1, 2 or 4 queries, of a part of a stretch, a multiple of BM_SUMS numbers unless it is the last: it
     * is added to BM_SUMS sums of each query, those of one behind those of the other, which end_stretch adds up to sums[t] for
     * number t of n, and makes 0. (With the portable kernels a part is a whole stretch.) */
    void (*add_part_f32)(int objective, const float *a, const double *const b[4], int n_queries, int64_t d, double *lanes);
    void (*add_part_f64)(int objective, const double *a, const double *const b[4], int n_queries, int64_t d, double *lanes);
    void (*add_part_of_floats)(int objective, const float *a, const float *const b[4], int n_queries, int64_t d, double *lanes);
    void (*end_stretch)(double *lanes, int64_t n, double *sums);

    /* The same for all rows of a matrix by column, whatever its dtype, with up to BM_COLUMN_QUERIES queries, of products or
     * squares: sums[q * n + i] for query q, whose number j is b[j * n_queries + q], and row i. `room` is for BM_COLUMN_ROOM
     * numbers of each row and query, of BM_COLUMN_ROWS at most, and for 2 BM_STRETCH at least. */
    void (*columns_exact)(const struct bm_columns *m, int objective, const double *b, int n_queries, double *room, double *sums);

    /* out[q * n + i] = product of query q, whose number j is b[j * n_queries + q], with row i of a matrix of one to two
     * bytes a number or BM_F32 whose columns are contiguous, floats added up for at most BM_LANE_TERMS columns; squares[i] = sum of the squares of
     * that row, as they come, unless `squares` is NULL. n_queries is 1, 2, 4 or 8. `room` is for three numbers of each row and
     * query, of BM_ROUGH_ROWS at most, and of BM_ROUGH_PADDING rows more. */
    void (*columns_rough)(const struct bm_columns *m, const float *b, int n_queries, double *room, float *out, float *squares);

    /* totals[i] and squares[i] = sum of the numbers of row i, and of their squares; the matrix lies by column, each `gap`
     * bytes after the other. They are added up as above. */
    void (*columns_moments_f32)(const float *first, int64_t gap, int64_t n, int64_t d, double *totals, double *squares);
    void (*columns_moments_f64)(const double *first, int64_t gap, int64_t n, int64_t d, double *totals, double *squares);

    /* Sums about a pivot and the range of d >= 1 numbers; their squares are added to column_squares, unless NULL. And what
     * is left without a centre of the same precision, unless `rest` is NULL; every sum in double */
    void (*look_f32)(const float *v, int64_t d, double pivot, double *column_squares, struct bm_look *out,
                     struct bm_rest *rest);
    void (*look_f64)(const double *v, int64_t d, double pivot, double *column_squares, struct bm_look *out,
                     struct bm_rest *rest);

    /* out[r] = sum of the terms of row r with b, added in their own precision for at most BM_LANE_TERMS in a row; for
     * BM_MOMENTS also out[4 + r] = sum of the row, out[8 + r] = sum of its squares. Rows of floats may be of
     * BM_F32 or of one to two bytes a number, those of doubles of any other dtype. */
    void (*rough_sums_f32)(int objective, int dtype, const void *const a[4], const float *b, int64_t d, double *out);
    void (*rough_sums_f64)(int objective, int dtype, const void *const a[4], const double *b, int64_t d, double *out);
    /* The same with several queries, query q at b + q * query_stride: added to sums[q * sums_stride + r], no moments */
    void (*rough_tiles_f32)(int objective, const float *const a[4], const float *b, int64_t query_stride,
                            int64_t n_queries, int64_t count, double *sums, int64_t sums_stride);
    void (*rough_tiles_f64)(int objective, const double *const a[4], const double *b, int64_t query_stride,
                            int64_t n_queries, int64_t count, double *sums, int64_t sums_stride);

    /* Products of n_rows rows with as many vectors as one or two of this processor's have numbers (`panel_lanes`), added in
     * their own precision, 32 in a row and then the sums of these; `size` is to be a few hundred */
    void (*panel_products_f32)(const struct bm_panel *of, int64_t n_rows, int n_vectors, float *sums);
    void (*panel_products_f64)(const struct bm_panel *of, int64_t n_rows, int n_vectors, double *sums);
    int panel_lanes_f32, panel_lanes_f64;
    int panel_rows; /* that are best multiplied together */

    /* out = (q - part * c) * scale[0] * scale[1]; returns max |q - part * c|, NaN if there is a NaN */
    double (*scaled_rest_f32)(const double *q, const float *c, double part, const double scale[2], int64_t d,
                              float *out);
    double (*scaled_rest_f64)(const double *q, const double *c, double part, const double scale[2], int64_t d,
                              float *out);

    /* max |x|, NaN passed over; 0 for no numbers */
    double (*largest_size)(const float *x, int64_t n);

    /* The largest lower end of n intervals, middle or |middle| less radius, NaN passed over; and the places of those whose
     * upper ends reach a bar, or are NaN: how many, and which. */
    double (*largest_lower)(const double *middle, const double *radius, int64_t n, int absolute);
    int64_t (*reaching)(const double *middle, const double *radius, int64_t n, int absolute, double bar, int64_t *places);

    /* ---- Numbers of any dtype ---- */

    /* dst[j] = number at src + j * stride_bytes, for j < count; the stride may be negative or no multiple of the size.
     * `dtype` is one of enum bm_dtype. */
    void (*to_f32)(int dtype, const void *src, int64_t stride_bytes, int64_t count, float *dst);
    void (*to_f64)(int dtype, const void *src, int64_t stride_bytes, int64_t count, double *dst);

    /* rows[i * n_columns + j] = number i of the column at columns + j * stride_bytes, whose numbers lie together */
    void (*turn_f32)(const void *columns, int64_t stride_bytes, int64_t n_rows, int64_t n_columns, float *rows,
                     int64_t row_stride);
    void (*turn_f64)(const void *columns, int64_t stride_bytes, int64_t n_rows, int64_t n_columns, double *rows,
                     int64_t row_stride);
    /* The same for some rows of which neighbours are in a group: they go to group.rows[r] + at + j. */
    void (*turn_some_f32)(const void *columns, int64_t stride_bytes, int64_t n_columns, const struct bm_neighbours *groups,
                          int64_t n_groups, int64_t at);
    void (*turn_some_f64)(const void *columns, int64_t stride_bytes, int64_t n_columns, const struct bm_neighbours *groups,
                          int64_t n_groups, int64_t at);


    /* dst[j] = number at row + coordinates[j] * stride_bytes */
    void (*gather)(int dtype, const void *row, int64_t stride_bytes, const int64_t *coordinates, int64_t count,
                   double *dst);

    /* ---- Sparse matrices: all return how many entries they met, or -1 if a pointer or place was outside ---- */

    /* products[t] = product of row rows[t] (NULL: t) with a query of `size` numbers (of type float if
     * is_single, else double), for a matrix by row */
    bm_sparse_dot *sparse_dot_f32_i32, *sparse_dot_f64_i32, *sparse_dot_f32_i64, *sparse_dot_f64_i64;

    /* sums[i] += what the columns (NULL: the first ones) have in row i times the query's numbers at these columns, column
     * by column, for a matrix by column; there are `size` sums */
    bm_sparse_add *sparse_add_f32_i32, *sparse_add_f64_i32, *sparse_add_f32_i64, *sparse_add_f64_i64;

    /* sums[row * BM_SPARSE_WIDTH + b] += product of a row with query b, entry by entry, for the first rows of a matrix by
     * row and BM_SPARSE_WIDTH queries; number j of query b is at table[j * BM_SPARSE_WIDTH + b] */
    bm_sparse_dots *sparse_dots_f32_i32, *sparse_dots_f64_i32, *sparse_dots_f32_i64, *sparse_dots_f64_i64;

    /* ---- Rotation ---- */

    /* x[j] with the other sign where bit j % 32 of sign_words[j / 32] is 1 */
    void (*flip_signs)(float *x, const uint32_t *sign_words, int64_t n);

    /* x <- scale * H x, in place, and then flip_signs, unless sign_words is NULL; n is a power of two from 1 to 2^24 */
    void (*hadamard)(float *x, int64_t n, float scale, const uint32_t *sign_words);

    /* Sum and difference of the two halves of x, times sqrt(1/2), and then flip_signs, unless sign_words is NULL; n is even,
     * and a multiple of 64 where signs are changed */
    void (*exchange_halves)(float *x, int64_t n, const uint32_t *sign_words);

    /* ---- Codes: bit j % 64 of word j / 64 belongs to coordinate j; bits from n on are 0 ---- */

    /* bit j = (x[j] >= 0) */
    void (*pack_signs)(const float *x, int64_t n, uint64_t *bits);

    /* u[j] = clamp(floor(p[j] / step + (dither[j] + 1/2) / 256), -2^(n_bits-1), 2^(n_bits-1) - 1) in two's complement: bit l of u
     * goes to planes + l * plane_stride_words. totals[t] = sum of u[j] over j < prefix_ends[t]. There is at least one
     * end, ends increase, all but the last are multiples of 64, and the last is n, at most 2^24. n_bits is
     * in 1..8, step a normal positive float; the quotient is p * (1 / step), so it may be off by a rounding. A
     * NaN counts as the lowest u. */
    void (*quantise)(const float *p, const uint8_t *dither, int64_t n, float step, int n_bits, uint64_t *planes,
                     int64_t plane_stride_words, const int64_t *prefix_ends, int n_prefixes, int64_t *totals);

    /* u[j] = clamp(floor(x[j] / step) + 2^(n_bits-1), 0, 2^n_bits - 1): bit l of u (l = 0 is the lowest) goes to
     * planes + l * plane_stride_words, so that plane n_bits - 1 is what pack_signs gives. With c = 2u + 1 - 2^n_bits:
     * out = sum(c * x), sum(c * c), the latter without any rounding. n_bits and step as in quantise. Beyond
     * |x| = 1e30 the first sum may overflow. */
    void (*pack_grid)(const float *x, int64_t n, float step, int n_bits, uint64_t *planes, int64_t plane_stride_words,
                      double out[2]);

    /* sums[t] = sum of |x[j]| over j < prefix_ends[t]; the ends increase and may be any numbers; beyond
     * |x| = 1e30 a sum may overflow */
    void (*prefix_sizes)(const float *x, const int64_t *prefix_ends, int n_prefixes, double *sums);

    /* For t < n_rows, with row = rows ? rows[t] : t and code = codes + row * code_stride_words:
     * sums[t] += sum over planes l of w[l] * popcount(code & plane l) over n_words words,
     * where w[l] = 2^l but w[n_planes-1] = -2^(n_planes-1): the sum of the quantised query over the ones of the code.
     * n_planes is 1..8; 4 and 8 are the fast ones. */
    void (*bit_sums)(const uint64_t *codes, int64_t code_stride_words, const int64_t *rows, int64_t n_rows,
                     const uint64_t *query_planes, int64_t plane_stride_words, int n_planes, int64_t n_words,
                     int64_t *sums);

    /* ---- Intervals of n atoms: those in `rows`, or where that is NULL those from the first on ---- */

    /* mean * total + sum(along * along), give or take spread * reach + norm * slack; first: atom number `first` */
    void (*certain_intervals)(const struct bm_certain *known, const struct bm_certain_query *query, const int64_t *rows,
                              int64_t first, int64_t n, double *middle, double *radius);

    /* Estimates from the sums of a round, and the radii of their intervals: infinite where an error is */
    void (*code_estimates)(const struct bm_code_round *round, const int64_t *rows, int64_t n, const int64_t *sums,
                           double *middle);
    void (*code_radii)(const struct bm_code_round *round, const int64_t *rows, int64_t n, double *radius);

    /* An infinite radius where an interval's end is not finite, and 0 for a middle that is not */
    void (*give_up_overflowed)(double *middle, double *radius, int64_t n);

    /* lower = middle or |middle| less radius; beaten = (middle or |middle|) + reach * radius < bar, of which there are so many */
    void (*lower_ends)(const double *middle, const double *radius, int64_t n, int absolute, double *lower);
    int64_t (*mark_beaten)(const double *middle, const double *radius, int64_t n, int absolute, double reach, double bar,
                           uint8_t *beaten);

    /* out[b * n + t] = sqrt(sum over s of weights[b * n_rows + s] * rows[s * n + t]) for b < m */
    void (*root_sums)(const double *weights, int64_t m, const double *rows, int64_t n_rows, int64_t n, double *out);

    /* Ends of the intervals of n scores that follow from products with these deviations */
    void (*score_ends)(const double *products, const double *deviations, int64_t n, const struct bm_ranked *ranked,
                       double *lower, double *upper);

    /* ---- Sampled cells ---- */

    /* terms = row_scale * q * v, -row_scale * (q - v)^2 or -row_scale * |q - v| for objective 0, 1 or 2 */
    void (*cell_terms_f32)(const float *v, const double *q, int64_t size, int objective, double row_scale, double *terms);
    void (*cell_terms_f64)(const double *v, const double *q, int64_t size, int objective, double row_scale,
                           double *terms);

    /* sum(scale * (v - center)^2) */
    double (*cell_scatter_f32)(const float *v, const double *scale, int64_t size, double center);
    double (*cell_scatter_f64)(const double *v, const double *scale, int64_t size, double center);

    /* With x = leading + sign * terms, for a sign of 1 or -1 (`leading` may be NULL): sum((spread * (x - ratio * unit))^2),
     * and the largest share of one cell in this sum, or in sum((spread * x)^2); 1 where all x are 0 */
    double (*cell_spread)(const struct bm_weighed *cells, const double *leading, double sign, double ratio,
                          double *share);

    /* ---- Bytes: stretches of up to BM_BYTE_STRETCH numbers ---- */

    /* bytes[j] = floor(v[j] / step + dither), zeros behind them up to a multiple of 64; the step is a little more than
     * max |v| / 127, and v[j] / step is off by less than 2^-15. Meanwhile 2 * count bytes are fetched from memory: those at
     * `next`, if there is anything there. */
    void (*row_bytes)(const float *v, int64_t count, const struct bm_dither *dither, const void *next, int8_t *bytes,
                      struct bm_bytes *out);

    /* room[j * BM_BYTE_ATOMS + i] = number i of column j, rounded to a float; zeros from n_atoms on */
    void (*copy_columns_f32)(const void *first, int64_t stride_bytes, int64_t n_atoms, int64_t count, float *room);
    void (*copy_columns_f64)(const void *first, int64_t stride_bytes, int64_t n_atoms, int64_t count, float *room);

    /* The same as row_bytes for BM_BYTE_ATOMS atoms that copy_columns has copied: bytes 4 t to 4 t + 3 of atom i are
     * fours[t * BM_BYTE_ATOMS + i], the first of them the lowest; zeros behind the last. Meanwhile the first half of the
     * columns that come next is fetched from memory: those at `next`, if there is anything there. */
    void (*column_bytes)(const float *v, int64_t count, const struct bm_dither *dither, const void *next,
                         int64_t stride_bytes, int32_t *fours, struct bm_bytes *out);

    /* products[i * BM_BYTE_QUERIES + b] += product of atom i, BM_BYTES_ABREAST of them, with query b; sums of bytes have no
     * rounding, and are multiplied by the steps in double */
    void (*byte_products)(const void *atoms, const struct bm_byte_layout *layout, const struct bm_bytes *of_atoms,
                          const struct bm_byte_queries *queries, const struct bm_fetched *next, double *products);
};

/* The best kernels that this machine can run, chosen at the first call. The environment variable
 * BANDITMIPS_CPU=portable|avx2|avx512 lowers the choice (it never raises it above what the machine has). */
const struct bm_kernels *bm_kernels(void);

/* The kernels of that name, or NULL where they were not compiled or this machine cannot run them. */
const struct bm_kernels *bm_kernels_named(const char *name);

#ifdef __cplusplus
}
#endif

#endif
