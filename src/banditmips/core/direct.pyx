"""The short way of a plain query to an index: certain bounds, and the exact rows of the few that they leave.

A plain query is one row of floats to atoms in an array, for inner products, with nothing asked for but the best k. Whatever
turns out not to be plain is left to `banditmips.race.query`, which does the same things for every option.
"""

from libc.math cimport INFINITY, isfinite
cimport numpy as cnp

from banditmips.core.certain cimport CertainBounds, MeasuredQuery, are_fine
from banditmips.core.kernels cimport BM_STRETCH
from banditmips.core.plain cimport PlainKind
from banditmips.core.products cimport Best
from banditmips.core.rows cimport Rows
from banditmips.core.survivors cimport Survivors, ranked


cdef class Direct:
    """Plain queries to an index in memory, for one k.

    Parameters
    ----------
    rows : Rows
    known : Known
        What the index has prepared; its certain bounds are needed.
    settings : tuple
        k, whether scores are ranked by their size, and delta.
    times : Times
    """

    cdef Rows rows
    cdef object known, codes
    cdef CertainBounds bounds
    cdef Py_ssize_t k, n
    cdef bint absolute
    cdef double delta, row_time, first_time
    cdef object times

    def __init__(self, Rows rows, known, settings, times):
        self.rows, self.known, self.times = rows, known, times
        self.k, self.absolute, self.delta = settings
        self.n, self.bounds = rows.n, known.bounds
        self.row_time = times.row
        self.first_time = known.codes.n_first * times.cell

    cpdef Survivors survivors(self, MeasuredQuery query):
        """Those that certain bounds leave, with where their scores lie."""
        cdef Survivors alive = Survivors.with_room(self.n, self.k, self.absolute)
        with nogil:
            self.bounds.leave(query, alive)
        return alive

    cpdef tuple finish(self, Survivors alive, MeasuredQuery query):
        """Exact scores of survivors that are few, the most promising first, some at a time, as long as they can win.

        Returns
        -------
        Best and how many rows were read, or None where a score is not finite.
        """
        cdef Best best = Best(self.k, self.absolute)
        cdef Py_ssize_t done, t, place, n_read = 0, n_to_read = 0
        cdef double score, bar = -INFINITY
        cdef double[BM_STRETCH] room
        with nogil:
            for done in range(alive.n):
                # The most promising of those that are left comes next.
                place = done
                for t in range(done + 1, alive.n):
                    if ranked(alive, t) > ranked(alive, place):
                        place = t
                alive.rows[done], alive.rows[place] = alive.rows[place], alive.rows[done]
                alive.estimates[done], alive.estimates[place] = alive.estimates[place], alive.estimates[done]
                alive.radius[done], alive.radius[place] = alive.radius[place], alive.radius[done]
                # The bar is raised as often as in the finish of any other search, so that both read the same rows.
                if n_read == n_to_read:
                    bar, n_to_read = best.bar(), n_read + max(self.k, n_read)
                if ranked(alive, done) + alive.radius[done] < bar:
                    continue
                score = self.rows.sum_terms(alive.rows[done], &query._exact[0], 0, room)
                n_read += 1
                if not isfinite(score):
                    n_read = -1
                    break
                best.add(alive.rows[done], score)
        return (best, n_read) if n_read >= 0 else None

    cpdef bint few(self, Survivors alive) except -1:
        """Whether the survivors' rows take less time than their first codes would, and than all products."""
        return alive.n <= max(64, 2 * self.k) and (
            alive.n * self.row_time <= min(self.times.prepare + alive.n * self.first_time, self.times.full)
        )


cdef class PlainRace(PlainKind):
    """Plain searches of an index.

    Attributes
    ----------
    direct : Direct
    go_on : callable
        Called with the measured query and the survivors where these are not few: the outcome, or None.
    """

    cdef public Direct direct
    cdef public object go_on

    cdef object answer(self, cnp.ndarray atoms, cnp.ndarray row):
        cdef MeasuredQuery query = MeasuredQuery(row)
        if not are_fine(&query.moments) or self.few_entries * query.moments.n_nonzero <= self.d:
            return None
        cdef Survivors alive = self.direct.survivors(query)
        cdef Best best
        fields = self.fields.copy()
        if self.direct.few(alive):
            found = self.direct.finish(alive, query)
            if found is None:
                return None
            best = found[0]
            fields["indices"], fields["scores"], fields["n_survivors"] = best.indices, best.scores, alive.n
            fields["n_multiplies"] = found[1] * query.moments.n_nonzero
            return self.result(fields)
        found = self.go_on(query, alive)
        if found is None:
            return None
        fields["indices"] = found.survivors
        for name in ("scores", "n_multiplies", "n_rounds", "n_survivors", "stop_reason", "delta_spent"):
            fields[name] = getattr(found, name)
        return self.result(fields)
