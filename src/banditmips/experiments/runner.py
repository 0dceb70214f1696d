"""Run tasks in processes of their own, and write every row the moment it is there.

Only this process writes the file of rows; a worker sends each row through a pipe. A worker ends with its parent,
however that ends, so a killed run leaves whole rows and no processes behind, and the same call goes on from there.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence, Set
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import NamedTuple

from banditmips.compare import _ONE_THREAD
from banditmips.experiments.rows import Row, append_row, read_rows, row_key
from banditmips.experiments.trials import Task

__all__ = ["Failure", "Progress", "missing_keys", "run"]


class Failure(NamedTuple):
    """A task that ended with an error."""

    figure: str
    dataset: str
    algorithm: str
    error: str


@dataclass(frozen=True)
class Progress:
    """How far a run is.

    Attributes
    ----------
    share
        Part of the work that is done, from 0 to 1, by the tasks' estimated costs.
    n_rows
        Rows in the file so far, those of earlier runs included.
    seconds_left
        None as long as there is nothing to tell it from.
    now
        What was measured last.
    """

    share: float
    n_rows: int
    seconds_left: float | None
    now: str


def missing_keys(tasks: Sequence[Task], rows_path: Path) -> list[set[str]]:
    """Return for each task which of its rows are not in the file yet."""
    done = {row_key(row) for row in read_rows(rows_path)}
    return [set(task.keys()) - done for task in tasks]


def run(
    tasks: Sequence[Task], rows_path: Path, *, jobs: int = 1, on_progress: Callable[[Progress], None] | None = None
) -> list[Failure]:
    """Run the tasks whose rows are not all in the file, and return those that failed.

    Parameters
    ----------
    tasks
        What to do. Those that are to run alone come last, one at a time.
    rows_path
        The file to read what is done from, and to add to.
    jobs
        Processes at a time, each on one thread.
    on_progress
        Called with every row, and when a task is done.
    """
    missing = missing_keys(tasks, rows_path)
    waiting = [(task, keys) for task, keys in zip(tasks, missing, strict=True) if keys]
    n_resumed = sum(len(task.keys()) - len(keys) for task, keys in zip(tasks, missing, strict=True))
    clock = _Clock(waiting, n_resumed, jobs, on_progress)
    failures: list[Failure] = []
    for alone in (False, True):
        chosen = deque((task, keys) for task, keys in waiting if task.alone == alone)
        failures += _Pool(rows_path, clock).run(chosen, 1 if alone else jobs)
    return failures


class _Clock:
    """Tells how far a run is, and how long the rest will take."""

    def __init__(
        self,
        waiting: list[tuple[Task, set[str]]],
        n_resumed: int,
        jobs: int,
        on_progress: Callable[[Progress], None] | None,
    ) -> None:
        self._jobs = jobs
        self._total = sum(self._work(task) * len(keys) for task, keys in waiting)
        self._done = 0.0
        self._n_rows = n_resumed
        self._start = time.monotonic()
        self._on_progress = on_progress

    def _work(self, task: Task) -> float:
        """Seconds of the whole run that a row of this task stands for."""
        return task.cost / len(task.keys()) / (1 if task.alone else self._jobs)

    def wrote(self, task: Task, row: Row) -> None:
        self._n_rows += 1
        self.passed(task, 1, f"{row.figure}, {row.dataset}, {row.algorithm}")

    def passed(self, task: Task, n_rows: int, now: str) -> None:
        """Count rows as done, written or given up."""
        self._done += n_rows * self._work(task)
        if self._on_progress is None:
            return
        elapsed = time.monotonic() - self._start
        left = elapsed / self._done * max(0.0, self._total - self._done) if self._done else None
        self._on_progress(Progress(min(1.0, self._done / self._total), self._n_rows, left, now))


@dataclass
class _Worker:
    """A process, the pipe to it, and what it is working on."""

    process: multiprocessing.process.BaseProcess
    pipe: Connection
    task: Task | None = None
    missing: set[str] | None = None


class _Problem(NamedTuple):
    """What a worker sends when a task has failed."""

    text: str


class _Pool:
    """Some workers, each on one task at a time."""

    def __init__(self, rows_path: Path, clock: _Clock) -> None:
        self._rows_path = rows_path
        self._clock = clock
        self._failures: list[Failure] = []

    def run(self, waiting: deque[tuple[Task, set[str]]], jobs: int) -> list[Failure]:
        workers: list[_Worker] = []
        try:
            while waiting or any(worker.task for worker in workers):
                while waiting and len(workers) < jobs:
                    workers.append(_start_worker())
                for worker in workers:
                    if waiting and worker.task is None:
                        _hand_over(worker, *waiting.popleft())
                busy = {worker.pipe: worker for worker in workers if worker.task}
                for pipe in wait(list(busy)):
                    worker = busy[pipe]  # type: ignore[index]
                    if not self._listen(worker):
                        workers.remove(worker)
        finally:
            for worker in workers:
                _stop_worker(worker)
        return self._failures

    def _listen(self, worker: _Worker) -> bool:
        """Take what a worker has sent; return whether it is still of use."""
        assert worker.task is not None
        assert worker.missing is not None
        try:
            message = worker.pipe.recv()
        except (EOFError, ConnectionResetError):
            worker.process.join()
            code = worker.process.exitcode
            hint = ", perhaps for want of memory" if code == -signal.SIGKILL else ""
            self._give_up(worker, f"its process ended with code {code}{hint}")
            return False
        if isinstance(message, Row):
            append_row(self._rows_path, message)
            worker.missing.discard(row_key(message))
            self._clock.wrote(worker.task, message)
        elif isinstance(message, _Problem):
            self._give_up(worker, message.text)
        elif worker.missing:
            self._give_up(worker, f"it ended without {len(worker.missing)} of its rows")
        else:
            worker.task = None
        return True

    def _give_up(self, worker: _Worker, error: str) -> None:
        task = worker.task
        assert task is not None
        self._failures.append(Failure(task.figure, task.dataset, task.algorithm, error))
        self._clock.passed(task, len(worker.missing or ()), f"{task.figure}, {task.dataset}, {task.algorithm} failed")
        worker.task = None


def _start_worker() -> _Worker:
    context = multiprocessing.get_context("spawn")  # a fork would share the parent's threads and its end of the pipes
    ours, theirs = context.Pipe()
    process = context.Process(target=_work, args=(theirs,), daemon=True)
    with _environment(_ONE_THREAD):
        process.start()
    theirs.close()
    return _Worker(process, ours)


@contextmanager
def _environment(settings: dict[str, str]) -> Iterator[None]:
    """Set variables of the environment for the processes started within the block."""
    before = {name: os.environ.get(name) for name in settings}
    os.environ.update(settings)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _hand_over(worker: _Worker, task: Task, missing: set[str]) -> None:
    worker.task, worker.missing = task, set(missing)
    # If the worker has died, reading from it will tell.
    with suppress(BrokenPipeError, ConnectionResetError):
        worker.pipe.send((task, frozenset(task.keys()) - missing))


def _stop_worker(worker: _Worker) -> None:
    worker.pipe.close()
    worker.process.terminate()
    worker.process.join()


def _work(pipe: Connection) -> None:
    """Run tasks as they come through the pipe; what a worker process does."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C goes to all processes of a terminal; the parent stops us
    _end_with_parent()
    while True:
        try:
            message: tuple[Task, Set[str]] = pipe.recv()
        except EOFError:
            return
        task, done = message
        try:
            for row in task.run(done):
                pipe.send(row)
        except Exception as error:
            pipe.send(_Problem(f"{type(error).__name__}: {' '.join(str(error).split())}"))
        else:
            pipe.send(None)


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None

    def watch() -> None:
        wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
