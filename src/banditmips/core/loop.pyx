"""The loop: rounds until the answer is clear.

Algorithm 1 of the paper, with rounds that grow, k, epsilon and a budget, over whatever source gives the cells and
whatever rule says who is beaten. A trace is a record of what this loop did.
"""

from libc.math cimport INFINITY, fabs, isnan
from libc.stdint cimport int64_t, uint8_t

import numpy as np

from banditmips.core.exact cimport Exact
from banditmips.core.records import Round, StopReason
from banditmips.core.rule cimport Rule, drop_by_intervals, round_share
from banditmips.core.source cimport Source
from banditmips.core.survivors cimport Survivors, kth_largest

N_TRACED = 32
"""Leading atoms that a trace keeps for each round."""
_FEW = 64
"""Scores that are sorted as fast as the best of them are found."""
_SEPARATED, _EXHAUSTED = StopReason.SEPARATED, StopReason.EXHAUSTED
_FINISHED, _EPSILON, _BUDGET = StopReason.FINISHED_EXACTLY, StopReason.EPSILON, StopReason.BUDGET


class Limits:
    """What a race may cost and when it may end.

    Attributes
    ----------
    delta, epsilon, budget
        As in `banditmips.search`; `budget` is None where there is none.
    traced : bool
        Whether every round is written down.
    """

    __slots__ = ("budget", "delta", "epsilon", "traced")

    def __init__(self, delta, epsilon=0.0, budget=None, traced=False):
        self.delta, self.epsilon, self.budget, self.traced = delta, epsilon, budget, traced


class Outcome:
    """How a race ended: the survivors with their estimates, intervals and costs.

    `n_raced` atoms took part in the first round. `handed_over` says that the race ended where its source did, with the
    answer still open. `time_spent` is what it has taken, in nanoseconds, by the costs that the race was planned with.
    """

    __slots__ = (
        "delta_spent", "exact", "handed_over", "n_multiplies", "n_raced", "n_rounds", "n_survivors", "radius", "rounds", "scores",
        "stop_reason", "survivors", "time_spent",
    )  # fmt: skip

    def __init__(self, Survivors alive, stop_reason, *, exact=False, n_multiplies=0, n_rounds=0, delta_spent=0.0, rounds=()):
        self.survivors = alive.row_array.copy()
        self.scores = alive.estimate_array.copy()
        self.radius = alive.radius_array.copy()
        self.exact = np.full(alive.n, exact)
        self.n_multiplies, self.n_rounds, self.n_survivors = n_multiplies, n_rounds, alive.n
        self.stop_reason, self.delta_spent, self.rounds = stop_reason, delta_spent, list(rounds)
        self.handed_over, self.n_raced, self.time_spent = False, alive.n, 0.0
        if alive.n_known:
            self._adopt(alive)

    def best(self, Py_ssize_t k, bint absolute):
        """Positions of the k best survivors, best first; of equals the one with the smaller index."""
        scores = np.abs(self.scores) if absolute else self.scores
        if scores.size <= max(2 * k, _FEW):
            return np.lexsort((self.survivors, -scores))[:k]
        bar = np.partition(scores, scores.size - k)[scores.size - k]
        places = np.flatnonzero(scores >= bar)
        return places[np.lexsort((self.survivors[places], -scores[places]))[:k]]

    def best_exactly(self, Py_ssize_t k, bint absolute, exact):
        """The k best survivors with their exact scores, best first, and the multiplies of everything."""
        places = self.best(k, absolute)
        rows, scores = self.survivors[places], self.scores[places]
        left = np.flatnonzero(~self.exact[places])
        if left.size:
            scores[left] = exact.scores(rows[left])
            order = np.lexsort((rows, -(np.abs(scores) if absolute else scores)))
            rows, scores = rows[order], scores[order]
        return (rows, scores), self.n_multiplies + exact.cost(rows[left] if left.size else rows[:0])

    def _adopt(self, Survivors alive):
        """Take exact scores that are known already."""
        cdef double[::1] scores = self.scores, radius = self.radius
        cdef uint8_t[::1] exact = self.exact.view(np.uint8)
        cdef double score
        cdef Py_ssize_t t
        for t in range(alive.n):
            score = alive.known_score(alive.rows[t])
            if not isnan(score):
                scores[t], radius[t], exact[t] = score, 0.0, 1


