/* What sampled cells say of one atom, for values of type REAL (float or double), every term and sum in double. */

#if IS_FLOAT
enum { PRODUCT, NEG_SQUARED_DIFFERENCE, NEG_ABSOLUTE_DIFFERENCE };

/* What a cell adds to a score; `objective` is a constant wherever this is called. */
ALWAYS_INLINE v_f64 cell_term(int objective, v_f64 q, v_f64 v) {
    if (objective == PRODUCT) return q * v;
    const v_f64 apart = abs_f64(q - v);
    return objective == NEG_SQUARED_DIFFERENCE ? -(apart * apart) : -apart;
}
#endif

ALWAYS_INLINE void F(fill_terms)(const REAL *v, const double *q, int64_t size, int objective, double row_scale,
                                 double *terms) {
    int64_t j = 0;
    for (; size - j >= LANES_f64; j += LANES_f64)
        store_f64(terms + j, row_scale * cell_term(objective, load_f64(q + j), F(load_wide)(v + j)));
    if (j < size) {
        double lanes[LANES_f64];
        const v_f64 values = F(load_part_wide)(v + j, size - j);
        store_f64(lanes, row_scale * cell_term(objective, load_part_f64(q + j, size - j), values));
        memcpy(terms + j, lanes, (size_t)(size - j) * sizeof *terms);
    }
}

static void F(cell_terms)(const REAL *v, const double *q, int64_t size, int objective, double row_scale, double *terms) {
    if (objective == PRODUCT)
        F(fill_terms)(v, q, size, PRODUCT, row_scale, terms);
    else if (objective == NEG_SQUARED_DIFFERENCE)
        F(fill_terms)(v, q, size, NEG_SQUARED_DIFFERENCE, row_scale, terms);
    else
        F(fill_terms)(v, q, size, NEG_ABSOLUTE_DIFFERENCE, row_scale, terms);
}

static double F(cell_scatter)(const REAL *v, const double *scale, int64_t size, double center) {
    v_f64 sum = {0};
    for (int64_t j = 0; j < size; j += LANES_f64) {
        const int64_t left = size - j, whole = left >= LANES_f64;
        const v_f64 apart = (whole ? F(load_wide)(v + j) : F(load_part_wide)(v + j, left)) - center;
        sum += (whole ? load_f64(scale + j) : load_part_f64(scale + j, left)) * (apart * apart);
    }
    return sum_f64(sum);
}

#if !IS_FLOAT
static double cell_spread(const struct bm_weighed *cells, const double *leading, double sign, double ratio,
                          double *share) {
    v_f64 about_ratio = {0}, about_zero = {0}, largest_about_ratio = {0}, largest_about_zero = {0};
    for (int64_t j = 0; j < cells->size; j += LANES_f64) {
        /* Behind the last cells are zeros: cells without a spread. */
        const int64_t left = cells->size - j, whole = left >= LANES_f64;
#define LOAD(p) (whole ? load_f64((p) + j) : load_part_f64((p) + j, left))
        v_f64 x = sign * LOAD(cells->terms);
        if (leading) x += LOAD(leading);
        const v_f64 spread = LOAD(cells->spread), zero = spread * x, apart = zero - ratio * (spread * LOAD(cells->unit));
#undef LOAD
        const v_f64 square_about_zero = zero * zero, square_about_ratio = apart * apart;
        about_ratio += square_about_ratio;
        about_zero += square_about_zero;
        largest_about_ratio = max_f64(square_about_ratio, largest_about_ratio);
        largest_about_zero = max_f64(square_about_zero, largest_about_zero);
    }
    const double variance = sum_f64(about_ratio), squares = sum_f64(about_zero);
    *share = squares > 0 ? largest_lane(largest_about_zero) / squares : 1;
    if (variance > 0) {
        const double other = largest_lane(largest_about_ratio) / variance;
        *share = other > *share ? other : *share;
    }
    return variance;
}
#endif
