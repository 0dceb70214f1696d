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

/* The largest size of `count` numbers. As integers: a NaN is larger than any number. */
ALWAYS_INLINE float size_of(const float *v, int64_t count) {
    uint32_t largest = 0;
    int64_t j = 0;
#if BM_VECTOR_BYTES == 64
    const __m512i size_bits = _mm512_set1_epi32(INT32_MAX);
    __m512i sizes = _mm512_setzero_si512();
    for (; count - j >= 16; j += 16)
        sizes = _mm512_max_epu32(sizes, _mm512_and_si512(_mm512_loadu_si512(v + j), size_bits));
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

ALWAYS_INLINE __mmask16 first_of_sixteen(int64_t count) {
    return (__mmask16)(count >= 16 ? 0xffff : count <= 0 ? 0 : (1 << count) - 1);
}

/* 64 numbers with their dither, in units of 2^-16, as bytes: zeros behind `count`. Squares are added to the sums. */
ALWAYS_INLINE __m512i sixty_four_bytes(const float *v, const int32_t *own, float scale, int64_t count, __m512 sums[4]) {
    const __m512i order = _mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7);
    const __m512i upper = _mm512_add_epi16(_mm512_set1_epi32(0x00030001), /* words 1, 3, 5, ... of two vectors */
                                           _mm512_mullo_epi32(_mm512_set1_epi32(0x00040004),
                                                              _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13,
                                                                                14, 15)));
    __m512i x[4];
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        const __mmask16 here = first_of_sixteen(count - 16 * i);
        const __m512 y = _mm512_mul_ps(_mm512_maskz_loadu_ps(here, v + 16 * i), _mm512_set1_ps(scale));
        sums[i] = _mm512_fmadd_ps(y, y, sums[i]);
        x[i] = _mm512_add_epi32(_mm512_cvttps_epi32(y), _mm512_maskz_loadu_epi32(here, own + 16 * i));
    }
    const __m512i low = _mm512_permutex2var_epi16(x[0], upper, x[1]), high = _mm512_permutex2var_epi16(x[2], upper, x[3]);
    return _mm512_permutexvar_epi64(order, _mm512_packs_epi16(low, high));
}

