"""The loop: rounds until the answer is clear.

Algorithm 1 of the paper, with rounds that grow, k, epsilon and a budget, over whatever source gives the cells and
whatever rule says who is beaten. A trace is a record of what this loop did.
"""

from libc.math cimport INFINITY, fabs, isnan
from libc.stdint cimport int64_t, uint8_t
from libc.stdlib cimport free, malloc, qsort
from libc.string cimport memchr, memcpy, memset

import numpy as np

cimport numpy as cnp

from banditmips.core.exact cimport Exact
from banditmips.core.records import Round, StopReason
from banditmips.core.rule cimport Rule, drop_by_intervals, round_share
from banditmips.core.source cimport Source
from banditmips.core.survivors cimport WORTH_HANDING_OVER, Survivors, kth_largest

cnp.import_array()

N_TRACED = 32
"""Leading atoms that a trace keeps for each round."""
_SEPARATED, _EXHAUSTED = StopReason.SEPARATED, StopReason.EXHAUSTED
_FINISHED, _EPSILON, _BUDGET = StopReason.FINISHED_EXACTLY, StopReason.EPSILON, StopReason.BUDGET


cdef class Limits:
    """What a race may cost and when it may end.

    Attributes
    ----------
    delta, epsilon, budget
        As in `banditmips.search`; `budget` is None where there is none.
    traced : bool
        Whether every round is written down.
    """

    cdef readonly double delta, epsilon
    cdef readonly object budget
    cdef readonly bint traced

    def __init__(self, double delta, double epsilon=0.0, budget=None, bint traced=False):
        self.delta, self.epsilon, self.budget, self.traced = delta, epsilon, budget, traced


cdef struct Candidate:
    # A score as it is ranked, where its interval ends, what comes first of equals, and its place.
    double rank
    double upper
    int64_t tie
    int64_t place


cdef int _compare(const void* first, const void* second) noexcept nogil:
    """The best comes first, and what is not a number last."""
    cdef const Candidate* a = <const Candidate*> first
    cdef const Candidate* b = <const Candidate*> second
    if isnan(a.rank) or isnan(b.rank):
        if isnan(a.rank) != isnan(b.rank):
            return 1 if isnan(a.rank) else -1
    elif a.rank != b.rank:
        return -1 if a.rank > b.rank else 1
    return -1 if a.tie < b.tie else 1


cdef Py_ssize_t _order_best(
    const double[::1] scores, const int64_t[::1] rows, Py_ssize_t k, bint absolute, Candidate* order
) noexcept nogil:
    """Put those that reach the k-th best in order; return how many. There is room for n + k numbers behind n candidates."""
    cdef Py_ssize_t t, found = 0, n = min(scores.shape[0], rows.shape[0])
    cdef double* ranks = <double*> (order + n)
    cdef double bar = -INFINITY
    for t in range(n):
        ranks[t] = fabs(scores[t]) if absolute else scores[t]
    if 0 < k < n:
        bar = kth_largest(ranks, n, k, ranks + n)
    for t in range(n):
        if not ranks[t] < bar:
            order[found].rank, order[found].tie, order[found].place = ranks[t], rows[t], t
            found += 1
    qsort(order, found, sizeof(Candidate), _compare)
    return found


cdef void* room_for(Py_ssize_t size) except NULL:
    """Memory, which whoever asks for it gives back."""
    cdef void* room = malloc(max(size, <Py_ssize_t> 1))
    if room == NULL:
        raise MemoryError("there is no memory for a list of survivors")
    return room


cdef object _copied(const void* entries, cnp.npy_intp n, int type_num):
    """An array of so many entries of 8 bytes."""
    array = cnp.PyArray_EMPTY(1, &n, type_num, 0)
    memcpy(cnp.PyArray_DATA(array), entries, n * 8)
    return array


