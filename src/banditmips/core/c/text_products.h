/* All products of a matrix with one query, and the largest of them, for REAL = float or double (TYPE = f32 or f64). */

static REAL F(largest)(const REAL *v, int64_t n, int absolute) {
    V top = (V){0} + (REAL)-INFINITY, total = {0};
    int64_t j = 0;
    for (; n - j >= LANES; j += LANES) {
        const V x = F(load)(v + j);
        top = F(max)(absolute ? F(abs)(x) : x, top);
        total += x;
    }
    REAL tops[LANES], largest = (REAL)-INFINITY, sum = F(sum)(total);
    F(store)(tops, top);
    for (int i = 0; i < LANES; i++) largest = tops[i] > largest ? tops[i] : largest;
    for (; j < n; j++) {
        LOAD_UNALIGNED(REAL, x, v + j);
        const REAL size = x < 0 ? -x : x;
        largest = (absolute ? size : x) > largest ? (absolute ? size : x) : largest;
        sum += x;
    }
    return isfinite(sum) ? largest : (REAL)NAN;
}

static void F(group_maxima)(const REAL *v, int64_t n, int absolute, int64_t n_groups, double *out) {
    for (int64_t g = 0; g < n_groups; g += LANES) {
        V top = (V){0} + (REAL)-INFINITY;
        for (int64_t j = g; j + LANES <= n; j += n_groups) {
            const V x = F(load)(v + j);
            top = F(max)(absolute ? F(abs)(x) : x, top);
        }
        REAL lanes[LANES];
        F(store)(lanes, top);
        for (int i = 0; i < LANES; i++) out[g + i] = lanes[i];
    }
}

static int64_t F(those_reaching)(const REAL *v, int64_t n, int absolute, double bar, double *out) {
    int64_t count = 0, j = 0;
#if BM_VECTOR_BYTES == 64
    for (; n - j >= LANES; j += LANES) { /* what is written behind the last one has room: count <= j */
        const V given = F(load)(v + j), x = absolute ? F(abs)(given) : given;
#if IS_FLOAT
        const __mmask16 reach = _mm512_cmp_ps_mask(x, (V){0} + (float)bar, _CMP_GE_OQ);
        const int found = _mm_popcnt_u32(reach);
        if (!found) continue;
        const __m512 some = _mm512_maskz_compress_ps(reach, x);
        store_f64(out + count, wide_f32((half_f32)_mm512_castps512_ps256(some)));
        if (found > 8) store_f64(out + count + 8, wide_f32((half_f32)_mm512_extractf32x8_ps(some, 1)));
#else
        const __mmask8 reach = _mm512_cmp_pd_mask(x, (V){0} + bar, _CMP_GE_OQ);
        const int found = _mm_popcnt_u32(reach);
        store_f64(out + count, _mm512_maskz_compress_pd(reach, x));
#endif
        count += found;
    }
#endif
    for (; j < n; j++) {
        LOAD_UNALIGNED(REAL, x, v + j);
        out[count] = absolute && x < 0 ? -x : x;
        count += out[count] >= bar;
    }
    return count;
}

static int64_t F(places_reaching)(const REAL *v, int64_t n, int absolute, double bar, int64_t *places) {
    int64_t count = 0, j = 0;
#if BM_VECTOR_BYTES == 64
#if IS_FLOAT /* nobody is lost by rounding the bar */
    const float own = (float)bar, least = own > bar ? nextafterf(own, -INFINITY) : own;
#else
    const double least = bar;
#endif
    for (; n - j >= LANES; j += LANES) {
        const V given = F(load)(v + j), x = absolute ? F(abs)(given) : given;
#if IS_FLOAT
        uint32_t reach = _mm512_cmp_ps_mask(x, (V){0} + least, _CMP_GE_OQ);
#else
        uint32_t reach = _mm512_cmp_pd_mask(x, (V){0} + least, _CMP_GE_OQ);
#endif
        for (; reach; reach &= reach - 1) places[count++] = j + __builtin_ctz(reach);
    }
#endif
    for (; j < n; j++) {
        LOAD_UNALIGNED(REAL, x, v + j);
        if ((absolute && x < 0 ? -x : x) >= bar) places[count++] = j;
    }
    return count;
}

/* The products of four rows, and the sums of their squares unless `squares` is NULL, so that what is loaded of the query serves
 * them all. Whether there is room for squares is a constant wherever this is called. */
