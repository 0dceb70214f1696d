/* Sums over the coordinates of rows, for REAL = float or double (TYPE = f32 or f64).
 *
 * Float lanes are added over a stretch of coordinates only and then go on in double, so that the error of a sum does
 * not grow with d.
 */

static double F(dot_slowly)(const REAL *a, const REAL *b, int64_t d) {
    double sum = 0;
    for (int64_t j = 0; j < d; j++) {
        LOAD_UNALIGNED(REAL, x, a + j);
        LOAD_UNALIGNED(REAL, y, b + j);
        sum += (double)x * y;
    }
    return sum;
}

/* Four vectors are added side by side because an addition takes about four steps of the processor. Products that are too
 * large for a float end in inf or NaN; only then is it worth looking again in double, and what is inf or NaN in truth
 * stays so. */
static double F(dot)(const REAL *a, const REAL *b, int64_t d) {
    enum { STRETCH = 256 * LANES };
    v_f64 total = {0};
    for (int64_t start = 0; start < d; start += STRETCH) {
        const int64_t end = d - start < STRETCH ? d : start + STRETCH;
        V s0 = {0}, s1 = {0}, s2 = {0}, s3 = {0};
        int64_t j = start;
        for (; end - j >= 4 * LANES; j += 4 * LANES) {
            s0 += F(load)(a + j) * F(load)(b + j);
            s1 += F(load)(a + j + LANES) * F(load)(b + j + LANES);
            s2 += F(load)(a + j + 2 * LANES) * F(load)(b + j + 2 * LANES);
            s3 += F(load)(a + j + 3 * LANES) * F(load)(b + j + 3 * LANES);
        }
        for (; end - j >= LANES; j += LANES) s0 += F(load)(a + j) * F(load)(b + j);
        if (j < end) s1 += F(load_part)(a + j, end - j) * F(load_part)(b + j, end - j);
        total += F(widen)((s0 + s1) + (s2 + s3));
    }
    const double sum = sum_f64(total);
    return IS_FLOAT && !isfinite(sum) ? F(dot_slowly)(a, b, d) : sum;
}

/* Add the terms of `n_rows` rows with b, in double, to two vectors of sums of each row. n_rows and the objective are constants
 * wherever this is called. */
ALWAYS_INLINE void F(add_terms)(int objective, const REAL *const *a, int n_rows, const double *b, int64_t start, int64_t end,
                                v_f64 *s0, v_f64 *s1) {
    int64_t j = start;
    for (; end - j >= 2 * LANES_f64; j += 2 * LANES_f64) {
        v_f64 b0 = load_f64(b + j), b1 = load_f64(b + j + LANES_f64);
        KEEP_LOADED(b0);
        KEEP_LOADED(b1);
        for (int r = 0; r < n_rows; r++) {
            s0[r] += terms_f64(objective, F(load_wide)(a[r] + j), b0);
            s1[r] += terms_f64(objective, F(load_wide)(a[r] + j + LANES_f64), b1);
        }
    }
    if (j < end) { /* with zeros behind what is left */
        const int64_t n0 = end - j < LANES_f64 ? end - j : LANES_f64, n1 = end - j - n0;
        const v_f64 b0 = load_part_f64(b + j, n0), b1 = load_part_f64(b + j + n0, n1);
        for (int r = 0; r < n_rows; r++) {
            s0[r] += terms_f64(objective, F(load_part_wide)(a[r] + j, n0), b0);
            s1[r] += terms_f64(objective, F(load_part_wide)(a[r] + j + n0, n1), b1);
        }
    }
}

/* Sums over the terms of rows with b, stretch by stretch. Whichever rows come together, and however many stretches at a time,
 * each is added up in the same order. Several rows at once keep more of them on their way from memory. */
