"""What a search over several workers returns."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from banditmips._result import SearchResult
from banditmips.distributed._messages import Work

__all__ = ["DistributedResult", "WorkerReport", "by_worker"]


@dataclass(frozen=True)
class WorkerReport:
    """What one worker did for a search.

    Attributes
    ----------
    worker : str
        Its address.
    n_multiplies, bytes_read : int
        As in `SearchResult`, for all queries together.
    bytes_exchanged : int
        Orders that it was handed, and reports that it sent; not the queries and masks, which every worker needs.
    seconds : float
        Time spent on its shards.
    n_tasks : int
        How often one of them had something to do.
    """

    worker: str
    n_multiplies: int
    bytes_read: int
    bytes_exchanged: int
    seconds: float
    n_tasks: int


@dataclass(frozen=True, eq=False, repr=False)
class DistributedResult(SearchResult):
    """A `SearchResult` that also says what each worker did.

    Attributes
    ----------
    workers : tuple of WorkerReport
        What each worker did for the whole search (with ``ends="both"``, for both), by address. Work that was lost with
        a worker is not counted: it is done again elsewhere, and counted there.
    n_exchanges : int
        How often the shards reported.
    """

    workers: tuple[WorkerReport, ...] = ()
    n_exchanges: int = 0


def by_worker(works: Iterable[Work]) -> tuple[WorkerReport, ...]:
    """Add up what each worker did."""
    done: dict[str, list[Work]] = {}
    for work in works:
        done.setdefault(work.worker, []).append(work)
    return tuple(
        WorkerReport(
            worker=worker,
            n_multiplies=sum(sum(work.n_multiplies.values()) for work in its),
            bytes_read=sum(sum(work.bytes_read.values()) for work in its),
            bytes_exchanged=sum(work.bytes_exchanged for work in its),
            seconds=sum(work.seconds for work in its),
            n_tasks=len(its),
        )
        for worker, its in sorted(done.items())
    )
