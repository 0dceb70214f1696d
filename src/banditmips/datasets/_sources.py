"""Where the files of the published datasets come from, and where they are looked for."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from banditmips.datasets._dataset import Dataset

__all__ = ["SOURCES", "Source", "advice", "advice_by_hand", "data_directory", "locate", "real_or_surrogate"]

ENVIRONMENT_VARIABLE = "BANDITMIPS_DATA"


@dataclass(frozen=True)
class Source:
    """One published dataset.

    Attributes
    ----------
    page
        Where a person finds it and its licence.
    pattern
        The files that are read, relative to the data folder; ``*`` stands for anything.
    unpacked
        The same in another form, looked for where the first one is not there.
    url
        Archive to download, or None where the licence needs a login.
    members
        What to unpack from the archive, to the same relative paths.
    sha256, size
        Of the archive, where known.
    """

    page: str
    pattern: str
    unpacked: str | None = None
    url: str | None = None
    members: tuple[str, ...] = ()
    sha256: str | None = None
    size: int | None = None

    @property
    def doubt(self) -> str | None:
        """Why nobody could tell another archive from the right one; None where a checksum tells them apart."""
        if self.url is None or self.sha256 is not None:
            return None
        unguarded = "" if self.url.startswith("https:") else " and is not encrypted on its way"
        return f"{self.url} has no checksum on record{unguarded}: what arrives cannot be told from something else"


SOURCES = {
    "movielens_100k": Source(
        page="https://grouplens.org/datasets/movielens/100k/",
        pattern="ml-100k/u.data",
        url="https://files.grouplens.org/datasets/movielens/ml-100k.zip",
        members=("ml-100k/u.data", "ml-100k/README"),
        sha256="50d2a982c66986937beb9ffb3aa76efe955bf3d5c6b761f4e3a7cd717c6a3229",
        size=4_924_029,
    ),
    "movielens_1m": Source(
        page="https://grouplens.org/datasets/movielens/1m/",
        pattern="ml-1m/ratings.dat",
        url="https://files.grouplens.org/datasets/movielens/ml-1m.zip",
        members=("ml-1m/ratings.dat", "ml-1m/README"),
        sha256="a6898adb50b9ca05aa231689da44c217cb524e7ebd39d264c56e2832f2c54e20",
        size=5_917_549,
    ),
    "netflix": Source(
        page="https://www.kaggle.com/datasets/netflix-inc/netflix-prize-data",
        pattern="netflix/combined_data_*.txt",
        unpacked="netflix/training_set/mv_*.txt",
    ),
    "sift_1m": Source(
        page="http://corpus-texmex.irisa.fr/",
        pattern="sift/sift_base.fvecs",
        url="ftp://ftp.irisa.fr/local/texmex/corpus/sift.tar.gz",
        members=("sift/sift_base.fvecs",),
        size=168_280_445,
    ),
    "crypto_pairs": Source(
        page="https://www.kaggle.com/datasets/tencars/392-crypto-currency-pairs-at-minute-resolution",
        pattern="crypto_pairs.zip",
        unpacked="crypto_pairs/*.csv",
    ),
}


def data_directory() -> Path:
    """Return the folder of downloaded data: BANDITMIPS_DATA if that is set, else one in the user's cache."""
    given = os.environ.get(ENVIRONMENT_VARIABLE)
    return Path(given) if given else Path.home() / ".cache" / "banditmips"


def advice(name: str, directory: Path) -> str:
    """Return a sentence or two on how to get the files of a dataset."""
    if SOURCES[name].url is None:
        return advice_by_hand(name, directory)
    return f"Run 'banditmips data fetch {name}'. By hand: {advice_by_hand(name, directory)}"


def advice_by_hand(name: str, directory: Path) -> str:
    """Return a sentence on where to get the files of a dataset and where to put them."""
    source = SOURCES[name]
    login = " (after logging in)" if source.url is None else ""
    return f"Get it from {source.page}{login}, and put it at {directory / source.pattern}."


def locate(name: str, path: str | os.PathLike[str] | None) -> list[Path]:
    """Return the sorted files of a dataset: at the path given (file or folder), or in `data_directory`."""
    if path is not None and Path(path).is_file():
        return [Path(path)]
    folder = data_directory() if path is None else Path(path)
    source = SOURCES[name]
    pattern = source.pattern
    # A path may name the data folder, or a folder within it, down to that of the files.
    for form in (source.pattern, source.unpacked):
        parts = Path(form).parts if form else ()
        for first in range(len(parts)):
            found = sorted(folder.glob(str(Path(*parts[first:]))))
            if found:
                return found
    raise FileNotFoundError(
        f"dataset {name!r}: no {pattern} in {folder}. {advice(name, folder)} Another place is given by"
        f" the argument path, or by the environment variable {ENVIRONMENT_VARIABLE}."
    )


def real_or_surrogate(
    name: str,
    path: str | os.PathLike[str] | None,
    surrogate: Any,
    real: Callable[[list[Path]], Dataset],
    stand_in: Callable[[], Dataset],
) -> Dataset:
    """Return the real dataset or its stand-in, as the argument ``surrogate`` of a loader asks for."""
    if surrogate not in (False, True, "if_missing"):
        raise ValueError(f"surrogate must be False, True or 'if_missing', got {surrogate!r}")
    if surrogate is True:
        return stand_in()
    try:
        files = locate(name, path)
    except FileNotFoundError:
        if surrogate == "if_missing":
            return stand_in()
        raise
    return real(files)
