/* The kernels for any machine: SSE2 and NEON are used where every machine of the family has them. */
#include "compiler.h"

#define BM_KERNELS bm_kernels_portable
#define BM_NAME "portable"
#if BM_X86 || BM_NEON
#define BM_VECTOR_BYTES 16
#else
#define BM_VECTOR_BYTES 0 /* plain numbers, which the compiler may turn into vectors or not */
#endif
#include "kernels_text.h"
