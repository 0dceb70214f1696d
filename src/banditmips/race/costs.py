"""What reading and multiplying cost on this machine, in nanoseconds: the constants of the planner's cost model.

They are measured once (in a fraction of a second), kept in the user's cache folder, and can be overridden with the
environment variable ``BANDITMIPS_COSTS``: a JSON object with any of the fields of `Costs`.
"""

from __future__ import annotations

import json
import os
import platform
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from math import inf, log2
from pathlib import Path

import numpy as np

from banditmips._version import __version__
from banditmips.core.many_products import LANES, MOST_SHARING

__all__ = ["Costs", "costs", "measure_costs"]


@dataclass(frozen=True)
class Costs:
    """Nanoseconds for one value, unless it says otherwise. The defaults are those of a 2023 server core.

    Attributes
    ----------
    stream, near_stream, sweep, near_sweep
        A value (of four bytes) of a whole matrix, multiplied by BLAS: read from memory, and where all atoms are in the
        processor's cache. The same, multiplied by our own loop on one thread.
    at_32_mb, at_64_mb
        How much of what memory takes longer than the cache so much does: 1 where no cache holds it. (No nanoseconds.)
    column_stream, column_sweep, near_column_sweep, more_column_sweep
        The same of atoms in Fortran order: by BLAS, from memory; and by our own loop over columns of up to four bytes a
        number, which adds up in single precision, from memory, from the cache, and for one more of up to eight queries.
    columns, near_columns, more_columns
        The same for our own loop over columns of any type, which adds up in double precision; and for one more of up to
        eight queries that share what is read.
    apart, apart_line, more_apart, column_facts
        A value of one of many rows that are read for exact scores where all of them are wanted, from the processor's
        cache; a cache line of which one is wanted, besides; and a value for one more query that wants it. The same of
        all rows, for their exact norms and means.
    product, shared, own_product, own_column
        A value multiplied by BLAS for one of many queries at once; and what it takes once for all of them, to be read
        and laid out anew. The same for one of many queries by our own loop, which takes atoms in C order as they lie;
        and what a value of those in Fortran order takes once for all queries, to be copied.
    turned, turned_columns, wide_turned, wide_turned_columns
        What products of queries with atoms take by BLAS, as a part of those of atoms with queries, which are the same
        the other way round: of atoms in C order and in Fortran order, in single and in double precision.
    byte_product, byte_entry, byte_column_entry
        A product of an atom's byte with a query's, for one of many queries at once; and reading a value and rounding it
        to a byte, of atoms in C order and in Fortran order.
    byte_row, byte_interval, byte_batch
        What is around rounding and multiplying a stretch of an atom, whatever its length; the interval of a product and
        its comparison with the best; and what is around all of it.
    convert, tile, tile_end
        A value that BLAS cannot read (of one or two bytes), multiplied by our own loops; and, of any type, for one more
        of several queries that share it; and what is around the products of a row with such a query.
    row, short_row, row_overhead
        A value of a row that is read on its own and multiplied exactly, of four bytes and of fewer; and going to that
        row.
    cell, near_cell, rotate
        A cell of a code, from memory and from the processor's cache, and rotating and rounding one entry of a query.
    fine_cell, near_fine_cell, fine_atom
        A bit of a cell in the round that reads all bits of codes, from memory and from the processor's cache, and what
        that round takes of an atom besides.
    bound
        An atom whose score is bounded for certain, by any objective.
    atom
        An atom in a round on codes, whatever the cells: its estimate, its interval, who beats it.
    gather
        A value read on its own from a row-major matrix: a cache line, most of which is not wanted.
    arithmetic
        A value that takes part in a round, gathered now or before (measured: 1 to 4 ns at 100 to 3,000 atoms; more
        where all values of a round no longer fit the processor's cache).
    weigh
        A coordinate of the query that is given a weight and a place in the order of sampling.
    round_overhead, call_overhead, probe_overhead
        One round on gathered values; what a race on codes takes longer than a product whatever its size; what a probe
        does.
    """

    stream: float = 0.23
    near_stream: float = 0.09
    sweep: float = 0.23
    near_sweep: float = 0.09
    at_32_mb: float = 1.0
    at_64_mb: float = 1.0
    column_stream: float = 0.23
    column_sweep: float = 0.23
    near_column_sweep: float = 0.09
    more_column_sweep: float = 0.025
    columns: float = 0.23
    near_columns: float = 0.09
    more_columns: float = 0.06
    apart: float = 0.3
    apart_line: float = 1.0
    more_apart: float = 0.1
    column_facts: float = 0.5
    product: float = 0.03
    shared: float = 0.3
    own_product: float = 0.02
    own_column: float = 0.3
    turned: float = 1.3
    turned_columns: float = 0.7
    wide_turned: float = 0.7
    wide_turned_columns: float = 0.6
    byte_product: float = 0.005
    byte_entry: float = 0.4
    byte_column_entry: float = 0.7
    byte_row: float = 40.0
    byte_interval: float = 3.0
    byte_batch: float = 100_000.0
    convert: float = 0.2
    tile: float = 0.06
    tile_end: float = 4.0
    row: float = 0.3
    short_row: float = 0.2
    row_overhead: float = 400.0
    cell: float = 0.015
    near_cell: float = 0.01
    fine_cell: float = 0.02
    near_fine_cell: float = 0.015
    fine_atom: float = 30.0
    rotate: float = 2.0
    atom: float = 15.0
    bound: float = 8.0
    gather: float = 25.0
    arithmetic: float = 4.0
    weigh: float = 50.0
    round_overhead: float = 100_000.0
    call_overhead: float = 30_000.0
    probe_overhead: float = 80_000.0

    def _between(self, near: float, far: float, n_values: int) -> float:
        """What lies between cache and memory for so many values, more with each doubling."""
        doublings = log2(max(n_values, 1) / _NEAR)
        if doublings <= 2.0:
            part = self.at_32_mb * max(doublings, 0.0) / 2.0
        elif doublings <= 3.0:
            part = self.at_32_mb + (self.at_64_mb - self.at_32_mb) * (doublings - 2.0)
        else:
            part = self.at_64_mb + (1.0 - self.at_64_mb) * min(doublings - 3.0, 1.0)
        return near + part * (far - near)

    def stream_of(self, n_values: int, may_sweep: bool = False) -> float:
        """Return what a value costs if the atoms have so many: between cache and memory, more with each doubling.

        `may_sweep` says that our own loop can read them.
        """
        if may_sweep and self.sweeps(n_values):
            return self._between(self.near_sweep, self.sweep, n_values)
        return self._between(self.near_stream, self.stream, n_values)

    def sweeps(self, n_values: int) -> bool:
        """Whether our own loop multiplies so many values with a query about as fast as BLAS with its threads."""
        blas = self._between(self.near_stream, self.stream, n_values)
        longer = self._between(self.near_sweep, self.sweep, n_values) - _AS_FAST * blas
        return n_values * longer <= _NUMPY_CALL

    def sweeps_columns(self, n_values: int, itemsize: int, n_queries: int) -> bool:
        """Whether our own loop over columns, in single precision, takes less than BLAS for several queries."""
        by_blas = self.column_products_of(n_values, itemsize, n_queries)
        return self.column_sweep_of(n_values, itemsize, n_queries) <= _CLEARLY_LESS * by_blas

    def column_sweep_of(self, n_values: int, itemsize: int = 4, n_queries: int = 1) -> float:
        """Return what a value of so many bytes costs that loop, for all queries.

        While some of them are multiplied with what is at hand, the rest comes from memory.
        """
        near, n_bytes = self.near_column_sweep, n_values * itemsize
        once = self._between(near, near + itemsize / 4 * (self.column_sweep - near), n_bytes // 4)
        n_full, n_left = divmod(n_queries, _COLUMN_QUERIES)
        # It takes one, two, four or eight of them at a time.
        times = [max(once, near + (n - 1) * self.more_column_sweep) for n in (_COLUMN_QUERIES, _power_of_two(n_left))]
        return n_full * times[0] + (times[1] if n_left else 0.0)

    def column_products_of(self, n_values: int, itemsize: int, n_queries: int) -> float:
        """Return what a value of up to four bytes costs by BLAS or our own loop for many queries, for all queries."""
        convert = self.convert if itemsize < 4 else 0.0
        if n_queries == 1:
            return convert + self.column_stream_of(n_values)
        by_blas = convert + self.shared_of(4, by_column=True) + n_queries * self.product
        return min(by_blas, self._own_products_of(4, n_queries, by_column=True))

    def cell_of(self, n_bytes: int) -> float:
        """Return what a cell costs if all codes take so many bytes."""
        return self._between(min(self.near_cell, self.cell), self.cell, n_bytes // 4)

    def fine_cell_of(self, n_bytes: int) -> float:
        """Return what a bit of a cell costs where all of them are read, if all codes take so many bytes."""
        return self._between(min(self.near_fine_cell, self.fine_cell), self.fine_cell, n_bytes // 4)

    def bytes_of(self, itemsize: int, n_queries: int, by_column: bool = False) -> float:
        """Return what a value of the atoms costs if it is multiplied as a byte with so many queries at once."""
        n_multiplied = -(-n_queries // _BYTE_GROUP) * _BYTE_GROUP
        entry = max(self.byte_entry, self.byte_column_entry) if by_column else self.byte_entry
        return max(itemsize / 4, 1.0) * entry + n_multiplied * self.byte_product

    def tiles(self, n_queries: int, d: float = inf) -> bool:
        """Whether our own loops for few queries multiply rows of d entries with so many as fast as those for many."""
        by_blas = self.shared + n_queries * self.product
        return self._tiles_of(4, n_queries, d) <= min(by_blas, self._own_products_of(4, n_queries))

    def together_of(
        self, itemsize: int, n_queries: int, by_column: bool = False, d: float = inf, n_values: int = 0
    ) -> float:
        """Return what a float of so many bytes costs for all queries, by BLAS or our own loops.

        The latter were measured with atoms that are near. Of more values, `n_values`, reading them from memory comes on
        top, of which the multiplications hide next to nothing.
        """
        by_blas = itemsize / 4 * (self.shared_of(itemsize, by_column) + n_queries * self.product)
        own = self._own_products_of(itemsize, n_queries, by_column)
        if not by_column:
            far = itemsize / 4 * self._between(0.0, self.sweep, n_values * itemsize // 4)
            own = far + min(own, self._tiles_of(itemsize, n_queries, d))
        return min(by_blas, own)

    def multiplies_many(
        self, itemsize: int, n_queries: int, d: float, by_column: bool = False, converts: bool = False
    ) -> bool:
        """Whether our own loop for many queries multiplies floats, d of each atom, in no more time than others.

        Numbers that are no floats it `converts` where it copies columns, and BLAS needs them converted before.
        """
        others = self.together_of(itemsize, n_queries, by_column, d) + (self.convert if converts else 0.0)
        return n_queries > 1 and self._own_products_of(itemsize, n_queries, by_column) <= others

    def _own_products_of(self, itemsize: int, n_queries: int, by_column: bool = False) -> float:
        if by_column:
            n_copies = -(-n_queries // MOST_SHARING)
            return itemsize / 4 * (n_copies * self.own_column + n_queries * self.own_product)
        lanes = LANES * 4 // itemsize
        return itemsize / 4 * -(-n_queries // lanes) * lanes * self.own_product

    def _tiles_of(self, itemsize: int, n_queries: int, d: float) -> float:
        return (n_queries + n_queries % 2) * (itemsize / 4 * self.tile + self.tile_end / d)  # they take two at a time

    @property
    def one_more(self) -> float:
        """What a value costs for one more of many queries."""
        return min(self.product, self.own_product)

    def turns(self, itemsize: int, by_column: bool) -> bool:
        """Whether BLAS takes less for products of queries with atoms than for those of atoms with queries."""
        return self._turned_of(itemsize, by_column) < 1.0

    def shared_of(self, itemsize: int, by_column: bool) -> float:
        """Return what BLAS takes of a value of four bytes once for all queries, the faster way round.

        (For atoms in Fortran order, those the wrong way round take longer, and the others as long as these do.)
        """
        if by_column:
            return self.shared
        few = _TURNED_QUERIES * self.product
        straight = self.shared + few
        return max(min(self._turned_of(itemsize, by_column), 1.0) * straight - few, 0.1 * self.shared)

    def _turned_of(self, itemsize: int, by_column: bool) -> float:
        single = self.turned_columns if by_column else self.turned
        double = self.wide_turned_columns if by_column else self.wide_turned
        return single if itemsize == 4 else double

    def columns_of(self, n_values: int, n_queries: int = 1, itemsize: int = 4) -> float:
        """Return what four bytes cost our own loop over columns that adds up in double precision, for all queries.

        A value of eight takes no longer to be multiplied once more than one of four; and a shorter one, which is
        converted in registers, as long as from the cache, because less of it is read.
        """
        n_readings = self.readings(n_queries)
        once = self._between(self.near_columns, self.columns, n_values * itemsize // 4)
        if itemsize < 4:
            once = self.near_columns
        return n_readings * once + (n_queries - n_readings) * min(self.more_columns, once) * 4 / max(itemsize, 4)

    @staticmethod
    def readings(n_queries: int) -> int:
        """Return how many times that loop reads all columns for so many queries."""
        return -(-n_queries // _COLUMN_QUERIES)

    def by_columns(self, n: int, d: int, itemsize: int, k: int) -> bool:
        """Whether exact products of all columns take less than rough ones and, after them, the rows of the best k."""
        rough, exact = self.column_products_of(n * d, itemsize, 1), self.columns_of(n * d, 1, itemsize)
        if itemsize <= 4:
            rough = self.column_sweep_of(n * d, itemsize)
        return n * exact <= n * rough + self.entries_apart(n, d, itemsize, k + 1, k + 1)

    def entries_apart(self, n: int, d: int, itemsize: int, n_rows: float, n_pairs: int) -> float:
        """Return what one number of each of so many rows of atoms in Fortran order costs, for exact scores.

        `n_pairs` are those of a row and a query that wants it. Each row takes cache lines, which neighbours share.
        """
        near_line = _LINE / 4 * self.near_stream
        n_lines = min(n_rows, n * itemsize // _LINE + 1)
        by_line = n_lines * max(self._between(near_line, self.gather, n * d) - near_line, 0.0)
        whole = n * max(self.column_stream_of(n * d) - self.near_stream, 0.0)  # as they lie
        own = n_rows * self.apart + n_lines * self.apart_line + (n_pairs - n_rows) * self.more_apart
        # As everything here, beside a value of four bytes
        return (min(by_line, whole) + own) * 4 / max(itemsize, 4)

    def column_stream_of(self, n_values: int) -> float:
        """Return what a value of atoms in Fortran order costs BLAS for one query."""
        return self._between(self.near_stream, self.column_stream, n_values)


_NEAR = 1 << 21
"""Values (of four bytes) that a processor's last cache is taken to hold: 8 MB. Of 128 MB it holds nothing."""
_AS_FAST = 1.1
"""What our own loop may take beside BLAS where it is preferred: it needs no call of NumPy, and with the atoms out of
the cache, as in an application that does something else in between, it is faster (measured: by a tenth to a third)."""
_CLEARLY_LESS = 0.8
"""What our own loop over columns may take beside BLAS for several queries: what BLAS lays out is measured from memory,
and from the cache it takes less."""
_NUMPY_CALL = 10_000.0
"""Nanoseconds that a search by way of NumPy takes longer than one compiled call (measured: 15,000 to 25,000)."""
_LINE = 64
"""Bytes of a cache line."""
_TURNED_QUERIES = 8
"""Queries with which it is measured which way round products are faster; beside more of them it matters less."""
_COLUMN_QUERIES = 8
"""Queries that share one reading of columns."""
_BYTE_GROUP = 16
"""Queries whose products of bytes cost as much as those of one of them."""
_FIXED = ("row_overhead", "arithmetic", "weigh", "round_overhead", "probe_overhead")
"""What differs little between machines; all else is measured."""


def _power_of_two(n: int) -> int:
    """The least that is not below n."""
    return 1 << max(n - 1, 0).bit_length()


def _measured() -> set[str]:
    return {field.name for field in fields(Costs)} - set(_FIXED)


def measure_costs() -> Costs:
    """Measure what differs most between machines."""
    from banditmips.race.timing import measure

    return replace(Costs(), **measure())


def _cache_file() -> Path:
    folder = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    # How many threads BLAS has makes a difference to what it takes.
    limits = [os.environ.get(name) for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")]
    threads = next((limit for limit in limits if limit and limit.isdecimal()), os.cpu_count())
    name = f"costs-{platform.node() or 'host'}-{platform.machine()}-{os.cpu_count()}-{threads}.json"
    return Path(folder, "banditmips", name)


def _parse(text: str, source: str) -> dict[str, float]:
    known = {field.name for field in fields(Costs)}
    try:
        values = json.loads(text)
        numbers = {str(name): float(value) for name, value in values.items()}
    except (ValueError, AttributeError, TypeError) as error:
        raise ValueError(f"{source} must be a JSON object of numbers, got {text[:80]!r}") from error
    unknown = set(numbers) - known
    if unknown or not all(0.0 < value < np.inf for value in numbers.values()):
        raise ValueError(
            f"{source} must hold positive numbers for some of {', '.join(sorted(known))}, got {text[:200]!r}"
        )
    return numbers


@lru_cache(maxsize=1)
def costs() -> Costs:
    """Return this machine's constants: overridden, remembered, or measured now."""
    override = os.environ.get("BANDITMIPS_COSTS")
    if override:
        return replace(Costs(), **_parse(override, "BANDITMIPS_COSTS"))
    path = _cache_file()
    try:
        saved = json.loads(path.read_text(encoding="utf-8"))
        if saved["version"] == __version__ and saved["costs"].keys() == _measured():
            return replace(Costs(), **_parse(json.dumps(saved["costs"]), str(path)))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        pass  # nothing usable was kept: measure
    measured = measure_costs()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_suffix(f".{os.getpid()}.part")
        kept = {name: getattr(measured, name) for name in _measured()}
        temporary.write_text(json.dumps({"version": __version__, "costs": kept}), encoding="utf-8")
        temporary.replace(path)
    except OSError:
        pass  # a read-only home: the next process measures again
    return measured
