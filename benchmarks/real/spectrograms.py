"""Log-spectrograms of recordings: what sounds alike, wherever the wave begins.

Source: the same recordings as `recordings` (Debian's sonic-pi-samples, CC0 and MIT): stretches of 33,024 samples
(0.75 s), short-time Fourier transforms of 256 samples, logarithms of the magnitudes.

Query: a stretch that is not among the atoms. 5,000 x 16,641 (129 frequencies by 129 moments), 333 MB.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.signal import ShortTimeFFT
from scipy.signal.windows import hann

from benchmarks.real import recordings

__all__ = ["TINY", "build"]

TINY: dict[str, Any] = {"n": 30, "n_moments": 5, "n_queries": 6}
_LENGTH = 256


def build(
    rng: np.random.Generator, n: int = 5_000, n_moments: int = 129, n_queries: int = 50
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return log-spectrograms, all frequencies of a moment after those of the one before."""
    transform = ShortTimeFFT(hann(_LENGTH), hop=_LENGTH, fs=1.0)
    pieces = recordings.build(rng, n, n_moments * _LENGTH, n_queries)
    atoms, queries = (
        np.array([_log_spectrogram(transform, sound, n_moments) for sound in piece], dtype=np.float32)
        for piece in pieces
    )
    return atoms, queries


def _log_spectrogram(transform: ShortTimeFFT, sound: NDArray[np.float32], n_moments: int) -> NDArray[np.float32]:
    magnitudes = np.abs(transform.stft(sound, p0=0, p1=n_moments))
    return np.log1p(100.0 * magnitudes.T).astype(np.float32).ravel()
