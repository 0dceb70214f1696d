"""Files of any kind: opened without waiting, read by several threads, watched for changes, and named in errors."""

from __future__ import annotations

import errno
import os
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO, NamedTuple, Self

__all__ = [
    "CorruptFileError",
    "FileState",
    "FileWatch",
    "check_path",
    "check_target",
    "open_regular",
    "read_at",
    "reading_as",
]


class CorruptFileError(ValueError):
    """A saved file is damaged, or is no saved file at all.

    Attributes
    ----------
    path, where, problem : str
        The file, the part of it (as in ``header``, ``block 'atoms'``), and what is wrong there.
    """

    def __init__(self, path: str | os.PathLike[str], where: str, problem: str) -> None:
        # All three go to `args`, without which the error could not be sent between processes.
        super().__init__(os.fspath(path), where, problem)
        self.path, self.where, self.problem = os.fspath(path), where, problem

    def __str__(self) -> str:
        """Name the file, the part and the problem."""
        return f"{self.path}: {self.where}: {self.problem}"


_SPECIAL = {
    stat.S_IFIFO: "a FIFO",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
}


def check_path(path: object) -> None:
    """Raise if this is no path at all."""
    if not isinstance(path, (str, os.PathLike)):
        raise TypeError(f"path must be a string or a pathlib.Path, got {path!r}")


def check_target(path: str | os.PathLike[str]) -> None:
    """Raise if there is something that must not be replaced by a file: a folder, a FIFO, a device, a socket."""
    check_path(path)
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return  # nothing is there, or what opening the file will say better
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, "is a folder", os.fspath(path))
    if not stat.S_ISREG(mode):
        what = _SPECIAL.get(stat.S_IFMT(mode), "something else")
        raise FileExistsError(errno.EEXIST, f"is {what}, and only regular files are replaced", os.fspath(path))


def open_regular(path: str | os.PathLike[str]) -> BinaryIO:
    """Open a regular file for reading; a FIFO or a device is refused at once, where `open` might wait for ever."""
    check_path(path)
    name = os.fspath(path)
    # Without this flag, opening a FIFO would wait for somebody to write to it.
    file = open(name, "rb", opener=lambda n, flags: os.open(n, flags | getattr(os, "O_NONBLOCK", 0)))  # noqa: SIM115
    mode = os.fstat(file.fileno()).st_mode
    if not stat.S_ISREG(mode):
        file.close()
        what = _SPECIAL.get(stat.S_IFMT(mode), "something else")
        raise CorruptFileError(name, "file", f"it is {what}, and only regular files can be read")
    return file


if hasattr(os, "preadv"):

    def read_at(descriptor: int, room: memoryview, offset: int) -> int:
        """Read into the room from this byte on, and return how many bytes came; threads do not disturb each other."""
        return os.preadv(descriptor, [room], offset)

else:  # Windows has no reading without a place to read from, which threads would take from each other
    _place_lock = threading.Lock()

    def read_at(descriptor: int, room: memoryview, offset: int) -> int:
        """Read into the room from this byte on, and return how many bytes came; threads do not disturb each other."""
        with _place_lock:
            os.lseek(descriptor, offset, os.SEEK_SET)
            data = os.read(descriptor, len(room))
        room[: len(data)] = data
        return len(data)


@contextmanager
def reading_as(path: str | os.PathLike[str], kind: str) -> Iterator[None]:
    """Turn whatever goes wrong in somebody else's reader into a `ValueError` that names the file.

    Readers of other libraries fail on damaged files in as many ways as there are bytes. Errors that name the file
    already, and errors of the system about one that cannot be opened, stay what they are.
    """
    name = os.fspath(path)
    try:
        yield
    except (CorruptFileError, ImportError, FileNotFoundError, PermissionError, IsADirectoryError):
        raise
    except MemoryError as error:
        problem = "what it says it holds does not fit in memory"
        raise ValueError(f"{name}: cannot be read as {kind}: {problem}") from error
    except Exception as error:
        if isinstance(error, ValueError) and str(error).startswith(name):
            raise
        problem = str(error)
        if not problem or isinstance(error, (LookupError, TypeError, AttributeError, ArithmeticError, AssertionError)):
            problem = f"{type(error).__name__}: {problem}"  # their words alone tell nobody what happened
        raise ValueError(f"{name}: cannot be read as {kind}: {problem}") from error


class FileState(NamedTuple):
    """What shows that a file has changed: its size, and its time of change in nanoseconds."""

    size: int
    changed: int

    @classmethod
    def of(cls, file: int | str | os.PathLike[str]) -> Self:
        """Look at a file, by its descriptor or its path."""
        status = os.stat(file)
        return cls(status.st_size, status.st_mtime_ns)

    def check(
        self, now: FileState | None, path: str | os.PathLike[str], where: str = "file", fitted: bool = False
    ) -> None:
        """Raise if the file looks different now (None: it is gone); `fitted` says that this state is a fit's."""
        if now == self:
            return
        if now is None:
            was = "it is gone"
        elif now.size != self.size:
            was = f"it had {self.size:,} bytes, now {now.size:,}"
        else:
            was = "as its time of change shows"
        since, advice = "it was opened", "open it anew"
        if fitted:
            since, advice = "an index was fitted to it", "fit anew"
            if now is not None and now.size == self.size:
                advice += ", or name it if it is a mere copy, as in load(..., atoms=...)"
        raise CorruptFileError(path, where, f"it has changed since {since} ({was}): {advice}")


class FileWatch:
    """A file that is opened again and again, and must stay what it was.

    Attributes
    ----------
    state : FileState
        What it was.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = os.fspath(path)
        self._fitted = False
        self.state = FileState.of(path)

    def expect(self, state: FileState) -> None:
        """Take it from now on for a change if the file is not what it was when an index was fitted to it."""
        self.state, self._fitted = state, True
        self.check()

    def check(self) -> None:
        """Raise `CorruptFileError` if the file has changed."""
        try:
            now = FileState.of(self._path)
        except FileNotFoundError:
            now = None
        self.state.check(now, self._path, fitted=self._fitted)
