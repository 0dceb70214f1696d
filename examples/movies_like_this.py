"""Movies like this: who liked this one, and what else did they like?

A movie is an atom: what each of 20,000 people thinks of it, 0 where they have not seen it. Ratings are simulated (30
kinds of taste; few movies are seen by many), unless you give the folder of MovieLens 100K. Run it with:
    pip install ".[plot]"  &&  python examples/movies_like_this.py FOLDER_FOR_THE_PICTURE [FOLDER_OF_ML_100K]
The wrong turn: stars as they are. Whatever you ask about, the answer is what everybody has seen. Take off each person's
average and divide by the length, so that only agreement counts.
"""

import sys
import timeit
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

import banditmips as bm


def simulate(n_movies, n_people):
    """Stars by movie and person, 0 where there are none, and titles that name the kind of movie."""
    kinds, tastes = (rng := np.random.default_rng(0)).integers(30, size=n_movies), rng.normal(size=(30, n_people))
    is_seen = rng.random((n_movies, n_people), np.float32) < (0.5 / np.arange(1, n_movies + 1) ** 0.4)[:, None]
    opinion = tastes[kinds].astype(np.float32) + 0.7 * rng.standard_normal((n_movies, n_people), np.float32)
    return np.where(is_seen, np.clip(np.round(3.5 + opinion), 1, 5), 0), [f"one of kind {kind}" for kind in kinds]


def read(folder):
    """The same from MovieLens 100K."""
    people, movies, stars = np.loadtxt(Path(folder) / "u.data", dtype=int, usecols=(0, 1, 2)).T
    ratings = np.zeros((movies.max(), people.max()))
    ratings[movies - 1, people - 1] = stars
    return ratings, [line.split("|")[1] for line in (Path(folder) / "u.item").read_text("latin-1").splitlines()]


def main(folder, ml_100k=None, n_movies=4_000, n_people=20_000):
    stars, titles = read(ml_100k) if ml_100k else simulate(n_movies, n_people)
    average = stars.sum(axis=0) / np.maximum(np.count_nonzero(stars, axis=0), 1)
    atoms = np.where(stars > 0, stars - average, 0).astype(np.float32)
    atoms /= np.linalg.norm(atoms, axis=1, keepdims=True) + 1  # the 1 keeps movies that three people saw from winning
    asked, index = np.argsort(-np.count_nonzero(stars, axis=1), kind="stable")[:40], bm.BanditMIPS().fit(atoms)
    queries = atoms[asked]
    like, wrong_turn = index.search(queries, k=6).indices, np.argsort(-(stars[asked] @ stars.T), axis=1)[:, :6]
    searching = timeit.timeit(lambda: [index.search(query, k=6) for query in queries], number=2) / 2 / len(queries)
    multiplying = timeit.timeit(lambda: [atoms @ query for query in queries], number=2) / 2 / len(queries)
    print(f"one search {1e3 * searching:.2f} ms, full product {1e3 * multiplying:.2f} ms")
    figure = Figure(figsize=(8, 2.8), layout="constrained")
    ways = (like, atoms, "agreement"), (wrong_turn, stars, "stars as they are")
    for axes, (found, values, title) in zip(figure.subplots(1, 2), ways, strict=True):
        axes.barh(range(6), values[found[10]] @ values[asked[10]], color="#E8C4A8")
        axes.set(title=title, xlabel="score", xticks=[], yticks=[], ylim=(5.5, -0.5))
        for place, movie in enumerate(found[10]):
            axes.text(0, place, f" {titles[movie]}", va="center")
    figure.suptitle(f"Like “{titles[asked[10]]}”")
    figure.savefig(Path(folder) / "movies-like-this.png", dpi=110)
    return like, wrong_turn, [titles[movie] for movie in asked], titles


if __name__ == "__main__":
    main(*sys.argv[1:] or ".")
