"""How packed atoms lie in a Zarr group: which arrays there are, how they are cut, and what the group says of itself.

A packed file is a Zarr v3 group. Every chunk of every array carries its CRC-32C::

    coordinates   (n_coordinates, n)  the first coordinates of the seed's uniform order, one after another
    rows          (n, d)              the atoms as they came, one or a few to a chunk
    order         (n_coordinates,)    which coordinates those are, for other programs: ours knows it from the seed
    squared_norms, means, scatter  (n,)  what `fit` would have learnt in its pass over the atoms ...
    column_squares                 (d,)  ... and this; the smallest and the largest entry are attributes

A prefix of `coordinates` is a simple random sample without replacement, the one that an index of the same seed would
cache. Atoms come in blocks: a block's chunks are written, then the block is entered in the journal (the attribute
``finished_blocks``). No chunk belongs to two blocks, so none is ever rewritten.
"""

from __future__ import annotations

import hashlib
import math
import sys
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from banditmips.atoms.collecting import CONVERTED_ENTRIES

__all__ = [
    "ATTRIBUTE",
    "FORMAT",
    "FORMAT_VERSION",
    "PackLayout",
    "check_memory",
    "check_progress",
    "order_digest",
    "plan_layout",
]

ATTRIBUTE = "banditmips"
"""Attribute of the group that says what the group is."""
FORMAT, FORMAT_VERSION = "packed atoms", 1

DEFAULT_COORDINATES = 1 << 14
"""Coordinates written by coordinate unless the user says otherwise: four times as many as an index caches."""

_DTYPES = frozenset(np.dtype(code).name for code in "?bhilqBHILQefd")

_CHUNK_BYTES = 1 << 20
_SMALLEST_CHUNK = 1 << 16
"""Rows shorter than this share a chunk: a read costs about as much time as a few times as many bytes."""
_SHARD_BYTES = 1 << 24
_MOST_COORDINATES, _FEWEST_COORDINATES = 256, 16
"""Coordinates in one chunk: few chunks do for a round, and the first round reads little more than it needs."""
_FIRST_CHUNK = 1 / 256
"""Part of all coordinates that a chunk holds at most, unless it becomes too small to be worth a read."""


@dataclass(frozen=True)
class PackLayout:
    """Sizes of everything in a packed group.

    Attributes
    ----------
    n, d, dtype, seed
        The atoms' shape and type, and the seed of the order of coordinates.
    n_coordinates
        How many coordinates are there by coordinate.
    atoms_per_block
        Atoms that are written and entered in the journal together.
    coordinates_chunk, rows_chunk, coordinates_shard, rows_shard
        Shapes; a shard is one file (or object) that holds many chunks.
    """

    n: int
    d: int
    dtype: str
    seed: int
    n_coordinates: int
    atoms_per_block: int
    coordinates_chunk: tuple[int, int]
    coordinates_shard: tuple[int, int]
    rows_chunk: tuple[int, int]
    rows_shard: tuple[int, int]

    @property
    def itemsize(self) -> int:
        """Bytes of one entry."""
        return np.dtype(self.dtype).itemsize

    @property
    def n_blocks(self) -> int:
        """Number of blocks of atoms."""
        return -(-self.n // self.atoms_per_block)

    @property
    def n_bytes(self) -> int:
        """Bytes of all entries in both layouts."""
        return self.n * (self.d + self.n_coordinates) * self.itemsize

    @property
    def packing_memory(self) -> int:
        """Bytes that packing needs at least."""
        gathered = self.n_coordinates * self.atoms_per_block
        # Rows as they are read; a shard as it is cut, encoded and joined.
        rows = self.rows_shard[0] * self.d
        shards = 4 * max(math.prod(self.rows_shard), math.prod(self.coordinates_shard))
        # Sums over columns in double and single precision, and rows that are converted for them.
        converted = 0 if self.dtype in ("float32", "float64") else max(self.d, CONVERTED_ENTRIES)
        sums = 12 * self.d + 8 * converted
        # A quarter is for whatever reads the source.
        return ((gathered + rows + shards) * self.itemsize + sums) * 4 // 3

    def rows_per_read(self, memory_limit: int) -> int:
        """Rows to read together: a quarter of the memory, because sources may be stored by column or in tall chunks."""
        n_shards = memory_limit // 4 // (self.rows_shard[0] * self.d * self.itemsize)
        return min(max(1, n_shards) * self.rows_shard[0], self.atoms_per_block)

    def to_attributes(self) -> dict[str, Any]:
        """What the group's attributes say of the layout."""
        return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}

    @classmethod
    def from_attributes(cls, attributes: dict[str, Any]) -> PackLayout:
        """Read the layout back; a KeyError, TypeError or ValueError says that the attributes are not as we write them.

        Nothing is allocated or computed by these numbers before they have been found to make sense together.
        """
        values: dict[str, Any] = {}
        for field in fields(cls):
            value = attributes[field.name]
            if field.name == "dtype":
                if value not in _DTYPES:
                    raise ValueError(f"dtype is {value!r}")
            elif field.name.endswith(("_chunk", "_shard")):
                if not isinstance(value, list) or len(value) != 2 or not all(_is_count(number) for number in value):
                    raise ValueError(f"{field.name} is {value!r}, not two positive numbers")
                value = tuple(value)
            elif type(value) is not int or not (_is_count(value) or (field.name == "seed" and value == 0)):
                raise ValueError(f"{field.name} is {value!r}")
            values[field.name] = value
        layout = cls(**values)
        if layout.n_coordinates > layout.d:
            raise ValueError(f"n_coordinates is {layout.n_coordinates}, but d is {layout.d}")
        if layout.n_bytes > sys.maxsize:
            raise ValueError(f"{layout.n} atoms of {layout.d} coordinates are too many for any machine")
        return layout


