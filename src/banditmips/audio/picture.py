"""The picture of a decomposition: spectrograms of signal, reconstruction and residual."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from banditmips._extras import require

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["plot_spectrograms"]

_WINDOW_SECONDS = 0.046
_MIN_WINDOW = 16
_MAX_FRAMES = 1200
_RANGE_DB = 70.0
_LOWEST = 50.0


def plot_spectrograms(
    signal: NDArray[np.float64], reconstruction: NDArray[np.float64], sample_rate: int, title: str
) -> Figure:
    """Draw the spectrograms of a signal, its reconstruction and what is left; needs the ``plot`` extra.

    All three have the same colours: decibels below the loudest point of the signal. The frequency axis is logarithmic,
    as hearing is.

    Returns
    -------
    matplotlib.figure.Figure
        1,200 x 1,000 pixels, made without pyplot.

    Examples
    --------
    >>> import numpy as np
    >>> from banditmips.audio import plot_spectrograms
    >>> tone = np.sin(2 * np.pi * 440 * np.arange(8_000) / 8_000)
    >>> figure = plot_spectrograms(tone, 0.9 * tone, 8_000, "a tone")
    >>> [axes.get_title(loc="left") for axes in figure.axes[:3]]
    ['signal', 'reconstruction: 99.0 % of the energy', 'residual']
    """
    purpose = "the picture of spectrograms"
    make = require("matplotlib.figure", extra="plot", purpose=purpose).Figure
    figure: Figure = make(figsize=(12, 10), dpi=100, layout="constrained")
    require("matplotlib.backends.backend_agg", extra="plot", purpose=purpose).FigureCanvasAgg(figure)
    residual = signal - reconstruction
    energy = float(signal @ signal)
    explained = 1.0 - float(residual @ residual) / energy if energy > 0.0 else 0.0
    panels = {
        "signal": signal,
        f"reconstruction: {100 * explained:.1f} % of the energy": reconstruction,
        "residual": residual,
    }
    all_axes = figure.subplots(3, 1, sharex=True, sharey=True)
    top: float | None = None
    for axes, (name, samples) in zip(all_axes, panels.items(), strict=True):
        frequencies, times, power = _spectrogram(samples, sample_rate)
        level = 10.0 * np.log10(np.maximum(power, 1e-30))
        top = float(level.max()) if top is None else top
        image = axes.pcolormesh(
            times, frequencies, level - top, vmin=-_RANGE_DB, vmax=0.0, cmap="magma", rasterized=True, shading="auto"
        )
        axes.set_title(name, loc="left", fontsize=12)
        axes.set_yscale("log")
        axes.set_ylim(min(_LOWEST, sample_rate / 8.0), sample_rate / 2.0)
        axes.set_ylabel("frequency (Hz)", fontsize=11)
        axes.yaxis.set_major_formatter("{x:,.0f}")
    all_axes[-1].set_xlabel("time (s)", fontsize=11)
    figure.colorbar(image, ax=all_axes, label="decibels below the loudest point of the signal")
    figure.suptitle(title, fontsize=14)
    return figure


def _spectrogram(
    samples: NDArray[np.float64], sample_rate: int
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return frequencies, times, and the power at each of them, with no more frames than the picture has room for."""
    samples = np.append(samples, np.zeros(max(_MIN_WINDOW - samples.size, 0)))
    size = min(max(int(_WINDOW_SECONDS * sample_rate), _MIN_WINDOW), samples.size)
    hop = max(size // 4, -(-samples.size // _MAX_FRAMES))
    starts = np.arange(0, max(samples.size - size, 0) + 1, hop)
    window = np.hanning(size + 2)[1:-1]
    frames = np.stack([samples[start : start + size] for start in starts])
    power = np.abs(np.fft.rfft(frames * window, axis=1)) ** 2
    # The lowest bin is 0 Hz, which a logarithmic axis cannot show.
    frequencies = np.fft.rfftfreq(size, 1.0 / sample_rate)
    times = (starts + size / 2.0) / sample_rate
    return np.asarray(frequencies[1:], dtype=np.float64), times, np.asarray(power[:, 1:].T, dtype=np.float64)
