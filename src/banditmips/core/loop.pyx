"""The loop: rounds until the answer is clear.

Algorithm 1 of the paper, with rounds that grow, k, epsilon and a budget, over whatever source gives the cells and
whatever rule says who is beaten. A trace is a record of what this loop did.
"""

from libc.stdint cimport int64_t

import numpy as np

from banditmips.core.records import Round, StopReason
from banditmips.core.rule cimport Rule, drop_by_intervals, round_share
from banditmips.core.survivors cimport Survivors

N_TRACED = 32
"""Leading atoms that a trace keeps for each round."""
_SEPARATED, _EXHAUSTED = StopReason.SEPARATED, StopReason.EXHAUSTED
_FINISHED, _EPSILON, _BUDGET = StopReason.FINISHED_EXACTLY, StopReason.EPSILON, StopReason.BUDGET


cdef class Source:
    """Who fills the next cells of every survivor, and how they speak for the whole score.

    Attributes
    ----------
    alive : Survivors
    population, size : int
        Cells that there are, and cells of each survivor that have been read.
    n_multiplies : int
        What reading them has taken.
    with_replacement : bool
        Whether a cell may come again, so that having read them all proves nothing.
    """

    cpdef int64_t next_size(self) except -1:
        """How many cells the next round reaches."""
        raise NotImplementedError

    cpdef bint should_finish(self, int64_t size) except -1:
        """Whether exact scores of the survivors are better than a round that reaches `size` cells."""
        return False

    cpdef bint can_go_on(self, int64_t size) except -1:
        """Whether a round that reaches `size` cells is possible at all."""
        return True

    cpdef int64_t cell_cost(self) except -1:
        """Multiplies that one more cell takes of an atom at most."""
        return 1

    cpdef int64_t seen(self, places) except -1:
        """Multiplies of the exact scores of the survivors at these places that the rounds have done already."""
        return 0

    cpdef int64_t n_coordinates(self) except -1:
        """Cells read so far, in coordinates."""
        return self.size

    cpdef bint wants_leaders(self) except -1:
        """Whether the exact scores of the k leaders would be worth their time now."""
        return False

    cpdef int advance(self, int64_t size) except -1:
        """Read up to `size` cells of every survivor and fill in its estimate."""
        raise NotImplementedError

    cpdef int keep(self) except -1:
        """Leave out those that are beaten."""
        self.alive.compact()
        return 0


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
        places = np.arange(scores.size)
        if scores.size > k:
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
        for t, row in enumerate(self.survivors.tolist()):
            score = alive.known_score(row)
            if score == score:
                self.scores[t], self.radius[t], self.exact[t] = score, 0.0, True


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


def lead(Survivors alive, exact):
    """Compute the exact scores of the k leaders, which raises the bar; return the multiplies that this took."""
    rows = alive.row_array[alive.leaders(alive.k)]
    cdef int64_t n_multiplies = learn(alive, rows, exact)
    known = np.array([alive.known_score(row) for row in rows.tolist()])
    if known.size == alive.k:
        alive.bar = max(alive.bar, float((np.abs(known) if alive.absolute else known).min()))
    return n_multiplies


def learn(Survivors alive, rows, exact):
    """Compute the exact scores of these rows, unless they are known; return the multiplies that this took."""
    fresh = np.array([row for row in rows.tolist() if np.isnan(alive.known_score(row))], dtype=np.int64)
    scores = exact.scores(fresh)
    alive.make_room_for_known(fresh.size)
    cdef Py_ssize_t t
    for t in range(fresh.size):
        alive.learn(fresh[t], scores[t])
    return exact.cost(fresh)


def finish(outcome, Source source, exact, bint may_skip):
    """Replace the survivors' estimates by exact scores, of all that can still be among the best k.

    They are taken in the order of their estimates, a few at a time; if `may_skip`, one whose interval ends below what k exact
    scores have reached by then is left out (its estimate stays). Rules that compare pairs spend their delta on pairs and
    say nothing more about single scores: there nobody is left out.
    """
    cdef Survivors alive = source.alive
    ranking = np.abs(outcome.scores) if alive.absolute else outcome.scores
    left = np.argsort(-ranking, kind="stable")
    upper = ranking + alive.reach * outcome.radius
    scores = np.full(left.size, np.nan)
    cdef double bar = alive.bar
    cdef Py_ssize_t n_done = 0, count
    while left.size:
        count = left.size if not may_skip else min(max(alive.k, n_done), left.size)
        batch, left = left[:count], left[count:]
        rows = outcome.survivors[batch]
        known = np.where(outcome.exact[batch], outcome.scores[batch], np.nan)
        fresh = np.isnan(known)
        if fresh.any():
            known[fresh] = exact.scores(rows[fresh])
            # What the rounds have seen of them need not be multiplied again.
            outcome.n_multiplies += exact.cost(rows[fresh]) - source.seen(batch[fresh])
        scores[batch] = known
        n_done += count
        if may_skip and left.size and n_done >= alive.k:
            done = scores[~np.isnan(scores)]
            done = np.abs(done) if alive.absolute else done
            bar = max(bar, float(np.partition(done, done.size - alive.k)[done.size - alive.k]))
            left = left[~(upper[left] < bar)]
    computed = ~np.isnan(scores)
    outcome.scores = np.where(computed, scores, outcome.scores)
    outcome.radius = np.where(computed, 0.0, outcome.radius)
    outcome.exact = computed
