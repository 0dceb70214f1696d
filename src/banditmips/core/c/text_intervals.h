/* Where the scores of many atoms lie: by what is certain, and by a round on codes. Then who is beaten.
 *
 * What is wanted of some atoms is copied together first, a few atoms at a time: side by side, which the compiler can do
 * several at a time in vectors of any target.
 */

enum { ATOMS_AT_ONCE = 256 };

/* Entry rows[t] of `all` for t < n, side by side; where rows is NULL, the entries themselves */
ALWAYS_INLINE const double *chosen_f64(const double *all, const int64_t *rows, int64_t n, double *room) {
    if (!rows) return all;
    for (int64_t t = 0; t < n; t++) room[t] = all[rows[t]];
    return room;
}
ALWAYS_INLINE const float *chosen_f32(const float *all, const int64_t *rows, int64_t n, float *room) {
    if (!rows) return all;
    for (int64_t t = 0; t < n; t++) room[t] = all[rows[t]];
    return room;
}

static void certain_intervals(const struct bm_certain *known, const struct bm_certain_query *query, const int64_t *rows,
                              int64_t first, int64_t n, double *middle, double *radius) {
    double room[ATOMS_AT_ONCE];
    float narrow_room[ATOMS_AT_ONCE];
    const double total = query->total, reach = query->reach, slack = query->slack;
    for (int64_t start = 0; start < n; start += ATOMS_AT_ONCE) {
        const int64_t count = n - start < ATOMS_AT_ONCE ? n - start : ATOMS_AT_ONCE, from = rows ? 0 : first + start;
        const int64_t *const some = rows ? rows + start : NULL;
        double *const m = middle + start, *const r = radius + start;
        const double *of_atom = chosen_f64(known->spreads + from, some, count, room);
        for (int64_t t = 0; t < count; t++) r[t] = of_atom[t] * reach;
        of_atom = chosen_f64(known->norms + from, some, count, room);
        for (int64_t t = 0; t < count; t++) r[t] += of_atom[t] * slack;
        of_atom = chosen_f64(known->means + from, some, count, room);
        for (int64_t t = 0; t < count; t++) m[t] = of_atom[t] * total;
        for (int j = 0; j < query->n_axes; j++) {
            const float *along = chosen_f32(known->along + j * known->n + from, some, count, narrow_room);
            const double part = query->along[j];
            for (int64_t t = 0; t < count; t++) m[t] += part * along[t];
        }
    }
}

static void code_estimates(const struct bm_code_round *round, const int64_t *rows, int64_t n, const int64_t *sums,
                           double *middle) {
    double room[ATOMS_AT_ONCE];
    float narrow_room[ATOMS_AT_ONCE];
    for (int64_t start = 0; start < n; start += ATOMS_AT_ONCE) {
        const int64_t count = n - start < ATOMS_AT_ONCE ? n - start : ATOMS_AT_ONCE, from = rows ? 0 : start;
        const int64_t *const some = rows ? rows + start : NULL, *const s = sums + start;
        double *const m = middle + start;
        const float *scales = chosen_f32(round->scales + from, some, count, narrow_room);
        const double *along = chosen_f64(round->along + from, some, count, room);
        const double step = round->step, unit = round->unit, part = round->part, constant = round->on_centre;
        const int64_t weight = round->weight, total = round->total;
        for (int64_t t = 0; t < count; t++)
            m[t] = step * (double)(weight * s[t] - total) * scales[t] * unit + part * along[t] + constant;
    }
}

static void code_radii(const struct bm_code_round *round, const int64_t *rows, int64_t n, double *radius) {
    float rooms[4][ATOMS_AT_ONCE];
    double sizes[ATOMS_AT_ONCE];
    const double norm = round->norm, half_step = 0.5 * round->step, unit = round->unit, width = round->width;
    const double quantile = round->quantile, slack = round->slack, root = sqrt((double)round->n_cells);
    for (int64_t start = 0; start < n; start += ATOMS_AT_ONCE) {
        const int64_t count = n - start < ATOMS_AT_ONCE ? n - start : ATOMS_AT_ONCE, from = rows ? 0 : start;
        const int64_t *const some = rows ? rows + start : NULL;
        double *const r = radius + start;
        const float *errors = chosen_f32(round->errors + from, some, count, rooms[0]);
        if (!round->scales_of_signs) { /* norm of the code times its scale */
            const float *scales = chosen_f32(round->scales + from, some, count, rooms[1]);
            for (int64_t t = 0; t < count; t++) sizes[t] = root * scales[t];
        } else { /* |x|^2 scale^2 = error^2 (D - 1) + |r|^2, and |r|^2 from the same equation for the signs */
            const float *scales = chosen_f32(round->scales_of_signs + from, some, count, rooms[2]);
            const float *errors_of_signs = chosen_f32(round->errors_of_signs + from, some, count, rooms[3]);
            for (int64_t t = 0; t < count; t++) {
                const double error = errors[t], scale = root * scales[t], error_of_signs = errors_of_signs[t];
                const double square = scale * scale - error_of_signs * error_of_signs * width;
                sizes[t] = sqrt(error * error * width + (square > 0 ? square : 0));
            }
        }
        for (int64_t t = 0; t < count; t++) { /* rounding adds half a step for each cell, times the code's scale */
            const double error = errors[t] * norm, rounding = half_step * sizes[t];
            const double deviation = sqrt(error * error + rounding * rounding);
            /* At delta = 0 the quantile is infinite; what does not deviate is known all the same. The unit comes last:
             * squares of it might be too large or too small. */
            const double by_chance = deviation > 0 ? quantile * deviation : 0;
            /* Of an atom with an infinite error nothing is known. */
            r[t] = errors[t] < INFINITY ? unit * (by_chance + slack * sizes[t]) : INFINITY;
        }
    }
}

