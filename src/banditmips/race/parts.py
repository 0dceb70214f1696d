"""A race whose atoms live in several places: the rounds of one place, between two exchanges with the others.

Every place samples the same coordinates, so an atom of one place can be compared with a leader of another pair by pair,
once the leader's values have been sent over: the leader takes part as a *guest*.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from banditmips.core.rule import Rule
from banditmips.race.sampled import Contest, Reader
from banditmips.race.sampling import Sampler
from banditmips.race.schedule import Schedule

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
    n_multiplies: int

    @classmethod
    def joined(cls, standings: Sequence[Standing]) -> Standing:
        """The standings of neighbours together; `n_rounds` is that of those who have played most."""
        return cls(
            rows=np.concatenate([standing.rows for standing in standings]),
            scores=np.concatenate([standing.scores for standing in standings]),
            radius=np.concatenate([standing.radius for standing in standings]),
            seen=np.concatenate([standing.seen for standing in standings]),
            n_rounds=max(standing.n_rounds for standing in standings),
            exact=all(standing.exact for standing in standings),
            within_epsilon=all(standing.within_epsilon for standing in standings),
            n_multiplies=sum(standing.n_multiplies for standing in standings),
        )


def play_rounds(
    contest: Contest,
    reader: Reader,
    sampler: Sampler,
    rule: Rule,
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
    sizes
        Coordinates that round 1, 2, ... reaches, up to the last one to play.
    n_played
        Rounds that the survivors here have behind them; what was multiplied in them is not counted again.
    n_guests
        How many of the candidates, the last ones, live elsewhere. They are compared with, they count for what they
        take here, and they are not reported.
    announced
        Candidates that every place has been told to lead, for the allowed shortfall; empty if there are none yet.
    """
    source = contest.source(reader, sampler, Schedule())
    alive = source.alive
    own_rows = contest.candidates[: contest.candidates.size - n_guests]
    n_rounds, repeated = n_played, 0
    exact = within_epsilon = False
    for number in range(max(n_played, 1), len(sizes) + 1):
        size = sizes[number - 1]
        n_rounds = number
        source.advance(size)
        if number == n_played:
            repeated = int(source.taken[: own_rows.size].sum())
        exact = size == sampler.population and not sampler.with_replacement
        if exact:
            alive.radius_array[:] = 0.0
            break
        n_beaten = rule.judge_round(source, number)
        if contest.limits.epsilon > 0.0:
            leaders = np.flatnonzero(np.isin(alive.row_array, announced))
            if leaders.size == contest.k and not alive.beaten_array[leaders].any():
                within_epsilon = rule.settles(source, number, leaders, contest.limits.epsilon)
        if n_beaten:
            source.keep()
        if within_epsilon or alive.n <= contest.k:
            break
    own = np.isin(alive.row_array, own_rows)
    seen = source.taken[own]
    return Standing(
        rows=alive.row_array[own],
        scores=alive.estimate_array[own],
        radius=alive.radius_array[own],
        seen=np.zeros_like(seen) if sampler.with_replacement else seen,
        n_rounds=n_rounds,
        exact=exact,
        within_epsilon=within_epsilon,
        n_multiplies=source.n_multiplies - repeated,
    )
