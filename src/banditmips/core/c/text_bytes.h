/* Products of bytes: numbers are rounded to bytes with a dither, stretch by stretch, and multiplied as integers. */

enum { QUERY_GROUP = 16 /* queries whose sums share a vector of 64 bytes */, AHEAD = 64 /* columns */ };

/* What reaches this, in units of 2^-16 of a step, keeps clear of the largest byte whatever the dither. */
static const float LARGEST_DITHERED = 126.5f * 65536;

/* For numbers up to `size`: by what they are multiplied. Where all are tiny or 0, no more than a float can say. */
ALWAYS_INLINE float scale_of_bytes(float size) {
    const float scale = LARGEST_DITHERED / size;
    return scale < 0x1p126f ? scale : 0x1p126f;
}

/* `squares`: the sum of squares of `count` numbers multiplied by `scale`. It is added up in floats, hence the hundredth of a
 * per cent; and a byte and its dither are at most half a step from a number, and as much again as multiplying it lost. */
ALWAYS_INLINE void finish_bytes(float size, double squares, int64_t count, struct bm_bytes *out) {
    out->step = isfinite(size) ? 65536 / (double)scale_of_bytes(size) : INFINITY;
    out->norm = out->step * (1.0001 * sqrt(squares) / 65536 + 0.51 * sqrt((double)count));
    out->squares = squares * (out->step / 65536) * (out->step / 65536);
}

ALWAYS_INLINE void sum_bytes(const int8_t *bytes, const uint8_t *levels, int64_t count, struct bm_bytes *out) {
#if BM_VECTOR_BYTES == 64
    __m512i total = _mm512_setzero_si512(), levelled = total;
    for (int64_t j = 0; j < count; j += 64) {
        const __mmask64 here = count - j < 64 ? ((__mmask64)1 << (count - j)) - 1 : ~(__mmask64)0;
        const __m512i some = _mm512_maskz_loadu_epi8(here, bytes + j);
        total = _mm512_dpbusd_epi32(total, _mm512_set1_epi8(1), some);
        levelled = _mm512_dpbusd_epi32(levelled, _mm512_maskz_loadu_epi8(here, levels + j), some);
    }
    out->total = _mm512_reduce_add_epi32(total);
    out->levelled = _mm512_reduce_add_epi32(levelled);
#else
    out->total = out->levelled = 0;
    for (int64_t j = 0; j < count; j++) {
        out->total += bytes[j];
        out->levelled += bytes[j] * levels[j];
    }
#endif
}

/* The largest size of `count` numbers. Meanwhile as many behind them are fetched, where the next stretch is: by itself the
 * processor does not look beyond a page. As integers: a NaN is larger than any number. */
ALWAYS_INLINE float size_and_fetch(const float *v, int64_t count) {
    uint32_t largest = 0;
    int64_t j = 0;
#if BM_VECTOR_BYTES == 64
    const __m512i size_bits = _mm512_set1_epi32(INT32_MAX);
    __m512i sizes = _mm512_setzero_si512();
    for (; count - j >= 16; j += 16) {
        PREFETCH_LATER(v + count + j);
        sizes = _mm512_max_epu32(sizes, _mm512_and_si512(_mm512_loadu_si512(v + j), size_bits));
    }
    largest = _mm512_reduce_max_epu32(sizes);
#endif
    for (; j < count; j++) {
        LOAD_UNALIGNED(uint32_t, bits, v + j);
        bits &= INT32_MAX;
        largest = bits > largest ? bits : largest;
    }
    float size;
    memcpy(&size, &largest, sizeof size);
    return size;
}

#if BM_VECTOR_BYTES == 64
/* Sixteen numbers, in units of 2^-16, with their dither */
ALWAYS_INLINE __m128i sixteen_bytes(__m512 y, __m256i dither) {
    const __m512i sum = _mm512_add_epi32(_mm512_cvttps_epi32(y), _mm512_cvtepu16_epi32(dither));
    return _mm512_cvtepi32_epi8(_mm512_srai_epi32(sum, 16));
}
#endif

/* bytes[j] = floor(v[j] * scale + dither) for a scale and a dither in units of 2^-16; returns the sum of the
 * squares of v[j] * scale */
ALWAYS_INLINE float round_row(const float *restrict v, int64_t count, float scale, const uint16_t *restrict own,
                              int8_t *restrict bytes) {
    float squares = 0;
    int64_t j = 0;
#if BM_VECTOR_BYTES == 64
    /* GCC 12 takes vectors of bytes apart and puts them together again, which takes twice as long. */
    __m512 sums = _mm512_setzero_ps();
    for (; count - j >= 16; j += 16) {
        const __m512 y = _mm512_mul_ps(_mm512_loadu_ps(v + j), _mm512_set1_ps(scale));
        sums = _mm512_fmadd_ps(y, y, sums);
        _mm_storeu_si128((__m128i *)(bytes + j), sixteen_bytes(y, _mm256_loadu_si256((const __m256i *)(own + j))));
    }
    squares = _mm512_reduce_add_ps(sums);
#endif
    for (; j < count; j++) {
        LOAD_UNALIGNED(float, x, v + j);
        const float y = x * scale;
        squares += y * y;
        bytes[j] = (int8_t)(((int32_t)y + own[j]) >> 16);
    }
    return squares;
}

