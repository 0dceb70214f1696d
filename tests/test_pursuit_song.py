"""SimpleSong: the notes, their strengths, and a cost that does not know how long the song is."""

import numpy as np
import pytest

import banditmips as bm
from banditmips import datasets
from banditmips.datasets.simple_song import ANSWER, note_names, song_atoms, song_signal, song_size

SEEDS = range(10)
NAMES = note_names()
TRUTH = np.array(list(ANSWER.values()))


def test_songs_have_the_length_of_the_paper():
    assert song_size(1) == 5_292_000
    assert song_atoms(50).shape == (88, 264_600_000)
    assert len(set(NAMES)) == 88
    assert NAMES[:6] == ["C4", "E4", "G4", "C5", "E5", "G5"]


def test_the_song_is_its_two_chords():
    time = np.arange(0, 44_100) / 44_100
    song = song_signal(2)
    tone = {name: np.sin(2 * np.pi * f * time) for name, f in zip(NAMES, (256, 330, 392, 512, 660, 784), strict=False)}
    first = tone["C4"] + 2 * tone["E4"] + 3 * tone["G4"]
    second = 3 * tone["G4"] + 2.5 * tone["C5"] + 1.5 * tone["E5"]
    for minute, chord in enumerate([first, second, first, second]):
        start = minute * 60 * 44_100
        np.testing.assert_allclose(song(np.arange(start, start + 44_100)), chord, atol=1e-9)
    with pytest.raises(ValueError, match="coordinates must lie in"):
        song(np.array([song_size(2)]))


def test_the_notes_come_out_in_order_with_their_strengths_at_a_cost_that_does_not_grow_with_the_song():
    """Without rescoring, in a song of 2 minutes and in one of 100 minutes."""
    counts = {}
    for t in (1, 50):
        atoms, song = song_atoms(t), song_signal(t)
        results = [bm.matching_pursuit(atoms, song, n_nonzero=5, rescore=False, seed=seed) for seed in SEEDS]
        for result in results:
            assert [NAMES[i] for i in result.indices] == ["G4", "C5", "E4", "E5", "C4"]
            np.testing.assert_allclose(result.coefficients, TRUTH, rtol=0.02)
            assert ((result.lower < TRUTH) & (result.upper > TRUTH)).all()
            assert not result.exact.any()
        counts[t] = np.array([result.n_multiplies_total for result in results])
    short, long = counts[1], counts[50]
    assert (long <= 1.2 * short).all()
    # A hundredth of the five full products with the short song, a ten-thousandth of those with the long one.
    assert short.max() < 5 * 88 * song_size(1) / 100
    assert long.max() < 5 * 88 * song_size(50) / 10_000


@pytest.mark.parametrize("method", ["mp", "omp"])
def test_exact_coefficients_are_within_a_thousandth(method):
    song = song_signal(1)(np.arange(song_size(1)))
    seeds = SEEDS if method == "mp" else [0]
    for seed in seeds:
        result = bm.matching_pursuit(song_atoms(1), song, n_nonzero=5, method=method, seed=seed)
        assert [NAMES[i] for i in result.indices] == ["G4", "C5", "E4", "E5", "C4"]
        np.testing.assert_allclose(result.coefficients, TRUTH, rtol=1e-3)
        assert result.exact.all()


def test_the_excerpt_in_arrays_has_the_same_answer():
    data = datasets.load("simple_song", d=20_000, t=3)
    result = bm.matching_pursuit(data.atoms, data.queries[0], n_nonzero=5, method="omp")
    assert [data.params["names"][i] for i in result.indices] == list(ANSWER)
    np.testing.assert_allclose(result.coefficients, TRUTH, rtol=0.1)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"n": 5}, "n must be between 6 and 88"),
        ({"n": 89}, "n must be between"),
        ({"d": 5_292_001}, "d must be at most"),
    ],
)
def test_bad_parameters_of_the_song_are_named(params, message):
    with pytest.raises(ValueError, match=message):
        datasets.load("simple_song", **params)
