"""Where does this read come from? Find the genome of a read full of errors, by its words of eight letters.

1,000 genomes are simulated: 250 species of 50,000 to 300,000 random bases, four strains of each, 2 % of them changed. A
read is 20,000 bases of one strain, a tenth of them misread. Atoms are counts of the 65,536 words. Run it with:
    pip install ".[plot]"  &&  python examples/where_from.py FOLDER_FOR_THE_PICTURE
The wrong turn: raw counts. A long genome has more of every word and wins every read. Take off what each profile has on
average and divide by the length of what is left: the correlation.
"""

import sys
import timeit
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

import banditmips as bm

WORD, STRAINS = 8, 4


def changed(bases, rate, rng):
    """Replace a part of the bases by random ones."""
    return np.where(rng.random(bases.size) < rate, rng.integers(4, size=bases.size), bases)


def profile(bases):
    """Count all words of eight letters."""
    return np.bincount(np.convolve(bases, 4 ** np.arange(WORD), "valid"), minlength=4**WORD).astype(np.float32)


def main(folder, n_species=250, n_reads=20):
    rng, strains = np.random.default_rng(0), []
    for share in rng.uniform(0.2, 0.3, size=n_species):
        species = rng.choice(4, size=rng.integers(50_000, 300_000), p=[0.5 - share, share, share, 0.5 - share])
        strains += [changed(species, 0.02, rng).astype(np.int8) for _ in range(STRAINS)]
    counts = np.array([profile(strain) for strain in strains])
    origins = rng.choice(len(strains), n_reads, replace=False)
    queries = np.array([profile(changed(strains[origin][20_000:40_000], 0.1, rng)) for origin in origins])
    atoms = counts - counts.mean(axis=1, keepdims=True)
    atoms /= np.linalg.norm(atoms, axis=1, keepdims=True)
    index = bm.BanditMIPS().fit(atoms)
    found, wrong_turn = index.search(queries, k=STRAINS).indices, np.argmax(queries @ counts.T, axis=1)
    searching = timeit.timeit(lambda: [index.search(query, k=4) for query in queries], number=2) / 2 / len(queries)
    multiplying = timeit.timeit(lambda: [atoms @ query for query in queries], number=2) / 2 / len(queries)
    print(f"one search {1e3 * searching:.2f} ms, full product {1e3 * multiplying:.2f} ms")
    print(f"{np.mean(found[:, 0] == origins):.0%} of them right; with raw counts {np.mean(wrong_turn == origins):.0%}")
    lengths, figure = counts.sum(axis=1) / 1e3, Figure(figsize=(7.5, 3.2), layout="constrained")
    species, read = found[np.argmin(lengths[origins])], queries[np.argmin(lengths[origins])]
    for axes, title, values in zip(figure.subplots(1, 2), ("raw counts", "correlation"), (counts, atoms), strict=True):
        axes.plot(lengths, scores := values @ read, ".", color="0.7", label="genomes")
        axes.plot(lengths[species], scores[species], "o", mfc="none", color="#D55E00", label="the read's species")
        axes.set(title=title, xlabel="length of the genome, thousands of bases", ylabel="score", yticks=[])
    axes.legend(frameon=False, loc="upper right")
    figure.savefig(Path(folder) / "where-from.png", dpi=110)
    return found, origins, wrong_turn


if __name__ == "__main__":
    main(*sys.argv[1:] or ".")
