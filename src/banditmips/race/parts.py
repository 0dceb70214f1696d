"""A race whose atoms live in several places: the rounds of one place, between two exchanges with the others.

Every place samples the same coordinates, so an atom of one place can be compared with a leader of another pair by pair,
once the leader's values have been sent over: the leader takes part as a *guest*.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from banditmips.race.bounds import Bound
from banditmips.race.elimination import Contest, Field, Reader, all_others, find_leaders, play_round
from banditmips.race.planner import Schedule
from banditmips.race.sampling import Sampler

__all__ = ["Standing", "play_rounds"]


@dataclass(frozen=True)
class Standing:
    """Where the race stands for the atoms of one place.

    Attributes
    ----------
    rows, scores, radius
        The survivors of this place, with their estimates and the radii of their intervals.
    seen
        Multiplies that each of them has taken, which an exact finish need not count again.
    n_rounds
        Rounds played here.
    exact
        Whether the scores are exact.
    within_epsilon
        Whether no survivor here can beat one of the leaders that were announced by more than epsilon.
    full
        Whether another round would have to hold more values than is allowed, so that it was not played.
    n_multiplies
        What it took to come here from the standing before.
    """

    rows: NDArray[np.int64]
    scores: NDArray[np.float64]
    radius: NDArray[np.float64]
    seen: NDArray[np.int64]
    n_rounds: int
    exact: bool
    within_epsilon: bool
    full: bool
    n_multiplies: int


def play_rounds(
    contest: Contest,
    reader: Reader,
    sampler: Sampler,
    bound: Bound,
    schedule: Schedule,
    sizes: Sequence[int],
    n_played: int,
    n_guests: int,
    announced: NDArray[np.int64],
) -> Standing:
    """Play the rounds of one place.

    The last round that was played here is judged again first: the guests that have come since may settle it, and it is
    the same comparison of the same pairs on the same coordinates, so it has its share of delta already.

    Parameters
    ----------
    schedule
        Says how many values may be held at a time.
    sizes
        Coordinates that round 1, 2, ... reaches, up to the last one to play.
    n_played
        Rounds that the survivors here have behind them; what was multiplied in them is not counted again.
    n_guests
        How many of the candidates, the last ones, live elsewhere. They are compared with, they count for what they
        take here, and they are not reported.
    announced
        Candidates that every place has been told to lead, for `Contest.epsilon`; empty if there are none yet.
    """
    field = Field(contest)
    own_rows = contest.candidates[: contest.candidates.size - n_guests]
    estimates, radius = np.zeros(field.rows.size), np.full(field.rows.size, np.inf)
    n_rounds, repeated = n_played, 0
    exact = within_epsilon = full = False
    for number in range(max(n_played, 1), len(sizes) + 1):
        size = sizes[number - 1]
        full = schedule.exceeds_buffer(field.rows.size, size)
        if full:
            break
        n_rounds = number
        view = play_round(contest, field, reader, sampler.prefix(size), sampler.population, number)
        if number == n_played:
            repeated = int(field.seen[: own_rows.size].sum())
        exact = size == sampler.population and not sampler.with_replacement
        if exact:
            estimates, radius = view.estimates, np.zeros(view.estimates.size)
            break
        kept = ~bound.beaten(view, find_leaders(view.ranking_scores, contest.k), 0.0)
        if contest.epsilon > 0.0:
            leaders = np.flatnonzero(np.isin(field.rows, announced))
            if leaders.size == contest.k and kept[leaders].all():
                within_epsilon = all_others(bound.beaten(view, leaders, contest.epsilon), leaders)
        estimates, radius = view.estimates[kept], bound.score_radius(view)[kept]
        field.keep(kept)
        if within_epsilon or field.rows.size <= contest.k:
            break
    own = np.isin(field.rows, own_rows)
    return Standing(
        rows=field.rows[own],
        scores=estimates[own],
        radius=radius[own],
        seen=np.zeros_like(field.seen[own]) if sampler.with_replacement else field.seen[own],
        n_rounds=n_rounds,
        exact=exact,
        within_epsilon=within_epsilon,
        full=full,
        n_multiplies=field.n_multiplies - repeated,
    )
