"""The rule: who is beaten. The only place where delta is split.

After every round a rule looks at the atoms still in the race and marks those that k others beat for certain, up to the
round's share of delta. Round r = 1, 2, ... may spend ``6/(pi r)^2`` of it, which sums to 1 over all rounds however many
there are; within a round it is split over the atoms (every interval holds) or over pairs of atoms (no comparison is wrong).

=====================  ==========================================================================================
rule                   what backs it
=====================  ==========================================================================================
``codes``              The error of a rotated code is sub-Gaussian for a uniformly random rotation, whatever the data
                       (docs/guarantees.md): a theorem but for the rotation, which is made of signs and transforms.
``hoeffding``          Hoeffding's inequality for sigma-sub-Gaussian terms (the paper, section 3.2), two-sided.
``hoeffding_serfling`` Serfling's inequality for sampling without replacement, in the form of Bardenet and
                       Maillard (2015), corollary 2.5.
``bernstein``          Empirical Bernstein inequality: Audibert, Munos and Szepesvari (2009), theorem 1, with
                       replacement; Bardenet and Maillard (2015), theorem 4.3, without.
``paired``             Student's t on the differences to the leaders at the same coordinates. Asymptotic: no theorem.
=====================  ==========================================================================================

Where the atoms live in several places, delta is split over all of them at once: `n_atoms` is the number of candidates in all
places, and round r is the same round everywhere. What a rule may get wrong is an event that belongs to one atom, or to
one pair of atoms, and to one round; where it is looked at, how often, and in whose company makes no difference to it.
"""

from libc.math cimport INFINITY, M_PI, fabs, isfinite, isnan, log, sqrt
from libc.stdint cimport int64_t, uint8_t
from libc.string cimport memset

import numpy as np

from banditmips.core.kernels cimport bm_kernels
from banditmips.core.source cimport Source
from banditmips.core.survivors cimport Survivors, kth_largest, ranked

from banditmips.core.quantiles import student_quantile

cdef double LEAST_DIFFERENCE = 1e-140
"""Differences below this are not told apart: their squares are nothing."""
cdef double NO_SPREAD = 1e-12
"""Deviations of a difference of two scores, as a part of the larger, that are no more than rounding."""


cdef double round_share(int number) noexcept nogil:
    return 6.0 / (M_PI * number) ** 2


def share_of_round(int number):
    """Return the part of delta that round r = 1, 2, ... may spend: 6/(pi r)^2, which sums to 1 over all rounds."""
    return round_share(number)


cdef Py_ssize_t drop_by_intervals(Survivors alive) noexcept nogil:
    """Mark the atoms that cannot reach the k-th largest lower end, or the bar; return how many."""
    cdef Py_ssize_t t, n_beaten
    cdef double bar = alive.bar
    if alive.n > alive.k:
        bm_kernels().lower_ends(alive.estimates, alive.radius, alive.n, alive.absolute, alive.lower)
        bar = max(bar, kth_largest(alive.lower, alive.n, alive.k, alive.heap))
    # A comparison with NaN is False: what cannot be compared stays.
    n_beaten = bm_kernels().mark_beaten(
        alive.estimates, alive.radius, alive.n, alive.absolute, alive.reach, bar, alive.beaten
    )
    if alive.n - n_beaten < alive.k:
        # Intervals that miss can end below exact scores that are known, even those of the atoms themselves.
        for t in range(alive.n):
            if alive.beaten[t] and alive.n_known and not isnan(alive.known_score(alive.rows[t])):
                alive.beaten[t] = 0
                n_beaten -= 1
    return n_beaten


def drop_certain(Survivors alive):
    """Leave out the atoms whose intervals end below those of k others."""
    if drop_by_intervals(alive):
        alive.compact()


