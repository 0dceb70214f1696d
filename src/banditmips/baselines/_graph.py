"""Numba kernels for a hierarchical proximity graph of inner products: build it, walk it.

Arrays in, arrays out.
"""

# mypy: disallow-untyped-decorators=False
# (Numba's decorators carry no types; the kernels behind them are annotated by hand.)

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

__all__ = ["Graph", "build", "walk"]

_FASTMATH = {"contract", "reassoc", "nsz", "arcp"}


class Graph(NamedTuple):
    """Links between atoms, on layers that thin out upwards.

    Attributes
    ----------
    links
        One row for each (atom, layer) pair: the atoms that it is linked to, as far as `degrees` says.
    degrees
        How many links each of those rows has.
    first_row
        Row of each atom on layer 0; its rows on the layers above follow.
    entry
        Where every walk starts: an atom on the top layer.
    top
        The top layer.
    """

    links: NDArray[np.int64]
    degrees: NDArray[np.int64]
    first_row: NDArray[np.int64]
    entry: int
    top: int


@njit(cache=True, nogil=True, fastmath=_FASTMATH)
def _inner_product(left: NDArray[Any], right: NDArray[Any]) -> float:
    total = 0.0
    for j in range(left.shape[0]):
        total += np.float64(left[j]) * np.float64(right[j])
    return total


@njit(cache=True, nogil=True)
def _insert(ranking: NDArray[np.int64], scores: NDArray[np.float64], size: int, atom: int, score: float) -> int:
    """Insert an atom into the first `size` places of a ranking (best first) and return its place.

    If the ranking is full, the last one drops out; the place is the ranking's length if that is the new one. Of
    two equal scores the smaller index counts as the better.
    """
    place = size
    while place > 0 and (score > scores[place - 1] or (score == scores[place - 1] and atom < ranking[place - 1])):
        place -= 1
    if place < ranking.size:
        for position in range(min(size, ranking.size - 1), place, -1):
            ranking[position] = ranking[position - 1]
            scores[position] = scores[position - 1]
        ranking[place] = atom
        scores[place] = score
    return place


@njit(cache=True, nogil=True)
def _explore(
    atoms: NDArray[Any],
    query: NDArray[np.float64],
    graph: Graph,
    layer: int,
    start: int,
    start_score: float,
    ef: int,
    seen: NDArray[np.bool_],
) -> tuple[NDArray[np.int64], NDArray[np.float64], int]:
    """Return the `ef` best atoms met on a layer, best first, their scores, and how many were evaluated.

    Follows the links of the best atom whose links have not been followed yet, until there is none among the
    `ef` best.
    """
    ef = min(ef, atoms.shape[0])
    found = np.empty(ef, dtype=np.int64)
    scores = np.empty(ef, dtype=np.float64)
    followed = np.zeros(ef, dtype=np.bool_)
    found[0], scores[0] = start, start_score
    seen[:] = False
    seen[start] = True
    size, cursor, n_products = 1, 0, 0
    while cursor < size:
        if followed[cursor]:
            cursor += 1
            continue
        followed[cursor] = True
        row = graph.first_row[found[cursor]] + layer
        for neighbour in graph.links[row, : graph.degrees[row]]:
            if seen[neighbour]:
                continue
            seen[neighbour] = True
            score = _inner_product(atoms[neighbour], query)
            n_products += 1
            place = _insert(found, scores, size, neighbour, score)
            if place == ef:
                continue
            size = min(size + 1, ef)
            for position in range(size - 1, place, -1):
                followed[position] = followed[position - 1]
            followed[place] = False
            cursor = min(cursor, place)
    return found[:size], scores[:size], n_products


@njit(cache=True, nogil=True)
def walk(
    atoms: NDArray[Any], query: NDArray[np.float64], graph: Graph, ef: int
) -> tuple[NDArray[np.int64], NDArray[np.float64], int]:
    """Descend to the bottom layer and explore it; return what `_explore` does, for the whole walk."""
    seen = np.empty(atoms.shape[0], dtype=np.bool_)
    atom = graph.entry
    score = _inner_product(atoms[atom], query)
    n_products = 1
    for layer in range(graph.top, 0, -1):
        found, scores, spent = _explore(atoms, query, graph, layer, atom, score, 1, seen)
        atom, score = found[0], scores[0]
        n_products += spent
    found, scores, spent = _explore(atoms, query, graph, 0, atom, score, ef, seen)
    return found, scores, n_products + spent


