/* Sums of a quantised query over the ones of codes: AND and popcount.
 *
 * A tile is a few codes against all planes of one query. Every code and plane has a vector of counts of its own; they
 * are weighted and added up once, at the end of the words.
 */

enum { MAX_PLANES = 8 };
#if BM_VECTOR_BYTES == 64
enum { TILE_COUNTS = 16 }; /* vectors of counts that stay in registers */
#else
enum { TILE_COUNTS = 8 };
#endif
enum { MAX_TILE_CODES = 4 };

/* How many codes a tile has. With few planes it could have more than MAX_TILE_CODES, but would gain nothing. */
#define TILE_CODES(n_planes) \
    (TILE_COUNTS / (n_planes) < 1 ? 1 : TILE_COUNTS / (n_planes) < MAX_TILE_CODES ? TILE_COUNTS / (n_planes) : MAX_TILE_CODES)

/* A query as bm_query_batch has it */
struct query {
    const uint64_t *planes;
    int64_t plane_stride;
};

/* sums[c] += what code[c] has with the query in `n_words` words, c < n_codes. `next` are the codes that will be wanted
 * after these. n_codes and n_planes are constants wherever this is called. */
ALWAYS_INLINE void tile(const uint64_t *const *code, const uint64_t *const *next, int n_codes, const struct query *query,
                        int n_planes, int64_t n_words, int64_t *sums) {
    v_u64 totals[MAX_TILE_CODES];
    for (int c = 0; c < n_codes; c++) totals[c] = (v_u64){0};
    int64_t w = 0;
    while (w < n_words) {
        v_u64 counts[MAX_TILE_CODES][MAX_PLANES];
        for (int c = 0; c < n_codes; c++)
            for (int l = 0; l < n_planes; l++) counts[c][l] = (v_u64){0};
        const int64_t last = n_words - w < COUNTS_UNTIL_FLUSH * LANES_u64 ? n_words : w + COUNTS_UNTIL_FLUSH * LANES_u64;
        for (; last - w >= LANES_u64; w += LANES_u64) {
            for (int c = 0; c < n_codes; c++) PREFETCH(next[c] + w);
            for (int l = 0; l < n_planes; l++) {
                const v_u64 plane = load_u64(query->planes + l * query->plane_stride + w);
                for (int c = 0; c < n_codes; c++) counts[c][l] += count_u64(load_u64(code[c] + w) & plane);
            }
        }
        if (w < last) {
            for (int l = 0; l < n_planes; l++) {
                const v_u64 plane = load_part_u64(query->planes + l * query->plane_stride + w, last - w);
                for (int c = 0; c < n_codes; c++)
                    counts[c][l] += count_u64(load_part_u64(code[c] + w, last - w) & plane);
            }
            w = last;
        }
        for (int c = 0; c < n_codes; c++) {
            for (int l = 0; l < n_planes - 1; l++) totals[c] += flush_u64(counts[c][l]) << l;
            totals[c] -= flush_u64(counts[c][n_planes - 1]) << (n_planes - 1);
        }
    }
    for (int c = 0; c < n_codes; c++) sums[c] += sum_u64(totals[c]);
}

/* Words of a code that are gone through for all queries before the next words: four codes of them fit into the
 * first cache beside the planes of a query. */
enum { WORDS_AT_ONCE = 256 };

ALWAYS_INLINE void bit_sums_of(const uint64_t *codes, int64_t code_stride, const int64_t *rows, int64_t n_rows,
                               int64_t n_words, const struct bm_query_batch *queries, int n_planes, int64_t *sums,
                               int64_t sums_stride) {
    const int n_codes = TILE_CODES(n_planes);
    for (int64_t start = 0; start < n_words; start += WORDS_AT_ONCE) {
        const int64_t length = n_words - start < WORDS_AT_ONCE ? n_words - start : WORDS_AT_ONCE;
        int64_t t = 0;
        const uint64_t *code[MAX_TILE_CODES], *next[MAX_TILE_CODES];
#define CODE(t) (codes + (rows ? rows[t] : (t)) * code_stride + start)
        for (; t < n_rows; t += n_codes) {
            const int whole = n_rows - t >= n_codes;
            const int here = whole ? n_codes : (int)(n_rows - t);
            for (int c = 0; c < here; c++) {
                code[c] = CODE(t + c);
                next[c] = t + n_codes + c < n_rows ? CODE(t + n_codes + c) : code[c];
            }
            for (int64_t b = 0; b < queries->n_queries; b++) {
                const struct query query = {queries->planes + b * queries->query_stride_words + start,
                                            queries->plane_stride_words};
                int64_t *out = sums + b * sums_stride + t;
                if (whole)
                    tile(code, next, n_codes, &query, n_planes, length, out);
                else
                    for (int c = 0; c < here; c++) tile(code + c, next + c, 1, &query, n_planes, length, out + c);
            }
        }
#undef CODE
    }
}

static void bit_sums_batch(const uint64_t *codes, int64_t code_stride_words, const int64_t *rows, int64_t n_rows,
                           int64_t n_words, const struct bm_query_batch *queries, int64_t *sums, int64_t sums_stride) {
#define CASE(n_planes)                                                                                        \
    case n_planes:                                                                                            \
        bit_sums_of(codes, code_stride_words, rows, n_rows, n_words, queries, n_planes, sums, sums_stride); \
        break;
    switch (queries->n_planes) { CASE(1) CASE(2) CASE(3) CASE(4) CASE(5) CASE(6) CASE(7) CASE(8) }
#undef CASE
}

static void bit_sums(const uint64_t *codes, int64_t code_stride_words, const int64_t *rows, int64_t n_rows,
                     const uint64_t *query_planes, int64_t plane_stride_words, int n_planes, int64_t n_words,
                     int64_t *sums) {
    const struct bm_query_batch one = {query_planes, plane_stride_words, 0, 1, n_planes};
    bit_sums_batch(codes, code_stride_words, rows, n_rows, n_words, &one, sums, 0);
}
