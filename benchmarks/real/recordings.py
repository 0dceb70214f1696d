"""Windows of recordings: where else does it sound like this.

Source: Debian's sonic-pi-samples (drums, bass, loops, ambient sounds), 165 recordings at 44.1 kHz, mixed down to one
channel. By the package's copyright file, 130 of them come from freesound.org under CC0; the other 35 are not named
there and fall under its general line, MIT (2016 Samuel Aaron).

Query: a window that is not among the atoms, cut from the same recordings at another place. Amplitudes are as recorded,
so that loud windows have an advantage, as they have in matching pursuit. 5,000 x 16,384, 328 MB.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from benchmarks.real.sources import debian_package, require

__all__ = ["TINY", "build", "recordings"]

TINY: dict[str, Any] = {"n": 30, "d": 512, "n_queries": 6}


def recordings() -> list[NDArray[np.float32]]:
    """Return the recordings of the package, one channel each."""
    soundfile = require("soundfile")
    files = sorted(debian_package("sonic-pi-samples").rglob("*.flac"))
    sounds = (soundfile.read(file, dtype="float32", always_2d=True)[0] for file in files)
    return [np.ascontiguousarray(sound.mean(axis=1)) for sound in sounds]


def build(
    rng: np.random.Generator, n: int = 5_000, d: int = 16_384, n_queries: int = 50
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return windows at regular distances, of which the queries are left out."""
    sounds = [sound for sound in recordings() if len(sound) >= d]
    wanted = n + n_queries
    step = max(sum(len(sound) - d for sound in sounds) // (2 * wanted), 1)
    windows = [window for sound in sounds for window in sliding_window_view(sound, d)[::step] if window.any()]
    chosen = rng.permutation(len(windows))[:wanted]
    rows = np.array([windows[i] for i in chosen])
    return rows[:n], rows[n:]
