"""The picture of a race: intervals closing round by round, atoms dropping out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from banditmips._extras import require
from banditmips._result import Round, Trace

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["plot_race"]

# Okabe and Ito's colours, which people with any kind of colour vision can tell apart; the first are for the winners.
_COLOURS = ("#0072B2", "#56B4E9", "#009E73", "#CC79A7", "#D55E00", "#E69F00", "#7F7F7F", "#000000")
_N_WINNERS = 4
_FADED = 0.3
_PURPOSE = "the picture of a race"


def plot_race(trace: Trace) -> Figure:
    """Draw one query's race.

    Above, the leading atoms' estimated scores with their confidence intervals, round by round: the atoms that won,
    and those that stayed in the race longest beside them. An atom's last round before it drops out is faded and
    crossed out. Below, how many atoms were left after each round.

    Parameters
    ----------
    trace
        From ``result.trace`` of a search with ``trace=True``.

    Returns
    -------
    matplotlib.figure.Figure
        Of 1,200 x 800 pixels, and free of pyplot: show it in a notebook or save it with ``figure.savefig(path)``.

    Examples
    --------
    >>> import numpy as np
    >>> import banditmips as bm
    >>> rng = np.random.default_rng(0)
    >>> atoms = rng.normal(size=(50, 1)) + rng.normal(size=(50, 2_000))
    >>> result = bm.search(atoms, 1 + rng.normal(size=2_000), trace=True)
    >>> figure = plot_race(result.trace)
    >>> [axes.get_ylabel() for axes in figure.axes]
    ['score', 'atoms left']
    """
    figure: Figure = require("matplotlib.figure", extra="plot", purpose=_PURPOSE).Figure(
        figsize=(12, 8), dpi=100, layout="constrained"
    )
    require("matplotlib.backends.backend_agg", extra="plot", purpose=_PURPOSE).FigureCanvasAgg(figure)
    if not trace.rounds:
        figure.suptitle("No race was needed", fontsize=15)
        figure.text(0.5, 0.5, f"No coordinate was sampled:\n{trace.plan}.", ha="center", va="center", fontsize=13)
        return figure
    scores, counts = figure.subplots(2, 1, sharex=True, height_ratios=[3, 1])
    time = _Time.of(trace.rounds)
    runners = _choose_runners(trace.rounds)
    for lane, runner in enumerate(runners):
        _draw_runner(scores, runner, time.lanes(lane, len(runners)), _COLOURS[lane])
    _finish_scores(scores, trace, runners)
    _draw_counts(counts, trace.rounds, time)
    time.label(scores, counts)
    figure.suptitle(f"Race of one query ({trace.plan})", fontsize=15)
    return figure


@dataclass(frozen=True)
class _Time:
    """The horizontal axis: coordinates sampled, or rounds where several races (of bins) follow each other."""

    positions: NDArray[np.float64]
    is_one_race: bool

    @classmethod
    def of(cls, rounds: tuple[Round, ...]) -> _Time:
        sizes = np.array([r.n_coordinates for r in rounds], dtype=np.float64)
        is_one_race = bool((np.diff(sizes) > 0).all())
        return cls(sizes if is_one_race else np.arange(1.0, sizes.size + 1), is_one_race)

    def lanes(self, lane: int, n_lanes: int) -> NDArray[np.float64]:
        """Shift positions a little for each atom, so that the intervals of one round stand side by side."""
        shift = 0.7 * ((lane + 0.5) / n_lanes - 0.5)
        if not self.is_one_race:
            return self.positions + shift
        logs = np.log(self.positions)
        gap = float(np.diff(logs).min()) if logs.size > 1 else 0.5
        return np.exp(logs + shift * gap)

    def label(self, scores: Any, counts: Any) -> None:
        if not self.is_one_race:
            counts.set_xlabel("round (the races of all bins in a row)", fontsize=12)
            return
        counts.set_xscale("log")
        counts.set_xlabel("coordinates sampled", fontsize=12)


@dataclass(frozen=True)
class _Runner:
    """One atom's way through the rounds.

    Attributes
    ----------
    label
        What the legend says.
    seen
        Rounds in which the trace has the atom.
    scores, lower, upper
        What it has of it there.
    won
        Whether it was among the k best at the end.
    last
        Round after which it was out of the race, or None where it stayed.
    """

    label: str
    seen: NDArray[np.int64]
    scores: NDArray[np.float64]
    lower: NDArray[np.float64]
    upper: NDArray[np.float64]
    won: bool
    last: int | None
