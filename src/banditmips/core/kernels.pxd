# The kernels of c/kernels.h as Cython sees them; what each one does is written there.
# They are linked into this module alone; others call `bm_kernels().dot_f32(...)` through it.

from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t

cdef extern from "c/kernels.h":
    cdef struct bm_sparse:
        const void *values
        const void *places
        const void *starts
        int64_t n_stored
        int64_t size

ctypedef int64_t (*sparse_dot)(
    const bm_sparse *m, const int64_t *rows, int64_t n_rows, const void *query, int is_single, double *products
) noexcept nogil
ctypedef int64_t (*sparse_add)(
    const bm_sparse *m, const int64_t *columns, int64_t n_columns, const double *query, double *sums
) noexcept nogil
ctypedef int64_t (*sparse_dots)(const bm_sparse *m, int64_t n_rows, const double *table, double *sums) noexcept nogil

cdef extern from "c/kernels.h" nogil:
    enum:
        BM_SPARSE_WIDTH
        BM_FAR
        BM_STRETCH
        BM_COLUMN_ROWS
        BM_COLUMN_ROOM
        BM_COLUMN_QUERIES
        BM_ROUGH_ROWS
        BM_ROUGH_PADDING
        BM_SUMS
        BM_NEIGHBOURS
        BM_LANE_TERMS
        BM_BYTE_STRETCH
        BM_BYTE_ATOMS
        BM_BYTES_ABREAST
        BM_BYTE_QUERIES
        BM_MOST_AXES

    cdef enum bm_objective:
        BM_PRODUCTS
        BM_SQUARES
        BM_SIZES
        BM_MOMENTS

    cdef enum bm_dtype:
        BM_F32
        BM_F64
        BM_F16
        BM_I8
        BM_U8
        BM_I16
        BM_U16
        BM_I32
        BM_U32
        BM_I64
        BM_U64

    cdef struct bm_moments:
        double total
        double size
        double squares
        double largest
        int64_t n_nonzero

    cdef struct bm_rest:
        const void *centre
        const uint32_t *signs
        float *x
        double product
        double square

    cdef struct bm_look:
        double total
        double squares
        double low
        double high

    cdef struct bm_columns:
        const void *base
        int64_t row_stride
        int64_t column_stride
        int64_t n
        int64_t d
        int dtype

    cdef struct bm_neighbours:
        int64_t first
        int64_t n
        int64_t n_wanted
        void **rows

    cdef struct bm_certain:
        const double *means
        const double *norms
        const double *spreads
        const float *along
        int64_t n

    cdef struct bm_certain_query:
        double total
        double reach
        double slack
        double *along
        int n_axes

    cdef struct bm_ranked:
        const double *factors
        const double *offsets
        double centre
        double part
        double besides
        double below
        double above
        int absolute

    cdef struct bm_code_round:
        const float *scales
        const float *errors
        const float *scales_of_signs
        const float *errors_of_signs
        const double *along
        int64_t weight
        int64_t total
        int64_t n_cells
        double step
        double unit
        double part
        double on_centre
        double norm
        double width
        double quantile
        double slack

    cdef struct bm_dither:
        const int32_t *own
        const uint8_t *levels_of_others

    cdef struct bm_bytes:
        double step
        double norm
        double squares
        int32_t total
        int32_t levelled

    cdef struct bm_byte_layout:
        int64_t of_atom
        int64_t of_four

    cdef struct bm_fetched:
        const char *first
        int64_t stride_bytes
        int64_t size
        int64_t n_rows

    cdef struct bm_panel:
        const void *rows
        const void *panel
        const void *next_rows
        int64_t row_stride
        int64_t stride
        int64_t size
        int64_t sums_stride
        int adds

    cdef struct bm_byte_queries:
        const uint8_t *bytes
        const double *steps
        const double *shifts
        int64_t n_fours
        int n_groups

    cdef struct bm_weighed:
        const double *terms
        const double *unit
        const double *spread
        int64_t size

    # The C names of the struct and of the function that returns it are the same; Cython has one name space for both.
    cdef struct Kernels "bm_kernels":
        const char *name

        void (*moments_f32)(const float *q, int64_t d, double *wide, bm_moments *out) noexcept nogil
        void (*moments_f64)(const double *q, int64_t d, double *wide, bm_moments *out) noexcept nogil
        double (*dot_f32)(const float *a, const float *b, int64_t d) noexcept nogil
        double (*dot_f64)(const double *a, const double *b, int64_t d) noexcept nogil
        void (*products_f32)(
            const float *rows, int64_t stride_bytes, int64_t n, const float *q, int64_t d, float *out, float *squares
        ) noexcept nogil
        void (*products_f64)(
            const double *rows, int64_t stride_bytes, int64_t n, const double *q, int64_t d, double *out,
            double *squares
        ) noexcept nogil
        float (*largest_f32)(const float *v, int64_t n, int absolute) noexcept nogil
        void (*group_maxima_f32)(const float *v, int64_t n, int absolute, int64_t n_groups, double *out) noexcept nogil
        void (*group_maxima_f64)(const double *v, int64_t n, int absolute, int64_t n_groups, double *out) noexcept nogil
        int64_t (*those_reaching_f32)(const float *v, int64_t n, int absolute, double bar, double *out) noexcept nogil
        int64_t (*those_reaching_f64)(const double *v, int64_t n, int absolute, double bar, double *out) noexcept nogil
        int64_t (*places_reaching_f32)(
            const float *v, int64_t n, int absolute, double bar, int64_t *places
        ) noexcept nogil
        int64_t (*places_reaching_f64)(
            const double *v, int64_t n, int absolute, double bar, int64_t *places
        ) noexcept nogil
        double (*largest_f64)(const double *v, int64_t n, int absolute) noexcept nogil
        double (*dot_exact_f32)(const float *a, const double *b, int64_t d) noexcept nogil
        double (*dot_exact_f64)(const double *a, const double *b, int64_t d) noexcept nogil
        void (*sums_exact_f32)(
            int objective, const float **a, int n_rows, const double *b, int64_t d, double *out
        ) noexcept nogil
        void (*sums_exact_f64)(
            int objective, const double **a, int n_rows, const double *b, int64_t d, double *out
        ) noexcept nogil
        void (*add_part_f32)(
            int objective, const float *a, const double **b, int n_queries, int64_t d, double *lanes
        ) noexcept nogil
        void (*add_part_f64)(
            int objective, const double *a, const double **b, int n_queries, int64_t d, double *lanes
        ) noexcept nogil
        void (*add_part_of_floats)(
            int objective, const float *a, const float **b, int n_queries, int64_t d, double *lanes
        ) noexcept nogil
        void (*end_stretch)(double *lanes, int64_t n, double *sums) noexcept nogil
        void (*columns_exact)(
            const bm_columns *m, int objective, const double *b, int n_queries, double *room, double *sums
        ) noexcept nogil
        void (*columns_rough)(
            const bm_columns *m, const float *b, int n_queries, double *room, float *out, float *squares
        ) noexcept nogil
        void (*columns_moments_f32)(
            const float *first, int64_t gap, int64_t n, int64_t d, double *totals, double *squares
        ) noexcept nogil
        void (*columns_moments_f64)(
            const double *first, int64_t gap, int64_t n, int64_t d, double *totals, double *squares
        ) noexcept nogil
        void (*look_f32)(
            const float *v, int64_t d, double pivot, double *column_squares, bm_look *out, bm_rest *rest
        ) noexcept nogil
        void (*look_f64)(
            const double *v, int64_t d, double pivot, double *column_squares, bm_look *out, bm_rest *rest
        ) noexcept nogil
        void (*rough_sums_f32)(
            int objective, int dtype, const void **a, const float *b, int64_t d, double *out
        ) noexcept nogil
        void (*rough_sums_f64)(
            int objective, int dtype, const void **a, const double *b, int64_t d, double *out
        ) noexcept nogil
        void (*rough_tiles_f32)(
            int objective, const float **a, const float *b, int64_t query_stride, int64_t n_queries, int64_t count,
            double *sums, int64_t sums_stride
        ) noexcept nogil
        void (*rough_tiles_f64)(
            int objective, const double **a, const double *b, int64_t query_stride, int64_t n_queries, int64_t count,
            double *sums, int64_t sums_stride
        ) noexcept nogil
        double (*largest_lower)(const double *middle, const double *radius, int64_t n, int absolute) noexcept nogil
        int64_t (*reaching)(
            const double *middle, const double *radius, int64_t n, int absolute, double bar, int64_t *places
        ) noexcept nogil

        void (*panel_products_f32)(const bm_panel *of, int64_t n_rows, int n_vectors, float *sums) noexcept nogil
        void (*panel_products_f64)(const bm_panel *of, int64_t n_rows, int n_vectors, double *sums) noexcept nogil
        int panel_lanes_f32
        int panel_lanes_f64
        int panel_rows

        double (*scaled_rest_f32)(
            const double *q, const float *c, double part, const double *scale, int64_t d, float *out
        ) noexcept nogil
        double (*scaled_rest_f64)(
            const double *q, const double *c, double part, const double *scale, int64_t d, float *out
        ) noexcept nogil
        double (*largest_size)(const float *x, int64_t n) noexcept nogil

        void (*to_f32)(int dtype, const void *src, int64_t stride_bytes, int64_t count, float *dst) noexcept nogil
        void (*to_f64)(int dtype, const void *src, int64_t stride_bytes, int64_t count, double *dst) noexcept nogil
        void (*turn_f32)(
            const void *columns, int64_t stride_bytes, int64_t n_rows, int64_t n_columns, float *rows, int64_t row_stride
        ) noexcept nogil
        void (*turn_f64)(
            const void *columns, int64_t stride_bytes, int64_t n_rows, int64_t n_columns, double *rows, int64_t row_stride
        ) noexcept nogil
        void (*turn_some_f32)(
            const void *columns, int64_t stride_bytes, int64_t n_columns, const bm_neighbours *groups, int64_t n_groups, int64_t at
        ) noexcept nogil
        void (*turn_some_f64)(
            const void *columns, int64_t stride_bytes, int64_t n_columns, const bm_neighbours *groups, int64_t n_groups, int64_t at
        ) noexcept nogil
        void (*gather)(
            int dtype, const void *row, int64_t stride_bytes, const int64_t *coordinates, int64_t count, double *dst
        ) noexcept nogil

        sparse_dot sparse_dot_f32_i32
        sparse_dot sparse_dot_f64_i32
        sparse_dot sparse_dot_f32_i64
        sparse_dot sparse_dot_f64_i64
        sparse_add sparse_add_f32_i32
        sparse_add sparse_add_f64_i32
        sparse_add sparse_add_f32_i64
        sparse_add sparse_add_f64_i64
        sparse_dots sparse_dots_f32_i32
        sparse_dots sparse_dots_f64_i32
        sparse_dots sparse_dots_f32_i64
        sparse_dots sparse_dots_f64_i64

        void (*flip_signs)(float *x, const uint32_t *sign_words, int64_t n) noexcept nogil
        void (*hadamard)(float *x, int64_t n, float scale, const uint32_t *sign_words) noexcept nogil
        void (*exchange_halves)(float *x, int64_t n, const uint32_t *sign_words) noexcept nogil

        void (*pack_signs)(const float *x, int64_t n, uint64_t *bits) noexcept nogil
        void (*quantise)(
            const float *p, const uint8_t *dither, int64_t n, float step, int n_bits, uint64_t *planes,
            int64_t plane_stride_words, const int64_t *prefix_ends, int n_prefixes, int64_t *totals
        ) noexcept nogil
        void (*pack_grid)(
            const float *x, int64_t n, float step, int n_bits, uint64_t *planes, int64_t plane_stride_words, double *out
        ) noexcept nogil
        void (*prefix_sizes)(const float *x, const int64_t *prefix_ends, int n_prefixes, double *sums) noexcept nogil
        void (*bit_sums)(
            const uint64_t *codes, int64_t code_stride_words, const int64_t *rows, int64_t n_rows,
            const uint64_t *query_planes, int64_t plane_stride_words, int n_planes, int64_t n_words, int64_t *sums
        ) noexcept nogil

        void (*certain_intervals)(
            const bm_certain *known, const bm_certain_query *query, const int64_t *rows, int64_t first, int64_t n,
            double *middle, double *radius
        ) noexcept nogil
        void (*code_estimates)(
            const bm_code_round *round, const int64_t *rows, int64_t n, const int64_t *sums, double *middle
        ) noexcept nogil
        void (*code_radii)(const bm_code_round *round, const int64_t *rows, int64_t n, double *radius) noexcept nogil
        void (*give_up_overflowed)(double *middle, double *radius, int64_t n) noexcept nogil
        void (*lower_ends)(
            const double *middle, const double *radius, int64_t n, int absolute, double *lower
        ) noexcept nogil
        int64_t (*mark_beaten)(
            const double *middle, const double *radius, int64_t n, int absolute, double reach, double bar,
            uint8_t *beaten
        ) noexcept nogil
        void (*root_sums)(
            const double *weights, int64_t m, const double *rows, int64_t n_rows, int64_t n, double *out
        ) noexcept nogil
        void (*score_ends)(
            const double *products, const double *deviations, int64_t n, const bm_ranked *ranked, double *lower,
            double *upper
        ) noexcept nogil
        void (*row_bytes)(
            const float *v, int64_t count, const bm_dither *dither, const void *next, int8_t *bytes, bm_bytes *out
        ) noexcept nogil
        void (*copy_columns_f32)(
            const void *first, int64_t stride_bytes, int64_t n_atoms, int64_t count, float *room
        ) noexcept nogil
        void (*copy_columns_f64)(
            const void *first, int64_t stride_bytes, int64_t n_atoms, int64_t count, float *room
        ) noexcept nogil
        void (*column_bytes)(
            const float *v, int64_t count, const bm_dither *dither, const void *next, int64_t stride_bytes,
            int32_t *fours, bm_bytes *out
        ) noexcept nogil
        void (*byte_products)(
            const void *atoms, const bm_byte_layout *layout, const bm_bytes *of_atoms, const bm_byte_queries *queries,
            const bm_fetched *next, double *products
        ) noexcept nogil

        void (*cell_terms_f32)(
            const float *v, const double *q, int64_t size, int objective, double row_scale, double *terms
        ) noexcept nogil
        void (*cell_terms_f64)(
            const double *v, const double *q, int64_t size, int objective, double row_scale, double *terms
        ) noexcept nogil
        double (*cell_scatter_f32)(const float *v, const double *scale, int64_t size, double center) noexcept nogil
        double (*cell_scatter_f64)(const double *v, const double *scale, int64_t size, double center) noexcept nogil
        double (*cell_spread)(
            const bm_weighed *cells, const double *leading, double sign, double ratio, double *share
        ) noexcept nogil

cdef const Kernels *bm_kernels() noexcept nogil
