"""Download published datasets: resumed where it broke off, checked, and unpacked to where `load` looks."""

from __future__ import annotations

import hashlib
import http
import http.client
import os
import shutil
import tarfile
import urllib.error
import urllib.request
import zipfile
import zlib
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import IO

from banditmips._files import check_target
from banditmips.datasets._sources import SOURCES, Source, advice_by_hand, data_directory, locate

__all__ = ["DownloadError", "fetch"]

_CHUNK_BYTES = 1 << 18
_TIMEOUT_SECONDS = 30.0


class DownloadError(OSError):
    """A dataset could not be downloaded; the message says why, and how to get it by hand."""


def fetch(
    name: str,
    directory: str | os.PathLike[str] | None = None,
    *,
    progress: Callable[[int, int | None], None] | None = None,
) -> Path:
    """Download a dataset's files unless they are there, and return the folder that `load` takes as ``path``.

    A download that broke off leaves a file with the ending ``.part``; the next call goes on from there if the
    server allows it. An archive is compared with its SHA-256 before it is unpacked; of sift_1m alone, which its authors
    offer by FTP, none is on record.

    Parameters
    ----------
    name
        One of movielens_100k, movielens_1m, sift_1m, netflix, crypto_pairs. The last two need a login at
        their source: for them, the error says where to get the files and where to put them.
    directory
        Where to put the files; by default the folder that the environment variable BANDITMIPS_DATA names, or
        else ``~/.cache/banditmips``. `load` finds them there without ``path``.
    progress
        Called with the bytes there are so far and all there will be (None if the server does not say).

    Raises
    ------
    ValueError
        If no files belong to that name.
    DownloadError
        If the source needs a login or cannot be reached, or if what it sent is not what it should be.

    Examples
    --------
    >>> from banditmips.datasets.download import fetch
    >>> fetch("netflix", "my_data")
    Traceback (most recent call last):
    banditmips.datasets.download.DownloadError: dataset 'netflix' cannot be downloaded without a login ...
    """
    if name not in SOURCES:
        raise ValueError(f"name must be one of {', '.join(sorted(SOURCES))}, got {name!r}")
    folder = data_directory() if directory is None else Path(directory)
    try:
        locate(name, folder)
        return folder
    except FileNotFoundError:
        pass
    source = SOURCES[name]
    by_hand = advice_by_hand(name, folder)
    if source.url is None:
        raise DownloadError(f"dataset {name!r} cannot be downloaded without a login at its source. {by_hand}")
    folder.mkdir(parents=True, exist_ok=True)
    part = folder / (source.url.rsplit("/", 1)[-1] + ".part")
    check_target(part)
    try:
        _download(source.url, part, progress)
        _check(part, source)
        _unpack(part, source.members, folder)
    except (OSError, http.client.HTTPException, zipfile.BadZipFile, tarfile.TarError, EOFError, zlib.error) as error:
        raise DownloadError(f"dataset {name!r} from {source.url}: {error}. {by_hand}") from error
    part.unlink()
    return folder


def _download(url: str, part: Path, progress: Callable[[int, int | None], None] | None) -> None:
    """Add to the partial file until it is whole."""
    done = part.stat().st_size if part.exists() else 0
    request = urllib.request.Request(url, headers={"Range": f"bytes={done}-"} if done else {})
    try:
        response = urllib.request.urlopen(request, timeout=_TIMEOUT_SECONDS)
    except urllib.error.HTTPError as error:
        if error.code != http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE or not done:
            raise
        error.close()
        part.unlink()  # it is longer than what the server has: begin again
        return _download(url, part, progress)
    with response:
        if response.status != http.HTTPStatus.PARTIAL_CONTENT:
            done = 0  # the server sends everything, whatever was asked for
        elif not response.headers.get("Content-Range", "").startswith(f"bytes {done}-"):
            raise OSError(f"asked for the bytes from {done} on, got {response.headers['Content-Range']!r}")
        length = response.headers.get("Content-Length")
        total = None if length is None else done + int(length)
        with part.open("ab" if done else "wb") as file:
            while chunk := response.read(_CHUNK_BYTES):
                file.write(chunk)
                done += len(chunk)
                if progress is not None:
                    progress(done, total)
    if total is not None and done < total:
        raise OSError(f"the connection broke off after {done} of {total} bytes; the next call goes on from there")
    return None


def _check(part: Path, source: Source) -> None:
    """Compare size and checksum with those on record; remove the file if they differ."""
    size = part.stat().st_size
    if source.size is not None and size != source.size:
        part.unlink()
        raise OSError(f"expected {source.size} bytes, got {size}")
    if source.sha256 is not None:
        with part.open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
        if found != source.sha256:
            part.unlink()
            raise OSError(f"expected the SHA-256 checksum {source.sha256}, got {found}")


def _unpack(part: Path, members: tuple[str, ...], folder: Path) -> None:
    """Write the members to the folder; each appears under its name only when it is whole."""
    with ExitStack() as stack:
        open_member: Callable[[str], IO[bytes] | None]
        if part.name.endswith(".zip.part"):
            open_member = stack.enter_context(zipfile.ZipFile(part)).open
        else:
            open_member = stack.enter_context(tarfile.open(part)).extractfile
        for member in members:
            try:
                packed = open_member(member)
            except KeyError:
                packed = None
            if packed is None:
                raise OSError(f"the archive holds no file {member}")
            target = folder / member
            check_target(target)
            target.parent.mkdir(parents=True, exist_ok=True)
            partial = target.with_name(target.name + ".part")
            with packed, partial.open("wb") as file:
                shutil.copyfileobj(packed, file)
            partial.replace(target)
