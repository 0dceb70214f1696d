"""Queries that workers on the client's machine read where they lie, instead of being sent them.

They lie in a file without a name in any folder (Linux: ``memfd_create``), which other processes of the same user open
by the number that it has in ours. It goes with the last process that has it open, however that one ends.
"""

from __future__ import annotations

import mmap
import os
import sys
import weakref
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray

from banditmips.distributed._messages import Batch

__all__ = ["Place", "SharedArray", "SharedBatch", "can_share", "sees"]


def can_share() -> bool:
    """Whether this system has such files."""
    return sys.platform == "linux" and hasattr(os, "memfd_create") and os.path.isdir("/proc/self/fd")


@dataclass(frozen=True)
class Place:
    """Where an array lies: the process and its number of the file, a name that no other file has, and what it holds."""

    process: int
    descriptor: int
    name: str
    shape: tuple[int, ...]
    dtype: str

    @property
    def path(self) -> str:
        """What other processes open."""
        return f"/proc/{self.process}/fd/{self.descriptor}"

    def is_here(self) -> bool:
        """Whether the file is on this machine, and ours to read: elsewhere the same path may be anything."""
        try:
            # The system writes this behind the name of a file that is in no folder.
            return os.readlink(self.path) == f"/memfd:{self.name} (deleted)" and os.access(self.path, os.R_OK)
        except OSError:
            return False

    def map(self) -> NDArray[Any] | None:
        """The array, which is not to be changed; None if it is not here, or not any more."""
        if not self.is_here():
            return None
        try:
            descriptor = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return None
        try:
            # All pages at once: a fault for each of them takes twice as long.
            flags = mmap.MAP_SHARED | mmap.MAP_POPULATE
            pages = mmap.mmap(descriptor, os.fstat(descriptor).st_size, flags=flags, prot=mmap.PROT_READ)
        finally:
            os.close(descriptor)
        return np.frombuffer(pages, dtype=self.dtype).reshape(self.shape)


class SharedArray:
    """A copy of an array (not empty) that others can map as long as this object is there."""

    def __init__(self, array: NDArray[Any]) -> None:
        name = f"banditmips-{uuid4().hex}"
        descriptor = os.memfd_create(name, os.MFD_CLOEXEC)
        weakref.finalize(self, os.close, descriptor)
        left = np.ascontiguousarray(array).data.cast("B")
        while left:
            left = left[os.write(descriptor, left) :]
        self.place = Place(os.getpid(), descriptor, name, array.shape, array.dtype.str)


@dataclass(frozen=True, eq=False)
class SharedBatch:
    """A batch on its way to a worker that reads the queries where they lie.

    Attributes
    ----------
    place : Place
    rest : Batch
        All but the queries.
    """

    place: Place
    rest: Batch

    @classmethod
    def of(cls, batch: Batch, queries: SharedArray) -> SharedBatch:
        """Leave the queries where they are."""
        return cls(queries.place, replace(batch, queries=batch.queries[:0]))

    @cached_property
    def opened(self) -> Batch | None:
        """The batch; None if its queries are not here, or not any more."""
        queries = self.place.map()
        return None if queries is None else replace(self.rest, queries=queries)


async def sees(place: Place, dask_worker: Any) -> bool:
    """Whether a worker can read what lies there."""
    return place.is_here()
