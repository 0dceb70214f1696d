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

/* The products of four or eight rows, and the sums of their squares unless `squares` is NULL, so that what is loaded of the
 * query serves them all. Processors read ahead within a page of memory: of rows that are not much longer than that, the
 * four at `next` are asked for here, in the order in which they lie, every second line of the cache, since most processors
 * fetch two at once.
 * How many they are, whether there is a next, and room for squares, is a constant wherever this is called. */
ALWAYS_INLINE void F(products_of)(const REAL *const *a, int n_rows, const char *next, const REAL *q, int64_t d, REAL *out,
                                  REAL *squares) {
    const int64_t stretch = (n_rows == 4 ? 256 : 128) * LANES; /* 128 numbers to be added to each sum */
    double total[8], total_squares[8];
    for (int r = 0; r < n_rows; r++) total[r] = total_squares[r] = 0;
    for (int64_t start = 0;; start += stretch) {
        const int64_t end = d - start <= stretch ? d : start + stretch;
        V s0[8], s1[8], sizes[8];
        for (int r = 0; r < n_rows; r++) s0[r] = s1[r] = sizes[r] = (V){0};
        int64_t j = start;
        for (; n_rows == 4 && end - j >= 2 * LANES; j += 2 * LANES) { /* eight are enough to add side by side */
            const V b0 = F(load)(q + j), b1 = F(load)(q + j + LANES);
            for (int r = 0; r < n_rows; r++) {
                const V a0 = F(load)(a[r] + j), a1 = F(load)(a[r] + j + LANES);
                s0[r] += a0 * b0;
                s1[r] += a1 * b1;
                if (squares) sizes[r] = sizes[r] + a0 * a0 + a1 * a1;
            }
            if (!next) continue;
            for (size_t line = 0; line < 8 * sizeof(V); line += 128) PREFETCH_LATER(next + line);
            next += 8 * sizeof(V);
        }
        for (; end - j >= LANES; j += LANES) {
            const V b0 = F(load)(q + j);
            for (int r = 0; r < n_rows; r++) {
                const V a0 = F(load)(a[r] + j);
                s0[r] += a0 * b0;
                if (squares) sizes[r] += a0 * a0;
            }
        }
        if (j < end) {
            const V b0 = F(load_part)(q + j, end - j);
            for (int r = 0; r < n_rows; r++) {
                const V a0 = F(load_part)(a[r] + j, end - j);
                s1[r] += a0 * b0;
                if (squares) sizes[r] += a0 * a0;
            }
        }
        if (end == d && start == 0) { /* nothing to be added in double */
            for (int r = 0; r < n_rows; r++) out[r] = F(sum)(s0[r] + s1[r]);
            for (int r = 0; squares && r < n_rows; r++) squares[r] = F(sum)(sizes[r]);
            return;
        }
        for (int r = 0; r < n_rows; r++) total[r] += F(sum)(s0[r] + s1[r]);
        for (int r = 0; squares && r < n_rows; r++) total_squares[r] += F(sum)(sizes[r]);
        if (end == d) break;
    }
    for (int r = 0; r < n_rows; r++) out[r] = (REAL)total[r];
    for (int r = 0; squares && r < n_rows; r++) squares[r] = (REAL)total_squares[r];
}

/* The same of one row */
ALWAYS_INLINE REAL F(one_product)(const REAL *a, const REAL *q, int64_t d, REAL *squares) {
    V s0 = {0}, s1 = {0}, s2 = {0}, s3 = {0}, z0 = {0}, z1 = {0};
    int64_t j = 0;
    for (; d - j >= 4 * LANES; j += 4 * LANES) {
        const V a0 = F(load)(a + j), a1 = F(load)(a + j + LANES);
        const V a2 = F(load)(a + j + 2 * LANES), a3 = F(load)(a + j + 3 * LANES);
        s0 += a0 * F(load)(q + j);
        s1 += a1 * F(load)(q + j + LANES);
        s2 += a2 * F(load)(q + j + 2 * LANES);
        s3 += a3 * F(load)(q + j + 3 * LANES);
        if (!squares) continue;
        z0 = z0 + a0 * a0 + a2 * a2;
        z1 = z1 + a1 * a1 + a3 * a3;
    }
    for (; j < d; j += LANES) {
        const V a0 = d - j >= LANES ? F(load)(a + j) : F(load_part)(a + j, d - j);
        s0 += a0 * (d - j >= LANES ? F(load)(q + j) : F(load_part)(q + j, d - j));
        if (squares) z0 += a0 * a0;
    }
    if (squares) *squares = F(sum)(z0 + z1);
    return F(sum)((s0 + s1) + (s2 + s3));
}

/* Rows from memory: four at a time that are a quarter of all apart, since processors read ahead along each of them, and what is
 * loaded of the query serves four. (Measured, beside one after another and beside four or eight neighbours, at 128 to 102,000
 * floats: as fast as the fastest of these or faster, with squares by up to a half.) */
