"""Figure 8: matching pursuit on SimpleSong against the length of the song.

The paper counts the multiplies of five searches, one for each note, after each of which the note's part is subtracted;
so does a row, and the naive count beside it is that of five searches too.
Here this is done with the paper's bound (delta = 1e-4, sigma^2 = 6.25, as its section on SimpleSong says) and with
ours, both over songs in memory. Parts are subtracted by exact coefficients, whose d products for each note are in
`Row.extra` and not in the count, as in the paper.

`banditmips.matching_pursuit` is the third: it estimates the coefficients as well, to within 2 %, and counts all that it
reads; songs need not be in memory.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Set
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from banditmips._search import search
from banditmips.datasets.simple_song import ANSWER, SAMPLE_RATE, note_names, song_atoms, song_signal, song_size
from banditmips.experiments.rows import DRAWN, OURS, PAPER, Row, identity_key
from banditmips.experiments.trials import Task
from banditmips.pursuit import matching_pursuit

__all__ = ["DELTA", "N_STEPS", "SIGMA", "SIZES", "Sizes", "Song", "tasks"]

DELTA, SIGMA = 1e-4, 2.5
N_STEPS = len(ANSWER)
"""Notes to find."""

_BY_SEARCH = "BanditMIPS"
_BY_PURSUIT = "MatchingPursuit"
_VARIANTS = ((_BY_SEARCH, PAPER), (_BY_SEARCH, OURS), (_BY_PURSUIT, OURS))


@dataclass(frozen=True)
class Sizes:
    """How much to run: repetitions of the song's two minutes, notes to choose from (10 in the logs), and trials."""

    repetitions: tuple[int, ...]
    n_notes: int = 10
    n_trials: int = 3


SIZES = {"full": Sizes((1, 2, 3, 4, 5)), "quick": Sizes((1, 2))}


def tasks(sizes: Sizes) -> list[Task]:
    """Return a task for each length and trial."""
    return [
        Song(t, sizes.n_notes, trial, cost=4.0 + 4e-7 * song_size(t))
        for t in sizes.repetitions
        for trial in range(sizes.n_trials)
    ]


@dataclass(frozen=True)
class Song:
    """The pursuit of one song of 2t minutes, in all variants."""

    t: int
    n_notes: int
    trial: int
    cost: float = 1.0
    alone: bool = False
    figure: str = "figure8"
    dataset: str = "SimpleSong"
    origin: str = DRAWN
    algorithm: str = _BY_SEARCH

    def keys(self) -> list[str]:
        """Return the keys of all its rows."""
        return [self._key(*variant) for variant in _VARIANTS]

    def _key(self, algorithm: str, settings: str) -> str:
        return identity_key(**self._identity(algorithm, settings))

    def _identity(self, algorithm: str, settings: str) -> dict[str, Any]:
        return {
            "figure": self.figure,
            "dataset": self.dataset,
            "origin": self.origin,
            "algorithm": algorithm,
            "settings": settings,
            "n": self.n_notes,
            "d": song_size(self.t),
            "k": N_STEPS,
            "delta": DELTA,
            "epsilon": 0.0,
            "parameters": {},
            "trial": self.trial,
        }

    def run(self, done: Set[str]) -> Iterator[Row]:
        """Yield a row for each variant."""
        for variant in _VARIANTS:
            if self._key(*variant) not in done:
                yield self._measure(*variant)

    def _measure(self, algorithm: str, settings: str) -> Row:
        if algorithm == _BY_PURSUIT:
            notes, coefficients, multiplies, seconds = self._pursue()
            projections = 0
        else:
            notes, coefficients, multiplies, seconds = self._search_and_subtract(settings)
            projections = N_STEPS * song_size(self.t)
        names = note_names(self.n_notes)
        found = [names[note] for note in notes]
        return Row(
            **self._identity(algorithm, settings),
            seed=self.trial,
            multiplies=float(multiplies),
            accuracy=sum(a == b for a, b in zip(found, ANSWER, strict=False)) / N_STEPS,
            naive=float(N_STEPS * self.n_notes * song_size(self.t)),
            seconds=seconds,
            extra={
                "song_minutes": 2 * self.t,
                "notes": found,
                "coefficients": [round(value, 6) for value in coefficients],
                "projection_multiplies": projections,
                "searches": N_STEPS,
            },
        )

    def _pursue(self) -> tuple[list[int], list[float], int, float]:
        atoms, song = song_atoms(self.t, self.n_notes), song_signal(self.t)
        start = time.perf_counter()
        found = matching_pursuit(atoms, song, n_nonzero=N_STEPS, delta=DELTA, rescore=False, seed=self.trial)
        seconds = time.perf_counter() - start
        return found.indices.tolist(), found.coefficients.tolist(), found.n_multiplies_total, seconds

    def _search_and_subtract(self, settings: str) -> tuple[list[int], list[float], int, float]:
        """Return the notes in the order found, their coefficients, the searches' multiplies, and their time."""
        options: dict[str, Any] = {"delta": DELTA, "rescore": False, "absolute": True}
        if settings == PAPER:
            options |= {"bound": "hoeffding", "sigma": SIGMA, "sampling": "uniform"}
        atoms = song_atoms(self.t, self.n_notes)
        residual = _whole_song(self.t)
        notes: list[int] = []
        coefficients: list[float] = []
        multiplies, seconds = 0, 0.0
        for step in range(N_STEPS):
            start = time.perf_counter()
            result = search(atoms, residual, seed=N_STEPS * self.trial + step, **options)
            seconds += time.perf_counter() - start
            multiplies += int(result.n_multiplies)
            notes.append(int(result.indices[0]))
            coefficients.append(_subtract(atoms, notes[-1], residual))
        return notes, coefficients, multiplies, seconds


def _whole_song(t: int) -> NDArray[np.float64]:
    """Return the song as an array, from one second of each of its two chords: their notes are of whole hertz."""
    second = np.arange(SAMPLE_RATE)
    chords = song_signal(1)(np.concatenate([second, 60 * SAMPLE_RATE + second])).reshape(2, SAMPLE_RATE)
    return np.tile(np.repeat(chords, 60, axis=0).ravel(), t)


def _subtract(atoms: Any, note: int, residual: NDArray[np.float64]) -> float:
    """Subtract the projection on a note from the residual, in place, and return the coefficient."""
    values = np.empty((1, residual.size))
    atoms.gather(np.array([note]), np.arange(residual.size), values)
    coefficient = float(values[0] @ residual) / float(values[0] @ values[0])
    values *= coefficient
    residual -= values[0]
    return coefficient
