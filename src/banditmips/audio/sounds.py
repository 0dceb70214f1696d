"""Sound files: WAV, FLAC and OGG, as far as libsndfile reads them."""

from __future__ import annotations

import os
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from banditmips._extras import require
from banditmips._result_files import replacing

__all__ = ["Sound", "read_sound", "write_sound"]


@dataclass(frozen=True, eq=False)
class Sound:
    """One channel of sound.

    Attributes
    ----------
    samples : float64, shape (d,)
        Between -1 and 1 in most files.
    sample_rate : int
        Samples in a second.
    n_channels : int
        Channels that the file had; they were averaged.
    """

    samples: NDArray[np.float64]
    sample_rate: int
    n_channels: int = 1

    @property
    def seconds(self) -> float:
        """How long it lasts."""
        return self.samples.size / self.sample_rate


def read_sound(path: str | os.PathLike[str]) -> Sound:
    """Read a WAV, FLAC or OGG file; the channels of a stereo file are averaged. Needs the ``audio`` extra.

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    ValueError
        If it is no sound file, holds no sound, or a sample is not finite.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import numpy as np
    >>> from banditmips.audio import read_sound, write_sound
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "tone.wav")
    ...     write_sound(path, np.sin(np.arange(8_000)), 8_000)
    ...     read_sound(path).seconds
    1.0
    """
    soundfile = require("soundfile", extra="audio", purpose="reading sound files")
    # Opened here, so that a missing file or a folder is reported as Python does, whatever the library says.
    with open(path, "rb") as file:
        try:
            channels, sample_rate = soundfile.read(file, dtype="float64", always_2d=True)
        except soundfile.SoundFileError as error:
            raise ValueError(f"{os.fspath(path)} cannot be read as WAV, FLAC or OGG: {error}") from error
    if channels.shape[0] == 0:
        raise ValueError(f"{os.fspath(path)} holds no sound: it has 0 samples")
    samples = channels.mean(axis=1)
    if not np.isfinite(samples).all():
        bad = int(np.flatnonzero(~np.isfinite(samples))[0])
        raise ValueError(f"{os.fspath(path)} has {samples[bad]} at sample {bad}")
    return Sound(samples, int(sample_rate), int(channels.shape[1]))


def write_sound(path: str | os.PathLike[str], samples: NDArray[np.float64], sample_rate: int) -> None:
    """Write one channel as a WAV file of 32-bit floats, which nothing can clip. Needs the ``audio`` extra."""
    soundfile = require("soundfile", extra="audio", purpose="writing sound files")
    with replacing(path) as file:
        soundfile.write(file, samples, sample_rate, format="WAV", subtype="FLOAT")
