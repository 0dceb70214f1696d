"""Where the numbers of a dataset come from: its own law, files, or a surrogate in their place.

The origin is part of what tells a row from another, so that data that arrive later, or other data under the same name,
make new rows and are never averaged with what was there.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

from banditmips.datasets._sources import locate
from banditmips.experiments.entries import DATASETS
from banditmips.experiments.rows import DRAWN, SURROGATE

__all__ = ["fingerprint", "origin_of", "where_from"]

_HEAD_BYTES = 1 << 20
_DIGITS = 12


def origin_of(dataset: str) -> str | None:
    """Return the origin that a dataset has now, or None for one that is only run on real data which are not there."""
    known = DATASETS.get(dataset)
    if known is None or not known.from_files:
        return DRAWN
    try:
        files = locate(known.loader, None)
    except FileNotFoundError:
        return None if known.real_only else SURROGATE
    return fingerprint(files)


def fingerprint(files: Sequence[Path]) -> str:
    """Return the name of a file (or their folder and number), and a checksum.

    It is one of names, sizes and the first megabyte, as some of these files have gigabytes: files that differ only
    beyond that and have the same sizes are taken for the same.
    """
    first = files[0]
    checksum = hashlib.sha256("".join(f"{path.name} {path.stat().st_size} " for path in files).encode())
    with first.open("rb") as file:
        checksum.update(file.read(_HEAD_BYTES))
    name = f"{first.parent.name}/{first.name}" if len(files) == 1 else f"{first.parent.name}/ ({len(files)} files)"
    return f"{name}, {checksum.hexdigest()[:_DIGITS]}"


def where_from(origin: str) -> str:
    """Return an origin in words.

    Examples
    --------
    >>> where_from(SURROGATE), where_from("ml-1m/ratings.dat, 0123456789ab")
    ('a surrogate', 'ml-1m/ratings.dat, 0123456789ab')
    """
    return {DRAWN: "its own law", SURROGATE: "a surrogate"}.get(origin, origin)
