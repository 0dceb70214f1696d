"""Whose child is this? Find the parents of a person among 2,000 people, by 102,000 places of the genome.

The genomes are simulated by msprime: 22 chromosomes; each child has a brother or sister among the 2,000. Run it with:
    pip install ".[plot,real]"  &&  python examples/whose_child.py FOLDER_FOR_THE_PICTURE
The wrong turn: to take the two best for the parents. A brother or sister shares as much of the genome as a parent does.
But parent and child have an allele in common at *every* place: one is never 0 where the other is 2.
"""

import sys
import timeit
from pathlib import Path

import msprime
import numpy as np
from matplotlib.figure import Figure

import banditmips as bm


def simulate(n_people, n_places):
    """Two haplotypes of each person at each place, and the chromosome of each place."""
    how = {"recombination_rate": 1e-8, "population_size": 10_000, "num_replicates": 22, "random_seed": 1}
    trees = msprime.sim_ancestry(n_people, sequence_length=27 * n_places, **how)
    blocks = [msprime.sim_mutations(tree, rate=1e-8, random_seed=1).genotype_matrix() > 0 for tree in trees]
    common = [block[np.abs(block.mean(axis=1) - 0.5) < 0.49][: n_places // 22 + 1] for block in blocks]
    return np.concatenate(common).T.reshape(n_people, 2, -1), np.repeat(np.arange(22), [len(block) for block in common])


def child_of(parents, haplotypes, chromosome, rng):
    """A child has one haplotype of each chromosome from its mother, and one from its father."""
    return np.stack([haplotypes[p, rng.integers(2, size=22)[chromosome], range(chromosome.size)] for p in parents])


def main(folder, n_people=2_000, n_places=102_000):
    rng, (haplotypes, chromosome) = np.random.default_rng(0), simulate(n_people, n_places)
    parents, siblings = np.split(rng.permutation(n_people)[:30].reshape(10, 3), [2], axis=1)
    children = np.array([child_of(pair, haplotypes, chromosome, rng) for pair in parents]).sum(axis=1, dtype=np.int8)
    haplotypes[siblings[:, 0]] = [child_of(pair, haplotypes, chromosome, rng) for pair in parents]
    people = haplotypes.sum(axis=1, dtype=np.int8)
    mean, spread = people.mean(axis=0, dtype=np.float32), people.std(axis=0, dtype=np.float32) + np.float32(1e-3)
    atoms, queries = (people - mean) / spread, (children - mean) / spread
    index = bm.BanditMIPS().fit(atoms)
    best, scores = index.search(queries, k=4)
    opposite = (np.abs(people[best] - children[:, None]) == 2).sum(axis=2)
    found = np.take_along_axis(best, opposite.argsort(axis=1), axis=1)[:, :2]
    searching = timeit.timeit(lambda: [index.search(query, k=4) for query in queries], number=2) / 2 / len(queries)
    multiplying = timeit.timeit(lambda: [atoms @ query for query in queries], number=2) / 2 / len(queries)
    print(f"one search {1e3 * searching:.2f} ms, full product {1e3 * multiplying:.2f} ms")
    print(f"the two best are the parents of {np.all(np.sort(best[:, :2]) == np.sort(parents), axis=1).sum()} of 10")
    axes = (figure := Figure(figsize=(7, 3.2), layout="constrained")).subplots()
    for chosen, marker in (((best[:, :, None] == parents[:, None]).any(axis=2), "^"), (best == siblings, "s")):
        axes.plot(scores[chosen] / len(mean), opposite[chosen], marker)
    axes.set(xlabel="part of the genome shared (score / d)", ylabel="places that exclude a parent")
    axes.legend(["parents", "brothers and sisters"], frameon=False)
    figure.savefig(Path(folder) / "whose-child.png", dpi=110)
    return found, parents, best


if __name__ == "__main__":
    main(*sys.argv[1:] or ".")
