/* Products of a sparse matrix, for REAL = float or double (TYPE = f32 or f64) and PLACE = int32_t or int64_t
 * (WHERE = _i32 or _i64).
 *
 * Nobody has looked at the matrix before: each pointer and each place is compared with what there is just before it is
 * used. Without a sign, a negative place is a very large one.
 */

#define S(name) BM_JOIN(BM_JOIN(name##_, TYPE), WHERE)

ALWAYS_INLINE int S(sparse_span)(const struct bm_sparse *m, int64_t line, int64_t *start, int64_t *stop) {
    const PLACE *starts = m->starts;
    *start = starts[line];
    *stop = starts[line + 1];
    return 0 <= *start && *start <= *stop && *stop <= m->n_stored;
}

/* The product of a row whose places are known to be inside, one entry after another: sums of every eighth or sixteenth may
 * overflow where that of all of them does not. (Volatile, or the compiler would make such sums of it again.) */
static double S(sparse_in_turn)(const REAL *values, const PLACE *places, int64_t count, const void *query, int is_single) {
    volatile double sum = 0.0;
    for (int64_t e = 0; e < count; e++)
        sum += values[e] * (is_single ? (double)((const float *)query)[places[e]] : ((const double *)query)[places[e]]);
    return sum;
}

#if BM_VECTOR_BYTES == 64
/* Up to eight places, zeros behind them, and whether one is outside; the numbers of the query there, and the entries. */
ALWAYS_INLINE __m512i S(sparse_places)(const PLACE *places, __mmask8 here, uint64_t size, int *outside) {
    __m512i at;
    if (sizeof(PLACE) == 4)
        at = _mm512_cvtepi32_epi64(_mm256_maskz_loadu_epi32(here, places)); /* its sign goes with it */
    else
        at = _mm512_maskz_loadu_epi64(here, places);
    *outside |= _mm512_mask_cmpge_epu64_mask(here, at, _mm512_set1_epi64((int64_t)size));
    return at;
}

ALWAYS_INLINE v_f64 S(sparse_numbers)(const void *query, int is_single, __m512i at, __mmask8 here) {
    if (is_single) return (v_f64)_mm512_cvtps_pd(_mm512_mask_i64gather_ps(_mm256_setzero_ps(), here, at, query, sizeof(float)));
    return (v_f64)_mm512_mask_i64gather_pd(_mm512_setzero_pd(), here, at, query, sizeof(double));
}

ALWAYS_INLINE v_f64 S(sparse_entries)(const REAL *values, __mmask8 here) {
    if (sizeof(REAL) == 4) return (v_f64)_mm512_cvtps_pd(_mm256_maskz_loadu_ps(here, values));
    return (v_f64)_mm512_maskz_loadu_pd(here, values);
}

/* Two vectors side by side, because an addition takes about four steps of the processor. What follows is asked for: numbers of
 * the query that come between keep processors from reading as far ahead as memory is away. Rows are short, so that what is left
 * of one behind whole vectors is a good part of it: it is a vector, too. (Measured: 0.45 to 0.6 ns an entry, number by number
 * 1.2 to 1.6.) */
ALWAYS_INLINE int S(sparse_row)(const REAL *values, const PLACE *places, int64_t count, uint64_t size,
                                const void *query, const int is_single, double *product) {
    enum { STEP = 16, AHEAD = 384 };
    v_f64 s0 = {0}, s1 = {0};
    for (int64_t e = 0; e < count; e += STEP) {
        const uint32_t here = count - e >= STEP ? 0xffff : (1u << (count - e)) - 1;
        int outside = 0;
        PREFETCH(values + e + AHEAD);
        PREFETCH(places + e + AHEAD);
        const __m512i at0 = S(sparse_places)(places + e, (__mmask8)here, size, &outside);
        const __m512i at1 = S(sparse_places)(places + e + 8, (__mmask8)(here >> 8), size, &outside);
        if (outside) return 0;
        s0 += S(sparse_entries)(values + e, (__mmask8)here) * S(sparse_numbers)(query, is_single, at0, (__mmask8)here);
        s1 += S(sparse_entries)(values + e + 8, (__mmask8)(here >> 8)) *
              S(sparse_numbers)(query, is_single, at1, (__mmask8)(here >> 8));
    }
    *product = sum_f64(s0 + s1);
    if (!isfinite(*product)) *product = S(sparse_in_turn)(values, places, count, query, is_single);
    return 1;
}
#else
ALWAYS_INLINE v_f64 S(sparse_numbers)(const void *query, int is_single, const PLACE *places) {
    const float *singles = query;
    const double *doubles = query;
#if BM_VECTOR_BYTES
    if (is_single) {
        half_f32 numbers = {0};
        for (int i = 0; i < LANES_f64; i++) numbers[i] = singles[places[i]];
        return __builtin_convertvector(numbers, v_f64);
    }
    v_f64 numbers = {0};
    for (int i = 0; i < LANES_f64; i++) numbers[i] = doubles[places[i]];
    return numbers;
#else
    return is_single ? singles[*places] : doubles[*places];
#endif
}