cdef class Rule:
    """A bound on each atom's own score: an atom is beaten when k lower ends lie above its upper end.

    Parameters
    ----------
    delta : float
    n_atoms : int
        Atoms that delta is split over: all candidates, wherever they are.

    Attributes
    ----------
    speaks_for_atoms : bool
        Whether delta is spent on each atom's interval, so that intervals may be relied on.
    """

    def __init__(self, double delta, Py_ssize_t n_atoms):
        self.delta, self.n_atoms, self.speaks_for_atoms = delta, max(n_atoms, 1), True

    cdef double atom_share(self, int number) noexcept nogil:
        """One atom's share of delta in a round, for both ends of its interval together."""
        return self.delta * round_share(number) / self.n_atoms

    cpdef int fill_radius(self, Source source, int number) except -1:
        """Fill in the radius of each survivor's interval, valid for all atoms and rounds together."""
        raise NotImplementedError

    cdef Py_ssize_t judge(self, Source source, int number) except -1:
        """Fill in the radii that this takes, mark who is beaten, and return how many that are."""
        self.fill_radius(source, number)
        return drop_by_intervals(source.alive)

    cdef int complete_radius(self, Source source, int number) except -1:
        """Fill in the radii that `judge` has not needed."""
        return 0

    def judge_round(self, Source source, int number):
        """Fill in radii, mark who is beaten, and return how many that are."""
        cdef Py_ssize_t n_beaten = self.judge(source, number)
        self.complete_radius(source, number)
        return n_beaten

    cdef bint settles(self, Source source, int number, double epsilon) except -1:
        """Whether everybody but the k leaders is beaten, even if epsilon is added to each of them; after `judge`."""
        cdef Survivors alive = source.alive
        cdef const int64_t[::1] leaders = alive.leaders(alive.k)
        cdef Py_ssize_t t, n_open = 0
        cdef double lower, least = INFINITY
        for t in range(leaders.shape[0]):
            lower = ranked(alive, leaders[t]) - alive.radius[leaders[t]] + epsilon
            if isnan(lower):
                return False
            least = min(least, lower)
        # Only the leaders may reach it. As for those that are dropped, only the upper ends of the k best have to hold.
        for t in range(alive.n):
            n_open += not ranked(alive, t) + alive.reach * alive.radius[t] < least
        for t in range(leaders.shape[0]):
            n_open -= not ranked(alive, leaders[t]) + alive.reach * alive.radius[leaders[t]] < least
        return n_open == 0


def deviations_of_ends(double share, Py_ssize_t n_atoms, Py_ssize_t k, bint absolute):
    """How many sub-Gaussian deviations the lower ends of all atoms lie below their estimates, and the upper ends above.

    A true answer is lost only if the upper end of one of the k best atoms is too low, or if the lower end of any of the n is
    too high. Which atoms are the best is no matter of chance: half of the share goes to the upper ends of those k, half to the
    lower ends of all. (Where scores are ranked by size, either end may fail in two ways.)
    """
    return _deviations(share, n_atoms, absolute), _deviations(share, min(k, n_atoms), absolute)


cdef double _deviations(double share, Py_ssize_t n_ends, bint absolute) noexcept nogil:
    """How many deviations one end of each of so many intervals is away, if half of the share goes to them."""
    return sqrt(2.0 * log((4.0 if absolute else 2.0) * n_ends / share)) if share > 0.0 else INFINITY


cdef class CodeRule(Rule):
    """Intervals of codes: the source knows the deviation of each estimate."""

    cpdef int fill_radius(self, Source source, int number) except -1:
        cdef Survivors alive = source.alive
        cdef double share = self.delta * round_share(number)
        cdef double of_all = _deviations(share, self.n_atoms, alive.absolute)
        cdef double of_best = _deviations(share, min(alive.k, self.n_atoms), alive.absolute)
        return source.fill_radius(of_all, of_best / of_all if share > 0.0 else 1.0)


def _serfling_factor(size, population):
    """What sampling without replacement takes off the variance (rho_n of Bardenet and Maillard 2015)."""
    if 2 * size <= population:
        return 1.0 - (size - 1) / population
    return (1.0 - size / population) * (1.0 + 1.0 / size)


cdef class HoeffdingRule(Rule):
    """Hoeffding's radius for sigma-sub-Gaussian terms; Serfling's where the sample is without replacement.

    Parameters
    ----------
    sigma : float, or None
        Sub-Gaussian parameter of one sampled term times the population (so, in units of the score).
        None takes the largest sample deviation of the first round.
    per_row : bool
        Whether sigma is to be multiplied by each atom's factor (for a range of the entries, for the cosine).
    serfling : bool
        Use the finite-population factor.
    """

    cdef object _sigma
    cdef bint _per_row, _serfling

    def __init__(self, double delta, Py_ssize_t n_atoms, sigma, bint per_row, bint serfling):
        super().__init__(delta, n_atoms)
        self._sigma, self._per_row, self._serfling = sigma, per_row, serfling

    cpdef int fill_radius(self, Source source, int number) except -1:
        """Fill in sigma * sqrt(2 log(2/delta') / N) for each survivor."""
        size, population, radius = source.size, source.population, source.alive.radius_array
        if self._sigma is None and size < 2:
            radius[:] = np.inf
            return 0
        if self._sigma is None:
            # Variances are those of the estimate: times N, and without the finite-population factor, of one term.
            shrink = 1.0 if source.with_replacement else max(1.0 - size / population, 1e-12)
            self._sigma = float(np.sqrt(source.variances()[0].max() * size / shrink))
        factor = _serfling_factor(size, population) if self._serfling else 1.0
        share = self.atom_share(number)
        log_term = np.log(2.0 / share) if share > 0.0 else np.inf
        radius[:] = self._sigma * np.sqrt(2.0 * factor * log_term / size) * (source.factors if self._per_row else 1.0)
        return 0


