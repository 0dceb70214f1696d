/* What `fit` learns of a stretch of an atom of REAL = float or double (TYPE = f32 or f64) while it is at hand. */

enum {
    F(TOGETHER) = 32, /* numbers that are looked at together: those with one word of signs */
    F(AHEAD) = 2048,  /* bytes from which memory is asked for: there is too much to do for the processor to see so far */
};

/* In this order, so that facts are the same to the bit whether something is left over of the rows or not */
#if BM_VECTOR_BYTES
#define ADD(sum, x)    \
    do {               \
        (sum) += (x);  \
        IN_ORDER(sum); \
    } while (0)
#else
#define ADD(sum, x) (sum) += (x)
#endif

/* 32 numbers v - c as floats, with some signs changed */
ALWAYS_INLINE void F(put_rest)(const REAL *v, const REAL *c, uint32_t signs, float *x) {
    for (int i = 0; i < F(TOGETHER); i += LANES_f32) {
#if IS_FLOAT
        const v_f32 rest = load_f32(v + i) - load_f32(c + i);
#else
        float narrow[LANES_f32];
        for (int k = 0; k < LANES_f32; k += LANES_f64)
            store_narrow(narrow + k, load_f64(v + i + k) - load_f64(c + i + k));
        const v_f32 rest = load_f32(narrow);
#endif
        store_f32(x + i, flip(rest, signs, lanes_at(i)));
    }
}

/* Sums about a pivot, the range, and squares added to those of the columns (unless these are NULL), in one pass; what is left
 * without the centre too, unless `rest` is NULL, which it is for certain or certainly not wherever this is called. */
ALWAYS_INLINE void F(look_at)(const REAL *v, int64_t d, double pivot, double *column_squares, struct bm_look *out,
                              struct bm_rest *rest) {
    const REAL *c = rest ? rest->centre : NULL;
    const uint32_t *signs = rest ? rest->signs : NULL;
    float *left = rest ? rest->x : NULL;
    v_f64 t0 = {0}, t1 = {0}, s0 = {0}, s1 = {0}, p0 = {0}, p1 = {0}, r0 = {0}, r1 = {0};
    V high = (V){0} + (REAL)-INFINITY, low = (V){0} + (REAL)INFINITY;
    int64_t j = 0;
    for (; d - j >= F(TOGETHER); j += F(TOGETHER)) {
        for (int i = 0; i < F(TOGETHER); i += 64 / (int)sizeof(REAL)) PREFETCH((const char *)(v + j + i) + F(AHEAD));
        v_f64 few_t0 = {0}, few_t1 = {0}, few_s0 = {0}, few_s1 = {0}; /* sums of few round less */
        for (int64_t i = j; i < j + F(TOGETHER); i += 2 * LANES_f64) {
            const v_f64 x = F(load_wide)(v + i), y = F(load_wide)(v + i + LANES_f64);
            const v_f64 x_apart = x - pivot, y_apart = y - pivot;
            ADD(few_t0, x_apart);
            ADD(few_t1, y_apart);
            ADD(few_s0, x_apart * x_apart);
            ADD(few_s1, y_apart * y_apart);
            if (column_squares) {
                store_f64(column_squares + i, load_f64(column_squares + i) + x * x);
                store_f64(column_squares + i + LANES_f64, load_f64(column_squares + i + LANES_f64) + y * y);
            }
            if (rest) {
                const v_f64 c0 = F(load_wide)(c + i), c1 = F(load_wide)(c + i + LANES_f64);
                const v_f64 x_left = x - c0, y_left = y - c1;
                p0 += x_left * c0;
                p1 += y_left * c1;
                r0 += x_left * x_left;
                r1 += y_left * y_left;
            }
        }
        ADD(t0, few_t0);
        ADD(t1, few_t1);
        ADD(s0, few_s0);
        ADD(s1, few_s1);
        for (int64_t i = j; i < j + F(TOGETHER); i += LANES) {
            const V given = F(load)(v + i);
            high = F(max)(given, high);
            low = F(min)(given, low);
        }
        if (rest) F(put_rest)(v + j, c + j, signs[j / 32], left + j);
    }
    REAL highs[LANES], lows[LANES];
    F(store)(highs, high);
    F(store)(lows, low);
    double total = sum_in_order(t0 + t1), squares = sum_in_order(s0 + s1);
    out->low = INFINITY;
    out->high = -INFINITY;
    for (int i = 0; i < LANES; i++) {
        if (highs[i] > out->high) out->high = highs[i];
        if (lows[i] < out->low) out->low = lows[i];
    }
    double product = sum_f64(p0 + p1), square = sum_f64(r0 + r1);
    for (; j < d; j++) {
        LOAD_UNALIGNED(REAL, x_real, v + j);
        const double x = x_real, apart = x - pivot;
        ADD(total, apart);
        ADD(squares, apart * apart);
        if (x > out->high) out->high = x;
        if (x < out->low) out->low = x;
        if (column_squares) column_squares[j] += x * x;
        if (rest) {
            LOAD_UNALIGNED(REAL, c_real, c + j);
            const double x_left = x - c_real;
            product += x_left * c_real;
            square += x_left * x_left;
            left[j] = (float)(signs[j / 32] >> (j % 32) & 1 ? -x_left : x_left);
        }
    }
    out->total = total;
    out->squares = squares;
    if (rest) {
        rest->product += product;
        rest->square += square;
    }
}

static void F(look)(const REAL *v, int64_t d, double pivot, double *column_squares, struct bm_look *out,
                    struct bm_rest *rest) {
    if (rest)
        F(look_at)(v, d, pivot, column_squares, out, rest);
    else
        F(look_at)(v, d, pivot, column_squares, out, NULL);
}

#undef ADD
