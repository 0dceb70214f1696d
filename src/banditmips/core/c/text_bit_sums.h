/* Sums of a quantised query over the ones of codes: AND and popcount.
 *
 * A tile is a few codes against all planes of the query. Every code and plane has a vector of counts of its own; they
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
    (TILE_COUNTS / (n_planes) < MAX_TILE_CODES ? TILE_COUNTS / (n_planes) : MAX_TILE_CODES)

/* The codes that are wanted */
struct wanted {
    const uint64_t *codes;
    int64_t stride_words;
    const int64_t *rows; /* or NULL for all in their order */
    int64_t n_rows;
};

/* The t-th wanted code; behind the last it is the last. */
ALWAYS_INLINE const uint64_t *wanted_code(const struct wanted *wanted, int64_t t) {
    t = t < wanted->n_rows ? t : wanted->n_rows - 1;
    return wanted->codes + (wanted->rows ? wanted->rows[t] : t) * wanted->stride_words;
}

/* sums[t + c] += what the code t + c has with the query in `n_words` words, c < n_codes. n_codes and n_planes are
 * constants wherever this is called. */
ALWAYS_INLINE void tile(const struct wanted *wanted, int64_t t, int n_codes, const uint64_t *planes,
                        int64_t plane_stride, int n_planes, int64_t n_words, int64_t *sums) {
    const uint64_t *code[MAX_TILE_CODES], *next[MAX_TILE_CODES];
    for (int c = 0; c < n_codes; c++) {
        code[c] = wanted_code(wanted, t + c);
        next[c] = wanted_code(wanted, t + n_codes + c);
    }
    v_u64 totals[MAX_TILE_CODES];
    for (int c = 0; c < n_codes; c++) totals[c] = (v_u64){0};
    int64_t w = 0;
    while (w < n_words) {
        v_u64 counts[MAX_TILE_CODES][MAX_PLANES];
        for (int c = 0; c < n_codes; c++)
            for (int l = 0; l < n_planes; l++) counts[c][l] = (v_u64){0};
        const int64_t most = (int64_t)COUNTS_UNTIL_FLUSH * LANES_u64;
        const int64_t last = n_words - w < most ? n_words : w + most;
        for (; last - w >= LANES_u64; w += LANES_u64) {
            for (int c = 0; c < n_codes; c++) PREFETCH(next[c] + w);
            for (int l = 0; l < n_planes; l++) {
                const v_u64 plane = load_u64(planes + l * plane_stride + w);
                for (int c = 0; c < n_codes; c++) counts[c][l] += count_u64(load_u64(code[c] + w) & plane);
            }
        }
        if (w < last) {
            for (int l = 0; l < n_planes; l++) {
                const v_u64 plane = load_part_u64(planes + l * plane_stride + w, last - w);
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
    for (int c = 0; c < n_codes; c++) sums[t + c] += sum_u64(totals[c]);
}

/* Words that are gone through for all codes before the next words: the planes of the query then stay in the first cache
 * from the first code to the last. */
enum { WORDS_AT_ONCE = 256 };

/* n_planes is a constant wherever this is called. */
ALWAYS_INLINE void bit_sums_of(struct wanted wanted, const uint64_t *planes, int64_t plane_stride, int n_planes,
                               int64_t n_words, int64_t *sums) {
    const int n_codes = TILE_CODES(n_planes);
    for (; n_words > 0; n_words -= WORDS_AT_ONCE) {
        const int64_t words = n_words < WORDS_AT_ONCE ? n_words : WORDS_AT_ONCE;
        int64_t t = 0;
        for (; wanted.n_rows - t >= n_codes; t += n_codes)
            tile(&wanted, t, n_codes, planes, plane_stride, n_planes, words, sums);
        for (; t < wanted.n_rows; t++) tile(&wanted, t, 1, planes, plane_stride, n_planes, words, sums);
        wanted.codes += words;
        planes += words;
    }
}

static void bit_sums(const uint64_t *codes, int64_t code_stride_words, const int64_t *rows, int64_t n_rows,
                     const uint64_t *query_planes, int64_t plane_stride_words, int n_planes, int64_t n_words,
                     int64_t *sums) {
    const struct wanted wanted = {codes, code_stride_words, rows, n_rows};
#define CALL(n_planes) bit_sums_of(wanted, query_planes, plane_stride_words, n_planes, n_words, sums)
    FOR_CONSTANT_BITS(n_planes, CALL)
#undef CALL
}
