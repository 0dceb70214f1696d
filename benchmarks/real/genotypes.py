"""Genotypes of simulated individuals, standardised: who is related to whom.

Source: msprime (PyPI, GPL-3.0-or-later) simulates three chromosomes of three populations that split 2,000 generations
ago; variants below 1 % are left out, the others are drawn at random. Simulated, but by the model that geneticists use:
linkage, frequencies and structure are as in real samples.

Query: every other one is a child of two atoms, with a crossing-over or two in each chromosome; the rest are strangers.
The best atom of a child is a parent. 2,000 x 102,000, 816 MB.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.real.sources import require

__all__ = ["TINY", "build"]

TINY: dict[str, Any] = {"n": 24, "d": 300, "n_queries": 6}
_N_CHROMOSOMES = 3
_BASES_PER_VARIANT = 600
"""Length to simulate for each variant wanted: common ones come every 400 bases or so."""


def build(
    rng: np.random.Generator, n: int = 2_000, d: int = 102_000, n_queries: int = 50
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return standardised genotypes of n individuals, and of children and strangers."""
    n_strangers = n_queries // 2
    n_people = n + n_strangers
    people = rng.permutation(n_people)
    parents = rng.integers(n, size=(n_queries - n_strangers, 2))
    widths = [len(part) for part in np.array_split(np.arange(d), _N_CHROMOSOMES)]
    rows = np.empty((n + n_queries, d), dtype=np.int8)
    first = 0
    for width in widths:
        halves = _chromosome(rng, n_people, width)[people]
        part = rows[:, first : first + width]
        part[:n_people] = halves.sum(axis=1)
        part[n_people:] = [_gamete(rng, halves[mother]) + _gamete(rng, halves[father]) for mother, father in parents]
        first += width
    atoms, queries = rows[:n].astype(np.float32), rows[n:].astype(np.float32)
    mean, spread = atoms.mean(axis=0), np.maximum(atoms.std(axis=0), 1e-3)
    for people_of_one_kind in (atoms, queries):
        people_of_one_kind -= mean
        people_of_one_kind /= spread
    return atoms, queries[rng.permutation(n_queries)]


def _chromosome(rng: np.random.Generator, n_people: int, width: int) -> NDArray[np.int8]:
    """Both copies of one chromosome, shape (people, 2, variants)."""
    msprime = require("msprime")
    demography = msprime.Demography.island_model([10_000.0] * 3, migration_rate=0.0)
    demography.add_population(name="ancestors", initial_size=10_000)
    demography.add_population_split(time=2_000, derived=[0, 1, 2], ancestral="ancestors")
    counts = [len(part) for part in np.array_split(np.arange(n_people), 3)]
    length = max(width, 500) * _BASES_PER_VARIANT
    while True:
        trees = msprime.sim_ancestry(
            samples=dict(enumerate(counts)),
            demography=demography,
            sequence_length=length,
            recombination_rate=1e-8,
            random_seed=int(rng.integers(1, 2**31)),
        )
        trees = msprime.sim_mutations(
            trees, rate=1.25e-8, random_seed=int(rng.integers(1, 2**31)), model=msprime.BinaryMutationModel()
        )
        # The array of a variant is used again for the next one, so that what is kept is copied.
        kept = [v.genotypes.astype(np.int8) for v in trees.variants(copy=False) if 0.01 < v.genotypes.mean() < 0.99]
        if len(kept) >= width:
            chosen = np.sort(rng.choice(len(kept), width, replace=False))
            variants = np.array([kept[i] for i in chosen])
            return np.ascontiguousarray(variants.T).reshape(n_people, 2, width)
        length *= 2


def _gamete(rng: np.random.Generator, halves: NDArray[np.int8]) -> NDArray[np.int8]:
    """One copy made of the two, changing over at one or two places."""
    width = halves.shape[1]
    places = rng.integers(width, size=rng.integers(1, 3))
    source = (rng.integers(2) + np.searchsorted(np.sort(places), np.arange(width), side="right")) % 2
    return np.asarray(halves[source, np.arange(width)])
