"""Counts of 8-letter words in stretches of a genome: where does a read come from.

Source: Debian's bowtie-examples (Artistic-2.0), which holds the genome of Escherichia coli 536 (NCBI NC_008253.1,
4.9 million bases).

Query: a stretch at another place, overlapping two atoms, in which one base in a hundred was misread. Counts are square
roots, as is usual for rare words. 2,000 x 65,536, 524 MB.
"""

from __future__ import annotations

import gzip
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.real.sources import debian_package

__all__ = ["TINY", "build"]

TINY: dict[str, Any] = {"n": 30, "n_letters": 4, "length": 2_000, "n_queries": 6}
_LETTERS = np.frombuffer(b"ACGT", dtype=np.uint8)


def build(
    rng: np.random.Generator, n: int = 2_000, n_letters: int = 8, length: int = 20_000, n_queries: int = 50
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return profiles of stretches at regular distances, and of others at random places."""
    genome = _genome()
    starts = np.linspace(0, len(genome) - length, n).astype(np.int64)
    atoms = np.array([_profile(genome[start : start + length], n_letters) for start in starts])
    queries = []
    for start in rng.integers(len(genome) - length, size=n_queries):
        read = genome[start : start + length].copy()
        misread = rng.random(length) < 0.01
        read[misread] = rng.integers(4, size=misread.sum())
        queries.append(_profile(read, n_letters))
    return atoms, np.array(queries)


def _genome() -> NDArray[np.int64]:
    """Bases as numbers 0 to 3; what is not one of the four letters is left out."""
    file = next(debian_package("bowtie-examples").rglob("NC_008253.fna.gz"))
    lines = gzip.decompress(file.read_bytes()).split(b"\n")[1:]
    letters = np.frombuffer(b"".join(lines), dtype=np.uint8)
    return np.searchsorted(_LETTERS, letters[np.isin(letters, _LETTERS)])


def _profile(bases: NDArray[np.int64], n_letters: int) -> NDArray[np.float32]:
    words = np.zeros(len(bases) - n_letters + 1, dtype=np.int64)
    for place in range(n_letters):
        words = 4 * words + bases[place : len(words) + place]
    return np.sqrt(np.bincount(words, minlength=4**n_letters)).astype(np.float32)