@njit(cache=True, nogil=True)
def _select(
    atoms: NDArray[Any],
    candidates: NDArray[np.int64],
    scores: NDArray[np.float64],
    alpha: float,
    most: int,
) -> NDArray[np.int64]:
    """Choose links among candidates (best first) that point in different directions.

    A candidate is passed over if its inner product with a link already chosen exceeds `alpha` times the one
    with the atom that is being linked: whoever follows that link finds it anyway. alpha = 1 is ip-NSW's rule.
    """
    chosen = np.empty(most, dtype=np.int64)
    size = 0
    for candidate, score in zip(candidates, scores):  # noqa: B905 (Numba knows no strict=)
        if size == most:
            break
        apart = True
        for link in chosen[:size]:
            if alpha * score < _inner_product(atoms[candidate], atoms[link]):
                apart = False
                break
        if apart:
            chosen[size] = candidate
            size += 1
    return chosen[:size]


@njit(cache=True, nogil=True)
def _link_back(
    atoms: NDArray[Any], graph: Graph, layer: int, atom: int, newcomer: int, alpha: float, most: int
) -> None:
    """Link an atom to a newcomer; where its row is full, choose its links anew."""
    row = graph.first_row[atom] + layer
    degree = graph.degrees[row]
    if degree < most:
        graph.links[row, degree] = newcomer
        graph.degrees[row] = degree + 1
        return
    candidates = np.empty(degree + 1, dtype=np.int64)
    scores = np.empty(degree + 1, dtype=np.float64)
    for size in range(degree):
        link = graph.links[row, size]
        _insert(candidates, scores, size, link, _inner_product(atoms[link], atoms[atom]))
    _insert(candidates, scores, degree, newcomer, _inner_product(atoms[newcomer], atoms[atom]))
    chosen = _select(atoms, candidates, scores, alpha, most)
    graph.links[row, : chosen.size] = chosen
    graph.degrees[row] = chosen.size


@njit(cache=True, nogil=True)
def build(
    atoms: NDArray[Any],
    layers: NDArray[np.int64],
    alphas: NDArray[np.float64],
    max_links: int,
    ef: int,
) -> Graph:
    """Insert the atoms one by one.

    `layers` holds the top layer of each atom, `alphas` the factor of its edge selection; an atom gets up to
    `max_links` links on each layer, twice as many on layer 0, chosen among the `ef` best atoms met there.
    """
    n = atoms.shape[0]
    first_row = np.cumsum(layers + 1) - (layers + 1)
    n_rows = first_row[-1] + layers[-1] + 1
    links = np.full((n_rows, 2 * max_links), -1, dtype=np.int64)
    graph = Graph(links, np.zeros(n_rows, dtype=np.int64), first_row, 0, layers[0])
    seen = np.empty(n, dtype=np.bool_)
    for newcomer in range(1, n):
        query = atoms[newcomer].astype(np.float64)
        atom = graph.entry
        score = _inner_product(atoms[atom], query)
        for layer in range(graph.top, -1, -1):
            wanted = ef if layer <= layers[newcomer] else 1
            found, scores, _ = _explore(atoms, query, graph, layer, atom, score, wanted, seen)
            atom, score = found[0], scores[0]
            if layer > layers[newcomer]:
                continue
            chosen = _select(atoms, found, scores, alphas[newcomer], max_links)
            row = first_row[newcomer] + layer
            graph.links[row, : chosen.size] = chosen
            graph.degrees[row] = chosen.size
            most = 2 * max_links if layer == 0 else max_links
            for link in chosen:
                _link_back(atoms, graph, layer, link, newcomer, alphas[link], most)
        if layers[newcomer] > graph.top:
            graph = Graph(graph.links, graph.degrees, graph.first_row, newcomer, layers[newcomer])
    return graph
