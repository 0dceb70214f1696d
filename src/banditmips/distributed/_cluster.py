"""The workers of a Dask cluster: tasks and calls, each at its home, waited for no longer than is allowed.

A *task* belongs to the scheduler, which runs it again elsewhere if its worker dies; that takes milliseconds for each. A
*call* goes straight to a worker and takes a fraction of that, but is lost with the worker (`WorkerLostError`).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent import futures as waiting
from concurrent.futures import CancelledError
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from banditmips._extras import require

if TYPE_CHECKING:
    from distributed import Client, Future

__all__ = ["RETRIES", "Cluster", "Failed", "WorkerLostError", "choose_homes", "free_homeless"]

_GLANCE = 2.0
"""Seconds after which whoever waits looks whether tasks have lost their home."""
RETRIES = 2
"""How often a loader that has failed is tried again."""


class WorkerLostError(Exception):
    """A call has not come through: its worker is gone, or has not got what the call is about."""


@dataclass(frozen=True)
class Failed:
    """What a called function returns if it has raised an error, to be told from errors of whoever carries messages."""

    error: Exception


class Cluster:
    """The workers that a client is connected to.

    Parameters
    ----------
    client : distributed.Client
    timeout : float, or None
        Seconds that tasks with a time limit may take.
    """

    def __init__(self, client: Client, timeout: float | None) -> None:
        self.client: Any = client  # which has no types
        self._timeout = timeout
        self._home_of: dict[Any, str | None] = {}

    def workers(self) -> list[str]:
        """The addresses of the workers that there are now."""
        try:
            return sorted(self.client.nthreads())
        except (OSError, CancelledError) as error:
            raise self._lost(error) from error

    def submit(self, function: Callable[..., Any], *arguments: Any, home: str | None = None) -> Future[Any]:
        """Make a task, which runs at home as long as that is there, and anywhere else after that."""
        # Not `pure`: hashing the arguments to find equal tasks would take longer than most of them.
        placed = {} if home is None else {"workers": [home], "allow_other_workers": True}
        future: Future[Any] = self.client.submit(function, *arguments, pure=False, **placed)
        self._home_of[future.key] = home
        return future

    def compute(self, delayed: Any, home: str | None) -> Future[Any]:
        """Compute a delayed value at home; if that raises, try again."""
        placed = {} if home is None else {"workers": [home], "allow_other_workers": True}
        future: Future[Any] = self.client.compute(delayed, retries=RETRIES, **placed)
        return future

    def gather(self, futures: Sequence[Any], *, limited: bool = True) -> list[Any]:
        """Wait for the results of tasks, of the first that failed for its error; if `limited`, not for ever."""
        try:
            self.settle(futures, limited=limited)
            # One after the other, so that of several errors the first one is named.
            return [future.result() for future in futures] if not limited else self.client.gather(list(futures))
        except CancelledError as error:
            raise self._lost(error) from error

    def settle(self, futures: Sequence[Any], *, limited: bool = True) -> None:
        """Wait until tasks have ended, well or not."""
        homes = {future.key: self._home_of.pop(future.key, None) for future in futures}
        deadline = time.monotonic() + self._timeout if limited and self._timeout is not None else float("inf")
        while not self._is_done(futures, deadline - time.monotonic()):
            if time.monotonic() >= deadline:
                late = [homes[future.key] or "some worker" for future in futures if not future.done()]
                for future in futures:
                    future.cancel()
                raise self._too_late(late, len(futures))
            self._free_homeless()

    def send(self, value: Any, home: str) -> Future[Any]:
        """Hand a worker a value to keep, as long as the future is kept; it is lost with the worker."""

        async def scatter() -> Any:
            return await self.client.scatter(value, workers=[home], hash=False)

        (kept,) = self._all_of([scatter()], [home])
        future: Future[Any] = kept
        return future

    def call(self, function: Callable[..., Any], arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Call ``function(argument, dask_worker)`` on each of these workers, and return what they say."""

        async def run(home: str) -> Any:
            return (await self.client.run(function, arguments[home], workers=[home]))[home]

        homes = list(arguments)
        answers = dict(zip(homes, self._all_of([run(home) for home in homes], homes), strict=True))
        for home, answer in answers.items():
            if isinstance(answer, Failed):
                raise answer.error
            if answer is None:
                raise WorkerLostError(f"{home} has not got what it was asked about")
        return answers

    def _all_of(self, calls: Sequence[Coroutine[Any, Any, Any]], homes: Sequence[str]) -> list[Any]:
        """Wait for calls to these workers, as long as they are there and it is allowed."""
        loop = self.client.loop.asyncio_loop
        futures = [asyncio.run_coroutine_threadsafe(call, loop) for call in calls]
        deadline = time.monotonic() + self._timeout if self._timeout is not None else float("inf")
        try:
            while True:
                seconds = max(min(deadline - time.monotonic(), _GLANCE), 0.01)
                done, late = waiting.wait(futures, seconds, waiting.FIRST_EXCEPTION)
                if not late or any(future.exception() is not None for future in done):
                    return [future.result() for future in sorted(done, key=futures.index)]
                if time.monotonic() >= deadline:
                    slow = [home for home, future in zip(homes, futures, strict=False) if future in late]
                    raise self._too_late(slow, len(futures))
                if not set(homes) <= set(self.workers()):
                    raise WorkerLostError("a worker has gone")
        except (OSError, CancelledError) as error:
            if isinstance(error, TimeoutError):
                raise
            raise WorkerLostError(str(error)) from error
        finally:
            for future in futures:
                future.cancel()

    def _too_late(self, late: Sequence[str], n_asked: int) -> TimeoutError:
        return TimeoutError(
            f"no report from {len(late)} of {n_asked} shards after {self._timeout:g} s (those on "
            f"{', '.join(sorted(set(late)))}): they are slow or hang; `timeout` says how long to wait"
        )

    def _is_done(self, futures: Sequence[Any], seconds: float) -> bool:
        """Wait for a while; whether all tasks have ended."""
        wait = require("distributed", extra="dask", purpose="banditmips.distributed").wait
        try:
            wait(futures, timeout=max(min(seconds, _GLANCE), 0.01))
        except TimeoutError:
            return False
        return True

    def _free_homeless(self) -> None:
        """Let tasks run anywhere whose home has gone at a moment when there was no other worker."""
        try:
            self.client.run_on_scheduler(free_homeless)
        except OSError as error:
            raise self._lost(error) from error

    def _lost(self, error: BaseException) -> ConnectionError:
        address = self.client.scheduler.address if self.client.scheduler is not None else "its address"
        return ConnectionError(
            f"the Dask scheduler at {address} has lost this index, or is gone ({type(error).__name__}): it was "
            "restarted or closed, or data that was scattered died with its worker; connect again, and fit or load"
        )


