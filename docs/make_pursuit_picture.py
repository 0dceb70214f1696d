"""Draw docs/pursuit.png: the melody of docs/pursuit.md, what matching pursuit makes of it, and what is left.

Run as ``python docs/make_pursuit_picture.py [FILE]`` with the ``plot`` extra installed; it takes about twenty seconds.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import banditmips as bm
from banditmips.audio import gabor_notes, plot_spectrograms

RATE = 22_050


def play_melody() -> NDArray[np.float64]:
    """Return six seconds: C4, E4, G4, C5, G4 and a chord, each with an overtone, a phase of its own, and noise."""
    rng = np.random.default_rng(0)
    keys = {0.3: [60], 1.2: [64], 2.1: [67], 3.0: [72], 3.9: [67], 4.8: [60, 64, 67]}
    sound = 0.003 * rng.normal(size=6 * RATE)
    for start, chord in keys.items():
        time = np.arange(sound.size) / RATE - start
        loudness = np.where(time > 0, np.minimum(time / 0.05, 1.0) * np.exp(-np.maximum(time, 0.0) / 0.35), 0.0)
        for key in chord:
            frequency = 440.0 * 2.0 ** ((key - 69) / 12)
            for overtone, strength in ((1, 0.3), (2, 0.1)):
                sound += strength * loudness * np.sin(2 * np.pi * overtone * frequency * time + rng.uniform(0, 6.28))
    return sound


def main() -> None:
    """Decompose the melody and draw it."""
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).with_name("pursuit.png")
    sound = play_melody()
    notes = gabor_notes(sound.size, RATE, hop=0.2)
    result = bm.matching_pursuit(notes.store, sound, n_nonzero=24)
    title = f"A melody of six seconds in {len(result.indices)} of {len(notes.names):,} notes that come and go"
    plot_spectrograms(sound, result.reconstruct(), RATE, title).savefig(path)
    for atom, amplitude in zip(result.indices[:8, 0], result.amplitudes, strict=False):
        print(f"{notes.names[atom // 2]:16} {amplitude:.3f}")
    print(f"{result.n_multiplies_total:,} multiplies, {(result.residual_norms[-1] / result.signal_norm) ** 2:.1%} left")


if __name__ == "__main__":
    main()
