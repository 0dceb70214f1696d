"""The answer of a fitted index: a look at the query, certain bounds, the race on codes, exact rows.

`Direct` is the short way of a plain query, one row of floats to atoms in an array, for inner products, with nothing asked
for but the best k: certain bounds, and the exact rows of the few that they leave. `PlainRace` takes it in one call, from
the user's arrays to the result (`banditmips.core.plain`).
"""

from libc.math cimport INFINITY, isfinite
from libc.stdint cimport int64_t
from libc.stdlib cimport free, malloc

cimport numpy as cnp

from banditmips.core.certain cimport CertainBounds, MeasuredQuery, ScoreMap, are_fine
from banditmips.core.code_source cimport PROBED, CodeSource
from banditmips.core.codes cimport Codes
from banditmips.core.exact cimport Exact
from banditmips.core.loop import can_lead, lead, race
from banditmips.core.outcome import Outcome
from banditmips.core.plain cimport PlainKind
from banditmips.core.products cimport Best
from banditmips.core.records import StopReason
from banditmips.core.rows cimport Rows
from banditmips.core.rule cimport CodeRule, drop_by_intervals
from banditmips.core.survivors cimport Survivors, kth_largest, ranked


cdef enum:
    FARTHEST = 16  # atoms beyond k that make the bar of a probe


class Known:
    """What an index has prepared for its searches.

    Attributes
    ----------
    bounds : CertainBounds
    codes : Codes
    dither : uint8 array
        Random numbers by which queries are rounded.
    """

    def __init__(self, bounds, codes, dither):
        self.bounds, self.codes, self.dither = bounds, codes, dither


class Times:
    """What things take, in nanoseconds; zeros where not time but multiplies are to be saved.

    Attributes
    ----------
    cell, atom : float
        A cell of an atom's code, and whatever else a round does with an atom.
    fine_cell, fine_atom : float
        A bit of a cell in the round that reads all of them, and what that round takes longer of an atom. Unless they are
        said, the former is two cells, as its query has twice as many bits.
    row, full, prepare : float
        An exact row, all products, and making a query ready.
    risk : float
        What a race that comes to nothing may take beside all products; infinite where that is not to be asked.
    """

    def __init__(
        self, cell=0.0, row=0.0, full=0.0, prepare=0.0, atom=0.0, risk=INFINITY, fine_cell=None, fine_atom=0.0
    ):
        self.cell, self.row, self.full, self.prepare, self.atom = cell, row, full, prepare, atom
        self.risk, self.fine_cell, self.fine_atom = risk, 2.0 * cell if fine_cell is None else fine_cell, fine_atom


def answer(known, Survivors alive, query, ScoreMap scores, exact, limits, times):
    """Find the survivors of one query by what an index knows, and exact scores where they are cheaper than more cells.

    Parameters
    ----------
    known : Known
    alive : Survivors
        The candidates.
    query : float64 array of shape (d,)
    scores : ScoreMap
        How scores follow from inner products.
    exact : Exact
    limits : Limits
    times : Times

    Returns
    -------
    Outcome
        ``handed_over`` where the full product of all atoms would be faster.
    """
    leave_certain(known, alive, MeasuredQuery(query), scores)
    return answer_survivors(known, alive, query, scores, exact, limits, times)


def leave_certain(known, Survivors alive, MeasuredQuery query, ScoreMap scores):
    """Leave out those that cannot win by certain bounds, if there are any, and fill in where the scores of others lie."""
    cdef CertainBounds bounds = known.bounds
    if bounds is None:
        return
    if alive.n == known.codes.n and scores.is_identity() and query.is_fine:
        with nogil:
            bounds.leave(query, alive)
    elif bounds.bound(alive, query, scores) and drop_by_intervals(alive):
        alive.compact()


def answer_survivors(known, Survivors alive, query, ScoreMap scores, Exact exact, limits, times):
    """Go on where certain bounds have left these, with intervals filled in if there are any bounds; see `answer`."""
    cdef Codes codes = known.codes
    cdef int64_t n_multiplies = 0
    cdef bint knows = known.bounds is not None
    pays = knows and times.full > 0.0 and alive.n > alive.k and _leaders_pay(alive, times, codes)
    if pays and can_lead(alive, exact, limits, 0):
        n_multiplies += lead(alive, exact)
        if drop_by_intervals(alive):
            alive.compact()
    if alive.n <= alive.k:
        return Outcome(alive, StopReason.SEPARATED, n_multiplies=n_multiplies)
    # Delta is split over all atoms of the index, whoever takes part.
    rule = CodeRule(limits.delta, codes.n)
    source = CodeSource(alive, codes, query, known.dither, scores, times)
    source.n_multiplies = n_multiplies
    source.row_cost = exact.cost_of(alive.rows, 1)
    source.leads_for_multiplies = limits.budget is None  # what a budget has left goes to the returned atoms
    if limits.budget is None and not is_worth_a_round(source, rule, exact if knows else None):
        return _handed_over(source)

    def hands_over(n_left):
        if limits.budget is not None and source.n_multiplies + codes.n * source.row_cost > limits.budget:
            return False
        return source.hopeless or n_left * times.row >= times.full > 0.0

    outcome = race(source, rule, exact, limits, hands_over=hands_over)
    rows = (outcome.n_multiplies - source.n_cells_read) / max(source.row_cost, 1)
    outcome.time_spent = source.time_spent + rows * times.row
    return outcome


