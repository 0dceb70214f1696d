"""Atoms in a SciPy sparse matrix: by column for sampling, by row for exact scores, never made dense.

Whichever of the two there is, it serves for both; the other one is a copy as large as the matrix, and is made only
where somebody asks for it (`SparseStore.keep_both`).

Products check on the way what they read, and do not mind entries in several parts; a search that takes nothing but
products looks at nothing else. Everybody else gets a matrix that was looked at once (`SparseStore.settle`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from banditmips.core.sparse_products import PlaceError, SparseProducts, can_be_read
from banditmips.core.statistics import NEG_SQUARED_DIFFERENCE, PRODUCT

__all__ = ["SparseStore", "check_sparse"]


def check_sparse(matrix: Any, what: str) -> Any:
    """Return the matrix if every place that it stores lies within its shape; compiled loops believe these places.

    Parameters
    ----------
    matrix
        Of any SciPy format. It is not changed (SciPy's own ``check_format`` may cut its arrays).
    what
        Names the matrix in the error.

    Raises
    ------
    ValueError
        If an index, a pointer or a length is wrong.
    """
    n, d = (1, *matrix.shape)[-2:]
    if matrix.format in ("csr", "csc", "bsr"):
        block = getattr(matrix, "blocksize", (1, 1)) if matrix.format == "bsr" else (1, 1)
        majors, minors = (d, n) if matrix.format == "csc" else (n // block[0], d // block[1])
        if n % block[0] or d % block[1]:
            raise ValueError(f"{what} has blocks of shape {block}, which do not fill its shape {matrix.shape}")
        _check_pointers(matrix, majors, what)
        _check_places(f"{what}.indices", matrix.indices, minors)
    elif matrix.format == "coo":
        lengths = {len(matrix.data), *(len(places) for places in matrix.coords)}
        if len(lengths) != 1:
            raise ValueError(f"{what} has data and coordinates of {len(lengths)} different lengths")
        for axis, (places, size) in enumerate(zip(matrix.coords, matrix.shape, strict=True)):
            _check_places(f"{what}.coords[{axis}]", places, size)
    elif matrix.format == "dia":
        offsets, diagonals = matrix.offsets, matrix.data.shape
        # Those outside the matrix are no harm: SciPy leaves them out.
        if len(diagonals) != 2 or offsets.shape != diagonals[:1] or offsets.dtype.kind != "i":
            raise ValueError(f"{what}.offsets must hold an integer for each diagonal, got {offsets.size} of them")
        if np.unique(offsets).size < offsets.size:
            raise ValueError(f"{what}.offsets must hold each diagonal once")
    elif matrix.format == "lil":
        _check_lists(matrix, n, what)
    return matrix


def _check_lists(matrix: Any, n: int, what: str) -> None:
    if matrix.rows.shape != (n,) or matrix.data.shape != (n,):
        raise ValueError(f"{what} must hold {n} lists of columns and of entries, for shape {matrix.shape}")
    for row, (columns, entries) in enumerate(zip(matrix.rows, matrix.data, strict=True)):
        if len(columns) != len(entries):
            raise ValueError(f"{what} has {len(columns)} columns and {len(entries)} entries in row {row}")


def _check_pointers(matrix: Any, majors: int, what: str) -> None:
    indptr, stored = matrix.indptr, min(len(matrix.indices), len(matrix.data))
    if indptr.ndim != 1 or indptr.dtype.kind != "i" or indptr.size != majors + 1:
        shape = f"{indptr.dtype} of shape {indptr.shape}"
        raise ValueError(f"{what}.indptr must hold {majors + 1} integers for shape {matrix.shape}, got {shape}")
    if indptr[0] != 0 or indptr[-1] > stored:
        raise ValueError(f"{what}.indptr must go from 0 to at most {stored}, got {indptr[0]} to {indptr[-1]}")
    falls = np.flatnonzero(indptr[1:] < indptr[:-1])
    if falls.size:
        at = int(falls[0])
        raise ValueError(f"{what}.indptr must never fall, got {indptr[at]} and {indptr[at + 1]} at {at}")


def _check_places(what: str, places: NDArray[Any], size: int) -> None:
    if places.ndim != 1 or places.dtype.kind != "i":
        raise ValueError(f"{what} must be a list of integers, got {places.dtype} of shape {places.shape}")
    if places.size == 0:
        return
    # Without a sign, a negative number is a very large one: one pass does for both ends. (NumPy's argmax would copy
    # what may not be written to.)
    plain = places.flags.c_contiguous and places.dtype.isnative
    if plain and places.view(f"u{places.dtype.itemsize}").max() < size:
        return
    outside = np.flatnonzero((places < 0) | (places >= size))
    if outside.size:
        at = int(outside[0])
        raise ValueError(f"{what} must lie in 0..{size - 1}, got {places[at]} at position {at}")


def _known_to_scipy(matrix: Any) -> Any:
    """Return a matrix with entries that SciPy's compiled loops know: no half floats, no foreign byte order."""
    if matrix.dtype == np.float16:
        return matrix.astype(np.float32)
    return matrix if matrix.dtype.isnative else matrix.astype(matrix.dtype.newbyteorder("="))


def _each_entry_once(matrix: Any, given: Any) -> Any:
    """Add up entries that are stored in several parts, without changing the caller's matrix."""
    if matrix.has_canonical_format or (can_be_read(matrix) and not SparseProducts(matrix).stores_twice()):
        return matrix
    if matrix is given:
        matrix = matrix.copy()
    matrix.sum_duplicates()
    return matrix


def _without_room(matrix: Any) -> Any:
    """Return a matrix whose arrays end with what it stores; SciPy writes beyond its own where columns are chosen."""
    stored = int(matrix.indptr[-1])
    if len(matrix.data) == len(matrix.indices) == stored:
        return matrix
    return type(matrix)((matrix.data[:stored], matrix.indices[:stored], matrix.indptr), matrix.shape)


def _nbytes(matrix: Any) -> int:
    return sum(int(part.nbytes) for part in (matrix.data, matrix.indices, matrix.indptr))


class SparseStore:
    """Atoms in a sparse matrix or array of any SciPy format.

    Attributes
    ----------
    by_row, by_column : CSR and CSC matrix, or None
        The matrix, in the formats that are kept: checked, and with each entry in one part.
    """

    def __init__(self, matrix: Any) -> None:
        self._given = matrix
        self._by_row: Any = None
        self._by_column: Any = None
        self._products: tuple[SparseProducts | None, SparseProducts | None] | None = None
        self._stored_by_column: NDArray[np.int64] | None = None
        if matrix.format not in ("csr", "csc"):
            self.settle()

    def __getstate__(self) -> dict[str, Any]:
        """Everything but what points into memory."""
        return {**self.__dict__, "_products": None}

    def settle(self) -> None:
        """Check every place that the matrix stores, and see to it that no entry is stored in several parts.

        Raises
        ------
        ValueError
            If a place, a pointer or a length is wrong.
        """
        if self._is_settled:
            return
        given = self._given = _known_to_scipy(check_sparse(self._given, "atoms"))
        if given.format == "csc":
            self._by_column = _without_room(_each_entry_once(given, given))
        else:
            by_row = given.tocsr()
            # What other formats hold (lists, dictionaries) shows when it has become rows.
            by_row = _each_entry_once(by_row if by_row is given else check_sparse(by_row, "atoms"), given)
            self._by_row = _without_room(by_row)
        self._products = self._stored_by_column = None

    @property
    def _is_settled(self) -> bool:
        return self._by_row is not None or self._by_column is not None

    @property
    def by_row(self) -> Any:
        """The rows, if they are kept."""
        self.settle()
        return self._by_row

    @property
    def by_column(self) -> Any:
        """The columns, if they are kept."""
        self.settle()
        return self._by_column

    @property
    def has_columns(self) -> bool:
        """Whether columns are at hand."""
        return self._by_column is not None if self._is_settled else self._given.format == "csc"

    @property
    def products(self) -> tuple[SparseProducts | None, SparseProducts | None]:
        """What multiplies by row and by column, as far as that is stored and can be read as it is."""
        found = self._products
        if found is None:
            kept = (self._by_row, self._by_column) if self._is_settled else (self._given,)
            readable = [SparseProducts(matrix) for matrix in kept if matrix is not None and can_be_read(matrix)]
            by_row = next((products for products in readable if products.by_row), None)
            by_column = next((products for products in readable if not products.by_row), None)
            found = self._products = by_row, by_column
        return found

    def complain(self) -> NoReturn:
        """Say what is wrong with a matrix in which products found a place outside.

        Raises
        ------
        ValueError
            Whatever is wrong, if it still is.
        """
        check_sparse(self._given, "atoms")
        raise ValueError("atoms was changed while it was read (argument 'atoms')")

    def keep_both(self) -> None:
        """Keep the matrix by row and by column."""
        self._by_row, self._by_column = (
            self.by_column.tocsr() if self.by_row is None else self.by_row,
            self.by_row.tocsc() if self.by_column is None else self.by_column,
        )
        self._products = None

    @property
    def _matrix(self) -> Any:
        return self.by_column if self.by_row is None else self.by_row

    @property
    def shape(self) -> tuple[int, int]:
        """(n, d)."""
        n, d = self._given.shape
        return n, d

    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the entries."""
        dtype: np.dtype[Any] = self._given.dtype
        return dtype

    @property
    def n_stored(self) -> int:
        """Stored entries; of a matrix that is not settled, as many as it says."""
        return int((self._matrix if self._is_settled else self._given).nnz)

    @property
    def nbytes(self) -> int:
        """Memory that the matrix takes once."""
        return _nbytes(self._matrix)

    @property
    def extra_bytes(self) -> int:
        """Memory taken beside the matrix that was given."""
        made = [m for m in (self.by_row, self.by_column) if m is not None and m is not self._given]
        counts = 0 if self._stored_by_column is None else self._stored_by_column.nbytes
        return sum(map(_nbytes, made)) + counts

    def gather(self, rows: NDArray[np.int64], columns: NDArray[np.int64], out: NDArray[Any]) -> None:
        """Put the entries at ``rows x columns`` into `out`."""
        self.gather_stored(rows, columns, out)

    def gather_stored(
        self, rows: NDArray[np.int64], columns: NDArray[np.int64], out: NDArray[Any]
    ) -> NDArray[np.int64]:
        """Do the same, and return how many of the entries of each row are stored."""
        if self.by_column is not None:
            chosen = self.by_column[:, columns].tocsr()[rows]
        elif 2 * rows.size > self.shape[0]:  # a copy of as many rows would take as much memory as the atoms
            chosen = self.by_row[:, columns][rows]
        else:
            chosen = self.by_row[rows][:, columns]
        out[...] = chosen.toarray()
        return np.asarray(np.diff(chosen.indptr), dtype=np.int64)

    def scores(
        self,
        rows: NDArray[np.int64],
        columns: NDArray[np.int64] | None,
        query: NDArray[np.float64],
        objective: int,
    ) -> NDArray[np.float64]:
        """Sum the objective's terms of each row over the given columns (None: all of them)."""
        if columns is not None:
            whole = np.zeros(self.shape[1])
            whole[columns] = query
            query = whole
        if objective == PRODUCT:
            return self._product(rows, query)
        matrix = self._rows(rows)
        # Entries that are not stored are zeros: take the sum for an all-zero atom and set right what is stored.
        inside = slice(None) if columns is None else np.isin(matrix.indices, columns)
        at = query[matrix.indices]
        stored = matrix.data.astype(np.float64)
        with np.errstate(over="ignore", invalid="ignore"):  # whoever asked looks whether scores are finite
            if objective == NEG_SQUARED_DIFFERENCE:
                base, terms = -float(query @ query), at**2 - (at - stored) ** 2
            else:
                base, terms = -float(np.abs(query).sum()), np.abs(at) - np.abs(at - stored)
        counted = np.zeros(terms.size)
        counted[inside] = terms[inside]
        owner = np.repeat(np.arange(rows.size), np.diff(matrix.indptr))
        return np.asarray(base + np.bincount(owner, weights=counted, minlength=rows.size), dtype=np.float64)

    def _product(self, rows: NDArray[np.int64], query: NDArray[np.float64]) -> NDArray[np.float64]:
        by_row, by_column = self.products
        try:
            if by_row is not None:
                return by_row.row_products(query, rows)[0]
            if by_column is not None:
                return by_column.column_products(query, np.flatnonzero(query != 0.0))[0][rows]
        except PlaceError:
            self.complain()
        with np.errstate(over="ignore"):  # of numbers beyond double precision
            return np.asarray(self._matrix @ query, dtype=np.float64)[rows]

    def _rows(self, rows: NDArray[np.int64]) -> Any:
        """Some rows, by row."""
        return self.by_row[rows] if self.by_row is not None else self.by_column[rows].tocsr()

    def count_stored(self, rows: NDArray[np.int64], where: NDArray[np.bool_]) -> int:
        """Return how many entries of the rows are stored in the columns marked."""
        by_row, by_column = self.products
        products = by_row if by_column is None else by_column
        try:
            if rows.size == self.shape[0] and products is not None:
                if self._stored_by_column is None:
                    self._stored_by_column = products.stored_by_column()
                return int(self._stored_by_column[where].sum())
            if by_column is not None:
                inside = np.zeros(self.shape[0], dtype=np.uint8)
                inside[rows] = 1
                return by_column.count_of_columns(np.flatnonzero(where), inside)
            if by_row is not None:
                return by_row.count_of_rows(rows, where.view(np.uint8))
        except PlaceError:
            self.complain()
        return int(np.count_nonzero(where[self._rows(rows).indices]))

    def pieces(self, max_entries: int) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]]:
        """Yield (rows, columns, values) of all stored entries, about `max_entries` at a time."""
        matrix = self._matrix
        step = max(1, max_entries * matrix.indptr.size // max(self.n_stored, 1))
        for first in range(0, matrix.indptr.size - 1, step):
            edges = matrix.indptr[first : first + step + 1].astype(np.int64)
            majors = np.repeat(np.arange(first, first + edges.size - 1), np.diff(edges))
            minors = matrix.indices[edges[0] : edges[-1]].astype(np.int64)
            values = matrix.data[edges[0] : edges[-1]].astype(np.float64)
            yield (majors, minors, values) if self.by_row is not None else (minors, majors, values)

    def blocks(self, max_entries: int) -> Iterator[tuple[int, NDArray[Any]]]:
        """Yield (first row, dense block of rows) over all rows."""
        n, d = self.shape
        step = max(1, max_entries // d)
        by_row = self.by_column.tocsr() if self.by_row is None else self.by_row
        for start in range(0, n, step):
            yield start, by_row[start : start + step].toarray()