static void give_up_overflowed(double *middle, double *radius, int64_t n) {
    for (int64_t t = 0; t < n; t++) {
        const double m = middle[t], end = fabs(m + radius[t]);
        radius[t] = end < INFINITY ? radius[t] : INFINITY;
        middle[t] = fabs(m) < INFINITY ? m : 0;
    }
}

static void lower_ends(const double *middle, const double *radius, int64_t n, int absolute, double *lower) {
    if (absolute)
        for (int64_t t = 0; t < n; t++) lower[t] = fabs(middle[t]) - radius[t];
    else
        for (int64_t t = 0; t < n; t++) lower[t] = middle[t] - radius[t];
}

static int64_t mark_beaten(const double *middle, const double *radius, int64_t n, int absolute, double reach,
                           double bar, uint8_t *beaten) {
    int64_t count = 0;
    if (absolute)
        for (int64_t t = 0; t < n; t++) beaten[t] = fabs(middle[t]) + reach * radius[t] < bar;
    else
        for (int64_t t = 0; t < n; t++) beaten[t] = middle[t] + reach * radius[t] < bar;
    for (int64_t t = 0; t < n; t++) count += beaten[t];
    return count;
}

static void root_sums(const double *weights, int64_t m, const double *rows, int64_t n_rows, int64_t n, double *out) {
    enum { ATOMS = 4 * LANES_f64 }; /* whose sums stay in registers, and whose rows in the cache for all m */
    int64_t start = 0;
    for (; n - start >= ATOMS; start += ATOMS)
        for (int64_t b = 0; b < m; b++) {
            v_f64 sums[4];
            for (int i = 0; i < 4; i++) sums[i] = (v_f64){0};
            for (int64_t s = 0; s < n_rows; s++) {
                const double weight = weights[b * n_rows + s], *const row = rows + s * n + start;
                for (int i = 0; i < 4; i++) sums[i] += weight * load_f64(row + i * LANES_f64);
            }
            double *const found = out + b * n + start;
            for (int i = 0; i < 4; i++) store_f64(found + i * LANES_f64, sums[i]);
            for (int i = 0; i < ATOMS; i++) found[i] = sqrt(found[i]);
        }
    for (; start < n; start++)
        for (int64_t b = 0; b < m; b++) {
            double sum = 0;
            for (int64_t s = 0; s < n_rows; s++) sum += weights[b * n_rows + s] * rows[s * n + start];
            out[b * n + start] = sqrt(sum);
        }
}

static void score_ends(const double *products, const double *deviations, int64_t n, const struct bm_ranked *ranked,
                       double *lower, double *upper) {
    const double centre = ranked->centre, part = ranked->part, besides = ranked->besides;
    const double below = ranked->below, above = ranked->above;
    const double *const factors = ranked->factors, *const offsets = ranked->offsets;
    const int absolute = ranked->absolute;
    if (!factors)
        for (int64_t t = 0; t < n; t++) {
            const double middle = absolute ? fabs(products[t]) : products[t];
            lower[t] = middle - below * deviations[t];
            upper[t] = middle + above * deviations[t];
        }
    else
        for (int64_t t = 0; t < n; t++) {
            const double product = products[t] * factors[t], offset = offsets[t] * centre, score = product - offset;
            const double slack = part * (fabs(product) + fabs(offset)) + besides;
            const double middle = absolute ? fabs(score) : score, deviation = factors[t] * deviations[t];
            lower[t] = middle - slack - below * deviation;
            upper[t] = middle + slack + above * deviation;
        }
}