def free_homeless(dask_scheduler: Any) -> None:
    """Let tasks run anywhere whose workers have gone, if they may; to be run on the scheduler.

    Dask does so itself where other workers are left. Where none was left for a moment, because all of them were
    started again, it goes on waiting for addresses that nobody has any more.
    """
    if not dask_scheduler.running:
        return
    free = {}
    for task in list(dask_scheduler.unrunnable):
        homes = task.worker_restrictions
        if task.loose_restrictions and homes and not any(home in dask_scheduler.workers for home in homes):
            task.worker_restrictions = None
            free[task.key] = "processing"
    if free:
        dask_scheduler.transitions(free, stimulus_id="banditmips-free-homeless")


def choose_homes(weights: Sequence[int], workers: Sequence[str], homes: Sequence[str | None]) -> list[str | None]:
    """Spread shards evenly: whoever has a home keeps it, unless it is gone or has more than its share.

    Examples
    --------
    >>> choose_homes([5, 5, 5, 5], ["a", "b"], [None, None, None, None])
    ['a', 'b', 'a', 'b']
    >>> choose_homes([5, 5, 5, 5], ["b", "c"], ["a", "b", "a", "b"])
    ['c', 'b', 'c', 'b']
    """
    if not workers:
        return [None] * len(weights)
    chosen: list[str | None] = [None] * len(weights)
    counts, loads = dict.fromkeys(workers, 0), dict.fromkeys(workers, 0)
    share = -(-len(weights) // len(workers))

    def move_in(number: int, home: str) -> None:
        chosen[number] = home
        counts[home] += 1
        loads[home] += weights[number]

    for number, home in enumerate(homes):
        if home is not None and counts.get(home, share) < share:
            move_in(number, home)
    homeless = [number for number, home in enumerate(chosen) if home is None]
    for number in sorted(homeless, key=lambda number: -weights[number]):
        free = [worker for worker in workers if counts[worker] < share]
        move_in(number, min(free, key=lambda worker: loads[worker]))
    return chosen