def race(Source source, Rule rule, exact, limits, n_rounds=0, hands_over=None):
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
    cdef int r
    for r in range(1, n_rounds + 1):
        spent += limits.delta * round_share(r)
    rounds = []
    reason = None
    if source.population == 0:  # nothing to estimate: every score is what is known already
        alive.radius_array[:] = 0.0
        reason = _EXHAUSTED
    while reason is None:
        size, reason = _next_step(source, exact, limits)
        if reason is not None:
            break
        number += 1
        source.advance(size)
        if source.size == source.population and not source.with_replacement:
            reason, n_beaten = _EXHAUSTED, 0
            alive.radius_array[:] = 0.0
        else:
            spent += limits.delta * round_share(number)
            n_beaten = rule.judge(source, number)
            if alive.n - n_beaten <= alive.k:
                reason = _SEPARATED
            elif limits.epsilon > 0.0 and rule.settled_within(source, number, limits.epsilon):
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
    outcome = Outcome(
        alive, reason, exact=reason is _EXHAUSTED, n_multiplies=source.n_multiplies, n_rounds=number,
        delta_spent=spent, rounds=rounds,
    )  # fmt: skip
    outcome.n_raced = n_begun
    if reason is _FINISHED:
        if hands_over is not None and hands_over(alive.n):
            outcome.handed_over = True
            return outcome
        finish(outcome, source, exact, rule.speaks_for_atoms)
    if outcome.n_survivors == n_begun and outcome.exact.all():
        outcome.delta_spent = 0.0  # nothing was dropped on a sample's word
    return outcome