ALWAYS_INLINE void F(sums_of)(int objective, const REAL *const *a, int n_rows, const double *b, int64_t d, double *out) {
    for (int r = 0; r < n_rows; r++) out[r] = 0;
    for (int64_t start = 0; start < d; start += BM_STRETCH) {
        v_f64 s0[4], s1[4];
        for (int r = 0; r < n_rows; r++) s0[r] = s1[r] = (v_f64){0};
        F(add_terms)(objective, a, n_rows, b, start, d - start < BM_STRETCH ? d : start + BM_STRETCH, s0, s1);
        for (int r = 0; r < n_rows; r++) out[r] += sum_in_order(s0[r] + s1[r]);
    }
}

static double F(dot_exact)(const REAL *a, const double *b, int64_t d) {
    double sum;
    F(sums_of)(BM_PRODUCTS, &a, 1, b, d, &sum);
    return sum;
}

#define OF_ROWS(objective)                          \
    if (n_rows == 1)                                \
        F(sums_of)(objective, a, 1, b, d, out);     \
    else if (n_rows == 2)                           \
        F(sums_of)(objective, a, 2, b, d, out);     \
    else                                            \
        F(sums_of)(objective, a, 4, b, d, out);
NEVER_INLINE void F(sums_exact)(int objective, const REAL *const a[4], int n_rows, const double *b, int64_t d, double out[4]) {
    switch (objective) {
        case BM_PRODUCTS: OF_ROWS(BM_PRODUCTS) break;
        case BM_SQUARES: OF_ROWS(BM_SQUARES) break;
        default: OF_ROWS(BM_SIZES)
    }
}
#undef OF_ROWS

#if BM_VECTOR_BYTES
/* Numbers of a query, floats or doubles, from place j on */
ALWAYS_INLINE v_f64 F(load_query)(const void *b, int is_single, int64_t j) {
    return is_single ? load_wide_f32((const float *)b + j) : load_f64((const double *)b + j);
}
ALWAYS_INLINE v_f64 F(load_part_of_query)(const void *b, int is_single, int64_t j, int64_t n) {
    return is_single ? load_part_wide_f32((const float *)b + j, n) : load_part_f64((const double *)b + j, n);
}

/* The terms of a part of a stretch of one row with some queries, which share what is loaded of it: what is added up of each
 * stays as it is, in the lanes of two vectors, where add_terms would have it. Queries of floats take half of the cache, and
 * their numbers are the same in double. */
ALWAYS_INLINE void F(add_to_lanes)(int objective, const REAL *a, const void *const *b, int is_single, int n_queries, int64_t d,
                                   double *lanes) {
    v_f64 s0[4], s1[4];
    for (int q = 0; q < n_queries; q++) {
        s0[q] = load_f64(lanes + q * BM_SUMS);
        s1[q] = load_f64(lanes + q * BM_SUMS + LANES_f64);
    }
    int64_t j = 0;
    for (; d - j >= 2 * LANES_f64; j += 2 * LANES_f64) {
        v_f64 a0 = F(load_wide)(a + j), a1 = F(load_wide)(a + j + LANES_f64);
        KEEP_LOADED(a0);
        KEEP_LOADED(a1);
        for (int q = 0; q < n_queries; q++) {
            s0[q] += terms_f64(objective, a0, F(load_query)(b[q], is_single, j));
            s1[q] += terms_f64(objective, a1, F(load_query)(b[q], is_single, j + LANES_f64));
        }
    }
    if (j < d) { /* with zeros behind what is left */
        const int64_t n0 = d - j < LANES_f64 ? d - j : LANES_f64, n1 = d - j - n0;
        const v_f64 a0 = F(load_part_wide)(a + j, n0), a1 = F(load_part_wide)(a + j + n0, n1);
        for (int q = 0; q < n_queries; q++) {
            s0[q] += terms_f64(objective, a0, F(load_part_of_query)(b[q], is_single, j, n0));
            s1[q] += terms_f64(objective, a1, F(load_part_of_query)(b[q], is_single, j + n0, n1));
        }
    }
    for (int q = 0; q < n_queries; q++) {
        store_f64(lanes + q * BM_SUMS, s0[q]);
        store_f64(lanes + q * BM_SUMS + LANES_f64, s1[q]);
    }
}
#else
/* The compiler adds up plain numbers as it likes: parts are whole stretches here. */
ALWAYS_INLINE void F(add_to_lanes)(int objective, const REAL *a, const void *const *b, int is_single, int n_queries, int64_t d,
                                   double *lanes) {
    double wide[BM_STRETCH];
    for (int q = 0; q < n_queries; q++) {
        double found[4];
        const REAL *const same[4] = {a, a, a, a};
        for (int64_t j = 0; is_single && j < d; j++) {
            LOAD_UNALIGNED(float, x, (const float *)b[q] + j);
            wide[j] = x;
        }
        F(sums_exact)(objective, same, 1, is_single ? wide : b[q], d, found);
        lanes[q * BM_SUMS] += found[0];
    }
}
#endif