static void row_bytes(const float *restrict v, int64_t count, const struct bm_dither *dither, int8_t *restrict bytes,
                      struct bm_bytes *out) {
    const float size = size_and_fetch(v, count);
    const int64_t filled = isfinite(size) ? count : 0;
    const float squares = round_row(v, filled, scale_of_bytes(size), dither->own, bytes);
    memset(bytes + filled, 0, (size_t)((count + 63) / 64 * 64 - filled));
    finish_bytes(size, squares, count, out);
    sum_bytes(bytes, dither->levels_of_others, filled, out);
}

/* Columns are too far apart for the processor to see the next ones coming; into the second cache, since the first can wait
 * for a dozen lines at a time only (measured: in less than half of the time). */
#define COPY_COLUMNS(REAL, TYPE)                                                                                     \
    static void copy_columns_##TYPE(const void *first, int64_t stride_bytes, int64_t n_atoms, int64_t count,         \
                                    float *room) {                                                                   \
        for (int64_t j = 0; j < count; j++) {                                                                        \
            const REAL *column = (const REAL *)((const char *)first + j * stride_bytes);                             \
            float *out = room + j * BM_BYTE_ATOMS;                                                                   \
            const char *next = (const char *)column + AHEAD * stride_bytes;                                          \
            for (int64_t i = 0; i < n_atoms * (int64_t)sizeof(REAL); i += 64) PREFETCH_LATER(next + i);              \
            PREFETCH_LATER(next + n_atoms * (int64_t)sizeof(REAL) - 1); /* they may begin within a line */           \
            for (int64_t i = 0; i < n_atoms; i++) {                                                                  \
                LOAD_UNALIGNED(REAL, x, column + i);                                                                 \
                out[i] = (float)x;                                                                                   \
            }                                                                                                        \
            for (int64_t i = n_atoms; i < BM_BYTE_ATOMS; i++) out[i] = 0;                                            \
        }                                                                                                            \
    }
COPY_COLUMNS(float, f32)
COPY_COLUMNS(double, f64)
#undef COPY_COLUMNS

/* Sixteen atoms of `column_bytes`, of which number j of atom i is at v[j * BM_BYTE_ATOMS + i] */
static void sixteen_column_bytes(const float *restrict v, int64_t count, const struct bm_dither *dither,
                                 const char *next, int64_t stride_bytes, int32_t *restrict fours, struct bm_bytes *out) {
    enum { ATOMS = 16 };
    int32_t largest[ATOMS] = {0}, finite[ATOMS], total[ATOMS] = {0}, levelled[ATOMS] = {0};
    float scale[ATOMS], squares[ATOMS] = {0}, size[ATOMS];
    for (int64_t j = 0; j < count; j++)
        for (int i = 0; i < ATOMS; i++) {
            LOAD_UNALIGNED(int32_t, bits, v + j * BM_BYTE_ATOMS + i);
            bits &= INT32_MAX;
            largest[i] = bits > largest[i] ? bits : largest[i];
        }
    memcpy(size, largest, sizeof size);
    for (int i = 0; i < ATOMS; i++) {
        scale[i] = scale_of_bytes(size[i]);
        finite[i] = isfinite(size[i]) ? -1 : 0; /* what is not counts as 0, bit by bit: a branch would take long */
    }
    for (int64_t j = 0; j < count; j += 4) {
        int32_t four[ATOMS] = {0};
        for (int64_t r = 0; r < 4 && j + r < count; r++) {
            const int32_t own = dither->own[j + r], level = dither->levels_of_others[j + r];
            PREFETCH_LATER(next + (j + r) * stride_bytes);
            for (int i = 0; i < ATOMS; i++) {
                LOAD_UNALIGNED(int32_t, bits, v + (j + r) * BM_BYTE_ATOMS + i);
                bits &= finite[i];
                float x;
                memcpy(&x, &bits, sizeof x);
                const float y = x * scale[i];
                const int32_t byte = ((int32_t)y + own) >> 16;
                squares[i] += y * y;
                total[i] += byte;
                levelled[i] += byte * level;
                four[i] |= (int32_t)((uint32_t)(byte & 255) << 8 * r);
            }
        }
        for (int i = 0; i < ATOMS; i++) fours[j / 4 * BM_BYTE_ATOMS + i] = four[i];
    }
    for (int i = 0; i < ATOMS; i++) {
        finish_bytes(size[i], squares[i], count, &out[i]);
        out[i].total = total[i], out[i].levelled = levelled[i];
    }
}

