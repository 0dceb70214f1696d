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
#include "text_real.h"
#undef REAL
#undef TYPE
#undef IS_FLOAT

#define REAL double
#define TYPE f64
#define IS_FLOAT 0
#include "text_real.h"
#undef REAL
#undef TYPE
#undef IS_FLOAT

#include "text_rotation.h"
#include "text_codes.h"
#include "text_bit_sums.h"
#include "text_intervals.h"
#include "text_bytes.h"

#define OF_BOTH(name) .name##_f32 = name##_f32, .name##_f64 = name##_f64,
#define OF_EACH(name)                                                   \
    .name##_f32_i32 = name##_f32_i32, .name##_f64_i32 = name##_f64_i32, \
    .name##_f32_i64 = name##_f32_i64, .name##_f64_i64 = name##_f64_i64,
extern const struct bm_kernels BM_KERNELS;
const struct bm_kernels BM_KERNELS = {
    .name = BM_NAME,
    OF_BOTH(moments)
    OF_BOTH(dot)
    OF_BOTH(products)
    OF_BOTH(largest)
    OF_BOTH(group_maxima)
    OF_BOTH(those_reaching)
    OF_BOTH(places_reaching)
    OF_BOTH(dot_exact)
    OF_BOTH(sums_exact)
    OF_BOTH(add_part)
    .add_part_of_floats = add_part_of_floats,
    .end_stretch = end_stretch,
    .columns_exact = columns_exact,
    .columns_rough = columns_rough,
    OF_BOTH(columns_moments)
    OF_BOTH(look)
    OF_BOTH(rough_sums)
    OF_BOTH(rough_tiles)
    OF_BOTH(panel_products)
    .panel_lanes_f32 = LANES_f32,
    .panel_lanes_f64 = LANES_f64,
    .panel_rows = MOST_ABREAST,
    OF_BOTH(scaled_rest)
    .largest_size = largest_size,
    .largest_lower = largest_lower,
    .reaching = reaching,
    OF_BOTH(to)
    OF_BOTH(turn)
    OF_BOTH(turn_some)
    .gather = gather,
    OF_EACH(sparse_dot)
    OF_EACH(sparse_add)
    OF_EACH(sparse_dots)
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
    .root_sums = root_sums,
    .score_ends = score_ends,
    OF_BOTH(cell_terms)
    .cell_spread = cell_spread,
    OF_BOTH(cell_scatter)
    .row_bytes = row_bytes,
    OF_BOTH(copy_columns)
    .column_bytes = column_bytes,
    .byte_products = byte_products,
};