def _is_count(value: Any) -> bool:
    # By `type`, since JSON's true would pass for 1.
    return type(value) is int and 0 < value <= sys.maxsize


def check_progress(journal: dict[str, Any], layout: PackLayout) -> None:
    """Raise a KeyError or ValueError if what the journal says of the work done cannot be."""
    n_finished, is_complete = journal["finished_blocks"], journal["complete"]
    if type(n_finished) is not int or not 0 <= n_finished <= layout.n_blocks or type(is_complete) is not bool:
        raise ValueError(f"finished_blocks is {n_finished!r} of {layout.n_blocks}, complete is {is_complete!r}")
    for name in ("low", "high"):
        # Integers are written for atoms of integers; nothing is known before the first block.
        if type(journal[name]) not in (int, float) and not (journal[name] is None and n_finished == 0):
            raise ValueError(f"{name} is {journal[name]!r}")


def order_digest(order: NDArray[np.int64]) -> str:
    """Return what the attributes say of the order, so that it need not be read to be checked."""
    return hashlib.sha256(order.astype("<i8").tobytes()).hexdigest()


def plan_layout(
    n: int, d: int, dtype: np.dtype[Any], seed: int, n_coordinates: int | None, memory_limit: int
) -> PackLayout:
    """Choose the sizes, so that packing stays within the memory limit (bytes)."""
    itemsize = dtype.itemsize
    n_coordinates = min(d, DEFAULT_COORDINATES if n_coordinates is None else n_coordinates)
    shard_bytes = min(_SHARD_BYTES, memory_limit // 32)
    rows_chunk, rows_shard = _cut_rows(n, d, itemsize, shard_bytes)
    # The values gathered for a block take an eighth of the memory at most; a run that is killed loses a block of twice
    # the memory at most; and even the fewest coordinates of a block make a chunk of about two megabytes.
    most = min(
        memory_limit // 8 // (n_coordinates * itemsize),
        2 * memory_limit // (d * itemsize),
        2 * _CHUNK_BYTES // (_FEWEST_COORDINATES * itemsize),
    )
    atoms_per_block = _even(n, most)
    if atoms_per_block < n:  # a shard of rows belongs to one block
        atoms_per_block = -(-atoms_per_block // rows_shard[0]) * rows_shard[0]
    coordinates_chunk, coordinates_shard = _cut_coordinates(n_coordinates, d, atoms_per_block, itemsize, shard_bytes)
    layout = PackLayout(
        n=n,
        d=d,
        dtype=dtype.name,
        seed=seed,
        n_coordinates=n_coordinates,
        atoms_per_block=atoms_per_block,
        coordinates_chunk=coordinates_chunk,
        coordinates_shard=coordinates_shard,
        rows_chunk=rows_chunk,
        rows_shard=rows_shard,
    )
    check_memory(layout, memory_limit)
    return layout


def check_memory(layout: PackLayout, memory_limit: int) -> None:
    """Refuse a limit that this layout cannot be written within."""
    if layout.packing_memory > memory_limit:
        raise ValueError(
            f"memory_limit must be at least {layout.packing_memory:,} bytes to pack {layout.n_coordinates:,} "
            f"coordinates by coordinate and rows of {layout.d:,} {layout.dtype} entries, got {memory_limit:,}"
        )


def _even(total: int, most: int) -> int:
    """Size of equal parts of `total`, as few as possible with at most `most` each: the last one is hardly shorter."""
    return -(-total // -(-total // max(1, most)))


def _cut_rows(n: int, d: int, itemsize: int, shard_bytes: int) -> tuple[tuple[int, int], tuple[int, int]]:
    """Chunk and shard of the atoms by row: a long row is cut into pieces, short ones are taken together."""
    piece = _even(d, _CHUNK_BYTES // itemsize)
    n_pieces = -(-d // piece)
    rows = _even(n, _SMALLEST_CHUNK // (d * itemsize))
    affordable = max(1, shard_bytes // (rows * piece * itemsize))
    if affordable < n_pieces:
        return (rows, piece), (rows, piece * _even(n_pieces, affordable))
    return (rows, piece), (rows * _even(-(-n // rows), affordable // n_pieces), piece * n_pieces)


def _cut_coordinates(
    n_coordinates: int, d: int, atoms: int, itemsize: int, shard_bytes: int
) -> tuple[tuple[int, int], tuple[int, int]]:
    """Chunk and shard of the atoms by coordinate, of one block of atoms each."""
    one = atoms * itemsize
    most = min(_MOST_COORDINATES, _CHUNK_BYTES // one, max(int(_FIRST_CHUNK * d), _SMALLEST_CHUNK // one))
    size = _even(n_coordinates, max(most, _FEWEST_COORDINATES))
    return (size, atoms), (size * _even(-(-n_coordinates // size), shard_bytes // (size * one)), atoms)