cdef class Outcome:
    """How a race ended: the survivors with their estimates, intervals and costs.

    `n_raced` atoms took part in the first round. `handed_over` says that the race ended where its source did, with the
    answer still open. `time_spent` is what it has taken, in nanoseconds, by the costs that the race was planned with.
    """

    cdef public object survivors, scores, radius, exact, stop_reason, rounds
    cdef public int64_t n_multiplies
    cdef public Py_ssize_t n_survivors, n_raced
    cdef public int n_rounds
    cdef public bint handed_over
    cdef public double delta_spent, time_spent
    cdef bint _best_first

    def __init__(self, Survivors alive, stop_reason, *, exact=False, n_multiplies=0, n_rounds=0, delta_spent=0.0, rounds=()):
        cdef cnp.npy_intp n = alive.n
        self.survivors = _copied(alive.rows, n, cnp.NPY_INT64)
        self.scores = _copied(alive.estimates, n, cnp.NPY_FLOAT64)
        self.radius = _copied(alive.radius, n, cnp.NPY_FLOAT64)
        self.exact = cnp.PyArray_EMPTY(1, &n, cnp.NPY_BOOL, 0)
        memset(cnp.PyArray_DATA(self.exact), bool(exact), n)
        self.n_multiplies, self.n_rounds, self.n_survivors = n_multiplies, n_rounds, alive.n
        self.stop_reason, self.delta_spent, self.rounds = stop_reason, delta_spent, list(rounds)
        self.handed_over, self.n_raced, self.time_spent = False, alive.n, 0.0
        if alive.n_known:
            self._adopt(alive)

    @staticmethod
    def finished(rows, scores, int64_t n_multiplies, Outcome begun=None, bint best_first=False):
        """What comes of the exact scores of some rows, after what a race had come to, if there was one."""
        cdef Outcome self = Outcome.__new__(Outcome)
        cdef cnp.npy_intp n = rows.size
        self.survivors, self.scores = rows, scores
        self.radius, self.exact = cnp.PyArray_ZEROS(1, &n, cnp.NPY_FLOAT64, 0), cnp.PyArray_EMPTY(1, &n, cnp.NPY_BOOL, 0)
        memset(cnp.PyArray_DATA(self.exact), 1, n)
        self.stop_reason, self.n_multiplies, self._best_first = _FINISHED, n_multiplies, best_first
        if begun is None:
            self.n_survivors = self.n_raced = n
            self.rounds = []
        else:
            self.n_multiplies += begun.n_multiplies
            self.n_survivors, self.n_raced = begun.n_survivors, begun.n_raced
            self.n_rounds, self.rounds = begun.n_rounds, begun.rounds
        return self

    @property
    def waits(self):
        """Whether it is left to the products with all atoms."""
        return self.handed_over

    def add_multiplies(self, int64_t n_before):
        """Count what was multiplied before."""
        self.n_multiplies += n_before

    cdef void _adopt(self, Survivors alive):
        """Take exact scores that are known already."""
        cdef double* scores = <double*> cnp.PyArray_DATA(self.scores)
        cdef double* radius = <double*> cnp.PyArray_DATA(self.radius)
        cdef uint8_t* exact = <uint8_t*> cnp.PyArray_DATA(self.exact)
        cdef double score
        cdef Py_ssize_t t
        for t in range(alive.n):
            score = alive.known_score(alive.rows[t])
            if not isnan(score):
                scores[t], radius[t], exact[t] = score, 0.0, 1

    def best(self, Py_ssize_t k, bint absolute):
        """Positions of the k best survivors, best first; of equals the one with the smaller index."""
        cdef const double[::1] scores = self.scores
        cdef const int64_t[::1] rows = self.survivors
        cdef Py_ssize_t t, found, n = min(scores.shape[0], rows.shape[0])
        cdef Candidate* order = <Candidate*> room_for(n * sizeof(Candidate) + (n + k) * sizeof(double))
        if n < WORTH_HANDING_OVER:
            found = _order_best(scores, rows, k, absolute, order)
        else:
            with nogil:
                found = _order_best(scores, rows, k, absolute, order)
        places = np.empty(min(k, found), dtype=np.int64)
        cdef int64_t* out = <int64_t*> cnp.PyArray_DATA(places)
        for t in range(min(k, found)):
            out[t] = order[t].place
        free(order)
        return places

    def rescore(self, Py_ssize_t k, bint absolute, Exact exact, budget=None):
        """Leave the k best, best first, with exact scores where the budget allows for them."""
        # What is returned is settled here: the others leave before scores of two kinds are compared.
        self.keep_best(k, absolute)
        if memchr(cnp.PyArray_DATA(self.exact), 0, self.exact.shape[0]) == NULL:
            return
        left = np.flatnonzero(~self.exact)
        rows = self.survivors[left]
        cost = exact.cost(rows)
        if budget is None or self.n_multiplies + cost <= budget:
            self.scores[left] = exact.scores(rows)
            self.radius[left], self.exact[left] = 0.0, True
            self.n_multiplies += cost
            self._best_first = False
            self.keep_best(k, absolute)

    def keep_best(self, Py_ssize_t k, bint absolute):
        """Leave the k best, best first."""
        if self._best_first and self.survivors.shape[0] <= k:
            return
        places = self.best(k, absolute)
        self.survivors, self.scores = self.survivors.take(places), self.scores.take(places)
        self.radius, self.exact = self.radius.take(places), self.exact.take(places)
        self._best_first = True


