"""What is playing? Find which recordings sound together in a mix, and how loud each of them is.

2,000 recordings of one second (16,384 samples) are simulated: six plucked strings each, of 24 notes at four moments, so
that many have some in common. Four are mixed at different volumes, with noise. Run it with:
    pip install ".[plot,real]"  &&  python examples/what_is_playing.py FOLDER_FOR_PICTURE_AND_SOUND
The wrong turn: to take the four best of one search. What is loud is found, and then what resembles it; what is quiet
never comes up. Matching pursuit searches again in what is left when the loudest has been taken out.
"""

import sys
import timeit
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

import banditmips as bm
from banditmips.audio import write_sound

RATE = 16_384
VOLUMES = np.array([1.0, 0.6, 0.35, 0.2])


def pluck(frequency, when):
    """A string that is plucked after so many seconds: six overtones that fade."""
    t = np.maximum(np.arange(RATE) / RATE - when, 0)
    return sum(np.sin(2 * np.pi * m * frequency * t) / m * np.exp(-3 * m * t) for m in range(1, 7))


def main(folder, n_recordings=2_000):
    rng = np.random.default_rng(0)
    strings = np.array([pluck(110 * 2 ** (note / 12), when) for note in range(24) for when in (0, 0.2, 0.4, 0.6)])
    played = rng.permuted(np.tile(np.arange(len(strings)) < 6, (n_recordings, 1)), axis=1)
    recordings = (played @ strings).astype(np.float32)
    recordings /= np.linalg.norm(recordings, axis=1, keepdims=True)  # else the loudest recording is in every mix
    playing = rng.choice(n_recordings, size=VOLUMES.size, replace=False)
    mix = VOLUMES @ recordings[playing] + 0.3 * rng.normal(size=RATE) / np.sqrt(RATE)
    pursuit = bm.MatchingPursuit(n_nonzero_coefs=VOLUMES.size, method="omp").fit(recordings)
    found, wrong_turn = pursuit.decompose(mix), bm.search(recordings, mix, k=VOLUMES.size).indices
    pursuing = timeit.timeit(lambda: pursuit.decompose(mix), number=5) / 5
    multiplying = timeit.timeit(lambda: [recordings @ mix.astype(np.float32) for _ in VOLUMES], number=5) / 5
    print(f"one pursuit {1e3 * pursuing:.1f} ms, the full products of its four steps {1e3 * multiplying:.1f} ms")
    print(f"playing {playing}, found {found.indices}; the four best of one search: {wrong_turn}")
    axes = (figure := Figure(figsize=(7, 3.2), layout="constrained")).subplots()
    axes.bar(np.arange(4) - 0.2, VOLUMES, width=0.4, color="0.75", label="in the mix")
    axes.bar(np.arange(4) + 0.2, found.coefficients, width=0.4, color="#D55E00", label="found by pursuit")
    axes.plot(np.arange(4), np.where(np.isin(playing, wrong_turn), 1.1, np.nan), "kv", label="among the four best")
    axes.set(
        ylabel="volume", xticks=range(4), xticklabels=[f"recording {number}" for number in playing], ylim=(0, 1.25)
    )
    axes.legend(frameon=False)
    figure.savefig(Path(folder) / "what-is-playing.png", dpi=110)
    for name, samples in (("mix", mix), ("found", found.coefficients @ recordings[found.indices])):
        write_sound(Path(folder) / f"{name}.wav", samples / np.abs(samples).max(), RATE)
    return found, playing, wrong_turn


if __name__ == "__main__":
    main(*sys.argv[1:] or ".")