cdef class BernsteinRule(Rule):
    """Empirical Bernstein radius: the sample's own deviation, plus a term for what the range could still hide.

    Parameters
    ----------
    width : float
        Length of the interval that holds one sampled term times the population, before its factor.
    """

    cdef double _width

    def __init__(self, double delta, Py_ssize_t n_atoms, double width):
        super().__init__(delta, n_atoms)
        self._width = width

    cpdef int fill_radius(self, Source source, int number) except -1:
        """Fill in sd * sqrt(2 rho log(c/delta') / N) + kappa * width * log(c/delta') / N for each survivor."""
        size, population, radius = source.size, source.population, source.alive.radius_array
        # The variance that the theorems mean: of one term, with 1/N.
        shrink = 1.0 if source.with_replacement else max(1.0 - size / population, 1e-300)
        one_term = source.variances()[0] * (size - 1) / shrink
        if source.with_replacement:
            rho, kappa, constant = 1.0, 3.0, 3.0
        else:
            rho, kappa, constant = _serfling_factor(size, population), 7.0 / 3.0 + 3.0 / np.sqrt(2.0), 10.0
        share = self.atom_share(number)
        log_term = np.log(constant / share) if share > 0.0 else np.inf
        deviation = np.sqrt(one_term * 2.0 * rho * log_term / size)
        radius[:] = deviation + kappa * self._width * source.factors * log_term / size
        return 0


