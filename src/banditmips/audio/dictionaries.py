"""Dictionaries for sound: the notes of a piano, notes that come and go, and recordings.

All are functions, so that none of them takes memory for each atom; sines come with their cosines, because nobody knows
the phase of a tone in advance.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from banditmips.atoms import FunctionStore, gabor_atoms, sinusoids
from banditmips.audio.sounds import read_sound

__all__ = ["SoundDictionary", "gabor_notes", "notes", "recordings"]

N_KEYS = 88
_OCTAVE = ("C", "C#", "D", "D#", "E", "F", "F#", "G", "G#", "A", "A#", "B")
_MAX_PLACES = 64
_MAX_ATOMS = 50_000
_ENDINGS = (".wav", ".flac", ".ogg")


@dataclass(frozen=True)
class SoundDictionary:
    """Atoms for `banditmips.matching_pursuit`, with names for people.

    Attributes
    ----------
    store : FunctionStore
    names : list of str
        What each component is: a pair of atoms where ``store.group_size`` is 2, else an atom.
    """

    store: FunctionStore
    names: list[str]


def _piano(sample_rate: float) -> tuple[list[str], NDArray[np.float64]]:
    """Names and frequencies of the piano's keys that can be heard at this sample rate (A4 is 440 Hz)."""
    keys = np.arange(N_KEYS)
    frequencies = 27.5 * 2.0 ** (keys / 12.0)
    audible = int(np.count_nonzero(frequencies < sample_rate / 2.0))
    if audible == 0:
        raise ValueError(f"sample_rate is {sample_rate:g}, too low for the lowest note (27.5 Hz)")
    return [f"{_OCTAVE[(key + 9) % 12]}{(key + 9) // 12}" for key in keys[:audible]], frequencies[:audible]


def notes(n_samples: int, sample_rate: int) -> SoundDictionary:
    """Return the 88 notes of a piano, each a tone that lasts as long as the sound.

    Examples
    --------
    >>> from banditmips.audio import notes
    >>> dictionary = notes(44_100 * 60, 44_100)
    >>> dictionary.store.shape, dictionary.names[48]
    ((176, 2646000), 'A4')
    """
    names, frequencies = _piano(sample_rate)
    return SoundDictionary(sinusoids(frequencies, n_samples, sample_rate=sample_rate, pairs=True), names)


def gabor_notes(n_samples: int, sample_rate: int, hop: float | None = None) -> SoundDictionary:
    """Return the 88 notes of a piano under Gaussian envelopes, at places all over the sound.

    Parameters
    ----------
    hop
        Seconds from one place to the next; the envelopes' standard deviation is half of it. By default 0.1, or as much
        more as makes 64 places at most.

    Examples
    --------
    >>> from banditmips.audio import gabor_notes
    >>> dictionary = gabor_notes(44_100, 44_100, hop=0.25)
    >>> dictionary.store.shape, dictionary.names[-1]
    ((704, 44100), 'C8 at 0.88 s')
    """
    seconds = n_samples / sample_rate
    step = _check_hop(hop, max(0.1, seconds / _MAX_PLACES))
    names, frequencies = _piano(sample_rate)
    centres = _places(seconds, step) + min(step, seconds) / 2.0
    centres = centres[centres < seconds]
    _check_count(centres.size * len(names), "hop")
    store = gabor_atoms(
        np.tile(frequencies, centres.size),
        np.repeat(centres, len(names)),
        step / 2.0,
        n_samples,
        sample_rate=sample_rate,
        pairs=True,
    )
    labels = [f"{name} at {centre:.2f} s" for centre in centres for name in names]
    return SoundDictionary(store, labels)


def recordings(
    folder: str | os.PathLike[str], n_samples: int, sample_rate: int, hop: float | None = None
) -> SoundDictionary:
    """Return the recordings of a folder, each beginning at every `hop` seconds of the sound.

    A recording that begins too late to fit is cut off at the end of the sound. Needs the ``audio`` extra.

    Parameters
    ----------
    folder
        Its WAV, FLAC and OGG files are taken, in the order of their names.
    hop
        Seconds from one beginning to the next. By default 0.25.

    Raises
    ------
    ValueError
        If there are none, or one has another sample rate than the sound.
    """
    step = _check_hop(hop, 0.25)
    paths = sorted(path for path in Path(folder).iterdir() if path.suffix.lower() in _ENDINGS)
    if not paths:
        raise ValueError(f"{os.fspath(folder)} holds no WAV, FLAC or OGG file")
    starts = np.round(_places(n_samples / sample_rate, step) * sample_rate).astype(np.int64)
    starts = starts[starts < n_samples]
    _check_count(starts.size * len(paths), "hop")
    sounds = [read_sound(path) for path in paths]
    for path, sound in zip(paths, sounds, strict=True):
        if sound.sample_rate != sample_rate:
            raise ValueError(
                f"{path} has {sound.sample_rate:,} samples a second, but the sound to decompose has {sample_rate:,}: "
                "resample one of them"
            )
    samples = np.concatenate([sound.samples for sound in sounds])
    lengths = np.array([sound.samples.size for sound in sounds])
    offsets = np.repeat(np.cumsum(lengths) - lengths, starts.size)
    begins = np.tile(starts, len(sounds))
    ends = np.minimum(begins + np.repeat(lengths, starts.size), n_samples)

    def function(atoms: NDArray[np.int64], coordinates: NDArray[np.int64]) -> NDArray[np.float64]:
        return np.asarray(samples[offsets[atoms] + coordinates - begins[atoms]])

    store = FunctionStore(function, begins.size, n_samples, supports=np.stack([begins, ends], axis=1))
    names = [f"{path.stem} at {start / sample_rate:.2f} s" for path in paths for start in starts]
    return SoundDictionary(store, names)


def _places(seconds: float, step: float) -> NDArray[np.float64]:
    return np.arange(max(int(np.ceil(seconds / step - 1e-9)), 1), dtype=np.float64) * step


def _check_hop(hop: float | None, default: float) -> float:
    if hop is None:
        return default
    if not 0.0 < hop < np.inf:
        raise ValueError(f"hop must be a positive number of seconds, got {hop!r}")
    return float(hop)


def _check_count(n_atoms: int, name: str) -> None:
    if n_atoms > _MAX_ATOMS:
        raise ValueError(f"{name} is too small: there would be {n_atoms:,} components, more than {_MAX_ATOMS:,}")