#define OF_QUERIES(objective, is_single)                                   \
    if (n_queries == 1)                                                    \
        F(add_to_lanes)(objective, a, some, is_single, 1, d, lanes);       \
    else if (n_queries == 2)                                               \
        F(add_to_lanes)(objective, a, some, is_single, 2, d, lanes);       \
    else                                                                   \
        F(add_to_lanes)(objective, a, some, is_single, 4, d, lanes);
#define OF_OBJECTIVES(is_single)                                           \
    switch (objective) {                                                   \
        case BM_PRODUCTS: OF_QUERIES(BM_PRODUCTS, is_single) break;        \
        case BM_SQUARES: OF_QUERIES(BM_SQUARES, is_single) break;          \
        default: OF_QUERIES(BM_SIZES, is_single)                           \
    }
static void F(add_part)(int objective, const REAL *a, const double *const b[4], int n_queries, int64_t d, double *lanes) {
    const void *some[4];
    for (int q = 0; q < n_queries; q++) some[q] = b[q];
    OF_OBJECTIVES(0)
}
#if IS_FLOAT
static void add_part_of_floats(int objective, const float *a, const float *const b[4], int n_queries, int64_t d, double *lanes) {
    const void *some[4];
    for (int q = 0; q < n_queries; q++) some[q] = b[q];
    OF_OBJECTIVES(1)
}
#endif
#undef OF_OBJECTIVES
#undef OF_QUERIES

#if !IS_FLOAT
static void end_stretch(double *lanes, int64_t n, double *sums) {
    for (int64_t t = 0; t < n; t++, lanes += BM_SUMS) {
#if BM_VECTOR_BYTES
        sums[t] += sum_in_order(load_f64(lanes) + load_f64(lanes + LANES_f64));
        store_f64(lanes, (v_f64){0});
        store_f64(lanes + LANES_f64, (v_f64){0});
#else
        sums[t] += lanes[0];
        lanes[0] = 0;
#endif
    }
}
#endif

static void F(moments_slowly)(const REAL *q, int64_t d, struct bm_moments *out) {
    double total = 0, size = 0, squares = 0;
    for (int64_t j = 0; j < d; j++) {
        LOAD_UNALIGNED(REAL, x_real, q + j);
        const double x = x_real;
        total += x;
        size += fabs(x);
        squares += x * x;
    }
    out->total = total;
    out->size = size;
    out->squares = squares;
}

