/* What is written once for float and for double: REAL, TYPE (f32 or f64) and IS_FLOAT say which. */
#define F(name) BM_JOIN(name##_, TYPE)
#define V F(v)
#define LANES F(LANES)

#include "text_sums.h"
#include "text_look.h"
#include "text_turn.h"
#include "text_products.h"
#include "text_panels.h"
#include "text_cells.h"
#include "text_convert.h"
#include "text_terms.h"
#include "text_columns.h"
#if IS_FLOAT
#include "text_rough_columns.h"
#endif

#define PLACE int32_t
#define WHERE _i32
#include "text_sparse.h"
#undef PLACE
#undef WHERE
#define PLACE int64_t
#define WHERE _i64
#include "text_sparse.h"
#undef PLACE
#undef WHERE

#undef F
#undef V
#undef LANES
