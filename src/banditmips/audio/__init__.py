"""Sound: reading and writing files, dictionaries to decompose it with, and a picture of the outcome.

`banditmips pursue` puts these together. Reading and writing need the ``audio`` extra, the picture the ``plot`` extra.
"""

from banditmips.audio.dictionaries import SoundDictionary, gabor_notes, notes, recordings
from banditmips.audio.picture import plot_spectrograms
from banditmips.audio.sounds import Sound, read_sound, write_sound

__all__ = [
    "Sound",
    "SoundDictionary",
    "gabor_notes",
    "notes",
    "plot_spectrograms",
    "read_sound",
    "recordings",
    "write_sound",
]
