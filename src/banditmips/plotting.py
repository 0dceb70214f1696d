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

# Okabe and Ito's colours, which people with any kind of colour vision can tell apart.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7F7F7F", "#000000")
_MAX_WINNERS = 4
_FADED = 0.3
_LARGE, _MEDIUM, _SMALL = 15, 12, 10.5


def plot_race(trace: Trace) -> Figure:
    """Draw one query's race; needs the ``plot`` extra.

    Above, the estimated scores of some atoms with their confidence intervals, round by round: of the best atoms, and
    of those that stayed in the race longest beside them. Where an atom drops out, its estimate is crossed out and its
    interval faded. Below, how many atoms were left after each round.

    Parameters
    ----------
    trace
        From ``result.trace`` of a search with ``trace=True``.

    Returns
    -------
    matplotlib.figure.Figure
        1,200 x 800 pixels, made without pyplot: show it in a notebook, or save it with ``figure.savefig(path)``.

    Examples
    --------
    >>> import numpy as np
    >>> import banditmips as bm
    >>> rng = np.random.default_rng(0)
    >>> atoms = rng.normal(size=(50, 1)) + rng.normal(size=(50, 2_000))
    >>> result = bm.search(atoms, 1 + rng.normal(size=2_000), minimise="multiplies", trace=True)
    >>> figure = plot_race(result.trace)
    >>> [axes.get_ylabel() for axes in figure.axes]
    ['score', 'atoms left']
    """
    figure = _new_figure()
    # What the plan says of the atoms and of costs is not what was done.
    ways = [line for line in trace.plan.splitlines() if line.startswith("way: ")]
    headline = ways[0].removeprefix("way: ") if ways else trace.plan
    if not trace.rounds:
        figure.suptitle("No race was needed", fontsize=_LARGE)
        figure.text(0.5, 0.5, f"No coordinate was sampled:\n{headline}.", ha="center", va="center", fontsize=_MEDIUM)
        return figure
    scores, counts = figure.subplots(2, 1, sharex=True, height_ratios=[3, 1])
    clock = _Clock.of(trace.rounds)
    runners = _choose_runners(trace.rounds, clock)
    scores.set_ylim(_score_limits(runners))
    for lane, runner in enumerate(runners):
        _draw_runner(scores, runner, clock, clock.lane(lane, len(runners)), _COLOURS[lane])
    scores.set_ylabel("score", fontsize=_MEDIUM)
    _draw_counts(counts, trace.rounds, clock.positions)
    clock.label(counts)
    for axes in (scores, counts):
        axes.grid(alpha=0.3)
        axes.yaxis.set_major_formatter("{x:,.12g}")
    figure.legend(loc="outside right upper", fontsize=_SMALL, title="score and interval of", alignment="left")
    figure.suptitle(f"Race of one query: {headline}", fontsize=_LARGE, x=0.01, horizontalalignment="left")
    if headline.endswith("paired"):
        note = "Atoms are compared on the same coordinates: one may drop out while the intervals still overlap."
        scores.set_title(note, fontsize=_SMALL)
    return figure


def _new_figure() -> Figure:
    purpose = "the picture of a race"
    make = require("matplotlib.figure", extra="plot", purpose=purpose).Figure
    figure: Figure = make(figsize=(12, 8), dpi=100, layout="constrained")
    require("matplotlib.backends.backend_agg", extra="plot", purpose=purpose).FigureCanvasAgg(figure)
    return figure


