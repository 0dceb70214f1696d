"""The picture of a race shows what the trace says, for every kind of trace."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from matplotlib.collections import LineCollection
from matplotlib.colors import to_hex

import banditmips as bm
from banditmips import Round, Trace
from banditmips.plotting import plot_race


def make_round(n_coordinates, n_survivors, atoms, k=1, scores=None, radius=1.0):
    """Return a round in which these atoms lead, best first."""
    values = 10.0 - np.arange(len(atoms)) if scores is None else np.asarray(scores, dtype=float)
    indices = np.array(atoms, dtype=np.int64)
    return Round(n_coordinates, n_survivors, int(indices[k - 1]), indices, values, values - radius, values + radius)


def labels(figure):
    """Return what the legend says."""
    return [text.get_text() for text in figure.legends[0].get_texts()]


def crosses(figure):
    """Return the positions of the crosses that mark atoms dropping out."""
    lines = [line for line in figure.axes[0].lines if line.get_marker() == "x"]
    return [(line.get_xdata()[0], line.get_ydata()[0]) for line in lines]


def intervals(figure, alpha):
    """Return the intervals drawn with this strength, as (lower, upper)."""
    found = [c for c in figure.axes[0].collections if isinstance(c, LineCollection) and c.get_alpha() == alpha]
    return sorted((low, high) for c in found for (_, low), (_, high) in c.get_segments())


def draw(figure):
    """Render the figure, and return its width and height in pixels."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png")
    head = buffer.getvalue()[16:24]
    return int.from_bytes(head[:4], "big"), int.from_bytes(head[4:], "big")


def no_display():
    """Return the environment without a display."""
    return {
        name: value for name, value in os.environ.items() if name not in ("DISPLAY", "WAYLAND_DISPLAY", "MPLBACKEND")
    }


THREE_ROUNDS = Trace(
    (
        make_round(16, 3, [5, 7, 9, 2], radius=4.0),
        make_round(20, 2, [5, 7, 9], radius=2.0),
        make_round(25, 1, [7, 5], radius=1.0),
    ),
    "coordinates sampled uniformly, bound paired",
)


def test_atoms_are_named_with_their_fate():
    figure = plot_race(THREE_ROUNDS)
    assert labels(figure) == [
        "atom 7: the winner",
        "atom 5: out after 25",
        "atom 9: out after 20",
        "atom 2: out after 16",
    ]
    assert draw(figure) == (1200, 800)


def test_atoms_that_drop_out_are_crossed_out_and_faded():
    figure = plot_race(THREE_ROUNDS)
    assert [y for _, y in crosses(figure)] == [9.0, 8.0, 7.0]
    assert intervals(figure, alpha=0.3) == [(3.0, 11.0), (6.0, 10.0), (8.0, 10.0)]


def test_every_other_interval_is_drawn_in_full():
    figure = plot_race(THREE_ROUNDS)
    expected = [(5.0, 13.0), (6.0, 14.0), (7.0, 11.0), (8.0, 12.0), (9.0, 11.0), (4.0, 12.0)]
    assert intervals(figure, alpha=1.0) == sorted(expected)


def test_axes_are_labelled_and_scaled():
    figure = plot_race(THREE_ROUNDS)
    scores, counts = figure.axes
    assert scores.get_ylabel() == "score"
    assert (counts.get_ylabel(), counts.get_xlabel(), counts.get_xscale()) == (
        "atoms left",
        "coordinates sampled",
        "log",
    )
    assert [tick.get_text() for tick in counts.get_xticklabels()] == ["16", "20", "25"]
    low, high = scores.get_ylim()
    assert low < 3.0
    assert high > 14.0
    assert "coordinates sampled uniformly, bound paired" in figure.get_suptitle()
    assert "intervals still overlap" in scores.get_title()


def test_counts_are_drawn_as_they_are():
    counts = plot_race(THREE_ROUNDS).axes[1]
    assert counts.lines[0].get_xdata().tolist() == [16, 20, 25]
    assert list(counts.lines[0].get_ydata()) == [3, 2, 1]
    assert [text.get_text() for text in counts.texts] == ["3", "1"]


def test_winner_stands_out():
    figure = plot_race(THREE_ROUNDS)
    markers = {line.get_label(): line for line in figure.axes[0].lines if line.get_marker() == "o"}
    winner = markers.pop("atom 7: the winner")
    assert all(winner.get_markersize() > other.get_markersize() for other in markers.values())
    colours = [to_hex(line.get_color()) for line in (winner, *markers.values())]
    assert len(set(colours)) == len(colours)


def test_other_bounds_get_no_note_on_pairs():
    figure = plot_race(replace(THREE_ROUNDS, plan="coordinates sampled uniformly, bound hoeffding"))
    assert figure.axes[0].get_title() == ""


def test_no_rounds_say_so():
    result = bm.search(np.eye(4), np.arange(4.0), delta=0.0, trace=True)
    figure = result.plot()
    assert not figure.axes
    assert "all products, because delta is 0" in figure.texts[-1].get_text()
    assert draw(figure) == (1200, 800)


