"""SimpleSong: a song of two chords, minute by minute, and the notes of a piano to find in it.

An A minute holds the chord C4 + 2 E4 + 3 G4, a B minute 3 G4 + 2.5 C5 + 1.5 E5, at 44,100 samples each second; the song
is (A B) t times, d = 2t * 60 * 44,100 samples. Over the whole song the notes' coefficients are therefore, in falling
order, G4 3, C5 1.25, E4 1, E5 0.75 and C4 0.5.

`song_atoms` and `song_signal` are functions of the coordinate, for songs of any length; the dataset ``simple_song`` is
an excerpt of them in arrays.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from banditmips.datasets._dataset import Dataset
from banditmips.datasets._random import Role, check_counts, check_dtype, draw_coordinates, stream

if TYPE_CHECKING:
    from banditmips.atoms import FunctionStore

__all__ = ["ANSWER", "N_NOTES", "SAMPLE_RATE", "note_names", "simple_song", "song_atoms", "song_signal", "song_size"]

SAMPLE_RATE = 44_100
N_NOTES = 88
ANSWER = {"G4": 3.0, "C5": 1.25, "E4": 1.0, "E5": 0.75, "C4": 0.5}
"""The notes of the song in the order in which matching pursuit finds them, with their coefficients."""

_TABLE = {"C4": 256.0, "E4": 330.0, "G4": 392.0, "C5": 512.0, "E5": 660.0, "G5": 784.0}
_CHORDS = ({"C4": 1.0, "E4": 2.0, "G4": 3.0}, {"G4": 3.0, "C5": 2.5, "E5": 1.5})
_MINUTE = 60 * SAMPLE_RATE
_OCTAVE = ("C", "C#", "D", "D#", "E", "F", "F#", "G", "G#", "A", "A#", "B")


def note_names(n: int = N_NOTES) -> list[str]:
    """Return the names of the first n atoms: the six notes of the paper's table, then the other keys of a piano.

    Examples
    --------
    >>> note_names(8)
    ['C4', 'E4', 'G4', 'C5', 'E5', 'G5', 'A0', 'A#0']
    """
    return list(_frequencies(n))


def _frequencies(n: int) -> dict[str, float]:
    """The six notes of the table, then the other 82 keys of a piano in equal temperament (A4 = 440 Hz)."""
    check_counts(n=n)
    if not len(_TABLE) <= n <= N_NOTES:
        raise ValueError(f"n must be between {len(_TABLE)} and {N_NOTES}, the notes of a piano; got {n}")
    keys = {f"{_OCTAVE[(key + 9) % 12]}{(key + 9) // 12}": 27.5 * 2.0 ** (key / 12.0) for key in range(N_NOTES)}
    notes = {**_TABLE, **{name: frequency for name, frequency in keys.items() if name not in _TABLE}}
    return dict(list(notes.items())[:n])


def song_size(t: int) -> int:
    """Return d, the number of samples of a song with t repetitions."""
    check_counts(t=t)
    return 2 * t * _MINUTE


def song_atoms(t: int = 1, n: int = N_NOTES) -> FunctionStore:
    """Return the notes as a dictionary of functions: one sine of 2t minutes for each name in `note_names`.

    Examples
    --------
    >>> song_atoms(t=50).shape
    (88, 264600000)
    """
    from banditmips.atoms import sinusoids

    return sinusoids(list(_frequencies(n).values()), song_size(t), sample_rate=SAMPLE_RATE)


def song_signal(t: int = 1) -> Callable[[NDArray[np.int64]], NDArray[np.float64]]:
    """Return the song of 2t minutes as a function of the coordinate.

    Examples
    --------
    >>> import numpy as np
    >>> song_signal()(np.array([0, 25, 60 * 44_100 + 25])).round(3)
    array([0.   , 5.591, 6.441])
    """
    d = song_size(t)

    def song(coordinates: NDArray[np.int64]) -> NDArray[np.float64]:
        if coordinates.size and not 0 <= coordinates.min() <= coordinates.max() < d:
            raise ValueError(f"coordinates must lie in 0..{d - 1}, the samples of the song")
        return _play(_CHORDS, coordinates)

    return song


def _play(chords: tuple[dict[str, float], ...], coordinates: NDArray[np.int64]) -> NDArray[np.float64]:
    minutes = (coordinates // _MINUTE) % len(chords)
    sound = np.zeros(coordinates.shape)
    for name in dict.fromkeys(note for chord in chords for note in chord):
        strength = np.array([chord.get(name, 0.0) for chord in chords])[minutes]
        playing = np.flatnonzero(strength)
        # Whole hertz and whole seconds: a sample's place within its second is all that matters.
        angle = 2.0 * np.pi / SAMPLE_RATE * _TABLE[name] * (coordinates[playing] % SAMPLE_RATE)
        sound[playing] += strength[playing] * np.sin(angle)
    return sound


def simple_song(
    *,
    n: int = N_NOTES,
    d: int = 10_000,
    t: int = 1,
    n_queries: int = 1,
    seed: int = 0,
    dtype: DTypeLike = "float32",
) -> Dataset:
    """Return an excerpt of SimpleSong in arrays: the notes and the song at d random samples of its 2t minutes.

    For whole songs, whose matrix would not fit in memory, see `song_atoms` and `song_signal`.

    Parameters
    ----------
    n
        Notes, between 6 and 88: ``params["names"]`` has their names.
    d
        How many samples to keep, at most 5,292,000 t.
    t
        Repetitions of the two minutes.
    n_queries
        The first query is the song; further ones are songs with the same weights on other notes of the table, drawn
        for each.
    seed
        Seed of the samples kept and of the further songs.
    dtype
        float32 or float64.

    Examples
    --------
    >>> from banditmips.datasets import load
    >>> ds = load("simple_song", d=2_000)
    >>> scores = ds.atoms @ ds.queries[0]
    >>> ds.params["names"][scores.argmax()]
    'G4'
    """
    check_counts(n=n, d=d, t=t, n_queries=n_queries, seed=seed)
    checked = check_dtype(dtype)
    frequencies = _frequencies(n)
    kept = _draw_samples(d, t, seed)
    cycles = np.array(list(frequencies.values()))[:, np.newaxis] / SAMPLE_RATE * kept
    queries = np.stack([_play(_other_chords(seed, i) if i else _CHORDS, kept) for i in range(n_queries)])
    params: dict[str, Any] = {"n": n, "d": d, "t": t, "n_queries": n_queries, "seed": seed, "dtype": checked.name}
    return Dataset(
        name="simple_song",
        atoms=np.sin(2.0 * np.pi * cycles).astype(checked),
        queries=queries.astype(checked),
        description=f"Notes of a piano and a song of two chords, at {d:,} random samples of its {2 * t} minutes.",
        params={**params, "names": tuple(frequencies)},
    )


def _draw_samples(d: int, t: int, seed: int) -> NDArray[np.int64]:
    size = song_size(t)
    if d > size:
        raise ValueError(f"d must be at most {size}, the number of samples of {2 * t} minutes; got {d}")
    if size <= song_size(1):
        return draw_coordinates(size, d, seed, "samples").astype(np.int64)
    return np.sort(stream(seed, Role.COORDINATES).choice(size, d, replace=False, shuffle=False)).astype(np.int64)


def _other_chords(seed: int, query: int) -> tuple[dict[str, float], ...]:
    names = stream(seed, Role.QUERY_PARAMETERS, query).permutation(list(_TABLE))
    renamed = dict(zip(_TABLE, names.tolist(), strict=True))
    return tuple({renamed[name]: weight for name, weight in chord.items()} for chord in _CHORDS)