static void F(moments)(const REAL *q, int64_t d, double *wide, struct bm_moments *out) {
    enum { STRETCH = 1024 };
    v_f64 total = {0}, size = {0}, squares = {0}, nonzero = {0};
    V largest0 = {0}, largest1 = {0};
    for (int64_t start = 0; start < d; start += STRETCH) {
        const int64_t end = d - start < STRETCH ? d : start + STRETCH;
        V t0 = {0}, t1 = {0}, a0 = {0}, a1 = {0}, s0 = {0}, s1 = {0}, n0 = {0};
        int64_t j = start;
        for (; end - j >= 2 * LANES; j += 2 * LANES) {
            const V x0 = F(load)(q + j), x1 = F(load)(q + j + LANES);
            t0 += x0;
            t1 += x1;
            a0 += F(abs)(x0);
            a1 += F(abs)(x1);
            s0 += x0 * x0;
            s1 += x1 * x1;
            n0 += F(nonzero)(x0) + F(nonzero)(x1);
            largest0 = F(max)(F(abs)(x0), largest0);
            largest1 = F(max)(F(abs)(x1), largest1);
        }
        for (; j < end; j += LANES) {
            const V x = end - j >= LANES ? F(load)(q + j) : F(load_part)(q + j, end - j);
            t0 += x;
            a0 += F(abs)(x);
            s0 += x * x;
            n0 += F(nonzero)(x);
            largest0 = F(max)(F(abs)(x), largest0);
        }
        if (wide) { /* while the stretch is in the first cache */
            for (j = start; end - j >= LANES_f64; j += LANES_f64) store_f64(wide + j, F(load_wide)(q + j));
            for (; j < end; j++) {
                LOAD_UNALIGNED(REAL, x, q + j);
                wide[j] = x;
            }
        }
        total += F(widen)(t0 + t1);
        size += F(widen)(a0 + a1);
        squares += F(widen)(s0 + s1);
        nonzero += F(widen)(n0);
    }
    REAL lanes[LANES], largest = 0;
    const V both = F(max)(largest0, largest1);
    memcpy(lanes, &both, sizeof both);
    for (int i = 0; i < LANES; i++) largest = lanes[i] > largest ? lanes[i] : largest;
    out->total = sum_f64(total);
    out->size = sum_f64(size);
    out->squares = sum_f64(squares);
    out->n_nonzero = (int64_t)sum_f64(nonzero);
    /* Between these two the squares of floats neither overflow nor lose anything that counts beside the largest. */
    if (IS_FLOAT && largest != 0 && !(largest >= (REAL)1e-15 && largest <= (REAL)1e15)) F(moments_slowly)(q, d, out);
    out->largest = isnan(out->size) ? (double)NAN : (double)largest;
}

static double F(scaled_rest)(const double *q, const REAL *c, double part, const double scale[2], int64_t d, float *out) {
    v_f64 largest0 = {0}, largest1 = {0}, sum = {0};
    int64_t j = 0;
    for (; d - j >= 2 * LANES_f64; j += 2 * LANES_f64) {
        const v_f64 x0 = load_f64(q + j) - part * F(load_wide)(c + j);
        const v_f64 x1 = load_f64(q + j + LANES_f64) - part * F(load_wide)(c + j + LANES_f64);
        store_narrow(out + j, x0 * scale[0] * scale[1]);
        store_narrow(out + j + LANES_f64, x1 * scale[0] * scale[1]);
        const v_f64 size0 = abs_f64(x0), size1 = abs_f64(x1);
        largest0 = max_f64(size0, largest0);
        largest1 = max_f64(size1, largest1);
        sum += size0 + size1; /* a maximum passes over NaN */
    }
    double lanes[LANES_f64], largest = 0, total = sum_f64(sum);
    store_f64(lanes, max_f64(largest0, largest1));
    for (int i = 0; i < LANES_f64; i++) largest = lanes[i] > largest ? lanes[i] : largest;
    for (; j < d; j++) {
        LOAD_UNALIGNED(double, q_j, q + j);
        LOAD_UNALIGNED(REAL, c_j, c + j);
        const double x = q_j - part * c_j;
        out[j] = (float)(x * scale[0] * scale[1]);
        largest = fabs(x) > largest ? fabs(x) : largest;
        total += fabs(x);
    }
    return isnan(total) ? (double)NAN : largest;
}

#if IS_FLOAT
static double largest_size(const float *x, int64_t n) {
    v_f32 largest[4];
    for (int i = 0; i < 4; i++) largest[i] = (v_f32){0};
    float lanes[LANES_f32], top = 0;
    int64_t j = 0;
    for (; n - j >= 4 * LANES_f32; j += 4 * LANES_f32)
        for (int i = 0; i < 4; i++) largest[i] = max_f32(abs_f32(load_f32(x + j + i * LANES_f32)), largest[i]);
    store_f32(lanes, max_f32(max_f32(largest[0], largest[1]), max_f32(largest[2], largest[3])));
    for (int i = 0; i < LANES_f32; i++) top = lanes[i] > top ? lanes[i] : top;
    for (; j < n; j++) top = fabsf(x[j]) > top ? fabsf(x[j]) : top;
    return top;
}