cdef class PairedRule(Rule):
    """Student's t on differences at the same cells.

    The error that must not happen is a true top-k atom losing to one that is not. An atom is dropped only if k others
    beat it; if it is a true top-k atom, one of those k is not. So delta is split over the k*(n-k) pairs of a true
    top-k atom and another atom (twice as many where the sign is free), and over rounds, however the leaders
    were chosen.

    A quantile far out in the tail means something only where the sample is large for it and no cell stands for the
    sum: with tail probability p, nobody is dropped on fewer than ``2 log(1/p)`` cells, nor where one cell holds more
    than ``2/log(1/p)`` of a difference's sum of squares, about its estimate or about 0.
    """

    cdef double _pairs
    cdef dict _quantiles
    cdef object _arrays
    cdef Py_ssize_t _n_room
    cdef double* _variances
    cdef double* _shares
    cdef int64_t* _places
    cdef int64_t* _beaters
    cdef uint8_t* _fair

    def __init__(self, double delta, Py_ssize_t n_atoms, Py_ssize_t k, bint absolute):
        super().__init__(delta, n_atoms)
        self.speaks_for_atoms = False
        self._pairs = max(k * (self.n_atoms - k), 1) * (2 if absolute else 1)
        self._quantiles, self._n_room = {}, 0

    cdef int _make_room(self, Py_ssize_t n) except -1:
        cdef double[:, ::1] numbers
        cdef int64_t[:, ::1] places
        cdef uint8_t[::1] marks
        if n > self._n_room:
            self._arrays = np.empty((2, n)), np.empty((2, n), dtype=np.int64), np.empty(n, dtype=np.uint8)
            numbers, places, marks = self._arrays
            self._variances, self._shares = &numbers[0, 0], &numbers[1, 0]
            self._places, self._beaters, self._fair = &places[0, 0], &places[1, 0], &marks[0]
            self._n_room = n
        return 0

    cdef double _quantile(self, double tail, int64_t size) except? -1:
        key = (tail, size)
        if key not in self._quantiles:  # a rule that serves many queries looks them up
            self._quantiles[key] = INFINITY if size < 2 else -student_quantile(size - 1, tail)
        return self._quantiles[key]

    @staticmethod
    cdef bint _are_few(double tail, Source source):
        """Whether a quantile for this tail means nothing on so few cells; of all cells half do, unless some come again."""
        cdef double least = max(2.0 * log(1.0 / tail), 2.0)
        return source.size < (least if source.with_replacement else min(least, source.population / 2.0))

    @staticmethod
    cdef double _largest_share(double tail, int64_t size):
        """The part of a sum of squares that one cell may hold."""
        return max(2.0 / log(1.0 / tail), 2.0 / size)

    cpdef int fill_radius(self, Source source, int number) except -1:
        """Fill in the two-sided Student radius of each survivor's own estimate."""
        cdef Survivors alive = source.alive
        cdef double tail = self.atom_share(number) / 2.0, z, deviation, largest_share
        cdef Py_ssize_t t, n = alive.n, n_mistrusted = 0
        cdef bint mistrusted
        for t in range(n):
            alive.radius[t] = INFINITY
        if tail <= 0.0 or PairedRule._are_few(tail, source):
            return 0
        self._make_room(n)
        source.fill_variances(self._variances, self._shares)
        source.mark_fair(self._fair)
        z = self._quantile(tail, source.size)
        # Of a score, unlike of a difference, nothing cancels that all atoms share: half as much is allowed to one cell.
        largest_share = PairedRule._largest_share(tail, source.size) / 2.0
        for t in range(n):
            deviation = sqrt(self._variances[t])
            # Terms that are all the same, but for rounding, say nothing about those that were not seen.
            mistrusted = deviation <= NO_SPREAD * fabs(alive.estimates[t])
            if mistrusted or not self._fair[t] or self._shares[t] > largest_share:
                n_mistrusted += 1
            else:
                alive.radius[t] = z * deviation
        # Atoms of one kind are alike: where most samples show cells that matter much, the others have missed theirs.
        if 2 * n_mistrusted > n:
            for t in range(n):
                alive.radius[t] = INFINITY
        return 0

    cdef int complete_radius(self, Source source, int number) except -1:
        return self.fill_radius(source, number)

    cdef Py_ssize_t judge(self, Source source, int number) except -1:
        cdef Survivors alive = source.alive
        memset(alive.beaten, 0, alive.n)
        cdef Py_ssize_t t, n_beaten = self._find_beaten(source, number, 0.0)
        for t in range(n_beaten):
            alive.beaten[self._places[t]] = 1
        return n_beaten

    cdef bint settles(self, Source source, int number, double epsilon) except -1:
        return self._find_beaten(source, number, epsilon) == source.alive.n - min(source.alive.k, source.alive.n)

    cdef Py_ssize_t _find_beaten(self, Source source, int number, double slack) except -1:
        """Test each survivor against the k leaders, the weakest first, on the cells that they share.

        How many lose to all of them is returned, and their places are left in `_places`.
        """
        cdef Survivors alive = source.alive
        cdef const int64_t[::1] leaders = alive.leaders(alive.k)
        cdef double tail = self.delta * round_share(number) / self._pairs, z
        cdef Py_ssize_t t, count = 0, n_leaders = leaders.shape[0]
        if tail <= 0.0 or PairedRule._are_few(tail, source):
            return 0
        self._make_room(alive.n)
        source.mark_fair(self._fair)
        z = self._quantile(tail, source.size)
        if not isfinite(z) or not self._choose_beaters(alive, leaders, slack):
            return 0
        for t in range(n_leaders):
            self._fair[leaders[t]] = self._fair[self._beaters[t]] = 0
        for t in range(alive.n):
            if self._fair[t]:
                self._places[count] = t
                count += 1
        for t in range(n_leaders - 1, -1, -1):
            count = self._keep_losers(source, self._beaters[t], count, 1.0, (z, slack, tail))
            if alive.absolute:
                count = self._keep_losers(source, self._beaters[t], count, -1.0, (z, slack, tail))
        return count

    cdef bint _choose_beaters(self, Survivors alive, const int64_t[::1] leaders, double slack) noexcept:
        """Choose the k atoms that others must lose to: the best whose sample can be trusted, if there are k."""
        cdef Py_ssize_t t, n_leaders = leaders.shape[0]
        cdef bint are_fair = True
        for t in range(n_leaders):
            self._beaters[t] = leaders[t]
            are_fair = are_fair and self._fair[leaders[t]]
        if are_fair:
            return True
        return slack == 0.0 and alive.find_leaders(n_leaders, self._beaters, self._fair) == n_leaders

    cdef Py_ssize_t _keep_losers(
        self, Source source, Py_ssize_t leader, Py_ssize_t count, double sign, (double, double, double) limits
    ) except -1:
        """Of the first `_places`, keep those of which `sign` times the score is below the leader's (its size, where the sign
        is free); returns how many. `limits` are the quantile, the slack and the tail."""
        cdef Survivors alive = source.alive
        cdef double z = limits[0], slack = limits[1], largest_share = PairedRule._largest_share(limits[2], source.size)
        cdef double leading = alive.estimates[leader], difference, deviation, larger
        cdef bint turned = alive.absolute and leading < 0.0
        cdef Py_ssize_t t, kept = 0
        if count == 0:
            return 0
        leading = -leading if turned else leading
        source.compare(leader, -sign if turned else sign, self._places, count, self._variances, self._shares)
        for t in range(count):
            difference = leading - sign * alive.estimates[self._places[t]] + slack
            deviation = sqrt(self._variances[t])
            larger = max(fabs(alive.estimates[self._places[t]]), fabs(leading))
            # Differences that are all the same, but for rounding, say nothing about how much the others differ.
            if (
                difference > z * deviation
                and difference > LEAST_DIFFERENCE
                and self._shares[t] <= largest_share
                and deviation > NO_SPREAD * larger
            ):
                self._places[kept] = self._places[t]
                kept += 1
        return kept
