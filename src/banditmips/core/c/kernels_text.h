/* All kernels, for the target that the including file has switched the compiler to.
 *
 * BM_KERNELS       name of the struct of kernels
 * BM_NAME          its `name`
 * BM_VECTOR_BYTES  16, 32 or 64: the size of vectors; 0 for plain numbers
 */
#include "kernels.h"

#include "text_vectors.h"

#define REAL float
#define TYPE f32
#define IS_FLOAT 1
#include "text_sums.h"
#include "text_look.h"
#include "text_turn.h"
#include "text_products.h"
#include "text_cells.h"
#include "text_convert.h"
#include "text_columns.h"
#include "text_terms.h"
#define PLACE int32_t
#define WHERE _i32
#include "text_sparse.h"
#undef PLACE
#undef WHERE
#define PLACE int64_t
#define WHERE _i64
#include "text_sparse.h"
#undef PLACE
#undef WHERE
#undef REAL
#undef TYPE
#undef IS_FLOAT

#define REAL double
#define TYPE f64
#define IS_FLOAT 0
#include "text_sums.h"
#include "text_look.h"
#include "text_turn.h"
#include "text_products.h"
#include "text_cells.h"
#include "text_convert.h"
#include "text_columns.h"
#include "text_terms.h"
#define PLACE int32_t
#define WHERE _i32
#include "text_sparse.h"
#undef PLACE
#undef WHERE
#define PLACE int64_t
#define WHERE _i64
#include "text_sparse.h"
#undef PLACE
#undef WHERE
#undef REAL
#undef TYPE
#undef IS_FLOAT

#include "text_rotation.h"
#include "text_codes.h"
#include "text_bit_sums.h"
#include "text_intervals.h"
#include "text_bytes.h"

extern const struct bm_kernels BM_KERNELS;
const struct bm_kernels BM_KERNELS = {
    .name = BM_NAME,
    .moments_f32 = moments_f32,
    .moments_f64 = moments_f64,
    .dot_f32 = dot_f32,
    .dot_f64 = dot_f64,
    .products_f32 = products_f32,
    .products_f64 = products_f64,
    .largest_f32 = largest_f32,
    .largest_f64 = largest_f64,
    .dot_exact_f32 = dot_exact_f32,
    .dot_exact_f64 = dot_exact_f64,
    .four_dots_exact_f32 = four_dots_exact_f32,
    .four_dots_exact_f64 = four_dots_exact_f64,
    .columns_exact = columns_exact,
    .columns_rough = columns_rough,
    .sqeuclidean_exact_f32 = sqeuclidean_exact_f32,
    .sqeuclidean_exact_f64 = sqeuclidean_exact_f64,
    .l1_exact_f32 = l1_exact_f32,
    .l1_exact_f64 = l1_exact_f64,
    .look_f32 = look_f32,
    .look_f64 = look_f64,
    .look_and_centre_f32 = look_and_centre_f32,
    .look_and_centre_f64 = look_and_centre_f64,
    .rough_sums_f32 = rough_sums_f32,
    .rough_sums_f64 = rough_sums_f64,
    .rough_tiles_f32 = rough_tiles_f32,
    .rough_tiles_f64 = rough_tiles_f64,
    .scaled_rest_f32 = scaled_rest_f32,
    .scaled_rest_f64 = scaled_rest_f64,
    .largest_size = largest_size,
    .largest_lower = largest_lower,
    .reaching = reaching,
    .to_f32 = to_f32,
    .to_f64 = to_f64,
    .turn_f32 = turn_f32,
    .turn_f64 = turn_f64,
    .gather = gather,
    .sparse_dot_f32_i32 = sparse_dot_f32_i32,
    .sparse_dot_f64_i32 = sparse_dot_f64_i32,
    .sparse_dot_f32_i64 = sparse_dot_f32_i64,
    .sparse_dot_f64_i64 = sparse_dot_f64_i64,
    .sparse_add_f32_i32 = sparse_add_f32_i32,
    .sparse_add_f64_i32 = sparse_add_f64_i32,
    .sparse_add_f32_i64 = sparse_add_f32_i64,
    .sparse_add_f64_i64 = sparse_add_f64_i64,
    .sparse_dots_f32_i32 = sparse_dots_f32_i32,
    .sparse_dots_f64_i32 = sparse_dots_f64_i32,
    .sparse_dots_f32_i64 = sparse_dots_f32_i64,
    .sparse_dots_f64_i64 = sparse_dots_f64_i64,
    .flip_signs = flip_signs,
    .hadamard = hadamard,
    .exchange_halves = exchange_halves,
    .pack_signs = pack_signs,
    .quantise = quantise,
    .pack_grid = pack_grid,
    .prefix_sizes = prefix_sizes,
    .bit_sums = bit_sums,
    .certain_intervals = certain_intervals,
    .code_estimates = code_estimates,
    .code_radii = code_radii,
    .give_up_overflowed = give_up_overflowed,
    .lower_ends = lower_ends,
    .mark_beaten = mark_beaten,
    .cell_terms_f32 = cell_terms_f32,
    .cell_terms_f64 = cell_terms_f64,
    .cell_spread = cell_spread,
    .cell_scatter_f32 = cell_scatter_f32,
    .cell_scatter_f64 = cell_scatter_f64,
    .row_bytes = row_bytes,
    .copy_columns_f32 = copy_columns_f32,
    .copy_columns_f64 = copy_columns_f64,
    .column_bytes = column_bytes,
    .byte_products = byte_products,
};