/* In assembly: GCC 12 moves the sums to memory and back around the intrinsic, which takes twice the time. */
#define ADD_FOURS(sum, unsigned_bytes, signed_bytes) \
    __asm__("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(unsigned_bytes), "v"(signed_bytes))

/* bytes[j] = floor(v[j] * scale + dither) for a scale and a dither in units of 2^-16, with zeros behind them, and their sums;
 * returns the sum of the squares of v[j] * scale */
ALWAYS_INLINE float round_row(const float *restrict v, int64_t count, float scale, const struct bm_dither *dither,
                              const char *next, int8_t *restrict bytes, struct bm_bytes *out) {
    const __m512i one = _mm512_set1_epi8(1);
    __m512i total = _mm512_setzero_si512(), levelled = total;
    __m512 sums[4] = {_mm512_setzero_ps(), _mm512_setzero_ps(), _mm512_setzero_ps(), _mm512_setzero_ps()};
    int64_t j = 0;
    for (; count - j >= 64; j += 64) {
        PREFETCH_LATER(next + 2 * j);
        PREFETCH_LATER(next + 2 * j + 64);
        const __m512i some = sixty_four_bytes(v + j, dither->own + j, scale, 64, sums);
        ADD_FOURS(total, one, some);
        ADD_FOURS(levelled, _mm512_loadu_si512(dither->levels_of_others + j), some);
        _mm512_storeu_si512(bytes + j, some);
    }
    if (j < count) {
        const __m512i some = sixty_four_bytes(v + j, dither->own + j, scale, count - j, sums);
        const __mmask64 here = ((__mmask64)1 << (count - j)) - 1;
        ADD_FOURS(total, one, some);
        ADD_FOURS(levelled, _mm512_maskz_loadu_epi8(here, dither->levels_of_others + j), some);
        _mm512_storeu_si512(bytes + j, some);
    }
    out->total = _mm512_reduce_add_epi32(total);
    out->levelled = _mm512_reduce_add_epi32(levelled);
    return _mm512_reduce_add_ps(_mm512_add_ps(_mm512_add_ps(sums[0], sums[1]), _mm512_add_ps(sums[2], sums[3])));
}

#else

ALWAYS_INLINE float round_row(const float *restrict v, int64_t count, float scale, const struct bm_dither *dither,
                              const char *next, int8_t *restrict bytes, struct bm_bytes *out) {
    (void)next;
    float squares = 0;
    out->total = out->levelled = 0;
    for (int64_t j = 0; j < count; j++) {
        LOAD_UNALIGNED(float, x, v + j);
        const float y = x * scale;
        squares += y * y;
        bytes[j] = (int8_t)(((int32_t)y + dither->own[j]) >> 16);
        out->total += bytes[j];
        out->levelled += bytes[j] * dither->levels_of_others[j];
    }
    memset(bytes + count, 0, (size_t)((count + 63) / 64 * 64 - count));
    return squares;
}

#endif

static void row_bytes(const float *restrict v, int64_t count, const struct bm_dither *dither, const void *next,
                      int8_t *restrict bytes, struct bm_bytes *out) {
    const float size = size_of(v, count);
    float squares = 0;
    if (isfinite(size)) {
        squares = round_row(v, count, scale_of_bytes(size), dither, next, bytes, out);
    } else {
        memset(bytes, 0, (size_t)((count + 63) / 64 * 64));
        out->total = out->levelled = 0;
    }
    finish_bytes(size, squares, count, out);
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

#if BM_VECTOR_BYTES == 64

/* Sixteen atoms of `column_bytes`, of which number j of atom i is at v[j * BM_BYTE_ATOMS + i] */
static void sixteen_column_bytes(const float *restrict v, int64_t count, const struct bm_dither *dither,
                                 const char *next, int64_t stride_bytes, int32_t *restrict fours, struct bm_bytes *out) {
    enum { ATOMS = 16 };
    const __m512i size_bits = _mm512_set1_epi32(INT32_MAX), one = _mm512_set1_epi8(1);
    __m512i sizes = _mm512_setzero_si512(), total = sizes, levelled = sizes;
    for (int64_t j = 0; j < count; j++)
        sizes = _mm512_max_epu32(sizes, _mm512_and_si512(_mm512_loadu_si512(v + j * BM_BYTE_ATOMS), size_bits));
    float size[ATOMS], scale[ATOMS], squares[ATOMS];
    int32_t totals[ATOMS], levels[ATOMS];
    memcpy(size, &sizes, sizeof size);
    __mmask16 finite = 0; /* what is not counts as 0 */
    for (int i = 0; i < ATOMS; i++) {
        scale[i] = scale_of_bytes(size[i]);
        finite |= (__mmask16)((isfinite(size[i]) ? 1 : 0) << i);
    }
    const __m512 scales = _mm512_loadu_ps(scale);
    __m512 sums[4] = {_mm512_setzero_ps(), _mm512_setzero_ps(), _mm512_setzero_ps(), _mm512_setzero_ps()};
    for (int64_t j = 0; j < count; j += 4) {
        const int64_t n = count - j < 4 ? count - j : 4;
        __m512i x[4] = {_mm512_setzero_si512(), _mm512_setzero_si512(), _mm512_setzero_si512(), _mm512_setzero_si512()};
        uint32_t level = 0;
#pragma GCC unroll 4
        for (int r = 0; r < 4; r++) {
            if (r >= n) break;
            if (j < count / 2) PREFETCH_LATER(next + (j + r) * stride_bytes);
            const __m512 y = _mm512_maskz_mul_ps(finite, _mm512_loadu_ps(v + (j + r) * BM_BYTE_ATOMS), scales);
            sums[r] = _mm512_fmadd_ps(y, y, sums[r]);
            x[r] = _mm512_add_epi32(_mm512_cvttps_epi32(y), _mm512_set1_epi32(dither->own[j + r]));
            level |= (uint32_t)dither->levels_of_others[j + r] << 8 * r;
        }
        /* The third byte of each is what is kept. */
        const __m512i first = _mm512_and_si512(_mm512_srli_epi32(x[0], 16), _mm512_set1_epi32(0xff));
        const __m512i second = _mm512_and_si512(_mm512_srli_epi32(x[1], 8), _mm512_set1_epi32(0xff00));
        const __m512i third = _mm512_and_si512(x[2], _mm512_set1_epi32(0xff0000));
        const __m512i fourth = _mm512_and_si512(_mm512_slli_epi32(x[3], 8), _mm512_set1_epi32((int32_t)0xff000000));
        const __m512i four = _mm512_or_si512(_mm512_or_si512(first, second), _mm512_or_si512(third, fourth));
        ADD_FOURS(total, one, four);
        ADD_FOURS(levelled, _mm512_set1_epi32((int32_t)level), four);
        _mm512_storeu_si512(fours + j / 4 * BM_BYTE_ATOMS, four);
    }
    _mm512_storeu_ps(squares, _mm512_add_ps(_mm512_add_ps(sums[0], sums[1]), _mm512_add_ps(sums[2], sums[3])));
    memcpy(totals, &total, sizeof totals);
    memcpy(levels, &levelled, sizeof levels);
    for (int i = 0; i < ATOMS; i++) {
        finish_bytes(size[i], squares[i], count, &out[i]);
        out[i].total = totals[i], out[i].levelled = levels[i];
    }
}

#else

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
            if (j < count / 2) PREFETCH_LATER(next + (j + r) * stride_bytes);
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

#endif

static void column_bytes(const float *v, int64_t count, const struct bm_dither *dither, const void *next,
                         int64_t stride_bytes, int32_t *fours, struct bm_bytes *out) {
    for (int i = 0; i < BM_BYTE_ATOMS; i += 16)
        sixteen_column_bytes(v + i, count, dither, (const char *)next + 4 * i, stride_bytes, fours + i, out + i);
}

#if BM_VECTOR_BYTES == 64

/* sums[i * BM_BYTE_QUERIES + b] of BM_BYTES_ABREAST atoms with n_groups groups of queries, a constant */
ALWAYS_INLINE void sums_of_bytes(const char *atoms, const struct bm_byte_layout *layout, const uint8_t *queries,
                                 int64_t n_fours, int n_groups, const struct bm_fetched *next, int32_t *sums) {
    __m512i sum[BM_BYTES_ABREAST][4], four[4];
    /* As many lines with each four bytes as make all of them with the last */
    const int64_t n_lines = (next->size + 63) / 64 * next->n_rows;
    const char *row = next->first, *line = row;
    int64_t due = 0;
#pragma GCC unroll 6
    for (int i = 0; i < BM_BYTES_ABREAST; i++)
#pragma GCC unroll 4
        for (int g = 0; g < n_groups; g++) sum[i][g] = _mm512_setzero_si512();
    for (int64_t t = 0; t < n_fours; t++, atoms += layout->of_four, queries += 64 * n_groups) {
        for (due += n_lines; due >= n_fours; due -= n_fours) {
            PREFETCH_LATER(line);
            line += 64;
            if (line - row >= next->size) line = row += next->stride_bytes;
        }
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
                                 int64_t n_fours, int n_groups, const struct bm_fetched *next, int32_t *sums) {
    (void)next;
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
                          const struct bm_byte_queries *queries, const struct bm_fetched *next, double *products) {
    int32_t sums[BM_BYTES_ABREAST * BM_BYTE_QUERIES];
    switch (queries->n_groups) {
    case 1: sums_of_bytes(atoms, layout, queries->bytes, queries->n_fours, 1, next, sums); break;
    case 2: sums_of_bytes(atoms, layout, queries->bytes, queries->n_fours, 2, next, sums); break;
    case 3: sums_of_bytes(atoms, layout, queries->bytes, queries->n_fours, 3, next, sums); break;
    default: sums_of_bytes(atoms, layout, queries->bytes, queries->n_fours, 4, next, sums);
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
