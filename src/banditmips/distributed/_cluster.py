"""The workers of a Dask cluster: tasks and calls, each at its home, waited for no longer than is allowed.

A *task* belongs to the scheduler, which runs it again elsewhere if its worker dies; that takes milliseconds for each. A
*call* goes straight to a worker and takes a fraction of that, but is lost with the worker (`WorkerLostError`).

A task with a home runs there and nowhere else as long as its home is there. Dask has a softer word for that,
``allow_other_workers``, but hears it as leave to steal: on a busy machine, shards were fitted elsewhere and copied
to their homes. So whoever waits for tasks also frees those whose home has gone (`free_homeless`).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from concurrent import futures as waiting
from concurrent.futures import CancelledError
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import numpy as np

from banditmips._extras import require
from banditmips.distributed._sharing import SharedArray, can_share, sees

if TYPE_CHECKING:
    from distributed import Client, Future

__all__ = ["Cluster", "Failed", "WorkerLostError", "choose_homes"]

_FIRST_LOOK, _LAST_LOOKS = 0.5, 2.0
"""Seconds after which whoever waits looks whether tasks have lost their home: soon at first, then more seldom."""
_OURS = "banditmips-"
"""How the keys of tasks begin that may be freed when their home has gone."""
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
        self._gone: set[str] = set()
        self._is_near: dict[str, bool] = {}

    def workers(self) -> list[str]:
        """The addresses of the workers that there are now."""
        try:
            found = sorted(self.client.nthreads())
        except (OSError, CancelledError) as error:
            raise self._lost(error) from error
        self._gone.difference_update(found)
        return found

    def submit(self, function: Callable[..., Any], *arguments: Any, home: str | None = None) -> Future[Any]:
        """Make a task, which runs at home as long as that is there, and anywhere else after that."""
        key, homes = f"{_OURS}{function.__name__}-{uuid4()}", None if home is None or home in self._gone else [home]
        future: Future[Any] = self.client.submit(function, *arguments, key=key, workers=homes)
        self._home_of[future.key] = home
        return future

    def compute(self, delayed: Any, home: str | None) -> Future[Any]:
        """Compute a delayed value at home; if that raises, try again."""
        placed = {} if home is None else {"workers": [home], "allow_other_workers": True}
        future: Future[Any] = self.client.compute(delayed, retries=RETRIES, **placed)
        return future

    def gather(self, futures: Sequence[Any], *, limited: bool = True) -> list[Any]:
        """Wait for the results of tasks, of the first that failed for its error; if `limited`, not for ever."""
        deadline = self._deadline(limited)
        pauses = _pauses(deadline)

        async def fetch() -> list[Any]:
            return list(await self.client.gather(list(futures)))

        try:
            homes = self._settle(futures, deadline)
            for future in futures:
                if future.status == "error":
                    future.result()  # raises it
            # A worker may die before it has handed over what it has found: then the task runs once more.
            fetching = asyncio.run_coroutine_threadsafe(fetch(), self.client.loop.asyncio_loop)
            try:
                while not waiting.wait([fetching], next(pauses)).done:
                    self._look_after(futures, homes, deadline)
                return fetching.result()
            finally:
                fetching.cancel()
        except CancelledError as error:
            raise self._lost(error) from error

    def settle(self, futures: Sequence[Any]) -> None:
        """Wait until tasks have ended, well or not."""
        try:
            self._settle(futures, self._deadline())
        except CancelledError as error:
            raise WorkerLostError("what the tasks were made of is gone") from error

    def _settle(self, futures: Sequence[Any], deadline: float) -> dict[Any, str | None]:
        """Wait until tasks have ended; returns the homes that they had."""
        homes = {future.key: self._home_of.pop(future.key, None) for future in futures}
        pauses = _pauses(deadline)
        while not self._is_done(futures, next(pauses)):
            self._look_after(futures, homes, deadline)
        return homes

    def _look_after(self, futures: Sequence[Any], homes: Mapping[Any, str | None], deadline: float) -> None:
        """Give tasks up that are late, and free others that have lost their home."""
        if time.monotonic() >= deadline:
            late = [future for future in futures if not future.done()] or futures
            for future in futures:
                future.cancel()
            raise self._too_late([homes[future.key] or "some worker" for future in late], len(futures))
        self._free_homeless()

    def _deadline(self, limited: bool = True) -> float:
        return time.monotonic() + self._timeout if limited and self._timeout is not None else float("inf")

    def send(self, values: Sequence[Any], homes: Sequence[str]) -> list[Future[Any]]:
        """Hand each of these workers a value to keep, as long as the future is kept; it is lost with the worker."""

        async def scatter(value: Any, home: str) -> Any:
            return await self.client.scatter(value, workers=[home], hash=False)

        return self._all_of([scatter(value, home) for value, home in zip(values, homes, strict=True)], homes)

    def near(self, homes: Sequence[str]) -> list[str]:
        """Those of the workers that can read what this process shares; each is asked once."""
        unknown = [home for home in homes if home not in self._is_near]
        if unknown and can_share():
            probe = SharedArray(np.zeros(1))
            self._is_near.update(self.call(sees, dict.fromkeys(unknown, probe.place)))
        return [home for home in homes if self._is_near.get(home, False)]

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
        deadline = self._deadline()
        try:
            for pause in _pauses(deadline):
                done, late = waiting.wait(futures, pause, waiting.FIRST_EXCEPTION)
                if not late or any(future.cancelled() or future.exception() is not None for future in done):
                    break
                if time.monotonic() >= deadline:
                    slow = [home for home, future in zip(homes, futures, strict=True) if future in late]
                    raise self._too_late(slow, len(futures))
                if not set(homes) <= set(self.workers()):
                    raise WorkerLostError("a worker has gone")
            return _results_of([future for future in futures if future in done])
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
            wait(futures, timeout=seconds)
        except TimeoutError:
            return False
        return True

    def _free_homeless(self) -> None:
        """Let tasks run anywhere whose home has gone."""
        try:
            self._gone.update(self.client.run_on_scheduler(free_homeless))
        except OSError as error:
            raise self._lost(error) from error

    def _lost(self, error: BaseException) -> ConnectionError:
        address = self.client.scheduler.address if self.client.scheduler is not None else "its address"
        return ConnectionError(
            f"the Dask scheduler at {address} has lost this index, or is gone ({type(error).__name__}): it was "
            "restarted or closed, or data that was scattered died with its worker; connect again, and fit or load"
        )


def _pauses(deadline: float) -> Iterator[float]:
    """How long to wait before each look."""
    pause = _FIRST_LOOK
    while True:
        yield max(min(deadline - time.monotonic(), pause), 0.01)
        pause = min(2.0 * pause, _LAST_LOOKS)


def _results_of(futures: Sequence[waiting.Future[Any]]) -> list[Any]:
    """What calls have brought; a `WorkerLostError` if one of them has not come through.

    A called function returns its own errors (`Failed`), so any other is of whoever carries messages: a connection that
    is closed, but also a ``KeyError`` of the scheduler, which has no such worker, or a ``TimeoutError`` of its own.
    """
    try:
        return [future.result() for future in futures]
    except Exception as error:
        raise WorkerLostError(f"{type(error).__name__}: {error}") from error


def free_homeless(dask_scheduler: Any) -> set[str]:
    """Let our tasks run anywhere whose home has gone, or takes no work, and say which; to be run on the scheduler.

    And others that may run elsewhere: where no worker was left for a moment, because all of them were started again,
    Dask goes on waiting for addresses that nobody has any more.
    """
    running = {worker.address for worker in dask_scheduler.running}
    free: dict[Any, str] = {}
    gone: set[str] = set()
    if not running:
        return gone
    for task in list(dask_scheduler.unrunnable):
        homes = task.worker_restrictions
        may_move = task.loose_restrictions or str(task.key).startswith(_OURS)
        if may_move and homes and running.isdisjoint(homes):
            gone.update(homes)
            task.worker_restrictions = None
            free[task.key] = "processing"
    if free:
        dask_scheduler.transitions(free, stimulus_id="banditmips-free-homeless")
    return gone


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
