/* Products of some rows with many vectors that lie beside each other, for REAL = float or double (TYPE = f32 or f64).
 *
 * A number that is loaded of a row serves all the vectors, and what is loaded of these, number t of each, all rows.
 */

#if IS_FLOAT
enum {
    CHAIN = 32, /* products that are added to a sum before it is added to that of a block */
    MOST_ABREAST = BM_VECTOR_BYTES == 64 ? 12 : 6, /* rows whose sums fit the registers */
};
#endif

/* How many rows there are, and vectors of the processor, is a constant wherever this is called. */
ALWAYS_INLINE void F(panel_tile)(const struct bm_panel *of, int n_rows, int n_vectors, REAL *sums) {
    const REAL *rows = of->rows, *panel = of->panel;
    const int64_t row_stride = of->row_stride, stride = of->stride;
    V total[MOST_ABREAST][2];
    for (int r = 0; r < n_rows; r++)
        for (int v = 0; v < n_vectors; v++) total[r][v] = (V){0};
    for (int64_t start = 0; start < of->size; start += CHAIN) {
        const int64_t end = of->size - start < CHAIN ? of->size : start + CHAIN;
        V sum[MOST_ABREAST][2];
        UNROLLED for (int r = 0; r < n_rows; r++)
            UNROLLED for (int v = 0; v < n_vectors; v++) sum[r][v] = (V){0};
        if (of->next_rows)
            for (int r = 0; r < n_rows; r++)
                for (size_t line = 0; line < CHAIN * sizeof(REAL); line += 64)
                    PREFETCH_LATER((const char *)((const REAL *)of->next_rows + r * row_stride + start) + line);
        for (int64_t t = start; t < end; t++) {
            V beside[2];
            UNROLLED for (int v = 0; v < n_vectors; v++) beside[v] = F(load)(panel + t * stride + v * LANES);
            UNROLLED for (int r = 0; r < n_rows; r++) {
                LOAD_UNALIGNED(REAL, x, rows + r * row_stride + t);
                const V same = (V){0} + x;
                UNROLLED for (int v = 0; v < n_vectors; v++) sum[r][v] += same * beside[v];
            }
        }
        UNROLLED for (int r = 0; r < n_rows; r++)
            UNROLLED for (int v = 0; v < n_vectors; v++) total[r][v] += sum[r][v];
    }
    for (int r = 0; r < n_rows; r++)
        for (int v = 0; v < n_vectors; v++) {
            REAL *sum = sums + r * of->sums_stride + v * LANES;
            F(store)(sum, of->adds ? F(load)(sum) + total[r][v] : total[r][v]);
        }
}

#define TILE(n_rows) \
    (n_vectors == 2 ? F(panel_tile)(&left, n_rows, 2, sums) : F(panel_tile)(&left, n_rows, 1, sums), (n_rows))
static void F(panel_products)(const struct bm_panel *of, int64_t n_rows, int n_vectors, REAL *sums) {
    struct bm_panel left = *of;
    for (int64_t count; n_rows > 0; n_rows -= count) {
        count = n_rows >= MOST_ABREAST       ? TILE(MOST_ABREAST)
                : n_rows >= MOST_ABREAST / 2 ? TILE(MOST_ABREAST / 2)
                : n_rows >= 2                ? TILE(2)
                                             : TILE(1);
        left.rows = (const REAL *)left.rows + count * left.row_stride;
        if (left.next_rows) left.next_rows = (const REAL *)left.next_rows + count * left.row_stride;
        sums += count * left.sums_stride;
    }
}
#undef TILE