/* The sum of |x| */
static double size_f32(const float *x, int64_t n) {
    enum { STRETCH = 1024 };
    v_f64 total = {0};
    for (int64_t start = 0; start < n; start += STRETCH) {
        const int64_t end = n - start < STRETCH ? n : start + STRETCH;
        v_f32 s0 = {0}, s1 = {0};
        int64_t j = start;
        for (; end - j >= 2 * LANES_f32; j += 2 * LANES_f32) {
            s0 += abs_f32(load_f32(x + j));
            s1 += abs_f32(load_f32(x + j + LANES_f32));
        }
        for (; j < end; j += LANES_f32)
            s0 += abs_f32(end - j >= LANES_f32 ? load_f32(x + j) : load_part_f32(x + j, end - j));
        total += widen_f32(s0 + s1);
    }
    return sum_f64(total);
}
#endif

#if !IS_FLOAT
ALWAYS_INLINE double largest_lane(v_f64 x) {
    double lanes[LANES_f64], largest = -INFINITY;
    store_f64(lanes, x);
    for (int i = 0; i < LANES_f64; i++) largest = lanes[i] > largest ? lanes[i] : largest;
    return largest;
}

static double largest_lower(const double *middle, const double *radius, int64_t n, int absolute) {
    v_f64 top = (v_f64){0} + -INFINITY;
    int64_t j = 0;
    for (; n - j >= LANES_f64; j += LANES_f64) {
        const v_f64 m = load_f64(middle + j);
        top = max_f64((absolute ? abs_f64(m) : m) - load_f64(radius + j), top);
    }
    double largest = largest_lane(top);
    for (; j < n; j++) {
        LOAD_UNALIGNED(double, m, middle + j);
        LOAD_UNALIGNED(double, r, radius + j);
        const double lower = (absolute ? fabs(m) : m) - r;
        largest = lower > largest ? lower : largest;
    }
    return largest;
}

static int64_t reaching(const double *middle, const double *radius, int64_t n, int absolute, double bar,
                        int64_t *places) {
    enum { BLOCK = 64 };
    int64_t count = 0;
    for (int64_t start = 0; start < n; start += BLOCK) {
        const int64_t end = n - start < BLOCK ? n : start + BLOCK;
        v_f64 top = (v_f64){0} + -INFINITY, sum = {0};
        if (end - start == BLOCK) { /* mostly nobody does */
            for (int64_t j = start; j < end; j += LANES_f64) {
                const v_f64 m = load_f64(middle + j);
                const v_f64 upper = (absolute ? abs_f64(m) : m) + load_f64(radius + j);
                top = max_f64(upper, top);
                sum += upper; /* a maximum passes over NaN */
            }
            if (largest_lane(top) < bar && !isnan(sum_f64(sum))) continue;
        }
        int64_t j = start;
#if BM_VECTOR_BYTES == 64
        for (; end - j >= LANES_f64; j += LANES_f64) { /* what is written behind the last place has room: count <= j */
            const v_f64 m = load_f64(middle + j), upper = (absolute ? abs_f64(m) : m) + load_f64(radius + j);
            const __mmask8 reach = _mm512_cmp_pd_mask(upper, (v_f64){0} + bar, _CMP_NLT_UQ);
            const __m512i here = _mm512_add_epi64(_mm512_set1_epi64(j), _mm512_setr_epi64(0, 1, 2, 3, 4, 5, 6, 7));
            _mm512_storeu_si512(places + count, _mm512_maskz_compress_epi64(reach, here));
            count += _mm_popcnt_u32(reach);
        }
#endif
        for (; j < end; j++) {
            LOAD_UNALIGNED(double, m, middle + j);
            LOAD_UNALIGNED(double, r, radius + j);
            places[count] = j;
            count += !((absolute ? fabs(m) : m) + r < bar);
        }
    }
    return count;
}
#endif
