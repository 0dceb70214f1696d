/* All products of a matrix with one query, and the largest of them, for REAL = float or double (TYPE = f32 or f64). */

#define F(name) BM_JOIN(name##_, TYPE)
#define V F(v)
#define LANES F(LANES)

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

/* The products of four rows, and the sums of their squares unless `squares` is NULL, so that what is loaded of the query serves four. Processors read ahead within a page of
 * memory: of rows that are not much longer than that, the four at `next` are asked for here, in the order in which they
 * lie, every second line of the cache, since most processors fetch two at once.
 * Whether there is a next, and room for squares, is a constant wherever this is called. */
ALWAYS_INLINE void F(four_products)(const REAL *const a[4], const char *next, const REAL *q, int64_t d, REAL out[4],
                                    REAL *squares) {
    enum { STRETCH = 256 * LANES };
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
            if (!next) continue;
            for (size_t line = 0; line < 8 * sizeof(V); line += 128) PREFETCH_LATER(next + line);
            next += 8 * sizeof(V);
        }
        if (end - j >= LANES) {
            const V b0 = F(load)(q + j);
            for (int r = 0; r < 4; r++) {
                const V a0 = F(load)(a[r] + j);
                s0[r] += a0 * b0;
                if (squares) sizes[r] += a0 * a0;
            }
            j += LANES;
        }
        if (j < end) {
            const V b0 = F(load_part)(q + j, end - j);
            for (int r = 0; r < 4; r++) {
                const V a0 = F(load_part)(a[r] + j, end - j);
                s1[r] += a0 * b0;
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

static void F(products)(const REAL *rows, int64_t stride_bytes, int64_t n, const REAL *q, int64_t d, REAL *out,
                        REAL *squares) {
    enum { PAGES = 8192 };
    const int asks = d * (int64_t)sizeof(REAL) <= PAGES;
    for (int64_t t = 0; t < n; t += 4) {
        const REAL *a[4];
        const char *next = (const char *)rows + (t + 4) * stride_bytes;
        REAL four[4], sizes[4];
        const size_t count = (size_t)(n - t < 4 ? n - t : 4);
        for (int r = 0; r < 4; r++) /* behind the last row, the last once more */
            a[r] = (const REAL *)((const char *)rows + (t + r < n ? t + r : n - 1) * stride_bytes);
        if (asks && t + 8 <= n) {
            if (squares)
                F(four_products)(a, next, q, d, four, sizes);
            else
                F(four_products)(a, next, q, d, four, NULL);
        } else if (squares)
            F(four_products)(a, NULL, q, d, four, sizes);
        else
            F(four_products)(a, NULL, q, d, four, NULL);
        memcpy(out + t, four, count * sizeof(REAL));
        if (squares) memcpy(squares + t, sizes, count * sizeof(REAL));
    }
    if (IS_FLOAT && isnan(F(largest)(out, n, 0))) /* too large for a float on the way */
        for (int64_t t = 0; t < n; t++)
            if (!isfinite(out[t])) out[t] = (REAL)F(dot_slowly)((const REAL *)((const char *)rows + t * stride_bytes), q, d);
}

#undef F
#undef V
#undef LANES