ALWAYS_INLINE void F(products_of)(const REAL *const *a, const REAL *q, int64_t d, REAL *out, REAL *squares) {
    enum { STRETCH = 256 * LANES }; /* 128 numbers to be added to each sum */
    double total[4] = {0}, total_squares[4] = {0};
    for (int64_t start = 0;; start += STRETCH) {
        const int64_t end = d - start <= STRETCH ? d : start + STRETCH;
        V s0[4], s1[4], sizes[4];
        for (int r = 0; r < 4; r++) s0[r] = s1[r] = sizes[r] = (V){0};
        int64_t j = start;
        for (; end - j >= 2 * LANES; j += 2 * LANES) {
            const V b0 = F(load)(q + j), b1 = F(load)(q + j + LANES);
            for (int r = 0; r < 4; r++) {
                const V a0 = F(load)(a[r] + j), a1 = F(load)(a[r] + j + LANES);
                s0[r] += a0 * b0;
                s1[r] += a1 * b1;
                if (squares) sizes[r] = sizes[r] + a0 * a0 + a1 * a1;
            }
        }
        for (; j < end; j += LANES) { /* with zeros behind what is left */
            const int64_t count = end - j < LANES ? end - j : LANES;
            const V b0 = count == LANES ? F(load)(q + j) : F(load_part)(q + j, count);
            for (int r = 0; r < 4; r++) {
                const V a0 = count == LANES ? F(load)(a[r] + j) : F(load_part)(a[r] + j, count);
                s0[r] += a0 * b0;
                if (squares) sizes[r] += a0 * a0;
            }
        }
        if (end == d && start == 0) { /* nothing to be added in double */
            for (int r = 0; r < 4; r++) out[r] = F(sum)(s0[r] + s1[r]);
            for (int r = 0; squares && r < 4; r++) squares[r] = F(sum)(sizes[r]);
            return;
        }
        for (int r = 0; r < 4; r++) total[r] += F(sum)(s0[r] + s1[r]);
        for (int r = 0; squares && r < 4; r++) total_squares[r] += F(sum)(sizes[r]);
        if (end == d) break;
    }
    for (int r = 0; r < 4; r++) out[r] = (REAL)total[r];
    for (int r = 0; squares && r < 4; r++) squares[r] = (REAL)total_squares[r];
}

/* Four rows at a time that are a quarter of all apart, since processors read ahead along each of them, and what is loaded of the
 * query serves four. (Measured, beside one after another and beside four or eight neighbours, at 100 to 102,000 floats, from the
 * second cache to memory: as fast as the fastest of these or faster, with squares by up to a half.) */
ALWAYS_INLINE void F(all_products)(const char *rows, int64_t stride_bytes, int64_t n, const REAL *q, int64_t d, REAL *out,
                                   REAL *squares) {
    enum { LINE = 64, LONG = 512, ALIKE = 16, FEW = 4 * ALIKE };
    /* Vectors that lie across two lines of the cache take twice as long to load: what comes before the first line of a long row
     * is multiplied on its own, if the four begin at the same place of a line, as they do where they are so many apart. */
    const int64_t quarter = n < FEW ? n / 4 : n / 4 / ALIKE * ALIKE;
    const int begin_alike = d >= LONG && quarter * stride_bytes % LINE == 0 && BM_VECTOR_BYTES == LINE;
    const REAL *a[4];
    for (int64_t t = 0; t < quarter; t++) {
        REAL four[4], sizes[4];
        const size_t before = (size_t)(rows + t * stride_bytes) % LINE;
        const int64_t head = begin_alike && before % sizeof(REAL) == 0 ? (int64_t)((LINE - before) % LINE / sizeof(REAL)) : 0;
        for (int r = 0; r < 4; r++) a[r] = (const REAL *)(rows + (t + r * quarter) * stride_bytes) + head;
        F(products_of)(a, q + head, d - head, four, squares ? sizes : NULL);
        for (int r = 0; head && r < 4; r++) {
            const V x = F(load_part)(a[r] - head, head);
            four[r] += F(sum)(x * F(load_part)(q, head));
            if (squares) sizes[r] += F(sum)(x * x);
        }
        for (int r = 0; r < 4; r++) out[t + r * quarter] = four[r];
        for (int r = 0; squares && r < 4; r++) squares[t + r * quarter] = sizes[r];
    }
    for (int64_t t = 4 * quarter; t < n; t += 4) { /* some are left: behind the last row, the last once more */
        REAL four[4], sizes[4];
        for (int r = 0; r < 4; r++) a[r] = (const REAL *)(rows + (t + r < n ? t + r : n - 1) * stride_bytes);
        F(products_of)(a, q, d, four, squares ? sizes : NULL);
        for (int r = 0; r < 4 && t + r < n; r++) out[t + r] = four[r];
        for (int r = 0; squares && r < 4 && t + r < n; r++) squares[t + r] = sizes[r];
    }
}

static void F(products)(const REAL *rows, int64_t stride_bytes, int64_t n, const REAL *q, int64_t d, REAL *out,
                        REAL *squares) {
    if (squares)
        F(all_products)((const char *)rows, stride_bytes, n, q, d, out, squares);
    else
        F(all_products)((const char *)rows, stride_bytes, n, q, d, out, NULL);
    if (IS_FLOAT && isnan(F(largest)(out, n, 0))) /* too large for a float on the way */
        for (int64_t t = 0; t < n; t++)
            if (!isfinite(out[t])) out[t] = (REAL)F(dot_slowly)((const REAL *)((const char *)rows + t * stride_bytes), q, d);
}