def race(Source source, Rule rule, Exact exact, Limits limits, int n_rounds=0, hands_over=None):
    """Run one query's race.

    Parameters
    ----------
    source : Source
    rule : Rule
    exact
        Gives exact scores: ``scores(rows)`` and ``cost(rows)`` in multiplies.
    limits : Limits
    n_rounds : int
        Rounds that were played on another source before, of which delta has been spent.
    hands_over : callable, optional
        Asked with the number of survivors when they would be finished exactly: whether to leave them to another race.
    """
    cdef Survivors alive = source.alive
    cdef int number = n_rounds
    cdef Py_ssize_t n_beaten, n_begun = alive.n
    cdef double spent = 0.0
    cdef int64_t size = 0
    cdef int r
    for r in range(1, n_rounds + 1):
        spent += limits.delta * round_share(r)
    rounds = []
    reason = None
    if source.population == 0:  # nothing to estimate: every score is what is known already
        alive.radius_array[:] = 0.0
        reason = _EXHAUSTED
    while reason is None:
        reason = _next_step(source, exact, limits, &size)
        if reason is not None:
            break
        number += 1
        source.advance(size)
        if source.overflowed:  # exact scores are finite, or an error says whose is not
            reason = _FINISHED
            break
        if source.size == source.population and not source.with_replacement:
            reason, n_beaten = _EXHAUSTED, 0
            alive.radius_array[:] = 0.0
        else:
            spent += limits.delta * round_share(number)
            n_beaten = rule.judge(source, number)
            if alive.n - n_beaten <= alive.k:
                reason = _SEPARATED
            elif limits.epsilon > 0.0 and rule.settles(source, number, limits.epsilon):
                reason = _EPSILON
            if reason is not None or limits.traced:
                rule.complete_radius(source, number)
        if limits.traced:
            rounds.append(record(source, alive.n - n_beaten))
        if n_beaten:
            source.keep()
        if reason is None and source.wants_leaders() and can_lead(alive, exact, limits, source.n_multiplies):
            source.n_multiplies += lead(alive, exact)
            if drop_by_intervals(alive):
                source.keep()
            if alive.n <= alive.k:
                reason = _SEPARATED
    if reason is _BUDGET and number > n_rounds:
        rule.complete_radius(source, number)
    cdef Outcome outcome = Outcome(
        alive, reason, exact=reason is _EXHAUSTED, n_multiplies=source.n_multiplies, n_rounds=number,
        delta_spent=spent, rounds=rounds,
    )  # fmt: skip
    outcome.n_raced = n_begun
    if reason is _FINISHED:
        if hands_over is not None and hands_over(alive.n):
            outcome.handed_over = True
            return outcome
        finish(outcome, source, exact, rule.speaks_for_atoms and not source.overflowed)
    if outcome.n_survivors == n_begun and outcome.exact.all():
        outcome.delta_spent = 0.0  # nothing was dropped on a sample's word
    return outcome