static void column_bytes(const float *v, int64_t count, const struct bm_dither *dither, const void *next,
                         int64_t stride_bytes, int32_t *fours, struct bm_bytes *out) {
    for (int i = 0; i < BM_BYTE_ATOMS; i += 16)
        sixteen_column_bytes(v + i, count, dither, (const char *)next + 4 * i, stride_bytes, fours + i, out + i);
}

#if BM_VECTOR_BYTES == 64

/* In assembly: GCC 12 moves the sums to memory and back around the intrinsic, which takes twice the time. */
#define ADD_FOURS(sum, queries, atom) __asm__("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(queries), "v"(atom))

/* sums[i * BM_BYTE_QUERIES + b] of BM_BYTES_ABREAST atoms with n_groups groups of queries, a constant */
ALWAYS_INLINE void sums_of_bytes(const char *atoms, const struct bm_byte_layout *layout, const uint8_t *queries,
                                 int64_t n_fours, int n_groups, int32_t *sums) {
    __m512i sum[BM_BYTES_ABREAST][4], four[4];
#pragma GCC unroll 6
    for (int i = 0; i < BM_BYTES_ABREAST; i++)
#pragma GCC unroll 4
        for (int g = 0; g < n_groups; g++) sum[i][g] = _mm512_setzero_si512();
    for (int64_t t = 0; t < n_fours; t++, atoms += layout->of_four, queries += 64 * n_groups) {
#pragma GCC unroll 4
        for (int g = 0; g < n_groups; g++) four[g] = _mm512_loadu_si512(queries + 64 * g);
#pragma GCC unroll 6
        for (int i = 0; i < BM_BYTES_ABREAST; i++) {
            LOAD_UNALIGNED(int32_t, bytes, atoms + i * layout->of_atom);
            const __m512i atom = _mm512_set1_epi32(bytes);
#pragma GCC unroll 4
            for (int g = 0; g < n_groups; g++) ADD_FOURS(sum[i][g], four[g], atom);
        }
    }
#pragma GCC unroll 6
    for (int i = 0; i < BM_BYTES_ABREAST; i++)
#pragma GCC unroll 4
        for (int g = 0; g < n_groups; g++)
            _mm512_storeu_si512(sums + i * BM_BYTE_QUERIES + QUERY_GROUP * g, sum[i][g]);
}
#undef ADD_FOURS

#else

ALWAYS_INLINE void sums_of_bytes(const char *atoms, const struct bm_byte_layout *layout, const uint8_t *queries,
                                 int64_t n_fours, int n_groups, int32_t *sums) {
    for (int i = 0; i < BM_BYTES_ABREAST; i++)
        for (int b = 0; b < QUERY_GROUP * n_groups; b++) {
            int32_t sum = 0;
            for (int64_t t = 0; t < n_fours; t++) {
                const int8_t *atom = (const int8_t *)atoms + i * layout->of_atom + t * layout->of_four;
                const uint8_t *query = queries + 4 * (t * QUERY_GROUP * n_groups + b);
                for (int r = 0; r < 4; r++) sum += atom[r] * query[r];
            }
            sums[i * BM_BYTE_QUERIES + b] = sum;
        }
}

#endif

static void byte_products(const void *atoms, const struct bm_byte_layout *layout, const struct bm_bytes *of_atoms,
                          const struct bm_byte_queries *queries, double *products) {
    int32_t sums[BM_BYTES_ABREAST * BM_BYTE_QUERIES];
    switch (queries->n_groups) {
    case 1: sums_of_bytes(atoms, layout, queries->bytes, queries->n_fours, 1, sums); break;
    case 2: sums_of_bytes(atoms, layout, queries->bytes, queries->n_fours, 2, sums); break;
    case 3: sums_of_bytes(atoms, layout, queries->bytes, queries->n_fours, 3, sums); break;
    default: sums_of_bytes(atoms, layout, queries->bytes, queries->n_fours, 4, sums);
    }
    for (int i = 0; i < BM_BYTES_ABREAST; i++) {
        /* Bytes of queries are kept 128 too large; and each atom's byte meets the query's level. */
        const double step = of_atoms[i].step;
        const double shift = (127.5 / 256 - 128) * of_atoms[i].total - of_atoms[i].levelled / 256.0;
        for (int b = 0; b < QUERY_GROUP * queries->n_groups; b++)
            products[i * BM_BYTE_QUERIES + b] +=
                step * (queries->steps[b] * (sums[i * BM_BYTE_QUERIES + b] + shift) + queries->shifts[b]);
    }
}