def test_one_round():
    figure = plot_race(Trace((make_round(10, 8, range(8)),), "coordinates sampled by weight, bound paired"))
    assert labels(figure)[0] == "atom 0: in front at the end"
    assert len(labels(figure)) == 8
    assert crosses(figure) == []
    assert [tick.get_text() for tick in figure.axes[1].get_xticklabels()] == ["10"]
    assert draw(figure) == (1200, 800)


def test_one_atom_alone():
    figure = plot_race(Trace((make_round(10, 1, [3], scores=[0.0], radius=0.0),), "plan"))
    assert labels(figure) == ["atom 3: the winner"]
    low, high = figure.axes[0].get_ylim()
    assert low < 0.0 < high
    draw(figure)


@pytest.mark.parametrize("n_infinite", [1, 3])
def test_infinite_intervals_reach_from_edge_to_edge(n_infinite):
    endless = [replace(r, lower=r.lower - np.inf, upper=r.upper + np.inf) for r in THREE_ROUNDS.rounds[:n_infinite]]
    figure = plot_race(Trace((*endless, *THREE_ROUNDS.rounds[n_infinite:]), "plan"))
    limits = figure.axes[0].get_ylim()
    assert np.isfinite(limits).all()
    drawn = intervals(figure, alpha=1.0) + intervals(figure, alpha=0.3)
    assert sum(interval == limits for interval in drawn) == sum(r.indices.size for r in endless)
    draw(figure)


def test_k_winners_and_their_leader():
    rounds = (make_round(16, 4, [5, 7, 9, 2], k=2), make_round(20, 2, [7, 5, 9], k=2))
    figure = plot_race(Trace(rounds, "plan"))
    assert labels(figure)[:2] == ["atom 7: rank 1", "atom 5: rank 2 (the leader)"]
    # Atom 2 is not in round 2 although nobody had been dropped: the trace does not say why.
    assert labels(figure)[2:] == ["atom 9: out after 20", "atom 2"]


def test_large_k_shows_the_first_and_the_leader():
    figure = plot_race(Trace((make_round(16, 30, range(30), k=20),), "plan"))
    assert labels(figure)[:4] == ["atom 0: rank 1", "atom 1: rank 2", "atom 2: rank 3", "atom 19: rank 20 (the leader)"]
    assert labels(figure)[4:] == ["atom 20", "atom 21", "atom 22", "atom 23"]


def test_more_winners_than_the_trace_holds():
    last = replace(make_round(16, 60, range(32)), leader=50)
    figure = plot_race(Trace((last,), "plan"))
    assert labels(figure) == ["atom 0: rank 1", "atom 1: rank 2", "atom 2: rank 3", "atom 31: rank 32"]


def test_an_atom_that_comes_and_goes_has_a_broken_line():
    rounds = tuple(make_round(16 + i, 50, [0, 1 if i != 2 else 2]) for i in range(5))
    figure = plot_race(Trace(rounds, "plan"))
    lengths = [len(line.get_xdata()) for line in figure.axes[0].lines if line.get_linestyle() == "-"]
    assert sorted(lengths) == [1, 2, 2, 5]


def test_races_of_bins_follow_each_other():
    rounds = (*THREE_ROUNDS.rounds, make_round(16, 2, [7, 11, 12]), make_round(20, 1, [7, 11]))
    figure = plot_race(Trace(rounds, "plan"))
    scores, counts = figure.axes
    assert counts.get_xscale() == "linear"
    assert counts.get_xlabel().startswith("round")
    assert counts.lines[0].get_xdata().tolist() == [1, 2, 3, 4, 5]
    for axes in (scores, counts):
        assert [line.get_xdata()[0] for line in axes.lines if line.get_linestyle() == ":"] == [3.5]
    assert "atom 11: out in round 5" in labels(figure)
    draw(figure)


@pytest.mark.parametrize("options", [{}, {"k": 3}, {"epsilon": 50.0}, {"budget": 1500, "rescore": False}])
@pytest.mark.parametrize("bucket_size", [None, 30])
def test_real_races_can_be_drawn(options, bucket_size):
    rng = np.random.default_rng(0)
    atoms = rng.normal(size=(100, 1)) + rng.normal(size=(100, 2_000))
    index = bm.BanditMIPS(trace=True, minimise="multiplies", bucket_size=bucket_size).fit(atoms)
    result = index.search(2 + rng.normal(size=(2, 2_000)), **options)
    assert (result.n_rounds > 0).all()
    figure = result.plot(query=1)
    assert any(str(result.indices[1, 0]) in label for label in labels(figure))
    assert len(labels(figure)) <= 8
    assert draw(figure) == (1200, 800)


def test_pyplot_and_displays_are_left_alone():
    program = """
import sys
import numpy as np, banditmips as bm
rng = np.random.default_rng(0)
result = bm.search(rng.normal(size=(9, 100)), rng.normal(size=100), minimise="multiplies", trace=True)
result.plot().savefig(sys.stdout.buffer, format="png")
sys.exit("matplotlib.pyplot" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, env=no_display(), check=True)
    assert done.stdout.startswith(b"\x89PNG")


def test_missing_matplotlib_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ImportError, match=r"the picture of a race needs matplotlib.*'banditmips\[plot\]'"):
        plot_race(THREE_ROUNDS)