static void F(products_from_memory)(const char *rows, int64_t stride_bytes, int64_t n, const REAL *q, int64_t d, REAL *out,
                                    REAL *squares) {
    enum { LINE = 64, LONG = 512, ALIKE = 16, MANY = 256 };
    /* Vectors that lie across two lines of the cache take twice as long to load: what comes before the first line of a long row
     * is multiplied on its own, if the four begin at the same place of a line, as they do where they are so many apart. */
    const int64_t quarter = n < MANY ? n / 4 : n / 4 / ALIKE * ALIKE;
    const int begin_alike = d >= LONG && quarter * stride_bytes % LINE == 0 && BM_VECTOR_BYTES == LINE;
    for (int64_t t = 0; t < quarter; t++) {
        const REAL *a[4];
        REAL four[4], sizes[4];
        const size_t before = (size_t)(rows + t * stride_bytes) % LINE;
        const int64_t head = begin_alike && before % sizeof(REAL) == 0 ? (int64_t)((LINE - before) % LINE / sizeof(REAL)) : 0;
        for (int r = 0; r < 4; r++) a[r] = (const REAL *)(rows + (t + r * quarter) * stride_bytes) + head;
        if (squares)
            F(products_of)(a, 4, NULL, q + head, d - head, four, sizes);
        else
            F(products_of)(a, 4, NULL, q + head, d - head, four, NULL);
        for (int r = 0; head && r < 4; r++) {
            const V x = F(load_part)(a[r] - head, head);
            four[r] += F(sum)(x * F(load_part)(q, head));
            if (squares) sizes[r] += F(sum)(x * x);
        }
        for (int r = 0; r < 4; r++) out[t + r * quarter] = four[r];
        for (int r = 0; squares && r < 4; r++) squares[t + r * quarter] = sizes[r];
    }
    for (int64_t t = 4 * quarter; t < n; t++) { /* a few are left */
        const REAL *const row = (const REAL *)(rows + t * stride_bytes), *const same[4] = {row, row, row, row};
        REAL four[4], sizes[4];
        F(products_of)(same, 4, NULL, q, d, four, sizes);
        out[t] = four[0];
        if (squares) squares[t] = sizes[0];
    }
}

static void F(products_from_cache)(const REAL *rows, int64_t stride_bytes, int64_t n, const REAL *q, int64_t d, REAL *out,
                                   REAL *squares) {
    enum { SHORT = 1024, PAGES = 8192, NEAR = 1 << 20 /* bytes that a second cache may hold */ };
    const int64_t size = d * (int64_t)sizeof(REAL);
    const int asks = size <= PAGES;
    /* From the last cache, short rows one after another take as long as four at once, if rows begin at half a cache line or a
     * whole one and are not very short; else a tenth longer. Where other work has gone through it meanwhile they take less. */
    const int one_by_one = size >= SHORT && size <= 2 * PAGES && n * size > NEAR && stride_bytes % 32 == 0;
    int64_t t = 0;
    for (; size > 2 * PAGES && n - t >= 8; t += 8) { /* long ones are best read eight at once */
        const REAL *a[8];
        for (int r = 0; r < 8; r++) a[r] = (const REAL *)((const char *)rows + (t + r) * stride_bytes);
        if (squares)
            F(products_of)(a, 8, NULL, q, d, out + t, squares + t);
        else
            F(products_of)(a, 8, NULL, q, d, out + t, NULL);
    }
    for (; one_by_one && t < n; t++) {
        const REAL *row = (const REAL *)((const char *)rows + t * stride_bytes);
        out[t] = squares ? F(one_product)(row, q, d, squares + t) : F(one_product)(row, q, d, NULL);
    }
    for (; t < n; t += 4) {
        const REAL *a[4];
        const char *next = (const char *)rows + (t + 4) * stride_bytes;
        REAL four[4], sizes[4];
        const size_t count = (size_t)(n - t < 4 ? n - t : 4);
        for (int r = 0; r < 4; r++) /* behind the last row, the last once more */
            a[r] = (const REAL *)((const char *)rows + (t + r < n ? t + r : n - 1) * stride_bytes);
        if (asks && t + 8 <= n) {
            if (squares)
                F(products_of)(a, 4, next, q, d, four, sizes);
            else
                F(products_of)(a, 4, next, q, d, four, NULL);
        } else if (squares)
            F(products_of)(a, 4, NULL, q, d, four, sizes);
        else
            F(products_of)(a, 4, NULL, q, d, four, NULL);
        memcpy(out + t, four, count * sizeof(REAL));
        if (squares) memcpy(squares + t, sizes, count * sizeof(REAL));
    }
}

static void F(products)(const REAL *rows, int64_t stride_bytes, int64_t n, const REAL *q, int64_t d, REAL *out,
                        REAL *squares) {
    if (n * d * (int64_t)sizeof(REAL) >= BM_FAR)
        F(products_from_memory)((const char *)rows, stride_bytes, n, q, d, out, squares);
    else
        F(products_from_cache)(rows, stride_bytes, n, q, d, out, squares);
    if (IS_FLOAT && isnan(F(largest)(out, n, 0))) /* too large for a float on the way */
        for (int64_t t = 0; t < n; t++)
            if (!isfinite(out[t])) out[t] = (REAL)F(dot_slowly)((const REAL *)((const char *)rows + t * stride_bytes), q, d);
}