/* Two vectors side by side, because an addition takes about four steps of the processor. What follows is asked for: numbers of
 * the query that come between keep processors from reading as far ahead as memory is away (measured: in little more than half
 * of the time from memory, and a twentieth more from the cache). */
ALWAYS_INLINE int S(sparse_row)(const REAL *values, const PLACE *places, int64_t count, uint64_t size,
                                const void *query, const int is_single, double *product) {
    enum { STEP = 2 * LANES_f64, AHEAD = 384 };
    v_f64 s0 = {0}, s1 = {0};
    int64_t e = 0;
    for (; count - e >= STEP; e += STEP) {
        int outside = 0;
        PREFETCH(values + e + AHEAD);
        PREFETCH(places + e + AHEAD);
        for (int i = 0; i < STEP; i++) outside |= (uint64_t)places[e + i] >= size;
        if (outside) return 0;
        s0 += BM_JOIN(load_wide_, TYPE)(values + e) * S(sparse_numbers)(query, is_single, places + e);
        s1 += BM_JOIN(load_wide_, TYPE)(values + e + LANES_f64) *
              S(sparse_numbers)(query, is_single, places + e + LANES_f64);
    }
    double sum = sum_f64(s0 + s1);
    for (; e < count; e++) {
        if ((uint64_t)places[e] >= size) return 0;
        sum += values[e] * (is_single ? ((const float *)query)[places[e]] : ((const double *)query)[places[e]]);
    }
    if (!isfinite(sum)) sum = S(sparse_in_turn)(values, places, count, query, is_single);
    *product = sum;
    return 1;
}
#endif

ALWAYS_INLINE int64_t S(sparse_rows)(const struct bm_sparse *m, const int64_t *rows, int64_t n_rows, const void *query,
                                     const int is_single, double *products) {
    int64_t start, stop, total = 0;
    for (int64_t t = 0; t < n_rows; t++) {
        if (!S(sparse_span)(m, rows ? rows[t] : t, &start, &stop)) return -1;
        const REAL *values = (const REAL *)m->values + start;
        const PLACE *places = (const PLACE *)m->places + start;
        if (!S(sparse_row)(values, places, stop - start, (uint64_t)m->size, query, is_single, products + t)) return -1;
        total += stop - start;
    }
    return total;
}

static int64_t S(sparse_dot)(const struct bm_sparse *m, const int64_t *rows, int64_t n_rows, const void *query,
                             int is_single, double *products) {
    if (is_single) return S(sparse_rows)(m, rows, n_rows, query, 1, products);
    return S(sparse_rows)(m, rows, n_rows, query, 0, products);
}

static int64_t S(sparse_add)(const struct bm_sparse *m, const int64_t *columns, int64_t n_columns, const double *query,
                             double *sums) {
    const REAL *values = m->values;
    const PLACE *places = m->places;
    const uint64_t size = (uint64_t)m->size;
    int64_t start, stop, total = 0;
    for (int64_t t = 0; t < n_columns; t++) {
        const int64_t column = columns ? columns[t] : t;
        if (!S(sparse_span)(m, column, &start, &stop)) return -1;
        const double q = query[column];
        for (int64_t e = start; e < stop; e++) {
            if ((uint64_t)places[e] >= size) return -1;
            sums[places[e]] += values[e] * q;
        }
        total += stop - start;
    }
    return total;
}

static int64_t S(sparse_dots)(const struct bm_sparse *m, int64_t n_rows, const double *table, double *sums) {
    enum { AHEAD = 24 };
    const REAL *values = m->values;
    const PLACE *places = m->places;
    const uint64_t size = (uint64_t)m->size;
    int64_t start, stop, total = 0;
    for (int64_t row = 0; row < n_rows; row++) {
        if (!S(sparse_span)(m, row, &start, &stop)) return -1;
        if (start == stop) continue;
        double lanes[BM_SPARSE_WIDTH];
        memcpy(lanes, sums + row * BM_SPARSE_WIDTH, sizeof lanes);
        for (int64_t e = start; e < stop; e++) {
            if ((uint64_t)places[e] >= size) return -1;
            if (e + AHEAD < m->n_stored && (uint64_t)places[e + AHEAD] < size) { /* anywhere in the table */
                const double *later = table + (int64_t)places[e + AHEAD] * BM_SPARSE_WIDTH;
                for (int b = 0; b < BM_SPARSE_WIDTH; b += 8) PREFETCH(later + b);
            }
            const double *q = table + (int64_t)places[e] * BM_SPARSE_WIDTH;
            for (int b = 0; b < BM_SPARSE_WIDTH; b++) lanes[b] += values[e] * q[b];
        }
        memcpy(sums + row * BM_SPARSE_WIDTH, lanes, sizeof lanes);
        total += stop - start;
    }
    return total;
}

#undef S
