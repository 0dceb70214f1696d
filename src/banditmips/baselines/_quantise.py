"""Codebooks learnt by k-means: for directions by residuals or by products, for norms by residuals."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from banditmips._extras import require

__all__ = ["DirectionQuantiser", "ProductQuantiser", "ResidualQuantiser", "quantise_norms"]

_KMEANS_ITERATIONS = 25
"""As many as FAISS takes for its quantisers; codebooks hardly change after that."""


class DirectionQuantiser(ABC):
    """Codebooks for the rows of a matrix, and the code of every row.

    Attributes
    ----------
    books
        The codebooks, each an array of codewords (rows).
    codes : shape (n, number of codebooks)
        Which codeword of each codebook a row is made of.
    table_multiplies
        Products that the look-up tables of one query cost.
    """

    def __init__(self, rows: NDArray[np.float32], codebooks: int, codewords: int, seed: int) -> None:
        self.books, self.codes = self._learn(rows, codebooks, codewords, seed)
        self.table_multiplies = sum(book.size for book in self.books)

    @abstractmethod
    def _learn(
        self, rows: NDArray[np.float32], codebooks: int, codewords: int, seed: int
    ) -> tuple[list[NDArray[np.float32]], NDArray[np.intp]]:
        """Return the codebooks and the codes."""

    @abstractmethod
    def tables(self, query: NDArray[np.float64]) -> list[NDArray[np.float64]]:
        """Return, for each codebook, the inner products of its codewords with (their share of) the query."""

    @abstractmethod
    def lengths(self) -> NDArray[np.float64]:
        """Return the Euclidean norm of every quantised row."""

    def look_up(self, tables: list[NDArray[np.float64]]) -> NDArray[np.float64]:
        """Return the inner product of the query with every quantised row, given the query's tables."""
        total = np.zeros(self.codes.shape[0])
        for table, codes in zip(tables, self.codes.T, strict=True):
            total += table[codes]
        return total


class ResidualQuantiser(DirectionQuantiser):
    """Every codebook quantises what the ones before it left over; a row is the sum of its codewords."""

    def _learn(
        self, rows: NDArray[np.float32], codebooks: int, codewords: int, seed: int
    ) -> tuple[list[NDArray[np.float32]], NDArray[np.intp]]:
        rest = rows.copy()
        books, codes = [], []
        for number in range(codebooks):
            book, code = _kmeans(rest, codewords, seed + number)
            rest -= book[code]
            books.append(book)
            codes.append(code)
        return books, np.stack(codes, axis=1)

    def tables(self, query: NDArray[np.float64]) -> list[NDArray[np.float64]]:
        return [book @ query for book in self.books]

    def lengths(self) -> NDArray[np.float64]:
        total = np.zeros((self.codes.shape[0], self.books[0].shape[1]))
        for book, codes in zip(self.books, self.codes.T, strict=True):
            total += book[codes]
        lengths: NDArray[np.float64] = np.linalg.norm(total, axis=1)
        return lengths


class ProductQuantiser(DirectionQuantiser):
    """Every codebook quantises its own share of the coordinates; a row is its codewords side by side."""

    def _learn(
        self, rows: NDArray[np.float32], codebooks: int, codewords: int, seed: int
    ) -> tuple[list[NDArray[np.float32]], NDArray[np.intp]]:
        shares = np.array_split(rows, min(codebooks, rows.shape[1]), axis=1)
        learnt = [_kmeans(share, codewords, seed + number) for number, share in enumerate(shares)]
        return [book for book, _ in learnt], np.stack([code for _, code in learnt], axis=1)

    def tables(self, query: NDArray[np.float64]) -> list[NDArray[np.float64]]:
        ends = np.cumsum([book.shape[1] for book in self.books])
        shares = np.split(query, ends[:-1])
        return [book @ share for book, share in zip(self.books, shares, strict=True)]

    def lengths(self) -> NDArray[np.float64]:
        squared_lengths = [np.einsum("ij,ij->i", book, book, dtype=np.float64) for book in self.books]
        return np.sqrt(self.look_up(squared_lengths))


def quantise_norms(norms: NDArray[np.float64], codebooks: int, codewords: int, seed: int) -> NDArray[np.float64]:
    """Return the norms as their codebooks remember them."""
    quantised = np.zeros_like(norms)
    for number in range(codebooks):
        book, code = _kmeans((norms - quantised)[:, np.newaxis], codewords, seed + number)
        quantised += book[code, 0]
    return quantised


def _kmeans(rows: NDArray[Any], codewords: int, seed: int) -> tuple[NDArray[Any], NDArray[np.intp]]:
    """Return at most `codewords` centres of the rows, and the centre nearest to each row."""
    cluster = require("sklearn.cluster", extra="baselines", purpose="learning codebooks")
    threadpoolctl = require("threadpoolctl", extra="baselines", purpose="learning codebooks")
    kmeans = cluster.KMeans(
        n_clusters=min(codewords, rows.shape[0]),
        n_init=1,
        max_iter=_KMEANS_ITERATIONS,
        random_state=seed,
    )
    with warnings.catch_warnings(), threadpoolctl.threadpool_limits(1):
        # Equal rows leave clusters over: codewords that nothing uses. Threads would add up in any order.
        warnings.filterwarnings("ignore", message="Number of distinct clusters")
        kmeans.fit(rows)
    return kmeans.cluster_centers_, kmeans.labels_.astype(np.intp)
