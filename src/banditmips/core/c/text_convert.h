/* Numbers of any dtype as REAL = float or double (TYPE = f32 or f64). */

#define F(name) BM_JOIN(name##_, TYPE)

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

/* Contiguous numbers have a loop of their own, which the compiler turns into vectors. */
#define CONVERT(type, number)                               \
    if (stride_bytes == (int64_t)sizeof(type)) {            \
        for (int64_t j = 0; j < count; j++) {               \
            LOAD_UNALIGNED(type, x, p + j * (int64_t)sizeof(type)); \
            dst[j] = (REAL)(number);                        \
        }                                                   \
    } else {                                                \
        for (int64_t j = 0; j < count; j++) {               \
            LOAD_UNALIGNED(type, x, p + j * stride_bytes);  \
            dst[j] = (REAL)(number);                        \
        }                                                   \
    }                                                       \
    break;

static void F(to)(int dtype, const void *src, int64_t stride_bytes, int64_t count, REAL *dst) {
    const uint8_t *p = src;
    switch ((enum bm_dtype)dtype) {
        case BM_F32: CONVERT(float, x)
        case BM_F64: CONVERT(double, x)
        case BM_F16:
            if (stride_bytes == 2) {
                F(halves_to)(p, count, dst);
                break;
            }
            CONVERT(uint16_t, float_of_half(x))
        case BM_I8: CONVERT(int8_t, x)
        case BM_U8: CONVERT(uint8_t, x)
        case BM_I16: CONVERT(int16_t, x)
        case BM_U16: CONVERT(uint16_t, x)
        case BM_I32: CONVERT(int32_t, x)
        case BM_U32: CONVERT(uint32_t, x)
        case BM_I64: CONVERT(int64_t, x)
        case BM_U64: CONVERT(uint64_t, x)
    }
}
#undef CONVERT

#if !IS_FLOAT
#define GATHER(type, number)                                           \
    for (int64_t j = 0; j < count; j++) {                              \
        LOAD_UNALIGNED(type, x, p + coordinates[j] * stride_bytes);    \
        dst[j] = (double)(number);                                     \
    }                                                                  \
    break;

static void gather(int dtype, const void *row, int64_t stride_bytes, const int64_t *coordinates, int64_t count,
                   double *dst) {
    const uint8_t *p = row;
    switch ((enum bm_dtype)dtype) {
        case BM_F32: GATHER(float, x)
        case BM_F64: GATHER(double, x)
        case BM_F16: GATHER(uint16_t, float_of_half(x))
        case BM_I8: GATHER(int8_t, x)
        case BM_U8: GATHER(uint8_t, x)
        case BM_I16: GATHER(int16_t, x)
        case BM_U16: GATHER(uint16_t, x)
        case BM_I32: GATHER(int32_t, x)
        case BM_U32: GATHER(uint32_t, x)
        case BM_I64: GATHER(int64_t, x)
        case BM_U64: GATHER(uint64_t, x)
    }
}
#undef GATHER
#endif

#undef F