@dataclass(frozen=True)
class _Clock:
    """The horizontal axis: coordinates sampled, or rounds where several races follow each other (those of bins).

    Attributes
    ----------
    positions
        Where each round stands on the axis.
    starts
        Numbers of the rounds that begin a new race.
    """

    positions: NDArray[np.float64]
    starts: NDArray[np.int64]

    @classmethod
    def of(cls, rounds: tuple[Round, ...]) -> _Clock:
        sizes = np.array([r.n_coordinates for r in rounds], dtype=np.float64)
        starts = np.flatnonzero(np.diff(sizes) <= 0) + 1
        return cls(np.arange(1.0, sizes.size + 1) if starts.size else sizes, starts)

    def lane(self, lane: int, n_lanes: int) -> NDArray[np.float64]:
        """Shift the positions a little for each atom, so that the intervals of one round stand side by side."""
        shift = 0.8 * ((lane + 0.5) / n_lanes - 0.5)
        if self.starts.size:
            return self.positions + shift
        shifted: NDArray[np.float64] = self.positions * self._step**shift
        return shifted

    @property
    def _step(self) -> float:
        """Factor between the two rounds nearest to each other."""
        sizes = self.positions
        return float((sizes[1:] / sizes[:-1]).min()) if sizes.size > 1 else 2.0

    def moment(self, number: int) -> str:
        """Say in words when a round was."""
        return f"in round {number + 1}" if self.starts.size else f"after {self.positions[number]:,.0f}"

    def label(self, axes: Any) -> None:
        """Set the scale, its numbers and its name."""
        if self.starts.size:
            axes.set_xlabel("round (dotted lines: the next bin's race begins)", fontsize=_MEDIUM)
            for drawn_on in axes.figure.axes:
                for start in self.starts:
                    drawn_on.axvline(start + 0.5, color="#7F7F7F", linestyle=":", linewidth=1)
            return
        axes.set_xscale("log")
        if self.positions.size == 1:
            axes.set_xlim(self.positions[0] / self._step, self.positions[0] * self._step)
        axes.set_xlabel("coordinates sampled", fontsize=_MEDIUM)
        # Some of the rounds themselves are the marks; at most about ten, as numbers need room.
        marks = self.positions[:: -(-self.positions.size // 10)]
        axes.set_xticks(marks, [f"{mark:,.0f}" for mark in marks])
        axes.set_xticks([], minor=True)


@dataclass(frozen=True)
class _Runner:
    """One atom's way through the rounds.

    Attributes
    ----------
    label
        What the legend says.
    rounds
        Numbers of the rounds in which the trace has the atom.
    scores, lower, upper
        Its estimate and interval in each of those.
    won, dropped
        Whether it was among the k best at the end; whether it is sure to have left in the last of its rounds.
    """

    label: str
    rounds: NDArray[np.int64]
    scores: NDArray[np.float64]
    lower: NDArray[np.float64]
    upper: NDArray[np.float64]
    won: bool
    dropped: bool


def _choose_runners(rounds: tuple[Round, ...], clock: _Clock) -> list[_Runner]:
    """Choose the best of the winners, the k-th of them, and the atoms that stayed longest beside them."""
    last = rounds[-1]
    k = _count_winners(last)
    ranks = range(k) if k <= _MAX_WINNERS else [*range(_MAX_WINNERS - 1), k - 1]
    runners = []
    for rank in ranks:
        atom = int(last.indices[rank])
        runners.append(_follow(atom, rounds, f"atom {atom}: {_place(rank, k, last)}", won=True))
    winners = set(last.indices[:k].tolist())
    by_stay = dict.fromkeys(atom for r in reversed(rounds) for atom in r.indices.tolist() if atom not in winners)
    for atom in list(by_stay)[: len(_COLOURS) - len(runners)]:
        final = max(number for number, r in enumerate(rounds) if atom in r.indices)
        dropped = _left_in(rounds, final, k)
        label = f"atom {atom}: out {clock.moment(final)}" if dropped else f"atom {atom}"
        runners.append(_follow(atom, rounds, label, dropped=dropped))
    return runners


def _count_winners(last: Round) -> int:
    """Return k, which the leader's place tells; where the trace has fewer atoms than k, all of them are winners."""
    place = np.flatnonzero(last.indices == last.leader)
    return int(place[0]) + 1 if place.size else last.indices.size


def _place(rank: int, k: int, last: Round) -> str:
    if k == 1:
        return "the winner" if last.n_survivors == 1 else "in front at the end"
    return f"rank {rank + 1}" + (" (the leader)" if last.indices[rank] == last.leader else "")


def _left_in(rounds: tuple[Round, ...], number: int, k: int) -> bool:
    """Tell whether an atom that the trace has in this round for the last time was dropped there.

    A trace keeps only the leading atoms of each round, so an atom that is no longer in it may just have fallen behind.
    """
    if number == len(rounds) - 1:
        return rounds[number].n_survivors == k
    return rounds[number + 1].indices.size == rounds[number].n_survivors


def _follow(atom: int, rounds: tuple[Round, ...], label: str, *, won: bool = False, dropped: bool = False) -> _Runner:
    numbers = [number for number, r in enumerate(rounds) if atom in r.indices]
    places = [int(np.flatnonzero(rounds[number].indices == atom)[0]) for number in numbers]

    def column(name: str) -> NDArray[np.float64]:
        return np.array([getattr(rounds[number], name)[place] for number, place in zip(numbers, places, strict=True)])

    return _Runner(label, np.array(numbers), column("scores"), column("lower"), column("upper"), won, dropped)


def _score_limits(runners: list[_Runner]) -> tuple[float, float]:
    """Return limits that hold all finite intervals with a margin."""
    values = np.concatenate([part for runner in runners for part in (runner.scores, runner.lower, runner.upper)])
    values = values[np.isfinite(values)]
    low, high = float(values.min()), float(values.max())
    margin = 0.05 * (high - low) or 0.05 * abs(high) or 1.0
    return low - margin, high + margin


def _draw_runner(axes: Any, runner: _Runner, clock: _Clock, lane: NDArray[np.float64], colour: str) -> None:
    x = lane[runner.rounds]
    # An infinite interval reaches from edge to edge.
    low, high = np.clip((runner.lower, runner.upper), *axes.get_ylim())
    width, size, order = (2.4, 5.5, 3) if runner.won else (1.4, 3.5, 2)
    n_full = x.size - 1 if runner.dropped else x.size
    for part, alpha in ((slice(None, n_full), 1.0), (slice(n_full, None), _FADED)):
        axes.vlines(x[part], low[part], high[part], colors=colour, alpha=alpha, linewidth=width, zorder=order)
    style = {"color": colour, "zorder": order}
    axes.plot(x, runner.scores, "o", markersize=size, label=runner.label, **style)
    is_gap = (np.diff(runner.rounds) > 1) | np.isin(runner.rounds[1:], clock.starts)
    for stretch in np.split(np.arange(x.size), np.flatnonzero(is_gap) + 1):
        axes.plot(x[stretch], runner.scores[stretch], linewidth=0.8, **style)
    if runner.dropped:
        axes.plot(x[-1:], runner.scores[-1:], "x", color=colour, markersize=9, markeredgewidth=2.2, zorder=4)


def _draw_counts(axes: Any, rounds: tuple[Round, ...], positions: NDArray[np.float64]) -> None:
    left = [r.n_survivors for r in rounds]
    axes.plot(positions, left, "o-", color=_COLOURS[0], drawstyle="steps-post", markersize=4)
    if max(left) >= 10 * min(left):
        axes.set_yscale("log")
        axes.tick_params(axis="y", which="minor", labelleft=False)
        axes.margins(y=0.25)
    else:
        axes.set_ylim(0, 1.3 * max(left))
        axes.locator_params(axis="y", nbins=4, integer=True)
    axes.set_ylabel("atoms left", fontsize=_MEDIUM)
    for number in sorted({0, len(rounds) - 1}):
        at = (positions[number], left[number])
        axes.annotate(f"{left[number]:,}", at, xytext=(5, 5), textcoords="offset points", fontsize=_SMALL)