def _next_step(Source source, exact, limits):
    """Choose how many cells to reach next, or say why to stop sampling instead."""
    left = None if limits.budget is None else limits.budget - source.n_multiplies
    can_finish = left is None or exact.cost(source.alive.row_array) - source.seen(slice(None)) <= left
    if source.with_replacement and source.size >= source.population:
        return source.size, _FINISHED if can_finish else _BUDGET
    size = source.next_size()
    if size <= source.size or not source.can_go_on(size):
        return source.size, _FINISHED if can_finish else _BUDGET
    if can_finish and source.should_finish(size):
        return source.size, _FINISHED
    if left is not None and (size - source.size) * source.alive.n * source.cell_cost() > left:
        size = source.affordable_size(source.size + left // (source.alive.n * max(source.cell_cost(), 1)))
        if size <= source.size:
            return source.size, _BUDGET
    return size, None


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


def can_lead(Survivors alive, exact, limits, int64_t n_multiplies):
    """Whether the exact scores of the k leaders are within the budget."""
    if limits.budget is None:
        return True
    return n_multiplies + exact.cost(alive.row_array[alive.leaders(alive.k)]) <= limits.budget


def lead(Survivors alive, Exact exact):
    """Compute the exact scores of the k leaders, which raises the bar; return the multiplies that this took."""
    cdef int64_t[::1] rows = np.empty(alive.k, dtype=np.int64)
    cdef Py_ssize_t t, count = alive.find_leaders(min(alive.k, alive.n), &rows[0])
    cdef double score, least = INFINITY
    for t in range(count):
        rows[t] = alive.rows[rows[t]]
    cdef int64_t n_multiplies = _learn(alive, &rows[0], count, exact)
    for t in range(count):
        score = alive.known_score(rows[t])
        least = min(least, fabs(score) if alive.absolute else score)
    if count == alive.k:
        alive.bar = max(alive.bar, least)
    return n_multiplies


def learn(Survivors alive, const int64_t[::1] rows, Exact exact):
    """Compute the exact scores of these rows, unless they are known; return the multiplies that this took."""
    return _learn(alive, &rows[0], rows.shape[0], exact) if rows.shape[0] else 0


cdef int64_t _learn(Survivors alive, const int64_t* rows, Py_ssize_t count, Exact exact) except -1:
    cdef int64_t[::1] fresh = np.empty(count, dtype=np.int64)
    cdef double[::1] scores = np.empty(count)
    cdef Py_ssize_t t, n_fresh = 0
    for t in range(count):
        if isnan(alive.known_score(rows[t])):
            fresh[n_fresh] = rows[t]
            n_fresh += 1
    exact.fill(&fresh[0], n_fresh, &scores[0])
    alive.make_room_for_known(n_fresh)
    for t in range(n_fresh):
        alive.learn(fresh[t], scores[t])
    return exact.cost_of(&fresh[0], n_fresh)


def finish(outcome, Source source, Exact exact, bint may_skip):
    """Replace the survivors' estimates by exact scores, of all that can still be among the best k.

    They are taken in the order of their estimates, a few at a time; if `may_skip`, one whose interval ends below what k exact
    scores have reached by then is left out (its estimate stays). Rules that compare pairs spend their delta on pairs and
    say nothing more about single scores: there nobody is left out.
    """
    cdef Survivors alive = source.alive
    cdef Py_ssize_t n = outcome.scores.size, next_one = 0, n_done = 0, begun, most, t
    ranking = np.abs(outcome.scores) if alive.absolute else outcome.scores
    order = np.argsort(-ranking, kind="stable")
    taken = np.empty(n, dtype=np.int64)  # places, in the order in which they are taken
    cdef const int64_t[::1] in_order = order
    cdef const double[::1] upper = ranking + alive.reach * outcome.radius
    cdef int64_t[::1] places = taken
    cdef double bar = alive.bar
    done = np.zeros(n, dtype=np.bool_)
    while next_one < n:
        begun = n_done
        most = max(alive.k, n_done) if may_skip else n
        while next_one < n and n_done - begun < most:
            t = in_order[next_one]
            next_one += 1
            if may_skip and begun >= alive.k and upper[t] < bar:
                continue
            places[n_done] = t
            n_done += 1
        if n_done > begun:
            outcome.n_multiplies += _score(outcome, source, exact, taken[begun:n_done])
            done[taken[begun:n_done]] = True
        if may_skip and next_one < n and n_done >= alive.k:
            bar = max(bar, _kth_best(alive, outcome.scores, places[:n_done]))
    outcome.exact = done


cdef int64_t _score(outcome, Source source, Exact exact, places) except -1:
    """Put in exact scores at these places, unless they are there; return the multiplies that this took."""
    fresh = places[~outcome.exact[places]]
    cdef Py_ssize_t t, count = fresh.size
    cdef const int64_t[::1] chosen = fresh
    cdef int64_t[::1] rows = outcome.survivors[fresh]
    cdef double[::1] scores = outcome.scores, radius = outcome.radius, found = np.empty(count)
    if count == 0:
        return 0
    exact.fill(&rows[0], count, &found[0])
    for t in range(count):
        scores[chosen[t]], radius[chosen[t]] = found[t], 0.0
    # What the rounds have seen of them need not be multiplied again.
    return exact.cost_of(&rows[0], count) - source.seen(fresh)


cdef double _kth_best(Survivors alive, const double[::1] scores, const int64_t[::1] places):
    """The k-th best of the scores at these places."""
    cdef Py_ssize_t t
    for t in range(places.shape[0]):
        alive.lower[t] = fabs(scores[places[t]]) if alive.absolute else scores[places[t]]
    return kth_largest(alive.lower, places.shape[0], alive.k, alive.heap)
