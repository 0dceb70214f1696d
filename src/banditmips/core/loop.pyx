"""The loop: rounds until the answer is clear.

Algorithm 1 of the paper, with rounds that grow, k, epsilon and a budget, over whatever source gives the cells and
whatever rule says who is beaten. A trace is a record of what this loop did.
"""

from libc.math cimport INFINITY, fabs, isnan
from libc.stdint cimport int64_t, uint8_t
from libc.stdlib cimport free, qsort

import numpy as np

cimport numpy as cnp

from banditmips.core.exact cimport Exact
from banditmips.core.outcome cimport Candidate, Outcome, compare, room_for
from banditmips.core.records import Round, StopReason
from banditmips.core.rule cimport Rule, drop_by_intervals, round_share
from banditmips.core.source cimport Source
from banditmips.core.survivors cimport Survivors, kth_largest

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
    qsort(order, n, sizeof(Candidate), compare)
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
