/* Numbers of any dtype as REAL = float or double (TYPE = f32 or f64). */

#if IS_FLOAT
/* A float16 from its bits. Its exponent and fraction, moved to a float's place, are a float 2^112 too small, also where
 * they stand for a subnormal; only inf and NaN need their exponent set. */
ALWAYS_INLINE float float_of_half(uint16_t half) {
    const uint32_t moved = (uint32_t)(half & 0x7fff) << 13;
    float size;
    uint32_t bits;
    memcpy(&size, &moved, sizeof size);
    size *= 0x1p112f;
    memcpy(&bits, &size, sizeof bits);
    bits |= ((half & 0x7c00) == 0x7c00 ? 0x7f800000u : 0) | (uint32_t)(half & 0x8000) << 16;
    memcpy(&size, &bits, sizeof size);
    return size;
}

static void halves_to_f32(const uint8_t *src, int64_t count, float *dst) {
    int64_t j = 0;
#if BM_VECTOR_BYTES == 64
    for (; count - j >= 16; j += 16)
        store_f32(dst + j, _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(src + 2 * j))));
#elif BM_VECTOR_BYTES == 32
    for (; count - j >= 8; j += 8)
        store_f32(dst + j, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(src + 2 * j))));
#endif
    for (; j < count; j++) {
        LOAD_UNALIGNED(uint16_t, x, src + 2 * j);
        dst[j] = float_of_half(x);
    }
}
#else
static void halves_to_f64(const uint8_t *src, int64_t count, double *dst) {
    enum { STRETCH = 256 };
    float floats[STRETCH];
    for (int64_t start = 0; start < count; start += STRETCH) {
        const int64_t length = count - start < STRETCH ? count - start : STRETCH;
        halves_to_f32(src + 2 * start, length, floats);
        for (int64_t j = 0; j < length; j++) dst[start + j] = floats[j];
    }
}
#endif

/* DO(type, number): `number` is what a number `x` of this type is worth */
#define CASE_OF_EACH_DTYPE(DO)                         \
    case BM_F32: DO(float, x) break;                   \
    case BM_F64: DO(double, x) break;                  \
    case BM_F16: DO(uint16_t, float_of_half(x)) break; \
    case BM_I8: DO(int8_t, x) break;                   \
    case BM_U8: DO(uint8_t, x) break;                  \
    case BM_I16: DO(int16_t, x) break;                 \
    case BM_U16: DO(uint16_t, x) break;                \
    case BM_I32: DO(int32_t, x) break;                 \
    case BM_U32: DO(uint32_t, x) break;                \
    case BM_I64: DO(int64_t, x) break;                 \
    case BM_U64: DO(uint64_t, x) break;

#define CONVERT_AT(type, number, at)       \
    for (int64_t j = 0; j < count; j++) {  \
        LOAD_UNALIGNED(type, x, p + (at)); \
        dst[j] = (REAL)(number);           \
    }
/* Contiguous numbers have a loop of their own, which the compiler turns into vectors. */
#define CONVERT(type, number)                               \
    if (stride_bytes == (int64_t)sizeof(type)) {            \
        CONVERT_AT(type, number, j * (int64_t)sizeof(type)) \
    } else {                                                \
        CONVERT_AT(type, number, j * stride_bytes)          \
    }

static void F(to)(int dtype, const void *src, int64_t stride_bytes, int64_t count, REAL *dst) {
    const uint8_t *p = src;
    if (dtype == BM_F16 && stride_bytes == 2)
        F(halves_to)(p, count, dst);
    else
        switch ((enum bm_dtype)dtype) { CASE_OF_EACH_DTYPE(CONVERT) }
}

#if !IS_FLOAT
#define GATHER(type, number) CONVERT_AT(type, number, coordinates[j] * stride_bytes)

static void gather(int dtype, const void *row, int64_t stride_bytes, const int64_t *coordinates, int64_t count,
                   double *dst) {
    const uint8_t *p = row;
    switch ((enum bm_dtype)dtype) { CASE_OF_EACH_DTYPE(GATHER) }
}
#undef GATHER
#endif

#undef CASE_OF_EACH_DTYPE
#undef CONVERT_AT
#undef CONVERT