cpdef bint is_worth_a_round(CodeSource source, CodeRule rule, Exact exact=None) except -1:
    """Whether a first round of all survivors may be begun: it is not dear, or a probe says that it pays.

    With `exact`, for survivors whose scores lie within their intervals for certain, the probe has the bar of all.
    """
    return not source.is_dear() or _probe_promises(source, rule, exact)


cdef bint _probe_promises(CodeSource source, CodeRule rule, Exact exact) except -1:
    """Whether a first round of every `PROBED`-th survivor says that a race would take less than all products.

    The bar of so few is lower than that of all, so that it promises too little rather than too much. Where a few atoms are far
    longer than all others, and make the bar, these are looked at too.
    """
    cdef Survivors alive = source.alive
    cdef Py_ssize_t t, n = (alive.n + PROBED - 1) // PROBED, k = (alive.k + PROBED - 1) // PROBED
    cdef Survivors few = Survivors.with_room(n, k, alive.absolute)
    few.begin_again(n)
    few.bar = alive.bar
    for t in range(n):
        few.rows[t] = alive.rows[t * PROBED]
    cdef CodeSource probe = source.of_others(few)
    cdef double first = probe.first_time()
    # A probe that would itself be dear is not made.
    if n <= k or first > source.risk:
        return False
    if exact is not None and alive.n > alive.k + FARTHEST and first + alive.k * source.row_time <= source.risk:
        # Not the bar of the race, which does not know of whom it is: their codes may miss, and nobody would be left.
        few.bar = max(alive.bar, _bar_of_farthest(source, exact))
        probe.rotated = source.rotated
    probe.advance(probe.next_size())
    if rule.judge(probe, 1):
        probe.keep()
    source.take_over(probe)
    return source.promises(<double> alive.n / n * probe.time_left())


cdef double _bar_of_farthest(CodeSource source, Exact exact) except? -1.0:
    """The k-th best exact score of the most promising of those that may score highest by all that is known."""
    cdef Survivors alive = source.alive
    cdef Py_ssize_t t, n = alive.k + FARTHEST, count = 0
    cdef Survivors some = Survivors.with_room(n, alive.k, alive.absolute)
    cdef CodeSource farthest
    cdef double least
    cdef double* room = <double*> malloc(n * sizeof(double))
    if room == NULL:
        raise MemoryError(f"there is no memory for {n} atoms")
    for t in range(alive.n):
        alive.lower[t] = ranked(alive, t) + alive.radius[t]
    least = kth_largest(alive.lower, alive.n, n, room)
    free(room)
    some.begin_again(n)
    for t in range(alive.n):
        if alive.lower[t] >= least and count < n:
            some.rows[count] = alive.rows[t]
            count += 1
    some.n = count
    if count < some.k:
        return -INFINITY
    farthest = source.of_others(some)
    farthest.advance(farthest.next_size())
    source.take_over(farthest)
    source.n_multiplies += lead(some, exact)
    source.time_spent += some.k * source.row_time
    return some.bar


cdef object _handed_over(CodeSource source):
    """What came of a race that was not begun."""
    outcome = Outcome(source.alive, StopReason.FINISHED_EXACTLY, n_multiplies=source.n_multiplies)
    outcome.handed_over, outcome.time_spent = True, source.time_spent
    return outcome


cdef bint _leaders_pay(Survivors alive, times, Codes codes):
    """Whether the exact scores of the k with the best middles are likely to drop more than they cost."""
    cdef Py_ssize_t t, n_losing = 0
    cdef double rest = alive.n * min(
        <double> times.row, <double> (codes.n_first * times.cell) + <double> times.prepare / max(alive.n, 1)
    )
    if 2.0 * alive.k * times.row > rest:
        return False
    for t in range(alive.n):
        alive.lower[t] = ranked(alive, t)
    cdef double kth = kth_largest(alive.lower, alive.n, alive.k, alive.heap)
    for t in range(alive.n):
        n_losing += ranked(alive, t) + alive.radius[t] < kth
    return 2 * n_losing >= alive.n


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
        cdef double score = 0.0, bar = -INFINITY
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
                self.rows.fill_sums(&alive.rows[done], 1, &query._exact[0], 0, &score)
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
        Called where certain bounds are not enough, or not to be asked, with the measured query, the survivors of which there
        are not few, or None, and of how many queries since the last call they were enough: the outcome, or None.
    past : object
        Says whether the next query `allows_races`; of one that does not, nothing is asked for but its products.
    """

    cdef public Direct direct
    cdef public object go_on, past
    cdef Py_ssize_t n_certain

    cdef object answer(self, cnp.ndarray atoms, cnp.ndarray row, cnp.ndarray mask):
        cdef MeasuredQuery query = MeasuredQuery(row)
        if not are_fine(&query.moments) or self.few_entries * query.moments.n_nonzero <= self.d:
            return None
        cdef Survivors alive = self.direct.survivors(query) if self.past.allows_races else None
        cdef Best best
        fields = self.fields.copy()
        if alive is not None and self.direct.few(alive):
            self.n_certain += 1
            found = self.direct.finish(alive, query)
            if found is None:
                return None
            best = found[0]
            fields["indices"], fields["scores"], fields["n_survivors"] = best.indices, best.scores, alive.n
            fields["n_multiplies"] = found[1] * query.moments.n_nonzero
            return self.result(fields)
        found = self.go_on(query, alive, self.n_certain)
        self.n_certain = 0
        if found is None:
            return None
        fields["indices"] = found.survivors
        for name in ("scores", "n_multiplies", "n_rounds", "n_survivors", "stop_reason", "delta_spent"):
            fields[name] = getattr(found, name)
        return self.result(fields)