cdef object _next_step(Source source, Exact exact, Limits limits, int64_t* size):
    """Choose how many cells to reach next, or say why to stop sampling instead."""
    left = None if limits.budget is None else limits.budget - source.n_multiplies
    cdef bint can_finish = left is None or _cost_of_all(source, exact) <= left
    if source.with_replacement and source.size >= source.population:
        return _FINISHED if can_finish else _BUDGET
    size[0] = source.next_size()
    if size[0] <= source.size or not source.can_go_on(size[0]):
        return _FINISHED if can_finish else _BUDGET
    if can_finish and source.should_finish(size[0]):
        return _FINISHED
    if left is not None and (size[0] - source.size) * source.alive.n * source.cell_cost() > left:
        size[0] = source.affordable_size(source.size + left // (source.alive.n * max(source.cell_cost(), 1)))
        if size[0] <= source.size:
            return _BUDGET
    return None


cdef int64_t _cost_of_all(Source source, Exact exact) except -1:
    """Multiplies that the exact scores of all survivors take still."""
    return exact.cost_of(source.alive.rows, source.alive.n) - source.seen(NULL, source.alive.n)


def record(Source source, Py_ssize_t n_survivors):
    """Write a round down."""
    alive = source.alive
    best = alive.leaders(N_TRACED)
    rows, scores, radius = alive.row_array, alive.estimate_array, alive.radius_array
    leader = int(rows[best[min(alive.k, best.size) - 1]])
    return Round(
        source.n_coordinates(), n_survivors, leader, rows[best].copy(), scores[best].copy(),
        scores[best] - radius[best], scores[best] + radius[best],
    )  # fmt: skip


cpdef bint can_lead(Survivors alive, Exact exact, Limits limits, int64_t n_multiplies) except -1:
    """Whether the exact scores of the k leaders are within the budget."""
    if limits.budget is None:
        return True
    return n_multiplies + exact.cost(alive.row_array[alive.leaders(alive.k)]) <= limits.budget


cpdef int64_t lead(Survivors alive, Exact exact) except -1:
    """Compute the exact scores of the k leaders, which raises the bar; return the multiplies that this took."""
    cdef int64_t* rows = <int64_t*> room_for(alive.k * sizeof(int64_t))
    cdef Py_ssize_t t, count = alive.find_leaders(min(alive.k, alive.n), rows)
    cdef double score, least = INFINITY
    cdef int64_t n_multiplies
    try:
        for t in range(count):
            rows[t] = alive.rows[rows[t]]
        n_multiplies = _learn(alive, rows, count, exact)
        for t in range(count):
            score = alive.known_score(rows[t])
            least = min(least, fabs(score) if alive.absolute else score)
    finally:
        free(rows)
    if count == alive.k:
        alive.bar = max(alive.bar, least)
    return n_multiplies


def learn(Survivors alive, const int64_t[::1] rows, Exact exact):
    """Compute the exact scores of these rows, unless they are known; return the multiplies that this took."""
    return _learn(alive, &rows[0], rows.shape[0], exact) if rows.shape[0] else 0


cdef int64_t _learn(Survivors alive, const int64_t* rows, Py_ssize_t count, Exact exact) except -1:
    cdef int64_t* fresh = <int64_t*> room_for(count * (sizeof(int64_t) + sizeof(double)))
    cdef double* scores = <double*> (fresh + count)
    cdef Py_ssize_t t, n_fresh = 0
    try:
        for t in range(count):
            if isnan(alive.known_score(rows[t])):
                fresh[n_fresh] = rows[t]
                n_fresh += 1
        if n_fresh == 0:
            return 0
        exact.fill(fresh, n_fresh, scores)
        alive.make_room_for_known(n_fresh)
        for t in range(n_fresh):
            alive.learn(fresh[t], scores[t])
        return exact.cost_of(fresh, n_fresh)
    finally:
        free(fresh)


def finish(Outcome outcome, Source source, Exact exact, bint may_skip):
    """Replace the survivors' estimates by exact scores, of all that can still be among the best k.

    They are taken in the order of their estimates, a few at a time; if `may_skip`, one whose interval ends below what k exact
    scores have reached by then is left out (its estimate stays). Rules that compare pairs spend their delta on pairs and
    say nothing more about single scores: there nobody is left out.
    """
    cdef Py_ssize_t n = outcome.scores.size
    done = np.zeros(n, dtype=np.bool_)
    cdef Candidate* order = <Candidate*> room_for(n * (sizeof(Candidate) + sizeof(int64_t)))
    try:
        _finish(outcome, source, exact, may_skip, order, <int64_t*> (order + n), <uint8_t*> cnp.PyArray_DATA(done))
    finally:
        free(order)
    outcome.exact = done


cdef int _finish(
    Outcome outcome, Source source, Exact exact, bint may_skip, Candidate* order, int64_t* taken, uint8_t* done
) except -1:
    """Do that, with room for all; `taken` becomes the places in the order in which they are taken."""
    cdef Survivors alive = source.alive
    cdef const double* scores = <const double*> cnp.PyArray_DATA(outcome.scores)
    cdef const double* radius = <const double*> cnp.PyArray_DATA(outcome.radius)
    cdef Py_ssize_t n = outcome.scores.size, next_one = 0, n_done = 0, begun, most, t
    cdef double bar = alive.bar
    for t in range(n):
        order[t].rank = fabs(scores[t]) if alive.absolute else scores[t]
        order[t].upper, order[t].tie, order[t].place = order[t].rank + alive.reach * radius[t], t, t
    qsort(order, n, sizeof(Candidate), _compare)
    while next_one < n:
        begun = n_done
        most = max(alive.k, n_done) if may_skip else n
        while next_one < n and n_done - begun < most:
            t = next_one
            next_one += 1
            if may_skip and begun >= alive.k and order[t].upper < bar:
                continue
            taken[n_done] = order[t].place
            n_done += 1
        if n_done > begun:
            outcome.n_multiplies += _score(outcome, source, exact, taken + begun, n_done - begun)
            for t in range(begun, n_done):
                done[taken[t]] = 1
        if may_skip and next_one < n and n_done >= alive.k:
            for t in range(n_done):
                alive.lower[t] = fabs(scores[taken[t]]) if alive.absolute else scores[taken[t]]
            bar = max(bar, kth_largest(alive.lower, n_done, alive.k, alive.heap))
    return 0


cdef int64_t _score(Outcome outcome, Source source, Exact exact, const int64_t* places, Py_ssize_t n_places) except -1:
    """Put in exact scores at these places, unless they are there; return the multiplies that this took."""
    cdef const uint8_t* known = <const uint8_t*> cnp.PyArray_DATA(outcome.exact)
    cdef const int64_t* survivors = <const int64_t*> cnp.PyArray_DATA(outcome.survivors)
    cdef double* scores = <double*> cnp.PyArray_DATA(outcome.scores)
    cdef double* radius = <double*> cnp.PyArray_DATA(outcome.radius)
    cdef int64_t* fresh = <int64_t*> room_for(n_places * (2 * sizeof(int64_t) + sizeof(double)))
    cdef int64_t* rows = fresh + n_places
    cdef double* found = <double*> (rows + n_places)
    cdef Py_ssize_t t, count = 0
    try:
        for t in range(n_places):
            if not known[places[t]]:
                fresh[count], rows[count] = places[t], survivors[places[t]]
                count += 1
        if count == 0:
            return 0
        exact.fill(rows, count, found)
        for t in range(count):
            scores[fresh[t]], radius[fresh[t]] = found[t], 0.0
        # What the rounds have seen of them need not be multiplied again.
        return exact.cost_of(rows, count) - source.seen(fresh, count)
    finally:
        free(fresh)
